//! Every configuration with every measure: a heat map that shows what stands out, and a table of figures.
//!
//! The whole map has one colour scale: how many times worse a figure is than the best of its column. Units
//! and directions differ from column to column; ratios do not.

use super::cases::Cases;
use super::chart::{self, Chart, ChartTable, Names, plain};
use super::{faults, losses};
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Direction, Unit};
use fsdyno_verdict::View;
use fsdyno_verdict::ranking::{CaseEstimate, RankedCase, Ranking};
use fsdyno_verdict::text::{interval_name, measured};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Up to this many rows, the heat map names each and writes the figures into its cells.
const ROWS_NAMED: usize = 40;
/// The classes of the map's colours: up to this many times worse than the best of the column, and the words
/// for it. A difference of at most 5 % is not material.
const CLASSES: &[(f64, &str)] = &[
    (1.05, "the best, or within 5 %"),
    (1.25, "up to 1.25 times worse"),
    (1.5, "1.5"),
    (2.0, "2"),
    (4.0, "4"),
    (f64::INFINITY, "more"),
];
/// Minimum width of a column and of the names in pixels; on a narrower page the map scrolls sideways.
const COLUMN_WIDTH: usize = 66;
const NAMES_WIDTH: usize = 150;

/// The configurations under each workload.
pub fn section(view: &View, trials: &[TrialRecord], cases: &Cases, names: &mut Names) -> Markup {
    let rankings = &view.rankings;
    html! {
        section #configurations aria-labelledby="configurations-title" {
            h2 #configurations-title { "Configurations" }
            @if rankings.is_empty() {
                p { "No configuration was measured." }
            }
            @for (index, ranking) in rankings.iter().enumerate() {
                (workload(index, ranking, trials, cases, names))
            }
        }
    }
}

fn workload(
    index: usize,
    ranking: &Ranking,
    trials: &[TrialRecord],
    cases: &Cases,
    names: &mut Names,
) -> Markup {
    let measure = ranking.measure();
    let title = &ranking.title;
    let weak = ranking.rows.iter().any(|row| !row.risks.is_empty());
    let several = ranking.rows.len() > 1;
    html! {
        h3 { (title) }
        @if several {
            (heat_map(ranking, names))
        }
        p.note {
            "Best first by " strong { (measure) } ". Each figure is the geometric mean over " i { "n" } " trials"
            @if intervals(ranking) { ", with its \
                " (interval_name(ranking.rows.iter().map(RankedCase::with_value))) " below" }
            "; " i { "(max)" } " is the longest of all trials."
            @if weak {
                " " strong { "!" } " weakens what survives a power cut, or may: it never wins if a safe one was \
                 measured."
            }
        }
        @if several {
            div.tools {
                label for={ "filter-" (index) } { "Show only" }
                input id={ "filter-" (index) } type="search" data-filter={ "table-" (index) }
                    placeholder="ext4 bfq" autocomplete="off" spellcheck="false";
                span role="status" data-count={ "table-" (index) } { (ranking.rows.len()) " configurations" }
            }
        }
        div.scroll tabindex="0" role="region" aria-label={ "Configurations under " (title) } {
            table.figures id={ "table-" (index) } {
                caption.unseen { "Configurations under " (title) ". Headings sort the table." }
                thead { tr {
                    (heading("configuration", "", None, false))
                    @for (column, measure) in ranking.measures.iter().enumerate() {
                        (heading(&ranking.heading(column), head_unit(measure.unit()), Some(measure.direction()), column == 0))
                        @if column == 0 && intervals(ranking) { th.strip scope="col" aria-hidden="true" { (scale(ranking)) } }
                    }
                    (heading("n", "trials", None, false))
                    (heading("warnings", "kinds", None, false))
                } }
                tbody {
                    @for row in &ranking.rows { (table_row(ranking, row, trials, cases.has(row.case))) }
                }
            }
        }
        (losses::section(ranking, names))
        (faults::section(ranking))
    }
}

/// The unit in a heading; times have theirs in the cells.
pub fn head_unit(unit: Unit) -> &'static str {
    if unit == Unit::Nanoseconds { "" } else { unit.symbol() }
}

