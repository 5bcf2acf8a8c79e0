//! Judges the trials of one workload.
//!
//! The judgement rests on the comparisons of [`standing`](super::standing): each configuration against the
//! best, corrected for all pairs. "Use" is said of a winner only, which is better than the default and than
//! all others that are not as good, and materially worse in no guard measure. Otherwise the default is kept:
//! of the configurations that weaken nothing the one with the fewest settings changed, the first of the plan
//! among equals.
//!
//! **Guard measures** are those that a workload declares
//! ([`Load::guards`](fsdyno_core::workload::Load::guards)); [`price`](super::price) says when one is
//! materially worse.

use super::contender::{Compared, Contender, ContenderVerdict, called, default, of_case};
use super::faults;
use super::price::{Change, Loss, Trials};
use super::recipe::quoted;
use super::too_few_operations;
use super::words::{quantity, times_or_percent, trials_do, turned};
use crate::confounder;
use crate::doubt;
use crate::judgement::{Class, Judgement};
use crate::load::{Load, held_at, held_rate};
use crate::outcomes::{carriers, carriers_in};
use crate::race::RaceAnswer;
use crate::ratios::Ratios;
use crate::text::{self, listed};
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::result::LifecycleStep;
use fsdyno_core::{DeviceSpec, Nanos, Role, TrialRecord, WarningKind, Workload};
use std::collections::BTreeSet;

/// The most configurations that a headline names.
const NAMED: usize = 3;
/// If other programs used more than this share of all processors on average, or so much as is worth a warning
/// in half of the trials, the page advises measuring again.
const BUSY: f64 = 0.25;

/// The step after which each trial has a value.
const LONGER: &str = "Make the windows longer, so that each trial has enough operations.";

/// A judgement with the configurations that it is about, as indices of the standings.
pub(super) struct Decided {
    pub judgement: Judgement,
    /// The configuration to use; of winners only.
    pub winner: Option<usize>,
    /// The default, which is kept unless there is a winner.
    pub default: Option<usize>,
    /// The configuration that is ahead.
    pub leader: Option<usize>,
    /// The one that this is compared with.
    pub baseline: Option<usize>,
}

/// The evidence that a judgement is based on.
pub(super) struct Evidence<'a, 't> {
    /// The sweep, as commands take it.
    pub sweep: &'a str,
    pub measure: &'a Measure,
    pub load: &'a Load<'a>,
    pub standings: &'a [Contender],
    /// All trials of the sweep.
    pub whole: &'a [TrialRecord],
    /// The measures that must not become worse unnoticed.
    pub guards: &'a [Measure],
    /// Names of configurations of which every trial failed.
    pub failed_always: &'a [String],
    /// The next step that all failed trials have in common.
    pub hint: Option<&'a str>,
    /// The ratios in the measure that decides.
    pub ratios: &'a Ratios<'a>,
    /// The trials that are compared.
    pub with: Trials<'a, 't>,
    /// `true` if trials can be added with `sweep --more`.
    pub can_add: bool,
}

