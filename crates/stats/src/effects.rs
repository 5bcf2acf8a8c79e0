//! What each setting does by itself: the effect of every level of every factor on the logarithm of a measure.
//!
//! The trials of a sweep are the observations of an additive model: the logarithm of the measure is a mean, plus what the
//! block does, plus what the level of each factor does, plus what two factors do together. On the logarithm effects are
//! ratios, so that "bfq costs 12 %" means the same on a fast and on a slow filesystem.
//!
//! **The effect of a level** is its ratio to the geometric mean of all levels of its factor, each counted once however
//! many trials it has, and averaged over the levels of the other factors likewise (the estimated marginal means of S. R.
//! Searle, F. M. Speed and G. A. Milliken, "Population marginal means in the linear model", The American Statistician
//! 34(4), 1980). No level has to be the base for that. [`Effects::contrast`] gives the ratio of any two levels.
//!
//! **Nested factors** exist within one level of another (the size of the log within xfs) and have their effects there.
//!
//! **Interactions** of two factors are in the model where the trials can tell them from everything else: all combinations
//! were measured in two blocks at least, and no other term is the same thing. Where they cannot, nothing is said of them.
//! Those of three factors and more are left to the residual, which makes intervals wider, never narrower.
//!
//! **Shares of the variance** are sums of squares of type II over the total: what a term explains beyond all terms that do
//! not contain it (O. Langsrud, "ANOVA for unbalanced data: use type II instead of type III sums of squares", Statistics
//! and Computing 13, 2003). They add up to 1 in a balanced design; in others what two terms explain alike belongs to none.
//!
//! Intervals and p values are those of Student's t with the residual's degrees of freedom. What a design cannot tell apart
//! is absent, not guessed: levels that were only ever varied together have no effects.
//!
//! The arithmetic is the sweep operator, by which one matrix gives solution, residual and what is aliased with what (J. H.
//! Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33(3), 1979).

use crate::compare::Ratio;
use crate::estimate::Interval;
use crate::student::{p_value, quantile};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Columns of the model beyond which interactions are left out: a sum of squares costs their number to the third power.
const COLUMNS_MAX: usize = 250;
/// A column of which less than this share is left beside the others is the same as some of them.
const TOLERANCE: f64 = 1e-9;

/// Something that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    /// How many levels it has.
    pub levels: usize,
    /// The factor and its level within which it exists; everywhere when absent.
    pub within: Option<(usize, usize)>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Its block.
    pub block: u32,
    /// The level of each factor; `None` where the factor does not exist.
    pub levels: Vec<Option<usize>>,
    /// The measure.
    pub value: f64,
}

/// What every factor does.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Of each factor, in their order.
    pub factors: Vec<FactorEffects>,
    /// Of each pair of factors that exist together.
    pub interactions: Vec<Interaction>,
    /// Share of the variance between blocks, 0 to 1.
    pub block_share: f64,
    /// Share of the variance that nothing explains.
    pub residual_share: f64,
    /// Degrees of freedom of the residual; without any there are no intervals.
    pub freedom: usize,
    fit: Fit,
    terms: Vec<Term>,
}

/// What one factor does.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorEffects {
    /// Each level to the mean of all; `None` where the trials cannot tell it from something else.
    pub levels: Vec<Option<Ratio>>,
    /// Share of the variance, 0 to 1.
    pub share: f64,
}

/// What two factors do together.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// Which two.
    pub factors: (usize, usize),
    /// Share of the variance, and each combination of levels to what the two levels by themselves would make it; absent
    /// where the trials cannot tell.
    pub found: Option<(f64, Vec<Vec<Ratio>>)>,
}

