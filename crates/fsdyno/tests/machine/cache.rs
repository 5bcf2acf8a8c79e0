//! The state of the caches when a phase begins: it is what the plan wants, on every filesystem.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, json};
use fsdyno_core::{Bytes, meminfo};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a file in the page cache.
const BALLAST: usize = 128 << 20;

tests! {
    metadata_is_as_cold_after_writing_as_later: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Filesystem("ext2"),
        Requirement::Filesystem("ext3"),
        Requirement::Quiet,
    ];
    what_is_warm_is_not_read_from_the_device: WARM;
    what_does_not_fit_into_memory_is_not_called_warm: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::MemoryGroups,
    ];
    // It looks at everything that the machine has in its page cache.
    a_directory_is_not_mounted_again: &[Requirement::Root, Requirement::Quiet];
    what_memory_absorbs_is_not_yet_durable: MAKING_FILESYSTEMS;
    a_phase_waits_for_a_calm_device_and_for_dirty_pages_of_its_own: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::MemoryGroups,
        // Others write to the same disk.
        Requirement::Quiet,
    ];
}

/// Caches are the machine's: no other test may drop them meanwhile.
const WARM: &[Requirement] = &[Requirement::All(MAKING_FILESYSTEMS), Requirement::Quiet];

/// One reader, and then two, of trees of this size. The image is on a disk: what is in memory itself is not
/// limited.
fn sweep(head: &str, axes: &str, tree: &str) -> Vec<Value> {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let image = place.path().join("disk.img");
    let plan = format!(
        "{head}\n[device]\nimage = \"{}\"\nsize = \"1G\"\n[axes]\n{axes}\n[[workloads]]\n\
         kind = \"fileserver\"\ntree_size = \"{tree}\"\nreaders = 2\nwriters = 0\nramp = \"10ms\"\n\
         window = \"300ms\"\n",
        image.display()
    );
    sandbox.write("plan.toml", &plan);
    let swept = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    json(&swept)["trials"].as_array().expect("trials").clone()
}

fn caches(trial: &Value) -> Vec<&Value> {
    trial["phases"].as_array().expect("phases").iter().map(|phase| &phase["cache"]).collect()
}

