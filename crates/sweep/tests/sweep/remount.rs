//! Loads in parts, on a machine in memory: between them the filesystem is unmounted and mounted again, and
//! whatever goes wrong there, the machine is as before and the record says what is known.

use crate::lab::{Lab, events, failure, hello, phase, plan};
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::result::{Durable, Layout, LifecycleStep};
use fsdyno_core::{EngineEvent, Nanos, Outcome, TrialRecord, WarningKind};
use fsdyno_sweep::{SweepEnd, SweepError, SweepEvent, SweepOutcome};
use fsdyno_testkit::fake::{FakeEngine, Fault};
use std::sync::atomic::Ordering;

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

/// The time after the writing until everything is on the device.
const WRITTEN_BACK: Nanos = Nanos::from_secs(5);

/// A machine whose engines write, then read.
fn lab() -> Lab {
    let mut lab = Lab::without_telemetry();
    lab.engines([part("write"), part("read")]);
    lab
}

/// Runs one trial.
fn run(lab: &mut Lab, overrides: &[&str]) -> (Result<SweepOutcome, SweepError>, Vec<TrialRecord>) {
    run_until(lab, overrides, "")
}

/// Runs one trial; the user interrupts it at this stage.
fn run_until(
    lab: &mut Lab,
    overrides: &[&str],
    until: &str,
) -> (Result<SweepOutcome, SweepError>, Vec<TrialRecord>) {
    let plan = plan(PLAN, &[&["repetitions=1"], overrides].concat());
    let outcome = lab.run_watched(&plan, None, |progress, interrupt| {
        if matches!(progress, SweepEvent::Running(at) if at.progress.step.name() == until) {
            interrupt.store(true, Ordering::Relaxed);
        }
    });
    let trials = outcome.as_ref().map(|outcome| lab.trials(outcome)).unwrap_or_default();
    (outcome, trials)
}

/// The number of steps of a trial in which nothing fails.
fn steps() -> usize {
    let mut lab = lab();
    run(&mut lab, &[]).0.unwrap();
    lab.host.log().len()
}

/// The steps that tell where the trial is, in short.
fn landmarks(lab: &Lab) -> Vec<&'static str> {
    let known = ["mount -t ext4", "engine in /run", "umount", "run e2fsck -f", "detach"];
    let log = lab.host.log();
    log.iter().filter_map(|step| known.iter().find(|word| step.starts_with(**word)).copied()).collect()
}

/// An engine that measures a phase of this name.
fn part(name: &str) -> FakeEngine {
    let phase = EngineEvent::Phase(Box::new(phase(name)));
    let durable = Durable { bytes: 64, duration_ns: Nanos::from_secs(9) };
    let durable = EngineEvent::Durable { durable, written_back_ns: WRITTEN_BACK };
    events(match name {
        "read" => {
            let layout = EngineEvent::Layout(Layout { files: 1, ..Layout::default() });
            vec![hello(), phase, layout, EngineEvent::Done]
        }
        _ => {
            let prepared = EngineEvent::Prepared { duration_ns: Nanos(5), trees: Default::default() };
            vec![hello(), prepared, phase, durable, EngineEvent::Done]
        }
    })
}

fn phases(trial: &TrialRecord) -> Vec<&str> {
    trial.phases.iter().map(|phase| phase.name.as_str()).collect()
}

/// A container that was started during the load has a copy of every mount.
#[test]
fn a_filesystem_that_stays_mounted_elsewhere_is_not_checked() {
    let mut lab = lab();
    lab.host.keeps_mounted = true;
    let (outcome, trials) = run(&mut lab, &[]);
    assert_eq!(outcome.unwrap().measured, 1);
    let [trial] = &trials[..] else { panic!("{trials:?}") };
    let texts: Vec<&str> = trial
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::StillMounted)
        .map(|warning| warning.text.as_str())
        .collect();
    let [between, at_the_end] = texts[..] else { panic!("{:?}", trial.warnings) };
    assert!(between.contains("read from memory") && at_the_end.contains("was not checked"), "{texts:?}");
    assert_eq!((trial.lifecycle_ns.umount, trial.lifecycle_ns.umount_between), (None, None));
    assert!(lab.host.requests.iter().all(|request| !request.remounted));
    assert!(trial.check.is_none() && !landmarks(&lab).contains(&"run e2fsck -f"));
}

