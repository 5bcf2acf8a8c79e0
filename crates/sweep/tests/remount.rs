//! Loads in parts, on a machine in memory: between them the filesystem is unmounted and mounted again, and whatever goes
//! wrong there, the machine is as before and the record says what is known.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fsdyno_core::protocol::Part;
use fsdyno_core::result::{Layout, TimerFacts};
use fsdyno_core::{EngineEvent, Nanos, Outcome, PhaseResult, TrialRecord, WarningKind};
use fsdyno_host::EngineOutput;
use fsdyno_host::fake::{FakeEngine, FakeHost, Fault};
use fsdyno_host::guest::NoGuests;
use fsdyno_store::Store;
use fsdyno_sweep::{Machines, Plan, Progress, RunOptions, SweepEnd, SweepError, SweepOutcome, run};
use fsdyno_testbed::{Confirmation, undo};
use std::sync::atomic::{AtomicBool, Ordering};

const PLAN: &str = r#"
name = "parts"
watchdog = "50ms"
telemetry = false
[device]
image = "/data/fsdyno.img"
size = "4G"
[axes]
filesystem = "ext4"
fill = "10%"
[[workloads]]
kind = "streaming"
file_size = "64M"
"#;

struct Lab {
    host: FakeHost,
    directory: tempfile::TempDir,
    interrupt: AtomicBool,
}

impl Lab {
    /// A machine whose engines write, then read; the first of all measures what the tool itself costs.
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut lab = Lab { host: FakeHost::new(), directory, interrupt: AtomicBool::new(false) };
        lab.engines([part("write"), part("read")]);
        lab
    }

    fn engines(&mut self, engines: impl IntoIterator<Item = FakeEngine>) {
        self.host.engines = std::iter::once(part("null")).chain(engines).collect();
    }

    /// Runs one trial.
    fn run(&mut self, overrides: &[&str]) -> (Result<SweepOutcome, SweepError>, Vec<TrialRecord>) {
        self.run_until(overrides, "")
    }

    /// Runs one trial; the user interrupts it at this stage.
    fn run_until(
        &mut self,
        overrides: &[&str],
        until: &str,
    ) -> (Result<SweepOutcome, SweepError>, Vec<TrialRecord>) {
        let overrides: Vec<String> =
            ["repetitions=1"].iter().chain(overrides).map(|text| (*text).to_string()).collect();
        let plan = Plan::parse(PLAN, "test.toml", &overrides).unwrap();
        let mut store = Store::open(&self.directory.path().join("results.db")).unwrap();
        let options = RunOptions {
            state_dir: &self.directory.path().join("undo"),
            confirmation: &Confirmation::default(),
            interrupt: &self.interrupt,
            resume: None,
        };
        let interrupt = &self.interrupt;
        let mut machines = Machines { host: &mut self.host, guests: &mut NoGuests };
        let outcome = run(&plan, &mut machines, &mut store, &options, &mut |progress| {
            if matches!(progress, Progress::Running(at) if at.stage == until) {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        let sweep = outcome.as_ref().ok().map(|outcome| outcome.sweep);
        let trials = sweep.map(|sweep| store.trials(sweep).unwrap()).unwrap_or_default();
        (outcome, trials)
    }

    /// The steps that tell where the trial is, in short.
    fn steps(&self) -> Vec<&'static str> {
        let known = ["mount -t ext4", "engine in /run", "umount", "run e2fsck -f", "detach"];
        let log = self.host.log();
        log.iter().filter_map(|step| known.iter().find(|word| step.starts_with(**word)).copied()).collect()
    }
}

/// An engine that measures a phase of this name.
fn part(phase: &str) -> FakeEngine {
    let timer = TimerFacts {
        source: "tsc".to_string(),
        read_ns: 12.0,
        overhead_ns_per_op: None,
        overhead_with_telemetry_ns_per_op: None,
    };
    let phase = PhaseResult {
        name: phase.to_string(),
        ramp_ns: Nanos(0),
        window_ns: Nanos::from_secs(1),
        drain_ns: Nanos(0),
        roles: Vec::new(),
        telemetry: None,
    };
    let mut events = vec![EngineEvent::Hello { pid: 1, timer }];
    if phase.name == "read" {
        events.push(EngineEvent::Phase(Box::new(phase)));
        events.push(EngineEvent::Layout(Layout { files: 1, ..Layout::default() }));
    } else {
        events.push(EngineEvent::Prepared { duration_ns: Nanos(5), trees: Default::default() });
        events.push(EngineEvent::Phase(Box::new(phase)));
    }
    events.push(EngineEvent::Done);
    let outputs = events.into_iter().map(|event| EngineOutput::Event(Box::new(event))).collect();
    FakeEngine { outputs, ..FakeEngine::default() }
}

fn phases(trial: &TrialRecord) -> Vec<&str> {
    trial.phases.iter().map(|phase| phase.name.as_str()).collect()
}

#[test]
fn between_writing_and_reading_the_filesystem_is_unmounted_and_mounted() {
    let mut lab = Lab::new();
    let before = lab.host.snapshot();
    let (outcome, trials) = lab.run(&[]);
    assert_eq!(outcome.unwrap().end, SweepEnd::Finished);
    let (mount, engine) = ("mount -t ext4", "engine in /run");
    let expected = [mount, engine, "umount", mount, engine, "umount", "run e2fsck -f", "detach"];
    assert_eq!(lab.steps(), expected);
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.host.open_devices(), 0);

    let [_, first, second] = &lab.host.requests[..] else { panic!("{:?}", lab.host.requests) };
    assert_eq!((first.part, second.part), (Part { number: 0, of: 2 }, Part { number: 1, of: 2 }));
    assert_eq!((&first.directory, first.seed), (&second.directory, second.seed));
    assert_eq!((&first.workload, first.precondition), (&second.workload, second.precondition));

    let [trial] = &trials[..] else { panic!("{trials:?}") };
    assert_eq!(trial.outcome, Outcome::Measured);
    assert_eq!(phases(trial), ["write", "read"]);
    let steps = &trial.lifecycle_ns;
    assert!(steps.umount_between.is_some() && steps.mount_between.is_some(), "{steps:?}");
    assert!(steps.mount.is_some() && steps.umount.is_some() && steps.prepare == Some(Nanos(5)), "{steps:?}");
    assert!(trial.timer.is_some() && trial.layout.as_ref().is_some_and(|layout| layout.files == 1));
    assert!(!trial.warnings.iter().any(|warning| warning.kind == WarningKind::NotRemounted));
}

