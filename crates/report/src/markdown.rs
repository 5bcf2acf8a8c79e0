//! Results as Markdown, to paste into an issue, a wiki or a mail: the same answers, figures and warnings as
//! on a terminal, and every column, because a page has no width.
//!
//! Tables are those of GitHub Flavored Markdown (<https://github.github.com/gfm/#tables-extension->). Names
//! come from plans and files, so whatever Markdown would take for markup is escaped.

use crate::terminal::columns::{Column, WEAKENS, WEAKENS_LEGEND};
use crate::terminal::comparison::{
    cells, head, left_out, loss_cells, notes as notes_on, rank, summary as verdict, title as side,
};
use crate::terminal::summary::{columns, title};
use crate::terminal::{faults, losses};
use fsdyno_core::durability::CacheModel;
use fsdyno_verdict::comparison::{ComparedCase, ComparedMeasure, Comparison};
use fsdyno_verdict::durability::{LossRow, ModelLosses};
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::recommendation::Answer;
use fsdyno_verdict::text;
use fsdyno_verdict::view::View;
use std::io::{self, Write};

/// Writes the answer, the configurations, and what to know before believing either.
///
/// # Errors
/// Those of `out`.
pub fn summary(out: &mut dyn Write, view: &View) -> io::Result<()> {
    for (ranking, answer) in view.rankings.iter().zip(&view.recommendation.answers) {
        writeln!(out, "## {}\n", escaped(&title(view, ranking)))?;
        sentences(out, answer)?;
        configurations(out, ranking, answer)?;
        doubts(out, answer)?;
        lost(out, ranking)?;
        failed(out, ranking)?;
    }
    if view.rankings.is_empty() {
        writeln!(out, "No configuration was measured.\n")?;
    }
    messages(out, view)
}

fn sentences(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    for (index, sentence) in answer.paragraphs().enumerate() {
        let sentence = escaped(sentence);
        let strong = if index == 0 { "**" } else { "" };
        writeln!(out, "{strong}{sentence}{strong}\n")?;
    }
    Ok(())
}

/// The reasons for doubt, and the next step.
fn doubts(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    for doubt in &answer.doubts {
        writeln!(out, "- **doubt:** {}", escaped(doubt))?;
    }
    if let Some(next) = &answer.judgement.next {
        writeln!(out, "- **next:** {}", escaped(next))?;
    }
    if answer.doubts.is_empty() && answer.judgement.next.is_none() { Ok(()) } else { writeln!(out) }
}

fn configurations(out: &mut dyn Write, ranking: &Ranking, answer: &Answer) -> io::Result<()> {
    let columns = columns(ranking);
    let head = |column: &Column| match column.head.last().filter(|_| column.head.len() > 1) {
        // The name of a measure is broken into lines on a terminal, and its unit is on a line of its own.
        Some(last) if !column.name.ends_with(last.as_str()) => format!("{} {last}", column.name),
        _ => column.name.clone(),
    };
    let heads: Vec<String> =
        std::iter::once("configuration".to_string()).chain(columns.iter().map(head)).collect();
    table_head(out, &heads, 1)?;
    let winner = answer.winner().map(|winner| winner.case);
    for (index, row) in ranking.rows.iter().enumerate() {
        let strong = if winner == Some(row.case) { "**" } else { "" };
        let mark = if row.risks.is_empty() { String::new() } else { format!(" {WEAKENS}") };
        let name = format!("{strong}{}{strong}{mark}", escaped(&row.name));
        let cells = columns.iter().map(|column| escaped(&column.cells[index]));
        table_row(out, std::iter::once(name).chain(cells))?;
    }
    writeln!(out)?;
    let several = ranking.rows.iter().any(|row| row.trials > 1);
    if several {
        writeln!(out, "Geometric means over n trials; (max): the longest of all trials.")?;
    }
    if ranking.rows.iter().any(|row| !row.risks.is_empty()) {
        writeln!(out, "{WEAKENS}: {WEAKENS_LEGEND}.")?;
    }
    writeln!(out)
}

