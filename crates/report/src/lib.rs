//! Results for people and programs: trials and the verdict on them as text, HTML, JSON and CSV.
//!
//! This crate reads no database, measures nothing and decides nothing: the same verdict gives the same
//! report. What a figure means is defined where it is measured; how certain it is, by the verdict.

pub mod comparison;
pub mod export;
#[cfg(test)]
mod fixture;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod published;
pub mod terminal;
mod visible;

pub use html::ReportError;
pub use terminal::Style;
pub use visible::{Spelling, Visible, visible};
