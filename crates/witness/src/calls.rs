//! Which operation a system call is.

use crate::listener::{What, Witnessed};
use fsdyno_core::Operation;
use fsdyno_core::operation::Moves;
use std::collections::{BTreeMap, BTreeSet};

/// Opcodes of rings (include/uapi/linux/io_uring.h).
const READS: [u8; 2] = [4, 22];
const WRITES: [u8; 2] = [5, 23];

/// One operation of a thread as the kernel saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Call {
    pub operation: Operation,
    /// When the thread's previous call returned: the engine reads its clock after that.
    pub after_ns: u64,
    /// When it was entered, or submitted.
    pub enter_ns: u64,
    /// When it returned; absent if it did not, and for requests to rings.
    pub exit_ns: Option<u64>,
    /// The value that it returned: bytes, for reads and writes.
    pub value: Option<i64>,
}

/// The properties that distinguish the operations of a role from the other calls of its threads.
#[derive(Debug)]
pub(crate) struct Habits {
    /// All that the role performs.
    pub performed: BTreeSet<Operation>,
    /// From when on opening and closing a directory are operations, too; absent if they never are.
    pub opens_directories_since_ns: Option<u64>,
    /// When its phase began. Operations name files relative to a directory. What is opened by an absolute
    /// path before that, operations may read and write, but do not close; what is opened like that later is
    /// something else, such as a file in /proc.
    pub begin_ns: u64,
}

/// The operations among the calls of one thread, in order of time.
pub(crate) fn operations(moments: &[Witnessed], habits: &Habits) -> Vec<Call> {
    let performed = &habits.performed;
    let mut calls = Vec::new();
    // Descriptors that no operation closes, and whether operations read from them.
    let mut foreign: BTreeMap<u32, bool> = BTreeMap::new();
    // Whether nothing has been read from or written to the file that was opened last.
    let mut fresh = false;
    let mut after_ns = 0;
    let mut open: Option<(Option<Operation>, u64, Option<bool>)> = None;
    for moment in moments {
        match moment.what {
            What::Enter { number, arguments } => {
                let opens_foreign = habits.opens_foreign(moment.time_ns, number, arguments);
                let descriptor = arguments[0] as u32;
                let of_foreign = match number {
                    libc::SYS_close => foreign.remove(&descriptor).is_some(),
                    libc::SYS_read => foreign.get(&descriptor) == Some(&false),
                    _ => false,
                };
                let operation = match opens_foreign.is_some() || of_foreign {
                    true => None,
                    false => operation(number, arguments, fresh, performed),
                };
                open = Some((operation, moment.time_ns, opens_foreign));
            }
            What::Exit { value } => {
                if let Some((operation, enter_ns, opens_foreign)) = open.take() {
                    if let (Some(is_read), Ok(descriptor)) = (opens_foreign, u32::try_from(value)) {
                        foreign.insert(descriptor, is_read);
                    }
                    match operation {
                        Some(Operation::Openat | Operation::Create) => fresh = true,
                        Some(operation) if operation.moves() != Moves::Nothing => {
                            fresh = false;
                        }
                        _ => {}
                    }
                    let exit_ns = Some(moment.time_ns);
                    calls.extend(operation.map(|operation| Call {
                        operation,
                        after_ns,
                        enter_ns,
                        exit_ns,
                        value: Some(value),
                    }));
                }
                after_ns = moment.time_ns;
            }
            What::Submit { opcode } => {
                let operation = [(READS, Operation::UringRead), (WRITES, Operation::UringWrite)]
                    .into_iter()
                    .find(|(opcodes, operation)| opcodes.contains(&opcode) && performed.contains(operation));
                calls.extend(operation.map(|(_, operation)| Call {
                    operation,
                    after_ns,
                    enter_ns: moment.time_ns,
                    exit_ns: None,
                    value: None,
                }));
            }
            What::Completed { .. } => {}
        }
    }
    // One that never returned.
    if let Some((Some(operation), enter_ns, _)) = open {
        calls.push(Call { operation, after_ns, enter_ns, exit_ns: None, value: None });
    }
    calls
}

impl Habits {
    /// If a call opens what no operation closes: whether operations read from it.
    fn opens_foreign(&self, time_ns: u64, number: i64, [from, _, flags]: [u64; 3]) -> Option<bool> {
        #[cfg(target_arch = "x86_64")]
        if number == libc::SYS_open {
            return Some(true);
        }
        match number {
            libc::SYS_openat if from as i32 == libc::AT_FDCWD => Some(time_ns < self.begin_ns),
            libc::SYS_openat if flags as i32 & libc::O_DIRECTORY != 0 => {
                let since_ns = self.opens_directories_since_ns;
                let is_operation = since_ns.is_some_and(|since_ns| time_ns >= since_ns);
                (!is_operation || !self.performed.contains(&Operation::Openat)).then_some(false)
            }
            _ => None,
        }
    }
}

