//! The commands of a plan: that they need permission, when they run, and what their failure means.

use crate::lab::{Lab, PLAN, measured, parse, phase, plan, until_end};
use fsdyno_core::result::CommandKind;
use fsdyno_core::{EngineEvent, Outcome, WarningKind};
use fsdyno_host::EngineOutput;
use fsdyno_sweep::{SweepEnd, SweepError};
use fsdyno_testkit::fake::FakeEngine;

const HOOKS: &[&str] =
    &["hooks.before_trial=first 'a b'", "hooks.before_phase=second", "hooks.after_trial=third"];

/// A lab in which these programs are installed, and may run.
fn lab() -> Lab {
    let mut lab = Lab::without_telemetry();
    lab.allow_hooks = true;
    for program in ["first", "second", "third", "false", "perf"] {
        lab.host.install(program, "");
    }
    lab
}

fn with(more: &[&str]) -> Vec<String> {
    let usual = ["telemetry=false", "axes.filesystem=ext4", "axes.scheduler=bfq"];
    usual.iter().chain(HOOKS).chain(more).map(|text| (*text).to_string()).collect()
}

fn hooked(more: &[&str]) -> fsdyno_sweep::Plan {
    let overrides = with(more);
    plan(PLAN, &overrides.iter().map(String::as_str).collect::<Vec<_>>())
}

/// An engine that asks before its phase.
fn asking() -> FakeEngine {
    let ready = EngineEvent::Ready { phase: "null".to_string() };
    let events = std::iter::once(ready).chain(until_end(phase("null"))).chain([EngineEvent::Done]);
    let outputs = events.map(|event| EngineOutput::Event(Box::new(event))).collect();
    FakeEngine { outputs, ..FakeEngine::default() }
}

#[test]
fn without_permission_nothing_is_done() {
    let mut lab = lab();
    lab.allow_hooks = false;
    lab.engines([measured()]);
    let before = lab.host.snapshot();
    let error = lab.run(&hooked(&[]), None).unwrap_err();
    assert!(matches!(&error, SweepError::HooksNotAllowed { commands, .. } if commands.len() == 3), "{error}");
    assert!(error.to_string().contains("\n  before_trial: first 'a b'"), "{error}");
    assert_eq!((lab.host.snapshot(), lab.host.guardian.commands().len()), (before, 0));
    assert_eq!(lab.store.sweeps().unwrap().len(), 0);
}

#[test]
fn commands_run_in_their_order_and_know_what_for() {
    let mut lab = lab();
    lab.engines([asking()]);
    let outcome = lab.run(&hooked(&["monitor=[\"perf -o {out}\"]"]), None).unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 1));
    let trial = &lab.trials(&outcome)[0];
    let kinds: Vec<CommandKind> = trial.commands.iter().map(|run| run.kind).collect();
    let expected =
        [CommandKind::BeforeTrial, CommandKind::BeforePhase, CommandKind::Monitor, CommandKind::AfterTrial];
    assert_eq!(kinds, expected);
    assert!(trial.warnings.iter().any(|warning| warning.kind == WarningKind::Monitored));
    let commands = lab.host.guardian.commands();
    let heard = |index: usize, name: &str| {
        let variables = &commands[index].environment;
        variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(commands[0].words, ["first", "a b"]);
    assert_eq!((heard(0, "FSDYNO_TRIAL"), heard(0, "FSDYNO_PHASE")), (Some("0"), None));
    assert_eq!(heard(0, "FSDYNO_DEVICE"), Some("/data/fsdyno.img"));
    assert_eq!((heard(1, "FSDYNO_PHASE"), heard(1, "FSDYNO_DEVICE")), (Some("null"), Some("/dev/loop0")));
    assert!(heard(1, "FSDYNO_MOUNTPOINT").is_some() && heard(3, "FSDYNO_MOUNTPOINT").is_none());
    assert_eq!((commands[2].words[0].as_str(), commands[2].limit), ("perf", None));
    assert!(commands[2].words[2].ends_with("results.db.files/1/0/phase1-monitor1-perf"), "{commands:?}");
    assert_eq!(heard(3, "FSDYNO_OUTCOME"), Some("measured"));
}

#[test]
fn a_hook_that_fails_fails_its_trial_and_the_last_one_runs_all_the_same() {
    for (key, step) in
        [("hooks.before_trial=false 1", "before_trial"), ("hooks.before_phase=false 1", "before_phase")]
    {
        let mut lab = lab();
        lab.engines([asking()]);
        let before = lab.host.snapshot();
        let outcome = lab.run(&hooked(&[key]), None).unwrap();
        assert_eq!((outcome.end, outcome.failed), (SweepEnd::Finished, 1), "{key}");
        assert_eq!(lab.host.snapshot(), before, "{key}");
        let trial = &lab.trials(&outcome)[0];
        let Outcome::Failed { error } = &trial.outcome else { panic!("{:?}", trial.outcome) };
        assert_eq!((error.step.as_str(), error.details.as_str()), (step, "said"));
        assert_eq!(trial.commands.last().unwrap().kind, CommandKind::AfterTrial);
    }
    let mut lab = lab();
    lab.engines([asking()]);
    let outcome = lab.run(&hooked(&["hooks.after_trial=false 1"]), None).unwrap();
    let trial = &lab.trials(&outcome)[0];
    assert!(matches!(&trial.outcome, Outcome::Failed { error } if error.step == "after_trial"));
    assert_eq!(trial.phases.len(), 1, "what was measured is kept");
}

#[test]
fn a_program_that_is_not_installed_skips_the_cases() {
    let mut lab = lab();
    lab.engines([]);
    let outcome = lab.run(&hooked(&["hooks.before_trial=absent"]), None).unwrap();
    assert_eq!((outcome.skipped, lab.host.guardian.commands().len()), (1, 0));
}

#[test]
fn commands_are_words_and_not_for_guests() {
    let refused = |set: &str| {
        let error = parse(PLAN, "test.toml", &[set]).unwrap_err();
        format!("{error} {}", error.hint().unwrap_or_default())
    };
    for (set, says) in [
        ("hooks.before_trial=a | b", "write sh -c '...'"),
        ("hooks.before_trial=a 2>/dev/null", "write sh -c '...'"),
        ("hooks.before_trial=a # b", "a program and its arguments"),
        ("hooks.before_trial=''", "a program and its arguments"),
        ("hooks.before_trial=a 'b", "a program and its arguments"),
        ("hooks.before_trial=[\"a\"]", "a program and its arguments"),
        ("hooks.after_trial=a {out}", "only a monitor has"),
        ("hooks.before=a", "before"),
        ("hooks.timeout=0", "greater than zero"),
        ("monitor=[1]", "a program and its arguments"),
    ] {
        assert!(refused(set).contains(says), "{set}: {}", refused(set));
    }
    let kernel = "axes.kernel=[\"host\", \"debian:6.1\"]";
    let error = parse(PLAN, "test.toml", &[kernel, "monitor=[\"vmstat 1\"]"]).unwrap_err();
    assert!(error.to_string().contains("'monitor' does not run in a guest"), "{error}");
    assert!(parse(PLAN, "test.toml", &[kernel, "hooks.before_trial=/bin/true"]).is_ok());
    let plan = parse(PLAN, "/plans/test.toml", &["hooks.before_trial=./x.sh 'a; b' '|x'"]).unwrap();
    assert_eq!(plan.hooks.commands[0].words[1..], ["a; b", "|x"]);
    assert_eq!(plan.hooks.commands[0].words[0], "/plans/x.sh");
}
