//! The window rule: which operations are samples, and what counts as stall.
//!
//! A phase is ramp, window [begin, end), drain. An operation belongs to the sample if it *started* inside the
//! window, whenever it ends. One in flight when the window begins is not a sample, but its time inside the
//! window counts. A *stall* is the time between two completions of a worker, of which at least one moment is
//! inside the window. Its whole length counts: it may begin in the ramp, with the worker's start at the
//! earliest, and end in the drain. If it had not ended when the worker was given up, its length is a lower
//! bound. The share of time in long operations counts the part of each that is inside the window; for a
//! worker that keeps many in flight at once, it is the mean over their slots.
//!
//! This module is arithmetic: it reads no clock. All times are nanoseconds of one
//! [`fsdyno_sys::timer::Timer`].

use crate::counter::Counter;
use fsdyno_core::result::STALL;

/// Operations longer than this count into `time_over_100ms`.
pub(crate) const LONG_NS: u64 = STALL.0;
/// Operations longer than this count into `time_over_1s`.
pub(crate) const VERY_LONG_NS: u64 = 1_000_000_000;

/// The measured part of a phase: `begin_ns` is inside, `end_ns` outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first moment that counts.
    pub begin_ns: u64,
    /// The first moment that does not count any more.
    pub end_ns: u64,
}

/// The position of an operation relative to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Ended before it.
    Before,
    /// In flight when it began, ended inside: not a sample.
    AcrossBegin,
    /// Started and ended inside: a sample and a completion.
    Inside,
    /// Started inside, ended in the drain: a sample.
    AcrossEnd,
    /// In flight at both edges: not a sample.
    Spanning,
    /// Started after it.
    After,
}

impl Window {
    /// Its length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// The position of an operation relative to the window.
    pub(crate) fn position(&self, start_ns: u64, end_ns: u64) -> Position {
        match (start_ns < self.begin_ns, end_ns < self.end_ns) {
            (true, _) if end_ns < self.begin_ns => Position::Before,
            (true, true) => Position::AcrossBegin,
            (true, false) => Position::Spanning,
            (false, true) => Position::Inside,
            (false, false) if start_ns < self.end_ns => Position::AcrossEnd,
            (false, false) => Position::After,
        }
    }

    /// Returns the time that an operation spends inside the window.
    pub(crate) fn overlap_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        end_ns.min(self.end_ns).saturating_sub(start_ns.max(self.begin_ns))
    }
}

/// The completions of one worker. Written by the worker, read by the coordinator at any time.
#[derive(Debug)]
pub(crate) struct Tally {
    /// When the worker began, until something has completed.
    last_completion_ns: Counter,
    longest_stall_ns: Counter,
    /// `1` if something has completed after the window, else `0`.
    concluded: Counter,
    over_100ms_ns: Counter,
    over_1s_ns: Counter,
}

