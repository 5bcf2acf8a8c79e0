//! The reports of a running sweep: where it is, and how long it will take.

use crate::estimate::trial_time;
use crate::order::Slot;
use crate::plan::Case;
use crate::sizes::Sizes;
use fsdyno_core::{Nanos, Outcome, Progress, TrialRecord, TrialStep};
use fsdyno_store::SweepId;
use fsdyno_testbed::undo::UndoReport;
use fsdyno_verdict::race::{RaceAnswer, RaceError};
use std::borrow::Cow;
use std::time::Instant;

/// A report of a running sweep.
#[derive(Debug)]
pub enum SweepEvent<'a> {
    /// The leftovers of an earlier sweep were undone, or could not be.
    Restored(&'a UndoReport),
    /// The sweep is in the store now, under this number.
    Began(SweepId),
    /// A trial is running; at most several times a second.
    Running(&'a Position),
    /// A trial has ended and is stored.
    Stored(&'a Position, &'a TrialRecord),
    /// Something about a machine of a fleet.
    Machine {
        /// Its name.
        name: &'a str,
        /// What, in a line.
        line: &'a str,
    },
    /// It waits before this trial, counted from 1, because it was asked to; several times a second.
    Paused {
        /// The trial.
        next: u32,
        /// `true` if this has not been reported before.
        first: bool,
    },
    /// It goes on after so long a pause.
    Continued(Nanos),
    /// Cases are repeated once more, because their intervals are too wide.
    Further {
        /// The block, from 1.
        block: u32,
        /// Names of their configurations, and what tells their workloads apart.
        cases: &'a [(&'a str, Cow<'static, str>)],
        /// Trials in all with those of the block.
        trials: u32,
    },
    /// A block is complete of a sweep whose trials decide whether it goes on.
    Judged {
        /// The conclusions from the trials, a line each; empty if they were reported before an interruption.
        lines: &'a [String],
        /// Trials in all, as far as they are planned.
        trials: u32,
    },
    /// A block of a race is complete. After an interruption, those of the earlier run are reported again.
    Raced {
        /// The answer of the race after the block; the sweep has no name there.
        answer: &'a Result<RaceAnswer, RaceError>,
        /// The same in a line each; none if that was printed before an interruption.
        lines: &'a [String],
        /// Trials in all, as far as they are planned.
        trials: u32,
    },
    /// The first block takes longer than the plan's time limit, and is run all the same.
    LongBlock {
        /// The time that the block is expected to take in all.
        block: Nanos,
        /// The limit.
        limit: Nanos,
    },
    /// The sweep ends, because another block would not fit into the plan's time limit.
    TimeIsUp {
        /// The number of blocks that were run.
        blocks: u32,
        /// The number of blocks that the plan has.
        planned: u32,
        /// The limit.
        limit: Nanos,
    },
}

/// Where a sweep is.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The trial, from 1; trials of an earlier run of the same sweep count.
    pub trial: u32,
    /// Trials in all.
    pub trials: u32,
    /// Name of the configuration.
    pub configuration: String,
    /// Kind of the workload.
    pub workload: Cow<'static, str>,
    /// `true` if the trial is the sentinel.
    pub sentinel: bool,
    /// Index of the case in the plan.
    pub case: u32,
    /// The block, from 0.
    pub block: u32,
    /// The machine of a fleet that runs it.
    pub machine: Option<String>,
    /// The number of trials that are done, without this one. Of those that other machines are running, the
    /// share that is done counts.
    pub behind: f64,
    /// Where the trial is.
    pub progress: Progress,
    /// Share of the trial that is done, 0 to 1; an estimate that never goes back.
    pub fraction: f64,
    /// Estimated time until the sweep ends, or until the block ends if more may follow.
    pub left: Nanos,
    /// `true` if blocks may follow that are not planned yet.
    pub more_may_follow: bool,
}

/// A trial that runs: where it is, and how long it has taken.
#[derive(Debug)]
pub(crate) struct TrialCourse {
    pub position: Position,
    since: Instant,
    expected: Nanos,
}

