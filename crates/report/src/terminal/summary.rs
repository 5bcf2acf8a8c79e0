//! The summary of a sweep: the answer, the configurations side by side, best first, and everything that a
//! reader must know before believing either.
//!
//! The answer is that of the recommendation, so that no command crowns what another would not. A figure is
//! the mean over trials, not over operations; only the longest stall, unless it decides, is the longest of
//! all trials. Columns that do not fit the width are left out from the right and named below the table.

use super::columns::{Column, WEAKENS, WEAKENS_LEGEND, fitting, marked, no_room_for};
use super::page::{Extent, Page, Rows, doubts, elsewhere, sentences};
use super::style::{Paint, Style, bar, cell, write_table};
use super::{faults, losses};
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use fsdyno_core::measure::Unit;
use fsdyno_core::printed;
use fsdyno_verdict::outcomes::{FailedTrials, SkippedCases, WarningGroup};
use fsdyno_verdict::ranking::{CaseEstimate, RankedCase, Ranking};
use fsdyno_verdict::recommendation::{Answer, Contender};
use fsdyno_verdict::text::{self, interval_name, measured as number};
use fsdyno_verdict::view::View;
use std::io::{self, Write};

/// The measure whose name does not say that it has fewer readers than the others.
const ONE_READER: &str = "read";
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
pub fn summary(out: &mut dyn Write, view: &View, extent: Extent<'_>, style: &Style) -> io::Result<()> {
    let mut text = Vec::new();
    let notes = view.notes();
    let messages = Messages {
        notes: &notes,
        warnings: &view.warnings,
        measured: view.measured,
        skipped: &view.recommendation.skipped,
        failed: &view.recommendation.failed,
    };
    for (ranking, answer) in view.rankings.iter().zip(&view.recommendation.answers) {
        page(&mut text, view, (ranking, answer), extent, *style)?;
        writeln!(text)?;
    }
    if view.rankings.is_empty() {
        writeln!(text, "No configuration was measured.\n")?;
    }
    if view.rankings.is_empty() || !matches!(extent, Extent::Page(_)) {
        messages.write(&mut text, *style)?;
    } else {
        // The last page goes on to it.
        text.pop();
        for workload in &view.recommendation.unanswered {
            style.paragraph(&mut text, Paint::Alert, 0, &format!("failed: {workload}"))?;
        }
        elsewhere(&mut text, messages.count(), extent, *style)?;
        writeln!(text)?;
    }
    // Each part ends with an empty line, and nothing follows the last.
    text.pop();
    out.write_all(&text)
}

/// One answer.
fn page(
    out: &mut dyn Write,
    view: &View,
    (ranking, answer): (&Ranking, &Answer),
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let mut head = Vec::new();
    style.paragraph(&mut head, Paint::Heading, 0, &title(view, ranking))?;
    writeln!(head)?;
    let (headline, paragraphs) = sentences(answer, style)?;
    head.extend(headline);
    // A page has room for one table: where a share of what was lost decides, the one of what was lost.
    let own = Own::of(ranking);
    let is_page = matches!(extent, Extent::Page(_));
    let instead = own.filter(|_| is_page && ranking.measure().unit() == Unit::Share);
    let foot = |out: &mut dyn Write, most: usize| {
        if let Some(own) = own.filter(|_| !is_page) {
            writeln!(out)?;
            own.write(out, ranking, &|_| true, extent, style)?;
        }
        doubts(out, answer, most, extent, style)
    };
    let of = |contender: Option<&Contender>| {
        let case = contender?.case;
        ranking.rows.iter().position(|row| row.case == case)
    };
    let first = [of(answer.leader()), of(answer.default())].into_iter().flatten().collect();
    let write = |out: &mut dyn Write, shown: &dyn Fn(usize) -> bool| match instead {
        Some(own) => own.write(out, ranking, shown, extent, style),
        None => write_ranking(out, (ranking, answer), shown, extent, style),
    };
    let rows = Rows { count: ranking.rows.len(), first, write: &write };
    Page { head, paragraphs, rows, doubts: answer.doubts.len(), foot: &foot }.write(out, extent, style)
}

