//! The streaming workload on real filesystems: every block once, in every I/O mode; requests that are slow or
//! hang among many others; and what this machine may forbid.

use crate::engine_fuse::{RUNS_MAX, role, row, run};
use crate::support::disk::Disk;
use crate::support::sick::{Behaviour, Kind, Treatment};
use crate::support::{MAKING_ON_IMAGES, Requirement, Sandbox, describe};
use fsdyno_core::result::{PhaseResult, Quantile};
use fsdyno_core::workload::{IoEngine, Ramp, Stage, Streaming};
use fsdyno_core::{
    Bytes, EngineEvent, EngineRequest, Nanos, Operation, Progress, Role, TrialStep, WarningKind, Workload,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const RING: &[Requirement] = &[Requirement::Root, Requirement::Fuse, Requirement::IoUring];
const LOOP: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("mkfs.ext4"), Requirement::OwnImages];
const DISK: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("losetup"),
    Requirement::Program("mkfs.ext4"),
    Requirement::Program("dumpe2fs"),
];

tests! {
    every_block_is_moved_once_in_every_mode: MAKING_ON_IMAGES;
    files_are_mounted_again_before_they_are_read: &[Requirement::All(DISK), Requirement::Program("strace")];
    // Caches are the machine's: no other test may drop them meanwhile.
    free_slots_are_handed_on_in_groups: &[
        Requirement::All(LOOP),
        Requirement::IoUring,
        Requirement::Program("strace"),
        Requirement::Quiet,
    ];
    reads_that_memory_and_the_device_answer_are_all_collected: &[Requirement::All(LOOP), Requirement::IoUring];
    a_request_that_hangs_among_many_is_censored: RING;
    delays_of_requests_are_measured_correctly: RING;
    direct_blocks_that_are_not_aligned_are_refused: LOOP;
    without_io_uring_its_trials_are_skipped: &[Requirement::All(LOOP), Requirement::Quiet];
}

/// A plan of two files of 16 MiB each with these workloads, on images of these filesystems.
fn plan(sandbox: &Sandbox, filesystems: &str, workloads: &[&str]) -> String {
    let workloads: String = workloads
        .iter()
        .map(|parameters| {
            format!("[[workloads]]\nkind = \"streaming\"\nfile_size = \"16M\"\nstreams = 2\n{parameters}\n")
        })
        .collect();
    format!(
        "name = \"streams\"\nrepetitions = 1\n[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\n\
         filesystem = [{filesystems}]\n{workloads}",
        sandbox.path("scratch.img").display()
    )
}

/// Runs a plan, and returns its exit code and its JSON output.
fn sweep(sandbox: &Sandbox, plan: &str) -> (Option<i32>, Value) {
    let path = sandbox.write("plan.toml", plan);
    let output = sandbox.run(&["sweep", &path.display().to_string(), "--format", "json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {}", describe(&output)));
    (output.status.code(), json)
}

fn every_block_is_moved_once_in_every_mode() {
    let sandbox = Sandbox::new();
    let ways = [
        "bs = \"1M\"",
        "bs = \"1M\"\ndirect = true",
        "bs = \"1M\"\nio = \"io_uring\"\niodepth = 8",
        "bs = \"1M\"\nio = \"io_uring\"\niodepth = 8\ndirect = true",
    ];
    let (code, sweep) = sweep(&sandbox, &plan(&sandbox, "\"ext4\", \"xfs\", \"btrfs\"", &ways));
    assert_eq!(code, Some(0), "{sweep}");
    let trials = sweep["trials"].as_array().expect("trials");
    // Plus the sentinel.
    assert_eq!(trials.len(), 3 * ways.len() + 1);
    for trial in trials {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        let ring = trial["workload"]["parameters"]["io"] == "io_uring";
        let [writing, reading] = &trial["phases"].as_array().expect("phases")[..] else { panic!("{trial}") };
        let counts = |phase: &Value| -> Vec<(String, u64)> {
            let operations = phase["roles"][0]["operations"].as_array().expect("operations");
            let count = |row: &Value| row["lat_ns"]["N"].as_u64().expect("a count");
            operations
                .iter()
                .map(|row| (row["operation"].as_str().unwrap_or("").into(), count(row)))
                .collect()
        };
        let (write, read) = if ring { ("io_uring write", "io_uring read") } else { ("write", "read") };
        assert_eq!(counts(writing), [(write.to_string(), 32), ("fsync".to_string(), 2)], "{trial}");
        assert_eq!(counts(reading), [(read.to_string(), 32)], "{trial}");
        for phase in [writing, reading] {
            let rates = &phase["roles"][0]["rates"];
            let seconds = phase["window_ns"].as_f64().expect("a window") / 1e9;
            let bytes = rates["aggregate_bytes_per_s"].as_f64().expect("a rate") * seconds;
            assert_eq!(bytes.round() as u64, 32 * Bytes::MIB, "{trial}");
        }
    }
}

