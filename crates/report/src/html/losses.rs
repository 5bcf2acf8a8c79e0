//! The losses from power cuts: a table of every cache model of each configuration, and a chart of how old
//! work has to be to survive.

use super::chart::{self, Chart, ChartTable, Names, plain};
use super::elements::{sentence, table};
use crate::terminal::columns::Column;
use crate::terminal::losses::{
    LEGEND, MARKS, bounds, columns, log, logs, losing, mount_errors, promises as promise_rows,
};
use fsdyno_core::durability::CacheModel;
use fsdyno_core::result::AgeBin;
use fsdyno_verdict::durability::{Losses, ModelLosses};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::ranking::{RankedCase, Ranking};
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::json;

/// Height of a chart in pixels, and the most lines in it: more could not be told apart.
const HEIGHT: u32 = 360;
const LINES_MAX: usize = 14;

/// The tables and the charts of a workload; nothing if no power was cut.
pub fn section(ranking: &Ranking, names: &mut Names) -> Markup {
    let rows: Vec<(&RankedCase, &ModelLosses)> = ranking
        .rows
        .iter()
        .filter_map(|row| Some((row, row.losses.as_ref()?)))
        .flat_map(|(row, found)| found.models.iter().map(move |model| (row, model)))
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    let models: Vec<&ModelLosses> = rows.iter().map(|(_, model)| *model).collect();
    let measured: Vec<CacheModel> =
        CacheModel::ALL.into_iter().filter(|model| models.iter().any(|one| one.model == *model)).collect();
    html! {
        h4 { "Lost in power cuts" }
        (of_models(&rows, &columns(&models)))
        dl.facts {
            @for model in &measured { dt { (model.name()) } dd { (model.description()) } }
        }
        @for line in LEGEND { p.note { (sentence(line)) } }
        @for model in &measured { (survival(*model, &rows, names)) }
    }
}

fn of_models(rows: &[(&RankedCase, &ModelLosses)], columns: &[Column]) -> Markup {
    let heads =
        ["configuration", "cache model"].into_iter().chain(columns.iter().map(|one| one.name.as_str()));
    let cells = rows.iter().enumerate().map(|(index, (row, model))| {
        let names = [row.name.clone(), model.model.name().to_string()];
        names.into_iter().chain(columns.iter().map(|column| column.cells[index].clone())).collect()
    });
    table("Lost in power cuts", &heads.collect::<Vec<_>>(), &cells.collect::<Vec<_>>())
}

/// Renders how much of the work that nothing synced survives, by its age at the cut.
fn survival(model: CacheModel, rows: &[(&RankedCase, &ModelLosses)], names: &mut Names) -> Markup {
    let lines: Vec<(&RankedCase, &[AgeBin])> = rows
        .iter()
        .filter(|(_, one)| one.model == model && one.survival.iter().any(|bin| bin.made > 0))
        .map(|(row, one)| (*row, &one.survival[..]))
        .collect();
    if lines.is_empty() {
        return html! {};
    }
    let label = format!("Unsynced work that survives, by its age, under {}", model.name());
    let left_out = lines.len().saturating_sub(LINES_MAX);
    let caption = html! {
        strong { "Unsynced work that survives, under " (model.name()) "." }
        " How much of the work of each age was there after the cut, over all states. Nothing promises that \
         any of it is."
        @if left_out > 0 { " The best " (LINES_MAX) " configurations are drawn; the table also has the \
            others." }
    };
    let chart = survival_chart(model, &lines);
    chart::figure(&names.next(), &chart, HEIGHT, &label, &caption)
}