/// The effects of these factors. `None` without trials, and where a value has no logarithm.
pub fn effects(factors: &[Factor], observations: &[Observation]) -> Option<Effects> {
    let logarithms: Vec<f64> = observations.iter().map(|trial| trial.value.ln()).collect();
    if observations.is_empty() || !logarithms.iter().all(|value| value.is_finite()) {
        return None;
    }
    let design = Design::new(factors, observations, &logarithms);
    let fit = design.fit(&design.terms);
    let freedom = observations.len() - fit.rank;
    let total = design.total();
    let mut effects = Effects {
        factors: Vec::new(),
        interactions: Vec::new(),
        block_share: design.share(&Kind::Block, total),
        residual_share: if total > 0.0 { fit.residual / total } else { 0.0 },
        freedom,
        terms: design.terms.clone(),
        fit,
    };
    for (index, factor) in factors.iter().enumerate() {
        let ratio = |level| effects.ratio(&[(&Kind::Main(index), effects.coding(index, level))]);
        effects.factors.push(FactorEffects {
            levels: (0..factor.levels).map(ratio).collect(),
            share: design.share(&Kind::Main(index), total),
        });
    }
    for (a, b) in design.pairs() {
        let kind = Kind::Pair(a, b);
        let cell = |i: usize, j: usize| effects.ratio(&[(&kind, effects.coding_of_pair((a, i), (b, j)))]);
        let row = |i: usize| (0..factors[b].levels).map(|j| cell(i, j)).collect::<Option<Vec<_>>>();
        let cells = (0..factors[a].levels).map(row).collect::<Option<Vec<_>>>();
        let found = cells.filter(|_| effects.term(&kind).is_some());
        let found = found.map(|cells| (design.share(&kind, total), cells));
        effects.interactions.push(Interaction { factors: (a, b), found });
    }
    Some(effects)
}

impl Effects {
    /// The ratio of level `to` of a factor to level `from`; `None` where the trials cannot tell it from something else.
    pub fn contrast(&self, factor: usize, from: usize, to: usize) -> Option<Ratio> {
        let (from, to) = (self.coding(factor, from), self.coding(factor, to));
        let difference = to.iter().zip(&from).map(|(to, from)| to - from).collect();
        self.ratio(&[(&Kind::Main(factor), difference)])
    }

    fn term(&self, kind: &Kind) -> Option<&Term> {
        self.terms.iter().find(|term| term.kind == *kind)
    }

    fn coding(&self, factor: usize, level: usize) -> Vec<f64> {
        let columns = self.term(&Kind::Main(factor)).map_or(0, |term| term.columns.len());
        coded(level, columns + 1)
    }

    fn coding_of_pair(&self, a: (usize, usize), b: (usize, usize)) -> Vec<f64> {
        product(&self.coding(a.0, a.1), &self.coding(b.0, b.1))
    }

    /// The exponential of a combination of parameters, given by term.
    fn ratio(&self, combination: &[(&Kind, Vec<f64>)]) -> Option<Ratio> {
        let mut weights = vec![0.0; self.fit.columns];
        for (kind, values) in combination {
            let columns = self.term(kind)?.columns.clone();
            weights[columns].copy_from_slice(values);
        }
        let (value, factor) = self.fit.combine(&weights)?;
        let ratio = |interval, p| {
            // As if each block gave one ratio: what has to be known to tell how many more would decide.
            let n = self.fit.blocks;
            let error = (factor * self.variance()).sqrt();
            let spread = error * (n as f64).sqrt();
            let freedom = self.freedom as f64;
            Ratio { value: value.exp(), interval, p, n, paired: true, spread, error, freedom }
        };
        if self.freedom == 0 {
            return Some(ratio(None, None));
        }
        let variance = factor * self.variance();
        let reach = quantile(0.975, self.freedom as f64) * variance.sqrt();
        let interval = Interval { low: (value - reach).exp(), high: (value + reach).exp() };
        Some(ratio(Some(interval), Some(p_value(value, variance, self.freedom as f64))))
    }

    fn variance(&self) -> f64 {
        self.fit.residual / self.freedom.max(1) as f64
    }
}

/// A part of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Mean,
    Block,
    Main(usize),
    Pair(usize, usize),
}

/// A part of the model with its columns.
#[derive(Debug, Clone, PartialEq)]
struct Term {
    kind: Kind,
    columns: Range<usize>,
    /// Every factor that takes part, those within which it exists among them.
    factors: BTreeSet<usize>,
}

/// The model and the products of its columns, the values last.
struct Design<'a> {
    factors: &'a [Factor],
    observations: &'a [Observation],
    terms: Vec<Term>,
    products: Matrix,
    blocks: usize,
}

