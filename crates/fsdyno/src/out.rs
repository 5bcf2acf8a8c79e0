//! What a person reads on stdout, without anything that would control the terminal.

use fsdyno_report::{Spelling, Style, Visible};
use std::io::{self, Stdout, Write, stdout};

/// Text, with fsdyno's own colours if the style has any.
pub fn text(style: &Style) -> Visible<StandardOutput> {
    let spelling = if style.colour { Spelling::Coloured } else { Spelling::Plain };
    Visible::new(StandardOutput(stdout()), spelling)
}

/// JSON.
pub fn json() -> Visible<StandardOutput> {
    Visible::new(StandardOutput(stdout()), Spelling::Json)
}

/// Standard output, whose errors say what they are about.
#[derive(Debug)]
pub struct StandardOutput(Stdout);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))
}
