//! A comparison of two sides as text: for each case the verdicts, worst first, with their measures; and a
//! summary in one sentence at the end.

use super::page::{Extent, elsewhere};
use super::style::{Paint, Style};
use fsdyno_core::durability::CacheModel;
use fsdyno_core::measure::Unit;
use fsdyno_verdict::comparison::{
    ComparedCase, ComparedMeasure, Comparison, Finding, SideName, UncomparedCase,
};
use fsdyno_verdict::durability::{LossFinding, LossRow, Losses, Lost};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use std::io::{self, Write};

/// Longest name of a measure that shares a line with its figures.
const NAME_MAX: usize = 22;
/// The explanation of the table on a page; the notes have all of it.
const LEGEND: &str = "(A, B: geometric means; B/A: their ratio; p: corrected for the number of rows)";
/// Columns before the name of a measure.
const INDENT: usize = 4;

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison(
    out: &mut dyn Write,
    comparison: &Comparison,
    extent: Extent<'_>,
    style: &Style,
) -> io::Result<()> {
    for line in titles(&comparison.sides) {
        style.paragraph(out, Paint::Heading, 0, &line)?;
    }
    writeln!(out)?;
    let paint = if comparison.regressed() { Paint::Bad } else { Paint::Heading };
    style.paragraph(out, paint, 0, &summary(comparison))?;
    for case in &comparison.cases {
        writeln!(out)?;
        write_case(out, case, *style)?;
    }
    for (letter, alone) in ["A", "B"].into_iter().zip(&comparison.alone) {
        write_alone(out, letter, alone, *style)?;
    }
    writeln!(out)?;
    if let Extent::Page(_) = extent {
        style.paragraph(out, Paint::Plain, 0, LEGEND)?;
        let noted = comparison.warnings.iter().filter(|warning| warning.is_note()).count();
        let notes = comparison.notes.iter().flatten().count() + noted;
        return elsewhere(out, [notes, comparison.warnings.len() - noted], extent, *style);
    }
    for note in notes(comparison) {
        style.paragraph(out, Paint::Plain, 0, &note)?;
    }
    write_surroundings(out, comparison, *style)
}

/// Writes the notes about the machine, and the warnings of the compared trials.
fn write_surroundings(out: &mut dyn Write, comparison: &Comparison, style: Style) -> io::Result<()> {
    let notes = || comparison.notes.iter().flatten().count();
    if notes() + comparison.warnings.len() > 0 {
        writeln!(out)?;
    }
    let shared = comparison.sides[0].sweep == comparison.sides[1].sweep;
    for (letter, notes) in ["A", "B"].into_iter().zip(&comparison.notes) {
        let side = if shared { String::new() } else { format!(" ({letter})") };
        notes
            .iter()
            .try_for_each(|note| style.paragraph(out, Paint::Plain, 0, &format!("note{side}: {note}")))?;
    }
    for warning in &comparison.warnings {
        let ([a, b], [of_a, of_b]) = (warning.trials, warning.of);
        let (word, paint) = match warning.is_note() {
            true => ("note", Paint::Plain),
            false => ("warning", Paint::Alert),
        };
        let text = format!(
            "{word}: {} (A: {a} of {of_a} trials, B: {b} of {of_b}): {}",
            warning.kind,
            warning.text()
        );
        style.paragraph(out, paint, 0, &text)?;
    }
    Ok(())
}

/// `A: ext4, B: xfs (sweep 12, 'nightly')` if both sides are of one sweep, else a line for each.
fn titles([a, b]: &[SideName; 2]) -> Vec<String> {
    match (a.sweep, &a.sweep_name) == (b.sweep, &b.sweep_name) {
        true => vec![format!("A: {}, B: {}", a.name, title(b))],
        false => vec![format!("A: {}", title(a)), format!("B: {}", title(b))],
    }
}

/// Returns the trials and measures of a case that are not in its table.
pub(crate) fn left_out(case: &ComparedCase) -> Vec<String> {
    let sides = ["A", "B"].into_iter().zip(case.not_measured).filter(|(_, trials)| *trials > 0);
    let trials = sides.map(|(letter, trials)| {
        format!("{letter}: {} not measured, left out", text::plural(trials as u64, "trial"))
    });
    let measures = case.without.iter().map(|measure| format!("{measure}: missing on at least one side"));
    trials.chain(measures).collect()
}

