//! Recommendations for hand-made sweeps.

use super::*;
use crate::fixture;
use crate::judgement::{Class, Judgement};
use fsdyno_core::durability::Fault;
use fsdyno_core::result::Content;
use fsdyno_core::warning::{Warning, WarningKind};

mod decisions;
mod incomplete;

/// Six blocks of configurations, each a filesystem, a scheduler and a factor on the rate; blocks differ, too.
fn sweep(configurations: &[(&str, &str, f64)]) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for block in 0..6_u32 {
        for (case, (filesystem, scheduler, factor)) in (0..).zip(configurations) {
            let number = trials.len() as u32;
            let own = 0.01 * (f64::from(number) * 12.9898).sin();
            let rate = 50.0 * factor * (1.0 + 0.05 * f64::from(block)) * (1.0 + own);
            trials.push(fixture::trial(
                number,
                block,
                case,
                fixture::configuration(filesystem, scheduler),
                rate,
            ));
        }
    }
    trials
}

fn recommend(trials: &[TrialRecord], goal: Option<&str>) -> Recommendation {
    let question = Question { goal: goal.map(|goal| goal.parse().unwrap()), ..Question::default() };
    Recommendation::new(&fixture::header("read-under-write"), trials, &question)
}

#[test]
fn a_clear_winner_wins_with_its_effects() {
    let trials =
        sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 0.8), ("xfs", "none", 1.3), ("xfs", "bfq", 1.04)]);
    let recommendation = recommend(&trials, None);
    let answer = &recommendation.answers[0];
    assert_eq!(answer.winner().unwrap().name, "xfs none");
    assert!(
        answer.standings[1..].iter().all(|one| one.verdict == ContenderVerdict::Worse),
        "{:#?}",
        answer.standings
    );
    let axes: Vec<&str> = answer.axes.iter().map(|axis| axis.axis.as_str()).collect();
    assert_eq!(axes, ["filesystem", "scheduler"]);
    let best: Vec<Option<&str>> = answer.axes.iter().map(|axis| axis.best.as_deref()).collect();
    assert_eq!(best, [Some("xfs"), Some("none")]);
    let bfq = &answer.axes[1].levels[1];
    assert!((bfq.to_best.unwrap().ratio - 0.8).abs() < 0.01 && bfq.worse, "{bfq:?}");
    assert!(answer.axes.iter().all(|axis| axis.share.is_some()));
    assert!(answer.interactions.is_empty() && answer.block_share.unwrap() > 0.1);
    assert!(answer.recipe.is_some(), "{answer:?}");
    assert!(answer.notes.len() == 1 && answer.notes[0].starts_with("the baseline, "), "{:?}", answer.notes);
}

#[test]
fn conditions_of_the_load_are_not_chosen_but_compared_within() {
    let mut trials =
        sweep(&[("ext4", "none", 1.0), ("ext4", "none", 9.0), ("xfs", "none", 1.3), ("xfs", "none", 7.0)]);
    for trial in &mut trials {
        let state = if trial.case % 2 == 0 { "cold" } else { "warm" };
        trial.configuration.settings.insert("cache".to_string(), state.to_string());
    }
    let recommendation = recommend(&trials, None);
    let [cold, warm] = &recommendation.answers[..] else { panic!("{}", recommendation.answers.len()) };
    assert!(cold.title.ends_with(", cache=cold") && warm.title.ends_with(", cache=warm"), "{}", cold.title);
    for (answer, case) in [(cold, 2), (warm, 1)] {
        assert_eq!((answer.winner().unwrap().case, answer.standings.len()), (case, 2));
        assert!(answer.axes.iter().all(|axis| axis.axis == "filesystem"), "{:?}", answer.axes);
    }
    // With the same level everywhere, there is nothing to tell apart.
    trials.retain(|trial| trial.case % 2 == 0);
    let [only] = &recommend(&trials, None).answers[..] else { panic!("one answer") };
    assert!(!only.title.contains("cache"), "{}", only.title);
}

