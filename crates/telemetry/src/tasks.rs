//! The activity of each task of the machine since the last reading.
//!
//! For a kernel thread, only `schedstat` is read, which is exact and cheap; only if it ran is its name read,
//! because kernel workers are named after what they work for. For a process, `stat` is read, in ticks of 10
//! ms, and its reads and writes of block devices. Both include those of the children that it has waited for,
//! so that processes that live shorter than an interval are not missed: they count for their parents.

use crate::files::Files;
use crate::kind::{self, Stack};
use crate::parse::{self, TaskIo};
use fsdyno_core::process_stat::ProcessStat;
use fsdyno_core::telemetry::{ProcessIo, TaskKind, TaskTime};
use std::collections::HashMap;

/// The maximum number of ancestors to follow.
const MOST_ANCESTORS: usize = 64;

/// The activity of the tasks between two readings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Tasks that ran.
    pub times: Vec<TaskTime>,
    /// Processes other than fsdyno's that read or wrote block devices.
    pub others: Vec<ProcessIo>,
    pub unparsed: u64,
}

/// The tasks as of the last reading.
#[derive(Debug)]
pub(crate) struct Tasks {
    known: HashMap<u32, Task>,
    /// The process that counts as fsdyno, with everything that it started.
    own: u32,
    /// The clock tick in which the time of processes is counted.
    tick_ns: u64,
    looks: u64,
}

#[derive(Debug, Clone)]
struct Task {
    start_ticks: u64,
    parent: u32,
    name: String,
    is_kernel: bool,
    /// Since its start.
    total: Used,
    /// The reading in which it was last seen.
    seen: u64,
    /// Since the previous reading.
    new: Used,
    /// Of children that have ended and were reported already; to be subtracted in the next reading, because
    /// it was read before it had waited for them.
    owed: Used,
}

/// The resources that a task and the children that it has waited for used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    cpu_ns: u64,
    io: TaskIo,
}

impl Used {
    fn and(self, other: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            io: TaskIo {
                read_bytes: self.io.read_bytes.saturating_add(other.io.read_bytes),
                write_bytes: self.io.write_bytes.saturating_add(other.io.write_bytes),
            },
        }
    }

    /// The difference, nowhere below 0.
    fn less(self, other: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(other.cpu_ns),
            io: TaskIo {
                read_bytes: self.io.read_bytes.saturating_sub(other.io.read_bytes),
                write_bytes: self.io.write_bytes.saturating_sub(other.io.write_bytes),
            },
        }
    }
}

impl Tasks {
    pub(crate) fn new(own: u32, tick_ns: u64) -> Self {
        Tasks { known: HashMap::new(), own, tick_ns, looks: 0 }
    }

    /// Reads all tasks. The first reading has nothing to compare with and reports nothing.
    pub(crate) fn look(&mut self, files: &mut Files, stack: &Stack) -> Activity {
        self.looks += 1;
        let mut activity = Activity::default();
        let pids = files.names("proc").into_iter().filter_map(|name| name.parse().ok());
        for pid in pids.collect::<Vec<u32>>() {
            self.look_at(pid, files, &mut activity.unparsed);
        }
        self.forget_the_dead();
        if self.looks > 1 {
            self.tell(stack, &mut activity);
        }
        activity
    }

    fn look_at(&mut self, pid: u32, files: &mut Files, unparsed: &mut u64) {
        let run_ns = match self.known.get_mut(&pid) {
            None => None,
            Some(task) if task.is_kernel => {
                let path = format!("proc/{pid}/schedstat");
                let run_ns = files.read(&path).and_then(|text| parse::run_time_ns(&text));
                if run_ns == Some(task.total.cpu_ns) {
                    (task.seen, task.new) = (self.looks, Used::default());
                    return;
                }
                run_ns
            }
            Some(_) => None,
        };
        // A task may have ended since the directory was read.
        let Some(text) = files.read(&format!("proc/{pid}/stat")) else { return };
        let Some(stat) = ProcessStat::parse(&text) else {
            *unparsed += 1;
            return;
        };
        let mut task = Task {
            start_ticks: stat.start_ticks,
            parent: stat.parent,
            name: stat.name.to_string(),
            is_kernel: stat.is_kernel,
            total: Used { cpu_ns: stat.cpu_ticks().saturating_mul(self.tick_ns), io: TaskIo::default() },
            seen: self.looks,
            new: Used::default(),
            owed: Used::default(),
        };
        drop(text);
        if task.is_kernel {
            let exact = run_ns.or_else(|| {
                files.read(&format!("proc/{pid}/schedstat")).and_then(|text| parse::run_time_ns(&text))
            });
            task.total.cpu_ns = exact.unwrap_or(task.total.cpu_ns);
        } else {
            // Not every user may read it; if not, nothing is reported.
            let io = files.read(&format!("proc/{pid}/io")).and_then(|text| parse::task_io(&text));
            task.total.io = io.unwrap_or_default();
        }
        // A reused PID belongs to a task that began since then.
        let before = self.known.get(&pid).filter(|before| before.start_ticks == task.start_ticks);
        let (total, owed) = before.map_or_else(Default::default, |before| (before.total, before.owed));
        task.new = task.total.less(total).less(owed);
        self.known.insert(pid, task);
    }

