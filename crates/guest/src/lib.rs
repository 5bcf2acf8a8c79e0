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
//! and results say so.

mod cache;
mod error;
mod host;
mod initramfs;
pub mod inside;
mod kernel;
mod machine;
mod member;
mod memory;
mod modules;
mod port;
mod programs;
mod user;
mod vmlinux;
mod wire;

use cache::Cache;
use error::GuestError;
use fsdyno_core::{GuestShape, KernelSpec, Nanos};
use fsdyno_host::HostError;
use fsdyno_host::guest::{
    Guest, GuestFacts, GuestModule, GuestProgram, GuestRequest, Guests, NotStarted, Wanted,
};
use fsdyno_host::local::find_program;
use host::GuestHost;
use kernel::Kernel;
use machine::{Accelerator, Machine, Ports, QEMU, Setup};
use modules::Modules;
use programs::Files;
use rustix::fs::{Access, access};
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a guest's kernel may take until its first output if a processor executes it. If KVM only seems to
/// work, there is no output at all, and this is the one-time cost of finding out.
const KVM_PATIENCE: Duration = Duration::from_secs(4);
/// How long a guest may take to answer; an emulated one needs 3 to 10 seconds on idle processors.
const BOOT_PATIENCE: Duration = Duration::from_secs(180);
/// Programs that agents run.
const AGENT_PROGRAMS: &[(&str, &str)] = &[("wipefs", "util-linux"), ("sync", "coreutils")];

/// How many archives are kept for later guests; each takes the space of fsdyno's binary and the programs.
const ARCHIVES: usize = 8;

/// Guests by QEMU.
pub struct Qemu {
    binary: PathBuf,
    cache: Cache,
    kernels: BTreeMap<KernelSpec, Rc<Found>>,
    /// The latest archives, the oldest first: the trials of a sweep ask for a few of them over and over.
    archives: VecDeque<(Contents, File)>,
    /// Why kernels that are not present cannot be downloaded; empty if apt offers them.
    absent: BTreeMap<KernelSpec, Vec<String>>,
    /// Whether the processor can execute guests; unknown before the first one.
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
}

/// What an archive was asked to contain.
type Contents = (KernelSpec, Vec<GuestModule>, Vec<GuestProgram>);

/// A kernel and its modules.
struct Found {
    kernel: Kernel,
    modules: Option<Modules>,
    /// What an emulated processor boots instead of the image, once it is known.
    decompressed: OnceCell<Option<File>>,
}

impl Found {
    /// The file with the kernel, for a guest of this kind.
    fn image(&self, accelerator: Accelerator, directory: &Path) -> error::Result<File> {
        let image = &self.kernel.image;
        let decompressed = match accelerator {
            Accelerator::Kvm => None,
            Accelerator::Tcg => self.decompressed.get_or_init(|| vmlinux::inside(image, directory)).as_ref(),
        };
        match decompressed {
            Some(kernel) => initramfs::to_read(kernel, directory),
            None => initramfs::readable_copy(directory, image),
        }
    }
}

