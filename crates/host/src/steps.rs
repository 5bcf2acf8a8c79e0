//! The steps that a host carries out, each declared once.
//!
//! From a declaration come the method of [`Steps`], the [`Request`] that crosses a [`Channel`], its limit,
//! its words in messages, and its line in the log. What is left to write is the step itself, in
//! [`crate::local`], and what it means to the machine in memory of the tests, in `testkit`.

use crate::export::{Export, end_of};
use crate::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo, Room};
use crate::{
    AttachedLoop, Command, DeviceHandle, ImageHandle, LoopOptions, MountRequest, NewImage, Output, Result,
    quoted, wire,
};
use fsdyno_core::Bytes;
use fsdyno_core::environment::Confinement;
use fsdyno_core::result::ServeProtocol;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time that the other end may take beyond the limit of a program, which it enforces itself.
const PROGRAM_MARGIN: Duration = Duration::from_secs(10);

/// The kind of limit on the time of a step; [`Limits`] has the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It reads or changes little.
    Step,
    /// It may have to write back cached data to a slow device.
    Flush,
    /// It removes whatever an engine left in a directory, possibly millions of files.
    Tree,
    /// It runs a program, which has a limit of its own.
    Program(Duration),
}

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
        let usual = match request.limit() {
            Limit::Step => self.step,
            Limit::Flush => self.flush,
            Limit::Tree => self.tree,
            Limit::Program(limit) => limit,
        };
        most.map_or(usual, |most| most.min(usual))
    }
}

/// The first of several expressions: what was declared, or else the default after it.
macro_rules! first {
    ($first:expr $(, $other:expr)*) => {
        $first
    };
}

