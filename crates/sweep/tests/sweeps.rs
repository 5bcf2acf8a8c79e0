//! Whole sweeps on a machine in memory: what is recorded, what goes on after a failure, and that the machine is as before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fsdyno_core::protocol::Stage;
use fsdyno_core::result::{Rates, RoleResult, TimerFacts, TreeSummary};
use fsdyno_core::{
    Bytes, EngineEvent, EngineRequest, Failure, Nanos, Operation, Outcome, PhaseResult, Precondition, Role,
    TelemetryRequest, TrialRecord, WarningKind,
};
use fsdyno_host::EngineOutput;
use fsdyno_host::fake::{FakeEngine, FakeHost, Fault};
use fsdyno_host::guest::NoGuests;
use fsdyno_store::{Store, SweepId, SweepState};
use fsdyno_sweep::{
    BenchOptions, Machines, Plan, Progress, RunOptions, SweepEnd, SweepError, SweepOutcome, bench_plan,
    dry_run, order, run,
};
use fsdyno_testbed::{Confirmation, TestbedError};
use std::sync::atomic::{AtomicBool, Ordering};

const PLAN: &str = r#"
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

/// Engines that run before the trials: what the tool itself costs, without telemetry and with it.
const OVERHEADS: usize = 2;

/// A sweep on a fake machine, with its store.
struct Lab {
    host: FakeHost,
    store: Store,
    directory: tempfile::TempDir,
    interrupt: AtomicBool,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::open(&directory.path().join("results.db")).unwrap();
        Lab { host: FakeHost::new(), store, directory, interrupt: AtomicBool::new(false) }
    }

    /// The engines that measure the overhead, then one for each trial.
    fn engines(&mut self, engines: impl IntoIterator<Item = FakeEngine>) {
        self.host.engines = std::iter::repeat_with(measured).take(OVERHEADS).chain(engines).collect();
    }

    fn run(&mut self, plan: &Plan, resume: Option<SweepId>) -> Result<SweepOutcome, SweepError> {
        self.run_watched(plan, resume, |_, _| {})
    }

    fn run_watched(
        &mut self,
        plan: &Plan,
        resume: Option<SweepId>,
        mut watch: impl FnMut(&Progress<'_>, &AtomicBool),
    ) -> Result<SweepOutcome, SweepError> {
        let options = RunOptions {
            state_dir: &self.directory.path().join("undo"),
            confirmation: &Confirmation { destroy: vec!["/dev/fake1".into()], signatures: Vec::new() },
            interrupt: &self.interrupt,
            resume,
        };
        let interrupt = &self.interrupt;
        let mut machines = Machines { host: &mut self.host, guests: &mut NoGuests };
        run(plan, &mut machines, &mut self.store, &options, &mut |progress| watch(&progress, interrupt))
    }

    fn trials(&self, outcome: &SweepOutcome) -> Vec<TrialRecord> {
        self.store.trials(outcome.sweep).unwrap()
    }

    fn journals(&self) -> usize {
        std::fs::read_dir(self.directory.path().join("undo")).unwrap().count()
    }
}

fn plan(overrides: &[&str]) -> Plan {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_string()).collect();
    Plan::parse(PLAN, "test.toml", &overrides).unwrap()
}

fn phase(name: &str) -> PhaseResult {
    PhaseResult {
        name: name.to_string(),
        ramp_ns: Nanos(0),
        window_ns: Nanos::from_secs(1),
        drain_ns: Nanos(0),
        roles: vec![RoleResult {
            role: Role::Null,
            workers: 2,
            longest_stall_ns: Nanos(0),
            time_over_100ms: 0.0,
            time_over_1s: 0.0,
            blocked_at_start: Vec::new(),
            rates: Rates { operations_per_s: 1e8, ..Rates::default() },
            cpu: Default::default(),
            counts: Default::default(),
            longest_item_ns: None,
            worker_results: Vec::new(),
            operations: Vec::new(),
        }],
        telemetry: None,
    }
}

fn events(events: impl IntoIterator<Item = EngineEvent>) -> FakeEngine {
    let outputs = events.into_iter().map(|event| EngineOutput::Event(Box::new(event))).collect();
    FakeEngine { outputs, ..FakeEngine::default() }
}

