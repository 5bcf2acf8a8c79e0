use super::*;
use crate::fixture;
use fsdyno_core::{RaceRules, Warning, WarningKind};
use std::collections::{BTreeMap, BTreeSet};

/// Returns how much faster a configuration is than the slowest, as a logarithm: the sum of the effects of its
/// levels.
fn truth(case: u32) -> f64 {
    f64::from(case / 4) * 0.4 + f64::from(case % 4) * 0.1
}

/// Returns the share that the block of a trial adds: sums of several show which blocks they were.
fn of_block(block: u32) -> f64 {
    1e-4 * f64::from(1 << block)
}

/// 16 configurations in 6 blocks, without noise. Case 0 is the slowest, and the default.
fn sweep() -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for block in 0..6 {
        for case in 0..16 {
            let [filesystem, scheduler] = [case / 4, case % 4].map(|level| level.to_string());
            let configuration = fixture::configuration(&filesystem, &scheduler);
            let rate = 100.0 * truth(case).exp() * (1.0 + of_block(block));
            trials.push(fixture::trial(trials.len() as u32, block, case, configuration, rate));
        }
    }
    trials
}

fn question() -> RaceQuestion {
    RaceQuestion { budget: None, goal: None, threshold: 0.05, workload: None, seed: 7 }
}

fn raced(trials: &[TrialRecord], question: &RaceQuestion) -> Result<RaceAnswer, RaceError> {
    replay(&fixture::header("read"), trials, question)
}

/// Halving as it is on paper: without a model, by the true values. Cases that go on, and those dropped.
fn halve(cases: &[u32], keep: usize) -> (Vec<u32>, Vec<u32>) {
    let mut sorted = cases.to_vec();
    sorted.sort_by(|a, b| truth(*b).total_cmp(&truth(*a)));
    sorted.into_iter().enumerate().map(|(rank, case)| (rank < keep || case == 0, case)).fold(
        (Vec::new(), Vec::new()),
        |(mut kept, mut dropped), (goes_on, case)| {
            if goes_on {
                kept.push(case)
            } else {
                dropped.push(case)
            }
            (kept, dropped)
        },
    )
}

#[test]
fn without_noise_a_race_is_halving_by_the_true_values() {
    let found = raced(&sweep(), &question()).unwrap();
    let (eight, first) = halve(&(0..16).collect::<Vec<_>>(), 8);
    let (four, second) = halve(&eight, 4);
    let dropped = |round: usize| {
        let of_round = found.eliminations.iter().filter(move |one| one.round == round);
        of_round.map(|one| one.raced.case).collect::<Vec<u32>>()
    };
    assert_eq!((dropped(1), dropped(2), dropped(3)), (first, second, Vec::new()));
    assert_eq!(found.eliminations[0].after_trials, 16);
    let left: Vec<u32> = found.finalists.iter().map(|one| one.raced.case).collect();
    assert_eq!(left, four, "best first, and the default last");
    assert_eq!((found.pick.case, found.default.case, found.default_kept), (15, 0, false));
    assert_eq!(found.trials, 16 + eight.len() + 2 * four.len());
    assert_eq!(found.sweep_trials, 96);
    assert_eq!(found.time_ns, Some(Nanos::from_secs(280 * found.trials as u64)));
    assert!(found.regret_bound < 0.02 && found.as_good.is_empty(), "{}", found.regret_bound);
    let whole = found.whole_sweep.as_ref().unwrap();
    assert_eq!((whole.best.case, whole.pick_behind), (15, 0.0));
    // How far one is behind the best of its round: e^-x of the best, so 1 - e^-x worse.
    let second = &found.eliminations[7];
    let expected = -(-(truth(15) - truth(second.raced.case))).exp_m1();
    assert!((second.behind.unwrap() - expected).abs() < 0.01, "{second:?}");
}

