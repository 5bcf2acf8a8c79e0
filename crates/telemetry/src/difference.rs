//! The activity between two readings. Counters that went backwards (a device that was attached again) count
//! as zero.

use crate::parse::DiskCounters;
use crate::reading::Reading;
use fsdyno_core::telemetry::{CpuSplit, DeviceActivity, JournalActivity, Log, Pressure, Sample, Stalls};
use fsdyno_core::units::Nanos;

/// Bytes in a sector of `/proc/diskstats`, whatever the device's own sector size.
const SECTOR: u64 = 512;

/// A sample without its tasks. `begin_ns`: the first reading of the window.
pub(crate) fn sample(earlier: &Reading, later: &Reading, begin_ns: u64) -> Sample {
    let both = |a: &Option<Stalls>, b: &Option<Stalls>| Some(stalls(a.as_ref()?, b.as_ref()?));
    Sample {
        start_ns: earlier.at_ns.saturating_sub(begin_ns),
        length_ns: Nanos(later.at_ns.saturating_sub(earlier.at_ns)),
        devices: earlier
            .disks
            .iter()
            .zip(&later.disks)
            .map(|(earlier, later)| Some(device(earlier.as_ref()?, later.as_ref()?)))
            .collect(),
        cpu: earlier.cpu.zip(later.cpu).map(|(earlier, later)| cpu(&earlier, &later)),
        memory: later.memory,
        pressure: Pressure {
            io: both(&earlier.pressure.io, &later.pressure.io),
            cpu: both(&earlier.pressure.cpu, &later.pressure.cpu),
            memory: both(&earlier.pressure.memory, &later.pressure.memory),
        },
        journals: journals(&earlier.journals, &later.journals),
        ..Sample::default()
    }
}

fn device(earlier: &DiskCounters, later: &DiskCounters) -> DeviceActivity {
    let count = |counter: fn(&DiskCounters) -> u64| counter(later).saturating_sub(counter(earlier));
    // Milliseconds in 32 bits wrap around, after 49 days with one request in flight.
    let time = |counter: fn(&DiskCounters) -> u32| {
        u64::from(counter(later).wrapping_sub(counter(earlier))) * 1_000_000
    };
    DeviceActivity {
        reads: count(|disk| disk.reads.completed),
        reads_merged: count(|disk| disk.reads.merged),
        read_bytes: count(|disk| disk.reads.sectors) * SECTOR,
        read_ns: time(|disk| disk.reads.time_ms),
        writes: count(|disk| disk.writes.completed),
        writes_merged: count(|disk| disk.writes.merged),
        write_bytes: count(|disk| disk.writes.sectors) * SECTOR,
        write_ns: time(|disk| disk.writes.time_ms),
        discards: count(|disk| disk.discards.completed),
        discards_merged: count(|disk| disk.discards.merged),
        discard_bytes: count(|disk| disk.discards.sectors) * SECTOR,
        discard_ns: time(|disk| disk.discards.time_ms),
        flushes: count(|disk| disk.flushes.completed),
        flush_ns: time(|disk| disk.flushes.time_ms),
        busy_ns: time(|disk| disk.busy_ms),
        queued_ns: time(|disk| disk.queued_ms),
    }
}

fn cpu(earlier: &CpuSplit, later: &CpuSplit) -> CpuSplit {
    // Idle and waiting time may go backwards by a tick (Documentation/filesystems/proc.rst, "iowait").
    let time = |counter: fn(&CpuSplit) -> u64| counter(later).saturating_sub(counter(earlier));
    CpuSplit {
        user_ns: time(|cpu| cpu.user_ns),
        nice_ns: time(|cpu| cpu.nice_ns),
        system_ns: time(|cpu| cpu.system_ns),
        iowait_ns: time(|cpu| cpu.iowait_ns),
        irq_ns: time(|cpu| cpu.irq_ns),
        softirq_ns: time(|cpu| cpu.softirq_ns),
        steal_ns: time(|cpu| cpu.steal_ns),
        idle_ns: time(|cpu| cpu.idle_ns),
    }
}

fn stalls(earlier: &Stalls, later: &Stalls) -> Stalls {
    Stalls {
        some_ns: later.some_ns.saturating_sub(earlier.some_ns),
        full_ns: later.full_ns.saturating_sub(earlier.full_ns),
    }
}

