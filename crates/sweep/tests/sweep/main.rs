//! Sweeps on machines in memory: what plans mean, what is recorded, and that whatever goes wrong, the machine
//! is as before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod asked;
mod auto;
mod enough;
mod estimates;
mod fitting;
mod growth;
mod guests;
mod hooks;
mod hostile;
mod lab;
mod plans;
mod previews;
mod quick;
mod races;
mod refused_plans;
mod remount;
mod removed;
mod reuse;
mod sweeps;
mod time_limits;
mod verified;
