//! Measures the recorder of disks: its memory with a log of 4 GiB, and how long power cuts take.
//!
//! The log is written to the recorder's disk in two ways, in requests of 4 KiB and of many sizes, and states
//! are made of it and read. The cuts are those of the workload `durability` at its defaults, with `--cuts N`
//! of them (60 unless said otherwise) under all four models, on ext4, xfs and btrfs; time per state is what
//! grows with them. Needs root, FUSE, loop devices, and 12 GiB in /var/tmp.
//! `cargo bench -p fsdyno --bench recorder [-- --cuts 300]`.
#![allow(clippy::print_stdout)]

use fsdyno_core::durability::{
    CacheModel, MARKS_FILE, Mark, Moment, Promise, RecorderReply, RecorderRequest, StateRequest,
};
use fsdyno_core::{Bytes, Nanos};
use fsdyno_host::Host;
use fsdyno_host::local::LocalHost;
use fsdyno_host::recorder::Recorder;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const DISK: u64 = 6 << 30;
const LOG: u64 = 4 << 30;
/// The most that the recorder may use, in MiB.
const AIM_MIB: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(1200);
/// Cuts whose states are made.
const CUTS: u32 = 5;
const ALIGNMENT: usize = 4096;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cuts = arguments.iter().position(|word| word == "--cuts").and_then(|at| arguments.get(at + 1));
    let cuts: u32 = cuts.map_or(60, |number| number.parse().expect("a number of cuts"));
    println!("a log of {} GiB; goal: below {AIM_MIB} MiB of memory", LOG >> 30);
    memory("requests of 4 KiB", &[4 << 10]);
    memory("4 KiB to 1 MiB", &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]);
    println!(
        "\npower cuts: {cuts} under four models; goal: 300 in 180 s, which is 150 ms for each of 1,200 states"
    );
    for filesystem in ["ext4", "xfs", "btrfs"] {
        cut(filesystem, cuts);
    }
}

/// Records a log, and prints the time and the memory that this and its states took.
fn memory(name: &str, sizes: &[usize]) {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let (log, shown) = (directory.path().join("log"), directory.path().join("shown"));
    fs::create_dir(&log).and_then(|()| fs::create_dir(&shown)).expect("directories");
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let mut recorder = host.start_recorder().expect("a recorder");
    let begin = RecorderRequest::Begin {
        directory: log,
        mountpoint: shown.clone(),
        complete: None,
        parts: 1,
        shared: false,
    };
    ask(&mut *recorder, &begin);
    let start = Instant::now();
    let entries = write_log(&shown, sizes);
    let written = start.elapsed();
    let start = Instant::now();
    ask(&mut *recorder, &RecorderRequest::Check);
    let checked = start.elapsed();
    let RecorderReply::Cuts { cuts } = ask(&mut *recorder, &RecorderRequest::Cuts { count: CUTS, seed: 3 })
    else {
        panic!("no cuts");
    };
    let mut slowest = Duration::ZERO;
    for cut in &cuts {
        for model in CacheModel::ALL {
            let start = Instant::now();
            let state =
                StateRequest { at: cut.at, model, seed: 1, atom: Bytes(4096), volatile: Bytes(8 << 20) };
            ask(&mut *recorder, &RecorderRequest::State(state));
            slowest = slowest.max(start.elapsed());
            look(&shown);
        }
    }
    println!(
        "{name:<18} {entries:>8} writes in {:>5.1} s, replayed and compared in {:>5.1} s, slowest state \
         {:>5.1} s, at most {} MiB",
        written.as_secs_f64(),
        checked.as_secs_f64(),
        slowest.as_secs_f64(),
        most_memory()
    );
}

fn ask(recorder: &mut dyn Recorder, request: &RecorderRequest) -> RecorderReply {
    recorder.ask(request, PATIENCE).expect("it does what is asked")
}

