//! Explanations for a difference between two sides that do not lie in the sides themselves.
//!
//! A test of significance knows how much trials vary. It does not know that other processes used the machine
//! during all trials of one side, or that the machine itself became twice as fast during a sweep that another
//! one is compared with. Such a difference is real and says nothing about the configurations, so it gets no
//! verdict.
//!
//! Only what moves figures in the direction of the difference explains it: load from outside makes the side
//! that carries it worse, memory that was not meant to help makes it better. A side explains nothing if the
//! other one carries the same. Trials of common blocks share what the machine did, so drift explains no
//! difference within blocks.
//!
//! Figures that mean something else on each side are no figures of one measure, whatever they are called: the
//! caller knows what each side did, and says so.
//!
//! Processor time that others took explains no more than it can have cost: with two processors, others that
//! used 5 % of them slow a rate down by 11 % at most ([`share_left`]). A difference whose interval lies
//! beyond that is not explained by it. The slowest operations are another matter: a single one that waits for
//! a processor decides a maximum or a high percentile, so there any clear difference in load explains any
//! difference.
//!
//! A trial that failed, or that has no value, may have been the worst of its side. With such a trial no side
//! is the better one, and the two are not equal, either.

use crate::confounder;
use crate::drift::drift;
use crate::outcomes::{carriers_in, carries_in, failed_beside, is_measured};
use crate::text;
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::{Role, TrialRecord, WarningKind};
use fsdyno_stats::{Ratio, Verdict};

/// A kind of warning that more than this share of trials carries on one side beyond the other explains a
/// difference.
const BEYOND: f64 = 0.5;

/// The trials of a side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubtfulSide<'a, 't> {
    /// Those that are compared.
    pub trials: &'a [&'t TrialRecord],
    /// All of its sweep: its failed trials, and the sentinel, which shows what the machine itself did.
    pub whole: &'t [TrialRecord],
}

/// The effect of a confounder on figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The trial was slower than its configuration is.
    Hampers,
    /// Memory that the trial was not meant to have made it faster than its configuration is.
    Flatters,
}

fn effect(kind: WarningKind) -> Option<Effect> {
    use WarningKind as W;
    match kind {
        W::ForeignLoad
        | W::StealTime
        | W::OtherIo
        | W::SharedDisk
        | W::LazyInitialisation
        | W::Emulation
        | W::Monitored
        | W::ModelLate
        | W::CacheNotWarm => Some(Effect::Hampers),
        W::CachesNotDropped
        | W::NotRemounted
        | W::MemoryNotLimited
        | W::HostCache
        | W::PageCache
        | W::WriteCacheAbsorbed => Some(Effect::Flatters),
        _ => None,
    }
}

/// Returns whether a kind of warning can move this measure.
pub fn bears_on(kind: WarningKind, measure: &Measure) -> bool {
    let role = measure.role();
    match kind {
        WarningKind::PageCache => {
            !measure.is_of_lifecycle() && !measure.is_durable() && role != Some(Role::Writer)
        }
        WarningKind::WriteCacheAbsorbed => {
            !measure.is_of_lifecycle() && !measure.is_durable() && role != Some(Role::Reader)
        }
        _ => effect(kind) == Some(Effect::Hampers) || !measure.is_of_lifecycle(),
    }
}

/// Returns whether a kind of warning may explain a difference in this measure: its cause moves the measure,
/// or it says that something else was measured.
pub(crate) fn may_explain(kind: WarningKind, measure: &Measure) -> bool {
    use WarningKind as W;
    let moves = effect(kind).is_some() && bears_on(kind, measure);
    let is_other =
        matches!(kind, W::OptionNotInForce | W::NoEffect | W::NotSteady | W::NotQuiet | W::Saturated);
    // What never ended may be what matters, whatever decides.
    moves || is_other || kind == W::Censored
}

