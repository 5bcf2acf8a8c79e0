//! The judgement: what trials say, made once for every command, in exactly one class.
//!
//! The rules that decide the class of a sweep are in [`recommendation`](crate::recommendation), those for a
//! race in [`race`](crate::race).

use serde::Serialize;

/// The class of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// One is better than the default and than all others, and worse in no guard measure.
    Winner,
    /// One would win, but is materially worse in a guard measure.
    TradeOff,
    /// Nothing is materially better than the default.
    NoDifference,
    /// The intervals are too wide.
    Undecided,
    /// The trials did not measure what was asked.
    Invalid,
}

/// The judgement of a sweep, a race or an import about one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Its class.
    pub class: Class,
    /// It in one or two sentences.
    pub headline: String,
    /// The step that would decide, or the change to make; absent if nothing has to be done.
    pub next: Option<String>,
}
