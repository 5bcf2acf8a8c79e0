//! The I/O schedulers of the kernel: a table, one line each.

/// An I/O scheduler.
#[derive(Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The level of the axis, and the kernel's name.
    pub name: &'static str,
    /// The kernel module that provides it; absent if every kernel has it.
    pub module: Option<&'static str>,
    /// Names in earlier kernels for which it is the replacement, each with the reason.
    pub renamed_from: &'static [(&'static str, &'static str)],
}

/// Every scheduler.
pub const SCHEDULERS: &[Scheduler] = &[
    scheduler("none", None, &[("noop", "noop was replaced by none (multi-queue block I/O, Linux 5.0)")]),
    scheduler(
        "mq-deadline",
        Some("mq-deadline"),
        &[("deadline", "deadline was replaced by mq-deadline (multi-queue block I/O, Linux 5.0)")],
    ),
    scheduler("kyber", Some("kyber-iosched"), &[]),
    scheduler("bfq", Some("bfq"), &[("cfq", "cfq was removed in Linux 5.0; bfq is its closest successor")]),
];

const fn scheduler(
    name: &'static str,
    module: Option<&'static str>,
    renamed_from: &'static [(&'static str, &'static str)],
) -> Scheduler {
    Scheduler { name, module, renamed_from }
}

/// Their names.
pub const NAMES: [&str; SCHEDULERS.len()] = {
    let mut names = [""; SCHEDULERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = SCHEDULERS[index].name;
        index += 1;
    }
    names
};

/// The scheduler that an earlier kernel had under this name, with the reason.
pub(crate) fn renamed(name: &str) -> Option<(&'static Scheduler, &'static str)> {
    SCHEDULERS.iter().find_map(|scheduler| {
        let (_, reason) = scheduler.renamed_from.iter().find(|(former, _)| *former == name)?;
        Some((scheduler, *reason))
    })
}

/// The kernel module of a scheduler; for one that is not in the table, its name.
pub fn module(name: &str) -> Option<&str> {
    SCHEDULERS.iter().find(|scheduler| scheduler.name == name).map_or(Some(name), |found| found.module)
}
