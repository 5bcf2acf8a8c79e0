//! `fsdyno watch` and `sweep --watch` on a real terminal, which is a pane of tmux.

use crate::race;
use crate::support::{Requirement, Sandbox, describe, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const NEEDED: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("tmux"), Requirement::OwnImages];

tests! {
    a_running_sweep_is_watched_paused_and_stopped: NEEDED;
    a_sweep_shows_itself_and_then_its_results: NEEDED;
    a_race_is_watched_block_by_block: RACING;
    where_nothing_runs_watch_says_so: &[];
}

const RACING: &[Requirement] =
    &[Requirement::All(NEEDED), Requirement::Program("mkfs.ext4"), Requirement::Program("mkfs.xfs")];

/// Six trials that write nothing.
fn plan(sandbox: &Sandbox) -> String {
    format!(
        r#"name = "watched"
repetitions = 2
[device]
image = "{}"
size = "256M"
[axes]
filesystem = ["ext4"]
scheduler = ["mq-deadline", "none"]
[[workloads]]
kind = "null"
ramp = 0
window = "300ms"
"#,
        sandbox.path("watched.img").display()
    )
}

/// A terminal of 80 columns and 24 lines with a shell in it.
struct Pane<'s> {
    sandbox: &'s Sandbox,
    /// The name of its server's socket.
    name: &'static str,
}

impl<'s> Pane<'s> {
    fn open(sandbox: &'s Sandbox) -> Self {
        Pane::beside(sandbox, "tmux")
    }

