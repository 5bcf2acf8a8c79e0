//! One reading of the counters of the whole machine.

use crate::files::Files;
use crate::kind::Stack;
use crate::parse::{self, DiskCounters, Parsed};
use fsdyno_core::telemetry::{CpuSplit, JournalActivity, Log, Memory, Pressure, Stalls};

/// Counters since boot. What the kernel does not report is absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// When the devices were read.
    pub at_ns: u64,
    pub processors: u32,
    pub disks: Vec<Option<DiskCounters>>,
    pub cpu: Option<CpuSplit>,
    pub memory: Option<Memory>,
    pub pressure: Pressure,
    pub journals: Vec<JournalActivity>,
    pub unparsed: u64,
}

/// A file of a journal, found only once: filesystems stay mounted for longer than a phase.
#[derive(Debug, Clone)]
pub(crate) struct JournalFile {
    name: String,
    path: String,
    read: fn(&str) -> Parsed<Option<Log>>,
}

/// Reads everything, the devices first. `tick_ns`: the clock tick in which processor time is counted.
pub(crate) fn read(
    files: &mut Files,
    devices: &[String],
    journals: &[JournalFile],
    tick_ns: u64,
    now_ns: impl Fn() -> u64,
) -> Reading {
    let mut unparsed = 0;
    let at_ns = now_ns();
    let disks = match files.read("proc/diskstats") {
        Some(text) => counted(parse::disks(&text, devices), &mut unparsed),
        None => vec![None; devices.len()],
    };
    let (cpu, processors) = match files.read("proc/stat") {
        Some(text) => counted(parse::cpu_time(&text, tick_ns), &mut unparsed),
        None => (None, 0),
    };
    let memory = files.read("proc/meminfo").and_then(|text| counted(parse::memory(&text), &mut unparsed));
    let mut pressure = |path: &str| -> Option<Stalls> {
        files.read(path).and_then(|text| counted(parse::stalls(&text), &mut unparsed))
    };
    let pressure = Pressure {
        io: pressure("proc/pressure/io"),
        cpu: pressure("proc/pressure/cpu"),
        memory: pressure("proc/pressure/memory"),
    };
    let mut journal = |file: &JournalFile| {
        let text = files.read(&file.path)?;
        let log = counted((file.read)(&text), &mut unparsed)?;
        Some(JournalActivity { name: file.name.clone(), log })
    };
    let journals = journals.iter().filter_map(&mut journal).collect();
    Reading { at_ns, processors, disks, cpu, memory, pressure, journals, unparsed }
}

fn counted<T>(parsed: Parsed<T>, unparsed: &mut u64) -> T {
    *unparsed += parsed.unparsed;
    parsed.value
}

/// The journals of filesystems that are mounted on devices of the stack.
pub(crate) fn journals(files: &Files, stack: &Stack) -> Vec<JournalFile> {
    let mut found = Vec::new();
    for name in sorted(files.names("proc/fs/jbd2")) {
        // `loop0-8` is the journal in inode 8 of loop0, `loop1` one on a separate device.
        let device = name.rsplit_once('-').map_or(name.as_str(), |(device, _inode)| device);
        if stack.contains(device) || stack.contains(&name) {
            let path = format!("proc/fs/jbd2/{name}/info");
            found.push(JournalFile { name, path, read: |text| as_log(parse::jbd2_info(text), Log::Jbd2) });
        }
    }
    for name in sorted(files.names("sys/fs/xfs")) {
        // Besides the devices there is `stats`, the sum of all.
        let path = format!("sys/fs/xfs/{name}/stats/stats");
        if stack.contains(&name) && files.exists(&path) {
            found.push(JournalFile { name, path, read: |text| as_log(parse::xfs_stats(text), Log::Xfs) });
        }
    }
    for identity in sorted(files.names("sys/fs/btrfs")) {
        let path = format!("sys/fs/btrfs/{identity}/commit_stats");
        let devices = sorted(files.names(&format!("sys/fs/btrfs/{identity}/devices")));
        let device = devices.into_iter().find(|device| stack.contains(device));
        if let Some(name) = device.filter(|_| files.exists(&path)) {
            let read = |text: &str| as_log(parse::btrfs_commits(text), Log::Btrfs);
            found.push(JournalFile { name, path, read });
        }
    }
    found
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

fn as_log<T>(parsed: Parsed<Option<T>>, log: fn(T) -> Log) -> Parsed<Option<Log>> {
    Parsed { value: parsed.value.map(log), unparsed: parsed.unparsed }
}
