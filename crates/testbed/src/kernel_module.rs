//! Modules of the kernel that runs.

use fsdyno_host::Host;
use std::path::{Path, PathBuf};

/// Returns whether the kernel can load a module of this name (modules.dep, as depmod(8) writes it).
pub(crate) fn has_module(host: &mut dyn Host, name: &str) -> bool {
    let Ok(release) = host.read_text(Path::new("/proc/sys/kernel/osrelease")) else { return false };
    let index = PathBuf::from(format!("/lib/modules/{}/modules.dep", release.trim()));
    let file = format!("/{name}.ko");
    host.read_text(&index)
        .is_ok_and(|text| text.lines().any(|line| line.split(':').next().unwrap_or("").contains(&file)))
}