/// `latest/bfq (sweep 12, 'nightly')`, or only the sweep if the side was given by its number.
pub(crate) fn title(side: &SideName) -> String {
    let SideName { name, sweep, sweep_name } = side;
    match *name == sweep.to_string() {
        true => format!("sweep {sweep}, '{sweep_name}'"),
        false => format!("{name} (sweep {sweep}, '{sweep_name}')"),
    }
}

fn write_case(out: &mut dyn Write, case: &ComparedCase, style: Style) -> io::Result<()> {
    let name = match &case.names {
        [a, b] if a == b => a.clone(),
        [a, b] => format!("{a} -> {b}"),
    };
    let title = format!("{name}: {}", case.workload_title);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    // Names that are the levels have said it.
    for difference in case.differences.iter().filter(|difference| difference.levels != case.names) {
        let [a, b] = &difference.levels;
        style.paragraph(out, Paint::Plain, 2, &format!("{}: {a} -> {b}", difference.what))?;
    }
    left_out(case).iter().try_for_each(|text| style.paragraph(out, Paint::Alert, 2, text))?;
    let mut rows: Vec<&ComparedMeasure> = case.rows.iter().collect();
    rows.sort_by_key(|row| row.finding);
    let lines: Vec<[String; 5]> = rows.iter().map(|row| cells(row)).collect();
    let head = head(&rows);
    let widths = widths(&lines, head[3].len(), style.width);
    if !rows.is_empty() {
        write_row(out, &head, &widths)?;
    }
    let mut verdict = String::new();
    for (row, cells) in rows.iter().zip(&lines) {
        if row.verdict() != verdict {
            verdict = row.verdict();
            style.paragraph(out, paint(row.finding), 2, &verdict)?;
        }
        write_row(out, cells, &widths)?;
    }
    write_losses(out, case, style)
}

/// Writes the losses from power cuts, by verdict.
fn write_losses(out: &mut dyn Write, case: &ComparedCase, style: Style) -> io::Result<()> {
    if case.losses.is_empty() {
        return Ok(());
    }
    writeln!(out, "  acknowledged promises that power cuts lose, by cache model")?;
    let mut rows: Vec<&LossRow> = case.losses.iter().collect();
    rows.sort_by_key(|row| rank(row.finding));
    let head = ["", "A", "B", "B - A", "p"].map(String::from);
    let lines: Vec<[String; 5]> =
        std::iter::once(head).chain(rows.iter().map(|row| loss_cells(row))).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let mut widths: [usize; 5] = std::array::from_fn(width);
    // On a narrow terminal, the difference has no room.
    if widths.iter().sum::<usize>() + INDENT + 2 * (widths.len() - 1) > style.width {
        widths[3] = 0;
    }
    let mut verdict = String::new();
    for (index, [model, a, b, difference, p]) in lines.iter().enumerate() {
        if let Some(row) = index.checked_sub(1).map(|index| rows[index])
            && row.finding.words() != verdict
        {
            verdict = row.finding.words();
            style.paragraph(out, loss_paint(row.finding), 2, &verdict)?;
        }
        let [of_model, of_a, of_b, of_difference, of_p] = widths;
        let mut line = format!("    {model:of_model$}  {a:>of_a$}  {b:>of_b$}");
        if of_difference > 0 {
            line += &format!("  {difference:>of_difference$}");
        }
        line += &format!("  {p:>of_p$}");
        writeln!(out, "{}", line.trim_end())?;
    }
    for model in CacheModel::ALL.iter().filter(|model| rows.iter().any(|row| row.model == **model)) {
        style.paragraph(out, Paint::Plain, 4, &format!("{}: {}", model.name(), model.description()))?;
    }
    Ok(())
}

/// The worst news first.
pub(crate) fn rank(finding: LossFinding) -> u8 {
    match finding {
        LossFinding::LosesMore => 0,
        LossFinding::LosesLess => 1,
        LossFinding::NoDifferenceShown(_) => 2,
    }
}

fn loss_paint(finding: LossFinding) -> Paint {
    match finding {
        LossFinding::LosesMore => Paint::Bad,
        LossFinding::LosesLess => Paint::Good,
        LossFinding::NoDifferenceShown(_) => Paint::Heading,
    }
}

