//! From the iterations of a role with a rate to their two distributions, and to how the role kept up.
//!
//! The sample is what was due inside the window. An iteration that had not ended when the phase was given up
//! is censored, and one that no worker had begun has a response time, but no service time.

use super::Finished;
use super::sample::Sample;
use crate::operations::timeline_interval;
use crate::pace::{Calendar, Paced};
use crate::window::Window;
use fsdyno_core::Operation;
use fsdyno_core::result::{Backlog, OpenLoop, OperationResult};
use fsdyno_core::units::Nanos;

/// Returns how the workers of a role kept up with its rate, and their response and service times; `None` if
/// the role has no rate.
pub(super) fn result(workers: &[Finished], window: Window) -> Option<(OpenLoop, [OperationResult; 2])> {
    let each: Vec<&Paced> = workers.iter().filter_map(|worker| worker.record.paced.as_ref()).collect();
    let schedule = &each.first()?.schedule;
    let (segment, epoch) = (schedule.current(), schedule.epoch());
    let rate = segment.rate?;
    let given_up_ns = workers.iter().map(|worker| worker.given_up_ns).max().unwrap_or(window.end_ns);
    let interval_ns = timeline_interval(window.length_ns());
    let intervals = window.length_ns().div_ceil(interval_ns) as usize;
    let [mut response, mut service] = [(); 2].map(|()| Sample::empty(interval_ns, intervals, false));
    let seen_ns = |since_ns: u64| given_up_ns.saturating_sub(since_ns);
    let mut never_begun = 0;
    for paced in &each {
        response.add(&paced.response, 1);
        service.add(&paced.service, 1);
        let is_sample = |due_ns: u64| (window.begin_ns..window.end_ns).contains(&due_ns);
        let Some(under_way) = paced.under_way().filter(|one| is_sample(one.due_ns)) else { continue };
        let since_begin_ns = under_way.due_ns - window.begin_ns;
        response.add_censored(since_begin_ns, seen_ns(under_way.due_ns));
        match under_way.begun_ns {
            Some(begun_ns) => service.add_censored(since_begin_ns, seen_ns(begun_ns)),
            None => never_begun += 1,
        }
    }
    let mut calendar = Calendar::of(&segment)?;
    let due_before = calendar.due_before(window.begin_ns);
    // Those of an earlier segment are not of this calendar.
    let current = each.iter().filter(|paced| paced.epoch.get() == epoch);
    let mut begun = current.map(|paced| paced.begun_before.get()).sum::<u64>();
    let of_interval = |index: usize| {
        let all = each.iter().filter_map(|paced| paced.begun.get(index));
        begun += all.clone().map(|one| one.count.get()).sum::<u64>();
        let end_ns = window.begin_ns.saturating_add(interval_ns.saturating_mul(index as u64 + 1));
        let at_its_end = calendar.due_before(end_ns.min(window.end_ns)).saturating_sub(begun);
        (all.map(|one| one.backlog.get()).fold(at_its_end, u64::max), at_its_end)
    };
    let backlog: Vec<(u64, u64)> = (0..intervals).map(of_interval).collect();
    let due = calendar.due_before(window.end_ns);
    let mut calendar = Calendar::of(&segment)?;
    for number in segment.taken().max(due_before)..due {
        let due_ns = calendar.due_ns(number);
        response.add_censored(due_ns.saturating_sub(window.begin_ns), seen_ns(due_ns));
        never_begun += 1;
    }
    let sum = |of: fn(&Paced) -> u64| each.iter().map(|paced| of(paced)).sum::<u64>();
    let awaited = sum(|paced| paced.awaited.get());
    let open_loop = OpenLoop {
        intended_per_s: rate.per_second,
        arrivals: rate.arrivals,
        due: due - due_before,
        achieved_per_s: sum(|paced| paced.ended.get()) as f64 * 1e9 / window.length_ns() as f64,
        never_begun,
        backlog_max: backlog.iter().map(|(most, _)| *most).max().unwrap_or(0),
        backlog_at_end: backlog.last().map_or(0, |(_, at_its_end)| *at_its_end),
        backlog: Backlog {
            interval_ns: Nanos(interval_ns),
            max: backlog.into_iter().map(|(most, _)| most).collect(),
        },
        late_ns_mean: sum(|paced| paced.late_sum_ns.get()) as f64 / awaited.max(1) as f64,
        late_ns_max: each.iter().map(|paced| paced.late_max_ns.get()).max().unwrap_or(0),
        search: schedule.curve.get().cloned(),
    };
    Some((open_loop, [response.result(Operation::ResponseTime), service.result(Operation::ServiceTime)]))
}
