//! One operation of a role: the combined records of all its workers.

use super::{Finished, Flight};
use crate::buckets;
use crate::operations::OperationRecord;
use crate::record::WorkerRecord;
use crate::window::Window;
use fsdyno_core::Operation;
use fsdyno_core::operation::Moves;
use fsdyno_core::result::{Latency, OperationResult, Quantiles, SLOWEST, SlowOperation, Timeline};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::StepIndex;
use hdrhistogram::Histogram;

/// One operation of all workers of a role.
pub(super) struct Sample {
    histogram: Histogram<u64>,
    timeline: Timeline,
    slowest: Vec<SlowOperation>,
    pub(super) count: u64,
    pub(super) sum_ns: u128,
    squares: u128,
    min_ns: u64,
    max_ns: u64,
    pub(super) bytes: u64,
    censored: u64,
    pub(super) bound_ns: Option<u64>,
}

impl Sample {
    pub(super) fn of(step: StepIndex, workers: &[Finished], window: Window) -> Self {
        // Timelines grow by doubling, each worker's separately.
        let interval_ns = workers.iter().map(|worker| worker.record.interval_ns.get()).max().unwrap_or(1);
        let intervals = window.length_ns().div_ceil(interval_ns) as usize;
        let moves =
            workers.first().is_some_and(|worker| worker.record.operation(step).moves() != Moves::Nothing);
        let mut sample = Sample::empty(interval_ns, intervals, moves);
        for worker in workers {
            let shrink = interval_ns / worker.record.interval_ns.get();
            sample.add(&worker.record.operations[step.0 as usize], shrink as usize);
            for flight in worker.censored(window).filter(|flight| flight.step == step) {
                sample.add_flight(flight, &worker.record, window);
            }
            if worker.spanning(window).any(|flight| flight.step == step) {
                sample.bound(window.length_ns());
            }
        }
        sample.slowest.sort_by_key(|slow| std::cmp::Reverse(slow.duration_ns));
        sample.slowest.truncate(SLOWEST);
        sample
    }

    /// Nothing, with a timeline of so many intervals; with bytes if the operation moves data.
    pub(super) fn empty(interval_ns: u64, intervals: usize, moves: bool) -> Self {
        Sample {
            histogram: buckets::histogram(),
            timeline: Timeline {
                interval_ns: Nanos(interval_ns),
                count: vec![0; intervals],
                sum_ns: vec![0; intervals],
                max_ns: vec![0; intervals],
                bytes: vec![0; if moves { intervals } else { 0 }],
            },
            slowest: Vec::new(),
            count: 0,
            sum_ns: 0,
            squares: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            bytes: 0,
            censored: 0,
            bound_ns: None,
        }
    }

    /// Adds a worker's sample, merging `shrink` intervals of its timeline into one.
    pub(super) fn add(&mut self, record: &OperationRecord, shrink: usize) {
        for (index, bucket) in record.buckets.iter().enumerate().filter(|(_, bucket)| bucket.get() > 0) {
            self.histogram.saturating_record_n(buckets::lowest_value(index), bucket.get());
        }
        for (index, interval) in record.timeline.iter().enumerate() {
            let (count, sum_ns, max_ns) =
                (interval.count.get(), interval.sum_ns.get(), interval.max_ns.get());
            if count == 0 {
                continue;
            }
            // An operation that began at the very last moment may be slightly beyond the end because of
            // rounding.
            let index = (index / shrink).min(self.timeline.count.len().saturating_sub(1));
            if let Some(bytes) = self.timeline.bytes.get_mut(index) {
                *bytes += interval.bytes.get();
            }
            self.count += count;
            self.sum_ns += u128::from(sum_ns);
            self.max_ns = self.max_ns.max(max_ns);
            self.timeline.count[index] += count;
            self.timeline.sum_ns[index] += sum_ns;
            self.timeline.max_ns[index] = self.timeline.max_ns[index].max(max_ns);
        }
        self.squares += record.squares();
        self.min_ns = self.min_ns.min(record.min_ns.get());
        self.bytes += record.bytes();
        self.slowest.extend(record.slowest());
    }

    /// An operation whose end was not seen is in the sample with the time seen so far, and one of the
    /// slowest.
    fn add_flight(&mut self, flight: &Flight, record: &WorkerRecord, window: Window) {
        let (start_ns, duration_ns) = (flight.start_ns - window.begin_ns, flight.duration_ns());
        self.add_censored(start_ns, duration_ns);
        self.slowest.push(SlowOperation { start_ns, duration_ns, path: record.directory() });
    }

    /// Adds what began at a moment of the window and lasted at least so long.
    pub(super) fn add_censored(&mut self, since_begin_ns: u64, duration_ns: u64) {
        let last = self.timeline.count.len().saturating_sub(1);
        let interval = ((since_begin_ns / self.timeline.interval_ns.0) as usize).min(last);
        self.histogram.saturating_record(duration_ns);
        self.timeline.count[interval] += 1;
        self.timeline.sum_ns[interval] += duration_ns;
        self.timeline.max_ns[interval] = self.timeline.max_ns[interval].max(duration_ns);
        self.count += 1;
        self.censored += 1;
        self.sum_ns += u128::from(duration_ns);
        self.squares += u128::from(duration_ns) * u128::from(duration_ns);
        self.min_ns = self.min_ns.min(duration_ns);
        self.bound(duration_ns);
    }

    /// Some operation took at least this long.
    fn bound(&mut self, duration_ns: u64) {
        self.max_ns = self.max_ns.max(duration_ns);
        self.bound_ns = Some(self.bound_ns.map_or(duration_ns, |bound| bound.min(duration_ns)));
    }

    pub(super) fn result(self, operation: Operation) -> OperationResult {
        OperationResult {
            operation,
            censored: self.censored,
            lat_ns: self.latency(),
            histogram: buckets::encode(&self.histogram),
            timeline: self.timeline,
            slowest: self.slowest,
        }
    }

    fn latency(&self) -> Latency {
        if self.count == 0 {
            return Latency { max: self.max_ns, at_least_from: self.bound_ns, ..Latency::default() };
        }
        let quantile =
            |q: f64| self.histogram.value_at_quantile(q).clamp(self.min_ns, self.max_ns.max(self.min_ns));
        Latency {
            count: self.count,
            min: self.min_ns,
            max: self.max_ns,
            mean: self.sum_ns as f64 / self.count as f64,
            stddev: self.deviation(),
            quantiles: Quantiles::of(|each| quantile(each.fraction())),
            at_least_from: self.bound_ns,
        }
    }

    /// Standard deviation of the population: exact in integers, unless they would not hold it.
    fn deviation(&self) -> f64 {
        let count = u128::from(self.count);
        let exact = count
            .checked_mul(self.squares)
            .zip(self.sum_ns.checked_mul(self.sum_ns))
            .map(|(squares, square)| squares.saturating_sub(square) as f64);
        let mean = self.sum_ns as f64 / self.count as f64;
        match exact {
            Some(difference) => difference.sqrt() / self.count as f64,
            None => (self.squares as f64 / self.count as f64 - mean * mean).max(0.0).sqrt(),
        }
    }
}
