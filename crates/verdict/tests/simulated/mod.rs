//! Simulated sweeps of 72 and of 960 configurations, and races on them.

#![allow(dead_code, reason = "the test and the bench that share it use different parts")]

use fsdyno_verdict::race::procedure::{Cells, NextStep, Race, RacedTrial, RunningRace, Schedule};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The smallest difference that matters: 5 %.
const THRESHOLD: f64 = 0.0513;
/// The number of levels of each axis.
const AXES: &[usize] = &[3, 2, 3, 2, 2];
pub const CELLS: usize = 72;
/// The same for a large sweep.
const MANY_AXES: &[usize] = &[5, 4, 4, 3, 2, 2];
pub const MANY_CELLS: usize = 960;
/// Standard deviation of the effect of a block.
const BLOCKS: f64 = 0.05;

/// The kind of world that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Effects of levels, interactions of pairs and deviations; 8 configurations within 5 % of the best;
    /// noise of 5 to 20 %.
    Factors,
    /// No configuration differs from another.
    Equal,
    /// As `Factors`, with one trial in 20 slower by half.
    Outliers,
    /// As `Factors`, with noise of 3 to 8 %.
    Quiet,
    /// As `Factors`, with differences so small that noise hides them.
    Small,
    /// 960 configurations, 8 of them within 5 % of the best, and noise of 10 %.
    Many,
}

impl Kind {
    fn axes(self) -> &'static [usize] {
        if self == Kind::Many { MANY_AXES } else { AXES }
    }

    fn cells(self) -> usize {
        self.axes().iter().product()
    }
}

/// A world in which configurations have true values.
struct World {
    kind: Kind,
    truth: Vec<f64>,
    noise: f64,
    outliers: f64,
    random: Xoshiro256PlusPlus,
    blocks: Vec<f64>,
}

impl World {
    fn new(kind: Kind, seed: u64) -> World {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let truth = match kind {
            Kind::Equal => vec![0.0; kind.cells()],
            Kind::Factors | Kind::Quiet | Kind::Outliers | Kind::Many => truth(kind.axes(), &mut random),
            Kind::Small => truth(kind.axes(), &mut random).iter().map(|value| value * 0.2).collect(),
        };
        let noise = match kind {
            Kind::Quiet => random.random_range(0.03..0.08),
            Kind::Many => 0.1,
            _ => random.random_range(0.05..0.2),
        };
        let outliers = if kind == Kind::Outliers { 0.05 } else { 0.0 };
        World { kind, truth, noise, outliers, random, blocks: Vec::new() }
    }

    fn measure(&mut self, cell: usize, block: u32) -> f64 {
        while self.blocks.len() <= block as usize {
            self.blocks.push(normal(&mut self.random, BLOCKS));
        }
        let outlier = if self.random.random::<f64>() < self.outliers { -0.7 } else { 0.0 };
        self.truth[cell] + self.blocks[block as usize] + normal(&mut self.random, self.noise) + outlier
    }

    /// Returns the difference between the best configuration and this one.
    fn regret(&self, cell: usize) -> f64 {
        self.truth.iter().copied().fold(f64::NEG_INFINITY, f64::max) - self.truth[cell]
    }
}

fn normal(random: &mut Xoshiro256PlusPlus, deviation: f64) -> f64 {
    Normal::new(0.0, deviation).expect("a deviation").sample(random)
}

fn levels(axes: &[usize]) -> Vec<Vec<usize>> {
    let of = |mut cell: usize| {
        let next = |levels: &usize| {
            let level = cell % levels;
            cell /= levels;
            level
        };
        axes.iter().map(next).collect()
    };
    (0..axes.iter().product()).map(of).collect()
}

/// Logarithms of true values, scaled so that 8 are within 5 % of the best.
fn truth(axes: &[usize], random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let levels = levels(axes);
    let mut truth = vec![0.0; levels.len()];
    // One effect for each level or pair of levels, by `key`: of two axes, the later one has at most 4 levels.
    let most_keys = 4 * axes.iter().copied().fold(4, usize::max);
    let mut add = |key: &dyn Fn(&[usize]) -> usize, deviation: f64| {
        let effects: Vec<f64> = (0..most_keys).map(|_| normal(random, deviation)).collect();
        truth.iter_mut().zip(&levels).for_each(|(value, cell)| *value += effects[key(cell)]);
    };
    for axis in 0..axes.len() {
        add(&|cell| cell[axis], 1.0);
        for other in axis + 1..axes.len() {
            add(&|cell| cell[axis] * 4 + cell[other], 0.3);
        }
    }
    truth.iter_mut().for_each(|value| *value += normal(random, 0.2));
    let mut sorted = truth.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let scale = THRESHOLD / (sorted[0] - (sorted[7] + sorted[8]) / 2.0);
    truth.iter().map(|value| value * scale).collect()
}

