//! Rates over numbers of workers: one chart for each load that is measured with several.

use super::chart::{self, Chart, ChartTable, Names, plain, rounded};
use super::lines::{self, HEIGHT, Line, Point};
use fsdyno_core::TrialRecord;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::scaling::{Scaling, ScalingPoint};
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::json;

/// Where it is on the page.
pub const ANCHOR: &str = "scaling";
pub const TITLE: &str = "Rate by number of workers";

/// The section; nothing if every load has one number of workers.
pub fn section(rankings: &[Ranking], trials: &[TrialRecord], names: &mut Names) -> Markup {
    lines::section((ANCHOR, TITLE), rankings, trials, Scaling::of_trial, |found| figure(found, names))
}

fn figure(configurations: &[Vec<Line<'_, Scaling>>], names: &mut Names) -> Markup {
    let chart = chart(configurations);
    let caption = html! {
        strong { "Iterations per second over the number of workers." }
        " A line is one trial; a filled point is its knee, where the rate divided by the time of an iteration \
         is highest."
    };
    let label = "Iterations per second over the number of workers; the table has the figures";
    chart::figure(&names.next(), &chart, HEIGHT, label, &caption)
}

fn chart(configurations: &[Vec<Line<'_, Scaling>>]) -> Chart {
    let mut data = Vec::new();
    let head = ["configuration", "trial", "workers", "iterations/s", "each", "an iteration takes", "Jain"];
    let mut table = ChartTable {
        caption: "Iterations per second by number of workers".to_string(),
        head: head.map(str::to_string).to_vec(),
        rows: Vec::new(),
    };
    for (index, trials) in configurations.iter().enumerate() {
        for (position, Line { name, trial, found }) in trials.iter().enumerate() {
            let knee = found.knee();
            let mut points = Vec::new();
            for point in &found.points {
                let (takes, [rate, each]) =
                    (takes(point), [point.per_s, point.each_per_s()].map(text::number));
                let workers = text::plural(point.workers.into(), found.role.name());
                points.push(Point {
                    x: json!(point.workers),
                    y: json!(rounded(point.per_s)),
                    text: format!(
                        "{}, trial {}<br>{workers}: {rate} iterations/s, each in {takes}",
                        plain(name),
                        text::nth(*trial)
                    ),
                    filled: Some(point) == knee,
                });
                let jain = point.fairness.map_or("-".to_string(), |fairness| format!("{:.3}", fairness.jain));
                let [name, trial, workers] =
                    [(*name).to_string(), trial.to_string(), point.workers.to_string()];
                table.rows.push(vec![name, trial, workers, rate, each, takes, jain]);
            }
            data.push(lines::trace(ANCHOR, name, (index, position), points));
        }
    }
    let rates = json!({ "title": { "text": "iterations per second" }, "rangemode": "tozero" });
    Chart { data, layout: lines::layout("workers", rates), tables: vec![table] }
}

fn takes(point: &ScalingPoint) -> String {
    let time = |ns: f64| text::time_in_words(Time { ns: ns.round() as u64, at_least: false });
    point.iteration_ns().map_or("-".to_string(), time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use serde_json::Value;

    #[test]
    fn each_trial_is_a_line_with_its_knee_filled() {
        let trials = fixture::scaled_trials();
        let view = fixture::view("flow-iterations", &trials);
        let found = lines::lines(&view.rankings[0], &trials, Scaling::of_trial);
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
