//! The losses from power cuts: the worst of each configuration, and all of them for one case.
//!
//! Cells have two lines, so that seven columns fit a terminal of 80: a count and what it says of the logs, a
//! median and the maximum below it.

use super::columns::{Column, fitting, marked, no_room_for, weakens};
use super::page::Extent;
use super::style::{Paint, Style, cell, write_table};
use comfy_table::{Cell, CellAlignment, ColumnConstraint};
use fsdyno_core::durability::{CacheModel, Promise, PromiseBasis};
use fsdyno_core::result::Spread;
use fsdyno_verdict::durability::{Losses, Lost, ModelLosses, PromiseLosses};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::text;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Columns reserved for the names of configurations; longer names wrap if there is no room.
const NAME_WIDTH: usize = 18;

/// States that are listed of those that lost something; the JSON has more.
const LISTED: usize = 8;

/// The explanation of the columns.
pub(crate) const LEGEND: [&str; 3] = [
    "acknowledged lost: of what a program was told is safe (as POSIX or a manual page promises), over all \
     states after a cut, and in how many recorded logs",
    "wrong inside: files with zeros, old or foreign data, or garbage; unsynced lost: how far back work is \
     missing that nothing synced",
    "p50 above, max below; of several logs, p50 is the median of theirs",
];

/// Returns whether power cuts have lost anything, or nothing, in these trials: not so under other workloads.
pub(super) fn are_known(ranking: &Ranking) -> bool {
    ranking.rows.iter().any(|row| row.losses.is_some())
}

/// Writes the worst that each configuration has lost, of those rows for which it is wanted.
pub(super) fn worst(
    out: &mut dyn Write,
    ranking: &Ranking,
    is_shown: &dyn Fn(usize) -> bool,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let rows = ranking.rows.iter().enumerate().filter(|(index, _)| is_shown(*index));
    let rows: Vec<_> =
        rows.filter_map(|(_, row)| Some((row, row.losses.as_ref()?.worst_of_each()))).collect();
    let weak = ranking.rows.iter().any(|row| !row.risks.is_empty());
    let names = rows.iter().map(|(row, one)| {
        let indent = if weak { "    " } else { "  " };
        format!("{}\n{indent}{}", marked(&row.name, row.risks.is_empty(), weak), one.model.name())
    });
    let models: Vec<&ModelLosses> = rows.iter().map(|(_, one)| one).collect();
    style.paragraph(out, Paint::Heading, 0, "Lost in power cuts, in the worst case")?;
    write_columns(out, "configuration\n  model", names.collect(), &models, style)?;
    if let Extent::Page(more) = extent {
        let text = format!(
            "(lost although programs were told that it is safe; each column: the worst of all models of a \
             device's cache; {more} --notes explains them{})",
            weakens(weak)
        );
        return style.paragraph(out, Paint::Plain, 0, &text);
    }
    explain(out, &models, style)?;
    let note = "(each column has the worst of all cache models, the named one that of acknowledged promises; \
                fsdyno show --full has every model and promise)";
    style.paragraph(out, Paint::Plain, 0, note)
}

/// Writes every model of a case.
pub(super) fn models(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let Some(losses) = &case.losses else { return Ok(()) };
    let title = format!("{}: lost in power cuts, by cache model", case.configuration.name);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let models: Vec<&ModelLosses> = losses.models.iter().collect();
    let names = models.iter().map(|one| one.model.name().to_string()).collect();
    write_columns(out, "cache model", names, &models, style)?;
    explain(out, &models, style)
}