fn begun() -> Vec<EngineEvent> {
    let timer = TimerFacts {
        source: "tsc".to_string(),
        read_ns: 12.0,
        overhead_ns_per_op: None,
        overhead_with_telemetry_ns_per_op: None,
    };
    let trees = TreeSummary { files: 7, directories: 2, bytes: 70 };
    vec![
        EngineEvent::Hello { pid: 1, timer },
        EngineEvent::Prepared { duration_ns: Nanos(5), trees },
        progress(Stage::Measure, 0.5),
        EngineEvent::Phase(Box::new(phase("null"))),
    ]
}

fn progress(stage: Stage, done: f64) -> EngineEvent {
    EngineEvent::Progress { stage, phase: "null".to_string(), done, left_ns: Nanos(1) }
}

fn measured() -> FakeEngine {
    events([begun(), vec![EngineEvent::Done]].concat())
}

fn no_space() -> Failure {
    let mut failure = Failure::new("3 readers, 3 writers", "no space left on device");
    failure.errno = Some(28);
    failure.operation = Some(Operation::Write);
    failure.path = Some("tree0/d1/f2".to_string());
    failure
}

fn failure(trial: &TrialRecord) -> &Failure {
    match &trial.outcome {
        Outcome::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn telemetry_is_asked_for_with_the_devices_of_the_trial() {
    let requests = |overrides: &[&str], overheads: usize| {
        let mut lab = Lab::new();
        lab.host.write_setting("/sys/dev/block/7:0/uevent", "DEVNAME=loop0\n");
        lab.host.engines = (0..overheads + 5).map(|_| measured()).collect();
        lab.run(&plan(overrides), None).unwrap();
        let telemetry = |request: &EngineRequest| request.telemetry.clone();
        lab.host.requests.iter().map(telemetry).collect::<Vec<_>>()
    };
    let with = requests(&["telemetry=2s"], OVERHEADS);
    // What the tool itself costs, without and with it.
    assert_eq!(with[0], None);
    assert_eq!(with[1].as_ref().map(|request| request.interval), Some(Nanos::from_millis(500)));
    let expected = TelemetryRequest { interval: Nanos::from_secs(2), devices: vec!["loop0".to_string()] };
    assert_eq!(with[OVERHEADS..], vec![Some(expected); 5]);
    assert_eq!(requests(&["telemetry=false"], 1), vec![None; 6]);
    assert!(Plan::parse(PLAN, "test.toml", &["telemetry=5ms".to_string()]).is_err());
}

#[test]
fn the_engine_is_asked_to_fill_and_age_as_the_configuration_says() {
    let mut lab = Lab::new();
    lab.engines((0..5).map(|_| measured()));
    lab.run(&plan(&["axes.fill=50%", "axes.age=3"]), None).unwrap();
    let asked: Vec<_> = lab.host.requests.iter().map(|request| request.precondition).collect();
    // What the tool itself costs is measured without either.
    assert_eq!(asked[..OVERHEADS], [None; OVERHEADS]);
    assert_eq!(asked[OVERHEADS..], [Some(Precondition { fill_percent: 50, age_rounds: 3 }); 5]);
}

#[test]
fn every_trial_is_measured_and_stored_and_the_machine_is_as_before() {
    let mut lab = Lab::new();
    lab.engines((0..10).map(|_| measured()));
    let before = lab.host.snapshot();
    let mut positions = Vec::new();
    let plan = plan(&["repetitions=2"]);
    let outcome = lab
        .run_watched(&plan, None, |progress, _| {
            if let Progress::Running(at) = progress {
                positions.push((*at).clone());
            }
        })
        .unwrap();
    assert_eq!(outcome.end, SweepEnd::Finished);
    assert_eq!((outcome.measured, outcome.skipped, outcome.failed), (10, 0, 0));
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.host.open_devices(), 0);
    assert_eq!(lab.journals(), 0);
    let trials = lab.trials(&outcome);
    assert_eq!(trials.iter().filter(|trial| trial.sentinel).count(), 2);
    for (trial, slot) in trials.iter().zip(order(&plan)) {
        assert_eq!(
            (trial.trial, trial.block, trial.case, trial.seed),
            (slot.trial, slot.block, slot.case, slot.seed)
        );
        assert_eq!(trial.outcome, Outcome::Measured);
        // 2 workers at 10^8 operations per second together.
        assert_eq!(trial.timer.as_ref().unwrap().overhead_ns_per_op, Some(20.0));
        assert_eq!(trial.trees.files, 7);
        let filesystem = &trial.configuration.filesystem;
        assert!(trial.built.mkfs_command.starts_with(&format!("mkfs.{filesystem}")), "{:?}", trial.built);
        assert_eq!(trial.built.scheduler_in_force, trial.configuration.settings["scheduler"]);
        let lifecycle = &trial.lifecycle_ns;
        assert!(lifecycle.mkfs.is_some() && lifecycle.mount.is_some() && lifecycle.umount.is_some());
        assert!(
            lifecycle.check.is_some() && lifecycle.total.is_some() && lifecycle.prepare == Some(Nanos(5))
        );
    }
    // Each engine got the seed of its trial, and the one directory of its mount.
    let seeds: Vec<u64> = lab.host.requests[OVERHEADS..].iter().map(|request| request.seed).collect();
    assert_eq!(seeds, order(&plan).iter().map(|slot| slot.seed).collect::<Vec<_>>());
    assert!(lab.host.requests[OVERHEADS..].iter().all(|request| request.drop_caches && !request.clean_up));
    // Progress never goes back within a trial, and the time left ends small.
    for pair in positions.windows(2).filter(|pair| pair[0].trial == pair[1].trial) {
        assert!(pair[1].fraction >= pair[0].fraction, "{pair:?}");
    }
    assert!(positions.iter().any(|at| at.stage == "measure"));
    assert_eq!(positions.last().unwrap().trial, 10);
    assert_eq!(lab.store.sweep(outcome.sweep).unwrap().summary.state, SweepState::Finished);
}

#[test]
fn a_failing_engine_fails_its_trial_keeps_its_phases_and_the_sweep_goes_on() {
    let mut lab = Lab::new();
    let fails = events([begun(), vec![EngineEvent::Failed(no_space())]].concat());
    lab.engines([measured(), fails, measured(), measured(), measured()]);
    let before = lab.host.snapshot();
    let outcome = lab.run(&plan(&[]), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Finished, 4, 1));
    let trials = lab.trials(&outcome);
    assert_eq!(failure(&trials[1]), &no_space());
    assert_eq!(trials[1].phases, [phase("null")]);
    assert_eq!(lab.host.snapshot(), before);
}