impl Evidence<'_, '_> {
    /// Judges.
    pub fn judge(&self) -> Decided {
        let standings = self.standings;
        let default = default(standings);
        let best = standings.iter().position(|one| one.verdict == ContenderVerdict::Best);
        let (Some(best), Some(default)) = (best, default) else {
            let headline = format!("No trial has a value of {}.", self.measure);
            let judgement = Judgement { class: Class::Invalid, headline, next: None };
            return Decided { judgement, winner: None, default: None, leader: None, baseline: None };
        };
        let keep = |class, headline: String, next| Decided {
            judgement: Judgement { class, headline, next },
            winner: None,
            default: Some(default),
            leader: Some(best),
            baseline: self.baseline(best, default),
        };
        if let Some((why, next)) = self.not_what_was_asked(&standings[best]) {
            let headline = format!("This sweep cannot answer: {why}.{}", self.kept(default));
            return keep(Class::Invalid, headline, Some(self.and_idle(next)));
        }
        if let Some(rate) = held_rate(self.load.workload, self.measure)
            && !standings.iter().any(is_worse)
        {
            let headline = format!("This sweep cannot answer: {}.{}", held_at(rate), self.kept(default));
            let next = "To compare writes, set `write_rate = \"closed\"`.".to_string();
            return keep(Class::Invalid, headline, Some(next));
        }
        if standings[best].zero == standings[best].with_value {
            let measure = self.measure.in_words();
            let headline = match self.measure.name() {
                super::words::CAPACITY => {
                    "No configuration met the target at any rate that was tried.".to_string()
                }
                _ => format!("Nothing was achieved in any trial: {measure} is 0 everywhere."),
            };
            return keep(Class::NoDifference, headline, None);
        }
        if self.runner_up(best).is_none() {
            let class = if self.failed_always.is_empty() { Class::Undecided } else { Class::Invalid };
            let lacks = standings.iter().any(|one| one.value.is_none() && one.trials > 0);
            let next = lacks.then(|| LONGER.to_string());
            return keep(class, self.alone(&standings[best]), next);
        }
        if standings[best].is_durable()
            && !standings.iter().any(|one| one.case != standings[best].case && one.is_durable())
        {
            return keep(Class::NoDifference, self.only_safe(&standings[best]), None);
        }
        let undecided = |one: &&Contender| matches!(one.verdict, ContenderVerdict::CannotTell { .. });
        let open: Vec<&Contender> = self.rivals(best).filter(undecided).collect();
        if !open.is_empty() {
            if let Some(most) = self.most_to_gain(best, default) {
                return keep(Class::NoDifference, self.nothing_better(default, most), None);
            }
            if open.iter().all(|one| one.doubt.is_some()) && open.len() == self.rivals(best).count() {
                let why = first_doubt(&open, default, standings);
                let headline =
                    format!("This sweep cannot answer: {why}.{}{}", self.failed(), self.kept(default));
                return keep(Class::Invalid, headline, Some(self.out_of_doubt(best, &open)));
            }
            let (headline, next) = self.undecided(best, default, &open);
            return keep(Class::Undecided, headline, Some(next));
        }
        let as_good = self.rivals(best).filter(|one| one.verdict == ContenderVerdict::AsGood).count();
        if best_or_as_good(&standings[default]) && as_good > 0 {
            return keep(Class::NoDifference, self.no_difference(default), None);
        }
        let chosen = self.simplest(best, default);
        let headline = self.winner(chosen, self.baseline(chosen, default), default);
        self.unless_guarded(chosen, default, Judgement { class: Class::Winner, headline, next: None })
    }

    /// The judgement of a race, unless its pick is worse in a guard measure.
    pub fn judge_race(&self, race: &RaceAnswer) -> Decided {
        let of = |case: u32| self.standings.iter().position(|one| one.case == case && one.value.is_some());
        let mut judgement = race.judgement.clone();
        let (pick, default) = (of(race.pick.case), of(race.default.case));
        match (judgement.class, pick) {
            (Class::Winner, Some(pick)) => self.unless_guarded(pick, default.unwrap_or(pick), judgement),
            _ => {
                let baseline = pick.zip(default).and_then(|(pick, default)| self.baseline(pick, default));
                judgement.headline += &pick.map_or(String::new(), |pick| self.price(pick, baseline));
                judgement.next = self.and_on_a_quiet_machine(judgement.next);
                Decided { judgement, winner: None, default, leader: pick, baseline }
            }
        }
    }

