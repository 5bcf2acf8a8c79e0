use super::*;
use crate::race::procedure::schedule::Round;

const CELLS: usize = 8;

/// Eight configurations without anything in common; the last one is the default.
fn race() -> Race {
    let rounds = vec![Round { cells: 8, blocks: 1 }, Round { cells: 4, blocks: 2 }];
    Race {
        cells: Cells::new(&(0..CELLS).map(|cell| vec![cell]).collect::<Vec<_>>()),
        default: CELLS - 1,
        schedule: Schedule { rounds, trials: 18 },
        budget: None,
        threshold: 0.05,
        seed: 1,
    }
}

/// A trial; the first configuration is the fastest, and in the second measure the sixth is the best.
fn outcome(block: u32, cell: usize) -> RacedTrial {
    let value = Some(-0.3 * cell as f64 + 0.001 * f64::from(block));
    let other = if cell == 5 { 9.0 } else { 1.0 };
    RacedTrial { block, shared: block, cell, value, others: vec![Some(other)], cost: 1 }
}

fn block(number: u32) -> Vec<RacedTrial> {
    (0..CELLS).map(|cell| outcome(number, cell)).collect()
}

#[test]
fn the_best_the_default_and_the_pareto_front_go_on() {
    let race = race();
    let progress = race.progress(&block(0));
    let expected = NextStep::Block { number: 1, cells: vec![0, 1, 2, 3, 5, 7], fresh: true, at_once: 2 };
    assert_eq!((progress.step, progress.fresh_from), (expected, Some(1)));
    let dropped: Vec<usize> = progress.dropped.iter().map(|one| one.cell).collect();
    assert_eq!(dropped, [4, 6]);
    let Why::Rank { rank, of, behind } = progress.dropped[0].why else { panic!("it was measured") };
    assert!((rank, of) == (5, 8) && behind > 0.5, "{behind}");
    assert_eq!((progress.dropped[0].round, progress.dropped[0].trials), (0, 8));
}

#[test]
fn a_race_is_a_function_of_its_trials_in_any_order() {
    let race = race();
    let mut outcomes: Vec<RacedTrial> = [block(0), block(1)].concat();
    outcomes.push(outcome(2, 0));
    let mut running = RunningRace::new(&race);
    for so_far in 0..outcomes.len() {
        running.after(&outcomes[..so_far]);
    }
    let progress = running.after(&outcomes);
    outcomes.reverse();
    assert_eq!(progress, race.progress(&outcomes));
    assert!(matches!(progress.step, NextStep::Block { number: 2, .. }), "one of six is done");
    let last = race.progress(&[block(0), block(1), block(2)].concat());
    assert_eq!((last.step, &last.left[..2]), (NextStep::Over, &[0, 1][..]));
}

#[test]
fn what_has_no_value_is_dropped_but_for_the_default() {
    let mut outcomes = block(0);
    for failed in [0, CELLS - 1] {
        outcomes[failed].value = None;
    }
    let progress = race().progress(&outcomes);
    assert!(progress.left.contains(&(CELLS - 1)), "the default is measured again");
    let failed = progress.dropped.iter().find(|one| one.cell == 0).unwrap();
    assert_eq!(failed.why, Why::NotMeasured);
    outcomes.iter_mut().for_each(|one| one.value = None);
    let progress = race().progress(&outcomes);
    assert_eq!((progress.left.as_slice(), progress.dropped.len()), (&[CELLS - 1][..], CELLS - 1));
    assert!(race().answer(&outcomes, &progress.left).is_none());
}

#[test]
fn the_answer_says_how_much_better_the_best_may_be() {
    let outcomes = [block(0), block(1), block(2)].concat();
    let race = race();
    let answer = race.answer(&outcomes, &race.progress(&outcomes).left).unwrap();
    assert_eq!((answer.pick, answer.default_kept, answer.as_good.len()), (0, false, 0));
    assert!(answer.bound < 0.01 && (answer.default_bound - 2.1).abs() < 0.1, "{answer:?}");
    assert!((answer.gain - 2.1).abs() < 0.05, "{}", answer.gain);
}

#[test]
fn what_failed_once_is_not_picked_unless_all_did() {
    let mut outcomes = [block(0), block(1), block(2)].concat();
    let race = race();
    let left = race.progress(&outcomes).left;
    outcomes[2 * CELLS].value = None;
    let answer = race.answer(&outcomes, &left).unwrap();
    assert_eq!((answer.pick, answer.as_good.contains(&0)), (1, false));
    outcomes.iter_mut().filter(|one| one.block == 2).for_each(|one| one.value = None);
    assert_eq!(race.answer(&outcomes, &left).unwrap().pick, 0);
    // A default that failed is not kept.
    let alike = |cell| RacedTrial { value: Some(0.0), ..cell };
    let mut outcomes: Vec<RacedTrial> =
        [block(0), block(1), block(2)].concat().into_iter().map(alike).collect();
    let kept = |outcomes: &[RacedTrial]| race.answer(outcomes, &left).unwrap();
    assert_eq!(kept(&outcomes).pick, CELLS - 1);
    outcomes[2 * CELLS - 1].value = None;
    assert_ne!(kept(&outcomes).pick, CELLS - 1);
}

