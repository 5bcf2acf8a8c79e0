//! One case: what was built, and each phase over time and in figures.

use super::chart::{self, Names};
use super::elements::{sentence, table};
use super::timeline;
use super::{faults, losses};
use crate::terminal::clients;
use crate::terminal::full::{cpu, kernel_threads, open_loop, rates, stalls, window};
use fsdyno_core::measure::Measure;
use fsdyno_core::result::{LifecycleStep, PhaseResult, Quantile};
use fsdyno_core::{Nanos, TrialRecord};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::ranking;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, ClientsOfRole, ClientsView, OperationView, PhaseView, RoleView};
use maud::{Markup, html};

/// A case, folded up unless `open`.
pub fn case(
    case: &CaseView,
    trials: &[TrialRecord],
    measure: &Measure,
    open: bool,
    names: &mut Names,
) -> Markup {
    let measured: Vec<&TrialRecord> = trials.iter().filter(|trial| is_measured(trial)).collect();
    let shown = most_stalled(&measured);
    let main = main_phase(&case.phases);
    html! {
        details.case id={ "case-" (case.case) } open[open] {
            summary {
                h4 { (case.configuration.name) }
                span.facts { (facts(case, &measured, measure)) }
            }
            @if let (Some(trial), true) = (shown, measured.len() > 1 && !case.phases.is_empty()) {
                p.note {
                    "Charts over time show trial " (text::nth(trial.trial)) ", the one of " (measured.len()) " with the \
                     longest stall. "
                    "Tables are of all trials: counts, rates and processor times are means, percentiles those of all."
                }
            }
            @for (index, phase) in case.phases.iter().enumerate() {
                details.phase open[Some(index) == main] {
                    summary { h5 { (phase.name) " " span.unit { (window(phase)) } } }
                    @let over_time = shown.and_then(|trial| trial.phases.iter().find(|of| of.name == phase.name));
                    @if let Some(over_time) = over_time { (over_time_chart(case, over_time, names)) }
                    (figures(phase))
                }
            }
            @if let Some(losses) = &case.losses { (losses::case(losses)) }
            @if let Some(faults) = &case.faults { (faults::case(faults)) }
            (built(case, &measured))
        }
    }
}

/// Returns the text after the name: the deciding figure, the longest stall, the number of trials.
fn facts(case: &CaseView, trials: &[&TrialRecord], measure: &Measure) -> String {
    let mut facts = Vec::new();
    // The mean does not depend on the order of trials or on the seed of the interval.
    if let Some(figure) = ranking::figure(measure, 0, trials) {
        facts.push(format!("{} {measure}", text::quantity(measure, figure.estimate.value, figure.at_least)));
    }
    facts.extend(case.losses.as_ref().map(losses::fact));
    facts.extend(case.faults.as_ref().map(faults::fact));
    let roles = case.phases.iter().flat_map(|phase| &phase.roles);
    let stalls = roles.filter_map(|role| role.longest_stall);
    if let Some(stall) = stalls.max_by_key(|time| (time.ns, time.at_least)) {
        facts.push(format!("longest stall {}", text::time_in_words(stall)));
    }
    facts.push(text::plural(case.trials.len() as u64, "trial"));
    facts.join(" · ")
}

/// The trial with the longest wait of any worker: what a user would remember about this configuration.
fn most_stalled<'a>(trials: &[&'a TrialRecord]) -> Option<&'a TrialRecord> {
    let stall = |trial: &TrialRecord| -> Nanos {
        let roles = trial.phases.iter().flat_map(|phase| &phase.roles);
        roles.filter_map(|role| role.longest_stall_ns).max().unwrap_or_default()
    };
    // The first of equals.
    trials.iter().copied().reduce(|a, b| if stall(b) > stall(a) { b } else { a })
}

/// The phase with most roles, in which they compete; the last of equals.
fn main_phase(phases: &[PhaseView]) -> Option<usize> {
    (0..phases.len()).max_by_key(|index| phases[*index].roles.len())
}

fn over_time_chart(case: &CaseView, phase: &PhaseResult, names: &mut Names) -> Markup {
    if !timeline::has_chart(phase) {
        return html! {};
    }
    let (chart, height) = timeline::chart(phase);
    let label = format!(
        "{} under {}: latencies, rates and telemetry over time; the tables below the chart have the figures",
        phase.name, case.configuration.name
    );
    let caption = html! {
        strong { "Over time." }
        " A point is the slowest operation of its kind at that moment; a bar is one slow operation from \
         start to end."
        " Shaded: some worker was in an operation longer than 100 ms."
        @if phase.outage.is_some() { " Outlined: the server was away." }
    };
    chart::figure(&names.next(), &chart, height, &label, &caption)
}

