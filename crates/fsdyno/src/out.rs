//! What a person reads on stdout, with nothing in it that would command the terminal.

use fsdyno_report::{Spelling, Style, Visible};
use std::io::{Stdout, stdout};

/// Text, in our own colours where the style has any.
pub fn text(style: &Style) -> Visible<Stdout> {
    let spelling = if style.colour { Spelling::Coloured } else { Spelling::Plain };
    Visible::new(stdout(), spelling)
}

/// JSON.
pub fn json() -> Visible<Stdout> {
    Visible::new(stdout(), Spelling::Json)
}
