//! Writes the report of postmark 1.5, line by line, with fractions where the original has whole seconds.
//!
//! The original counts less than a second as one second, and prints rates as whole numbers. Here times are as
//! measured and rates have two decimals; a phase without files has the rate 0. Its line `deleted` shows the
//! files created (corrected in 1.53); ours shows the files deleted, which is always the same number.
//! Megabytes are 2^20 bytes, as in the original.

use fsdyno_core::figures::total;
use std::collections::BTreeMap;
use std::fmt;

/// The results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures<'a> {
    /// The duration of the whole run.
    pub total_s: f64,
    /// Decimals of seconds; the original has none.
    pub decimals: usize,
    /// Creating the pool of files.
    pub create: PhaseFigures<'a>,
    /// The transactions.
    pub transactions: PhaseFigures<'a>,
    /// Deleting the remaining files.
    pub delete: PhaseFigures<'a>,
}

/// The results of one of the three phases.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseFigures<'a> {
    /// The duration of the phase.
    pub seconds: f64,
    /// The number of its files or transactions.
    pub items: u64,
    /// Its counts: `created`, `read`, `appended`, `deleted`, `bytes read`, `bytes written`.
    pub counts: &'a BTreeMap<String, u64>,
}

impl PhaseFigures<'_> {
    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { total_s, decimals, create, transactions, delete } = self;
        let (total_s, decimals) = (*total_s, *decimals);
        let all =
            |name: &str| total([create, transactions, delete].into_iter().map(|phase| phase.count(name)));

        writeln!(f, "Time:")?;
        writeln!(f, "\t{total_s:.decimals$} seconds total")?;
        let per_s = rate(transactions.items, transactions.seconds);
        writeln!(f, "\t{:.decimals$} seconds of transactions ({per_s} per second)", transactions.seconds)?;

        writeln!(f, "\nFiles:")?;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, files: u64, seconds: f64| {
            writeln!(f, "\t{files} {what} ({} per second)", rate(files, seconds))
        };
        let split = |f: &mut fmt::Formatter<'_>, what: &str, files: u64, seconds: f64| {
            writeln!(f, "\t\t{what}: {files} files ({} per second)", rate(files, seconds))
        };
        let mixed = "Mixed with transactions";
        line(f, "created", all("created"), total_s)?;
        split(f, "Creation alone", create.count("created"), create.seconds)?;
        split(f, mixed, transactions.count("created"), transactions.seconds)?;
        line(f, "read", all("read"), transactions.seconds)?;
        line(f, "appended", all("appended"), transactions.seconds)?;
        line(f, "deleted", all("deleted"), total_s)?;
        split(f, "Deletion alone", delete.count("deleted"), delete.seconds)?;
        split(f, mixed, transactions.count("deleted"), transactions.seconds)?;

        writeln!(f, "\nData:")?;
        for what in ["read", "written"] {
            let bytes = all(&format!("bytes {what}")) as f64;
            writeln!(f, "\t{} {what} ({} per second)", scaled(bytes), scaled(bytes / total_s))?;
        }
        Ok(())
    }
}

fn rate(count: u64, seconds: f64) -> String {
    let per_s = if count == 0 { 0.0 } else { count as f64 / seconds };
    format!("{per_s:.2}")
}

/// Scales like the original's `scalef`.
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
    use crate::postmark::output;
    use fsdyno_core::PhaseResult;
    use fsdyno_core::workload::external::postmark::SECONDS;

    #[test]
    fn lines_are_those_of_the_original() {
        let counts = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(name, count)| ((*name).to_string(), *count)).collect()
        };
        let create = counts(&[("created", 500), ("bytes written", 2_600_000)]);
        let transactions = counts(&[
            ("created", 264),
            ("read", 243),
            ("appended", 257),
            ("deleted", 236),
            ("bytes read", 1_430_770),
            ("bytes written", 2_062_068),
        ]);
        let delete = counts(&[("deleted", 528)]);
        let figures = Figures {
            total_s: 4.0,
            decimals: 3,
            create: PhaseFigures { seconds: 1.0, items: 500, counts: &create },
            transactions: PhaseFigures { seconds: 2.5, items: 500, counts: &transactions },
            delete: PhaseFigures { seconds: 0.5, items: 528, counts: &delete },
        };
        assert_eq!(
            figures.to_string(),
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

    /// The terse and the full report of a run agree: reading the one and writing the other gives the same
    /// counts and rates.
    #[test]
    fn the_terse_report_of_a_run_becomes_its_full_one() {
        let terse = "The base number of files is 500\nTransactions: 50\n\
                     1 1 50.00 525.00 500.00 25.00 29.00 21.00 525.00 500.00 25.00 160292.00 2854642.00\n";
        let phases = output(terse).unwrap().phases;
        let figures = |phase: &'static str| {
            let PhaseResult { window_ns, roles, .. } = phases.iter().find(|one| one.name == phase).unwrap();
            let (seconds, items) = (window_ns.as_secs_f64(), roles[0].rates.items);
            PhaseFigures { seconds, items, counts: &roles[0].counts }
        };
        let transactions = figures("transactions");
        let written = Figures {
            total_s: transactions.counts[SECONDS] as f64,
            decimals: 0,
            create: figures("create"),
            transactions,
            delete: figures("delete"),
        };
        assert_eq!(
            written.to_string(),
            "\
Time:
\t1 seconds total
\t1 seconds of transactions (50.00 per second)

Files:
\t525 created (525.00 per second)
\t\tCreation alone: 500 files (500.00 per second)
\t\tMixed with transactions: 25 files (25.00 per second)
\t29 read (29.00 per second)
\t21 appended (21.00 per second)
\t525 deleted (525.00 per second)
\t\tDeletion alone: 500 files (500.00 per second)
\t\tMixed with transactions: 25 files (25.00 per second)

Data:
\t156.54 kilobytes read (156.54 kilobytes per second)
\t2.72 megabytes written (2.72 megabytes per second)
"
        );
    }

    #[test]
    fn amounts_are_scaled_as_in_the_original() {
        assert_eq!(scaled(0.0), "0.000000 bytes");
        assert_eq!(scaled(512.0), "0.50 kilobytes");
        assert_eq!(scaled(1_048_576.0), "1024.00 kilobytes");
        assert_eq!(scaled(1_572_864.0), "1.50 megabytes");
    }
}
