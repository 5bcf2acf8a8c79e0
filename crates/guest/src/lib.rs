//! Guests: virtual machines with a kernel of the user's choice, as hosts.
//!
//! A guest consists of a kernel and an archive that this crate creates: the fsdyno binary as first process
//! and agent, the programs that the trial needs with their libraries, and the modules that the kernel needs.
//! There is no image to download, no network and no need for root; it only needs QEMU. From outside
//! ([`Qemu`]) a guest is a [`fsdyno_host::Host`] like any other; inside ([`inside`]) it serves the same
//! requests as the agent on the host, with the same code.
//!
//! A guest belongs to one trial: it starts with a kernel that has run nothing else, and everything that was
//! done in it disappears with it. KVM runs it if available, otherwise QEMU's emulation, which is an order of
//! magnitude slower and distorts timings: then only ratios between guests of the same kind are meaningful,
//! and results say so. An emulated guest does not boot if one like it has booted before: it goes on from a
//! snapshot ([`snapshot`]).

mod cache;
mod command_line;
mod error;
mod host;
mod initramfs;
pub mod inside;
mod kept;
mod kernel;
mod machine;
mod member;
mod memory;
mod modules;
mod monitor;
mod parts;
mod port;
mod programs;
mod snapshot;
mod user;
mod vmlinux;
mod wire;

use cache::Cache;
use command_line::Accelerator;
use error::GuestError;
use fsdyno_core::tool::how_to_install;
use fsdyno_core::{Bytes, GuestShape, Nanos};
use fsdyno_host::HostError;
use fsdyno_host::guest::{
    Download, Guest, GuestFacts, GuestProgram, GuestRequest, Guests, NotStarted, Wanted,
};
use fsdyno_host::local::find_program;
use host::{GuestHost, is_lost, is_set};
use machine::{Cable, Disk, Machine, Ports, QEMU, Setup, Start};
use parts::{Archive, GuestParts, KernelFiles};
use rustix::fs::{Access, access};
use snapshot::{Likeness, RESUME_PATIENCE, Snapshot};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The time that a guest's kernel may take until its first output if a processor executes it. If KVM only
/// seems to work, there is no output at all, and this is the one-time cost of finding out.
const KVM_PATIENCE: Duration = Duration::from_secs(4);
/// The time that a guest may take to answer; an emulated one needs 3 to 10 seconds on idle processors.
const BOOT_PATIENCE: Duration = Duration::from_secs(180);
/// Why a guest under KVM is given up.
const SILENT: &str = "the kernel does not boot under KVM";
/// The name under which it is kept that KVM does not work.
const KVM: &str = "kvm";

/// Guests by QEMU.
pub struct Qemu {
    parts: GuestParts,
    /// `true` if the processor can execute guests; `None` as long as that is unknown.
    kvm: Option<bool>,
    version: Option<String>,
    /// Set by somebody who does not want to wait for a guest any longer.
    hurry: Arc<AtomicBool>,
    /// Added to the command line of every guest's kernel.
    kernel_words: String,
    log: Option<OwnedFd>,
}

/// A guest whose agent has not answered yet.
struct Launched {
    machine: Machine,
    ports: Ports,
    facts: GuestFacts,
    name: String,
    disks: usize,
    /// The name of the snapshot from which it goes on.
    resumed: Option<String>,
}

impl Qemu {
    /// `binary` is the fsdyno binary, which is the first process of every guest; `cache` is the download
    /// cache.
    pub fn new(binary: PathBuf, cache: PathBuf) -> Self {
        Qemu {
            parts: GuestParts::new(binary, Cache::new(cache)),
            kvm: None,
            version: None,
            kernel_words: String::new(),
            log: None,
            hurry: Arc::default(),
        }
    }

    /// The same, with additional words on the command line of the guests' kernels: `lsm=lockdown`.
    #[must_use]
    pub fn with_kernel_words(self, words: &str) -> Self {
        Qemu { kernel_words: words.to_string(), ..self }
    }

    /// The same, with emulated processors even where KVM works.
    #[must_use]
    pub fn emulating(self) -> Self {
        Qemu { kvm: Some(false), ..self }
    }

    /// The same, with a log of all requests to the first disk of a guest, which QEMU itself writes to this
    /// empty file in the format of dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst), to
    /// hold another recording against it.
    #[must_use]
    pub fn with_log(self, file: OwnedFd) -> Self {
        Qemu { log: Some(file), ..self }
    }