/// The figures of the last few are those of trials that no earlier round has seen.
#[test]
fn fresh_figures_come_from_blocks_that_were_not_drawn_before() {
    let (mut seen, trials) = (BTreeMap::new(), sweep());
    for seed in 0..8 {
        let found = raced(&trials, &RaceQuestion { seed, ..question() }).unwrap();
        let blocks: BTreeSet<u32> = found
            .finalists
            .iter()
            .map(|one| {
                let mean = one.value.unwrap() / (100e6 * truth(one.raced.case).exp()) - 1.0;
                (mean * one.trials as f64 / 1e-4).round() as u32
            })
            .collect();
        assert_eq!(blocks.len(), 1, "all from the same blocks: {blocks:?}");
        let blocks = blocks.into_iter().next().unwrap();
        assert_eq!(blocks.count_ones(), 2, "two of them, none twice");
        *seen.entry(blocks).or_insert(0) += 1;
    }
    assert!(seen.len() > 3, "the seed decides which: {seen:?}");
}

#[test]
fn a_configuration_without_a_trial_left_is_named() {
    let mut trials = sweep();
    trials.retain(|trial| trial.case != 15 || trial.block < 3);
    let error = raced(&trials, &question()).unwrap_err();
    let name = fixture::configuration("3", "3").name;
    assert_eq!(error, RaceError::NoTrialLeft { name, trials: 3 });
    // One that is dropped early needs no more.
    let mut trials = sweep();
    trials.retain(|trial| trial.case != 1 || trial.block < 1);
    assert!(raced(&trials, &question()).is_ok());
}

#[test]
fn a_budget_shortens_a_race_or_is_refused() {
    let short = raced(&sweep(), &RaceQuestion { budget: Some(30), ..question() }).unwrap();
    assert!(short.trials <= 30 && short.pick.case == 15, "{} trials", short.trials);
    // Every configuration is the best in one measure or the other, and none may exceed the budget by that.
    let mut trials = sweep();
    for trial in &mut trials {
        let stall = Nanos::from_millis(u64::from(trial.case + 1) * 10);
        trial
            .phases
            .iter_mut()
            .flat_map(|phase| &mut phase.roles)
            .for_each(|role| role.longest_stall_ns = Some(stall));
    }
    let unlimited = raced(&trials, &question()).unwrap();
    assert_eq!(unlimited.finalists.len(), 9, "all that were left, and the default");
    for budget in 26..70 {
        let found = raced(&trials, &RaceQuestion { budget: Some(budget), ..question() }).unwrap();
        assert!(found.trials <= budget as usize, "{} of {budget} trials", found.trials);
    }
    let error = raced(&sweep(), &RaceQuestion { budget: Some(20), ..question() }).unwrap_err().to_string();
    assert_eq!(error, "a budget of 20 trials is too small: a race of 16 configurations needs 26");
}

#[test]
fn what_weakens_durability_does_not_take_part() {
    let mut trials = sweep();
    for trial in trials.iter_mut().filter(|trial| trial.case == 15) {
        trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0"));
    }
    let found = raced(&trials, &question()).unwrap();
    assert_eq!((found.pick.case, found.not_entered[0].case), (14, 15));
}

#[test]
fn sentinels_count_as_trials_and_are_not_drawn() {
    let mut trials = sweep();
    for block in 0..6 {
        let mut sentinel = trials[0].clone();
        (sentinel.block, sentinel.sentinel) = (block, true);
        trials.push(sentinel);
    }
    let (with, without) = (raced(&trials, &question()).unwrap(), raced(&sweep(), &question()).unwrap());
    assert_eq!(with.trials, without.trials + 4, "one in each of the blocks 1 + 1 + 2");
}

#[test]
fn the_default_is_kept_where_nothing_differs_and_failures_are_dropped() {
    let mut trials = sweep();
    for trial in &mut trials {
        let noise = 1.0 + 0.02 * f64::from((trial.trial * 7 + trial.block * 3) % 11) / 11.0;
        let (number, block, case) = (trial.trial, trial.block, trial.case);
        *trial = fixture::trial(number, block, case, trial.configuration.asked.clone(), 100.0 * noise);
        if case == 5 {
            let error = fsdyno_core::Failure::new("mkfs", "no");
            trial.outcome = fsdyno_core::Outcome::Failed { error };
        }
    }
    let found = raced(&trials, &question()).unwrap();
    assert_eq!(found.pick.case, 0, "{:?}", found.sentences);
    assert!(
        found.judgement.headline.starts_with("No material difference: keep '0 0'"),
        "{:?}",
        found.judgement
    );
    assert!(found.default_regret_bound < 0.05, "{}", found.default_regret_bound);
    let failed = found.eliminations.iter().find(|one| one.raced.case == 5).unwrap();
    assert_eq!((failed.round, failed.rank), (1, None));
    assert_eq!(failed.why, "no trial has a value above 0");
}

