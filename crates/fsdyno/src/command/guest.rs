//! `fsdyno guest` (hidden): the first process of a guest.

use super::Result;
use crate::exit::Status;

pub fn run() -> Result {
    fsdyno_guest::inside::run();
    Ok(Status::Well)
}
