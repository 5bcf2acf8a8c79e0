//! A sweep on a machine in memory, and the engines that run there.

use fsdyno_core::result::{Rates, RoleResult, TimerFacts, TreeSummary};
use fsdyno_core::{
    EngineEvent, Failure, Nanos, Operation, Outcome, PhaseResult, Progress, Role, TrialRecord, TrialStep,
};
use fsdyno_host::EngineOutput;
use fsdyno_store::{Store, SweepId};
use fsdyno_sweep::{
    Asked, Machines, MoreBlocks, Plan, PlanError, RunOptions, SweepError, SweepEvent, SweepOutcome, run,
};
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::undo::{self, RestoreReport};
use fsdyno_testkit::fake::{FakeEngine, FakeGuests, FakeHost};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Engines that run before the trials: what the tool itself costs, without telemetry and with it.
pub const OVERHEADS: usize = 2;

/// Four cases of a workload that touches no file.
pub const PLAN: &str = r#"
name = "test"
watchdog = "50ms"
[device]
image = "/data/fsdyno.img"
size = "4G"
[axes]
filesystem = ["ext4", "xfs"]
scheduler = ["mq-deadline", "bfq"]
[[workloads]]
kind = "null"
window = "20ms"
ramp = 0
"#;

pub fn parse(text: &str, path: &str, overrides: &[&str]) -> Result<Plan, PlanError> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_string()).collect();
    Plan::parse(text, path, &overrides)
}

pub fn plan(text: &str, overrides: &[&str]) -> Plan {
    parse(text, "plans/test.toml", overrides).unwrap()
}

/// A sweep on a fake machine, with its store.
pub struct Lab {
    pub host: FakeHost,
    pub guests: FakeGuests,
    pub store: Store,
    pub interrupt: AtomicBool,
    pub hurry: AtomicBool,
    pub asked: Arc<Asked>,
    /// The blocks to add to the sweep that goes on.
    pub more: Option<MoreBlocks>,
    /// `true` if commands of plans may run.
    pub allow_hooks: bool,
    overheads: usize,
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Lab {
            host: FakeHost::new(),
            guests: FakeGuests::default(),
            store: Store::open(&directory.path().join("results.db")).unwrap(),
            interrupt: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            asked: Arc::default(),
            more: None,
            allow_hooks: false,
            overheads: OVERHEADS,
            directory,
        }
    }

    /// For plans that take no telemetry: what it costs is not measured.
    pub fn without_telemetry() -> Self {
        Lab { overheads: 1, ..Lab::new() }
    }

    /// The engines that measure the overhead, then those of the trials.
    pub fn engines(&mut self, engines: impl IntoIterator<Item = FakeEngine>) {
        self.host.engines = std::iter::repeat_with(measured).take(self.overheads).chain(engines).collect();
    }

    pub fn run(&mut self, plan: &Plan, resume: Option<SweepId>) -> Result<SweepOutcome, SweepError> {
        self.run_watched(plan, resume, |_, _| {})
    }

    pub fn run_watched(
        &mut self,
        plan: &Plan,
        resume: Option<SweepId>,
        mut watch: impl FnMut(&SweepEvent<'_>, &AtomicBool),
    ) -> Result<SweepOutcome, SweepError> {
        let options = RunOptions {
            known: &[],
            state_dir: &self.journal_directory(),
            keep: &[self.directory.path().join("kept")],
            confirmation: &Confirmation {
                destroy: vec!["/dev/fake1".into()],
                hooks: self.allow_hooks,
                ..Confirmation::default()
            },
            interrupt: &self.interrupt,
            hurry: &self.hurry,
            asked: &self.asked,
            resume,
            more: self.more,
        };
        let interrupt = &self.interrupt;
        let mut machines = Machines { host: &mut self.host, guests: &mut self.guests };
        run(plan, &mut machines, &mut self.store, &options, &mut |progress| watch(&progress, interrupt))
    }

    /// Does what `fsdyno restore` does after a crash.
    pub fn restore(&mut self) -> RestoreReport {
        self.host.revive();
        let journals = self.journal_directory();
        undo::restore(&mut self.host, &journals).unwrap()
    }

    pub fn trials(&self, outcome: &SweepOutcome) -> Vec<TrialRecord> {
        self.store.trials(outcome.sweep).unwrap()
    }

    /// Returns the number of journals that are left.
    pub fn journals(&self) -> usize {
        std::fs::read_dir(self.journal_directory()).unwrap().count()
    }

    pub fn journal_directory(&self) -> PathBuf {
        self.directory.path().join("undo")
    }
}

pub fn events(events: impl IntoIterator<Item = EngineEvent>) -> FakeEngine {
    let outputs = events.into_iter().map(|event| EngineOutput::Event(Box::new(event))).collect();
    FakeEngine { outputs, ..FakeEngine::default() }
}

pub fn hello() -> EngineEvent {
    let timer = TimerFacts {
        source: "tsc".to_string(),
        read_ns: 12.0,
        overhead_ns_per_op: None,
        overhead_with_telemetry_ns_per_op: None,
    };
    EngineEvent::Hello { pid: 1, timer }
}

/// Two workers at 10^8 operations per second together.
pub fn phase(name: &str) -> PhaseResult {
    let rates = Rates { operations_per_s: 1e8, ..Rates::default() };
    let role = RoleResult { rates, ..RoleResult::unwatched(Role::Null, 2) };
    PhaseResult::lasting(name, Nanos::from_secs(1), vec![role])
}

pub fn progress(step: TrialStep, done: f64) -> EngineEvent {
    EngineEvent::Progress(Progress {
        phase: "null".to_string(),
        done: Some(done),
        left_ns: Some(Nanos(1)),
        ..Progress::at(step)
    })
}

/// Everything but the end, with this phase.
pub fn until_end(phase: PhaseResult) -> Vec<EngineEvent> {
    let trees = TreeSummary { files: 7, directories: 2, bytes: 70 };
    vec![
        hello(),
        EngineEvent::Prepared { duration_ns: Nanos(5), trees },
        progress(TrialStep::Measure, 0.5),
        EngineEvent::Phase(Box::new(phase)),
    ]
}

/// An engine that does its work.
pub fn measured() -> FakeEngine {
    measured_as(phase("null"))
}

pub fn measured_as(phase: PhaseResult) -> FakeEngine {
    events([until_end(phase), vec![EngineEvent::Done]].concat())
}

/// An engine that fails after its phase.
pub fn full() -> FakeEngine {
    events([until_end(phase("null")), vec![EngineEvent::Failed(no_space())]].concat())
}

pub fn no_space() -> Failure {
    let mut failure = Failure::new("3 readers, 3 writers", "no space left on device");
    failure.errno = Some(28);
    failure.operation = Some(Operation::Write);
    failure.path = Some("tree0/d1/f2".to_string());
    failure
}

/// Why a trial failed, which it must have.
pub fn failure(trial: &TrialRecord) -> &Failure {
    match &trial.outcome {
        Outcome::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}