impl Qemu {
    /// `binary` is the fsdyno binary, which is the first process of every guest; `cache` is the download
    /// cache.
    pub fn new(binary: PathBuf, cache: PathBuf) -> Self {
        Qemu {
            binary,
            cache: Cache::new(cache),
            kernels: BTreeMap::new(),
            archives: VecDeque::new(),
            absent: BTreeMap::new(),
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

    /// Whether kernels from Debian packages can be downloaded.
    pub fn can_fetch_kernels() -> bool {
        cache::can_fetch()
    }

    /// The first line of `--version`, if QEMU is installed.
    pub fn installed() -> Option<String> {
        let output = Command::new(find_program(QEMU)?).arg("--version").output().ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_string)
    }

    fn found(&mut self, spec: &KernelSpec) -> error::Result<Rc<Found>> {
        if let Some(found) = self.kernels.get(spec) {
            return Ok(Rc::clone(found));
        }
        let kernel = kernel::get(spec, &self.cache)?;
        let modules = Modules::of(kernel.modules.as_deref())?;
        let found = Rc::new(Found { kernel, modules, decompressed: OnceCell::new() });
        self.kernels.insert(spec.clone(), Rc::clone(&found));
        Ok(found)
    }

    /// What a present kernel lacks for a request. One that has to be downloaded is examined later.
    fn lacks(&mut self, request: &GuestRequest) -> error::Result<Vec<String>> {
        if !self.kernels.contains_key(&request.kernel) {
            // Querying apt takes half a second, so it is not done for every case.
            if let Some(known) = self.absent.get(&request.kernel) {
                return Ok(known.clone());
            }
            let found = kernel::find(&request.kernel, &self.cache);
            if !matches!(found, Ok(Some(_))) {
                let unmet: Vec<String> = found.err().iter().map(ToString::to_string).collect();
                self.absent.insert(request.kernel.clone(), unmet.clone());
                return Ok(unmet);
            }
        }
        let found = self.found(&request.kernel)?;
        let Some(modules) = &found.modules else { return Ok(Vec::new()) };
        let absent = request.modules.iter().filter(|module| !modules.have(&module.name));
        let line = |GuestModule { name, hint }: &GuestModule| {
            let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("kernel {} ({}) has no {name}{hint}", request.kernel, found.kernel.release)
        };
        Ok(absent.map(line).collect())
    }

    /// The archive for a request. Guests of a sweep that ask for the same get the same, even if a program on
    /// the host has changed since.
    fn archive(&mut self, request: &GuestRequest, found: &Found) -> error::Result<File> {
        let contents = (request.kernel.clone(), request.modules.clone(), request.programs.clone());
        if let Some((_, file)) = self.archives.iter().find(|(known, _)| *known == contents) {
            return initramfs::to_read(file, self.cache.directory());
        }
        let file = self.new_archive(request, found)?;
        let given = initramfs::to_read(&file, self.cache.directory());
        if self.archives.len() == ARCHIVES {
            self.archives.pop_front();
        }
        self.archives.push_back((contents, file));
        given
    }

    fn new_archive(&self, request: &GuestRequest, found: &Found) -> error::Result<File> {
        let mut files = Files::new();
        programs::add_file(&mut files, &self.binary, PathBuf::from(initramfs::BINARY), None)?;
        let agents = AGENT_PROGRAMS.iter().map(|(name, package)| GuestProgram {
            name: (*name).to_string(),
            package: (*package).to_string(),
        });
        for program in agents.chain(request.programs.iter().cloned()) {
            programs::add(&mut files, &program, &self.cache)?;
        }
        programs::add_settings(&mut files);
        let modules = match &found.modules {
            Some(modules) => modules.in_order(request.modules.iter().map(|module| module.name.as_str()))?,
            None => Vec::new(),
        };
        let directory = self.cache.directory();
        fs::create_dir_all(directory).map_err(GuestError::file("create the directory", directory))?;
        initramfs::build(directory, &files, &modules)
    }

    /// Starts a guest, without waiting for its answer.
    fn launch(&mut self, wanted: &Wanted<'_>, accelerator: Accelerator) -> Result<Launched, NotStarted> {
        let request = wanted.request;
        let name = request.kernel.to_string();
        let not_started = |error: GuestError| NotStarted::from(error.not_started(&name));
        let found = self.found(&request.kernel).map_err(not_started)?;
        let initramfs = self.archive(request, &found).map_err(not_started)?;
        let image = found.image(accelerator, self.cache.directory()).map_err(not_started)?;
        let setup = Setup {
            image,
            initramfs,
            shape: request.shape,
            disks: request.disks.iter().map(PathBuf::as_path).zip(wanted.disks).collect(),
            shares_last: wanted.shares_last,
            links: wanted.links,
            log: self.log.as_ref(),
            accelerator,
            kernel_words: &self.kernel_words,
        };
        let (mut machine, ports) = Machine::start(setup).map_err(not_started)?;
        if accelerator == Accelerator::Kvm && !machine.begins(KVM_PATIENCE) {
            let reason = "the kernel does not boot under KVM".to_string();
            return Err(HostError::Lost { host: name, reason }.into());
        }
        let facts = GuestFacts {
            description: self.describe(&request.shape, accelerator),
            emulated: accelerator == Accelerator::Tcg,
            release: found.kernel.release.clone(),
            boot: Nanos(0),
        };
        Ok(Launched { machine, ports, facts, name, disks: request.disks.len() })
    }

    fn await_answer(&self, launched: Launched, interrupt: &AtomicBool) -> Result<GuestHost, NotStarted> {
        let Launched { machine, ports, facts, name, disks } = launched;
        let guest = GuestHost::connect(machine, ports, facts, &name, disks, BOOT_PATIENCE, interrupt)?;
        Ok(guest.hurried_by(Arc::clone(&self.hurry)))
    }

    /// Starts a guest of a kind that may not work here, and waits for its answer.
    fn boot(
        &mut self,
        wanted: &Wanted<'_>,
        accelerator: Accelerator,
        interrupt: &AtomicBool,
    ) -> Result<GuestHost, NotStarted> {
        let launched = self.launch(wanted, accelerator)?;
        self.await_answer(launched, interrupt)
    }

    fn describe(&mut self, shape: &GuestShape, accelerator: Accelerator) -> String {
        let version =
            self.version.get_or_insert_with(|| Qemu::installed().unwrap_or_else(|| QEMU.to_string()));
        format!(
            "{version}, {}, {} processors, {}, disks with cache={}",
            accelerator.name(),
            shape.processors,
            shape.memory,
            shape.cache.name()
        )
    }
}

impl Guests for Qemu {
    fn unmet(&mut self, request: &GuestRequest) -> Vec<String> {
        let mut unmet = Qemu::missing();
        unmet.extend(memory::lacking([&request.shape]));
        unmet.extend(self.lacks(request).unwrap_or_else(|error| vec![error.to_string()]));
        let absent = request.programs.iter().filter(|program| !programs::at_hand(program, &self.cache));
        unmet.extend(absent.map(|GuestProgram { name, package }| {
            format!("{name} is not installed (apt-get install {package})")
        }));
        unmet
    }

