//! Hosts at the other end of a channel: a process on this machine, or a guest.
//!
//! [`crate::wire`] defines what crosses the channel: one line for each call of a method of [`Host`]. Anything
//! that can carry a question to the other end and the answer back, and abandon an end that does not answer,
//! is a host.

use crate::export::Export;
use crate::guardian::{Guardian, NoGuardian};
use crate::lines::shortened;
use crate::log::StepLog;
use crate::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo, Room};
use crate::recorder::{Recorder, not_here};
use crate::wire::{self, Request};
use crate::{
    AttachedLoop, Command, DeviceHandle, EngineProcess, Host, HostError, ImageHandle, LoopOptions,
    MountRequest, NewImage, Output, Result,
};
use fsdyno_core::environment::{ClientFacts, Confinement};
use fsdyno_core::result::{LogEntry, ServeProtocol};
use fsdyno_core::{Bytes, EngineRequest};
use serde::de::DeserializeOwned;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that the other end may take beyond the limit of a command, which it enforces itself.
const COMMAND_MARGIN: Duration = Duration::from_secs(10);

/// The times that steps may take before they are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A step that reads or changes little: 60 s.
    pub step: Duration,
    /// A step that may have to write back cached data to a slow device, especially an unmount: 300 s.
    pub flush: Duration,
    /// Removing whatever an engine left in a directory, possibly millions of files: an hour.
    pub tree: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            step: Duration::from_secs(60),
            flush: Duration::from_secs(300),
            tree: Duration::from_secs(3600),
        }
    }
}

impl Limits {
    /// Returns the time that a request may take; at most `most`, if given.
    pub fn of(&self, request: &Request, most: Option<Duration>) -> Duration {
        let usual = match request {
            Request::Run { command } => command.limit + COMMAND_MARGIN,
            Request::Unmount { .. }
            | Request::DetachLoop { .. }
            | Request::CloseDevice { .. }
            | Request::DowngradeDevice { .. }
            | Request::FillDevice { .. }
            | Request::CreateImage { .. } => self.flush,
            Request::RemoveTree { .. } => self.tree,
            _ => self.step,
        };
        most.map_or(usual, |most| most.min(usual))
    }
}

/// A way to another end that carries out requests. Everything that implements this is a [`Host`].
pub trait Channel {
    /// `this machine`, or the name of a guest.
    fn end(&self) -> String;
    /// Carries a request to the other end, and gives its answer, a line.
    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>>;
    /// Limits every step to this time instead of its usual limit; `None` restores the usual limits.
    fn be_patient(&mut self, limit: Option<Duration>);
    /// Takes over an image that the other end has open under this number, and verifies that it is this file.
    /// Only a process on the same machine can pass on descriptors.
    fn take_descriptor(&mut self, _number: i32, _expected: &FileIdentity) -> Result<OwnedFd> {
        Err(wire::no_descriptors())
    }
    /// Everything that works at the other end keeps this descriptor open until it is gone, if it could
    /// outlive this process.
    fn hold(&mut self, _lock: Arc<OwnedFd>) {}
    /// Returns whether the other end has ended on its own.
    fn is_over(&mut self) -> bool {
        false
    }
    /// Where steps are noted, if anybody wants to know.
    fn log(&mut self) -> Option<&mut StepLog> {
        None
    }
    /// Who starts commands of a user at the other end, if they can run there.
    fn guardian(&self) -> Option<Box<dyn Guardian>> {
        None
    }
    /// The fsdyno binary at the other end.
    fn binary(&self) -> std::io::Result<PathBuf> {
        std::env::current_exe()
    }
    /// Starts the process that records a disk, if it can be at the other end.
    fn recorder(&mut self) -> Result<Box<dyn Recorder>> {
        Err(not_here(&self.end()))
    }
    /// Another end of this kind for another thread, if there can be one.
    fn another(&self) -> Option<Box<dyn Host + Send>> {
        None
    }
    /// The machines that engines run on, if they are others.
    fn clients(&self) -> Vec<ClientFacts> {
        Vec::new()
    }
    /// Why one of these is lost, with its name, if one is.
    fn lost_client(&self) -> Option<String> {
        None
    }
    /// Starts an engine at the other end.
    fn engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>>;
}

