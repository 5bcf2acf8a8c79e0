//! Reads the report of dbench 4: a table of its operations, and its throughput.

use crate::{Results, nanos};
use fsdyno_core::result::RoleResult;
use fsdyno_core::{PhaseResult, Role};

/// The name of its only phase.
pub const PHASE: &str = "dbench";
/// Its megabyte in bytes (dbench.c, `1.0e-6*total`).
const MEGABYTE: f64 = 1e6;

/// Reads the output of a run.
///
/// # Errors
/// Names the part of the output that is missing.
pub fn output(stdout: &str) -> Result<Results, String> {
    let line = stdout.lines().rev().find(|line| line.starts_with("Throughput "));
    let line = line.ok_or("it printed no throughput")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let number =
        |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok()).filter(|one| *one >= 0.0);
    let before = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?;
        number(at.checked_sub(1).and_then(|at| words.get(at)).copied())
    };
    let longest = words.iter().find_map(|word| word.strip_prefix("max_latency="));
    let (Some(rate), Some(clients), Some(longest_ms)) =
        (before("MB/sec"), before("clients"), number(longest))
    else {
        return Err(format!("its throughput cannot be read: '{line}'"));
    };
    let seconds = seconds(stdout).ok_or("it did not print how long it ran")?;
    let mut role = RoleResult::unwatched(Role::Transactor, clients as u32);
    role.counts = operations(stdout).map(|(name, count)| (name.to_string(), count)).collect();
    role.rates.items = role.counts.values().sum();
    role.rates.items_per_s = role.rates.items as f64 / seconds;
    role.rates.bytes = (rate * MEGABYTE * seconds).round() as u64;
    role.rates.aggregate_bytes_per_s = rate * MEGABYTE;
    role.longest_stall_ns = Some(nanos(longest_ms / 1e3));
    role.longest_item_ns = role.longest_stall_ns;
    Ok(Results {
        phases: vec![PhaseResult::lasting(PHASE, nanos(seconds), vec![role])],
        warnings: Vec::new(),
    })
}

/// `Running for 20 seconds with load ...`.
fn seconds(stdout: &str) -> Option<f64> {
    let text = stdout.lines().find_map(|line| line.strip_prefix("Running for "))?;
    text.split_whitespace().next()?.parse().ok().filter(|seconds| *seconds > 0.0)
}

/// The rows of the table: name, count, mean and longest latency in milliseconds.
fn operations(stdout: &str) -> impl Iterator<Item = (&str, u64)> {
    stdout.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, count, mean, longest] if [mean, longest].iter().all(|word| word.parse::<f64>().is_ok()) => {
            Some((name, count.parse().ok()?))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Nanos;

    const CAPTURED: &str = "\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 3 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
releasing clients
   2     14252   185.85 MB/sec  execute   1 sec  latency 37.379 ms
   2     44323   254.43 MB/sec  execute   2 sec  latency 33.716 ms
   2  cleanup   3 sec
   0  cleanup   3 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      25068     0.009    28.136
 ReadX          38966     0.003    20.078
 Flush           1772     2.364    37.373

Throughput 254.428 MB/sec  2 clients  2 procs  max_latency=37.379 ms
";

    #[test]
    fn rates_counts_and_the_longest_latency_are_read() {
        let report = output(CAPTURED).unwrap();
        let [phase] = &report.phases[..] else { panic!("{report:?}") };
        let role = &phase.roles[0];
        assert_eq!((phase.window_ns, role.workers), (Nanos::from_secs(3), 2));
        assert_eq!(role.rates.bytes, 763_284_000);
        assert_eq!(role.rates.items, 25_068 + 38_966 + 1772);
        assert_eq!(role.counts["Flush"], 1772);
        assert_eq!(role.longest_stall_ns, Some(Nanos(37_379_000)));
    }

    #[test]
    fn a_missing_part_of_the_output_is_an_error() {
        assert_eq!(output("").unwrap_err(), "it printed no throughput");
        let text = CAPTURED.replace("254.428 MB/sec  2 clients", "- MB/sec  2 clients");
        assert!(output(&text).unwrap_err().contains("cannot be read"));
        assert!(output(&CAPTURED.replace("Running for 3", "Running for")).is_err());
    }
}
