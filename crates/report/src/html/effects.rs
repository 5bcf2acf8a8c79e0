//! The effects of settings: the ratio of each level to the mean of all levels of its axis, with its interval.
//!
//! One chart for all axes of a workload, on one scale of ratios, so that small effects look small next to
//! large ones.

use super::chart::{self, Chart, ChartTable, Names, plain};
use fsdyno_verdict::recommendation::{Answer, AxisAnswer, LevelAnswer, Recommendation};
use fsdyno_verdict::text;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Height of a level in pixels, space between two axes in levels, and height of everything around, in pixels.
const LEVEL_HEIGHT: usize = 26;
const AXIS_GAP: f64 = 0.6;
const AROUND: usize = 64;

/// Ratios that have a tick, unless all of them are close to each other.
const TICKS: [f64; 15] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// The effects under each workload.
pub fn section(recommendation: &Recommendation, names: &mut Names) -> Markup {
    let answers: Vec<&Answer> =
        recommendation.answers.iter().filter(|answer| !answer.axes.is_empty()).collect();
    html! {
        section #effects aria-labelledby="effects-title" {
            h2 #effects-title { "What each setting does" }
            @if answers.is_empty() {
                p { "These trials have no setting with several levels whose effects can be separated." }
            }
            @for answer in &answers {
                @if answers.len() > 1 { h3 { (answer.title) } }
                ul.axes {
                    @for axis in &answer.axes { li { strong { (name(axis)) } ": " (axis.text) } }
                    @for pair in &answer.interactions {
                        li {
                            strong { (pair.axis) " with " (pair.other) } ": the best " (pair.other) " \
                                depends on "
                            (pair.axis) ": "
                            (pair.best.iter().map(|(level, best)| format!("{best} with \
                                {level}")).collect::<Vec<_>>().join(", "))
                        }
                    }
                }
                (effects_chart(answer, names))
                (table(answer))
                (shares(answer))
            }
        }
    }
}

fn name(axis: &AxisAnswer) -> String {
    axis.within.as_ref().map_or_else(|| axis.axis.clone(), |within| format!("{} ({within})", axis.axis))
}

/// The levels whose effect is known.
fn known(axis: &AxisAnswer) -> impl Iterator<Item = (&LevelAnswer, f64, Option<[f64; 2]>)> {
    axis.levels.iter().filter_map(|level| {
        let effect = level.effect?;
        Some((level, effect.ratio, effect.interval))
    })
}

/// The ticks of an axis of ratios from a lowest to a highest one: even steps where fewer than three of the
/// usual ones would be seen.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    const STEPS: [f64; 8] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];
    const MOST: f64 = 8.0;
    let usual = TICKS.iter().filter(|tick| (low..=high).contains(*tick)).count();
    match STEPS.iter().find(|step| (high - low) / *step <= MOST) {
        Some(step) if usual < 3 => {
            let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
            (first.max(1)..=last).map(|number| chart::rounded(number as f64 * step)).collect()
        }
        _ => TICKS.to_vec(),
    }
}

