//! The summary of a sweep: configurations side by side, best first, and everything that a reader must know
//! besides.
//!
//! A figure is the mean over trials, not over operations; only the longest stall is the longest of all
//! trials. Columns that do not fit the width are left out from the right and named below the table.

use super::style::{Paint, Style, bar, cell, write_table};
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use fsdyno_core::measure::{Measure, Unit};
use fsdyno_verdict::drift::Drift;
use fsdyno_verdict::outcomes::{FailedTrials, SkippedCases, WarningGroup};
use fsdyno_verdict::ranking::{CaseEstimate, LONGEST, RankedCase, Ranking};
use fsdyno_verdict::text::{self, measured as number, quantity};
use fsdyno_verdict::view::View;
use std::io::{self, Write};

/// Columns reserved for the names of configurations; longer names wrap if there is no room.
const NAME_WIDTH: usize = 22;

/// Columns of a bar.
const BAR_WIDTH: u32 = 6;

/// Lines of a failed tool's output that the summary repeats; the JSON has all of them.
const DETAIL_LINES: usize = 3;

/// Writes the summary.
///
/// # Errors
/// Those of `out`.
pub fn summary(out: &mut dyn Write, view: &View, style: &Style) -> io::Result<()> {
    for ranking in &view.rankings {
        let title = format!(
            "{}: {}, best first by {}",
            view.header.name,
            ranking.workload.load().title(),
            ranking.measure()
        );
        style.paragraph(out, Paint::Heading, 0, &title)?;
        writeln!(out)?;
        write_ranking(out, ranking, *style)?;
        writeln!(out)?;
    }
    write_notes(out, view, *style)?;
    if view.rankings.is_empty() {
        return writeln!(out, "No trial was measured.");
    }
    for ranking in &view.rankings {
        textwrap::wrap(&verdict(ranking), style.width).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// Writes the warning that the machine drifted, if it did, which comes before everything else.
///
/// # Errors
/// Those of `out`.
pub fn drift(out: &mut dyn Write, drift: Option<&Drift>, style: &Style) -> io::Result<()> {
    let Some(warning) = drift.and_then(Drift::warning) else { return Ok(()) };
    style.paragraph(out, Paint::Alert, 0, &format!("drift: {warning}"))?;
    writeln!(out)
}

/// One column of the table: the lines of its heading, and a cell for each row.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) head: Vec<String>,
    pub(super) cells: Vec<String>,
}

impl Column {
    pub(super) fn width(&self) -> usize {
        self.head.iter().chain(&self.cells).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

fn write_ranking(out: &mut dyn Write, ranking: &Ranking, style: Style) -> io::Result<()> {
    let rows = &ranking.rows;
    let names = Column {
        name: "configuration".to_string(),
        head: vec!["configuration".to_string()],
        cells: rows.iter().map(|row| row.name.clone()).collect(),
    };
    let name_width = names.width().min(NAME_WIDTH);
    let (mut shown, left_out) = fitting(columns(ranking), style.width, name_width);
    // Bars are drawn only if no figure has to make room for them.
    let taken = name_width + shown.iter().map(|column| 1 + column.width()).sum::<usize>();
    let bars = bars(rows);
    if style.blocks && taken + 1 + bars.width() <= style.width {
        shown.insert(1, bars);
    }

    let depth = shown.iter().map(|column| column.head.len()).max().unwrap_or(1);
    let heads = std::iter::once(&names).chain(&shown);
    // Headings are aligned at the bottom: shorter ones get empty lines above.
    let heads: Vec<String> = heads
        .map(|column| format!("{}{}", "\n".repeat(depth - column.head.len()), column.head.join("\n")))
        .collect();
    let mut table = style.table(heads);
    for (index, name) in names.cells.iter().enumerate() {
        let mut cells =
            vec![if index == 0 { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) }];
        cells.extend(shown.iter().map(|column| cell(column.cells[index].clone())));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_constraint(ColumnConstraint::ContentWidth);
        column.set_cell_alignment(CellAlignment::Right);
    }
    write_table(out, table, style)?;
    let several = rows.iter().any(|row| row.trials > 1);
    if several && shown.iter().skip(1).any(|column| column.name == LONGEST) {
        style.paragraph(
            out,
            Paint::Plain,
            0,
            "(means over n trials; longest-stall: the longest of all trials)",
        )?;
    } else if several {
        style.paragraph(out, Paint::Plain, 0, "(means over n trials)")?;
    }
    if !left_out.is_empty() {
        style.paragraph(
            out,
            Paint::Plain,
            0,
            &format!("(no room for {}; see --format json)", left_out.join(", ")),
        )?;
    }
    Ok(())
}

/// The columns after the name, the most important first.
fn columns(ranking: &Ranking) -> Vec<Column> {
    let rows = &ranking.rows;
    let mut columns: Vec<Column> =
        ranking.measures.iter().enumerate().map(|(i, m)| measure_column(i, m, rows)).collect();
    let counts = |name: &str, count: fn(&RankedCase) -> usize| Column {
        name: name.to_string(),
        head: vec![name.to_string()],
        cells: rows.iter().map(|row| count(row).to_string()).collect(),
    };
    columns.insert(1, counts("n", |row| row.trials));
    columns.insert(2, counts("warn", |row| row.warning_kinds));
    columns.splice(1..1, medians(ranking));
    columns
}

/// The medians of the deciding measure beside its means, if there are enough trials for them.
fn medians(ranking: &Ranking) -> Option<Column> {
    let median = |row: &RankedCase| row.figures[0].and_then(|figure| Some((figure, figure.median?)));
    if !ranking.rows.iter().any(|row| median(row).is_some()) {
        return None;
    }
    let unit = ranking.measure().unit();
    let show = |(figure, median): (CaseEstimate, f64)| number(unit, median, figure.at_least);
    let cells = ranking.rows.iter().map(|row| median(row).map_or("-".to_string(), show)).collect();
    Some(Column { name: "median".to_string(), head: vec!["median".to_string()], cells })
}

/// The deciding measure as bars, the largest of which fills the column.
fn bars(rows: &[RankedCase]) -> Column {
    let value = |row: &RankedCase| row.figures[0].map(|figure| figure.estimate.value);
    let largest = rows.iter().filter_map(value).fold(0.0, f64::max);
    let drawn = |row: &RankedCase| value(row).map_or(String::new(), |value| bar(value / largest, BAR_WIDTH));
    let padded = |text: String| format!("{text:<width$}", width = BAR_WIDTH as usize);
    Column {
        name: String::new(),
        head: vec![String::new()],
        cells: rows.iter().map(|row| padded(drawn(row))).collect(),
    }
}

fn measure_column(index: usize, measure: &Measure, rows: &[RankedCase]) -> Column {
    let unit = measure.unit();
    let mut head: Vec<String> = if index == 0 {
        vec![measure.name().to_string()]
    } else {
        measure.name().split_inclusive('-').map(str::to_string).collect()
    };
    let figures = || rows.iter().filter_map(|row| row.figures[index]);
    let interval = index == 0 && figures().any(|figure| figure.estimate.interval.is_some());
    // Times have their unit in the cell.
    let symbol = (unit != Unit::Nanoseconds).then_some(unit.symbol());
    let last: Vec<&str> = symbol.into_iter().chain(interval.then_some("[95 % interval]")).collect();
    if !last.is_empty() {
        head.push(last.join(" "));
    }
    let show = |figure: CaseEstimate| match index {
        0 => with_interval(unit, figure),
        _ if measure.name() == LONGEST => number(unit, figure.max, figure.at_least),
        _ => shown(unit, figure),
    };
    let cells = rows.iter().map(|row| row.figures[index].map_or_else(|| "-".to_string(), show)).collect();
    Column { name: measure.name().to_string(), head, cells }
}

/// The columns that fit, and the names of the others.
pub(super) fn fitting(
    mut columns: Vec<Column>,
    width: usize,
    name_width: usize,
) -> (Vec<Column>, Vec<String>) {
    let mut left_out = Vec::new();
    let needed =
        |columns: &[Column]| name_width + columns.iter().map(|column| 1 + column.width()).sum::<usize>();
    while columns.len() > 1 && needed(&columns) > width {
        left_out.extend(columns.pop().map(|column| column.name));
    }
    left_out.reverse();
    (columns, left_out)
}

fn shown(unit: Unit, figure: CaseEstimate) -> String {
    number(unit, figure.estimate.value, figure.at_least)
}

fn with_interval(unit: Unit, figure: CaseEstimate) -> String {
    match figure.estimate.interval {
        None => shown(unit, figure),
        Some(interval) => format!(
            "{} [{}, {}]",
            shown(unit, figure),
            number(unit, interval.low, false),
            number(unit, interval.high, figure.at_least)
        ),
    }
}

/// Everything that a reader must know besides the figures, followed by an empty line if there is anything.
fn write_notes(out: &mut dyn Write, view: &View, style: Style) -> io::Result<()> {
    let change = view.drift.as_ref().and_then(sentinel);
    let unsteady = view.drift.as_ref().and_then(Drift::unsteady);
    let notes: Vec<String> = few_trials(view).into_iter().chain(change).chain(unsteady).collect();
    write_messages(out, &notes, &view.warnings, &view.skipped, &view.failed, style)
}

/// Notes, warnings, and what was not measured, followed by an empty line if there is anything.
pub(super) fn write_messages(
    out: &mut dyn Write,
    notes: &[String],
    warnings: &[WarningGroup],
    skipped: &[SkippedCases],
    failed: &[FailedTrials],
    style: Style,
) -> io::Result<()> {
    let mut lines = Vec::new();
    for note in notes {
        style.paragraph(&mut lines, Paint::Plain, 0, &format!("note: {note}"))?;
    }
    for group in warnings {
        let trials = text::plural(group.trials as u64, "trial");
        let text = format!("warning: {} ({trials}): {}", group.kind, group.example);
        style.paragraph(&mut lines, Paint::Alert, 0, &text)?;
    }
    for group in skipped {
        let text = format!("skipped: {}: {}", several(&group.names), group.unmet.join("; "));
        style.paragraph(&mut lines, Paint::Plain, 0, &text)?;
    }
    for failed in failed {
        let numbers: Vec<String> = failed.trials.iter().map(u32::to_string).collect();
        let noun = if numbers.len() == 1 { "trial" } else { "trials" };
        let text = format!("failed: {noun} {}, {}: {}", numbers.join(", "), failed.name, failed.error);
        style.paragraph(&mut lines, Paint::Alert, 0, &text)?;
        for line in end_of(&failed.error.details) {
            style.paragraph(&mut lines, Paint::Plain, 2, line)?;
        }
        if let Some(hint) = &failed.error.hint {
            style.paragraph(&mut lines, Paint::Plain, 2, &format!("hint: {hint}"))?;
        }
    }
    if !lines.is_empty() {
        lines.push(b'\n');
    }
    out.write_all(&lines)
}

/// The last lines of a tool's output, which say what went wrong.
fn end_of(details: &str) -> Vec<&str> {
    let lines: Vec<&str> = details.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(DETAIL_LINES)..].to_vec()
}

/// The first few names, and how many more there are.
fn several(names: &[String]) -> String {
    match names.len() {
        0..=4 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

/// What the intervals cannot show, once for each number of trials.
fn few_trials(view: &View) -> Vec<String> {
    let mut estimates: Vec<_> =
        view.rankings.iter().flat_map(Ranking::ranked).map(|(_, figure)| figure.estimate).collect();
    estimates.sort_by_key(|estimate| estimate.n);
    estimates.dedup_by_key(|estimate| estimate.n);
    estimates.iter().filter_map(|estimate| estimate.note()).map(str::to_string).collect()
}

/// How much the sentinel varied, although its configuration did not.
pub(crate) fn sentinel(seen: &Drift) -> Option<String> {
    let measure: Measure = seen.measure.parse().ok()?;
    let (lowest, highest) = seen.range();
    (seen.values.len() > 1).then(|| {
        format!(
            "the {} trials of the sentinel, {}, range from {} to {}; the machine itself varies by this much",
            seen.values.len(),
            seen.name,
            quantity(&measure, lowest, false),
            quantity(&measure, highest, false)
        )
    })
}

/// One sentence: which configuration is best, and whether these trials separate it from the next one.
fn verdict(ranking: &Ranking) -> String {
    let measure = ranking.measure();
    let mut ranked = ranking.ranked();
    let Some((first, best)) = ranked.next() else {
        return format!("No trial has a value for {measure}.");
    };
    let best_text = quantity(measure, best.estimate.value, best.at_least);
    let Some((second, next)) = ranked.next() else {
        return format!("{} has {best_text} ({measure}); there is nothing to compare it with.", first.name);
    };
    let lead = format!(
        "{} is best by {measure} ({best_text}), ahead of {} ({})",
        first.name,
        second.name,
        quantity(measure, next.estimate.value, next.at_least)
    );
    let few = best.estimate.note().or(next.estimate.note()).is_some();
    match (best.estimate.interval, next.estimate.interval) {
        (Some(a), Some(b)) if a.overlaps(&b) => {
            format!("{lead}; their 95 % intervals overlap, so these trials do not show which is better.")
        }
        (Some(_), Some(_)) if few => {
            format!("{lead}; their 95 % intervals do not overlap, but so few trials do not prove it.")
        }
        (Some(_), Some(_)) => format!("{lead}; their 95 % intervals do not overlap."),
        _ => format!("{lead}; without a second trial of each, this may be chance."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::TrialRecord;

    fn text(measure: &str, trials: &[TrialRecord]) -> String {
        let mut out = Vec::new();
        summary(&mut out, &fixture::view(measure, trials), &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_summary_with_notes_warnings_skipped_and_failed_trials() {
        assert_eq!(
            text("read-under-write", &fixture::trials()),
            "\
demo: fileserver on 20G of trees, 3 readers and 3 writers, window 30s, best
  first by read-under-write

                                               read-       first-
                  read-under-write        read  many write  byte- longest-
configuration MB/s [95 % interval] n warn MB/s  MB/s  MB/s   p999    stall
ext4 bfq         34.5 [33.0, 36.0] 2    2 57.5  80.5  46.0  348us  >=30.0s
xfs bfq          29.4 [28.8, 30.0] 2    1 49.0  68.6  39.2  348us   40.0ms
(means over n trials; longest-stall: the longest of all trials)

note: with 2 trials the interval is their range and holds the true mean in about
  50 % of cases, not 95 %
warning: tree-smaller-than-memory (6 trials): the trees (20 GiB) are smaller
  than the memory (64 GiB)
warning: censored (1 trial): 1 operation had not ended when the drain was over
skipped: btrfs bfq: program 'mkfs.btrfs' is not installed; the kernel has no
  btrfs
failed: trial 5, xfs bfq: 3 readers, 3 writers: write 'w1/d0/f3': no space left
  on device (ENOSPC)
  hint: make the image larger

ext4 bfq is best by read-under-write (34.5 MB/s), ahead of xfs bfq (29.4 MB/s);
their 95 % intervals do not overlap, but so few trials do not prove it.
"
        );
    }

    #[test]
    fn a_measure_of_time_ranks_the_shortest_first() {
        let text = text("longest-stall", &fixture::trials());
        assert!(
            text.contains("xfs bfq is best by longest-stall (40.0 ms), ahead of ext4 bfq (>= 15.0 s)"),
            "{text}"
        );
    }

    #[test]
    fn overlapping_intervals_are_inconclusive() {
        let rates = [(0, 50.0), (0, 56.0), (1, 49.0), (1, 55.0)];
        let trials: Vec<TrialRecord> = (0..)
            .zip(rates)
            .map(|(number, (case, rate))| {
                let filesystem = ["ext4", "xfs"][case as usize];
                fixture::trial(number, number % 2, case, fixture::configuration(filesystem, "bfq"), rate)
            })
            .collect();
        let text = text("read", &trials);
        assert!(
            text.ends_with("intervals overlap, so these trials do not show which is better.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_single_configuration_has_nothing_to_compare_with() {
        let text = text("read", &fixture::trials()[..1]);
        assert!(
            text.ends_with("\next4 bfq has 60.0 MB/s (read); there is nothing to compare it with.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_sweep_without_measured_trials_says_why() {
        let text = text("read", &fixture::trials()[2..3]);
        assert!(
            text.contains("skipped: btrfs bfq: program 'mkfs.btrfs' is not installed; the kernel"),
            "{text}"
        );
        assert!(text.ends_with("\nNo trial was measured.\n"), "{text}");
    }

    #[test]
    fn a_failure_shows_the_end_of_the_tools_output() {
        let mut trials = fixture::trials();
        let fsdyno_core::Outcome::Failed { error } = &mut trials[5].outcome else { panic!("trial 5 failed") };
        error.details = "mkfs.xfs 6.1\none\n\ntwo\nERROR: device is too small\n".to_string();
        let text = text("read", &trials);
        assert!(
            text.contains("(ENOSPC)\n  one\n  two\n  ERROR: device is too small\n  hint: make"),
            "{text}"
        );
    }

    #[test]
    fn a_sentinel_shows_what_the_machine_itself_varies() {
        let mut trials = fixture::trials();
        let mut sentinel = fixture::trial(6, 1, 0, fixture::configuration("ext4", "bfq"), 54.0);
        sentinel.sentinel = true;
        trials.push(sentinel);
        let text = text("read", &trials);
        let note = "note: the 3 trials of the sentinel, ext4 bfq, range from 54.0 MB/s to";
        assert!(text.contains(note), "{text}");
    }
}
