//! The full table of a case: every operation of every role in every phase, its distribution, and what it stalled.

use super::{Paint, Style, cell, write_table};
use crate::merge::Time;
use crate::text;
use crate::view::{CaseView, OperationView, RoleView};
use comfy_table::Cell;
use std::io::{self, Write};

/// Writes the full table of a case.
///
/// # Errors
/// Those of `out`.
pub fn full(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let numbers: Vec<String> = case.trials.iter().map(u32::to_string).collect();
    let trials = match &numbers[..] {
        [only] => format!("trial {only}"),
        several => format!("{} trials merged: {}", several.len(), several.join(", ")),
    };
    let title = format!("{} under {}, {trials}", case.configuration.name, case.workload.kind());
    style.paragraph(out, Paint::Heading, 0, &title)?;
    for phase in &case.phases {
        let title = format!("{} ({})", phase.name, text::setting(phase.window_ns));
        writeln!(out, "\n{}", style.paint(Paint::Heading, &title))?;
        for (index, role) in phase.roles.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write_role(out, role, *style)?;
        }
    }
    Ok(())
}

fn write_role(out: &mut dyn Write, view: &RoleView, style: Style) -> io::Result<()> {
    let name = text::plural(u64::from(view.workers), view.role.name());
    style.paragraph(out, Paint::Plain, 0, &format!("{name}: {}", stalls(view)))?;
    style.paragraph(out, Paint::Plain, 2, &rates(view))?;
    for remark in &view.remarks {
        style.paragraph(out, Paint::Alert, 2, remark)?;
    }
    if !view.operations.is_empty() {
        write_operations(out, view, style)?;
    }
    Ok(())
}

fn stalls(view: &RoleView) -> String {
    format!(
        "longest stall {}; time over 100 ms {}, over 1 s {}",
        text::time_in_words(view.longest_stall),
        text::percent(view.time_over_100ms),
        text::percent(view.time_over_1s)
    )
}

/// `45.9 MB/s in all; 115 MB/s per worker in data, 50.5 MB/s with overhead`.
fn rates(view: &RoleView) -> String {
    let rates = &view.rates;
    let (Some(data), Some(with_overhead)) = (rates.data_bytes_per_s, rates.with_overhead_bytes_per_s) else {
        return format!("{} operations/s in all", text::number(rates.operations_per_s));
    };
    format!(
        "{} MB/s in all; {} MB/s per worker in data, {} MB/s with overhead",
        text::megabytes_per_s(rates.aggregate_bytes_per_s),
        text::megabytes_per_s(data),
        text::megabytes_per_s(with_overhead)
    )
}

fn write_operations(out: &mut dyn Write, view: &RoleView, style: Style) -> io::Result<()> {
    let header = ["operation", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let mut table = style.table(header.map(str::to_string).to_vec());
    for operation in &view.operations {
        table.add_row(row(operation));
    }
    write_table(out, table, style)
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
