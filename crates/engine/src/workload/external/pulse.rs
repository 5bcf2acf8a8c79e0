//! Signs that an external program is working: the processor time and the bytes that it and its children have
//! used.

use fsdyno_core::process_stat::ProcessStat;
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
            let text = std::fs::read(entry.path().join("stat")).ok()?;
            let text = String::from_utf8_lossy(&text);
            let stat = ProcessStat::parse(&text)?;
            Some((pid, (stat.parent, stat.cpu_ticks())))
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
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Nanos(ticks.saturating_mul(tick_ns));
    ProcessStat::parse(&String::from_utf8_lossy(&text)).map_or_else(CpuTime::default, |stat| CpuTime {
        user_ns: time(stat.user_ticks),
        system_ns: time(stat.system_ticks),
    })
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
        let io = "rchar: 1\nwchar: 20\nsyscr: 5\nsyscw: 6\nread_bytes: 300\nwrite_bytes: 4000\n\
            cancelled_write_bytes: 9\n";
        assert_eq!(bytes(io), 4321);
        let before = Pulse::from([(1, 10), (2, 50)]);
        assert_eq!(work_between(&before, &Pulse::from([(1, 15), (3, 7)])), 12);
    }
}
