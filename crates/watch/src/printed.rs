//! The same as plain text, for a terminal that can show nothing else, a file, or a sweep that has ended.

use crate::draw::title;
use crate::look::Look;
use crate::scene::{Scene, State};
use crate::{now, race, table};
use fsdyno_verdict::text;
use ratatui::text::Line;

/// Everything in lines of at most this width, without colour; each ends with a line end.
pub fn printed(scene: &Scene, look: Look, width: usize) -> String {
    let look = Look { colour: false, ..look };
    let mut lines = vec![title(scene, look, width)];
    // Of a sweep that has ended, the title says what there is to say.
    if !matches!(scene.sweep.state, State::Finished | State::Interrupted) {
        lines.extend(now::lines(scene, look, width).into_iter().filter(|line| line.width() > 0));
    }
    if scene.sweep.is_race {
        lines.extend(race::lines(scene.race(), look, width, 2).into_iter().filter(|line| line.width() > 0));
    }
    lines.push(Line::default());
    let (heading, rows) = table::lines(scene, look, width, None);
    lines.push(heading);
    lines.extend(rows);
    let mut text: String = lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect();
    let mut notes: Vec<String> = Vec::new();
    notes.extend(
        scene.counts().iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
    );
    notes.extend(
        scene
            .warnings
            .iter()
            .map(|group| format!("warning {} in {}", group.kind, text::plural(group.trials as u64, "trial"))),
    );
    if !notes.is_empty() {
        text.push('\n');
        notes.iter().for_each(|note| text.push_str(&format!("{}\n", look.fit(note, width))));
    }
    text.push('\n');
    table::legend(scene).for_each(|signs| text.push_str(&format!("{signs}\n")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::tests::{race, scene};

    #[test]
    fn plain_text_has_what_the_screen_has_and_nothing_that_controls_a_terminal() {
        let mut scene = scene();
        let look = Look { colour: true, unicode: false };
        let text = printed(&scene, look, 80);
        for part in ["sweep 7 'demo'", "trial 5 of 8", "stall: ", "configuration", "xfs bfq", "o measured"] {
            assert!(text.contains(part), "'{part}' is not in\n{text}");
        }
        assert!(!text.contains(|letter: char| letter != '\n' && !(' '..='~').contains(&letter)), "{text:?}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        scene.set_sweep(State::Finished, 4);
        let text = printed(&scene, look, 80);
        assert!(text.contains("finished") && !text.contains("stall: "), "{text}");
        assert!(!text.contains("race"), "it was none: {text}");
    }

    #[test]
    fn a_race_that_is_over_is_printed_with_its_bounds() {
        let (mut scene, course) = race(3);
        scene.set_race(&course);
        scene.set_sweep(State::Finished, 18);
        let text = printed(&scene, Look { colour: false, unicode: false }, 80);
        for part in ["no configuration is more than ", "race over after 3 blocks, ", "/ dropped by the race"]
        {
            assert!(text.contains(part), "'{part}' is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
