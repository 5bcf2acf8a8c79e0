//! This machine, by system calls in this process.
//!
//! Loop devices and mounts use the kernel's own interfaces, which name the option that they reject; programs
//! are run only where the kernel has no such interface (mkfs, checks, reading signatures). Nothing here
//! decides what may be touched: that is up to the testbed. Nothing here is lazy or forced either: a busy
//! device stays attached, a busy mount stays mounted, and the caller gets an error.
//!
//! A system call that hangs in a broken filesystem hangs this host as well. [`crate::agent::AgentHost`] is
//! the same host in a process that can be abandoned.

mod command;
mod confine;
mod device;
mod directory;
mod engine;
mod files;
mod guardian;
mod images;
mod loops;
mod mount;
mod mountd;
mod nfs;
mod probe;
mod recorder;
mod setting;
mod smb;
mod tree;

pub use command::find as find_program;
pub(crate) use command::wait_readable;
pub(crate) use engine::start as start_engine;
pub use engine::understand_event;
pub(crate) use guardian::LocalGuardian;
pub use guardian::serve as serve_guardian;
pub(crate) use images::take as take_image;
pub(crate) use recorder::start as start_recorder;

use crate::export::Export;
use crate::guardian::Guardian;
use crate::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo, Room};
use crate::recorder::Recorder;
use crate::{
    AttachedLoop, Command, DeviceHandle, EngineProcess, Host, HostError, ImageHandle, LoopOptions,
    MountRequest, NewImage, Output, Result, Steps,
};
use device::OpenDevice;
use fsdyno_core::environment::Confinement;
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::{Bytes, EngineRequest};
use images::OpenImage;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for which a step is retried while a device or a mount is busy: udev and others open devices for a
/// moment.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);

/// This machine.
pub struct LocalHost {
    binary: PathBuf,
    protected: Vec<(String, PathBuf)>,
    devices: HashMap<DeviceHandle, OpenDevice>,
    images: HashMap<ImageHandle, OpenImage>,
    /// The files of loop devices that this host has attached, by their device numbers.
    attached: HashMap<(u32, u32), FileIdentity>,
    next_handle: u64,
    /// `true` if this machine is a guest, which serves nobody else.
    is_guest: bool,
    /// The server that it has started, if that is a program.
    server: Option<smb::Server>,
    mountd: mountd::Mountd,
}

impl LocalHost {
    /// `binary` is the fsdyno binary, which serves as engine; `protected` are things that no device under
    /// test may carry, each with its name (`the store`), in addition to the system's own directories and the
    /// binary.
    pub fn new(binary: PathBuf, protected: Vec<(String, PathBuf)>) -> Self {
        LocalHost {
            binary,
            protected,
            devices: HashMap::new(),
            images: HashMap::new(),
            attached: HashMap::new(),
            next_handle: 1,
            is_guest: false,
            server: None,
            mountd: mountd::Mountd::default(),
        }
    }

    /// A guest, from the inside.
    pub fn of_guest(binary: PathBuf) -> Self {
        LocalHost { is_guest: true, ..LocalHost::new(binary, Vec::new()) }
    }

    /// Adds to what no device under test may carry.
    pub(crate) fn protect(&mut self, protected: impl IntoIterator<Item = (String, PathBuf)>) {
        self.protected.extend(protected);
    }

    /// Handles are numbered from here on, so that those of an earlier process are not valid.
    pub(crate) fn number_handles_from(&mut self, first: u64) {
        self.next_handle = first;
    }

    fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle - 1
    }

    fn device(&self, handle: DeviceHandle) -> Result<&OpenDevice> {
        self.devices.get(&handle).ok_or_else(|| not_open("the device", handle.0))
    }

    fn image(&self, handle: ImageHandle) -> Result<&OpenImage> {
        self.images.get(&handle).ok_or_else(|| not_open("the image", handle.0))
    }

    /// Checks that a loop device that was attached here still has its file.
    fn verify_backing(&self, device: &OpenDevice, expected: &DeviceIdentity) -> Result<()> {
        match self.attached.get(&expected.number) {
            Some(image) => loops::verify(&device.descriptor(), device.path(), image),
            None => Ok(()),
        }
    }
}