#[test]
fn between_writing_and_reading_the_filesystem_is_unmounted_and_mounted() {
    let mut lab = lab();
    let before = lab.host.snapshot();
    let (outcome, trials) = run(&mut lab, &[]);
    assert_eq!(outcome.unwrap().end, SweepEnd::Finished);
    let (mount, engine) = ("mount -t ext4", "engine in /run");
    let expected = [mount, engine, "umount", mount, engine, "umount", "run e2fsck -f", "detach"];
    assert_eq!(landmarks(&lab), expected);
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.host.open_devices(), 0);

    let [_, first, second] = &lab.host.requests[..] else { panic!("{:?}", lab.host.requests) };
    assert_eq!((first.part, second.part), (EnginePart { number: 0, of: 2 }, EnginePart { number: 1, of: 2 }));
    assert_eq!((first.remounted, second.remounted), (false, true));
    assert_eq!((&first.directory, first.seed), (&second.directory, second.seed));
    assert_eq!((&first.workload, first.precondition), (&second.workload, second.precondition));

    let [trial] = &trials[..] else { panic!("{trials:?}") };
    assert_eq!(trial.outcome, Outcome::Measured);
    assert_eq!(phases(trial), ["write", "read"]);
    let steps = &trial.lifecycle_ns;
    // The engine has done the unmount's work.
    assert!(steps.umount_between > Some(WRITTEN_BACK) && steps.mount_between.is_some(), "{steps:?}");
    assert_eq!(trial.phases.iter().map(|phase| phase.durable.is_some()).collect::<Vec<_>>(), [true, false]);
    assert!(steps.mount.is_some() && steps.umount.is_some() && steps.prepare == Some(Nanos(5)), "{steps:?}");
    assert!(trial.timer.is_some() && trial.layout.as_ref().is_some_and(|layout| layout.files == 1));
    assert!(!trial.warnings.iter().any(|warning| warning.kind == WarningKind::NotRemounted));
}

