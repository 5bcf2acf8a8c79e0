//! Response times over rates: one chart for each load with a search for the highest rate that meets a
//! target.

use super::chart::{self, Chart, Names, Table, plain, rounded, seconds};
use fsdyno_core::TrialRecord;
use fsdyno_core::result::{Quantile, RateCurve};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Height of a chart in pixels.
const HEIGHT: u32 = 340;
/// How many configurations are drawn, the best ones.
const CURVES_MAX: usize = 14;

/// A curve of one trial of a configuration.
struct Found<'a> {
    name: &'a str,
    trial: u32,
    curve: &'a RateCurve,
}

/// Whether there is anything to show: some trial has searched.
pub fn is_shown(rankings: &[Ranking], trials: &[TrialRecord]) -> bool {
    rankings.iter().any(|ranking| !all_found(ranking, trials).is_empty())
}

/// The curves of each configuration that has any.
fn all_found<'a>(ranking: &Ranking, trials: &'a [TrialRecord]) -> Vec<Vec<Found<'a>>> {
    let rows = ranking.rows.iter().map(|row| {
        let own =
            trials.iter().filter(|trial| trial.case == row.case && is_measured(trial) && !trial.sentinel);
        own.flat_map(found).collect::<Vec<_>>()
    });
    rows.filter(|found| !found.is_empty()).take(CURVES_MAX).collect()
}

/// The section; nothing if no trial has searched.
pub fn section(rankings: &[Ranking], trials: &[TrialRecord], names: &mut Names) -> Markup {
    if !is_shown(rankings, trials) {
        return html! {};
    }
    let loads: Vec<_> = rankings.iter().map(|ranking| (ranking, all_found(ranking, trials))).collect();
    html! {
        section #capacity aria-labelledby="capacity-title" {
            h2 #capacity-title { "Response times by rate" }
            @for (ranking, found) in loads.iter().filter(|(_, found)| !found.is_empty()) {
                h3 { (ranking.title) }
                (figure(found, names))
            }
        }
    }
}

fn found(trial: &TrialRecord) -> Vec<Found<'_>> {
    let roles = trial.phases.iter().flat_map(|phase| &phase.roles);
    let curves = roles.filter_map(|role| role.open_loop.as_ref()?.search.as_ref());
    curves.map(|curve| Found { name: &trial.configuration.name, trial: trial.trial, curve }).collect()
}

