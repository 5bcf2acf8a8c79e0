//! `write_rate = "auto"`, the default where configurations are compared: measures how fast a file server's
//! writers can go, once, before the sweep.
//!
//! In a closed loop, a filesystem with slow writers leaves more of the device to its readers. At a common
//! rate, readers compete with the same work everywhere. Every configuration must sustain that rate, so it is
//! a fraction of the slowest one's, found by a separate closed-loop sweep whose results are kept.

use super::Plan;
use super::document::{Document, Section, Value};
use super::protocol::AUTO;
use super::raw::RawPlan;
use crate::error::PlanError;
use fsdyno_core::sweep_name;
use fsdyno_core::workload::{Arrivals, Rate};
use fsdyno_core::{Nanos, Operation, Outcome, Role, TrialRecord, Workload};

/// The key of the rate.
pub(super) const WRITE_RATE: &str = "write_rate";
/// Its value for writers that begin the next file when the last one is closed.
const CLOSED: &str = "closed";
/// The accepted values, for error messages.
pub(super) const EXPECTED: &str =
    "a number of files a second, { per_second = 200, arrivals = \"poisson\" }, \"auto\" or \"closed\"";
/// Suffix of the name of the measuring sweep.
const SUFFIX: &str = "-closed-loop";
/// The fraction of the slowest configuration's rate. It leaves room for a trial that is 30 % slower, and
/// keeps queues short.
const SHARE: f64 = 0.7;

/// The name of the sweep that measures the rate for another one. Long names are cut to make room.
pub fn closed_loop_name(name: &str) -> String {
    let longest = sweep_name::LONGEST - SUFFIX.len();
    let end = (0..=longest.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{SUFFIX}", &name[..end])
}

/// True for the words that leave writers in a closed loop: `auto` until the rate is known, and `closed`.
pub(super) fn is_closed(text: &str) -> bool {
    [AUTO, CLOSED].contains(&text)
}

/// Indices of the workloads whose rate must be measured: those that say so, and, in a plan that `compares`
/// configurations, those that say nothing, except where no rate is measured.
///
/// # Errors
/// If a plan wants a rate to be measured that is a race, or runs on a fleet, on clients or on several disks.
pub(super) fn unmeasured(
    document: &Document,
    raw: &RawPlan<'_>,
    workloads: &[Workload],
    compares: bool,
) -> Result<Vec<usize>, PlanError> {
    let elsewhere = [
        (raw.race.is_some(), "a race"),
        (raw.parts.fleet.is_some(), "a fleet"),
        (raw.parts.clients.is_some(), "clients"),
        (raw.parts.device.models.len() > 1, "a sweep on several modelled disks"),
    ];
    let elsewhere = elsewhere.into_iter().find_map(|(is_there, what)| is_there.then_some(what));
    let mut found = Vec::new();
    for (index, (one, workload)) in raw.workloads.iter().zip(workloads).enumerate() {
        let Workload::Fileserver(load) = workload else { continue };
        let table = Section::new(document, &one.node, one.table)?;
        let set = table.get(WRITE_RATE).map(|node| &node.value);
        let is_asked = set == Some(&Value::String(AUTO.to_string()));
        let is_default = set.is_none() && compares && elsewhere.is_none();
        if load.writers == 0 || !(is_asked || is_default) {
            continue;
        }
        if let Some(elsewhere) = elsewhere {
            let expected = format!("a number of files a second: it is not measured before {elsewhere}");
            return Err(table.refuse(WRITE_RATE, expected));
        }
        found.push(index);
    }
    Ok(found)
}

/// The result of the closed-loop sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowest {
    /// The configuration with the slowest writers.
    pub configuration: String,
    /// Files per second that its writers together began.
    pub files_per_s: f64,
    /// The rate derived from it, in files per second.
    pub rate: f64,
}

impl Plan {
    /// True if a write rate must be measured before this plan can run.
    pub fn measures_write_rate(&self) -> bool {
        !self.unmeasured_rates.is_empty()
    }

    /// The sweep that measures it: one trial of each configuration, in a closed loop.
    pub fn in_closed_loop(&self) -> Plan {
        let name = closed_loop_name(&self.name);
        let rates = self.unmeasured_rates.iter();
        let quoted = toml::Value::String(name.clone());
        let changes = [format!("name={quoted}"), "repetitions=1".to_string()].into_iter();
        let changes =
            changes.chain(rates.map(|index| format!("workloads.{index}.{WRITE_RATE}=\"{CLOSED}\"")));
        Plan {
            name,
            repetitions: 1,
            enough: None,
            unmeasured_rates: Vec::new(),
            overrides: self.overrides.iter().cloned().chain(changes).collect(),
            ..self.clone()
        }
    }

