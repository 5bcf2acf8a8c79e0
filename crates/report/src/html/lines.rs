//! Charts with a line for each trial, of all configurations under a load.

use super::chart::{self, plain};
use fsdyno_core::TrialRecord;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::ranking::Ranking;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Height of a chart in pixels.
pub(super) const HEIGHT: u32 = 340;
/// The number of configurations that are drawn, the best ones.
const CONFIGURATIONS_MAX: usize = 14;

/// The result of a trial of a configuration.
pub(super) struct Line<'a, T> {
    /// The configuration.
    pub name: &'a str,
    /// The trial.
    pub trial: u32,
    /// The result of the trial.
    pub found: T,
}

impl<'a, T> Line<'a, T> {
    /// Of this trial.
    pub(super) fn of(trial: &'a TrialRecord, found: T) -> Self {
        Line { name: &trial.configuration.name, trial: trial.trial, found }
    }
}

/// The lines of each configuration that has any, the best one first.
pub(super) fn lines<'a, T>(
    ranking: &Ranking,
    trials: &'a [TrialRecord],
    find: impl Fn(&'a TrialRecord) -> Option<T>,
) -> Vec<Vec<Line<'a, T>>> {
    let rows = ranking.rows.iter().map(|row| {
        let own = trials.iter().filter(|trial| trial.case == row.case && is_measured(trial));
        own.filter_map(|trial| Some(Line::of(trial, find(trial)?))).collect::<Vec<_>>()
    });
    rows.filter(|lines| !lines.is_empty()).take(CONFIGURATIONS_MAX).collect()
}

/// A section with a figure for each load that has lines; nothing without any.
pub(super) fn section<'a, T>(
    (anchor, title): (&str, &str),
    rankings: &[Ranking],
    trials: &'a [TrialRecord],
    find: impl Fn(&'a TrialRecord) -> Option<T>,
    mut figure: impl FnMut(&[Vec<Line<'a, T>>]) -> Markup,
) -> Markup {
    let loads = rankings.iter().map(|ranking| (ranking, lines(ranking, trials, &find)));
    let loads: Vec<_> = loads.filter(|(_, lines)| !lines.is_empty()).collect();
    html! {
        @if !loads.is_empty() {
            section id=(anchor) aria-labelledby={ (anchor) "-title" } {
                h2 id={ (anchor) "-title" } { (title) }
                @for (ranking, lines) in &loads {
                    h3 { (ranking.title) }
                    (figure(lines))
                }
            }
        }
    }
}

/// A point of a line.
pub(super) struct Point {
    pub x: Value,
    pub y: Value,
    /// The text that is shown beside it.
    pub text: String,
    /// `true` if it is filled; the others are empty.
    pub filled: bool,
}

/// A line as plotly draws it: that of the trial at a position among those of the configuration at an index.
pub(super) fn trace(kind: &str, name: &str, (index, position): (usize, usize), points: Vec<Point>) -> Value {
    let symbol = |point: &Point| match point.filled {
        true => chart::symbol(index).to_string(),
        false => format!("{}-open", chart::symbol(index)),
    };
    json!({
        "type": "scatter", "mode": "lines+markers", "name": plain(name), "legendgroup": index,
        "showlegend": position == 0, "meta": kind,
        "x": points.iter().map(|point| &point.x).collect::<Vec<_>>(),
        "y": points.iter().map(|point| &point.y).collect::<Vec<_>>(),
        "hovertext": points.iter().map(|point| &point.text).collect::<Vec<_>>(),
        "hoverinfo": "text",
        "line": { "color": chart::colour(index), "dash": chart::dash(index), "width": 1.5 },
        "marker": {
            "color": chart::colour(index), "size": 7, "symbol": points.iter().map(symbol).collect::<Vec<_>>(),
        },
    })
}

/// The axes of such a chart, and its legend.
pub(super) fn layout(x: &str, y: Value) -> Value {
    json!({
        "height": HEIGHT,
        "margin": { "t": 8, "b": 96 },
        "hovermode": "closest",
        "xaxis": { "title": { "text": x }, "rangemode": "tozero", "nticks": 8 },
        "yaxis": y,
        "legend": { "orientation": "h", "y": -0.26, "yanchor": "top", "x": 0 },
    })
}