fn write_columns(
    out: &mut dyn Write,
    heading: &str,
    names: Vec<String>,
    models: &[&ModelLosses],
    style: Style,
) -> io::Result<()> {
    let columns = columns(models);
    let names = Column { name: String::new(), head: vec![heading.to_string()], cells: names, is_vital: true };
    let (shown, left_out) = fitting(columns, style.width, names.width().min(NAME_WIDTH));
    let heads = std::iter::once(&names).chain(&shown).map(|column| column.head.join("\n"));
    let heads: Vec<String> = heads.collect();
    let depth = heads.iter().map(|head| head.lines().count()).max().unwrap_or(1);
    // Headings are aligned at the bottom: shorter ones get empty lines above.
    let lower = |head: String| format!("{}{head}", "\n".repeat(depth - head.lines().count()));
    let mut table = style.table(heads.into_iter().map(lower).collect());
    for (index, name) in names.cells.iter().enumerate() {
        let cells = shown.iter().map(|column| cell(column.cells[index].clone()));
        table.add_row(std::iter::once(Cell::new(name)).chain(cells).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_constraint(ColumnConstraint::ContentWidth);
        column.set_cell_alignment(CellAlignment::Right);
    }
    write_table(out, table, style)?;
    no_room_for(&left_out).map_or(Ok(()), |text| style.paragraph(out, Paint::Plain, 0, &text))
}

/// Writes the meaning of each model, and the explanation of the columns.
fn explain(out: &mut dyn Write, models: &[&ModelLosses], style: Style) -> io::Result<()> {
    for model in CacheModel::ALL.iter().filter(|model| models.iter().any(|one| one.model == **model)) {
        style.paragraph(out, Paint::Plain, 0, &format!("{}: {}", model.name(), model.description()))?;
    }
    style.paragraph(out, Paint::Plain, 0, &format!("({})", LEGEND.join("; ")))
}

/// The columns after the name.
pub(crate) fn columns(models: &[&ModelLosses]) -> Vec<Column> {
    let column = |name: &str, head: &[&str], of: fn(&ModelLosses) -> String| Column {
        name: name.to_string(),
        head: head.iter().map(|line| (*line).to_string()).collect(),
        cells: models.iter().map(|one| of(one)).collect(),
        is_vital: false,
    };
    vec![
        column("acknowledged lost", &["acknowledged", "lost"], |one| lost(&one.acknowledged)),
        column("wrong inside", &["wrong", "inside"], |one| text::count(one.wrong.total())),
        column("unsynced lost", &["unsynced", "lost"], |one| {
            one.unsynced.map_or("-".to_string(), |unsynced| match unsynced.lost_ns.max {
                0 => "none".to_string(),
                _ => spread(unsynced.lost_ns),
            })
        }),
        column("not mounted", &["not", "mounted"], not_mounted),
        column("damaged", &["damaged"], |one| match one.checked {
            0 => "-".to_string(),
            checked => format!("{} of {checked}", one.damaged),
        }),
        column("recovery", &["recovery"], |one| one.recovery_ns.map_or("-".to_string(), spread)),
    ]
}

/// `0 of 43,200` above `0 of 3 logs`, or `113 of 113` above `3 of 3 logs`.
fn lost(lost: &Lost) -> String {
    if lost.made == 0 {
        return "none made".to_string();
    }
    format!("{} of {}\n{}", text::count(lost.lost), text::count(lost.made), logs(lost))
}

/// The logs that lost something.
pub(crate) fn logs(lost: &Lost) -> String {
    format!("{} of {}", lost.losing_logs, text::plural(lost.logs, "log"))
}

fn not_mounted(one: &ModelLosses) -> String {
    let hung = if one.hung > 0 { format!("\n{} hung", one.hung) } else { String::new() };
    format!("{} of {}{hung}", one.not_mounted(), one.states)
}

/// The median above the maximum.
fn spread(spread: Spread) -> String {
    let time = |ns| text::time(Time { ns, at_least: false });
    format!("{}\n{}", time(spread.p50), time(spread.max))
}

/// Writes what the table of models does not show: the logs, each promise, and states that lost something.
pub(super) fn details(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let Some(losses) = &case.losses else { return Ok(()) };
    style.paragraph(out, Paint::Plain, 0, &log(losses))?;
    if let Some(line) = bounds(losses) {
        style.paragraph(out, Paint::Plain, 0, &line)?;
    }
    if let Some(line) = unpromised(losses) {
        style.paragraph(out, Paint::Plain, 0, &line)?;
    }
    let promises = promises(losses);
    if promises.len() > 1 {
        writeln!(out, "\n{}", style.paint(Paint::Heading, "Promises lost, of those acknowledged"))?;
        let mut table = style.table(promises[0].clone());
        for row in &promises[1..] {
            table.add_row(row.iter().map(Cell::new).collect::<Vec<_>>());
        }
        write_table(out, table, style)?;
        style.paragraph(out, Paint::Plain, 0, MARKS)?;
    }
    let failures = mount_errors(losses);
    let losing = losing(losses);
    if failures.len() + losing.len() > 0 {
        writeln!(out)?;
    }
    failures.iter().chain(&losing).try_for_each(|line| style.paragraph(out, Paint::Alert, 0, line))
}

/// The meaning of the marks after promises.
pub(crate) const MARKS: &str = "(unmarked: promised by POSIX or a manual page; *: kept in practice, but \
    promised by no manual page; +: promised by nobody; wrong: files with zeros, old or foreign data, or \
    garbage)";

/// Returns the line about wrong contents that are not damage.
fn unpromised(losses: &Losses) -> Option<String> {
    let most = losses.models.iter().map(|one| one.unpromised.total()).max().filter(|most| *most > 0)?;
    let files = text::plural(most, "file");
    Some(format!("In work that nothing had promised to keep, up to {files} had something wrong inside."))
}

/// Returns the summary of what was recorded and where it was cut.
pub(crate) fn log(losses: &Losses) -> String {
    let log = &losses.log;
    format!(
        "{}, {} in all: {} writes ({} MB), {} discards, {} flushes; {} cuts",
        text::plural(losses.logs as u64, "log"),
        text::time_in_words(Time { ns: log.duration_ns.0, at_least: false }),
        text::count(log.writes),
        text::number(log.written_bytes as f64 / 1e6),
        text::count(log.discards),
        text::count(log.flushes),
        text::count(losses.cuts)
    )
}

/// Returns the bound on how much may be lost where nothing was.
pub(crate) fn bounds(losses: &Losses) -> Option<String> {
    let none: Vec<&ModelLosses> =
        losses.models.iter().filter(|one| one.acknowledged.at_most_of_cuts().is_some()).collect();
    let bound = none.iter().filter_map(|one| one.acknowledged.at_most_of_cuts()).fold(0.0, f64::max);
    let names: Vec<&str> = none.iter().map(|one| one.model.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "nothing lost under {}: of cuts after an acknowledgement at such places in these logs, at most {} \
             lose a promise (95 %)",
            names.join(", "),
            text::at_most(bound)
        )
    })
}