#[test]
fn the_default_is_kept_where_nothing_is_shown_to_be_better() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 1.02)]);
    for trial in trials.iter_mut().filter(|trial| trial.case == 0) {
        trial.configuration.settings.clear();
    }
    let recommendation = recommend(&trials, None);
    let answer = &recommendation.answers[0];
    assert_eq!(answer.standings[0].name, "ext4 bfq");
    assert_eq!((answer.judgement.class, answer.winner()), (Class::NoDifference, None));
    assert_eq!(answer.default().unwrap().name, "ext4 none");
    let headline = &answer.judgement.headline;
    let wanted = "between 'ext4 bfq' and 'ext4 none'. Keep the default, 'ext4 none'.";
    assert!(headline.ends_with(wanted), "{headline}");
    assert!(answer.axes.is_empty(), "the levels of a single axis are the configurations");
    let alike = [("ext4", "none", 1.0), ("ext4", "bfq", 1.02), ("xfs", "none", 1.0), ("xfs", "bfq", 1.02)];
    let axes = recommend(&sweep(&alike), None).answers[0].axes.clone();
    let scheduler = axes.iter().find(|axis| axis.axis == "scheduler").expect("an axis");
    assert_eq!((scheduler.best.as_deref(), scheduler.text.as_str()), (None, "no clear indication"));
}

#[test]
fn an_unsafe_configuration_never_wins_silently() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 1.5), ("xfs", "none", 0.9)]);
    for trial in trials.iter_mut().filter(|trial| trial.case == 1) {
        trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0: a power cut may corrupt"));
    }
    let recommendation = recommend(&trials, None);
    let answer = &recommendation.answers[0];
    assert_eq!(answer.winner().unwrap().name, "ext4 none");
    assert_eq!(answer.standings[0].verdict, ContenderVerdict::BetterAndWeaker);
    assert!(
        answer.sentences[0].contains("'ext4 bfq' would change reads while others write by +"),
        "{:?}",
        answer.sentences
    );
    assert!(answer.sentences[0].contains("barrier = 0: a power cut may corrupt"), "{:?}", answer.sentences);
    let mut undecided = trials.clone();
    undecided.retain(|trial| trial.block < 2);
    let class = recommend(&undecided, None).answers[0].judgement.class;
    assert!(matches!(class, Class::Winner | Class::Undecided), "{class:?}");
    assert!(
        answer.pareto.points.iter().filter(|point| point.on_front).any(|point| point.name == "ext4 none")
    );
}

#[test]
fn a_configuration_of_unknown_durability_neither_wins_nor_ties_for_the_best() {
    let text = "durability unknown: fsdyno does not know what the mount option 'x' does";
    for faster in [1.5, 1.0] {
        let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", faster), ("xfs", "none", 0.9)]);
        for trial in trials.iter_mut().filter(|trial| trial.case == 1) {
            trial.warnings.push(Warning::new(WarningKind::DurabilityUnknown, text));
        }
        let answer = &recommend(&trials, None).answers[0];
        assert_eq!(answer.winner().unwrap().name, "ext4 none", "{faster}");
        let sentences = answer.sentences.join(" ");
        assert!(faster == 1.0 || sentences.contains("not known to be as safe in a power cut"), "{sentences}");
        assert!(faster == 1.0 || sentences.contains(text), "{sentences}");
    }
}

/// The recommended default is held against the best, and so is what would be faster but less safe.
#[test]
fn a_ratio_to_the_best_says_so_if_another_one_is_recommended() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 1.02), ("ext4", "kyber", 1.5)]);
    trials.iter_mut().filter(|trial| trial.case == 0).for_each(|trial| trial.configuration.settings.clear());
    for trial in trials.iter_mut().filter(|trial| trial.case == 2) {
        trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0: a power cut may corrupt"));
    }
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.default().unwrap().name, "ext4 none");
    let cost = &answer.sentences[0];
    assert!(cost.contains("'ext4 kyber' would change reads while others write by +47 %"), "{cost}");
    let mut trials =
        sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.5), ("xfs", "bfq", 1.53), ("ext4", "kyber", 2.0)]);
    for trial in trials.iter_mut().filter(|trial| trial.case < 2) {
        trial.configuration.settings.clear();
    }
    for trial in trials.iter_mut().filter(|trial| trial.case == 3) {
        trial.warnings.push(Warning::new(WarningKind::Durability, "barrier = 0: a power cut may corrupt"));
    }
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.winner().map(|one| one.name.as_str()), Some("xfs none"), "{:?}", answer.judgement);
    let cost = answer.sentences.join(" ");
    assert!(cost.contains("'ext4 kyber' would change"), "{cost}");
    assert!(cost.contains("compared with 'xfs bfq'"), "{cost}");
}

