//! The recommendation as text: the answer first, then the evidence, and the commands last.
//!
//! Commands are never wrapped, so that they can be copied.

use super::columns::{WEAKENS, WEAKENS_LEGEND, marked};
use super::page::{Extent, Page, Rows, doubts, elsewhere, sentences};
use super::style::{Paint, Style, bar, cell, write_table};
use super::summary::Messages;
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table};
use fsdyno_core::measure::Measure;
use fsdyno_verdict::recommendation::{
    Answer, AxisAnswer, Contender, ContenderVerdict, RecipeStep, Recommendation, difference,
};
use fsdyno_verdict::text::{self, interval_name};
use std::io::{self, Write};

/// Columns of a bar.
const BAR_WIDTH: u32 = 6;

/// Writes a recommendation.
///
/// # Errors
/// Those of `out`.
pub fn recommendation(
    out: &mut dyn Write,
    recommendation: &Recommendation,
    extent: Extent<'_>,
    style: &Style,
) -> io::Result<()> {
    let Recommendation { answers, notes, unanswered, skipped, failed, .. } = recommendation;
    let mut elsewhere_in_all = [0, 0];
    for answer in answers {
        write_answer(out, recommendation, answer, extent, *style)?;
        let messages = of_answer(answer);
        if !matches!(extent, Extent::Page(_)) {
            messages.write(out, *style)?;
        }
        let counted = messages.count();
        elsewhere_in_all = std::array::from_fn(|kind| elsewhere_in_all[kind] + counted[kind]);
        if !matches!(extent, Extent::Page(_)) {
            write_recipe(out, answer, *style)?;
        }
    }
    if answers.is_empty() {
        writeln!(out, "No configuration was measured, so there is nothing to recommend.\n")?;
    }
    for workload in unanswered.iter().filter(|_| !answers.is_empty()) {
        style.paragraph(out, Paint::Alert, 0, &format!("failed: {workload}"))?;
    }
    let rest = Messages { notes, warnings: &[], measured: 0, skipped, failed };
    if answers.is_empty() || !matches!(extent, Extent::Page(_)) {
        return rest.write(out, *style);
    }
    let counted = rest.count();
    elsewhere(out, std::array::from_fn(|kind| elsewhere_in_all[kind] + counted[kind]), extent, *style)
}

fn of_answer(answer: &Answer) -> Messages<'_> {
    let trials = answer.standings.iter().map(|one| one.trials).sum();
    Messages { notes: &answer.notes, warnings: &answer.warnings, measured: trials, skipped: &[], failed: &[] }
}

fn write_answer(
    out: &mut dyn Write,
    recommendation: &Recommendation,
    answer: &Answer,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let Recommendation { name, goal, .. } = recommendation;
    // The table names a measure.
    let what = if goal.parse::<Measure>().is_ok() { String::new() } else { format!(", for {goal}") };
    let mut head = Vec::new();
    let title = format!("{name}: {}{what}", answer.title);
    style.paragraph(&mut head, Paint::Heading, 0, &title)?;
    writeln!(head)?;
    let (headline, paragraphs) = sentences(answer, style)?;
    head.extend(headline);
    let measure = answer.measure.parse::<Measure>().ok().filter(|_| !answer.standings.is_empty());
    let foot = |out: &mut dyn Write, most: usize| {
        if measure.is_some() && extent == Extent::Full {
            let mut tables = vec![b'\n'];
            write_axes(&mut tables, answer, style)?;
            write_front(&mut tables, answer, style)?;
            // Each ends with an empty line, and so does what comes next begin.
            tables.pop();
            out.write_all(&tables)?;
        }
        doubts(out, answer, most, extent, style)?;
        match extent {
            Extent::Page(more) => write_commands(out, answer, more, style),
            _ => writeln!(out),
        }
    };
    let write = |out: &mut dyn Write, shown: &dyn Fn(usize) -> bool| match &measure {
        Some(measure) => write_standings(out, (answer, measure), shown, extent, style),
        None => Ok(()),
    };
    let first = [&answer.leader, &answer.default].into_iter().flatten().map(|one| one.index).collect();
    let rows = Rows { count: answer.standings.len(), first, write: &write };
    Page { head, paragraphs, rows, doubts: answer.doubts.len(), foot: &foot }.write(out, extent, style)
}

