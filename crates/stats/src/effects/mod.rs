//! The effect of each setting: of every level of every factor on the logarithm of a measure.
//!
//! The trials of a sweep are the observations of an additive model: the logarithm of the measure is the sum
//! of a mean, the effect of the block, the effects of the levels of all factors, and the interactions of
//! pairs of factors. Effects on the logarithm are ratios, so "bfq costs 12 %" means the same on a fast and on
//! a slow filesystem.
//!
//! **The effect of a level** is its ratio to the geometric mean of all levels of its factor, each counted
//! once however many trials it has, and averaged over the levels of the other factors in the same way (the
//! estimated marginal means of S. R. Searle, F. M. Speed and G. A. Milliken, "Population marginal means in
//! the linear model", The American Statistician 34(4), 1980). No level has to serve as the base.
//! [`Effects::contrast`] gives the ratio of any two levels.
//!
//! **Nested factors** exist within one level of another factor (the log size within xfs) and have their
//! effects there.
//!
//! **Interactions** of two factors are in the model if the trials can separate them from everything else: all
//! combinations were measured in at least two blocks, and no other term is aliased with them. Otherwise they
//! are absent. Interactions of three or more factors are part of the residual, which makes intervals wider,
//! never narrower.
//!
//! **Shares of the variance** are sums of squares of type II over the total: what a term explains beyond all
//! terms that do not contain it (O. Langsrud, "ANOVA for unbalanced data: use type II instead of type III
//! sums of squares", Statistics and Computing 13, 2003). They add up to 1 in a balanced design; in other
//! designs, what two terms could both explain counts for neither.
//!
//! Intervals and p values are those of Student's t distribution with the residual's degrees of freedom.
//! Effects that a design cannot separate are absent, not guessed: levels that only ever changed together have
//! none.
//!
//! The arithmetic is the sweep operator, which finds the solution, the residual and the aliases in one matrix
//! (J. H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33(3), 1979).

mod design;
mod least_squares;

use crate::compare::{Error, Ratio};
use design::{Design, Kind, Model};
use least_squares::{Base, Fit};

/// Something that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    /// The number of levels.
    pub levels: usize,
    /// The factor, and its level, within which this one exists; absent if it exists everywhere.
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

/// The effects of all factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Of each factor, in order.
    pub factors: Vec<FactorEffects>,
    /// Of each pair of factors that exist together.
    pub interactions: Vec<Interaction>,
    /// Share of the variance between blocks, 0 to 1.
    pub block_share: f64,
    /// Share of the variance that the model does not explain.
    pub residual_share: f64,
    /// Degrees of freedom of the residual; without any there are no intervals.
    pub freedom: usize,
    fit: Fit,
    model: Model,
}

/// The effects of one factor.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorEffects {
    /// Ratio of each level to the mean of all; `None` if the trials cannot separate it from something else.
    pub levels: Vec<Option<Ratio>>,
    /// Share of the variance, 0 to 1.
    pub share: f64,
}

/// The interaction of two factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// The two factors.
    pub factors: (usize, usize),
    /// Share of the variance, and for each combination of levels the ratio to what the two main effects
    /// predict; absent if the trials cannot separate it from something else.
    pub found: Option<(f64, Vec<Vec<Ratio>>)>,
}

/// The effects of these factors. `None` without trials, or if a value has no logarithm.
pub fn effects(factors: &[Factor], observations: &[Observation]) -> Option<Effects> {
    let logarithms: Vec<f64> = observations.iter().map(|trial| trial.value.ln()).collect();
    if observations.is_empty() || !logarithms.iter().all(|value| value.is_finite()) {
        return None;
    }
    let design = Design::new(factors, observations, &logarithms);
    let fit = design.fit(&design.model.terms);
    let freedom = observations.len() - fit.rank;
    let total = design.total();
    let mut effects = Effects {
        factors: Vec::new(),
        interactions: Vec::new(),
        block_share: design.share(&Kind::Block, total),
        residual_share: if total > 0.0 { fit.residual / total } else { 0.0 },
        freedom,
        model: design.model.clone(),
        fit,
    };
    for (index, factor) in factors.iter().enumerate() {
        let mean = effects.fit.base(effects.model.predicted(index, None));
        let ratio = |level| effects.ratio(&mean, &effects.model.predicted(index, Some(level)));
        effects.factors.push(FactorEffects {
            levels: (0..factor.levels).map(ratio).collect(),
            share: design.share(&Kind::Main(index), total),
        });
    }
    let nothing = effects.fit.base(vec![0.0; effects.model.columns()]);
    for (a, b) in design.pairs() {
        let cell = |i, j| effects.ratio(&nothing, &effects.model.together((a, i), (b, j))?);
        let row = |i: usize| (0..factors[b].levels).map(|j| cell(i, j)).collect::<Option<Vec<_>>>();
        let cells = (0..factors[a].levels).map(row).collect::<Option<Vec<_>>>();
        let found = cells.map(|cells| (design.share(&Kind::Pair(a, b), total), cells));
        effects.interactions.push(Interaction { factors: (a, b), found });
    }
    Some(effects)
}

