//! The whole screen: title, the trial in progress, the table or one case, warnings, keys.

use crate::look::{Look, Paint, columns};
use crate::scene::{CaseRow, Row, Scene, State};
use crate::{details, now, race, table};
use fsdyno_core::AfterTrial;
use fsdyno_verdict::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// Columns and lines without which nothing is shown but that the terminal is too small.
pub const SMALLEST: (u16, u16) = (40, 10);
/// From this height on, everything about the current trial is shown.
const TALL: usize = 16;

/// The view that the user has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenView {
    /// The row that keys act on.
    pub(crate) cursor: usize,
    /// The first row of the table, or the first line of a case, that is shown.
    pub(crate) top: usize,
    /// `true` if the case of the row is shown in full.
    pub(crate) details: bool,
    /// `true` while the user is asked whether the sweep is to stop.
    pub(crate) stops: bool,
    /// The problem with the last key.
    pub(crate) trouble: Option<String>,
}

/// Draws the screen; scrolls the view so that the cursor is visible.
pub fn draw(scene: &Scene, view: &mut ScreenView, look: Look, area: Rect, buffer: &mut Buffer) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = match area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        true => too_small(look, width),
        false => screen(scene, view, look, width, height),
    };
    lines.truncate(height);
    for (row, line) in (area.y..).zip(&lines) {
        buffer.set_line(area.x, row, line, area.width);
    }
}

fn too_small(look: Look, width: usize) -> Vec<Line<'static>> {
    let (columns, lines) = SMALLEST;
    let texts =
        ["terminal too small:".to_string(), format!("{columns}x{lines} are needed"), "q leaves".to_string()];
    texts.iter().map(|text| Line::from(look.span(Paint::Plain, look.fit(text, width)))).collect()
}

fn screen(
    scene: &Scene,
    view: &mut ScreenView,
    look: Look,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![title(scene, look, width)];
    let mut now = now::lines(scene, look, width);
    if height >= TALL {
        lines.push(progress(scene, look, width));
    } else {
        now.truncate(3);
    }
    lines.extend(now);
    if scene.sweep.is_race {
        let most = if height >= TALL { 2 } else { 1 };
        lines.extend(race::lines(scene.race(), look, width, most));
    }
    let below = if height >= TALL { 2 } else { 1 };
    let room = height.saturating_sub(lines.len() + below);
    let mut middle = match (view.details, chosen(scene, view.cursor)) {
        (true, Some(row)) => scrolled(details::lines(scene, row, look, width), &mut view.top, room),
        _ => rows(scene, view, look, width, room),
    };
    middle.resize(room, Line::default());
    lines.extend(middle);
    if below == 2 {
        lines.push(warnings(scene, look, width));
    }
    lines.push(keys(scene, view, look, width));
    lines
}

/// The case of a row.
pub(crate) fn chosen(scene: &Scene, cursor: usize) -> Option<&CaseRow> {
    match scene.rows.get(cursor)? {
        Row::Case(row) => Some(row),
        Row::Heading(_) => None,
    }
}

fn rows(scene: &Scene, view: &mut ScreenView, look: Look, width: usize, room: usize) -> Vec<Line<'static>> {
    let (heading, all) = table::lines(scene, look, width, Some(view.cursor));
    let room = room.saturating_sub(1);
    view.top = view.top.min(view.cursor).max((view.cursor + 1).saturating_sub(room));
    std::iter::once(heading).chain(scrolled(all, &mut view.top, room)).collect()
}

fn scrolled(lines: Vec<Line<'static>>, top: &mut usize, room: usize) -> Vec<Line<'static>> {
    *top = (*top).min(lines.len().saturating_sub(room));
    lines.into_iter().skip(*top).take(room).collect()
}

/// The sweep, how much of it is done, and its state.
pub(crate) fn title(scene: &Scene, look: Look, width: usize) -> Line<'static> {
    let sweep = &scene.sweep;
    let state = match scene.asked() {
        AfterTrial::Pause if sweep.state == State::Running => "pauses after this trial",
        AfterTrial::Stop if sweep.state.is_alive() => "stops after this trial",
        _ => sweep.state.name(),
    };
    let done = format!(": {} of {} trials", scene.done(), sweep.trials);
    let left = scene.now().map_or(String::new(), |now| format!(", {} left", text::human(now.left_ns)));
    let more = if scene.now().is_some_and(|now| now.more_may_follow) { ", more may follow" } else { "" };
    // What matters least goes first.
    let room = width.saturating_sub(columns(state) + columns(&sweep.selector) + columns("sweep  '' ") + 4);
    let fits = |text: &String| columns(text) <= room;
    let done =
        [format!("{done}{left}{more}"), format!("{done}{left}")].into_iter().find(fits).unwrap_or(done);
    let name_room = room.saturating_sub(columns(&done)) + 4;
    let name = look.fit(&sweep.name, name_room);
    let text = format!("sweep {} '{name}'{done}", sweep.selector);
    let text = look.pad(&text, width.saturating_sub(columns(state) + 1));
    let paint = match sweep.state {
        State::Running | State::Starting | State::Finished if scene.asked() == AfterTrial::Continue => {
            Paint::Good
        }
        State::Killed => Paint::Bad,
        _ => Paint::Alert,
    };
    Line::from(vec![look.span(Paint::Heading, text), look.span(Paint::Plain, " "), look.span(paint, state)])
}

