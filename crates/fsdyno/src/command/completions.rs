//! `fsdyno completions SHELL`: a script that completes the command line.

use super::Result;
use crate::cli::{Cli, Completions};
use crate::exit::Status;
use crate::out;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

pub fn run(options: &Completions) -> Result {
    out::plain().write_all(&script(options.shell))?;
    Ok(Status::Well)
}

/// The script for a shell.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fsdyno", &mut text);
    text
}
