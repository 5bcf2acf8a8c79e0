//! Recording tracepoints.

use crate::page;
use crate::tracepoint::{Tracefs, Tracepoint, Unavailable};
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// KiB of the kernel's buffer for each instance and processor: a quarter of a second of the quickest loads.
const BUFFER_KIB: u32 = 16 << 10;
/// The interval at which the buffers are read.
const PAUSE: Duration = Duration::from_millis(20);
/// The largest number of events that are kept of one trial; the rest counts as lost. Each takes 50 bytes.
const MOST: usize = 40_000_000;
/// Bytes of the largest page of a buffer.
const PAGE: usize = 64 << 10;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Witnessed {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub time_ns: u64,
    /// The thread in which it happened.
    pub thread: u32,
    pub what: What,
}

/// The kind of an event, with its details.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    /// A system call was entered, with its number and three arguments.
    Enter { number: i64, arguments: [u64; 3] },
    /// A system call returned this.
    Exit { value: i64 },
    /// A request was submitted to a ring.
    Submit { opcode: u8 },
    /// A block device completed this many bytes of a request.
    Completed { device: u32, bytes: u64, writes: bool },
}

/// The events that were heard since the last time.
#[derive(Debug, Default)]
pub struct Overheard {
    pub(crate) moments: Vec<Witnessed>,
    /// Thread, since when, and its name.
    pub(crate) names: Vec<(u32, u64, String)>,
    /// Events that the kernel or this listener had no room for.
    pub lost: u64,
}

/// The kind of event that a tracepoint is about.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Enter,
    Exit,
    Submit,
    Rename,
    Block,
}

/// Tracepoints of the threads under observation; of those with two names, the kernel has one or the other.
const OF_THREADS: [(Kind, &[&str]); 4] = [
    (Kind::Enter, &["raw_syscalls/sys_enter"]),
    (Kind::Exit, &["raw_syscalls/sys_exit"]),
    (Kind::Rename, &["task/task_rename"]),
    (Kind::Submit, &["io_uring/io_uring_submit_req", "io_uring/io_uring_submit_sqe"]),
];
/// Interrupts and kernel threads complete requests, so these are of the whole machine.
const OF_DEVICES: [(Kind, &[&str]); 1] = [(Kind::Block, &["block/block_rq_complete"])];

/// Records the calling thread and every thread and process that it starts from now on, and the block devices
/// of the whole machine, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    wanted: Sender<()>,
    heard: Receiver<Overheard>,
}

impl Listener {
    /// Begins to listen, with two instances of the kernel's tracing of these names. They must not exist, stay
    /// until [`fsdyno_sys::tracefs::remove_instance`], and can be removed once the listener was dropped.
    ///
    /// # Errors
    /// [`Unavailable`], as for everyone but root.
    pub fn begin([threads, devices]: [&str; 2]) -> Result<Listener, Unavailable> {
        let tracefs = Tracefs::open()?;
        let (wanted, requests) = channel();
        let (answers, heard) = channel();
        let (hand_over, buffers) = channel::<Vec<Buffer>>();
        // It starts before anything is recorded, so that it does not record itself.
        std::thread::Builder::new()
            .name("witness".to_string())
            .spawn(move || {
                if let Ok(buffers) = buffers.recv() {
                    listen(buffers, &requests, &answers);
                }
            })
            .map_err(Unavailable::Thread)?;
        let mut buffers = record(&tracefs, threads, &OF_THREADS, true)?;
        buffers.extend(record(&tracefs, devices, &OF_DEVICES, false)?);
        // The thread is gone only if it panicked, and then nothing is heard.
        let _ = hand_over.send(buffers);
        Ok(Listener { wanted, heard })
    }

    /// Everything since the last time.
    pub fn take(&self) -> Overheard {
        let _ = self.wanted.send(());
        self.heard.recv().unwrap_or(Overheard { lost: u64::MAX, ..Overheard::default() })
    }

    /// Ends it, and waits until nothing reads from its instances any more.
    pub fn end(self) {
        drop(self.wanted);
        while self.heard.recv().is_ok() {}
    }
}

/// The number of a block device as the kernel has it in tracepoints: `major << 20 | minor`.
pub(crate) fn device_number(node: &Path) -> Option<u32> {
    let number = std::fs::metadata(node).ok()?.st_rdev();
    Some(rustix::fs::major(number) << 20 | rustix::fs::minor(number))
}