/// The table of a workload that has one of its own.
#[derive(Debug, Clone, Copy)]
enum Own {
    Losses,
    Faults,
}

impl Own {
    fn of(ranking: &Ranking) -> Option<Own> {
        let known = [(losses::are_known(ranking), Own::Losses), (faults::are_known(ranking), Own::Faults)];
        known.into_iter().find(|(is, _)| *is).map(|(_, own)| own)
    }

    fn write(
        self,
        out: &mut dyn Write,
        ranking: &Ranking,
        is_shown: &dyn Fn(usize) -> bool,
        extent: Extent<'_>,
        style: Style,
    ) -> io::Result<()> {
        match self {
            Own::Losses => losses::worst(out, ranking, is_shown, extent, style),
            Own::Faults => faults::summary(out, ranking, is_shown, extent, style),
        }
    }
}

/// Returns the name of the sweep, and the title of the workload.
pub(crate) fn title(view: &View, ranking: &Ranking) -> String {
    format!("{}: {}", view.header.name, ranking.title)
}

fn write_ranking(
    out: &mut dyn Write,
    (ranking, answer): (&Ranking, &Answer),
    is_shown: &dyn Fn(usize) -> bool,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let rows = &ranking.rows;
    let weak = rows.iter().any(|row| !row.risks.is_empty());
    let winner = answer.winner().map(|winner| winner.case);
    let names = Column {
        name: "configuration".to_string(),
        head: vec!["configuration".to_string()],
        cells: rows.iter().map(|row| marked(&row.name, row.risks.is_empty(), weak)).collect(),
        is_vital: true,
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
    for (index, name) in names.cells.iter().enumerate().filter(|(index, _)| is_shown(*index)) {
        let is_winner = winner == Some(rows[index].case);
        let name = Cell::new(name);
        let mut cells = vec![if is_winner { name.add_attribute(Attribute::Bold) } else { name }];
        cells.extend(shown.iter().map(|column| cell(column.cells[index].clone())));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_constraint(ColumnConstraint::ContentWidth);
        column.set_cell_alignment(CellAlignment::Right);
    }
    write_table(out, table, style)?;
    let mut below = below(ranking, &shown, &left_out);
    if let Extent::Page(_) = extent {
        // In as few lines as possible.
        let inner = below.iter().map(|line| line.trim_start_matches('(').trim_end_matches(')'));
        let joined = inner.collect::<Vec<_>>().join("; ");
        below = if below.is_empty() { Vec::new() } else { vec![format!("({joined})")] };
    }
    below.iter().try_for_each(|line| style.paragraph(out, Paint::Plain, 0, line))
}

/// Returns the explanation of the table, and the list of what is not in it.
fn below(ranking: &Ranking, shown: &[Column], left_out: &[String]) -> Vec<String> {
    let several = ranking.rows.iter().any(|row| row.trials > 1);
    let longest = shown.iter().skip(1).any(|column| column.name.ends_with(" (max)"));
    let explained = [
        several.then_some("geometric means over n trials"),
        shown.iter().any(|column| column.name == ONE_READER).then_some("read: by one reader"),
        (several && longest).then_some("(max): the longest of all"),
    ];
    let explained: Vec<&str> = explained.into_iter().flatten().collect();
    let means = (!explained.is_empty()).then(|| format!("({})", explained.join("; ")));
    let weak = ranking.rows.iter().any(|row| !row.risks.is_empty());
    let weak = weak.then(|| format!("({WEAKENS}: {WEAKENS_LEGEND})"));
    means.into_iter().chain(weak).chain(no_room_for(left_out)).collect()
}

/// The columns after the name, the most important first.
pub(crate) fn columns(ranking: &Ranking) -> Vec<Column> {
    let rows = &ranking.rows;
    let mut columns: Vec<Column> =
        (0..ranking.measures.len()).map(|index| measure_column(ranking, index)).collect();
    let counts = |name: &str, count: fn(&RankedCase) -> usize| Column {
        name: name.to_string(),
        head: vec![name.to_string()],
        cells: rows.iter().map(|row| count(row).to_string()).collect(),
        is_vital: false,
    };
    columns.insert(1, counts("n", RankedCase::with_value));
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
    Some(Column { name: "median".to_string(), head: vec!["median".to_string()], cells, is_vital: false })
}

/// The deciding measure as bars, the largest of which fills the column.
fn bars(rows: &[RankedCase]) -> Column {
    let value = |row: &RankedCase| row.figures[0].map(|figure| figure.estimate.value);
    let largest = rows.iter().filter_map(value).fold(0.0, f64::max);
    let share = |value: f64| if largest > 0.0 { value / largest } else { 0.0 };
    let drawn = |row: &RankedCase| value(row).map_or(String::new(), |value| bar(share(value), BAR_WIDTH));
    let padded = |text: String| format!("{text:<width$}", width = BAR_WIDTH as usize);
    Column {
        name: String::new(),
        head: vec![String::new()],
        cells: rows.iter().map(|row| padded(drawn(row))).collect(),
        is_vital: false,
    }
}

fn measure_column(ranking: &Ranking, index: usize) -> Column {
    let (rows, name) = (&ranking.rows, ranking.heading(index));
    let unit = ranking.measures[index].unit();
    let mut head: Vec<String> = match index {
        0 => vec![name.clone()],
        _ => name.split_inclusive('-').map(str::to_string).collect(),
    };
    // Times have their unit in the cell.
    let symbol = (unit != Unit::Nanoseconds).then(|| unit.symbol().to_string());
    let last: Vec<String> =
        symbol.into_iter().chain((index == 0).then(|| interval(ranking)).flatten()).collect();
    if !last.is_empty() {
        head.push(last.join(" "));
    }
    let show = |row: &RankedCase, figure: CaseEstimate| match (index, row.only(index)) {
        (0, _) => with_interval(unit, figure),
        (_, None) => number(unit, ranking.shown(index, figure), figure.at_least),
        (_, Some(trials)) => {
            format!("{} ({trials})", number(unit, ranking.shown(index, figure), figure.at_least))
        }
    };
    let cell =
        |row: &RankedCase| row.figures[index].map_or_else(|| "-".to_string(), |figure| show(row, figure));
    let cells = rows.iter().map(cell).collect();
    // Users feel the longest stall more than any mean.
    let is_vital = index == 0 || ranking.is_longest(index);
    Column { name, head, cells, is_vital }
}

/// `[95 % interval]`, or what it is called with so few trials; `None` if there are none.
fn interval(ranking: &Ranking) -> Option<String> {
    let with_one =
        || ranking.ranked().map(|(_, figure)| figure.estimate).filter(|one| one.interval.is_some());
    with_one().next().map(|_| format!("[{}]", interval_name(with_one().map(|one| one.n))))
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
            number(unit, interval.low, figure.low_at_least),
            number(unit, interval.high, figure.at_least)
        ),
    }
}