#[test]
fn the_answer_says_if_everything_is_unsafe() {
    let mut trials = sweep(&[("ext2", "none", 1.0), ("ext2", "bfq", 1.2)]);
    for trial in &mut trials {
        trial.warnings.push(Warning::new(WarningKind::Durability, "no journal: files may be lost"));
    }
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.winner().unwrap().name, "ext2 bfq");
    assert!(answer.sentences[0].contains("no journal: files may be lost"), "{:?}", answer.sentences);
}

#[test]
fn goals_select_a_measure_or_list_those_available() {
    let trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 0.8)]);
    for (goal, measure) in [
        ("latency", "first-byte-p999"),
        ("stalls", "longest-stall"),
        ("throughput", "throughput"),
        ("read", "read"),
    ] {
        assert_eq!(recommend(&trials, Some(goal)).answers[0].measure, measure);
    }
    // Without telemetry the processor time of kernel threads is unknown.
    let answer = &recommend(&trials, Some("cpu")).answers[0];
    assert_eq!((answer.winner(), answer.standings.len()), (None, 0));
    let next = answer.judgement.next.as_deref().unwrap();
    assert!(next.contains("read, read-many, read-under-write"), "{next}");
}

#[test]
fn a_nested_axis_has_its_effects_within_its_filesystem() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.0), ("xfs", "none", 1.2)]);
    for trial in &mut trials {
        trial.configuration.settings.clear();
        if trial.case == 2 {
            trial.configuration.settings.insert("logbsize".to_string(), "256k".to_string());
            trial.configuration.name = "xfs logbsize=256k".to_string();
        }
    }
    let answer = &recommend(&trials, None).answers[0];
    let nested = answer.axes.iter().find(|axis| axis.axis == "logbsize").unwrap();
    assert_eq!(nested.within.as_deref(), Some("xfs"));
    let levels: Vec<(&str, bool)> =
        nested.levels.iter().map(|level| (level.level.as_str(), level.is_default)).collect();
    assert_eq!(levels, [("256k", false), ("32k", true)]);
    assert_eq!(nested.best.as_deref(), Some("256k"));
}

#[test]
fn one_trial_of_each_decides_nothing() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 3.0)]);
    trials.truncate(2);
    let answer = &recommend(&trials, None).answers[0];
    assert!(matches!(answer.standings[1].verdict, ContenderVerdict::CannotTell { .. }));
    assert!(answer.notes[1].contains("one trial has no interval"), "{:?}", answer.notes);
    // All of the variance is that of effects where nothing is left to chance.
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 3.0), ("xfs", "none", 2.0)]);
    trials.truncate(3);
    let axes = &recommend(&trials, None).answers[0].axes;
    assert!(!axes.is_empty() && axes.iter().all(|axis| axis.share.is_none()), "{axes:?}");
}

/// Two configurations with a worker that was blocked during the whole window of each trial, and perhaps
/// longer.
#[test]
fn two_lower_bounds_are_not_as_good_as_each_other() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 1.0), ("xfs", "none", 1.0)]);
    for trial in trials.iter_mut().filter(|trial| trial.case < 2) {
        fixture::block_writer(&mut trial.phases[2].roles[0]);
    }
    let of = |trials: &[TrialRecord], name: &str| -> ContenderVerdict {
        let recommendation = recommend(trials, Some("stalls"));
        let standings = &recommendation.answers[0].standings;
        standings.iter().find(|one| one.name == name).unwrap().verdict
    };
    assert_eq!(of(&trials, "xfs none"), ContenderVerdict::Best);
    assert_eq!([of(&trials, "ext4 none"), of(&trials, "ext4 bfq")], [ContenderVerdict::Worse; 2]);
    trials.retain(|trial| trial.case < 2);
    assert_eq!(of(&trials, "ext4 none"), ContenderVerdict::Best);
    assert_eq!(of(&trials, "ext4 bfq"), ContenderVerdict::CannotTell { needed: None });
}