/// A journal that did not exist at the earlier reading has no difference.
fn journals(earlier: &[JournalActivity], later: &[JournalActivity]) -> Vec<JournalActivity> {
    let difference = |journal: &JournalActivity| {
        let before = earlier.iter().find(|before| before.name == journal.name)?;
        Some(JournalActivity { name: journal.name.clone(), log: log(&before.log, &journal.log)? })
    };
    later.iter().filter_map(difference).collect()
}

fn log(earlier: &Log, later: &Log) -> Option<Log> {
    let mut difference = *later;
    match (&mut difference, earlier) {
        (Log::Jbd2(log), Log::Jbd2(before)) => {
            log.transactions = log.transactions.saturating_sub(before.transactions);
            log.requested = log.requested.saturating_sub(before.requested);
        }
        (Log::Xfs(log), Log::Xfs(before)) => {
            log.writes = log.writes.saturating_sub(before.writes);
            log.bytes = log.bytes.saturating_sub(before.bytes);
            log.no_buffer = log.no_buffer.saturating_sub(before.no_buffer);
            log.forces = log.forces.saturating_sub(before.forces);
            log.force_sleeps = log.force_sleeps.saturating_sub(before.force_sleeps);
            log.space_sleeps = log.space_sleeps.saturating_sub(before.space_sleeps);
            log.sync_transactions = log.sync_transactions.saturating_sub(before.sync_transactions);
            log.async_transactions = log.async_transactions.saturating_sub(before.async_transactions);
        }
        (Log::Btrfs(log), Log::Btrfs(before)) => {
            log.commits = log.commits.saturating_sub(before.commits);
            log.commit_ns = log.commit_ns.saturating_sub(before.commit_ns);
        }
        _ => return None,
    }
    Some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::disks;

    /// Two readings 0.61 s apart, and what `iostat -x` of sysstat 12.6.1 computed from them.
    #[test]
    fn counters_become_what_iostat_prints() {
        let earlier = "254 0 vda 5782559 1350427 551784339 3766676 1193655 977153 450872375 1825426 0 748304 \
            5756054 690483 23 552338632 158004 81971 5946";
        let later = "254 0 vda 5782574 1350427 551784755 3766685 1193745 977302 451109471 1826195 0 748388 \
            5756845 690485 23 552469712 158017 81973 5946";
        let reading = |at_ns, text| Reading {
            at_ns,
            disks: disks(text, &["vda".to_string()]).value,
            ..Reading::default()
        };
        let sample = sample(&reading(500_000_000, earlier), &reading(1_110_000_000, later), 200_000_000);
        assert_eq!((sample.start_ns, sample.length_ns), (300_000_000, Nanos::from_millis(610)));
        let vda = sample.devices[0].expect("a device");
        let printed = "24.59 340.98 0.00 0.00 0.60 13.87 147.54 194340.98 244.26 62.34 8.54 1317.20 \
                       3.28 107442.62 0.00 0.00 6.50 32770.00 3.28 0.00 1.30 13.77";
        let computed: Vec<String> = fsdyno_core::telemetry::Column::ALL
            .iter()
            .map(|column| format!("{:.2}", vda.value(*column, sample.length_ns)))
            .collect();
        assert_eq!(computed.join(" "), printed);
    }

    #[test]
    fn milliseconds_wrap_around_and_restarted_counters_count_as_zero() {
        let disk = |reads, busy_ms| {
            let mut disk = DiskCounters { busy_ms, ..DiskCounters::default() };
            disk.reads.completed = reads;
            disk
        };
        let activity = device(&disk(7, u32::MAX - 9), &disk(9, 10));
        assert_eq!((activity.reads, activity.busy_ns), (2, 20_000_000));
        assert_eq!(device(&disk(7, 0), &disk(3, 0)).reads, 0);
    }

    #[test]
    fn a_journal_that_has_just_appeared_has_no_difference() {
        let journal = |transactions| JournalActivity {
            name: "loop0-8".to_string(),
            log: Log::Jbd2(fsdyno_core::telemetry::Jbd2 { transactions, ..Default::default() }),
        };
        assert_eq!(journals(&[], &[journal(5)]), []);
        assert_eq!(journals(&[journal(5)], &[journal(7)]), [journal(2)]);
        assert_eq!(journals(&[journal(5)], &[]), []);
    }
}