#[test]
fn an_engine_that_is_silent_ends_early_or_talks_nonsense_fails_its_trial() {
    let mut lab = Lab::new();
    let silent = FakeEngine { hangs: true, ..events(begun()) };
    let mut repeats = events(begun());
    repeats.outputs.extend((0..3).map(|_| EngineOutput::Event(Box::new(progress(Stage::Measure, 0.7)))));
    repeats.hangs = true;
    let mut nonsense = events(begun());
    nonsense.outputs.push_back(EngineOutput::Garbage("segmentation fault".to_string()));
    let mut early = events(begun());
    early.outputs.push_back(EngineOutput::End("out of memory".to_string()));
    lab.engines([silent, repeats, nonsense, early, measured()]);
    let before = lab.host.snapshot();
    let outcome = lab.run(&plan(&[]), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Finished, 1, 4));
    let trials = lab.trials(&outcome);
    assert!(failure(&trials[0]).message.contains("no progress for 70ms while it was to measure"));
    assert!(
        failure(&trials[1]).details.contains("70 % through the stage 'measure'"),
        "{:?}",
        trials[1].outcome
    );
    assert_eq!(failure(&trials[2]).details, "segmentation fault");
    assert_eq!(failure(&trials[3]).details, "out of memory");
    assert!(trials.iter().all(|trial| trial.phases.len() == 1));
    assert_eq!(lab.host.snapshot(), before);
}

