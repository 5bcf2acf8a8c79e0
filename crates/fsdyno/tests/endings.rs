//! The end of a sweep when whoever watched it is gone: closed pipes, full devices, a lost terminal.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Runs a command in a directory that has been removed.
const LEAVE_NOTHING: &str = "cd \"$0\" && rmdir \"$0\" && exec \"$@\"";

/// A directory of state, and one to measure.
struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Lab { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(lab.work()).expect("a directory");
        lab
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn fsdyno(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).arg("--state").arg(self.state()).env_remove("XDG_STATE_HOME");
        command
    }

    /// Runs the program by a shell, whose script has its command line in `$@` and the directory to measure in
    /// `$0`.
    fn by_shell(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(self.work()).arg(env!("CARGO_BIN_EXE_fsdyno")).args(arguments);
        command.arg("--state").arg(self.state()).output().expect("run sh")
    }

    fn bench(&self, window: &str) -> Command {
        let work = self.work().display().to_string();
        self.fsdyno(&["bench", &work, "--tree-size", "4M", "--ramp", "0s", "--window", window])
    }

    fn is_tidy(&self) -> bool {
        fs::read_dir(self.work()).expect("the directory").count() == 0
    }

    /// Waits until the engine is at work.
    fn begun(&self, child: &mut Child) {
        while self.is_tidy() {
            assert!(child.try_wait().expect("a look").is_none(), "it ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The trials that are stored, and the state of the sweep.
    fn stored(&self) -> (u64, String) {
        let output = self.fsdyno(&["list", "--format", "json"]).output().expect("run fsdyno");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let field = |name: &str| {
            let at = text.rfind(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name} in {text}"));
            text[at..].split([':', ',']).nth(1).expect("a value").trim().trim_matches('"').to_string()
        };
        (field("measured").parse().expect("a number"), field("state"))
    }
}

/// The same command, told of a hangup even where those who run the tests ignore it, as under nohup.
fn hearing_hangups(command: &Command) -> Command {
    let mut hearing = Command::new("env");
    hearing.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
    hearing
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a pipe whose reader has gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

#[test]
fn a_reader_may_leave_but_a_full_disk_fails_and_either_way_everything_is_stored() {
    let lab = Lab::new();
    let outputs = [(closed_pipe(), closed_pipe(), 0), (full(), Stdio::piped(), 2), (full(), full(), 2)];
    for (round, (out, err, code)) in outputs.into_iter().enumerate() {
        let output = lab.bench("100ms").stdout(out).stderr(err).spawn().and_then(Child::wait_with_output);
        let output = output.expect("run fsdyno");
        assert_eq!(output.status.code(), Some(code), "round {round}: {}", stderr(&output));
        assert!(lab.is_tidy());
        assert_eq!(lab.stored(), (1, "finished".to_string()), "round {round}");
        if round == 1 {
            let said = "error: cannot write to stdout: No space left on device";
            assert!(stderr(&output).contains(said), "{}", stderr(&output));
        }
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_in_every_command() {
    let lab = Lab::new();
    let table = lab.work().join("mine.csv");
    fs::write(&table, "filesystem,value\next4,1\next4,2\nxfs,2\nxfs,3\n").expect("a table");
    let table = table.display().to_string();
    let plan = lab.work().join("plan.toml");
    let text = format!("[device]\ndirectory = {:?}\n[[workloads]]\nkind = \"null\"\n", lab.work());
    fs::write(&plan, text).expect("a plan");
    let plan = plan.display().to_string();
    let import = ["import", "table", &table, "--unit", "MB/s"];
    assert!(lab.fsdyno(&import).status().expect("run fsdyno").success());
    let commands: [&[&str]; 20] = [
        &import,
        &["list"],
        &["show"],
        &["show", "--format", "json"],
        &["show", "--format", "csv"],
        &["compare", "1/ext4", "1/xfs"],
        &["compare", "1/ext4", "1/xfs", "--format", "csv"],
        &["recommend"],
        &["report", "-o", "-"],
        &["export", "--kind", "trials"],
        &["export", "--format", "json"],
        &["pack", "1", "-"],
        &["profile", "."],
        &["plan", &plan],
        &["plans"],
        &["plans", "demo"],
        &["completions", "bash"],
        &["rename", "1", "other"],
        &["--help"],
        &["--version"],
    ];
    for command in commands {
        for sink in [">&-", ">/dev/full"] {
            let output = lab.by_shell(&format!("exec \"$@\" {sink}"), command);
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{command:?} {sink}: {error}");
            assert!(error.contains("cannot write to stdout: "), "{command:?} {sink}: {error}");
        }
    }
    // Nothing is written to stdout here.
    let page = lab.work().join("page.html").display().to_string();
    let output = lab.by_shell("exec \"$@\" <&- >&- 2>&-", &["report", "-o", &page]);
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"),
        "no file is mixed up"
    );
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let lab = Lab::new();
    for err in [closed_pipe(), full()] {
        let status = lab.fsdyno(&["sweep", "absent.toml"]).stderr(err).status().expect("run fsdyno");
        assert_eq!(status.code(), Some(2));
    }
    let status = lab.fsdyno(&["restore"]).stdout(closed_pipe()).stderr(closed_pipe()).status();
    assert_eq!(status.expect("run fsdyno").code(), Some(0));
}

#[test]
fn a_hangup_ends_it_like_any_signal() {
    for signal in [Signal::HUP, Signal::TERM] {
        let lab = Lab::new();
        let mut bench = hearing_hangups(&lab.bench("1h"));
        let mut child = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run fsdyno");
        lab.begun(&mut child);
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        assert_eq!(child.wait().expect("its end").code(), Some(130), "{signal:?}");
        assert!(lab.is_tidy(), "{signal:?}");
        assert_eq!(lab.stored(), (0, "interrupted".to_string()));
    }
}

#[test]
fn nohup_means_it() {
    let lab = Lab::new();
    let bench = lab.bench("300ms");
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(bench.get_program())
        .args(bench.get_args())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run sh");
    lab.begun(&mut child);
    kill_process(Pid::from_child(&child), Signal::HUP).expect("a signal");
    assert_eq!(child.wait().expect("its end").code(), Some(0));
    assert_eq!(lab.stored(), (1, "finished".to_string()));
}

/// As when a connection by ssh breaks: the terminal goes, with everything that was printed to it.
#[test]
fn a_terminal_that_is_lost_ends_it_with_everything_undone() {
    if !Path::new("/usr/bin/script").exists() {
        return;
    }
    let lab = Lab::new();
    let bench = hearing_hangups(&lab.bench("1h"));
    let words = std::iter::once(bench.get_program()).chain(bench.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let pid = lab.directory.path().join("pid");
    let line = format!("echo $$ > '{}'; exec {}", pid.display(), words.join(" "));
    let mut terminal = Command::new("script")
        .args(["-q", "-c", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run script");
    lab.begun(&mut terminal);
    let pid: i32 = fs::read_to_string(&pid).expect("its number").trim().parse().expect("a number");
    let bench = pidfd_open(Pid::from_raw(pid).expect("a process"), PidfdFlags::empty()).expect("it lives");
    // What held the other end of the terminal dies, and the kernel tells its session.
    terminal.kill().expect("kill script");
    terminal.wait().expect("its end");
    poll(&mut [PollFd::new(&bench, PollFlags::IN)], None).expect("its end");
    assert!(lab.is_tidy());
    assert_eq!(lab.stored(), (0, "interrupted".to_string()));
}

/// `ulimit -f`, in units of 512 bytes.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let lab = Lab::new();
    let bench = lab.bench("300ms");
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 16; exec \"$@\"", "sh"])
        .arg(bench.get_program())
        .args(bench.get_args())
        .output()
        .expect("run sh");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot open results"), "{error}");
    assert!(error.contains("no file may be larger than 8 KiB here") && !error.contains("df -h"), "{error}");
    assert!(lab.is_tidy());
}

/// `ulimit -f`, in units of 512 bytes.
#[test]
fn an_output_beyond_the_limit_leaves_nothing_and_names_the_limit() {
    let lab = Lab::new();
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 1; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_fsdyno")])
        .args(["reference", "."])
        .current_dir(lab.work())
        .output()
        .expect("run sh");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = stderr(&output);
    assert!(error.contains("it would be larger than files may be (ulimit -f, 0 KiB)"), "{error}");
    assert!(lab.is_tidy());
}

#[test]
fn a_current_directory_that_is_gone_is_named_as_the_cause() {
    let lab = Lab::new();
    let table = lab.directory.path().join("mine.csv");
    fs::write(&table, "filesystem,value\next4,1\nxfs,2\n").expect("a table");
    let table = table.display().to_string();
    assert!(lab.fsdyno(&["import", "table", &table, "--unit", "MB/s"]).status().expect("fsdyno").success());
    let commands: [&[&str]; 9] = [
        &["report"],
        &["report", "-o", "page.html"],
        &["export", "-d", "tables"],
        &["profile", "."],
        &["pack", "1", "sweep.fsdyno"],
        &["bench", "."],
        &["sweep", "plan.toml"],
        &["import", "table", "mine.csv"],
        &["list", "--store", "mine.db"],
    ];
    for command in commands {
        let output = lab.by_shell(LEAVE_NOTHING, command);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(error.contains("the current directory has been removed"), "{command:?}: {error}");
        fs::create_dir(lab.work()).expect("a directory");
    }
    // What needs no path works.
    let output = lab.by_shell(LEAVE_NOTHING, &["show"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn no_error_is_longer_than_a_terminal_can_show() {
    let lab = Lab::new();
    let long = "it's a long name ".repeat(4000);
    let state = lab.state().display().to_string();
    let csv = lab.directory.path().join("mine.csv");
    fs::write(&csv, format!("filesystem,value\next4,{}\n", &long[..150])).expect("a table");
    let csv = csv.display().to_string();
    let commands: [&[&str]; 8] = [
        &["show", &long],
        &["compare", &long, "1"],
        &["sweep", &long],
        &[&long],
        &["show", "--measure", &long],
        &["import", "table", &csv, "--measure", &long],
        &["import", "fio", &long],
        &["bench", &long],
    ];
    for command in commands {
        let mut fsdyno = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        let output = fsdyno.args(command).args(["--state", &state]).output().expect("run fsdyno");
        assert_ne!(output.status.code(), Some(0), "{:?}", &command[0][..5]);
        assert!(!output.stderr.is_empty() && output.stderr.len() < 2500, "{}", stderr(&output));
    }
}