/// Declares the steps. An argument is passed on as it is declared, by reference or as a copy.
///
/// `doing` are the words for a step in progress, `logged` is the step as a user would type it, if it changes
/// anything, and `failure` says what makes an answer a failed step in the log.
macro_rules! steps {
    ($(
        $(#[$doc:meta])*
        $step:ident = $method:ident($($field:ident: $(&$borrowed:ident)? $($copied:ident)?),*) -> $answer:ty {
            doing: $doing:expr,
            $(limit: $limit:expr,)?
            $(logged: $logged:expr,)?
            $(failure: $failure:expr,)?
        }
    )*) => {
        /// Single steps on a machine, each of which can be carried out elsewhere: see [`Host`](crate::Host).
        pub trait Steps {
            $(
                $(#[$doc])*
                fn $method(&mut self, $($field: $(&$borrowed)? $($copied)?),*) -> Result<$answer>;
            )*
        }

        /// One call of a method of [`Steps`]. The fields are its arguments; the response is its result.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the fields are arguments of the methods of Steps")]
        pub enum Request {
            $(
                $(#[$doc])*
                $step { $($field: $(<$borrowed as ToOwned>::Owned)? $($copied)?),* },
            )*
        }

        impl Request {
            /// Carries it out and returns the response as a line, including its newline.
            ///
            /// # Errors
            /// If the response cannot be written as JSON, because of a path that is not UTF-8.
            pub fn carry_out(&self, host: &mut (impl Steps + ?Sized)) -> serde_json::Result<Vec<u8>> {
                match self {
                    $(Request::$step { $($field),* } => wire::line(&host.$method(
                        $($(Borrow::<$borrowed>::borrow($field))? $(<$copied as Clone>::clone($field))?),*
                    )),)*
                }
            }

            /// The time that it may take.
            pub fn limit(&self) -> Limit {
                match self {
                    $(Request::$step { $($field),* } => {
                        $(let _ = $field;)*
                        first!($($limit,)? Limit::Step)
                    })*
                }
            }

            /// The step as a user would type it; `None` for one that only looks.
            pub fn logged(&self) -> Option<String> {
                match self {
                    $(Request::$step { $($field),* } => {
                        $(let _ = $field;)*
                        first!($(Some($logged),)? None)
                    })*
                }
            }
        }

        /// The action in progress, for messages: `unmounting '/mnt'`.
        impl fmt::Display for Request {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let doing: String = match self {
                    $(Request::$step { $($field),* } => {
                        $(let _ = $field;)*
                        $doing
                    })*
                };
                f.write_str(&doing)
            }
        }

        impl<C: Channel> Steps for C {
            $(
                fn $method(&mut self, $($field: $(&$borrowed)? $($copied)?),*) -> Result<$answer> {
                    let request = Request::$step { $(
                        $field: $(<$borrowed as ToOwned>::to_owned($field))? $(<$copied as Clone>::clone(&$field))?
                    ),* };
                    call(self, &request, first!($($failure,)? |_: &$answer| None))
                }
            )*
        }
    };
}

steps! {
    /// Runs a program until it exits. A status other than 0 is not an error here.
    Run = run(command: &Command) -> Output {
        doing: format!("'{}'", command.line()),
        limit: Limit::Program(command.limit + PROGRAM_MARGIN),
        logged: command.line(),
        failure: Output::failure,
    }
    /// Returns the restrictions that the kernel of this host imposes on programs and engines.
    Confinement = confinement() -> Confinement {
        doing: "querying what the kernel blocks".to_string(),
    }
    /// Where a program is, if it is installed.
    FindProgram = find_program(program: &str) -> Option<PathBuf> {
        doing: format!("searching for program '{program}'"),
    }

    /// A file of sysfs or procfs, or any small text file.
    ReadText = read_text(path: &Path) -> String {
        doing: at("reading", path),
    }
    /// The exact text of a setting ([`crate::setting::HostSetting`]). One that could not be restored as it
    /// is, because it is too long, empty or not text, is an error.
    ReadSetting = read_setting(path: &Path) -> String {
        doing: at("reading the setting", path),
    }
    /// Writes a setting ([`crate::setting::HostSetting`]), which must exist; every other file is refused.
    ChangeSetting = change_setting(path: &Path, text: &str) -> () {
        doing: at("changing the setting", path),
        logged: typed(&format!("echo {} >", quoted(text.trim())), path),
    }
    /// The names in a directory, sorted.
    ListDirectory = list_directory(path: &Path) -> Vec<String> {
        doing: at("listing the directory", path),
    }

    /// Makes a directory; it must not exist.
    CreateDirectory = create_directory(path: &Path) -> () {
        doing: at("creating the directory", path),
        logged: typed("mkdir", path),
    }
    /// Removes an empty directory.
    RemoveDirectory = remove_directory(path: &Path) -> () {
        doing: at("removing the directory", path),
        logged: typed("rmdir", path),
    }
    /// Removes an instance of the kernel's tracing, and returns whether there was one of this name.
    RemoveTraceInstance = remove_trace_instance(name: &str) -> bool {
        doing: format!("removing the trace instance '{name}'"),
        logged: typed("rmdir", &Path::new("/sys/kernel/tracing/instances").join(name)),
    }
    /// Removes a directory with everything in it, following no links and entering no other filesystem.
    RemoveTree = remove_tree(path: &Path) -> () {
        doing: at("removing the tree", path),
        limit: Limit::Tree,
        logged: typed("rm -r", path),
    }
    /// Returns the identity of the file at a path, without following links; `None` if there is none.
    FileIdentity = file_identity(path: &Path) -> Option<FileIdentity> {
        doing: at("examining", path),
    }
    /// Checks that an image may be created in this directory, which is opened as in [`Steps::create_image`].
    VerifyDirectory = verify_directory(path: &Path) -> () {
        doing: at("opening the directory", path),
    }
    /// Checks that directories that are made in this one can be used by their paths: as root only if no other
    /// user can put something else in their place.
    VerifyUncontested = verify_uncontested(path: &Path) -> () {
        doing: at("opening the directory", path),
    }
    /// Creates a sparse file of this apparent size with `O_EXCL`, and syncs it. Its directory is opened once,
    /// without following any symbolic link that another user could change; directory and file stay open, and
    /// everything is done with these descriptors.
    CreateImage = create_image(path: &Path, size: Bytes) -> NewImage {
        doing: at("creating the image", path),
        limit: Limit::Flush,
        logged: typed(&format!("truncate --size {}", size.0), path),
    }
    /// Gives an image another name in its directory, without replacing (`RENAME_NOREPLACE`).
    RenameImage = rename_image(image: ImageHandle, path: &Path) -> () {
        doing: at("renaming the image", path),
        logged: typed("mv IMAGE", path),
    }
    /// The number of the descriptor of an image in the process that carries out steps.
    ImageNumber = image_number(image: ImageHandle) -> i32 {
        doing: format!("passing on the image of handle {}", image.0),
    }
    /// Closes an image.
    CloseImage = close_image(image: ImageHandle) -> () {
        doing: format!("closing the image of handle {}", image.0),
    }
    /// Removes a file if it is still this one.
    RemoveFile = remove_file(path: &Path, expected: &FileIdentity) -> () {
        doing: at("removing", path),
        logged: typed("rm", path),
    }
    /// The free space in the filesystem that holds this path.
    Room = room(path: &Path) -> Room {
        doing: at("determining the free space of", path),
    }

    /// Every attached loop device.
    Loops = loops() -> Vec<LoopInfo> {
        doing: "listing the loop devices".to_string(),
    }
    /// Attaches an image to a free loop device by its descriptor (`LOOP_CONFIGURE`), and checks which file
    /// the device reports.
    AttachLoop = attach_loop(image: ImageHandle, options: &LoopOptions) -> AttachedLoop {
        doing: format!("attaching a loop device to the image of handle {}", image.0),
        logged: format!(
            "losetup --find --direct-io={} --sector-size {} IMAGE",
            if options.direct_io { "on" } else { "off" },
            options.block_size
        ),
    }
    /// Detaches a loop device now, if it still has the file and the sequence number that [`Steps::loops`]
    /// reported; busy is an error, there is no lazy detaching.
    DetachLoop = detach_loop(attached: &LoopInfo) -> () {
        doing: at("detaching the loop device", &attached.device),
        limit: Limit::Flush,
        logged: typed("losetup --detach", &attached.device),
    }

    /// Everything that the guards need to know of a device.
    ProbeDevice = probe_device(path: &Path) -> DeviceProbe {
        doing: at("probing", path),
    }
    /// Opens a device for reading and writing, takes an exclusive flock, and verifies its identity on the
    /// descriptor.
    OpenDevice = open_device(path: &Path, expected: &DeviceIdentity) -> DeviceHandle {
        doing: at("opening", path),
    }
    /// Verifies the identity again on the open descriptor.
    VerifyDevice = verify_device(handle: DeviceHandle, expected: &DeviceIdentity) -> () {
        doing: format!("verifying the device of handle {}", handle.0),
    }
    /// Returns whether somebody claims an open device exclusively: a mount, an array, swap, another opener
    /// with `O_EXCL`.
    IsClaimed = is_claimed(handle: DeviceHandle) -> bool {
        doing: format!("trying to claim the device of handle {}", handle.0),
    }
    /// Writes fsdyno's mark into the first sector of an open device, by which any later probe recognises that
    /// its content was fsdyno's ([`crate::probe::SCRATCH_MARK`]). `node` is for whoever reads about it.
    MarkDevice = mark_device(handle: DeviceHandle, node: &Path) -> () {
        doing: at("marking", node),
        logged: format!("mark {} as scratch", node.display()),
    }
    /// Writes random data to this range of an open device, in order, and waits until all of it is on the
    /// device. No two of its blocks are equal. `node` is for whoever reads about it.
    FillDevice = fill_device(handle: DeviceHandle, node: &Path, from: u64, length: u64) -> () {
        doing: at("filling", node),
        limit: Limit::Flush,
        logged: format!("fill {} with random data", node.display()),
    }
    /// Gives up the lock of an open device and the right to write to it, as a mount requires; the descriptor
    /// that stays open keeps the kernel from giving the device's number to another one.
    DowngradeDevice = downgrade_device(handle: DeviceHandle) -> () {
        doing: format!("closing the device of handle {} for writing", handle.0),
        limit: Limit::Flush,
    }
    /// Closes a device and gives up its lock.
    CloseDevice = close_device(handle: DeviceHandle) -> () {
        doing: format!("closing the device of handle {}", handle.0),
        limit: Limit::Flush,
    }

    /// Mounts (fsopen, fsconfig per option, fsmount, move_mount).
    Mount = mount(request: &MountRequest) -> () {
        doing: at("mounting", &request.source),
        logged: request.line(),
    }
    /// Unmounts; busy is an error, there is no lazy unmounting.
    Unmount = unmount(target: &Path) -> () {
        doing: at("unmounting", target),
        limit: Limit::Flush,
        logged: typed("umount", target),
    }
    /// Every mount that this process sees (`/proc/self/mountinfo`).
    Mounts = mounts() -> Vec<MountInfo> {
        doing: "listing the mounts".to_string(),
    }

    /// Starts a server with one export: the kernel's, or Samba's. Only a guest does: other machines may have
    /// exports of their own.
    Serve = serve(export: &Export) -> () {
        doing: at("exporting", export.directory()),
        logged: export.lines().join("; "),
    }
    /// Stops it, and makes it forget the export, whose filesystem can then be unmounted.
    StopServing = stop_serving(protocol: ServeProtocol) -> () {
        doing: "stopping the server".to_string(),
        logged: end_of(*protocol).to_string(),
    }
}

/// A way to another end that carries out requests. Everything that implements this has its [`Steps`].
pub trait Channel {
    /// `this machine`, or the name of a guest.
    fn end(&self) -> String;
    /// Carries a request to the other end, and gives its answer, a line.
    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>>;
    /// Notes a step that has ended, and why it failed, if it did.
    fn note(&mut self, _request: &Request, _took: Duration, _failure: Option<String>) {}
}

/// Carries out a request at the other end, and notes it. `failure` says what makes an answer a failed step.
fn call<T: DeserializeOwned>(
    channel: &mut impl Channel,
    request: &Request,
    failure: impl Fn(&T) -> Option<String>,
) -> Result<T> {
    let begun = Instant::now();
    let result = channel.exchange(request).and_then(|line| wire::understand(&channel.end(), &line));
    let failure = match &result {
        Ok(answer) => failure(answer),
        Err(error) => Some(error.to_string()),
    };
    channel.note(request, begun.elapsed(), failure);
    result
}

/// An action on a path.
fn at(action: &str, path: &Path) -> String {
    format!("{action} '{}'", path.display())
}

/// A command on a path as a user would type it.
fn typed(command: &str, path: &Path) -> String {
    format!("{command} {}", quoted(&path.to_string_lossy()))
}
