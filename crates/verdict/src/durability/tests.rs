//! Losses of hand-made trials.

use super::*;
use crate::fixture::{self, MADE, durability_trials, durable_trial, losing_trial};
use fsdyno_core::Workload;
use fsdyno_core::warning::{Warning, WarningKind};
use fsdyno_core::workload::{Durability, Null};

fn losses(trials: &[TrialRecord]) -> Losses {
    Losses::of(&trials.iter().collect::<Vec<_>>()).unwrap()
}

/// Trials of one configuration, each of which lost what `lost` says.
fn logs(count: u32, lost: fn(CacheModel) -> u64) -> Vec<TrialRecord> {
    let ext4 = || fixture::configuration("ext4", "none");
    (0..count).map(|number| losing_trial(number, number, 0, ext4(), lost)).collect()
}

fn judged(sides: [&[TrialRecord]; 2]) -> Vec<(CacheModel, LossFinding)> {
    let sides = sides.map(losses);
    let mut rows = compared([&sides[0], &sides[1]]);
    correct(&mut rows.iter_mut().collect::<Vec<_>>(), Judge { comparisons: 0, seed: 42 });
    rows.iter().map(|row| (row.model, row.finding)).collect()
}

const EVERYTHING: fn(CacheModel) -> u64 = |model| if model == CacheModel::Flushed { MADE } else { 0 };
const NOTHING: fn(CacheModel) -> u64 = |_| 0;

#[test]
fn logs_add_up_and_are_the_unit_of_intervals() {
    let losses = losses(&logs(3, NOTHING));
    assert_eq!((losses.logs, losses.cuts, losses.log.writes), (3, 180, 3 * 12_345));
    assert_eq!(losses.models.iter().map(|one| one.model).collect::<Vec<_>>(), CacheModel::ALL);
    let flushed = losses.model(CacheModel::Flushed).unwrap();
    let lost = &flushed.acknowledged;
    // Ten of the twelve promises are those of the standard.
    assert_eq!((lost.made, lost.lost, lost.logs, lost.losing_logs), (3 * 10 * MADE, 0, 3, 0));
    assert_eq!((lost.rate, lost.rate_interval), (Some(0.0), Some([0.0, 0.0])));
    let [low, high] = lost.losing_logs_interval.unwrap();
    assert!(low == 0.0 && (high - 0.631_596_850).abs() < 1e-6, "{high}");
    // 58 cuts of each log came after an acknowledgement, whatever the number of states of a cut.
    assert_eq!(lost.cuts, 3 * 58);
    assert!((lost.at_most_of_cuts().unwrap() - 0.01707).abs() < 1e-4);
    assert!(!losses.loses());
}

#[test]
fn medians_are_those_of_logs_and_the_longest_of_files_and_names_counts() {
    let losses = losses(&logs(3, NOTHING));
    let unsynced = losses.model(CacheModel::Flushed).unwrap().unsynced.unwrap();
    // Names are missing from further back than files.
    assert_eq!(unsynced.lost_ns, Spread { p50: 5_010_000_000, max: 15_020_000_000 });
    assert_eq!((unsynced.files, unsynced.names.p50), (Spread { p50: 48, max: 160 }, 60));
    let recovery = losses.worst().recovery_ns.unwrap();
    assert_eq!(recovery, Spread { p50: 12_000_000, max: 34_000_000 });
    let bins = &losses.worst().survival;
    assert_eq!((bins.len(), bins[0].made, bins[0].survived), (14, 3000, 750));
}

#[test]
fn the_worst_median_and_the_worst_maximum_may_be_those_of_two_models() {
    let mut trials = logs(1, NOTHING);
    let models = &mut trials[0].durability.as_mut().unwrap().models;
    for (model, spread) in [
        (CacheModel::Flushed, Spread { p50: 7, max: 30 }),
        (CacheModel::Subset, Spread { p50: 6, max: 40 }),
        (CacheModel::Window, Spread { p50: 5, max: 40 }),
    ] {
        let one = models.iter_mut().find(|one| one.model == model).unwrap();
        (one.unsynced_files.lost_ns, one.unsynced_names.lost_ns) = (spread, spread);
    }
    let worst = losses(&trials).worst_of_each().unsynced.unwrap();
    assert_eq!(worst.lost_ns, Spread { p50: 7, max: 40 });
}