/// One line per configuration, each point at the upper end of its bin.
fn survival_chart(model: CacheModel, lines: &[(&RankedCase, &[AgeBin])]) -> Chart {
    let some = |bins: &[AgeBin]| bins.iter().copied().filter(|bin| bin.made > 0).collect::<Vec<AgeBin>>();
    let share = |bin: &AgeBin| bin.survived.min(bin.made) as f64 / bin.made as f64;
    let data = lines.iter().take(LINES_MAX).enumerate().map(|(index, (row, bins))| {
        let bins = some(bins);
        json!({
            "type": "scatter", "mode": "lines+markers", "name": plain(&row.name),
            "x": bins.iter().map(|bin| chart::seconds(bin.up_to_ns.0)).collect::<Vec<_>>(),
            "y": bins.iter().map(|bin| chart::rounded(100.0 * share(bin))).collect::<Vec<_>>(),
            "line": { "color": chart::colour(index), "dash": chart::dash(index), "width": 2 },
            "marker": { "color": chart::colour(index), "symbol": chart::symbol(index), "size": 6 },
            "hovertemplate": format!("{}: %{{y:.3~r}} %, up to %{{x:.3~s}}s \
             old<extra></extra>", plain(&row.name)),
        })
    });
    let ages =
        || lines.iter().flat_map(|(_, bins)| some(bins)).map(|bin| bin.up_to_ns.0).filter(|ns| *ns > 0);
    let mut axis = chart::time_axis(ages().min().unwrap_or(1), ages().max().unwrap_or(1));
    axis["title"] = json!({ "text": "age at the cut" });
    let layout = json!({
        "height": HEIGHT,
        "margin": { "t": 26 },
        "xaxis": axis,
        "yaxis": { "range": [-3, 103], "ticksuffix": " %", "nticks": 6 },
        "legend": { "orientation": "h", "y": -0.22, "yanchor": "top", "x": 0 },
        "annotations": [chart::row_title("unsynced work that survives", 1.0)],
        "hovermode": "closest",
    });
    let mut ends: Vec<u64> = ages().collect();
    ends.sort_unstable();
    ends.dedup();
    let age = |ns: &u64| format!("up to {}", text::time_in_words(Time { ns: *ns, at_least: false }));
    let cell = |bins: &[AgeBin], end: &u64| {
        let found = some(bins).into_iter().find(|bin| bin.up_to_ns.0 == *end);
        found.map_or("-".to_string(), |bin| {
            format!("{} ({} of {})", text::percent(share(&bin)), bin.survived, bin.made)
        })
    };
    let table = ChartTable {
        caption: format!("unsynced work that survives under {}, by its age at the cut", model.name()),
        head: std::iter::once("configuration".to_string()).chain(ends.iter().map(age)).collect(),
        rows: lines
            .iter()
            .map(|(row, bins)| {
                std::iter::once(row.name.clone()).chain(ends.iter().map(|end| cell(bins, end))).collect()
            })
            .collect(),
    };
    Chart { data: data.collect(), layout, tables: vec![table] }
}

/// Renders the rest of a case, besides the table: the logs, each promise, and states that lost something.
pub fn case(losses: &Losses) -> Markup {
    let promises = promise_rows(losses);
    let lines: Vec<String> = mount_errors(losses).into_iter().chain(losing(losses)).collect();
    html! {
        p.note { (sentence(&log(losses))) }
        @if let Some(bound) = bounds(losses) { p.note { (sentence(&bound)) } }
        @if promises.len() > 1 {
            (table("Promises lost, of those acknowledged", &promises[0], &promises[1..]))
            p.note { (MARKS.trim_matches(['(', ')'])) "." }
        }
        @for line in lines { p.alert { (line) } }
    }
}

/// `0 of 43,200 acknowledged promises lost`, for the line of a case.
pub fn fact(losses: &Losses) -> String {
    let worst = losses.worst();
    let lost = &worst.acknowledged;
    format!(
        "{} of {} acknowledged promises lost under {} ({})",
        text::count(lost.lost),
        text::count(lost.made),
        worst.model.name(),
        logs(lost)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_model_has_a_chart_with_a_line_for_each_configuration() {
        let view = fixture::view("read", &fixture::durability_trials(3, false));
        let ranking = &view.rankings[0];
        let page = section(ranking, &mut Names::default()).into_string();
        assert_eq!(page.matches("class=\"chart\"").count(), 4);
        assert!(page.contains("<td>12,960 of 12,960<small>3 of 3 logs</small></td>"), "{page}");
        assert!(page.contains("<dt>window</dt><dd>only the most recent writes may be lost"), "{page}");
        let bins = &ranking.rows[0].losses.as_ref().unwrap().worst().survival;
        let chart = survival_chart(CacheModel::Flushed, &[(&ranking.rows[0], bins)]);
        assert_eq!(chart.data[0]["x"][0], 0.001);
        assert_eq!(chart.data[0]["y"][0], 25.0);
        assert_eq!(chart.tables[0].rows[0][1], "25.0 % (750 of 3000)");
        assert_eq!(chart.layout["xaxis"]["type"], "log");
    }

    #[test]
    fn other_workloads_have_no_losses() {
        let view = fixture::view("read", &fixture::trials());
        assert_eq!(section(&view.rankings[0], &mut Names::default()).into_string(), "");
    }
}