#[test]
fn a_measure_of_which_less_is_better_turns_everything_around() {
    let goal = Some(Goal::Measure("umount-time".parse().unwrap()));
    let mut trials = sweep();
    for trial in &mut trials {
        let seconds = truth(trial.case).exp() * (1.0 + of_block(trial.block));
        trial.lifecycle_ns.umount = Some(Nanos((seconds * 1e9) as u64));
    }
    let found = raced(&trials, &RaceQuestion { goal, ..question() }).unwrap();
    assert_eq!((found.pick.case, found.higher_is_better), (0, false));
    let last = found.eliminations.iter().find(|one| one.raced.case == 15).unwrap();
    assert!((last.behind.unwrap() - truth(15).exp_m1()).abs() < 0.1, "{last:?}");
}

/// A race that is run on the world of these tests, until it is over. `change` changes each trial.
fn live(budget: fsdyno_core::RaceBudget, change: impl Fn(&mut TrialRecord)) -> (Vec<TrialRecord>, RaceRules) {
    let rules = RaceRules { budget, measure: "read".parse().unwrap(), configurations: 16 };
    let mut race = LiveRace::new(rules.clone(), 7);
    let (mut trials, mut cases): (Vec<TrialRecord>, Vec<u32>) = (Vec::new(), (0..16).collect());
    for block in 0.. {
        for case in &cases {
            let [filesystem, scheduler] = [case / 4, case % 4].map(|level| level.to_string());
            let configuration = fixture::configuration(&filesystem, &scheduler);
            let rate = 100.0 * truth(*case).exp() * (1.0 + 1e-4 * f64::from(block));
            let mut trial = fixture::trial(trials.len() as u32, block, *case, configuration, rate);
            change(&mut trial);
            race.add(&trial);
            trials.push(trial);
        }
        let (next, found) = race.block(block + 1, 1);
        let said = found.unwrap().after_block(block + 1);
        assert!(said.iter().any(|line| line.contains("no configuration is more than ")), "{said:?}");
        cases = next.cases;
        if cases.is_empty() {
            return (trials, rules);
        }
    }
    unreachable!("it ends")
}

fn header(rules: &RaceRules) -> fsdyno_core::SweepHeader {
    fsdyno_core::SweepHeader { race: Some(rules.clone()), ..fixture::header("read") }
}

#[test]
fn what_weakens_durability_is_dropped_after_the_first_block_of_a_race() {
    let weakened = |trial: &mut TrialRecord| {
        if trial.case == 15 {
            trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0"));
        }
    };
    let (trials, rules) = live(fsdyno_core::RaceBudget::Halving, weakened);
    let found = answer(&header(&rules), &rules, &trials, 0.05).unwrap();
    assert_eq!((found.state, found.pick.case, found.default.case), (RaceState::Over, 14, 0));
    let first = &found.eliminations[0];
    assert_eq!((first.raced.case, first.round, first.after_trials), (15, 1, 16));
    assert_eq!(first.why, "it weakens what survives a power cut, or may, so it cannot win");
    assert_eq!(found.eliminations.len() + found.finalists.len(), 16, "nothing gets lost");
    // What is better but cannot win is no regret.
    assert!(found.regret_bound < 0.05, "{}", found.regret_bound);
    let fresh_from = found.fresh_from.unwrap();
    for trial in &trials {
        let expected = !found.is_left(trial.case) || trial.block >= fresh_from;
        assert_eq!(found.counts(trial), expected, "case {} in block {}", trial.case, trial.block);
    }
}