fn progress(scene: &Scene, look: Look, width: usize) -> Line<'static> {
    let share = scene.done() as f64 / f64::from(scene.sweep.trials.max(1));
    Line::from(look.span(Paint::Good, look.bar(share, width)))
}

/// Returns the numbers of trials that failed, were skipped or carry warnings: as many kinds of them as have
/// room.
fn warnings(scene: &Scene, look: Look, width: usize) -> Line<'static> {
    let counts = scene.counts().into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    for (index, group) in scene.warnings.iter().enumerate() {
        let begin = if index == 0 { "warnings: " } else { "" };
        parts.push(format!("{begin}{} in {}", group.kind, group.trials));
    }
    let text = |shown: usize| {
        let hidden = parts.len() - shown;
        let more = (hidden > 0).then(|| format!("{hidden} more"));
        parts[..shown].iter().cloned().chain(more).collect::<Vec<_>>().join(", ")
    };
    let shown = (0..=parts.len()).rev().find(|shown| columns(&text(*shown)) <= width).unwrap_or(0);
    let paint = if scene.counts()[0].0 > 0 { Paint::Bad } else { Paint::Alert };
    Line::from(look.span(paint, look.fit(&text(shown), width)))
}

fn keys(scene: &Scene, view: &ScreenView, look: Look, width: usize) -> Line<'static> {
    if let Some(trouble) = &view.trouble {
        return Line::from(look.span(Paint::Bad, look.fit(trouble, width)));
    }
    if view.stops {
        let long = "stop after this trial? finished trials are kept, --resume goes on: y, or any other key";
        let question =
            if columns(long) <= width { long } else { "stop after this trial? y, or any other key" };
        return Line::from(look.span(Paint::Chosen, look.pad(question, width)));
    }
    let alive = scene.sweep.state.is_alive();
    let pause = match scene.asked() {
        AfterTrial::Continue => "p pause after this trial",
        _ => "p go on",
    };
    let back = if view.details { "enter back" } else { "enter details" };
    let all: Vec<&str> = match alive {
        true => vec!["q leave", pause, "s stop after this trial", back],
        false => vec!["q leave", back],
    };
    // Where there is no room, the keys alone: q, p, s.
    let text = all.join("  ");
    let text = if columns(&text) <= width { text } else { all.join("  ").replace(" after this trial", "") };
    Line::from(look.span(Paint::Faint, look.fit(&text, width)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::tests::{race, scene, status};
    use crate::scene::{CaseLabel, SweepFacts};
    use fsdyno_core::Nanos;
    use fsdyno_core::glance::OfferedRate;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Color;

    const PLAIN: Look = Look { colour: false, unicode: false };
    const RICH: Look = Look { colour: true, unicode: true };

    /// The screen as lines of text, and whether anything is coloured.
    fn shown(scene: &Scene, view: &mut ScreenView, look: Look, size: (u16, u16)) -> (Vec<String>, bool) {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
        terminal.draw(|frame| draw(scene, view, look, frame.area(), frame.buffer_mut())).expect("a frame");
        let buffer = terminal.backend().buffer();
        let coloured = buffer.content().iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        let lines = buffer.content().chunks(usize::from(size.0));
        let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|cell| cell.symbol()).collect::<String>();
        (lines.map(|line| text(line).trim_end().to_string()).collect(), coloured)
    }

    fn has(lines: &[String], part: &str) -> bool {
        lines.iter().any(|line| line.contains(part))
    }

    #[test]
    fn everything_is_on_80_columns_and_24_lines() {
        let (lines, coloured) = shown(&scene(), &mut ScreenView::default(), RICH, (80, 24));
        for part in [
            "sweep 7 'demo': 4 of 8 trials, 6m 20s left, more may follow",
            "running",
            "trial 5 of 8, block 2: ext4 bfq (fileserver)",
            "measure '3 readers, 3 writers'",
            "42 %",
            "stall: 2.30 s so far, 2 of 3 writers, in write below home/a/b",
            "3 readers",
            "211 MB/s",
            "13.1k op/s",
            "loop0: read 210, write 380 MB/s, 97 % busy; CPU 40 %, iowait 30 %; 38 MiB dirty",
            "configuration read-under-write MB/s   n",
            " blocks",
            "1 skipped, warnings: tree-smaller-than-memory in 4",
            "q leave  p pause after this trial  s stop after this trial  enter details",
        ] {
            assert!(has(&lines, part), "'{part}' is not in\n{}", lines.join("\n"));
        }
        assert!(coloured);
        assert!(!shown(&scene(), &mut ScreenView::default(), PLAIN, (80, 24)).1, "no colour was wanted");
    }

    #[test]
    fn a_small_screen_shows_the_table_and_the_keys_and_a_tiny_one_says_that_it_is_too_small() {
        let (lines, _) = shown(&scene(), &mut ScreenView::default(), PLAIN, (40, 10));
        for part in [
            "sweep 7",
            "trial 5 of 8",
            "stall: 2.30 s so far, 2 of 3 writers",
            "configuration",
            "xfs bfq",
            "q leave",
        ] {
            assert!(has(&lines, part), "'{part}' is not in\n{}", lines.join("\n"));
        }
        for size in [(39, 24), (80, 9), (12, 3), (1, 1)] {
            let (lines, _) = shown(&scene(), &mut ScreenView::default(), PLAIN, size);
            assert!(!has(&lines, "configuration"), "{size:?}");
        }
        let (lines, _) = shown(&scene(), &mut ScreenView::default(), PLAIN, (39, 9));
        assert!(has(&lines, "terminal too small") && has(&lines, "40x10"), "{lines:?}");
    }

    #[test]
    fn long_names_leave_room_for_the_figures_and_nothing_of_them_controls_the_terminal() {
        let mut scene = scene();
        let evil = format!("\x1b[2J\x1b]0;title\x07{}\u{202e}end", "long name ".repeat(30));
        let cases = vec![CaseLabel { case: 0, configuration: evil.clone(), workload: "w".to_string() }];
        let sweep = SweepFacts { name: evil.clone(), ..scene.sweep.clone() };
        let trials = scene.trials().to_vec();
        scene = Scene::new(sweep, cases);
        scene.add(trials);
        let mut status = status();
        let now = status.now.as_mut().expect("a trial");
        (now.configuration, now.progress.phase) = (evil.clone(), evil.clone());
        let glance = now.progress.glance.as_mut().expect("a glance");
        glance.roles[1].waiting.as_mut().expect("a worker that waits").directory = evil.clone();
        glance.machine.as_mut().expect("a machine").device = evil;
        scene.set_status(status);
        for size in [(40, 10), (80, 24), (200, 60)] {
            for details in [false, true] {
                let mut view = ScreenView { details, ..ScreenView::default() };
                let (lines, _) = shown(&scene, &mut view, RICH, size);
                let text = lines.join("\n");
                assert!(!text.contains(|c: char| c != '\n' && c.is_control() || c == '\u{202e}'), "{text:?}");
                assert!(lines.last().is_some_and(|line| line.contains("q leave")), "{text}");
            }
        }
        let (lines, _) = shown(&scene, &mut ScreenView::default(), RICH, (200, 60));
        assert!(has(&lines, "\\x1b[2J"), "it is shown instead: {}", lines.join("\n"));
    }

    #[test]
    fn a_rate_that_is_tried_and_a_sweep_that_is_silent_say_so() {
        let mut scene = scene();
        let shown_of = |scene: &Scene| shown(scene, &mut ScreenView::default(), PLAIN, (80, 24)).0;
        assert!(!has(&shown_of(&scene), "trying") && !has(&shown_of(&scene), "no news"));
        let mut status = status();
        let at = &mut status.now.as_mut().expect("a trial").progress;
        let glance = at.glance.as_mut().expect("a glance");
        glance.roles[1].offered = Some(OfferedRate { per_second: 1200.0, is_tried: true });
        at.phase = "flow".to_string();
        scene.set_status(status);
        assert!(has(&shown_of(&scene), "measure 'flow', writers trying 1200/s"), "{:?}", shown_of(&scene));
        scene.silence = Some(Nanos::from_secs(12));
        let silent = shown_of(&scene);
        assert!(has(&silent, "no news from the sweep for 12.0 s") && !has(&silent, "stall: "), "{silent:?}");
    }

    #[test]
    fn the_cursor_stays_visible_however_long_the_table() {
        let mut scene = scene();
        let label =
            |case| CaseLabel { case, configuration: format!("case {case}"), workload: "w".to_string() };
        scene = Scene::new(scene.sweep.clone(), (0..200).map(label).collect());
        let mut view = ScreenView::default();
        for cursor in [0, 150, 199, 3, 60] {
            view.cursor = cursor;
            let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
            assert!(has(&lines, &format!("case {cursor} ")), "{cursor}: {}", lines.join("\n"));
        }
    }

    #[test]
    fn a_case_in_full_says_what_became_of_each_trial() {
        let scene = scene();
        let failed = scene.rows.iter().position(|row| match row {
            Row::Case(row) => {
                scene.cells(row.case, false).contains(&crate::scene::Cell::Failed)
                    || scene.cells(row.case, false).contains(&crate::scene::Cell::Skipped)
            }
            Row::Heading(_) => false,
        });
        let mut view = ScreenView { details: true, cursor: failed.expect("a case"), ..ScreenView::default() };
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "failed: ") || has(&lines, "skipped: "), "{}", lines.join("\n"));
        assert!(has(&lines, "enter back"));
    }

    #[test]
    fn a_race_is_shown_with_its_bound_and_what_it_dropped_on_any_size_and_without_colour() {
        let (mut scene, course) = race(1);
        let (lines, _) = shown(&scene, &mut ScreenView::default(), PLAIN, (80, 24));
        assert!(has(&lines, "race: block 1 has every configuration"), "{}", lines.join("\n"));
        scene.set_race(&course);
        let (bound, left) = (text::bound(course.bounds[0]), course.left);
        let sentence = format!("no configuration is more than {bound} better than xfs d (95 %)");
        let place = format!("block 2 of {}, {left} of 8", course.blocks);
        for look in [PLAIN, RICH] {
            let (lines, coloured) = shown(&scene, &mut ScreenView::default(), look, (80, 24));
            assert!(has(&lines, &sentence), "{}", lines.join("\n"));
            assert!(has(&lines, &format!("{place} configurations left, measured again")));
            let dropped = lines.iter().filter(|line| line.ends_with("w / /")).count();
            assert_eq!((dropped, coloured), (8 - left as usize, look.colour), "{}", lines.join("\n"));
        }
        let (lines, _) = shown(&scene, &mut ScreenView::default(), PLAIN, (40, 10));
        assert!(has(&lines, &format!("bound {bound}; {place} left")), "{}", lines.join("\n"));
        let (lines, _) = shown(&scene, &mut ScreenView::default(), PLAIN, (130, 12));
        assert!(has(&lines, &format!("{sentence}; {place} configurations left")), "{}", lines.join("\n"));

        // The last row is one that was dropped.
        let mut view = ScreenView { details: true, cursor: 7, ..ScreenView::default() };
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        let why = &course.dropped.last().expect("something was dropped").why;
        let all = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(all.contains("dropped by the race after round 1 (block 1, 8 trials): number "), "{all}");
        assert!(all.contains(" behind the best") && why.contains(" behind the best"), "{all}");
        assert!(all.contains("/ dropped by the race"), "the legend: {all}");

        let (mut scene, course) = race(3);
        scene.set_race(&course);
        let (lines, _) = shown(&scene, &mut ScreenView::default(), PLAIN, (80, 24));
        assert!(has(&lines, "race over after 3 blocks"), "{}", lines.join("\n"));
        let values = course.bounds.iter().map(|bound| text::bound(*bound).replace(" %", ""));
        let values = values.collect::<Vec<_>>().join(" ");
        assert!(has(&lines, &format!("; bounds {values} %")), "{}", lines.join("\n"));
        let mut view = ScreenView { details: true, ..ScreenView::default() };
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "only its trials from block 2 on count"), "{}", lines.join("\n"));
    }

    #[test]
    fn what_was_asked_for_is_said() {
        let mut scene = scene();
        let mut view = ScreenView::default();
        scene.ask(AfterTrial::Pause);
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "pauses after this trial") && has(&lines, "p go on"), "{}", lines.join("\n"));
        let paused = crate::status::Status { stage: crate::status::Stage::Paused, ..status() };
        scene.set_status(paused);
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "PAUSED") && has(&lines, "paused between two trials"), "{}", lines.join("\n"));
        view.stops = true;
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "stop after this trial?"), "{}", lines.join("\n"));
        scene.set_sweep(State::Killed, 8);
        view.stops = false;
        let (lines, _) = shown(&scene, &mut view, PLAIN, (80, 24));
        assert!(has(&lines, "killed") && has(&lines, "its process is gone"), "{}", lines.join("\n"));
        assert!(!has(&lines, "p pause"), "there is nothing to pause");
    }
}
