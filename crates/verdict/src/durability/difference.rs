//! The test of whether one of two configurations loses more than the other.
//!
//! Two tests look at the same cache model on both sides. Fisher's exact test compares how many logs lost any
//! acknowledged promise. With enough logs, the bootstrap also compares the rates at which promises were lost,
//! log by log: two configurations of which every log loses something may still lose very different amounts.
//! All tests of a comparison are one family, without those that no outcome could have decided: under a model
//! where neither side lost anything, there is nothing to find (R. E. Tarone, "A modified Bonferroni method
//! for discrete data", Biometrics 46, 1990).

use super::{Losses, Lost};
use fsdyno_core::durability::CacheModel;
use fsdyno_stats::{RateDifference, fisher, holm_among, least_shown, rate_difference};

/// A finding is wrong in at most this share of comparisons in which nothing differs.
const WRONG: f64 = 0.05;
/// The fewest logs of each side that can show that one always loses and the other never.
const LOGS_ENOUGH: u64 = 3;

/// Two configurations under one cache model.
#[derive(Debug, Clone, PartialEq)]
pub struct LossRow {
    /// Which writes survived.
    pub model: CacheModel,
    /// Acknowledged promises on each side.
    pub sides: [Lost; 2],
    /// The p value of Fisher's exact test on logs that lost any.
    pub p: f64,
    /// The same, corrected for all rows of the comparison.
    pub corrected_p: f64,
    /// The second rate minus the first, with its interval, corrected in the same way; absent with too few
    /// logs.
    pub difference: Option<RateDifference>,
    /// The verdict on the second side.
    pub finding: LossFinding,
}

/// The verdict on the second of two sides.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum LossFinding {
    /// It loses more.
    LosesMore,
    /// It loses less.
    LosesLess,
    /// Neither is shown. The number is the smallest share of losing logs, against none on the other side,
    /// that so many logs would show; absent if they are too few for any.
    NoDifferenceShown(Option<f64>),
}

impl LossFinding {
    /// The verdict in words.
    pub fn words(self) -> String {
        match self {
            LossFinding::LosesMore => "loses more".to_string(),
            LossFinding::LosesLess => "loses less".to_string(),
            LossFinding::NoDifferenceShown(Some(least)) => {
                format!("no difference shown (would show {:.0} %)", (least * 100.0).ceil())
            }
            LossFinding::NoDifferenceShown(None) => {
                "no difference shown (too few logs to show any)".to_string()
            }
        }
    }
}

/// The strictness of a judgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge {
    /// There are at least as many comparisons as this, of which the clearest may have been picked.
    pub comparisons: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// The models that were looked at on both sides, not judged yet.
pub(crate) fn compared(sides: [&Losses; 2]) -> Vec<LossRow> {
    let row = |model: &CacheModel| {
        let sides = [sides[0].model(*model)?, sides[1].model(*model)?];
        let sides = sides.map(|side| side.acknowledged.clone());
        let table = [&sides[0], &sides[1]].map(|lost| [lost.losing_logs, lost.logs]);
        let p = fisher(table[0], table[1]);
        let finding = LossFinding::NoDifferenceShown(None);
        Some(LossRow { model: *model, sides, p, corrected_p: p, difference: None, finding })
    };
    CacheModel::ALL.iter().filter_map(row).collect()
}

/// Judges all rows of a comparison together.
pub(crate) fn correct(rows: &mut [&mut LossRow], judge: Judge) {
    let can_decide = |row: &LossRow| row.sides.iter().any(|side| side.losing_logs > 0);
    let tested: Vec<f64> = rows.iter().filter(|row| can_decide(row)).map(|row| row.p).collect();
    let comparisons = judge.comparisons.max(tested.len()).max(1);
    let mut corrected = holm_among(&tested, comparisons).into_iter();
    let each = WRONG / comparisons as f64;
    for row in rows {
        let [a, b] = &row.sides;
        if can_decide(row) {
            row.corrected_p = corrected.next().unwrap_or(1.0);
            row.difference = rate_difference(a.by_log(), b.by_log(), each, judge.seed);
        }
        row.finding = finding(row, each);
    }
}

/// Returns whether every log of one side lost something and none of the other did, over at least three logs
/// each: of 20 ways to choose three of six logs, one does that, which is a one-sided p value of 5 %. It is
/// not corrected: the models look at the same logs, and a promise that is broken each time is not broken by
/// chance.
fn always_and_never([a, b]: [&Lost; 2]) -> bool {
    let enough = a.logs.min(b.logs) >= LOGS_ENOUGH;
    let separate = |never: &Lost, always: &Lost| never.losing_logs == 0 && always.losing_logs == always.logs;
    enough && (separate(a, b) || separate(b, a))
}

fn finding(row: &LossRow, each: f64) -> LossFinding {
    let [a, b] = &row.sides;
    let share = |side: &Lost| side.losing_logs as f64 / side.logs.max(1) as f64;
    let by_logs = (row.corrected_p < WRONG || always_and_never([a, b])).then(|| share(b) - share(a));
    let by_rate = row.difference.filter(RateDifference::is_shown).map(|difference| difference.value);
    let shown = [by_logs, by_rate];
    let shown = || shown.iter().flatten();
    match (shown().any(|by| *by > 0.0), shown().any(|by| *by < 0.0)) {
        (true, false) => LossFinding::LosesMore,
        (false, true) => LossFinding::LosesLess,
        // If more logs lose less each, neither side loses more.
        _ => LossFinding::NoDifferenceShown(least_shown([a.logs, b.logs], each)),
    }
}
