//! Simulated sweeps of known truth: how often the judgement is wrong, and how often it finds what is there.
//!
//! Each truth is drawn from a seed, with noise as storage has it (lognormal, a coefficient of variation of 2
//! to 40 %), blocks that differ, and a machine that drifts. A trial has what judgements use, and nothing
//! else.

use super::*;
use crate::judgement::Class;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// Rates of a configuration, relative to the others.
#[derive(Clone, Copy)]
struct True {
    read: f64,
    write: f64,
}

struct Truth {
    configurations: Vec<True>,
    /// Coefficient of variation.
    noise: f64,
    blocks: u32,
    /// By what factor the machine becomes faster until the end.
    drift: f64,
    /// The share of trials that read from memory, three times as fast.
    from_memory: f64,
}

impl Truth {
    fn equal(configurations: usize, noise: f64) -> Truth {
        let all = vec![True { read: 1.0, write: 1.0 }; configurations];
        Truth { configurations: all, noise, blocks: 6, drift: 1.0, from_memory: 0.0 }
    }

    /// The trials of a sweep.
    fn sweep(&self, seed: u64) -> Vec<TrialRecord> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let noise = LogNormal::new(0.0, self.noise).unwrap();
        let of_blocks = LogNormal::new(0.0, 0.1).unwrap();
        let plain = plain_trial();
        let mut trials = Vec::new();
        for block in 0..self.blocks {
            let machine = of_blocks.sample(&mut random)
                * self.drift.powf(f64::from(block) / f64::from(self.blocks.max(2) - 1));
            for (case, one) in (0..).zip(&self.configurations) {
                let mut trial = plain.clone();
                let is_cached = random.random_bool(self.from_memory);
                if is_cached {
                    trial.warnings.push(Warning::new(WarningKind::PageCache, "read from memory"));
                }
                let cached = if is_cached { 3.0 } else { 1.0 };
                let mut rate = |factor: f64| 1e8 * factor * machine * noise.sample(&mut random);
                let rates = [rate(one.write), rate(one.read * cached)];
                (trial.trial, trial.block, trial.case) = (trials.len() as u32, block, case);
                trial.configuration.name = format!("c{case}");
                trial.configuration.settings.insert("readahead".to_string(), format!("{}k", case + 1));
                for (role, rate) in trial.phases[0].roles.iter_mut().zip(rates) {
                    role.rates.aggregate_bytes_per_s = rate;
                    role.rates.bytes = (rate * 30.0) as u64;
                }
                trials.push(trial);
            }
        }
        trials
    }

    fn judge(&self, seed: u64) -> Answer {
        judge(&self.sweep(seed))
    }

    fn best(&self) -> f64 {
        self.configurations.iter().map(|one| one.read).fold(0.0, f64::max)
    }

    /// Returns whether a winner is worse than the best by more than the threshold.
    fn is_wrong(&self, answer: &Answer) -> bool {
        let winner = answer.winner().map(|winner| self.configurations[winner.case as usize]);
        winner.is_some_and(|winner| winner.read * 1.05 < self.best())
    }
}

fn judge(trials: &[TrialRecord]) -> Answer {
    recommend(trials, None).answers.remove(0)
}

/// A trial with the phase in which readers and writers compete, and its rates alone.
fn plain_trial() -> TrialRecord {
    let mut trial = fixture::trial(0, 0, 0, fixture::configuration("ext4", "none"), 100.0);
    trial.warnings.clear();
    trial.configuration.settings.clear();
    trial.phases.drain(..2);
    trial.phases[0].roles.iter_mut().for_each(|role| role.operations.clear());
    trial
}