/// The kernel logs each mount of ext4 with the device.
fn files_are_mounted_again_before_they_are_read() {
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox.path("disk.img"), Bytes(256 * Bytes::MIB));
    let place = format!("block = \"{}\"", disk.node());
    let confirmed = ["--destroy", disk.node()];
    for (stages, mounts) in
        [("[\"write\", \"read\"]", 2), ("[\"read\", \"random-read\"]", 3), ("[\"write\"]", 1)]
    {
        let (trial, mounted) = trial_on(&sandbox, &place, stages, &confirmed);
        assert_eq!(mounted, mounts, "{stages}");
        let lifecycle = &trial["lifecycle_ns"];
        for step in ["umount_between", "mount_between"] {
            assert_eq!(lifecycle[step].is_null(), mounts == 1, "{stages}: {lifecycle}");
        }
        // Everything that is read comes from the device.
        let mut phases = trial["phases"].as_array().expect("phases").iter();
        let window = phases.find(|phase| phase["name"] == "read").map(|phase| &phase["telemetry"]["window"]);
        let from_device = window.map(|window| window["devices"][0]["read_bytes"].as_u64());
        assert!(from_device.is_none_or(|bytes| bytes >= Some(32 * Bytes::MIB)), "{stages}: {window:?}");
    }
    // A directory is not unmounted, and a warning says so.
    let place = format!("directory = \"{}\"", sandbox.path("").display());
    let (trial, mounted) = trial_on(&sandbox, &place, "[\"write\", \"read\"]", &[]);
    assert_eq!(mounted, 0);
    let warnings = trial["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().any(|warning| warning["kind"] == "not-remounted"), "{trial}");
}

/// One trial of two files of 16 MiB each, and how often strace saw a filesystem being mounted.
fn trial_on(sandbox: &Sandbox, place: &str, stages: &str, arguments: &[&str]) -> (Value, usize) {
    let axes = if place.starts_with("block") { "[axes]\nfilesystem = \"ext4\"" } else { "" };
    let plan = format!(
        "repetitions = 1\n[device]\n{place}\n{axes}\n[[workloads]]\nkind = \"streaming\"\nfile_size = \
         \"16M\"\nstreams = 2\nbs = \"1M\"\nstages = {stages}\nramp = 0\nwindow = \"200ms\"\n"
    );
    let path = sandbox.write("plan.toml", &plan).display().to_string();
    let arguments = [&["sweep", &path, "--format", "json"], arguments].concat();
    let (output, calls) = sandbox.traced(&["-e", "trace=move_mount"], &arguments);
    let mounts = |call: &&str| call.contains("move_mount(") && call.contains("\"/run/fsdyno-");
    let sweep: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    assert_eq!(sweep["trials"][0]["outcome"], "measured", "{}", describe(&output));
    (sweep["trials"][0].clone(), calls.lines().filter(mounts).count())
}