/// Notes, warnings, and what was not measured.
pub(super) struct Messages<'a> {
    pub notes: &'a [String],
    pub warnings: &'a [WarningGroup],
    /// Trials that could carry a warning.
    pub measured: usize,
    pub skipped: &'a [SkippedCases],
    pub failed: &'a [FailedTrials],
}

impl Messages<'_> {
    /// Returns the number of notes and the number of warnings.
    pub fn count(&self) -> [usize; 2] {
        let noted = self.warnings.iter().filter(|group| group.is_note(self.measured)).count();
        [self.notes.len() + noted, self.warnings.len() - noted + self.skipped.len() + self.failed.len()]
    }

    /// Writes them, followed by an empty line if there is anything.
    pub fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let mut lines = Vec::new();
        for note in self.notes {
            style.paragraph(&mut lines, Paint::Plain, 0, &format!("note: {note}"))?;
        }
        for group in self.warnings {
            let trials = text::plural(group.trials as u64, "trial");
            let (word, paint) = match group.is_note(self.measured) {
                true => ("note", Paint::Plain),
                false => ("warning", Paint::Alert),
            };
            let text = format!("{word}: {} ({trials}): {}", group.kind, group.example);
            style.paragraph(&mut lines, paint, 0, &text)?;
        }
        for group in self.skipped {
            let text = format!("skipped: {}: {}", text::several(&group.names), group.unmet.join("; "));
            style.paragraph(&mut lines, Paint::Plain, 0, &text)?;
        }
        self.failed.iter().try_for_each(|failed| write_failure(&mut lines, failed, style))?;
        if !lines.is_empty() {
            lines.push(b'\n');
        }
        out.write_all(&lines)
    }
}

