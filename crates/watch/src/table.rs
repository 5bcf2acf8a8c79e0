//! The table of cases: their places by what is measured so far, and their trials block by block.

use crate::look::{Look, Paint, columns};
use crate::scene::{CaseRow, Cell, Row, Scene};
use fsdyno_core::Measure;
use fsdyno_core::measure::Unit;
use fsdyno_verdict::ranking::CaseEstimate;
use fsdyno_verdict::text;
use ratatui::text::{Line, Span};

/// The columns of `## `.
const RANK: usize = 3;
/// The meaning of the signs of the blocks.
const LEGEND: &str = "o measured, w with warnings, X failed, - skipped, > running, . not measured";
/// The same, of the sign that only a race has.
const LEGEND_OF_RACE: &str = "/ dropped by the race";
/// The longest name, unless there is more room than anything else needs.
const NAME: usize = 28;
/// The shortest.
const SHORTEST: usize = 10;

/// The division of the width of a table among its columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    name: usize,
    figure: usize,
    /// Blocks that have room, the last ones.
    blocks: usize,
    /// Columns of each.
    block: usize,
    /// The drawing of intervals; 0 if there is no room for it.
    plot: usize,
}

impl Columns {
    fn of(scene: &Scene, width: usize) -> Self {
        let rows = || scene.rows.iter().filter_map(case);
        let longest = rows().map(|row| columns(&row.name)).max().unwrap_or(0).max(SHORTEST);
        let mut figure = rows().filter_map(|row| Some(columns(&figure(row)?))).max().unwrap_or(0).max(7);
        // The measure above the figures, if there is room.
        let by = columns(&by(scene));
        if RANK + longest.min(NAME) + by + 2 * scene.blocks() as usize + 6 <= width {
            figure = figure.max(by);
        }
        let blocks = scene.blocks() as usize;
        // Rank, name, figure, number of trials, blocks.
        let fixed = RANK + 1 + figure + 1 + 3 + 1;
        let wanted = longest.min(NAME);
        let room = width.saturating_sub(fixed + wanted);
        let block = if room >= 2 * blocks { 2 } else { 1 };
        let blocks = blocks.min((room / block).max(1));
        let mut rest = width.saturating_sub(fixed + wanted + blocks * block);
        let name = (wanted + rest.min(longest.saturating_sub(wanted))).max(SHORTEST);
        rest = width.saturating_sub(fixed + name + blocks * block);
        let plot = if rest >= 12 { (rest - 1).min(40) } else { 0 };
        Columns { name, figure, blocks, block, plot }
    }
}

/// Returns the meaning of the signs of the blocks, in lines.
pub(crate) fn legend(scene: &Scene) -> impl Iterator<Item = &'static str> {
    [LEGEND].into_iter().chain(scene.sweep.is_race.then_some(LEGEND_OF_RACE))
}

/// The heading, and a line for each row.
pub(crate) fn lines(
    scene: &Scene,
    look: Look,
    width: usize,
    cursor: Option<usize>,
) -> (Line<'static>, Vec<Line<'static>>) {
    let sizes = Columns::of(scene, width);
    let range = range(scene);
    let line = |(index, row): (usize, &Row)| match row {
        Row::Heading(title) => Line::from(look.span(Paint::Heading, look.fit(title, width))),
        Row::Case(row) => case_line(scene, row, look, sizes, range, cursor == Some(index)),
    };
    (heading(scene, look, width, sizes), scene.rows.iter().enumerate().map(line).collect())
}

fn case(row: &Row) -> Option<&CaseRow> {
    match row {
        Row::Case(row) => Some(row),
        Row::Heading(_) => None,
    }
}

/// Returns the headings of the columns, the measure above its figures.
fn heading(scene: &Scene, look: Look, width: usize, sizes: Columns) -> Line<'static> {
    let by = by(scene);
    let blocks = scene.blocks() as usize;
    let first = blocks - sizes.blocks.min(blocks) + 1;
    let last = if sizes.blocks == blocks { "blocks".to_string() } else { format!("{first}-{blocks}") };
    let room = RANK + sizes.name + 1 + sizes.figure;
    let by_room = room.saturating_sub(columns("configuration") + 1);
    let by = look.fit(&by, by_room);
    let gap = room.saturating_sub(columns("configuration") + columns(&by));
    let text = format!("configuration{}{by}   n ", " ".repeat(gap));
    let text = match columns(&text) + columns(&last) <= width {
        true => look.pad(&text, width - columns(&last)) + &last,
        false => text,
    };
    Line::from(look.span(Paint::Heading, look.fit(&text, width)))
}

/// The measure that ranks, with its unit.
fn by(scene: &Scene) -> String {
    let ranked = scene.rows.iter().filter_map(case).find(|row| row.figure.is_some());
    let measure = ranked.map_or(&scene.sweep.measure, |row| &row.measure);
    match measure.unit() {
        Unit::Nanoseconds => measure.to_string(),
        unit => format!("{measure} {}", unit.symbol()),
    }
}

