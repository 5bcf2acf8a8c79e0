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
mod publish;
mod ready;
mod say;
mod screen;
mod state;
mod unit;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use exit::{Status, Trouble};
use fsdyno_sys::inherited;
use std::process::ExitCode;

fn main() -> ExitCode {
    inherited::reset_signals();
    if let Err(error) = inherited::raise_limits() {
        return exit::code(Err(Trouble::new(Status::Refused, error).hint(error.remedy())));
    }
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| match error.kind() {
        // The error would list the commands that fsdyno runs by itself, too.
        ErrorKind::MissingSubcommand => {
            let _ = cli::Cli::command().print_help();
            std::process::exit(Status::Usage.code().into())
        }
        _ => error.exit(),
    });
    exit::code(command::run(&cli))
}
