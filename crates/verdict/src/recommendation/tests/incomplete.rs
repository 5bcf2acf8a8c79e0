//! Trials that failed, have no value, or only a lower bound.

use super::*;
use fsdyno_core::Outcome;
use fsdyno_core::workload::{Arrivals, Rate};

/// A worker that hangs all the time performs nothing that could be measured.
#[test]
fn trials_without_a_value_are_counted_and_prove_nothing() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    let clear = recommend(&trials, None);
    assert_eq!(clear.answers[0].standings[1].verdict, ContenderVerdict::Worse);
    let dead = |trials: &mut Vec<TrialRecord>, case: u32| {
        let dead = trials.iter_mut().find(|trial| trial.case == case).unwrap();
        dead.phases.clear();
    };
    dead(&mut trials, 1);
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.standings.iter().map(|one| one.with_value).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(
        answer.standings[0].verdict,
        ContenderVerdict::CannotTell { needed: None },
        "{:?}",
        answer.standings
    );
    assert_eq!((answer.judgement.class, answer.winner()), (Class::Invalid, None));
    let said = |notes: &[String], text: &str| notes.iter().any(|note| note.contains(text));
    assert!(
        said(&answer.notes, "read-under-write has no value in 1 of 6 trials of xfs none: "),
        "{:?}",
        answer.notes
    );
    assert!(said(&answer.notes, "to the best: 1 of 6 trials of xfs none has no value"), "{:?}", answer.notes);
    // What is worse is not so because of trials that may be even worse.
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    dead(&mut trials, 0);
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.standings[1].verdict, ContenderVerdict::Worse, "{:?}", answer.standings);
    assert!(
        said(&answer.notes, "read-under-write has no value in 1 of 6 trials of ext4 none: "),
        "{:?}",
        answer.notes
    );
}

/// The first trials of a case fail.
fn fail(trials: &mut [TrialRecord], case: u32, count: usize) {
    for failing in trials.iter_mut().filter(|trial| trial.case == case).take(count) {
        failing.phases.clear();
        let error = fsdyno_core::Failure::new("load", "the device is gone");
        failing.outcome = Outcome::Failed { error };
    }
}

/// A failed trial may have been the worst: a filesystem that stops working must not win by that.
/// Two filesystems with two schedulers each, of which the filesystem matters.
const TWO_AXES: [(&str, &str, f64); 4] =
    [("ext4", "none", 1.0), ("xfs", "none", 1.3), ("ext4", "bfq", 1.0), ("xfs", "bfq", 1.3)];

fn filesystem_of(answer: &Answer) -> AxisAnswer {
    answer.axes.iter().find(|axis| axis.axis == "filesystem").expect("an axis").clone()
}

#[test]
fn failed_trials_are_told_and_prove_nothing() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    fail(&mut trials, 1, 1);
    let answer = &recommend(&trials, None).answers[0];
    let why = "1 of 6 trials of xfs none failed, and may have been the worst";
    let [xfs, ext4] = &answer.standings[..] else { panic!("{:?}", answer.standings) };
    assert_eq!((xfs.trials, xfs.failed, ext4.failed), (5, 1, 0));
    assert_eq!(
        (xfs.verdict, xfs.doubt.as_deref()),
        (ContenderVerdict::CannotTell { needed: None }, Some(why))
    );
    assert_eq!(ext4.verdict, ContenderVerdict::Best);
    let headline = &answer.judgement.headline;
    assert_eq!(*headline, format!("This sweep cannot answer: {why}. Keep the default, 'ext4 none'."));
    // Nor does the filesystem win as a setting.
    let mut trials = sweep(&TWO_AXES);
    fail(&mut trials, 1, 1);
    let filesystem = filesystem_of(&recommend(&trials, None).answers[0]);
    assert_eq!(
        filesystem.text,
        "no clear indication: 1 of 12 trials of xfs failed, and may have been the worst"
    );
    assert!(filesystem.best.is_none() && filesystem.levels.iter().all(|level| !level.worse));
    // The one that is worse, anyway, remains so.
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    fail(&mut trials, 0, 1);
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.standings[1].verdict, ContenderVerdict::Worse);
    let mut trials = sweep(&TWO_AXES);
    fail(&mut trials, 0, 1);
    assert_eq!(filesystem_of(&recommend(&trials, None).answers[0]).best.as_deref(), Some("xfs"));
    // Two that look equal are not, if either has such a trial, and more trials would not tell them apart.
    for (case, factor) in [(0, 1.0), (1, 1.0), (1, 1.01)] {
        let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", factor)]);
        assert_eq!(recommend(&trials, None).answers[0].standings[1].verdict, ContenderVerdict::AsGood);
        fail(&mut trials, case, 1);
        let answer = recommend(&trials, None).answers[0].clone();
        assert_eq!((answer.judgement.class, answer.winner()), (Class::Invalid, None));
        let other = answer.standings.iter().find(|one| one.case == case).unwrap();
        assert_eq!(other.verdict, ContenderVerdict::CannotTell { needed: None }, "{other:?}");
    }
}

