//! One case in full: its figure, and what became of each of its trials.

use crate::look::{Look, Paint};
use crate::race::DroppedCase;
use crate::scene::{CaseRow, Scene};
use crate::table::{estimate, legend};
use fsdyno_core::{Outcome, TrialRecord};
use fsdyno_verdict::text;
use ratatui::text::Line;

/// All lines; the caller shows those that have room.
pub(crate) fn lines(scene: &Scene, row: &CaseRow, look: Look, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![(Paint::Heading, row.name.clone())];
    if let Some(figure) = row.figure {
        let unit = match row.measure.unit() {
            fsdyno_core::measure::Unit::Nanoseconds => String::new(),
            unit => format!(" {}", unit.symbol()),
        };
        let plural = if row.trials == 1 { "" } else { "s" };
        let place = row.rank.map_or(String::new(), |rank| format!("place {rank}: "));
        let figure = estimate(&row.measure, figure);
        lines.push((
            Paint::Plain,
            format!("{place}{figure}{unit} ({}), {} trial{plural}", row.measure, row.trials),
        ));
    }
    if row.risky {
        lines.push((Paint::Alert, "a setting of it weakens what survives a power cut, or may".to_string()));
    }
    lines.extend(in_race(scene, row));
    for trial in scene.trials_of(row.case, row.sentinel) {
        lines.extend(of_trial(row, trial));
    }
    if let Some(now) = scene.now().filter(|now| (now.case, now.sentinel) == (row.case, row.sentinel)) {
        let at =
            format!("block {}, trial {}: running, {}", now.block + 1, now.trial, now.progress.step.name());
        lines.push((Paint::Heading, at));
    }
    lines.extend(legend(scene).map(|signs| (Paint::Faint, signs.to_string())));
    lines.extend(cost(scene).map(|cost| (Paint::Faint, cost)));
    let wrapped = lines
        .into_iter()
        .flat_map(|(paint, text)| wrap(&text, look, width).into_iter().map(move |line| (paint, line)));
    wrapped.map(|(paint, line)| Line::from(look.span(paint, line))).collect()
}

/// When and why the race has dropped a configuration, or which of its trials count.
fn in_race(scene: &Scene, row: &CaseRow) -> Option<(Paint, String)> {
    let course = scene.race().filter(|_| !row.sentinel)?;
    if let Some(dropped) = scene.dropped(row.case, row.sentinel) {
        let DroppedCase { round, blocks, trials, why, .. } = dropped;
        let at = format!("dropped by the race after round {round} (block {blocks}, {trials} trials)");
        return Some((Paint::Alert, format!("{at}: {why}")));
    }
    let fresh_from = course.fresh_from?;
    let text = format!("left in the race: only its trials from block {} on count", fresh_from + 1);
    Some((Paint::Plain, text))
}

/// Returns the outcome of a trial, with its value or the reason, and its warnings.
fn of_trial(row: &CaseRow, trial: &TrialRecord) -> Vec<(Paint, String)> {
    let at = format!("block {}, trial {}", trial.block + 1, trial.trial + 1);
    let mut lines = vec![match &trial.outcome {
        Outcome::Measured => match row.measure.value(trial) {
            Some(value) => {
                (Paint::Plain, format!("{at}: {}", text::quantity(&row.measure, value.value, value.at_least)))
            }
            None => (Paint::Plain, format!("{at}: measured, without {}", row.measure)),
        },
        Outcome::Skipped { unmet } => (Paint::Faint, format!("{at}: skipped: {}", unmet.join("; "))),
        Outcome::Failed { error } => (Paint::Bad, format!("{at}: failed: {error}")),
    }];
    let warning = |warning: &fsdyno_core::Warning| (Paint::Alert, format!("  {}: {warning}", warning.kind));
    lines.extend(trial.warnings.iter().map(warning));
    lines
}

/// A paragraph in lines of the width, further ones indented.
fn wrap(text: &str, look: Look, width: usize) -> Vec<String> {
    let text = fsdyno_report::visible(text);
    let options = textwrap::Options::new(width.max(1)).subsequent_indent("    ");
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(&text, options).iter().map(|line| look.fit(line, width)).collect()
}

/// Returns the cost of watching, in percent of one processor: that of the sweep, which looks at its workers
/// and publishes, and that of this program.
fn cost(scene: &Scene) -> Option<String> {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let publishing = scene.status.as_ref().map(|status| status.publishing.share())?;
    let sweep = percent(publishing + scene.glance_cost());
    let own = scene.own_cost.map_or(String::new(), |own| format!(", this screen {}", percent(own)));
    Some(format!("watching costs of a processor: the sweep {sweep}{own}"))
}
