//! Device numbers of the nodes that paths name.

use super::{Number, device_number};
use std::path::Path;

/// Device numbers of the nodes that a mount's source names, joined by colons where there are several
/// (bcachefs).
pub(super) fn devices_named(source: &str) -> Vec<Number> {
    let nodes = source.split(':').filter(|path| path.starts_with('/'));
    nodes.filter_map(|path| block_number(Path::new(path))).collect()
}

/// Device number of a block device node.
pub(super) fn block_number(path: &Path) -> Option<Number> {
    let stat = rustix::fs::stat(path).ok()?;
    let block = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
    block.then(|| device_number(stat.st_rdev))
}
