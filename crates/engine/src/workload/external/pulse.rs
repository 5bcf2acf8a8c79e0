//! Whether an external program is working: the processor time and the bytes that it and its children have
//! used.

use fsdyno_core::result::CpuTime;
use fsdyno_core::units::{Bytes, Nanos};
use std::collections::HashMap;

/// A tick of processor time counts as much as this many bytes.
pub(super) const TICK: u64 = Bytes::MIB;

/// The work of each process so far, in bytes: its own, and that of its children that have ended.
pub(super) type Pulse = HashMap<u32, u64>;

/// A process and all processes below it.
pub(super) fn below(top: u32) -> Pulse {
    let all: HashMap<u32, (u32, u64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let (parent, ticks) =
                parent_and_ticks(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?;
            Some((pid, (parent, ticks)))
        })
        .collect();
    let is_below = |mut pid: u32| {
        // A process that ends while it is read may have a new parent, which can form a loop. No chain is
        // longer than the number of processes.
        for _ in 0..all.len() {
            match all.get(&pid) {
                Some(_) if pid == top => return true,
                Some((parent, _)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let below = all.iter().filter(|(pid, _)| is_below(**pid));
    below
        .map(|(pid, (_, ticks))| {
            let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            (*pid, ticks.saturating_mul(TICK).saturating_add(bytes(&io)))
        })
        .collect()
}

/// Processor time of a process and of the children that it has waited for, in ticks of 10 ms; zero once it is
/// gone.
pub(super) fn cpu(pid: u32) -> CpuTime {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    cpu_of(&stat, 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Parent, and ticks of processor time with those of children that were waited for: fields 4 and 14 to 17 of
/// `/proc/PID/stat` (proc_pid_stat(5)).
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    Some((fields.get(1)?.parse().ok()?, ticks))
}

/// User and system time from the same fields, including children that were waited for.
fn cpu_of(stat: &str, tick_ns: u64) -> CpuTime {
    let Some((_, rest)) = stat.rsplit_once(')') else { return CpuTime::default() };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let time = |own, children| Nanos((ticks(own) + ticks(children)).saturating_mul(tick_ns));
    CpuTime { user_ns: time(11, 13), system_ns: time(12, 14) }
}

/// All bytes in `/proc/PID/io` (proc_pid_io(5)): read and written, from the page cache and from devices.
fn bytes(io: &str) -> u64 {
    let wanted = ["rchar", "wchar", "read_bytes", "write_bytes"];
    io.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(key, _)| wanted.contains(key))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

/// The work between two readings. A process that has ended counts as having done nothing since.
pub(super) fn work_between(before: &Pulse, now: &Pulse) -> u64 {
    now.iter().map(|(pid, done)| done.saturating_sub(before.get(pid).copied().unwrap_or(0))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_parsed_and_compared() {
        let stat = "42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 57 6 10 20 20 0 1 0 98765";
        assert_eq!(parent_and_ticks(stat), Some((7, 93)));
        let cpu = CpuTime { user_ns: Nanos(670), system_ns: Nanos(260) };
        assert_eq!((cpu_of(stat, 10), cpu_of("", 10)), (cpu, CpuTime::default()));
        let io = "rchar: 1\nwchar: 20\nsyscr: 5\nsyscw: 6\nread_bytes: 300\nwrite_bytes: 4000\ncancelled_write_bytes: 9\n";
        assert_eq!(bytes(io), 4321);
        let before = Pulse::from([(1, 10), (2, 50)]);
        assert_eq!(work_between(&before, &Pulse::from([(1, 15), (3, 7)])), 12);
    }
}
