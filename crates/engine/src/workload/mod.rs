//! The workloads, one file each: what the workers do, and in which phases.

pub mod bonnie;
pub mod collection;
pub(crate) mod commit_log;
pub(crate) mod device_read;
pub(crate) mod durability;
pub(crate) mod external;
pub mod fileserver;
pub mod flow;
pub mod null;
pub mod postmark;
pub mod streaming;