/// Trials with everything that the race asks for, and how it ends. A trial costs 10, and so does a sentinel.
fn run(mut race: Race, limit: u64) -> (Vec<RacedTrial>, RaceProgress) {
    race.budget = Some(Budget { limit, sentinels: (0..20).map(|block| (block, 10)).collect(), blocks: None });
    let mut outcomes = Vec::new();
    loop {
        let progress = race.progress(&outcomes);
        let NextStep::Block { number, cells, .. } = progress.step else { return (outcomes, progress) };
        outcomes.extend(cells.into_iter().map(|cell| RacedTrial { cost: 10, ..outcome(number, cell) }));
    }
}

fn cost(outcomes: &[RacedTrial]) -> u64 {
    let blocks = outcomes.iter().map(|one| one.block).max().map_or(0, |last| u64::from(last) + 1);
    outcomes.iter().map(|one| one.cost).sum::<u64>() + 10 * blocks
}

#[test]
fn the_last_round_takes_what_the_budget_leaves() {
    for limit in [90, 120, 230, 240, 260, 300, 500, 5000] {
        let (outcomes, progress) = run(race(), limit);
        assert!(cost(&outcomes) <= limit, "{limit}: {}", cost(&outcomes));
        let fresh = progress.rounds[1].blocks;
        // Seven trials in a block, and with less than two blocks of them only the best four, the default and
        // the sentinel: 60.
        let expected = (limit - 90) / 70;
        match limit {
            90 | 120 => assert!(progress.cut && fresh == 0, "{limit}: {progress:?}"),
            230 => assert_eq!((fresh, progress.cut, progress.left.len()), (2, false, 6)),
            _ => assert_eq!((u64::from(fresh), progress.cut), (expected.min(12), false), "{limit}"),
        }
    }
    // A replay has no more blocks than its sweep.
    let budget = Some(Budget { limit: 500, sentinels: Vec::new(), blocks: Some(4) });
    let progress = Race { budget, ..race() }.progress(&block(0));
    assert_eq!(progress.rounds[1].blocks, 3);
    let (outcomes, progress) = run(race(), 215);
    assert_eq!((progress.rounds[1].blocks, progress.left.len()), (2, 5), "the front gives way");
    assert!(cost(&outcomes) <= 215 && !progress.cut);
}

#[test]
fn a_budget_that_runs_out_leaves_out_what_comes_before_the_last_round() {
    let rounds = [(8, 1), (7, 2), (6, 2), (4, 2)].map(|(cells, blocks)| Round { cells, blocks });
    let long = || Race { schedule: Schedule { rounds: rounds.to_vec(), trials: 50 }, ..race() };
    // 90 for the first block and each of the next two, 120 for the least last round.
    let (outcomes, progress) = run(long(), 295);
    let blocks: Vec<u32> = progress.rounds.iter().map(|round| round.blocks).collect();
    assert_eq!((&blocks[..], progress.left.len()), (&[1, 0, 2][..], 6), "with the front");
    assert!(progress.cut && cost(&outcomes) <= 295, "{}", cost(&outcomes));
    assert_eq!(progress.fresh_from, Some(1));
    let (longer, after) = run(long(), 310);
    let blocks: Vec<u32> = after.rounds.iter().map(|round| round.blocks).collect();
    assert!(blocks == [1, 1, 2] && after.left.len() == 5 && after.cut && cost(&longer) <= 310, "{blocks:?}");
    // It is the same race whenever it is looked at.
    let budget =
        Some(Budget { limit: 295, sentinels: (0..20).map(|block| (block, 10)).collect(), blocks: None });
    assert_eq!(Race { budget, ..long() }.progress(&outcomes), progress);
}

/// With a budget, as many blocks of a round at once as are expected to be affordable; and blocks that were
/// measured at once count, although one more of what they have cost would not have been.
#[test]
fn blocks_of_a_round_can_be_measured_at_once() {
    let with = |limit: u64| {
        let mut race = race();
        let rounds = [(8, 1), (5, 6), (2, 2)].map(|(cells, blocks)| Round { cells, blocks });
        race.schedule = Schedule { rounds: rounds.to_vec(), trials: 0 };
        race.budget = Some(Budget { limit, sentinels: Vec::new(), blocks: None });
        race
    };
    let at_once = |race: &Race, outcomes: &[RacedTrial]| match race.progress(outcomes).step {
        NextStep::Block { number, at_once, .. } => (number, at_once),
        NextStep::Over => panic!("it is not over"),
    };
    assert_eq!(at_once(&with(1_000), &[]), (0, 1), "the first block says what anything costs");
    assert_eq!(at_once(&with(1_000), &block(0)), (1, 6));
    let cells = match with(1_000).progress(&block(0)).step {
        NextStep::Block { cells, .. } => cells,
        NextStep::Over => panic!("it is not over"),
    };
    let (spent, each) = (block(0).len() as u64, cells.len() as u64);
    // The last round needs some, too.
    let (_, fewer) = at_once(&with(spent + 3 * each + 6), &block(0));
    assert!((1..=3).contains(&fewer), "{fewer}");

    // Two blocks at once, which cost much more than expected: both count.
    let dear = |number: u32| -> Vec<RacedTrial> {
        let of_block = cells.iter().map(|cell| RacedTrial { cost: 100, ..outcome(number, *cell) });
        of_block.collect()
    };
    let race = with(spent + 3 * each + 6);
    let progress = race.progress(&[block(0), dear(1), dear(2)].concat());
    assert!(progress.cut, "nothing more fits");
    let dropped = progress.dropped.iter().filter(|one| one.round == 1).map(|one| one.trials).max();
    assert_eq!(dropped, Some(block(0).len() + 2 * cells.len()), "both blocks decided");
}
