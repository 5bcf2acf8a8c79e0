//! Results as people and programs read them: from stored trials to a view model, and from there to text, HTML, JSON and CSV.
//!
//! Everything starts at [`View`], which is pure: the same trials give the same report. This crate reads no database,
//! measures nothing and decides nothing; what a figure means is defined where it is measured, and how sure it is in the
//! statistics.

pub mod comparison;
mod csv_text;
pub mod drift;
mod error;
pub mod export;
#[cfg(test)]
mod fixture;
pub mod html;
pub mod json;
mod merge;
pub mod published;
pub mod ranking;
pub mod recommendation;
mod remark;
mod selection;
pub mod terminal;
mod text;
pub mod view;
mod visible;

pub use error::ReportError;
pub use merge::Time;
pub use recommendation::{Question, Recommendation};
pub use selection::{NoSuchCase, select};
pub use terminal::Style;
pub use view::{Header, View};
pub use visible::{Spelling, Visible, visible};
