//! Guests: hosts that are created for one trial, with a kernel of the user's choice, and discarded after it.
//!
//! Whoever runs trials requests a guest by what it needs: a kernel, modules, programs and disks.
//! Implementations of [`Guests`] know how to create one. Nothing that happens inside a guest has to be
//! undone: it ends, together with what it had in memory. Its disks are files on the host, which whoever
//! requested the guest creates and removes.

use crate::remote::{Member, News};
use crate::{Host, HostError};
use fsdyno_core::{Bytes, GuestShape, KernelSpec, Nanos};
use serde::Serialize;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

/// The requirements on a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRequest {
    /// Its kernel.
    pub kernel: KernelSpec,
    /// Its processors, memory and disk cache.
    pub shape: GuestShape,
    /// The features that the kernel must support.
    pub modules: Vec<GuestModule>,
    /// Programs that are to be run in it.
    pub programs: Vec<GuestProgram>,
    /// The files behind its disks, in the order in which [`Guest::disks`] names them, for display: the guest
    /// gets them as descriptors.
    pub disks: Vec<PathBuf>,
}

/// A feature that a guest's kernel must have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestModule {
    /// The name of the module: `ext4`, `bfq`. It may also be built in.
    pub name: String,
    /// The step to take if a kernel does not have the module.
    pub hint: Option<String>,
}

impl From<&str> for GuestModule {
    fn from(name: &str) -> Self {
        GuestModule { name: name.to_string(), hint: None }
    }
}

/// A program that is to be run in a guest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestProgram {
    /// Its name.
    pub name: String,
    /// The Debian package that has it, for machines that do not.
    pub package: String,
}

/// A package that is downloaded before a guest starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Download {
    /// Its name.
    pub package: String,
    /// The size of the download, if the package source reports it.
    pub size: Option<Bytes>,
}

/// The context of a result that comes from a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestFacts {
    /// The program that runs it, and how: `QEMU 7.2.22, tcg, 2 processors, 1 GiB, disks with cache=none`.
    pub description: String,
    /// `true` if its processors are emulated by software.
    pub emulated: bool,
    /// Release of its kernel.
    pub release: String,
    /// Time from its start until its agent answered.
    pub boot: Nanos,
}

/// The device nodes that the kernel of a guest gives to this many disks: letters like the columns of a
/// spreadsheet (`virtblk_name_format` in drivers/block/virtio_blk.c).
pub fn disk_nodes(count: usize) -> Vec<PathBuf> {
    let one = || (b'a'..=b'z').map(|letter| char::from(letter).to_string());
    let two = one().flat_map(|first| one().map(move |second| format!("{first}{second}")));
    one().chain(two).take(count).map(|letters| PathBuf::from(format!("/dev/vd{letters}"))).collect()
}

/// A running guest. It ends when it is dropped.
pub trait Guest: Host {
    /// Its description.
    fn facts(&self) -> &GuestFacts;
    /// The nodes of its disks.
    fn disks(&self) -> Vec<PathBuf>;
    /// The last lines of its console, and how it ended if it has.
    fn last_words(&mut self) -> String;
    /// Ends it without writing anything back.
    fn end_now(&mut self);
    /// From now on, its engines work together with those of other guests, of which it has this number; its
    /// news go to whoever listens to all of them.
    ///
    /// # Errors
    /// If no thread can be started to listen to it.
    fn member(
        &self,
        name: String,
        number: usize,
        news: SyncSender<(usize, News)>,
    ) -> io::Result<Arc<dyn Member>>;
}

/// A guest that is wanted, and what it gets of this machine.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The requirements on the guest.
    pub request: &'a GuestRequest,
    /// Its disks, for reading and writing, in the order of the request.
    pub disks: &'a [OwnedFd],
    /// `true` if another guest has the last of the disks, too.
    pub shares_last: bool,
    /// Its network interfaces, from `eth0` on.
    pub links: &'a [Link],
}

/// One end of a cable between two guests.
#[derive(Debug)]
pub struct Link {
    /// One end of a pair of sockets.
    pub socket: OwnedFd,
    /// The address of the interface, as Ethernet has it.
    pub address: [u8; 6],
}

/// Both ends of a cable. Nothing else is connected to it, so all cables have the same two addresses, and
/// guests with as many of the same ends are alike.
///
/// # Errors
/// If no pair of sockets can be made.
pub fn cable() -> io::Result<(Link, Link)> {
    let (one, other) = UnixStream::pair()?;
    // Locally administered, as those that QEMU chooses itself.
    let link = |socket: UnixStream, end| Link {
        socket: socket.into(),
        address: [0x52, 0x54, 0x00, 0x00, 0x00, end],
    };
    Ok((link(one, 0), link(other, 1)))
}

/// Why there is no guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted {
    /// The error that kept the guest from starting.
    pub error: Box<HostError>,
    /// The last lines of the console, if it came that far.
    pub last_words: String,
}

impl From<HostError> for NotStarted {
    fn from(error: HostError) -> Self {
        NotStarted { error: Box::new(error), last_words: String::new() }
    }
}

/// Where guests come from.
pub trait Guests {
    /// Everything that keeps such a guest from being started, one line each. Nothing is started and nothing
    /// is downloaded.
    fn unmet(&mut self, request: &GuestRequest) -> Vec<String>;
    /// Returns whether the guests' processors are emulated, as far as that is known before a guest has run.
    fn are_emulated(&mut self) -> bool {
        true
    }
    /// The packages that such a guest needs and that are downloaded before it starts. Nothing is downloaded
    /// now.
    fn downloads(&mut self, _request: &GuestRequest) -> Vec<Download> {
        Vec::new()
    }
    /// Why there is no memory for these together; nothing if there is, or if nobody knows.
    fn lacks_memory_for(&mut self, _shapes: &[GuestShape]) -> Option<String> {
        None
    }
    /// Starts guests at the same time and waits until all of them answer, or until `interrupt` is set.
    ///
    /// # Errors
    /// A guest lacks something, a guest did not boot, or nobody was waiting for it any longer. No guest is
    /// left then.
    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        interrupt: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted>;

    /// Starts one that has no network.
    ///
    /// # Errors
    /// As for [`Guests::start_all`].
    fn start(
        &mut self,
        request: &GuestRequest,
        disks: &[OwnedFd],
        interrupt: &AtomicBool,
    ) -> Result<Box<dyn Guest>, NotStarted> {
        let started =
            self.start_all(&[Wanted { request, disks, shares_last: false, links: &[] }], interrupt)?.pop();
        Ok(started.expect("as many as were wanted"))
    }
}

/// No guests at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGuests;

impl Guests for NoGuests {
    fn unmet(&mut self, request: &GuestRequest) -> Vec<String> {
        vec![format!("guests are needed for kernel {}", request.kernel)]
    }

    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        _: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted> {
        let host = wanted.first().map(|one| one.request.kernel.to_string()).unwrap_or_default();
        let reason = "guests are not available here".to_string();
        Err(HostError::Lost { host, reason }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_beyond_the_last_letter_have_two() {
        let nodes = disk_nodes(28);
        assert_eq!(nodes.len(), 28);
        assert_eq!(nodes[0], PathBuf::from("/dev/vda"));
        assert_eq!(nodes[25..], ["/dev/vdz", "/dev/vdaa", "/dev/vdab"].map(PathBuf::from));
    }
}