/// The possible explanations for the ratio of the second side to the first, in words, by what they forbid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Why the measure means something else on each side, which forbids every verdict.
    incomparable: Option<String>,
    /// Trials of the better side that are missing, which forbid every verdict.
    better_misses: Option<String>,
    /// The same of the worse side, which forbid only to call both equal, or to ask for more trials.
    worse_misses: Option<String>,
    /// The explanation for a difference, if there is one.
    explained: Option<String>,
}

impl Doubt {
    /// Looks for everything that is known to.
    pub fn of(measure: &Measure, ratio: &Ratio, sides: [DoubtfulSide<'_, '_>; 2], names: [&str; 2]) -> Doubt {
        let second_is_better = (ratio.value > 1.0) == (measure.direction() == Direction::HigherIsBetter);
        let (worse, better) = if second_is_better { (0, 1) } else { (1, 0) };
        let of_kind = |kind: &WarningKind| {
            let (more, less) = match effect(*kind).filter(|_| bears_on(*kind, measure))? {
                Effect::Hampers => (worse, better),
                Effect::Flatters => (better, worse),
            };
            let [a, b] = [more, less].map(|side| (names[side], sides[side].trials));
            match Taken::of(*kind, measure, a, b) {
                None => carried(*kind, measure, a, b),
                Some(taken) if measure.is_of_the_slowest() => {
                    carried(*kind, measure, a, b).or_else(|| taken.clearly())
                }
                Some(taken) => taken.beyond(ratio),
            }
        };
        let drifted = || (!ratio.paired).then(|| moved(measure, ratio, sides)).flatten();
        Doubt {
            incomparable: None,
            better_misses: missing(measure, names[better], sides[better]),
            worse_misses: missing(measure, names[worse], sides[worse]),
            explained: WarningKind::ALL.iter().find_map(of_kind).or_else(drifted),
        }
    }

    /// The same about a measure that means something else on each side, if there is such a reason.
    pub fn unless_comparable(self, incomparable: Option<String>) -> Doubt {
        Doubt { incomparable, ..self }
    }

    /// The same about sides that a load holds at one rate, if it does: equal figures say nothing of them.
    pub fn unless_held(self, held: Option<String>) -> Doubt {
        Doubt { worse_misses: self.worse_misses.or(held), ..self }
    }

    /// Returns the reason that forbids this verdict.
    pub fn about(&self, said: Verdict) -> Option<&String> {
        self.incomparable.as_ref().or(self.better_misses.as_ref()).or(match said {
            Verdict::Larger | Verdict::Smaller => self.explained.as_ref(),
            Verdict::NoMaterialDifference | Verdict::CannotTell(_) => self.worse_misses.as_ref(),
        })
    }
}