    /// The original `PATH=VALUE` arguments, if [`Plan::in_closed_loop`] made this plan.
    pub fn before_closed_loop(&self) -> Option<&[String]> {
        let is_name =
            |one: &String| one.starts_with("name=") && one.trim_end_matches(['"', '\'']).ends_with(SUFFIX);
        let from = self.overrides.iter().rposition(is_name)?;
        let closes = |one: &String| {
            one.starts_with("workloads.") && one.ends_with(&format!(".{WRITE_RATE}=\"{CLOSED}\""))
        };
        match &self.overrides[from + 1..] {
            [repetitions, rates @ ..] if repetitions == "repetitions=1" && rates.iter().all(closes) => {
                Some(&self.overrides[..from])
            }
            _ => None,
        }
    }

    /// The name of the sweep that this one measures the rate for; as far as it was not too long.
    pub fn name_before_closed_loop(&self) -> &str {
        self.name.strip_suffix(SUFFIX).unwrap_or(&self.name)
    }

    /// This plan with the rates derived from closed-loop trials, and the slowest configuration of each
    /// workload. `took` is subtracted from the time limit. `None` if no writer of a workload began a file.
    pub fn with_write_rates(&self, trials: &[TrialRecord], took: Nanos) -> Option<(Plan, Vec<Slowest>)> {
        let mut plan = self.clone();
        let mut all = Vec::new();
        for index in std::mem::take(&mut plan.unmeasured_rates) {
            let slowest = slowest(trials.iter().filter(|trial| trial.workload == self.workloads[index]))?;
            let Workload::Fileserver(load) = &mut plan.workloads[index] else { continue };
            load.write_rate = Some(Rate { per_second: slowest.rate, arrivals: Arrivals::Constant });
            plan.overrides.push(format!("workloads.{index}.{WRITE_RATE}={}", slowest.rate));
            all.push(slowest);
        }
        if let Some(limit) = &mut plan.rules.time_limit {
            let left = limit.as_secs_f64() - took.as_secs_f64();
            *limit = Nanos::from_secs(left.max(1.0) as u64);
            plan.overrides.push(format!("time_limit=\"{}s\"", limit.0 / 1_000_000_000));
        }
        Some((plan, all))
    }
}

fn slowest<'t>(trials: impl Iterator<Item = &'t TrialRecord>) -> Option<Slowest> {
    let measured = trials.filter(|trial| trial.outcome == Outcome::Measured);
    let rates = measured.filter_map(|trial| Some((&trial.configuration.name, files_per_s(trial)?)));
    let (configuration, files_per_s) = rates.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let rate = two_digits(files_per_s * SHARE);
    Some(Slowest { configuration: configuration.clone(), files_per_s, rate })
}

/// Files per second that the writers of a trial began, in its last phase with writers.
fn files_per_s(trial: &TrialRecord) -> Option<f64> {
    let mut phases = trial.phases.iter().rev().filter_map(|phase| {
        let writers = phase.roles.iter().find(|role| role.role == Role::Writer)?;
        let opened = writers.operations.iter().find(|one| one.operation == Operation::Openat)?;
        Some(opened.lat_ns.count as f64 / phase.window_ns.as_secs_f64())
    });
    phases.next().filter(|rate| *rate > 0.0)
}

