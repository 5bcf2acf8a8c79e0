//! Comparisons of hand-made trials.

use super::*;
use crate::fixture::blocks as trials;

pub(crate) fn question(measures: &[&str]) -> ComparisonQuestion {
    let measures = measures.iter().map(|name| name.parse().unwrap()).collect();
    ComparisonQuestion { measures, threshold: 0.05, seed: 42 }
}

pub(crate) fn side<'a>(name: &'a str, sweep: i64, trials: &'a [TrialRecord]) -> Side<'a> {
    Side {
        name,
        sweep,
        store: Path::new(""),
        sweep_name: "nightly",
        trials,
        whole: trials,
        repeated_looks: false,
    }
}

fn findings(comparison: &Comparison) -> Vec<Finding> {
    comparison.rows().map(|row| row.finding).collect()
}

#[test]
fn a_side_that_was_judged_again_and_again_is_compared_at_that_level_and_says_so() {
    let (base, slower) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 0.9));
    let question = question(&["read-under-write"]);
    for sweep in [1, 2] {
        let compared = |repeated_looks| {
            let first = Side { repeated_looks, ..side("a", 1, &base) };
            Comparison::new(first, side("b", sweep, &slower), &question)
        };
        let [once, looked] = [false, true].map(|repeated_looks| {
            let found = compared(repeated_looks);
            let interval = found.cases[0].rows[0].ratio.unwrap().interval.unwrap();
            let said = found.notes[0].iter().any(|note| note.contains("judged again and again"));
            ((interval.high / interval.low).ln(), said)
        });
        assert!(looked.0 > 1.3 * once.0, "{once:?} {looked:?}");
        assert_eq!((once.1, looked.1), (false, true));
    }
}

#[test]
fn blocks_of_one_sweep_show_what_independent_samples_cannot() {
    let (base, slower) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 0.9));
    let question = question(&["read-under-write"]);
    let within = Comparison::new(side("a", 1, &base), side("b", 1, &slower), &question);
    assert_eq!(findings(&within), [Finding::Slower]);
    assert!(within.regressed());
    let between = Comparison::new(side("a", 1, &base), side("b", 2, &slower), &question);
    let needs = Finding::CannotTell(Lack::Trials(Some(7)));
    assert!(matches!(findings(&between)[..], [found] if found >= needs), "{between:?}");
    assert!(!between.regressed());
    let row = &between.cases[0].rows[0];
    assert!(row.verdict().starts_with("cannot tell: 6 trials, needs about "), "{}", row.verdict());
    assert!(row.rank_p.unwrap() > 0.05);
}

#[test]
fn the_direction_of_the_measure_decides_what_is_faster() {
    let (base, other) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 1.2));
    let measures = ["read-under-write", "3 readers, 3 writers/reader/rate"];
    let comparison = Comparison::new(side("a", 1, &base), side("b", 1, &other), &question(&measures));
    assert_eq!(findings(&comparison), [Finding::Faster, Finding::Faster]);
    let turned = Comparison::new(side("b", 1, &other), side("a", 1, &base), &question(&measures));
    assert_eq!(findings(&turned), [Finding::Slower, Finding::Slower]);
    // The stalls of the fixture are all alike.
    let stalls = Comparison::new(side("a", 1, &base), side("b", 1, &other), &question(&["longest-stall"]));
    assert_eq!(findings(&stalls), [Finding::NoMaterialDifference]);
}

#[test]
fn the_family_is_the_named_measures_that_both_have() {
    let (base, other) = (trials(0, "a", 3, 1.0), trials(1, "b", 3, 1.0));
    let comparison = Comparison::new(side("a", 1, &base), side("b", 1, &other), &question(&[]));
    let names: Vec<&str> = comparison.rows().map(|row| row.measure.name()).collect();
    assert_eq!(names, ["read", "read-many", "read-under-write", "write", "first-byte-p999", "longest-stall"]);
    let asked = question(&["mkfs-time", "bonnie-seeks"]);
    let comparison = Comparison::new(side("a", 1, &base), side("b", 1, &other), &asked);
    assert_eq!(comparison.rows().map(|row| row.measure.name()).collect::<Vec<_>>(), ["mkfs-time"]);
    assert_eq!(comparison.cases[0].without[0].name(), "bonnie-seeks");
}

#[test]
fn trials_without_named_measures_are_compared_role_by_role() {
    let renamed = |mut trials: Vec<TrialRecord>| {
        for trial in &mut trials {
            trial.workload = Workload::External(fsdyno_core::workload::External::default());
            trial.phases.truncate(1);
            trial.phases[0].name = "job".to_string();
            trial.phases[0].roles[0].longest_stall_ns = Some(fsdyno_core::Nanos(0));
            trial.phases[0].roles[0].worker_results.clear();
        }
        trials
    };
    let (base, other) = (renamed(trials(0, "a", 3, 1.0)), renamed(trials(1, "b", 3, 1.0)));
    let comparison = Comparison::new(side("a", 1, &base), side("b", 1, &other), &question(&[]));
    let names: Vec<&str> = comparison.rows().map(|row| row.measure.name()).collect();
    assert_eq!(names[..3], ["job/reader/rate", "job/reader/item-rate", "job/reader/data-rate"]);
    assert!(names.contains(&"job/reader/openat/mean"));
}