fn case_line(
    scene: &Scene,
    row: &CaseRow,
    look: Look,
    sizes: Columns,
    range: Option<(f64, f64)>,
    chosen: bool,
) -> Line<'static> {
    let paint = match (chosen, row.dropped) {
        (true, _) => Paint::Chosen,
        (false, true) => Paint::Faint,
        (false, false) => Paint::Plain,
    };
    let rank = row.rank.map_or(String::new(), |rank| rank.to_string());
    let mark = if row.risky { "!" } else { " " };
    let figure = figure(row).unwrap_or_default();
    let missing = sizes.figure.saturating_sub(columns(&figure));
    let trials = if row.trials > 0 { row.trials.to_string() } else { String::new() };
    let name = look.pad(&row.name, sizes.name);
    let text = format!("{rank:>2}{mark}{name} {}{figure} {trials:>3} ", " ".repeat(missing));
    let mut spans = vec![look.span(paint, text)];
    if sizes.plot > 0 {
        let paint = if row.dropped { Paint::Faint } else { Paint::Good };
        spans.push(look.span(paint, plot(row.figure, range, look, sizes.plot) + " "));
    }
    spans.extend(cells(scene, row, look, sizes));
    Line::from(spans)
}

fn cells(scene: &Scene, row: &CaseRow, look: Look, sizes: Columns) -> Vec<Span<'static>> {
    let cells = scene.cells(row.case, row.sentinel);
    let skipped = cells.len().saturating_sub(sizes.blocks);
    let span = |cell: &Cell| {
        let paint = match cell {
            Cell::Measured | Cell::Warned if row.dropped => Paint::Faint,
            Cell::Running => Paint::Heading,
            Cell::Measured => Paint::Good,
            Cell::Warned => Paint::Alert,
            Cell::Failed => Paint::Bad,
            Cell::ToCome | Cell::Skipped | Cell::Dropped | Cell::Missing => Paint::Faint,
        };
        look.span(paint, look.pad(&cell.sign().to_string(), sizes.block))
    };
    cells[skipped..].iter().map(span).collect()
}

/// The mean and its interval: `203 [181, 225]`.
fn figure(row: &CaseRow) -> Option<String> {
    let figure = row.figure?;
    Some(estimate(&row.measure, figure))
}

/// An estimate without its unit, except that times have theirs.
pub(crate) fn estimate(measure: &Measure, figure: CaseEstimate) -> String {
    let unit = measure.unit();
    let shown = |value| text::measured(unit, value, false);
    let mean = text::measured(unit, figure.estimate.value, figure.at_least);
    match figure.estimate.interval {
        Some(interval) => format!("{mean} [{}, {}]", shown(interval.low), shown(interval.high)),
        None => mean,
    }
}

/// From the lowest to the highest end of all intervals; `None` if all of them are one point.
fn range(scene: &Scene) -> Option<(f64, f64)> {
    let ends = scene.rows.iter().filter_map(case).filter_map(|row| row.figure).map(|figure| {
        let mean = figure.estimate.value;
        figure.estimate.interval.map_or((mean, mean), |interval| (interval.low, interval.high))
    });
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), (a, b)| (low.min(a), high.max(b)));
    (low.is_finite() && high.is_finite() && high > low).then_some((low, high))
}

/// An interval as a line from its one end to its other, with a mark at the mean.
fn plot(figure: Option<CaseEstimate>, range: Option<(f64, f64)>, look: Look, width: usize) -> String {
    let (Some(figure), Some((low, high))) = (figure, range) else { return " ".repeat(width) };
    let at = |value: f64| ((value - low) / (high - low) * (width - 1) as f64).round().max(0.0) as usize;
    let mean = at(figure.estimate.value).min(width - 1);
    let (from, to) =
        figure.estimate.interval.map_or((mean, mean), |i| (at(i.low), at(i.high).min(width - 1)));
    let (line, point) = if look.unicode { ('─', '●') } else { ('-', 'o') };
    let sign = |column| match column {
        column if column == mean => point,
        column if (from..=to).contains(&column) => line,
        _ => ' ',
    };
    (0..width).map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_verdict::{Estimate, Interval};

    fn figure(low: f64, mean: f64, high: f64) -> CaseEstimate {
        let interval = Some(Interval { low, high });
        let estimate = Estimate { value: mean, interval, n: 6 };
        CaseEstimate { estimate, median: None, max: high, at_least: false, low_at_least: false }
    }

    #[test]
    fn an_interval_is_drawn_between_its_ends() {
        let look = Look { colour: false, unicode: false };
        let drawn = |low, mean, high| plot(Some(figure(low, mean, high)), Some((0.0, 10.0)), look, 11);
        assert_eq!(drawn(0.0, 5.0, 10.0), "-----o-----");
        assert_eq!(drawn(2.0, 3.0, 5.0), "  -o--     ");
        assert_eq!(drawn(10.0, 10.0, 10.0), "          o");
        assert_eq!(plot(None, Some((0.0, 1.0)), look, 3), "   ");
    }
}
