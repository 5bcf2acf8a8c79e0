//! Reads the terse report of postmark.
//!
//! postmark has two reports, both in whole seconds. The terse one is more precise: its rates have two
//! decimals, so a rate multiplied by the seconds gives the count, exactly up to 100 s, and beyond that with
//! an error of at most 0.005 per second. `show` prints the number of files and transactions beforehand. A
//! part that takes less than a second counts as one second, and so does the whole run: its seconds are not
//! the sum of those of its parts.

use crate::{Results, nanos};
use fsdyno_core::result::RoleResult;
use fsdyno_core::workload::external::postmark;
use fsdyno_core::workload::postmark as native;
use fsdyno_core::{PhaseResult, Role, WarningKind};

/// Below this, whole seconds are coarser than 10 %.
const FINE_SECONDS: f64 = 10.0;
/// The count of numbers in the terse report.
const NUMBERS: usize = 13;

/// Reads the output of a run with `set report terse` and `show`.
///
/// # Errors
/// The error that postmark printed, or what it did not print.
pub fn output(stdout: &str) -> Result<Results, String> {
    // postmark continues after an error.
    if let Some(line) = stdout.lines().find(|line| line.contains("Error:") || line.contains("Eh?")) {
        return Err(format!("it printed '{}'", line.trim()));
    }
    let number: f64 = shown(stdout, "The base number of files is ")?;
    let transactions: f64 = shown(stdout, "Transactions: ")?;
    let all = terse(stdout).ok_or("it printed no terse report")?;
    let [
        seconds,
        transaction_seconds,
        rate,
        created,
        created_alone,
        created_mixed,
        read,
        appended,
        deleted,
        deleted_alone,
        deleted_mixed,
        bytes_read,
        bytes_written,
    ] = all;
    let count = |rate: f64, seconds: f64| (rate * seconds).round() as u64;
    let mixed = |rate: f64| count(rate, transaction_seconds);
    // The terse report gives the total of files created and deleted, but not how many outside transactions.
    let in_pool = count(created, seconds).saturating_sub(mixed(created_mixed));
    let deleted_last = count(deleted, seconds).saturating_sub(mixed(deleted_mixed));
    let counted = |which: Role, items: u64, rate: f64, counts: &[(&str, u64)]| {
        let mut role = RoleResult::unwatched(which, 1);
        (role.rates.items, role.rates.items_per_s) = (items, rate);
        role.counts = counts.iter().map(|(name, count)| ((*name).to_string(), *count)).collect();
        role
    };
    let create = counted(Role::Creator, number as u64, created_alone, &[("created", in_pool)]);
    let in_transactions = [
        ("created", mixed(created_mixed)),
        ("read", mixed(read)),
        ("appended", mixed(appended)),
        ("deleted", mixed(deleted_mixed)),
        // Of the whole run, including the creation of the pool.
        ("bytes read", count(bytes_read, seconds)),
        ("bytes written", count(bytes_written, seconds)),
        (postmark::SECONDS, seconds as u64),
    ];
    let mut transact = counted(Role::Transactor, transactions as u64, rate, &in_transactions);
    transact.rates.bytes = count(bytes_read, seconds) + count(bytes_written, seconds);
    let delete = counted(Role::Deleter, deleted_last, deleted_alone, &[("deleted", deleted_last)]);

    let took = |items: f64, rate: f64| nanos(if rate > 0.0 { (items / rate).round() } else { 0.0 });
    let mut report = Results {
        phases: vec![
            PhaseResult::lasting(native::CREATE.name, took(number, created_alone), vec![create]),
            PhaseResult::lasting(native::TRANSACTIONS.name, nanos(transaction_seconds), vec![transact]),
            PhaseResult::lasting(native::DELETE.name, took(deleted_last as f64, deleted_alone), vec![delete]),
        ],
        warnings: Vec::new(),
    };
    if transaction_seconds < FINE_SECONDS {
        let text = format!(
            "postmark counts whole seconds, and its transactions took only {transaction_seconds} s, so their \
             rate is coarse; use more transactions"
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    Ok(report)
}

/// A number of the configuration that `show` prints.
fn shown(stdout: &str, label: &str) -> Result<f64, String> {
    let value = stdout.lines().find_map(|line| line.strip_prefix(label)?.trim().parse().ok());
    value.ok_or_else(|| format!("it did not print '{}'", label.trim()))
}

/// Total seconds and seconds of transactions; rates of transactions, files created, created alone, created
/// with transactions, read, appended, deleted, deleted alone, deleted with transactions, bytes read, bytes
/// written.
fn terse(stdout: &str) -> Option<[f64; NUMBERS]> {
    stdout.lines().rev().find_map(|line| {
        let numbers: Vec<f64> =
            line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        numbers.try_into().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::units::Nanos;

    const CAPTURED: &str = "\
PostMark v1.51 : 8/14/01
Reading configuration from file '../pm2.cfg'
Current configuration is:
The base number of files is 500
Transactions: 50
Files range between 500 bytes and 9.77 kilobytes in size
Working directory: 
\t/dev/shm/p (weight=1)
Block sizes are: read=512 bytes, write=512 bytes
Biases are: read/append=5, create/delete=5
Not using Unix buffered file I/O
Random number generator seed is 42
Report format is terse.
Creating files...Done
Performing transactions..........Done
Deleting files...Done
1 1 50.00 525.00 500.00 25.00 29.00 21.00 525.00 500.00 25.00 160292.00 2854642.00
";

    #[test]
    fn counts_and_rates_are_read() {
        let report = output(CAPTURED).unwrap();
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create", "transactions", "delete"]);
        let transactions = &report.phases[1].roles[0];
        assert_eq!((transactions.role, transactions.rates.items), (Role::Transactor, 50));
        for (name, count) in [
            ("created", 25),
            ("read", 29),
            ("appended", 21),
            ("deleted", 25),
            (postmark::SECONDS, 1),
            ("bytes read", 160_292),
            ("bytes written", 2_854_642),
        ] {
            assert_eq!(transactions.counts[name], count, "{name}");
        }
        let (create, delete) = (&report.phases[0].roles[0], &report.phases[2].roles[0]);
        assert_eq!((create.rates.items, create.counts["created"]), (500, 500));
        assert_eq!((delete.rates.items, delete.counts["deleted"]), (500, 500));
        assert_eq!(report.phases[1].window_ns, Nanos::from_secs(1));
        assert_eq!(report.warnings.len(), 1, "whole seconds are coarse here");
    }

    #[test]
    fn counts_follow_from_rates_and_seconds() {
        // 20,000 transactions on 1,000 files in 37 s, 41 s in all.
        let line =
            "41 37 540.54 268.29 500.00 270.27 269.35 271.19 268.29 487.50 271.59 160292.12 2854642.44";
        let text = CAPTURED.replace("Transactions: 50", "Transactions: 20000");
        let text = text.replace("files is 500", "files is 1000");
        let report = output(&format!("{}{line}\n", text.rsplit_once("1 1 50.00").unwrap().0)).unwrap();
        let transactions = &report.phases[1].roles[0];
        assert_eq!(transactions.counts["created"], 10_000);
        assert_eq!(report.phases[0].roles[0].counts["created"], 1000);
        assert_eq!(transactions.counts[postmark::SECONDS], 41);
        assert_eq!(transactions.counts["read"] + transactions.counts["appended"], 20_000);
        assert_eq!(report.phases[0].window_ns, Nanos::from_secs(2));
        assert!(report.warnings.is_empty());
    }

    #[test]
    fn a_missing_part_of_the_output_is_an_error() {
        assert_eq!(output("").unwrap_err(), "it did not print 'The base number of files is'");
        let text = CAPTURED.replace("1 1 50.00", "1 one 50.00");
        assert_eq!(output(&text).unwrap_err(), "it printed no terse report");
        let text = CAPTURED.replace("Deleting files...Done", "Error: cannot open 's12' for writing");
        assert!(output(&text).unwrap_err().contains("cannot open 's12'"));
    }
}
