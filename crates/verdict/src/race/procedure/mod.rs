//! Races: which of many configurations is best, for a fraction of the trials that measuring all of them
//! equally often would take.
//!
//! **The procedure** is successive halving (Z. Karnin, T. Koren and O. Somekh, "Almost optimal exploration in
//! multi-armed bandits", ICML 2013) inside randomised complete blocks: every configuration once, then the
//! better half, and so on, until a few are left. These are measured again in fresh blocks, and only the fresh
//! figures are reported as theirs: the first figures of a winner among many are partly luck. [`Schedule`]
//! fits the rounds into a budget; [`Race`] says which configurations the next block has and what was dropped,
//! when and why. It is a function of the trials so far, so an interrupted race continues where it was.
//!
//! **The model** ([`Posterior`]) is Gaussian, on logarithms: a trial is the sum of its block, the effects of
//! the levels of all axes, the interactions of pairs of axes, a deviation of the configuration of its own,
//! and noise. Configurations share levels and so inform each other, which is why one trial of each says more
//! than it seems to. How large effects, interactions and deviations are compared with the noise is unknown;
//! the answer is averaged over a grid of possibilities, each weighed by how well it explains the trials.
//!
//! **The regret bound** is a quantile of how much better the best of all configurations, dropped ones
//! included, is than the one that was picked, chosen so that it holds in at least 95 % of simulated races.
//! The posterior given all trials is the same whether or not the trials were chosen by looking at earlier
//! ones, so dropping and stopping do not bias it.
//!
//! **The check**: the trials are compared with what the model predicts of them ([`Doubts`]). Where noise or
//! configurations have outliers that it does not expect, the bound is widened, and the answer says so.
//!
//! Nothing here knows a device, a clock or a file.

mod check;
mod design;
mod draws;
mod posterior;
mod rounds;
mod schedule;

pub use check::Doubts;
pub use design::Cells;
pub use draws::Draws;
pub use posterior::{Logarithm, Posterior};
pub use rounds::{Budget, Dropped, NextStep, Picked, Race, RaceProgress, RacedTrial, RunningRace, Why};
pub use schedule::{BudgetError, FINALISTS, Round, Schedule};
