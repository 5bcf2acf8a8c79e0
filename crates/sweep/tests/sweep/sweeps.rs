//! Whole sweeps on a machine in memory: what is recorded, what goes on after a failure, and that the machine
//! is as before.

use crate::lab::{
    self, Lab, OVERHEADS, PLAN, events, failure, full, measured, no_space, parse, phase, progress, until_end,
};
use fsdyno_core::result::{Latency, OperationResult, Timeline};
use fsdyno_core::{
    Bytes, EngineEvent, EngineRequest, Nanos, Operation, Outcome, Precondition, TelemetryRequest, TrialStep,
    WarningKind,
};
use fsdyno_host::{EngineOutput, Plight};
use fsdyno_store::SweepState;
use fsdyno_sweep::{Plan, SweepEnd, SweepError, SweepEvent, order, unfinished};
use fsdyno_testbed::TestbedError;
use fsdyno_testkit::fake::{FakeEngine, Fault};
use std::sync::atomic::{AtomicBool, Ordering};

fn plan(overrides: &[&str]) -> Plan {
    lab::plan(PLAN, overrides)
}

fn begun() -> Vec<EngineEvent> {
    until_end(phase("null"))
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
    let interval = |requests: &[Option<TelemetryRequest>]| requests[1].as_ref().map(|asked| asked.interval);
    // The windows of this plan have 20 ms.
    assert_eq!(interval(&with), Some(Nanos::from_millis(100)));
    for (window, asked) in [("300ms", 300), ("10s", 500)] {
        let with = requests(&["telemetry=2s", &format!("workloads.window={window}")], OVERHEADS);
        assert_eq!(interval(&with), Some(Nanos::from_millis(asked)), "{window}");
    }
    let expected = TelemetryRequest { interval: Nanos::from_secs(2), devices: vec!["loop0".to_string()] };
    assert_eq!(with[OVERHEADS..], vec![Some(expected); 5]);
    assert_eq!(requests(&["telemetry=false"], 1), vec![None; 6]);
    assert!(parse(PLAN, "test.toml", &["telemetry=5ms"]).is_err());
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

/// A sentinel that cannot run shows no drift.
#[test]
fn the_sentinel_is_the_first_case_that_this_machine_can_run() {
    let plan = plan(&["axes.filesystem=xfs", "axes.scheduler=bfq", "axes.barrier=[0, 1]", "repetitions=2"]);
    let mut lab = Lab::new();
    lab.engines((0..4).map(|_| measured()));
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.measured, outcome.skipped, outcome.failed), (4, 2, 0));
    let sentinels: Vec<_> = lab.trials(&outcome).into_iter().filter(|trial| trial.sentinel).collect();
    assert_eq!(sentinels.len(), 2);
    for trial in sentinels {
        assert_eq!((trial.case, &trial.outcome), (1, &Outcome::Measured), "barrier = 0 is not possible");
    }
}

#[test]
fn a_parameter_without_effect_is_a_warning_of_each_trial() {
    let plan = lab::plan(
        &PLAN.replace(
            "kind = \"null\"",
            "kind = \"streaming\"\niodepth = 64\nfile_size = \"4M\"\nstages = [\"random-read\"]",
        ),
        &["axes.filesystem=ext4", "axes.scheduler=bfq"],
    );
    let mut lab = Lab::new();
    lab.engines([measured()]);
    let outcome = lab.run(&plan, None).unwrap();
    let trial = &lab.trials(&outcome)[0];
    let idle: Vec<&str> = trial
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::NoEffect)
        .map(|warning| warning.text.as_str())
        .collect();
    assert_eq!(idle, ["'iodepth' of workload 'streaming' has no effect: it needs io = \"io_uring\""]);
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
            if let SweepEvent::Running(at) = progress {
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
        assert_eq!(trial.timer.as_ref().unwrap().overhead_ns_per_op, Some(20.0));
        assert_eq!(trial.trees.files, 7);
        let filesystem = &trial.configuration.filesystem;
        assert!(
            trial.configuration.built.mkfs_command.starts_with(&format!("mkfs.{filesystem}")),
            "{:?}",
            trial.configuration.built
        );
        assert_eq!(trial.configuration.built.scheduler_in_force, trial.configuration.settings["scheduler"]);
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
    assert!(positions.iter().any(|at| at.progress.step.name() == "measure"));
    assert_eq!(positions.last().unwrap().trial, 10);
    assert_eq!(lab.store.sweep(outcome.sweep).unwrap().summary.state, SweepState::Finished);
}

