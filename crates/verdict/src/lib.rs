//! Judges trials: what they show, and how certain that is.
//!
//! Pure: the same trials give the same verdict. [`confounder`] judges a single trial, [`enough`] whether a
//! case was repeated often enough, [`drift`] and [`ranking`] a sweep, and [`comparison`] two sets of trials;
//! the [`recommendation`] is based on all of them. What they say together is a [`judgement`]. [`View`]
//! arranges what reports show. The sentences and notes of a verdict are written here, with numbers formatted
//! by [`text`]; their layout is up to the reports.

pub mod comparison;
pub mod confounder;
mod doubt;
pub mod drift;
pub mod durability;
pub mod enough;
pub mod faults;
#[cfg(test)]
mod fixture;
pub mod judgement;
mod levels;
mod load;
mod looks;
mod machines;
pub mod merge;
pub mod outcomes;
pub mod race;
pub mod ranking;
mod ratios;
pub mod recommendation;
mod remark;
pub mod scaling;
mod selection;
pub mod sequential;
pub mod text;
pub mod view;

pub use doubt::bears_on;
pub use fsdyno_stats::{CurvePoint, Distribution, Estimate, Interval};
pub use levels::THRESHOLD;
pub use load::Workloads;
pub use merge::{Time, UnreadableHistogram};
pub use recommendation::{Question, Recommendation};
pub use selection::{NoSuchCase, select};
pub use view::View;