impl<'a> Design<'a> {
    /// All terms that the trials can tell apart.
    fn new(factors: &'a [Factor], observations: &'a [Observation], logarithms: &[f64]) -> Self {
        let blocks: BTreeSet<u32> = observations.iter().map(|trial| trial.block).collect();
        let blocks: BTreeMap<u32, usize> = blocks.into_iter().zip(0..).collect();
        let kinds = [Kind::Mean, Kind::Block].into_iter().chain((0..factors.len()).map(Kind::Main));
        let mut design = Design {
            factors,
            observations,
            terms: Vec::new(),
            products: Matrix::zero(0),
            blocks: blocks.len(),
        };
        design.set_terms(kinds.collect(), &blocks, logarithms);
        let complete = design.complete_pairs();
        let columns = |(a, b): &(usize, usize)| (factors[*a].levels - 1) * (factors[*b].levels - 1);
        let wanted = design.products.size + complete.iter().map(columns).sum::<usize>();
        if blocks.len() > 1 && wanted <= COLUMNS_MAX && !complete.is_empty() {
            let mains: Vec<Kind> = design.terms.iter().map(|term| term.kind.clone()).collect();
            let all = complete.iter().map(|(a, b)| Kind::Pair(*a, *b));
            design.set_terms(mains.iter().cloned().chain(all).collect(), &blocks, logarithms);
            let separable = design.separable_pairs();
            design.set_terms(mains.into_iter().chain(separable).collect(), &blocks, logarithms);
        }
        design
    }

    fn set_terms(&mut self, kinds: Vec<Kind>, blocks: &BTreeMap<u32, usize>, logarithms: &[f64]) {
        let mut end = 0;
        self.terms.clear();
        for kind in kinds {
            let (columns, factors) = match &kind {
                Kind::Mean => (1, BTreeSet::new()),
                Kind::Block => (self.blocks - 1, BTreeSet::new()),
                Kind::Main(a) => (self.factors[*a].levels.saturating_sub(1), self.closure(&[*a])),
                Kind::Pair(a, b) => {
                    ((self.factors[*a].levels - 1) * (self.factors[*b].levels - 1), self.closure(&[*a, *b]))
                }
            };
            self.terms.push(Term { kind, columns: end..end + columns, factors });
            end += columns;
        }
        // Logarithms around their mean: sums of squares then lose no digits to it.
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        self.products = Matrix::zero(end + 1);
        for (trial, value) in self.observations.iter().zip(logarithms) {
            let mut row: Vec<f64> =
                self.terms.iter().flat_map(|term| self.coded_term(&term.kind, trial, blocks)).collect();
            row.push(value - mean);
            self.products.add(&row);
        }
    }

    /// The factors with all those within which they exist.
    fn closure(&self, factors: &[usize]) -> BTreeSet<usize> {
        let parents = factors.iter().filter_map(|factor| self.factors[*factor].within);
        parents.map(|(parent, _)| parent).chain(factors.iter().copied()).collect()
    }

    fn coded_term(&self, kind: &Kind, trial: &Observation, blocks: &BTreeMap<u32, usize>) -> Vec<f64> {
        let main = |factor: usize| match trial.levels[factor] {
            Some(level) => coded(level, self.factors[factor].levels),
            None => vec![0.0; self.factors[factor].levels.saturating_sub(1)],
        };
        match kind {
            Kind::Mean => vec![1.0],
            Kind::Block => coded(blocks[&trial.block], blocks.len()),
            Kind::Main(factor) => main(*factor),
            Kind::Pair(a, b) => product(&main(*a), &main(*b)),
        }
    }

