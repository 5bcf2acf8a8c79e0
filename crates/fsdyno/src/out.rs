//! Standard output: what a person reads there, without anything that would control the terminal, and what a
//! program reads.

use fsdyno_report::{Spelling, Style, Visible};
use fsdyno_sys::inherited::stdout_was_closed;
use std::io::{self, Stdout, Write, stdout};

/// Text, with fsdyno's own colours if the style has any.
pub fn text(style: &Style) -> Visible<StandardOutput> {
    let spelling = if style.colour { Spelling::Coloured } else { Spelling::Plain };
    Visible::new(plain(), spelling)
}

/// JSON.
pub fn json() -> Visible<StandardOutput> {
    Visible::new(plain(), Spelling::Json)
}

/// Whatever is written, as it is.
pub fn plain() -> StandardOutput {
    StandardOutput(stdout())
}

/// Writes what is still buffered, if anything has been written at all: Rust does the same when the process
/// ends, and ignores the error.
///
/// # Errors
/// The system's.
pub fn finish() -> io::Result<()> {
    stdout().flush().map_err(named)
}

/// Standard output, whose errors say what they are about.
#[derive(Debug)]
pub struct StandardOutput(Stdout);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if stdout_was_closed() {
            return Err(named(io::Error::other("it is closed")));
        }
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))
}
