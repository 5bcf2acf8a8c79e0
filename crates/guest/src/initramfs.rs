//! The only filesystem of a guest: a cpio archive that the kernel unpacks into memory.
//!
//! It contains the fsdyno binary, which is the guest's first process, programs with their libraries, and the
//! kernel's modules in loading order. It is not compressed: every kernel accepts that, and decompressing
//! would cost an emulated processor more than reading. The file has no name, so that nothing of it remains,
//! whatever happens.

use crate::error::{GuestError, Result};
use crate::modules::Module;
use crate::programs::Files;
use cpio::newc::{Builder, trailer};
use fsdyno_sys::child;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The guest's first process.
pub(crate) const BINARY: &str = "/fsdyno";
/// The names of the modules in the order of loading, a line each.
pub(crate) const MODULES: &str = "/modules/order";

const DIRECTORY: u32 = 0o040_755;
const PLAIN: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Where the kernel mounts what it shows, and what programs expect to be there.
const DIRECTORIES: &[&str] = &["/dev", "/etc", "/modules", "/proc", "/run", "/sys", "/tmp"];

/// Writes the archive into a file without a name in `directory`, which any user may read who has its
/// descriptor.
pub(crate) fn build(directory: &Path, files: &Files, modules: &[Module]) -> Result<File> {
    let file = unnamed(directory)?;
    let copy = file.try_clone().map_err(GuestError::file("create a file in", directory))?;
    let mut archive =
        Archive { out: BufWriter::with_capacity(1 << 20, copy), directories: BTreeSet::new(), inode: 0 };
    archive.write_all(files, modules)?;
    Ok(file)
}

/// A file that only root may read, like kernels on some machines, for a QEMU that is not root: a copy of it,
/// also without a name.
pub(crate) fn readable_copy(directory: &Path, path: &Path) -> Result<File> {
    let mut copy = unnamed(directory)?;
    let mut original = File::open(path).map_err(GuestError::file("open", path))?;
    io::copy(&mut original, &mut copy).map_err(GuestError::file("copy", path))?;
    Ok(copy)
}

/// The same file for a guest, which can only read it: it is kept for later guests.
pub(crate) fn to_read(file: &File, directory: &Path) -> Result<File> {
    File::open(child::path_of(file.as_fd())).map_err(GuestError::file("open a file in", directory))
}

/// A file without a name, which any user may read who has its descriptor.
pub(crate) fn unnamed(directory: &Path) -> Result<File> {
    let file = tempfile::tempfile_in(directory).map_err(GuestError::file("create a file in", directory))?;
    file.set_permissions(Permissions::from_mode(0o444))
        .map_err(GuestError::file("make a file readable in", directory))?;
    Ok(file)
}

struct Archive {
    out: BufWriter<File>,
    directories: BTreeSet<PathBuf>,
    inode: u32,
}

impl Archive {
    fn write_all(&mut self, files: &Files, modules: &[Module]) -> Result<()> {
        let failed = |path: &Path| GuestError::file("put into the guest's archive", path.to_path_buf());
        for directory in DIRECTORIES {
            self.directory(Path::new(directory)).map_err(failed(Path::new(directory)))?;
        }
        // The kernel opens it for its first process, whose error messages go there (init/main.c,
        // console_on_rootfs).
        let console = Path::new("/dev/console");
        let device = |builder: Builder| builder.mode(CHARACTER_DEVICE).rdev_major(5).rdev_minor(1);
        self.entry(console, &[], device).map_err(failed(console))?;
        for (target, source) in files {
            let bytes = fs::read(source).map_err(GuestError::file("read", source))?;
            let executable = |builder: Builder| builder.mode(EXECUTABLE);
            self.entry(target, &bytes, executable).map_err(failed(target))?;
        }
        let plain = |builder: Builder| builder.mode(PLAIN);
        let mut order = String::new();
        for module in modules {
            let path = Path::new(MODULES).with_file_name(format!("{}.ko", module.name));
            self.entry(&path, &module.bytes, plain).map_err(failed(&path))?;
            order.push_str(&format!("{}\n", path.display()));
        }
        let list = Path::new(MODULES);
        self.entry(list, order.as_bytes(), plain).map_err(failed(list))?;
        self.end().map_err(failed(Path::new("its end")))
    }

    fn directory(&mut self, path: &Path) -> io::Result<()> {
        if path.parent().is_none() || self.directories.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.directories.insert(path.to_path_buf());
        self.write(path, &[], |builder| builder.mode(DIRECTORY))
    }

    fn entry(&mut self, path: &Path, bytes: &[u8], kind: impl FnOnce(Builder) -> Builder) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.write(path, bytes, kind)
    }

    fn write(&mut self, path: &Path, bytes: &[u8], kind: impl FnOnce(Builder) -> Builder) -> io::Result<()> {
        self.inode += 1;
        let name = path.to_string_lossy();
        let builder = kind(Builder::new(name.trim_start_matches('/')).ino(self.inode).nlink(1));
        let length = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut entry = builder.write(&mut self.out, length);
        entry.write_all(bytes)?;
        entry.finish()?;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        trailer(&mut self.out)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::io::{BufReader, Read, Seek};

    #[test]
    fn a_guest_cannot_change_what_is_kept_for_later_guests() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = unnamed(directory.path()).unwrap();
        kept.write_all(b"archive").unwrap();
        let mut given = to_read(&kept, directory.path()).unwrap();
        let mut content = String::new();
        given.read_to_string(&mut content).unwrap();
        assert_eq!(content, "archive", "from its beginning");
        assert!(given.write_all(b"x").is_err());
    }

    #[test]
    fn directories_come_before_what_is_in_them_and_modules_keep_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("tool");
        fs::write(&tool, "works").unwrap();
        let files = Files::from([(PathBuf::from("/usr/sbin/tool"), tool)]);
        let module = |name: &str| Module { name: name.to_string(), bytes: name.as_bytes().to_vec() };
        let mut archive = build(directory.path(), &files, &[module("z"), module("a")]).unwrap();
        archive.rewind().unwrap();
        let mut rest = BufReader::new(archive);
        let mut found = Vec::new();
        let mut order = String::new();
        loop {
            let mut reader = Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let name = reader.entry().name().to_string();
            if name == "modules/order" {
                reader.read_to_string(&mut order).unwrap();
            }
            found.push((name, reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
        let place = |name: &str| found.iter().position(|(found, _)| found == name).unwrap();
        assert!(place("usr") < place("usr/sbin") && place("usr/sbin") < place("usr/sbin/tool"));
        assert_eq!(found[place("dev/console")].1, CHARACTER_DEVICE);
        assert_eq!(order, "/modules/z.ko\n/modules/a.ko\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the archive has no name");
    }
}
