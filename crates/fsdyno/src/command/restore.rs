//! `fsdyno restore`: undo what an interrupted sweep left on the machine.

use super::{Result, Surroundings};
use crate::exit::Status;
use fsdyno_testbed::undo;
use std::io::Write;

pub fn run(surroundings: &Surroundings) -> Result {
    let restored = undo::restore(&mut surroundings.host()?, &surroundings.undo)?;
    let mut out = std::io::stdout().lock();
    for line in &restored.report.undone {
        writeln!(out, "{line}")?;
    }
    for line in &restored.report.foreign {
        writeln!(out, "left as it is: {line}")?;
    }
    if restored.running > 0 {
        writeln!(out, "left alone: {} running sweep(s)", restored.running)?;
    }
    if restored.report.left.is_empty() {
        if restored.report.undone.is_empty() {
            writeln!(out, "nothing to restore")?;
        }
        return Ok(Status::Well);
    }
    for line in &restored.report.left {
        eprintln!("left behind: {line}");
    }
    eprintln!("hint: end what still uses it, then run fsdyno restore again");
    Ok(Status::NotRestored)
}
