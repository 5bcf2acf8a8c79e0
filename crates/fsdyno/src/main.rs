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
use fsdyno_sys::{inherited, memory};
use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

fn main() -> ExitCode {
    inherited::reset_signals();
    if let Err(error) = inherited::raise_limits() {
        return exit::code(Err(Trouble::new(Status::Refused, error).hint(error.remedy())));
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => return exit::code(print_help(&error)),
        // The error would list the commands that fsdyno runs by itself, too.
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            let _ = cli::Cli::command().print_help();
            return Status::Usage.into();
        }
        Err(error) => return refuse(&error),
    };
    exit::code(command::run(&cli).and_then(|status| match (status, out::finish()) {
        (Status::Well, finished) => Ok(finished.map(|()| status)?),
        // What is wrong already matters more.
        (worse, _) => Ok(worse),
    }))
}

/// Prints what is wrong with the command line, which may quote an argument of any length.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match say::shortened(&text) {
        whole if whole == text => drop(error.print()),
        short => say::note(short.trim_end()),
    }
    Status::Usage.into()
}

/// Prints the help or the version, which clap returns as errors.
fn print_help(asked: &clap::Error) -> Result<Status, Trouble> {
    let text = asked.render();
    let mut out = out::plain();
    match stdout().is_terminal() {
        true => write!(out, "{}", text.ansi())?,
        false => write!(out, "{text}")?,
    }
    out::finish()?;
    Ok(Status::Well)
}
