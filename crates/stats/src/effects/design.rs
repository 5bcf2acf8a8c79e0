//! The model of a sweep: its terms, and which of them the trials can separate.
//!
//! A factor has an indicator column for each level but the last: 1 in the trials with that level, else 0. At
//! most one of them is 1 in any trial, so the matrix of their products is diagonal, and stays diagonal if
//! these columns are swept before all others. Sweeping a factor with a thousand levels then only touches what
//! its columns share with the rest of the model, instead of taking time cubic in the number of levels. The
//! columns of an interaction add up to zero over the levels of each factor, so they take nothing from the
//! main effects.

use super::least_squares::{Fit, Matrix};
use super::{Factor, Observation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// With more columns than this, interactions are left out: a sum of squares takes time cubic in their number.
const COLUMNS_MAX: usize = 250;

/// A part of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Mean,
    Block,
    Main(usize),
    Pair(usize, usize),
}

/// A part of the model with its columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Term {
    pub(super) kind: Kind,
    pub(super) columns: Range<usize>,
    /// All its factors, including the parents of nested ones.
    factors: BTreeSet<usize>,
}

/// The parameters of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    factors: Vec<Factor>,
    pub(super) terms: Vec<Term>,
    pub(super) blocks: usize,
}

impl Model {
    /// The weights of the parameters in the model's prediction for a level of a factor, or for the average of
    /// its levels: the mean over all levels of all other factors, each counted once. Interactions add up to
    /// zero over the levels of each factor.
    pub(super) fn predicted(&self, factor: usize, level: Option<usize>) -> Vec<f64> {
        let within = self.factors[factor].within;
        let fixed = |other: usize| match within {
            _ if other == factor => level,
            Some((parent, level)) if other == parent => Some(level),
            _ => None,
        };
        let share = |other: usize, level: usize| match fixed(other) {
            Some(fixed) => f64::from(u8::from(fixed == level)),
            None => 1.0 / self.factors[other].levels as f64,
        };
        let main = |other: usize| -> Vec<f64> {
            let exists = match self.factors[other].within {
                Some((parent, level)) => share(parent, level),
                None => 1.0,
            };
            (1..self.factors[other].levels).map(|level| exists * share(other, level - 1)).collect()
        };
        let weights = |term: &Term| match term.kind {
            Kind::Mean => vec![1.0],
            Kind::Block => vec![1.0 / self.blocks as f64; self.blocks - 1],
            Kind::Main(other) => main(other),
            Kind::Pair(..) => vec![0.0; term.columns.len()],
        };
        self.terms.iter().flat_map(weights).collect()
    }

    /// The weights of the parameters in the interaction of two levels; `None` if the model does not contain
    /// it.
    pub(super) fn together(&self, a: (usize, usize), b: (usize, usize)) -> Option<Vec<f64>> {
        let term = self.terms.iter().find(|term| term.kind == Kind::Pair(a.0, b.0))?;
        let mut weights = vec![0.0; self.columns()];
        let [of_a, of_b] = [a, b].map(|(factor, level)| centred(level, self.factors[factor].levels));
        weights[term.columns.clone()].copy_from_slice(&product(&of_a, &of_b));
        Some(weights)
    }

    pub(super) fn columns(&self) -> usize {
        self.terms.last().map_or(0, |term| term.columns.end)
    }
}

/// The model and the matrix of the products of its columns; the last column holds the values.
pub(super) struct Design<'a> {
    pub(super) model: Model,
    observations: &'a [Observation],
    products: Matrix,
}

impl<'a> Design<'a> {
    /// The model with all terms that the trials can separate.
    pub(super) fn new(factors: &[Factor], observations: &'a [Observation], logarithms: &[f64]) -> Self {
        let blocks: BTreeSet<u32> = observations.iter().map(|trial| trial.block).collect();
        let blocks: BTreeMap<u32, usize> = blocks.into_iter().zip(0..).collect();
        let kinds = [Kind::Mean, Kind::Block].into_iter().chain((0..factors.len()).map(Kind::Main));
        let model = Model { factors: factors.to_vec(), terms: Vec::new(), blocks: blocks.len() };
        let mut design = Design { model, observations, products: Matrix::zero(0) };
        design.set_terms(kinds.collect(), &blocks, logarithms);
        let complete = design.complete_pairs();
        let columns = |(a, b): &(usize, usize)| (factors[*a].levels - 1) * (factors[*b].levels - 1);
        let wanted = design.products.size + complete.iter().map(columns).sum::<usize>();
        if blocks.len() > 1 && wanted <= COLUMNS_MAX && !complete.is_empty() {
            let mains: Vec<Kind> = design.model.terms.iter().map(|term| term.kind.clone()).collect();
            let all = complete.iter().map(|(a, b)| Kind::Pair(*a, *b));
            design.set_terms(mains.iter().cloned().chain(all).collect(), &blocks, logarithms);
            let separable = design.separable_pairs();
            design.set_terms(mains.into_iter().chain(separable).collect(), &blocks, logarithms);
        }
        design
    }