/// Nor does it win because it changes fewer settings, or because nothing is left to compare it with.
#[test]
fn the_default_must_work_to_be_kept() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "none", 1.01)]);
    for trial in trials.iter_mut().filter(|trial| trial.case == 1) {
        trial.configuration.settings.insert("atime".to_string(), "noatime".to_string());
        trial.configuration.name = "noatime".to_string();
    }
    let default = |trials: &[TrialRecord]| recommend(trials, None).answers[0].default().map(|one| one.case);
    assert_eq!(default(&trials), Some(0));
    fail(&mut trials, 0, 6);
    let answer = recommend(&trials, None).answers[0].clone();
    assert_eq!((answer.default().map(|one| one.case), answer.winner()), (Some(1), None));
    assert_eq!(answer.failed_always, ["ext4 none"]);
    let headline = &answer.judgement.headline;
    assert!(
        headline.ends_with("and nothing else was measured: every trial of 'ext4 none' failed."),
        "{headline}"
    );
}

/// Sets the longest stall of every trial of a case, and whether it is only a lower bound.
fn stalled(mut trials: Vec<TrialRecord>, case: u32, seconds: u64, at_least: bool) -> Vec<TrialRecord> {
    for (trial, more) in trials.iter_mut().filter(|trial| trial.case == case).zip(0..) {
        for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
            role.longest_stall_ns = Some(fsdyno_core::Nanos(seconds * 1_000_000_000 + more * 1_000_000));
            role.longest_stall_at_least = at_least;
        }
    }
    trials
}

/// A lower bound below another value proves nothing, wherever it is said.
#[test]
fn lower_bounds_win_nothing() {
    let trials = || sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    let of = |at_least: bool| stalled(stalled(trials(), 0, 2, false), 1, 1, at_least);
    let by = |trials: &[TrialRecord], goal: &str| recommend(trials, Some(goal)).answers[0].clone();
    let exact = by(&of(false), "longest-stall");
    assert_eq!(exact.standings[1].verdict, ContenderVerdict::Worse);
    let bounds = by(&of(true), "longest-stall");
    assert_eq!(bounds.standings[1].verdict, ContenderVerdict::CannotTell { needed: None });
    assert_eq!((bounds.judgement.class, bounds.winner()), (Class::Undecided, None), "{:?}", bounds.judgement);
    // As a setting, too.
    let filesystem = |at_least: bool| {
        let stalls = [(0, 2, false), (1, 1, at_least), (2, 2, false), (3, 1, at_least)];
        let trials = stalls.into_iter().fold(sweep(&TWO_AXES), |trials, (case, seconds, at_least)| {
            stalled(trials, case, seconds, at_least)
        });
        filesystem_of(&by(&trials, "longest-stall"))
    };
    assert_eq!(filesystem(false).best.as_deref(), Some("xfs"));
    assert_eq!(filesystem(true).text, "no clear indication: only lower bounds are known");
    // As a price, too.
    let price = |trials: &[TrialRecord]| by(trials, "read-under-write").sentences[0].clone();
    assert!(price(&of(false)).contains("longest-stall") && !price(&of(false)).contains("not tell"));
    let unknown = "These trials do not tell whether it is worse (longest stall).";
    assert!(price(&of(true)).contains(unknown), "{}", price(&of(true)));
    // A bound that is larger does prove that.
    let worse = price(&stalled(stalled(trials(), 0, 2, false), 1, 3, true));
    assert!(worse.contains("longest-stall (mean) is >= 3.00 s instead of 2.00 s"), "{worse}");
    let points = by(&of(true), "read-under-write").pareto.points;
    assert!(points.iter().any(|point| point.at_least.contains(&true)), "{points:?}");
}

