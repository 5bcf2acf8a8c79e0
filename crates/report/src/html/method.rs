//! The method of measurement: everything needed to judge the figures or to measure them again.

use fsdyno_core::SweepHeader;
use fsdyno_core::environment::{DeviceFacts, Swap};
use fsdyno_core::result::{PhaseResult, TimerFacts};
use fsdyno_core::{Bytes, Environment, Nanos, Outcome, TrialRecord};
use fsdyno_verdict::Workloads;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::text;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Returns whether a phase has a rate, measured or reported.
fn has_rates(phase: &PhaseResult) -> bool {
    phase.roles.iter().any(|role| role.rates.aggregate_bytes_per_s > 0.0 || role.rates.items_per_s > 0.0)
}

/// The section.
pub fn section(header: &SweepHeader, trials: &[TrialRecord]) -> Markup {
    let first = trials.iter().find(|trial| is_measured(trial)).or(trials.first());
    html! {
        section #method aria-labelledby="method-title" {
            h2 #method-title { "How it was measured" }
            (protocol(header, trials))
            @if let Some(trial) = first { (machine(&trial.environment, trials)) }
            (commands(trials))
            (seeds(trials))
            h3 { "Plan" }
            @if !header.overrides.is_empty() {
                p { "On the command line: " @for change in &header.overrides { code { "--set " (change) } " \
                    " } }
            }
            pre tabindex="0" role="region" aria-label="Plan" { (header.plan_toml) }
        }
    }
}

fn protocol(header: &SweepHeader, trials: &[TrialRecord]) -> Markup {
    let blocks: BTreeSet<u32> = trials.iter().map(|trial| trial.block).collect();
    let cases: BTreeSet<u32> = trials.iter().map(|trial| trial.case).collect();
    let sentinels = trials.iter().filter(|trial| trial.sentinel).count();
    let outcome = |word: &str| trials.iter().filter(|trial| trial.outcome.word() == word).count();
    let first = trials.iter().find(|trial| is_measured(trial));
    html! {
        h3 { "Protocol" }
        dl.facts {
            dt { "trials" }
            dd {
                (trials.len()) ": " (outcome("measured")) " measured, " (outcome("skipped")) " skipped, " (outcome("failed"))
                " failed; " (text::plural(cases.len() as u64, "case"))
            }
            dt { "order" }
            dd {
                (text::plural(blocks.len() as u64, "block")) ", each with every case once, in random order"
                @if sentinels > 0 { "; to show drift, the first case was repeated \
                    " (text::plural(sentinels as u64, "time")) " (sentinel)" }
            }
            dt { "intervals" }
            dd {
                "95 %, over trials, not operations: of means by bootstrap, of ratios by "
                @if header.looks.are_repeated() { "a confidence sequence that holds after every look at " }
                @else { "Student's t of " }
                "their logarithms; no outlier is removed"
            }
            @if let Some(trial) = first {
                @for phase in &trial.phases {
                    dt { "phase " (phase.name) }
                    dd {
                        "ramp " (text::setting(phase.ramp_ns)) ", window \
                         " (text::window(phase.window_ns, has_rates(phase))) ", drain "
                        (text::time_in_words(Time { ns: phase.drain_ns.0, at_least: false })) " in \
                            trial " (text::nth(trial.trial))
                        @if let Some(quiet) = phase.quiet {
                            @if let Some(text) = text::quiet(&[quiet]) { "; " (text) }
                        }
                        @if let Some(steady) = phase.steady {
                            @if let Some(text) = text::steadiness(&[(phase.ramp_ns, steady)]) { "; " (text) }
                        }
                    }
                }
                @if trial.trees.files > 0 {
                    dt { "trees" }
                    dd {
                        (trial.trees.files) " files in " (trial.trees.directories) " directories, "
                        (text::size(Bytes(trial.trees.bytes)))
                    }
                }
                @if let Some(timer) = &trial.timer { (timer_facts(timer)) }
                @if let Some(telemetry) = trial.phases.iter().find_map(|phase| phase.telemetry.as_ref()) {
                    dt { "telemetry" }
                    dd { "every " (text::setting(telemetry.interval_ns)) "; " (text::time_in_words(cost(telemetry.cost.cpu_ns))) " of processor time in the first phase" }
                }
            }
            dt { "seed" } dd { (header.seed) }
            dt { "started" } dd { (header.started) }
            dt { "finished" } dd { @match &header.finished { Some(finished) => { (finished) }, None => { "not yet" } } }
        }
    }
}

