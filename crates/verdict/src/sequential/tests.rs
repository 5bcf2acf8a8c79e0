use super::*;
use crate::fixture;
use crate::looks::under_looks;
use crate::recommendation::{corrected, pairs};
use fsdyno_core::RepeatedBlock;
use fsdyno_stats::{Ratio, Verdict, paired};
use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const THRESHOLD: f64 = 0.05;
const LEAST: usize = 4;
const MOST: usize = 20;

/// The values of each configuration, one per block. The first is larger by this factor.
fn sweep(seed: u64, configurations: usize, variation: f64, factor: f64) -> Vec<Vec<f64>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // With this spread of the logarithm, the coefficient of variation is as given.
    let noise = LogNormal::new(0.0, (variation * variation).ln_1p().sqrt()).expect("a spread");
    let block = LogNormal::new(0.0, 0.3).expect("a spread");
    let mut values = vec![Vec::new(); configurations];
    for _ in 0..MOST {
        let level = block.sample(&mut random);
        for (index, own) in values.iter_mut().enumerate() {
            let factor = if index == 0 { factor } else { 1.0 };
            own.push(level * factor * noise.sample(&mut random));
        }
    }
    values
}

/// The best after so many blocks, and its ratios to the others with their corrected p values.
fn compared(values: &[Vec<f64>], blocks: usize) -> (usize, Vec<(Ratio, Option<f64>)>) {
    let mean = |own: &Vec<f64>| own[..blocks].iter().sum::<f64>();
    let best = (0..values.len()).max_by(|a, b| mean(&values[*a]).total_cmp(&mean(&values[*b]))).unwrap_or(0);
    let ratio = |other: usize| {
        let pairs = values[best].iter().zip(&values[other]).take(blocks);
        under_looks(paired(&pairs.map(|(a, b)| (*a, *b)).collect::<Vec<_>>()), true)
    };
    let ratios: Vec<Option<Ratio>> = (0..values.len()).filter(|other| *other != best).map(ratio).collect();
    let corrected = corrected(&ratios, pairs(values.len()));
    (best, ratios.into_iter().flatten().zip(corrected).collect())
}

/// The verdicts on all but the best after so many blocks, by the rule of a recommendation.
fn look(values: &[Vec<f64>], blocks: usize) -> (usize, Vec<Verdict>) {
    let (best, ratios) = compared(values, blocks);
    (best, ratios.iter().map(|(ratio, p)| ratio.verdict(THRESHOLD, *p)).collect())
}

/// After how many blocks a sweep is decided, and which configuration is the best then; `None` if none is
/// within the limit.
fn decided(values: &[Vec<f64>]) -> Option<(usize, usize)> {
    (LEAST..=MOST).find_map(|blocks| {
        let (best, said) = look(values, blocks);
        said.iter().all(|one| !matches!(one, Verdict::CannotTell(_))).then_some((blocks, best))
    })
}

/// The share of sweeps of equal configurations of which some look says that one is worse than the best,
/// whether or not the difference would matter.
fn some_look_differs(sweeps: u64, configurations: usize, variation: f64) -> f64 {
    let differs = |seed: &u64| {
        let values = sweep(*seed, configurations, variation, 1.0);
        (LEAST..=MOST).any(|blocks| {
            // The verdict on a difference that may be as small as it likes.
            compared(&values, blocks).1.iter().any(|(_, p)| p.is_some_and(|p| p < 0.05))
        })
    };
    (0..sweeps).filter(differs).count() as f64 / sweeps as f64
}

#[test]
fn with_nothing_different_at_most_5_percent_of_sweeps_ever_find_a_better_one() {
    for configurations in [2, 3, 6, 12] {
        for variation in [0.02, 0.1, 0.4] {
            let found = some_look_differs(400, configurations, variation);
            assert!(found <= 0.05, "{configurations} configurations, CV {variation}: {found}");
        }
    }
    let found = some_look_differs(2000, 2, 0.1);
    assert!(found >= 0.005, "{found}: a rule that finds nothing proves nothing");
}

/// The best of all is found by beating each of the others, without any correction: one claim instead of one
/// for each pair (S. Gutmann and Z. Maymin, "Is the selected population the best?", Ann. Statist. 15(1),
/// 1987).
#[test]
fn with_nothing_different_no_look_finds_one_that_beats_each_of_the_others() {
    let beats_all = |values: &[Vec<f64>], blocks: usize| {
        let mean = |own: &Vec<f64>| own[..blocks].iter().sum::<f64>();
        let best = (0..values.len()).max_by(|a, b| mean(&values[*a]).total_cmp(&mean(&values[*b])));
        let best = best.unwrap_or(0);
        let mut others = (0..values.len()).filter(|other| *other != best);
        others.all(|other| {
            let pairs = values[best].iter().zip(&values[other]).take(blocks).map(|(a, b)| (*a, *b));
            let ratio = under_looks(paired(&pairs.collect::<Vec<_>>()), true);
            ratio.is_some_and(|ratio| ratio.verdict(0.0, ratio.p) == Verdict::Smaller)
        })
    };
    for configurations in [2, 3, 6] {
        let ever = |seed: &u64| {
            let values = sweep(*seed, configurations, 0.1, 1.0);
            (LEAST..=MOST).any(|blocks| beats_all(&values, blocks))
        };
        let found = (0..1000).filter(ever).count();
        assert!(found <= 50, "{configurations}: {found} of 1000");
    }
}

