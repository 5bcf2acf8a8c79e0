//! The activity of the machine while a phase was measured, as `iostat -x`, `top`, `/proc/meminfo` and
//! `/proc/pressure` show it.
//!
//! A [`Sample`] holds *differences* of kernel counters between two readings, never rates: two adjacent
//! samples add up exactly to the sample of both, and the window is the sum of its samples. Rates and shares
//! are computed where they are displayed ([`DeviceActivity::value`] is `iostat -x`). The few values that are
//! states rather than counters (dirty memory) say so.

mod device;
mod document;
mod journal;
mod machine;
mod task;

pub use device::{Column, DeviceActivity};
pub use journal::{BtrfsCommits, Jbd2, JournalActivity, Log, XfsLog};
pub use machine::{CpuSplit, Memory, Pressure, Stalls};
pub use task::{ProcessIo, TaskKind, TaskTime, busiest};

use crate::figures::{grow, total};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tasks kept in one sample, those with the most CPU time first.
pub const SAMPLE_TASKS: usize = 5;
/// Tasks kept for the whole window.
pub const WINDOW_TASKS: usize = 12;
/// Samples kept of one phase. If there are more, pairs are merged and the interval doubles.
pub(crate) const MOST_SAMPLES: usize = 300;

/// The devices to sample while phases are measured, and the interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryRequest {
    /// Time between samples.
    pub interval: Nanos,
    /// Kernel names of the block devices of the stack, the one with the filesystem first: `loop0`, `vda`.
    pub devices: Vec<String>,
}

/// The telemetry of one phase.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Telemetry {
    /// The devices whose activity each sample contains, in this order.
    pub devices: Vec<String>,
    /// Processors online.
    pub processors: u32,
    /// Time between samples; longer than requested if samples were merged.
    pub interval_ns: Nanos,
    /// `CLOCK_MONOTONIC` right before the first reading of the devices; 0 in results of earlier versions.
    #[serde(default)]
    pub began_ns: u64,
    /// The whole window.
    pub window: Sample,
    /// One after the other, without gaps.
    pub samples: Vec<Sample>,
    /// Processes other than fsdyno's that read or wrote block devices in the window, those with the most
    /// bytes first.
    pub other_processes: Vec<ProcessIo>,
    /// The cost of sampling itself.
    pub cost: SamplingCost,
    /// Lines of /proc and /sys that could not be parsed.
    pub unparsed_lines: u64,
}

/// The cost of sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingCost {
    /// Readings of the whole machine, the first one at the beginning of the window included.
    pub readings: u64,
    /// CPU time of all readings.
    pub cpu_ns: u64,
    /// Time that all readings took.
    pub wall_ns: u64,
    /// Time that the longest took.
    pub wall_ns_max: u64,
}

/// The activity between two readings. A fact that the kernel does not report is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Start relative to the first reading of the window.
    pub start_ns: u64,
    /// Time between the two readings.
    pub length_ns: Nanos,
    /// In the order of [`Telemetry::devices`].
    pub devices: Vec<Option<DeviceActivity>>,
    /// Time of all processors together.
    pub cpu: Option<CpuSplit>,
    /// At the end of the sample, with the highest value of all samples merged into it.
    pub memory: Option<Memory>,
    /// Pressure stall information.
    pub pressure: Pressure,
    /// CPU time by kind of task, of all tasks and not only of those in `tasks`.
    #[serde(default)]
    pub task_ns: BTreeMap<TaskKind, u64>,
    /// The tasks with the most CPU time, busiest first.
    pub tasks: Vec<TaskTime>,
    /// Journals and logs of filesystems on the devices.
    pub journals: Vec<JournalActivity>,
}

impl Telemetry {
    /// CPU time of the kernel threads that worked for the filesystem under test.
    pub fn storage_threads_ns(&self) -> u64 {
        let kinds = self.window.task_ns.iter().filter(|(kind, _)| kind.works_for_storage());
        total(kinds.map(|(_, cpu_ns)| *cpu_ns))
    }

    /// Activity of the device with the filesystem, which comes first; of all members together if it spreads
    /// over that many. Absent if one of them is not reported.
    pub fn filesystem_device(&self, members: usize) -> Option<DeviceActivity> {
        let mut sum = DeviceActivity::default();
        for device in self.window.devices.get(..members)? {
            sum.add(device.as_ref()?);
        }
        Some(sum)
    }

