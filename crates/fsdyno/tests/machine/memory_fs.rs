//! A filesystem in memory, served by FUSE, that can be told to be slow, to hang or to fail: the ground truth for what the
//! engine says of a filesystem.

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The kinds of request that can be slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Lookup,
    Create,
    Open,
    Read,
    Write,
    Flush,
    Mkdir,
    Readdir,
    Unlink,
}

/// What happens to the next `write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Normal,
    Hangs,
    Fails,
}

/// How the filesystem behaves; shared with the test.
pub struct Behaviour {
    /// Requests of these kinds take this long.
    slow: Vec<Kind>,
    delay: Duration,
    /// Whether every look at a name asks the filesystem.
    forgets_names: bool,
    next_write: Mutex<Fate>,
    held: Mutex<Vec<(ReplyWrite, u32)>>,
    longest_delay_ns: AtomicU64,
}

impl Behaviour {
    pub fn new(slow: &[Kind], delay: Duration, forgets_names: bool) -> Arc<Self> {
        Arc::new(Behaviour {
            slow: slow.to_vec(),
            delay,
            forgets_names,
            next_write: Mutex::new(Fate::Normal),
            held: Mutex::new(Vec::new()),
            longest_delay_ns: AtomicU64::new(0),
        })
    }

    /// The next `write` gets no answer until [`Self::release`].
    pub fn hang_next_write(&self) {
        *self.next_write.lock().expect("no panic under the lock") = Fate::Hangs;
    }

    /// The next `write` fails with EIO.
    pub fn fail_next_write(&self) {
        *self.next_write.lock().expect("no panic under the lock") = Fate::Fails;
    }

    /// Answers the requests that were held back; returns how many.
    pub fn release(&self) -> usize {
        let held = std::mem::take(&mut *self.held.lock().expect("no panic under the lock"));
        let count = held.len();
        held.into_iter().for_each(|(reply, size)| reply.written(size));
        count
    }