#[test]
fn an_engine_that_cannot_be_killed_is_left_behind_and_the_next_trial_steps_aside() {
    let stuck = || FakeEngine { hangs: true, unstoppable: true, ..events(begun()) };
    let plan = plan(&["axes.filesystem=ext4", "axes.scheduler=bfq", "repetitions=2"]);
    // The step at which undoing unmounts, found in a run in which it succeeds.
    let mut lab = Lab::new();
    lab.engines([stuck(), measured()]);
    lab.run(&plan, None).unwrap();
    let steps = lab.host.log();
    let engine = steps.iter().enumerate().filter(|(_, step)| step.starts_with("engine in")).nth(1).unwrap().0;
    let unmount = engine + steps[engine..].iter().position(|step| step.starts_with("umount")).unwrap();

    let mut lab = Lab::new();
    let before = lab.host.snapshot();
    lab.engines([stuck(), measured()]);
    lab.host.fail_at(unmount);
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::NotRestored, 1, 1));
    let trials = lab.trials(&outcome);
    let error = failure(&trials[0]);
    assert!(error.message.contains("no progress"), "{}", error.message);
    assert!(error.details.contains("left behind: process 1"), "{}", error.details);
    assert!(error.details.contains("mount '/run/fsdyno-"), "{}", error.details);
    assert!(error.details.contains("loop device on '/data/fsdyno.img'"), "{}", error.details);
    assert!(trials[0].warnings.iter().any(|warning| warning.kind == WarningKind::LeftBehind));
    assert_eq!(trials[0].phases.len(), 1);
    let images: Vec<_> = trials.iter().map(|trial| trial.device.path().display().to_string()).collect();
    assert_eq!(images, ["/data/fsdyno.img", "/data/fsdyno.img.1"]);
    assert!(outcome.left.iter().any(|line| line.contains("process 1")), "{:?}", outcome.left);
    // By the end of the sweep the mount was free again.
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.journals(), 0);
}

#[test]
fn a_stuck_block_device_fails_the_remaining_trials_with_the_reason() {
    let mut lab = Lab::new();
    lab.host.add_block("/dev/fake1", (259, 0), Bytes(8 * Bytes::GIB));
    let stuck = FakeEngine { hangs: true, unstoppable: true, ..events(begun()) };
    lab.engines([stuck]);
    let plan = plan(&["device={block=\"/dev/fake1\"}", "axes.filesystem=ext4"]);
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.end, outcome.failed), (SweepEnd::NotRestored, 3));
    for trial in &lab.trials(&outcome)[1..] {
        assert!(failure(trial).message.contains("an earlier trial still holds the device"));
        assert!(failure(trial).details.contains("process 1"));
    }
    assert_eq!(lab.host.requests.len(), OVERHEADS + 1, "no engine was started after the stuck one");
}

#[test]
fn ctrl_c_undoes_everything_and_resume_runs_exactly_the_missing_trials() {
    let mut lab = Lab::new();
    lab.engines((0..5).map(|_| measured()));
    let before = lab.host.snapshot();
    let plan = plan(&[]);
    let outcome = lab
        .run_watched(&plan, None, |progress, interrupt| {
            if let Progress::Running(at) = progress
                && at.trial == 3
                && at.stage == "mount"
            {
                interrupt.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Interrupted, 2));
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.journals(), 0);
    assert_eq!(lab.store.sweep(outcome.sweep).unwrap().summary.state, SweepState::Interrupted);

    lab.interrupt.store(false, Ordering::Relaxed);
    lab.engines((0..5).map(|_| measured()));
    let engines_before = lab.host.requests.len();
    let resumed = lab.run(&plan, Some(outcome.sweep)).unwrap();
    assert_eq!((resumed.sweep, resumed.end, resumed.measured), (outcome.sweep, SweepEnd::Finished, 3));
    assert_eq!(lab.host.requests.len() - engines_before, OVERHEADS + 3, "three trials and the overhead");
    let numbers: Vec<u32> = lab.trials(&resumed).iter().map(|trial| trial.trial).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(lab.store.sweep(outcome.sweep).unwrap().summary.state, SweepState::Finished);
}