fn timer_facts(timer: &TimerFacts) -> Markup {
    html! {
        dt { "timer" }
        dd {
            (timer.source) ", " (text::number(timer.read_ns)) " ns per reading"
            @if let Some(overhead) = timer.overhead_ns_per_op {
                "; timing and recording an operation costs " (text::number(overhead)) " ns"
                @if let Some(with) = timer.overhead_with_telemetry_ns_per_op {
                    " (" (text::number(with)) " ns with telemetry)"
                }
                ", which is never subtracted"
            }
        }
    }
}

fn cost(cpu_ns: u64) -> Time {
    Time { ns: cpu_ns, at_least: false }
}

fn machine(environment: &Environment, trials: &[TrialRecord]) -> Markup {
    let kernels: BTreeSet<&str> = trials
        .iter()
        .map(|trial| trial.environment.kernel.as_str())
        .filter(|kernel| !kernel.is_empty())
        .collect();
    let confinements: BTreeSet<String> =
        trials.iter().filter_map(|trial| Some(trial.environment.confinement.as_ref()?.to_string())).collect();
    html! {
        h3 { "Machine and versions" }
        @if let Some(others) = other_machines(trials, &environment.hostname) { p.note { (others) } }
        dl.facts {
            (fact("fsdyno", &environment.fsdyno))
            (fact("machine", &environment.hostname))
            @for kernel in kernels { (fact("kernel", kernel)) }
            (fact("kernel command line", &environment.kernel_command_line))
            (fact("processors", &format!("{} x {}", environment.cpus, environment.cpu_model)))
            (fact("memory", &text::size(Bytes(environment.memory_bytes))))
            (fact("virtualisation", environment.virtualisation.as_deref().unwrap_or("none found")))
            (fact("clock source", &environment.clocksource))
            (fact("governor", environment.governor.as_deref().unwrap_or_default()))
            (fact("turbo", environment.turbo.map_or("", |on| if on { "on" } else { "off" })))
            (fact("NUMA nodes", &environment.numa_nodes.map(|nodes| nodes.to_string()).unwrap_or_default()))
            (fact("swap in use", &environment.swap.map(swap).unwrap_or_default()))
            (fact("load when trials began", &load(trials)))
            @for confinement in confinements { (fact("confinement", &confinement)) }
            @for (tool, version) in &environment.tools { (fact(tool, version)) }
            @for (name, value) in &environment.sysctl { (fact(name, value)) }
        }
        @for device in &environment.devices { (device_facts(device)) }
        @if !environment.geometry.trim().is_empty() {
            details { summary { "Geometry of the filesystem in the first measured \
                trial" } pre { (environment.geometry) } }
        }
    }
}

/// Whom the facts leave out, in a fleet.
fn other_machines(trials: &[TrialRecord], shown: &str) -> Option<String> {
    let all: BTreeSet<&str> = trials.iter().filter_map(|trial| trial.machine.as_deref()).collect();
    let others: Vec<&str> = all.into_iter().filter(|machine| *machine != shown).collect();
    (!others.is_empty()).then(|| {
        format!(
            "These are the facts and devices of one machine. Those of {} are in the JSON of their trials.",
            others.join(", ")
        )
    })
}

fn swap(swap: Swap) -> String {
    format!("{} of {}", text::size(Bytes(swap.used_bytes)), text::size(Bytes(swap.size_bytes)))
}

