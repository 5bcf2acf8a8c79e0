//! A filesystem in memory, served by FUSE, that misbehaves on request: with a known delay, hanging, or
//! failing. It is the ground truth for what fsdyno reports about a filesystem or a device.
//!
//! Every `read` and `write` of a program is one request (`FOPEN_DIRECT_IO`), and so is every step through a
//! directory. Files are sparse, so that images fit. Nothing is written to a disk.

mod nodes;

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, TimeOrNow,
    WriteFlags,
};
use nodes::{Content, Nodes, Sparse};
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The kinds of request that can be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Lookup,
    Create,
    Open,
    Read,
    Write,
    Flush,
    Fsync,
    /// Including discards.
    Fallocate,
    Mkdir,
    Readdir,
    /// Of files and of directories.
    Unlink,
}

/// A request, as a rule sees it.
#[derive(Debug)]
pub struct Asked<'a> {
    pub kind: Kind,
    /// Path of the file or directory, below the mountpoint.
    pub path: &'a Path,
    /// The number of other files that had this path before it.
    pub predecessors: u32,
}

/// A read that is about to be answered.
#[derive(Debug)]
pub struct Answered<'a> {
    /// Path of the file, below the mountpoint.
    pub path: &'a Path,
    pub offset: u64,
    /// The thread that reads.
    thread: u32,
}

impl Answered<'_> {
    /// Name of the thread that reads, which waits for the answer.
    pub fn thread_name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.thread)).expect("a thread");
        name.trim_end().to_string()
    }
}

/// The treatment of a request.
#[derive(Debug, Clone, Copy)]
pub enum Treatment {
    /// It is answered at once.
    Healthy,
    /// It is answered after this time, neither much later nor earlier.
    Slow(Duration),
    /// It is answered when [`Behaviour::release`] is called.
    Held,
    /// It fails.
    Fails(Errno),
}