/// A request as a line.
///
/// # Errors
/// If it cannot be written as JSON, because of a path that is not UTF-8.
pub fn question(request: &Request) -> Result<Vec<u8>> {
    wire::line(request).map_err(|error| HostError::System {
        action: "send the request".to_string(),
        object: request.to_string(),
        errno: 0,
        reason: error.to_string(),
    })
}

/// Parses an answer.
///
/// # Errors
/// The error that the other end reports; [`HostError::Lost`] if the answer is not valid.
pub fn understand<T: DeserializeOwned>(host: &str, line: &[u8]) -> Result<T> {
    serde_json::from_slice::<Result<T>>(line).unwrap_or_else(|error| {
        Err(HostError::Lost {
            host: host.to_string(),
            reason: format!("the agent's answer is not valid: {}", shortened(&error.to_string())),
        })
    })
}

fn call<T: DeserializeOwned>(channel: &mut impl Channel, request: &Request) -> Result<T> {
    let begun = Instant::now();
    let result = channel.exchange(request).and_then(|line| understand(&channel.end(), &line));
    if let Some(log) = channel.log() {
        log.note(request, begun.elapsed(), result.as_ref().err());
    }
    result
}

impl<C: Channel> Host for C {
    fn name(&self) -> String {
        self.end()
    }

    fn run(&mut self, command: &Command) -> Result<Output> {
        let output: Output = call(self, &Request::Run { command: command.clone() })?;
        if let (Some(log), true) = (self.log(), output.status != 0) {
            log.failed(output.status);
        }
        Ok(output)
    }

    fn confinement(&mut self) -> Result<Confinement> {
        call(self, &Request::Confinement)
    }

    fn find_program(&mut self, program: &str) -> Result<Option<PathBuf>> {
        call(self, &Request::FindProgram { program: program.to_string() })
    }

    fn read_text(&mut self, path: &Path) -> Result<String> {
        call(self, &Request::ReadText { path: path.to_path_buf() })
    }

    fn read_setting(&mut self, path: &Path) -> Result<String> {
        call(self, &Request::ReadSetting { path: path.to_path_buf() })
    }

    fn change_setting(&mut self, path: &Path, text: &str) -> Result<()> {
        call(self, &Request::ChangeSetting { path: path.to_path_buf(), text: text.to_string() })
    }

    fn list_directory(&mut self, path: &Path) -> Result<Vec<String>> {
        call(self, &Request::ListDirectory { path: path.to_path_buf() })
    }

    fn create_directory(&mut self, path: &Path) -> Result<()> {
        call(self, &Request::CreateDirectory { path: path.to_path_buf() })
    }

    fn remove_directory(&mut self, path: &Path) -> Result<()> {
        call(self, &Request::RemoveDirectory { path: path.to_path_buf() })
    }

    fn remove_trace_instance(&mut self, name: &str) -> Result<bool> {
        call(self, &Request::RemoveTraceInstance { name: name.to_string() })
    }

    fn remove_tree(&mut self, path: &Path) -> Result<()> {
        call(self, &Request::RemoveTree { path: path.to_path_buf() })
    }

    fn file_identity(&mut self, path: &Path) -> Result<Option<FileIdentity>> {
        call(self, &Request::FileIdentity { path: path.to_path_buf() })
    }

    fn verify_directory(&mut self, path: &Path) -> Result<()> {
        call(self, &Request::VerifyDirectory { path: path.to_path_buf() })
    }

    fn verify_uncontested(&mut self, path: &Path) -> Result<()> {
        call(self, &Request::VerifyUncontested { path: path.to_path_buf() })
    }

    fn create_image(&mut self, path: &Path, size: Bytes) -> Result<NewImage> {
        call(self, &Request::CreateImage { path: path.to_path_buf(), size })
    }

    fn rename_image(&mut self, image: ImageHandle, path: &Path) -> Result<()> {
        call(self, &Request::RenameImage { image, path: path.to_path_buf() })
    }

    fn image_descriptor(&mut self, image: ImageHandle, expected: &FileIdentity) -> Result<OwnedFd> {
        let number = call(self, &Request::ImageDescriptor { image })?;
        self.take_descriptor(number, expected)
    }

    fn close_image(&mut self, image: ImageHandle) -> Result<()> {
        call(self, &Request::CloseImage { image })
    }

