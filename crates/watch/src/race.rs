//! A race, as far as its complete blocks say: how many configurations are left, which were dropped, and the
//! regret bound.
//!
//! The sweep computes this once after each block, between two trials, and publishes it: the model of a race
//! takes processor time that would disturb what is measured if a watcher took it during a trial.

use crate::look::{Look, Paint, columns};
use fsdyno_verdict::race::{Elimination, RaceAnswer, RaceError};
use fsdyno_verdict::text;
use ratatui::text::Line;
use serde::{Deserialize, Serialize};

/// The longest reason that is published; what a trial failed of is stored with it.
const LONGEST: usize = 160;

/// The findings of a race so far. Names come from plans: nothing of them is to be shown raw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RaceCourse {
    /// The regret bound after each of the latest complete blocks, a share: 0.12 for 12 %.
    pub bounds: Vec<f64>,
    /// Complete blocks.
    pub complete: u32,
    /// Planned blocks, the complete ones included.
    pub blocks: u32,
    /// The number of configurations that began it.
    pub configurations: u32,
    /// The number of configurations left.
    pub left: u32,
    /// The name of the pick.
    pub pick: String,
    /// The configurations that were dropped, in order.
    pub dropped: Vec<DroppedCase>,
    /// The first block, from 0, whose figures count as those of the last few; absent before it is known.
    pub fresh_from: Option<u32>,
    /// `true` if every round is complete, or left out because the budget did not suffice for it.
    pub is_over: bool,
    /// Why there is no answer.
    pub trouble: Option<String>,
}

/// A configuration that a race has dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedCase {
    /// Its index in the plan.
    pub case: u32,
    /// After this round, from 1.
    pub round: u32,
    /// After so many blocks: also the first block, from 0, that it is not part of.
    pub blocks: u32,
    /// After so many trials, without sentinels.
    pub trials: u32,
    /// The reason in words.
    pub why: String,
}

impl RaceCourse {
    /// Another block is complete, after which the race says this.
    pub fn add(&mut self, answer: &Result<RaceAnswer, RaceError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.trouble = Some(error.to_string());
                return;
            }
        };
        let mut bounds = std::mem::take(&mut self.bounds);
        bounds.push(answer.regret_bound);
        let left = answer.finalists.len();
        *self = RaceCourse {
            bounds,
            complete: answer.complete_blocks(),
            blocks: answer.blocks(),
            configurations: number(left + answer.eliminations.len()),
            left: number(left),
            pick: answer.pick.configuration.name.clone(),
            dropped: answer.eliminations.iter().map(|one| dropped(one, answer)).collect(),
            fresh_from: answer.fresh_from,
            is_over: answer.next.is_none(),
            trouble: None,
        };
    }

    /// When and why a case was dropped, if it was.
    pub(crate) fn dropped(&self, case: u32) -> Option<&DroppedCase> {
        self.dropped.iter().find(|one| one.case == case)
    }

    /// `no configuration is more than 12 % better than xfs bfq (95 %)`; `None` before the first block is
    /// complete.
    fn bound(&self, look: Look, width: usize) -> Option<String> {
        let bound = text::bound(*self.bounds.last()?);
        let (before, after) = (format!("no configuration is more than {bound} better than "), " (95 %)");
        let room = width.saturating_sub(columns(&before) + columns(after));
        let enough = columns(&self.pick).min(12);
        Some(match room >= enough {
            true => format!("{before}{}{after}", look.fit(&self.pick, room)),
            false => format!("bound {bound}"),
        })
    }

    /// `block 4 of 9, 18 of 72 configurations left`.
    fn place(&self) -> String {
        let RaceCourse { blocks, configurations, left, .. } = self;
        let at = self.complete + 1;
        match self.is_over {
            true => {
                format!("race over after {blocks} blocks, {left} of {configurations} configurations left")
            }
            false => format!("block {at} of {blocks}, {left} of {configurations} configurations left"),
        }
    }

    /// `, measured again`, once only fresh figures count.
    fn again(&self) -> &'static str {
        if !self.is_over && self.fresh_from.is_some_and(|from| from <= self.complete) {
            ", measured again"
        } else {
            ""
        }
    }

    /// The bound after each block, the last ones if there is no room for all: `; bounds 40 25 12 %`.
    fn course(&self, look: Look, width: usize) -> String {
        let values: Vec<String> =
            self.bounds.iter().map(|bound| text::bound(*bound).trim_end_matches(" %").to_string()).collect();
        let gap = if look.unicode { "… " } else { "~ " };
        let listed = |skipped: usize| {
            let cut = if self.complete as usize > values.len() - skipped { gap } else { "" };
            format!("; bounds {cut}{} %", values[skipped..].join(" "))
        };
        // One value alone is in the sentence.
        let skipped = (0..values.len().saturating_sub(1)).find(|skipped| columns(&listed(*skipped)) <= width);
        skipped.map_or(String::new(), listed)
    }
}

/// A race in two lines, or in one where two have no room: the bound, where it is, and how the bound came
/// about. `None` if no block is complete yet.
pub(crate) fn lines(
    course: Option<&RaceCourse>,
    look: Look,
    width: usize,
    most: usize,
) -> Vec<Line<'static>> {
    let plain = |text: &str| Line::from(look.span(Paint::Plain, look.fit(text, width)));
    let strong = |text: &str| Line::from(look.span(Paint::Heading, look.fit(text, width)));
    let mut lines = match course {
        None => vec![strong("race: block 1 has every configuration; none is dropped before its end")],
        Some(RaceCourse { trouble: Some(trouble), .. }) => vec![strong(&format!("race: {trouble}"))],
        Some(course) => {
            let bound = course.bound(look, width).unwrap_or_default();
            let place = course.place();
            match most {
                ..=1 => vec![strong(&in_one(&bound, course, &place, width))],
                _ => {
                    let place = place + course.again();
                    let values = course.course(look, width.saturating_sub(columns(&place)));
                    vec![strong(&bound), plain(&(place + &values))]
                }
            }
        }
    };
    lines.resize(most, Line::default());
    lines
}

/// Both in one line, in as many words as have room.
fn in_one(bound: &str, course: &RaceCourse, place: &str, width: usize) -> String {
    let short = course.bounds.last().map_or(String::new(), |last| format!("bound {}", text::bound(*last)));
    let place_short = place.replace(" configurations", "");
    let all = [
        format!("{bound}; {place}{}", course.again()),
        format!("{bound}; {place}"),
        format!("{short}; {place}"),
        format!("{short}; {place_short}"),
    ];
    all.into_iter().find(|text| columns(text) <= width).unwrap_or(place_short)
}

fn dropped(one: &Elimination, answer: &RaceAnswer) -> DroppedCase {
    DroppedCase {
        case: one.raced.case,
        round: number(one.round),
        blocks: answer.blocks_until(one.round),
        trials: number(one.after_trials),
        why: one.why.chars().take(LONGEST).collect(),
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