#[test]
fn where_nothing_is_read_in_sequence_the_filesystem_stays_mounted() {
    let mut lab = Lab::new();
    lab.engines([part("write")]);
    let (_, trials) = lab.run(&["workloads.0.stages=[\"write\", \"random-read\"]", "workloads.0.window=1"]);
    assert_eq!(lab.steps().iter().filter(|step| **step == "umount").count(), 1);
    assert_eq!(lab.host.requests[1].part, Part::WHOLE);
    assert_eq!((trials[0].lifecycle_ns.umount_between, trials[0].lifecycle_ns.mount_between), (None, None));
}

#[test]
fn a_directory_stays_mounted_and_the_trial_says_so() {
    let mut lab = Lab::new();
    lab.engines([part("write")]);
    let directory = ["device={directory=\"/data\"}", "axes={}"];
    let (_, trials) = lab.run(&directory);
    assert_eq!(trials[0].outcome, Outcome::Measured, "{trials:?}");
    assert_eq!(lab.host.requests[1].part, Part::WHOLE);
    assert!(trials[0].warnings.iter().any(|warning| warning.kind == WarningKind::NotRemounted));
}

#[test]
fn whatever_step_fails_the_machine_is_as_before_and_what_was_measured_is_kept() {
    let steps = {
        let mut lab = Lab::new();
        lab.run(&[]).0.unwrap();
        lab.host.log().len()
    };
    for step in 0..steps {
        let mut lab = Lab::new();
        let before = lab.host.snapshot();
        lab.host.fail_at(step);
        let (outcome, trials) = lab.run(&[]);
        let what = format!("step {step} '{}' ({outcome:?})", lab.host.log()[step]);
        assert_eq!(lab.host.snapshot(), before, "{what}");
        assert_eq!(lab.host.open_devices(), 0, "{what}");
        let Some(trial) = trials.first() else { continue };
        // What was written before the filesystem went is kept.
        let engines = lab.steps().iter().filter(|step| **step == "engine in /run").count();
        let failed = matches!(trial.outcome, Outcome::Failed { .. });
        let known = match engines {
            0 => 0..=0,
            1 => 0..=1,
            _ if failed => 1..=2,
            _ => 2..=2,
        };
        assert!(known.contains(&trial.phases.len()), "{what}: {:?}", phases(trial));
    }
}

#[test]
fn a_crash_at_any_step_is_restored_from_the_journal() {
    let steps = {
        let mut lab = Lab::new();
        lab.run(&[]).0.unwrap();
        lab.host.log().len()
    };
    for (step, fault) in (0..steps).flat_map(|step| [(step, Fault::CrashBefore), (step, Fault::CrashAfter)]) {
        let mut lab = Lab::new();
        let before = lab.host.snapshot();
        lab.host.fault_at(step, fault);
        let _ = lab.run(&[]);
        lab.host.revive();
        let restored = undo::restore(&mut lab.host, &lab.directory.path().join("undo")).unwrap();
        let what = format!("step {step} '{}' {fault:?}", lab.host.log()[step]);
        assert_eq!(restored.report.left, [""; 0], "{what}");
        assert_eq!(lab.host.snapshot(), before, "{what}");
    }
}

/// In the middle as at the end.
#[test]
fn an_unmount_that_hangs_fails_the_trial_and_what_was_measured_is_kept() {
    let unmounts: Vec<usize> = {
        let mut lab = Lab::new();
        lab.run(&[]).0.unwrap();
        let steps = lab.host.log().iter().enumerate();
        steps.filter(|(_, step)| step.starts_with("umount")).map(|(index, _)| index).collect()
    };
    for (unmount, known) in unmounts.into_iter().zip([vec!["write"], vec!["write", "read"]]) {
        let mut lab = Lab::new();
        let before = lab.host.snapshot();
        lab.host.fault_at(unmount, Fault::Hang);
        let (outcome, trials) = lab.run(&[]);
        assert_eq!(outcome.unwrap().failed, 1);
        let Outcome::Failed { error } = &trials[0].outcome else { panic!("{:?}", trials[0].outcome) };
        assert!(error.step == "umount" && error.message.contains("did not return within 60 s"), "{error:?}");
        assert_eq!(phases(&trials[0]), known);
        assert_eq!(lab.host.requests.len(), 1 + known.len(), "nothing is read from a filesystem that hangs");
        assert_eq!(lab.host.snapshot(), before);
    }
}

#[test]
fn ctrl_c_between_writing_and_reading_undoes_everything() {
    for stage in ["umount", "mount again"] {
        let mut lab = Lab::new();
        let before = lab.host.snapshot();
        let (outcome, trials) = lab.run_until(&[], stage);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Interrupted, 0, 0), "{stage}");
        assert!(trials.is_empty(), "{stage}");
        assert_eq!(lab.host.snapshot(), before, "{stage}");
        assert_eq!(lab.host.requests.len(), 2, "{stage}");
    }
}
