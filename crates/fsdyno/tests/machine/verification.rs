//! Verified loads on a filesystem that flips bits, swaps blocks, loses the ends of files or is only slow, and
//! on a real one whose files are changed behind fsdyno's back.

use crate::engine_fuse::run;
use crate::support::sick::{Behaviour, Kind};
use crate::support::{MAKING_ON_IMAGES, Requirement, Sandbox, describe};
use fsdyno_core::workload::commit_log::Segments;
use fsdyno_core::workload::flow::{FileSets, FlowRoles};
use fsdyno_core::workload::{
    Act, Bonnie, Choice, Collection, CollectionSize, CommitLog, Fileserver, Flags, Flow, IoEngine, Postmark,
    Ramp, SizeRange, Stage, Streaming,
};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Failure, Nanos, Reread, Role, Workload};
use fsdyno_testkit::{file_set, flow_role};
use serde_json::Value;
use std::time::Duration;

const FUSE: &[Requirement] = &[Requirement::Root, Requirement::Fuse];
const RING: &[Requirement] = &[Requirement::All(FUSE), Requirement::IoUring];

tests! {
    a_filesystem_that_alters_data_is_caught_while_the_load_runs: RING;
    a_filesystem_that_alters_data_later_is_caught_at_the_end: FUSE;
    a_flow_catches_a_filesystem_that_alters_data: FUSE;
    a_filesystem_that_alters_collections_mails_or_logs_is_caught: FUSE;
    delays_alone_are_no_error: RING;
    a_verified_sweep_passes_in_every_mode: MAKING_ON_IMAGES;
    verified_flows_pass_a_sweep: MAKING_ON_IMAGES;
    a_file_that_changes_after_the_load_fails_the_trial: MAKING_ON_IMAGES;
}

/// The change that a sick filesystem makes to the bytes of a read.
type Alteration = fn(&mut Vec<u8>);

const FLIP: Alteration = |data| data[700] ^= 16;
const SWAP: Alteration = |data| {
    let (one, other) = data.split_at_mut(4096);
    one[..4096].swap_with_slice(&mut other[..4096]);
};
const HOLE: Alteration = |data| data[4096..8192].fill(0);
const TRUNCATE: Alteration = |data| data.clear();

fn streaming(io: IoEngine, stages: &[Stage]) -> Workload {
    Workload::Streaming(Streaming {
        file_size: Bytes(4 * Bytes::MIB),
        bs: Bytes(64 * Bytes::KIB),
        random_bs: Bytes(16 * Bytes::KIB),
        io,
        iodepth: 4,
        stages: stages.to_vec(),
        ramp: Ramp::For(Nanos::from_millis(100)),
        window: Nanos::from_millis(300),
        verify: true,
        ..Streaming::default()
    })
}

fn fileserver() -> Workload {
    Workload::Fileserver(Fileserver {
        tree_size: Bytes(4 * Bytes::MIB),
        readers: 1,
        writers: 1,
        ramp: Ramp::For(Nanos::from_millis(200)),
        window: Nanos::from_millis(500),
        drain_limit: Nanos::from_secs(5),
        writer_space: Some(Bytes(64 * Bytes::MIB)),
        verify: true,
        ..Fileserver::default()
    })
}

