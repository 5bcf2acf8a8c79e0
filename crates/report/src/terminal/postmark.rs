//! The report of postmark 1.5, line by line, with fractions where the original has whole seconds; of the native workload and
//! of the real program.
//!
//! The original counts no second as one, and rates per second as whole numbers. Here times are as measured and rates have
//! two decimals; a part without files has the rate 0. Its line `deleted` shows the files created (corrected in 1.53);
//! ours shows the files deleted, and the two are always the same. Megabytes are 2^20 bytes, as in the original. Several
//! trials of a case are shown by their means.
//!
//! What the real program told stands as it told it: whole seconds, those of the whole run its own, and rates over them.

use super::{Paint, Style};
use crate::view::{CaseView, RoleView};
use fsdyno_core::Workload;
use fsdyno_core::figures::total;
use fsdyno_core::workload::external::postmark::SECONDS;
use std::io::{self, Write};

/// Writes the report.
///
/// # Errors
/// Those of `out`.
pub fn report(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let real = matches!(case.workload, Workload::External(_));
    if real {
        let title = format!("{}: {}", case.configuration.name, case.workload.load().title());
        style.paragraph(out, Paint::Heading, 0, &title)?;
    } else {
        writeln!(out, "{}", style.paint(Paint::Heading, &super::compatible::header(case)))?;
    }
    let [Some(create), Some(transactions), Some(delete)] =
        ["create", "transactions", "delete"].map(|name| Part::of(case, name))
    else {
        return Ok(());
    };
    let parts = [&create, &transactions, &delete];
    let sum_s: f64 = parts.iter().map(|part| part.seconds).sum();
    let total_s = transactions.role.counts.get(SECONDS).map_or(sum_s, |seconds| *seconds as f64);
    // Several trials have fractions, whatever each of them has.
    let decimals = if real && case.trials.len() == 1 { 0 } else { 3 };
    let all = |name: &str| total(parts.iter().map(|part| part.count(name)));

    writeln!(out, "Time:")?;
    writeln!(out, "\t{total_s:.decimals$} seconds total")?;
    let per_s = rate(transactions.items, transactions.seconds);
    writeln!(out, "\t{:.decimals$} seconds of transactions ({per_s} per second)", transactions.seconds)?;

    writeln!(out, "\nFiles:")?;
    let line = |out: &mut dyn Write, what: &str, files: u64, seconds: f64| {
        writeln!(out, "\t{files} {what} ({} per second)", rate(files, seconds))
    };
    let split = |out: &mut dyn Write, what: &str, files: u64, seconds: f64| {
        writeln!(out, "\t\t{what}: {files} files ({} per second)", rate(files, seconds))
    };
    let mixed = "Mixed with transactions";
    line(out, "created", all("created"), total_s)?;
    split(out, "Creation alone", create.count("created"), create.seconds)?;
    split(out, mixed, transactions.count("created"), transactions.seconds)?;
    line(out, "read", all("read"), transactions.seconds)?;
    line(out, "appended", all("appended"), transactions.seconds)?;
    line(out, "deleted", all("deleted"), total_s)?;
    split(out, "Deletion alone", delete.count("deleted"), delete.seconds)?;
    split(out, mixed, transactions.count("deleted"), transactions.seconds)?;

    writeln!(out, "\nData:")?;
    for what in ["read", "written"] {
        let bytes = all(&format!("bytes {what}")) as f64;
        writeln!(out, "\t{} {what} ({} per second)", scaled(bytes), scaled(bytes / total_s))?;
    }
    Ok(())
}

/// One of the three parts.
struct Part<'a> {
    role: &'a RoleView,
    seconds: f64,
    items: u64,
}

impl<'a> Part<'a> {
    fn of(case: &'a CaseView, name: &str) -> Option<Self> {
        let phase = case.phases.iter().find(|phase| phase.name == name)?;
        let role = phase.roles.first()?;
        let items = role.rates.items / case.trials.len().max(1) as u64;
        Some(Part { role, seconds: phase.window_ns.0 as f64 / 1e9, items })
    }

    fn count(&self, name: &str) -> u64 {
        self.role.counts.get(name).copied().unwrap_or(0)
    }
}

fn rate(count: u64, seconds: f64) -> String {
    let per_s = if count == 0 { 0.0 } else { count as f64 / seconds };
    format!("{per_s:.2}")
}

/// As the original's `scalef`.
fn scaled(bytes: f64) -> String {
    const KILOBYTE: f64 = 1024.0;
    const MEGABYTE: f64 = KILOBYTE * KILOBYTE;
    match bytes {
        bytes if bytes > MEGABYTE => format!("{:.2} megabytes", bytes / MEGABYTE),
        bytes if bytes != 0.0 => format!("{:.2} kilobytes", bytes / KILOBYTE),
        _ => format!("{bytes:.6} bytes"),
    }
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

    #[test]
    fn lines_are_those_of_the_original() {
        let text = text(&[trial([1000, 2500, 500])]);
        let (_, report) = text.split_once('\n').unwrap();
        assert_eq!(
            report,
            "\
Time:
\t4.000 seconds total
\t2.500 seconds of transactions (200.00 per second)

Files:
\t764 created (191.00 per second)
\t\tCreation alone: 500 files (500.00 per second)
\t\tMixed with transactions: 264 files (105.60 per second)
\t243 read (97.20 per second)
\t257 appended (102.80 per second)
\t764 deleted (191.00 per second)
\t\tDeletion alone: 528 files (1056.00 per second)
\t\tMixed with transactions: 236 files (94.40 per second)

Data:
\t1.36 megabytes read (349.31 kilobytes per second)
\t4.45 megabytes written (1.11 megabytes per second)
"
        );
    }

    /// `PostMark v1.51` with its defaults, all of it within one second: each part counts as one, and so does the whole.
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
    fn several_trials_are_shown_by_their_means() {
        let mut other = trial([3000, 3500, 500]);
        other.trial = 9;
        let text = text(&[trial([1000, 2500, 500]), other]);
        assert!(text.lines().next().unwrap().ends_with(" trials=2"), "{text}");
        assert!(text.contains("\t3.000 seconds of transactions (166.67 per second)\n"), "{text}");
        assert!(text.contains("\t764 created (138.91 per second)\n"), "{text}");
    }

    #[test]
    fn amounts_are_scaled_as_in_the_original() {
        assert_eq!(scaled(0.0), "0.000000 bytes");
        assert_eq!(scaled(512.0), "0.50 kilobytes");
        assert_eq!(scaled(1_048_576.0), "1024.00 kilobytes");
        assert_eq!(scaled(1_572_864.0), "1.50 megabytes");
    }
}
