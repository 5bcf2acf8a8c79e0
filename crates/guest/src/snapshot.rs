//! Snapshots of booted guests, which later guests go on from instead of booting.
//!
//! An emulated processor needs seconds to boot a kernel, always with the same result. So a guest that has
//! booted and waits to be woken ([`crate::wire`]) is saved: its memory and the state of its devices, without
//! the content of its disks, which are blank while it boots. Whatever could make two guests different is in
//! the name of a snapshot, as a hash: kernel, archive, the machine, and QEMU. A snapshot is of no use once
//! the host has booted again, because the guest's clock continues the host's.

use crate::host::{GuestHost, is_lost, is_set};
use crate::kept::{KeptFiles, Known, hexadecimal};
use crate::machine::{Cable, Disk, Machine, QEMU, Setup, Start};
use crate::monitor::Monitor;
use fsdyno_core::{Bytes, GuestShape};
use fsdyno_host::guest::{GuestFacts, NotStarted};
use fsdyno_host::local::find_program;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time that a guest that resumes from a snapshot may take to answer; it needs half a second.
pub(crate) const RESUME_PATIENCE: Duration = Duration::from_secs(30);

/// Snapshots that this process could not save. Trying that again would cost each trial another boot.
static UNSAVED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn unsaved() -> MutexGuard<'static, BTreeSet<String>> {
    UNSAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest that has booted.
pub(crate) struct Snapshot {
    /// Its name among the files that are kept.
    pub name: String,
    pub file: File,
}

/// The properties by which one guest is like another until it is woken.
pub(crate) struct Likeness<'a> {
    /// The hash of its kernel's image.
    pub kernel: &'a [u8],
    /// The hash of its archive.
    pub archive: &'a [u8],
    pub shape: GuestShape,
    pub kernel_words: &'a str,
    /// The sizes of its disks.
    pub disks: &'a [Bytes],
    /// The addresses of its network interfaces.
    pub links: &'a [[u8; 6]],
}

impl Likeness<'_> {
    /// The name of a snapshot.
    fn name(&self) -> io::Result<String> {
        let mut hash = Sha256::new();
        hash.update(self.kernel);
        hash.update(self.archive);
        let qemu = fs::metadata(find_program(QEMU).ok_or(io::ErrorKind::NotFound)?)?;
        let qemu = (qemu.dev(), qemu.ino(), qemu.len(), qemu.mtime(), qemu.mtime_nsec());
        let machine = (self.shape.processors, self.shape.memory, self.kernel_words);
        hash.update(format!("{qemu:?} {machine:?} {:?} {:?}", self.disks, self.links));
        Ok(format!("snapshot-{}", hexadecimal(&hash.finalize())))
    }
}

/// The snapshot of guests like this. If there is none, it is made of a guest that `base` describes except for
/// what it is connected to, and that waits at most `patience` to be ready. `None` if there can be none, or if
/// making it failed, in which case booting such a guest shows why.
pub(crate) fn find_or_make(
    kept: &KeptFiles,
    likeness: &Likeness<'_>,
    base: Setup<'_>,
    name: &str,
    patience: Duration,
    interrupt: &AtomicBool,
) -> Result<Option<Snapshot>, NotStarted> {
    let Ok(file) = likeness.name() else { return Ok(None) };
    if let Known::Unknown = kept.find(&file) {
        if unsaved().contains(&file) {
            return Ok(None);
        }
        let setup = Setup {
            disks: likeness.disks.iter().copied().map(Disk::Blank).collect(),
            links: likeness.links.iter().copied().map(Cable::Unplugged).collect(),
            start: Start::BootWithMonitor,
            ..base
        };
        let started = Machine::start(&setup);
        let (machine, mut ports) = started.map_err(|error| NotStarted::from(error.not_started(name)))?;
        let monitor = ports.monitor.take();
        let mut guest = GuestHost::new(machine, ports, GuestFacts::default(), name, likeness.disks.len())?;
        let ready = match guest.boot(patience, interrupt) {
            Ok(ready) => ready,
            // It gets a second chance, as every emulated guest does.
            Err(not) if is_lost(&not.error) && !is_set(interrupt) => return Ok(None),
            Err(not) => return Err(not),
        };
        let made = match monitor.filter(|_| ready.reseeds) {
            Some(monitor) => kept.keep(&file, guest.resident(), |file| Monitor::new(monitor)?.save(file)),
            // The random numbers of all guests would be the same.
            None => kept.refuse(&file),
        };
        // Without room for a snapshot guests boot, which takes longer.
        if made.is_err() {
            unsaved().insert(file);
            return Ok(None);
        }
    }
    match kept.find(&file) {
        Known::There(found) => Ok(Some(Snapshot { name: file, file: found })),
        Known::Never | Known::Unknown => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_apart_whatever_may_differ() {
        let base = || Likeness {
            kernel: b"one",
            archive: b"one",
            shape: GuestShape::default(),
            kernel_words: "",
            disks: &[Bytes(1)],
            links: &[],
        };
        let larger = GuestShape { memory: Bytes(2 * Bytes::GIB), ..GuestShape::default() };
        let all = [
            base(),
            Likeness { kernel: b"other", ..base() },
            Likeness { archive: b"other", ..base() },
            Likeness { shape: larger, ..base() },
            Likeness { kernel_words: "quiet", ..base() },
            Likeness { disks: &[Bytes(2)], ..base() },
            Likeness { disks: &[Bytes(1), Bytes(1)], ..base() },
            Likeness { links: &[[1; 6]], ..base() },
        ];
        let Ok(names) = all.iter().map(Likeness::name).collect::<io::Result<Vec<_>>>() else {
            assert!(find_program(QEMU).is_none());
            return;
        };
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(base().name().unwrap(), names[0]);
    }
}