    /// The pairs of factors that exist together.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let parent = |factor: usize| self.factors[factor].within.map(|(parent, _)| parent);
        let together = |a: usize, b: usize| {
            parent(a) != Some(b)
                && parent(b) != Some(a)
                && self
                    .observations
                    .iter()
                    .any(|trial| trial.levels[a].is_some() && trial.levels[b].is_some())
        };
        let all = (0..self.factors.len()).flat_map(|a| (a + 1..self.factors.len()).map(move |b| (a, b)));
        all.filter(|(a, b)| together(*a, *b)).collect()
    }

    /// The pairs of which every combination was measured.
    fn complete_pairs(&self) -> Vec<(usize, usize)> {
        let complete = |(a, b): &(usize, usize)| {
            let seen: BTreeSet<_> =
                self.observations.iter().filter_map(|trial| trial.levels[*a].zip(trial.levels[*b])).collect();
            let (levels_a, levels_b) = (self.factors[*a].levels, self.factors[*b].levels);
            levels_a > 1 && levels_b > 1 && seen.len() == levels_a * levels_b
        };
        self.pairs().into_iter().filter(complete).collect()
    }

    /// The pairs that are no other term under another name.
    fn separable_pairs(&self) -> Vec<Kind> {
        let fit = self.fit(&self.terms);
        let entangled = |columns: &Range<usize>| {
            fit.aliased.iter().any(|(column, combination)| {
                columns.contains(column) || combination[columns.clone()].iter().any(|part| part.abs() > 1e-6)
            })
        };
        let pairs = self.terms.iter().filter(|term| matches!(term.kind, Kind::Pair(..)));
        pairs.filter(|term| !entangled(&term.columns)).map(|term| term.kind.clone()).collect()
    }

    /// Least squares with some of the terms.
    fn fit(&self, terms: &[Term]) -> Fit {
        let columns = self.products.size - 1;
        let mut matrix = self.products.clone();
        let mut swept = vec![false; columns];
        let mut tried = vec![false; columns];
        for column in terms.iter().flat_map(|term| term.columns.clone()) {
            tried[column] = true;
            swept[column] = matrix.sweep(column, self.products.at(column, column));
        }
        let rank = swept.iter().filter(|swept| **swept).count();
        let dependence = |column: usize| {
            (0..columns).map(|other| if swept[other] { matrix.at(other, column) } else { 0.0 }).collect()
        };
        let aliased = (0..columns)
            .filter(|column| tried[*column] && !swept[*column])
            .map(|column| (column, dependence(column)))
            .collect();
        let total = self.products.at(columns, columns);
        // Below the digits that are left of it there is nothing but rounding.
        let residual = matrix.at(columns, columns);
        let residual = if residual > 1e-13 * total { residual } else { 0.0 };
        Fit { columns, rank, residual, aliased, swept, matrix, blocks: self.blocks }
    }

    /// The sum of squares around the mean.
    fn total(&self) -> f64 {
        self.products.at(self.products.size - 1, self.products.size - 1)
    }

    /// What a term explains beyond all terms that do not contain it, as share of the total.
    fn share(&self, kind: &Kind, total: f64) -> f64 {
        let Some(this) = self.terms.iter().find(|term| term.kind == *kind).filter(|_| total > 0.0) else {
            return 0.0;
        };
        let contains = |term: &Term| !this.factors.is_empty() && term.factors.is_superset(&this.factors);
        let mut others: Vec<Term> =
            self.terms.iter().filter(|term| term.kind != *kind && !contains(term)).cloned().collect();
        let without = self.fit(&others).residual;
        others.push(this.clone());
        ((without - self.fit(&others).residual) / total).max(0.0)
    }
}

/// The code of a level in `levels - 1` columns: effects that add up to zero.
fn coded(level: usize, levels: usize) -> Vec<f64> {
    let columns = levels.saturating_sub(1);
    match level < columns {
        true => (0..columns).map(|column| if column == level { 1.0 } else { 0.0 }).collect(),
        false => vec![-1.0; columns],
    }
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
}

/// A solution of least squares.
#[derive(Debug, Clone, PartialEq)]
struct Fit {
    columns: usize,
    rank: usize,
    residual: f64,
    /// Columns that are a combination of others, with that combination.
    aliased: Vec<(usize, Vec<f64>)>,
    swept: Vec<bool>,
    matrix: Matrix,
    blocks: usize,
}

impl Fit {
    /// The value of a combination of parameters, and its variance in units of the residual's. `None` where it is not
    /// determined: where what it gives to an aliased column is not what follows from the others.
    fn combine(&self, weights: &[f64]) -> Option<(f64, f64)> {
        let dot = |a: &[f64]| a.iter().zip(weights).map(|(a, weight)| a * weight).sum::<f64>();
        let determined =
            |(column, combination): &(usize, Vec<f64>)| (dot(combination) - weights[*column]).abs() < 1e-6;
        if !self.aliased.iter().all(determined) {
            return None;
        }
        let used: Vec<usize> =
            (0..self.columns).filter(|column| self.swept[*column] && weights[*column] != 0.0).collect();
        let value = used.iter().map(|column| weights[*column] * self.matrix.at(*column, self.columns)).sum();
        let variance = used
            .iter()
            .flat_map(|a| used.iter().map(move |b| weights[*a] * self.matrix.at(*a, *b) * weights[*b]))
            .sum::<f64>();
        Some((value, variance.max(0.0)))
    }
}

