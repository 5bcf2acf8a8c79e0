//! The parts of guests: kernels, and archives of programs and modules.

use crate::cache::Cache;
use crate::command_line::Accelerator;
use crate::error::{GuestError, Result};
use crate::kept::{KeptFiles, digest};
use crate::kernel::{self, Kernel};
use crate::modules::Modules;
use crate::programs::{self, Files};
use crate::{initramfs, vmlinux};
use fsdyno_core::{Bytes, KernelSpec};
use fsdyno_host::guest::{GuestModule, GuestProgram, GuestRequest};
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Programs that agents run.
const AGENT_PROGRAMS: &[(&str, &str)] = &[("wipefs", "util-linux"), ("sync", "coreutils")];

/// The number of archives that are kept for later guests; each takes the space of fsdyno's binary and the
/// programs.
const ARCHIVES: usize = 8;

/// Kernels and archives, as far as they have been needed.
pub(crate) struct GuestParts {
    binary: PathBuf,
    pub cache: Cache,
    /// The files that later guests use again, if they can be kept.
    pub kept: Option<KeptFiles>,
    kernels: BTreeMap<KernelSpec, Rc<KernelFiles>>,
    /// The latest archives, the oldest first: the trials of a sweep ask for a few of them over and over.
    archives: VecDeque<(Contents, Rc<Archive>)>,
    /// Why kernels that are not present cannot be downloaded; empty if apt offers them.
    absent: BTreeMap<KernelSpec, Vec<String>>,
}

/// The requested contents of an archive.
type Contents = (KernelSpec, Vec<GuestModule>, Vec<GuestProgram>);

/// A kernel and its modules.
pub(crate) struct KernelFiles {
    pub kernel: Kernel,
    modules: Option<Modules>,
    /// The hash of its image.
    pub hash: Vec<u8>,
    /// The kernel that an emulated processor boots instead of the image, once it is known.
    decompressed: OnceCell<Option<File>>,
}

/// The filesystem of a guest, its size and its hash.
pub(crate) struct Archive {
    pub file: File,
    size: u64,
    pub hash: Vec<u8>,
}

impl Archive {
    /// Refuses a guest that has too little memory to unpack it. The kernel unpacks it into a tmpfs, which may
    /// use half of the memory that the kernel and the archive leave (tmpfs(5), `size`), and silently skips
    /// what does not fit.
    fn fits(&self, memory: Bytes) -> Result<()> {
        /// The memory that the kernel takes for itself.
        const KERNEL: u64 = 64 * Bytes::MIB;
        let least = 3 * self.size + KERNEL;
        if memory.0 >= least {
            return Ok(());
        }
        let lacking = format!(
            "{memory} of memory is too little for its programs ({}); set `memory` in [guest] to at least {}",
            Bytes(self.size.next_multiple_of(Bytes::MIB)),
            Bytes(least.next_multiple_of(KERNEL))
        );
        Err(GuestError::Memory { lacking })
    }
}

impl KernelFiles {
    /// The file with the kernel, for a guest of this kind.
    pub fn image(
        &self,
        accelerator: Accelerator,
        directory: &Path,
        kept: Option<&KeptFiles>,
    ) -> Result<File> {
        let image = &self.kernel.image;
        let decompressed = match accelerator {
            Accelerator::Kvm => None,
            Accelerator::Tcg => {
                self.decompressed.get_or_init(|| vmlinux::inside(image, &self.hash, directory, kept)).as_ref()
            }
        };
        match decompressed {
            Some(kernel) => initramfs::to_read(kernel, directory),
            None => initramfs::readable_copy(directory, image),
        }
    }
}

impl GuestParts {
    /// `binary` is the fsdyno binary, which is the first process of every guest.
    pub fn new(binary: PathBuf, cache: Cache) -> Self {
        GuestParts {
            binary,
            kept: KeptFiles::below(cache.directory()),
            cache,
            kernels: BTreeMap::new(),
            archives: VecDeque::new(),
            absent: BTreeMap::new(),
        }
    }

    /// The kernel, which is downloaded if necessary.
    pub fn kernel(&mut self, spec: &KernelSpec) -> Result<Rc<KernelFiles>> {
        if let Some(found) = self.kernels.get(spec) {
            return Ok(Rc::clone(found));
        }
        let kernel = kernel::get(spec, &self.cache)?;
        let modules = Modules::of(kernel.modules.as_deref())?;
        let hash = File::open(&kernel.image).and_then(|image| digest(&image));
        let hash = hash.map_err(GuestError::file("read the kernel image", &kernel.image))?;
        let found = Rc::new(KernelFiles { kernel, modules, hash, decompressed: OnceCell::new() });
        self.kernels.insert(spec.clone(), Rc::clone(&found));
        Ok(found)
    }

    /// Returns the requirements of a request that a present kernel does not meet. A kernel that has to be
    /// downloaded is examined later.
    pub fn lacks(&mut self, request: &GuestRequest) -> Result<Vec<String>> {
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
        let found = self.kernel(&request.kernel)?;
        let Some(modules) = &found.modules else { return Ok(Vec::new()) };
        let absent = request.modules.iter().filter(|module| !modules.have(&module.name));
        let line = |GuestModule { name, hint }: &GuestModule| {
            let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("kernel {} ({}) has no {name}{hint}", request.kernel, found.kernel.release)
        };
        Ok(absent.map(line).collect())
    }

    /// The package of a kernel that is not present and can be downloaded.
    pub fn kernel_to_download(&self, spec: &KernelSpec) -> Option<String> {
        let KernelSpec::Debian { version } = spec else { return None };
        let is_absent = matches!(kernel::find(spec, &self.cache), Ok(None));
        is_absent.then(|| kernel::newest_offered(spec, version).ok()).flatten()
    }

    /// The archive for a request. Guests of a sweep that ask for the same get the same, even if a program on
    /// the host has changed since.
    pub fn archive(&mut self, request: &GuestRequest, found: &KernelFiles) -> Result<Rc<Archive>> {
        let contents = (request.kernel.clone(), request.modules.clone(), request.programs.clone());
        if let Some((_, archive)) = self.archives.iter().find(|(known, _)| *known == contents) {
            return archive.fits(request.shape.memory).map(|()| Rc::clone(archive));
        }
        let file = self.new_archive(request, found)?;
        let unread = || GuestError::file("read a file in", self.cache.directory());
        let (size, hash) = (file.metadata().map_err(unread())?.len(), digest(&file).map_err(unread())?);
        let archive = Rc::new(Archive { file, size, hash });
        if self.archives.len() == ARCHIVES {
            self.archives.pop_front();
        }
        self.archives.push_back((contents, Rc::clone(&archive)));
        archive.fits(request.shape.memory).map(|()| archive)
    }

    fn new_archive(&self, request: &GuestRequest, found: &KernelFiles) -> Result<File> {
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
}