/// The model, what each side loses in how many logs, the difference of the rates, and the p value.
pub(crate) fn loss_cells(row: &LossRow) -> [String; 5] {
    let side = |lost: &Lost| {
        let rate = lost.rate.map_or("none made".to_string(), text::percent);
        format!("{rate} ({} of {})", lost.losing_logs, text::plural(lost.logs, "log"))
    };
    let points = |share: f64| format!("{:+.1}", share * 100.0);
    let difference = row.difference.map_or("-".to_string(), |difference| {
        let interval = difference.interval;
        format!("{} % [{}, {}]", points(difference.value), points(interval.low), points(interval.high))
    });
    let [a, b] = &row.sides;
    [row.model.name().to_string(), side(a), side(b), difference, p_value(row.corrected_p)]
}

fn paint(finding: Finding) -> Paint {
    match finding {
        Finding::Slower => Paint::Bad,
        Finding::Faster => Paint::Good,
        Finding::NoMaterialDifference => Paint::Heading,
        Finding::CannotTell(_) => Paint::Alert,
    }
}

/// The measure, its value on each side, the ratio and the p value.
pub(crate) fn cells(row: &ComparedMeasure) -> [String; 5] {
    [
        row.measure.name().to_string(),
        value(row, 0),
        value(row, 1),
        ratio(row),
        row.corrected_p.map_or(String::new(), p_value),
    ]
}

/// The headings of the columns.
pub(crate) fn head(rows: &[&ComparedMeasure]) -> [String; 5] {
    let tested = rows.iter().any(|row| row.corrected_p.is_some());
    let ratio = if tested { "B/A [95 % interval]" } else { "B/A" };
    ["", "A", "B", ratio, if tested { "p" } else { "" }].map(String::from)
}

/// The widths of the columns. On a narrow terminal, names have lines of their own.
fn widths(lines: &[[String; 5]], ratio: usize, room: usize) -> [usize; 5] {
    let mut widths = [NAME_MAX, 1, 1, ratio, 1];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line).skip(1) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let needed = widths.iter().sum::<usize>() + INDENT + 2 * (widths.len() - 1);
    if needed > room {
        widths[0] = 0;
    }
    widths
}

/// A line of a table; a name that is too long goes on a line above.
fn write_row(out: &mut dyn Write, cells: &[String; 5], widths: &[usize; 5]) -> io::Result<()> {
    let [name, a, b, ratio, p] = cells;
    let name = match name.chars().count() > widths[0] {
        true => {
            writeln!(out, "    {name}")?;
            ""
        }
        false => name.as_str(),
    };
    let [of_name, of_a, of_b, of_ratio, of_p] = *widths;
    let line = format!("    {name:of_name$}  {a:>of_a$}  {b:>of_b$}  {ratio:of_ratio$}  {p:>of_p$}");
    writeln!(out, "{}", line.trim_end())
}

/// The mean of a side, as every other command shows it.
fn value(row: &ComparedMeasure, side: usize) -> String {
    let value = row.estimates[side].value;
    let at_least = row.at_least[side];
    match row.measure.unit() {
        Unit::Nanoseconds => text::time(Time { ns: value.round() as u64, at_least }),
        unit => {
            let bound = if at_least { ">=" } else { "" };
            let symbol = unit.symbol();
            let blank = if symbol.starts_with(['/', '%']) { "" } else { " " };
            format!("{bound}{}{blank}{symbol}", text::number(unit.shown(value)))
        }
    }
}

/// `0.903 [0.871, 0.936]`.
fn ratio(row: &ComparedMeasure) -> String {
    let Some(ratio) = row.ratio else { return "-".to_string() };
    match ratio.interval {
        Some(interval) => format!("{:.3} [{:.3}, {:.3}]", ratio.value, interval.low, interval.high),
        None => format!("{:.3}", ratio.value),
    }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_string() } else { format!("{p:.3}") }
}

/// The cases of one side that are not compared, grouped by reason.
fn write_alone(out: &mut dyn Write, letter: &str, alone: &[UncomparedCase], style: Style) -> io::Result<()> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for case in alone {
        match groups.iter_mut().find(|(reason, _)| *reason == case.reason) {
            Some((_, names)) => names.push(&case.name),
            None => groups.push((&case.reason, vec![&case.name])),
        }
    }
    for (reason, mut names) in groups {
        names.dedup();
        let text = format!("{letter}: not compared, {reason}: {}", names.join(", "));
        writeln!(out)?;
        style.paragraph(out, Paint::Alert, 0, &text)?;
    }
    Ok(())
}

