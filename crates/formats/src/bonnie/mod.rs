//! bonnie++: the result lines that it prints ([`lines`]), and its tables ([`BonnieRun`]).
//!
//! Version 2.00 prints layout 1.98, and says so in the first field of the line.

mod read;
mod write;

pub use read::{Line, LineError, TestResult, lines};
pub use write::{BonnieRun, SHORTEST_S, Speed, TestFigures};

use crate::Results;
use fsdyno_core::WarningKind;
use fsdyno_core::units::Bytes;

/// The layout that version 2.00 prints.
const LAYOUT: &str = "1.98";
/// The number of tests on the large file; they are the first of [`fsdyno_core::workload::bonnie::TESTS`].
pub const LARGE: usize = 6;

/// Reads the output of one run. `characters`: how much of the file it moved one byte at a time, if
/// known.
///
/// # Errors
/// Why the output is not a result.
pub fn output(stdout: &str, characters: Option<Bytes>) -> Result<Results, String> {
    let (_, line) = lines(stdout).last().ok_or("it printed no result line")?;
    let tests = line.and_then(|line| line.tests(characters)).map_err(|error| error.to_string())?;
    let silent: Vec<&str> =
        tests.iter().filter(|test| test.too_quick).map(|test| test.phase.name.as_str()).collect();
    let mut report = Results::default();
    if !silent.is_empty() {
        let text = format!(
            "bonnie++ reports no rate for tests that take less than half a second: {}; give it more work",
            silent.join(", ")
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    report.phases = tests.into_iter().map(|test| test.phase).collect();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::{Nanos, Role};

    /// `bonnie++ -q -d . -s 64m -r 0 -n 0 -u root -f1`, slowed down by strace so that all tests but one have
    /// figures.
    const SLOWED: &str = "1.98,2.00a,vm,1,1795323098,64M,,8192,5,33,24,88754,32,81049,29,31,23,+++++,+++,14179,181,,,,,,,,,,,,,,,,,,834ms,8613us,13306us,1139ms,291us,2912us,,,,,,\n";
    /// Version 1.03.
    const OLD: &str = "host1,2G,83720,95,81306,95,18523,10,84567,97,282848,97,187.5,0,16,319,1,4000,3,266,2,307,1,5000,2,269,1\n";
    /// `-s 0 -n 4` on a disk.
    const FILES: &str = "1.98,2.00a,fsdyno,1,5,,,,,,,,,,,,,,,,,4,10000,100,,4,5120,31,+++++,+++,40960,62,4812,30,+++++,+++,16384,58,,,,,,,15ms,383us,418us,4058us,73us,3s\n";

    #[test]
    fn rates_processor_time_and_latencies_are_read() {
        let report = output(SLOWED, Some(Bytes(1 << 20))).unwrap();
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "write per character",
                "write block",
                "rewrite",
                "read per character",
                "read block",
                "random seeks"
            ]
        );
        let write = &report.phases[1];
        assert!((write.roles[0].rates.aggregate_bytes_per_s - 88754.0 * 1024.0).abs() < 1.0);
        assert_eq!(write.roles[0].rates.bytes, 64 << 20);
        // 65536 KiB at 88754 KiB/s.
        assert_eq!(write.window_ns.0 / 1_000_000, 738);
        assert_eq!(write.roles[0].reported_cpu_share, Some(0.32));
        assert_eq!(write.roles[0].longest_stall_ns, Some(Nanos(8_613_000)));
        // One MiB, byte by byte, at 33 KiB/s.
        assert_eq!(report.phases[0].window_ns.0 / 1_000_000_000, 31);
        assert_eq!(report.phases[0].roles[0].longest_stall_ns, Some(Nanos::from_millis(834)));
        let seeks = &report.phases[5].roles[0];
        assert_eq!((seeks.role, seeks.workers, seeks.rates.items), (Role::Seeker, 5, 8192));
        assert!((seeks.rates.items_per_s - 14179.0).abs() < 0.1);
    }

    #[test]
    fn a_test_that_was_too_quick_has_no_figure_and_a_warning() {
        let report = output(FILES, None).unwrap();
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        let [create, stat, delete, _, _, last] = &names[..] else { panic!("{names:?}") };
        assert_eq!([*create, *stat, *delete], ["create sequential", "stat sequential", "delete sequential"]);
        assert_eq!(*last, "delete random");
        assert_eq!(report.phases[0].roles[0].rates.items, 4096);
        assert_eq!(report.phases[0].window_ns, Nanos::from_millis(800));
        assert_eq!(report.phases[5].roles[0].longest_stall_ns, Some(Nanos::from_secs(3)));
        // The amount and the longest operation are known, but not the total time.
        let (silent, role) = (&report.phases[1], &report.phases[1].roles[0]);
        assert_eq!((silent.window_ns, role.rates.items, role.rates.items_per_s), (Nanos(0), 4096, 0.0));
        assert_eq!(role.longest_stall_ns, Some(Nanos(383_000)));
        assert_eq!(report.warnings.len(), 1);
        assert!(report.warnings[0].text.contains("stat sequential, stat random"), "{:?}", report.warnings);
        // The workers were not watched, so single operations have no figures.
        assert!(report.phases.iter().all(|phase| !phase.roles[0].is_watched()));
    }

    #[test]
    fn anything_but_a_result_line_is_an_error() {
        let old = format!("Version 1.03e\nhost 2G 81306\n{OLD}");
        assert_eq!(output(&old, None).unwrap().phases.len(), 12, "another version that is installed");
        for bad in ["", "Can't write block.: No space left on device\n", "1.98,2.00a,vm,1\n"] {
            assert!(output(bad, None).is_err(), "{bad}");
        }
        let error = output(&SLOWED.replace("88754", "eight"), None).unwrap_err();
        assert_eq!(error, "field 12 of its result line is 'eight'");
        assert!(output(&SLOWED.replace("834ms", "834 parsecs"), None).is_err());
    }
}
