//! Sweeps whose trials decide how many there are: what the trials so far have decided, and at which level.
//!
//! Such a sweep is judged after each of its blocks, and ends once that decides ([`settled`]). Looking at the
//! trials again and again finds more by chance than looking once, so every ratio that is compared then gets
//! the interval and the p value that hold after all looks at once
//! ([`Ratio::at_any_time`](fsdyno_stats::Ratio::at_any_time)). The looks are part of what is stored of the
//! sweep ([`Looks`]), and whoever judges its trials later uses the same level, however many blocks are added.
//!
//! The bound of a race ([`crate::race`]) is another one: it says how much better any configuration can be
//! than the one that was picked, given what configurations with common settings are expected to have in
//! common, and its level is one of simulations. A sweep here compares few configurations and has every block
//! complete, so it needs no such expectations, and its level is exact for lognormal noise.

use crate::judgement::Class;
use crate::recommendation::{Answer, Contender, ContenderVerdict, Question, Recommendation};
use crate::text;
use fsdyno_core::{Looks, Measure, SweepHeader, TrialRecord, WarningKind};

/// The state of the decision after the trials so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// A configuration is better than all others, or nothing that could matter differs.
    Decided,
    /// More blocks of the same cannot decide.
    Hopeless,
    /// These configurations may still be the best, by name.
    Open(Vec<String>),
}

/// Configurations that are named while nothing is decided.
const NAMED: usize = 4;

/// Returns the recommendation that the trials give after these looks at them, by the rules of every answer.
pub fn judge(trials: &[TrialRecord], measure: &Measure, seed: u64, looks: &Looks) -> Recommendation {
    let mut trials = trials.to_vec();
    for trial in &mut trials {
        // Of an earlier run, when they may have been marked already.
        trial.warnings.retain(|warning| warning.kind != WarningKind::MeasuredAgain);
        looks.mark(trial);
    }
    let header = SweepHeader {
        id: String::new(),
        name: String::new(),
        plan_toml: String::new(),
        overrides: Vec::new(),
        started: String::new(),
        finished: Some(String::new()),
        seed,
        measure: measure.clone(),
        race: None,
        looks: looks.clone(),
        selected: None,
    };
    Recommendation::new(&header, &trials, &Question::default())
}

/// Returns the state of the decision in the answers for all workloads together.
pub fn settled(recommendation: &Recommendation) -> Settled {
    let mut open: Vec<String> = Vec::new();
    let mut hopeless = false;
    // What power cuts lose is decided by other rules, and what has no figures by none.
    let is_judged = |answer: &&Answer| {
        !answer.standings.is_empty() && answer.standings.iter().all(|one| one.losses.is_none())
    };
    let judged: Vec<&Answer> = recommendation.answers.iter().filter(is_judged).collect();
    if judged.is_empty() {
        return Settled::Hopeless;
    }
    for answer in judged {
        match settled_for(answer) {
            Settled::Decided => {}
            Settled::Hopeless => hopeless = true,
            Settled::Open(names) => {
                open.extend(names.into_iter().filter(|name| !open.contains(name)).collect::<Vec<_>>())
            }
        }
    }
    match (open.is_empty(), hopeless) {
        (false, _) => Settled::Open(open),
        (true, true) => Settled::Hopeless,
        (true, false) => Settled::Decided,
    }
}

/// Returns the state of the decision in one answer: nothing is decided as long as a rival of the best may be
/// as good or better.
fn settled_for(answer: &Answer) -> Settled {
    if matches!(answer.judgement.class, Class::Winner | Class::TradeOff | Class::NoDifference) {
        return Settled::Decided;
    }
    let best = answer.standings.iter().find(|one| one.verdict == ContenderVerdict::Best);
    let Some(best) = best else { return Settled::Hopeless };
    let is_open = |one: &&Contender| matches!(one.verdict, ContenderVerdict::CannotTell { .. });
    let rivals = answer.standings.iter().filter(|one| one.is_rival_of(best));
    let open: Vec<&Contender> = rivals.filter(is_open).collect();
    // A trial that failed or has no value may be the worst of its configuration, however many follow.
    let lacks = |one: &Contender| !(one.is_complete() && best.is_complete());
    match &open[..] {
        [] => Settled::Hopeless,
        open if open.iter().all(|one| one.doubt.is_some() && lacks(one)) => Settled::Hopeless,
        open => {
            let names = std::iter::once(best).chain(open.iter().copied());
            Settled::Open(names.map(|one| one.name.clone()).collect())
        }
    }
}

/// Returns a line that reports what the trials of so many blocks say.
pub fn said(blocks: u32, settled: &Settled, recommendation: &Recommendation) -> String {
    let after = format!("after {}", text::plural(blocks.into(), "block"));
    match settled {
        Settled::Open(names) => {
            let named: Vec<String> = names.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
            let rest = match names.len() - named.len() {
                0 => String::new(),
                rest => format!(" and {}", text::plural(rest as u64, "other")),
            };
            format!("{after}: undecided between {}{rest}", named.join(", "))
        }
        Settled::Hopeless => format!("{after}: undecided, and more blocks would not decide it"),
        Settled::Decided => {
            let firsts: Vec<&str> =
                recommendation.answers.iter().map(|answer| answer.judgement.headline.as_str()).collect();
            format!("{after}: decided. {}", firsts.join(" "))
        }
    }
}

#[cfg(test)]
mod tests;