#[test]
fn both_parts_work_in_one_memory_group_that_is_removed() {
    const OWN: &str = "/sys/fs/cgroup/memory/session";
    let mut lab = lab();
    lab.host.write_setting("/proc/self/cgroup", "4:memory:/session\n");
    lab.host.add_mounts("30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    let before = lab.host.snapshot();
    let (outcome, trials) = run(&mut lab, &["memory=64M"]);
    assert_eq!(outcome.unwrap().measured, 1);
    assert_eq!(lab.host.snapshot(), before);
    let [overhead, first, second] = &lab.host.requests[..] else { panic!("{:?}", lab.host.requests) };
    assert_eq!((&overhead.memory, &first.memory), (&None, &second.memory));
    let group = first.memory.as_ref().expect("a group");
    assert!(group.directory.starts_with(OWN) && group.limit.0 == 64 << 20, "{group:?}");
    let removed = format!("rmdir {}", group.directory.display());
    assert!(lab.host.log().contains(&removed), "{:?}", lab.host.log());
    assert!(trials[0].warnings.iter().all(|warning| warning.kind != WarningKind::MemoryNotLimited));
}

#[test]
fn a_machine_without_memory_groups_measures_and_says_so() {
    let mut lab = lab();
    let (outcome, trials) = run(&mut lab, &["memory=64M"]);
    assert_eq!(outcome.unwrap().measured, 1);
    let warned = trials[0].warnings.iter().find(|warning| warning.kind == WarningKind::MemoryNotLimited);
    assert!(warned.is_some_and(|warning| warning.text.contains("cgroup")), "{:?}", trials[0].warnings);
    assert!(lab.host.requests.iter().all(|request| request.memory.is_none()));
    // If memory is what the plan varies, its trials are skipped.
    let mut lab = self::lab();
    let (outcome, trials) = run(&mut lab, &["axes.memory=[\"64M\", \"128M\"]"]);
    assert_eq!(outcome.unwrap().measured, 0);
    assert!(
        trials
            .iter()
            .all(|trial| matches!(&trial.outcome, Outcome::Skipped { unmet } if unmet[0].contains("memory")))
    );
}

#[test]
fn an_image_that_the_host_caches_is_named() {
    let named = |overrides: &[&str]| -> Vec<String> {
        let (_, trials) = run(&mut lab(), overrides);
        let warnings = trials.into_iter().flat_map(|trial| trial.warnings);
        let of_host = warnings.filter(|warning| warning.kind == WarningKind::HostCache);
        of_host.map(|warning| warning.text).collect()
    };
    assert_eq!(named(&[]), [""; 0]);
    let [text] = &named(&["device.direct_io=false"])[..] else { panic!("one warning") };
    assert!(text.contains("'/data/fsdyno.img'") && text.contains("direct_io = false"), "{text}");
}

#[test]
fn where_files_are_only_created_the_filesystem_stays_mounted() {
    let mut lab = lab();
    lab.engines([part("write")]);
    let (_, trials) = run(&mut lab, &["workloads.0.stages=[\"write\"]"]);
    assert_eq!(landmarks(&lab).iter().filter(|step| **step == "umount").count(), 1);
    assert_eq!(lab.host.requests[1].part, EnginePart::WHOLE);
    assert_eq!((trials[0].lifecycle_ns.umount_between, trials[0].lifecycle_ns.mount_between), (None, None));
}

#[test]
fn a_directory_stays_mounted_and_the_trial_says_so() {
    let mut lab = lab();
    lab.engines([part("write")]);
    let directory = ["device={directory=\"/data\"}", "axes={}"];
    let (_, trials) = run(&mut lab, &directory);
    assert_eq!(trials[0].outcome, Outcome::Measured, "{trials:?}");
    assert_eq!(lab.host.requests[1].part, EnginePart::WHOLE);
    assert!(trials[0].warnings.iter().any(|warning| warning.kind == WarningKind::NotRemounted));
}

#[test]
fn whatever_step_fails_the_machine_is_as_before_and_what_was_measured_is_kept() {
    for step in 0..steps() {
        let mut lab = lab();
        let before = lab.host.snapshot();
        lab.host.fail_at(step);
        let (outcome, trials) = run(&mut lab, &[]);
        let what = format!("step {step} '{}' ({outcome:?})", lab.host.log()[step]);
        assert_eq!(lab.host.snapshot(), before, "{what}");
        assert_eq!(lab.host.open_devices(), 0, "{what}");
        let Some(trial) = trials.first() else { continue };
        // What was written before the filesystem went is kept.
        let engines = landmarks(&lab).iter().filter(|step| **step == "engine in /run").count();
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
    for (step, fault) in (0..steps()).flat_map(|step| [(step, Fault::CrashBefore), (step, Fault::CrashAfter)])
    {
        let mut lab = lab();
        let before = lab.host.snapshot();
        lab.host.fault_at(step, fault);
        let _ = run(&mut lab, &[]);
        let restored = lab.restore();
        let what = format!("step {step} '{}' {fault:?}", lab.host.log()[step]);
        assert_eq!(restored.report.left, [""; 0], "{what}");
        assert_eq!(lab.host.snapshot(), before, "{what}");
    }
}

/// In the middle as at the end.
#[test]
fn an_unmount_that_hangs_fails_the_trial_and_what_was_measured_is_kept() {
    let unmounts: Vec<usize> = {
        let mut lab = lab();
        run(&mut lab, &[]).0.unwrap();
        let steps = lab.host.log().iter().enumerate();
        steps.filter(|(_, step)| step.starts_with("umount")).map(|(index, _)| index).collect()
    };
    for (unmount, known) in unmounts.into_iter().zip([vec!["write"], vec!["write", "read"]]) {
        let mut lab = lab();
        let before = lab.host.snapshot();
        lab.host.fault_at(unmount, Fault::Hang);
        let (outcome, trials) = run(&mut lab, &[]);
        assert_eq!(outcome.unwrap().failed, 1);
        let error = failure(&trials[0]);
        assert!(error.step == "umount" && error.message.contains("did not return within 60 s"), "{error:?}");
        assert_eq!(phases(&trials[0]), known);
        assert_eq!(lab.host.requests.len(), 1 + known.len(), "nothing is read from a filesystem that hangs");
        assert_eq!(lab.host.snapshot(), before);
    }
}

#[test]
fn ctrl_c_between_writing_and_reading_undoes_everything() {
    for stage in [LifecycleStep::UmountBetween, LifecycleStep::MountBetween].map(LifecycleStep::label) {
        let mut lab = lab();
        let before = lab.host.snapshot();
        let (outcome, trials) = run_until(&mut lab, &[], stage);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Interrupted, 0, 0), "{stage}");
        assert!(trials.is_empty(), "{stage}");
        assert_eq!(lab.host.snapshot(), before, "{stage}");
        assert_eq!(lab.host.requests.len(), 2, "{stage}");
    }
}
