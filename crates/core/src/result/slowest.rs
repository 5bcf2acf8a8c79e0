//! Which operations a trial keeps one by one, with their start and path.

use super::RoleResult;
use crate::units::Nanos;

/// The maximum number of slow operations of one kind that are kept.
pub const SLOWEST: usize = 64;
/// The number of slow operations of a role that are always kept: as many as a report draws.
pub const SLOWEST_OF_ROLE: usize = 24;
/// The number of slow operations of one kind that are always kept.
const SLOWEST_AT_LEAST: usize = 16;
/// One of so many is kept: those beyond p99.9.
const ONE_OF: u64 = 1_000;
/// An operation of at least this length is a stall, and kept.
pub const STALL: Nanos = Nanos::from_millis(100);

impl RoleResult {
    /// Removes operations from the lists of the slowest that are not outliers. What remains of each kind, up
    /// to 64: those beyond p99.9, but at least 16; those of 100 ms and more; and the 24 slowest of the role.
    ///
    /// Each of them takes about 27 bytes in a store, most of it for its path, and 64 of each kind would be
    /// half of a trial. Lists of several clients must be merged before, or the result would have gaps.
    pub fn keep_outliers(&mut self) {
        let lists = self.operations.iter().flat_map(|of| &of.slowest);
        let mut durations: Vec<u64> = lists.map(|slow| slow.duration_ns).collect();
        durations.sort_unstable_by(|one, other| other.cmp(one));
        let of_role_ns = durations.get(SLOWEST_OF_ROLE - 1).copied().unwrap_or(0);
        let always_ns = of_role_ns.min(STALL.0);
        for operation in &mut self.operations {
            let beyond = operation.lat_ns.count.div_ceil(ONE_OF) as usize;
            let least = beyond.max(SLOWEST_AT_LEAST);
            let longer = operation.slowest.iter().take_while(|slow| slow.duration_ns >= always_ns).count();
            operation.slowest.truncate(longer.max(least).min(SLOWEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Operation, Role};
    use crate::result::{Latency, OperationResult, SlowOperation, Timeline};

    fn operation(operation: Operation, count: u64, durations: impl Iterator<Item = u64>) -> OperationResult {
        let slow = |duration_ns| SlowOperation { start_ns: 0, duration_ns, path: String::new() };
        OperationResult {
            operation,
            censored: 0,
            lat_ns: Latency { count, ..Latency::default() },
            histogram: String::new(),
            timeline: Timeline::default(),
            slowest: durations.map(slow).collect(),
        }
    }

    fn kept(operations: Vec<OperationResult>) -> Vec<usize> {
        let mut role = RoleResult { operations, ..RoleResult::unwatched(Role::Reader, 1) };
        role.keep_outliers();
        role.operations.iter().map(|of| of.slowest.len()).collect()
    }

    #[test]
    fn of_each_kind_those_beyond_p999_are_kept_but_at_least_16() {
        let all = || (0..64).map(|index| 64_000 - index);
        let quick = || (0..64).map(|index| 6_400 - index);
        let of = |count| operation(Operation::Openat, count, quick());
        let slow = || operation(Operation::Read, 1_000_000, all());
        assert_eq!(kept(vec![slow(), of(900)]), [64, 16]);
        assert_eq!(kept(vec![slow(), of(30_001)]), [64, 31]);
        assert_eq!(kept(vec![slow(), of(5_000_000)]), [64, 64]);
        assert_eq!(kept(vec![slow(), operation(Operation::Openat, 3, (0..3).rev())]), [64, 3]);
    }

    #[test]
    fn the_24_slowest_of_a_role_and_every_stall_are_kept() {
        let few = |durations: u64| operation(Operation::Read, 64, (0..64).map(move |one| durations - one));
        let other = |durations: u64| operation(Operation::Close, 64, (0..64).map(move |one| durations - one));
        // All of the role's slowest are reads.
        assert_eq!(kept(vec![few(9_000), other(800)]), [SLOWEST_OF_ROLE, 16]);
        assert_eq!(kept(vec![few(9_000), other(8_990)]), [17, 16]);
        assert_eq!(kept(vec![few(STALL.0 + 39), other(800)]), [40, 16]);
        assert_eq!(kept(vec![few(2 * STALL.0), other(3 * STALL.0)]), [64, 64]);
    }
}
