//! Files about one task, each read hundreds of times a second on a big machine.

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
            let _ = (task_io(&text), run_time_ns(&text));
        }
    }
}
