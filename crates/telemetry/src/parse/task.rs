//! Files about one task, each read hundreds of times a second on a big machine.

/// `PF_KTHREAD` of include/linux/sched.h: a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The relevant part of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStat<'a> {
    /// The name, which may contain spaces and parentheses.
    pub name: &'a str,
    /// Its parent.
    pub parent: u32,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// User and system time in ticks: of the process, and of the children that it has waited for.
    pub cpu_ticks: u64,
    /// Its start time, in ticks since boot. Together with the PID it is unique.
    pub start_ticks: u64,
}

/// A `/proc/PID/stat`.
pub fn task_stat(text: &str) -> Option<TaskStat<'_>> {
    let (_pid, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    // The state is field 3 of the manual page and 0 here.
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let user: u64 = fields.nth(4)?.parse().ok()?;
    let [system, childrens_user, childrens_system] = [(); 3].map(|()| fields.next()?.parse::<u64>().ok());
    let start_ticks = fields.nth(4)?.parse().ok()?;
    let is_kernel = flags & KERNEL_THREAD != 0;
    let cpu_ticks =
        user.checked_add(system?)?.checked_add(childrens_user?)?.checked_add(childrens_system?)?;
    Some(TaskStat { name, parent, is_kernel, cpu_ticks, start_ticks })
}

/// Time on a processor, from `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst): that of one
/// thread, exact.
pub fn run_time_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads and writes of block devices, from `/proc/PID/io` (proc_pid_io(5)): of the process, and of the
/// children that it has waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskIo {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes that are to be written.
    pub write_bytes: u64,
}

/// A `/proc/PID/io`.
pub fn task_io(text: &str) -> Option<TaskIo> {
    let number = |word| super::number_of(text, word);
    Some(TaskIo { read_bytes: number("read_bytes")?, write_bytes: number("write_bytes")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASH: &str = "10908 (bash) S 10907 10908 10908 0 -1 4194560 6761 170993 1 435 2 5 213 91 20 0 1 0 1158602 \
                        5582848 1062 18446744073709551615 94748655120384 94748655909789 140723944596016 0 0 0 65536 4 \
                        1132560123 1 0 0 17 0 0 0 0 0 0 94748656143088 94748656191332 94749001539584\n";
    const KTHREADD: &str = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 92 0 0 20 0 1 0 24 0 0 18446744073709551615 0 0 \
                            0 0 0 0 0 2147483647 0 1 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_process_and_a_kernel_thread() {
        let bash = TaskStat {
            name: "bash",
            parent: 10907,
            is_kernel: false,
            cpu_ticks: 311,
            start_ticks: 1_158_602,
        };
        assert_eq!(task_stat(BASH), Some(bash));
        let kthreadd =
            TaskStat { name: "kthreadd", parent: 0, is_kernel: true, cpu_ticks: 92, start_ticks: 24 };
        assert_eq!(task_stat(KTHREADD), Some(kthreadd));
    }

    #[test]
    fn a_name_may_contain_anything() {
        let strange = BASH.replace("(bash)", "(a) S 1 (b)");
        assert_eq!(task_stat(&strange).expect("a stat").name, "a) S 1 (b");
        assert_eq!(task_stat(&strange).expect("a stat").parent, 10907);
    }

    #[test]
    fn bytes_of_block_devices_are_not_those_of_system_calls() {
        let text = "rchar: 6976\nwchar: 17\nsyscr: 10\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n\
                    cancelled_write_bytes: 1\n";
        assert_eq!(task_io(text), Some(TaskIo { read_bytes: 4096, write_bytes: 8192 }));
        assert_eq!(run_time_ns("462858 138013 3\n"), Some(462_858));
        assert_eq!(task_io("rchar: 1\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[0-9]{0,3}[ ()a-z0-9-]{0,60}") {
            let _ = (task_stat(&text), task_io(&text), run_time_ns(&text));
        }
    }
}
