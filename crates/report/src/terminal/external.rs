//! The tables of programs that are not ours: what each part of their work came to, as far as they tell.

use super::{Paint, Style, write_table};
use crate::text;
use crate::view::{CaseView, RoleView};
use comfy_table::Cell;
use fsdyno_core::workload::Load;
use fsdyno_core::workload::Program;
use fsdyno_core::{Operation, Workload};
use std::io::{self, Write};

/// Writes the table of a case: the jobs of fio with their latencies, the parts of the others.
///
/// # Errors
/// Those of `out`.
pub fn external(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let Workload::External(parameters) = &case.workload else { return Ok(()) };
    style.paragraph(
        out,
        Paint::Heading,
        0,
        &format!("{}: {}", case.configuration.name, parameters.title()),
    )?;
    match parameters.program {
        Program::Fio => jobs(out, case, *style),
        Program::Bonnie | Program::Postmark => parts(out, case, *style),
    }
}

/// A row for each role of each group of jobs.
fn jobs(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let header = ["job", "", "MB/s", "IOPS", "p50", "p99", "p99.9", "max"];
    let mut table = style.table(header.map(str::to_string).to_vec());
    for (phase, role) in roles(case) {
        let rates = &role.rates;
        let mut row = vec![
            Cell::new(phase),
            Cell::new(text::plural(u64::from(role.workers), role.role.name())),
            Cell::new(text::megabytes_per_s(rates.aggregate_bytes_per_s)),
            Cell::new(text::number(rates.operations_per_s)),
        ];
        let moved = role.operations.iter().find(|view| view.operation != Operation::Fsync);
        match moved.filter(|view| view.latency.count > 0) {
            Some(view) => {
                let latency = &view.latency;
                let figures = [latency.median, latency.p99, latency.p999, latency.max];
                row.extend(figures.map(|ns| Cell::new(text::time(view.time(ns)))));
            }
            None => row.extend(["-"; 4].map(Cell::new)),
        }
        table.add_row(row);
    }
    write_table(out, table, style)
}

/// A row for each part; what the program does not tell is `-`.
fn parts(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let mut table = style.table(["part", "MB/s", "/s", "longest"].map(str::to_string).to_vec());
    for (phase, role) in roles(case) {
        let rates = &role.rates;
        let told = |rate: f64, text: String| Cell::new(if rate > 0.0 { text } else { "-".to_string() });
        table.add_row(vec![
            Cell::new(phase),
            told(rates.aggregate_bytes_per_s, text::megabytes_per_s(rates.aggregate_bytes_per_s)),
            told(rates.items_per_s, text::number(rates.items_per_s)),
            told(role.longest_stall.ns as f64, text::time(role.longest_stall)),
        ]);
    }
    write_table(out, table, style)
}

fn roles(case: &CaseView) -> impl Iterator<Item = (&str, &RoleView)> {
    case.phases.iter().flat_map(|phase| phase.roles.iter().map(move |role| (phase.name.as_str(), role)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::workload::External;
    use fsdyno_core::{Nanos, TrialRecord};

    fn text(program: Program, trials: &mut [TrialRecord]) -> String {
        for trial in &mut *trials {
            trial.workload = Workload::External(External { program, ..Default::default() });
        }
        let view = fixture::view("read", trials);
        let mut out = Vec::new();
        external(&mut out, &view.cases[0], &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn jobs_of_fio_have_their_latencies() {
        let mut trials = fixture::trials()[..1].to_vec();
        for role in trials[0].phases.iter_mut().flat_map(|phase| &mut phase.roles) {
            role.operations.retain(|result| [Operation::Read, Operation::Write].contains(&result.operation));
        }
        let text = text(Program::Fio, &mut trials);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ext4 bfq: the real fio");
        assert!(lines[1].starts_with("job") && lines[1].ends_with("max"), "{text}");
        assert_eq!(lines.len(), 2 + trials[0].phases.iter().map(|phase| phase.roles.len()).sum::<usize>());
        assert!(lines[2].contains("1 reader") && lines[2].contains("us"), "{text}");
    }

    #[test]
    fn what_a_program_does_not_tell_is_no_zero() {
        let mut trials = fixture::trials()[..1].to_vec();
        trials[0].phases.truncate(1);
        let role = &mut trials[0].phases[0].roles[0];
        (role.operations, role.worker_results) = (Vec::new(), Vec::new());
        (role.longest_stall_ns, role.rates) = (Nanos(0), Default::default());
        role.rates.items_per_s = 1234.0;
        let text = text(Program::Bonnie, &mut trials);
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["1", "reader", "-", "1234", "-"], "{text}");
    }
}
