//! The engine on real filesystems and as a process: the counts of a full pass, a full device, memory use, and
//! being stopped.

use crate::support::{MAKING_ON_IMAGES, Sandbox, unmount};
use fsdyno_core::workload::{Content, Fileserver, Ramp, TreeModel};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Operation, Progress, TrialStep, Workload};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

tests! {
    a_full_pass_has_the_published_counts: MAKING_ON_IMAGES;
    a_full_device_fails_with_operation_and_path: MAKING_ON_IMAGES;
    a_filesystem_without_inodes_says_so: MAKING_ON_IMAGES;
    direct_io_reads_and_writes_whole_blocks: MAKING_ON_IMAGES;
    memory_stays_flat: &[];
    the_end_of_stdin_stops_and_tidies: &[];
}

/// A mounted filesystem on an image; the loop device disappears with the mount.
struct Scratch {
    mountpoint: PathBuf,
    _sandbox: Sandbox,
}

impl Scratch {
    fn new(filesystem: &str, size: u64) -> Self {
        Scratch::made(filesystem, size, &[])
    }

    /// With options for mkfs.
    fn made(filesystem: &str, size: u64, options: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let (image, mountpoint) = (sandbox.path("image"), sandbox.path("mnt"));
        fs::File::create(&image).and_then(|file| file.set_len(size)).expect("an image");
        fs::create_dir(&mountpoint).expect("a mountpoint");
        succeed(Command::new(format!("mkfs.{filesystem}")).arg("-q").args(options).arg(&image));
        succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mountpoint));
        Scratch { mountpoint, _sandbox: sandbox }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        unmount(&self.mountpoint);
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn request(directory: &Path, workload: Fileserver) -> EngineRequest {
    EngineRequest { clean_up: true, ..EngineRequest::new(directory, Workload::Fileserver(workload), 3) }
}

fn workload() -> Fileserver {
    Fileserver {
        tree_size: Bytes(32 * Bytes::MIB),
        readers: 1,
        writers: 1,
        ramp: Ramp::For(Nanos::from_millis(100)),
        window: Nanos::from_millis(300),
        ..Fileserver::default()
    }
}

/// The engine as a process, with its stdin still open.
fn start(sandbox: &Sandbox, request: &EngineRequest) -> (Child, impl Iterator<Item = EngineEvent> + use<>) {
    let mut command = sandbox.fsdyno(&["engine"]);
    let mut engine = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the engine");
    let line = serde_json::to_string(request).expect("a request") + "\n";
    engine.stdin.as_mut().expect("stdin is piped").write_all(line.as_bytes()).expect("send the request");
    let stdout = BufReader::new(engine.stdout.take().expect("stdout is piped"));
    let events = stdout.lines().map(|line| serde_json::from_str(&line.expect("a line")).expect("an event"));
    (engine, events)
}

/// Files and directories below and including a directory.
fn count(top: &Path) -> (u64, u64) {
    let (mut files, mut directories, mut open) = (0, 0, vec![top.to_path_buf()]);
    while let Some(directory) = open.pop() {
        directories += 1;
        for entry in fs::read_dir(directory).expect("a readable directory") {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("a type").is_dir() {
                true => open.push(entry.path()),
                false => files += 1,
            }
        }
    }
    (files, directories)
}

fn a_full_pass_has_the_published_counts() {
    for filesystem in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new(filesystem, 512 << 20);
        // A directory that takes many calls to list, and others.
        let many = scratch.mountpoint.join("many");
        for name in (0..300).map(|n| format!("neighbour-{n}")) {
            fs::create_dir_all(scratch.mountpoint.join(name)).expect("a directory");
        }
        fs::create_dir_all(many.join("below/further")).expect("directories");
        for n in 0..5000 {
            fs::write(many.join(format!("a file with a name of some length {n}")), [7; 100]).expect("a file");
        }
        let made = EngineRequest {
            clean_up: false,
            ..request(
                &scratch.mountpoint,
                Fileserver { writers: 0, window: Nanos::from_millis(10), ..workload() },
            )
        };
        fsdyno_engine::run(&made, &false.into(), &mut |_| ()).expect("the engine creates trees");
        let generated = scratch.mountpoint.join("fsdyno-0000000000000003/tree-1");
        for tree in [many, generated] {
            let (files, directories) = count(&tree);
            for direct in [false, true] {
                let counts: BTreeMap<Operation, u64> = fsdyno_engine::reader_pass(&tree, 64 << 10, direct)
                    .expect("a pass")
                    .into_iter()
                    .collect();
                let of = |operation| counts[&operation];
                let tree = tree.display();
                assert_eq!(of(Operation::Openat), files, "{filesystem} {tree}");
                assert_eq!(
                    of(Operation::Readdir),
                    of(Operation::Statx) + directories,
                    "{filesystem} {tree}: steps = lstats + directories"
                );
                assert_eq!(
                    of(Operation::Statx),
                    of(Operation::Openat) + 3 * directories,
                    "{filesystem} {tree}: lstats = opens + 3 x directories"
                );
            }
        }
    }
}