    /// A winner, or a trade-off if it is materially worse in a guard measure.
    fn unless_guarded(&self, chosen: usize, default: usize, winner: Judgement) -> Decided {
        let baseline = self.baseline(chosen, default);
        let loss = self.guard_loss(chosen, baseline);
        let mut judgement = loss.as_ref().map_or(winner, |loss| Judgement {
            class: Class::TradeOff,
            headline: self.trade_off(chosen, baseline, default, loss),
            next: self.beside_the_same_writes(loss),
        });
        judgement.next = self.and_on_a_quiet_machine(judgement.next);
        let winner = loss.is_none().then_some(chosen);
        Decided { judgement, winner, default: Some(default), leader: Some(chosen), baseline }
    }

    /// Returns the advice on comparing readers if those that gain are the ones beside slow writers.
    fn beside_the_same_writes(&self, loss: &Loss) -> Option<String> {
        let Workload::Fileserver(load) = self.load.workload else { return None };
        let is_closed = load.write_rate.is_none() && !self.is_imported();
        (is_closed && loss.measure.role() == Some(Role::Writer)).then(|| {
            "Nothing limited the writers. To compare readers beside the same writes, set their rate, \
             `write_rate`."
                .to_string()
        })
    }

    /// Returns the configuration that the chosen one is compared with: the default, or if that was chosen
    /// itself, the best other one.
    fn baseline(&self, chosen: usize, default: usize) -> Option<usize> {
        if chosen == default { self.runner_up(chosen) } else { Some(default) }
    }

    /// The configurations that may win against the best.
    fn rivals(&self, best: usize) -> impl Iterator<Item = &Contender> {
        let best = &self.standings[best];
        self.standings.iter().filter(|one| one.is_rival_of(best))
    }

    /// The best of the others.
    fn runner_up(&self, chosen: usize) -> Option<usize> {
        let mut others =
            self.standings.iter().enumerate().filter(|(index, one)| *index != chosen && one.value.is_some());
        let durable = others.clone().find(|(_, one)| one.is_durable());
        durable.or_else(|| others.next()).map(|(index, _)| index)
    }

    /// Of the best and those as good, the one with the fewest settings changed, if it is itself shown to be
    /// better than the default.
    fn simplest(&self, best: usize, default: usize) -> usize {
        if best == default {
            return best;
        }
        let is_better = |one: &Contender| {
            let ratio = self.ratio(default, one)?;
            let [low, high] = ratio.interval?;
            Some(match self.measure.direction() {
                Direction::HigherIsBetter => low > 1.0 + self.with.threshold,
                Direction::LowerIsBetter => high < 1.0 / (1.0 + self.with.threshold),
            })
        };
        let as_good = self.standings.iter().enumerate().filter(|(_, one)| {
            one.verdict == ContenderVerdict::AsGood && one.is_durable() == self.standings[best].is_durable()
        });
        let simpler = as_good.filter(|(_, one)| one.changes < self.standings[best].changes);
        let simpler = simpler.filter(|(_, one)| is_better(one) == Some(true));
        simpler.min_by_key(|(_, one)| one.changes).map_or(best, |(index, _)| index)
    }

    /// The largest possible gain over the default, if it is immaterial for every other configuration. Because
    /// it must be immaterial for all of them, no correction for multiple comparisons is needed (R. L. Berger,
    /// "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24(4), 1982).
    fn most_to_gain(&self, best: usize, default: usize) -> Option<f64> {
        let of_default = &self.standings[default];
        let sound = |one: &Contender| one.is_complete() && one.doubt.is_none() && !one.at_least;
        let matters = |one: &&Contender| one.case != of_default.case && !is_worse(one);
        let mut most = 0.0_f64;
        for one in self.rivals(best).chain([&self.standings[best]]).filter(matters) {
            let [low, high] = self.ratio(default, one)?.interval?;
            most = most.max(match self.measure.direction() {
                Direction::HigherIsBetter => high - 1.0,
                Direction::LowerIsBetter => 1.0 / low - 1.0,
            });
            if !sound(one) {
                return None;
            }
        }
        (sound(of_default) && most <= self.with.threshold).then_some(most)
    }

