//! The kernel's exports to other machines: targets of NVMe (nvmet) and SCSI (LIO), and USB gadgets that are
//! disks.
//!
//! The kernel holds what it exports without any process and, except for LIO on block devices, without
//! claiming it. All are set up in configfs, which says what they export. One that is set up but not enabled
//! counts as well: it may be enabled at any time.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where configfs is mounted.
pub(super) const CONFIGFS: &str = "/sys/kernel/config";
/// Modules, loaded or built in with parameters.
pub(super) const MODULES: &str = "/sys/module";

/// Something that is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    /// The device or file.
    pub(super) path: PathBuf,
    /// Which target exports it.
    pub(super) by: String,
}

/// A kind of target: the module that it needs, and the files that say what is exported. A `*` stands for any
/// name, or for the rest of one.
struct Kind {
    module: &'static str,
    name: &'static str,
    files: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind { module: "nvmet", name: "NVMe target", files: &["nvmet/subsystems/*/namespaces/*/device_path"] },
    Kind {
        module: "target_core_mod",
        name: "SCSI target",
        files: &["target/core/*/*/udev_path", "target/core/*/*/info"],
    },
    Kind {
        module: "usb_f_mass_storage",
        name: "USB gadget",
        files: &["usb_gadget/*/functions/mass_storage.*/lun.*/file"],
    },
];

/// Everything that is exported, or set up to be.
pub(super) fn exports(configfs: &Path, modules: &Path, unknown: &mut Vec<String>) -> Vec<Export> {
    let mut found: Vec<Export> = Vec::new();
    for kind in KINDS {
        let top = configfs.join(kind.files[0].split('/').next().unwrap_or_default());
        if modules.join(kind.module).exists() && !top.exists() {
            let module = kind.module;
            unknown.push(format!("exports: module {module} is loaded, but '{}' is missing", top.display()));
        }
        let mut files = Vec::new();
        kind.files.iter().for_each(|pattern| files.extend(matching(configfs, pattern, unknown)));
        for file in files {
            let who = file.parent().and_then(|parent| parent.strip_prefix(&top).ok()).unwrap_or(&file);
            let by = format!("the {} '{}'", kind.name, who.display());
            let served = served(&file, unknown).map(|path| Export { path, by });
            found.extend(served.filter(|export| !found.contains(export)));
        }
    }
    found
}

/// The path that a file of configfs names; `None` if nothing is set up.
fn served(file: &Path, unknown: &mut Vec<String>) -> Option<PathBuf> {
    let text = match fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                unknown.push(format!("exports: '{}' cannot be read: {error}", file.display()));
            }
            return None;
        }
    };
    let path = if file.ends_with("info") { file_of_info(&text)? } else { text.trim_end_matches('\n') };
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// `TCM FILEIO ID: 0        File: /srv/disk.img  Size: 1048576  Mode: O_DSYNC Async: 0`, the second line of
/// `info`.
fn file_of_info(info: &str) -> Option<&str> {
    let (_, rest) = info.split_once(" File: ")?;
    rest.split_once("  Size: ").map(|(path, _)| path)
}

/// The files below a directory whose paths match a pattern, sorted.
fn matching(root: &Path, pattern: &str, unknown: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    for part in pattern.split('/') {
        let Some(prefix) = part.strip_suffix('*') else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        found = found.iter().flat_map(|directory| beginning_with(directory, prefix, unknown)).collect();
    }
    found.retain(|path| path.exists());
    found
}

fn beginning_with(directory: &Path, prefix: &str, unknown: &mut Vec<String>) -> Vec<PathBuf> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // No such target, or a plain file among directories (`hba_info` and the like).
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Vec::new();
        }
        Err(error) => {
            unknown.push(format!("exports: '{}' cannot be read: {error}", directory.display()));
            return Vec::new();
        }
    };
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nvmetcli`, `targetcli` and a script for a gadget leave them.
    fn configfs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let info = "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 16384\n        \
                    TCM FILEIO ID: 0        File: /srv/my disk.img  Size: 1048576  Mode: O_DSYNC Async: 0\n";
        let iblock = "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 256\n        \
                      iBlock device: sdc  UDEV PATH: /dev/sdc  readonly: 0\n        Major: 8 Minor: \
                      32  CLAIMED: IBLOCK\n";
        for (path, text) in [
            ("nvmet/subsystems/nqn.a/namespaces/1/device_path", "/dev/nvme0n1\n"),
            ("nvmet/subsystems/nqn.a/namespaces/1/enable", "0\n"),
            ("nvmet/subsystems/nqn.a/namespaces/2/device_path", "(null)\n"),
            ("nvmet/hosts/x", ""),
            ("target/core/fileio_0/disk/udev_path", "\n"),
            ("target/core/fileio_0/disk/info", info),
            ("target/core/fileio_0/hba_info", "HBA Index: 1\n"),
            ("target/core/iblock_0/sdc/udev_path", "/dev/sdc\n"),
            ("target/core/iblock_0/sdc/info", iblock),
            ("usb_gadget/g1/functions/mass_storage.0/lun.0/file", "/dev/sdd\n"),
            ("usb_gadget/g1/functions/ecm.usb0/ifname", "usb0\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn targets_and_gadgets_say_what_they_serve() {
        let (root, modules) = (configfs(), tempfile::tempdir().unwrap());
        fs::create_dir(modules.path().join("nvmet")).unwrap();
        let mut unknown = Vec::new();
        let found = exports(root.path(), modules.path(), &mut unknown);
        let export = |path: &str, by: &str| Export { path: path.into(), by: by.to_string() };
        let expected = [
            export("/dev/nvme0n1", "the NVMe target 'subsystems/nqn.a/namespaces/1'"),
            export("/dev/sdc", "the SCSI target 'core/iblock_0/sdc'"),
            export("/srv/my disk.img", "the SCSI target 'core/fileio_0/disk'"),
            export("/dev/sdd", "the USB gadget 'g1/functions/mass_storage.0/lun.0'"),
        ];
        assert_eq!(found, expected);
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn a_target_that_cannot_be_seen_is_unknown() {
        let (empty, modules) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut unknown = Vec::new();
        assert_eq!(exports(empty.path(), modules.path(), &mut unknown), []);
        assert_eq!(unknown, [""; 0]);
        fs::create_dir(modules.path().join("target_core_mod")).unwrap();
        assert_eq!(exports(empty.path(), modules.path(), &mut unknown), []);
        assert!(unknown[0].contains("target_core_mod is loaded") && unknown.len() == 1, "{unknown:?}");
    }
}