/// Returns the explanation of the table, and of what its intervals cannot show.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    let ratios = || comparison.rows().filter_map(|row| row.ratio);
    let (pairing, test) = match (ratios().any(|ratio| ratio.paired), ratios().any(|ratio| !ratio.paired)) {
        (true, false) => ("trials are compared within their blocks", "Student's t test"),
        (false, _) => (
            "the sides share fewer than two blocks, so their trials are independent samples",
            "Welch's t test",
        ),
        (true, true) => (
            "trials are compared within their blocks where both sides have them",
            "Student's t test, or Welch's where they do not",
        ),
    };
    let looked = ratios().any(|ratio| ratio.holds_at_any_time());
    let test = if looked { "a confidence sequence that holds after every look" } else { test };
    let tested = comparison.rows().filter(|row| row.corrected_p.is_some()).count();
    let mut notes = Vec::new();
    if tested > 0 {
        notes.push(format!(
            "(A and B: geometric means over the trials; B/A: their ratio; {pairing}; p from {test} on the \
             logarithm, corrected for {} by Holm's procedure; differences up to {} do not matter)",
            text::plural(tested as u64, "comparison"),
            text::percent(comparison.threshold)
        ));
    }
    // The rank test ignores pairing, so it is only consulted for unpaired samples.
    let unconfirmed = comparison.rows().filter(|row| {
        let decided = matches!(row.finding, Finding::Slower | Finding::Faster);
        decided && row.ratio.is_some_and(|ratio| !ratio.paired) && row.rank_p.is_some_and(|p| p >= 0.05)
    });
    let names: Vec<&str> = unconfirmed.map(|row| row.measure.name()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        notes.push(format!(
            "(the Mann-Whitney rank test, which is robust against outliers, does not confirm: {names})"
        ));
    }
    let means = |row: &ComparedMeasure| row.estimates[1].value / row.estimates[0].value;
    let turned = comparison.rows().filter(|row| {
        let apart = |ratio: f64| ratio.ln().abs() > comparison.threshold;
        row.ratio.is_some_and(|ratio| {
            (ratio.value > 1.0) != (means(row) > 1.0) && (apart(ratio.value) || apart(means(row)))
        })
    });
    let mut turned: Vec<&str> = turned.map(|row| row.measure.name()).collect();
    turned.sort_unstable();
    turned.dedup();
    if !turned.is_empty() {
        notes.push(format!(
            "(the means point another way than the ratio, because few trials decide them: {})",
            turned.join(", ")
        ));
    }
    let judged = comparison.losses().filter(|row| row.sides.iter().any(|side| side.losing_logs > 0)).count();
    if comparison.losses().next().is_some() {
        notes.push(format!(
            "(lost promises: their share, and the logs that lost any; p from Fisher's exact test on logs; B \
             - A of the shares from {} logs on each side on, with an interval by log; both corrected for {}; \
             'would show': the smallest share of losing logs, against none, that so many logs show)",
            Losses::ENOUGH,
            text::plural(judged as u64, "comparison")
        ));
    }
    let few = ratios().filter(|ratio| ratio.note().is_some()).min_by_key(|ratio| ratio.n);
    notes.extend(few.and_then(|ratio| ratio.note()).map(|note| format!("({note})")));
    notes
}