/// A trial of each of these cases in a block, with this rate.
fn blocks(rates: &[(u32, &[(u32, f64)])]) -> Vec<TrialRecord> {
    let trial = |case: u32, (block, rate): (u32, f64)| {
        let name = ["ext4", "xfs", "btrfs"][case as usize];
        fixture::trial(block * 10 + case, block, case, fixture::configuration(name, "none"), rate)
    };
    let of_case = |(case, rates): &(u32, &[(u32, f64)])| {
        rates.iter().map(|one| trial(*case, *one)).collect::<Vec<TrialRecord>>()
    };
    rates.iter().flat_map(of_case).collect()
}

/// The means have blocks that only one side has, in which the machine was quicker.
#[test]
fn what_is_better_within_the_common_blocks_is_the_best() {
    let slow = [(0, 50.0), (1, 52.0), (2, 101.0), (3, 99.0), (4, 100.0), (5, 100.0)];
    let answer = &recommend(&blocks(&[(0, &slow), (1, &[(0, 60.0), (1, 62.0)])]), None).answers[0];
    assert_eq!(answer.winner().unwrap().name, "xfs none");
    let [ext4, xfs] = &answer.standings[..] else { panic!("{:?}", answer.standings) };
    assert_eq!((ext4.verdict, xfs.verdict), (ContenderVerdict::Worse, ContenderVerdict::Best));
    let headline = &answer.judgement.headline;
    assert!(headline.contains(", 20 % more than the default, 'ext4 none' [15 %, 25 %]"), "{headline}");
    let heard = |note: &String| note.starts_with("better by their means") && note.ends_with(": ext4 none");
    assert!(answer.notes.iter().any(heard), "{:?}", answer.notes);
}

/// In a circle of such blocks, nobody is the best beyond doubt, and nobody is unsafe.
#[test]
fn ratios_that_contradict_each_other_decide_nothing() {
    let of = |blocks: [u32; 4], rate: f64| {
        blocks.map(|block| (block, rate * (1.0 + f64::from(block % 2) * 0.001)))
    };
    let (a, b, c) = (of([0, 1, 4, 5], 1.0), of([0, 1, 2, 3], 1.0), of([2, 3, 4, 5], 1.0));
    let shift = |mut rates: [(u32, f64); 4], factors: [f64; 2]| {
        rates.iter_mut().enumerate().for_each(|(index, one)| one.1 *= 50.0 * factors[index / 2]);
        rates
    };
    // b is better than a, c than b, and a than c.
    let (a, b, c) = (shift(a, [1.0, 1.3]), shift(b, [1.3, 1.0]), shift(c, [1.3, 1.0]));
    let answer = &recommend(&blocks(&[(0, &a), (1, &b), (2, &c)]), None).answers[0];
    assert!(
        answer.standings.iter().all(|one| one.verdict != ContenderVerdict::BetterAndWeaker),
        "{:?}",
        answer.standings
    );
    let doubts: Vec<&str> = answer.standings.iter().filter_map(|one| one.doubt.as_deref()).collect();
    assert_eq!(doubts, ["in other blocks it is the other way round"]);
}

