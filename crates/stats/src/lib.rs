//! Arithmetic on measurements: means, estimates with intervals, latency distributions.
//!
//! Everything here is a pure function of numbers. The unit of replication is the trial: an estimate takes one
//! value per trial, never one per operation, because the operations of one trial share its disk, its layout
//! and its luck. No value is removed as an outlier: a slow trial is a fact about the configuration. This
//! crate uses no files and no clock, and imports no other crate of fsdyno.

mod any_time;
mod cholesky;
mod compare;
mod distribution;
mod effects;
mod estimate;
mod fairness;
mod mann_whitney;
mod mean;
mod moderated;
mod moments;
mod normal;
mod proportion;
mod rank;
mod rate;
mod student;
mod trend;

pub use cholesky::{Cholesky, Square};
pub use compare::{Ratio, Scatter, Verdict, holm, holm_among, independent, paired};
pub use distribution::{CurvePoint, Distribution, DistributionError};
pub use effects::{Effects, Factor, FactorEffects, Interaction, Observation, effects};
pub use estimate::{Estimate, Interval, estimate};
pub use fairness::{Fairness, fairness};
pub use mann_whitney::mann_whitney;
pub use mean::{MeanKind, Weighted, mean};
pub use moderated::Moderated;
pub use moments::Moments;
pub use proportion::{at_most, fisher, least_shown, proportion};
pub use rank::{Better, best_first, on_front};
pub use rate::{CLUSTERS_ENOUGH, Cluster, RateDifference, rate, rate_difference};
pub use trend::{Trend, median, trend};