/// The stalls of one worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stalls {
    pub(crate) longest_ns: u64,
    /// `true` if the last stall, which may become the longest, had not ended when the worker was given up.
    pub(crate) at_least: bool,
    /// Share of the window, 0 to 1.
    pub(crate) over_100ms: f64,
    /// Share of the window, 0 to 1.
    pub(crate) over_1s: f64,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Tally {
            last_completion_ns: Counter::new(0),
            longest_stall_ns: Counter::new(0),
            concluded: Counter::new(0),
            over_100ms_ns: Counter::new(0),
            over_1s_ns: Counter::new(0),
        }
    }

    /// Records when the worker began.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.last_completion_ns.set(now_ns);
    }

    /// Records that the worker does nothing until a moment, and should not: nothing is missing until then.
    pub(crate) fn rested(&self, until_ns: u64) {
        self.last_completion_ns.raise(until_ns);
    }

    /// Returns the time for which the worker has completed nothing. `None` before it begins, while it rests,
    /// and once the window is over for it: later operations are not recorded.
    pub(crate) fn waiting_ns(&self, now_ns: u64) -> Option<u64> {
        let since_ns = self.last_completion_ns.get();
        let waits = since_ns > 0 && since_ns < now_ns && self.concluded.get() == 0;
        waits.then(|| now_ns - since_ns)
    }

    /// Returns whether an operation has ended inside the window.
    #[inline(always)]
    pub(crate) fn any(&self, window: Window) -> bool {
        self.last_completion_ns.get() > window.begin_ns
    }

    /// Records an operation that ended before the window.
    pub(crate) fn preceded(&self, end_ns: u64) {
        self.last_completion_ns.set(end_ns);
    }

    /// Records an operation that ended after the window: the first one ends the last stall that began inside.
    /// If it also started after the window, the stall was over when the window was.
    pub(crate) fn concluded(&self, window: Window, start_ns: u64, end_ns: u64) {
        if self.concluded.get() == 0 {
            self.concluded.set(1);
            let until_ns = if start_ns < window.end_ns { end_ns } else { window.end_ns };
            self.longest_stall_ns.raise(until_ns.saturating_sub(self.last_completion_ns.get()));
        }
    }

    /// Records an operation that ended inside the window.
    #[inline(always)]
    pub(crate) fn completed(&self, window: Window, start_ns: u64, end_ns: u64) {
        self.longest_stall_ns.raise(end_ns.saturating_sub(self.last_completion_ns.get()));
        self.last_completion_ns.set(end_ns);
        if end_ns.saturating_sub(start_ns) > LONG_NS {
            self.occupied(window, start_ns, end_ns);
        }
    }

    /// Records the time of an operation inside the window, wherever it starts or ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn occupied(&self, window: Window, start_ns: u64, end_ns: u64) {
        let (duration_ns, overlap_ns) = (end_ns - start_ns, window.overlap_ns(start_ns, end_ns));
        if duration_ns > LONG_NS {
            self.over_100ms_ns.add(overlap_ns);
        }
        if duration_ns > VERY_LONG_NS {
            self.over_1s_ns.add(overlap_ns);
        }
    }

    /// The result after the drain, for a worker that may have had `depth` operations in flight at once. It
    /// was given up at `given_up_ns`, if an operation of the window was in flight then.
    pub(crate) fn verdict(&self, window: Window, depth: u64, given_up_ns: Option<u64>) -> Stalls {
        let share = |counter: &Counter| counter.get() as f64 / window.length_ns() as f64 / depth as f64;
        let until_ns = given_up_ns.unwrap_or(window.end_ns);
        let concluded = self.concluded.get() != 0;
        let last_ns = match concluded {
            false => until_ns.saturating_sub(self.last_completion_ns.get()),
            true => 0,
        };
        Stalls {
            longest_ns: last_ns.max(self.longest_stall_ns.get()),
            at_least: given_up_ns.is_some() && !concluded,
            over_100ms: share(&self.over_100ms_ns),
            over_1s: share(&self.over_1s_ns),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Range;

    const SECOND: u64 = 1_000_000_000;
    const WINDOW: Window = Window { begin_ns: 10 * SECOND, end_ns: 20 * SECOND };

    /// Records the operations of a worker, one after the other, and returns its stalls.
    fn run(window: Window, operations: &[(u64, u64)], given_up_ns: Option<u64>) -> Stalls {
        let tally = Tally::new();
        tally.begin(0);
        for (start, end) in operations.iter().copied() {
            match window.position(start, end) {
                Position::Inside | Position::AcrossBegin => tally.completed(window, start, end),
                Position::AcrossEnd | Position::Spanning => {
                    tally.occupied(window, start, end);
                    tally.concluded(window, start, end);
                }
                Position::Before => tally.preceded(end),
                Position::After => tally.concluded(window, start, end),
            }
        }
        tally.verdict(window, 1, given_up_ns)
    }

    #[test]
    fn a_stall_has_its_whole_length() {
        let stalls = run(WINDOW, &[(3 * SECOND, 9 * SECOND), (9 * SECOND, 25 * SECOND)], None);
        assert_eq!(
            stalls,
            Stalls { longest_ns: 16 * SECOND, at_least: false, over_100ms: 1.0, over_1s: 1.0 }
        );
        // Half a second before the end, for 25 seconds.
        let late = [(9 * SECOND, WINDOW.end_ns - SECOND / 2), (WINDOW.end_ns - SECOND / 2, 45 * SECOND)];
        assert_eq!(run(WINDOW, &late, None).longest_ns, 25 * SECOND + SECOND / 2);
        // Between the window and an operation that starts after it, nothing was missing.
        let after = [(0, WINDOW.end_ns - SECOND), (WINDOW.end_ns + 5, 40 * SECOND)];
        assert_eq!(run(WINDOW, &after, None).longest_ns, WINDOW.end_ns - SECOND);
    }

    #[test]
    fn a_stall_that_did_not_end_is_a_lower_bound() {
        let given_up = run(WINDOW, &[(0, 9 * SECOND)], Some(50 * SECOND));
        assert_eq!((given_up.longest_ns, given_up.at_least), (41 * SECOND, true));
        // Another one, which ended, was longer so far.
        let given_up = run(WINDOW, &[(0, 19 * SECOND)], Some(21 * SECOND));
        assert_eq!((given_up.longest_ns, given_up.at_least), (19 * SECOND, true));
        // It was in no operation.
        let none = run(WINDOW, &[], None);
        assert_eq!((none.longest_ns, none.at_least), (20 * SECOND, false));
    }

    #[test]
    fn the_edges_belong_to_the_window_and_to_the_drain() {
        assert_eq!(WINDOW.position(WINDOW.begin_ns, WINDOW.begin_ns), Position::Inside);
        assert_eq!(WINDOW.position(WINDOW.end_ns - 1, WINDOW.end_ns), Position::AcrossEnd);
        assert_eq!(WINDOW.position(WINDOW.end_ns, WINDOW.end_ns), Position::After);
        assert_eq!(WINDOW.position(WINDOW.begin_ns - 1, WINDOW.begin_ns), Position::AcrossBegin);
    }

    prop_compose! {
        /// Operations of one worker: several one after the other, with pauses, around the window.
        pub(crate) fn operations(pause_ns: Range<u64>, duration_ns: Range<u64>, count: Range<usize>)
            (steps in prop::collection::vec((pause_ns, duration_ns), count)) -> Vec<(u64, u64)>
        {
            let mut now = 0;
            steps.into_iter().map(|(pause, duration)| {
                let start = now + pause;
                now = start + duration;
                (start, now)
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn stall_is_the_longest_gap_between_completions(operations in operations(0..SECOND, 0..3 * SECOND, 0..40)) {
            // Starts and ends; the first end after the window is that of an operation which started inside,
            // or the end of the window itself.
            let mut moments = vec![0];
            moments.extend(operations.iter().map(|o| o.1).filter(|end| *end < WINDOW.end_ns));
            let across = operations.iter().find(|o| o.0 < WINDOW.end_ns && o.1 >= WINDOW.end_ns);
            moments.push(across.map_or(WINDOW.end_ns, |o| o.1));
            let inside = moments.windows(2).filter(|pair| pair[1] >= WINDOW.begin_ns);
            let longest = inside.map(|pair| pair[1] - pair[0]).max();
            prop_assert_eq!(Some(run(WINDOW, &operations, None).longest_ns), longest);
        }

        #[test]
        fn long_time_is_the_overlap_of_long_operations(operations in operations(0..SECOND, 0..3 * SECOND, 0..40)) {
            for (limit, of) in [(LONG_NS, false), (VERY_LONG_NS, true)] {
                // The definition would go nanosecond by nanosecond; the overlap of each operation is
                // equivalent.
                let inside: u64 = operations.iter()
                    .filter(|(start, end)| end - start > limit && *start < WINDOW.end_ns && *end > WINDOW.begin_ns)
                    .map(|(start, end)| (*end).min(WINDOW.end_ns) - (*start).max(WINDOW.begin_ns))
                    .sum();
                let stalls = run(WINDOW, &operations, None);
                let share = if of { stalls.over_1s } else { stalls.over_100ms };
                prop_assert!((share - inside as f64 / WINDOW.length_ns() as f64).abs() < 1e-9);
                prop_assert!((0.0..=1.0).contains(&share));
            }
        }

        #[test]
        fn every_operation_has_one_position(start in 0..30 * SECOND, duration in 0..30 * SECOND) {
            let end = start + duration;
            let inside = WINDOW.begin_ns..WINDOW.end_ns;
            let sample = inside.contains(&start);
            let completion = inside.contains(&end);
            let expected = match WINDOW.position(start, end) {
                Position::Inside => (true, true),
                Position::AcrossBegin => (false, true),
                Position::AcrossEnd => (true, false),
                Position::Before | Position::Spanning | Position::After => (false, false),
            };
            prop_assert_eq!((sample, completion), expected);
            prop_assert!(WINDOW.overlap_ns(start, end) <= WINDOW.length_ns().min(duration));
        }
    }
}