    /// Another one, with a server of its own.
    fn beside(sandbox: &'s Sandbox, name: &'static str) -> Self {
        let pane = Pane { sandbox, name };
        // The shell reads nothing of the user's, and its prompt is known.
        let shell = "env PS1='ready> ' ENV= sh";
        pane.tmux(&["-u", "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        pane.until("ready>");
        pane
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.sandbox.path(self.name)).args(arguments);
        command.env("XDG_STATE_HOME", self.sandbox.path("state")).env("LC_ALL", "C.UTF-8");
        command.env_remove("TMUX").env_remove("NO_COLOR");
        let output = command.output().expect("run tmux");
        assert!(output.status.success(), "{arguments:?}: {}", describe(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen contains a text.
    fn until(&self, text: &str) -> String {
        wait_for(
            || Some(self.screen()).filter(|screen| screen.contains(text)),
            || format!("'{text}' is not on the screen:\n{}", self.screen()),
        )
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a command line.
    fn run(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Checks that the terminal is as a shell needs it: no other screen, a cursor, lines and echo.
    fn is_restored(&self) {
        let modes = || self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        wait_for(|| (modes().trim() == "0 1").then_some(()), || format!("modes {}", modes()));
        self.run("stty -a | tr ' ' '\\n' | grep -c -E '^(icanon|echo|isig|opost);?$'");
        self.until("\n4\n");
    }
}

impl Drop for Pane<'_> {
    fn drop(&mut self) {
        let socket = self.sandbox.path(self.name);
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A sweep that is interrupted if its test fails: one that pauses would never end.
struct Running(Child);

impl Running {
    fn ended_with(&mut self) -> Option<i32> {
        self.0.wait().expect("its end").code()
    }

    fn goes_on(&mut self) -> bool {
        self.0.try_wait().expect("look at it").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.goes_on() {
            let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
            let _ = self.0.wait();
        }
    }
}

/// A sweep in the background, and the file with what it says.
fn begin(sandbox: &Sandbox, plan: &str) -> (Running, impl Fn() -> String + use<>) {
    sandbox.write("plan.toml", plan);
    let path = sandbox.path("said");
    let said = fs::File::create(&path).expect("a file");
    let child = sandbox.fsdyno(&["sweep", "plan.toml"]).stdout(Stdio::null()).stderr(said).spawn();
    (Running(child.expect("start a sweep")), move || fs::read_to_string(&path).unwrap_or_default())
}

fn a_running_sweep_is_watched_paused_and_stopped() {
    let sandbox = Sandbox::new();
    let (mut sweep, said) = begin(&sandbox, &plan(&sandbox));
    wait_for(|| said().contains("trial 1 of 6").then_some(()), &said);
    // Before anything is looked at, so that the sweep is still running then.
    let asked = sandbox.run(&["watch", "--then", "pause"]);
    assert!(stderr(&asked).contains("sweep 1 ('watched') pauses after"), "{}", describe(&asked));
    wait_for(|| said().contains("paused before trial").then_some(()), &said);

    // Where no screen can be shown, it is printed.
    let printed = sandbox.run(&["watch"]);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.status.success() && text.contains("sweep 1 'watched'"), "{}", describe(&printed));
    assert!(text.contains("mq-deadline") && !text.contains('\x1b'), "{text}");

    let pane = Pane::open(&sandbox);
    let program = env!("CARGO_BIN_EXE_fsdyno");
    pane.run(&format!("{program} watch; echo left with $?"));
    let screen = pane.until("paused between two trials");
    for part in ["sweep 1 'watched': ", "PAUSED", "configuration", "mq-deadline", "p go on"] {
        assert!(screen.contains(part), "'{part}' is not on the screen:\n{screen}");
    }
    pane.press("Enter");
    pane.until("enter back");
    pane.until("block 1, trial ");
    pane.press("Enter");
    pane.press("p");
    pane.until("running");
    wait_for(|| said().contains("goes on after a pause of").then_some(()), &said);
    pane.press("p");
    wait_for(|| (said().matches("paused before trial").count() == 2).then_some(()), &said);
    pane.press("q");
    pane.until("left with 0");
    pane.is_restored();

    // A watcher that is told to end, and one that falls, leave the terminal as it was, and the sweep alone.
    let pid_file = sandbox.path("pid");
    pane.run(&format!("clear; sh -c 'echo $$ > {}; exec {program} watch'", pid_file.display()));
    pane.until("paused between two trials");
    let pid = fs::read_to_string(&pid_file).expect("its number").trim().parse().expect("a number");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::TERM).expect("send SIGTERM");
    // What is typed before the shell reads again is lost with the modes of the terminal.
    pane.until("ready>");
    pane.is_restored();
    assert!(sweep.goes_on(), "the sweep ended: {}", said());

    // A terminal that is gone takes the watcher with it.
    let lost = Pane::beside(&sandbox, "lost");
    lost.run(&format!("sh -c 'echo $$ > {}; exec {program} watch'", pid_file.display()));
    lost.until("paused between two trials");
    let pid: u32 = fs::read_to_string(&pid_file).expect("its number").trim().parse().expect("a number");
    drop(lost);
    let gone = || (!PathBuf::from(format!("/proc/{pid}")).exists()).then_some(());
    wait_for(gone, || format!("process {pid} goes on without its terminal"));

    pane.run(&format!("clear; {program} watch; echo left with $?"));
    pane.until("paused between two trials");
    pane.press("s");
    pane.until("stop after this trial?");
    pane.press("y");
    assert_eq!(sweep.ended_with(), Some(130), "{}", said());
    assert!(said().contains("asked to stop after this trial"), "{}", said());
    pane.until("interrupted");
    assert!(!sandbox.path("watched.img").exists());

    let none = sandbox.run(&["watch"]);
    let text = stderr(&none);
    assert_eq!(none.status.code(), Some(2), "{}", describe(&none));
    assert!(
        text.contains("no sweep is running") && text.contains("sweep 1 ('watched'), was interrupted"),
        "{text}"
    );
    let shown = sandbox.run(&["watch", "1"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && text.contains("interrupted") && text.contains("o measured"), "{text}");

    // The screen that is still open shows the process that continues it.
    let resumed = sandbox.run(&["sweep", "plan.toml", "--resume"]);
    assert!(resumed.status.success(), "{}", describe(&resumed));
    pane.until("every planned trial is stored");
    pane.press("q");
    pane.until("left with 0");
}

fn a_sweep_shows_itself_and_then_its_results() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox));
    let refused = sandbox.run(&["sweep", "plan.toml", "--watch"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(stderr(&refused).contains("--watch needs a terminal"), "{}", describe(&refused));

    let pane = Pane::open(&sandbox);
    let program = env!("CARGO_BIN_EXE_fsdyno");
    let state = sandbox.path("plan.toml");
    pane.run(&format!("{program} sweep {} --set repetitions=1 --watch; echo ended with $?", state.display()));
    pane.until("q leave");
    pane.until(" of 3 trials");
    pane.until("ended with 0");
    pane.is_restored();
    let all = pane.tmux(&["capture-pane", "-p", "-S", "-200"]);
    // What would have disturbed the screen was kept, and comes before the results.
    assert!(all.contains("trial 3 of 3") && all.contains("sweep 1 is in"), "{all}");
}

fn a_race_is_watched_block_by_block() {
    let sandbox = Sandbox::new();
    let (mut sweep, said) = begin(&sandbox, &race::plan(&sandbox));
    wait_for(|| said().contains("block 2 of 3 is next").then_some(()), &said);
    let asked = sandbox.run(&["watch", "--then", "pause"]);
    assert!(asked.status.success(), "{}", describe(&asked));
    wait_for(|| said().contains("paused before trial").then_some(()), &said);

    let pane = Pane::open(&sandbox);
    let program = env!("CARGO_BIN_EXE_fsdyno");
    pane.run(&format!("{program} watch --color never; echo left with $?"));
    pane.until("paused between two trials");
    // One that was dropped has its first trial, and a sign for each of the other blocks. A terminal shows
    // what it has until all of a screen is there.
    let is_dropped = |line: &&str| line.ends_with("o / /") || line.ends_with("w / /");
    let dropped = || pane.screen().lines().filter(is_dropped).count();
    let said_so = || said().contains(&format!("after round 1 (8 trials) {} dropped: ", dropped()));
    wait_for(|| said_so().then_some(()), || format!("{}\n{}", pane.screen(), said()));
    let screen = pane.screen();
    let parts = ["no configuration is more than ", " (95 %)", "block 2 of 3, ", " of 8 configurations left"];
    for part in parts {
        assert!(screen.contains(part), "'{part}' is not on the screen:\n{screen}");
    }
    // The last row is the sentinel's, the one above it that of a dropped configuration.
    pane.press("End");
    pane.press("Up");
    pane.press("Enter");
    pane.until("dropped by the race after round 1 (block 1, 8 trials): number ");
    pane.press("Enter");
    pane.press("s");
    pane.until("stop after this trial?");
    pane.press("y");
    assert_eq!(sweep.ended_with(), Some(130), "{}", said());
    pane.until("interrupted");
    pane.press("q");
    pane.until("left with 0");

    // On its own terminal, and resumed: what the race said before is known again.
    let plan = sandbox.path("plan.toml");
    pane.run(&format!("clear; {program} sweep {} --resume --watch; echo ended with $?", plan.display()));
    let screen = pane.until("block 2 of 3, ");
    assert!(screen.contains("no configuration is more than "), "{screen}");
    pane.until("block 3 of 3, ");
    pane.until("ended with 0");

    let shown = sandbox.run(&["watch", "1"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in ["finished", "race over after 3 blocks, ", "; bounds ", "/ dropped by the race"] {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
}

fn where_nothing_runs_watch_says_so() {
    let sandbox = Sandbox::new();
    let none = sandbox.run(&["watch"]);
    assert_eq!(none.status.code(), Some(2), "{}", describe(&none));
    assert!(stderr(&none).contains("error: no sweep is running\nhint: "), "{}", describe(&none));
    let unknown = sandbox.run(&["watch", "nonsense"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", describe(&unknown));
    // A lock that a process left behind, whose number another process has now.
    fs::create_dir_all(sandbox.path("state/fsdyno")).expect("a directory");
    let holder = format!(r#"{{"pid":{},"plan":"gone","since":"2026-01-01T00:00:00Z"}}"#, std::process::id());
    sandbox.write("state/fsdyno/sweep.lock", &holder);
    let stale = sandbox.run(&["watch"]);
    assert!(stderr(&stale).contains("no sweep is running"), "{}", describe(&stale));
}