fn bytes(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Right after the trees were written, a filesystem may hold on to much of its metadata, which dropping
/// caches does not take away: 42 % on ext4. A walk over all of it must read as much from the device as one
/// later.
fn metadata_is_as_cold_after_writing_as_later() {
    let axes = "filesystem = [\"ext2\", \"ext3\", \"ext4\", \"xfs\", \"btrfs\"]";
    for trial in sweep("cache = \"metadata-warm\"", axes, "128M") {
        let filesystem = trial["configuration"]["filesystem"].as_str().expect("a name");
        let [first, later] = caches(&trial)[..] else { panic!("two phases: {trial}") };
        for cache in [first, later] {
            assert_eq!((&cache["state"], &cache["remounted"]), (&"metadata-warm".into(), &true.into()));
            assert!(bytes(&cache["loaded"]) > 1e6, "{filesystem}: {cache}");
            assert!(bytes(&cache["missed"]) <= bytes(&cache["loaded"]) / 20.0, "{filesystem}: {cache}");
        }
        let ratio = bytes(&first["loaded"]) / bytes(&later["loaded"]);
        assert!((0.97..1.03).contains(&ratio), "{filesystem}: {first}, later {later}");
    }
}

fn what_is_warm_is_not_read_from_the_device() {
    let axes = "filesystem = [\"ext4\", \"xfs\", \"btrfs\"]\ncache = [\"cold\", \"warm\"]";
    for trial in sweep("", axes, "96M") {
        let warm = trial["configuration"]["settings"]["cache"] == "warm";
        for phase in trial["phases"].as_array().expect("phases") {
            let cache = &phase["cache"];
            let read = bytes(&phase["telemetry"]["window"]["devices"][0]["read_bytes"]);
            let wanted = bytes(&phase["roles"][0]["rates"]["bytes"]);
            // A reader that has read its tree of 32 MiB finds it in memory from then on.
            let cold = wanted.min(20e6) / 2.0;
            match warm {
                true => assert!(bytes(&cache["loaded"]) > 90e6 && read < 5e6, "{cache}, {read} of {wanted}"),
                false => {
                    assert!(cache["loaded"].is_null() && read > cold, "{cache}, {read} of {wanted}");
                }
            }
        }
    }
}

fn what_does_not_fit_into_memory_is_not_called_warm() {
    let trials = sweep("cache = \"warm\"\nmemory = \"32M\"", "filesystem = \"ext4\"", "96M");
    let warnings = trials[0]["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().any(|warning| warning["kind"] == "cache-not-warm"), "{warnings:?}");
}

fn a_directory_is_not_mounted_again() {
    let sandbox = Sandbox::new();
    // Something that dropping takes away.
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let ballast = File::create(place.path().join("ballast")).expect("a file");
    ballast.write_all_at(&vec![1; BALLAST], 0).and_then(|()| ballast.sync_all()).expect("128 MiB");
    let cached = || {
        let text = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
        meminfo::value(&text, "Cached").expect("a value").0 as f64
    };
    let before = cached();
    let arguments = ["bench", ".", "--tree-size", "4M", "--window", "50ms", "--ramp", "1ms"];
    let output = sandbox.run(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let document = json(&output);
    for cache in caches(&document["trials"][0]) {
        assert_eq!((&cache["state"], &cache["remounted"]), (&"cold".into(), &false.into()));
        let gone = before - bytes(&cache["left"]);
        assert!(gone > 0.9 * BALLAST as f64 && bytes(&cache["drops"]) >= 2.0, "{cache}, before {before}");
    }
}

/// A short burst of writes ends in memory; what a log syncs does not. Large files of zeros take the least
/// time to make, so that the burst is faster than any disk.
fn what_memory_absorbs_is_not_yet_durable() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"3G\"\n[axes]\nfilesystem = \"ext4\"\n\
         \"sysctl.vm.dirty_background_ratio\" = [\"60\"]\n\"sysctl.vm.dirty_ratio\" = [\"80\"]\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"16M\"\ntree = \"impressions\"\nreaders = 1\n\
         writers = 2\nramp = \"100ms\"\ncontent = \"zeros\"\nwindow = \"400ms\"\n[[workloads]]\n\
         kind = \"commit-log\"\nrecord = \"1M\"\nramp = \"10ms\"\nwindow = \"1s\"\n",
        place.path().join("disk.img").display()
    );
    sandbox.write("plan.toml", &plan);
    let swept = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    let document = json(&swept);
    let trials = document["trials"].as_array().expect("trials");
    for trial in trials {
        let burst = trial["workload"]["kind"] == "fileserver";
        let warnings = trial["warnings"].as_array().expect("warnings");
        let warned = warnings.iter().any(|warning| warning["kind"] == "write-cache-absorbed");
        assert_eq!(warned, burst, "{warnings:?}");
        let phase = trial["phases"].as_array().expect("phases").last().expect("a phase with writers");
        let roles = phase["roles"].as_array().expect("roles");
        let writer = roles.iter().find(|role| role["role"] == "writer").expect("writers");
        let (rates, durable) = (&writer["rates"], &phase["durable"]);
        assert!(bytes(&durable["bytes"]) >= bytes(&rates["bytes"]), "{durable} {rates}");
        let rate = bytes(&durable["bytes"]) / bytes(&durable["duration_ns"]) * 1e9;
        let ratio = rate / bytes(&rates["aggregate_bytes_per_s"]);
        assert!(if burst { ratio < 0.9 } else { ratio > 0.5 }, "{ratio}: {durable} {rates}");
    }
}

/// Somebody else's dirty pages count where the load has no memory of its own.
fn a_phase_waits_for_a_calm_device_and_for_dirty_pages_of_its_own() {
    let busy = AtomicBool::new(true);
    let file = tempfile::tempfile_in("/var/tmp").expect("a file on a disk");
    let dirty = vec![7; 8 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(Ordering::Relaxed) {
                file.write_all_at(&dirty, 0).expect("write");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let filesystem = "filesystem = \"ext4\"";
        let swept = catch_unwind(|| {
            ["", "memory = \"64M\""].map(|memory| {
                sweep(&format!("name = \"calm\"\nquiesce = \"3s\"\n{memory}"), filesystem, "4M")
            })
        });
        busy.store(false, Ordering::Relaxed);
        let [of_the_machine, of_the_group] = swept.unwrap_or_else(|panic| resume_unwind(panic));
        for (trials, reached) in [(of_the_machine, false), (of_the_group, true)] {
            let warned = trials[0]["warnings"].as_array().expect("warnings").iter();
            let warned = warned.filter(|warning| warning["kind"] == "not-quiet").count();
            let quiet: Vec<Value> = trials[0]["phases"]
                .as_array()
                .expect("phases")
                .iter()
                .map(|phase| phase["quiet"].clone())
                .collect();
            assert_eq!((quiet.len(), warned), (2, if reached { 0 } else { 2 }), "{quiet:?}");
            for quiet in quiet {
                assert_eq!(quiet["reached"], reached, "{quiet}");
                let waited = quiet["waited_ns"].as_u64().expect("a time");
                assert!(waited >= if reached { 500_000_000 } else { 3_000_000_000 }, "{quiet}");
                let dirty = Bytes(quiet["dirty"].as_u64().expect("a size"));
                assert_eq!(dirty > Bytes(Bytes::MIB), !reached, "{quiet}");
            }
        }
    });
}