/// Creates an instance that records these tracepoints, of this thread and all that it starts or of everybody.
fn record(
    tracefs: &Tracefs,
    name: &str,
    wanted: &[(Kind, &[&str])],
    own: bool,
) -> Result<Vec<Buffer>, Unavailable> {
    let instance = tracefs.instance(name)?;
    instance.write("trace_clock", "mono")?;
    instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
    if own {
        instance.write("options/event-fork", "1")?;
        instance.write("set_event_pid", &rustix::thread::gettid().as_raw_nonzero().to_string())?;
    }
    let mut tracepoints = Vec::new();
    for (kind, names) in wanted {
        let found = names.iter().find_map(|name| Some((*name, instance.find(name).ok()?)));
        match (found, kind) {
            (Some((name, tracepoint)), kind) => {
                instance.write(&format!("events/{name}/enable"), "1")?;
                tracepoints.push((*kind, tracepoint));
            }
            // A kernel without io_uring has no loads that use it.
            (None, Kind::Submit) => {}
            (None, _) => return Err(Unavailable::Tracepoint(names[0].to_string())),
        }
    }
    let buffer = |file| Buffer { file, tracepoints: tracepoints.clone() };
    Ok(instance.buffers()?.into_iter().map(buffer).collect())
}

/// The buffer of one processor.
#[derive(Debug)]
struct Buffer {
    file: OwnedFd,
    tracepoints: Vec<(Kind, Tracepoint)>,
}

/// Reads the buffers until the listener is gone.
fn listen(buffers: Vec<Buffer>, requests: &Receiver<()>, answers: &Sender<Overheard>) {
    let mut heard = Overheard::default();
    let mut page = vec![0; PAGE];
    loop {
        let asked = requests.recv_timeout(PAUSE);
        for buffer in &buffers {
            buffer.drain(&mut page, &mut heard);
        }
        match asked {
            Ok(()) => drop(answers.send(std::mem::take(&mut heard))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Buffer {
    /// Reads it until it is empty.
    fn drain(&self, page: &mut [u8], heard: &mut Overheard) {
        while let Ok(length @ 1..) = rustix::io::read(&self.file, &mut *page) {
            let lost = page::events(&page[..length], |time_ns, event| self.add(time_ns, event, heard));
            heard.lost += lost;
        }
    }

    fn add(&self, time_ns: u64, event: &[u8], heard: &mut Overheard) {
        let of = |(_, tracepoint): &&(Kind, Tracepoint)| tracepoint.is_of(event);
        let Some((kind, tracepoint)) = self.tracepoints.iter().find(of) else { return };
        let Some(thread) = tracepoint.integer(event, "common_pid", 0) else { return };
        let thread = thread as u32;
        if let Kind::Rename = kind {
            let name = tracepoint.text(event, "newcomm").unwrap_or_default();
            return heard.names.push((thread, time_ns, name.to_string()));
        }
        match what(*kind, tracepoint, event) {
            Some(what) if heard.moments.len() < MOST => {
                heard.moments.push(Witnessed { time_ns, thread, what })
            }
            Some(_) => heard.lost += 1,
            None => {}
        }
    }
}

fn what(kind: Kind, tracepoint: &Tracepoint, event: &[u8]) -> Option<What> {
    let integer = |name, index| tracepoint.integer(event, name, index);
    Some(match kind {
        Kind::Enter => {
            let argument = |index| integer("args", index).map(|argument| argument as u64);
            let arguments = [argument(0)?, argument(1)?, argument(2)?];
            What::Enter { number: integer("id", 0)?, arguments }
        }
        Kind::Exit => What::Exit { value: integer("ret", 0)? },
        Kind::Submit => What::Submit { opcode: u8::try_from(integer("opcode", 0)?).ok()? },
        Kind::Block => {
            let operation = tracepoint.text(event, "rwbs")?;
            // Discards and bare flushes move nothing.
            if operation.contains('D') || !operation.contains(['R', 'W']) {
                return None;
            }
            let sectors = u64::try_from(integer("nr_sector", 0)?).ok()?;
            What::Completed {
                device: integer("dev", 0)? as u32,
                bytes: sectors * 512,
                writes: operation.contains('W'),
            }
        }
        Kind::Rename => return None,
    })
}
