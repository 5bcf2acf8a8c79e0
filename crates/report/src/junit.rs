//! Results as JUnit's XML, which CI systems show as test results: a case for each trial of a sweep and for
//! its answer, or for each measure of a comparison.
//!
//! The format has no specification; elements and attributes are those that Jenkins, GitLab and GitHub's
//! reporters all read (<https://github.com/testmoapp/junitxml>). What is undecided counts as skipped, with
//! its reason: it is neither a success nor a failure.

use crate::terminal::comparison::{cells, loss_cells};
use crate::visible::visible;
use fsdyno_core::outcome::Outcome;
use fsdyno_core::result::LifecycleStep;
use fsdyno_core::{SweepHeader, TrialRecord};
use fsdyno_verdict::Workloads;
use fsdyno_verdict::comparison::{ComparedCase, ComparedMeasure, Comparison, Finding};
use fsdyno_verdict::durability::{LossFinding, LossRow};
use fsdyno_verdict::judgement::Class;
use fsdyno_verdict::recommendation::{Answer, Question, Recommendation};
use fsdyno_verdict::text;
use maud::{Markup, html};
use std::io::{self, Write};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// The outcome of a test.
enum End {
    Passed,
    Failed { message: String, details: String },
    Skipped { message: String },
}

struct Test {
    class: String,
    name: String,
    seconds: Option<f64>,
    end: End,
}

/// Writes a sweep: each trial that failed is a failure, and so are those that are missing.
///
/// # Errors
/// Those of `out`.
pub fn sweep(out: &mut dyn Write, header: &SweepHeader, trials: &[TrialRecord]) -> io::Result<()> {
    let workloads = Workloads::of(trials);
    let mut tests: Vec<Test> =
        trials.iter().map(|trial| of_trial(trial, workloads.title(&trial.workload))).collect();
    let recommendation = Recommendation::new(header, trials, &Question::default());
    tests.extend(recommendation.answers.into_iter().map(of_answer));
    if header.finished.is_none() {
        let (message, details) = ("the sweep is not finished".to_string(), String::new());
        tests.push(Test {
            class: header.name.clone(),
            name: "all trials".to_string(),
            seconds: None,
            end: End::Failed { message, details },
        });
    }
    document(out, &[(header.name.clone(), tests)])
}

/// An answer that decides nothing is no failure of what was measured.
fn of_answer(answer: Answer) -> Test {
    let message = answer.judgement.headline;
    Test {
        class: answer.title,
        name: format!("the answer by {}", answer.measure),
        seconds: None,
        end: match answer.judgement.class {
            Class::Winner | Class::NoDifference => End::Passed,
            Class::TradeOff | Class::Undecided | Class::Invalid => End::Skipped { message },
        },
    }
}

fn of_trial(trial: &TrialRecord, class: String) -> Test {
    let sentinel = if trial.sentinel { " (sentinel)" } else { "" };
    Test {
        class,
        name: format!("{}, trial {}{sentinel}", trial.configuration.name, text::nth(trial.trial)),
        seconds: LifecycleStep::Total.of(&trial.lifecycle_ns).map(|time| time.as_secs_f64()),
        end: match &trial.outcome {
            Outcome::Measured => End::Passed,
            Outcome::Skipped { unmet } => End::Skipped { message: unmet.join("; ") },
            Outcome::Failed { error } => {
                End::Failed { message: error.to_string(), details: error.details.clone() }
            }
        },
    }
}

/// Writes a comparison: each measure that is slower is a failure, and each cache model under which more is
/// lost.
///
/// # Errors
/// Those of `out`.
pub fn comparison(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let mut suites: Vec<(String, Vec<Test>)> = comparison.cases.iter().map(of_case).collect();
    for (letter, alone) in ["A", "B"].into_iter().zip(&comparison.alone) {
        let tests: Vec<Test> = alone
            .iter()
            .map(|case| Test {
                class: case.workload.clone(),
                name: case.name.clone(),
                seconds: None,
                end: match case.is_lost {
                    true => End::Failed { message: case.reason.clone(), details: String::new() },
                    false => End::Skipped { message: format!("not compared: {}", case.reason) },
                },
            })
            .collect();
        if !tests.is_empty() {
            suites.push((format!("only in {letter}"), tests));
        }
    }
    document(out, &suites)
}

fn of_case(case: &ComparedCase) -> (String, Vec<Test>) {
    let [a, b] = &case.names;
    let name = if a == b { a.clone() } else { format!("{a} -> {b}") };
    let test = |row: &ComparedMeasure| Test {
        class: case.workload_title.clone(),
        name: row.measure.to_string(),
        seconds: None,
        end: end(row),
    };
    let of_losses = |row: &LossRow| Test {
        class: case.workload_title.clone(),
        name: format!("acknowledged-lost ({})", row.model.name()),
        seconds: None,
        end: end_of_losses(row),
    };
    (name, case.rows.iter().map(test).chain(case.losses.iter().map(of_losses)).collect())
}