#[test]
fn unlike_workloads_have_nothing_to_compare() {
    let base = trials(0, "a", 3, 1.0);
    let mut other = trials(1, "b", 3, 0.5);
    for trial in &mut other {
        trial.workload = Workload::Streaming(fsdyno_core::workload::Streaming::default());
    }
    let comparison = Comparison::new(side("A", 1, &base), side("B", 2, &other), &question(&[]));
    assert_eq!(comparison.rows().count(), 0, "{comparison:?}");
    let reason = &comparison.alone[0][0].reason;
    assert!(reason.starts_with("the other side ran streaming, whose figures mean other"), "{reason}");
}

#[test]
fn loads_of_one_kind_are_told_apart() {
    let both = |name: &str| {
        let mut small = trials(1, name, 3, 1.0);
        for trial in &mut small {
            let Workload::Fileserver(parameters) = &mut trial.workload else { panic!("a file server") };
            parameters.io_size = fsdyno_core::Bytes(4096);
        }
        [trials(0, name, 3, 1.0), small].concat()
    };
    let (a, b) = (both("a"), both("a"));
    let compared = Comparison::new(side("a", 1, &a), side("b", 2, &b), &question(&[]));
    let [usual, small] = &compared.cases[..] else { panic!("{compared:?}") };
    assert_eq!(small.workload_title, format!("{}, io_size = 4k", usual.workload_title));
    assert_eq!([&*usual.workload_name, &*small.workload_name], ["fileserver", "fileserver, io_size = 4k"]);
}

#[test]
fn a_difference_that_foreign_load_may_explain_is_not_called_slower() {
    let (base, mut slower) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 0.5));
    let compare = |slower: &[TrialRecord]| {
        Comparison::new(side("A", 1, &base), side("B", 1, slower), &question(&["read"]))
    };
    assert!(compare(&slower).regressed());
    for trial in &mut slower {
        let kind = fsdyno_core::WarningKind::ForeignLoad;
        trial.warnings.push(fsdyno_core::Warning::new(kind, "others used 40 % of 2 processors"));
    }
    let found = compare(&slower);
    assert_eq!(findings(&found), [Finding::CannotTell(Lack::Doubt)]);
    let row = &found.cases[0].rows[0];
    assert_eq!(
        row.verdict(),
        "cannot tell: foreign-load in 6 of 6 trials of B and 0 of 6 trials of A may explain it"
    );
    let foreign = found.warnings.iter().find(|one| one.kind.name() == "foreign-load").unwrap();
    assert_eq!((foreign.trials, foreign.of), ([0, 6], [6, 6]));
}

#[test]
fn one_trial_shows_a_ratio_and_no_verdict() {
    let (base, other) = (trials(0, "a", 6, 1.0), trials(0, "a", 1, 2.0));
    let comparison = Comparison::new(side("a", 1, &base), side("b", 2, &other), &question(&["read"]));
    let row = &comparison.cases[0].rows[0];
    assert_eq!(row.verdict(), "cannot tell: 1 trial, needs about 6");
    assert!(row.ratio.unwrap().interval.is_none() && !comparison.regressed());
}

#[test]
fn a_lower_bound_proves_only_its_own_side() {
    let base = trials(0, "a", 6, 1.0);
    let mut blocked = trials(1, "b", 6, 1.0);
    for trial in &mut blocked {
        let phase = &mut trial.phases[2];
        phase.roles[0].longest_stall_ns = Some(phase.window_ns);
    }
    let question = question(&["longest-stall"]);
    let worse = Comparison::new(side("a", 1, &base), side("b", 1, &blocked), &question);
    assert_eq!(findings(&worse), [Finding::Slower]);
    let all_blocked = Comparison::new(side("b", 1, &blocked), side("b", 1, &blocked), &question);
    assert_eq!(findings(&all_blocked), [Finding::CannotTell(Lack::Bounds)]);
}

#[test]
fn what_loses_more_is_a_regression() {
    let of = |case| crate::fixture::durability_side(6, case);
    let (safe, losing) = (of(0), of(1));
    let compare = |a: &[TrialRecord], b: &[TrialRecord], measures: &[&str]| {
        Comparison::new(side("a", 1, a), side("b", 2, b), &question(measures))
    };
    let comparison = compare(&safe, &losing, &[]);
    let words: Vec<String> = comparison.losses().map(|row| row.finding.words()).collect();
    let least = "no difference shown (would show 84 %)";
    assert_eq!(words, [least, "loses more", "loses more", "loses more"]);
    assert!(comparison.regressed());
    // The share of lost promises has no row of its own beside them, unless it is asked for.
    let names: Vec<&str> = comparison.rows().map(|row| row.measure.name()).collect();
    assert_eq!(names, ["unsynced-lost", "recovery-time"]);
    let asked = compare(&safe, &losing, &["acknowledged-lost"]);
    assert_eq!(findings(&asked), [Finding::CannotTell(Lack::Zero)]);
    assert!(!compare(&losing, &safe, &[]).regressed());
    let zeros = compare(&safe, &safe, &["acknowledged-lost"]);
    assert_eq!(findings(&zeros), [Finding::NoMaterialDifference]);
    assert!(!zeros.regressed() && zeros.cases[0].without.is_empty());
}