fn write_failure(out: &mut dyn Write, failed: &FailedTrials, style: Style) -> io::Result<()> {
    let numbers = text::numbers(failed.trials.iter().copied());
    let noun = if failed.trials.len() == 1 { "trial" } else { "trials" };
    let text = format!("failed: {noun} {numbers}, {}: {}", failed.name, failed.error);
    style.paragraph(out, Paint::Alert, 0, &text)?;
    for line in printed::cause(&failed.error.details, DETAIL_LINES) {
        style.paragraph(out, Paint::Plain, 2, line)?;
    }
    match &failed.error.hint {
        Some(hint) => style.paragraph(out, Paint::Plain, 2, &format!("hint: {hint}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::{TrialRecord, Warning, WarningKind};

    fn text(measure: &str, trials: &[TrialRecord]) -> String {
        let mut out = Vec::new();
        summary(&mut out, &fixture::view(measure, trials), Extent::Notes, &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_longest_stall_is_the_last_to_make_room() {
        let narrow = |width| {
            let mut out = Vec::new();
            let style = Style { width, ..Style::default() };
            summary(&mut out, &fixture::view("read-under-write", &fixture::trials()), Extent::Notes, &style)
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = narrow(65);
        assert!(text.contains("stall (max)\n") && text.contains(">=30.0s\n"), "{text}");
        assert!(text.contains("(no room for write, first-byte-p999; try"), "{text}");
        // Then it is its turn, and the deciding measure stays.
        assert!(narrow(40).contains("longest-stall (max)"), "{}", narrow(40));
    }

    #[test]
    fn a_summary_with_notes_warnings_skipped_and_failed_trials() {
        assert_eq!(
            text("read-under-write", &fixture::trials()),
            "\
demo: fileserver on 20G of trees, 3 readers and 3 writers, window 30s

This sweep cannot answer: 1 of 3 trials of xfs bfq failed, and may have been the
  worst. Keep the default, 'ext4 bfq'.

                                            read-       first-
               read-under-write        read  many write  byte-    longest-
configuration      MB/s [range] n warn MB/s  MB/s  MB/s   p999 stall (max)
ext4 bfq      34.5 [33.0, 36.0] 2    2 57.4  80.4  46.0  348us     >=30.0s
xfs bfq       29.4 [28.8, 30.0] 2    1 49.0  68.6  39.2  348us      40.0ms
(geometric means over n trials; read: by one reader; (max): the longest of all)

doubt: 1 of 3 trials of xfs bfq failed; its figures are those of the others
doubt: censored in 1 of 5 trials: 1 operation had not ended when the drain was
  over
doubt: tree-smaller-than-memory in 5 of 5 trials: the trees (20 GiB) are smaller
  than the memory (64 GiB)
next: Make the image larger. Then measure again.

note: with 2 trials the interval is their range and holds the true mean in about
  50 % of cases, not 95 %
note: the difference of xfs bfq to the best: 1 of 3 trials of xfs bfq failed,
  and may have been the worst
note: 1 of 3 trials of xfs bfq failed; its figures are those of the others
note: the sweep was begun with --set 'device.size=4G'
warning: tree-smaller-than-memory (6 trials): the trees (20 GiB) are smaller
  than the memory (64 GiB)
warning: censored (1 trial): 1 operation had not ended when the drain was over
skipped: btrfs bfq: program 'mkfs.btrfs' is not installed; the kernel has no
  btrfs
failed: trial 6, xfs bfq: 3 readers, 3 writers: write 'w1/d0/f3': no space left
  on device (ENOSPC)
  hint: make the image larger
"
        );
    }

    #[test]
    fn an_answer_is_a_page_with_the_rows_that_matter_however_many_there_are() {
        let of = |index: u32| {
            let name = format!("ext4 mq-deadline noatime barrier {index}");
            fixture::blocks(index, &name, 6, 2.0 - 0.01 * f64::from(index))
        };
        let trials: Vec<TrialRecord> = (0..40).flat_map(of).collect();
        let page = |extent| {
            let mut out = Vec::new();
            summary(&mut out, &fixture::view("read", &trials), extent, &Style::default()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = page(Extent::Page("fsdyno show"));
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains(" others: fsdyno show --notes)"), "{text}");
        assert!(text.contains("fsdyno show --notes)"), "{text}");
        assert!(page(Extent::Notes).lines().filter(|line| line.starts_with("ext4")).count() >= 40);
    }

    #[test]
    fn a_measure_of_time_ranks_the_shortest_first() {
        // Without the one that failed, which keeps its configuration from winning.
        let text = text("longest-stall", &fixture::trials()[..5]);
        let place = |row: &str| text.find(row).unwrap_or_else(|| panic!("{row} is not in {text}"));
        assert!(place("\nxfs bfq         40.0ms [") < place("\next4 bfq      >=1.09s [40.0ms, >=30.0s]"));
        assert!(
            text.contains("No winner yet: 'xfs bfq' has 40.0 ms (longest stall), the best measured, but 2"),
            "{text}"
        );
    }

    #[test]
    fn a_weaker_configuration_is_marked_and_not_the_answer() {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.configuration.filesystem == "ext4") {
            trial.warnings.push(Warning::new(WarningKind::Durability, "data = writeback"));
        }
        let text = text("read-under-write", &trials);
        assert!(text.contains("\n! ext4 bfq ") && text.contains("\n  xfs bfq "), "{text}");
        assert!(text.contains("\nKeep 'xfs bfq': "), "{text}");
        assert!(text.contains("\n(!: weakens what survives a power cut, or may; never wins if"), "{text}");
    }

    #[test]
    fn a_single_configuration_has_nothing_to_compare_with() {
        let text = text("read", &fixture::trials()[..1]);
        assert!(
            text.contains("\n'ext4 bfq' has 60.0 MB/s (reads of one reader), and there is nothing to compare\n  it with.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_sweep_without_measured_trials_says_why() {
        let text = text("read", &fixture::trials()[2..3]);
        assert!(
            text.starts_with(
                "No configuration was measured.\n\nnote: the sweep was begun with --set 'device.size=4G'\nwarning: "
            ),
            "{text}"
        );
        assert!(
            text.contains("skipped: btrfs bfq: program 'mkfs.btrfs' is not installed; the kernel"),
            "{text}"
        );
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
    fn the_case_of_the_sentinel_shows_what_the_machine_itself_varies() {
        let mut trials = fixture::trials();
        let mut sentinel = fixture::trial(6, 1, 0, fixture::configuration("ext4", "bfq"), 54.0);
        sentinel.sentinel = true;
        trials.push(sentinel);
        let text = text("read", &trials);
        let note = "note: in read, the 3 trials of ext4 bfq range from 54.0 MB/s to";
        assert!(text.contains(note), "{text}");
    }
}
