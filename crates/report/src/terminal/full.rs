//! The full table of a case: every operation of every role in every phase, with its distribution and stalls.

use super::columns::no_room_for;
use super::style::{Paint, Style, cell, write_table};
use comfy_table::Cell;
use fsdyno_core::result::{Quantile, Rates};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, KernelView, PhaseView, RoleView};
use std::io::{self, Write};

/// Writes the full table of a case.
///
/// # Errors
/// Those of `out`.
pub fn full(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let numbers = text::numbers(case.trials.iter().copied());
    let trials = match case.trials.len() {
        1 => format!("trial {numbers}"),
        several if case.phases.is_empty() => format!("{several} trials merged: {numbers}"),
        several => format!(
            "{several} trials merged: {numbers} (counts, rates and processor times are means, percentiles those \
             of all)"
        ),
    };
    let title = format!("{} under {}, {trials}", case.configuration.name, case.workload_name);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    super::lifecycle::write(out, case, *style)?;
    super::losses::details(out, case, *style)?;
    for phase in &case.phases {
        let title = format!("{} ({})", phase.name, window(phase));
        writeln!(out, "\n{}", style.paint(Paint::Heading, &title))?;
        if let Some(text) = text::quiet(&phase.quiet) {
            style.paragraph(out, Paint::Plain, 0, &text)?;
        }
        if let Some(text) = text::steadiness(&phase.ramps) {
            style.paragraph(out, Paint::Plain, 0, &text)?;
        }
        for (index, role) in phase.roles.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write_role(out, role, *style)?;
        }
        if let Some(view) = &phase.clients {
            writeln!(out)?;
            super::clients::clients(out, view, *style)?;
        }
        if let Some(kernel) = &phase.kernel {
            style.paragraph(out, Paint::Plain, 0, &kernel_threads(kernel))?;
        }
    }
    Ok(())
}

/// The window of a phase, and in how many trials it was measured.
pub(crate) fn window(phase: &PhaseView) -> String {
    let rated = |role: &RoleView| role.rates.aggregate_bytes_per_s > 0.0 || role.rates.items_per_s > 0.0;
    let window = text::window(phase.window_ns, phase.roles.iter().any(rated));
    match phase.trials {
        several @ 2.. if phase.window_ns.0 > 0 => format!("{window} in each of {several} trials"),
        _ => window,
    }
}

fn write_role(out: &mut dyn Write, view: &RoleView, style: Style) -> io::Result<()> {
    let name = text::workers(view.workers, view.role.name());
    style.paragraph(out, Paint::Plain, 0, &format!("{name}: {}", stalls(view)))?;
    style.paragraph(out, Paint::Plain, 2, &rates(view))?;
    if let Some(text) = open_loop(view) {
        style.paragraph(out, Paint::Plain, 2, &text)?;
    }
    if let Some(text) = cpu(view) {
        style.paragraph(out, Paint::Plain, 2, &text)?;
    }
    for remark in &view.remarks {
        style.paragraph(out, Paint::Alert, 2, remark)?;
    }
    if !view.operations.is_empty() {
        write_operations(out, view, style)?;
    }
    Ok(())
}

/// `longest stall 40.0 ms; time over 100 ms 0.4 %, over 1 s 0`.
pub(crate) fn stalls(view: &RoleView) -> String {
    let Some(longest) = view.longest_stall.map(text::time_in_words) else {
        return "stalls not reported".to_string();
    };
    match (view.time_over_100ms, view.time_over_1s) {
        (Some(long), Some(very_long)) => format!(
            "longest stall {longest}; time over 100 ms {}, over 1 s {}",
            text::percent(long),
            text::percent(very_long)
        ),
        _ => format!("longest stall {longest}, as reported"),
    }
}

/// `45.9 MB/s in all; 115 MB/s per worker in data, 50.5 MB/s with overhead`.
pub(crate) fn rates(view: &RoleView) -> String {
    let rates = &view.rates;
    let (Some(data), Some(with_overhead)) = (rates.data_bytes_per_s, rates.with_overhead_bytes_per_s) else {
        if !view.watched {
            return reported_rates(rates);
        }
        return format!("{} operations/s in all", text::number(rates.operations_per_s));
    };
    // Tables from elsewhere may lack the rate of all workers.
    let aggregate = match rates.aggregate_bytes_per_s {
        0.0 => String::new(),
        rate => {
            let all = text::megabytes_per_s(rate);
            format!("{all} MB/s in all{}; ", without_removal(view, &all))
        }
    };
    format!(
        "{aggregate}{} MB/s per worker in data, {} MB/s with overhead",
        text::megabytes_per_s(data),
        text::megabytes_per_s(with_overhead)
    )
}

