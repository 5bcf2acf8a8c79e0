//! `/proc/PID/stat` (proc_pid_stat(5)).

use crate::figures::total;

/// `PF_KTHREAD` of include/linux/sched.h: a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The fields of the file that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// The name, which may contain spaces and parentheses.
    pub name: &'a str,
    /// `Z` for a zombie.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// `true` for a kernel thread.
    pub is_kernel: bool,
    /// User time in ticks: its own, and that of the children that it has waited for.
    pub user_ticks: u64,
    /// System time, likewise.
    pub system_ticks: u64,
    /// Its start time, in ticks since boot. Together with the PID it is unique.
    pub start_ticks: u64,
}

impl<'a> ProcessStat<'a> {
    /// Parses the file; `None` if it is something else.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (_pid, rest) = text.split_once('(')?;
        let (name, rest) = rest.rsplit_once(')')?;
        // The state is field 3 of the manual page and 0 here.
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags: u64 = fields.nth(4)?.parse().ok()?;
        let user: u64 = fields.nth(4)?.parse().ok()?;
        let [system, childrens_user, childrens_system] = [(); 3].map(|()| fields.next()?.parse::<u64>().ok());
        let start_ticks = fields.nth(4)?.parse().ok()?;
        Some(ProcessStat {
            name,
            state,
            parent,
            is_kernel: flags & KERNEL_THREAD != 0,
            user_ticks: total([user, childrens_user?]),
            system_ticks: total([system?, childrens_system?]),
            start_ticks,
        })
    }

    /// User and system time in ticks.
    pub fn cpu_ticks(&self) -> u64 {
        total([self.user_ticks, self.system_ticks])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASH: &str = "10908 (bash) S 10907 10908 10908 0 -1 4194560 6761 170993 1 435 2 5 213 91 20 0 1 0 \
        1158602 5582848 1062 18446744073709551615 94748655120384 94748655909789 140723944596016 0 0 0 65536 \
        4 1132560123 1 0 0 17 0 0 0 0 0 0 94748656143088 94748656191332 94749001539584\n";
    const KTHREADD: &str = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 92 0 0 20 0 1 0 24 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 1 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_process_and_a_kernel_thread() {
        let bash = ProcessStat {
            name: "bash",
            state: 'S',
            parent: 10907,
            is_kernel: false,
            user_ticks: 2 + 213,
            system_ticks: 5 + 91,
            start_ticks: 1_158_602,
        };
        assert_eq!(ProcessStat::parse(BASH), Some(bash));
        let kthreadd = ProcessStat::parse(KTHREADD).expect("a stat");
        assert_eq!((kthreadd.is_kernel, kthreadd.cpu_ticks(), kthreadd.start_ticks), (true, 92, 24));
    }

    #[test]
    fn a_name_may_contain_anything() {
        let strange = BASH.replace("(bash)", "(a) S 1 (b)");
        let parsed = ProcessStat::parse(&strange).expect("a stat");
        assert_eq!((parsed.name, parsed.parent), ("a) S 1 (b", 10907));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9]{0,3}[ ()a-z0-9-]{0,60}") {
            let _ = ProcessStat::parse(&text).map(|stat| stat.cpu_ticks());
        }
    }
}