    fn set_terms(&mut self, kinds: Vec<Kind>, blocks: &BTreeMap<u32, usize>, logarithms: &[f64]) {
        let mut end = 0;
        let factors = &self.model.factors;
        let mut terms = Vec::new();
        for kind in kinds {
            let (columns, factors) = match &kind {
                Kind::Mean => (1, BTreeSet::new()),
                Kind::Block => (self.model.blocks - 1, BTreeSet::new()),
                Kind::Main(a) => (factors[*a].levels.saturating_sub(1), self.closure(&[*a])),
                Kind::Pair(a, b) => {
                    ((factors[*a].levels - 1) * (factors[*b].levels - 1), self.closure(&[*a, *b]))
                }
            };
            terms.push(Term { kind, columns: end..end + columns, factors });
            end += columns;
        }
        self.model.terms = terms;
        // Subtracting the mean keeps the precision of the sums of squares.
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        self.products = Matrix::zero(end + 1);
        for (trial, value) in self.observations.iter().zip(logarithms) {
            let mut row: Vec<f64> =
                self.model.terms.iter().flat_map(|term| self.coded_term(&term.kind, trial, blocks)).collect();
            row.push(value - mean);
            self.products.add(&row);
        }
    }

    /// The factors and the parents of nested ones.
    fn closure(&self, factors: &[usize]) -> BTreeSet<usize> {
        let parents = factors.iter().filter_map(|factor| self.model.factors[*factor].within);
        parents.map(|(parent, _)| parent).chain(factors.iter().copied()).collect()
    }

    fn coded_term(&self, kind: &Kind, trial: &Observation, blocks: &BTreeMap<u32, usize>) -> Vec<f64> {
        let coded = |factor: usize, code: fn(usize, usize) -> Vec<f64>| match trial.levels[factor] {
            Some(level) => code(level, self.model.factors[factor].levels),
            None => vec![0.0; self.model.factors[factor].levels.saturating_sub(1)],
        };
        match kind {
            Kind::Mean => vec![1.0],
            Kind::Block => indicator(blocks[&trial.block], blocks.len()),
            Kind::Main(factor) => coded(*factor, indicator),
            Kind::Pair(a, b) => product(&coded(*a, centred), &coded(*b, centred)),
        }
    }

    /// The pairs of factors that occur together in some trial.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        let factors = &self.model.factors;
        let parent = |factor: usize| factors[factor].within.map(|(parent, _)| parent);
        let together = |a: usize, b: usize| {
            parent(a) != Some(b)
                && parent(b) != Some(a)
                && self
                    .observations
                    .iter()
                    .any(|trial| trial.levels[a].is_some() && trial.levels[b].is_some())
        };
        let all = (0..factors.len()).flat_map(|a| (a + 1..factors.len()).map(move |b| (a, b)));
        all.filter(|(a, b)| together(*a, *b)).collect()
    }

    /// The pairs of factors of which every combination of levels was measured.
    fn complete_pairs(&self) -> Vec<(usize, usize)> {
        let complete = |(a, b): &(usize, usize)| {
            let seen: BTreeSet<_> =
                self.observations.iter().filter_map(|trial| trial.levels[*a].zip(trial.levels[*b])).collect();
            let [levels_a, levels_b] = [*a, *b].map(|factor| self.model.factors[factor].levels);
            levels_a > 1 && levels_b > 1 && seen.len() == levels_a * levels_b
        };
        self.pairs().into_iter().filter(complete).collect()
    }

    /// The interactions that are not aliased with another term.
    fn separable_pairs(&self) -> Vec<Kind> {
        let fit = self.fit(&self.model.terms);
        let entangled = |columns: &Range<usize>| {
            fit.aliased.iter().any(|(column, combination)| {
                columns.contains(column) || combination[columns.clone()].iter().any(|part| part.abs() > 1e-6)
            })
        };
        let pairs = self.model.terms.iter().filter(|term| matches!(term.kind, Kind::Pair(..)));
        pairs.filter(|term| !entangled(&term.columns)).map(|term| term.kind.clone()).collect()
    }

    /// Least squares with some of the terms.
    pub(super) fn fit(&self, terms: &[Term]) -> Fit {
        let columns = self.products.size - 1;
        let mut matrix = self.products.clone();
        let mut swept = vec![false; columns];
        let mut tried = vec![false; columns];
        let mut order: Vec<&Term> = terms.iter().collect();
        order.sort_by_key(|term| Reverse(term.columns.len()));
        for column in order.into_iter().flat_map(|term| term.columns.clone()) {
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
        // A smaller residual is nothing but rounding error.
        let residual = matrix.at(columns, columns);
        let residual = if residual > 1e-13 * total { residual } else { 0.0 };
        Fit { columns, rank, residual, aliased, swept, matrix }
    }

    /// The sum of squares around the mean.
    pub(super) fn total(&self) -> f64 {
        self.products.at(self.products.size - 1, self.products.size - 1)
    }

    /// Returns the share of the total that a term explains beyond all terms that do not contain it.
    pub(super) fn share(&self, kind: &Kind, total: f64) -> f64 {
        let Some(this) = self.model.terms.iter().find(|term| term.kind == *kind).filter(|_| total > 0.0)
        else {
            return 0.0;
        };
        let contains = |term: &Term| !this.factors.is_empty() && term.factors.is_superset(&this.factors);
        let mut others: Vec<Term> =
            self.model.terms.iter().filter(|term| term.kind != *kind && !contains(term)).cloned().collect();
        let without = self.fit(&others).residual;
        others.push(this.clone());
        ((without - self.fit(&others).residual) / total).max(0.0)
    }
}

/// Encodes a level in `levels - 1` columns, one for each level but the last.
fn indicator(level: usize, levels: usize) -> Vec<f64> {
    (1..levels).map(|other| f64::from(u8::from(other - 1 == level))).collect()
}

/// The same, with columns that add up to zero over all levels.
fn centred(level: usize, levels: usize) -> Vec<f64> {
    if level + 1 < levels { indicator(level, levels) } else { vec![-1.0; levels.saturating_sub(1)] }
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
}