/// One client reads pages that never change; another creates, reads, appends to and removes mails; two write
/// over the same database and read it.
fn flow() -> Workload {
    let file = || "file".to_string();
    let open = |set: &str| {
        let flags = Flags::default();
        Act::Open { set: set.to_string(), choose: Choice::Uniform, handle: file(), flags }
    };
    let read = || Act::ReadWhole { handle: file(), buffer: Bytes(64 * Bytes::KIB) };
    let mail = || "mail".to_string();
    let of_mail = vec![
        Act::Create { set: mail(), in_order: false, handle: file(), flags: Flags::default() },
        Act::WriteWhole { handle: file(), buffer: Bytes(Bytes::MIB) },
        Act::Append { handle: file(), size: SizeRange { low: Bytes(1), high: Bytes(8192) } },
        Act::Close { handle: file() },
        open("mail"),
        read(),
        Act::Close { handle: file() },
        Act::Unlink { set: mail(), choose: Choice::Uniform },
    ];
    let of_pages = vec![open("page"), read(), Act::Close { handle: file() }];
    let of_data = vec![
        open("data"),
        Act::Overwrite { handle: file(), size: Bytes(4096), in_order: false },
        Act::ReadRandom { handle: file(), size: Bytes(16_384) },
        Act::Close { handle: file() },
    ];
    let (page, mail) = (file_set("page", 3, 20_000, 1.0), file_set("mail", 10, 20_000, 0.5));
    let roles = [(Role::Client, 1, of_mail), (Role::Reader, 1, of_pages), (Role::Writer, 2, of_data)];
    let roles = roles.map(|(role, workers, acts)| flow_role(role, workers, acts)).to_vec();
    Workload::Flow(Flow {
        files: FileSets(vec![file_set("data", 1, 65_536, 1.0), mail, page]),
        roles: FlowRoles(roles),
        ramp: Ramp::For(Nanos::from_millis(100)),
        window: Nanos::from_millis(300),
        drain_limit: Nanos::from_secs(5),
        verify: true,
        ..Flow::default()
    })
}

/// Runs a workload on a filesystem that alters reads of at least 8 KiB at this offset of a file with this
/// in its path, all of them or only those after the load; returns how it failed.
fn failure(workload: &Workload, path: &'static str, at: u64, alteration: Alteration, later: bool) -> Failure {
    let behaviour = Behaviour::healthy();
    behaviour.alter_reads(move |read, data| {
        let is_meant = read.path.to_string_lossy().contains(path) && read.offset == at && data.len() >= 8192;
        if is_meant && (!later || read.thread_name() == "read again") {
            alteration(data);
        }
    });
    let change = |request: &mut EngineRequest| {
        request.workload = workload.clone();
        request.reread = Reread::AtEnd;
    };
    let events = run(&behaviour, change, |_| ());
    let failed = events.iter().find_map(|event| match event {
        EngineEvent::Failed(failure) => Some(failure.clone()),
        _ => None,
    });
    let failed = failed.unwrap_or_else(|| panic!("nothing was noticed in '{path}': {:?}", events.last()));
    assert_eq!(failed.step, "verification", "{failed:?}");
    failed
}

fn a_filesystem_that_alters_data_is_caught_while_the_load_runs() {
    for io in [IoEngine::Sync, IoEngine::IoUring] {
        let read = streaming(io, &[Stage::Write, Stage::Read]);
        let found = |alteration| {
            let failure = failure(&read, "stream-0", 65536, alteration, false);
            assert_eq!(failure.details, "read in step 'read'");
            failure.to_string()
        };
        let place = |offset: u64| {
            format!(
                "verification: 'stream-0': at offset {offset}: expected sector {} of this file, found",
                offset / 512
            )
        };
        assert_eq!(found(FLIP), format!("{} garbage: 1 bit differs", place(65536 + 700)));
        assert_eq!(found(SWAP), format!("{} sector 136 of this file", place(65536)));
        assert_eq!(found(HOLE), format!("{} zeros", place(65536 + 4096)));
        let bytes = 4 * Bytes::MIB;
        let short = format!("verification: 'stream-0': too short: expected {bytes} bytes, found 65536");
        assert_eq!(found(TRUNCATE), short);
    }
    // The first byte is read on its own, the rest of a small file after it.
    let found = |alteration| failure(&fileserver(), "/tree-0/", 1, alteration, false).message;
    assert_eq!(found(FLIP), "at offset 701: expected sector 1 of this file, found garbage: 1 bit differs");
    assert!(found(HOLE).ends_with("found zeros"), "{}", found(HOLE));
    assert!(found(TRUNCATE).starts_with("too short: expected "), "{}", found(TRUNCATE));
}

