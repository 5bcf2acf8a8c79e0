//! The search for the highest rate at which a role meets a target. It takes place in the ramp of a phase.
//!
//! At first nothing is due, and the workers never wait: what they complete gives the scale. Then one rate
//! after the other is tried for a while ([`ladder`]). Between two of them nothing is due until everything has
//! been served, so that none inherits the backlog of another. At last the role goes on at the highest rate
//! that met the target, and the window begins. The coordinator looks at it several times a second.

mod ladder;

use crate::buckets;
use crate::pace::{Calendar, Paced, Schedule, Segment, Tried};
use crate::record::WorkerRecord;
use fsdyno_core::result::{Latency, Quantiles, RateCurve, RatePoint};
use fsdyno_core::workload::{Pace, Rate, RateSearch};
use ladder::Ladder;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The time that a worker rests if nothing is due until the search goes on, if there are few workers; and the
/// number of workers up to which they rest that long. More of them look less often, so that looking never
/// keeps the processors busy.
const REST_NS: u64 = 5_000_000;
const FEW_WORKERS: u64 = 64;
/// A segment begins so many rests after it is posted: every worker has looked by then.
const RESTS_AHEAD: u64 = 4;

/// The stage of a search.
#[derive(Debug)]
enum Stage {
    /// The workers never wait. What they complete after the first look at or after a moment counts, since the
    /// last completion before that look: a rate counted from in between would be too high by those in flight.
    Closed { from_ns: u64, since_ns: Option<u64> },
    /// A rate is tried.
    Trying { rate: f64 },
}

/// Of all workers: response times by bucket, how many iterations ended, how many of these in time, and how
/// many before their rate was over.
#[derive(Debug, Clone, Default)]
struct Sums {
    buckets: Vec<u64>,
    ended: u64,
    in_time: u64,
    inside: u64,
    last_ended_ns: u64,
}

/// A search.
#[derive(Debug)]
pub(crate) struct Search {
    goal: RateSearch,
    schedule: Arc<Schedule>,
    workers: Vec<Arc<WorkerRecord>>,
    stage: Stage,
    segment: Arc<Segment>,
    before: Sums,
    ladder: Ladder,
    closed_per_s: f64,
    points: Vec<RatePoint>,
    /// When the window begins at the latest.
    latest_ns: u64,
}

