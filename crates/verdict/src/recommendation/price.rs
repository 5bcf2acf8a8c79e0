//! The price of a configuration: the measures that do not decide, in which it is materially worse than
//! another.
//!
//! It is worse if its mean is worse by more than the threshold, and the interval of the ratio leaves out 1;
//! it is not worse if the interval leaves out everything beyond the threshold. These are not corrected for
//! being several: here the error to avoid is a loss that nobody names.

use super::contender::{Contender, of_case};
use crate::ranking;
use crate::ratios::Ratios;
use crate::text::{self, hundredths, listed};
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Direction, Measure};

/// The trials by which configurations are compared.
#[derive(Clone, Copy)]
pub(super) struct Trials<'a, 't> {
    pub trials: &'a [&'t TrialRecord],
    pub threshold: f64,
    pub seed: u64,
    /// `true` if trials were looked at to decide how many there are.
    pub looks: bool,
}

/// A configuration compared with another one in a measure that does not decide.
pub(super) enum Change {
    /// It is materially worse.
    Worse(Loss),
    /// It is better, or not materially worse.
    NotWorse {
        /// `true` if it is shown to be better.
        is_better: bool,
    },
    /// The trials do not decide it.
    Open,
    /// This configuration has no value of the measure.
    Missing(String),
}

/// A measure in which a configuration is materially worse than another.
pub(super) struct Loss {
    pub measure: Measure,
    own: (f64, bool),
    other: f64,
    /// Name of the other.
    name: String,
}

impl Loss {
    /// `145 MB/s (writes while others read) instead of 442 MB/s with 'ext4'`.
    pub fn in_words(&self) -> String {
        let [own, other] = self.amounts();
        format!("{own} ({}) instead of {other} with '{}'", self.measure.in_words(), self.name)
    }

    /// `longest-stall (mean) is 145ms instead of 24.4ms`.
    fn by_name(&self) -> String {
        let [own, other] = self.amounts();
        format!("{} is {own} instead of {other}", named(&self.measure))
    }

    fn amounts(&self) -> [String; 2] {
        let (own, at_least) = self.own;
        [text::quantity(&self.measure, own, at_least), text::quantity(&self.measure, self.other, false)]
    }
}

/// Its name; tables have the longest stall of all trials.
fn named(measure: &Measure) -> String {
    let mean = if measure.name() == ranking::LONGEST { " (mean)" } else { "" };
    format!("{measure}{mean}")
}

impl Trials<'_, '_> {
    /// Compares a configuration with another one.
    pub fn change(&self, measure: &Measure, own: &Contender, other: &Contender) -> Change {
        let ratio = Ratios::new(measure, self.trials, self.looks).of(other.case, own.case);
        let figures = [own, other].map(|one| self.mean(measure, one));
        let [Some(mine), Some(others)] = figures else {
            let without = if figures[0].is_none() { own } else { other };
            return Change::Missing(without.name.clone());
        };
        let Some((ratio, interval)) = ratio.and_then(|ratio| Some((ratio, ratio.interval?))) else {
            return Change::Open;
        };
        let least = 1.0 / (1.0 + self.threshold);
        // By how much it is better, and the ends of that. The true value of a lower bound may be any larger
        // one.
        let ((value, [low, high]), [hides_worse, hides_better]) = match measure.direction() {
            Direction::HigherIsBetter => ((ratio.value, [interval.low, interval.high]), [mine.1, others.1]),
            Direction::LowerIsBetter => {
                ((1.0 / ratio.value, [1.0 / interval.high, 1.0 / interval.low]), [others.1, mine.1])
            }
        };
        if value < least && high < 1.0 && !hides_worse {
            let (measure, name) = (measure.clone(), other.name.clone());
            return Change::Worse(Loss { measure, own: mine, other: others.0, name });
        }
        match low >= least && !hides_better {
            true => Change::NotWorse { is_better: low > 1.0 },
            false => Change::Open,
        }
    }

    fn mean(&self, measure: &Measure, one: &Contender) -> Option<(f64, bool)> {
        let own: Vec<&TrialRecord> = of_case(self.trials, one.case).collect();
        ranking::figure(measure, self.seed, &own).map(|found| (found.estimate.value, found.at_least))
    }

    /// The longest stall of all trials of a configuration, if that is the measure.
    fn longest(&self, measure: &Measure, one: &Contender) -> Option<f64> {
        let own: Vec<&TrialRecord> = of_case(self.trials, one.case).collect();
        let figure = ranking::figure(measure, self.seed, &own)?;
        (measure.name() == ranking::LONGEST).then_some(figure.max)
    }

    /// Returns the sentences on what a choice costs compared with another one: the measures in which it is
    /// worse, or else those in which it is not; and those of `guards` of which that is not known.
    pub fn sentences(
        &self,
        own: &Contender,
        other: &Contender,
        measures: &[Measure],
        guards: &[Measure],
    ) -> Vec<String> {
        let [mut worse, mut not_worse, mut open, mut missing] = [const { Vec::<String>::new() }; 4];
        let mut all_better = true;
        for measure in measures.iter().chain(guards.iter().filter(|guard| !measures.contains(guard))) {
            match self.change(measure, own, other) {
                Change::Worse(loss) => worse.push(loss.by_name()),
                // Beside a table that has the longest of all, a better mean of fewer trials would read wrong.
                Change::NotWorse { .. } if self.longest(measure, own) > self.longest(measure, other) => {}
                Change::NotWorse { is_better } => {
                    all_better &= is_better;
                    not_worse.push(named(measure));
                }
                Change::Open if guards.contains(measure) => open.push(measure.in_words().into_owned()),
                Change::Missing(name) if guards.contains(measure) => {
                    missing.push(format!("{}, of which '{name}' has no value", measure.in_words()));
                }
                Change::Open | Change::Missing(_) => {}
            }
        }
        let mut sentences = Vec::new();
        if !worse.is_empty() {
            sentences.push(format!("Compared with '{}', {}.", other.name, listed(&worse)));
        } else if !not_worse.is_empty() && own.is_complete() {
            let or_worse = match all_better {
                true => String::new(),
                false => format!(", or at most {} worse", hundredths(self.threshold)),
            };
            sentences.push(format!(
                "In {} it is better than '{}'{or_worse}.",
                listed(&not_worse),
                other.name
            ));
        }
        if !open.is_empty() {
            sentences.push(format!("These trials do not tell whether it is worse ({}).", listed(&open)));
        }
        if !missing.is_empty() {
            sentences.push(format!("Not compared: {}.", missing.join("; ")));
        }
        sentences
    }
}