/// A heading that sorts. The table is initially sorted by the first column of figures.
fn heading(name: &str, unit: &str, direction: Option<Direction>, sorted: bool) -> Markup {
    let better = match direction {
        Some(Direction::HigherIsBetter) => "descending",
        Some(Direction::LowerIsBetter) | None => "ascending",
    };
    html! {
        th scope="col" aria-sort=[sorted.then_some(better)] {
            button type="button" data-sort=(better) {
                (name) @if !unit.is_empty() { " " span.unit { (unit) } }
            }
        }
    }
}

fn intervals(ranking: &Ranking) -> bool {
    ranking.ranked().any(|(_, figure)| figure.estimate.interval.is_some())
}

fn table_row(ranking: &Ranking, row: &RankedCase, trials: &[TrialRecord], linked: bool) -> Markup {
    let settings = trials.iter().find(|trial| trial.case == row.case).map(|trial| {
        let settings = trial.configuration.settings.iter().map(|(axis, level)| format!("{axis}={level}"));
        settings.chain([trial.configuration.filesystem.clone()]).collect::<Vec<_>>().join(" ")
    });
    html! {
        tr data-text={ (row.name) " " (settings.unwrap_or_default()) } {
            th scope="row" data-value=(row.name) {
                @if linked { a href={ "#case-" (row.case) } { (row.name) } } @else { (row.name) }
                @if !row.risks.is_empty() { " " abbr title=(row.risks.join("; ")) { "!" } }
            }
            @for (column, figure) in row.figures.iter().enumerate() {
                (cell(ranking, row, column, *figure))
                @if column == 0 && intervals(ranking) { td.strip aria-hidden="true" { (strip(ranking, *figure)) } }
            }
            td data-value=(row.with_value()) { (row.with_value()) }
            td data-value=(row.warning_kinds) { (row.warning_kinds) }
        }
    }
}

fn cell(ranking: &Ranking, row: &RankedCase, column: usize, figure: Option<CaseEstimate>) -> Markup {
    let unit = ranking.measures[column].unit();
    let Some(figure) = figure else { return html! { td { "-" } } };
    let (value, mean) = (ranking.shown(column, figure), !ranking.is_longest(column));
    let interval = figure.estimate.interval.filter(|_| mean);
    html! {
        td data-value=(value) {
            (measured(unit, value, figure.at_least))
            @if let Some(interval) = interval {
                small { (measured(unit, interval.low, figure.low_at_least)) " – " (measured(unit, interval.high, figure.at_least)) }
            }
            @if let Some(median) = figure.median.filter(|_| mean) {
                small { "median " (measured(unit, median, figure.at_least)) }
            }
            @if let Some(trials) = row.only(column) {
                small { (trials) " trials" }
            }
        }
    }
}

/// Width of the strip in which intervals are drawn, in SVG units.
const STRIP: f64 = 120.0;

/// From the lowest to the highest end of any interval of the deciding measure.
fn range(ranking: &Ranking) -> Option<(f64, f64)> {
    let ends = ranking.ranked().map(|(_, figure)| {
        let value = figure.estimate.value;
        figure.estimate.interval.map_or((value, value), |interval| (interval.low, interval.high))
    });
    let range = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (range.1 > range.0).then_some(range)
}

/// A value's place on the strip. Four units at each end are left for the marks.
fn place(range: (f64, f64), value: f64) -> f64 {
    chart::rounded(4.0 + (STRIP - 8.0) * (value - range.0) / (range.1 - range.0))
}

/// The ends of the common scale of all strips.
fn scale(ranking: &Ranking) -> Markup {
    let unit = ranking.measure().unit();
    html! {
        @if let Some((low, high)) = range(ranking) {
            span { (measured(unit, low, false)) } span { (measured(unit, high, false)) }
        }
    }
}

/// The interval as a line and the mean as a dot, on the scale that all rows share.
fn strip(ranking: &Ranking, figure: Option<CaseEstimate>) -> Markup {
    let (Some(range), Some(figure)) = (range(ranking), figure) else { return html! {} };
    let mean = place(range, figure.estimate.value);
    html! {
        svg viewBox={ "0 0 " (STRIP) " 16" } width=(STRIP) height="16" focusable="false" {
            @if let Some(interval) = figure.estimate.interval {
                line x1=(place(range, interval.low)) x2=(place(range, interval.high)) y1="8" y2="8" {}
            }
            circle cx=(mean) cy="8" r="3.5" {}
        }
    }
}