/// Writes until the log is full, with a flush after each 50 writes and a mark after each 100; returns the
/// number of writes.
fn write_log(shown: &Path, sizes: &[usize]) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let disk = File::create_new(shown.join("disk")).expect("the disk");
    disk.set_len(DISK).expect("its size");
    let marks = File::options().write(true).open(shown.join(MARKS_FILE)).expect("the marks");
    let most = sizes.iter().copied().max().unwrap_or(ALIGNMENT);
    // The kernel would split a request whose buffer begins within a page.
    let mut bytes = vec![0_u8; most + ALIGNMENT];
    random.fill(&mut bytes[..]);
    let begin = bytes.as_ptr().align_offset(ALIGNMENT);
    let (mut written, mut count) = (0, 0);
    while written < LOG {
        let size = sizes[random.random_range(0..sizes.len())];
        let at = random.random_range(0..(DISK - size as u64) / 4096) * 4096;
        disk.write_all_at(&bytes[begin..begin + size], at).expect("write");
        written += size as u64;
        count += 1;
        if count % 50 == 0 {
            disk.sync_data().expect("flush");
        }
        if count % 100 == 0 {
            let mark = Mark {
                promise: Some(Promise::Create),
                number: count,
                moment: Moment::Acknowledged,
                time_ns: Nanos(0),
            };
            marks.write_all_at(&mark.to_bytes(), 0).expect("a mark");
        }
    }
    drop(disk);
    fs::remove_file(shown.join("disk")).expect("remove it");
    count
}

/// Reads a disk here and there, as a mount does, and writes to it.
fn look(shown: &Path) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let path = shown.join("disk");
    let disk = File::options().read(true).write(true).create_new(true).open(&path).expect("the disk");
    disk.set_len(DISK).expect("its size");
    let mut bytes = vec![0_u8; 4096 + ALIGNMENT];
    let begin = bytes.as_ptr().align_offset(ALIGNMENT);
    for _ in 0..500 {
        let at = random.random_range(0..DISK / 4096) * 4096;
        disk.read_exact_at(&mut bytes[begin..begin + 4096], at).expect("read");
    }
    disk.write_all_at(&bytes[begin..begin + 4096], 0).expect("write");
    drop(disk);
    fs::remove_file(&path).expect("remove it");
}

/// The most memory that a recorder of this process has used, in MiB.
fn most_memory() -> u64 {
    let own = std::process::id().to_string();
    let found = Command::new("pgrep").args(["-P", &own, "-f", "fsdyno recorder"]).output().expect("pgrep");
    let pid = String::from_utf8_lossy(&found.stdout).trim().to_string();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = kib.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("its memory").div_ceil(1024)
}

/// Cuts power on a filesystem; prints the time per state, and what was lost, which must be nothing.
fn cut(filesystem: &str, cuts: u32) {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "name = \"cuts\"\nrepetitions = 1\n[device]\nimage = \"{}\"\nsize = \"1G\"\n[[configurations]]\n\
         name = \"{filesystem}\"\nfilesystem = \"{filesystem}\"\n[[workloads]]\nkind = \"durability\"\n\
         cuts = {cuts}\n",
        directory.path().join("disk.img").display()
    );
    let file = directory.path().join("plan.toml");
    fs::write(&file, plan).expect("write the plan");
    let start = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_fsdyno"))
        .arg("durability")
        .arg(&file)
        .args(["--format", "json"])
        .env("XDG_STATE_HOME", directory.path())
        .output()
        .expect("run fsdyno");
    let took = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let models = document["trials"][0]["durability"]["models"].as_array().expect("models").clone();
    let states: u64 = models.iter().filter_map(|model| model["states"].as_u64()).sum();
    let promises = models.iter().flat_map(|model| model["promises"].as_array().cloned().unwrap_or_default());
    let promised = promises.filter(|one| one["promise"] != "replace-unsynced");
    let lost: u64 = promised.filter_map(|one| one["lost"].as_u64()).sum();
    let sum = |what: &str| models.iter().filter_map(|model| model[what].as_u64()).sum::<u64>();
    println!(
        "{filesystem:<6} {states} states in {took:>6.1} s: {:>4.0} ms each; {lost} acknowledged promises \
         lost, {} not mounted, {} damaged",
        took * 1e3 / states as f64,
        states - sum("mounted"),
        sum("damaged")
    );
}
