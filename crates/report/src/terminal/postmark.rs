//! The report of postmark, for the native workload and for the real program. Several trials of a case are
//! shown as means.
//!
//! The real program's figures are shown as it printed them: whole seconds, with its own total, and rates over
//! these.

use super::style::{Paint, Style};
use fsdyno_core::Workload;
use fsdyno_core::workload::external::postmark::SECONDS;
use fsdyno_core::workload::postmark;
use fsdyno_formats::postmark::{Figures, PhaseFigures};
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Writes the report.
///
/// # Errors
/// Those of `out`.
pub fn report(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let real = matches!(case.workload, Workload::External(_));
    if real {
        let title = format!("{}: {}", case.configuration.name, case.workload_title);
        style.paragraph(out, Paint::Heading, 0, &title)?;
    } else {
        writeln!(out, "{}", style.paint(Paint::Heading, &super::compatible::header(case)))?;
    }
    let [Some(create), Some(transactions), Some(delete)] =
        [postmark::CREATE, postmark::TRANSACTIONS, postmark::DELETE].map(|spec| phase(case, spec.name))
    else {
        return Ok(());
    };
    let sum_s: f64 = [&create, &transactions, &delete].iter().map(|phase| phase.seconds).sum();
    let total_s = transactions.counts.get(SECONDS).map_or(sum_s, |seconds| *seconds as f64);
    // Means over several trials have fractions, even if each trial has whole seconds.
    let decimals = if real && case.trials.len() == 1 { 0 } else { 3 };
    write!(out, "{}", Figures { total_s, decimals, create, transactions, delete })
}

fn phase<'a>(case: &'a CaseView, name: &str) -> Option<PhaseFigures<'a>> {
    let phase = case.phases.iter().find(|phase| phase.name == name)?;
    let role = phase.roles.first()?;
    let items = role.rates.items / case.trials.len().max(1) as u64;
    Some(PhaseFigures { seconds: phase.window_ns.0 as f64 / 1e9, items, counts: &role.counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::{PhaseResult, RoleResult};
    use fsdyno_core::workload::{External, Postmark, Program};
    use fsdyno_core::{Nanos, Role, TrialRecord};

    fn phase(name: &str, role: Role, millis: u64, items: u64, counts: &[(&str, u64)]) -> PhaseResult {
        let mut result = fixture::readers(1, 1.0);
        result = RoleResult { role, operations: Vec::new(), ..result };
        result.rates.items = items;
        result.counts = counts.iter().map(|(name, count)| ((*name).to_string(), *count)).collect();
        let phase = fixture::phases(1.0).remove(0);
        PhaseResult {
            name: name.to_string(),
            window_ns: Nanos::from_millis(millis),
            roles: vec![result],
            ..phase
        }
    }

    fn trial(millis: [u64; 3]) -> TrialRecord {
        let mut trial = fixture::trials().remove(0);
        trial.workload = Workload::Postmark(Postmark::default());
        trial.phases = vec![
            phase("create", Role::Creator, millis[0], 500, &[("created", 500), ("bytes written", 2_600_000)]),
            phase(
                "transactions",
                Role::Transactor,
                millis[1],
                500,
                &[
                    ("created", 264),
                    ("read", 243),
                    ("appended", 257),
                    ("deleted", 236),
                    ("bytes read", 1_430_770),
                    ("bytes written", 2_062_068),
                ],
            ),
            phase("delete", Role::Deleter, millis[2], 528, &[("deleted", 528)]),
        ];
        trial
    }

    fn text(trials: &[TrialRecord]) -> String {
        let view = fixture::view("postmark-tps", trials);
        let mut out = Vec::new();
        report(&mut out, &view.cases[0], &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The format's own writer is tested with the format; here each line must get the figures of its phase.
    #[test]
    fn each_phase_is_in_its_lines() {
        let text = text(&[trial([1000, 2500, 500])]);
        for line in [
            "\t4.000 seconds total\n",
            "\t2.500 seconds of transactions (200.00 per second)\n",
            "\t\tCreation alone: 500 files (500.00 per second)\n",
            "\t\tMixed with transactions: 264 files (105.60 per second)\n",
            "\t\tDeletion alone: 528 files (1056.00 per second)\n",
            "\t4.45 megabytes written (1.11 megabytes per second)\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    /// `PostMark v1.51` with its defaults, finished within one second: it counts one second for each part and
    /// for the whole run.
    #[test]
    fn the_real_program_keeps_its_seconds() {
        let mut trial = trial([1000, 1000, 1000]);
        let commands = vec!["set number 500".to_string()];
        trial.workload =
            Workload::External(External { program: Program::Postmark, commands, ..Default::default() });
        trial.phases[1].roles[0].counts.insert(SECONDS.to_string(), 1);
        let text = text(&[trial]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "ext4 bfq: the real postmark: set number 500",
                "Time:",
                "\t1 seconds total",
                "\t1 seconds of transactions (500.00 per second)",
                "",
                "Files:",
            ]
        );
        assert_eq!(lines[6], "\t764 created (764.00 per second)");
        assert!(text.contains("\t4.45 megabytes written (4.45 megabytes per second)\n"), "{text}");
    }

    #[test]
    fn several_trials_are_shown_as_means() {
        let mut other = trial([3000, 3500, 500]);
        other.trial = 9;
        let text = text(&[trial([1000, 2500, 500]), other]);
        assert!(text.lines().next().unwrap().ends_with(" trials=2"), "{text}");
        assert!(text.contains("\t3.000 seconds of transactions (166.67 per second)\n"), "{text}");
        assert!(text.contains("\t764 created (138.91 per second)\n"), "{text}");
    }
}
