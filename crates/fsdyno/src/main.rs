//! fsdyno: a dynamometer for filesystems. The command line, which connects the other crates and contains no
//! logic of its own.

mod cli;
mod command;
mod exit;
mod file;
mod interrupt;
mod lock;
mod out;
mod progress;
mod ready;
mod say;
mod state;
mod unit;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    exit::code(command::run(&cli))
}