/// 0 has no ratio, and is not as good as what works.
#[test]
fn what_achieved_nothing_is_not_as_good() {
    let constant = |rate: f64| [0, 1, 2, 3, 4, 5].map(|block| (block, rate + f64::from(block % 2)));
    let (best, zero, half) = (constant(100.0), [0, 1, 2, 3, 4, 5].map(|block| (block, 0.0)), constant(50.0));
    let answer = &recommend(&blocks(&[(0, &best), (1, &zero), (2, &half)]), None).answers[0];
    assert_eq!(answer.winner().unwrap().name, "ext4 none");
    let dead = answer.standings.iter().find(|one| one.case == 1).unwrap();
    assert_eq!((dead.zero, dead.doubt.as_deref()), (6, Some("a value of 0 has no ratio")));
    // A better mean does not make up for a trial in which nothing was achieved.
    let mut sometimes = constant(160.0);
    sometimes[0].1 = 0.0;
    let answer = &recommend(&blocks(&[(0, &best), (1, &sometimes)]), None).answers[0];
    assert_eq!(answer.winner().unwrap().name, "ext4 none");
    assert!(answer.judgement.headline.contains("where 'xfs none' has 80.3 MB/s"), "{:?}", answer.judgement);
}

/// Trials of three filesystems by their rates in each block; the sentinel repeats the first.
fn by_rates(rates: &[[f64; 3]], sentinels: &[f64]) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for (block, of_block) in (0..).zip(rates) {
        for (case, (filesystem, rate)) in (0..).zip(["ext4", "xfs", "btrfs"].into_iter().zip(of_block)) {
            let configuration = fixture::configuration(filesystem, "none");
            trials.push(fixture::trial(trials.len() as u32, block, case, configuration, *rate));
        }
    }
    for (block, rate) in (0..).zip(sentinels) {
        let configuration = fixture::configuration("ext4", "none");
        let trial = fixture::trial(trials.len() as u32, block, 0, configuration, *rate);
        trials.push(TrialRecord { sentinel: true, ..trial });
    }
    trials
}

#[test]
fn what_is_worse_than_the_default_is_named_although_the_best_varies_too_much() {
    let rates = [[104.0, 224.0, 18.2], [99.0, 49.0, 18.5], [109.0, 150.0, 18.0]];
    let answer = &recommend(&by_rates(&rates, &[]), None).answers[0];
    let verdicts: Vec<_> = answer.standings.iter().map(|one| (one.name.as_str(), one.verdict)).collect();
    assert_eq!(verdicts[2], ("btrfs none", ContenderVerdict::WorseThanDefault), "{verdicts:?}");
    let Judgement { class, headline, .. } = &answer.judgement;
    assert_eq!(*class, Class::Undecided);
    assert!(headline.contains(" 'btrfs none' is worse than the default."), "{headline}");
    assert!(!headline.contains("'ext4 none' and 'btrfs none'"), "{headline}");
}

#[test]
fn a_difference_that_one_and_the_same_configuration_shows_within_blocks_is_not_shown() {
    let rates = [[107.0, 160.0, 150.0], [67.0, 100.0, 96.0], [87.0, 130.0, 118.0]];
    let shown = recommend(&by_rates(&rates, &rates.map(|block| block[0])), None);
    assert_ne!(shown.answers[0].judgement.class, Class::Undecided, "{:?}", shown.answers[0].judgement);
    let answer = &recommend(&by_rates(&rates, &[170.0, 164.0, 64.0]), None).answers[0];
    assert_eq!(answer.judgement.class, Class::Undecided, "{:?}", answer.judgement);
    let headline = &answer.judgement.headline;
    assert!(headline.contains("(40.2 MB/s and 98.4 MB/s for one and the same in one block)"), "{headline}");
}

#[test]
fn writers_that_are_held_at_one_rate_are_not_called_alike() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.0)]);
    assert_eq!(recommend(&trials, Some("write")).answers[0].judgement.class, Class::NoDifference);
    for trial in &mut trials {
        let Workload::Fileserver(load) = &mut trial.workload else { panic!("another load") };
        load.write_rate = Some(Rate { per_second: 2300.0, arrivals: Arrivals::Poisson });
    }
    let Judgement { class, headline, .. } = &recommend(&trials, Some("write")).answers[0].judgement;
    assert_eq!(*class, Class::Invalid);
    assert!(headline.contains("writers were held at 2300 files a second"), "{headline}");
    assert_ne!(recommend(&trials, None).answers[0].judgement.class, Class::Invalid);
}
