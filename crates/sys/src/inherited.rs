//! The attributes that a process has inherited from the one that started it, where they would change its
//! behaviour: the dispositions of signals, the mask of blocked signals, limits, and a standard output that is
//! closed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Functions of this section run before `main`, and before Rust's start-up code, which opens `/dev/null` in
/// place of each standard descriptor that is closed. No file that is opened later can take its number then,
/// but what is written there is lost without an error.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    // SAFETY: the command has no argument, and the call changes nothing, whatever the descriptor is.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Returns whether standard output was closed when this process started (`>&-` in a shell).
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Gives every signal that is ignored its default action, and blocks none: both are inherited by whatever is
/// executed (signal(7)). With `SIGCHLD` ignored, no child can be waited for (wait(2)).
///
/// Two stay as they are: `SIGHUP`, because nohup(1) means it, and `SIGPIPE`, which Rust's start-up code
/// ignores for this process alone. Threads inherit the mask, so this comes before the first one is started.
pub fn reset_signals() {
    let meant = [libc::SIGHUP, libc::SIGPIPE];
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !meant.contains(signal) && is_ignored(*signal)) {
        // SAFETY: the default action is no function of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set that it is given and fails for no set.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was initialised above; the old mask is not asked for. The call fails only for an
    // unknown `how`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) };
}

/// Returns whether this process ignores a signal.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given, and the pointer is to a local that the call fills. For a number that is
    // no signal, or one that libc keeps to itself, it fails.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it has written the whole structure.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// A limit that leaves a process too little (getrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLow {
    need: &'static Need,
    limit: u64,
}

impl TooLow {
    /// The command of a shell that raises it.
    pub fn remedy(&self) -> String {
        let Need { option, unit, usual, .. } = self.need;
        format!("ulimit {option} {}", usual / unit)
    }
}

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLow { need: Need { what, least, unit, unit_name, .. }, limit } = self;
        write!(
            f,
            "{what} limited to {}{unit_name}, and fsdyno needs {}{unit_name}",
            limit / unit,
            least / unit
        )
    }
}

impl std::error::Error for TooLow {}

/// The amount of a resource that this process and those that it starts need.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    resource: Resource,
    what: &'static str,
    /// The least, and what systems usually allow.
    least: u64,
    usual: u64,
    /// The option of a shell's `ulimit`, which counts in units.
    option: &'static str,
    unit: u64,
    unit_name: &'static str,
}

/// The stack of the main thread, which grows until the limit, as do those of the tools that are started. The
/// stacks of other threads do not depend on it. Open files: a few for results, and three for each program
/// that is started, besides those of the load itself.
static NEEDS: [Need; 2] = [
    Need {
        resource: Resource::Stack,
        what: "the stack is",
        least: 1 << 20,
        usual: 8 << 20,
        option: "-s",
        unit: 1 << 10,
        unit_name: " KiB",
    },
    Need {
        resource: Resource::Nofile,
        what: "open files are",
        least: 128,
        usual: 1024,
        option: "-n",
        unit: 1,
        unit_name: "",
    },
];

/// The size in bytes that no file of this process may exceed (`ulimit -f`), if there is a limit.
pub fn limit_of_file_size() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Raises each limit that is too low as far as this process may; children inherit it.
///
/// # Errors
/// The first one that stays too low.
pub fn raise_limits() -> Result<(), TooLow> {
    for need in &NEEDS {
        let Rlimit { current, maximum } = getrlimit(need.resource);
        // `None` is no limit.
        if current.is_none_or(|limit| limit >= need.least) {
            continue;
        }
        let most = maximum.unwrap_or(u64::MAX).min(need.usual);
        let raised = Rlimit { current: Some(most), maximum };
        if most < need.least || setrlimit(need.resource, raised).is_err() {
            return Err(TooLow { need, limit: current.unwrap_or_default() });
        }
    }
    Ok(())
}