    fn remove_file(&mut self, path: &Path, expected: &FileIdentity) -> Result<()> {
        call(self, &Request::RemoveFile { path: path.to_path_buf(), expected: expected.clone() })
    }

    fn room(&mut self, path: &Path) -> Result<Room> {
        call(self, &Request::Room { path: path.to_path_buf() })
    }

    fn loops(&mut self) -> Result<Vec<LoopInfo>> {
        call(self, &Request::Loops)
    }

    fn attach_loop(&mut self, image: ImageHandle, options: &LoopOptions) -> Result<AttachedLoop> {
        call(self, &Request::AttachLoop { image, options: options.clone() })
    }

    fn detach_loop(&mut self, attached: &LoopInfo) -> Result<()> {
        call(self, &Request::DetachLoop { attached: attached.clone() })
    }

    fn probe_device(&mut self, path: &Path) -> Result<DeviceProbe> {
        call(self, &Request::ProbeDevice { path: path.to_path_buf() })
    }

    fn open_device(&mut self, path: &Path, expected: &DeviceIdentity) -> Result<DeviceHandle> {
        call(self, &Request::OpenDevice { path: path.to_path_buf(), expected: expected.clone() })
    }

    fn verify_device(&mut self, handle: DeviceHandle, expected: &DeviceIdentity) -> Result<()> {
        call(self, &Request::VerifyDevice { handle, expected: expected.clone() })
    }

    fn is_claimed(&mut self, handle: DeviceHandle) -> Result<bool> {
        call(self, &Request::IsClaimed { handle })
    }

    fn mark_device(&mut self, handle: DeviceHandle, node: &Path) -> Result<()> {
        call(self, &Request::MarkDevice { handle, node: node.to_path_buf() })
    }

    fn fill_device(&mut self, handle: DeviceHandle, node: &Path, from: u64, length: u64) -> Result<()> {
        call(self, &Request::FillDevice { handle, node: node.to_path_buf(), from, length })
    }

    fn downgrade_device(&mut self, handle: DeviceHandle) -> Result<()> {
        call(self, &Request::DowngradeDevice { handle })
    }

    fn close_device(&mut self, handle: DeviceHandle) -> Result<()> {
        call(self, &Request::CloseDevice { handle })
    }

    fn mount(&mut self, request: &MountRequest) -> Result<()> {
        call(self, &Request::Mount { request: request.clone() })
    }

    fn unmount(&mut self, target: &Path) -> Result<()> {
        call(self, &Request::Unmount { target: target.to_path_buf() })
    }

    fn mounts(&mut self) -> Result<Vec<MountInfo>> {
        call(self, &Request::Mounts)
    }

    fn serve(&mut self, export: &Export) -> Result<()> {
        call(self, &Request::Serve { export: export.clone() })
    }

    fn stop_serving(&mut self, protocol: ServeProtocol) -> Result<()> {
        call(self, &Request::StopServing { protocol })
    }

    fn has_ended(&mut self) -> bool {
        self.is_over()
    }

    fn limit_steps(&mut self, limit: Option<Duration>) {
        self.be_patient(limit);
    }

    fn take_log(&mut self) -> Vec<LogEntry> {
        self.log().map(StepLog::take).unwrap_or_default()
    }

    fn hold(&mut self, lock: Arc<OwnedFd>) {
        Channel::hold(self, lock);
    }

    fn guardian(&self) -> Box<dyn Guardian> {
        Channel::guardian(self).unwrap_or_else(|| Box::new(NoGuardian(self.end())))
    }

    fn own_binary(&self) -> std::io::Result<PathBuf> {
        self.binary()
    }

    fn start_recorder(&mut self) -> Result<Box<dyn Recorder>> {
        self.recorder()
    }

    fn another(&self) -> Option<Box<dyn Host + Send>> {
        Channel::another(self)
    }

    fn clients(&self) -> Vec<ClientFacts> {
        Channel::clients(self)
    }

    fn lost_client(&self) -> Option<String> {
        Channel::lost_client(self)
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.engine(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_understood_is_told_in_a_few_words() {
        let line = format!("{{\"{}\":1}}", "x".repeat(1 << 20));
        let error = understand::<bool>("guest", line.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 1000 && error.contains("unknown variant"), "{} bytes", error.len());
    }
}