/// Rounds down to two significant digits; a single trial is no more precise.
fn two_digits(rate: f64) -> f64 {
    let digit = 10_f64.powi(rate.log10().floor() as i32 - 1);
    let rounded = (rate / digit).floor() * digit;
    // Removes binary rounding noise such as 0.45000000000000001.
    (rounded * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::{configuration, trial};

    fn plan(more: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "name = \"mine\"\nrepetitions = \"auto\"\nmax_repetitions = 9\ntime_limit = \"10m\"\n{more}[device]\n\
             image = \"/a.img\"\nsize = \"1G\"\n[axes]\nfilesystem = [\"ext4\", \"xfs\"]\n[[workloads]]\nkind = \
             \"null\"\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"64M\"\nwrite_rate = \"auto\"\n"
        );
        Plan::parse(&text, "mine.toml", &["workloads.window=3s".to_string()])
    }

    #[test]
    fn the_slowest_decides_the_rate_of_all() {
        let asked = plan("").unwrap();
        assert!(asked.measures_write_rate());
        let closed = asked.in_closed_loop();
        // Resuming parses the stored plan again.
        let again = |plan: &Plan, name: &str| Plan::parse(&plan.text, name, &plan.overrides).unwrap();
        assert_eq!(again(&closed, "other.toml"), closed);
        assert_eq!((closed.name.as_str(), closed.repetitions, closed.enough), ("mine-closed-loop", 1, None));
        assert_eq!(closed.before_closed_loop(), Some(&asked.overrides[..]));
        assert_eq!(asked.before_closed_loop(), None);

        let of = |case: u32, name: &str, count: u64| {
            let mut trial = trial(case, 0, case, configuration(name, "bfq"), 50.0);
            trial.workload = closed.workloads[1].clone();
            for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
                let mut operations = role.operations.iter_mut();
                let opened = operations.find(|one| one.operation == Operation::Openat);
                opened.into_iter().for_each(|one| one.lat_ns.count = count);
            }
            trial
        };
        // Windows of 30 s.
        let mut trials = vec![of(0, "ext4", 9000), of(1, "xfs", 3570), of(2, "btrfs", 30)];
        trials[2].outcome = Outcome::Failed { error: fsdyno_core::Failure::new("load", "it hung") };
        let (paced, slowest) = asked.with_write_rates(&trials, Nanos::from_secs(100)).unwrap();
        assert_eq!((slowest[0].configuration.as_str(), slowest[0].files_per_s), ("xfs bfq", 119.0));
        assert_eq!(slowest[0].rate, 83.0);
        let Workload::Fileserver(load) = &paced.workloads[1] else { panic!("a file server") };
        assert_eq!(load.write_rate.map(|rate| rate.per_second), Some(83.0));
        assert_eq!(
            (paced.rules.time_limit, paced.measures_write_rate()),
            (Some(Nanos::from_secs(500)), false)
        );
        assert_eq!(again(&paced, "other.toml"), paced);
        assert_eq!(paced.before_closed_loop(), None);
        assert!(asked.with_write_rates(&trials[2..], Nanos(0)).is_none(), "nothing was measured");
    }

    #[test]
    fn a_plan_that_compares_measures_unless_it_says_otherwise() {
        let text = plan("").unwrap().text;
        let text = text.replace("write_rate = \"auto\"\n", "").replace("time_limit = \"10m\"\n", "");
        let text = text.replace("[[workloads]]\nkind = \"null\"\n", "");
        let measures = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_string()).collect();
            Plan::parse(&text, "mine.toml", &sets).unwrap().measures_write_rate()
        };
        assert!(measures(&[]) && measures(&["repetitions=2"]));
        for sets in [
            &["repetitions=1"][..],
            &["axes.filesystem=\"ext4\""],
            &["workloads.writers=0"],
            &["workloads.write_rate=\"closed\""],
            &["protocol=\"race\""],
        ] {
            assert!(!measures(sets), "{sets:?}");
        }
    }

    #[test]
    fn what_is_no_rate_is_told_from_one() {
        let with = |rate: &str| {
            let set = [format!("workloads.write_rate={rate}")];
            let parsed = plan("").map(|plan| Plan::parse(&plan.text, "mine.toml", &set)).unwrap();
            parsed.map(|plan| plan.measures_write_rate()).map_err(|error| error.to_string())
        };
        assert_eq!((with("\"auto\""), with("\"closed\""), with("12.5")), (Ok(true), Ok(false), Ok(false)));
        for wrong in ["\"fast\"", "[1]", "true", "-1"] {
            assert!(with(wrong).unwrap_err().contains("write_rate"), "{wrong}");
        }
        assert!(with("\"fast\"").unwrap_err().contains(EXPECTED), "{:?}", with("\"fast\""));
    }

    #[test]
    fn any_name_becomes_that_of_both_sweeps() {
        let long = "é".repeat(sweep_name::LONGEST / 2);
        for name in [r#"a "b" 'c' \d"#, long.as_str()] {
            let set = format!("name={}", toml::Value::String(name.to_string()));
            let asked = Plan::parse(&plan("").unwrap().text, "mine.toml", &[set]).unwrap();
            let closed = asked.in_closed_loop();
            let again = Plan::parse(&closed.text, "other.toml", &closed.overrides).unwrap();
            assert_eq!((&again, again.name.ends_with(SUFFIX)), (&closed, true));
            assert_eq!(closed.before_closed_loop(), Some(&asked.overrides[..]));
        }
    }

    #[test]
    fn a_race_is_given_its_rate() {
        let error = plan("protocol = \"race\"\n").unwrap_err().to_string();
        assert!(error.contains("a number of files a second: it is not measured before a race"), "{error}");
    }

    #[test]
    fn rates_have_two_digits() {
        for (rate, expected) in [(83.37, 83.0), (1234.0, 1200.0), (0.4567, 0.45), (7.0, 7.0), (99.99, 99.0)] {
            assert_eq!(two_digits(rate), expected);
        }
    }
}
