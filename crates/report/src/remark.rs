//! Workers that were blocked, in words: what a distribution of completed operations cannot say.
//!
//! A worker that completed nothing is the worst result there is, and the easiest to lose, for it has no operations to
//! count. Each such worker gets a line.

use crate::merge::Time;
use crate::text;
use fsdyno_core::result::{InFlight, PhaseResult, RoleResult, WorkerResult};
use fsdyno_core::{Nanos, Role};

/// An operation in flight at the start of the window is worth a line from this overlap on.
const WORTH_A_LINE: Nanos = Nanos::from_millis(100);

/// One line for each worker of a role that was blocked; `trial` is named where a reader could take it for another.
pub fn workers(trial: Option<u32>, phase: &PhaseResult, role: &RoleResult) -> Vec<String> {
    let name = |worker: usize| match trial {
        Some(trial) => format!("trial {trial}, {} {worker}", role.role),
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
            "{completed} completed, 1 operation >= {}{detail}",
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
            "{completed} completed, the first {} of the window blocked ({})",
            text::time_in_words(wait),
            in_flight(operation)
        ));
    }
    (completed == 0 && role != Role::Null)
        .then(|| format!("0 completed in the window of {}", text::setting(phase.window_ns)))
}

/// `mkdirat, >= 62.0 s, begun 2.00 s before the window`.
fn in_flight(operation: &InFlight) -> String {
    let duration = text::time_in_words(Time { ns: operation.duration_ns.0, at_least: operation.at_least });
    let begun = text::time_in_words(Time { ns: operation.start_ns.unsigned_abs(), at_least: false });
    let side = if operation.start_ns < 0 { "before the window" } else { "into the window" };
    format!("{}, {duration}, begun {begun} {side}", operation.operation)
}
