//! The table of `streaming`: a line for each role of each stage, with its rate, the latency of one request,
//! and its cost.
//!
//! The study of 2008 printed only the rate of each direction, in MB/s, so that is the first column. A stage
//! that writes until its window ends leaves data in memory, so the second is the rate until everything is on
//! the device. The others are the number of requests and the latency of one, the longest time in which a
//! worker completed none, and the processor time of the workers per MB. Several streams also show how evenly
//! they shared: Jain's index (1 is even), and the lowest rate divided by the highest. Syncing has its own
//! line below the stage that includes its time.

use super::columns::{Column, fitting, no_room_for};
use super::compatible;
use super::style::{Paint, Style, cell, write_table};
use comfy_table::Cell;
use fsdyno_core::operation::{Moves, Role};
use fsdyno_core::result::Quantile;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, OperationView, PhaseView, RoleView};
use std::io::{self, Write};

/// Writes the table of a case.
///
/// # Errors
/// Those of `out`.
pub(super) fn streaming(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let header = compatible::header(case);
    writeln!(out, "{}", style.paint(Paint::Heading, &header))?;
    writeln!(out, "{}", "*".repeat(header.len()))?;
    writeln!(out, "{}\n", case.workload_title)?;
    let shared = case.phases.iter().flat_map(|phase| &phase.roles).any(|role| role.fairness.is_some());
    let mut header = vec!["stage", "MB/s", "durable", "requests", "median", "p99", "max", "stall", "CPU/MB"];
    if shared {
        header.extend(["even", "min/max"]);
    }
    let roles = case.phases.iter().flat_map(|phase| phase.roles.iter().map(move |role| (phase, role)));
    let mut rows: Vec<Vec<String>> = roles.flat_map(|(phase, role)| rows(phase, role, shared)).collect();
    let left_out = narrow(&mut header, &mut rows, style.width);
    let mut table = style.table(header.into_iter().map(str::to_string).collect());
    for row in rows {
        table.add_row(row.into_iter().map(cell).collect::<Vec<Cell>>());
    }
    write_table(out, table, *style)?;
    match no_room_for(&left_out) {
        Some(text) => style.paragraph(out, Paint::Plain, 0, &text),
        None => Ok(()),
    }
}

/// Leaves out the columns that do not fit into this width, and returns their names.
fn narrow(header: &mut Vec<&str>, rows: &mut [Vec<String>], width: usize) -> Vec<String> {
    let column = |index: usize| Column {
        name: header[index].to_string(),
        head: vec![header[index].to_string()],
        cells: rows.iter().map(|row| row[index].clone()).collect(),
        is_vital: false,
    };
    let (kept, left_out) = fitting((1..header.len()).map(column).collect(), width, column(0).width());
    header.truncate(1 + kept.len());
    rows.iter_mut().for_each(|row| row.truncate(header.len()));
    left_out
}

/// The line of a role, and one for each other operation that it performed.
fn rows(phase: &PhaseView, role: &RoleView, shared: bool) -> Vec<Vec<String>> {
    let moves = |view: &&OperationView| view.operation.moves() != Moves::Nothing;
    let name = match phase.roles.len() {
        1 => phase.name.clone(),
        _ => format!("{} {}", phase.name, role.role),
    };
    let durable = phase.durable.filter(|_| role.role == Role::Writer).map_or("-".to_string(), |rate| {
        let bound = if rate.at_least { ">=" } else { "" };
        format!("{bound}{}", text::megabytes_per_s(rate.value))
    });
    let mut row = vec![name, text::megabytes_per_s(role.rates.aggregate_bytes_per_s), durable];
    row.extend(latency(role.operations.iter().find(moves)));
    row.extend([role.longest_stall.map_or("-".to_string(), text::time), cpu_per_mb(role)]);
    if shared {
        row.extend(match role.fairness {
            Some(fairness) => [fairness.jain, fairness.least_to_most].map(|share| format!("{share:.3}")),
            None => ["-", "-"].map(str::to_string),
        });
    }
    let columns = row.len();
    let others = role.operations.iter().filter(|view| !moves(view)).map(|view| {
        let mut row = vec![format!("  {}", view.operation), String::new(), String::new()];
        row.extend(latency(Some(view)));
        row.resize(columns, String::new());
        row
    });
    std::iter::once(row).chain(others).collect()
}

/// Count, median, p99 and maximum. Counts are means, like rates: a stage has one window.
fn latency(view: Option<&OperationView>) -> [String; 4] {
    let none = || "-".to_string();
    match view {
        Some(view) if view.latency.count > 0 => {
            let of = |ns: u64| text::time(view.time(ns));
            let latency = &view.latency;
            [
                view.count.to_string(),
                of(latency.median()),
                latency.shown(Quantile::P99).map_or_else(none, of),
                of(latency.max),
            ]
        }
        // A request that covered the whole window is not a sample, but the maximum includes it.
        Some(view) if view.latency.max > 0 => {
            ["0".to_string(), none(), none(), text::time(view.time(view.latency.max))]
        }
        _ => [none(), none(), none(), none()],
    }
}

