//! The claims about ratios, by simulation: how often their intervals hold, and how often as many trials as
//! are asked for decide. Seeded, so that they cannot fail by chance. `scripts/soak statistics` repeats them
//! more often, in more cells, and prints what it finds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fsdyno_stats::{Ratio, Verdict, independent, paired};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A difference of up to this does not matter.
const THRESHOLD: f64 = 0.05;

/// By how many times the number of repetitions exceeds that of the suite.
fn times() -> usize {
    std::env::var("FSDYNO_SIMULATIONS").map_or(1, |times| times.parse().unwrap())
}

/// The variation between trials. The number is the coefficient of variation, or about that.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    Normal(f64),
    Lognormal(f64),
    /// Lognormal, and one of ten trials loses a third.
    Stalls(f64),
    /// Logarithms with the distribution of Student's t with 3 degrees of freedom.
    Heavy(f64),
    /// Never faster than 1, and skewed.
    Exponential(f64),
}

/// The share of trials with a stall, and what it leaves of their rate.
const STALLS: (f64, f64) = (0.1, 2.0 / 3.0);

impl Noise {
    /// The logarithm of a trial.
    fn draw(self, random: &mut Xoshiro256PlusPlus) -> f64 {
        let normal = |random: &mut _| -> f64 { StandardNormal.sample(random) };
        match self {
            Noise::Normal(cv) => (1.0 + cv * normal(random)).max(1e-3).ln(),
            Noise::Lognormal(cv) => (cv * cv).ln_1p().sqrt() * normal(random),
            Noise::Stalls(cv) => {
                let stalls = Uniform::new(0.0, 1.0).unwrap().sample(random) < STALLS.0;
                cv * normal(random) + if stalls { STALLS.1.ln() } else { 0.0 }
            }
            Noise::Heavy(cv) => cv * StudentT::new(3.0).unwrap().sample(random) / 3_f64.sqrt(),
            Noise::Exponential(cv) => {
                let wait: f64 = Exp1.sample(random);
                (cv * wait).ln_1p()
            }
        }
    }
}

/// The ratio of `n` trials of each side, which are pairs or independent; the true one is `truth`.
fn ratio(random: &mut Xoshiro256PlusPlus, sides: [Noise; 2], n: usize, blocks: bool, truth: f64) -> Ratio {
    let mut side = |noise: Noise, factor: f64| -> Vec<f64> {
        (0..n).map(|_| factor * noise.draw(random).exp()).collect()
    };
    let (first, second) = (side(sides[0], 1.0), side(sides[1], truth));
    match blocks {
        true => paired(&first.into_iter().zip(second).collect::<Vec<_>>()),
        false => independent(&first, &second),
    }
    .unwrap()
}