    /// Takes the time that a request of this kind takes: asleep at first, so that others may run, and then awake, so that
    /// the delay is what it should be.
    fn take_time(&self, kind: Kind) {
        if !self.slow.contains(&kind) {
            return;
        }
        let begin = Instant::now();
        thread::sleep(self.delay.saturating_sub(Duration::from_micros(300)));
        while begin.elapsed() < self.delay {
            std::hint::spin_loop();
        }
        self.longest_delay_ns.fetch_max(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn entry_ttl(&self) -> Duration {
        if self.forgets_names { Duration::ZERO } else { HOUR }
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Mounts a new, empty filesystem.
pub fn mount(at: &Path, behaviour: &Arc<Behaviour>) -> BackgroundSession {
    let mut nodes = HashMap::new();
    nodes.insert(INodeNo::ROOT.0, Node::directory(INodeNo::ROOT.0));
    let filesystem =
        MemoryFs { nodes: Mutex::new(Nodes { nodes, last: 1 }), behaviour: Arc::clone(behaviour) };
    let mut config = Config::default();
    config.n_threads = Some(4);
    config.clone_fd = true;
    Session::new(filesystem, at, &config).expect("mount").spawn().expect("serve")
}

struct MemoryFs {
    nodes: Mutex<Nodes>,
    behaviour: Arc<Behaviour>,
}

struct Nodes {
    nodes: HashMap<u64, Node>,
    last: u64,
}

enum Node {
    File(Vec<u8>),
    Directory { parent: u64, children: BTreeMap<OsString, u64> },
}

impl Node {
    fn directory(parent: u64) -> Self {
        Node::Directory { parent, children: BTreeMap::new() }
    }
}

impl Nodes {
    fn child(&self, parent: INodeNo, name: &OsStr) -> Option<u64> {
        match self.nodes.get(&parent.0)? {
            Node::Directory { children, .. } => children.get(name).copied(),
            Node::File(_) => None,
        }
    }

    fn add(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> u64 {
        self.last += 1;
        let number = self.last;
        self.nodes.insert(number, node);
        if let Some(Node::Directory { children, .. }) = self.nodes.get_mut(&parent.0) {
            children.insert(name.to_os_string(), number);
        }
        number
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> bool {
        match self.nodes.get_mut(&parent.0) {
            Some(Node::Directory { children, .. }) => children.remove(name).is_some(),
            _ => false,
        }
    }

    fn attributes(&self, number: u64) -> Option<FileAttr> {
        let (kind, size, perm) = match self.nodes.get(&number)? {
            Node::File(data) => (FileType::RegularFile, data.len() as u64, 0o644),
            Node::Directory { .. } => (FileType::Directory, 4096, 0o755),
        };
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl MemoryFs {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().expect("no panic under the lock")
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.nodes().remove(parent, name);
        self.behaviour.take_time(Kind::Unlink);
        if removed { reply.ok() } else { reply.error(Errno::ENOENT) }
    }
}

impl Filesystem for MemoryFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = {
            let nodes = self.nodes();
            nodes.child(parent, name).and_then(|number| nodes.attributes(number))
        };
        match found {
            Some(attributes) => {
                self.behaviour.take_time(Kind::Lookup);
                reply.entry_with_ttls(&HOUR, &self.behaviour.entry_ttl(), &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.nodes().attributes(number.0) {
            Some(attributes) => reply.attr(&HOUR, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.nodes().attributes(number.0) {
            Some(attributes) => reply.attr(&HOUR, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = {
            let mut nodes = self.nodes();
            let number = nodes.add(parent, name, Node::directory(parent.0));
            nodes.attributes(number)
        };
        self.behaviour.take_time(Kind::Mkdir);
        match made {
            Some(attributes) => {
                reply.entry_with_ttls(&HOUR, &self.behaviour.entry_ttl(), &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = {
            let mut nodes = self.nodes();
            let number = nodes.add(parent, name, Node::File(Vec::new()));
            nodes.attributes(number)
        };
        self.behaviour.take_time(Kind::Create);
        match made {
            Some(attributes) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&self.behaviour.entry_ttl(), &attributes, Generation(0), FileHandle(0), flags);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.behaviour.take_time(Kind::Open);
        // Every read and write then is one request.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = match self.nodes().nodes.get(&number.0) {
            Some(Node::File(data)) => {
                let begin = (offset as usize).min(data.len());
                data[begin..(begin + size as usize).min(data.len())].to_vec()
            }
            _ => Vec::new(),
        };
        self.behaviour.take_time(Kind::Read);
        reply.data(&data);
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if let Some(Node::File(file)) = self.nodes().nodes.get_mut(&number.0) {
            let end = offset as usize + data.len();
            file.resize(file.len().max(end), 0);
            file[offset as usize..end].copy_from_slice(data);
        }
        let fate = {
            let mut next = self.behaviour.next_write.lock().expect("no panic under the lock");
            std::mem::replace(&mut *next, Fate::Normal)
        };
        match fate {
            Fate::Normal => {
                self.behaviour.take_time(Kind::Write);
                reply.written(data.len() as u32);
            }
            Fate::Hangs => {
                let mut held = self.behaviour.held.lock().expect("no panic under the lock");
                held.push((reply, data.len() as u32));
            }
            Fate::Fails => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.behaviour.take_time(Kind::Flush);
        reply.ok();
    }

    /// One entry per request, so that every step through a directory is a request.
    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entry = match self.nodes().nodes.get(&number.0) {
            Some(Node::Directory { parent, children }) => match offset {
                0 => Some((number.0, FileType::Directory, OsString::from("."))),
                1 => Some((*parent, FileType::Directory, OsString::from(".."))),
                // The kind is left to the look at the name.
                _ => children
                    .iter()
                    .nth(offset as usize - 2)
                    .map(|(name, child)| (*child, FileType::RegularFile, name.clone())),
            },
            _ => None,
        };
        let entry = entry.map(|(child, _, name)| {
            let kind = match self.nodes().nodes.get(&child) {
                Some(Node::Directory { .. }) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            (child, kind, name)
        });
        self.behaviour.take_time(Kind::Readdir);
        if let Some((child, kind, name)) = entry {
            let _ = reply.add(INodeNo(child), offset + 1, kind, name);
        }
        reply.ok();
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let filled = {
            let nodes = self.nodes();
            let child = nodes.child(parent, name).and_then(|number| nodes.nodes.get(&number));
            matches!(child, Some(Node::Directory { children, .. }) if !children.is_empty())
        };
        if filled { reply.error(Errno::ENOTEMPTY) } else { self.remove(parent, name, reply) }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = (1 << 30) / 4096;
        reply.statfs(blocks, blocks, blocks, 0, 0, 4096, 255, 4096);
    }
}
