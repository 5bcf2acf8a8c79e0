//! The outcome of the iterations of a role with a rate.

use super::Latency;
use crate::units::Nanos;
use crate::workload::{Arrivals, LatencyTarget};
use serde::{Deserialize, Serialize};

/// The share of iterations that may wait for workers that keep up.
const WAITING: f64 = 0.02;

/// The extent to which the workers of a role with a rate kept up with it. An iteration belongs to the sample
/// if it was *due* inside the window, whenever it began and ended, so that a pause cannot hide the iterations
/// that it kept waiting (coordinated omission).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// The rate of the window in iterations per second: the one that the plan asks for, or that the trial has
    /// found.
    pub intended_per_s: f64,
    /// When iterations were due.
    pub arrivals: Arrivals,
    /// The number of iterations that were due inside the window.
    pub due: u64,
    /// Iterations that ended inside the window, per second, whenever they were due.
    pub achieved_per_s: f64,
    /// Of those due inside the window, how many had not begun at the drain limit. Their response time is
    /// censored, and they have no service time.
    pub never_begun: u64,
    /// The largest number of iterations in the window that were due and had not begun, without the one that
    /// was about to.
    pub backlog_max: u64,
    /// The number of such iterations when the window ended.
    pub backlog_at_end: u64,
    /// The largest number of them in each interval of the window.
    pub backlog: Backlog,
    /// The mean delay with which workers began after waiting for the moment: the part of the response time
    /// that is due to the timer and the scheduler of the kernel. 0 if none waited.
    pub late_ns_mean: f64,
    /// The longest such delay.
    pub late_ns_max: u64,
    /// The search that found the rate; absent if the plan sets the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<RateCurve>,
}

/// Response times over rates, from a search for the highest rate that meets a target. It takes place in the
/// ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateCurve {
    /// The target, such as `p99 <= 20ms`.
    pub until: LatencyTarget,
    /// The number of iterations per second that the workers completed when they did not wait (a closed loop).
    pub closed_per_s: f64,
    /// The highest rate that met the target; absent if none did.
    pub highest_per_s: Option<f64>,
    /// `true` if a higher rate was tried that missed it: otherwise the highest is only a lower bound.
    pub has_limit: bool,
    /// The rates that were tried, in this order.
    pub points: Vec<RatePoint>,
}

impl RateCurve {
    /// The points by their rates.
    pub fn by_rate(&self) -> Vec<&RatePoint> {
        let mut points: Vec<&RatePoint> = self.points.iter().collect();
        points.sort_by(|a, b| a.intended_per_s.total_cmp(&b.intended_per_s));
        points
    }
}

/// One rate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Iterations per second.
    pub intended_per_s: f64,
    /// The number of iterations that were due.
    pub due: u64,
    /// The number of them that ended per second, until the last one had.
    pub achieved_per_s: f64,
    /// The number that waited for a worker when the last one was due, as far as that can be inferred from the
    /// number that ended later.
    pub backlog_at_end: u64,
    /// The number that had not ended when this rate was given up. They count with the time seen so far.
    pub unfinished: u64,
    /// `true` if the target was met and the workers kept up: with more than one in fifty waiting at the end,
    /// response times would have grown further.
    pub met: bool,
    /// Response times.
    pub lat_ns: Latency,
}

impl RatePoint {
    /// Returns whether the workers did not keep up: more than one iteration in fifty waited at the end.
    pub fn fell_behind(&self) -> bool {
        self.backlog_at_end as f64 > WAITING * self.due as f64
    }
}

impl OpenLoop {
    /// Returns whether the workers did not keep up in a window of this length: iterations waited at its end,
    /// and fewer had ended than were due. A pause that they made up for does not count, and the last few
    /// iterations that are still under way make no difference.
    pub fn fell_behind(&self, window: Nanos) -> bool {
        let due_per_s = self.due as f64 / window.as_secs_f64();
        self.backlog_at_end > 0 && self.achieved_per_s < (1.0 - WAITING) * due_per_s
    }
}

/// Iterations that were due and had not begun, over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Length of an interval; the first begins with the window.
    pub interval_ns: Nanos,
    /// The most in each.
    pub max: Vec<u64>,
}
