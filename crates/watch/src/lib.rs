//! Watches a running sweep from another process, and shows it on a terminal.
//!
//! A sweep publishes where it is on a [`Page`]: a file that exists in memory only, as long as its process
//! does. Whoever may look into that process finds it there ([`Attached`]). Nothing is written to any disk,
//! nothing is left behind, and what a dead process published cannot be mistaken for a running sweep. What
//! has been measured is read from the store by the caller, once per trial.
//!
//! [`Scene`] is everything that is shown, [`draw`] shows it on a grid of characters, [`watch()`] on a
//! terminal with keys, and [`printed`] as plain text. Losing a screen costs the sweep nothing: all that it
//! can do is to leave a request for the time after the current trial.

mod attached;
mod details;
mod draw;
mod keys;
mod look;
mod now;
mod page;
mod printed;
mod race;
mod scene;
mod screen;
mod status;
mod table;
mod terminal;

pub use attached::{Attached, Gone};
pub use draw::{SMALLEST, draw};
pub use look::Look;
pub use page::{Page, PageError};
pub use printed::printed;
pub use race::{DroppedCase, RaceCourse};
pub use scene::{CaseLabel, Cell, Scene, State, SweepFacts};
pub use screen::{Left, Outside, Screen, watch};
pub use status::{Now, Publishing, STATUS_VERSION, Stage, Status};