    /// The samples with most of their time between two moments of `CLOCK_MONOTONIC`, as the telemetry of that
    /// time; `None` if there are none. Other processes are those of all samples.
    pub fn within(&self, begin_ns: u64, end_ns: u64) -> Option<Telemetry> {
        let middle = |sample: &Sample| self.began_ns + sample.start_ns + sample.length_ns.0 / 2;
        let inside = self.samples.iter().filter(|sample| (begin_ns..end_ns).contains(&middle(sample)));
        let mut samples: Vec<Sample> = inside.cloned().collect();
        for sample in &mut samples {
            // The first may have begun before.
            sample.start_ns = (self.began_ns + sample.start_ns).saturating_sub(begin_ns);
        }
        let (first, next) = samples.split_first()?;
        let mut window = first.clone();
        next.iter().for_each(|sample| window.append(sample, WINDOW_TASKS));
        Some(Telemetry { began_ns: begin_ns, window, samples, ..self.clone() })
    }

    /// Adds the next sample. The window grows by what can be added exactly; the caller, who knows all tasks,
    /// updates its tasks.
    pub fn push(&mut self, sample: Sample) {
        let tasks = std::mem::take(&mut self.window.tasks);
        self.window.append(&sample, 0);
        self.window.tasks = tasks;
        self.samples.push(sample);
        if self.samples.len() > MOST_SAMPLES {
            self.halve();
        }
    }

    /// Merges pairs of samples.
    fn halve(&mut self) {
        self.interval_ns.0 *= 2;
        let samples = std::mem::take(&mut self.samples);
        let mut samples = samples.into_iter();
        while let Some(mut sample) = samples.next() {
            if let Some(next) = samples.next() {
                sample.append(&next, SAMPLE_TASKS);
            }
            self.samples.push(sample);
        }
    }
}

impl Sample {
    /// Its end, relative to the first reading of the window.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns.0)
    }

    /// Merges this sample with the one that follows it, keeping the `most` busiest tasks of both. For a task
    /// that was among the busiest in only one of them, the rest of its time is missing.
    pub fn append(&mut self, next: &Sample, most: usize) {
        grow(&mut self.length_ns.0, next.length_ns.0);
        self.devices.resize(self.devices.len().max(next.devices.len()), None);
        for (device, next) in self.devices.iter_mut().zip(&next.devices) {
            merge(device, next, DeviceActivity::add);
        }
        merge(&mut self.cpu, &next.cpu, CpuSplit::add);
        merge(&mut self.memory, &next.memory, Memory::follow);
        merge(&mut self.pressure.io, &next.pressure.io, Stalls::add);
        merge(&mut self.pressure.cpu, &next.pressure.cpu, Stalls::add);
        merge(&mut self.pressure.memory, &next.pressure.memory, Stalls::add);
        for (kind, cpu_ns) in &next.task_ns {
            grow(self.task_ns.entry(*kind).or_default(), *cpu_ns);
        }
        for task in &next.tasks {
            match self.tasks.iter_mut().find(|known| known.pid == task.pid && known.name == task.name) {
                Some(known) => grow(&mut known.cpu_ns, task.cpu_ns),
                None => self.tasks.push(task.clone()),
            }
        }
        busiest(&mut self.tasks, most);
        for journal in &next.journals {
            match self.journals.iter_mut().find(|known| known.name == journal.name) {
                Some(known) => known.log.add(&journal.log),
                None => self.journals.push(journal.clone()),
            }
        }
    }
}