fn figures(phase: &PhaseView) -> Markup {
    html! {
        @for role in &phase.roles {
            (role_figures(phase, role))
        }
        @if let Some(view) = &phase.clients { (client_figures(view)) }
        @if let Some(kernel) = &phase.kernel { p.note { (sentence(&kernel_threads(kernel))) } }
    }
}

fn client_figures(view: &ClientsView) -> Markup {
    let rows = |role: &ClientsOfRole| {
        role.clients.iter().map(|one| clients::row(role, one)).collect::<Vec<Vec<String>>>()
    };
    html! {
        p.note { (sentence(&clients::start(view))) }
        @for role in &view.roles {
            p.note { (sentence(&clients::evenness(role))) }
            (table("clients", &clients::heads(role), &rows(role)))
        }
    }
}

fn role_figures(phase: &PhaseView, role: &RoleView) -> Markup {
    let name = text::workers(role.workers, role.role.name());
    html! {
        @for remark in &role.remarks { p.alert { (remark) } }
        @if role.operations.is_empty() {
            p { strong { (name) } ": " (stalls(role)) "; " (rates(role)) }
        } @else {
            p.note {
                strong { (name) } ": " (stalls(role)) "; " (rates(role))
                @if let Some(kept_up) = open_loop(role) { "; " (kept_up) }
                @if let Some(cpu) = cpu(role) { "; " (cpu) }
                "."
            }
            div.scroll tabindex="0" role="region" aria-label={ (phase.name) ": operations of " (name) } {
                table.figures {
                    thead { tr {
                        th scope="col" { "operation" }
                        th scope="col" { "count" }
                        @for quantile in Quantile::ALL { th scope="col" { (quantile) } }
                        th scope="col" { "max" }
                    } }
                    tbody {
                        @for operation in &role.operations { (operation_row(operation)) }
                    }
                }
            }
        }
    }
}

fn operation_row(view: &OperationView) -> Markup {
    let latency = &view.latency;
    html! {
        tr {
            th scope="row" { (view.operation) }
            td { (view.count) }
            @for quantile in Quantile::ALL { td { (view.quantile(*quantile).map_or("-".to_string(), text::time)) } }
            td { @if latency.max > 0 { (text::time(view.time(latency.max))) } @else { "-" } }
        }
    }
}

/// Renders the commands that were run and the settings in force, in the first trial.
fn built(case: &CaseView, trials: &[&TrialRecord]) -> Markup {
    let times: Vec<String> = LifecycleStep::ALL
        .iter()
        .filter(|step| **step != LifecycleStep::Total)
        .filter_map(|step| {
            let time = Time { ns: step.of(&case.lifecycle)?.0, at_least: false };
            Some(format!("{} {}", step.label(), text::time_in_words(time)))
        })
        .collect();
    let unclean: Vec<_> = case.checks.iter().filter(|(_, check)| !check.clean).collect();
    html! {
        dl.facts {
            @if let Some(trial) = trials.first() {
                @for layer in &trial.environment.layers {
                    dt { "device " (layer.path) }
                    dd { (layer.in_force) @for command in &layer.commands { br; code { (command) } } }
                }
                @if !trial.configuration.built.mkfs_command.is_empty() { dt { "made \
                    with" } dd { code { (trial.configuration.built.mkfs_command) } } }
                @if !trial.configuration.built.mount_command.is_empty() { dt { "mounted \
                    with" } dd { code { (trial.configuration.built.mount_command) } } }
            }
            @if !case.mount_options_in_force.is_empty() { dt { "in \
                force" } dd { code { (case.mount_options_in_force) } } }
            @if !case.scheduler_in_force.is_empty() { dt { "scheduler" } dd { code { (case.scheduler_in_force) } } }
            @if let Some(text) = text::prepared_in(&case.prepared_in) { dt { "files" } dd { (text) } }
            @if !times.is_empty() { dt { "time taken" } dd { (times.join(", ")) } }
            @for (trial, check) in unclean {
                dt { "check of trial " (trial) } dd.alert { pre { (check.output) } }
            }
        }
    }
}
