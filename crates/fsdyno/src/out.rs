//! What a person reads on stdout, without anything that would control the terminal.

use fsdyno_report::{Spelling, Style, Visible};
use std::io::{Stdout, stdout};

/// Text, with fsdyno's own colours if the style has any.
pub fn text(style: &Style) -> Visible<Stdout> {
    let spelling = if style.colour { Spelling::Coloured } else { Spelling::Plain };
    Visible::new(stdout(), spelling)
}

/// JSON.
pub fn json() -> Visible<Stdout> {
    Visible::new(stdout(), Spelling::Json)
}