/// Returns how many times worse than the best a value is: 1 for the best itself.
fn ratio(direction: Direction, best: f64, value: f64) -> f64 {
    let ratio = match direction {
        Direction::HigherIsBetter => best / value,
        Direction::LowerIsBetter => value / best,
    };
    // If the best is zero, any other value is infinitely worse.
    if value == best {
        1.0
    } else if ratio.is_nan() {
        f64::INFINITY
    } else {
        ratio.max(1.0)
    }
}

/// The class of a ratio.
fn class(ratio: f64) -> usize {
    // An infinite ratio belongs to the last class, which also takes a NaN.
    CLASSES.iter().position(|(most, _)| ratio <= *most).unwrap_or(CLASSES.len() - 1)
}

fn heat_map(ranking: &Ranking, names: &mut Names) -> Markup {
    let (map, height) = heat_map_chart(ranking);
    let caption = html! {
        strong { "Each configuration compared with the best" } ", column by column."
        @if ranking.rows.len() > ROWS_NAMED { " Point at a cell for its figures." }
        span.key {
            @for (class, (_, words)) in CLASSES.iter().enumerate() {
                span { i style={ "background:var(--heat-" (class) ")" } {} (words) }
            }
        }
    };
    let width = NAMES_WIDTH + COLUMN_WIDTH * ranking.measures.len();
    let label = "Heat map of configurations and measures; the table below has the figures";
    chart::wide_figure(&names.next(), &map, (width, height), label, &caption)
}

/// The cells of the heat map, as plotly takes them.
#[derive(Default)]
struct Cells {
    /// The classes, row by row.
    z: Vec<Vec<Value>>,
    /// The colours of the figures.
    inks: Vec<String>,
    /// The figures.
    text: Vec<String>,
    /// The words of each, row by row.
    hover: Vec<Vec<String>>,
}

fn cells(ranking: &Ranking, rows: &[&RankedCase]) -> Cells {
    let best: Vec<Option<f64>> = ranking
        .measures
        .iter()
        .enumerate()
        .map(|(column, measure)| {
            let values =
                ranking.rows.iter().filter_map(|row| Some(ranking.shown(column, row.figures[column]?)));
            match measure.direction() {
                Direction::HigherIsBetter => values.reduce(f64::max),
                Direction::LowerIsBetter => values.reduce(f64::min),
            }
        })
        .collect();
    let mut cells = Cells::default();
    for row in rows {
        let (mut colours, mut figures, mut words): (Vec<Value>, Vec<String>, Vec<String>) =
            Default::default();
        for (column, (figure, best)) in row.figures.iter().zip(&best).enumerate() {
            let (measure, head) = (&ranking.measures[column], ranking.heading(column));
            let (Some(figure), Some(best)) = (figure, best) else {
                colours.push(Value::Null);
                cells.inks.push("--soft".to_string());
                figures.push(String::new());
                words.push(format!("{}<br>{head}: no value", plain(&row.name)));
                continue;
            };
            let value = ranking.shown(column, *figure);
            let ratio = ratio(measure.direction(), *best, value);
            let shown = measured(measure.unit(), value, figure.at_least);
            let (unit, times) = (head_unit(measure.unit()), measured(Unit::Operations, ratio, false));
            let standing = match (ratio, measure.direction()) {
                (1.0, _) => "the best".to_string(),
                (f64::INFINITY, Direction::HigherIsBetter) => "zero, unlike the best".to_string(),
                (f64::INFINITY, Direction::LowerIsBetter) => "the best is zero".to_string(),
                _ => format!("{times} times worse than the best"),
            };
            colours.push(class(ratio).into());
            cells.inks.push(format!("--heat-ink-{}", class(ratio)));
            words.push(format!("{}<br>{head}: {} {unit}<br>{standing}", plain(&row.name), plain(&shown)));
            figures.push(plain(&shown));
        }
        cells.z.push(colours);
        cells.text.extend(figures);
        cells.hover.push(words);
    }
    cells
}

