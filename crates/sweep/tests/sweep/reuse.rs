//! Trials that begin with copies of what was prepared once, on a machine in memory.

use crate::lab::{Lab, events, failure, hello, phase, plan};
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::{EngineEvent, Failure, Nanos, Outcome, TrialRecord};
use fsdyno_sweep::{SweepEnd, SweepEvent};
use fsdyno_testkit::fake::{FakeEngine, Fault};
use std::sync::atomic::Ordering;

const PLAN: &str = r#"
name = "reuse"
repetitions = 2
watchdog = "50ms"
telemetry = false
reuse = "prepared"
[device]
image = "/data/fsdyno.img"
size = "4G"
[axes]
filesystem = "ext4"
scheduler = ["none", "bfq"]
[[workloads]]
kind = "streaming"
file_size = "64M"
stages = ["read"]
"#;

const TREES: TreeSummary = TreeSummary { files: 7, directories: 2, bytes: 70 };

fn prepares() -> FakeEngine {
    let prepared = EngineEvent::Prepared { duration_ns: Nanos(5), trees: TREES };
    events(vec![hello(), prepared, EngineEvent::Done])
}

fn reads() -> FakeEngine {
    events(vec![hello(), EngineEvent::Phase(Box::new(phase("read"))), EngineEvent::Done])
}

/// The engines of both blocks: the sentinel prepares what all trials of its block begin with.
fn engines() -> Vec<FakeEngine> {
    vec![prepares(), reads(), reads(), reads(), prepares(), reads(), reads(), reads()]
}

fn count(lab: &Lab, word: &str) -> usize {
    lab.host.log().iter().filter(|step| step.starts_with(word)).count()
}

fn run(lab: &mut Lab) -> Vec<TrialRecord> {
    let before = lab.host.snapshot();
    let outcome = lab.run(&plan(PLAN, &[]), None).expect("the sweep ends");
    assert_eq!(outcome.end, SweepEnd::Finished);
    assert_eq!((lab.host.snapshot(), lab.host.open_devices(), lab.journals()), (before, 0, 0));
    lab.trials(&outcome)
}

#[test]
fn a_block_prepares_once_and_each_trial_reads_a_copy() {
    let mut lab = Lab::without_telemetry();
    lab.engines(engines());
    let trials = run(&mut lab);
    assert!(trials.iter().all(|trial| trial.outcome == Outcome::Measured), "{trials:?}");
    let prepared: Vec<Option<u32>> = trials.iter().map(|trial| trial.prepared_in).collect();
    assert_eq!(prepared, [0, 0, 0, 3, 3, 3].map(Some));
    assert_eq!(count(&lab, "run mkfs.ext4 -F"), 2);
    for (at, trial) in (0..).zip(&trials) {
        let (own, lifecycle) = (trial.prepared_in == Some(at), &trial.lifecycle_ns);
        let once = [lifecycle.mkfs, lifecycle.mount, lifecycle.prepare, lifecycle.umount_between];
        assert!(once.iter().all(|took| took.is_some() == own), "{lifecycle:?}");
        assert!(lifecycle.copy.is_some() && lifecycle.mount_between.is_some(), "{lifecycle:?}");
        assert!(
            trial.configuration.built.mkfs_command.starts_with("mkfs.ext4"),
            "{:?}",
            trial.configuration.built
        );
        assert_eq!(trial.trees, TREES);
        assert!(trial.timer.is_some() && !trial.environment.geometry.is_empty());
        assert_eq!(trial.phases.len(), 1);
    }
    let parts: Vec<(u32, bool)> =
        lab.host.requests[1..].iter().map(|request| (request.part.number, request.remounted)).collect();
    let (first, second) = ((0, false), (1, true));
    assert_eq!(parts, [[first, second, second, second]; 2].concat());
    assert!(lab.host.requests[1..].iter().all(|request| request.part.of == EnginePart::WHOLE.of + 1));
}

#[test]
fn what_could_not_be_prepared_is_prepared_again() {
    let mut lab = Lab::without_telemetry();
    let fails = events(vec![hello(), EngineEvent::Failed(Failure::new("prepare", "no such luck"))]);
    // The sentinel fails to prepare, and the trial after it prepares.
    lab.engines([&[fails, prepares(), reads(), reads()], &engines()[4..]].concat());
    let trials = run(&mut lab);
    assert!(failure(&trials[0]).message.contains("no such luck"), "{:?}", trials[0]);
    assert!(trials[1..].iter().all(|trial| trial.outcome == Outcome::Measured), "{trials:?}");
    let prepared: Vec<Option<u32>> = trials.iter().map(|trial| trial.prepared_in).collect();
    assert_eq!(prepared, [None, Some(1), Some(1), Some(3), Some(3), Some(3)]);
}

#[test]
fn an_interruption_leaves_nothing_of_what_was_prepared() {
    for stage in ["mkfs", "start the engine", "copy", "mount again"] {
        let mut lab = Lab::without_telemetry();
        lab.engines(engines());
        let before = lab.host.snapshot();
        let outcome = lab.run_watched(&plan(PLAN, &[]), None, |progress, interrupt| {
            if matches!(progress, SweepEvent::Running(at) if at.progress.step.name() == stage) {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        assert_eq!(outcome.unwrap().end, SweepEnd::Interrupted, "{stage}");
        assert_eq!((lab.host.snapshot(), lab.journals()), (before, 0), "{stage}");
    }
}

/// Whatever step fails, or is the last one before a crash, nothing is left after `restore`.
#[test]
fn wherever_it_fails_or_crashes_the_machine_comes_back() {
    let mut lab = Lab::without_telemetry();
    lab.engines(engines());
    let before = lab.host.snapshot();
    let once = plan(PLAN, &["repetitions=1"]);
    lab.run(&once, None).expect("the sweep ends");
    for (step, text) in lab.host.log().to_vec().iter().enumerate() {
        for fault in [Fault::Fail, Fault::CrashBefore, Fault::CrashAfter] {
            // What undoing then finds busy it waits for, seconds each time.
            let undoing = ["umount", "detach"].iter().any(|word| text.starts_with(word));
            if fault == Fault::Fail && undoing {
                continue;
            }
            let mut lab = Lab::without_telemetry();
            lab.engines(engines());
            lab.host.fault_at(step, fault);
            let _ = lab.run(&once, None);
            let report = lab.restore();
            assert!(report.report.left.is_empty(), "{fault:?} at {step}, {text}: {report:?}");
            assert_eq!(lab.host.snapshot(), before, "{fault:?} at {step}, {text}");
        }
    }
}