    fn nothing_better(&self, default: usize, most: f64) -> String {
        format!(
            "Keep the {}, '{}': no other is materially better in {} (by {} at most, 95 %).{}",
            called(self.standings, default),
            self.standings[default].name,
            self.measure.in_words(),
            text::at_most(most),
            self.failed()
        )
    }

    /// The ratio of one to another: the one that the table shows, as far as the best is one of the two.
    fn ratio(&self, from: usize, to: &Contender) -> Option<Compared> {
        let from = &self.standings[from];
        match (from.verdict, to.verdict) {
            (ContenderVerdict::Best, _) => to.to_best,
            (_, ContenderVerdict::Best) => from.to_best.as_ref().map(turned),
            _ => self.ratios.of(from.case, to.case).map(|ratio| Compared::new(&ratio, ratio.p)),
        }
    }

    /// Says that what was measured, of most trials or of the best, is not what was asked, and what to change.
    /// A configuration that is worse although memory helped it is worse all the same.
    fn not_what_was_asked(&self, best: &Contender) -> Option<(String, String)> {
        let trials = self.with.trials;
        let from_memory = [WarningKind::PageCache, WarningKind::CachesNotDropped];
        // A load that is not meant to leave memory answers what was asked.
        let leaves_memory = self.load.workload.load().rereads().is_some();
        let found = from_memory.into_iter().filter(|kind| {
            doubt::bears_on(*kind, self.measure) && (leaves_memory || *kind != WarningKind::PageCache)
        });
        let of_best: Vec<&TrialRecord> = of_case(trials, best.case).collect();
        let whose = format!(" of '{}', the best measured,", best.name);
        let among = [(trials, ""), (&of_best, whose.as_str())];
        let mut found = found.flat_map(|kind| among.map(|(trials, whose)| (kind, trials, whose)));
        let (kind, carriers, all, whose) = found.find_map(|(kind, trials, whose)| {
            let carriers = carriers_in(trials, kind, self.measure);
            (2 * carriers > trials.len()).then_some((kind, carriers, trials.len(), whose))
        })?;
        let why = match kind {
            WarningKind::PageCache => "read from memory instead of the device",
            _ => "began with what was still in memory",
        };
        let remedy = self.load.remedy_for_memory(trials).unwrap_or_else(|| sentence(kind.remedy()));
        Some((format!("{carriers} of {}{whose} {why}", text::plural(all as u64, "trial")), remedy))
    }

    /// Adds the advice to use an idle machine, if other programs used much of this one.
    fn and_on_a_quiet_machine(&self, next: Option<String>) -> Option<String> {
        match next {
            Some(next) => Some(self.and_idle(next)),
            None => self.was_busy().then(|| {
                "Measure again while the machine does nothing else, before you rely on this.".to_string()
            }),
        }
    }

    fn and_idle(&self, next: String) -> String {
        match self.was_busy() {
            true => format!("{next} And measure while the machine does nothing else."),
            false => next,
        }
    }

    /// Returns whether other programs used much of the machine.
    fn was_busy(&self) -> bool {
        let trials = self.with.trials;
        let shares = trials.iter().map(|trial| confounder::foreign_share(trial, self.measure));
        let often = 2 * carriers_in(trials, WarningKind::ForeignLoad, self.measure) >= trials.len();
        shares.sum::<f64>() > BUSY * trials.len() as f64 || (often && !trials.is_empty())
    }

    /// ` Keep the default, 'ext4'.`
    fn kept(&self, default: usize) -> String {
        // A single one is no choice.
        match self.standings.len() {
            1 => String::new(),
            _ => {
                format!(" Keep the {}, '{}'.", called(self.standings, default), self.standings[default].name)
            }
        }
    }

    /// Names the guard measure in which the leader is materially worse, if there is one.
    fn price(&self, chosen: usize, baseline: Option<usize>) -> String {
        let loss = self.guard_loss(chosen, baseline);
        let name = &self.standings[chosen].name;
        loss.map_or(String::new(), |loss| format!(" The price of '{name}' would be {}.", loss.in_words()))
    }