fn heat_map_chart(ranking: &Ranking) -> (Chart, u32) {
    // The last row of the map is at the top, so the best comes last.
    let rows: Vec<&RankedCase> = ranking.rows.iter().rev().collect();
    let named = rows.len() <= ROWS_NAMED;
    let Cells { z, inks, text, hover } = cells(ranking, &rows);
    let places: Vec<usize> = (0..rows.len()).collect();
    let mark = |row: &RankedCase| if row.risks.is_empty() { "" } else { " !" };
    let labels: Vec<String> = rows.iter().map(|row| plain(&row.name) + mark(row)).collect();
    let columns: Vec<usize> = (0..ranking.measures.len()).collect();
    let heads: Vec<String> =
        columns.iter().map(|column| ranking.heading(*column).replacen('-', "-<br>", 1)).collect();
    let row_height = if named { 27.0 } else { (900.0 / rows.len() as f64).clamp(2.0, 14.0) };
    let height = (rows.len() as f64 * row_height).round() + 48.0;
    // One step of the scale for each class, without gradients.
    let steps = CLASSES.len() as f64;
    let scale: Vec<Value> = (0..CLASSES.len())
        .flat_map(|class| {
            [class, class + 1].map(|end| json!([end as f64 / steps, format!("--heat-{class}")]))
        })
        .collect();
    let map = json!({
        "type": "heatmap", "x": columns, "y": places, "z": z, "zmin": -0.5, "zmax": steps - 0.5,
        "colorscale": scale, "showscale": false, "xgap": 2, "ygap": if named { 2 } else { 0 }, "hoverongaps": false,
        "hovertext": hover, "hovertemplate": "%{hovertext}<extra></extra>", "meta": "heat",
    });
    let mut data = vec![map];
    if named {
        data.push(json!({
            "type": "scatter", "mode": "text", "hoverinfo": "skip", "showlegend": false, "meta": "figures", "text": text,
            "x": places.iter().flat_map(|_| columns.clone()).collect::<Vec<_>>(),
            "y": places.iter().flat_map(|place| columns.iter().map(move |_| *place)).collect::<Vec<_>>(),
            "textfont": { "color": inks },
        }));
    }
    let layout = json!({
        "height": height,
        "margin": { "t": 44, "b": 4, "l": 10, "r": 2 },
        "xaxis": { "side": "top", "tickvals": columns, "ticktext": heads, "showgrid": false, "ticks": "", "fixedrange": true, "tickangle": 0 },
        "yaxis": {
            "tickvals": if named { places } else { Vec::new() }, "ticktext": if named { labels } else { Vec::new() },
            "showgrid": false, "automargin": true, "fixedrange": true, "ticks": "",
        },
    });
    // The figures are in the table below the map.
    (Chart { data, layout, tables: Vec::<ChartTable>::new() }, height as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_cell_says_how_many_times_worse_than_the_best_of_its_column_it_is() {
        assert_eq!(ratio(Direction::HigherIsBetter, 50.0, 25.0), 2.0);
        assert_eq!(ratio(Direction::LowerIsBetter, 0.5, 2.0), 4.0);
        assert_eq!(ratio(Direction::LowerIsBetter, 0.0, 0.0), 1.0);
        assert_eq!(ratio(Direction::LowerIsBetter, 0.0, 3.0), f64::INFINITY);
        assert_eq!([1.0, 1.05, 1.06, 4.0, 4.1, f64::INFINITY].map(class), [0, 0, 1, 4, 5, 5]);
    }

    #[test]
    fn a_zero_is_not_called_better_than_the_best() {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.configuration.name == "ext4 bfq") {
            trial.phases[0].roles[0].rates.aggregate_bytes_per_s = 0.0;
        }
        let (chart, _) = heat_map_chart(&fixture::view("read", &trials).rankings[0]);
        let words = chart.data[0]["hovertext"][0][0].as_str().unwrap();
        assert_eq!(words, "ext4 bfq<br>read: 0 MB/s<br>zero, unlike the best");
    }

    #[test]
    fn the_map_has_a_cell_for_each_configuration_and_measure_the_best_on_top() {
        let view = fixture::view("read-under-write", &fixture::trials());
        let (chart, _) = heat_map_chart(&view.rankings[0]);
        let z = chart.data[0]["z"].as_array().unwrap();
        assert_eq!((z.len(), z[0].as_array().unwrap().len()), (2, view.rankings[0].measures.len()));
        assert_eq!((&z[0][0], &z[1][0]), (&json!(1), &json!(0)), "the best is the last row, which is on top");
    }
}