    /// The same for a user who may lose patience: when the flag is set, a guest that owes an answer is
    /// killed.
    #[must_use]
    pub fn hurried_by(self, hurry: Arc<AtomicBool>) -> Self {
        Qemu { hurry, ..self }
    }

    /// Everything that keeps any guest from running on this machine, one line each.
    pub fn missing() -> Vec<String> {
        let mut missing = Vec::new();
        if std::env::consts::ARCH != "x86_64" {
            missing.push(format!("guests need x86-64, but this machine is {}", std::env::consts::ARCH));
        }
        if find_program(QEMU).is_none() {
            missing.push(format!("{QEMU} is not installed (apt-get install qemu-system-x86)"));
        }
        missing
    }

    /// Returns whether kernels from Debian packages can be downloaded.
    pub fn can_fetch_kernels() -> bool {
        cache::can_fetch()
    }

    /// The first line of `--version`, if QEMU is installed.
    pub fn installed() -> Option<String> {
        let output = Command::new(find_program(QEMU)?).arg("--version").output().ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_string)
    }

    /// Returns the setup with which a machine for a request is started, without its disks, links and log.
    fn setup(
        &self,
        request: &GuestRequest,
        found: &KernelFiles,
        archive: &Archive,
        accelerator: Accelerator,
    ) -> error::Result<Setup<'_>> {
        let directory = self.parts.cache.directory();
        Ok(Setup {
            image: found.image(accelerator, directory, self.parts.kept.as_ref())?,
            initramfs: initramfs::to_read(&archive.file, directory)?,
            shape: request.shape,
            disks: Vec::new(),
            shares_last: false,
            links: Vec::new(),
            log: None,
            accelerator,
            kernel_words: &self.kernel_words,
            start: Start::Boot,
        })
    }

    /// Starts a guest, without waiting for its answer: from a snapshot, or by booting it.
    fn launch(
        &mut self,
        wanted: &Wanted<'_>,
        accelerator: Accelerator,
        snapshot: Option<Snapshot>,
    ) -> Result<Launched, NotStarted> {
        let request = wanted.request;
        let name = request.kernel.to_string();
        let not_started = |error: GuestError| NotStarted::from(error.not_started(&name));
        let found = self.parts.kernel(&request.kernel).map_err(not_started)?;
        let archive = self.parts.archive(request, &found).map_err(not_started)?;
        let (resumed, start) = match snapshot {
            Some(Snapshot { name, file }) => (Some(name), Start::Resume(file)),
            None => (None, Start::Boot),
        };
        let paths = request.disks.iter().map(PathBuf::as_path);
        let setup = Setup {
            disks: paths.zip(wanted.disks).map(|(path, disk)| Disk::File(path, disk)).collect(),
            shares_last: wanted.shares_last,
            links: wanted.links.iter().map(Cable::To).collect(),
            log: self.log.as_ref(),
            start,
            ..self.setup(request, &found, &archive, accelerator).map_err(not_started)?
        };
        let (machine, ports) = Machine::start(&setup).map_err(not_started)?;
        let facts = GuestFacts {
            description: self.describe(&request.shape, accelerator, resumed.is_some()),
            emulated: accelerator == Accelerator::Tcg,
            release: found.kernel.release.clone(),
            boot: Nanos(0),
        };
        Ok(Launched { machine, ports, facts, name, disks: request.disks.len(), resumed })
    }

    /// The snapshot of guests like this.
    fn snapshot(
        &mut self,
        wanted: &Wanted<'_>,
        interrupt: &AtomicBool,
    ) -> Result<Option<Snapshot>, NotStarted> {
        let request = wanted.request;
        let name = request.kernel.to_string();
        let not_started = |error: GuestError| NotStarted::from(error.not_started(&name));
        let kept = self.parts.kept.clone().filter(|_| request.shape.snapshot);
        let sizes: Option<Vec<Bytes>> = wanted.disks.iter().map(size_of_file).collect();
        let (Some(kept), Some(disks)) = (kept, sizes) else { return Ok(None) };
        let found = self.parts.kernel(&request.kernel).map_err(not_started)?;
        let archive = self.parts.archive(request, &found).map_err(not_started)?;
        let links: Vec<_> = wanted.links.iter().map(|link| link.address).collect();
        let likeness = Likeness {
            kernel: &found.hash,
            archive: &archive.hash,
            shape: request.shape,
            kernel_words: &self.kernel_words,
            disks: &disks,
            links: &links,
        };
        let base = self.setup(request, &found, &archive, Accelerator::Tcg).map_err(not_started)?;
        snapshot::find_or_make(&kept, &likeness, base, &name, BOOT_PATIENCE, interrupt)
    }

    fn await_answer(&self, launched: Launched, interrupt: &AtomicBool) -> Result<GuestHost, NotStarted> {
        let Launched { machine, ports, facts, name, disks, resumed } = launched;
        let mut guest = GuestHost::new(machine, ports, facts, &name, disks)?;
        match resumed {
            None => {
                guest.boot(BOOT_PATIENCE, interrupt)?;
                guest.wake(BOOT_PATIENCE, interrupt)?;
            }
            Some(snapshot) => guest.wake(RESUME_PATIENCE, interrupt).inspect_err(|_| {
                if let Some(kept) = self.parts.kept.as_ref().filter(|_| !is_set(interrupt)) {
                    kept.forget(&snapshot);
                }
            })?,
        }
        Ok(guest.hurried_by(Arc::clone(&self.hurry)))
    }

    /// Boots a guest, and waits for its answer.
    fn boot(
        &mut self,
        wanted: &Wanted<'_>,
        accelerator: Accelerator,
        interrupt: &AtomicBool,
    ) -> Result<GuestHost, NotStarted> {
        let launched = self.launch(wanted, accelerator, None)?;
        self.await_answer(launched, interrupt)
    }

    fn describe(&mut self, shape: &GuestShape, accelerator: Accelerator, resumed: bool) -> String {
        let version =
            self.version.get_or_insert_with(|| Qemu::installed().unwrap_or_else(|| QEMU.to_string()));
        format!(
            "{version}, {}, {} processors, {}, disks with cache={}{}",
            accelerator.name(),
            shape.processors,
            shape.memory,
            shape.cache.name(),
            if resumed { ", resumed from a snapshot" } else { "" }
        )
    }
}