    fn alone(&self, one: &Contender) -> String {
        let without = self.standings.iter().filter(|other| other.value.is_none());
        let without: Vec<String> = without.map(|other| other.name.clone()).collect();
        let rest = match self.failed_always {
            [] if !without.is_empty() => format!(
                "no trial of {} has a value of it{}",
                names(&without),
                too_few_operations(Some(self.measure), self.with.trials)
            ),
            [] => "there is nothing to compare it with".to_string(),
            failed => format!("nothing else was measured: every trial of {} failed", names(failed)),
        };
        format!("'{}' has {}, and {rest}.", one.name, self.figure(one))
    }

    fn only_safe(&self, one: &Contender) -> String {
        format!(
            "Keep '{}': {}. Each other configuration measured weakens what survives a power cut, by its \
             settings or as seen here.{}",
            one.name,
            self.figure(one),
            self.failed()
        )
    }

    fn winner(&self, chosen: usize, baseline: Option<usize>, default: usize) -> String {
        let one = &self.standings[chosen];
        let itself = if chosen == default {
            format!(", the {}", called(self.standings, default))
        } else {
            String::new()
        };
        let than =
            baseline.map_or(String::new(), |other| format!(", {}", self.compared(chosen, other, default)));
        let as_good = self.standings.iter().filter(|other| other.case != one.case && best_or_as_good(other));
        let as_good: Vec<String> = as_good.map(|other| other.name.clone()).collect();
        let others = match &as_good[..] {
            [] => String::new(),
            [only] => format!(" '{only}' is as good."),
            several => format!(" {} others are as good.", several.len()),
        };
        format!("Use '{}'{itself}: {}{than}.{others}{}", one.name, self.figure(one), self.failed())
    }

    /// `38 % more than the default, 'ext4' [29 %, 47 %]`.
    fn compared(&self, chosen: usize, other: usize, default: usize) -> String {
        let of = &self.standings[other];
        let name = match other == default {
            true => format!("the {}, '{}'", called(self.standings, default), of.name),
            false => format!("'{}'", of.name),
        };
        match self.ratio(other, &self.standings[chosen]) {
            Some(ratio) => times_or_percent(&ratio, &name),
            None => match self.faults(of) {
                Some([_, silent, again]) => format!("where {name} has {silent} and {again}"),
                None => format!("where {name} has {}", quantity(self.measure, of)),
            },
        }
    }

    fn trade_off(&self, chosen: usize, baseline: Option<usize>, default: usize, loss: &Loss) -> String {
        let one = &self.standings[chosen];
        let than =
            baseline.map_or(String::new(), |other| format!(", {}", self.compared(chosen, other, default)));
        let unsure = match chosen == default {
            true => String::new(),
            false => format!(" If you cannot say, keep the {}.", called(self.standings, default)),
        };
        format!(
            "No winner: '{}' has {}{than}, but {}. Which matters more?{unsure}",
            one.name,
            self.figure(one),
            loss.in_words()
        )
    }