/// The configurations, best first.
fn write_standings(
    out: &mut dyn Write,
    (answer, measure): (&Answer, &Measure),
    is_shown: &dyn Fn(usize) -> bool,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let unit = measure.unit();
    let with_one = || answer.standings.iter().filter(|one| one.interval.is_some());
    let interval =
        with_one().next().map(|_| format!(" [{}]", interval_name(with_one().map(|one| one.with_value))));
    let figure = |one: &Contender| {
        let Some(value) = one.value else { return "-".to_string() };
        let value = text::measured(unit, value, one.at_least);
        let Some([low, high]) = one.interval else { return value };
        // The mean of lower bounds has no upper end.
        let [low, high] = [(low, one.low_at_least), (high, one.at_least)]
            .map(|(end, bound)| text::measured(unit, end, bound));
        format!("{value} [{low}, {high}]")
    };
    let symbol = if unit == fsdyno_core::measure::Unit::Nanoseconds { "" } else { unit.symbol() };
    let head = format!("{measure}\n{symbol}{}", interval.unwrap_or_default());
    let largest = answer.standings.iter().filter_map(|one| one.value).fold(0.0, f64::max);
    let weak = answer.standings.iter().any(|one| !one.is_durable());
    // The columns of marks and bars exist only if something is marked or drawn.
    let row = |mark: Cell, [name, figure, drawn, compared, verdict]: [Cell; 5]| {
        let drawn = style.blocks.then_some(drawn);
        let cells = weak.then_some(mark).into_iter().chain([name, figure]).chain(drawn);
        cells.chain([compared, verdict]).collect::<Vec<_>>()
    };
    let has_pick = answer.standings.iter().any(|one| one.verdict == ContenderVerdict::Pick);
    let compared = if has_pick { "\nto the pick" } else { "\nto the best" };
    let heads = ["\nconfiguration", &head, "", compared, "\nverdict"].map(Cell::new);
    let mut table = style.table(row(Cell::new(""), heads).iter().map(Cell::content).collect());
    for (index, one) in answer.standings.iter().enumerate().filter(|(index, _)| is_shown(*index)) {
        let mark = if one.is_durable() { "" } else { WEAKENS };
        let name = Cell::new(&one.name);
        let name = if answer.winner.as_ref().is_some_and(|winner| winner.index == index) {
            name.add_attribute(Attribute::Bold)
        } else {
            name
        };
        let share = |value: f64| if largest > 0.0 { value / largest } else { 0.0 };
        let drawn = one.value.map_or(String::new(), |value| bar(share(value), BAR_WIDTH));
        let compared = one.to_best.map_or(String::new(), |compared| difference(&compared));
        let verdict = Cell::new(verdict(one, answer.default_called));
        let cells = [name, cell(figure(one)), Cell::new(drawn), Cell::new(compared), verdict];
        table.add_row(row(Cell::new(mark), cells));
    }
    let first = usize::from(weak);
    let last = first + if style.blocks { 4 } else { 3 };
    align_left(&mut table, &[first, last]);
    if style.blocks {
        align_left(&mut table, &[first + 2]);
    }
    for column in table.column_iter_mut().skip(first + 1) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    write_table(out, table, style)?;
    let legend = format!("{WEAKENS}: {WEAKENS_LEGEND}");
    let mut below = Vec::new();
    let is_page = matches!(extent, Extent::Page(_));
    if !is_page && answer.standings.iter().any(|one| one.to_best.is_some()) {
        below.push("to the best: ratio of the means, verdicts corrected for their number");
    }
    let tells_how_many = |one: &Contender| {
        one.with_value > 1 && matches!(one.verdict, ContenderVerdict::CannotTell { needed: Some(_) })
    };
    if answer.standings.iter().any(tells_how_many) {
        below.push("cannot tell: ~N: about N blocks of one trial of each would decide");
    }
    if weak {
        below.push(legend.as_str());
    }
    match &below[..] {
        [] => Ok(()),
        below => style.paragraph(out, Paint::Plain, 0, &format!("({})", below.join("; "))),
    }
}