/// Processor time of the workers per MB (10^6 bytes) that they moved.
fn cpu_per_mb(role: &RoleView) -> String {
    match role.rates.bytes {
        0 => "-".to_string(),
        bytes => {
            let ns = u128::from(role.cpu.total().0) * 1_000_000 / u128::from(bytes);
            text::time(fsdyno_verdict::merge::Time { ns: ns as u64, at_least: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::{Durable, PhaseResult, TrialRecord};
    use fsdyno_core::workload::{Streaming, Workload};
    use fsdyno_core::{Nanos, Operation};

    /// A trial of two streams; the second wrote at half the rate of the first.
    fn trial() -> TrialRecord {
        let mut trial = fixture::trials().remove(0);
        trial.workload = Workload::Streaming(Streaming { streams: 2, ..Streaming::default() });
        let phase = |name: &str, role| PhaseResult {
            name: name.to_string(),
            roles: vec![role],
            ..trial.phases[0].clone()
        };
        let mut writers = fixture::writers(2, 300.0);
        writers.operations = vec![
            fixture::operation(Operation::Write, &fixture::around(1_000_000, 2000)),
            fixture::operation(Operation::Fsync, &[2_000_000_000, 1_000_000_000]),
        ];
        for (worker, seconds) in writers.worker_results.iter_mut().zip([10, 20]) {
            (worker.bytes, worker.active_ns) = (4 << 30, Nanos::from_secs(seconds));
        }
        let mut readers = fixture::readers(2, 500.0);
        readers.operations = vec![fixture::operation(Operation::Read, &fixture::around(2_000_000, 2000))];
        let (bytes, duration_ns) = (9_000_000_000, Nanos::from_secs(45));
        let written =
            PhaseResult { durable: Some(Durable { bytes, duration_ns }), ..phase("write", writers) };
        trial.phases = vec![written, phase("read", readers)];
        trial
    }

    fn table(trial: TrialRecord) -> Vec<String> {
        let cases = fsdyno_verdict::view::cases(&[trial]).unwrap();
        let mut out = Vec::new();
        streaming(&mut out, &cases[0], &Style::default()).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_string).collect()
    }

    #[test]
    fn each_stage_and_syncing_have_a_line() {
        let lines = table(trial());
        assert!(lines[0].starts_with("Linux "), "{lines:?}");
        assert_eq!(lines[2], "streaming, 2 files of 4G, bs 4M");
        let words: Vec<Vec<&str>> = lines[4..].iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words[0],
            [
                "stage", "MB/s", "durable", "requests", "median", "p99", "max", "stall", "CPU/MB", "even",
                "min/max"
            ]
        );
        // 0.9 s + 2.7 s for 9000 MB; (1 + 2)^2 / (2 (1 + 4)) = 0.9.
        let fields = |row: &[&str]| {
            [row[0], row[1], row[2], row[3], row[6], row[7], row[8], row[9], row[10]].join(" ")
        };
        // 9 GB in 45 s until they were on the device.
        assert_eq!(fields(&words[1]), "write 300 200 2000 100ms 40.0ms 400us 0.900 0.500");
        assert_eq!(words[2], ["fsync", "2", "1.00s", "-", "2.00s"]);
        assert_eq!(fields(&words[3]), "read 500 - 2000 200ms 40.0ms 240us 1.000 1.000");
        assert_eq!(lines.len(), 8);
        assert!(lines.iter().skip(2).all(|line| line.len() <= 80), "{lines:#?}");
    }

    /// The amount of data that arrived from a stage whose workers hung is unknown.
    #[test]
    fn a_bound_is_marked() {
        let mut trial = trial();
        trial.phases[0].durable = Some(Durable { bytes: 0, duration_ns: Nanos::from_secs(9) });
        let lines = table(trial);
        assert_eq!(lines[5].split_whitespace().nth(2), Some(">=0"), "{lines:#?}");
    }

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let mut trial = trial();
        trial.phases[0].name = "a stage with a long name".to_string();
        let lines = table(trial);
        assert!(lines.iter().skip(2).all(|line| line.len() <= 80), "{lines:#?}");
        let text = lines.join(" ");
        assert!(text.contains("(no room for even, min/max; try COLUMNS=120"), "{text}");
    }

    #[test]
    fn a_single_stream_has_no_fairness() {
        let mut trial = trial();
        trial.phases.truncate(1);
        trial.phases[0].roles[0].worker_results.truncate(1);
        let lines = table(trial);
        assert!(lines[4].ends_with("CPU/MB"), "{lines:?}");
    }
}