/// The operation of a call, if the role performs it.
fn operation(
    number: i64,
    arguments: [u64; 3],
    fresh: bool,
    performed: &BTreeSet<Operation>,
) -> Option<Operation> {
    let flags = arguments[2] as i32;
    let candidates: &[Operation] = match number {
        libc::SYS_openat if flags & libc::O_APPEND != 0 => &[Operation::OpenAppend, Operation::Openat],
        libc::SYS_openat if flags & libc::O_CREAT != 0 => &[Operation::Create, Operation::Openat],
        libc::SYS_openat => &[Operation::Openat],
        libc::SYS_read if fresh => &[Operation::ReadFirstByte, Operation::Read],
        libc::SYS_read => &[Operation::Read],
        libc::SYS_write if fresh => &[Operation::WriteFirstByte, Operation::Write],
        libc::SYS_write => &[Operation::Write],
        libc::SYS_pread64 => &[Operation::Pread],
        libc::SYS_pwrite64 => &[Operation::Pwrite],
        libc::SYS_getdents64 => &[Operation::Getdents],
        libc::SYS_lseek => &[Operation::Lseek],
        libc::SYS_fstat => &[Operation::Fstat],
        libc::SYS_statx => &[Operation::Statx],
        libc::SYS_fsync => &[Operation::Fsync],
        libc::SYS_fdatasync => &[Operation::Fdatasync],
        // Where a phase ends with making everything durable, that is called by what databases call.
        libc::SYS_syncfs => &[Operation::Syncfs, Operation::Fsync],
        libc::SYS_close => &[Operation::Close],
        libc::SYS_mkdirat => &[Operation::Mkdirat],
        libc::SYS_unlinkat if flags & libc::AT_REMOVEDIR != 0 => &[Operation::Rmdir],
        libc::SYS_unlinkat => &[Operation::Unlinkat],
        _ => &[],
    };
    candidates.iter().copied().find(|candidate| performed.contains(candidate))
}

