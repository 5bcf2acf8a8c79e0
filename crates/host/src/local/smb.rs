//! Samba's server for one share, in a guest that nobody but its clients can reach.

use crate::export::SmbShare;
use crate::{HostError, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "smbd";
/// Its configuration, its databases and its log.
const DIRECTORY: &str = "/run/fsdyno-smb";
const LOG: &str = "log.smbd";
/// Port 445 with any address, and the state of a socket that listens, as in `/proc/net/tcp`.
const LISTENS: (&str, &str) = (":01BD", "0A");
/// The time that the server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A server, with a process for each client in its process group.
pub(super) struct Server(Child);

/// Starts it, and returns when clients can connect.
pub(super) fn serve(share: &SmbShare) -> Result<Server> {
    let directory = Path::new(DIRECTORY);
    fs::create_dir_all(directory)
        .map_err(|error| HostError::system("create the directory", directory, error))?;
    // It looks up the names of users, and a guest has none.
    for (path, text) in [("/etc/passwd", "root:x:0:0::/:/bin/sh\n"), ("/etc/group", "root:x:0:\n")] {
        if !Path::new(path).exists() {
            write(Path::new(path), text)?;
        }
    }
    let configuration = directory.join("smb.conf");
    write(&configuration, &configured(share))?;
    let program = super::find_program(PROGRAM);
    let program = program.ok_or_else(|| HostError::NoProgram { program: PROGRAM.to_string() })?;
    let mut command = Command::new(program);
    // The process group is made here, so that it is known to whoever ends it.
    command.args(["--foreground", "--no-process-group", "--configfile"]).arg(&configuration).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn().map_err(|error| HostError::system("start", Path::new(PROGRAM), error))?;
    let mut server = Server(started);
    let begin = Instant::now();
    while !listens() {
        let ended = server.0.try_wait().ok().flatten();
        if ended.is_some() || begin.elapsed() > PATIENCE {
            let _ = server.stop();
            let reason = last_words().unwrap_or_else(|| "it does not listen, and says nothing".to_string());
            return Err(failed("start", reason));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(server)
}

impl Server {
    /// Ends it and its processes, which keep the filesystem busy.
    pub(super) fn stop(self) -> Result<()> {
        let group = Pid::from_child(&self.0);
        let begin = Instant::now();
        let _ = kill_process_group(group, Signal::TERM);
        // A process that has ended stays in the group until somebody waits for it. This is the guest's first
        // process, so smbd's orphaned children become its own.
        let waited = || matches!(waitpgid(group, WaitOptions::NOHANG), Ok(Some(_)));
        while waited() || test_kill_process_group(group).is_ok() {
            if begin.elapsed() > PATIENCE / 2 {
                let _ = kill_process_group(group, Signal::KILL);
            }
            if begin.elapsed() > PATIENCE {
                return Err(failed("stop", "it does not end, not even when killed".to_string()));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

fn failed(action: &str, reason: String) -> HostError {
    HostError::System { action: action.to_string(), object: PROGRAM.to_string(), errno: 0, reason }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| HostError::system("write", path, error))
}

/// The defaults of Samba, except for a server without users, printers and NetBIOS names.
fn configured(share: &SmbShare) -> String {
    let places = ["lock directory", "state directory", "cache directory", "private dir", "pid directory"];
    let places = places.map(|place| format!("{place} = {DIRECTORY}\n")).concat();
    let options = share.options().into_iter().map(|option| format!("{option}\n")).collect::<String>();
    format!(
        "[global]\nnetbios name = FSDYNO\nserver role = standalone server\nmap to guest = Bad User\n\
         guest account = root\ndisable netbios = yes\nsmb ports = 445\nserver min protocol = SMB3\nload printers = no\n\
         disable spoolss = yes\nprinting = bsd\nprintcap name = /dev/null\nobey pam restrictions = no\n\
         log file = {DIRECTORY}/{LOG}\nncalrpc dir = {DIRECTORY}/ncalrpc\n{places}\
         [{}]\npath = {}\nread only = no\nguest ok = yes\nforce user = root\n{options}",
        SmbShare::NAME,
        share.directory.display(),
    )
}

fn listens() -> bool {
    let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    text.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, state) = (fields.get(1), fields.get(3));
        address.is_some_and(|address| address.ends_with(LISTENS.0)) && state == Some(&LISTENS.1)
    })
}

/// The last line of its log that says something.
fn last_words() -> Option<String> {
    let text = fs::read_to_string(Path::new(DIRECTORY).join(LOG)).ok()?;
    text.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with('[')).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_configured_with_what_a_sync_promises() {
        let share = |strict_sync| SmbShare { directory: "/mnt/x".into(), strict_sync };
        assert_eq!(share(true).lines(), ["smbd --option='strict sync=yes' --option=path=/mnt/x"]);
        let text = configured(&share(false));
        assert!(text.ends_with("force user = root\nstrict sync = no\n"), "{text}");
        assert!(text.contains("[fsdyno]\npath = /mnt/x\n"), "{text}");
    }
}