/// The heading and a row for each promise, with a cell for each model.
pub(crate) fn promises(losses: &Losses) -> Vec<Vec<String>> {
    let made = |promise: &&Promise| {
        losses.models.iter().any(|one| one.promises.iter().any(|of| of.promise == **promise))
    };
    let mark = |promise: Promise| match promise.source() {
        PromiseBasis::Standard => "",
        PromiseBasis::Practice => " *",
        PromiseBasis::Nobody => " +",
    };
    let cell = |model: &ModelLosses, promise: Promise| {
        let found = model.promises.iter().find(|one| one.promise == promise);
        found.map_or("-".to_string(), |PromiseLosses { lost, wrong, .. }| {
            let wrong = match wrong.total() {
                0 => String::new(),
                files => format!("\n{} wrong", text::count(files)),
            };
            format!("{} of {}{wrong}", text::count(lost.lost), text::count(lost.made))
        })
    };
    let row = |promise: &Promise| {
        let name = format!("{}{}", promise.name(), mark(*promise));
        let cells = losses.models.iter().map(|model| cell(model, *promise));
        std::iter::once(name).chain(cells).collect()
    };
    let models = losses.models.iter().map(|one| one.model.name());
    let head = std::iter::once("promise").chain(models).map(str::to_string).collect();
    std::iter::once(head).chain(Promise::ALL.iter().filter(made).map(row)).collect()
}

/// Why disks could not be mounted.
pub(crate) fn mount_errors(losses: &Losses) -> Vec<String> {
    let of = |one: &ModelLosses| {
        let model = one.model.name();
        let line = move |(reason, states): (&String, &u64)| {
            format!("not mounted under {model}: {reason} ({})", text::plural(*states, "state"))
        };
        one.mount_errors.iter().map(line).collect::<Vec<_>>()
    };
    losses.models.iter().flat_map(of).collect()
}

/// The first states that lost something.
pub(crate) fn losing(losses: &Losses) -> Vec<String> {
    let line = |one: &fsdyno_verdict::durability::LosingTrial| {
        let state = &one.state;
        let (trial, cut, model) = (text::nth(one.trial), state.cut, state.model.name());
        format!("trial {trial}, cut {cut}, {model}, state {}: {}", state.subset, state.found.join("; "))
    };
    let more = losses.losing.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("({more} more such states; --format json has them)"));
    losses.losing.iter().take(LISTED).map(line).chain(more).collect()
}

#[cfg(test)]
mod tests;