/// The lowest and the highest average of one minute.
fn load(trials: &[TrialRecord]) -> String {
    let loads = trials.iter().filter_map(|trial| Some(trial.environment.load?[0]));
    let range = loads.fold(None, |range: Option<(f64, f64)>, load| {
        let (low, high) = range.unwrap_or((load, load));
        Some((low.min(load), high.max(load)))
    });
    range.map(|(low, high)| format!("{low:.2} to {high:.2}")).unwrap_or_default()
}

fn fact(name: &str, value: &str) -> Markup {
    html! { @if !value.is_empty() { dt { (name) } dd { (value) } } }
}

fn device_facts(device: &DeviceFacts) -> Markup {
    html! {
        details {
            summary { "Device " code { (device.path) } ", " (device.model) ", " (text::size(Bytes(device.size_bytes))) }
            dl.facts {
                @if let Some(serial) = &device.serial { (fact("serial", serial)) }
                @for (name, value) in &device.queue { (fact(name, value)) }
            }
        }
    }
}

/// The exact commands of the first trial of each case.
fn commands(trials: &[TrialRecord]) -> Markup {
    let mut seen = BTreeSet::new();
    let firsts: Vec<&TrialRecord> = trials
        .iter()
        .filter(|trial| {
            !trial.configuration.built.mkfs_command.is_empty()
                || !trial.configuration.built.mount_command.is_empty()
        })
        .filter(|trial| seen.insert(trial.case))
        .collect();
    let workloads = Workloads::of(trials);
    html! {
        @if !firsts.is_empty() {
            h3 { "Exact commands" }
            details {
                summary { "mkfs and mount commands of " (text::plural(firsts.len() as u64, "case")) ", as \
                    run in the first trial of each" }
                div.scroll tabindex="0" role="region" aria-label="Exact commands" {
                    table {
                        thead { tr {
                            th scope="col" { "configuration / workload" } th scope="col" { "commands" } th scope="col" { "options in force" }
                        } }
                        tbody {
                            @for trial in firsts {
                                tr {
                                    th scope="row" { (trial.configuration.name) " / " (workloads.name(&trial.workload)) }
                                    td {
                                        @for command in trial.environment.layers.iter().rev().flat_map(|layer| &layer.commands) {
                                            code { (command) } br;
                                        }
                                        code { (trial.configuration.built.mkfs_command) } br; code { (trial.configuration.built.mount_command) }
                                    }
                                    td { code { (trial.configuration.built.mount_options_in_force) } " " code { (trial.configuration.built.scheduler_in_force) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn seeds(trials: &[TrialRecord]) -> Markup {
    let is_fleet = trials.iter().any(|trial| trial.machine.is_some());
    let workloads = Workloads::of(trials);
    html! {
        h3 { "Trials and seeds" }
        details {
            summary { (text::plural(trials.len() as u64, "trial")) " in order of execution" }
            div.scroll tabindex="0" role="region" aria-label="Trials" {
                table {
                    thead { tr {
                        @for head in ["trial", "block", "configuration", "workload", "outcome", "seed", "started", "took"] { th scope="col" { (head) } }
                        @if is_fleet { th scope="col" { "machine" } }
                    } }
                    tbody {
                        @for trial in trials {
                            tr {
                                th scope="row" { (text::nth(trial.trial)) }
                                td { (text::nth(trial.block)) }
                                td { (trial.configuration.name) @if trial.sentinel { " (sentinel)" } }
                                td { (workloads.name(&trial.workload)) }
                                td { (outcome(&trial.outcome)) }
                                td { (trial.seed) }
                                td { (trial.started) }
                                td { (took(trial.lifecycle_ns.total)) }
                                @if is_fleet { td { (trial.machine.as_deref().unwrap_or("-")) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn outcome(outcome: &Outcome) -> &'static str {
    outcome.word()
}

fn took(total: Option<Nanos>) -> String {
    total.map_or_else(|| "-".to_string(), |ns| text::time(Time { ns: ns.0, at_least: false }))
}
