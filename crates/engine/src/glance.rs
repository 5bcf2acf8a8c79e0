//! Glances at the workers of a phase, for somebody who watches: what they have done since the last glance,
//! and which of them waits.
//!
//! The coordinator takes one with each sign of life, from the records that the workers fill anyway. Workers
//! do nothing for it. A timeline may have thousands of intervals, and reading all of them would push the
//! workers' data out of the caches; so a glance reads only the last few seconds, and adds up what has changed
//! there.

use crate::record::WorkerRecord;
use crate::window::Window;
use fsdyno_core::TrialStep;
use fsdyno_core::glance::{Glance, MEMORY, MachineGlance, RoleGlance, STALL, Waiting};
use fsdyno_core::units::Nanos;
use fsdyno_sys::timer::Timer;

/// A glance that covers less says too little.
const SHORTEST_NS: u64 = 200_000_000;

/// The glances of one phase.
#[derive(Debug, Default)]
pub(crate) struct Glances {
    /// When the last one was taken.
    at_ns: u64,
    /// The step that it was taken in.
    step: Option<TrialStep>,
    cost_ns: u64,
    /// The totals seen by the last glance, by worker.
    seen: Vec<Seen>,
}

/// Totals of a worker's timelines from an interval on.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    from: usize,
    interval_ns: u64,
    totals: Totals,
    unsampled_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    count: u64,
    sum_ns: u64,
    bytes: u64,
}

impl Glances {
    /// Takes one. `None` if the last was taken a moment ago, and if there is nothing to compare with: at the
    /// first one of a step, and when a timeline has been rearranged since the last.
    pub(crate) fn take<'r>(
        &mut self,
        records: impl Iterator<Item = &'r WorkerRecord>,
        (step, window): (TrialStep, Window),
        timer: Timer,
        machine: Option<MachineGlance>,
    ) -> Option<Glance> {
        let now_ns = timer.now_ns();
        // What the ramp did is not mixed with what the window does.
        let begins = self.step.replace(step) != Some(step);
        let mut glance = self.take_at(now_ns, records, window, timer)?;
        self.cost_ns += timer.now_ns().saturating_sub(now_ns);
        (glance.machine, glance.cost_ns) = (machine, Nanos(self.cost_ns));
        (!begins).then_some(glance)
    }

    fn take_at<'r>(
        &mut self,
        now_ns: u64,
        records: impl Iterator<Item = &'r WorkerRecord>,
        window: Window,
        timer: Timer,
    ) -> Option<Glance> {
        let (before_ns, length_ns) = (self.at_ns, now_ns.saturating_sub(self.at_ns));
        if before_ns > 0 && length_ns < SHORTEST_NS {
            return None;
        }
        let mut comparable = before_ns > 0;
        let (mut roles, mut seen) = (Vec::<RoleGlance>::new(), Vec::new());
        for (index, record) in records.enumerate() {
            let at = |moment_ns: u64| interval(record, window, moment_ns);
            let interval_ns = record.interval_ns.get();
            let old = self.seen.get(index).copied().unwrap_or_default();
            comparable &= old.interval_ns == interval_ns;
            let now = totals(record, old.from);
            let unsampled_bytes = record.operations.iter().map(|one| one.unsampled_bytes.get()).sum::<u64>();
            let role = match roles.last_mut() {
                Some(last) if last.role == record.role => last,
                _ => {
                    roles.push(nothing(record));
                    roles.last_mut()?
                }
            };
            role.workers += 1;
            role.operations += now.count.saturating_sub(old.totals.count);
            role.busy_ns.0 += now.sum_ns.saturating_sub(old.totals.sum_ns);
            role.bytes += now.bytes.saturating_sub(old.totals.bytes);
            role.bytes += unsampled_bytes.saturating_sub(old.unsampled_bytes);
            role.slowest_ns.0 = role.slowest_ns.0.max(slowest(record, at(before_ns)));
            look_at(record, role, now_ns, timer);
            let from = at(now_ns.saturating_sub(MEMORY.0));
            seen.push(Seen { from, interval_ns, totals: totals(record, from), unsampled_bytes });
        }
        (self.seen, self.at_ns) = (seen, now_ns);
        let glance = Glance { length_ns: Nanos(length_ns), roles, machine: None, cost_ns: Nanos(0) };
        comparable.then_some(glance)
    }
}

fn nothing(record: &WorkerRecord) -> RoleGlance {
    let offered = record.paced.as_ref().and_then(|paced| paced.schedule.offered());
    RoleGlance { offered, ..RoleGlance::nothing(record.role) }
}

/// The interval of the timelines in which a moment is.
fn interval(record: &WorkerRecord, window: Window, moment_ns: u64) -> usize {
    let begin_ns = window.begin_ns.min(record.begin_ns.get());
    (moment_ns.saturating_sub(begin_ns) / record.interval_ns.get().max(1)) as usize
}

/// The sample from an interval on.
fn totals(record: &WorkerRecord, from: usize) -> Totals {
    let intervals = record.operations.iter().flat_map(|operation| operation.timeline.iter().skip(from));
    let mut totals = Totals::default();
    for interval in intervals {
        totals.count += interval.count.get();
        totals.sum_ns += interval.sum_ns.get();
        totals.bytes += interval.bytes.get();
    }
    totals
}

/// The longest operation of the sample that started in an interval or later.
fn slowest(record: &WorkerRecord, from: usize) -> u64 {
    let intervals = record.operations.iter().flat_map(|operation| operation.timeline.iter().skip(from));
    intervals.map(|interval| interval.max_ns.get()).max().unwrap_or(0)
}

