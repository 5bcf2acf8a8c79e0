//! Tables of external programs: bonnie++ and postmark have those of the native workloads, fio lists its jobs,
//! all others their parts.

use super::style::{Paint, Style, write_table};
use super::{bonnie, postmark};
use comfy_table::Cell;
use fsdyno_core::result::Quantile;
use fsdyno_core::workload::Program;
use fsdyno_core::{Operation, Workload};
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, RoleView};
use std::io::{self, Write};

/// Writes a case in the layout of its program, or a table of its jobs or parts.
///
/// # Errors
/// Those of `out`.
pub fn external(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let Workload::External(parameters) = &case.workload else { return Ok(()) };
    match parameters.program {
        Program::Fio => jobs(out, case, *style),
        Program::Bonnie => bonnie::bonnie(out, case, style),
        Program::Postmark => postmark::report(out, case, style),
        _ => parts(out, case, *style),
    }
}

/// A row for each part, with its rates and its longest operation.
fn parts(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let title = format!("{}: {}", case.configuration.name, case.workload_title);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let header = ["part", "", "/s", "MB/s", "longest"];
    let mut table = style.table(header.map(str::to_string).to_vec());
    for (phase, role) in roles(case) {
        let rates = &role.rates;
        let name = role.role.name();
        let workers = text::workers(role.workers, name);
        let per_s = [rates.items_per_s, rates.operations_per_s].into_iter().find(|rate| *rate > 0.0);
        table.add_row([
            phase.to_string(),
            workers,
            per_s.map_or("-".to_string(), text::number),
            known(rates.aggregate_bytes_per_s > 0.0, text::megabytes_per_s(rates.aggregate_bytes_per_s)),
            role.longest_stall.map_or("-".to_string(), text::time),
        ]);
    }
    write_table(out, table, style)
}

/// A row for each role of each group of jobs, with its latencies.
fn jobs(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let title = format!("{}: {}", case.configuration.name, case.workload_title);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    const QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P999];
    let quantiles = QUANTILES.map(Quantile::label);
    let header = ["job", "", "MB/s", "IOPS"].into_iter().chain(quantiles).chain(["max"]);
    let mut table = style.table(header.map(str::to_string).collect());
    for (phase, role) in roles(case) {
        let rates = &role.rates;
        let mut row = vec![
            Cell::new(phase),
            Cell::new(text::workers(role.workers, role.role.name())),
            // A job that takes less than a millisecond has no rates.
            Cell::new(known(
                rates.aggregate_bytes_per_s > 0.0,
                text::megabytes_per_s(rates.aggregate_bytes_per_s),
            )),
            Cell::new(known(rates.operations_per_s > 0.0, text::number(rates.operations_per_s))),
        ];
        let moved = role.operations.iter().find(|view| view.operation != Operation::Fsync);
        match moved.filter(|view| view.latency.count > 0) {
            Some(view) => {
                let quantiles = QUANTILES.map(|of| view.quantile(of).map_or("-".to_string(), text::time));
                row.extend(quantiles.map(Cell::new));
                row.push(Cell::new(text::time(view.time(view.latency.max))));
            }
            None => row.extend(["-"; 4].map(Cell::new)),
        }
        table.add_row(row);
    }
    write_table(out, table, style)
}

fn known(is_known: bool, text: String) -> String {
    if is_known { text } else { "-".to_string() }
}

fn roles(case: &CaseView) -> impl Iterator<Item = (&str, &RoleView)> {
    case.phases.iter().flat_map(|phase| phase.roles.iter().map(move |role| (phase.name.as_str(), role)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn jobs_of_fio_have_their_latencies() {
        let mut trials = fixture::trials()[..1].to_vec();
        for role in trials[0].phases.iter_mut().flat_map(|phase| &mut phase.roles) {
            role.operations.retain(|result| [Operation::Read, Operation::Write].contains(&result.operation));
        }
        let program = Program::Fio;
        trials[0].workload =
            Workload::External(fsdyno_core::workload::External { program, ..Default::default() });
        let mut out = Vec::new();
        external(&mut out, &fixture::view("read", &trials).cases[0], &Style::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ext4 bfq: the real fio");
        assert!(lines[1].starts_with("job") && lines[1].ends_with("max"), "{text}");
        assert_eq!(lines.len(), 2 + trials[0].phases.iter().map(|phase| phase.roles.len()).sum::<usize>());
        assert!(lines[2].contains("1 reader") && lines[2].contains("us"), "{text}");
    }
}
