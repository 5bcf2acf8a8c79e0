//! The commands of a plan during a trial: hooks, each of which must succeed, and monitors, which run while a
//! phase is measured.
//!
//! They are the user's own programs and may do anything, so nothing here relies on what they leave: what they
//! print is bounded, their files are counted while they run and tidied afterwards, and whatever they have
//! started ends with them. A monitor that fails spoils no measurement and is a warning; a hook that fails
//! means that the trial was not what the plan describes.

mod files;

use super::watch::{AtPhases, LoadEnd};
use crate::plan::{Hooks, PlanCommand};
use files::TrialFiles;
use fsdyno_core::result::{CommandKind, CommandRun, PhaseResult};
use fsdyno_core::{Failure, Outcome, TrialRecord, Warning, WarningKind, printed};
use fsdyno_host::guardian::{Cause, Ending, Guarded, GuardedCommand, Guardian};
use fsdyno_host::{HostError, Plight, quoted};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval at which a hook is checked.
const GLANCE: Duration = Duration::from_millis(20);
/// The time to wait for the end of a process that was asked to end, which takes its guardian at most 17 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interval at which the files of monitors are counted.
const COUNT: Duration = Duration::from_millis(500);
/// The number of lines of a hook's output that an error shows.
const LINES: usize = 10;

/// A trial to the commands of its plan.
pub(crate) struct TrialCommands<'a> {
    hooks: &'a Hooks,
    guardian: Box<dyn Guardian>,
    /// The environment variables of every command.
    variables: Vec<(&'static str, String)>,
    /// The device as the plan names it.
    device: String,
    /// Where the filesystem is mounted, and its device.
    mounted: Option<(String, Option<String>)>,
    files: TrialFiles,
    runs: Vec<CommandRun>,
    warnings: Vec<Warning>,
    /// The number of the current phase, from 1.
    phase: u32,
    hook: Option<RunningCommand>,
    monitors: Vec<RunningCommand>,
    counted: Instant,
}

/// A command that runs.
struct RunningCommand {
    process: Box<dyn Guarded>,
    run: CommandRun,
    begun: Instant,
}