/// Adds the current operations of a worker, and its wait if it waits, to the glance at its role.
fn look_at(record: &WorkerRecord, role: &mut RoleGlance, now_ns: u64, timer: Timer) {
    if record.finished_ns.get() != 0 {
        return;
    }
    let flights = std::iter::once(&record.slot).chain(record.slots()).filter_map(|slot| slot.look());
    let oldest =
        flights.map(|(step, start)| (timer.to_ns(start), step)).min_by_key(|(start_ns, _)| *start_ns);
    if let Some((start_ns, _)) = oldest {
        role.slowest_ns.0 = role.slowest_ns.0.max(now_ns.saturating_sub(start_ns));
    }
    let Some(for_ns) = record.tally.waiting_ns(now_ns).filter(|for_ns| *for_ns > STALL.0) else { return };
    let workers = role.waiting.as_ref().map_or(0, |waiting| waiting.workers) + 1;
    match &mut role.waiting {
        Some(waiting) if waiting.for_ns.0 >= for_ns => waiting.workers = workers,
        waiting => {
            let operation = oldest.map(|(_, step)| record.operation(step));
            let directory = record.directory();
            *waiting = Some(Waiting { for_ns: Nanos(for_ns), operation, directory, workers });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::workload::StepIndex;
    use fsdyno_core::{Operation, Role};

    const STEPS: &[Operation] = &[Operation::Read, Operation::Openat];
    const SECOND: u64 = 1_000_000_000;
    const WINDOW: Window = Window { begin_ns: 940 * SECOND, end_ns: 1940 * SECOND };
    const NOW: u64 = 1000 * SECOND;

    /// A worker, and glances of which the last was taken a second before [`NOW`].
    fn scene() -> (Timer, WorkerRecord, Glances) {
        let (timer, record) =
            (Timer::monotonic(), WorkerRecord::new(Role::Reader, STEPS, Some(WINDOW.length_ns())));
        let mut glances = Glances::default();
        let first = glances.take_at(NOW - SECOND, [&record].into_iter(), WINDOW, timer);
        assert_eq!(first, None, "nothing to compare with");
        (timer, record, glances)
    }

    /// Counts an operation of the first kind.
    fn count(record: &WorkerRecord, start_ns: u64, duration_ns: u64) {
        record.operations[0].count(interval(record, WINDOW, start_ns), duration_ns, 10);
    }

    #[test]
    fn a_glance_adds_up_what_has_happened_since_the_last() {
        let (timer, record, mut glances) = scene();
        // So long ago that no glance reads it any more.
        count(&record, WINDOW.begin_ns, 900);
        count(&record, NOW - SECOND / 2, 1000);
        count(&record, NOW - SECOND / 4, 3000);
        record.operations[1].unsampled_bytes.add(7);
        let glance = glances.take_at(NOW, [&record].into_iter(), WINDOW, timer).expect("a glance");
        let [role] = &glance.roles[..] else { panic!("{glance:?}") };
        assert_eq!((role.workers, role.operations, role.bytes), (1, 2, 27));
        assert_eq!((role.mean_ns(), role.slowest_ns), (Some(Nanos(2000)), Nanos(3000)));
        assert_eq!(glance.length_ns, Nanos(SECOND));

        let next = glances.take_at(NOW + SECOND, [&record].into_iter(), WINDOW, timer).expect("a glance");
        assert_eq!((next.roles[0].operations, next.roles[0].bytes), (0, 0), "nothing counts twice");
    }

    #[test]
    fn a_long_operation_counts_when_it_ends() {
        let (timer, record, mut glances) = scene();
        count(&record, NOW - 3 * SECOND, 2_500_000_000);
        let glance = glances.take_at(NOW, [&record].into_iter(), WINDOW, timer).expect("a glance");
        assert_eq!((glance.roles[0].operations, glance.roles[0].bytes), (1, 10));
        assert_eq!(glance.roles[0].slowest_ns, Nanos(0), "it did not start since the last glance");
    }

    #[test]
    fn a_worker_that_completes_nothing_is_shown_with_what_it_is_in() {
        let (timer, record, mut glances) = scene();
        record.tally.begin(NOW - 3 * SECOND);
        record.work_in(b"tree0/a");
        record.slot.announce(StepIndex(1));
        record.slot.enter(timer.ticks());
        let glance = glances.take_at(NOW, [&record, &record].into_iter(), WINDOW, timer);
        assert_eq!(glance, None, "the second worker is new");
        let glance = glances.take_at(NOW + SECOND, [&record, &record].into_iter(), WINDOW, timer);
        let glance = glance.expect("a glance");
        let waiting = glance.roles[0].waiting.as_ref().expect("a worker that waits");
        assert_eq!((waiting.operation, waiting.directory.as_str()), (Some(Operation::Openat), "tree0/a"));
        assert_eq!((waiting.for_ns, waiting.workers), (Nanos(4 * SECOND), 2));
        assert!(glance.roles[0].slowest_ns > Nanos(900 * SECOND), "in flight since the clock began");

        record.slot.leave();
        record.tally.rested(NOW + 3 * SECOND);
        let glance = glances.take_at(NOW + 2 * SECOND, [&record, &record].into_iter(), WINDOW, timer);
        assert_eq!(glance.expect("a glance").roles[0].waiting, None, "it rests, as its rate wants");
    }

    #[test]
    fn a_timeline_that_was_rearranged_is_not_compared() {
        let (timer, record, mut glances) = scene();
        record.interval_ns.set(record.interval_ns.get() * 2);
        assert_eq!(glances.take_at(NOW, [&record].into_iter(), WINDOW, timer), None);
        assert!(glances.take_at(NOW + SECOND, [&record].into_iter(), WINDOW, timer).is_some());
        let moment = glances.take_at(NOW + SECOND + 1, [&record].into_iter(), WINDOW, timer);
        assert_eq!(moment, None, "too soon after the last");
    }
}