/// Returns the number of system calls by the number of requests that each submitted, in a stage of random
/// reads that wait for so many of eight.
fn submissions(sandbox: &Sandbox, batch: u32, direct: bool) -> BTreeMap<u32, usize> {
    let load = format!(
        "io = \"io_uring\"\niodepth = 8\nbatch = {batch}\ndirect = {direct}\nstages = \
         [\"random-read\"]\nramp = 0\nwindow = \"200ms\""
    );
    let path = sandbox.write("plan.toml", &plan(sandbox, "\"ext4\"", &[&load])).display().to_string();
    let (output, calls) =
        sandbox.traced(&["-e", "trace=io_uring_enter"], &["sweep", &path, "--set", "cache=warm"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let submitted = |call: &str| call.split_once("io_uring_enter(")?.1.split(", ").nth(1)?.parse().ok();
    let mut counts = BTreeMap::new();
    let all = calls.lines().filter_map(submitted).filter(|submitted| *submitted > 0);
    all.for_each(|submitted: u32| *counts.entry(submitted).or_default() += 1);
    counts
}

/// Each at once by a worker that waits for one. Of a batch of eight the first at once, because the device has
/// nothing left to do, then four, and three with the next wait. What the page cache completes at once keeps
/// no device busy, and is submitted together.
fn free_slots_are_handed_on_in_groups() {
    let sandbox = &Sandbox::new();
    let each = submissions(sandbox, 1, true);
    assert!(each.get(&1).is_some_and(|count| count * 10 > each.values().sum::<usize>() * 9), "{each:?}");
    // A request that is complete when strace lets its submission return looks like one from the page cache:
    // on a busy machine, most are submitted together, or all that follow the first.
    let direct = submissions(sandbox, 8, true);
    let of = |size| direct.get(&size).copied().unwrap_or_default();
    assert!(of(4) >= 10 && of(3).abs_diff(of(4)) * 10 <= of(4) && of(1) >= of(4), "{direct:?}");
    assert!((of(2) + of(5) + of(6)) * 10 <= direct.values().sum(), "{direct:?}");
    let cached = submissions(sandbox, 8, false);
    assert!(
        cached.get(&8).is_some_and(|count| count * 10 > cached.values().sum::<usize>() * 9),
        "{cached:?}"
    );
}

/// Requests that the page cache answers at once must not keep those that the device answers from being
/// collected: they would be in flight until the drain limit.
fn reads_that_memory_and_the_device_answer_are_all_collected() {
    let sandbox = Sandbox::new();
    let load = "io = \"io_uring\"\niodepth = 32\nstages = [\"random-read\"]\nbs = \
                \"4K\"\nramp = \"100ms\"\nwindow = \"300ms\"";
    let loads = [1, 8].map(|batch| format!("{load}\nbatch = {batch}"));
    let (code, sweep) = sweep(&sandbox, &plan(&sandbox, "\"ext4\"", &[&loads[0], &loads[1]]));
    assert_eq!(code, Some(0), "{sweep}");
    for trial in sweep["trials"].as_array().expect("trials") {
        let phase = &trial["phases"][0];
        assert!(
            phase["drain_ns"].as_u64().is_some_and(|drain| drain < 5_000_000_000),
            "{}",
            phase["drain_ns"]
        );
    }
}

/// Readers of random blocks through a ring of eight, in a window that starts soon.
fn random_reads(request: &mut EngineRequest) {
    request.workload = Workload::Streaming(Streaming {
        file_size: Bytes(Bytes::MIB),
        bs: Bytes(64 * Bytes::KIB),
        direct: true,
        io: IoEngine::IoUring,
        iodepth: 8,
        stages: vec![Stage::RandomRead],
        ramp: Ramp::For(Nanos::from_millis(200)),
        window: Nanos::from_millis(1000),
        drain_limit: Nanos::from_secs(1),
        ..Streaming::default()
    });
}

fn phase(events: &[EngineEvent]) -> &PhaseResult {
    let phase = events.iter().find_map(|event| match event {
        EngineEvent::Phase(phase) => Some(&**phase),
        _ => None,
    });
    phase.unwrap_or_else(|| panic!("no phase: {events:?}"))
}

fn a_request_that_hangs_among_many_is_censored() {
    let behaviour = Behaviour::healthy();
    let events = run(&behaviour, random_reads, |event| {
        if matches!(event, EngineEvent::Progress(Progress { step: TrialStep::Measure, .. })) {
            behaviour.treat_one_after(50, Kind::Read, Treatment::Held);
        }
    });
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    let warned = |event: &EngineEvent| matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::Censored);
    assert!(events.iter().any(warned), "{events:?}");
    let phase = phase(&events);
    let reader = role(phase, Role::Reader);
    let (worker, row) = (&reader.worker_results[0], row(reader, Operation::UringRead));
    assert_eq!((row.censored, worker.spanning), (1, 0), "{worker:?}");
    // The other seven continued: one request that hangs is not a stall of the worker.
    assert!(worker.completed > 100 && worker.longest_stall_ns < Nanos::from_millis(500), "{worker:?}");
    let unfinished = worker.unfinished.as_ref().expect("the read has not ended");
    assert_eq!((unfinished.operation, unfinished.at_least), (Operation::UringRead, true));
    assert!(unfinished.duration_ns > Nanos::from_secs(1), "{unfinished:?}");
    assert_eq!(row.lat_ns.max, unfinished.duration_ns.0);
    assert!(
        row.lat_ns.is_bound(row.lat_ns.max) && !row.lat_ns.is_bound(row.lat_ns.quantiles[Quantile::P99]),
        "{:?}",
        row.lat_ns
    );
    assert_eq!((row.slowest[0].path.as_str(), row.slowest[1].path.as_str()), ("stream-0", "stream-0"));
    // One of eight, for the rest of the window.
    assert!(worker.time_over_100ms > 0.0 && worker.time_over_100ms <= 1.0 / 8.0, "{worker:?}");
}

/// As in `engine_fuse::delays_are_measured_correctly`: never less than the delay, and the shortest at most
/// 5 % and 100 us more.
fn delays_of_requests_are_measured_correctly() {
    let delay = Duration::from_millis(20);
    let least = delay.as_nanos() as u64;
    let most = least * 105 / 100 + 100_000;
    let runs = (0..RUNS_MAX).map(|_| shortest_request(delay, least));
    let shortest: Vec<u64> = runs.take_while(|shortest| *shortest > most).collect();
    assert!(shortest.len() < RUNS_MAX as usize, "delayed by {least} ns: {shortest:?}");
}

fn shortest_request(delay: Duration, least: u64) -> u64 {
    let behaviour = Behaviour::healthy();
    // As many at once as the filesystem serves.
    let change = |request: &mut EngineRequest| {
        random_reads(request);
        let Workload::Streaming(streaming) = &mut request.workload else { unreachable!("it was set") };
        streaming.iodepth = 4;
    };
    let events = run(&behaviour, change, |event| {
        if matches!(event, EngineEvent::Prepared { .. }) {
            behaviour.treat(move |asked| match asked.kind {
                Kind::Read => Treatment::Slow(delay),
                _ => Treatment::Healthy,
            });
        }
    });
    let lat = &row(role(phase(&events), Role::Reader), Operation::UringRead).lat_ns;
    assert!(lat.min >= least && lat.count > 8, "{lat:?}, but {least} ns were injected");
    lat.min
}

fn direct_blocks_that_are_not_aligned_are_refused() {
    let sandbox = Sandbox::new();
    let text = plan(&sandbox, "\"ext4\"", &["bs = 5000\ndirect = true\nio = \"io_uring\""]);
    let path = sandbox.write("plan.toml", &text);
    let output = sandbox.run(&["sweep", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("'bs'") && said.contains("a multiple of 4k for direct I/O"), "{said}");
}

/// Restores a kernel setting when dropped.
struct Restored {
    path: &'static str,
    old: String,
}

impl Drop for Restored {
    fn drop(&mut self) {
        fs::write(self.path, &self.old).expect("restore a sysctl");
    }
}

fn without_io_uring_its_trials_are_skipped() {
    let path = "/proc/sys/kernel/io_uring_disabled";
    let Ok(old) = fs::read_to_string(path) else {
        eprintln!("this kernel cannot disable io_uring (before Linux 6.6)");
        return;
    };
    let restored = Restored { path, old };
    fs::write(path, "2").expect("disable io_uring");
    let sandbox = Sandbox::new();
    let (code, sweep) = sweep(&sandbox, &plan(&sandbox, "\"ext4\"", &["", "io = \"io_uring\""]));
    let behaviour = Behaviour::healthy();
    let events = run(&behaviour, random_reads, |_| ());
    drop(restored);

    assert_eq!(code, Some(0), "{sweep}");
    for trial in sweep["trials"].as_array().expect("trials") {
        match trial["workload"]["parameters"]["io"].as_str() {
            Some("io_uring") => {
                assert_eq!(trial["outcome"], "skipped", "{trial}");
                let unmet = trial["unmet"][0].as_str().expect("a reason");
                assert_eq!(unmet, "io_uring is disabled; enable it with sysctl kernel.io_uring_disabled=0");
            }
            _ => assert_eq!(trial["outcome"], "measured", "{trial}"),
        }
    }
    // Running the engine directly gives the same message.
    let Some(EngineEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert_eq!((failure.errno, failure.step.as_str()), (Some(1), "engine"), "{failure:?}");
    assert!(failure.message.starts_with("io_uring cannot be used"), "{failure:?}");
    assert!(failure.hint.as_ref().is_some_and(|hint| hint.contains("kernel.io_uring_disabled")));
}
