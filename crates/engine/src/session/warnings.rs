//! The facts that the reader of a phase must know.

use fsdyno_core::result::{OpenLoop, PhaseResult, RoleResult};
use fsdyno_core::workload::Excursion;
use fsdyno_core::{Nanos, Operation, Role, Warning, WarningKind};

/// Warnings for the reader of a phase.
pub(super) fn warnings(phase: &PhaseResult) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |kind, text: String| warnings.push(Warning::new(kind, text).in_phase(&phase.name));
    for role in &phase.roles {
        let rounds: u64 = role.worker_results.iter().map(|worker| worker.rounds).sum();
        let times = if rounds == 1 { "once" } else { &format!("{rounds} times") };
        if matches!(role.role, Role::Reader | Role::Scanner) && rounds > 0 {
            let text = format!("{}s reached the end of their data {times} and started again", role.role);
            warn(WarningKind::ReaderPasses, text);
        }
        if role.role == Role::Writer && rounds > 0 {
            let removing = role.removing(phase.window_ns);
            let text = match role.operations.iter().any(|one| one.operation.is_of_removal()) {
                true => format!(
                    "writers used up their space {times} and removed what they had written, which took {:.1} % of \
                     their time",
                    removing * 100.0
                ),
                false => format!("writers wrote as much as their files have {times}, and went on"),
            };
            warn(WarningKind::WriterRounds, text);
        }
        if let Some(kept_up) = &role.open_loop
            && kept_up.fell_behind(phase.window_ns)
        {
            let OpenLoop { intended_per_s, achieved_per_s, backlog_at_end, .. } = kept_up;
            // A rate that was found has as many digits as a float; that of a plan has those of the plan.
            let intended_per_s = (intended_per_s * 1e3).round() / 1e3;
            let text = format!(
                "of {intended_per_s} iterations per second, {}s completed {achieved_per_s:.1}; at the end of the \
                 window {backlog_at_end} waited for a worker",
                role.role
            );
            warn(WarningKind::Saturated, text);
        }
        if let Some(text) = missed_target(role) {
            warn(WarningKind::TargetMissed, text);
        }
        if let Some(text) = too_few(role) {
            warn(WarningKind::TooFewIterations, text);
        }
        let unfinished: Vec<String> = role
            .worker_results
            .iter()
            .filter_map(|worker| worker.unfinished.as_ref())
            .map(|flight| format!("{} for {}", flight.operation, rounded(flight.duration_ns)))
            .collect();
        if !unfinished.is_empty() {
            let text = format!(
                "{}s still in an operation when the phase was closed: {}",
                role.role,
                unfinished.join(", ")
            );
            warn(WarningKind::Censored, text);
        } else if let Some(text) = unanswered(role) {
            warn(WarningKind::Censored, text);
        }
    }
    if let Some(text) = not_steady(phase) {
        warn(WarningKind::NotSteady, text);
    }
    warnings
}

/// Returns the text to show if iterations of an open loop had not ended although no worker was in an
/// operation: all of them waited for a worker, or for the engine itself.
fn unanswered(role: &RoleResult) -> Option<String> {
    let due = role.open_loop.as_ref()?.due;
    let responses = role.operations.iter().find(|one| one.operation == Operation::ResponseTime)?;
    (responses.censored > 0).then(|| {
        let (open, name) = (responses.censored, role.role);
        format!("{open} of {due} iterations of {name}s had not ended at the drain limit")
    })
}

/// Returns the text to show if the ramp was to last until the load was steady, and that never came.
fn not_steady(phase: &PhaseResult) -> Option<String> {
    let steady = phase.steady.filter(|steady| !steady.reached)?;
    let why = match steady.excursion {
        Some(Excursion { range, slope }) => format!(
            "over the last rounds its rate varied by {:.0} % and drifted by {:+.0} %",
            range * 100.0,
            slope * 100.0
        ),
        None => "nothing was completed in the last rounds, or there were too few".to_string(),
    };
    Some(format!("not steady after {} of ramp: {why}", phase.ramp_ns))
}

/// Returns the text to show if a search found no rate that meets the target, or none that meets it for long.
fn missed_target(role: &RoleResult) -> Option<String> {
    let search = role.open_loop.as_ref()?.search.as_ref()?;
    let (name, until) = (role.role, search.until);
    let Some(highest) = search.highest_per_s else {
        return Some(format!("no rate of {name}s met {until}"));
    };
    let response = role.operations.iter().find(|one| one.operation == Operation::ResponseTime)?;
    let took_ns = response.lat_ns.shown(until.quantile)?;
    (took_ns > until.within.0).then(|| {
        format!(
            "at {highest:.1} iterations per second {name}s met {until} while the rate was tried, but {} was {} \
             in the window",
            until.quantile.label(),
            rounded(Nanos(took_ns))
        )
    })
}

/// Returns the text to show if the rate that decided a search, the highest that met the target or else the
/// lowest that did not, had too few iterations to show much of it.
fn too_few(role: &RoleResult) -> Option<String> {
    let search = role.open_loop.as_ref()?.search.as_ref()?;
    let points = search.by_rate();
    let point = points.iter().rev().find(|point| point.met).or(points.first())?;
    let (due, quantile) = (point.due, search.until.quantile);
    // One of so many may take longer.
    let needed = 1.0 / (1.0 - quantile.fraction());
    ((due as f64) < needed * (1.0 - 1e-9)).then(|| {
        format!(
            "{} was judged by {due} iterations at {:.1} per second, which {} the target; it needs {needed:.0}",
            quantile.label(),
            point.intended_per_s,
            if point.met { "met" } else { "missed" }
        )
    })
}

fn rounded(duration: Nanos) -> Nanos {
    Nanos(duration.0 / 1_000_000 * 1_000_000)
}