/// Truths of all kinds: 2 to 72 configurations that differ by nothing, or by a few percent up to threefold.
fn any_truth(seed: u64) -> Truth {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed);
    let configurations = match random.random_range(0..20) {
        0 => random.random_range(24..=72),
        1..=4 => random.random_range(7..24),
        _ => random.random_range(2..7),
    };
    let spread = [0.0, 0.02, 0.05, 0.15, 0.4][random.random_range(0..5_usize)];
    let differ = LogNormal::new(0.0, spread).unwrap();
    let mut factor = || if spread > 0.0 { differ.sample(&mut random) } else { 1.0 };
    let all = (0..configurations).map(|_| True { read: factor(), write: factor() }).collect();
    Truth {
        configurations: all,
        noise: 0.02 * 20_f64.powf(random.random_range(0.0..1.0)),
        blocks: [2, 3, 6, 6, 6, 10][random.random_range(0..6_usize)],
        drift: [1.0, 1.0, 1.5, 0.6][random.random_range(0..4_usize)],
        from_memory: [0.0, 0.0, 0.0, 0.05, 0.9][random.random_range(0..5_usize)],
    }
}

/// Returns whether a judgement is in the class that the comparisons below it have by definition.
fn is_of_its_class(answer: &Answer, trials: &[TrialRecord]) -> bool {
    let best =
        answer.standings.iter().find(|one| one.verdict == ContenderVerdict::Best).map(|best| best.case);
    let are_mostly_from_memory = |among: &dyn Fn(&TrialRecord) -> bool| {
        let own: Vec<&TrialRecord> = trials.iter().filter(|trial| among(trial)).collect();
        2 * own.iter().filter(|trial| !trial.warnings.is_empty()).count() > own.len()
    };
    let from_memory =
        are_mostly_from_memory(&|_| true) || are_mostly_from_memory(&|trial| Some(trial.case) == best);
    let durable = |one: &&Contender| one.is_durable();
    let all = || answer.standings.iter().filter(durable);
    let open = all().filter(|one| matches!(one.verdict, ContenderVerdict::CannotTell { .. })).count();
    let doubted = all().filter(|one| one.doubt.is_some()).count();
    let as_good = all().filter(|one| one.verdict == ContenderVerdict::AsGood).count();
    let default_is_left = answer
        .default()
        .is_some_and(|one| matches!(one.verdict, ContenderVerdict::Best | ContenderVerdict::AsGood));
    match answer.judgement.class {
        Class::Invalid => from_memory || (open > 0 && doubted == open),
        _ if from_memory => false,
        Class::Undecided => open > doubted,
        Class::NoDifference if open > 0 => doubted == 0 && most_to_gain(answer) <= 1.05,
        Class::NoDifference => as_good > 0 && default_is_left,
        Class::Winner | Class::TradeOff => open == 0 && !(as_good > 0 && default_is_left),
    }
}

/// Returns how many times as good as the default the others may be, as far as the table says: each is
/// compared with the best.
fn most_to_gain(answer: &Answer) -> f64 {
    let upper =
        |one: &Contender| one.to_best.and_then(|ratio| ratio.interval).map_or(f64::NAN, |ends| ends[1]);
    let default = answer.default().unwrap();
    match default.to_best.and_then(|ratio| ratio.interval) {
        Some([low, _]) => 1.0 / low,
        None => answer.standings.iter().filter(|one| one.case != default.case).map(upper).fold(0.0, f64::max),
    }
}

#[test]
fn use_is_said_of_what_is_materially_worse_in_at_most_5_percent_of_sweeps() {
    const SWEEPS: u64 = 2000;
    let (mut wrong, mut winners, mut classes) = (0, 0, BTreeMap::new());
    let (mut settled, mut missed) = (0, 0);
    for seed in 0..SWEEPS {
        let truth = any_truth(seed);
        let trials = truth.sweep(seed);
        let answer = judge(&trials);
        winners += u32::from(answer.judgement.class == Class::Winner);
        wrong += u32::from(truth.is_wrong(&answer));
        let kept = answer.default().filter(|_| answer.judgement.class == Class::NoDifference);
        let kept = kept.map(|default| truth.configurations[default.case as usize].read);
        settled += u32::from(kept.is_some());
        missed += u32::from(kept.is_some_and(|read| read * 1.05 < truth.best()));
        *classes.entry(format!("{:?}", answer.judgement.class)).or_insert(0) += 1;
        let Answer { judgement, winner, .. } = &answer;
        assert!(is_of_its_class(&answer, &trials), "{seed}: {judgement:?}");
        assert_eq!(winner.is_some(), judgement.class == Class::Winner, "{judgement:?}");
        assert_eq!(judgement.headline.contains("Use '"), winner.is_some(), "{judgement:?}");
    }
    assert_eq!(classes.len(), 5, "{classes:?}");
    println!("{wrong} wrong of {winners} winners in {SWEEPS} sweeps: {classes:?}");
    println!("{missed} of {settled} sweeps keep a default that another is materially better than");
    assert!(f64::from(missed) <= 0.05 * f64::from(settled), "{missed} of {settled}");
    assert!(f64::from(wrong) <= 0.05 * SWEEPS as f64, "{wrong} of {SWEEPS}");
    // Of those who follow the headline, at most one in twenty is misled.
    assert!(f64::from(wrong) <= 0.05 * f64::from(winners), "{wrong} of {winners} winners");
    assert!(winners > 100, "{winners}: a judge who decides nothing is never wrong");
}

