//! Reads what pgbench prints: how long its initialisation took, and its transactions.

use crate::{Results, nanos};
use fsdyno_core::result::RoleResult;
use fsdyno_core::{PhaseResult, Role};

/// The names of its phases.
pub const INITIALISE: &str = "initialise";
/// The one that is ranked by.
pub const TRANSACTIONS: &str = "transactions";

/// Accounts for each unit of the scale (pgbench.c, `naccounts`).
const ACCOUNTS: u64 = 100_000;

/// Reads the output of `pgbench -i` and of the run after it.
///
/// # Errors
/// Names the part of the output that is missing.
pub fn output(stdout: &str) -> Result<Results, String> {
    let initialise_s =
        after(stdout, "done in ").ok_or("it did not print how long the initialisation took")?;
    let scale = number(stdout, "scaling factor: ")?;
    let clients = number(stdout, "number of clients: ")?;
    let seconds = number(stdout, "duration: ")?;
    let transactions = number(stdout, "number of transactions actually processed: ")?;
    let failed = after(stdout, "number of failed transactions: ").unwrap_or(0.0);
    let per_s = number(stdout, "tps = ")?;
    let counted = |workers: f64, items: u64, per_s: f64| {
        let mut role = RoleResult::unwatched(Role::Transactor, workers as u32);
        (role.rates.items, role.rates.items_per_s) = (items, per_s);
        role
    };
    let accounts = scale as u64 * ACCOUNTS;
    let rate = if initialise_s > 0.0 { accounts as f64 / initialise_s } else { 0.0 };
    let mut run = counted(clients, transactions as u64, per_s);
    run.counts.insert("failed".to_string(), failed as u64);
    Ok(Results {
        phases: vec![
            PhaseResult::lasting(INITIALISE, nanos(initialise_s), vec![counted(1.0, accounts, rate)]),
            PhaseResult::lasting(TRANSACTIONS, nanos(seconds), vec![run]),
        ],
        warnings: Vec::new(),
    })
}

fn number(stdout: &str, label: &str) -> Result<f64, String> {
    after(stdout, label).ok_or_else(|| format!("it did not print '{}'", label.trim()))
}

/// The number at the beginning of what follows a label.
fn after(stdout: &str, label: &str) -> Option<f64> {
    let rest = stdout.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Nanos;

    const CAPTURED: &str = "\
Initialising...
dropping old tables...
generating data (client-side)...
done in 0.28 s (drop tables 0.00 s, create tables 0.02 s, client-side generate 0.10 s, vacuum 0.06 s).
Transactions...
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 2
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 1000
number of failed transactions: 0 (0.000%)
latency average = 6.005 ms
initial connection time = 3.845 ms
tps = 333.044251 (without initial connection time)
";

    #[test]
    fn both_parts_are_read() {
        let report = output(CAPTURED).unwrap();
        let [initialise, run] = &report.phases[..] else { panic!("{report:?}") };
        assert_eq!(
            (initialise.window_ns, initialise.roles[0].rates.items),
            (Nanos::from_millis(280), 200_000)
        );
        assert_eq!((run.window_ns, run.roles[0].workers), (Nanos::from_secs(3), 4));
        assert_eq!((run.roles[0].rates.items, run.roles[0].counts["failed"]), (1000, 0));
        assert!((run.roles[0].rates.items_per_s - 333.044_251).abs() < 1e-9);
    }

    #[test]
    fn a_missing_part_of_the_output_is_an_error() {
        assert!(output("").unwrap_err().contains("initialisation"));
        assert_eq!(output(&CAPTURED.replace("tps", "x")).unwrap_err(), "it did not print 'tps ='");
    }
}
