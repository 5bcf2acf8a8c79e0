//! Images that have been made, and what a loop device on one that is kept needs.

use crate::Result;
use crate::tunable::{self, Setting};
use fsdyno_host::probe::{DeviceIdentity, FileIdentity};
use fsdyno_host::{Host, ImageHandle};
use std::path::PathBuf;

/// An image of a trial, open until it is attached or given away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeImage {
    pub path: PathBuf,
    pub handle: ImageHandle,
    pub identity: FileIdentity,
    /// `true` if the image stays open for the next trial.
    pub kept: bool,
}

/// Switches discards off for the loop device of a kept image: each would give blocks of the file back. The
/// way back is to detach it, because the kernel accepts no other value any more; a host sees to it.
pub(crate) fn keep_blocks(host: &mut dyn Host, identity: &DeviceIdentity) -> Result<()> {
    let setting = Setting {
        axis: "preallocate".to_string(),
        path: tunable::queue_directory(identity).join("discard_max_bytes"),
        value: "0".to_string(),
        companion: None,
        companion_last: false,
    };
    tunable::apply(host, &[setting])
}