impl TrialCourse {
    /// A trial that begins now, and is expected to take this long.
    pub fn new(position: Position, expected: Nanos) -> Self {
        TrialCourse { position, since: Instant::now(), expected }
    }

    /// It has come this far; `rest` is the time for the trials after it.
    pub fn come_to(&mut self, progress: &Progress, rest: Nanos) {
        // Images for all trials take time of none.
        if self.position.progress.step == TrialStep::Images && progress.step != TrialStep::Images {
            (self.since, self.position.fraction) = (Instant::now(), 0.0);
        }
        self.position.come_to(progress, self.since.elapsed().into(), self.expected, rest);
    }

    /// The time that it will still take.
    pub fn left(&self) -> Nanos {
        Nanos((self.expected.0 as f64 * (1.0 - self.position.fraction)) as u64)
    }
}

impl Position {
    /// At the beginning of a trial, of which nothing is known but its case.
    pub(crate) fn new(slot: &Slot, case: &Case, trials: u32) -> Self {
        Position {
            trial: slot.trial + 1,
            trials,
            configuration: case.configuration.name.clone(),
            workload: case.label.clone(),
            sentinel: slot.sentinel,
            case: slot.case,
            block: slot.block,
            machine: None,
            behind: f64::from(slot.trial),
            progress: Progress::at(TrialStep::Build),
            fraction: 0.0,
            left: Nanos(0),
            more_may_follow: false,
        }
    }

    /// The trial has come this far after this time, of what is expected in all; `rest` is the time for the
    /// trials after it.
    fn come_to(&mut self, progress: &Progress, elapsed: Nanos, expected: Nanos, rest: Nanos) {
        let left = progress.left_ns.unwrap_or(Nanos(expected.0.saturating_sub(elapsed.0)));
        let share = elapsed.0 as f64 / (elapsed.0.saturating_add(left.0)).max(1) as f64;
        self.progress.clone_from(progress);
        self.fraction = self.fraction.max(share.min(0.99));
        self.left = Nanos(left.0.saturating_add(rest.0));
    }
}

/// Estimates the remaining time, at first from the plan and then from finished trials.
pub(crate) struct Clock {
    /// Estimate of each case, nothing where it is skipped.
    estimates: Vec<Nanos>,
    estimated: u64,
    taken: u64,
}

impl Clock {
    /// `unmet`: what keeps each case from running.
    pub fn new(cases: &[Case], unmet: &[Vec<String>], sizes: Sizes) -> Self {
        let estimate = |(case, unmet): (&Case, &Vec<String>)| {
            if unmet.is_empty() { trial_time(case, sizes) } else { Nanos(0) }
        };
        Clock { estimates: cases.iter().zip(unmet).map(estimate).collect(), estimated: 0, taken: 0 }
    }

    /// With what the trials of an earlier run of the sweep took.
    pub fn after(mut self, earlier: &[TrialRecord]) -> Self {
        let ran = earlier.iter().filter(|trial| !matches!(trial.outcome, Outcome::Skipped { .. }));
        // Another program may have changed the store.
        let cases = self.estimates.len();
        for trial in ran.filter(|trial| (trial.case as usize) < cases) {
            self.took(trial.case, trial.duration());
        }
        self
    }

    /// A trial of this case has ended.
    pub fn took(&mut self, case: u32, duration: Nanos) {
        self.estimated = self.estimated.saturating_add(self.estimates[case as usize].0);
        self.taken = self.taken.saturating_add(duration.0);
    }

    /// Returns the time that a trial of this case is expected to take.
    pub fn expected(&self, case: u32) -> Nanos {
        let scale = if self.estimated == 0 { 1.0 } else { self.taken as f64 / self.estimated as f64 };
        Nanos((self.estimates[case as usize].0 as f64 * scale) as u64)
    }

    /// Returns the time that trials of these cases are expected to take together.
    pub fn left(&self, cases: &[u32]) -> Nanos {
        Nanos(cases.iter().map(|case| self.expected(*case).0).fold(0, u64::saturating_add))
    }
}