/// In how many of 100 cases the interval holds the true ratio.
fn held(sides: [Noise; 2], n: usize, blocks: bool, repeats: usize) -> f64 {
    let truth = match sides {
        [a, b] if a == b => 0.0,
        // Of both, the mean of the logarithms is known.
        [Noise::Lognormal(_), Noise::Stalls(_)] => STALLS.0 * STALLS.1.ln(),
        other => panic!("{other:?}"),
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(100 + n as u64);
    let mut holds = || {
        let interval = ratio(&mut random, sides, n, blocks, 1.0).interval.unwrap();
        interval.low.ln() <= truth && truth <= interval.high.ln()
    };
    (0..repeats).filter(|_| holds()).count() as f64 / repeats as f64 * 100.0
}

/// The rows of the table in `docs/guide/answers.md`: within blocks or not, and how the trials of each side
/// vary.
const PAGE: [(bool, [Noise; 2]); 6] = [
    (true, [Noise::Lognormal(0.1); 2]),
    (true, [Noise::Exponential(0.1); 2]),
    (true, [Noise::Stalls(0.05); 2]),
    (false, [Noise::Lognormal(0.1); 2]),
    (true, [Noise::Lognormal(0.05), Noise::Stalls(0.05)]),
    (false, [Noise::Lognormal(0.05), Noise::Stalls(0.05)]),
];

#[test]
fn intervals_of_ratios_hold_what_the_page_says() {
    let page = include_str!("../../../docs/guide/answers.md");
    let mut lines = page.lines().skip_while(|line| !line.starts_with("| trials of each |"));
    let cells =
        |line: &str| -> Vec<f64> { line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect() };
    let numbers = cells(lines.next().unwrap());
    assert!(numbers.len() >= 6, "{numbers:?}");
    let mut wrong = Vec::new();
    for ((blocks, sides), line) in PAGE.into_iter().zip(lines.skip(1)) {
        let stated = cells(line);
        assert_eq!(stated.len(), numbers.len(), "{line}");
        let found = numbers.iter().map(|n| held(sides, *n as usize, blocks, 12_000 * times()));
        let found: Vec<f64> = found.collect();
        println!("{line}\n  {found:.1?}");
        if stated.iter().zip(&found).any(|(stated, found)| (stated - found).abs() > 0.7) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn intervals_hold_at_least_95_percent_where_both_sides_are_alike() {
    let numbers = if times() > 1 { &[2, 3, 4, 5, 6, 8, 10, 14, 20][..] } else { &[3, 6, 20] };
    let kinds: [fn(f64) -> Noise; 5] =
        [Noise::Normal, Noise::Lognormal, Noise::Stalls, Noise::Heavy, Noise::Exponential];
    let variations = [0.02, 0.05, 0.1, 0.2, 0.4];
    for noise in kinds.iter().flat_map(|kind| variations.map(kind)) {
        for blocks in [true, false] {
            let of = |n: &usize| held([noise; 2], *n, blocks, 12_000 * times());
            let found: Vec<f64> = numbers.iter().map(of).collect();
            println!("{noise:?}, {}: {found:.1?}", place(blocks));
            let exact = blocks && matches!(noise, Noise::Lognormal(_));
            let most = if exact { 95.7 } else { 100.0 };
            assert!(found.iter().all(|held| (94.3..=most).contains(held)), "{noise:?}, {blocks}: {found:?}");
        }
    }
}

fn place(blocks: bool) -> &'static str {
    if blocks { "within blocks" } else { "independent" }
}

/// A ratio as two trials of each side would give it, with this spread of the trials of each.
fn known(truth: f64, spread: f64, blocks: bool) -> Ratio {
    let trials = [-1.0, 1.0].map(|way: f64| way * spread / 2_f64.sqrt());
    match blocks {
        // The spread of a ratio is that of both of its sides.
        true => paired(&trials.map(|way| (1.0, truth * (way * 2_f64.sqrt()).exp()))),
        false => independent(&trials.map(f64::exp), &trials.map(|way| truth * way.exp())),
    }
    .unwrap()
}

fn needed(ratio: &Ratio, comparisons: usize) -> Option<usize> {
    match ratio.verdict_among(THRESHOLD, Some(1.0), comparisons) {
        Verdict::CannotTell(needed) => needed,
        decided => panic!("{decided:?}"),
    }
}

/// In how many of 100 cases so many trials decide.
fn decided(truth: f64, spread: f64, blocks: bool, comparisons: usize, n: usize, repeats: usize) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(n as u64);
    // The standard deviation of the logarithms is the spread.
    let noise = Noise::Lognormal((spread * spread).exp_m1().sqrt());
    let mut decides = || {
        let ratio = ratio(&mut random, [noise; 2], n, blocks, truth);
        let p = ratio.p.map(|p| (p * comparisons as f64).min(1.0));
        !matches!(ratio.verdict(THRESHOLD, p), Verdict::CannotTell(_))
    };
    (0..repeats).filter(|_| decides()).count() as f64 / repeats as f64 * 100.0
}

/// With one trial fewer, it is less than that. Where few are enough, one more may decide much more.
#[test]
fn as_many_trials_as_are_asked_for_decide_in_4_of_5_cases() {
    let ratios = [1.0, 1.01, 1.02, 1.03, 1.04, 1.052, 1.06, 1.07, 1.08, 1.1, 1.15, 1.2, 1.3];
    let (mut cells, mut unbounded) = (0, 0);
    let spreads = [0.02, 0.05, 0.1, 0.2];
    for (truth, spread) in ratios.iter().flat_map(|truth| spreads.map(|spread| (*truth, spread))) {
        for (blocks, comparisons) in [(true, 1), (false, 1), (true, 15)] {
            let cell = format!("ratio {truth}, spread {spread}, {}, {comparisons}", place(blocks));
            let Some(needed) = needed(&known(truth, spread, blocks), comparisons) else {
                println!("{cell}: more than a thousand trials");
                unbounded += 1;
                continue;
            };
            if needed > 200 && times() == 1 {
                continue;
            }
            let share = |n| decided(truth, spread, blocks, comparisons, n, 2000 * times());
            let (found, fewer) = (share(needed), if needed > 3 { share(needed - 1) } else { 0.0 });
            println!("{cell}: {needed} trials decide {found:.1} of 100, one fewer {fewer:.1}");
            assert!(found >= 77.0 && fewer <= 83.0, "{cell}: {needed}, {found} {fewer}");
            assert!(found <= 83.0 || needed <= 20, "{cell}: {needed}, {found}");
            cells += 1;
        }
    }
    assert!(cells > 90 && unbounded > 0, "{cells} {unbounded}");
}

/// In practice, ratio and spread are estimates: `docs/guide/answers.md` says what that adds.
#[test]
fn a_number_estimated_from_6_trials_is_rough() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for (truth, spread) in [(1.0, 0.05), (1.1, 0.1), (1.2, 0.2)] {
        let right = needed(&known(truth, spread, true), 1).unwrap();
        let mut found: Vec<usize> = Vec::new();
        while found.len() < 300 * times() {
            let first = ratio(&mut random, [Noise::Lognormal(spread); 2], 6, true, truth);
            if let Verdict::CannotTell(needed) = first.verdict(THRESHOLD, first.p) {
                found.push(needed.unwrap_or(1001));
            }
        }
        found.sort_unstable();
        let [low, middle, high] = [10, 50, 90].map(|share| found[found.len() * share / 100]);
        println!(
            "ratio {truth}, spread {spread}: {right} trials; 6 undecided ones say {low}, {middle}, {high}"
        );
        assert!(low < right && right < high, "{low} {right} {high}");
    }
}
