//! postmark: its terse report, read ([`output`]), and its full one, written ([`Figures`]' `Display`).

mod read;
mod write;

pub use read::output;
pub use write::{Figures, PhaseFigures};