    /// Drops the tasks that have ended. When a parent waits for a child, the kernel adds what the child used
    /// to what the parent used; what was already reported for the child must not be reported for the parent
    /// again.
    fn forget_the_dead(&mut self) {
        let looks = self.looks;
        let dead: Vec<(u32, Used)> = self
            .known
            .values()
            .filter(|task| task.seen != looks && task.total != Used::default())
            .map(|task| (task.parent, task.total))
            .collect();
        for (parent, total) in dead {
            let heir = self.ancestors(parent).find(|pid| self.known[pid].seen == looks);
            if let Some(heir) = heir.and_then(|pid| self.known.get_mut(&pid)) {
                heir.owed = heir.owed.and(total.less(heir.new));
                heir.new = heir.new.less(total);
            }
        }
        self.known.retain(|_, task| task.seen == looks);
    }

    /// A task and its ancestors, as far as they are known.
    fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(pid), |pid| Some(self.known.get(pid)?.parent))
            .take_while(|pid| self.known.contains_key(pid))
            .take(MOST_ANCESTORS)
    }

    fn tell(&self, stack: &Stack, activity: &mut Activity) {
        for (pid, task) in &self.known {
            let kind = || match task.is_kernel {
                true => kind::of_kernel_thread(&task.name, stack),
                false if self.ancestors(*pid).any(|pid| pid == self.own) => match is_server(&task.name) {
                    true => TaskKind::Serve,
                    false => TaskKind::Own,
                },
                false => TaskKind::Process,
            };
            if task.new.cpu_ns > 0 {
                add(&mut activity.times, time(*pid, task, kind()));
            }
            if task.new.io != TaskIo::default() && kind() == TaskKind::Process {
                let TaskIo { read_bytes, write_bytes } = task.new.io;
                activity.others.push(ProcessIo {
                    pid: *pid,
                    name: task.name.clone(),
                    read_bytes,
                    write_bytes,
                });
            }
        }
    }
}

