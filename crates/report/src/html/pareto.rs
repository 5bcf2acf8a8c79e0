//! Trade-offs: each further objective against the deciding one.
//!
//! Small charts, one above the other, share their horizontal axis. A configuration on the front is a filled
//! point with its name, one that another beats is an empty point, and one that weakens durability is a cross,
//! on the front or not.

use super::chart::{self, Chart, Names, plain};
use super::configurations::head_unit;
use fsdyno_core::measure::{Measure, Unit};
use fsdyno_verdict::recommendation::{Answer, Objective, ParetoPoint, Recommendation};
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Height of one chart and of the space for its heading, and below the last, in pixels.
const PART: f64 = 190.0;
const GAP: f64 = 44.0;
const FOOT: f64 = 52.0;
/// If more configurations than this are on the front, none is named: the names would overlap.
const NAMED_MAX: usize = 8;

/// The fronts under each workload.
pub fn section(recommendation: &Recommendation, names: &mut Names) -> Markup {
    let several = |answer: &&Answer| answer.pareto.points.len() > 1 && answer.pareto.objectives.len() > 1;
    let answers: Vec<&Answer> = recommendation.answers.iter().filter(several).collect();
    html! {
        section #pareto aria-labelledby="pareto-title" {
            h2 #pareto-title { "Trade-offs" }
            @if answers.is_empty() {
                p { "There are fewer than two configurations or measures to compare." }
            }
            @for answer in &answers {
                @if answers.len() > 1 { h3 { (answer.title) } }
                (front(answer, names))
            }
        }
    }
}