/// Returns the rate of writers without the time of making room, if that is another figure.
fn without_removal(view: &RoleView, all: &str) -> String {
    let rate = view.without_removal_bytes_per_s.map(text::megabytes_per_s).filter(|rate| rate != all);
    rate.map_or(String::new(), |rate| format!(" ({rate} MB/s without the time of removing)"))
}

/// The rates that an external program reported: `88.8 MB/s in all`, `512 items/s in all` or both.
fn reported_rates(rates: &Rates) -> String {
    let bytes = format!("{} MB/s", text::megabytes_per_s(rates.aggregate_bytes_per_s));
    let parts = [
        (rates.aggregate_bytes_per_s > 0.0, bytes),
        (rates.operations_per_s > 0.0, format!("{} operations/s", text::number(rates.operations_per_s))),
        (rates.items_per_s > 0.0, format!("{} items/s", text::number(rates.items_per_s))),
    ];
    let known: Vec<String> = parts.into_iter().filter(|(known, _)| *known).map(|(_, text)| text).collect();
    if known.is_empty() { "rates not reported".to_string() } else { format!("{} in all", known.join(", ")) }
}

/// `open loop: 200 iterations/s due (poisson), 199 /s achieved; backlog at most 12, 3 at the end`; `None` for
/// a role without a rate.
pub(crate) fn open_loop(view: &RoleView) -> Option<String> {
    let kept_up = view.open_loop?;
    let time = |ns| text::time_in_words(Time { ns, at_least: false });
    let never = match kept_up.never_begun {
        0 => String::new(),
        never => format!(", {} never begun", text::plural(never, "iteration")),
    };
    Some(format!(
        "open loop: {} iterations/s due ({}), {} /s achieved; backlog at most {}, {} at the end of the \
         window{never}; workers that waited for the moment began {} late (at most {})",
        text::number(kept_up.intended_per_s),
        kept_up.arrivals.name(),
        text::number(kept_up.achieved_per_s),
        kept_up.backlog_max,
        kept_up.backlog_at_end,
        time(kept_up.late_ns_mean.round() as u64),
        time(kept_up.late_ns_max),
    ))
}

/// `CPU 3.60 s (user 900 ms, system 2.70 s), 81.0 us per operation`, or `CPU 99 % of a processor` if a
/// program reports no more than that; `None` for trials stored without it.
pub(crate) fn cpu(view: &RoleView) -> Option<String> {
    let total_ns = view.cpu.total().0;
    let time = |ns| text::time_in_words(Time { ns, at_least: false });
    let mean = |ns: u64| time(ns / view.cpu_trials.max(1) as u64);
    let each = (view.completed > 0).then(|| format!(", {} per operation", time(total_ns / view.completed)));
    let share = || view.cpu_share.map(|share| format!("CPU {:.0} % of a processor", share * 100.0));
    let time = (total_ns > 0).then(|| {
        format!(
            "CPU {} (user {}, system {}){}",
            mean(total_ns),
            mean(view.cpu.user_ns.0),
            mean(view.cpu.system_ns.0),
            each.unwrap_or_default()
        )
    });
    time.or_else(share)
}

/// `kernel threads: writeback 300 ms, loop 1.20 s; CPU with workers 4.61 ms per MB`.
pub(crate) fn kernel_threads(view: &KernelView) -> String {
    let time = |ns| text::time_in_words(Time { ns, at_least: false });
    let kinds: Vec<String> =
        view.by_kind.iter().map(|(kind, cpu_ns)| format!("{kind} {}", time(*cpu_ns))).collect();
    let each =
        view.cpu_ns_per_megabyte.map(|ns| format!("; CPU with workers {} per MB", time(ns.round() as u64)));
    let kinds = if kinds.is_empty() { "no CPU time".to_string() } else { kinds.join(", ") };
    let of_server = if view.of_server { " of the server" } else { "" };
    format!("kernel threads{of_server}: {kinds}{}", each.unwrap_or_default())
}

/// The quantiles that make room on a narrow terminal, in this order.
const DISPENSABLE: [Quantile; 3] = [Quantile::P90, Quantile::P9999, Quantile::P99];

fn write_operations(out: &mut dyn Write, view: &RoleView, style: Style) -> io::Result<()> {
    let mut shown = Quantile::ALL.to_vec();
    let mut left_out = Vec::new();
    let mut dispensable = DISPENSABLE.into_iter();
    let rows = loop {
        let rows = rows(view, &shown);
        let width_of = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let needed = (0..rows[0].len()).map(width_of).sum::<usize>() + rows[0].len() - 1;
        let Some(next) = dispensable.next().filter(|_| needed > style.width) else { break rows };
        shown.retain(|quantile| *quantile != next);
        left_out.push(next.label());
    };
    let mut table = style.table(rows[0].clone());
    for row in &rows[1..] {
        let (name, figures) = (Cell::new(&row[0]), row[1..].iter().cloned().map(cell));
        table.add_row(std::iter::once(name).chain(figures).collect::<Vec<_>>());
    }
    write_table(out, table, style)?;
    no_room_for(&left_out).map_or(Ok(()), |text| style.paragraph(out, Paint::Plain, 0, &text))
}