fn not_open(what: &str, handle: u64) -> HostError {
    HostError::System {
        action: format!("use {what} of handle"),
        object: handle.to_string(),
        errno: Errno::BADF.raw_os_error(),
        reason: "it is not open on this host, or the process that held it was abandoned".to_string(),
    }
}

impl Steps for LocalHost {
    fn run(&mut self, command: &Command) -> Result<Output> {
        let mut devices = Vec::new();
        for (handle, _) in command.arguments.iter().filter_map(|argument| argument.device.as_ref()) {
            devices.push((*handle, self.device(*handle)?.descriptor()));
        }
        command::run(command, &devices)
    }

    fn confinement(&mut self) -> Result<Confinement> {
        Ok(confine::of_this_kernel())
    }

    fn find_program(&mut self, program: &str) -> Result<Option<PathBuf>> {
        Ok(command::find(program))
    }

    fn read_text(&mut self, path: &Path) -> Result<String> {
        files::read_text(path)
    }

    fn read_setting(&mut self, path: &Path) -> Result<String> {
        setting::read(path)
    }

    fn change_setting(&mut self, path: &Path, text: &str) -> Result<()> {
        setting::write(path, text)
    }

    fn list_directory(&mut self, path: &Path) -> Result<Vec<String>> {
        files::list_directory(path)
    }

    fn create_directory(&mut self, path: &Path) -> Result<()> {
        std::fs::create_dir(path).map_err(|error| HostError::system("create the directory", path, error))
    }

    fn remove_directory(&mut self, path: &Path) -> Result<()> {
        std::fs::remove_dir(path).map_err(|error| HostError::system("remove the directory", path, error))
    }

    fn remove_trace_instance(&mut self, name: &str) -> Result<bool> {
        let removed = fsdyno_sys::tracefs::open()
            .and_then(|tracefs| fsdyno_sys::tracefs::remove_instance(&tracefs, name));
        removed.map_err(|errno| {
            HostError::system("remove the trace instance", Path::new(name), std::io::Error::from(errno))
        })
    }

    fn remove_tree(&mut self, path: &Path) -> Result<()> {
        tree::remove(path)
    }

    fn file_identity(&mut self, path: &Path) -> Result<Option<FileIdentity>> {
        files::identity(path)
    }

    fn verify_directory(&mut self, path: &Path) -> Result<()> {
        directory::verify_writable(&directory::open(path, &self.protected)?, path)
    }

    fn verify_uncontested(&mut self, path: &Path) -> Result<()> {
        directory::verify_uncontested(path)
    }

    fn create_image(&mut self, path: &Path, size: Bytes) -> Result<NewImage> {
        let image = OpenImage::create(path, size, &self.protected)?;
        let identity = image.identity().clone();
        let handle = ImageHandle(self.new_handle());
        self.images.insert(handle, image);
        Ok(NewImage { handle, identity })
    }

    fn rename_image(&mut self, image: ImageHandle, path: &Path) -> Result<()> {
        let open = self.images.get_mut(&image).ok_or_else(|| not_open("the image", image.0))?;
        open.rename(path)
    }

    fn image_number(&mut self, image: ImageHandle) -> Result<i32> {
        self.image(image).map(OpenImage::number)
    }

    fn close_image(&mut self, image: ImageHandle) -> Result<()> {
        self.image(image)?;
        self.images.remove(&image);
        Ok(())
    }

    fn remove_file(&mut self, path: &Path, expected: &FileIdentity) -> Result<()> {
        images::remove(path, expected)
    }

    fn room(&mut self, path: &Path) -> Result<Room> {
        mount::room(path, &self.protected)
    }

    fn loops(&mut self) -> Result<Vec<LoopInfo>> {
        Ok(loops::attached()?.into_iter().map(|attached| attached.info).collect())
    }

    fn attach_loop(&mut self, image: ImageHandle, options: &LoopOptions) -> Result<AttachedLoop> {
        let image = self.image(image)?;
        let attached = loops::attach(image, options)?;
        self.attached.insert(attached.identity.number, image.identity().clone());
        Ok(attached)
    }