impl<'a> TrialCommands<'a> {
    /// `variables` are given to each command; `directory` is where monitors may write.
    pub fn new(
        hooks: &'a Hooks,
        guardian: Box<dyn Guardian>,
        variables: Vec<(&'static str, String)>,
        device: String,
        directory: PathBuf,
    ) -> Self {
        TrialCommands {
            hooks,
            guardian,
            variables,
            device,
            mounted: None,
            files: TrialFiles::new(directory),
            runs: Vec::new(),
            warnings: Vec::new(),
            phase: 0,
            hook: None,
            monitors: Vec::new(),
            counted: Instant::now(),
        }
    }

    /// Returns whether an engine must wait before each phase.
    pub fn are_at_phases(&self) -> bool {
        self.hooks.at_phases().is_some()
    }

    /// Says where the filesystem is from now on, or that it is no longer mounted.
    pub fn mounted(&mut self, at: Option<(&Path, Option<&Path>)>) {
        let text = |path: &Path| path.display().to_string();
        self.mounted = at.map(|(directory, device)| (text(directory), device.map(text)));
    }

    /// Runs a hook before or after the trial, and waits until it has finished.
    pub fn run_hook(
        &mut self,
        kind: CommandKind,
        outcome: Option<&Outcome>,
        stop: &AtomicBool,
        room: &mut dyn FnMut() -> Option<Failure>,
    ) -> LoadEnd {
        let Some(hook) = self.hooks.of(kind).next() else { return LoadEnd::Done };
        let outcome = outcome.map(|outcome| ("FSDYNO_OUTCOME", outcome.word().to_string()));
        let mut running = match self.start(hook, None, outcome) {
            Ok(running) => running,
            Err(error) => return LoadEnd::Failed(*failure_of(kind, &error)),
        };
        loop {
            let stopped = match () {
                () if stop.load(Ordering::Relaxed) => Some(LoadEnd::Interrupted),
                () => room().map(LoadEnd::NoRoom),
            };
            if let Some(end) = stopped {
                self.kill(running);
                return end;
            }
            match running.process.ending(GLANCE) {
                Ok(None) => {}
                ended => {
                    let judged = self.judge(running, ended);
                    return judged.map_or_else(|failure| LoadEnd::Failed(*failure), |()| LoadEnd::Done);
                }
            }
        }
    }

    /// Adds what ran to the record of the trial.
    pub fn keep(mut self, record: &mut TrialRecord) {
        let (directory, notes) = self.files.tidy();
        for run in &mut self.runs {
            run.files = run.files.take().and(directory.clone());
        }
        let monitors: Vec<&str> = self.hooks.of(CommandKind::Monitor).map(|one| one.text.as_str()).collect();
        if self.runs.iter().any(|run| run.kind == CommandKind::Monitor) {
            let text = format!(
                "'{}' ran during the phases; fsdyno show --log says where the output is",
                monitors.join("', '")
            );
            record.warnings.push(Warning::new(WarningKind::Monitored, text));
        }
        let notes = notes.into_iter().map(|text| Warning::new(WarningKind::MonitorEnded, text));
        record.warnings.extend(self.warnings.drain(..).chain(notes));
        record.commands = self.runs;
    }

    fn start(
        &self,
        command: &PlanCommand,
        phase: Option<(&str, PathBuf)>,
        outcome: Option<(&'static str, String)>,
    ) -> Result<RunningCommand, HostError> {
        let (name, words) = match &phase {
            Some((name, out)) => (Some((*name).to_string()), command.writing_to(out)),
            None => (None, command.words.clone()),
        };
        let is_monitor = command.kind == CommandKind::Monitor;
        let (mountpoint, device) = self.mounted.clone().unzip();
        let device = device.flatten().unwrap_or_else(|| self.device.clone());
        let variables = self.variables.iter().cloned().chain([("FSDYNO_DEVICE", device)]);
        let known = variables
            .chain(name.clone().map(|name| ("FSDYNO_PHASE", name)))
            .chain(mountpoint.map(|path| ("FSDYNO_MOUNTPOINT", path)))
            .chain(outcome);
        let guarded = GuardedCommand {
            environment: known.map(|(name, value)| (name.to_string(), value)).collect(),
            limit: (!is_monitor).then(|| self.hooks.timeout.into()),
            file_limit: is_monitor.then_some(files::MOST),
            words,
        };
        let run = CommandRun {
            kind: command.kind,
            phase: name,
            command: guarded.words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" "),
            took_ns: Default::default(),
            failure: None,
            output: String::new(),
            files: command.writes().then(|| self.files.directory().to_path_buf()),
        };
        let process = self.guardian.start(&guarded)?;
        Ok(RunningCommand { process, run, begun: Instant::now() })
    }

    /// Notes how a hook ended; an error if it did not succeed.
    fn judge(
        &mut self,
        running: RunningCommand,
        ended: Result<Option<Ending>, HostError>,
    ) -> Result<(), Box<Failure>> {
        let kind = running.run.kind;
        let limit = self.hooks.timeout;
        let run = self.note(running, ended, |ending| {
            (ending.cause != Cause::Itself || ending.status != 0).then(|| match ending.cause {
                Cause::Limit => format!("did not end within {limit}"),
                _ => ending.to_string(),
            })
        });
        let Some(problem) = &run.failure else { return Ok(()) };
        let mut failure = Failure::new(kind.name(), format!("'{}' {problem}", run.command));
        failure.details = printed::cause(&run.output, LINES).join("\n");
        failure.hint = Some("everything that it printed is in fsdyno show --log".to_string());
        Err(Box::new(failure))
    }

    /// Adds a run to those that are kept. `problem` says what is wrong with an ending.
    fn note(
        &mut self,
        running: RunningCommand,
        ended: Result<Option<Ending>, HostError>,
        problem: impl FnOnce(&Ending) -> Option<String>,
    ) -> &CommandRun {
        let RunningCommand { mut run, begun, .. } = running;
        run.took_ns = begun.elapsed().into();
        match ended {
            Ok(Some(ending)) => {
                run.failure = problem(&ending);
                run.took_ns = ending.took;
                run.output = ending.output;
                if ending.killed > 0 {
                    let line = format!("[{} that it had left running killed]", processes(ending.killed));
                    let gap = if run.output.is_empty() || run.output.ends_with('\n') { "" } else { "\n" };
                    run.output.push_str(&format!("{gap}{line}\n"));
                }
                self.warnings.extend(ending.stuck.iter().map(|pid| {
                    let text = format!("process {pid} of '{}' {}", run.command, Plight::of(*pid).of_killed());
                    Warning::new(WarningKind::LeftBehind, text)
                }));
            }
            Ok(None) => run.failure = Some("did not end, although it was killed".to_string()),
            Err(error) => run.failure = Some(reason(&error)),
        }
        self.runs.push(run);
        &self.runs[self.runs.len() - 1]
    }

    fn kill(&mut self, mut running: RunningCommand) {
        running.process.kill();
        let ended = running.process.ending(PATIENCE);
        self.note(running, ended, |ending| Some(ending.to_string()));
    }

    fn start_monitors(&mut self, phase: &str) -> Result<(), Box<Failure>> {
        for (number, monitor) in (1..).zip(self.hooks.of(CommandKind::Monitor)) {
            let program = monitor.words.first().map(String::as_str).unwrap_or_default();
            let out = self.files.path(self.phase, number, program)?;
            match self.start(monitor, Some((phase, out)), None) {
                Ok(running) => self.monitors.push(running),
                Err(error) => return Err(failure_of(CommandKind::Monitor, &error)),
            }
        }
        Ok(())
    }

    /// Notes monitors that have ended on their own, and ends those that have written too much.
    fn look_at_monitors(&mut self) {
        let mut index = 0;
        while index < self.monitors.len() {
            match self.monitors[index].process.ending(Duration::ZERO) {
                Ok(None) => index += 1,
                ended => {
                    let running = self.monitors.remove(index);
                    self.note_monitor(running, ended);
                }
            }
        }
        if !self.monitors.is_empty() && self.counted.elapsed() >= COUNT {
            self.counted = Instant::now();
            if let Some(why) = self.files.excess() {
                let text = format!("monitors were ended because {why}");
                self.warnings.push(Warning::new(WarningKind::MonitorEnded, text));
                self.end_monitors(true);
            }
        }
    }

    /// Ends the monitors: gently, so that they can finish their files, or at once.
    fn end_monitors(&mut self, gently: bool) {
        for running in &mut self.monitors {
            if gently { running.process.ask_to_end() } else { running.process.kill() }
        }
        for mut running in std::mem::take(&mut self.monitors) {
            let ended = running.process.ending(PATIENCE);
            self.note_monitor(running, ended);
        }
    }

    fn note_monitor(&mut self, running: RunningCommand, ended: Result<Option<Ending>, HostError>) {
        let run = self.note(running, ended, |ending| {
            (ending.cause == Cause::Itself).then(|| format!("{ending} before its phase did"))
        });
        if let Some(problem) = &run.failure {
            let phase = run.phase.clone().unwrap_or_default();
            let said = run.output.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
            let text = format!("'{}' {problem}{said}", run.command);
            self.warnings.push(Warning::new(WarningKind::MonitorEnded, text).in_phase(&phase));
        }
    }
}

impl AtPhases for TrialCommands<'_> {
    fn begin(&mut self, phase: &str, _settled: bool) -> Result<(), Box<Failure>> {
        self.end_monitors(true);
        self.phase += 1;
        match self.hooks.of(CommandKind::BeforePhase).next() {
            None => self.start_monitors(phase),
            Some(hook) => {
                let nowhere = (phase, PathBuf::new());
                let hook = self.start(hook, Some(nowhere), None);
                self.hook = Some(hook.map_err(|error| failure_of(CommandKind::BeforePhase, &error))?);
                Ok(())
            }
        }
    }