impl Effects {
    /// The ratio of level `to` of a factor to level `from`; `None` if the trials cannot separate it from
    /// something else.
    pub fn contrast(&self, factor: usize, from: usize, to: usize) -> Option<Ratio> {
        let from = self.fit.base(self.model.predicted(factor, Some(from)));
        self.ratio(&from, &self.model.predicted(factor, Some(to)))
    }

    /// The exponential of a combination of parameters minus the base.
    fn ratio(&self, base: &Base, weights: &[f64]) -> Option<Ratio> {
        let (value, factor) = self.fit.difference(base, weights)?;
        let error = Error { variance: factor * self.variance(), freedom: self.freedom as f64 };
        Some(Ratio::new(value, error, self.model.blocks, true))
    }

    fn variance(&self) -> f64 {
        self.fit.residual / self.freedom.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILESYSTEM: Factor = Factor { levels: 2, within: None };
    const SCHEDULER: Factor = Factor { levels: 3, within: None };
    /// Exists only within the second filesystem.
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
        // The quantile of Student's t is accurate to six digits.
        assert!(
            (interval.low / low - 1.0).abs() < 1e-6 && (interval.high / high - 1.0).abs() < 1e-6,
            "{ratio:?}"
        );
    }

    /// R 4.2.2 with `contrasts = c("contr.sum", "contr.poly")`, `F` the filesystem, `S` the scheduler, `B`
    /// the block, and `l` 1 and -1 for the levels of the log, 0 without one; trials 5 and 20 left out:
    /// `m <- lm(log(y) ~ B + F + S + l + F:S + S:l)`; `exp` of `coef`, of `confint`, and of linear
    /// combinations of `coef` with `vcov` and `qt`; shares from `deviance` of the models with and without a
    /// term and all that contain it.
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

    /// In a complete design a level's effect is the mean of its trials minus the mean of all.
    #[test]
    fn a_factor_of_a_thousand_levels_has_the_effects_of_its_groups() {
        const LEVELS: usize = 1000;
        const BLOCKS: usize = 3;
        let logarithm = |level: usize, block: usize| {
            (level as f64 * 0.7).sin() + block as f64 * 0.2 + ((level * 31 + block * 17) % 23) as f64 * 0.01
        };
        let all = (0..LEVELS).flat_map(|level| (0..BLOCKS).map(move |block| (level, block)));
        let trials: Vec<Observation> = all
            .clone()
            .map(|(level, block)| Observation {
                block: block as u32,
                levels: vec![Some(level)],
                value: logarithm(level, block).exp(),
            })
            .collect();
        let mean_where = |chosen: &dyn Fn(usize, usize) -> bool| {
            let values: Vec<f64> =
                all.clone().filter(|(l, b)| chosen(*l, *b)).map(|(l, b)| logarithm(l, b)).collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let mean = mean_where(&|_, _| true);
        let of_level: Vec<f64> = (0..LEVELS).map(|level| mean_where(&|l, _| l == level) - mean).collect();
        let of_block: Vec<f64> = (0..BLOCKS).map(|block| mean_where(&|_, b| b == block) - mean).collect();
        let squares =
            |of: &dyn Fn(usize, usize) -> f64| all.clone().map(|(l, b)| of(l, b).powi(2)).sum::<f64>();
        let total = squares(&|level, block| logarithm(level, block) - mean);
        let residual =
            squares(&|level, block| logarithm(level, block) - mean - of_level[level] - of_block[block]);

        let effects = effects(&[Factor { levels: LEVELS, within: None }], &trials).unwrap();
        let freedom = (LEVELS - 1) * (BLOCKS - 1);
        assert_eq!(effects.freedom, freedom);
        let share = squares(&|level, _| of_level[level]) / total;
        assert!(close(effects.factors[0].share, share) && close(effects.residual_share, residual / total));
        let spread = |of: f64| (residual / freedom as f64 * of).sqrt();
        for (level, truth) in of_level.iter().enumerate() {
            let ratio = effects.factors[0].levels[level].unwrap();
            let expected = spread(1.0 - 1.0 / LEVELS as f64);
            assert!(close(ratio.value, truth.exp()) && close(ratio.spread, expected), "{level}: {ratio:?}");
        }
        let contrast = effects.contrast(0, 7, LEVELS - 1).unwrap();
        assert!(close(contrast.value, (of_level[LEVELS - 1] - of_level[7]).exp()), "{contrast:?}");
        assert!(close(contrast.spread, spread(2.0)), "{contrast:?}");
    }

    /// A log size that varies independently, and a scheduler that only changed together with a mount option.
    #[test]
    fn factors_that_only_changed_together_are_not_separated() {
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
    fn values_without_a_logarithm_have_no_effects() {
        assert_eq!(effects(&[], &[]), None);
        let trials = product_of_factors(|block, _, _, _| f64::from(block));
        assert_eq!(effects(&[FILESYSTEM, SCHEDULER, LOG], &trials), None);
    }

    #[test]
    fn constant_values_explain_nothing() {
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
