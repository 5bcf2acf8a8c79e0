//! The modules of a kernel: which exist, what each needs, and in what order they are loaded.
//!
//! Neither a package nor a build has `modules.dep` before somebody has run depmod(8), so dependencies are
//! read from where depmod reads them: `depends=` in the section `.modinfo` of each module. Modules are stored
//! uncompressed, so that no emulated processor spends time on decompressing them.

use crate::cache;
use crate::error::{GuestError, Result};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that others request by an algorithm of the crypto API, which no `depends=` lists. If a kernel has
/// one of them built in, or does not have it, there is no such file; both is fine.
const HELPERS: &[&str] = &[
    "crc32c_generic",
    "crc32_generic",
    "crc16",
    "xxhash_generic",
    "sha256_generic",
    "blake2b_generic",
    // Their names in Linux 6.16.
    "crc32c_cryptoapi",
    "crc32_cryptoapi",
    "nls_utf8",
    "nls_iso8859_1",
    "nls_cp437",
    "nls_ascii",
];
/// The modules that every guest needs: for its bus, its disks and its ports.
const GUEST: &[&str] = &["virtio_pci", "virtio_blk", "virtio_console"];

/// A module, uncompressed.
pub(crate) struct Module {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The modules of a kernel by their names.
pub(crate) struct Modules {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Modules {
    /// Reads the directory of a kernel's modules; without one everything counts as built in.
    pub fn of(directory: Option<&Path>) -> Result<Option<Modules>> {
        let Some(directory) = directory else { return Ok(None) };
        let listed = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(GuestError::file("read", path))
        };
        let built_in = listed("modules.builtin")?.lines().filter_map(name_of).collect();
        let mut files = BTreeMap::new();
        for line in listed("modules.order")?.lines() {
            let Some(name) = name_of(line) else { continue };
            // The list says `.ko` whatever the compression; a build before `modules_install` lists objects
            // elsewhere.
            let stem = directory.join(line).with_extension("ko");
            let found = ["", ".xz", ".zst", ".gz"].iter().map(|suffix| {
                let mut path = stem.clone().into_os_string();
                path.push(suffix);
                PathBuf::from(path)
            });
            if let Some(path) = found.into_iter().find(|path| path.is_file()) {
                files.insert(name, path);
            }
        }
        Ok(Some(Modules { files, built_in }))
    }

    /// Returns whether the kernel has this module, as a file or built in.
    pub fn have(&self, name: &str) -> bool {
        let name = canonical(name);
        self.files.contains_key(&name) || self.built_in.contains(&name)
    }

    /// The modules of these names and those that they need, each after those that it needs.
    pub fn in_order<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Module>> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in GUEST.iter().chain(HELPERS).copied().chain(names) {
            self.add(&canonical(name), &mut seen, &mut order)?;
        }
        Ok(order)
    }

    fn add(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<Module>) -> Result<()> {
        let Some(path) = self.files.get(name) else { return Ok(()) };
        if !seen.insert(name.to_string()) {
            return Ok(());
        }
        let bytes = read(path)?;
        for needed in needs(path, &bytes)? {
            self.add(&needed, seen, order)?;
        }
        order.push(Module { name: name.to_string(), bytes });
        Ok(())
    }
}

/// `kernel/fs/ext4/ext4.ko` is `ext4`. Hyphens and underscores are the same in names of modules.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let name = file.split(".ko").next().filter(|name| !name.is_empty())?;
    Some(canonical(name.trim_end_matches(".o")))
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let unpack = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(GuestError::file("read", path)),
    };
    cache::run(Command::new(unpack).arg("-dcq").arg(path))
}

/// The names in `depends=` of a module.
fn needs(path: &Path, bytes: &[u8]) -> Result<Vec<String>> {
    let refuse = |reason: String| GuestError::Module { path: path.to_path_buf(), reason };
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).map_err(|error| refuse(error.to_string()))?;
    let section =
        file.section_by_name(".modinfo").ok_or_else(|| refuse("it has no section .modinfo".to_string()))?;
    let text = section.data().map_err(|error| refuse(error.to_string()))?;
    let lists = text.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(b"depends="));
    let names = lists.flat_map(|list| list.split(|byte| *byte == b','));
    let names = names.map(|name| canonical(&String::from_utf8_lossy(name)));
    Ok(names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files_with_one_kind_of_dash() {
        assert_eq!(name_of("kernel/block/mq-deadline.ko").as_deref(), Some("mq_deadline"));
        assert_eq!(name_of("kernel/fs/xfs/xfs.ko").as_deref(), Some("xfs"));
        assert_eq!(name_of("fs/xfs/xfs.o").as_deref(), Some("xfs"));
        assert_eq!(name_of(""), None);
    }

    #[test]
    fn what_is_built_in_is_there_and_not_loaded() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("modules.builtin"), "kernel/block/mq-deadline.ko\n").unwrap();
        fs::write(directory.path().join("modules.order"), "kernel/fs/gone/gone.ko\n").unwrap();
        let modules = Modules::of(Some(directory.path())).unwrap().unwrap();
        assert!(modules.have("mq-deadline"));
        assert!(!modules.have("gone"), "it is listed, and its file is not there");
        assert!(modules.in_order(["mq-deadline"]).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_no_module_is_named() {
        let error = needs(Path::new("/x/bad.ko"), b"no ELF").unwrap_err().to_string();
        assert!(error.starts_with("'/x/bad.ko' is not a kernel module"), "{error}");
    }
}
