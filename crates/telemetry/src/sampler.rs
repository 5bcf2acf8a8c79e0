//! The sampler: readings of one window, and their sums.

use crate::difference;
use crate::files::Files;
use crate::kind::Stack;
use crate::reading::{self, JournalFile, Reading};
use crate::tasks::{self, Tasks};
use fsdyno_core::glance::MachineGlance;
use fsdyno_core::telemetry::{ProcessIo, SAMPLE_TASKS, Sample, TaskTime, Telemetry, WINDOW_TASKS, busiest};
use fsdyno_core::units::Nanos;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::path::Path;

/// The maximum number of tasks to remember over a window. A shell that starts a program every second for
/// hours must not fill the memory.
const MOST_TASKS: usize = 4096;
/// The maximum number of processes to keep with their reads and writes.
const MOST_OTHERS: usize = 8;

/// Reads /proc and /sys at the beginning of a window, every interval, and at its end.
#[derive(Debug)]
pub struct Sampler {
    files: Files,
    interval: Nanos,
    devices: Vec<String>,
    tick_ns: u64,
    own: u32,
    window: Option<Window>,
}

/// The window in progress.
#[derive(Debug)]
struct Window {
    begin_ns: u64,
    /// When the next sample is due.
    due_ns: u64,
    last: Reading,
    stack: Stack,
    journals: Vec<JournalFile>,
    tasks: Tasks,
    /// CPU time of every task so far, by PID and name.
    times: HashMap<(Option<u32>, String), TaskTime>,
    /// Reads and writes so far of every process that does not belong to fsdyno.
    others: HashMap<u32, ProcessIo>,
    telemetry: Telemetry,
}

impl Sampler {
    /// Samples every `interval`, and watches these block devices: kernel names, `loop0`, the one with the
    /// filesystem first. Reads nothing yet.
    pub fn new(interval: Nanos, devices: Vec<String>) -> Self {
        Self::below(Path::new("/"), interval, devices)
    }

    /// The same with another root, which contains `proc` and `sys`: for tests, which provide their own files.
    pub fn below(root: &Path, interval: Nanos, devices: Vec<String>) -> Self {
        let mut files = Files::below(root);
        let own = tasks::own(&mut files, std::process::id());
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Sampler { files, interval: Nanos(interval.0.max(1)), devices, tick_ns, own, window: None }
    }

    /// Takes the first reading of a window. A previous window without an end is dropped.
    pub fn begin(&mut self) {
        let started = Clocks::now();
        let mut stack = Stack::new(&self.devices);
        let journals = reading::journals(&self.files, &stack);
        let first = self.read(&journals);
        stack.set_numbers(numbers(&first));
        let mut tasks = Tasks::new(self.own, self.tick_ns);
        let unparsed_lines = first.unparsed + tasks.look(&mut self.files, &stack).unparsed;
        let mut telemetry = Telemetry {
            devices: self.devices.clone(),
            processors: first.processors,
            interval_ns: self.interval,
            began_ns: first.at_ns,
            unparsed_lines,
            ..Telemetry::default()
        };
        started.charge(&mut telemetry);
        self.window = Some(Window {
            begin_ns: first.at_ns,
            due_ns: first.at_ns.saturating_add(self.interval.0),
            last: first,
            stack,
            journals,
            tasks,
            times: HashMap::new(),
            others: HashMap::new(),
            telemetry,
        });
    }

    /// Takes a sample if one is due: it may be called at any rate. Without a window it does nothing.
    pub fn sample(&mut self) {
        if self.window.as_ref().is_some_and(|window| now_ns() >= window.due_ns) {
            self.take();
        }
    }

    /// Device and processors in the last sample of the window in progress. A sample that was merged with
    /// others is longer.
    pub fn latest(&self) -> Option<MachineGlance> {
        let telemetry = &self.window.as_ref()?.telemetry;
        let sample = telemetry.samples.last()?;
        Some(MachineGlance {
            length_ns: sample.length_ns,
            device: telemetry.devices.first()?.clone(),
            activity: sample.devices.first().copied().flatten(),
            cpu: sample.cpu,
            dirty_bytes: sample.memory.map(|memory| memory.dirty_bytes),
        })
    }

    /// Takes the last sample, and returns the telemetry of the window. Without a window it is empty.
    pub fn end(&mut self) -> Telemetry {
        self.take();
        self.window.take().map(Window::finish).unwrap_or_default()
    }