/// That few trials do not show a difference is no reason to choose anything but the default.
#[test]
fn a_difference_that_may_be_chance_keeps_the_default_and_says_what_would_decide() {
    for factor in [0.8, 0.9] {
        let mut trials = sweep(&[("ext4", "none", 1.0), ("ext4", "bfq", 1.0)]);
        trials.retain(|trial| trial.block < 3);
        let noisy = [0.9 * 50.0, 1.1 * 52.5, 55.0].map(|rate| rate * factor);
        for (trial, rate) in trials.iter_mut().filter(|trial| trial.case == 0).zip(noisy) {
            trial.phases = fixture::phases(rate);
            trial.configuration.settings.clear();
        }
        let answer = &recommend(&trials, None).answers[0];
        let simpler = answer.standings.iter().find(|one| one.name == "ext4 none").unwrap();
        assert!(matches!(simpler.verdict, ContenderVerdict::CannotTell { .. }), "{simpler:?}");
        let Judgement { class, headline, next } = &answer.judgement;
        assert_eq!((*class, answer.winner()), (Class::Undecided, None));
        assert!(headline.ends_with("Keep the default, 'ext4 none'."), "{headline}");
        assert!(headline.contains("3 trials of each do not tell it from the default"), "{headline}");
        assert!(next.as_ref().is_some_and(|next| next.starts_with("To decide: about")), "{next:?}");
    }
}

#[test]
fn nothing_measured_recommends_nothing() {
    assert!(recommend(&[], None).answers.is_empty());
}

#[test]
fn speed_that_is_bought_with_losses_says_what_it_loses() {
    let recommendation = recommend(&fixture::durability_trials(6, true), None);
    let [losses, speed] = &recommendation.answers[..] else { panic!("two answers") };
    assert_eq!((losses.workload, speed.workload), ("durability", "fileserver"));
    assert_eq!((speed.judgement.class, speed.winner()), (Class::NoDifference, None));
    assert!(speed.judgement.headline.starts_with("Keep 'ext4 none': "), "{:?}", speed.judgement);
    assert_eq!(speed.standings[0].verdict, ContenderVerdict::BetterAndWeaker);
    let [price, bought] = &speed.sentences[..] else { panic!("{:?}", speed.sentences) };
    assert!(
        price.contains(
            "The default is durable, measured: no acknowledged promise lost in 1440 states of 6 logs (6 logs may \
             miss a loss that fewer than 40 % of logs have)."
        ),
        "{price}"
    );
    assert!(!price.contains("barrier = 0"), "{price}");
    assert!(bought.starts_with("'ext4 none barrier=0' gives +12 % ["), "{bought}");
    let loses = "] here (reads while others write); with a volatile cache it loses 25,920 of 25,920 acknowledged \
        promises; with every completed write surviving (model completed) none in 360 states.";
    assert!(bought.ends_with(loses), "{bought}");
    // As a level, with another axis beside it.
    let trials = fixture::durability_trials(6, true);
    let other = trials.iter().cloned().map(|mut trial| {
        trial.case += 100;
        trial.configuration.name += " 256k";
        trial.configuration.settings.insert("readahead".to_string(), "256k".to_string());
        trial
    });
    let both: Vec<TrialRecord> = trials.iter().cloned().chain(other).collect();
    let recommendation = recommend(&both, None);
    let axis = recommendation.answers[1].axes.iter().find(|axis| axis.axis == "barrier").unwrap();
    let weak = "measured: acknowledged promises lost";
    assert_eq!((axis.best.as_deref(), axis.levels[0].risks[0].as_str()), (None, weak), "{axis:?}");
}