/// The data that the phases read was right.
fn a_filesystem_that_alters_data_later_is_caught_at_the_end() {
    let write = streaming(IoEngine::Sync, &[Stage::Write]);
    let failure = failure(&write, "stream-0", 0, FLIP, true);
    assert_eq!(failure.details, "read in step 'read again'");
    assert_eq!(
        failure.message,
        "at offset 700: expected sector 1 of this file, found garbage: 1 bit differs"
    );
}

fn a_flow_catches_a_filesystem_that_alters_data() {
    for (set, later) in
        [("/page/", false), ("/mail/", false), ("/page/", true), ("/mail/", true), ("/data/", true)]
    {
        let found = |alteration| {
            let failure = failure(&flow(), set, 0, alteration, later);
            let path = failure.path.clone().expect("a file");
            assert!(format!("/{path}").starts_with(set), "{failure:?}");
            let step = if later { "read again" } else { "flow" };
            assert_eq!(failure.details, format!("read in step '{step}'"));
            failure.message
        };
        let flipped = "at offset 700: expected sector 1 of this file, found garbage: 1 bit differs";
        assert_eq!(found(FLIP), flipped, "{set}");
        assert_eq!(found(SWAP), "at offset 0: expected sector 0 of this file, found sector 8 of this file");
        assert_eq!(found(HOLE), "at offset 4096: expected sector 8 of this file, found zeros", "{set}");
        assert!(found(TRUNCATE).starts_with("too short: expected "), "{set}");
    }
    // Any read of a database that others write over. Few are at this offset, and the first one ends the load.
    let Workload::Flow(flow) = flow() else { unreachable!("it is a flow") };
    let patient = Workload::Flow(Flow { window: Nanos::from_secs(20), ..flow });
    let failure = failure(&patient, "/data/", 16_384, FLIP, false);
    let offset = format!("at offset {}: ", 16_384 + 700);
    assert!(failure.message.starts_with(&offset), "{failure:?}");
    assert!(failure.message.ends_with("garbage: 1 bit differs"), "{failure:?}");
}

fn collection() -> Workload {
    let scale = 0.000_01;
    Workload::Collection(Collection {
        collection: CollectionSize::Large,
        scale,
        verify: true,
        ..Collection::default()
    })
}

fn postmark() -> Workload {
    let (size, read) = (SizeRange { low: Bytes(20_000), high: Bytes(20_000) }, Bytes(16_384));
    let more = Postmark { number: 20, transactions: 50, ..Postmark::default() };
    Workload::Postmark(Postmark { size, read, buffering: false, verify: true, ..more })
}

fn bonnie() -> Workload {
    Workload::Bonnie(Bonnie {
        size: Some(Bytes(Bytes::MIB)),
        chunk: Bytes(16_384),
        char_size: Bytes(16_384),
        ram: Some(Bytes(0)),
        seeks: 200,
        rewrite_share: 0.5,
        files: 1024,
        min_size: Bytes(9000),
        max_size: Bytes(9000),
        file_chunk: Bytes(16_384),
        verify: true,
        ..Bonnie::default()
    })
}

fn commit_log() -> Workload {
    Workload::CommitLog(CommitLog {
        writers: 1,
        segment: Bytes(64 * Bytes::KIB),
        segments: Segments::Overwrite,
        ramp: Ramp::For(Nanos::from_millis(50)),
        window: Nanos::from_millis(200),
        verify: true,
        ..CommitLog::default()
    })
}