/// That no difference is shown proves nothing, but it is no failure either.
fn end_of_losses(row: &LossRow) -> End {
    let [_, a, b, _, _] = loss_cells(row);
    let message = format!("{}: {a} -> {b}", row.finding.words());
    match row.finding {
        LossFinding::LosesMore => End::Failed { message, details: String::new() },
        LossFinding::LosesLess | LossFinding::NoDifferenceShown(Some(_)) => End::Passed,
        LossFinding::NoDifferenceShown(None) => End::Skipped { message },
    }
}

fn end(row: &ComparedMeasure) -> End {
    let [_, a, b, ratio, _] = cells(row);
    let message = format!("{}: {a} -> {b}, B/A {ratio}", row.verdict());
    match row.finding {
        Finding::Slower => End::Failed { message, details: String::new() },
        Finding::CannotTell(_) => End::Skipped { message },
        Finding::Faster | Finding::NoMaterialDifference => End::Passed,
    }
}

fn document(out: &mut dyn Write, suites: &[(String, Vec<Test>)]) -> io::Result<()> {
    let all = || suites.iter().flat_map(|(_, tests)| tests);
    let markup = html! {
        testsuites name="fsdyno" tests=(all().count()) failures=(failures(all())) skipped=(skips(all())) errors="0" {
            @for (name, tests) in suites {
                testsuite name=(visible(name)) tests=(tests.len()) failures=(failures(tests.iter()))
                    skipped=(skips(tests.iter())) errors="0" {
                    @for test in tests { (case(test)) }
                }
            }
        }
    };
    let lines =
        markup.into_string().replace("><testsuite", ">\n<testsuite").replace("><testcase", ">\n<testcase");
    writeln!(out, "{DECLARATION}\n{lines}")
}

fn case(test: &Test) -> Markup {
    let seconds = test.seconds.map(|seconds| format!("{seconds:.3}"));
    html! {
        testcase classname=(visible(&test.class)) name=(visible(&test.name)) time=[seconds] {
            @match &test.end {
                End::Passed => {}
                End::Failed { message, details } => { failure message=(visible(message)) { (visible(details)) } }
                End::Skipped { message } => { skipped message=(visible(message)) {} }
            }
        }
    }
}

fn failures<'t>(tests: impl Iterator<Item = &'t Test>) -> usize {
    tests.filter(|test| matches!(test.end, End::Failed { .. })).count()
}

fn skips<'t>(tests: impl Iterator<Item = &'t Test>) -> usize {
    tests.filter(|test| matches!(test.end, End::Skipped { .. })).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::{blocks, question, side};

    #[test]
    fn trials_that_fail_are_failures_and_names_are_escaped() {
        let mut trials = fixture::trials();
        trials[5].configuration.name = "x<fs> \"bfq\" & \x1b]".to_string();
        let mut out = Vec::new();
        sweep(&mut out, &fixture::header("read"), &trials).unwrap();
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "), "{text}");
        assert!(text.contains("tests=\"7\" failures=\"1\" skipped=\"2\""), "{text}");
        assert!(text.contains("name=\"x&lt;fs&gt; &quot;bfq&quot; &amp; \\x1b], trial 6\""), "{text}");
        assert!(text.contains("<failure message=\"3 readers, 3 writers: write"), "{text}");
        assert!(text.contains("<skipped message=\"program 'mkfs.btrfs' is not installed; "), "{text}");
    }

    #[test]
    fn what_is_missing_of_a_sweep_is_a_failure() {
        let (mut out, trials) = (Vec::new(), fixture::trials());
        let header = SweepHeader { finished: None, ..fixture::header("read") };
        sweep(&mut out, &header, &trials[..2]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("tests=\"4\" failures=\"1\" skipped=\"1\""), "{text}");
        assert!(text.contains("<failure message=\"the sweep is not finished\">"), "{text}");
    }

    #[test]
    fn what_is_slower_fails_and_what_is_undecided_is_skipped() {
        let (a, b) = (blocks(0, "a", 6, 1.0), blocks(1, "b", 6, 0.9));
        let slower =
            Comparison::new(side("a", 1, &a), side("b", 1, &b), &question(&["read", "longest-stall"]));
        let undecided = Comparison::new(side("a", 1, &a), side("b", 2, &b[..1]), &question(&["read"]));
        let printed = |compared: &Comparison| {
            let mut out = Vec::new();
            comparison(&mut out, compared).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = printed(&slower);
        assert!(text.contains("tests=\"2\" failures=\"1\" skipped=\"0\""), "{text}");
        assert!(text.contains("<failure message=\"slower: "), "{text}");
        let text = printed(&undecided);
        assert!(text.contains("<skipped message=\"cannot tell: 1 trial, needs about 6"), "{text}");
    }

    #[test]
    fn what_loses_more_fails() {
        let of = |case| fixture::durability_side(6, case);
        let (a, b) = (of(0), of(1));
        let mut out = Vec::new();
        comparison(&mut out, &Comparison::new(side("a", 1, &a), side("b", 2, &b), &question(&[]))).unwrap();
        let text = String::from_utf8(out).unwrap();
        let failure = "<failure message=\"loses more: 0 % (0 of 6 logs) -&gt; 100.0 % (6 of 6 logs)\">";
        assert!(text.contains("name=\"acknowledged-lost (flushed)\"") && text.contains(failure), "{text}");
    }
}
