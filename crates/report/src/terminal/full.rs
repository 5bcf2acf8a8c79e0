//! The full table of a case: every operation of every role in every phase, its distribution, and what it stalled.

use super::{Style, cell, write_table};
use crate::merge::Time;
use crate::text;
use crate::view::{CaseView, OperationView, PhaseView, RoleView};
use comfy_table::Cell;
use std::io::{self, Write};

/// Writes the full table of a case.
///
/// # Errors
/// Those of `out`.
pub fn full(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let trials: Vec<String> = case.trials.iter().map(u32::to_string).collect();
    let title = format!(
        "{} under {}: {} ({})",
        case.configuration.name,
        case.workload.kind(),
        text::plural(case.trials.len() as u64, "trial"),
        trials.join(", ")
    );
    writeln!(out, "{}", style.heading(&title))?;
    for phase in &case.phases {
        for role in &phase.roles {
            writeln!(out)?;
            write_role(out, phase, role, *style)?;
        }
    }
    Ok(())
}

fn write_role(out: &mut dyn Write, phase: &PhaseView, view: &RoleView, style: Style) -> io::Result<()> {
    let title = format!("{}, window {}: {}", phase.name, text::setting(phase.window_ns), group(view));
    writeln!(out, "{}", style.heading(&title))?;
    style.paragraph(out, 2, 2, &stalls(view))?;
    style.paragraph(out, 2, 2, &rates(view))?;
    for remark in &view.remarks {
        style.painted_paragraph(out, 2, 2, remark)?;
    }
    if !view.operations.is_empty() {
        write_operations(out, view, style)?;
    }
    Ok(())
}

fn group(view: &RoleView) -> String {
    text::plural(u64::from(view.workers), view.role.name())
}

fn stalls(view: &RoleView) -> String {
    format!(
        "longest stall {}; time in operations over 100 ms {}, over 1 s {}",
        text::time_in_words(view.longest_stall),
        text::percent(view.time_over_100ms),
        text::percent(view.time_over_1s)
    )
}

fn rates(view: &RoleView) -> String {
    let rates = &view.rates;
    if rates.bytes == 0 {
        return format!("{} operations/s", text::number(rates.operations_per_s));
    }
    let per_worker = [
        (rates.data_bytes_per_s, "MB/s per worker in data"),
        (rates.with_overhead_bytes_per_s, "MB/s per worker with overhead"),
    ];
    let mut parts = vec![format!("{} MB/s in all", text::megabytes_per_s(rates.aggregate_bytes_per_s))];
    parts.extend(
        per_worker
            .iter()
            .filter_map(|(rate, unit)| Some(format!("{} {unit}", text::megabytes_per_s((*rate)?)))),
    );
    parts.join(", ")
}

fn write_operations(out: &mut dyn Write, view: &RoleView, style: Style) -> io::Result<()> {
    let header = ["operation", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let mut table = style.table(header.map(str::to_string).to_vec());
    for operation in &view.operations {
        table.add_row(row(operation));
    }
    write_table(out, &table, 0)
}

fn row(view: &OperationView) -> Vec<Cell> {
    let latency = &view.latency;
    let mut cells = vec![Cell::new(view.operation), Cell::new(latency.count)];
    let quantiles = [latency.median, latency.p90, latency.p99, latency.p999, latency.p9999];
    cells.extend(quantiles.map(|ns| match latency.count {
        0 => Cell::new("-"),
        _ => cell(text::time(view.time(ns))),
    }));
    cells.push(match (latency.count, view.time(latency.max)) {
        (0, Time { ns: 0, .. }) => Cell::new("-"),
        (_, max) => cell(text::time(max)),
    });
    cells
}