/// Checks that a stored race says the same of its blocks as the race said after each of them.
#[test]
fn the_history_of_a_race_is_what_it_said_block_by_block() {
    let (trials, rules) = live(fsdyno_core::RaceBudget::Halving, |_| {});
    let header = header(&rules);
    let blocks = trials.iter().map(|trial| trial.block).max().unwrap() + 1;
    let mut race = LiveRace::new(rules.clone(), header.seed);
    trials.iter().for_each(|trial| race.add(trial));
    let said: Vec<RaceAnswer> = (1..=blocks).map(|number| race.block(number, 1).1.unwrap()).collect();
    let found = history(&header, &rules, &trials, 100).unwrap();
    assert_eq!(found.len(), blocks as usize);
    for (number, (found, said)) in (1..).zip(found.iter().zip(&said)) {
        assert_eq!(
            (found.after_block(number), &found.eliminations),
            (said.after_block(number), &said.eliminations)
        );
        assert_eq!((found.complete_blocks(), found.next.is_none()), (number, number == blocks));
        assert_eq!(found.blocks(), blocks);
    }
    // Each configuration is dropped before the first block that it is not part of.
    for one in &said[said.len() - 1].eliminations {
        let own = trials.iter().filter(|trial| trial.case == one.raced.case).map(|trial| trial.block);
        assert_eq!(own.max(), Some(found[0].blocks_until(one.round) - 1), "{}", one.raced.configuration.name);
    }
    // A block that lacks a trial is not complete.
    let cut = &trials[..trials.len() - 1];
    assert_eq!(history(&header, &rules, cut, 100).unwrap().len(), blocks as usize - 1);
    let latest: Vec<u32> =
        history(&header, &rules, cut, 2).unwrap().iter().map(RaceAnswer::complete_blocks).collect();
    assert_eq!(latest, [blocks - 2, blocks - 1]);
    assert!(matches!(
        history(&header, &rules, &trials[..5], 1),
        Err(RaceError::FirstBlock { measured: 5, .. })
    ));
    assert!(matches!(history(&header, &rules, &[], 1), Err(RaceError::FirstBlock { measured: 0, .. })));
}

/// Figures that were lucky in the first block crown nobody.
#[test]
fn a_raced_sweep_is_recommended_by_its_race_and_by_fresh_figures_only() {
    let lucky = |trial: &mut TrialRecord| {
        if trial.case == 1 && trial.block == 0 {
            let (configuration, rate) = (trial.configuration.asked.clone(), 100.0 * truth(14).exp());
            *trial = fixture::trial(trial.trial, trial.block, trial.case, configuration, rate);
        }
    };
    let (trials, rules) = live(fsdyno_core::RaceBudget::Trials(80), lucky);
    assert!(trials.len() <= 80, "{} trials", trials.len());
    let view = crate::View::new(&header(&rules), &trials).unwrap();
    let race = view.race().expect("a race");
    let answer = &view.recommendation.answers[0];
    assert_eq!((race.pick.case, answer.winner().map(|winner| winner.case)), (15, Some(15)));
    assert_eq!(answer.judgement, race.judgement);
    assert!(answer.judgement.headline.contains("With 95 % probability, no configuration is more than "));
    assert_eq!(answer.standings.len(), race.finalists.len(), "what was dropped is not compared");
    for one in &race.finalists {
        let row = view.rankings[0].rows.iter().find(|row| row.case == one.raced.case).unwrap();
        let figure = row.figures[0].unwrap().estimate.value;
        assert_eq!((row.trials, Some(figure)), (one.trials, one.value), "only fresh trials");
    }
    let left: Vec<bool> = view.rankings[0].rows.iter().map(|row| race.is_left(row.case)).collect();
    assert!(left.is_sorted_by(|one, other| one >= other) && left.len() == 16, "{left:?}");
    let notes = view.notes().join("\n");
    assert!(
        notes.contains("after round 1 (16 trials) ") && notes.contains("figures of the last few"),
        "{notes}"
    );
    // By another measure, only what is left of the race is compared, and that is said.
    let question = crate::Question { goal: Some("latency".parse().unwrap()), ..Default::default() };
    let other = crate::Recommendation::new(&header(&rules), &trials, &question);
    let last = other.answers[0].sentences.last().unwrap();
    assert!(
        last.starts_with("Only configurations that the race for read did not drop are compared"),
        "{last}"
    );
    // Before the first block is complete, nothing is decided.
    let early = crate::Recommendation::new(&header(&rules), &trials[..5], &crate::Question::default());
    assert!(
        early.race.is_none() && early.notes[0].contains("5 of 16 configurations have run"),
        "{:?}",
        early.notes
    );
}