    fn take(&mut self) {
        let Some(mut window) = self.window.take() else { return };
        let started = Clocks::now();
        let reading = self.read(&window.journals);
        let activity = window.tasks.look(&mut self.files, &window.stack);
        window.telemetry.unparsed_lines += reading.unparsed + activity.unparsed;
        let mut sample = difference::sample(&window.last, &reading, window.begin_ns);
        window.remember(&mut sample, activity);
        window.last = reading;
        window.telemetry.push(sample);
        // Counted from the beginning, so that late samples do not delay later ones. The interval may have
        // doubled.
        let interval_ns = window.telemetry.interval_ns.0;
        let elapsed_ns = window.last.at_ns.saturating_sub(window.begin_ns);
        window.due_ns =
            window.begin_ns.saturating_add((elapsed_ns / interval_ns + 1).saturating_mul(interval_ns));
        started.charge(&mut window.telemetry);
        self.window = Some(window);
    }

    fn read(&mut self, journals: &[JournalFile]) -> Reading {
        reading::read(&mut self.files, &self.devices, journals, self.tick_ns, now_ns)
    }
}

impl Window {
    fn remember(&mut self, sample: &mut Sample, activity: tasks::Activity) {
        for time in &activity.times {
            *sample.task_ns.entry(time.kind).or_default() += time.cpu_ns;
            let key = (time.pid, time.name.clone());
            self.times
                .entry(key)
                .and_modify(|known| known.cpu_ns += time.cpu_ns)
                .or_insert_with(|| time.clone());
        }
        sample.tasks = activity.times;
        busiest(&mut sample.tasks, SAMPLE_TASKS);
        for other in activity.others {
            match self.others.get_mut(&other.pid).filter(|known| known.name == other.name) {
                Some(known) => {
                    known.read_bytes += other.read_bytes;
                    known.write_bytes += other.write_bytes;
                }
                None => {
                    self.others.insert(other.pid, other);
                }
            }
        }
        if self.times.len() > MOST_TASKS {
            let mut times: Vec<TaskTime> = self.times.drain().map(|(_, time)| time).collect();
            busiest(&mut times, MOST_TASKS / 2);
            self.times = times.into_iter().map(|time| ((time.pid, time.name.clone()), time)).collect();
        }
        if self.others.len() > MOST_TASKS {
            let others = most_bytes(self.others.drain().map(|(_, other)| other).collect(), MOST_TASKS / 2);
            self.others = others.into_iter().map(|other| (other.pid, other)).collect();
        }
    }

    fn finish(self) -> Telemetry {
        let mut telemetry = self.telemetry;
        telemetry.window.tasks = self.times.into_values().collect();
        busiest(&mut telemetry.window.tasks, WINDOW_TASKS);
        telemetry.other_processes = most_bytes(self.others.into_values().collect(), MOST_OTHERS);
        telemetry
    }
}

fn most_bytes(mut others: Vec<ProcessIo>, most: usize) -> Vec<ProcessIo> {
    let bytes = |other: &ProcessIo| other.read_bytes + other.write_bytes;
    others.sort_by(|a, b| bytes(b).cmp(&bytes(a)).then(a.pid.cmp(&b.pid)));
    others.truncate(most);
    others
}

/// `major:minor` of the devices that exist.
fn numbers(reading: &Reading) -> Vec<String> {
    let disks = reading.disks.iter().flatten();
    disks.map(|disk| format!("{}:{}", disk.number.0, disk.number.1)).collect()
}

/// Time and the CPU time of this thread at one moment.
struct Clocks {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        Clocks { wall_ns: now_ns(), cpu_ns: clock_ns(ClockId::ThreadCPUTime) }
    }

    /// Accounts for a reading that began here.
    fn charge(&self, telemetry: &mut Telemetry) {
        let now = Clocks::now();
        let wall_ns = now.wall_ns.saturating_sub(self.wall_ns);
        let cost = &mut telemetry.cost;
        cost.readings += 1;
        cost.wall_ns += wall_ns;
        cost.wall_ns_max = cost.wall_ns_max.max(wall_ns);
        cost.cpu_ns += now.cpu_ns.saturating_sub(self.cpu_ns);
    }
}

fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::telemetry::{Log, TaskKind};
    use std::fs;
    use std::time::{Duration, Instant};

    /// Neither a machine that reports nothing nor one that reports nonsense is a reason to fail.
    #[test]
    fn an_empty_machine_gives_an_empty_telemetry() {
        let root = tempfile::tempdir().expect("a directory");
        let mut sampler = Sampler::below(root.path(), Nanos(1), vec!["loop0".to_string()]);
        sampler.sample();
        assert_eq!(sampler.end(), Telemetry::default());

        sampler.begin();
        assert_eq!(sampler.latest(), None);
        sampler.sample();
        let latest = sampler.latest().expect("a sample");
        assert_eq!((latest.device.as_str(), latest.activity, latest.cpu), ("loop0", None, None));
        let telemetry = sampler.end();
        assert_eq!(sampler.latest(), None);
        assert_eq!(telemetry.window.devices, [None]);
        assert_eq!((telemetry.window.cpu, telemetry.window.memory), (None, None));
        assert_eq!((telemetry.samples.len(), telemetry.cost.readings), (2, 3));
        assert_eq!(telemetry.unparsed_lines, 0);

        fs::create_dir_all(root.path().join("proc/pressure")).expect("a directory");
        for file in ["diskstats", "stat", "meminfo", "pressure/io"] {
            fs::write(root.path().join("proc").join(file), "nonsense\n").expect("written");
        }
        sampler.begin();
        assert_eq!(sampler.end().unparsed_lines, 8);
    }

    #[test]
    fn journals_of_the_stack_are_found_and_those_of_others_are_not() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("written");
        };
        let info = |count: u64| format!("{count} transactions ({count} requested), each up to 1365 blocks\n");
        let xfs = |writes: u64| format!("trans 0 1 0\nlog {writes} 147 0 2 3\npush_ail 842 0 1\n");
        write("proc/fs/jbd2/loop0-8/info", &info(2));
        write("proc/fs/jbd2/loop3-8/info", &info(2));
        write("sys/fs/xfs/loop1/stats/stats", &xfs(4));
        write("sys/fs/xfs/stats/stats", &xfs(4));
        write("sys/fs/btrfs/features/compress_zstd", "0\n");
        write("sys/fs/btrfs/c0ffee/devices/loop2/size", "1\n");
        let commits = |count: u64| {
            format!("commits {count}\nlast_commit_ms 2\nmax_commit_ms 4\ntotal_commit_ms {}\n", count * 3)
        };
        write("sys/fs/btrfs/c0ffee/commit_stats", &commits(4));
        let devices = ["loop0", "loop1", "loop2"].map(str::to_string).to_vec();
        let mut sampler = Sampler::below(root.path(), Nanos(1), devices);
        sampler.begin();
        write("proc/fs/jbd2/loop0-8/info", &info(5));
        write("sys/fs/xfs/loop1/stats/stats", &xfs(9));
        write("sys/fs/btrfs/c0ffee/commit_stats", &commits(6));
        let telemetry = sampler.end();
        let journals = &telemetry.window.journals;
        let names: Vec<&str> = journals.iter().map(|journal| journal.name.as_str()).collect();
        assert_eq!(names, ["loop0-8", "loop1", "loop2"]);
        assert!(matches!(journals[0].log, Log::Jbd2(log) if log.transactions == 3));
        assert!(matches!(journals[1].log, Log::Xfs(log) if log.writes == 5));
        assert!(matches!(journals[2].log, Log::Btrfs(log) if (log.commits, log.commit_ns) == (2, 6_000_000)));
        assert_eq!(telemetry.unparsed_lines, 0);
    }

    /// On the real machine: this thread works, and the figures must show that.
    #[test]
    fn this_machine_shows_what_this_thread_does() {
        let mut sampler = Sampler::new(Nanos::from_millis(50), Vec::new());
        sampler.begin();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) {
            sampler.sample();
        }
        let telemetry = sampler.end();
        let window = &telemetry.window;
        assert!(window.length_ns >= Nanos::from_millis(300));
        // On a busy machine the window is longer.
        let most = window.length_ns.0 / Nanos::from_millis(50).0 + 1;
        let samples = telemetry.samples.len() as u64;
        assert!((1..=most).contains(&samples), "{samples} in {:?}", window.length_ns);
        assert_eq!(
            telemetry.samples.iter().map(|sample| sample.length_ns.0).sum::<u64>(),
            window.length_ns.0
        );
        let cpu = window.cpu.expect("/proc/stat");
        // The suite may run with a lower priority, and nothing else may run.
        assert!(cpu.user_ns + cpu.nice_ns + cpu.system_ns > 0, "{cpu:?}");
        assert!(window.task_ns[&TaskKind::Own] > 0, "{:?}", window.task_ns);
        assert_eq!(telemetry.unparsed_lines, 0);
        assert_eq!(telemetry.cost.readings, telemetry.samples.len() as u64 + 1);
        assert!(telemetry.cost.cpu_ns > 0 && telemetry.cost.wall_ns_max <= telemetry.cost.wall_ns);
    }
}
