//! Builds a configuration on a host and takes it down again.
//!
//! A trial goes through types that can only be obtained in this order: [`Testbed`] (every device has passed
//! the guards), [`Stack`] (devices attached, opened, locked, verified), [`Formatted`], [`Mounted`],
//! [`Unmounted`]. Every change is written to the [`UndoJournal`] before it is made; taking down means undoing
//! that journal, and `fsdyno restore` after a crash is the same code. What is in force is read back, never
//! assumed.
//!
//! The testbed does not know what is timed. It destroys nothing that the plan does not name and the user did
//! not confirm, overwrites no file that it did not create, does not rely on any tool's own questions, and
//! touches nothing that is not listed in its journal.

pub mod capability;
mod carriers;
mod conditioning;
mod device;
mod environment;
mod error;
pub mod filesystem;
mod foresight;
pub mod guard;
pub mod guest;
mod image;
mod in_force;
mod kept;
mod kernel_module;
mod layer;
mod layered;
mod mark;
pub mod memory;
mod modelled;
mod mounted;
mod mounting;
mod name;
mod prepared;
mod privilege;
mod recipe;
pub mod serve;
mod setting;
mod signature;
mod spec;
mod stack;
mod tool;
mod trial;
mod tunable;
pub mod undo;
mod way_back;
pub mod words;

pub use conditioning::{bytes_to_condition, condition};
pub use environment::running_kernel;
pub use error::{GuardRefusal, TestbedError};
pub use filesystem::{Filesystem, beside_a_copy};
pub use foresight::{DiskQueues, commands, contradictions, disk_queues, needs_root, unmet, unmet_on_disks};
pub use guard::{Confirmation, Testbed};
pub use layered::ASSEMBLY;
pub use mounted::{Mounted, Unmounted};
pub use prepared::Prepared;
pub use privilege::MissingPrivilege;
pub use stack::{Formatted, Stack, build, find};
pub use undo::{UndoJournal, UndoReport};
pub use way_back::{Label, UndoAction};

/// Result of a step of the testbed.
pub type Result<T> = std::result::Result<T, TestbedError>;
