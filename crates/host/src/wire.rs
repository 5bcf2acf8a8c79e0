//! The [`Host`] trait as lines of JSON: requests and responses alternate.
//!
//! Each [`Request`] mirrors one method; the response is the method's own result, `{"Ok": ...}` or `{"Err":
//! ...}` with a [`HostError`], whose type the asker knows. [`Host::start_engine`] is missing: an engine has
//! its own protocol and its own process. Paths that are not UTF-8 cannot be sent.

use crate::export::Export;
use crate::probe::{DeviceIdentity, FileIdentity, LoopInfo};
use crate::{Command, DeviceHandle, Host, HostError, ImageHandle, LoopOptions, MountRequest};
use fsdyno_core::Bytes;
use fsdyno_core::result::ServeProtocol;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Version of this protocol; both ends must have the same.
pub const VERSION: u32 = 5;

/// One call of a method of [`Host`]. The fields are its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "variants and fields are the methods of Host and their arguments")]
pub enum Request {
    /// The first line: the version, what no device may carry, and where handles begin.
    Hello {
        version: u32,
        protected: Vec<(String, PathBuf)>,
        first_handle: u64,
    },
    Run {
        command: Command,
    },
    Confinement,
    FindProgram {
        program: String,
    },
    ReadText {
        path: PathBuf,
    },
    ReadSetting {
        path: PathBuf,
    },
    ChangeSetting {
        path: PathBuf,
        text: String,
    },
    ListDirectory {
        path: PathBuf,
    },
    CreateDirectory {
        path: PathBuf,
    },
    RemoveDirectory {
        path: PathBuf,
    },
    RemoveTraceInstance {
        name: String,
    },
    RemoveTree {
        path: PathBuf,
    },
    FileIdentity {
        path: PathBuf,
    },
    VerifyDirectory {
        path: PathBuf,
    },
    VerifyUncontested {
        path: PathBuf,
    },
    CreateImage {
        path: PathBuf,
        size: Bytes,
    },
    RenameImage {
        image: ImageHandle,
        path: PathBuf,
    },
    /// The answer to [`Host::image_descriptor`]: its number in the process that answers.
    ImageDescriptor {
        image: ImageHandle,
    },
    CloseImage {
        image: ImageHandle,
    },
    RemoveFile {
        path: PathBuf,
        expected: FileIdentity,
    },
    Room {
        path: PathBuf,
    },
    Loops,
    AttachLoop {
        image: ImageHandle,
        options: LoopOptions,
    },
    DetachLoop {
        attached: LoopInfo,
    },
    ProbeDevice {
        path: PathBuf,
    },
    OpenDevice {
        path: PathBuf,
        expected: DeviceIdentity,
    },
    VerifyDevice {
        handle: DeviceHandle,
        expected: DeviceIdentity,
    },
    IsClaimed {
        handle: DeviceHandle,
    },
    MarkDevice {
        handle: DeviceHandle,
        node: PathBuf,
    },
    FillDevice {
        handle: DeviceHandle,
        node: PathBuf,
        from: u64,
        length: u64,
    },
    DowngradeDevice {
        handle: DeviceHandle,
    },
    CloseDevice {
        handle: DeviceHandle,
    },
    Mount {
        request: MountRequest,
    },
    Unmount {
        target: PathBuf,
    },
    Mounts,
    Serve {
        export: Export,
    },
    StopServing {
        protocol: ServeProtocol,
    },
}

/// Carries out a request on a host and returns the response as a line, including its newline.
///
/// # Errors
/// If the response cannot be written as JSON, because of a path that is not UTF-8.
pub fn answer(request: &Request, host: &mut dyn Host) -> serde_json::Result<Vec<u8>> {
    match request {
        Request::Hello { version, .. } => line(&hello(*version)),
        Request::Run { command } => line(&host.run(command)),
        Request::Confinement => line(&host.confinement()),
        Request::FindProgram { program } => line(&host.find_program(program)),
        Request::ReadText { path } => line(&host.read_text(path)),
        Request::ReadSetting { path } => line(&host.read_setting(path)),
        Request::ChangeSetting { path, text } => line(&host.change_setting(path, text)),
        Request::ListDirectory { path } => line(&host.list_directory(path)),
        Request::CreateDirectory { path } => line(&host.create_directory(path)),
        Request::RemoveDirectory { path } => line(&host.remove_directory(path)),
        Request::RemoveTraceInstance { name } => line(&host.remove_trace_instance(name)),
        Request::RemoveTree { path } => line(&host.remove_tree(path)),
        Request::FileIdentity { path } => line(&host.file_identity(path)),
        Request::VerifyDirectory { path } => line(&host.verify_directory(path)),
        Request::VerifyUncontested { path } => line(&host.verify_uncontested(path)),
        Request::CreateImage { path, size } => line(&host.create_image(path, *size)),
        Request::RenameImage { image, path } => line(&host.rename_image(*image, path)),
        Request::ImageDescriptor { .. } => line(&Err::<i32, _>(no_descriptors())),
        Request::CloseImage { image } => line(&host.close_image(*image)),
        Request::RemoveFile { path, expected } => line(&host.remove_file(path, expected)),
        Request::Room { path } => line(&host.room(path)),
        Request::Loops => line(&host.loops()),
        Request::AttachLoop { image, options } => line(&host.attach_loop(*image, options)),
        Request::DetachLoop { attached } => line(&host.detach_loop(attached)),
        Request::ProbeDevice { path } => line(&host.probe_device(path)),
        Request::OpenDevice { path, expected } => line(&host.open_device(path, expected)),
        Request::VerifyDevice { handle, expected } => line(&host.verify_device(*handle, expected)),
        Request::IsClaimed { handle } => line(&host.is_claimed(*handle)),
        Request::MarkDevice { handle, node } => line(&host.mark_device(*handle, node)),
        Request::FillDevice { handle, node, from, length } => {
            line(&host.fill_device(*handle, node, *from, *length))
        }
        Request::DowngradeDevice { handle } => line(&host.downgrade_device(*handle)),
        Request::CloseDevice { handle } => line(&host.close_device(*handle)),
        Request::Mount { request } => line(&host.mount(request)),
        Request::Unmount { target } => line(&host.unmount(target)),
        Request::Mounts => line(&host.mounts()),
        Request::Serve { export } => line(&host.serve(export)),
        Request::StopServing { protocol } => line(&host.stop_serving(*protocol)),
    }
}