#[test]
fn a_failing_engine_fails_its_trial_keeps_its_phases_and_the_sweep_goes_on() {
    let mut lab = Lab::new();
    lab.engines([measured(), full(), measured(), measured(), measured()]);
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
    repeats.outputs.extend((0..3).map(|_| EngineOutput::Event(Box::new(progress(TrialStep::Measure, 0.7)))));
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
    assert!(failure(&trials[0]).message.contains("no progress for 70ms in stage 'measure'"));
    assert!(failure(&trials[1]).details.contains("70 % of stage 'measure'"), "{:?}", trials[1].outcome);
    assert_eq!(failure(&trials[2]).details, "segmentation fault");
    assert_eq!(failure(&trials[3]).details, "out of memory");
    assert!(trials.iter().all(|trial| trial.phases.len() == 1));
    assert_eq!(lab.host.snapshot(), before);
}

/// A busy machine and a device that hangs look the same from outside.
#[test]
fn an_engine_without_a_processor_does_not_hang_in_the_kernel() {
    let heard = |plight: Plight| {
        let mut lab = Lab::new();
        let kept = Some(plight);
        lab.engines([FakeEngine { hangs: true, unstoppable: true, plight: kept, ..events(begun()) }]);
        let plan = plan(&["axes.filesystem=ext4", "axes.scheduler=bfq", "repetitions=1"]);
        let outcome = lab.run(&plan, None).unwrap();
        let failure = failure(&lab.trials(&outcome)[0]).clone();
        (failure.hint.unwrap(), failure.details)
    };
    let (hint, left) = heard(Plight::NoProcessor);
    assert!(hint.contains("others use the processors") && !hint.contains("hung"), "{hint}");
    assert!(left.contains("engine process 1, which was killed and has had no processor"), "{left}");
    let (hint, left) = heard(Plight::InKernel);
    assert!(hint.starts_with("look for hung tasks in the kernel log"), "{hint}");
    assert!(left.contains("engine process 1, which hangs in the kernel and cannot be killed"), "{left}");
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
    assert!(error.details.contains("left behind: engine process 1"), "{}", error.details);
    assert!(error.details.contains("mount '/run/fsdyno-"), "{}", error.details);
    assert!(error.details.contains("loop device on '/data/fsdyno.img'"), "{}", error.details);
    assert!(trials[0].warnings.iter().any(|warning| warning.kind == WarningKind::LeftBehind));
    assert_eq!(trials[0].phases.len(), 1);
    let images: Vec<_> =
        trials.iter().map(|trial| trial.configuration.device.path().display().to_string()).collect();
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
            if let SweepEvent::Running(at) = progress
                && at.trial == 3
                && at.progress.step.name() == "mount"
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
fn a_sweep_does_not_go_on_with_another_disk() {
    let named = "[device]\nblock = \"/dev/fake1\"\n";
    let text = PLAN.replace("[device]\nimage = \"/data/fsdyno.img\"\nsize = \"4G\"\n", named);
    let plan = lab::plan(&text, &[]);
    let mut lab = Lab::new();
    lab.host.add_block("/dev/fake1", (259, 1), Bytes(8 << 30));
    lab.engines((0..3).map(|_| measured()));
    let stop = |progress: &SweepEvent<'_>, interrupt: &AtomicBool| {
        let third = matches!(progress, SweepEvent::Running(at) if at.trial == 3);
        interrupt.fetch_or(third, Ordering::Relaxed);
    };
    let outcome = lab.run_watched(&plan, None, stop).unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Interrupted, 2));
    lab.interrupt.store(false, Ordering::Relaxed);

    lab.host.add_block("/dev/fake1", (259, 1), Bytes(6 << 30));
    let before = lab.host.snapshot();
    let error = lab.run(&plan, Some(outcome.sweep)).unwrap_err();
    assert!(matches!(error, SweepError::DiskDiffers { .. }), "{error}");
    assert!(error.to_string().contains("that was 8589934592 bytes"), "{error}");
    assert_eq!((lab.host.snapshot(), lab.trials(&outcome).len()), (before, 2));

    lab.host.add_block("/dev/fake1", (259, 1), Bytes(8 << 30));
    lab.engines((0..3).map(|_| measured()));
    assert_eq!(lab.run(&plan, Some(outcome.sweep)).unwrap().end, SweepEnd::Finished);
}