type Rule = Box<dyn FnMut(&Asked<'_>) -> Treatment + Send>;
type Work = Box<dyn FnOnce() + Send>;
type Alteration = Box<dyn FnMut(&Answered<'_>, &mut Vec<u8>) + Send>;

/// The behaviour of the filesystem; shared with the test, which may change it at any moment.
pub struct Behaviour {
    rule: Mutex<Rule>,
    alteration: Mutex<Alteration>,
    held: Mutex<Vec<Work>>,
    /// The time for which the kernel may cache names.
    names_last: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Behaviour {
    /// Every request is answered at once.
    pub fn healthy() -> Arc<Self> {
        Self::with(HOUR, |_| Treatment::Healthy)
    }

    /// Requests of these kinds take this long. If lookups are slow, names are not cached, so that every
    /// lookup is a request.
    pub fn slow(kinds: &[Kind], delay: Duration) -> Arc<Self> {
        let kinds = kinds.to_vec();
        let names_last = if kinds.contains(&Kind::Lookup) { Duration::ZERO } else { HOUR };
        Self::with(names_last, move |asked| match kinds.contains(&asked.kind) {
            true => Treatment::Slow(delay),
            false => Treatment::Healthy,
        })
    }

    fn with(names_last: Duration, rule: impl FnMut(&Asked<'_>) -> Treatment + Send + 'static) -> Arc<Self> {
        Arc::new(Behaviour {
            rule: Mutex::new(Box::new(rule)),
            alteration: Mutex::new(Box::new(|_, _| ())),
            held: Mutex::default(),
            names_last,
        })
    }

    /// From now on this rule decides. It must not touch the filesystem itself.
    pub fn treat(&self, rule: impl FnMut(&Asked<'_>) -> Treatment + Send + 'static) {
        *lock(&self.rule) = Box::new(rule);
    }

    /// From now on this changes the bytes that reads return.
    pub fn alter_reads(&self, alteration: impl FnMut(&Answered<'_>, &mut Vec<u8>) + Send + 'static) {
        *lock(&self.alteration) = Box::new(alteration);
    }

    /// From now on so many requests of this kind are healthy, and the next one gets this treatment;
    /// everything else is healthy.
    pub fn treat_one_after(&self, healthy: u32, kind: Kind, treatment: Treatment) {
        let mut treatments = (0..healthy).map(|_| Treatment::Healthy).chain([treatment]);
        self.treat(move |asked| match asked.kind == kind {
            true => treatments.next().unwrap_or(Treatment::Healthy),
            false => Treatment::Healthy,
        });
    }

    /// Recovers: answers the requests that were held, and holds no others. Returns how many there were.
    pub fn release(&self) -> usize {
        self.treat(|_| Treatment::Healthy);
        let held = std::mem::take(&mut *lock(&self.held));
        let count = held.len();
        held.into_iter().for_each(|work| work());
        count
    }

    /// Returns the number of requests that are held.
    pub fn held(&self) -> usize {
        lock(&self.held).len()
    }
}

/// A panic of a test under a lock must not keep its filesystem from being unmounted.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mounted filesystem. When dropped, it recovers and is unmounted, by force if something still uses it.
pub struct Sick {
    mountpoint: PathBuf,
    behaviour: Arc<Behaviour>,
    session: Option<BackgroundSession>,
}

/// The time that whatever uses the filesystem may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const SERVERS: usize = 4;

/// Mounts a new, empty filesystem in a new directory.
pub fn mount(mountpoint: &Path, behaviour: &Arc<Behaviour>) -> Sick {
    std::fs::create_dir(mountpoint).expect("a mountpoint");
    let mut config = Config::default();
    config.n_threads = Some(SERVERS);
    config.clone_fd = true;
    let session = Session::new(MemoryFs::new(behaviour), mountpoint, &config).expect("mount");
    let session = Some(session.spawn().expect("serve"));
    Sick { mountpoint: mountpoint.to_path_buf(), behaviour: Arc::clone(behaviour), session }
}

impl Drop for Sick {
    fn drop(&mut self) {
        self.behaviour.release();
        let begin = Instant::now();
        while unmount(&self.mountpoint, UnmountFlags::empty()).is_err() {
            if begin.elapsed() > PATIENCE {
                eprintln!("'{}' is in use; unmounting it by force", self.mountpoint.display());
                let _ = unmount(&self.mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH);
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(session) = self.session.take()
            && let Err(error) = session.join()
        {
            eprintln!("serving '{}' ended with: {error}", self.mountpoint.display());
        }
    }
}

#[derive(Clone)]
struct MemoryFs {
    nodes: Arc<Mutex<Nodes>>,
    behaviour: Arc<Behaviour>,
}

impl MemoryFs {
    fn new(behaviour: &Arc<Behaviour>) -> Self {
        MemoryFs { nodes: Arc::new(Mutex::new(Nodes::new())), behaviour: Arc::clone(behaviour) }
    }

    /// Answers a request on a node according to its treatment: `work` gets the error with which it has to
    /// fail.
    fn attend(
        &self,
        kind: Kind,
        node: INodeNo,
        work: impl FnOnce(Result<MutexGuard<'_, Nodes>, Errno>) + Send + 'static,
    ) {
        self.attend_name(kind, node, None, work);
    }

    /// The same for a name in a directory.
    fn attend_name(
        &self,
        kind: Kind,
        node: INodeNo,
        name: Option<&OsStr>,
        work: impl FnOnce(Result<MutexGuard<'_, Nodes>, Errno>) + Send + 'static,
    ) {
        let arrived = Instant::now();
        let (path, predecessors) = lock(&self.nodes).known_as(node.0, name);
        let treatment = lock(&self.behaviour.rule)(&Asked { kind, path: &path, predecessors });
        match treatment {
            Treatment::Healthy => work(Ok(lock(&self.nodes))),
            Treatment::Slow(delay) => {
                wait_until(arrived + delay);
                work(Ok(lock(&self.nodes)));
            }
            Treatment::Held => {
                let nodes = Arc::clone(&self.nodes);
                lock(&self.behaviour.held).push(Box::new(move || work(Ok(lock(&nodes)))));
            }
            Treatment::Fails(errno) => work(Err(errno)),
        }
    }
}

/// Sleeps at first, so that others may run, and then spins, so that the delay is exact.
fn wait_until(moment: Instant) {
    thread::sleep(
        moment.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_micros(300)),
    );
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

impl Filesystem for MemoryFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Requests that are held must not keep the kernel from sending others.
        let _ = config.set_max_background(u16::MAX);
        // Nor must asynchronous direct requests block their caller.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (names_last, wanted) = (self.behaviour.names_last, name.to_os_string());
        let known = lock(&self.nodes).child(parent.0, name).is_ok();
        // Looking up a missing name is not an operation in itself, but the first half of creating it.
        if !known {
            return reply.error(Errno::ENOENT);
        }
        self.attend_name(Kind::Lookup, parent, Some(name), move |nodes| {
            let found = nodes.and_then(|nodes| nodes.attributes(nodes.child(parent.0, &wanted)?));
            match found {
                Ok(attributes) => reply.entry_with_ttls(&HOUR, &names_last, &attributes, Generation(0)),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, _: u64) {
        lock(&self.nodes).forget(number.0);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match lock(&self.nodes).attributes(number.0) {
            Ok(attributes) => reply.attr(&HOUR, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
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
        let mut nodes = lock(&self.nodes);
        let resized = size.map_or(Ok(()), |size| nodes.file(number.0).map(|file| file.truncate(size)));
        match resized.and_then(|()| nodes.attributes(number.0)) {
            Ok(attributes) => reply.attr(&HOUR, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let (names_last, wanted) = (self.behaviour.names_last, name.to_os_string());
        self.attend_name(Kind::Mkdir, parent, Some(name), move |nodes| {
            match nodes
                .and_then(|mut nodes| nodes.add(parent.0, &wanted, Content::Directory(BTreeMap::new())))
            {
                Ok(attributes) => reply.entry_with_ttls(&HOUR, &names_last, &attributes, Generation(0)),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let (names_last, wanted) = (self.behaviour.names_last, name.to_os_string());
        self.attend_name(Kind::Create, parent, Some(name), move |nodes| {
            match nodes.and_then(|mut nodes| nodes.add(parent.0, &wanted, Content::File(Sparse::default()))) {
                Ok(attributes) => {
                    let flags = FopenFlags::FOPEN_DIRECT_IO;
                    reply.created(&names_last, &attributes, Generation(0), FileHandle(0), flags);
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.attend(Kind::Open, number, move |nodes| match nodes {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        });
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (behaviour, thread) = (Arc::clone(&self.behaviour), request.pid());
        let path = lock(&self.nodes).known_as(number.0, None).0;
        self.attend(Kind::Read, number, move |nodes| {
            match nodes.and_then(|mut nodes| nodes.file(number.0).map(|file| file.read(offset, size.into())))
            {
                Ok(mut data) => {
                    lock(&behaviour.alteration)(&Answered { path: &path, offset, thread }, &mut data);
                    reply.data(&data);
                }
                Err(errno) => reply.error(errno),
            }
        });
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
        let data = data.to_vec();
        self.attend(Kind::Write, number, move |nodes| {
            match nodes.and_then(|mut nodes| nodes.file(number.0).map(|file| file.write(offset, &data))) {
                Ok(()) => reply.written(data.len() as u32),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE and FALLOC_FL_ZERO_RANGE of fallocate(2).
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        self.attend(Kind::Fallocate, number, move |nodes| {
            let done = nodes.and_then(|mut nodes| {
                let file = nodes.file(number.0)?;
                if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
                    return Err(Errno::EOPNOTSUPP);
                }
                if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
                    file.zero(offset, length);
                }
                if mode & KEEP_SIZE == 0 {
                    file.extend(offset + length);
                }
                Ok(())
            });
            answer(reply, done);
        });
    }

    fn flush(&self, _: &Request, number: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.attend(Kind::Flush, number, move |nodes| answer(reply, nodes.map(drop)));
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.attend(Kind::Fsync, number, move |nodes| answer(reply, nodes.map(drop)));
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.attend(Kind::Readdir, number, move |nodes| {
            match nodes.and_then(|nodes| nodes.entry(number.0, offset)) {
                Ok(entry) => {
                    if let Some((next, child, kind, name)) = entry {
                        let _ = reply.add(INodeNo(child), next, kind, name);
                    }
                    reply.ok();
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let wanted = name.to_os_string();
        self.attend_name(Kind::Unlink, parent, Some(name), move |nodes| {
            answer(reply, nodes.and_then(|mut nodes| nodes.remove(parent.0, &wanted)));
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        answer(reply, lock(&self.nodes).rename((parent.0, name), (new_parent.0, new_name), replace));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCKS: u64 = (4 << 30) / 4096;
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, 0, 0, 4096, 255, 4096);
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