fn figure(configurations: &[Vec<Found<'_>>], names: &mut Names) -> Markup {
    let Some(target) = configurations.first().and_then(|found| found.first()).map(|one| one.curve.until)
    else {
        return html! {};
    };
    let chart = chart(configurations, target.quantile, target.within.0);
    let label = format!("{} of the response time over the rate; the table has the figures", target.quantile);
    let caption = html! {
        strong { (target.quantile) " of the response time over the rate that was tried." }
        " A line is one trial; a filled point met " (target) ", an empty one did not. The dashed line is the \
         target."
    };
    chart::figure(&names.next(), &chart, HEIGHT, &label, &caption)
}

fn chart(configurations: &[Vec<Found<'_>>], quantile: Quantile, within_ns: u64) -> Chart {
    let mut data: Vec<Value> = Vec::new();
    let (mut least, mut most) = (within_ns, within_ns);
    let mut table = Table {
        caption: format!("{quantile} of the response time by rate"),
        head: ["configuration", "trial", "iterations/s", "achieved", quantile.label(), "met"]
            .map(str::to_string)
            .to_vec(),
        rows: Vec::new(),
    };
    for (index, trials) in configurations.iter().enumerate() {
        for (position, Found { name, trial, curve }) in trials.iter().enumerate() {
            let points = curve.by_rate();
            let took = |at: usize| {
                let latency = &points[at].lat_ns;
                latency.quantiles[quantile].max(1)
            };
            (least, most) = (0..points.len())
                .fold((least, most), |(least, most), at| (least.min(took(at)), most.max(took(at))));
            let words = |at: usize| {
                let ns = took(at);
                text::time_in_words(Time { ns, at_least: points[at].lat_ns.is_bound(ns) })
            };
            let kept = |at: usize| if points[at].met { "yes" } else { "no" };
            let all = 0..points.len();
            data.push(json!({
                "type": "scatter", "mode": "lines+markers", "name": plain(name), "legendgroup": index,
                "showlegend": position == 0, "meta": "capacity",
                "x": points.iter().map(|point| rounded(point.intended_per_s)).collect::<Vec<_>>(),
                "y": all.clone().map(|at| seconds(took(at))).collect::<Vec<_>>(),
                "hovertext": all.clone().map(|at| format!(
                    "{}, trial {trial}<br>{} iterations/s: {quantile} \
                     {}", plain(name), text::number(points[at].intended_per_s),
                    words(at).replace(">=", "at least")
                )).collect::<Vec<_>>(),
                "hoverinfo": "text",
                "line": { "color": chart::colour(index), "dash": chart::dash(index), "width": 1.5 },
                "marker": {
                    "color": chart::colour(index), "size": 7,
                    "symbol": points.iter().map(|point| match point.met {
                        true => chart::symbol(index).to_string(),
                        false => format!("{}-open", chart::symbol(index)),
                    }).collect::<Vec<_>>(),
                },
            }));
            table.rows.extend(all.map(|at| {
                let rates = [points[at].intended_per_s, points[at].achieved_per_s].map(text::number);
                let [intended, achieved] = rates;
                vec![
                    (*name).to_string(),
                    trial.to_string(),
                    intended,
                    achieved,
                    words(at),
                    kept(at).to_string(),
                ]
            }));
        }
    }
    let layout = json!({
        "height": HEIGHT,
        "margin": { "t": 8, "b": 96 },
        "hovermode": "closest",
        "xaxis": { "title": { "text": "iterations per second" }, "rangemode": "tozero", "nticks": 8 },
        "yaxis": chart::close_time_axis(least as f64, most as f64),
        "legend": { "orientation": "h", "y": -0.26, "yanchor": "top", "x": 0 },
        "shapes": [{
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": seconds(within_ns), "y1": seconds(within_ns),
            "line": { "color": "--soft", "dash": "dash", "width": 1 },
        }],
    });
    Chart { data, layout, tables: vec![table] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_trial_is_a_line_from_the_lowest_rate_to_the_highest() {
        let trials = fixture::searched_trials();
        let ext4: Vec<Found<'_>> = trials[..2].iter().flat_map(found).collect();
        let xfs: Vec<Found<'_>> = trials[2..].iter().flat_map(found).collect();
        let chart = chart(&[ext4, xfs], Quantile::P99, 20_000_000);
        assert_eq!(chart.data.len(), 3);
        assert_eq!(chart.data[0]["x"], json!([150.0, 300.0, 450.0]));
        assert_eq!(chart.data[0]["marker"]["symbol"], json!(["circle", "circle", "circle-open"]));
        assert_eq!([&chart.data[0], &chart.data[1]].map(|line| line["showlegend"] == true), [true, false]);
        assert_eq!(chart.tables[0].rows.len(), 3 + 3 + 2);
        assert_eq!(chart.tables[0].rows[2], ["ext4 none", "0", "450", "300", "179 ms", "no"]);
    }

    #[test]
    fn the_section_is_there_only_if_a_rate_was_searched_for() {
        let mut names = Names::default();
        let searched = fixture::searched_trials();
        let view = fixture::view("flow-capacity", &searched);
        let page = section(&view.rankings, &searched, &mut names).0;
        assert!(page.contains("id=\"capacity\"") && page.contains("p99 &lt;= 20ms"), "{page}");
        let others = fixture::trials();
        let view = fixture::view("read", &others);
        assert_eq!(section(&view.rankings, &others, &mut names).0, "");
    }
}