/// One race.
struct Raced {
    trials: usize,
    /// `true` if the pick is within 5 % of the best.
    pub good: bool,
    /// The difference between the best configuration and the pick.
    pub regret: f64,
    pub bound: f64,
    /// `true` if the bound that was reported after the first block held for the pick at that time.
    pub held_early: bool,
    /// `true` if the default is the pick.
    pub kept: bool,
    pub default_bound: f64,
    pub doubted: bool,
}

impl World {
    /// A race in this world.
    fn race(mut self, seed: u64, budget: Option<u32>) -> Raced {
        let race = Race {
            cells: Cells::new(&levels(self.kind.axes())),
            default: self.random.random_range(0..self.kind.cells()),
            schedule: Schedule::new(self.kind.cells(), budget, None, false).expect("a schedule"),
            budget: None,
            threshold: THRESHOLD,
            seed,
        };
        let mut outcomes: Vec<RacedTrial> = Vec::new();
        let mut running = RunningRace::new(&race);
        let mut held_early = false;
        let left = loop {
            let progress = running.after(&outcomes);
            let NextStep::Block { number, cells, .. } = progress.step else { break progress.left };
            if number == 1 {
                let early = race.answer(&outcomes, &progress.left).expect("an answer");
                held_early = self.regret(early.pick) <= early.bound;
            }
            for cell in cells {
                let value = Some(self.measure(cell, number));
                outcomes.push(RacedTrial {
                    block: number,
                    shared: number,
                    cell,
                    value,
                    others: Vec::new(),
                    cost: 1,
                });
            }
        };
        let answer = race.answer(&outcomes, &left).expect("an answer");
        Raced {
            trials: outcomes.len(),
            good: self.regret(answer.pick) <= THRESHOLD,
            regret: self.regret(answer.pick),
            bound: answer.bound,
            held_early,
            kept: answer.pick == race.default,
            default_bound: answer.default_bound,
            doubted: answer.doubts.any(),
        }
    }
}

/// Returns the number of replays in which measuring every configuration so many times finds one within 5 % of
/// the best.
pub fn exhaustive(kind: Kind, replays: usize, times: u32) -> usize {
    let is_good = |seed: &usize| {
        let mut world = World::new(kind, *seed as u64);
        let mean =
            |cell: usize, world: &mut World| (0..times).map(|block| world.measure(cell, block)).sum::<f64>();
        let sums: Vec<f64> = (0..kind.cells()).map(|cell| mean(cell, &mut world)).collect();
        let pick = (0..kind.cells()).max_by(|a, b| sums[*a].total_cmp(&sums[*b])).expect("cells");
        world.regret(pick) <= THRESHOLD
    };
    (0..replays).filter(is_good).count()
}

/// Many races.
#[derive(Debug)]
pub struct Summary {
    /// The mean.
    pub trials: usize,
    pub good: usize,
    pub held: usize,
    /// The number of races in which the bound that was reported after the first block held.
    pub held_early: usize,
    /// The number of races in which a bound half as wide would have held.
    pub half_held: usize,
    pub kept: usize,
    /// Those in which no configuration is said to be materially better than the default.
    pub none_better: usize,
    pub doubted: usize,
    /// The median.
    pub bound: f64,
}

pub fn summary(kind: Kind, replays: usize, budget: Option<u32>) -> Summary {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let races: Vec<Raced> = std::thread::scope(|scope| {
        let run = |thread: usize| {
            move || {
                let seeds = (0..replays).filter(move |seed| seed % threads == thread);
                seeds
                    .map(|seed| World::new(kind, seed as u64).race(seed as u64, budget))
                    .collect::<Vec<Raced>>()
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let count = |is: &dyn Fn(&Raced) -> bool| races.iter().filter(|raced| is(raced)).count();
    let mut bounds: Vec<f64> = races.iter().map(|raced| raced.bound).collect();
    bounds.sort_by(f64::total_cmp);
    Summary {
        trials: races.iter().map(|raced| raced.trials).sum::<usize>() / replays,
        good: count(&|raced| raced.good),
        held: count(&|raced| raced.regret <= raced.bound),
        held_early: count(&|raced| raced.held_early),
        half_held: count(&|raced| raced.regret <= raced.bound / 2.0),
        kept: count(&|raced| raced.kept),
        none_better: count(&|raced| raced.default_bound <= THRESHOLD),
        doubted: count(&|raced| raced.doubted),
        bound: bounds[bounds.len() / 2],
    }
}
