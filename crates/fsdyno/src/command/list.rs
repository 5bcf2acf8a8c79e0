//! `fsdyno list`: the stored sweeps.

use super::{Result, Surroundings, print_json};
use crate::cli::{Format, List};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_report::terminal;

pub fn run(surroundings: &Surroundings, options: &List) -> Result {
    let sweeps = surroundings.open_store()?.sweeps()?;
    match options.format {
        Format::Text => {
            terminal::sweep_list(&mut out::text(&surroundings.style), &sweeps, &surroundings.style)?
        }
        Format::Json => print_json(&sweeps)?,
        Format::Csv => {
            return Err(Trouble::new(Status::Usage, anyhow!("list has no CSV output"))
                .hint("use fsdyno list --format json, or fsdyno show SWEEP --format csv"));
        }
    }
    Ok(Status::Well)
}