fn front(answer: &Answer, names: &mut Names) -> Markup {
    let (pareto, height) = front_chart(answer);
    let best: Vec<&str> =
        answer.pareto.points.iter().filter(|point| point.on_front).map(|point| point.name.as_str()).collect();
    let caption = html! {
        strong { "Each further measure against the deciding one." }
        " A filled point is on the Pareto front: no other configuration is as good in everything, safety \
         included, and better "
        "in something. An empty point is beaten by another. A cross weakens what survives a power cut, or may."
    };
    let label = "Each further measure against the deciding one; the table below has the figures";
    html! {
        p { "On the front: " (best.join(", ")) "." }
        (chart::figure(&names.next(), &pareto, height, label, &caption))
        details {
            summary { "Figures as a table" }
            div.scroll tabindex="0" role="region" aria-label="Pareto front" {
                table.figures {
                    thead { tr {
                        th scope="col" { "configuration" }
                        @for objective in &answer.pareto.objectives { th scope="col" { (objective.measure) " " span.unit { (unit(objective)) } } }
                        th scope="col" { "durable" } th scope="col" { "on the front" }
                    } }
                    tbody {
                        @for point in &answer.pareto.points {
                            tr {
                                th scope="row" { (point.name) }
                                @for (index, objective) in answer.pareto.objectives.iter().enumerate() { td { (shown(objective, point, index)) } }
                                td { @if point.durable { "yes" } @else { "no" } }
                                td { @if point.on_front { "yes" } @else { "no" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn measure(objective: &Objective) -> Option<Measure> {
    objective.measure.parse().ok()
}

/// The symbol of the unit; times have it in their figures.
fn unit(objective: &Objective) -> &'static str {
    measure(objective).map_or("", |measure| head_unit(measure.unit()))
}

fn shown(objective: &Objective, point: &ParetoPoint, index: usize) -> String {
    let (value, at_least) = (point.values[index], point.at_least[index]);
    let shown = measure(objective).map(|measure| text::measured(measure.unit(), value, at_least));
    let only = point.only(index).map(|trials| format!(" ({trials} trials)"));
    shown.into_iter().chain(only).collect()
}

/// A value in the unit of the charts: times in seconds.
fn drawn(objective: &Objective, value: f64) -> f64 {
    let unit = measure(objective).map(|measure| measure.unit());
    chart::rounded(match unit {
        Some(Unit::Nanoseconds) => value / 1e9,
        Some(unit) => unit.shown(value),
        None => value,
    })
}

fn axis(objective: &Objective, points: &[ParetoPoint], index: usize) -> Value {
    let values = points.iter().map(|point| point.values[index]).filter(|value| *value > 0.0);
    let (least, most) =
        values.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)));
    match measure(objective).map(|measure| measure.unit()) {
        Some(Unit::Nanoseconds) if most > 0.0 => chart::close_time_axis(least, most),
        _ => json!({ "rangemode": "tozero", "nticks": 6 }),
    }
}

fn front_chart(answer: &Answer) -> (Chart, u32) {
    let (objectives, points) = (&answer.pareto.objectives, &answer.pareto.points);
    let further = objectives.len() - 1;
    let height = FOOT + further as f64 * (PART + GAP);
    let area = height - FOOT;
    let mut data = Vec::new();
    let mut annotations = Vec::new();
    let better = if objectives[0].higher_is_better { "higher is better" } else { "lower is better" };
    let mut layout = json!({
        "height": height,
        "margin": { "t": 4, "b": FOOT - 4.0 },
        "hovermode": "closest",
    });
    let mut across = axis(&objectives[0], points, 0);
    let symbol = unit(&objectives[0]);
    let heading = format!(
        "{}{}{symbol}; {better}",
        plain(&objectives[0].measure),
        if symbol.is_empty() { "" } else { ", " }
    );
    across["title"] = json!({ "text": heading });
    across["anchor"] = format!("y{}", if further == 1 { String::new() } else { further.to_string() }).into();
    layout["xaxis"] = across;
    let x: Vec<f64> = points.iter().map(|point| drawn(&objectives[0], point.values[0])).collect();
    let on_front = points.iter().filter(|point| point.on_front).count();
    for index in 1..=further {
        let objective = &objectives[index];
        let suffix = if index == 1 { String::new() } else { index.to_string() };
        let top = area - (index - 1) as f64 * (PART + GAP) - GAP + 8.0;
        let mut vertical = axis(objective, points, index);
        vertical["domain"] =
            json!([chart::rounded(((top - PART) / area).max(0.0)), chart::rounded(top / area)]);
        layout[format!("yaxis{suffix}")] = vertical;
        let symbol = unit(objective);
        let title = format!(
            "{}{}{symbol}; {} is better",
            plain(&objective.measure),
            if symbol.is_empty() { "" } else { ", " },
            if objective.higher_is_better { "higher" } else { "lower" }
        );
        annotations.push(chart::row_title(&title, chart::rounded(top / area)));
        let names: Vec<String> = points
            .iter()
            .map(
                |point| {
                    if point.on_front && on_front <= NAMED_MAX { plain(&point.name) } else { String::new() }
                },
            )
            .collect();
        let symbols: Vec<&str> = points
            .iter()
            .map(|point| match (point.durable, point.on_front) {
                (true, true) => "circle",
                (true, false) => "circle-open",
                (false, true) => "x",
                (false, false) => "x-open",
            })
            .collect();
        let words: Vec<String> = points.iter().map(|point| words(objectives, point)).collect();
        data.push(json!({
            "type": "scatter", "mode": "markers+text", "yaxis": format!("y{suffix}"), "showlegend": false, "meta": "pareto",
            "x": x, "y": points.iter().map(|point| drawn(objective, point.values[index])).collect::<Vec<_>>(),
            "text": names, "textposition": sides(&x), "cliponaxis": false, "hovertext": words, "hoverinfo": "text",
            "marker": { "size": 9, "symbol": symbols, "color": "--c1", "line": { "color": "--c1", "width": 1.5 } },
        }));
    }
    layout["annotations"] = annotations.into();
    (Chart { data, layout, tables: Vec::new() }, height.round() as u32)
}

/// Where a name goes: towards the middle, where there is room, and alternately above and below its point.
fn sides(x: &[f64]) -> Vec<&'static str> {
    let ends = |(least, most): (f64, f64), value: &f64| (least.min(*value), most.max(*value));
    let (least, most) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    let rank = |value: f64| x.iter().filter(|other| **other < value).count();
    x.iter()
        .map(|value| match (*value > f64::midpoint(least, most), rank(*value) % 2) {
            (true, 0) => "top left",
            (true, _) => "bottom left",
            (false, 0) => "top right",
            (false, _) => "bottom right",
        })
        .collect()
}

fn words(objectives: &[Objective], point: &ParetoPoint) -> String {
    let values = objectives.iter().enumerate().map(|(index, objective)| {
        let value = shown(objective, point, index);
        format!("{}: {} {}", plain(&objective.measure), plain(&value), unit(objective))
    });
    let safety = if point.durable { "" } else { "<br>weakens what survives a power cut, or may" };
    format!("{}<br>{}{safety}", plain(&point.name), values.collect::<Vec<_>>().join("<br>"))
}
