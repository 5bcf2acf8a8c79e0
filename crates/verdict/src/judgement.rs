//! The judgement: what trials say, made once for every command, in exactly one class.
//!
//! What decides the class of a sweep is in [`recommendation`](crate::recommendation), of a race in
//! [`race`](crate::race).

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

/// What a sweep, a race or an import says about one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Its class.
    pub class: Class,
    /// It in one or two sentences.
    pub headline: String,
    /// What would decide, or what to change; absent if nothing has to be done.
    pub next: Option<String>,
}
