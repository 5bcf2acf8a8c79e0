//! Rates over numbers of workers: one chart for each load that is measured with several.

use super::chart::{self, Chart, Names, Table, plain, rounded};
use fsdyno_core::TrialRecord;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::scaling::{Scaling, ScalingPoint};
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Height of a chart in pixels.
const HEIGHT: u32 = 340;
/// How many configurations are drawn, the best ones.
const CONFIGURATIONS_MAX: usize = 14;

/// The rates of one trial of a configuration.
struct Found<'a> {
    name: &'a str,
    trial: u32,
    scaling: Scaling,
}

/// Whether there is anything to show.
pub fn is_shown(rankings: &[Ranking], trials: &[TrialRecord]) -> bool {
    rankings.iter().any(|ranking| !all_found(ranking, trials).is_empty())
}

/// The trials of each configuration that has any.
fn all_found<'a>(ranking: &Ranking, trials: &'a [TrialRecord]) -> Vec<Vec<Found<'a>>> {
    let rows = ranking.rows.iter().map(|row| {
        let own =
            trials.iter().filter(|trial| trial.case == row.case && is_measured(trial) && !trial.sentinel);
        let found = own.filter_map(|trial| {
            let scaling = Scaling::of_trial(trial)?;
            Some(Found { name: &trial.configuration.name, trial: trial.trial, scaling })
        });
        found.collect::<Vec<_>>()
    });
    rows.filter(|found| !found.is_empty()).take(CONFIGURATIONS_MAX).collect()
}

/// The section; nothing if every load has one number of workers.
pub fn section(rankings: &[Ranking], trials: &[TrialRecord], names: &mut Names) -> Markup {
    if !is_shown(rankings, trials) {
        return html! {};
    }
    let loads: Vec<_> = rankings.iter().map(|ranking| (ranking, all_found(ranking, trials))).collect();
    html! {
        section #scaling aria-labelledby="scaling-title" {
            h2 #scaling-title { "Rate by number of workers" }
            @for (ranking, found) in loads.iter().filter(|(_, found)| !found.is_empty()) {
                h3 { (ranking.title) }
                (figure(found, names))
            }
        }
    }
}

fn figure(configurations: &[Vec<Found<'_>>], names: &mut Names) -> Markup {
    let chart = chart(configurations);
    let caption = html! {
        strong { "Iterations per second over the number of workers." }
        " A line is one trial; a filled point is its knee, where the rate by the time of an iteration is \
         highest."
    };
    let label = "Iterations per second over the number of workers; the table has the figures";
    chart::figure(&names.next(), &chart, HEIGHT, label, &caption)
}

fn chart(configurations: &[Vec<Found<'_>>]) -> Chart {
    let mut data: Vec<Value> = Vec::new();
    let head = ["configuration", "trial", "workers", "iterations/s", "each", "an iteration takes", "Jain"];
    let mut table = Table {
        caption: "Iterations per second by number of workers".to_string(),
        head: head.map(str::to_string).to_vec(),
        rows: Vec::new(),
    };
    let takes = |point: &ScalingPoint| {
        let time = |ns: f64| text::time_in_words(Time { ns: ns.round() as u64, at_least: false });
        point.iteration_ns().map_or("-".to_string(), time)
    };
    for (index, trials) in configurations.iter().enumerate() {
        for (position, Found { name, trial, scaling }) in trials.iter().enumerate() {
            let (points, knee) = (&scaling.points, scaling.knee());
            data.push(json!({
                "type": "scatter", "mode": "lines+markers", "name": plain(name), "legendgroup": index,
                "showlegend": position == 0, "meta": "scaling",
                "x": points.iter().map(|point| point.workers).collect::<Vec<_>>(),
                "y": points.iter().map(|point| rounded(point.per_s)).collect::<Vec<_>>(),
                "hovertext": points.iter().map(|point| format!(
                    "{}, trial {trial}<br>{}: {} iterations/s, each in {}", plain(name),
                    text::plural(point.workers.into(), scaling.role.name()), text::number(point.per_s),
                    takes(point)
                )).collect::<Vec<_>>(),
                "hoverinfo": "text",
                "line": { "color": chart::colour(index), "dash": chart::dash(index), "width": 1.5 },
                "marker": {
                    "color": chart::colour(index), "size": 7,
                    "symbol": points.iter().map(|point| match Some(point) == knee {
                        true => chart::symbol(index).to_string(),
                        false => format!("{}-open", chart::symbol(index)),
                    }).collect::<Vec<_>>(),
                },
            }));
            table.rows.extend(points.iter().map(|point| {
                let jain = point.fairness.map_or("-".to_string(), |fairness| format!("{:.3}", fairness.jain));
                let [rate, each] = [point.per_s, point.each_per_s()].map(text::number);
                let (trial, workers) = (trial.to_string(), point.workers.to_string());
                vec![(*name).to_string(), trial, workers, rate, each, takes(point), jain]
            }));
        }
    }
    let layout = json!({
        "height": HEIGHT,
        "margin": { "t": 8, "b": 96 },
        "hovermode": "closest",
        "xaxis": { "title": { "text": "workers" }, "rangemode": "tozero", "nticks": 8 },
        "yaxis": { "title": { "text": "iterations per second" }, "rangemode": "tozero" },
        "legend": { "orientation": "h", "y": -0.26, "yanchor": "top", "x": 0 },
    });
    Chart { data, layout, tables: vec![table] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_trial_is_a_line_with_its_knee_filled() {
        let trials = fixture::scaled_trials();
        let view = fixture::view("flow-iterations", &trials);
        let found = all_found(&view.rankings[0], &trials);
        let chart = chart(&found);
        let ext4 = chart.data.iter().find(|line| line["name"] == "ext4 none").expect("a line");
        assert_eq!(ext4["x"], json!([1, 2, 4, 8]));
        assert_eq!(ext4["y"], json!([100.0, 195.0, 350.0, 380.0]));
        let open = |symbol: &Value| symbol.as_str().is_some_and(|symbol| symbol.ends_with("-open"));
        let open: Vec<bool> =
            ext4["marker"]["symbol"].as_array().expect("symbols").iter().map(open).collect();
        assert_eq!(open, [true, true, false, true]);
        let row = chart.tables[0].rows.iter().find(|row| row[0] == "ext4 none" && row[2] == "8");
        assert_eq!(row.expect("a row")[3..], ["380", "47.5", "21.1 ms", "1.000"]);
        let mut names = Names::default();
        assert!(section(&view.rankings, &trials, &mut names).0.contains("Rate by number of workers"));
        let others = fixture::trials();
        let view = fixture::view("read", &others);
        assert_eq!(section(&view.rankings, &others, &mut names).0, "");
    }
}