#[test]
fn an_interrupted_engine_is_stopped() {
    let mut lab = Lab::new();
    let long = events((0..1000).map(|step| progress(TrialStep::Measure, f64::from(step) / 1000.0)));
    lab.engines([long]);
    let outcome = lab
        .run_watched(&plan(&[]), None, |progress, interrupt| {
            if matches!(progress, SweepEvent::Running(at) if at.progress.step.name() == "measure") {
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
fn a_sweep_from_a_file_cannot_go_on_here() {
    let mut lab = Lab::new();
    lab.engines((0..5).map(|_| measured()));
    let outcome = lab.run(&plan(&[]), None).unwrap();
    let mut packed = Vec::new();
    lab.store.pack(outcome.sweep, &mut packed).unwrap();
    let unpacked = lab.store.unpack(&packed[..], None).unwrap();
    let before = lab.host.snapshot();
    let error = lab.run(&plan(&[]), Some(unpacked.id)).unwrap_err();
    assert!(error.to_string().contains("was measured elsewhere and cannot continue here"), "{error}");
    assert_eq!(lab.host.snapshot(), before);
    let text = lab.store.sweep(unpacked.id).unwrap().plan_toml;
    let error = unfinished(&lab.store, Some(&unpacked.id.to_string()), &text, &[]).unwrap_err();
    assert!(matches!(error, SweepError::MeasuredElsewhere { .. }), "{error}");
    // Where nothing else is stored of the plan, the same is said without a number.
    lab.store.delete_sweep(outcome.sweep).unwrap();
    let error = unfinished(&lab.store, None, &text, &[]).unwrap_err();
    assert!(matches!(error, SweepError::MeasuredElsewhere { .. }), "{error}");
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

/// Whatever step of a whole sweep fails, or is the last one before a crash, the machine is as before after
/// `restore`, and what is stored stays.
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
            let report = lab.restore();
            assert!(report.report.left.is_empty(), "{fault:?} at {step}, {text}: {report:?}");
            assert_eq!(lab.host.snapshot(), before, "{fault:?} at {step}, {text}");
            if let Ok(outcome) = result {
                assert!(outcome.broken.is_none(), "{fault:?} at {step}, {text}: {outcome:?}");
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
fn an_engine_that_cannot_tell_what_it_costs_leaves_nothing_behind() {
    let mut lab = Lab::new();
    lab.host.engines = [events([])].into();
    let before = lab.host.snapshot();
    let error = lab.run(&plan(&[]), None).unwrap_err();
    assert!(matches!(error, SweepError::Engine { .. }), "{error}");
    assert_eq!((lab.journals(), lab.store.sweeps().unwrap().len()), (0, 0));
    assert_eq!(lab.host.snapshot(), before);
}

#[test]
fn a_trial_that_cannot_be_stored_is_kept_and_ends_the_sweep() {
    let mut lab = Lab::new();
    let before = lab.host.snapshot();
    let mut odd = phase("null");
    odd.roles[0].operations = vec![OperationResult {
        operation: Operation::Null,
        censored: 0,
        lat_ns: Latency::default(),
        histogram: "not a histogram".to_string(),
        timeline: Timeline::default(),
        slowest: Vec::new(),
    }];
    lab.engines([measured(), lab::measured_as(odd)]);
    let mut outcome = lab.run(&plan(&[]), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Broken, 1, 0));
    let Some(SweepError::NotStored { trial: 1, kept, .. }) = outcome.broken.take() else {
        panic!("{:?}", outcome.broken)
    };
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(text.contains("not a histogram"), "{text}");
    assert_eq!(lab.trials(&outcome).len(), 1);
    assert_eq!((lab.host.snapshot(), lab.journals()), (before, 0), "everything is undone");
    // It is never thrown away: a trial that the store refuses stays in its file.
    let added = lab.store.add_kept(&[]);
    assert!(added.left.len() == 1 && kept.exists(), "{added:?}");
}

#[test]
fn who_is_in_a_hurry_is_told_what_is_left_instead_of_waiting_for_it() {
    let plan = plan(&["axes.filesystem=ext4", "axes.scheduler=bfq"]);
    let sweep = |lab: &mut Lab| {
        lab.engines([measured()]);
        lab.run_watched(&plan, None, |progress, interrupt| {
            if matches!(progress, SweepEvent::Running(at) if at.progress.step.name() == "tear down") {
                interrupt.store(true, Ordering::Relaxed);
            }
        })
        .unwrap()
    };
    // The trial's own unmount hangs, and then that of undoing.
    let mut hanging: Vec<usize> = Vec::new();
    for _ in 0..2 {
        let mut lab = Lab::new();
        hanging.iter().for_each(|step| lab.host.fault_at(*step, Fault::Hang));
        sweep(&mut lab);
        let after = hanging.last().map_or(0, |step| step + 1);
        let next = lab.host.log()[after..].iter().position(|text| text.starts_with("umount"));
        hanging.push(after + next.expect("an unmount"));
    }
    for hurry in [false, true] {
        let mut lab = Lab::new();
        hanging.iter().for_each(|step| lab.host.fault_at(*step, Fault::Hang));
        lab.hurry.store(hurry, Ordering::Relaxed);
        let outcome = sweep(&mut lab);
        let (end, left) = match hurry {
            false => (SweepEnd::Interrupted, false),
            true => (SweepEnd::NotRestored, true),
        };
        assert_eq!(
            (outcome.end, outcome.left.iter().any(|line| line.starts_with("mount '/run/"))),
            (end, left)
        );
        assert_eq!(lab.restore().report.left, [""; 0]);
        assert_eq!(lab.journals(), 0);
    }
}