    fn lacks_memory_for(&mut self, shapes: &[GuestShape]) -> Option<String> {
        memory::lacking(shapes)
    }

    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        interrupt: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted> {
        let interrupted = || interrupt.load(Ordering::Relaxed);
        // What existed when the sweep began may be gone.
        if let Some(lacking) = memory::lacking(wanted.iter().map(|one| &one.request.shape)) {
            let name = wanted.first().map(|one| one.request.kernel.to_string()).unwrap_or_default();
            return Err(GuestError::Memory { lacking }.not_started(&name).into());
        }
        let mut started: Vec<Box<dyn Guest>> = Vec::new();
        if let (None, Some(first), true) = (self.kvm, wanted.first(), kvm_may_work()) {
            match self.boot(first, Accelerator::Kvm, interrupt) {
                Ok(guest) => {
                    self.kvm = Some(true);
                    started.push(Box::new(guest));
                }
                Err(error) if interrupted() => return Err(error),
                Err(_) => self.kvm = Some(false),
            }
        }
        // A machine on which guests have run keeps this ability.
        let accelerator = if self.kvm == Some(true) { Accelerator::Kvm } else { Accelerator::Tcg };
        let others = &wanted[started.len()..];
        let launched: Vec<_> =
            others.iter().map(|one| self.launch(one, accelerator)).collect::<Result<_, _>>()?;
        for (one, launched) in others.iter().zip(launched) {
            let guest = self.await_answer(launched, interrupt).or_else(|first| match *first.error {
                // On a busy machine the timers of an emulated processor occasionally stop a kernel before
                // anything has run. Nothing has crossed its cables then.
                HostError::Lost { .. } if accelerator == Accelerator::Tcg && !interrupted() => {
                    self.boot(one, accelerator, interrupt)
                }
                _ => Err(first),
            })?;
            started.push(Box::new(guest));
        }
        Ok(started)
    }
}

/// Whether the kernel offers KVM to this user.
fn kvm_may_work() -> bool {
    access(Path::new("/dev/kvm"), Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_larger_than_the_machine_is_not_started() {
        let cache = tempfile::tempdir().expect("a directory");
        let mut guests = Qemu::new(PathBuf::from("/bin/true"), cache.path().to_path_buf());
        let request = GuestRequest {
            kernel: KernelSpec::Image { name: "own".to_string(), image: "/bin/true".into(), modules: None },
            shape: GuestShape { memory: fsdyno_core::Bytes(1 << 60), ..GuestShape::default() },
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
