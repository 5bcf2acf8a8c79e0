//! Verified loads, on a machine in memory: what follows the load, and what becomes of a trial that read wrong
//! data.

use crate::lab::{Lab, events, hello, phase, plan};
use fsdyno_core::outcome::VERIFICATION;
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::{EngineEvent, Failure, Nanos, Outcome, Reached, ReadAgain, Reread, TrialRecord};
use fsdyno_sweep::SweepEnd;
use fsdyno_testkit::fake::FakeEngine;

const PLAN: &str = r#"
name = "verified"
repetitions = 1
watchdog = "50ms"
telemetry = false
[device]
image = "/data/fsdyno.img"
size = "4G"
[axes]
filesystem = "ext4"
[[workloads]]
kind = "streaming"
file_size = "64M"
stages = ["write", "random-write"]
verify = true
"#;

fn reached() -> Reached {
    Reached::File { file: "stream-0".to_string(), blocks: 7, unordered: vec![3] }
}

/// An engine that runs a phase, and says how far its writers came.
fn load(name: &str, writers: Vec<Reached>) -> FakeEngine {
    let phase = EngineEvent::Phase(Box::new(phase(name)));
    events(vec![hello(), phase, EngineEvent::Reached { writers }, EngineEvent::Done])
}

fn rereads(remounted: bool) -> FakeEngine {
    let read_again = ReadAgain { files: 1, bytes: 64 << 20, left_out: 0, gone: 0, remounted };
    let read = EngineEvent::ReadAgain { read_again, duration_ns: Nanos::from_secs(3) };
    events(vec![hello(), read, EngineEvent::Done])
}

fn finds_wrong_data() -> FakeEngine {
    let failure = Failure::new(VERIFICATION, "at offset 8192: expected sector 16 of this file, found zeros");
    events(vec![hello(), EngineEvent::Failed(failure)])
}

fn run(lab: &mut Lab, overrides: &[&str]) -> TrialRecord {
    let before = lab.host.snapshot();
    let outcome = lab.run(&plan(PLAN, overrides), None).expect("the sweep ends");
    assert_eq!(outcome.end, SweepEnd::Finished);
    assert_eq!(lab.host.snapshot(), before);
    lab.trials(&outcome).remove(0)
}

#[test]
fn after_the_load_another_engine_reads_what_was_mounted_again() {
    let mut lab = Lab::without_telemetry();
    lab.engines([load("write", Vec::new()), load("random-write", vec![reached()]), rereads(true)]);
    let trial = run(&mut lab, &[]);
    assert_eq!(trial.outcome, Outcome::Measured);
    let known = ["mount -t ext4", "engine in /run", "umount", "run e2fsck -f"];
    let log = lab.host.log();
    let landmarks: Vec<&str> =
        log.iter().filter_map(|step| known.iter().find(|word| step.starts_with(**word)).copied()).collect();
    let [mount, engine, umount, check] = known;
    let all = [mount, engine, umount, mount, engine, umount, mount, engine, umount, check];
    assert_eq!(landmarks, all);

    let [_, first, second, last] = &lab.host.requests[..] else { panic!("{:?}", lab.host.requests) };
    assert!([first, second].iter().all(|request| request.reread == Reread::Never));
    assert!(first.reached.is_empty() && second.reached.is_empty());
    assert_eq!(
        (last.reread, last.part, last.remounted),
        (Reread::Only, EnginePart { number: 1, of: 2 }, true)
    );
    assert_eq!(last.reached, [reached()]);
    assert_eq!((&last.directory, last.seed), (&first.directory, first.seed));
    assert!(!last.clean_up);

    assert_eq!(
        trial.read_again,
        Some(ReadAgain { files: 1, bytes: 64 << 20, left_out: 0, gone: 0, remounted: true })
    );
    assert_eq!(trial.lifecycle_ns.read_again, Some(Nanos::from_secs(3)));
    assert!(trial.lifecycle_ns.umount.is_some() && trial.check.is_some());
}

#[test]
fn a_directory_is_read_again_by_the_engine_that_cleans_up() {
    let mut lab = Lab::without_telemetry();
    lab.engines([load("write", Vec::new())]);
    run(&mut lab, &["device={directory=\"/data\"}", "axes={}"]);
    let [_, only] = &lab.host.requests[..] else { panic!("{:?}", lab.host.requests) };
    assert_eq!((only.reread, only.clean_up, only.part), (Reread::AtEnd, true, EnginePart::WHOLE));
}

#[test]
fn a_trial_that_read_wrong_data_has_no_figures() {
    let mut lab = Lab::without_telemetry();
    lab.engines([load("write", Vec::new()), load("random-write", Vec::new()), finds_wrong_data()]);
    let trial = run(&mut lab, &[]);
    let Outcome::Failed { error } = &trial.outcome else { panic!("{trial:?}") };
    assert_eq!(error.step, VERIFICATION);
    assert!(trial.phases.is_empty(), "{:?}", trial.phases);
    assert!(trial.read_again.is_none());

    // Any other failure keeps what was measured before it.
    let mut lab = Lab::without_telemetry();
    let broken = events(vec![hello(), EngineEvent::Failed(Failure::new("read again", "no such device"))]);
    lab.engines([load("write", Vec::new()), load("random-write", Vec::new()), broken]);
    let trial = run(&mut lab, &[]);
    assert!(matches!(trial.outcome, Outcome::Failed { .. }));
    assert_eq!(trial.phases.len(), 2);
}

#[test]
fn a_load_that_is_not_verified_is_not_read_again() {
    let mut lab = Lab::without_telemetry();
    lab.engines([load("write", Vec::new()), load("random-write", Vec::new())]);
    let trial = run(&mut lab, &["workloads.0.verify=false"]);
    assert_eq!(trial.outcome, Outcome::Measured);
    assert_eq!(lab.host.requests.len(), 3, "one measures the overhead");
    assert!(trial.read_again.is_none() && trial.lifecycle_ns.read_again.is_none());
}