#[test]
fn a_difference_of_15_percent_is_found_after_a_few_blocks() {
    // Of half of the sweeps, and of 90 in 100.
    for (configurations, expected) in [(2, [6, 9]), (3, [8, 11]), (6, [12, 16]), (12, [15, 20])] {
        let mut blocks = Vec::new();
        for seed in 0..200 {
            let values = sweep(seed, configurations, 0.05, 1.15);
            // The best against each of the others; whether these differ from each other is another question.
            let found = (LEAST..=MOST).find(|blocks| {
                let (best, said) = look(&values, *blocks);
                best == 0 && said.iter().all(|one| *one == Verdict::Smaller)
            });
            blocks.push(found.unwrap_or(MOST + 1));
        }
        blocks.sort_unstable();
        let found = [blocks[100], blocks[180]];
        let is_as_expected =
            found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 1);
        assert!(is_as_expected, "{configurations}: {found:?}");
    }
}

#[test]
fn equal_configurations_are_called_equal_if_they_vary_little() {
    let ends = (0..200).filter_map(|seed| decided(&sweep(seed, 3, 0.02, 1.0))).collect::<Vec<_>>();
    assert!(ends.len() >= 190, "{} of 200", ends.len());
    // Nothing says so of what varies by 40 %: the sweep ends at its limit.
    let ends = (0..200).filter_map(|seed| decided(&sweep(seed, 3, 0.4, 1.0))).count();
    assert!(ends <= 10, "{ends} of 200");
}

/// A sweep of two configurations that was judged after these blocks.
fn judged(factor: f64, blocks: u32, after: &[u32]) -> (SweepHeader, Vec<TrialRecord>) {
    let trials = [fixture::blocks(0, "a", blocks, 1.0), fixture::blocks(1, "b", blocks, factor)];
    let looks = Looks { after: after.to_vec(), ..Looks::default() };
    (SweepHeader { looks, ..fixture::header("read") }, trials.concat())
}

#[test]
fn an_answer_of_a_sweep_that_was_judged_before_has_the_wider_interval_and_says_so() {
    let interval = |after: &[u32]| {
        let (header, trials) = judged(0.9, 6, after);
        let found = Recommendation::new(&header, &trials, &Question::default());
        let compared = found.answers[0].standings[1].to_best.expect("a ratio");
        let [low, high] = compared.interval.expect("an interval");
        let said = found.notes.iter().any(|note| note.contains("judged 3 times (after 4 to 6 blocks)"));
        (high / low, compared.p.expect("a p value"), said)
    };
    let (once, looked) = (interval(&[]), interval(&[4, 5, 6]));
    assert!(looked.0 > once.0 && looked.1 > once.1, "{once:?} {looked:?}");
    assert_eq!((once.2, looked.2), (false, true));
}

#[test]
fn a_clear_winner_settles_a_sweep_and_a_failed_trial_keeps_it_from_being_settled_by_more() {
    let settled_with = |factor, fails: bool| {
        let (header, mut trials) = judged(factor, 6, &[6]);
        if fails {
            trials[8].outcome =
                fsdyno_core::Outcome::Failed { error: fsdyno_core::Failure::new("mkfs", "no") };
        }
        settled(&Recommendation::new(&header, &trials, &Question::default()))
    };
    assert_eq!(settled_with(0.5, false), Settled::Decided);
    assert!(matches!(settled_with(1.04, false), Settled::Open(names) if names.len() == 2));
    assert_eq!(settled_with(0.96, false), Settled::Decided, "nothing is better than the default");
    assert_eq!(settled_with(1.5, true), Settled::Hopeless, "the better one has failed");
}

#[test]
fn trials_of_a_disturbed_block_do_not_count_once_it_was_measured_again_and_are_counted_aloud() {
    let (mut header, mut trials) = judged(0.5, 6, &[4, 5, 6]);
    let repeated = RepeatedBlock { block: 1, by: 5, why: vec![WarningKind::ForeignLoad], counts: true };
    header.looks.repeated = vec![repeated];
    trials.iter_mut().for_each(|trial| header.looks.mark(trial));
    let found = Recommendation::new(&header, &trials, &Question::default());
    assert_eq!(found.answers[0].standings.iter().map(|one| one.trials).collect::<Vec<_>>(), [5, 5]);
    let note = found.notes.iter().find(|note| note.contains("do not count")).expect("a note");
    assert_eq!(
        note,
        "2 trials of block 2 do not count: the machine was disturbed (foreign-load), and block 6 was measured \
         in its place"
    );
    assert!(found.answers[0].warnings.iter().any(|group| group.kind == WarningKind::MeasuredAgain));
}
