//! Runs a program until it exits, with a time limit, and without an environment that it could misuse.

use super::{BUSY_PATIENCE, confine};
use crate::{Command, DeviceHandle, HostError, Output, Result};
use fsdyno_core::{Nanos, printed};
use fsdyno_sys::child;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where system programs are, if `PATH` does not include these directories.
const SBIN: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];

/// The number of bytes of each output that are kept, half of them from its beginning.
const OUTPUT_KEPT: usize = 64 * 1024;

/// Where a program is: the first executable file of this name in `PATH` and the sbin directories.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return executable(Path::new(program)).then(|| PathBuf::from(program));
    }
    search_path().into_iter().map(|directory| directory.join(program)).find(|path| executable(path))
}

fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

pub(super) fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative directory in PATH would mean something else in every working directory.
    let mut directories: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|path| path.is_absolute()).collect();
    for directory in SBIN.iter().map(PathBuf::from) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

/// Runs a program until it exits. It dies with the calling thread.
pub(super) fn run(command: &Command, devices: &[(DeviceHandle, Arc<OwnedFd>)]) -> Result<Output> {
    let program =
        find(&command.program).ok_or_else(|| HostError::NoProgram { program: command.program.clone() })?;
    let mut prepared = process::Command::new(&program);
    prepared
        .args(arguments(command, devices))
        // A tool must not find files by relative names, and must not obey variables of whoever started fsdyno
        // (MKE2FS_CONFIG, LD_PRELOAD, LIBMOUNT_FSTAB, BLKID_FILE).
        .current_dir("/")
        .env_clear()
        .env("LC_ALL", "C")
        // libblkid's cache belongs to the machine. mkfs.btrfs would find its UUID there, assigned to another
        // device, and would add an entry for the temporary scratch device. Without the cache, it reads the
        // devices themselves.
        .env("BLKID_FILE", "/dev/null")
        .env("PATH", std::env::join_paths(search_path()).unwrap_or_else(|_| OsString::from(SBIN.join(":"))))
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    child::set_up(&mut prepared, devices.iter().map(|(_, descriptor)| Arc::clone(descriptor)).collect());
    if let Some(ruleset) = confine::ruleset(command, devices)? {
        child::confine(&mut prepared, ruleset);
    }
    let start = Instant::now();
    let mut child = prepared.spawn().map_err(|error| HostError::system("run", &program, error))?;
    let mut watched =
        Watched::new(&mut child).map_err(|error| HostError::system("watch", &program, error))?;
    match watched.wait(start + command.limit) {
        Ok(Some(status)) => Ok(Output {
            status: status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1),
            duration: Nanos::from(start.elapsed()),
            stdout: watched.stdout.text(),
            stderr: watched.stderr.text(),
        }),
        Ok(None) => {
            watched.kill();
            Err(HostError::Hung { action: format!("'{}'", command.line()), seconds: command.limit.as_secs() })
        }
        Err(error) => {
            watched.kill();
            Err(HostError::system("wait for", &program, error))
        }
    }
}

fn arguments(command: &Command, devices: &[(DeviceHandle, Arc<OwnedFd>)]) -> Vec<String> {
    let path = |handle: &DeviceHandle| {
        let device = devices.iter().find(|(open, _)| open == handle);
        device.map(|(_, descriptor)| child::path_of(descriptor.as_fd())).unwrap_or_default()
    };
    let words = command.arguments.iter().map(|argument| match &argument.device {
        Some((handle, _)) => format!("{}{}", argument.text, path(handle)),
        None => argument.text.clone(),
    });
    words.collect()
}

/// A running program and what it has said so far.
struct Watched<'a> {
    child: &'a mut Child,
    /// Readable as soon as the program has ended.
    ended: OwnedFd,
    stdout: Ends,
    stderr: Ends,
}