/// Returns whether an operation is one call of the kernel, or one request to a ring.
pub(crate) fn is_a_call(operation: Operation) -> bool {
    // A step through a directory may be served from the buffer of an earlier call.
    !matches!(operation, Operation::Readdir | Operation::Null) && !operation.is_an_iteration()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: i64 = 7;
    const FILE: i64 = 8;

    /// Calls of one thread, each 10 ns long and 5 ns after the previous one.
    #[derive(Default)]
    struct Thread(Vec<Witnessed>);

    impl Thread {
        fn now(&self) -> u64 {
            self.0.last().map_or(100, |moment| moment.time_ns)
        }

        fn call(mut self, number: i64, arguments: [i64; 3], value: i64) -> Self {
            let enter_ns = self.now() + 5;
            let arguments = arguments.map(|argument| argument as u64);
            let moment = |time_ns, what| Witnessed { time_ns, thread: 1, what };
            self.0.push(moment(enter_ns, What::Enter { number, arguments }));
            self.0.push(moment(enter_ns + 10, What::Exit { value }));
            self
        }

        fn open(self, from: i64, flags: i32, descriptor: i64) -> Self {
            self.call(libc::SYS_openat, [from, 0, i64::from(flags)], descriptor)
        }

        fn operations(&self, habits: &Habits) -> Vec<Operation> {
            operations(&self.0, habits).into_iter().map(|call| call.operation).collect()
        }
    }

    fn habits(performed: &[Operation]) -> Habits {
        Habits {
            performed: performed.iter().copied().collect(),
            opens_directories_since_ns: None,
            begin_ns: 50,
        }
    }

    #[test]
    fn the_first_byte_is_the_first_call_after_opening() {
        use Operation::{Close, Openat, Read, ReadFirstByte};
        let thread = Thread::default()
            .open(DIRECTORY, libc::O_RDONLY, FILE)
            .call(libc::SYS_read, [FILE, 0, 1], 1)
            .call(libc::SYS_read, [FILE, 0, 4096], 4096)
            .call(libc::SYS_read, [FILE, 0, 4096], 0)
            .call(libc::SYS_close, [FILE, 0, 0], 0);
        let reader = habits(&[Openat, ReadFirstByte, Read, Close]);
        assert_eq!(thread.operations(&reader), [Openat, ReadFirstByte, Read, Read, Close]);
        let streamer = habits(&[Read]);
        assert_eq!(thread.operations(&streamer), [Read, Read, Read]);
        let calls = operations(&thread.0, &reader);
        let [_, first, ..] = calls[..] else { panic!("{calls:?}") };
        assert_eq!(
            (first.after_ns, first.enter_ns, first.exit_ns, first.value),
            (115, 120, Some(130), Some(1))
        );
    }

    #[test]
    fn what_no_operation_opened_is_not_read_or_closed_by_one() {
        use Operation::{Close, Openat, Read};
        let absolute = i64::from(libc::AT_FDCWD);
        let thread = Thread::default()
            .open(DIRECTORY, libc::O_RDONLY | libc::O_DIRECTORY, FILE)
            .call(libc::SYS_close, [FILE, 0, 0], 0)
            .open(absolute, libc::O_RDONLY, FILE)
            .call(libc::SYS_read, [FILE, 0, 32], 32)
            .call(libc::SYS_close, [FILE, 0, 0], 0)
            .open(DIRECTORY, libc::O_RDONLY, FILE)
            .call(libc::SYS_close, [FILE, 0, 0], 0);
        assert_eq!(thread.operations(&habits(&[Openat, Read, Close])), [Openat, Close]);
        // Opened before its phase, a file is read in it.
        let prepared = Habits { begin_ns: 1000, ..habits(&[Read, Close]) };
        assert_eq!(thread.operations(&prepared), [Read, Close]);
        let listing = Habits { opens_directories_since_ns: Some(50), ..habits(&[Openat, Close]) };
        assert_eq!(thread.operations(&listing), [Openat, Close, Openat, Close]);
    }

    #[test]
    fn each_call_that_lists_a_directory_is_one_where_it_is_timed() {
        use Operation::{Close, Getdents, Openat, Readdir, Statx};
        let thread = Thread::default()
            .open(DIRECTORY, libc::O_RDONLY | libc::O_DIRECTORY, FILE)
            .call(libc::SYS_getdents64, [FILE, 0, 32768], 96)
            .call(libc::SYS_statx, [FILE, 0, 0], 0)
            .call(libc::SYS_getdents64, [FILE, 0, 32768], 0)
            .call(libc::SYS_close, [FILE, 0, 0], 0);
        let scanner = Habits {
            opens_directories_since_ns: Some(0),
            begin_ns: 110,
            ..habits(&[Openat, Getdents, Statx, Close])
        };
        assert_eq!(thread.operations(&scanner), [Openat, Getdents, Statx, Getdents, Close]);
        assert!(is_a_call(Getdents) && !is_a_call(Readdir));
        assert_eq!(thread.operations(&habits(&[Readdir, Statx])), [Statx]);
    }

    #[test]
    fn flags_decide_what_opening_and_removing_are() {
        use Operation::{Create, OpenAppend, Openat, Rmdir, Unlinkat};
        let remove = |flags: i32| [DIRECTORY, 0, i64::from(flags)];
        let thread = Thread::default()
            .open(DIRECTORY, libc::O_WRONLY | libc::O_CREAT, FILE)
            .open(DIRECTORY, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND, FILE)
            .open(DIRECTORY, libc::O_RDONLY, FILE)
            .call(libc::SYS_unlinkat, remove(0), 0)
            .call(libc::SYS_unlinkat, remove(libc::AT_REMOVEDIR), 0);
        let all = [Create, OpenAppend, Openat, Unlinkat, Rmdir];
        assert_eq!(thread.operations(&habits(&all)), all);
        assert_eq!(thread.operations(&habits(&[Openat, Unlinkat])), [Openat, Openat, Openat, Unlinkat]);
    }

    #[test]
    fn requests_to_rings_begin_with_their_submission() {
        let mut thread = Thread::default().call(libc::SYS_io_uring_enter, [FILE, 2, 1], 2);
        let exit = thread.0.pop().expect("an exit");
        for (opcode, time_ns) in [(READS[0], 110), (WRITES[1], 112)] {
            thread.0.push(Witnessed { time_ns, thread: 1, what: What::Submit { opcode } });
        }
        thread.0.push(exit);
        let reader = habits(&[Operation::UringRead]);
        let [read] = operations(&thread.0, &reader)[..] else { panic!("one") };
        assert_eq!((read.operation, read.enter_ns, read.exit_ns), (Operation::UringRead, 110, None));
    }
}
