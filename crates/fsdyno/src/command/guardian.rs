//! `fsdyno guardian` (hidden): the process that starts a command of a plan and ends whatever that leaves.

use super::Result;

pub fn run() -> Result {
    std::process::exit(fsdyno_host::local::serve_guardian())
}
