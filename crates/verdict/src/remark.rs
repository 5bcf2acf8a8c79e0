//! Describes workers that were blocked, which a distribution of completed operations cannot show.
//!
//! A worker that completed nothing is the worst possible result and the easiest to miss, because it has no
//! operations to count. Each such worker gets a line.

use crate::merge::Time;
use crate::text;
use fsdyno_core::result::{InFlight, PhaseResult, RoleResult, WorkerResult};
use fsdyno_core::{Nanos, Role};

/// An operation in flight at the start of the window gets a line if it overlaps the window by at least this.
const WORTH_A_LINE: Nanos = Nanos::from_millis(100);

/// One line for each blocked worker of a role; `trial` is given if there are several.
pub fn workers(trial: Option<u32>, phase: &PhaseResult, role: &RoleResult) -> Vec<String> {
    let name = |worker: usize| match trial {
        Some(trial) => format!("trial {}, {} {worker}", text::nth(trial), role.role),
        None => format!("{} {worker}", role.role),
    };
    let lines = role.worker_results.iter().enumerate().filter_map(|(index, worker)| {
        let at_start = role.blocked_at_start.iter().find(|blocked| blocked.worker as usize == index);
        Some(format!("{}: {}", name(index), remark(phase, role.role, worker, at_start)?))
    });
    lines.collect()
}

fn remark(
    phase: &PhaseResult,
    role: Role,
    worker: &WorkerResult,
    at_start: Option<&InFlight>,
) -> Option<String> {
    let completed = worker.completed;
    if worker.spanning > 0 {
        let which = worker.unfinished.as_ref().or(at_start);
        let detail = which.map(|operation| format!(" ({})", in_flight(operation))).unwrap_or_default();
        return Some(format!(
            "{completed} completed, {} >= {}{detail}",
            text::plural(worker.spanning, "operation"),
            text::setting(phase.window_ns)
        ));
    }
    if let Some(operation) = &worker.unfinished {
        return Some(format!(
            "{completed} completed, 1 operation that never ended ({})",
            in_flight(operation)
        ));
    }
    let overlap_ns = |operation: &InFlight| {
        operation.start_ns.saturating_add_unsigned(operation.duration_ns.0).max(0).unsigned_abs()
    };
    if let Some(operation) = at_start.filter(|operation| overlap_ns(operation) >= WORTH_A_LINE.0) {
        let wait = Time { ns: overlap_ns(operation), at_least: operation.at_least };
        return Some(format!(
            "{completed} completed, blocked for the first {} of the window ({})",
            text::time_in_words(wait),
            in_flight(operation)
        ));
    }
    (completed == 0 && role != Role::Null)
        .then(|| format!("0 completed in the {} window", text::setting(phase.window_ns)))
}

/// `mkdirat, >= 62.0 s, begun 2.00 s before the window`.
fn in_flight(operation: &InFlight) -> String {
    let duration = text::time_in_words(Time { ns: operation.duration_ns.0, at_least: operation.at_least });
    let begun = text::time_in_words(Time { ns: operation.start_ns.unsigned_abs(), at_least: false });
    let side = if operation.start_ns < 0 { "before the window" } else { "into the window" };
    format!("{}, {duration}, begun {begun} {side}", operation.operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::Operation;

    fn phase() -> PhaseResult {
        fixture::phases(50.0).remove(2)
    }

    fn at_start(operation: Operation, start_ns: i64, duration_ns: u64) -> InFlight {
        InFlight { worker: 1, operation, start_ns, duration_ns: Nanos(duration_ns), at_least: false }
    }

    #[test]
    fn workers_that_were_not_blocked_have_no_line() {
        let phase = phase();
        assert_eq!(workers(None, &phase, &phase.roles[0]), Vec::<String>::new());
    }

    #[test]
    fn a_worker_that_is_blocked_over_the_whole_window_has_one() {
        let mut phase = phase();
        fixture::block_writer(&mut phase.roles[0]);
        let expected =
            "writer 0: 0 completed, 1 operation >= 30 s (mkdirat, >= 62.0 s, begun 2.00 s before the window)";
        assert_eq!(workers(None, &phase, &phase.roles[0]), [expected]);
        assert_eq!(workers(Some(4), &phase, &phase.roles[0]), [format!("trial 5, {expected}")]);
    }

    #[test]
    fn an_operation_that_spans_the_window_and_ends_in_the_drain_keeps_its_exact_time() {
        let mut phase = phase();
        fixture::block_writer(&mut phase.roles[0]);
        phase.roles[0].worker_results[0].unfinished = None;
        phase.roles[0].blocked_at_start[0].at_least = false;
        phase.roles[0].blocked_at_start[0].duration_ns = Nanos::from_secs(35);
        assert_eq!(
            workers(None, &phase, &phase.roles[0]),
            ["writer 0: 0 completed, 1 operation >= 30 s (mkdirat, 35.0 s, begun 2.00 s before the window)"]
        );
    }

    #[test]
    fn an_operation_that_never_ended_is_reported_with_its_start() {
        let mut phase = phase();
        phase.roles[0].worker_results[2].unfinished =
            Some(InFlight { at_least: true, ..at_start(Operation::Close, 17_600_000_000, 42_400_000_000) });
        phase.roles[0].worker_results[2].completed = 57;
        assert_eq!(
            workers(None, &phase, &phase.roles[0]),
            ["writer 2: 57 completed, 1 operation that never ended (close, >= 42.4 s, begun 17.6 s into \
                 the window)"]
        );
    }

    #[test]
    fn an_operation_in_flight_at_the_start_is_reported_from_100_ms_on() {
        let mut phase = phase();
        phase.roles[0].worker_results[1].completed = 12;
        phase.roles[0].blocked_at_start = vec![at_start(Operation::Write, -1_000_000_000, 1_050_000_000)];
        assert_eq!(workers(None, &phase, &phase.roles[0]), Vec::<String>::new());
        phase.roles[0].blocked_at_start = vec![at_start(Operation::Write, -1_000_000_000, 3_500_000_000)];
        assert_eq!(
            workers(None, &phase, &phase.roles[0]),
            ["writer 1: 12 completed, blocked for the first 2.50 s of the window (write, 3.50 s, begun \
                 1.00 s before the window)"]
        );
    }

    #[test]
    fn a_worker_that_completed_nothing_is_never_silent() {
        let mut phase = phase();
        phase.roles[0].worker_results[1].completed = 0;
        assert_eq!(workers(None, &phase, &phase.roles[0]), ["writer 1: 0 completed in the 30 s window"]);
    }
}