#[test]
fn of_equal_configurations_one_wins_in_at_most_5_percent_of_sweeps() {
    for configurations in [2, 3, 6, 20] {
        let truth = Truth::equal(configurations, 0.1);
        let won = (0..300).filter(|seed| truth.judge(*seed).winner.is_some()).count();
        assert!(won <= 15, "{won} of 300 with {configurations}");
    }
}

#[test]
fn what_is_15_percent_better_usually_wins() {
    for (configurations, least) in [(2, 270), (3, 270), (6, 270), (12, 260)] {
        let mut truth = Truth::equal(configurations, 0.05);
        truth.configurations[1].read = 1.15;
        let won =
            (0..300).filter(|seed| truth.judge(*seed).winner().is_some_and(|one| one.case == 1)).count();
        println!("{configurations}: {won} of 300");
        assert!(won >= least, "{won} of 300 with {configurations}");
    }
}

#[test]
fn equal_configurations_without_much_noise_differ_by_nothing() {
    let truth = Truth { blocks: 10, ..Truth::equal(4, 0.01) };
    let found = (0..100).filter(|seed| truth.judge(*seed).judgement.class == Class::NoDifference).count();
    assert!(found >= 90, "{found} of 100");
}

#[test]
fn what_reads_faster_and_writes_at_a_quarter_does_not_win() {
    let mut truth = Truth::equal(3, 0.05);
    truth.configurations[2] = True { read: 1.6, write: 0.25 };
    for seed in 0..100 {
        let answer = truth.judge(seed);
        assert_eq!(
            (answer.judgement.class, answer.winner()),
            (Class::TradeOff, None),
            "{:?}",
            answer.judgement
        );
        let headline = &answer.judgement.headline;
        assert!(
            headline.starts_with("No winner: 'c2'") && headline.contains("Which matters more? If you"),
            "{headline}"
        );
        assert!(headline.contains("(writes while others read) instead of"), "{headline}");
    }
}

#[test]
fn what_was_read_from_memory_answers_nothing() {
    let mut truth = Truth::equal(3, 0.02);
    truth.configurations[1].read = 2.0;
    let mut trials = truth.sweep(1);
    for trial in trials.iter_mut().skip(2) {
        trial.configuration.settings.insert("memory".to_string(), "64M".to_string());
        trial.warnings.push(Warning::new(WarningKind::PageCache, "90 % of what was read came from memory"));
    }
    trials[0].configuration.settings.insert("memory".to_string(), "64M".to_string());
    trials[1].configuration.settings.insert("memory".to_string(), "64M".to_string());
    let answer = judge(&trials);
    assert_eq!((answer.judgement.class, answer.winner()), (Class::Invalid, None));
    assert_eq!(
        answer.judgement.headline,
        "This sweep cannot answer: 16 of 18 trials read from memory instead of the device. Keep \
         the baseline, 'c0'."
    );
    let next = answer.judgement.next.unwrap();
    assert_eq!(
        next,
        "The load may use 64M of memory (`memory`): set tree_size to at least 512M, or lower `memory`."
    );
}