    fn look(&mut self) -> Result<bool, Box<Failure>> {
        let Some(mut hook) = self.hook.take() else {
            self.look_at_monitors();
            return Ok(true);
        };
        match hook.process.ending(Duration::ZERO) {
            Ok(None) => {
                self.hook = Some(hook);
                Ok(false)
            }
            ended => {
                let phase = hook.run.phase.clone().unwrap_or_default();
                self.judge(hook, ended)?;
                self.start_monitors(&phase).map(|()| true)
            }
        }
    }

    fn end(&mut self, gently: bool, _phase: Option<&mut PhaseResult>) {
        if let Some(hook) = self.hook.take() {
            self.kill(hook);
        }
        self.end_monitors(gently);
    }
}

fn failure_of(kind: CommandKind, error: &HostError) -> Box<Failure> {
    let mut failure = Failure::new(kind.name(), error.to_string());
    failure.errno = error.errno();
    Box::new(failure)
}

/// A word as a user would type it. No shell has run what is within `$(...)`.
fn shown(word: &str) -> String {
    match word.contains("$(") {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => quoted(word).into_owned(),
    }
}

/// Why a command did not run, without its name.
fn reason(error: &HostError) -> String {
    match error {
        HostError::System { reason, .. } => format!("could not be run: {reason}"),
        error => error.to_string(),
    }
}

fn processes(count: u32) -> String {
    if count == 1 { "1 process".to_string() } else { format!("{count} processes") }
}