impl Guests for Qemu {
    fn unmet(&mut self, request: &GuestRequest) -> Vec<String> {
        let mut unmet = Qemu::missing();
        unmet.extend(memory::lacking([&request.shape]));
        unmet.extend(self.parts.lacks(request).unwrap_or_else(|error| vec![error.to_string()]));
        let absent = request.programs.iter().filter(|program| !programs::at_hand(program, &self.parts.cache));
        unmet.extend(absent.map(|GuestProgram { name, package }| {
            format!("{name} is not installed ({})", how_to_install(package))
        }));
        unmet
    }

    fn are_emulated(&mut self) -> bool {
        let has_failed = || self.parts.kept.as_ref().is_some_and(|kept| kept.has_failed(KVM));
        self.kvm.map_or_else(|| has_failed() || !kvm_may_work(), |works| !works)
    }

    fn downloads(&mut self, request: &GuestRequest) -> Vec<Download> {
        let kernel = self.parts.kernel_to_download(&request.kernel);
        let absent = request.programs.iter().filter(|program| find_program(&program.name).is_none());
        let packages = absent.map(|program| program.package.clone());
        let packages = packages.filter(|name| !name.is_empty() && !self.parts.cache.place(name).is_dir());
        let packages: BTreeSet<String> = kernel.into_iter().chain(packages).collect();
        let download = |package: String| Download { size: self.parts.cache.size_of(&package), package };
        packages.into_iter().map(download).collect()
    }

