//! Judging: what the trials of a sweep say, and how sure that is.
//!
//! Pure: the same trials give the same verdict. A single trial is judged for what confounds it ([`confounder`]), its case for
//! whether it has been repeated [`enough`], the sweep for [`drift`] and by [`ranking`]; two sets of trials by [`comparison`];
//! and the [`recommendation`] follows from all of it. The [`View`] arranges what reports show. What a verdict says in words, its
//! sentences and notes, is part of it, in the numbers of [`text`]; how it is laid out is the report's.

pub mod comparison;
pub mod confounder;
pub mod drift;
pub mod enough;
mod error;
#[cfg(test)]
mod fixture;
pub mod merge;
pub mod outcomes;
pub mod ranking;
pub mod recommendation;
mod remark;
mod selection;
pub mod text;
pub mod view;

pub use error::UnreadableHistogram;
pub use fsdyno_stats::{CurvePoint, Distribution, Estimate, Interval};
pub use merge::Time;
pub use recommendation::{Question, Recommendation};
pub use selection::{NoSuchCase, select};
pub use view::{Header, View};