fn a_full_device_fails_with_operation_and_path() {
    let scratch = Scratch::new("ext4", 32 << 20);
    let failure = |workload: Fileserver| {
        let mut last = None;
        let result =
            fsdyno_engine::run(&request(&scratch.mountpoint, workload), &false.into(), &mut |event| {
                last = Some(event);
            });
        assert!(result.is_err());
        assert_eq!(
            fs::read_dir(&scratch.mountpoint).expect("readable").count(),
            1,
            "everything except lost+found is removed"
        );
        match last {
            Some(EngineEvent::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    };
    let prepare = failure(Fileserver { tree_size: Bytes(Bytes::GIB), ..workload() });
    assert_eq!((prepare.step.as_str(), prepare.errno), ("prepare", Some(28)));
    assert!(prepare.path.is_some_and(|path| path.starts_with("tree-")) && prepare.hint.is_some());
    let write = failure(Fileserver {
        tree_size: Bytes(4 << 20),
        writer_space: Some(Bytes(Bytes::GIB)),
        // The phase before it takes as long, but the device is full after a fraction of that.
        window: Nanos::from_millis(2500),
        ..workload()
    });
    assert_eq!((write.step.as_str(), write.errno), ("1 reader, 1 writer", Some(28)));
    assert!(write.operation.is_some());
    assert!(write.path.is_some_and(|path| path.starts_with("new-0/round-0/")));
}

fn a_filesystem_without_inodes_says_so() {
    let scratch = Scratch::made("ext4", 64 << 20, &["-N", "256"]);
    let request = EngineRequest { clean_up: false, ..request(&scratch.mountpoint, workload()) };
    let mut last = None;
    let result = fsdyno_engine::run(&request, &false.into(), &mut |event| last = Some(event));
    assert!(result.is_err());
    let Some(EngineEvent::Failed(failure)) = last else { panic!("{last:?}") };
    assert!(failure.message.starts_with("no inodes are left: "), "{}", failure.message);
    assert!(failure.message.ends_with(" are free"), "as df and df -i show it: {}", failure.message);
    assert!(failure.hint.is_some_and(|hint| hint.contains("-N COUNT")));
}

fn direct_io_reads_and_writes_whole_blocks() {
    for filesystem in ["ext4", "xfs", "btrfs"] {
        let scratch = Scratch::new(filesystem, 512 << 20);
        let workload = Fileserver {
            direct: true,
            tree_size: Bytes(8 << 20),
            writer_space: Some(Bytes(16 << 20)),
            ..workload()
        };
        let request = EngineRequest { clean_up: false, ..request(&scratch.mountpoint, workload) };
        let mut phases = Vec::new();
        fsdyno_engine::run(&request, &false.into(), &mut |event| {
            if let EngineEvent::Phase(phase) = event {
                phases.push(phase);
            }
        })
        .expect("the engine runs");
        for role in &phases.last().expect("a phase with both roles").roles {
            assert!(role.rates.bytes > 0 && role.rates.bytes % 4096 == 0, "{filesystem} {}", role.role);
        }
        let mut open = vec![scratch.mountpoint.join("fsdyno-0000000000000003")];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).expect("a readable directory") {
                let entry = entry.expect("an entry");
                let attributes = entry.metadata().expect("attributes");
                match attributes.is_dir() {
                    true => open.push(entry.path()),
                    // The last file of a writer may be truncated by the end of its phase, but at a block
                    // boundary.
                    false => {
                        assert_eq!(attributes.len() % 4096, 0, "{filesystem} {}", entry.path().display())
                    }
                }
            }
        }
    }
}

/// Two workers, the default content and many files: the peak of the resident set stays below 64 MiB, and
/// three times as many files and operations increase it only slightly.
fn memory_stays_flat() {
    let peak = |tree: u64, window: Nanos, model: TreeModel| -> (u64, u64) {
        let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let sandbox = Sandbox::new();
        let workload = Fileserver {
            tree_size: Bytes(tree),
            tree: model,
            window,
            writer_space: Some(Bytes(64 << 20)),
            content: Content::Random,
            ..workload()
        };
        let (mut engine, events) = start(&sandbox, &request(memory.path(), workload));
        let status = format!("/proc/{}/status", engine.id());
        let (mut peak, mut operations, mut done) = (0, 0, false);
        for event in events {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0) << 10);
            match event {
                EngineEvent::Phase(phase) => {
                    operations += phase
                        .roles
                        .iter()
                        .flat_map(|role| &role.operations)
                        .map(|row| row.lat_ns.count)
                        .sum::<u64>();
                }
                EngineEvent::Done => done = true,
                _ => {}
            }
        }
        engine.wait().expect("the engine ends");
        assert!(done);
        (peak, operations)
    };
    // A window of a thirtieth, so that the machine may be ten times slower in the long one.
    let (small, few) = peak(8 << 20, Nanos::from_millis(100), TreeModel::Home);
    let (large, many) = peak(256 << 20, Nanos::from_secs(3), TreeModel::Home);
    eprintln!("peak of {} KiB with {few} operations, {} KiB with {many}", small >> 10, large >> 10);
    assert!(small > 0 && many > 3 * few);
    assert!(large < 64 << 20, "{large} bytes");
    assert!(large < small + (8 << 20), "{small} bytes became {large}");
}

fn the_end_of_stdin_stops_and_tidies() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let sandbox = Sandbox::new();
    let workload = Fileserver { window: Nanos::from_secs(600), ..workload() };
    let (mut engine, events) = start(&sandbox, &request(memory.path(), workload));
    let mut last = None;
    for event in events {
        if matches!(event, EngineEvent::Progress(Progress { step: TrialStep::Measure, .. })) {
            drop(engine.stdin.take());
        }
        last = Some(event);
    }
    let Some(EngineEvent::Failed(failure)) = last else { panic!("{last:?}") };
    assert_eq!(failure.message, "stopped");
    assert_eq!(engine.wait().expect("the engine ends").code(), Some(1));
    assert_eq!(fs::read_dir(memory.path()).expect("readable").count(), 0, "what was created is removed");
}