fn align_left(table: &mut Table, columns: &[usize]) {
    for index in columns {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
}

fn verdict(one: &Contender, default_called: &str) -> String {
    match one.verdict {
        ContenderVerdict::Best => "best".to_string(),
        ContenderVerdict::Pick => "the pick".to_string(),
        ContenderVerdict::AsGood => "as good".to_string(),
        // How many would decide depends on how much trials vary, which one does not show.
        ContenderVerdict::CannotTell { .. } if one.with_value == 1 => "cannot tell: 1 trial".to_string(),
        ContenderVerdict::CannotTell { needed: Some(needed) } => format!("cannot tell: ~{needed}"),
        ContenderVerdict::CannotTell { .. } if one.doubt.is_some() => "cannot tell: see note".to_string(),
        ContenderVerdict::CannotTell { .. } => "cannot tell".to_string(),
        ContenderVerdict::Worse => "worse".to_string(),
        ContenderVerdict::WorseThanDefault => format!("worse than {default_called}"),
        ContenderVerdict::BetterAndWeaker => "better, unsafe".to_string(),
        ContenderVerdict::Unknown => "no value".to_string(),
    }
}

/// The effect of each setting.
fn write_axes(out: &mut dyn Write, answer: &Answer, style: Style) -> io::Result<()> {
    if answer.axes.is_empty() {
        return Ok(());
    }
    style.paragraph(out, Paint::Heading, 0, "What each setting does (relative to the mean of its levels)")?;
    let has_effect = |axis: &&AxisAnswer| axis.levels.iter().any(|level| level.effect.is_some());
    for axis in answer.axes.iter().filter(has_effect) {
        write_axis(out, axis, style)?;
    }
    for pair in &answer.interactions {
        let best: Vec<String> = pair.best.iter().map(|(level, best)| format!("{level}: {best}")).collect();
        let text = format!(
            "{} depends on {} ({} of the variance); best with {}",
            pair.other,
            pair.axis,
            text::percent(pair.share),
            best.join(", ")
        );
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    if let Some((block, residual)) = answer.block_share.zip(answer.residual_share) {
        let text = format!(
            "{} of the variance is between blocks, {} is chance",
            text::percent(block),
            text::percent(residual)
        );
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    writeln!(out)
}

fn write_axis(out: &mut dyn Write, axis: &AxisAnswer, style: Style) -> io::Result<()> {
    let within = axis.within.as_ref().map_or(String::new(), |filesystem| format!(" within {filesystem}"));
    let mut head = format!("{}{within}: {}", axis.axis, axis.text);
    if let Some(share) = axis.share {
        let drawn = if style.blocks { format!(" {}", bar(share, 10)) } else { String::new() };
        head.push_str(&format!("; {} of the variance{}", text::percent(share), drawn.trim_end()));
    }
    style.paragraph(out, Paint::Plain, 0, &head)?;
    let width = axis.levels.iter().map(|level| name_of(&level.level, level.is_default).chars().count()).max();
    for level in &axis.levels {
        let name = name_of(&level.level, level.is_default);
        let effect = level.effect.as_ref().map_or("cannot be separated".to_string(), difference);
        let mark = if level.risks.is_empty() {
            String::new()
        } else {
            format!("  {WEAKENS} {}", level.risks.join("; "))
        };
        let padding = " ".repeat(width.unwrap_or(0).saturating_sub(name.chars().count()));
        style.paragraph(out, Paint::Plain, 2, &format!("{name}{padding}  {effect}{mark}"))?;
    }
    Ok(())
}

fn name_of(level: &str, is_default: bool) -> String {
    if is_default && level != fsdyno_core::axis::DEFAULT {
        format!("{level} (default)")
    } else {
        level.to_string()
    }
}

/// The configurations on the Pareto front, marked, among the others.
fn write_front(out: &mut dyn Write, answer: &Answer, style: Style) -> io::Result<()> {
    let front = &answer.pareto;
    if front.objectives.len() < 2 || front.points.len() < 2 {
        return Ok(());
    }
    style.paragraph(
        out,
        Paint::Heading,
        0,
        "Trade-offs (means; *: no other configuration is better in all)",
    )?;
    let measures: Vec<Measure> =
        front.objectives.iter().filter_map(|objective| objective.measure.parse().ok()).collect();
    let heads = measures.iter().zip(&front.objectives).map(|(measure, objective)| {
        let symbol = measure.unit().symbol();
        let unit = if symbol == "ns" { String::new() } else { format!(" {symbol}") };
        let name: Vec<&str> = short(&objective.measure).split_inclusive(['-', '/']).collect();
        format!("{}{unit}", name.join("\n"))
    });
    let heads: Vec<String> = heads.collect();
    let depth = heads.iter().map(|head| head.lines().count()).max().unwrap_or(1);
    let heads = ["", "configuration"].map(str::to_string).into_iter().chain(heads);
    // Headings are aligned at the bottom.
    let heads = heads.map(|head| format!("{}{head}", "\n".repeat(depth - head.lines().count().max(1))));
    let weak = front.points.iter().any(|point| !point.durable);
    let mut table = style.table(heads.collect());
    for point in &front.points {
        let mark = if point.on_front { "*" } else { "" };
        let values = measures.iter().enumerate().map(|(index, measure)| {
            let value = text::measured(measure.unit(), point.values[index], point.at_least[index]);
            point.only(index).map_or(value.clone(), |trials| format!("{value} ({trials})"))
        });
        let cells = [mark.to_string(), marked(&point.name, point.durable, weak)].into_iter().chain(values);
        table.add_row(cells.map(Cell::new).collect::<Vec<_>>());
    }
    align_left(&mut table, &[1]);
    write_table(out, table, style)?;
    writeln!(out)
}

/// The name of a measure, without the phase if it is written in full.
fn short(name: &str) -> &str {
    let parts = name.matches('/').count();
    if parts < 2 { name } else { name.split_once('/').map_or(name, |(_, rest)| rest) }
}

/// The commands that build a configuration now. What makes it last, and what must be replaced, is elsewhere.
fn write_commands(out: &mut dyn Write, answer: &Answer, more: &str, style: Style) -> io::Result<()> {
    let Some(recipe) = &answer.recipe else {
        let Some(recipe) = &answer.default_recipe else { return Ok(()) };
        let text = format!("(how to build it: fsdyno recommend --recipe '{}')", recipe.name);
        return style.paragraph(out, Paint::Plain, 0, &text);
    };
    let title = format!("How to build '{}' (and at every boot: {more} --notes)", recipe.name);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let mut now = recipe.steps.iter().filter(|step| step.file.is_none()).flat_map(|step| &step.lines);
    now.try_for_each(|line| writeln!(out, "  {line}"))
}

fn write_recipe(out: &mut dyn Write, answer: &Answer, style: Style) -> io::Result<()> {
    let Some(recipe) = answer.recipe.as_ref().or(answer.default_recipe.as_ref()) else {
        let text = "No recipe is stored: nothing was built, or an earlier version measured it.";
        return style.paragraph(out, Paint::Plain, 0, text);
    };
    let which = match answer.recipe {
        Some(_) => String::new(),
        None => format!("the {}, ", answer.default_called),
    };
    style.paragraph(out, Paint::Heading, 0, &format!("How to build {which}'{}'", recipe.name))?;
    for RecipeStep { title, file, lines } in &recipe.steps {
        let file = file.map_or(String::new(), |file| format!(", in {file}"));
        writeln!(out, "# {title}{file}")?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let notes = recipe.notes.join("; ");
    style.paragraph(out, Paint::Plain, 0, &format!("({notes})"))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::warning::{Warning, WarningKind};
    use fsdyno_verdict::recommendation::Question;

    fn text(style: Style) -> String {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.configuration.filesystem == "ext4") {
            trial
                .warnings
                .push(Warning::new(WarningKind::Durability, "barrier = 0: a power cut may corrupt it"));
        }
        let found = Recommendation::new(&fixture::header("read-under-write"), &trials, &Question::default());
        let mut out = Vec::new();
        recommendation(&mut out, &found, Extent::Full, &style).unwrap();
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        text
    }

    #[test]
    fn the_answer_comes_first_and_nothing_is_left_out() {
        let text = text(Style::default());
        let answer = text.lines().position(|line| line.starts_with("Keep 'xfs bfq'")).unwrap();
        assert!(answer < 5, "{text}");
        for part in [
            "!  ext4 bfq",
            "weakens what survives",
            "skipped: btrfs bfq",
            "failed: trial 6",
            "with 2 trials",
            "How to build the default, 'xfs bfq'",
            "mkfs.xfs DEVICE",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.is_ascii());
        let prose = text.lines().filter(|line| !line.starts_with("ACTION"));
        assert!(prose.clone().all(|line| line.chars().count() <= 80), "{text}");
        assert!(prose.clone().all(|line| line.trim_end() == line), "{text}");
    }

    #[test]
    fn the_interval_of_a_lower_bound_has_no_upper_end() {
        let question = Question { goal: Some("stalls".parse().unwrap()), ..Question::default() };
        let found = Recommendation::new(&fixture::header("read"), &fixture::trials(), &question);
        let mut out = Vec::new();
        recommendation(&mut out, &found, Extent::Full, &Style::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(">=1.09s [40.0ms, >=30.0s]"), "{text}");
    }

    #[test]
    fn bars_and_colour_do_not_change_the_text() {
        let plain = text(Style::default());
        let drawn = text(Style { colour: true, blocks: true, ..Style::default() });
        assert!(drawn.contains('█') && drawn.contains('\x1b'));
        let words = |text: &str| {
            let bars = |c: char| ('\u{2580}'..='\u{259f}').contains(&c);
            let text = fixture::without_escapes(text).replace(bars, " ");
            text.split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(words(&drawn), words(&plain));
    }
}