/// Writes the losses from power cuts, under every cache model of each configuration.
fn lost(out: &mut dyn Write, ranking: &Ranking) -> io::Result<()> {
    let rows = ranking.rows.iter().filter_map(|row| Some((row, row.losses.as_ref()?)));
    let rows: Vec<_> =
        rows.flat_map(|(row, found)| found.models.iter().map(move |model| (row, model))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let models: Vec<&ModelLosses> = rows.iter().map(|(_, model)| *model).collect();
    let columns = losses::columns(&models);
    let names =
        ["configuration", "cache model"].into_iter().chain(columns.iter().map(|one| one.name.as_str()));
    table_head(out, &names.map(str::to_string).collect::<Vec<_>>(), 2)?;
    for (index, (row, model)) in rows.iter().enumerate() {
        let cells = columns.iter().map(|column| escaped(&column.cells[index].replace('\n', ", ")));
        table_row(out, [escaped(&row.name), model.model.name().to_string()].into_iter().chain(cells))?;
    }
    writeln!(out)?;
    for model in CacheModel::ALL.iter().filter(|model| models.iter().any(|one| one.model == **model)) {
        writeln!(out, "- {}: {}", model.name(), escaped(model.description()))?;
    }
    losses::LEGEND.iter().try_for_each(|line| writeln!(out, "- {}", escaped(line)))?;
    writeln!(out)
}

/// Writes the effects of failing requests on each configuration.
fn failed(out: &mut dyn Write, ranking: &Ranking) -> io::Result<()> {
    let rows: Vec<_> = ranking.rows.iter().filter_map(|row| Some((row, row.faults.as_ref()?))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let names = std::iter::once("configuration").chain(faults::SUMMARY);
    table_head(out, &names.map(str::to_string).collect::<Vec<_>>(), 1)?;
    for (row, found) in rows {
        table_row(out, std::iter::once(escaped(&row.name)).chain(faults::summary_row(found)))?;
    }
    writeln!(out)?;
    faults::SUMMARY_LEGEND.iter().try_for_each(|line| writeln!(out, "- {}", escaped(line)))?;
    writeln!(out)
}

fn messages(out: &mut dyn Write, view: &View) -> io::Result<()> {
    for note in view.notes() {
        writeln!(out, "- note: {}", escaped(&note))?;
    }
    for group in &view.warnings {
        let trials = text::plural(group.trials as u64, "trial");
        let word = if group.is_note(view.measured) { "note:" } else { "**warning**" };
        writeln!(out, "- {word} {} ({trials}): {}", group.kind, escaped(&group.example.to_string()))?;
    }
    for group in &view.recommendation.skipped {
        writeln!(
            out,
            "- skipped {}: {}",
            escaped(&group.names.join(", ")),
            escaped(&group.unmet.join("; "))
        )?;
    }
    for group in &view.recommendation.failed {
        let numbers = text::numbers(group.trials.iter().copied());
        let error = escaped(&group.error.to_string());
        writeln!(out, "- **failed** trial {numbers}, {}: {error}", escaped(&group.name))?;
    }
    Ok(())
}

/// Writes a comparison: the verdict, a table for each case, and what bears on the answer.
///
/// # Errors
/// Those of `out`.
pub fn comparison(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    writeln!(out, "**{}**\n", escaped(&verdict(comparison)))?;
    for (letter, name) in ["A", "B"].into_iter().zip(&comparison.sides) {
        writeln!(out, "- {letter}: {}", escaped(&side(name)))?;
    }
    for case in &comparison.cases {
        compared(out, case)?;
    }
    writeln!(out)?;
    for (letter, alone) in ["A", "B"].into_iter().zip(&comparison.alone) {
        for case in alone {
            writeln!(out, "- {letter}: not compared: {}: {}", escaped(&case.name), escaped(&case.reason))?;
        }
    }
    for (letter, notes) in ["A", "B"].into_iter().zip(&comparison.notes) {
        notes.iter().try_for_each(|note| writeln!(out, "- note ({letter}): {}", escaped(note)))?;
    }
    for warning in &comparison.warnings {
        let ([a, b], [of_a, of_b]) = (warning.trials, warning.of);
        let word = if warning.is_note() { "note:" } else { "**warning**" };
        let text = escaped(&warning.text());
        writeln!(out, "- {word} {} (A: {a} of {of_a} trials, B: {b} of {of_b}): {text}", warning.kind)?;
    }
    notes_on(comparison).iter().try_for_each(|note| writeln!(out, "\n{}", escaped(note)))
}

fn compared(out: &mut dyn Write, case: &ComparedCase) -> io::Result<()> {
    let name = match &case.names {
        [a, b] if a == b => a.clone(),
        [a, b] => format!("{a} -> {b}"),
    };
    writeln!(out, "\n### {}: {}\n", escaped(&name), escaped(&case.workload_title))?;
    for difference in &case.differences {
        let [a, b] = &difference.levels;
        writeln!(out, "- {}: {} -> {}", escaped(&difference.what), escaped(a), escaped(b))?;
    }
    let missing = left_out(case);
    missing.iter().try_for_each(|text| writeln!(out, "- {}", escaped(text)))?;
    if !case.differences.is_empty() || !missing.is_empty() {
        writeln!(out)?;
    }
    let mut rows: Vec<&ComparedMeasure> = case.rows.iter().collect();
    rows.sort_by_key(|row| row.finding);
    let [_, a, b, ratio, _] = head(&rows);
    let heads = ["measure", &a, &b, &ratio, "p", "verdict"].map(str::to_string);
    table_head(out, &heads, 1)?;
    for row in rows {
        table_row(out, cells(row).into_iter().chain([row.verdict()]).map(|cell| escaped(&cell)))?;
    }
    if case.losses.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nAcknowledged promises that power cuts lose:\n")?;
    let mut losses: Vec<&LossRow> = case.losses.iter().collect();
    losses.sort_by_key(|row| rank(row.finding));
    table_head(out, &["cache model", "A", "B", "B - A", "p", "verdict"].map(str::to_string), 1)?;
    for row in losses {
        table_row(out, loss_cells(row).into_iter().chain([row.finding.words()]).map(|cell| escaped(&cell)))?;
    }
    Ok(())
}

/// The heading of a table and the line below it; the first few columns are aligned to the left.
fn table_head(out: &mut dyn Write, heads: &[String], left: usize) -> io::Result<()> {
    table_row(out, heads.iter().map(|head| escaped(head)))?;
    let rules = (0..heads.len()).map(|column| if column < left { "---" } else { "---:" });
    table_row(out, rules.map(str::to_string))
}

fn table_row(out: &mut dyn Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '~' | '#' => escaped.extend(['\\', letter]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::{blocks, question, side};
    use fsdyno_core::{Warning, WarningKind};

    fn printed(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        text
    }

    /// The rows of every table, which must all have as many cells as its heading.
    fn tables(text: &str) -> Vec<Vec<String>> {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells = row.trim_matches('|').replace("\\|", "/");
            cells.split('|').map(|cell| cell.trim().to_string()).collect()
        })
        .collect()
    }

    #[test]
    fn a_summary_has_the_answer_every_column_and_every_warning() {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.configuration.filesystem == "ext4") {
            trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0"));
        }
        let text = printed(|out| summary(out, &fixture::view("read-under-write", &trials)));
        let rows = tables(&text);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
        assert_eq!(rows[0][..3], ["configuration", "read-under-write MB/s \\[range\\]", "n"]);
        for name in ["read-many MB/s", "first-byte-p999", "longest-stall (max)"] {
            assert!(rows[0].iter().any(|cell| cell == name), "{name} in {:?}", rows[0]);
        }
        assert_eq!([rows[2][0].as_str(), rows[3][0].as_str()], ["ext4 bfq !", "xfs bfq"]);
        assert!(text.contains("\n**Keep 'xfs bfq': 29.4 MB/s"), "{text}");
        assert!(text.contains("\n- **warning** durability (2 trials): barrier = 0\n"), "{text}");
        assert!(text.contains("\n- **failed** trial 6, xfs bfq: "), "{text}");
    }

    #[test]
    fn names_cannot_break_the_table_or_add_markup() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.configuration.name = "a|b*c*<img src=x>\n# d".to_string();
        }
        let text = printed(|out| summary(out, &fixture::view("read", &trials)));
        assert!(text.contains("| a\\|b\\*c\\*&lt;img src=x&gt; \\# d |"), "{text}");
        assert!(tables(&text).iter().all(|row| row.len() == tables(&text)[0].len()));
    }

    #[test]
    fn a_comparison_has_a_verdict_for_each_measure() {
        let (a, b) = (blocks(0, "a", 6, 1.0), blocks(1, "b", 6, 0.9));
        let compared = Comparison::new(side("1/a", 1, &a), side("1/b", 1, &b), &question(&[]));
        let text = printed(|out| comparison(out, &compared));
        assert!(text.starts_with("**B compared with A: "), "{text}");
        let slower = tables(&text).into_iter().find(|row| row[0] == "read-under-write").unwrap();
        assert_eq!((slower.len(), slower[5].as_str()), (6, "slower"));
    }

    #[test]
    fn losses_have_a_row_for_each_model() {
        let view = fixture::view("read", &fixture::durability_trials(6, false));
        let text = printed(|out| summary(out, &view));
        let row = "| ext4 none barrier=0 | flushed | 25,920 of 25,920, 6 of 6 logs | 2,580 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("\n- subset: what was flushed survives, and"), "{text}");
        let rows = tables(&text);
        assert!(rows[4..].iter().all(|row| row.len() == rows[4].len()), "{rows:?}");
        let of = |case| fixture::durability_side(6, case);
        let (a, b) = (of(0), of(1));
        let compared = Comparison::new(side("1/a", 1, &a), side("2/b", 2, &b), &question(&[]));
        let text = printed(|out| comparison(out, &compared));
        let row = tables(&text).into_iter().find(|row| row[0] == "flushed").unwrap();
        assert_eq!((row.len(), row[5].as_str()), (6, "loses more"));
    }
}