#[test]
fn the_worst_model_loses_most_promises_else_most_work() {
    assert_eq!(losses(&logs(2, EVERYTHING)).worst().model, CacheModel::Flushed);
    // Nothing was promised and lost, but under this model the most unsynced work is gone, or as much.
    assert_eq!(losses(&logs(2, NOTHING)).worst().model, CacheModel::Flushed);
    let completed = |model| u64::from(model == CacheModel::Completed);
    assert_eq!(losses(&logs(2, completed)).worst().model, CacheModel::Completed);
}

#[test]
fn what_loses_is_counted_by_log_state_and_promise() {
    let losses = losses(&logs(3, EVERYTHING));
    let worst = losses.worst();
    let lost = &worst.acknowledged;
    assert_eq!((lost.lost, lost.losing_logs, lost.rate), (lost.made, 3, Some(1.0)));
    assert_eq!((worst.not_mounted(), worst.damaged, worst.checked), (3, 3, 177));
    assert_eq!(worst.mount_errors.values().sum::<u64>(), 3);
    assert_eq!(worst.wrong.zeros, 3 * 10 * (MADE / 10), "of what was promised");
    assert_eq!(worst.unpromised.total(), 0);
    assert_eq!(lost.at_most_of_cuts(), None);
    let practice = worst.promises.iter().find(|one| one.promise == Promise::CreateFile).unwrap();
    assert_eq!((practice.lost.made, practice.lost.lost), (3 * MADE, 0));
    assert_eq!((losses.losing.len(), losses.losing[1].trial), (3, 1));
}

#[test]
fn trials_without_power_cuts_have_no_losses() {
    let trials = fixture::trials();
    assert_eq!(Losses::of(&trials.iter().collect::<Vec<_>>()), None);
    assert_eq!(Losses::of(&[]), None);
}

#[test]
fn a_difference_needs_logs_and_equal_zeros_are_none() {
    let (none, all) = (logs(6, NOTHING), logs(6, EVERYTHING));
    let flushed = |rows: &[(CacheModel, LossFinding)]| rows[1].1;
    assert_eq!(flushed(&judged([&none, &all])), LossFinding::LosesMore);
    assert_eq!(flushed(&judged([&all, &none])), LossFinding::LosesLess);
    let same = judged([&none, &none]);
    assert!(same.iter().all(|(_, finding)| matches!(finding, LossFinding::NoDifferenceShown(Some(_)))));
    assert_eq!(same[0].1.words(), "no difference shown (would show 84 %)");
    assert_eq!(flushed(&judged([&none[..3], &all[..3]])), LossFinding::LosesMore);
    let few = flushed(&judged([&none[..2], &all[..2]]));
    assert_eq!(few.words(), "no difference shown (too few logs to show any)");
    assert_eq!(LossFinding::LosesMore.words(), "loses more");
    assert_eq!(LossFinding::LosesLess.words(), "loses less");
}

/// Every log of both sides loses something, so that only rates can tell them apart.
#[test]
fn rates_tell_apart_what_always_loses_something() {
    let (some, all) = (logs(6, |_| 3), logs(6, |_| MADE));
    assert!(judged([&some, &all]).iter().all(|(_, finding)| *finding == LossFinding::LosesMore));
    assert!(judged([&some, &some]).iter().all(|(_, finding)| *finding > LossFinding::LosesLess));
}

/// A trial that says of itself that a setting is unsafe.
fn declared(mut trial: TrialRecord) -> TrialRecord {
    trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0"));
    trial
}

fn judge(trials: &[TrialRecord]) -> DurabilityJudgement {
    let whole = trials.to_vec();
    Safety::new(&whole).judge(&trials.iter().collect::<Vec<_>>())
}

#[test]
fn measured_losses_decide_whatever_was_declared() {
    let found = judge(&logs(2, EVERYTHING));
    let lost = "measured: 8,640 of 8,640 acknowledged promises lost in 2 of 2 logs, with a volatile cache";
    assert_eq!(found.risks, [lost]);
    assert!(matches!(&found.basis, Basis::Measured(losses) if losses.loses()));
    let found = judge(&logs(1, NOTHING));
    assert!(found.risks.is_empty() && matches!(found.basis, Basis::Measured(_)));
}

