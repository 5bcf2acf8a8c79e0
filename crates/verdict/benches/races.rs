//! The claims about races with more of them than the suite has, at a fifth and at half of the trials, with
//! figures to read. Minutes: `cargo bench -p fsdyno-verdict --bench races`, or `make soak`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers: it prints, and may panic"
)]

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use simulated::{CELLS, Kind, MANY_CELLS, Summary, exhaustive, summary};

/// A fifth of what six trials of each configuration take.
const FIFTH: u32 = CELLS as u32 * 6 / 5;

fn main() {
    let replays = 400;
    for budget in [FIFTH, CELLS as u32 * 3] {
        for kind in [Kind::Factors, Kind::Quiet, Kind::Equal, Kind::Outliers, Kind::Small] {
            let found = summary(kind, replays, Some(budget));
            let Summary { trials, good, held, half_held, kept, none_better, doubted, bound, .. } = found;
            let with_all = exhaustive(kind, replays, 6);
            println!(
                "{kind:?}, {trials} trials: pick within 5 % in {good} of {replays} (all 432 trials: \
                 {with_all}), bound held in {held} (half of it in {half_held}), median {:.1} %, default kept \
                 {kept}, shown to be within 5 % {none_better}, doubted {doubted}",
                bound.exp_m1() * 100.0
            );
            assert!(held * 100 >= replays * 94, "{kind:?}: {held} of {replays}");
        }
    }
    for times in [6, 12, 18, 24, 30] {
        let budget = CELLS as u32 * times / 5;
        let Summary { good, trials, .. } = summary(Kind::Factors, replays, Some(budget));
        println!(
            "right in {good} of {replays} races of {trials} trials, and in {} of as many sweeps of {}",
            exhaustive(Kind::Factors, replays, times),
            CELLS as u32 * times
        );
    }
    let replays = 200;
    let Summary { kept, trials, .. } = summary(Kind::Equal, replays, Some(CELLS as u32 * 6));
    println!("Equal, {trials} trials: default kept {kept} of {replays}");
    let (replays, budget) = (100, MANY_CELLS as u32 * 6 / 5);
    let Summary { good, trials, held, bound, .. } = summary(Kind::Many, replays, Some(budget));
    println!(
        "{MANY_CELLS} configurations, {trials} trials: pick within 5 % in {good} of {replays} (all {} trials: \
         {}), bound held in {held}, median {:.1} %",
        MANY_CELLS * 6,
        exhaustive(Kind::Many, replays, 6),
        bound.exp_m1() * 100.0
    );
}
