//! Reads what sqlite3 prints for the script of its tests: when each began, and how long the transactions of
//! their own took.

use crate::{Results, nanos};
use fsdyno_core::result::RoleResult;
use fsdyno_core::workload::external::sqlite::{Arguments, MARK};
use fsdyno_core::{PhaseResult, Role, WarningKind};

/// Below this, milliseconds are coarser than 1 %.
const FINE_SECONDS: f64 = 0.1;

/// Reads the output of the script of these arguments.
///
/// # Errors
/// The error that it printed, or what it did not print.
pub fn output(stdout: &str, arguments: &Arguments) -> Result<Results, String> {
    let begins: Vec<(&str, f64)> = stdout.lines().filter_map(begin).collect();
    let tests = arguments.tests();
    let mut report = Results::default();
    for (index, test) in tests.iter().enumerate() {
        let (Some((name, begin)), Some((_, end))) = (begins.get(index), begins.get(index + 1)) else {
            return Err(format!("it did not finish the test '{}'", test.phase));
        };
        if *name != test.phase {
            return Err(format!("it printed the test '{name}' in place of '{}'", test.phase));
        }
        let seconds = (end - begin).max(0.0);
        let mut role = RoleResult::unwatched(Role::Transactor, 1);
        role.rates.items = u64::from(test.items);
        role.rates.items_per_s = if seconds > 0.0 { f64::from(test.items) / seconds } else { 0.0 };
        if index == 0 {
            let longest = stdout.lines().filter_map(run_time).fold(0.0, f64::max);
            role.longest_stall_ns = Some(nanos(longest));
            role.longest_item_ns = role.longest_stall_ns;
        }
        if seconds < FINE_SECONDS {
            let text = format!(
                "sqlite3 counts milliseconds, and its test '{}' took only {:.0} ms, so its rate is coarse; \
                 use more rows",
                test.phase,
                seconds * 1e3
            );
            report.warn(WarningKind::FigureMissing, text);
        }
        report.phases.push(PhaseResult::lasting(test.phase, nanos(seconds), vec![role]));
    }
    Ok(report)
}

/// `fsdyno|scan|1764030614.123`: what begins, and when.
fn begin(line: &str) -> Option<(&str, f64)> {
    let (name, time) = line.strip_prefix(MARK)?.strip_prefix('|')?.split_once('|')?;
    Some((name, time.parse().ok()?))
}

/// `Run Time: real 0.012 user 0.000878 sys 0.000000`, in seconds.
fn run_time(line: &str) -> Option<f64> {
    line.strip_prefix("Run Time: real ")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Nanos;

    const CAPTURED: &str = "\
delete
fsdyno|insert each|1764030614.100
Run Time: real 0.012 user 0.000878 sys 0.000000
Run Time: real 0.005 user 0.000692 sys 0.000000
fsdyno|insert all|1764030615.100
fsdyno|scan|1764030615.600
123|50000.5
fsdyno|index|1764030615.700
fsdyno|look up|1764030615.900
0001
fsdyno|update|1764030616.100
fsdyno|delete|1764030616.300
fsdyno|end|1764030616.350
";

    #[test]
    fn each_test_has_its_rate_and_the_first_its_longest_transaction() {
        let arguments: Arguments = "rows=1000".parse().unwrap();
        let report = output(CAPTURED, &arguments).unwrap();
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["insert each", "insert all", "scan", "index", "look up", "update", "delete"]);
        let first = &report.phases[0].roles[0];
        assert!((first.rates.items_per_s - 50.0).abs() < 0.01, "{}", first.rates.items_per_s);
        assert_eq!((first.longest_stall_ns, first.rates.items), (Some(Nanos::from_millis(12)), 50));
        assert_eq!(report.warnings.len(), 1, "one test took 50 ms: {:?}", report.warnings);
    }

    #[test]
    fn a_missing_part_of_the_output_is_an_error() {
        let arguments: Arguments = "rows=1000".parse().unwrap();
        assert!(output("", &arguments).unwrap_err().contains("'insert each'"));
        let cut = CAPTURED.split("fsdyno|end").next().unwrap();
        assert!(output(cut, &arguments).unwrap_err().contains("did not finish the test 'delete'"));
    }
}
