//! The findings of a race, as text.

use super::style::{Paint, Style, write_table};
use comfy_table::Cell;
use fsdyno_core::Measure;
use fsdyno_core::measure::Column;
use fsdyno_verdict::race::{Finalist, RaceAnswer, RaceState};
use fsdyno_verdict::text;
use std::io::{self, Write};

/// Configurations that are listed by name; JSON has all.
const NAMED: usize = 3;

/// Writes the answer of a race: what to use, the fresh figures of the last few, and what was dropped when.
///
/// # Errors
/// Those of `out`.
pub fn race(out: &mut dyn Write, found: &RaceAnswer, style: &Style) -> io::Result<()> {
    let title = format!("{}: {}, raced for {}", found.name, found.workload, found.measure);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    writeln!(out)?;
    style.paragraph(out, Paint::Heading, 0, &found.judgement.headline)?;
    for sentence in &found.sentences {
        style.paragraph(out, Paint::Plain, 0, sentence)?;
    }
    for doubt in &found.doubts {
        style.paragraph(out, Paint::Alert, 0, &format!("warning: {doubt}"))?;
    }
    match found.finalists.iter().any(|one| one.trials > 0) {
        true => finalists(out, found, *style)?,
        false => {
            writeln!(out)?;
            style.paragraph(out, Paint::Plain, 0, &left(found))?;
        }
    }
    writeln!(out)?;
    for line in found.drops() {
        style.paragraph(out, Paint::Plain, 0, &line)?;
    }
    if !found.not_entered.is_empty() {
        let count = text::plural(found.not_entered.len() as u64, "configuration");
        let text =
            format!("{count} did not take part: they weaken what survives a power cut, so they cannot win");
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    if let (RaceState::Replayed, Some(time), Some(whole)) = (found.state, found.time_ns, found.sweep_time_ns)
    {
        let text = format!("time without sentinels: {} instead of {}", text::human(time), text::human(whole));
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    style.paragraph(out, Paint::Plain, 0, "(every elimination: --format json)")
}

/// A row for each configuration that was measured again.
fn finalists(out: &mut dyn Write, found: &RaceAnswer, style: Style) -> io::Result<()> {
    let Ok(measure) = found.measure.parse::<Measure>() else { return Ok(()) };
    let unit = measure.unit();
    writeln!(out)?;
    // A column of a table has its unit in its name.
    let symbol = if Column::name_of(measure.name()) == measure.name() { unit.symbol() } else { "" };
    let heading = format!("{measure} {symbol}");
    let heads = ["measured again", heading.trim(), "interval", "n", ""];
    let mut table = style.table(heads.map(str::to_string).to_vec());
    let shown = |value: f64| text::measured(unit, value, false);
    let row = |one: &Finalist| {
        let is = |other: &fsdyno_verdict::race::Raced| other.case == one.raced.case;
        let note = match (is(&found.pick), is(&found.default)) {
            (true, true) => format!("the pick, the {}", found.default_called),
            (true, false) => "the pick".to_string(),
            (false, true) => format!("the {}", found.default_called),
            (false, false) if found.as_good.iter().any(is) => "may be as good".to_string(),
            (false, false) => String::new(),
        };
        [
            one.raced.configuration.name.clone(),
            one.value.map_or("-".to_string(), shown),
            one.interval.map_or("-".to_string(), |[low, high]| format!("[{}, {}]", shown(low), shown(high))),
            one.trials.to_string(),
            note,
        ]
    };
    for one in &found.finalists {
        table.add_row(row(one).map(Cell::new).to_vec());
    }
    write_table(out, table, style)?;
    style.paragraph(
        out,
        Paint::Plain,
        0,
        "(geometric means over n fresh trials; the order is that of all trials)",
    )
}

/// Those that are left, before they are measured again.
fn left(found: &RaceAnswer) -> String {
    let names = found.finalists.iter().take(NAMED).map(|one| format!("'{}'", one.raced.configuration.name));
    let mut names: Vec<String> = names.collect();
    if found.finalists.len() > NAMED {
        names.push(format!("{} more", found.finalists.len() - NAMED));
    }
    format!("still in the race, the best so far first: {}", names.join(", "))
}