    fn no_difference(&self, default: usize) -> String {
        let all = self.standings.iter().filter(|one| one.value.is_some()).count();
        let alike = self.standings.iter().filter(|one| best_or_as_good(one));
        let alike: Vec<String> = alike.map(|one| one.name.clone()).collect();
        // What is counted is the same or not.
        let is_counted = self.measure.is_often_zero() || self.measure.is_of_faults();
        let within = if is_counted {
            String::new()
        } else {
            format!(" (within {})", text::percent(self.with.threshold))
        };
        let between = match alike.len() {
            0..=NAMED if alike.len() == all => names(&alike),
            0..=NAMED => format!("{}, of {all}", names(&alike)),
            several if several == all => format!("the {all}"),
            several => format!("{several} of {all}"),
        };
        let what = self.measure.in_words();
        if let Some(logs) = self.fewest_logs() {
            let losing = self.standings.iter().filter(|one| one.value.is_some() && !best_or_as_good(one));
            let losing: Vec<String> =
                losing.map(|one| format!(" '{}' lost {}.", one.name, self.range_of_losses(one))).collect();
            return format!(
                "No difference shown in {what} between {between}: none lost any, in {} of each or more.{} Keep \
                 the {}, '{}'.{}",
                text::plural(logs as u64, "log"),
                losing.concat(),
                called(self.standings, default),
                self.standings[default].name,
                self.failed()
            );
        }
        format!(
            "No material difference{within} in {what} between {between}.{} Keep the {}, '{}'.{}",
            self.fewest_hidden(default),
            called(self.standings, default),
            self.standings[default].name,
            self.failed()
        )
    }

    /// The fewest logs of one of those that lost nothing; `None` if another measure decides.
    fn fewest_logs(&self) -> Option<usize> {
        let alike = self.standings.iter().filter(|one| self.measure.is_often_zero() && best_or_as_good(one));
        alike.filter_map(|one| Some(one.losses.as_ref()?.logs)).min()
    }

    /// Who is ahead among those that lose nothing, or the same, without an error.
    fn fewest_hidden(&self, default: usize) -> String {
        let first = self.standings.iter().find(|one| best_or_as_good(one));
        let of = |one: &Contender| self.faults(one).map(|[tested, _, hidden]| (hidden, tested));
        match first.and_then(|first| Some((first, of(first)?, of(&self.standings[default])?))) {
            Some((first, (least, tested), (own, _))) if least < own => format!(
                " The fewest losses that a second fsync hides ('false success') has '{}': {least} of {tested} \
                 faults; the {} {own}.",
                first.name,
                called(self.standings, default)
            ),
            _ => String::new(),
        }
    }

    fn undecided(&self, best: usize, default: usize, open: &[&Contender]) -> (String, String) {
        let (leader, of_default) = (&self.standings[best], &self.standings[default]);
        let (keep, called) = (self.kept(default), called(self.standings, default));
        let fewest = open.iter().map(|one| one.with_value).min().unwrap_or(0).min(leader.with_value);
        let others = match open {
            [only] if only.case == of_default.case => format!("the {called}, '{}'", only.name),
            few if few.len() < NAMED => names(&few.iter().map(|one| one.name.clone()).collect::<Vec<_>>()),
            many => format!("'{}' and {} others", many[0].name, many.len() - 1),
        };
        let why = match open.iter().all(|one| one.doubt.is_some()) {
            true => format!(" ({})", first_doubt(open, default, self.standings)),
            false => String::new(),
        };
        let apart = format!("{} not tell it from {others}{why}", trials_do(leader, open));
        let headline = match of_default.verdict {
            ContenderVerdict::Worse => {
                let price = self.price(best, Some(default));
                format!(
                    "No winner yet: '{}' has {}, {}, but {apart}.{price} Keep the {called} until that \
                     is decided.",
                    leader.name,
                    self.figure(leader),
                    self.compared(best, default, default)
                )
            }
            _ => match self.less_than_the_machine_varies() {
                Some(why) => format!("No winner yet: {why}.{keep}"),
                None if best == default => format!(
                    "No winner yet: '{}' has {}, the best measured, but {apart}. Keep it: it is the {called}.",
                    leader.name,
                    self.figure(leader)
                ),
                None => format!(
                    "No winner yet: '{}' has {}, the best measured, but {apart}.{keep}",
                    leader.name,
                    self.figure(leader)
                ),
            },
        };
        let beaten = self.standings.iter().filter(|one| one.verdict == ContenderVerdict::WorseThanDefault);
        let beaten: Vec<String> = beaten.map(|one| one.name.clone()).collect();
        let beaten = match &beaten[..] {
            [] => String::new(),
            [only] => format!(" '{only}' is worse than the {called}."),
            several => format!(" {} are worse than the {called}.", names(several)),
        };
        let next = match why.is_empty() {
            true => self.and_idle(self.to_decide(open, fewest)),
            false => self.out_of_doubt(best, open),
        };
        (headline + &beaten + &self.failed(), next)
    }