    fn lacks_memory_for(&mut self, shapes: &[GuestShape]) -> Option<String> {
        memory::lacking(shapes)
    }

    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        interrupt: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted> {
        // What existed when the sweep began may be gone.
        if let Some(lacking) = memory::lacking(wanted.iter().map(|one| &one.request.shape)) {
            let name = wanted.first().map(|one| one.request.kernel.to_string()).unwrap_or_default();
            return Err(GuestError::Memory { lacking }.not_started(&name).into());
        }
        let mut started: Vec<Box<dyn Guest>> = Vec::new();
        if self.kvm.is_none() && self.parts.kept.as_ref().is_some_and(|kept| kept.has_failed(KVM)) {
            self.kvm = Some(false);
        }
        let mut is_silent = false;
        if let (None, Some(first), true) = (self.kvm, wanted.first(), kvm_may_work()) {
            let guest = self.launch(first, Accelerator::Kvm, None).and_then(|mut launched| {
                is_silent = !launched.machine.begins(KVM_PATIENCE);
                match is_silent {
                    true => Err(HostError::Lost { host: launched.name, reason: SILENT.to_string() }.into()),
                    false => self.await_answer(launched, interrupt),
                }
            });
            match guest {
                Ok(guest) => started.push(Box::new(guest)),
                Err(error) if is_set(interrupt) => return Err(error),
                Err(_) => {}
            }
            self.kvm = Some(!started.is_empty());
        }
        // A machine on which guests have run keeps this ability.
        let accelerator = if self.kvm == Some(true) { Accelerator::Kvm } else { Accelerator::Tcg };
        let others = &wanted[started.len()..];
        let mut snapshots = Vec::new();
        for one in others {
            snapshots.push(match accelerator {
                Accelerator::Kvm => None,
                Accelerator::Tcg => self.snapshot(one, interrupt)?,
            });
        }
        let launched =
            others.iter().zip(snapshots).map(|(one, snapshot)| self.launch(one, accelerator, snapshot));
        let launched: Vec<_> = launched.collect::<Result<_, _>>()?;
        for (one, launched) in others.iter().zip(launched) {
            let resumed = launched.resumed.is_some();
            let guest = self.await_answer(launched, interrupt).or_else(|first| {
                // On a busy machine the timers of an emulated processor occasionally stop a kernel before
                // anything has run, and a snapshot may be damaged. Nothing has crossed its cables then.
                let again = resumed || is_lost(&first.error);
                match accelerator == Accelerator::Tcg && again && !is_set(interrupt) {
                    true => self.boot(one, accelerator, interrupt),
                    false => Err(first),
                }
            })?;
            started.push(Box::new(guest));
        }
        // It was not the kernel's fault, then, that KVM brought no sign of life of it.
        if let Some(kept) = self.parts.kept.as_ref().filter(|_| is_silent) {
            // Without the note the next sweep finds out the same.
            let _ = kept.refuse(KVM);
        }
        Ok(started)
    }
}

/// The size of a disk; `None` if that is not the size of a file.
fn size_of_file(disk: &OwnedFd) -> Option<Bytes> {
    let found = rustix::fs::fstat(disk).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    is_file.then(|| Bytes(found.st_size.unsigned_abs()))
}

/// Returns whether the kernel offers KVM to this user.
fn kvm_may_work() -> bool {
    access(Path::new("/dev/kvm"), Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::KernelSpec;

    #[test]
    fn a_guest_larger_than_the_machine_is_not_started() {
        let cache = tempfile::tempdir().expect("a directory");
        let mut guests = Qemu::new(PathBuf::from("/bin/true"), cache.path().to_path_buf());
        let request = GuestRequest {
            kernel: KernelSpec::Image { name: "own".to_string(), image: "/bin/true".into(), modules: None },
            shape: GuestShape { memory: Bytes(1 << 60), ..GuestShape::default() },
            modules: Vec::new(),
            programs: Vec::new(),
            disks: Vec::new(),
        };
        let unmet = guests.unmet(&request);
        assert!(unmet.iter().any(|reason| reason.contains("the guest needs")), "{unmet:?}");
        let not = guests.start(&request, &[], &AtomicBool::new(false)).err().expect("no such guest");
        assert!(not.error.to_string().contains("the guest needs 1048576T of memory"), "{}", not.error);
    }

    #[test]
    fn a_kernel_that_is_nowhere_is_known_before_a_guest_is_to_start() {
        let cache = tempfile::tempdir().expect("a directory");
        let mut guests = Qemu::new(PathBuf::from("/bin/true"), cache.path().to_path_buf());
        let request = GuestRequest {
            kernel: KernelSpec::Debian { version: "0.1".to_string() },
            shape: GuestShape::default(),
            modules: Vec::new(),
            programs: Vec::new(),
            disks: Vec::new(),
        };
        for _ in 0..2 {
            let unmet = guests.unmet(&request);
            assert!(unmet.iter().any(|reason| reason.starts_with("kernel debian:0.1: ")), "{unmet:?}");
        }
    }
}