/// The heading and a row for each operation.
fn rows(view: &RoleView, quantiles: &[Quantile]) -> Vec<Vec<String>> {
    let labels = quantiles.iter().map(|quantile| quantile.label());
    let head = ["operation", "count"].into_iter().chain(labels).chain(["max"]).map(str::to_string);
    let rows = view.operations.iter().map(|operation| {
        let quantile = |of: &Quantile| operation.quantile(*of).map_or("-".to_string(), text::time);
        let max = match (operation.latency.count, operation.time(operation.latency.max)) {
            (0, Time { ns: 0, .. }) => "-".to_string(),
            (_, max) => text::time(max),
        };
        let first = [operation.operation.to_string(), operation.count.to_string()];
        first.into_iter().chain(quantiles.iter().map(quantile)).chain([max]).collect()
    });
    std::iter::once(head.collect()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn text(trials: &[fsdyno_core::TrialRecord], case: usize) -> String {
        let view = fixture::view("read-under-write", trials);
        let mut out = Vec::new();
        full(&mut out, &view.cases[case], &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_blocked_writer_shows_in_the_stall_a_remark_and_the_maximum() {
        let text = text(&fixture::trials()[4..5], 0);
        let last_phase = text.split_once("3 readers, 3 writers (30 s)\n").unwrap().1;
        assert_eq!(
            last_phase,
            "\
3 writers: longest stall >= 30.0 s; time over 100 ms 33.3 %, over 1 s 33.3 %
  44.0 MB/s in all; 110 MB/s per worker in data, 48.4 MB/s with overhead
  CPU 3.60 s (user 900 ms, system 2.70 s), 241 us per operation
  writer 0: 0 completed, 1 operation >= 30 s (mkdirat, >= 62.0 s, begun 2.00 s
    before the window)
operation         count     p50     p90     p99   p99.9  p99.99      max
openat             4400  41.0us  47.6us  49.2us  49.2us       -   4.10ms
write first byte   4400  7.00us  8.12us  8.41us  8.41us       -    700us
write              8800  52.0us  60.4us  62.4us  62.4us       -   5.20ms
close              4400  16.0us  18.6us  19.2us  19.2us       -   1.60ms
mkdirat             400  25.7us  30.2us  31.2us       -       -  >=62.0s

3 readers: longest stall 40.0 ms; time over 100 ms 0.4 %, over 1 s 0 %
  33.0 MB/s in all; 82.5 MB/s per worker in data, 36.3 MB/s with overhead
  CPU 3.60 s (user 900 ms, system 2.70 s), 144 us per operation
operation        count     p50     p90     p99   p99.9  p99.99     max
readdir           4400  4.00us  4.64us  4.80us  4.80us       -   400us
statx             4125  9.01us  10.4us  10.8us  10.8us       -   900us
openat            3300  17.0us  19.7us  20.4us  20.4us       -  1.70ms
read first byte   3300   290us   337us   348us   348us       -  29.0ms
read              6600  61.0us  70.8us  73.2us  73.2us       -  6.10ms
close             3300  2.00us  2.32us  2.40us  2.40us       -   200us
"
        );
    }

    #[test]
    fn kernel_threads_are_listed_below_the_roles_that_they_worked_for() {
        let text = text(&fixture::with_telemetry(fixture::trials()), 0);
        // In each of two trials, 3.6 s of a worker and 1.5 s of writeback; 57.5 MB/s in 30 s.
        let line = "\nkernel threads: writeback 1.50 s; CPU with workers 2.96 ms per MB\n";
        assert!(text.contains(line), "{text}");
        assert_eq!(text.matches("kernel threads:").count(), 3);
    }

    #[test]
    fn merged_trials_are_named() {
        let text = text(&fixture::trials(), 0);
        assert!(text.starts_with("ext4 bfq under fileserver, 2 trials merged: 1, 5 (counts,"), "{text}");
        assert!(text.contains("\n1 reader (30 s in each of 2 trials)\n"), "{text}");
        assert!(text.contains("\n  trial 5, writer 0: 0 completed, 1 operation >= 30 s (mkdirat,"), "{text}");
    }

    #[test]
    fn an_operation_that_never_completed_has_no_quantiles() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        let mut nothing = fixture::operation(fsdyno_core::Operation::Mkdirat, &[]);
        nothing.lat_ns.max = 30_000_000_000;
        nothing.lat_ns.at_least_from = Some(30_000_000_000);
        trials[0].phases[2].roles[0].operations = vec![nothing];
        let text = text(&trials, 0);
        let row = text.lines().find(|line| line.starts_with("mkdirat")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["mkdirat", "0", "-", "-", "-", "-", "-", ">=30.0s"]);
    }
}