    fn detach_loop(&mut self, attached: &LoopInfo) -> Result<()> {
        loops::detach(attached)?;
        let backing = (attached.backing_device, attached.backing_inode);
        self.attached.retain(|_, image| (image.device, image.inode) != backing);
        Ok(())
    }

    fn probe_device(&mut self, path: &Path) -> Result<DeviceProbe> {
        let binary = ("the fsdyno binary".to_string(), self.binary.clone());
        let protected: Vec<_> = self.protected.iter().cloned().chain([binary]).collect();
        probe::probe(path, &protected)
    }

    fn open_device(&mut self, path: &Path, expected: &DeviceIdentity) -> Result<DeviceHandle> {
        let device = OpenDevice::open(path, expected, self.devices.values())?;
        self.verify_backing(&device, expected)?;
        let handle = DeviceHandle(self.new_handle());
        self.devices.insert(handle, device);
        Ok(handle)
    }

    fn verify_device(&mut self, handle: DeviceHandle, expected: &DeviceIdentity) -> Result<()> {
        let device = self.device(handle)?;
        device.verify(expected)?;
        self.verify_backing(device, expected)
    }

    fn is_claimed(&mut self, handle: DeviceHandle) -> Result<bool> {
        self.device(handle)?.is_claimed()
    }

    fn mark_device(&mut self, handle: DeviceHandle, _node: &Path) -> Result<()> {
        self.device(handle)?.mark()
    }

    fn fill_device(&mut self, handle: DeviceHandle, _node: &Path, from: u64, length: u64) -> Result<()> {
        self.device(handle)?.fill(from, length)
    }

    fn downgrade_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.devices.get_mut(&handle).ok_or_else(|| not_open("the device", handle.0))?.downgrade()
    }

    fn close_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.device(handle)?;
        self.devices.remove(&handle);
        Ok(())
    }

    fn mount(&mut self, request: &MountRequest) -> Result<()> {
        if let Some(handle) = request.device {
            self.device(handle)?.is_at(&request.source)?;
        }
        mount::mount(request)
    }

    fn unmount(&mut self, target: &Path) -> Result<()> {
        mount::unmount(target)
    }

    fn mounts(&mut self) -> Result<Vec<MountInfo>> {
        mount::mounts()
    }

    fn serve(&mut self, export: &Export) -> Result<()> {
        if !self.is_guest {
            return Err(HostError::System {
                action: "export".to_string(),
                object: export.directory().display().to_string(),
                errno: 0,
                reason: "this machine may have exports of its own; only guests serve".to_string(),
            });
        }
        match export {
            Export::Nfs(export) => nfs::serve(export, &mut self.mountd),
            Export::Smb(share) => smb::serve(share).map(|server| self.server = Some(server)),
        }
    }

    fn stop_serving(&mut self, protocol: ServeProtocol) -> Result<()> {
        match protocol {
            ServeProtocol::Nfs if self.is_guest => nfs::stop(&self.mountd),
            ServeProtocol::Nfs => Ok(()),
            ServeProtocol::Smb => self.server.take().map_or(Ok(()), smb::Server::stop),
        }
    }
}

impl Host for LocalHost {
    fn name(&self) -> String {
        "this machine".to_string()
    }

    fn image_descriptor(&mut self, image: ImageHandle, expected: &FileIdentity) -> Result<OwnedFd> {
        take_image(std::process::id(), self.image_number(image)?, expected)
    }

    fn guardian(&self) -> Box<dyn Guardian> {
        Box::new(LocalGuardian::new(&self.binary, Vec::new()))
    }

    fn start_recorder(&mut self) -> Result<Box<dyn Recorder>> {
        start_recorder(&self.binary, Vec::new())
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        start_engine(&self.binary, request, Vec::new())
    }
}

/// Tries a step until it is no longer busy, for [`BUSY_PATIENCE`], at growing intervals.
fn while_busy<T>(mut step: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match step() {
            Err(Errno::BUSY | Errno::AGAIN) if start.elapsed() < BUSY_PATIENCE => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

/// Major and minor of a device number as `stat` gives it.
fn device_number(number: u64) -> (u32, u32) {
    (rustix::fs::major(number), rustix::fs::minor(number))
}