fn merge<T: Copy>(sum: &mut Option<T>, next: &Option<T>, add: impl Fn(&mut T, &T)) {
    match (sum, next) {
        (Some(sum), Some(next)) => add(sum, next),
        (sum @ None, next) => *sum = *next,
        (Some(_), None) => {}
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the columns against the output of `iostat -x` of sysstat 12.6.1 for a disk whose counters grew
    /// by this much within 0.61 s.
    #[test]
    fn columns_are_those_of_iostat() {
        let activity = DeviceActivity {
            reads: 15,
            reads_merged: 0,
            read_bytes: 416 * 512,
            read_ns: 9_000_000,
            writes: 90,
            writes_merged: 149,
            write_bytes: 237_096 * 512,
            write_ns: 769_000_000,
            discards: 2,
            discards_merged: 0,
            discard_bytes: 131_080 * 512,
            discard_ns: 13_000_000,
            flushes: 2,
            flush_ns: 0,
            busy_ns: 84_000_000,
            queued_ns: 791_000_000,
        };
        let printed = "24.59 340.98 0.00 0.00 0.60 13.87 147.54 194340.98 244.26 62.34 8.54 1317.20 \
                       3.28 107442.62 0.00 0.00 6.50 32770.00 3.28 0.00 1.30 13.77";
        let computed: Vec<String> = Column::ALL
            .iter()
            .map(|column| format!("{:.2}", activity.value(*column, Nanos::from_millis(610))))
            .collect();
        assert_eq!(computed.join(" "), printed);
    }

    #[test]
    fn rates_over_no_time_are_zero() {
        for column in Column::ALL {
            assert_eq!(DeviceActivity::default().value(*column, Nanos(0)), 0.0, "{column}");
        }
    }

    fn sample(start_ns: u64, cpu_ns: u64) -> Sample {
        let task = |name: &str, cpu_ns| TaskTime {
            pid: Some(1),
            name: name.to_string(),
            kind: TaskKind::Process,
            cpu_ns,
        };
        Sample {
            start_ns,
            length_ns: Nanos(10),
            devices: vec![Some(DeviceActivity { reads: cpu_ns, ..DeviceActivity::default() }), None],
            cpu: Some(CpuSplit { user_ns: cpu_ns, ..CpuSplit::default() }),
            memory: Some(Memory { dirty_bytes: cpu_ns, dirty_bytes_max: cpu_ns, ..Memory::default() }),
            task_ns: BTreeMap::from([(TaskKind::Process, cpu_ns)]),
            tasks: vec![task("a", cpu_ns), task("b", 1)],
            ..Sample::default()
        }
    }

    #[test]
    fn what_lies_between_two_moments_is_a_telemetry_of_its_own() {
        let mut telemetry = Telemetry { began_ns: 1_000, ..Telemetry::default() };
        (0..10).for_each(|index| telemetry.push(sample(index * 10, index)));
        // Middles are at 1005, 1015 and so on.
        let part = telemetry.within(1_014, 1_046).expect("samples");
        assert_eq!(part.began_ns, 1_014);
        assert_eq!(part.samples.iter().map(|one| one.start_ns).collect::<Vec<_>>(), [0, 6, 16, 26]);
        let reads = |sample: &Sample| sample.devices[0].expect("a device").reads;
        assert_eq!((reads(&part.window), part.window.length_ns), (1 + 2 + 3 + 4, Nanos(40)));
        assert_eq!(part.samples.iter().map(reads).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(telemetry.within(1_100, 2_000), None);
        assert_eq!(telemetry.within(0, u64::MAX).expect("samples").window.length_ns, Nanos(100));
    }

    proptest! {
        #[test]
        fn a_long_phase_keeps_its_sums_in_bounded_memory(times in prop::collection::vec(0..1000_u64, 1..2000)) {
            let mut telemetry = Telemetry { interval_ns: Nanos(10), ..Telemetry::default() };
            for (index, time) in times.iter().enumerate() {
                telemetry.push(sample(index as u64 * 10, *time));
            }
            let total: u64 = times.iter().sum();
            let reads = |sample: &Sample| sample.devices[0].expect("a device").reads;
            let length = times.len() as u64 * 10;
            prop_assert!(telemetry.samples.len() <= MOST_SAMPLES);
            prop_assert_eq!(reads(&telemetry.window), total);
            prop_assert_eq!(telemetry.samples.iter().map(reads).sum::<u64>(), total);
            prop_assert_eq!(telemetry.window.length_ns, Nanos(length));
            prop_assert_eq!(telemetry.window.memory.expect("memory").dirty_bytes_max, times.iter().copied().max().unwrap_or(0));
            prop_assert_eq!(telemetry.window.memory.expect("memory").dirty_bytes, times.last().copied().unwrap_or(0));
            // One after the other, without gaps.
            let mut end_ns = 0;
            for sample in &telemetry.samples {
                prop_assert_eq!(sample.start_ns, end_ns);
                prop_assert!(sample.length_ns <= telemetry.interval_ns);
                end_ns += sample.length_ns.0;
            }
            prop_assert_eq!(end_ns, length);
        }
    }

    #[test]
    fn a_kind_has_the_same_name_in_json_and_tables() {
        for kind in TaskKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("json"), kind.name());
        }
    }
}