fn effects_chart(answer: &Answer, names: &mut Names) -> Markup {
    let (mut x, mut y, mut plus, mut minus) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut labels, mut words): (Vec<String>, Vec<String>) = Default::default();
    let mut place = 0.0;
    let mut levels = 0;
    let mut extent = [1.0_f64, 1.0];
    for axis in &answer.axes {
        for (level, ratio, interval) in known(axis) {
            let [low, high] = interval.unwrap_or([ratio, ratio]);
            extent = [extent[0].min(low), extent[1].max(high)];
            x.push(chart::rounded(ratio));
            y.push(chart::rounded(place));
            plus.push(chart::rounded((high - ratio).max(0.0)));
            minus.push(chart::rounded((ratio - low).max(0.0)));
            labels.push(plain(&format!("{} = {}", name(axis), level.level)));
            words.push(plain(&format!("{} = {}: {}", name(axis), level.level, in_words(ratio, interval))));
            place -= 1.0;
            levels += 1;
        }
        place -= AXIS_GAP;
    }
    if levels == 0 {
        return html! {};
    }
    let better = if answer.higher_is_better { "higher is better" } else { "lower is better" };
    let data: Vec<Value> = vec![json!({
        "type": "scatter", "mode": "markers", "x": x, "y": y, "meta": "effects", "hovertext": words, "hoverinfo": "text",
        "marker": { "color": "--c1", "size": 8 },
        "error_x": {
            "type": "data", "symmetric": false, "array": plus, "arrayminus": minus, "color": "--c1", "thickness": 1.5, "width": 4,
        },
    })];
    let height =
        AROUND + LEVEL_HEIGHT * levels + (AXIS_GAP * (LEVEL_HEIGHT * answer.axes.len()) as f64) as usize;
    let ticks = ticks(extent);
    let layout = json!({
        "height": height,
        "margin": { "l": 10, "t": 6 },
        "xaxis": { "type": "log", "title": { "text": format!("{} times the mean of all levels; \
         {better}", plain(&answer.measure)) }, "tickvals": ticks, "ticktext": ticks.iter().map(f64::to_string).collect::<Vec<_>>() },
        "yaxis": { "tickvals": y, "ticktext": labels, "showgrid": false, "range": [place + AXIS_GAP, 1.0], "fixedrange": true, "ticks": "" },
        "shapes": [{
            "type": "line", "layer": "below", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1,
            "line": { "color": "--soft", "width": 1, "dash": "dot" },
        }],
        "hovermode": "closest",
    });
    let effects = Chart { data, layout, tables: Vec::<ChartTable>::new() };
    let caption = html! {
        strong { "Each level compared with the mean of its axis" } ", with its 95 % interval, all else being \
            equal. "
        "If a line crosses 1, these trials do not show an effect."
    };
    let label = "Effects of the settings with intervals; the table below has the figures";
    chart::figure(&names.next(), &effects, height as u32, label, &caption)
}

fn in_words(ratio: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        None => format!("{} times", text::number(ratio)),
        Some([low, high]) => {
            format!("{} times, {} to {}", text::number(ratio), text::number(low), text::number(high))
        }
    }
}

fn table(answer: &Answer) -> Markup {
    html! {
        details {
            summary { "Figures as a table" }
            div.scroll tabindex="0" role="region" aria-label="Effects of the settings" {
                table.figures {
                    thead { tr {
                        @for head in ["axis", "level", "to the mean of all", "95 % interval", "to the \
                            best", "weakens"] { th scope="col" { (head) } }
                    } }
                    tbody {
                        @for axis in &answer.axes {
                            @for level in &axis.levels {
                                tr {
                                    th scope="row" { (name(axis)) }
                                    td { (level.level) @if level.is_default { " (default)" } }
                                    @match level.effect {
                                        Some(effect) => {
                                            td { (text::number(effect.ratio)) }
                                            td { @if let Some([low, high]) = effect.interval { (text::number(low)) " – " (text::number(high)) } @else { "-" } }
                                        }
                                        None => { td { "-" } td { "-" } }
                                    }
                                    td { @match level.to_best { Some(to_best) => (text::number(to_best.ratio)), None => "-" } }
                                    td { @if level.risks.is_empty() { "nothing" } @else { (level.risks.join("; ")) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The shares of the variance that settings explain, and the unexplained share.
fn shares(answer: &Answer) -> Markup {
    let mut shares: Vec<(f64, String)> =
        answer.axes.iter().filter_map(|axis| Some((axis.share?, name(axis)))).collect();
    shares.extend(
        answer.interactions.iter().map(|pair| (pair.share, format!("{} with {}", pair.axis, pair.other))),
    );
    shares.extend(answer.block_share.map(|share| (share, "time of the trial (blocks)".to_string())));
    shares.extend(answer.residual_share.map(|share| (share, "chance".to_string())));
    let shares: Vec<String> =
        shares.into_iter().map(|(share, name)| format!("{name} {}", text::percent(share))).collect();
    html! { @if !shares.is_empty() { p.note { "Share of the variance: " (shares.join(", ")) "." } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_close_to_one_have_ticks_of_their_own() {
        assert_eq!(ticks([0.982, 1.013]), [0.98, 0.985, 0.99, 0.995, 1.0, 1.005, 1.01, 1.015]);
        assert_eq!(ticks([0.9, 1.5]), [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]);
        assert_eq!(ticks([0.1, 1.6]), TICKS);
        assert_eq!(ticks([0.3, 1000.0]), TICKS);
        assert_eq!(ticks([1.0, 1.0]), [1.0]);
    }
}