pub(crate) fn summary(comparison: &Comparison) -> String {
    let count = |wanted: fn(Finding) -> bool| comparison.rows().filter(|row| wanted(row.finding)).count();
    let undecided = count(|finding| matches!(finding, Finding::CannotTell(_)));
    let gone = comparison.alone[1].iter().filter(|case| case.is_lost).count();
    let gone = match gone {
        0 => String::new(),
        count => format!(" Every trial of {} failed in B.", text::plural(count as u64, "case")),
    };
    let losses = |wanted: u8| comparison.losses().filter(|row| rank(row.finding) == wanted).count();
    let lost = match comparison.losses().next() {
        None => String::new(),
        Some(_) => format!(
            " In power cuts B loses more under {}, less under {}; no difference is shown under {}.",
            text::plural(losses(0) as u64, "cache model"),
            losses(1),
            losses(2)
        ),
    };
    format!(
        "B compared with A: {} slower, {} faster, {} without material difference, {undecided} \
         undecided.{gone}{lost}",
        count(|finding| finding == Finding::Slower),
        count(|finding| finding == Finding::Faster),
        count(|finding| finding == Finding::NoMaterialDifference),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::{blocks as trials, question, side};
    use fsdyno_core::TrialRecord;

    fn text(first: &[TrialRecord], second: &[TrialRecord], sweeps: [i64; 2], measures: &[&str]) -> String {
        let (a, b) = (side("1/old", sweeps[0], first), side("2", sweeps[1], second));
        let compared = Comparison::new(a, b, &question(measures));
        let write = |colour| {
            let mut out = Vec::new();
            comparison(&mut out, &compared, Extent::Notes, &Style { width: 80, colour, blocks: false })
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = write(false);
        println!("{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line));
        assert_eq!(fixture::without_escapes(&write(true)), text);
        text
    }

    #[test]
    fn verdicts_are_above_their_measures() {
        let text = text(&trials(0, "a", 6, 1.0), &trials(1, "b", 6, 0.9), [1, 1], &[]);
        let lines: Vec<&str> = text.lines().collect();
        let at = |word: &str| lines.iter().position(|line| line.trim_start().starts_with(word)).unwrap();
        assert!(at("A: 1/old, B: 2 (sweep 1, 'nightly')") < at("a -> b: fileserver"));
        assert!(
            at("slower") < at("read-under-write") && at("read-under-write") < at("no material difference")
        );
        assert!(at("no material difference") < at("longest-stall"));
        assert!(lines[at("read-under-write")].contains("0.90") && lines[at("slower")] == "  slower");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("compared within their blocks") && words.contains("6 comparisons"));
        assert!(at("B compared with A: ") < at("a -> b: fileserver") && text.contains("undecided.\n"));
    }

    #[test]
    fn what_loses_more_comes_first_with_its_models() {
        let of = |case| fixture::durability_side(6, case);
        let text = text(&of(0), &of(1), [1, 2], &[]);
        let (_, losses) =
            text.split_once("  acknowledged promises that power cuts lose, by cache model\n").unwrap();
        let lines: Vec<&str> = losses.lines().collect();
        assert_eq!(lines[1], "  loses more");
        assert!(lines[2].starts_with("    flushed    0 % (0 of 6 logs)  100.0 % (6 of 6 logs)"), "{losses}");
        assert_eq!(lines[5], "  no difference shown (would show 84 %)");
        assert!(losses.contains("    flushed: only what was flushed survives: "), "{losses}");
        let summary =
            "In power cuts B loses more under 3 cache models, less under 0; no difference is shown under 1.";
        assert!(text.replace("\n  ", " ").contains(summary), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn few_trials_show_their_interval_and_what_it_cannot_show() {
        let text = text(&trials(0, "a", 3, 1.0), &trials(1, "a", 3, 0.9), [1, 2], &["read"]);
        assert!(text.contains("cannot tell: 3 trials, and more would hardly decide it"), "{text}");
        assert!(text.contains("(fewer than 6 trials on a side may have missed a stall"), "{text}");
        assert!(text.contains("independent samples"));
        let text = self::text(&trials(0, "a", 3, 1.0), &trials(1, "b", 4, 0.9), [1, 1], &["read"]);
        assert!(text.contains("(fewer than 6 trials on a side may have missed a stall"), "{text}");
    }

    #[test]
    fn a_finding_that_the_rank_test_does_not_confirm_is_marked() {
        let (base, mut other) = (trials(0, "a", 3, 1.0), trials(0, "a", 3, 0.5));
        let rate = |trial: &mut TrialRecord, rate: f64| {
            trial.phases[0].roles[0].rates.aggregate_bytes_per_s = rate * 1e6;
        };
        let mut base = base;
        for (trial, value) in base.iter_mut().zip([50.0, 50.1, 50.2]) {
            rate(trial, value);
        }
        for (trial, value) in other.iter_mut().zip([40.0, 40.1, 40.2]) {
            rate(trial, value);
        }
        let found = text(&base, &other, [1, 2], &["read"]);
        assert!(found.contains("\n  slower\n"), "{found}");
        assert!(found.replace("\n  ", " ").contains("does not confirm: read"), "{found}");
    }

    #[test]
    fn long_names_single_trials_and_unmatched_cases_fit_the_width() {
        let first = fixture::wide_trials();
        let second: Vec<TrialRecord> =
            first.iter().filter(|trial| trial.case != 1 && trial.block < 1).cloned().collect();
        let text = text(&first, &second, [1, 2], &["3 readers, 3 writers/reader/read first byte/mean"]);
        assert!(text.contains("cannot tell: 1 trial, needs about 6"), "{text}");
        assert!(text.contains("A: not compared, the other side has no such case: ext4 bfq"), "{text}");
    }
}