/// A square matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    fn zero(size: usize) -> Self {
        Matrix { size, cells: vec![0.0; size * size] }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.size + column]
    }

    /// Adds the products of the values of an observation.
    fn add(&mut self, row: &[f64]) {
        for (i, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            for (cell, other) in self.cells[i * self.size..][..self.size].iter_mut().zip(row) {
                *cell += value * other;
            }
        }
    }

    /// Sweeps on a column, unless it is a combination of those that were swept: then too little is left of what it was.
    fn sweep(&mut self, column: usize, before: f64) -> bool {
        let pivot = self.at(column, column);
        if pivot <= TOLERANCE * before || before == 0.0 {
            return false;
        }
        let size = self.size;
        for cell in &mut self.cells[column * size..][..size] {
            *cell /= pivot;
        }
        let swept = self.cells[column * size..][..size].to_vec();
        for row in (0..size).filter(|row| *row != column) {
            let factor = self.at(row, column);
            if factor == 0.0 {
                continue;
            }
            let cells = &mut self.cells[row * size..][..size];
            for (cell, swept) in cells.iter_mut().zip(&swept) {
                *cell -= factor * swept;
            }
            cells[column] = -factor / pivot;
        }
        self.cells[column * size + column] = pivot.recip();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILESYSTEM: Factor = Factor { levels: 2, within: None };
    const SCHEDULER: Factor = Factor { levels: 3, within: None };
    /// Only of the second filesystem.
    const LOG: Factor = Factor { levels: 2, within: Some((0, 1)) };

    /// Three blocks of the product of the factors above.
    fn product_of_factors(value: impl Fn(u32, usize, usize, usize) -> f64) -> Vec<Observation> {
        let mut trials = Vec::new();
        for (filesystem, log) in [(0, None), (1, Some(0)), (1, Some(1))] {
            for scheduler in 0..3 {
                for block in 0..3 {
                    trials.push(Observation {
                        block,
                        levels: vec![Some(filesystem), Some(scheduler), log],
                        value: value(block, filesystem, scheduler, log.unwrap_or(0)),
                    });
                }
            }
        }
        trials
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-8 * expected.abs().max(1e-3)
    }

    fn assert_ratio(ratio: Option<Ratio>, [value, low, high]: [f64; 3]) {
        let ratio = ratio.unwrap();
        let interval = ratio.interval.unwrap();
        assert!(close(ratio.value, value), "{ratio:?}");
        // The quantile of Student's t has six digits.
        assert!(
            (interval.low / low - 1.0).abs() < 1e-6 && (interval.high / high - 1.0).abs() < 1e-6,
            "{ratio:?}"
        );
    }

    /// R 4.2.2 with `contrasts = c("contr.sum", "contr.poly")`, `F` the filesystem, `S` the scheduler, `B` the block, and
    /// `l` 1 and -1 for the levels of the log, 0 without one; trials 5 and 20 left out:
    /// `m <- lm(log(y) ~ B + F + S + l + F:S + S:l)`; `exp` of `coef`, of `confint`, and of linear combinations of `coef`
    /// with `vcov` and `qt`; shares from `deviance` of the models with and without a term and all that contain it.
    #[test]
    fn an_unbalanced_nested_design_agrees_with_r() {
        let values = [
            50.0,
            52.20418882728585,
            54.15417940927606,
            48.364018517943975,
            49.27619582787344,
            50.07186893249661,
            44.42012242184647,
            45.738845709785444,
            47.54097569503256,
            55.44381243787241,
            57.8296036859591,
            59.86029368436837,
            56.638377992061805,
            57.63573390629612,
            58.58949228654963,
            55.2911190481681,
            57.066833204635905,
            59.417864089333335,
            60.25724547226788,
            62.76529670857231,
            64.82088161656355,
            61.203469914833754,
            62.22672679442704,
            63.305666905505944,
            59.864252439513734,
            61.92972742032582,
            64.57371142701267,
        ];
        let mut trials = product_of_factors(|_, _, _, _| 1.0);
        trials.iter_mut().zip(values).for_each(|(trial, value)| trial.value = value);
        trials.remove(19);
        trials.remove(4);
        let effects = effects(&[FILESYSTEM, SCHEDULER, LOG], &trials).unwrap();
        assert_eq!(effects.freedom, 14);
        let level = |factor: usize, level: usize| effects.factors[factor].levels[level];
        assert_ratio(level(0, 1), [1.10521989977864, 1.0995346334741, 1.11093456238591]);
        assert_ratio(level(1, 0), [1.0327993888936, 1.02539865837776, 1.04025353357351]);
        assert_ratio(level(1, 2), [0.965893431873253, 0.959046422870698, 0.9727893243617]);
        assert_ratio(level(2, 0), [0.96101876014101, 0.95543256940159, 0.966637612030967]);
        let contrast = effects.contrast(1, 0, 2);
        assert_ratio(contrast, [0.935218825901878, 0.923975562606427, 0.946598901224234]);
        assert!((contrast.unwrap().p.unwrap() / 1.06791950568446e-08 - 1.0).abs() < 1e-6, "{contrast:?}");
        let pairs: Vec<_> = effects.interactions.iter().map(|pair| pair.factors).collect();
        assert_eq!(pairs, [(0, 1), (1, 2)]);
        let (share, cells) = effects.interactions[0].found.as_ref().unwrap();
        assert_ratio(Some(cells[1][2]), [1.03134116578857, 1.02408358392063, 1.03865018144121]);
        assert!(close(*share, 0.0492309417999559));
        let shares = effects.factors.iter().map(|factor| factor.share);
        for (found, expected) in shares.zip([0.752404449764086, 0.0369511133885164, 0.0931564005743026]) {
            assert!(close(found, expected), "{found} {expected}");
        }
        assert!(close(effects.interactions[1].found.as_ref().unwrap().0, 4.98009236292025e-05));
        assert!(close(effects.block_share, 0.0589118413394821));
        assert!(close(effects.residual_share, 0.00601429342807371));
    }

    /// A fast log that nothing else varies with, and a scheduler that was only changed together with a mount option.
    #[test]
    fn what_was_only_varied_together_is_not_told_apart() {
        let mut trials = product_of_factors(|block, f, s, l| {
            f64::from(block + 1) * [1.0, 2.0][f] * [1.0, 1.5, 3.0][s] + l as f64
        });
        trials.iter_mut().for_each(|trial| trial.levels.push(trial.levels[1]));
        let effects = effects(&[FILESYSTEM, SCHEDULER, LOG, SCHEDULER], &trials).unwrap();
        assert!(effects.factors[0].levels.iter().all(Option::is_some));
        for entangled in [1, 3] {
            assert_eq!(effects.factors[entangled].levels, [None; 3]);
            assert_eq!(effects.factors[entangled].share, 0.0);
            assert_eq!(effects.contrast(entangled, 0, 1), None);
        }
        assert!(effects.interactions.iter().all(|pair| pair.found.is_none()));
    }

    #[test]
    fn one_block_has_effects_but_cannot_tell_an_interaction_from_chance() {
        let mut trials = product_of_factors(|_, f, s, _| [1.0, 2.0][f] + s as f64);
        trials.retain(|trial| trial.block == 0);
        let effects = effects(&[FILESYSTEM, SCHEDULER, LOG], &trials).unwrap();
        assert!(effects.interactions.iter().all(|pair| pair.found.is_none()));
        assert!(effects.factors[1].levels[0].unwrap().interval.is_some());
        assert_eq!(effects.freedom, 9 - 5);
    }

    #[test]
    fn a_saturated_design_has_no_intervals() {
        let trial = |level, value| Observation { block: 0, levels: vec![Some(level)], value };
        let effects = effects(&[FILESYSTEM], &[trial(0, 1.0), trial(1, 4.0)]).unwrap();
        let ratio = effects.contrast(0, 0, 1).unwrap();
        assert!(close(ratio.value, 4.0));
        assert_eq!((ratio.interval, ratio.p, effects.freedom), (None, None, 0));
    }

    #[test]
    fn what_has_no_logarithm_has_no_effects() {
        assert_eq!(effects(&[], &[]), None);
        let trials = product_of_factors(|block, _, _, _| f64::from(block));
        assert_eq!(effects(&[FILESYSTEM, SCHEDULER, LOG], &trials), None);
    }

    #[test]
    fn what_never_varies_explains_nothing() {
        let trials = product_of_factors(|_, _, _, _| 7.0);
        let effects = effects(&[FILESYSTEM, SCHEDULER, LOG], &trials).unwrap();
        assert_eq!((effects.block_share, effects.residual_share), (0.0, 0.0));
        assert!(effects.factors.iter().flat_map(|f| &f.levels).all(|level| level.unwrap().value == 1.0));
    }

    proptest! {
        #[test]
        fn a_pure_main_effect_is_found_exactly(a in 0.1..10.0_f64, b in 0.1..10.0_f64, block in 0.5..2.0_f64) {
            let trials = product_of_factors(|nth, _, s, _| [1.0, a, b][s] * block.powi(nth as i32));
            let effects = effects(&[FILESYSTEM, SCHEDULER, LOG], &trials).unwrap();
            let mean = (a * b).cbrt();
            for (level, truth) in effects.factors[1].levels.iter().zip([1.0, a, b]) {
                prop_assert!(close(level.unwrap().value, truth / mean));
            }
            prop_assert!(close(effects.contrast(1, 1, 2).unwrap().value, b / a));
            prop_assert!(effects.factors[0].levels.iter().all(|level| close(level.unwrap().value, 1.0)));
            prop_assert!(effects.residual_share < 1e-9);
            for pair in &effects.interactions {
                prop_assert!(pair.found.as_ref().unwrap().1.iter().flatten().all(|cell| close(cell.value, 1.0)));
            }
        }

        #[test]
        fn neither_unit_nor_order_of_levels_matters(
            values in prop::collection::vec(1.0..100.0_f64, 27), scale in 1e-3..1e9_f64, dropped in 0..27_usize,
        ) {
            let factors = [FILESYSTEM, SCHEDULER, LOG];
            let mut trials = product_of_factors(|_, _, _, _| 1.0);
            trials.iter_mut().zip(&values).for_each(|(trial, value)| trial.value = *value);
            trials.remove(dropped);
            let before = effects(&factors, &trials).unwrap();
            let rotated: Vec<Observation> = trials
                .iter()
                .map(|trial| {
                    let levels = vec![trial.levels[0], trial.levels[1].map(|s| (s + 1) % 3), trial.levels[2]];
                    Observation { levels, value: trial.value * scale, ..*trial }
                })
                .collect();
            let after = effects(&factors, &rotated).unwrap();
            for (s, level) in before.factors[1].levels.iter().enumerate() {
                let (level, turned) = (level.unwrap(), after.factors[1].levels[(s + 1) % 3].unwrap());
                prop_assert!(close(level.value, turned.value));
                prop_assert!(close(level.interval.unwrap().high, turned.interval.unwrap().high));
            }
            prop_assert!((before.factors[1].share - after.factors[1].share).abs() < 1e-9);
            prop_assert!((before.residual_share - after.residual_share).abs() < 1e-9);
        }

        #[test]
        fn shares_of_a_balanced_design_add_up(values in prop::collection::vec(1.0..100.0_f64, 18)) {
            let trials: Vec<Observation> = (0..18)
                .map(|i| Observation {
                    block: i as u32 / 6,
                    levels: vec![Some(i % 2), Some(i % 3)],
                    value: values[i],
                })
                .collect();
            let effects = effects(&[FILESYSTEM, SCHEDULER], &trials).unwrap();
            let terms: f64 = effects.factors.iter().map(|factor| factor.share).sum();
            let pairs: f64 = effects.interactions.iter().map(|pair| pair.found.as_ref().unwrap().0).sum();
            prop_assert!((terms + pairs + effects.block_share + effects.residual_share - 1.0).abs() < 1e-9);
        }
    }
}
