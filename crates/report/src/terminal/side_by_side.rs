//! Published figures and ours as text: a table for each published row that the sweep has a counterpart of.

use super::style::{Paint, Style, write_table};
use crate::published::{Ours, Printed, SideBySide};
use comfy_table::Cell;
use fsdyno_verdict::text::{self, interval_name};
use std::io::{self, Write};

/// Writes published figures and ours side by side.
///
/// # Errors
/// Those of `out`.
pub fn side_by_side(out: &mut dyn Write, compared: &SideBySide, style: &Style) -> io::Result<()> {
    let SideBySide { sweep, sweep_name, published, title, source, .. } = compared;
    let heading = format!("sweep {sweep} '{sweep_name}' compared with published:{published}");
    writeln!(out, "{}", style.paint(Paint::Heading, &heading))?;
    style.paragraph(out, Paint::Plain, 0, &format!("{title} ({source})"))?;
    if let Some(emulation) = &compared.emulation {
        style.paragraph(out, Paint::Alert, 0, &format!("warning: {emulation}"))?;
    }
    for row in &compared.rows {
        let label = label(&row.label);
        writeln!(out)?;
        style.paragraph(out, Paint::Heading, 0, &format!("{label}: measured as '{}'", row.configuration))?;
        for note in &row.notes {
            style.paragraph(out, Paint::Plain, 0, &format!("note: {note}"))?;
        }
        table(out, &row.figures, style)?;
    }
    if compared.rows.iter().any(|row| row.figures.iter().any(|figure| figure.ours.is_some())) {
        writeln!(out, "\n(ours: means over n trials; ratio: ours divided by published)")?;
    }
    for note in &compared.notes {
        style.paragraph(out, Paint::Plain, 0, &format!("note: {note}"))?;
    }
    missing(out, compared, style)?;
    for name in &compared.unpublished {
        style.paragraph(out, Paint::Plain, 0, &format!("measured but not published: '{name}'"))?;
    }
    Ok(())
}

fn label(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn table(out: &mut dyn Write, figures: &[Printed], style: &Style) -> io::Result<()> {
    let with_one = || figures.iter().filter_map(|figure| figure.ours.filter(|ours| ours.low.is_some()));
    let interval =
        with_one().next().map(|_| format!(" [{}]", interval_name(with_one().map(|ours| ours.trials))));
    let ours = format!("ours{}", interval.unwrap_or_default());
    let header = ["", "unit", "published", &ours, "n", "ratio"].map(str::to_string).to_vec();
    let mut table = style.table(header);
    let mut section = "";
    for figure in figures {
        let (above, name) = figure.name.split_once(" / ").unwrap_or(("", &figure.name));
        if above != section {
            table.add_row([Cell::new(above)]);
            section = above;
        }
        let indent = if above.is_empty() { "" } else { "  " };
        let row = [
            format!("{indent}{name}"),
            figure.shown_in.to_string(),
            digits(figure.published / figure.shown_in.factor()),
            figure.ours.map_or("-".to_string(), |ours| number(&ours, figure.shown_in.factor())),
            figure.ours.map_or(String::new(), |ours| ours.trials.to_string()),
            figure.ratio.map_or("-".to_string(), digits),
        ];
        table.add_row(row.map(Cell::new));
    }
    write_table(out, table, *style)
}

/// At least two significant digits, however small the number: 25 ns is 0.000025 in published milliseconds.
fn digits(value: f64) -> String {
    match value.abs() {
        tiny if tiny > 0.0 && tiny < 0.001 => {
            let places = usize::try_from(1 - tiny.log10().floor() as i64).unwrap_or(0).min(9);
            format!("{value:.places$}")
        }
        _ => text::number(value),
    }
}

/// A figure in a unit that is so many base units.
fn number(ours: &Ours, base: f64) -> String {
    let bound = if ours.at_least { ">=" } else { "" };
    let value = digits(ours.value / base);
    match (ours.low, ours.high) {
        (Some(low), Some(high)) => {
            format!("{bound}{value} [{}, {bound}{}]", digits(low / base), digits(high / base))
        }
        _ => format!("{bound}{value}"),
    }
}

/// The published rows without figures of ours, grouped by reason.
fn missing(out: &mut dyn Write, compared: &SideBySide, style: &Style) -> io::Result<()> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for row in &compared.missing {
        let text = format!("{} (counterpart: '{}')", label(&row.label), row.counterpart);
        match groups.iter_mut().find(|(reason, _)| *reason == row.reason) {
            Some((_, rows)) => rows.push(text),
            None => groups.push((&row.reason, vec![text])),
        }
    }
    for (reason, rows) in groups {
        writeln!(out)?;
        style.paragraph(out, Paint::Alert, 0, &format!("published but not measured: {reason}"))?;
        rows.iter().try_for_each(|row| style.paragraph(out, Paint::Plain, 2, row))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::published::find;

    fn text(name: &str, width: usize) -> String {
        let trials = fixture::scheduler_trials();
        let compared =
            crate::published::side_by_side(&fixture::header("read"), &trials, find(name).unwrap()).unwrap();
        let mut out = Vec::new();
        side_by_side(&mut out, &compared, &Style { width, colour: false, blocks: false }).unwrap();
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        text
    }

    #[test]
    fn every_published_row_is_listed() {
        let text = text("bonnie-schedulers-2009", 80);
        assert!(text.contains("XFS CFQ: measured as 'xfs bfq'"));
        let write = text.lines().find(|line| line.starts_with("block_write_kb_per_s")).unwrap();
        assert!(write.contains("39901") && write.contains("141 [100, 200]"), "{write}");
        assert!(text.contains("published but not measured: skipped: the kernel has no jfs"));
        for label in ["Reiser CFQ", "XFS Tuned", "Ext4 Deadline"] {
            assert!(text.contains(&format!("\n  {label} (counterpart: '")), "{label}");
        }
        assert!(text.contains("measured but not published: 'btrfs bfq'"));
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn numbers_of_any_size_have_digits() {
        for (value, text) in [(0.000025, "0.000025"), (0.0, "0"), (0.00123, "0.0012"), (471.0, "471")] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn the_interval_of_a_lower_bound_has_no_upper_end() {
        let ours = Ours { value: 15.0, low: Some(1.0), high: Some(30.0), trials: 2, at_least: true };
        assert_eq!(number(&ours, 1.0), ">=15.0 [1.00, >=30.0]");
    }

    #[test]
    fn without_a_common_row_there_is_no_table() {
        let text = text("fsopbench-2009", 80);
        assert!(!text.contains("ratio:") && text.contains("published but not measured"), "{text}");
    }
}
