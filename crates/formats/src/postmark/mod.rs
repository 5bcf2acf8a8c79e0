//! postmark: reads its terse report ([`output`]) and writes its full one ([`Figures`]' `Display`).

mod read;
mod write;

pub use read::output;
pub use write::{Figures, PhaseFigures};