/// Returns whether a process that fsdyno has started serves a filesystem: Samba's smbd, which adds the
/// address of its client to its name.
fn is_server(name: &str) -> bool {
    name.strip_prefix("smbd").is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

/// The workers of a queue count as one task, whichever of them did the work.
fn time(pid: u32, task: &Task, kind: TaskKind) -> TaskTime {
    let cpu_ns = task.new.cpu_ns;
    match kind::queue(&task.name).filter(|_| task.is_kernel) {
        Some("") => TaskTime { pid: None, name: "kworker".to_string(), kind, cpu_ns },
        Some(queue) => TaskTime { pid: None, name: format!("kworker {queue}"), kind, cpu_ns },
        None => TaskTime { pid: Some(pid), name: task.name.clone(), kind, cpu_ns },
    }
}

fn add(times: &mut Vec<TaskTime>, time: TaskTime) {
    let same = |known: &&mut TaskTime| known.pid.is_none() && time.pid.is_none() && known.name == time.name;
    match times.iter_mut().find(same) {
        Some(known) => known.cpu_ns += time.cpu_ns,
        None => times.push(time),
    }
}

/// The process that counts as fsdyno, with everything that it started: the parent if it is the same program,
/// otherwise this process.
pub(crate) fn own(files: &mut Files, pid: u32) -> u32 {
    let mut stat = |pid: u32| {
        let text = files.read(&format!("proc/{pid}/stat"))?;
        ProcessStat::parse(&text).map(|stat| (stat.name.to_string(), stat.parent))
    };
    let Some((name, parent)) = stat(pid) else { return pid };
    match stat(parent) {
        Some((parents_name, _)) if parents_name == name => parent,
        _ => pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const TICK_NS: u64 = 10_000_000;

    struct Machine {
        root: tempfile::TempDir,
        tasks: Tasks,
        stack: Stack,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a directory");
            fs::create_dir(root.path().join("proc")).expect("a directory");
            Machine { root, tasks: Tasks::new(100, TICK_NS), stack: Stack::new(&["loop0".to_string()]) }
        }

        fn directory(&self, pid: u32) -> std::path::PathBuf {
            let directory = self.root.path().join(Path::new("proc")).join(pid.to_string());
            fs::create_dir_all(&directory).expect("a directory");
            directory
        }

        fn process(&self, pid: u32, parent: u32, name: &str, ticks: u64, [read, write]: [u64; 2]) {
            let stat = format!(
                "{pid} ({name}) S {parent} 0 0 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {pid} 0\n"
            );
            fs::write(self.directory(pid).join("stat"), stat).expect("written");
            let io = format!("rchar: 1\nread_bytes: {read}\nwrite_bytes: {write}\n");
            fs::write(self.directory(pid).join("io"), io).expect("written");
        }

        /// A process by its own time and that of the children that it has waited for.
        fn parent(&self, pid: u32, name: &str, [own, childrens]: [u64; 2]) {
            let stat = format!(
                "{pid} ({name}) S 1 0 0 0 -1 4194304 0 0 0 0 {own} 0 {childrens} 0 20 0 1 0 {pid} 0\n"
            );
            fs::write(self.directory(pid).join("stat"), stat).expect("written");
        }

        fn kernel(&self, pid: u32, name: &str, run_ns: u64) {
            let stat = format!("{pid} ({name}) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0\n");
            fs::write(self.directory(pid).join("stat"), stat).expect("written");
            fs::write(self.directory(pid).join("schedstat"), format!("{run_ns} 1 1\n")).expect("written");
        }

        fn ends(&self, pid: u32) {
            fs::remove_dir_all(self.directory(pid)).expect("removed");
        }

        fn look(&mut self) -> Activity {
            let mut activity = self.tasks.look(&mut Files::below(self.root.path()), &self.stack);
            activity.times.sort_by(|a, b| a.name.cmp(&b.name));
            activity.others.sort_by_key(|other| other.pid);
            activity
        }
    }

    fn listed(activity: &Activity) -> Vec<(Option<u32>, &str, TaskKind, u64)> {
        activity.times.iter().map(|time| (time.pid, time.name.as_str(), time.kind, time.cpu_ns)).collect()
    }

    #[test]
    fn a_server_that_fsdyno_has_started_serves_and_one_of_the_machine_does_not() {
        let mut machine = Machine::new();
        for ticks in [10, 12] {
            machine.process(100, 1, "fsdyno", 10, [0, 0]);
            machine.process(101, 100, "smbd", ticks, [0, 0]);
            machine.process(102, 101, "smbd[10.77.0.2]", ticks, [0, 0]);
            machine.process(103, 100, "smbdtorture", ticks, [0, 0]);
            machine.process(200, 1, "smbd", ticks, [0, 0]);
            if ticks == 10 {
                machine.look();
            }
        }
        let activity = machine.look();
        let kinds: Vec<_> = activity.times.iter().map(|time| (time.pid, time.kind)).collect();
        let expected =
            [(101, TaskKind::Serve), (200, TaskKind::Process), (102, TaskKind::Serve), (103, TaskKind::Own)];
        assert_eq!(kinds.len(), expected.len());
        assert!(expected.iter().all(|(pid, kind)| kinds.contains(&(Some(*pid), *kind))), "{kinds:?}");
    }

    #[test]
    fn processor_time_is_attributed_to_its_tasks() {
        let mut machine = Machine::new();
        machine.process(50, 1, "fsdyno", 3, [0, 0]);
        machine.process(100, 50, "fsdyno", 10, [0, 0]);
        machine.process(101, 100, "bonnie", 10, [0, 0]);
        machine.process(200, 1, "cron", 10, [0, 0]);
        machine.kernel(30, "kworker/u8:0-flush-7:0", 1000);
        machine.kernel(31, "kworker/u8:1-loop0", 500);
        machine.kernel(32, "jbd2/loop1-8", 500);
        assert_eq!(machine.look(), Activity::default());

        machine.process(101, 100, "bonnie", 13, [0, 0]);
        machine.process(200, 1, "cron", 11, [0, 0]);
        machine.kernel(30, "kworker/u8:0+loop0", 1700);
        machine.kernel(31, "kworker/u8:1-loop0", 540);
        machine.kernel(32, "jbd2/loop1-8", 501);
        machine.kernel(33, "jbd2/loop0-8", 77);
        let expected = [
            (Some(101), "bonnie", TaskKind::Own, 3 * TICK_NS),
            (Some(200), "cron", TaskKind::Process, TICK_NS),
            (Some(33), "jbd2/loop0-8", TaskKind::Journal, 77),
            (Some(32), "jbd2/loop1-8", TaskKind::Kernel, 1),
            (None, "kworker loop0", TaskKind::Loop, 740),
        ];
        assert_eq!(listed(&machine.look()), expected);
        assert_eq!(machine.look(), Activity::default());
    }

    #[test]
    fn a_reused_pid_is_another_task() {
        let mut machine = Machine::new();
        machine.process(300, 1, "first", 500, [1 << 20, 0]);
        machine.look();
        let stat = "300 (second) S 1 0 0 0 -1 4194304 0 0 0 0 2 0 0 0 20 0 1 0 301 0\n";
        fs::write(machine.directory(300).join("stat"), stat).expect("written");
        fs::write(machine.directory(300).join("io"), "read_bytes: 4096\nwrite_bytes: 0\n").expect("written");
        let activity = machine.look();
        assert_eq!(listed(&activity), [(Some(300), "second", TaskKind::Process, 2 * TICK_NS)]);
        assert_eq!(activity.others[0].read_bytes, 4096);
    }

    #[test]
    fn reads_and_writes_of_others_are_reported_once() {
        let mut machine = Machine::new();
        machine.process(100, 1, "fsdyno", 0, [0, 0]);
        machine.process(200, 1, "bash", 0, [0, 0]);
        machine.process(201, 200, "dd", 0, [0, 0]);
        machine.look();

        machine.process(100, 1, "fsdyno", 0, [1 << 30, 1 << 30]);
        machine.process(201, 200, "dd", 0, [7 << 20, 1 << 20]);
        let dd =
            |read_bytes, write_bytes| ProcessIo { pid: 201, name: "dd".to_string(), read_bytes, write_bytes };
        assert_eq!(machine.look().others, [dd(7 << 20, 1 << 20)]);

        // It ends, and its parent, which has waited for it, inherits everything; only 1 MiB of that is new.
        machine.ends(201);
        machine.process(200, 1, "bash", 0, [8 << 20, 1 << 20]);
        let bash = ProcessIo { pid: 200, name: "bash".to_string(), read_bytes: 1 << 20, write_bytes: 0 };
        assert_eq!(machine.look().others, [bash]);
    }

    #[test]
    fn children_that_ended_between_two_readings_are_not_missed() {
        let mut machine = Machine::new();
        machine.process(100, 1, "fsdyno", 0, [0, 0]);
        machine.parent(200, "make", [5, 1000]);
        machine.process(201, 200, "cc", 7, [0, 0]);
        machine.look();

        // The known one goes on, while others begin and end.
        machine.process(201, 200, "cc", 10, [0, 0]);
        machine.parent(200, "make", [5, 1030]);
        let cc = (Some(201), "cc", TaskKind::Process, 3 * TICK_NS);
        assert_eq!(listed(&machine.look()), [cc, (Some(200), "make", TaskKind::Process, 30 * TICK_NS)]);

        // Its end is seen before its parent has waited for it, together with another one of 2 ticks.
        machine.ends(201);
        assert_eq!(listed(&machine.look()), []);
        machine.parent(200, "make", [5, 1030 + 11 + 2]);
        assert_eq!(listed(&machine.look()), [(Some(200), "make", TaskKind::Process, 3 * TICK_NS)]);
    }

    #[test]
    fn an_invalid_task_is_counted() {
        let mut machine = Machine::new();
        fs::write(machine.directory(9).join("stat"), "9 nonsense\n").expect("written");
        machine.directory(10);
        machine.process(200, 1, "bash", 0, [0, 0]);
        assert_eq!(machine.look().unparsed, 1);
    }
}