    /// Returns the step after which nothing but the configurations may explain a difference.
    fn out_of_doubt(&self, best: usize, open: &[&Contender]) -> String {
        let mut sides = open.iter().copied().chain([&self.standings[best]]);
        let failed = sides.clone().any(|one| one.failed > 0);
        let first = match self.hint {
            Some(hint) if failed => format!("{} Then measure again.", sentence(hint)),
            None if failed => {
                "Find out why trials failed (`fsdyno show --notes`), and measure again.".to_string()
            }
            _ if sides.any(|one| one.with_value < one.trials) => LONGER.to_string(),
            _ => return "Measure again what is in doubt, while the machine does nothing else.".to_string(),
        };
        self.and_idle(first)
    }

    /// Returns the step that would decide between these; `fewest` is their smallest number of trials.
    fn to_decide(&self, open: &[&Contender], fewest: usize) -> String {
        let needed = open.iter().map(|one| match one.verdict {
            ContenderVerdict::CannotTell { needed } => needed,
            _ => None,
        });
        let needed = needed.collect::<Option<Vec<usize>>>().and_then(|needed| needed.into_iter().max());
        // Two trials are too few to estimate how many are needed.
        let begins = fewest < 2 || fewest < 3 && needed.is_none();
        match needed.filter(|needed| *needed > fewest) {
            _ if begins && !self.can_add => "To decide, begin with 6 trials of each.".to_string(),
            _ if begins => format!("To decide, begin with 6 blocks ({}).", self.adding(6 - fewest)),
            Some(needed) if !self.can_add => format!("To decide: about {needed} trials of each."),
            Some(needed) => format!("To decide: about {needed} blocks ({}).", self.adding(needed - fewest)),
            None => self.unless_trees_fit().unwrap_or_else(|| {
                "More trials alone hardly decide this: what would help is longer windows, or a machine on which \
                 one and the same trial varies less."
                    .to_string()
            }),
        }
    }

    /// Returns the command that adds so many blocks, and the time that they take.
    fn adding(&self, blocks: usize) -> String {
        let disks = self.with.trials.first().map_or(Vec::new(), |trial| trial.configuration.device.disks());
        let confirmed = disks.into_iter().filter_map(|disk| match disk {
            DeviceSpec::Block(block) => Some(format!(" --destroy {}", quoted(&block.path.to_string_lossy()))),
            _ => None,
        });
        let command = format!("fsdyno sweep --more {blocks} {}{}", self.sweep, confirmed.collect::<String>());
        let took = self.whole.iter().filter_map(|trial| LifecycleStep::Total.of(&trial.lifecycle_ns));
        let took: f64 = took.map(Nanos::as_secs_f64).sum();
        let measured: BTreeSet<u32> = self.whole.iter().map(|trial| trial.block).collect();
        let minutes = (took * blocks as f64 / measured.len().max(1) as f64 / 60.0).ceil();
        let time = (minutes > 0.0).then(|| format!(" in about {}", Nanos::from_secs(60 * minutes as u64)));
        format!("`{command}` adds them{}", time.unwrap_or_default())
    }

    /// Returns the advice on what to set if most trials may have read from memory, which no telemetry has
    /// seen.
    fn unless_trees_fit(&self) -> Option<String> {
        let fit = doubt::bears_on(WarningKind::PageCache, self.measure)
            && 2 * carriers(self.with.trials, WarningKind::TreeSmallerThanMemory) > self.with.trials.len();
        fit.then(|| self.load.remedy_for_memory(self.with.trials)).flatten()
    }

