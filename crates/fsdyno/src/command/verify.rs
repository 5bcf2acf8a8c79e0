//! `fsdyno verify` (hidden): looks at a filesystem after a power cut. It reads nothing but the directory and
//! the marks.

use super::Result;
use crate::cli::Verify;
use crate::exit::Status;
use crate::out;
use anyhow::Context;
use std::fs::File;
use std::io::{BufReader, Write};

pub fn run(options: &Verify) -> Result {
    let Verify { directory, marks, count, cut_ns, seed, parameters } = options;
    let opened = File::open(marks).with_context(|| format!("cannot open '{}'", marks.display()))?;
    let mut read = BufReader::new(opened);
    let verified = fsdyno_engine::verify(directory, parameters, *seed, &mut read, *count, *cut_ns)?;
    let mut line = serde_json::to_string(&verified)?;
    line.push('\n');
    out::json().write_all(line.as_bytes())?;
    Ok(Status::Well)
}
