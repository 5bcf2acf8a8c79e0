//! Response times over rates: one chart for each load with a search for the highest rate that meets a
//! target.

use super::chart::{self, Chart, ChartTable, Names, plain, rounded, seconds};
use super::lines::{self, HEIGHT, Line, Point};
use fsdyno_core::TrialRecord;
use fsdyno_core::result::{Quantile, RateCurve};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::json;

/// Where it is on the page.
pub const ANCHOR: &str = "capacity";
pub const TITLE: &str = "Response times by rate";

type Curve<'a> = Line<'a, &'a RateCurve>;

/// The section; nothing if no trial has searched.
pub fn section(rankings: &[Ranking], trials: &[TrialRecord], names: &mut Names) -> Markup {
    lines::section((ANCHOR, TITLE), rankings, trials, curve, |found| figure(found, names))
}

fn curve(trial: &TrialRecord) -> Option<&RateCurve> {
    let mut roles = trial.phases.iter().flat_map(|phase| &phase.roles);
    roles.find_map(|role| role.open_loop.as_ref()?.search.as_ref())
}

fn figure(configurations: &[Vec<Curve<'_>>], names: &mut Names) -> Markup {
    let Some(target) = configurations.first().and_then(|found| found.first()).map(|one| one.found.until)
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

fn chart(configurations: &[Vec<Curve<'_>>], quantile: Quantile, within_ns: u64) -> Chart {
    let mut data = Vec::new();
    let (mut least, mut most) = (within_ns, within_ns);
    let mut table = ChartTable {
        caption: format!("{quantile} of the response time by rate"),
        head: ["configuration", "trial", "iterations/s", "achieved", quantile.label(), "met"]
            .map(str::to_string)
            .to_vec(),
        rows: Vec::new(),
    };
    for (index, trials) in configurations.iter().enumerate() {
        for (position, Line { name, trial, found }) in trials.iter().enumerate() {
            let mut points = Vec::new();
            for point in found.by_rate() {
                let ns = point.lat_ns.quantiles[quantile].max(1);
                (least, most) = (least.min(ns), most.max(ns));
                let words = text::time_in_words(Time { ns, at_least: point.lat_ns.is_bound(ns) });
                let [intended, achieved] = [point.intended_per_s, point.achieved_per_s].map(text::number);
                points.push(Point {
                    x: json!(rounded(point.intended_per_s)),
                    y: json!(seconds(ns)),
                    text: format!(
                        "{}, trial {}<br>{intended} iterations/s: {quantile} {}",
                        plain(name),
                        text::nth(*trial),
                        words.replace(">=", "at least")
                    ),
                    filled: point.met,
                });
                let met = if point.met { "yes" } else { "no" };
                let (name, trial) = ((*name).to_string(), trial.to_string());
                table.rows.push(vec![name, trial, intended, achieved, words, met.to_string()]);
            }
            data.push(lines::trace(ANCHOR, name, (index, position), points));
        }
    }
    let mut layout =
        lines::layout("iterations per second", chart::close_time_axis(least as f64, most as f64));
    layout["shapes"] = json!([{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": seconds(within_ns),
        "y1": seconds(within_ns), "line": { "color": "--soft", "dash": "dash", "width": 1 },
    }]);
    Chart { data, layout, tables: vec![table] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_trial_is_a_line_from_the_lowest_rate_to_the_highest() {
        let trials = fixture::searched_trials();
        let found = |trial| Line::of(trial, curve(trial).expect("a search"));
        let [ext4, xfs] = [&trials[..2], &trials[2..]].map(|trials| trials.iter().map(found).collect());
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