#[test]
fn only_enough_states_with_a_volatile_cache_clear_a_declared_setting() {
    let clean = declared(durable_trial(0, 0, 0, fixture::configuration("ext4", "none")));
    let found = judge(std::slice::from_ref(&clean));
    assert!(found.risks.is_empty() && matches!(found.basis, Basis::Measured(_)), "{found:?}");
    let changed = |change: fn(&mut ModelResult)| {
        let mut trial = clean.clone();
        trial.durability.iter_mut().flat_map(|found| &mut found.models).for_each(change);
        judge(&[trial])
    };
    let kept = |found: DurabilityJudgement| found.risks == ["barrier = 0"] && found.basis == Basis::Declared;
    assert!(kept(changed(|one| one.states = 59)));
    assert!(kept(changed(|one| one.damaged = 1)));
    assert!(kept(changed(|one| one.unsynced_files.wrong.zeros = 1)));
    let mut without = clean.clone();
    without.durability.as_mut().unwrap().models.retain(|one| one.model != CacheModel::Subset);
    assert!(kept(judge(&[without])));
}

#[test]
fn what_nobody_has_classified_is_unknown_until_power_cuts_have_measured_it() {
    let unknown = |mut trial: TrialRecord| {
        trial.warnings.push(Warning::new(WarningKind::DurabilityUnknown, "durability unknown: 'x'"));
        trial
    };
    let measured = unknown(durable_trial(0, 0, 0, fixture::configuration("ext4", "none")));
    let found = judge(std::slice::from_ref(&measured));
    assert!(found.risks.is_empty() && matches!(found.basis, Basis::Measured(_)), "{found:?}");
    let mut unmeasured = measured.clone();
    unmeasured.durability = None;
    let found = judge(std::slice::from_ref(&unmeasured));
    assert_eq!((found.risks, found.basis), (vec!["durability unknown: 'x'".to_string()], Basis::Unknown));
    assert_eq!(judge(&[declared(unmeasured)]).basis, Basis::Declared);
}

/// The speed of a configuration has trials of its own, under another workload and perhaps with less memory.
#[test]
fn losses_are_found_under_the_other_workload() {
    let mut trials = durability_trials(2, true);
    for trial in trials.iter_mut().filter(|trial| trial.durability.is_none()) {
        trial.configuration.settings.insert("memory".to_string(), "1G".to_string());
    }
    let safety = Safety::new(&trials);
    let of = |case: u32| -> Vec<&TrialRecord> { trials.iter().filter(|trial| trial.case == case).collect() };
    assert_eq!(safety.judge(&of(2)).risks.len(), 0);
    let risks = safety.judge(&of(3)).risks;
    assert!(risks.len() == 2 && risks[0].starts_with("measured: "), "{risks:?}");
    let kinds = safety.kinds(trials.iter());
    assert_eq!(kinds, ["measured: acknowledged promises lost", "barrier = 0: a power cut may corrupt it"]);
}

/// An array is not unsafe because of what it loses along with a disk.
#[test]
fn losses_with_a_disk_lost_are_those_of_that_load() {
    let degraded = |trial: &mut TrialRecord| {
        trial.workload = Workload::Durability(Durability { degraded: true, ..Durability::default() });
    };
    let (mut trials, mut lost) = (logs(2, NOTHING), logs(2, EVERYTHING));
    lost.iter_mut().for_each(degraded);
    trials.extend(lost.clone());
    let safety = Safety::new(&trials);
    let is_safe = |trial: &TrialRecord| safety.judge(&[trial]).risks.is_empty();
    assert!(is_safe(&trials[0]) && !is_safe(&lost[0]));
    // Under another load, cuts of power alone decide, if there were any.
    let mut other = trials[0].clone();
    (other.workload, other.durability) = (Workload::Null(Null::default()), None);
    assert!(is_safe(&other));
    assert!(!Safety::new(&lost).judge(&[&other]).risks.is_empty());
}

/// A sentinel that loses nothing shows no drift.
#[test]
fn zeros_of_a_sentinel_are_steady() {
    let mut trials: Vec<TrialRecord> = (0..6)
        .map(|number| durable_trial(number, number / 2, 0, fixture::configuration("ext4", "none")))
        .collect();
    trials.iter_mut().step_by(2).for_each(|trial| trial.sentinel = true);
    let view = fixture::view("read", &trials);
    let drift = view.recommendation.drift.as_ref().unwrap();
    assert_eq!((drift.range(), drift.warning(), drift.unsteady()), ((0.0, 0.0), None, None));
    let said = format!("{:?} {:?}", view.notes(), view.recommendation.answers[0].sentences);
    assert!(!said.contains("NaN") && !said.contains("inf "), "{said}");
    assert_eq!(view.rankings[0].rows[0].losses.as_ref().unwrap().logs, 6);
}