    /// Returns whether trials come from a file, so that nothing can be added to them.
    fn is_imported(&self) -> bool {
        carriers(self.with.trials, WarningKind::Imported) > 0
    }

    /// Says so if none is shown to differ from the best, and the means of all differ by less than two trials
    /// of one configuration in the same block.
    fn less_than_the_machine_varies(&self) -> Option<String> {
        let is_shown = |one: &Contender| {
            let interval = one.to_best.and_then(|ratio| ratio.interval);
            is_worse(one) || interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
        };
        if self.standings.iter().any(is_shown) {
            return None;
        }
        let (low, high) = self.ratios.furthest_apart()?;
        let means = || self.standings.iter().filter_map(|one| one.value);
        let (least, most) = (means().fold(f64::MAX, f64::min), means().fold(0.0, f64::max));
        (least > 0.0 && high / low > most / least).then(|| {
            format!(
                "the {} differ less than this machine itself varies ({} and {} for one and the same in one block)",
                means().count(),
                text::quantity(self.measure, low, false),
                text::quantity(self.measure, high, false),
            )
        })
    }

    /// The first guard measure in which the chosen one is materially worse than the baseline, or than the
    /// best of the others.
    fn guard_loss(&self, chosen: usize, baseline: Option<usize>) -> Option<Loss> {
        let own = &self.standings[chosen];
        let mut others: Vec<usize> = baseline.into_iter().chain(self.runner_up(chosen)).collect();
        others.dedup();
        let mut pairs = self.guards.iter().flat_map(|guard| others.iter().map(move |other| (guard, *other)));
        pairs.find_map(|(guard, other)| match self.with.change(guard, own, &self.standings[other]) {
            Change::Worse(loss) => Some(loss),
            _ => None,
        })
    }

    /// `34.5 MB/s (reads while others write)`.
    fn figure(&self, one: &Contender) -> String {
        match self.faults(one) {
            Some([tested, silent, again]) => {
                format!("{silent} silent losses and {again} that a second fsync hides, after {tested} faults")
            }
            None => format!("{} ({})", self.range_of_losses(one), self.measure.in_words()),
        }
    }

    /// The value of the measure; for losses, the range over all models of the disk's cache.
    fn range_of_losses(&self, one: &Contender) -> String {
        let losses = one.losses.as_ref().filter(|_| self.measure.is_often_zero());
        let rates = losses.iter().flat_map(|losses| &losses.models).filter_map(|one| one.acknowledged.rate);
        let (least, most) = (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max));
        match least < most {
            true => {
                let [least, most] = [least, most].map(|rate| text::quantity(self.measure, rate, false));
                format!("{least} to {most}, by the disk's cache")
            }
            false => quantity(self.measure, one),
        }
    }

    /// See [`faults::counts`]; `None` if another measure decides.
    fn faults(&self, one: &Contender) -> Option<[usize; 3]> {
        faults::counts(self.measure, self.with.trials, one.case)
    }

    fn failed(&self) -> String {
        match self.failed_always {
            [] => String::new(),
            failed => format!(" Every trial of {} failed.", names(failed)),
        }
    }
}

fn is_worse(one: &Contender) -> bool {
    matches!(one.verdict, ContenderVerdict::Worse | ContenderVerdict::WorseThanDefault)
}

fn best_or_as_good(one: &Contender) -> bool {
    matches!(one.verdict, ContenderVerdict::Best | ContenderVerdict::AsGood)
}

fn names(of: &[String]) -> String {
    listed(&of.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>())
}

/// The doubt of the first of these; prefers the default.
fn first_doubt<'a>(open: &[&'a Contender], default: usize, standings: &[Contender]) -> &'a str {
    let about_default = open.iter().find(|one| one.case == standings[default].case);
    about_default.unwrap_or(&open[0]).doubt.as_deref().unwrap_or_default()
}

/// A remedy as a sentence of its own.
fn sentence(remedy: &str) -> String {
    let mut letters = remedy.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
