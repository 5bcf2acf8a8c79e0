//! Runs without a device to give away: `bench` in a directory, and dry runs.

use crate::lab::{self, Lab, OVERHEADS, PLAN, measured};
use fsdyno_core::{Bytes, Nanos};
use fsdyno_host::guest::NoGuests;
use fsdyno_sweep::{BenchOptions, SweepEnd, SweepError, bench_plan, dry_run, order};
use fsdyno_testbed::TestbedError;
use fsdyno_testkit::fake::FakeHost;

#[test]
fn a_bench_uses_a_directory_as_it_is() {
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
fn a_dry_run_lists_commands_time_and_space_and_changes_nothing() {
    let mut host = FakeHost::new();
    let before = host.snapshot();
    let fileserver =
        "kind = \"fileserver\"\nwrite_rate = \"closed\"\ntree_size = \"1G\"\nwriter_space = \"100M\"";
    let plan = lab::plan(
        &PLAN.replace("kind = \"null\"", fileserver),
        &["workloads.ramp=8s", "workloads.window=2s", "repetitions=3"],
    );
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
    assert!(dry.refusals.is_empty(), "{:?}", dry.refusals);
}

#[test]
fn a_dry_run_lists_what_a_sweep_would_be_refused_for() {
    let mut lab = Lab::new();
    let fileserver = "kind = \"fileserver\"\ntree_size = \"40G\"\nwriter_space = \"100M\"";
    let plan = lab::plan(&PLAN.replace("kind = \"null\"", fileserver), &[]);
    let before = lab.host.snapshot();
    let foreseen = dry_run(&plan, &mut lab.host, &mut NoGuests).refusals;
    assert_eq!(lab.host.snapshot(), before);
    assert!(
        foreseen.iter().any(|refusal| refusal.reason.contains("the plan's trees and writers need")),
        "{foreseen:?}"
    );
    let error = lab.run(&plan, None).unwrap_err();
    let SweepError::Testbed(TestbedError::Refused { refusals }) = error else { panic!("{error}") };
    assert_eq!(refusals, foreseen);
}
