//! Clients: machines that run engines together, started by the launcher of a site.
//!
//! The coordinator listens, runs the launcher (srun, mpirun, pdsh) with an agent for each client, and the
//! agents connect back over TCP ([`launch`]). From then on the launcher does nothing, and MPI is not
//! involved: its waiting ranks burn a processor, and one lost rank ends all. Each agent runs an engine of its
//! own ([`agent`]); phases begin on all clients at one moment, and what they report becomes one result
//! ([`ClientPool`]), with the share of each.
//!
//! Clients agree about time by `CLOCK_MONOTONIC`, which cannot be set, and by round trips before and after
//! each phase. A connection that is silent for ten seconds is lost, for either end; an agent without a
//! coordinator ends itself.

pub mod agent;
mod client;
mod group;
mod handshake;
mod host;
mod launch;
mod launcher;
mod members;
mod merge;
mod pool;
mod progress;
mod request;
mod sealed;
mod token;
mod united;
mod wire;

pub use host::ClientHost;
pub use launch::{Launch, LaunchError, TOKEN, launch};
pub use members::{Members, NewsOfAll};
pub use pool::ClientPool;
pub use token::Token;