fn hello(version: u32) -> Result<u32, HostError> {
    if version == VERSION {
        return Ok(VERSION);
    }
    Err(HostError::Lost {
        host: "agent".to_string(),
        reason: format!("it speaks version {VERSION} of the protocol, not {version}"),
    })
}

/// The answer of a host that cannot pass on descriptors; an agent on the same machine can.
pub(crate) fn no_descriptors() -> HostError {
    HostError::System {
        action: "pass on".to_string(),
        object: "the descriptor of an image".to_string(),
        errno: 0,
        reason: "only an agent on the same machine can do this".to_string(),
    }
}

/// A value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The action in progress, for messages: `unmounting '/mnt'`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (action, object) = match self {
            Request::Hello { .. } => return f.write_str("starting the agent"),
            Request::Loops => return f.write_str("listing the loop devices"),
            Request::Confinement => return f.write_str("querying what the kernel blocks"),
            Request::Mounts => return f.write_str("listing the mounts"),
            Request::StopServing { .. } => return f.write_str("stopping the server"),
            Request::VerifyDevice { handle, .. } => {
                return write!(f, "verifying the device of handle {}", handle.0);
            }
            Request::IsClaimed { handle } => {
                return write!(f, "trying to claim the device of handle {}", handle.0);
            }
            Request::MarkDevice { node, .. } => ("marking", node),
            Request::FillDevice { node, .. } => ("filling", node),
            Request::DowngradeDevice { handle } => {
                return write!(f, "closing the device of handle {} for writing", handle.0);
            }
            Request::CloseDevice { handle } => return write!(f, "closing the device of handle {}", handle.0),
            Request::ImageDescriptor { image } => {
                return write!(f, "passing on the image of handle {}", image.0);
            }
            Request::CloseImage { image } => return write!(f, "closing the image of handle {}", image.0),
            Request::AttachLoop { image, .. } => {
                return write!(f, "attaching a loop device to the image of handle {}", image.0);
            }
            Request::Run { command } => return write!(f, "'{}'", command.line()),
            Request::RemoveTraceInstance { name } => {
                return write!(f, "removing the trace instance '{name}'");
            }
            Request::FindProgram { program } => return write!(f, "searching for program '{program}'"),
            Request::ReadText { path } => ("reading", path),
            Request::ReadSetting { path } => ("reading the setting", path),
            Request::ChangeSetting { path, .. } => ("changing the setting", path),
            Request::ListDirectory { path } => ("listing the directory", path),
            Request::CreateDirectory { path } => ("creating the directory", path),
            Request::RemoveDirectory { path } => ("removing the directory", path),
            Request::RemoveTree { path } => ("removing the tree", path),
            Request::FileIdentity { path } => ("examining", path),
            Request::CreateImage { path, .. } => ("creating the image", path),
            Request::VerifyDirectory { path } | Request::VerifyUncontested { path } => {
                ("opening the directory", path)
            }
            Request::RenameImage { path, .. } => ("renaming the image", path),
            Request::RemoveFile { path, .. } => ("removing", path),
            Request::Room { path } => ("determining the free space of", path),
            Request::DetachLoop { attached } => ("detaching the loop device", &attached.device),
            Request::ProbeDevice { path } => ("probing", path),
            Request::OpenDevice { path, .. } => ("opening", path),
            Request::Mount { request } => ("mounting", &request.source),
            Request::Unmount { target } => ("unmounting", target),
            Request::Serve { export } => return write!(f, "exporting '{}'", export.directory().display()),
        };
        write!(f, "{action} '{}'", object.display())
    }
}