#[test]
fn what_loses_least_wins_and_zeros_are_equal() {
    let mut trials = fixture::durability_trials(6, false);
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!((answer.measure.as_str(), answer.default().unwrap().case), ("acknowledged-lost", 0));
    assert_eq!(answer.standings[1].verdict, ContenderVerdict::Worse);
    let headline = &answer.judgement.headline;
    assert!(
        headline.starts_with("Keep 'ext4 none': 0 % (acknowledged promises lost). Each other configuration"),
        "{headline}"
    );
    trials.retain(|trial| trial.case == 0);
    let mut same = trials.clone();
    for trial in &mut same {
        trial.case = 1;
        trial.configuration.name = "xfs".to_string();
        trial.configuration.filesystem = "xfs".to_string();
    }
    trials.extend(same);
    let answer = &recommend(&trials, None).answers[0];
    assert_eq!(answer.standings[1].verdict, ContenderVerdict::AsGood);
    assert_eq!(answer.judgement.class, Class::NoDifference);
    assert_eq!(
        answer.judgement.headline,
        "No difference shown in acknowledged promises lost between 'ext4 none' and 'xfs': none lost any, in 6 \
         logs of each or more. Keep the default, 'ext4 none'."
    );
    let sentences = answer.paragraphs().collect::<Vec<_>>().join(" ");
    assert!(!sentences.contains("NaN") && !sentences.contains("inf"), "{sentences}");
    let recovery = &recommend(&trials, Some("unsynced-lost")).answers[0];
    assert!(matches!(recovery.standings[1].verdict, ContenderVerdict::AsGood), "{:?}", recovery.standings);
}

#[test]
fn what_is_wrong_inside_files_is_said_of_a_winner_that_kept_its_promises() {
    let mut trials = fixture::durability_trials(6, false);
    trials.retain(|trial| trial.case == 0);
    let last = |trials: &[TrialRecord]| recommend(trials, None).answers[0].sentences.last().cloned().unwrap();
    assert!(!last(&trials).contains("wrong inside"), "{}", last(&trials));
    let models = &mut trials[0].durability.as_mut().unwrap().models;
    models[2].promises[0].wrong.garbage = 2;
    let wanted =
        format!("under the cache model '{}', 2 files had something wrong inside", models[2].model.name());
    assert!(last(&trials).contains(&wanted), "{}", last(&trials));
}

#[test]
fn an_unsafe_configuration_that_was_not_measured_is_declared() {
    let mut trials = fixture::durability_trials(6, true);
    trials.retain(|trial| trial.case != 1);
    let answer = &recommend(&trials, None).answers[1];
    assert_eq!(answer.default().unwrap().name, "ext4 none");
    let sentences = answer.sentences.join(" ");
    assert!(sentences.contains("less safe in a power cut: barrier = 0"), "{sentences}");
    let note = "whether a configuration is durable was measured for ext4 none, and is declared for ext4 none \
        barrier=0";
    assert!(answer.notes.iter().any(|found| found == note), "{:?}", answer.notes);
}

#[test]
fn a_capacity_that_was_not_sustained_is_said_to_be_less() {
    let mut trials = fsdyno_testkit::searched_trials();
    let sentences =
        |trials: &[TrialRecord]| recommend(trials, Some("p99 <= 20ms")).answers[0].sentences.clone();
    assert!(
        sentences(&trials).iter().all(|text| !text.contains("sustained rate")),
        "{:?}",
        sentences(&trials)
    );
    // The winner is the only trial of xfs.
    trials[2].warnings.push(Warning::new(WarningKind::TargetMissed, "p99 30 ms at 800/s"));
    assert_eq!(
        sentences(&trials)[0],
        "At that rate, however, the window missed the target in 1 of 1 trial: the sustained rate is lower."
    );
    // The other's do not matter to what is recommended.
    trials[2].warnings.clear();
    trials[0].warnings.push(Warning::new(WarningKind::TargetMissed, "p99 30 ms at 300/s"));
    assert!(sentences(&trials).iter().all(|text| !text.contains("sustained rate")));
}

#[test]
fn what_a_protocol_never_syncs_is_said_of_a_winner_that_is_durable() {
    let mut trials = fsdyno_testkit::searched_trials();
    let last = |trials: &[TrialRecord]| recommend(trials, None).answers[0].sentences.last().cloned().unwrap();
    let mut heard = Warning::new(WarningKind::DirectoriesNotSynced, "over SMB, names are not synced");
    trials[2].warnings.push(heard.clone());
    assert_eq!(
        last(&trials),
        "Its protocol weakens it, whatever the settings: over SMB, names are not synced."
    );
    // Of a winner that is not durable, its own risks are said.
    heard.kind = WarningKind::Durability;
    trials.iter_mut().for_each(|trial| trial.warnings.push(heard.clone()));
    assert!(last(&trials).contains("unsafe in a power cut, including this one"), "{}", last(&trials));
}