impl Search {
    /// The search of a phase whose load begins now, if a role has one. The window begins at `latest_ns` at
    /// the latest; what of that time the search does not need is a ramp without a rate before it.
    pub(crate) fn begin<'a>(
        workers: impl Iterator<Item = &'a Arc<WorkerRecord>>,
        now_ns: u64,
        latest_ns: u64,
    ) -> Option<Self> {
        let is_searching = |record: &WorkerRecord| {
            record.paced.as_ref().is_some_and(|paced| matches!(paced.schedule.pace, Pace::Highest(_)))
        };
        let workers: Vec<_> = workers.filter(|record| is_searching(record)).cloned().collect();
        let schedule = Arc::clone(&workers.first()?.paced.as_ref()?.schedule);
        let Pace::Highest(goal) = schedule.pace else { return None };
        let from_ns = latest_ns.saturating_sub(goal.longest().0).max(now_ns);
        let crowd = (workers.len() as u64).div_ceil(FEW_WORKERS).max(1);
        schedule.rest_ns.store(REST_NS * crowd, Ordering::Relaxed);
        let segment = schedule.post(None, now_ns, from_ns.saturating_add(goal.step.0), true);
        Some(Search {
            goal,
            workers,
            stage: Stage::Closed { from_ns, since_ns: None },
            segment,
            before: Sums::default(),
            ladder: Ladder::new(0.0),
            closed_per_s: 0.0,
            points: Vec::new(),
            latest_ns,
            schedule,
        })
    }

    /// Looks at what the workers have done. Once the rate is found, returns when the window begins, once.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<u64> {
        match self.stage {
            Stage::Closed { from_ns, since_ns: None } => {
                if now_ns >= from_ns {
                    self.before = self.sums();
                    let since_ns = self.before.last_ended_ns.max(self.segment.begin_ns);
                    self.stage = Stage::Closed { from_ns, since_ns: Some(since_ns) };
                }
            }
            Stage::Closed { since_ns: Some(since_ns), .. } => {
                if self.is_over(now_ns, None) {
                    let sums = self.sums();
                    let seconds = sums.last_ended_ns.saturating_sub(since_ns) as f64 / 1e9;
                    let ended = sums.ended - self.before.ended;
                    self.closed_per_s = if seconds > 0.0 { ended as f64 / seconds } else { 0.0 };
                    self.ladder = Ladder::new(self.closed_per_s);
                    return self.go_on(now_ns);
                }
            }
            Stage::Trying { rate } if now_ns >= self.segment.end_ns => {
                if self.is_over(now_ns, Some(self.due()?)) {
                    self.take_down(rate, now_ns)?;
                    return self.go_on(now_ns);
                }
            }
            Stage::Trying { .. } => {}
        }
        // Whatever is known by then has to do.
        let needed_ns = self.goal.step.0.saturating_add(2 * self.ahead_ns());
        if now_ns.saturating_add(needed_ns) < self.latest_ns {
            return None;
        }
        if let Stage::Trying { rate } = self.stage
            && now_ns >= self.segment.end_ns
        {
            self.take_down(rate, now_ns)?;
        }
        Some(self.settle(now_ns))
    }

    /// Returns the number of iterations that are due in the segment.
    fn due(&self) -> Option<u64> {
        Some(Calendar::of(&self.segment)?.due_before(self.segment.end_ns))
    }

    /// Takes down what became of a rate.
    fn take_down(&mut self, rate: f64, now_ns: u64) -> Option<()> {
        let point = self.point(rate, self.due()?, now_ns);
        self.ladder.tried(rate, point.met);
        self.points.push(point);
        Some(())
    }

    /// Returns whether the segment is over and everything in it has been served. Iterations that have not
    /// begun after one more step are given up; those under way are waited for, because the next rate would
    /// inherit a worker that is stuck.
    fn is_over(&self, now_ns: u64, due: Option<u64>) -> bool {
        let step_ns = self.goal.step.0;
        if now_ns < self.segment.end_ns {
            return false;
        }
        let since_ns = now_ns - self.segment.end_ns;
        if since_ns >= step_ns {
            self.segment.close();
        }
        let is_idle = || self.paced().all(|paced| paced.under_way().is_none());
        match due {
            Some(due) if since_ns < step_ns => self.ended() - self.before.ended >= due,
            _ => is_idle(),
        }
    }

    /// Returns the results of trying a rate.
    fn point(&self, rate: f64, due: u64, now_ns: u64) -> RatePoint {
        let sums = self.sums();
        let (ended, in_time) = (sums.ended - self.before.ended, sums.in_time - self.before.in_time);
        let outside = due.saturating_sub(sums.inside - self.before.inside);
        let backlog_at_end = outside.saturating_sub(self.workers.len() as u64);
        let mut histogram = buckets::histogram();
        for (index, count) in sums.buckets.iter().enumerate() {
            let count = count - self.before.buckets.get(index).copied().unwrap_or(0);
            if count > 0 {
                histogram.saturating_record_n(buckets::lowest_value(index), count);
            }
        }
        let unfinished = due.saturating_sub(ended);
        let mut bound_ns = None;
        if let Some(mut calendar) = Calendar::of(&self.segment).filter(|_| unfinished > 0) {
            // The last ones, which have waited the shortest time.
            for number in ended..due {
                let waited_ns = now_ns.saturating_sub(calendar.due_ns(number));
                histogram.saturating_record(waited_ns);
                bound_ns = Some(waited_ns);
            }
        }
        // If all have ended, that was a moment before this look.
        let last_ns = if unfinished == 0 { sums.last_ended_ns } else { now_ns };
        let lasted_ns = last_ns.saturating_sub(self.segment.begin_ns).max(self.goal.step.0);
        let mut point = RatePoint {
            intended_per_s: rate,
            due,
            achieved_per_s: ended as f64 * 1e9 / lasted_ns as f64,
            backlog_at_end,
            unfinished,
            met: false,
            lat_ns: Latency {
                count: histogram.len(),
                min: histogram.min(),
                max: histogram.max(),
                mean: histogram.mean(),
                stddev: histogram.stdev(),
                quantiles: Quantiles::of(|each| histogram.value_at_quantile(each.fraction())),
                at_least_from: bound_ns,
            },
        };
        let in_quantile = due.saturating_sub(in_time) <= self.goal.until.allowed(due);
        point.met = due > 0 && in_quantile && !point.fell_behind();
        point
    }

    /// Tries the next rate, or settles.
    fn go_on(&mut self, now_ns: u64) -> Option<u64> {
        let Some(rate) = self.ladder.next() else { return Some(self.settle(now_ns)) };
        self.before = self.sums();
        self.stage = Stage::Trying { rate };
        let begin_ns = now_ns.saturating_add(self.ahead_ns());
        let end_ns = begin_ns.saturating_add(self.goal.step.0);
        self.segment = self.schedule.post(Some(self.rate(rate)), begin_ns, end_ns, true);
        None
    }

    /// Goes on at the highest rate that met the target, or at the lowest that was tried. Returns when the
    /// window begins, a step later.
    fn settle(&mut self, now_ns: u64) -> u64 {
        self.segment.close();
        let lowest = self.points.iter().map(|point| point.intended_per_s).reduce(f64::min);
        let rate = self.ladder.highest().or(lowest).unwrap_or(1.0);
        let begin_ns = now_ns.saturating_add(self.ahead_ns());
        self.segment = self.schedule.post(Some(self.rate(rate)), begin_ns, u64::MAX, false);
        // Nobody else writes it.
        let _ = self.schedule.curve.set(RateCurve {
            until: self.goal.until,
            closed_per_s: self.closed_per_s,
            highest_per_s: self.ladder.highest(),
            has_limit: self.ladder.has_limit(),
            points: std::mem::take(&mut self.points),
        });
        begin_ns.saturating_add(self.goal.step.0)
    }

    /// Returns the time by which a segment is posted before it begins.
    fn ahead_ns(&self) -> u64 {
        RESTS_AHEAD * self.schedule.rest_ns.load(Ordering::Relaxed)
    }

    fn rate(&self, per_second: f64) -> Rate {
        Rate { per_second, arrivals: self.goal.arrivals }
    }

    fn paced(&self) -> impl Iterator<Item = &Paced> {
        self.workers.iter().filter_map(|record| record.paced.as_ref())
    }

    fn tried(&self) -> impl Iterator<Item = &Tried> {
        self.paced().filter_map(|paced| paced.tried.as_ref())
    }

    fn ended(&self) -> u64 {
        self.tried().map(|tried| tried.ended.get()).sum()
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums { buckets: vec![0; buckets::COUNT], ended: self.ended(), ..Sums::default() };
        for tried in self.tried() {
            sums.in_time += tried.in_time.get();
            sums.inside += tried.inside.get();
            sums.last_ended_ns = sums.last_ended_ns.max(tried.last_ended_ns.get());
            for (sum, bucket) in sums.buckets.iter_mut().zip(&tried.buckets) {
                *sum += bucket.get();
            }
        }
        sums
    }
}