type NamedTrials<'a, 't> = (&'a str, &'a [&'t TrialRecord]);

/// Trials of a side that failed or have no value: what hung all the time would have made it worse.
fn missing(measure: &Measure, name: &str, side: DoubtfulSide<'_, '_>) -> Option<String> {
    let measured = || side.trials.iter().filter(|trial| is_measured(trial));
    let failed = failed_beside(side.trials, side.whole);
    let without = measured().filter(|trial| measure.value(trial).is_none()).count() + failed;
    (without > 0).then(|| {
        let trials = text::plural((measured().count() + failed) as u64, "trial");
        let what = match without - failed {
            0 => "failed",
            _ if failed > 0 => "failed or have no value",
            1 => "has no value",
            _ => "have no value",
        };
        format!("{without} of {trials} of {name} {what}, and may have been the worst")
    })
}

/// A kind that many more trials of one side carry.
fn carried(
    kind: WarningKind,
    measure: &Measure,
    more: NamedTrials<'_, '_>,
    less: NamedTrials<'_, '_>,
) -> Option<String> {
    let counts = [more.1, less.1].map(|trials| (carriers_in(trials, kind, measure), trials.len()));
    let [a, b] = counts.map(|(count, all)| count as f64 / all.max(1) as f64);
    let of = |(count, all): (usize, usize), name: &str| format!("{count} of {all} trials of {name}");
    (a - b > BEYOND)
        .then(|| format!("{kind} in {} and {} may explain it", of(counts[0], more.0), of(counts[1], less.0)))
}

/// Processor time that others took from two sides, from the first more than from the second.
struct Taken<'a> {
    kind: WarningKind,
    names: [&'a str; 2],
    /// Mean shares of all processors, of each side.
    shares: [f64; 2],
    /// By what factor that may have made the first side slower than the second.
    factor: f64,
}

impl<'a> Taken<'a> {
    /// `None` if a kind of warning is about something else, or if it is unknown how much was taken.
    fn of(
        kind: WarningKind,
        measure: &Measure,
        more: NamedTrials<'a, '_>,
        less: NamedTrials<'a, '_>,
    ) -> Option<Taken<'a>> {
        let of_phases: fn(&TrialRecord, &Measure) -> f64 = match kind {
            WarningKind::ForeignLoad => confounder::foreign_share,
            WarningKind::StealTime => confounder::steal_share,
            _ => return None,
        };
        let share = |trial: &TrialRecord| of_phases(trial, measure);
        let is_known = |trial: &&&TrialRecord| share(trial) > 0.0;
        let warned = more.1.iter().filter(|trial| carries_in(trial, kind, measure).is_some());
        if !warned.clone().all(|trial| is_known(&trial)) {
            return None;
        }
        let mean = |trials: &[&TrialRecord], of: &dyn Fn(&TrialRecord) -> f64| {
            trials.iter().map(|trial| of(trial)).sum::<f64>() / trials.len().max(1) as f64
        };
        let left = |trial: &TrialRecord| share_left(share(trial), confounder::processors(trial));
        let shares = [more.1, less.1].map(|trials| mean(trials, &share));
        let [of_more, of_less] = [more.1, less.1].map(|trials| mean(trials, &left));
        // What never reached the limit of a warning is the background of every machine.
        let factor = if warned.count() > 0 { of_less / of_more } else { 1.0 };
        Some(Taken { kind, names: [more.0, less.0], shares, factor })
    }

    /// The doubt if more was taken from the first side by as much as is worth a warning.
    fn clearly(&self) -> Option<String> {
        let limit = match self.kind {
            WarningKind::StealTime => confounder::STEAL_SHARE,
            _ => confounder::FOREIGN_SHARE,
        };
        (self.factor > 1.0 && self.shares[0] - self.shares[1] > limit)
            .then(|| self.words() + ", which may explain it")
    }

    /// The doubt if what was taken may be the whole of a difference.
    fn beyond(&self, ratio: &Ratio) -> Option<String> {
        let least = ratio.interval.map_or(1.0, |interval| interval.low.max(1.0 / interval.high));
        (self.factor > 1.0 && least <= self.factor).then(|| {
            format!(
                "{}, which may have made {} up to {:.2} times slower",
                self.words(),
                self.names[0],
                self.factor
            )
        })
    }

    fn words(&self) -> String {
        let [a, b] = self.shares.map(text::percent);
        let who = match self.kind {
            WarningKind::StealTime => "other virtual machines",
            _ => "other programs",
        };
        format!(
            "{who} had {a} of the processors in trials of {} and {b} in those of {} ({})",
            self.names[0], self.names[1], self.kind
        )
    }
}

/// The share of its speed that a load has at least, if others take this share of all processors: they may
/// take all of it from the processor that the load needs, but no more than half, because the scheduler shares
/// a processor evenly; unless they take more than half of all processors.
fn share_left(share: f64, processors: u32) -> f64 {
    1.0 - (share * f64::from(processors)).min(0.5).max(share.min(1.0))
}

/// A change of the machine itself that is as large as the difference.
fn moved(measure: &Measure, ratio: &Ratio, sides: [DoubtfulSide<'_, '_>; 2]) -> Option<String> {
    // A workload without this measure has a sentinel that says nothing about it.
    let drifts = sides.into_iter().filter_map(|side| drift(measure, side.whole));
    let mut drifts = drifts.filter(|drift| drift.measure == measure.name());
    drifts.find_map(|drift| {
        let factor = drift.factor().filter(|factor| ratio.value.ln().abs() <= factor.ln())?;
        let by = text::percent(factor - 1.0);
        Some(format!(
            "the sentinel of a sweep, {}, varied by {by} although nothing was changed, which may explain it",
            drift.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, blocks};
    use fsdyno_core::telemetry::{Sample, TaskKind, Telemetry};
    use fsdyno_core::{Nanos, Warning};
    use fsdyno_stats::independent;

    /// The doubt about the difference in `read` between two sides, A with these sentinels in its sweep.
    fn doubt_about(a: &[TrialRecord], b: &[TrialRecord], sentinels: &[TrialRecord]) -> Option<String> {
        doubt_on("read", a, b, sentinels)
    }

    fn doubt_on(
        measure: &str,
        a: &[TrialRecord],
        b: &[TrialRecord],
        sentinels: &[TrialRecord],
    ) -> Option<String> {
        let measure: Measure = measure.parse().unwrap();
        let values = |side: &[TrialRecord]| -> Vec<f64> {
            side.iter().filter_map(|trial| measure.value(trial)).map(|value| value.value).collect()
        };
        let ratio = independent(&values(a), &values(b)).unwrap();
        let whole = [[a, sentinels].concat(), b.to_vec()];
        let trials = [a, b].map(|side| side.iter().collect::<Vec<&TrialRecord>>());
        let sides = [0, 1].map(|side| DoubtfulSide { trials: &trials[side], whole: &whole[side] });
        let said = if ratio.value > 1.0 { Verdict::Larger } else { Verdict::Smaller };
        Doubt::of(&measure, &ratio, sides, ["A", "B"]).about(said).cloned()
    }

    /// These trials, during each of which others used this share of two processors.
    fn loaded(mut trials: Vec<TrialRecord>, share: f64) -> Vec<TrialRecord> {
        const WINDOW_NS: u64 = 30_000_000_000;
        let window = Sample {
            length_ns: Nanos(WINDOW_NS),
            task_ns: [(TaskKind::Process, (share * 2.0 * WINDOW_NS as f64) as u64)].into(),
            ..Sample::default()
        };
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.phases) {
            phase.telemetry =
                Some(Telemetry { processors: 2, window: window.clone(), ..Telemetry::default() });
        }
        let count = if share > confounder::FOREIGN_SHARE { trials.len() } else { 0 };
        warned(trials, count, WarningKind::ForeignLoad)
    }

    #[test]
    fn load_from_outside_explains_no_more_than_it_can_have_cost() {
        let side = |case, factor, share| loaded(blocks(case, "b", 6, factor), share);
        let doubt = |factor, share| doubt_about(&side(0, 1.0, 0.01), &side(1, factor, share), &[]);
        // With 7 % of two processors, one of them may have lost 14 %.
        assert_eq!(doubt(1.0 / 5.6, 0.07), None);
        assert_eq!(
            doubt(0.93, 0.07).as_deref(),
            Some(
                "other programs had 7.0 % of the processors in trials of B and 1.0 % in those of A \
                 (foreign-load), which may have made B up to 1.14 times slower"
            )
        );
        // With 40 %, any processor may have been shared by two.
        assert!(doubt(0.67, 0.4).is_some_and(|why| why.ends_with("may have made B up to 1.96 times slower")));
        assert_eq!(doubt(0.2, 0.4), None);
        assert_eq!(doubt(0.93, 0.02), None, "not worth a warning");
        assert_eq!(doubt(1.5, 0.4), None, "it did not make its side better");
        let both = doubt_about(&side(0, 1.0, 0.4), &side(1, 0.67, 0.4), &[]);
        assert_eq!(both, None, "the other one had the same");
    }

    /// One operation of a thousand that waited for a processor decides a p99.9.
    #[test]
    fn load_from_outside_explains_any_difference_of_the_slowest() {
        let slow = |mut trials: Vec<TrialRecord>| {
            for operation in trials
                .iter_mut()
                .flat_map(|trial| &mut trial.phases)
                .flat_map(|phase| &mut phase.roles)
                .flat_map(|role| &mut role.operations)
            {
                operation.lat_ns.quantiles[fsdyno_core::result::Quantile::P999] *= 5;
            }
            trials
        };
        let [a, b] = [loaded(blocks(0, "a", 6, 1.0), 0.01), slow(loaded(blocks(1, "b", 6, 1.0), 0.07))];
        let doubt = doubt_on("first-byte-p999", &a, &b, &[]);
        assert!(doubt.is_some_and(|why| why.ends_with("may explain it")));
    }

    /// A side, and another one that is slower by a third.
    fn sides() -> [Vec<TrialRecord>; 2] {
        [blocks(0, "a", 6, 1.0), blocks(1, "b", 6, 0.67)]
    }

    fn warned(mut trials: Vec<TrialRecord>, count: usize, kind: WarningKind) -> Vec<TrialRecord> {
        trials.iter_mut().take(count).for_each(|trial| trial.warnings.push(Warning::new(kind, "text")));
        trials
    }

    #[test]
    fn load_from_outside_explains_only_why_its_own_side_is_worse() {
        let [a, b] = sides();
        let foreign =
            |trials: &Vec<TrialRecord>, count| warned(trials.clone(), count, WarningKind::ForeignLoad);
        assert_eq!(doubt_about(&a, &b, &[]), None);
        assert_eq!(
            doubt_about(&a, &foreign(&b, 6), &[]).as_deref(),
            Some("foreign-load in 6 of 6 trials of B and 0 of 6 trials of A may explain it")
        );
        assert_eq!(doubt_about(&foreign(&a, 6), &b, &[]), None);
        assert_eq!(doubt_about(&foreign(&a, 6), &foreign(&b, 6), &[]), None);
        assert_eq!(doubt_about(&a, &foreign(&b, 3), &[]), None);
        let monitored = warned(b.clone(), 6, WarningKind::Monitored);
        assert!(doubt_about(&a, &monitored, &[]).is_some_and(|why| why.starts_with("monitored in 6 of 6")));
    }

    #[test]
    fn memory_explains_only_why_its_own_side_is_better() {
        let [a, b] = sides();
        let cached = doubt_about(&warned(a.clone(), 6, WarningKind::PageCache), &b, &[]).unwrap();
        assert!(cached.starts_with("page-cache in 6 of 6 trials of A"), "{cached}");
        assert_eq!(doubt_about(&a, &warned(b.clone(), 6, WarningKind::PageCache), &[]), None);
        // What the cache absorbed concerns writes.
        assert_eq!(doubt_about(&warned(a, 6, WarningKind::WriteCacheAbsorbed), &b, &[]), None);
    }

    #[test]
    fn what_is_known_of_another_phase_explains_nothing() {
        let [a, b] = sides();
        let in_phase = |name: &str| {
            let mut trials = b.clone();
            let foreign = Warning::new(WarningKind::ForeignLoad, "text").in_phase(name);
            trials.iter_mut().for_each(|trial| trial.warnings.push(foreign.clone()));
            doubt_about(&a, &trials, &[])
        };
        assert_eq!(in_phase("3 readers, 3 writers"), None, "`read` is of one reader");
        assert!(
            in_phase("1 reader").is_some_and(|why| why.starts_with("foreign-load in 6 of 6 trials of B"))
        );
    }

    #[test]
    fn a_sentinel_that_moved_further_than_the_difference_explains_it() {
        let [a, b] = sides();
        let sentinels = |end: f64| -> Vec<TrialRecord> {
            let trial = |number: u32| {
                let rate = 50.0 * end.powf(f64::from(number) / 7.0);
                let configuration = fixture::configuration("ext4", "bfq");
                let trial = fixture::trial(100 + number, number, 9, configuration, rate);
                TrialRecord { sentinel: true, ..trial }
            };
            (0..8).map(trial).collect()
        };
        let twofold = doubt_about(&a, &b, &sentinels(2.02)).unwrap();
        assert!(twofold.contains("varied by 102.0 % although nothing was changed"), "{twofold}");
        assert_eq!(doubt_about(&a, &b, &sentinels(1.3)), None, "it is less than the difference");
    }
}