#[test]
fn a_target_that_nothing_safe_met_is_no_recommendation() {
    let mut trials = fsdyno_testkit::searched_trials();
    for trial in &mut trials {
        for open_loop in trial.phases[0].roles.iter_mut().filter_map(|role| role.open_loop.as_mut()) {
            open_loop.search.as_mut().unwrap().highest_per_s = None;
        }
        trial.warnings.push(Warning::new(WarningKind::TargetMissed, "no rate of clients met p99 <= 20ms"));
    }
    let answer = recommend(&trials, None).answers.remove(0);
    assert_eq!(answer.measure, "flow-capacity");
    assert_eq!(answer.judgement.headline, "No configuration met the target at any rate that was tried.");
    assert!(answer.sentences.iter().all(|text| !text.contains("sustained rate")), "{:?}", answer.sentences);
}

#[test]
fn a_sweep_that_goes_on_says_that_its_answer_is_of_now() {
    let trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    let header = SweepHeader { finished: None, ..fixture::header("read-under-write") };
    let recommended = Recommendation::new(&header, &trials, &Question::default());
    let answer = &recommended.answers[0];
    let so_far = "The sweep is not finished; this answer is based on its first 12 trials.";
    assert_eq!(answer.sentences.last().map(String::as_str), Some(so_far));
    assert!(answer.judgement.headline.starts_with("Use 'xfs"), "{:?}", answer.judgement);
}

#[test]
fn safe_configurations_without_a_value_are_not_called_unsafe() {
    let mut trials = sweep(&[("ext4", "none", 1.0), ("xfs", "none", 1.3)]);
    for trial in trials.iter_mut().filter(|trial| trial.configuration.filesystem == "ext4") {
        trial.warnings.push(Warning::new(WarningKind::Durability, "barrier=0 loses data"));
    }
    for trial in trials.iter_mut().filter(|trial| trial.configuration.filesystem == "xfs") {
        trial.phases.clear();
    }
    let sentences = recommend(&trials, None).answers[0].sentences.join(" ");
    assert!(sentences.contains("Every configuration that has a value is unsafe"), "{sentences}");
}

/// The effects of failing requests are a property of the code: a single trial shows them.
#[test]
fn silent_losses_decide_and_false_successes_of_fsync_are_said() {
    let trial_of = |name: &str, case: u32, mended: &[Fault]| {
        let mut trial = fixture::faulty_trials(1).remove(0);
        (trial.trial, trial.case, trial.configuration.name) = (case, case, name.to_string());
        for result in trial.io_errors.iter_mut().filter(|result| mended.contains(&result.fault)) {
            result.after = Some(Content::New);
        }
        trial
    };
    let ext4 = || trial_of("ext4", 0, &[Fault::AppendData]);
    let xfs = trial_of("xfs", 1, &[Fault::AppendData, Fault::OverwriteData]);
    let silent = trial_of("silent", 2, &[Fault::OverwriteData, Fault::OverwriteDataForGood]);
    let answer = &recommend(&[ext4(), xfs, silent], None).answers[0];
    assert_eq!(
        answer.judgement.headline,
        "No material difference in silent losses between 'xfs' and 'ext4', of 3. The fewest losses that a second \
         fsync hides ('false success') has 'xfs': 1 of 14 faults; the default 2. Keep the default, 'ext4'."
    );
    let order: Vec<&str> = answer.standings.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(order, ["xfs", "ext4", "silent"]);
    assert_eq!(answer.doubts, [""; 0], "a second trial would show the same");
    let of_two = |other| recommend(&[ext4(), other], None).answers[0].judgement.headline.clone();
    let headline = of_two(trial_of("silent", 1, &[Fault::OverwriteData, Fault::OverwriteDataForGood]));
    assert!(headline.starts_with("Use 'ext4', the default: 0 silent losses and 2 that"), "{headline}");
    assert!(headline.contains("where 'silent' has 1 and 0"), "{headline}");
    let same = trial_of("same", 1, &[Fault::AppendData]);
    let answer = &recommend(&[ext4(), same], None).answers[0];
    assert!(answer.judgement.headline.contains("between 'ext4' and 'same'. Keep"), "{:?}", answer.judgement);
}