fn a_filesystem_that_alters_collections_mails_or_logs_is_caught() {
    for (workload, path, step, later) in [
        (collection(), "/collection/", "read", false),
        (collection(), "/copy/", "read again", false),
        (postmark(), "fsdyno-", "transactions", false),
        (bonnie(), "/large", "rewrite", false),
        (bonnie(), "/small/", "stat sequential", false),
        (commit_log(), "/log-1/", "read again", true),
    ] {
        let found = |alteration| {
            let failure = failure(&workload, path, 0, alteration, later);
            assert_eq!(failure.details, format!("read in step '{step}'"));
            failure.message
        };
        let flipped = "at offset 700: expected sector 1 of this file, found garbage: 1 bit differs";
        assert_eq!(found(FLIP), flipped, "{path}");
        assert_eq!(found(SWAP), "at offset 0: expected sector 0 of this file, found sector 8 of this file");
        assert_eq!(found(HOLE), "at offset 4096: expected sector 8 of this file, found zeros", "{path}");
        assert!(found(TRUNCATE).starts_with("too short: expected "), "{path}");
    }
}

fn delays_alone_are_no_error() {
    let behaviour = Behaviour::slow(&[Kind::Read, Kind::Write], Duration::from_millis(3));
    let stages = [Stage::Write, Stage::RandomWrite, Stage::RandomRead, Stage::Mixed];
    let loads = [fileserver(), flow(), collection(), postmark(), bonnie(), commit_log()];
    for workload in loads.into_iter().chain([streaming(IoEngine::IoUring, &stages)]) {
        let change = |request: &mut EngineRequest| {
            request.workload = workload.clone();
            request.reread = Reread::AtEnd;
        };
        let events = run(&behaviour, change, |_| ());
        assert_eq!(events.last(), Some(&EngineEvent::Done));
        assert!(events.iter().any(|event| matches!(event, EngineEvent::ReadAgain { .. })));
    }
}

fn plan(sandbox: &Sandbox, workloads: &[&str], hooks: &str) -> String {
    let workloads: String = workloads
        .iter()
        .map(|workload| {
            format!("[[workloads]]\nverify = true\nramp = \"50ms\"\nwindow = \"200ms\"\n{workload}\n")
        })
        .collect();
    let plan = format!(
        "name = \"verified\"\nrepetitions = 1\n{hooks}\n[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\n\
         filesystem = \"ext4\"\n{workloads}",
        sandbox.path("scratch.img").display()
    );
    sandbox.write("plan.toml", &plan).display().to_string()
}

fn sweep(sandbox: &Sandbox, plan: &str) -> (Option<i32>, Vec<Value>) {
    let output = sandbox.run(&["sweep", plan, "--allow-hooks", "--format", "json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {}", describe(&output)));
    (output.status.code(), json["trials"].as_array().expect("trials").clone())
}

fn a_verified_sweep_passes_in_every_mode() {
    let sandbox = Sandbox::new();
    let stages = "kind = \"streaming\"\nfile_size = \"16M\"\nbs = \"1M\"\n\
                  stages = [\"write\", \"random-write\", \"read\", \"random-read\", \"mixed\"]";
    let ring = format!("{stages}\nio = \"io_uring\"\niodepth = 8");
    let workloads = [
        stages.to_string(),
        format!("{stages}\ndirect = true"),
        ring.clone(),
        format!("{ring}\ndirect = true\ncontent = {{ compressible = 0.5 }}"),
        "kind = \"fileserver\"\ntree_size = \"16M\"\nwriter_space = \"32M\"".to_string(),
        "kind = \"fileserver\"\ntree_size = \"16M\"\nwriter_space = \"32M\"\ndirect = true".to_string(),
    ];
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let trials = passes(&sandbox, &workloads);
    let least = trials.iter().map(|trial| trial["read_again"]["bytes"].as_u64()).min();
    assert!(least.flatten() >= Some(16 << 20), "{trials:?}");
}