/// Trials in which no reader got a byte.
fn without_reads(mut trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
    let roles = trials.iter_mut().flat_map(|trial| &mut trial.phases).flat_map(|phase| &mut phase.roles);
    roles.for_each(|role| role.rates.aggregate_bytes_per_s = 0.0);
    trials
}

#[test]
fn a_side_that_moves_nothing_at_all_is_worse_however_few_trials_it_has() {
    let compare = |a: &[TrialRecord], b: &[TrialRecord]| {
        Comparison::new(side("A", 1, a), side("B", 2, b), &question(&["read"]))
    };
    for count in [1, 6] {
        let base = trials(0, "a", count, 1.0);
        let nothing = without_reads(trials(1, "b", count, 1.0));
        let worse = compare(&base, &nothing);
        assert_eq!(worse.cases[0].rows[0].verdict(), "slower: B has 0 in every trial");
        assert!(worse.regressed());
        let better = compare(&nothing, &base);
        assert_eq!(better.cases[0].rows[0].verdict(), "faster: A has 0 in every trial");
        assert!(!better.regressed());
        assert_eq!(findings(&compare(&nothing, &nothing)), [Finding::NoMaterialDifference]);
    }
    // One trial of several may be chance.
    let mut mixed = trials(1, "b", 6, 1.0);
    mixed[0] = without_reads(vec![mixed[0].clone()]).remove(0);
    assert_eq!(findings(&compare(&trials(0, "a", 6, 1.0), &mixed)), [Finding::CannotTell(Lack::Zero)]);
}

#[test]
fn a_side_whose_every_trial_failed_is_worse() {
    let (base, mut other) = (trials(0, "a", 3, 1.0), trials(0, "a", 3, 1.0));
    for trial in &mut other {
        let error = fsdyno_core::Failure::new("load", "the device is gone");
        trial.outcome = fsdyno_core::Outcome::Failed { error };
    }
    let compare = |a: &[TrialRecord], b: &[TrialRecord]| {
        Comparison::new(side("A", 1, a), side("B", 2, b), &question(&[]))
    };
    let worse = compare(&base, &other);
    assert!(worse.regressed());
    let reason = &worse.alone[1][0].reason;
    assert!(reason.starts_with("every trial failed: load"), "{reason}");
    assert!(!compare(&other, &base).regressed() && !compare(&other, &other).regressed());
    for trial in &mut other {
        trial.outcome = fsdyno_core::Outcome::Skipped { unmet: vec!["mkfs.btrfs is missing".to_string()] };
    }
    assert!(!compare(&base, &other).regressed(), "what cannot run here has lost nothing");
}

#[test]
fn sides_that_both_have_nothing_but_zeros_say_so() {
    let zeros = |name: &str| {
        let mut trials = without_reads(trials(0, name, 3, 1.0));
        for trial in &mut trials {
            trial.workload = Workload::External(fsdyno_core::workload::External::default());
            trial.columns = [("rate (MB/s)".to_string(), 0.0)].into();
            trial.phases.clear();
        }
        trials
    };
    let (a, b) = (zeros("a"), zeros("a"));
    let comparison = Comparison::new(side("A", 1, &a), side("B", 2, &b), &question(&[]));
    assert_eq!(comparison.rows().count(), 0);
    let names: Vec<&str> = comparison.cases[0].zero.iter().map(Measure::name).collect();
    assert_eq!(names, ["rate (MB/s)"]);
}

#[test]
fn a_side_with_failed_trials_is_not_called_faster() {
    let (base, mut other) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 2.0));
    let error = fsdyno_core::Failure::new("load", "the device is gone");
    other[0].outcome = fsdyno_core::Outcome::Failed { error };
    let question = question(&["read"]);
    let faster = Comparison::new(side("A", 1, &base), side("B", 1, &other), &question);
    let why = "cannot tell: 1 of 6 trials of B failed, and may have been the worst";
    assert_eq!(faster.cases[0].rows[0].verdict(), why);
    let slower = Comparison::new(side("A", 1, &other), side("B", 1, &base), &question);
    assert_eq!(findings(&slower), [Finding::CannotTell(Lack::Doubt)]);
    for trial in &mut other {
        trial.phases.iter_mut().for_each(|phase| {
            phase.roles.iter_mut().for_each(|role| role.rates.aggregate_bytes_per_s /= 4.0);
        });
    }
    let worse = Comparison::new(side("A", 1, &base), side("B", 1, &other), &question);
    assert_eq!(findings(&worse), [Finding::Slower]);
}