impl<'a> Watched<'a> {
    fn new(child: &'a mut Child) -> rustix::io::Result<Self> {
        let pid = Pid::from_child(child);
        // `pidfd_open` (Linux 5.3) makes the end of a process pollable.
        let ended = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(error) => {
                let _ = child.kill();
                return Err(error);
            }
        };
        let stdout = Ends::of(child.stdout.take().map(OwnedFd::from));
        let stderr = Ends::of(child.stderr.take().map(OwnedFd::from));
        Ok(Watched { child, ended, stdout, stderr })
    }

    /// Collects output until the program exits; `None` if it has not by the deadline. Later output of a
    /// grandchild is not waited for.
    fn wait(&mut self, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (ended, stdout, stderr) = self.ready(left)?;
            if stdout {
                self.stdout.read_some();
            }
            if stderr {
                self.stderr.read_some();
            }
            if ended && !stdout && !stderr {
                return self.child.wait().map(Some);
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Which of the three has something to read, waiting until one has.
    fn ready(&self, timeout: Duration) -> rustix::io::Result<(bool, bool, bool)> {
        let pipes = [self.stdout.pipe.as_ref(), self.stderr.pipe.as_ref()];
        let mut polled = vec![PollFd::new(&self.ended, PollFlags::IN)];
        polled.extend(pipes.into_iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match poll(&mut polled, Some(&timeout)) {
            Err(Errno::INTR) => return Ok((false, false, false)),
            result => result?,
        };
        let mut ready = polled.iter().map(|one| !one.revents().is_empty());
        let ended = ready.next().unwrap_or(false);
        let mut of_pipe = |pipe: Option<&OwnedFd>| pipe.is_some() && ready.next().unwrap_or(false);
        Ok((ended, of_pipe(pipes[0]), of_pipe(pipes[1])))
    }

    /// Kills the program and its process group. One that is stuck in the kernel stays, and is not waited for.
    fn kill(&mut self) {
        // Its process group is its own (see `child::set_up`), and until it is reaped nobody else can get the
        // number.
        let _ = kill_process_group(Pid::from_child(self.child), Signal::KILL);
        let _ = self.ready_to_reap(BUSY_PATIENCE).then(|| self.child.wait());
    }

    fn ready_to_reap(&self, timeout: Duration) -> bool {
        wait_readable(self.ended.as_fd(), timeout)
    }
}

/// Returns whether a descriptor becomes readable in time.
pub(crate) fn wait_readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Both ends of what a pipe delivers.
struct Ends {
    /// `None` once it is closed.
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Ends {
    fn of(pipe: Option<OwnedFd>) -> Self {
        Ends { pipe, bytes: Vec::new() }
    }

    /// One read, which does not block after poll(2) has announced data.
    fn read_some(&mut self) {
        let mut buffer = [0_u8; 16 * 1024];
        let Some(pipe) = &self.pipe else { return };
        match rustix::io::read(pipe, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.pipe = None,
            Ok(length) => keep_ends(&mut self.bytes, &buffer[..length]),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Appends, and keeps only 64 KiB, half of them from the beginning.
pub(super) fn keep_ends(kept: &mut Vec<u8>, new: &[u8]) {
    kept.extend_from_slice(new);
    printed::keep_both_ends(kept, OUTPUT_KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        Command::new("sh").args(["-c", script])
    }

    #[test]
    fn status_output_and_environment() {
        let mut command = sh("echo out; echo err >&2; echo $LC_ALL $X $BLKID_FILE; cat; exit 3");
        command.environment.push(("X".to_string(), "y".to_string()));
        let output = run(&command, &[]).unwrap();
        assert_eq!((output.status, output.stdout.as_str()), (3, "out\nC y /dev/null\n"));
        assert_eq!(output.stderr, "err\n");
        assert!(output.duration.0 > 0);
        assert_eq!(run(&sh("kill -9 $$"), &[]).unwrap().status, 137);
    }

    #[test]
    fn a_program_starts_in_the_root_and_inherits_no_variable() {
        // Cargo sets dozens for this test.
        assert!(std::env::vars().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
        let mut command = Command::new("env");
        command.environment.push(("X".to_string(), "y".to_string()));
        let output = run(&command, &[]).unwrap().stdout;
        let mut names: Vec<&str> = output.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["BLKID_FILE", "LC_ALL", "PATH", "X"]);
        assert_eq!(run(&Command::new("pwd").args(["-P"]), &[]).unwrap().stdout, "/\n");
    }

    #[test]
    fn both_ends_of_much_output_are_kept() {
        let output = run(&sh("seq 1 200000; seq 1 200000 >&2"), &[]).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (OUTPUT_KEPT, OUTPUT_KEPT));
        assert!(output.stdout.starts_with("1\n2\n") && output.stdout.ends_with("199999\n200000\n"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_children() {
        let mut command = sh("sleep 1000.125 & sleep 1000.125");
        command.limit = Duration::from_millis(200);
        let error = run(&command, &[]).unwrap_err();
        assert!(matches!(&error, HostError::Hung { .. }), "{error}");
        // The signal has been sent to all of them, and each ends when it is scheduled next.
        while running("sleep\x001000.125\x00") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_is_not_waited_for() {
        let output = run(&sh("sleep 1000.25 & echo $!"), &[]).unwrap();
        assert_eq!(output.status, 0);
        let pid: i32 = output.stdout.trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&Command::new("no-such-program"), &[]).unwrap_err();
        assert_eq!(error, HostError::NoProgram { program: "no-such-program".to_string() });
    }

    #[test]
    fn programs_of_the_administrator_are_found() {
        assert!(find("sh").unwrap().is_absolute());
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("/etc/passwd"), None);
    }

    fn running(command_line: &str) -> bool {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|process| {
            fs::read(process.path().join("cmdline")).is_ok_and(|line| line == command_line.as_bytes())
        })
    }
}