/// Some that come with fsdyno, made small: files that come and go, that are renamed over others, logs and
/// databases of one worker and of many, and O_DIRECT.
fn verified_flows_pass_a_sweep() {
    let sandbox = Sandbox::new();
    let flow = |name: &str, more: &str| format!("kind = \"flow\"\nflow = \"{name}\"\n{more}");
    let workloads = [
        flow("varmail", ""),
        flow("maildir", "files.cur.count = 1000"),
        flow("build", "files.headers.count = 200\nfiles.sources.count = 40\nfiles.objects.count = 40"),
        flow("sqlite-wal", "files.database.size = \"1M\""),
        flow("wal-database", "files.data.size = \"8M\"\nfiles.log.size = \"1M\""),
        flow("oltp", "roles.client.workers = 16\nfiles.data.size = \"1M\""),
        flow("vm-image", "files.images.size = \"4M\""),
    ];
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    passes(&sandbox, &workloads);
}

/// Runs verified workloads, each of which has to pass; returns their trials.
fn passes(sandbox: &Sandbox, workloads: &[&str]) -> Vec<Value> {
    let (code, trials) = sweep(sandbox, &plan(sandbox, workloads, ""));
    assert_eq!(code, Some(0), "{trials:?}");
    // Plus the sentinel.
    assert_eq!(trials.len(), workloads.len() + 1);
    let mut remounted = 0;
    for trial in &trials {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        assert!(trial["read_again"]["bytes"].as_u64() > Some(0), "{trial}");
        assert!(trial["lifecycle_ns"]["read_again"].as_u64() > Some(0), "{trial}");
        // A mount namespace of a test that runs beside this one may hold the filesystem.
        let warnings = trial["warnings"].as_array().expect("warnings");
        let is_held = warnings.iter().any(|warning| warning["kind"] == "still-mounted");
        let is_remounted = trial["read_again"]["remounted"] == true;
        assert!(is_remounted || is_held, "{trial}");
        remounted += u32::from(is_remounted);
        if !is_held {
            assert!(trial["lifecycle_ns"]["umount"].is_u64() && trial["check"]["clean"] == true, "{trial}");
        }
    }
    let shown = sandbox.run(&["show", "--full"]);
    let shown = String::from_utf8_lossy(&shown.stdout).replace("\n  ", " ");
    let says = shown.contains("read again after unmounting and mounting, every byte as written");
    assert_eq!(says, remounted > 0, "{shown}");
    trials
}

/// The readers of the last stage read another file than the one that a hook changes.
fn a_file_that_changes_after_the_load_fails_the_trial() {
    let sandbox = Sandbox::new();
    let script = "test $FSDYNO_PHASE != mixed || printf wrong | dd conv=notrunc bs=1 seek=9000 \
                  of=$(echo $FSDYNO_MOUNTPOINT/fsdyno-*/stream-1)";
    let hooks = format!("[hooks]\nbefore_phase = \"\"\"sh -c '{script}'\"\"\"");
    let load = "kind = \"streaming\"\nfile_size = \"8M\"\nstreams = 2\nreaders = 1\n\
                stages = [\"write\", \"mixed\"]";
    let (code, trials) = sweep(&sandbox, &plan(&sandbox, &[load], &hooks));
    assert_ne!(code, Some(0), "{trials:?}");
    for trial in &trials {
        assert_eq!(trial["outcome"], "failed", "{trial}");
        let error = &trial["error"];
        assert_eq!((&error["step"], &error["path"]), (&"verification".into(), &"stream-1".into()), "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.starts_with("at offset 9000: expected sector 17 of this file, found garbage"),
            "{error}"
        );
        assert_eq!(error["details"], "read in step 'read again'");
        assert_eq!(trial["phases"], Value::Array(Vec::new()), "no figure of wrong data is kept");
    }
    let shown = describe(&sandbox.run(&["show", "1"])).replace("\n  ", " ");
    assert!(shown.contains("verification: 'stream-1': at offset 9000"), "{shown}");
    assert!(!shown.contains("MB/s"), "{shown}");
}