#[test]
fn an_interrupted_engine_is_stopped() {
    let mut lab = Lab::new();
    let long = events((0..1000).map(|step| progress(Stage::Measure, f64::from(step) / 1000.0)));
    lab.engines([long]);
    let outcome = lab
        .run_watched(&plan(&[]), None, |progress, interrupt| {
            if matches!(progress, Progress::Running(at) if at.stage == "measure") {
                interrupt.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Interrupted, 0, 0));
    assert!(lab.trials(&outcome).is_empty());
}

#[test]
fn a_sweep_goes_on_only_with_its_own_plan() {
    let mut lab = Lab::new();
    lab.engines((0..5).map(|_| measured()));
    let outcome = lab.run(&plan(&[]), None).unwrap();
    let error = lab.run(&plan(&["seed=7"]), Some(outcome.sweep)).unwrap_err();
    assert!(matches!(error, SweepError::PlanDiffers { .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn cases_that_the_machine_cannot_run_are_skipped_with_every_reason_and_touch_nothing() {
    let mut lab = Lab::new();
    lab.host.programs.remove("mkfs.xfs");
    lab.host.programs.remove("xfs_repair");
    lab.engines((0..3).map(|_| measured()));
    let outcome = lab.run(&plan(&[]), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.skipped), (SweepEnd::Finished, 3, 2));
    for trial in lab.trials(&outcome).iter().filter(|trial| trial.configuration.filesystem == "xfs") {
        let Outcome::Skipped { unmet } = &trial.outcome else { panic!("{:?}", trial.outcome) };
        assert!(unmet.iter().any(|reason| reason.contains("mkfs.xfs")), "{unmet:?}");
    }
    assert!(!lab.host.log().iter().any(|step| step.contains("mount -t xfs")), "{:?}", lab.host.log());
}

#[test]
fn a_failing_tool_fails_its_case_only() {
    let mut lab = Lab::new();
    let broken = fsdyno_host::Output {
        status: 1,
        stdout: String::new(),
        stderr: "mkfs.xfs: cannot".to_string(),
        duration: Nanos(1),
    };
    lab.host.programs.insert("mkfs.xfs".to_string(), broken);
    lab.engines((0..3).map(|_| measured()));
    let before = lab.host.snapshot();
    let outcome = lab.run(&plan(&[]), None).unwrap();
    assert_eq!((outcome.measured, outcome.failed), (3, 2));
    let trials = lab.trials(&outcome);
    let error = failure(trials.iter().find(|trial| trial.configuration.filesystem == "xfs").unwrap());
    assert_eq!((error.step.as_str(), error.details.as_str()), ("mkfs", "mkfs.xfs: cannot"));
    assert_eq!(lab.host.snapshot(), before);
}

/// Whatever step of a whole sweep fails, or is the last one before a crash, the machine is as before after `restore`, and
/// what is stored stays.
#[test]
fn wherever_a_sweep_fails_or_crashes_the_machine_comes_back() {
    let plan = plan(&["axes.filesystem=ext4", "axes.scheduler=bfq", "repetitions=2"]);
    let mut lab = Lab::new();
    let before = lab.host.snapshot();
    lab.engines([measured(), measured()]);
    lab.run(&plan, None).unwrap();
    let steps = lab.host.log().to_vec();
    let mut outcomes = [0, 0];
    for (step, text) in steps.iter().enumerate() {
        for fault in [Fault::Fail, Fault::CrashBefore, Fault::CrashAfter] {
            // What undoing then finds busy it waits for, seconds each time; the testbed's own tests cover it.
            let undoing = ["umount", "detach"].iter().any(|word| text.starts_with(word));
            if fault == Fault::Fail && undoing {
                continue;
            }
            let mut lab = Lab::new();
            lab.engines([measured(), measured()]);
            lab.host.fault_at(step, fault);
            let result = lab.run(&plan, None);
            lab.host.revive();
            let report =
                fsdyno_testbed::undo::restore(&mut lab.host, &lab.directory.path().join("undo")).unwrap();
            assert!(report.report.left.is_empty(), "{fault:?} at {step}, {text}: {report:?}");
            assert_eq!(lab.host.snapshot(), before, "{fault:?} at {step}, {text}");
            if let Ok(outcome) = result {
                let trials = lab.trials(&outcome);
                assert_eq!(trials.len(), 2, "{fault:?} at {step}, {text}");
                let measured = trials.iter().filter(|trial| trial.outcome == Outcome::Measured).count();
                assert_eq!(outcome.measured as usize, measured);
                outcomes[0] += u32::from(measured == 1);
                outcomes[1] += u32::from(measured == 2);
            }
        }
    }
    assert!(
        outcomes.iter().all(|count| *count > 0),
        "failures were survived with and without loss: {outcomes:?}"
    );
}

#[test]
fn a_guard_refuses_before_anything_is_stored() {
    let mut lab = Lab::new();
    lab.host.add_file("/data/fsdyno.img", Bytes(1));
    lab.engines([]);
    let before = lab.host.snapshot();
    let error = lab.run(&plan(&[]), None).unwrap_err();
    assert!(matches!(error, SweepError::Testbed(TestbedError::Refused { .. })), "{error}");
    assert!(lab.store.sweeps().unwrap().is_empty());
    assert_eq!(lab.host.snapshot(), before);
}

#[test]
fn a_bench_uses_a_directory_as_it_stands() {
    let mut lab = Lab::new();
    lab.engines([measured()]);
    let before = lab.host.snapshot();
    let options = BenchOptions {
        window: Some(Nanos::from_secs(2)),
        set: vec!["readers=5".to_string()],
        ..BenchOptions::default()
    };
    let plan = bench_plan(&mut lab.host, "/data".as_ref(), &options).unwrap();
    assert_eq!(order(&plan).len(), 1);
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 1));
    let request = &lab.host.requests[OVERHEADS];
    assert!(request.clean_up);
    assert_eq!(request.directory.parent(), Some(std::path::Path::new("/data")));
    let fsdyno_core::Workload::Fileserver(fileserver) = &request.workload else { panic!("{request:?}") };
    // A fiftieth of the free TiB would be too much for a minute.
    assert_eq!(fileserver.tree_size, Bytes(512 * Bytes::MIB));
    assert_eq!(fileserver.writer_space, Some(Bytes(256 * Bytes::MIB)));
    assert_eq!((fileserver.readers, fileserver.window), (5, Nanos::from_secs(2)));
    assert_eq!(lab.host.snapshot(), before);
    let bad = BenchOptions { set: vec!["reders=5".to_string()], ..BenchOptions::default() };
    let error = bench_plan(&mut lab.host, "/data".as_ref(), &bad).unwrap_err();
    assert!(error.to_string().contains("did you mean 'readers'?"), "{error}");
}

#[test]
fn a_dry_run_tells_commands_time_and_space_and_changes_nothing() {
    let mut host = FakeHost::new();
    let before = host.snapshot();
    let plan = Plan::parse(
        &PLAN
            .replace("kind = \"null\"", "kind = \"fileserver\"\ntree_size = \"1G\"\nwriter_space = \"100M\""),
        "test.toml",
        &["workloads.ramp=8s".to_string(), "workloads.window=2s".to_string(), "repetitions=3".to_string()],
    )
    .unwrap();
    let dry = dry_run(&plan, &mut host, &mut NoGuests);
    assert_eq!(host.snapshot(), before);
    assert_eq!((dry.cases.len(), dry.trials), (4, 15));
    // 2 s around, 5.4 s for the trees, three phases of 10 s.
    let each = dry.cases[0].time_ns.as_secs_f64();
    assert!((37.0..38.0).contains(&each), "{each}");
    assert_eq!(dry.time_ns.0, dry.cases[0].time_ns.0 * 15);
    assert!(
        dry.space_bytes > Bytes(Bytes::GIB) && dry.space_bytes < Bytes(4 * Bytes::GIB),
        "{}",
        dry.space_bytes
    );
    let commands = &dry.cases[2].commands;
    assert!(commands.iter().any(|line| line.starts_with("mkfs.xfs")), "{commands:?}");
    assert!(commands.iter().any(|line| line.contains("mount -t xfs")), "{commands:?}");
    let json = serde_json::to_value(&dry).unwrap();
    assert_eq!(json["cases"][0]["configuration"]["filesystem"], "ext4");
    assert!(json["cases"][0]["commands"].is_array());
}

/// Two cases of which the second never settles, repeated until half of the interval is below 5 %.
fn restless() -> Plan {
    plan(&[
        "repetitions={ min = 2, max = 4, until = \"5%\" }",
        "axes.filesystem=ext4",
        "measure=null/null/operation-rate",
    ])
}

fn at_rate(operations_per_s: f64) -> FakeEngine {
    let mut phase = phase("null");
    phase.roles[0].rates.operations_per_s = operations_per_s;
    let mut told = begun();
    told.pop();
    events(told.into_iter().chain([EngineEvent::Phase(Box::new(phase)), EngineEvent::Done]))
}

/// One engine for each trial that follows: the sentinel and the first case always alike, the second never.
fn restless_engines(plan: &Plan, from: usize) -> Vec<FakeEngine> {
    let complete = order(plan).into_iter().map(|slot| slot.case);
    // A further block is the sentinel and the case that is still wanting.
    let cases = complete.chain([0, 1, 0, 1]);
    let rate = |(trial, case): (usize, u32)| if case == 0 { 1e8 } else { 1e8 * (1 + trial % 7) as f64 };
    cases.enumerate().skip(from).map(|at| at_rate(rate(at))).collect()
}

fn places(trials: &[TrialRecord]) -> Vec<(u32, u32, u32, bool, u64)> {
    trials.iter().map(|trial| (trial.trial, trial.block, trial.case, trial.sentinel, trial.seed)).collect()
}

#[test]
fn a_case_is_repeated_until_it_is_known_well_enough_and_then_given_up() {
    let plan = restless();
    let mut lab = Lab::new();
    lab.engines(restless_engines(&plan, 0));
    let mut further = Vec::new();
    let outcome = lab
        .run_watched(&plan, None, |progress, _| match progress {
            Progress::Further { block, cases, trials } => further.push((*block, cases.len(), *trials)),
            Progress::Stored(position, _) if position.trial == 6 => assert!(position.more_may_follow),
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 10));
    assert_eq!(further, [(3, 1, 8), (4, 1, 10)]);
    let trials = lab.trials(&outcome);
    let blocks = |case| {
        let own = trials.iter().filter(|trial| trial.case == case && !trial.sentinel);
        own.map(|trial| trial.block).collect::<Vec<_>>()
    };
    assert_eq!((blocks(0), blocks(1)), (vec![0, 1], vec![0, 1, 2, 3]));
    assert_eq!(trials.iter().filter(|trial| trial.sentinel).count(), 4);
    let still_wide = |trial: &&TrialRecord| {
        trial
            .warnings
            .iter()
            .any(|warning| warning.kind == WarningKind::StillWide && warning.text.contains("4 blocks"))
    };
    let given_up: Vec<u32> = trials.iter().filter(still_wide).map(|trial| trial.trial).collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!(trials[given_up[0] as usize].case, 1);
    let summary = lab.store.sweep(outcome.sweep).unwrap().summary;
    assert_eq!((summary.trials, summary.state), (10, SweepState::Finished));
}

#[test]
fn an_interrupted_further_block_goes_on_where_it_stopped() {
    let plan = restless();
    let mut whole = Lab::new();
    whole.engines(restless_engines(&plan, 0));
    let outcome = whole.run(&plan, None).unwrap();
    let expected = places(&whole.trials(&outcome));
    for last in 1..expected.len() as u32 {
        let mut lab = Lab::new();
        lab.engines(restless_engines(&plan, 0));
        let stopped = lab
            .run_watched(&plan, None, |progress, interrupt| {
                if let Progress::Stored(position, _) = progress {
                    interrupt.store(position.trial == last, Ordering::Relaxed);
                }
            })
            .unwrap();
        assert_eq!((stopped.end, stopped.measured), (SweepEnd::Interrupted, last));
        lab.interrupt.store(false, Ordering::Relaxed);
        lab.engines(restless_engines(&plan, last as usize));
        let resumed = lab.run(&plan, Some(stopped.sweep)).unwrap();
        assert_eq!(resumed.end, SweepEnd::Finished, "stopped after {last}");
        assert_eq!(places(&lab.trials(&resumed)), expected, "stopped after {last}");
    }
}

#[test]
fn a_case_that_cannot_be_measured_is_not_repeated() {
    let plan = restless();
    let mut lab = Lab::new();
    let failing = |slot: fsdyno_sweep::Slot| match slot.case {
        0 => at_rate(1e8),
        _ => events([begun(), vec![EngineEvent::Failed(no_space())]].concat()),
    };
    lab.engines(order(&plan).into_iter().map(failing));
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.measured, outcome.failed), (4, 2));
}

#[test]
fn a_dry_run_tells_the_least_and_the_most() {
    let run = dry_run(&restless(), &mut FakeHost::new(), &mut NoGuests);
    assert_eq!((run.trials, run.trials_max), (6, 12));
    assert_eq!(run.time_max_ns.0, 2 * run.time_ns.0);
    let fixed = dry_run(&plan(&[]), &mut FakeHost::new(), &mut NoGuests);
    assert_eq!((fixed.trials, fixed.time_ns), (fixed.trials_max, fixed.time_max_ns));
}
