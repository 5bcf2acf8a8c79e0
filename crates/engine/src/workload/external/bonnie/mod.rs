//! bonnie++: its command line and the line of figures that it prints.
//!
//! Version 2.00 names the layout of its line 1.98 in the first field.

mod line;

pub use line::{Line, LineError, Told};

use super::cut::{self, Voice};
use super::process::Invocation;
use super::{Report, nanos};
use crate::error::EngineError;
use fsdyno_core::WarningKind;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::External;
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::workload::bonnie::{
    RANDOM_CREATE, RANDOM_DELETE, RANDOM_STAT, READ_BLOCK, READ_CHAR, REWRITE, SEEKS, SEQ_CREATE, SEQ_DELETE,
    SEQ_STAT, WRITE_BLOCK, WRITE_CHAR,
};
use fsdyno_core::workload::parameter::Refusal;

/// The layout of the version that is run, and its number of fields.
const LAYOUT: &str = "1.98";
const FIELDS: usize = 50;

/// What it says on stderr as it comes to each part, unless it is told to be quiet.
const ANNOUNCED: &[cut::Part] = &[
    announced(WRITE_CHAR, "Writing a byte at a time..."),
    announced(WRITE_BLOCK, "Writing intelligently..."),
    announced(REWRITE, "Rewriting..."),
    announced(READ_CHAR, "Reading a byte at a time..."),
    announced(READ_BLOCK, "Reading intelligently..."),
    announced(SEEKS, "start 'em..."),
    announced(SEQ_CREATE, "Create files in sequential order..."),
    announced(SEQ_STAT, "Stat files in sequential order..."),
    announced(SEQ_DELETE, "Delete files in sequential order..."),
    announced(RANDOM_CREATE, "Create files in random order..."),
    announced(RANDOM_STAT, "Stat files in random order..."),
    announced(RANDOM_DELETE, "Delete files in random order..."),
];

const fn announced(test: PhaseSpec, announced: &'static str) -> cut::Part {
    cut::Part { phase: test.name, announced }
}

/// How to start it. The seed decides the order of what it does at random, unless the arguments name one.
pub(super) fn invocation(parameters: &External, seed: u64) -> Result<Invocation, EngineError> {
    let told = parameters
        .bonnie_arguments()
        .map_err(|Refusal { parameter, expected }| EngineError::Parameter { parameter, expected })?;
    let mut arguments: Vec<String> = ["-d", ".", "-m", "fsdyno"].map(String::from).to_vec();
    if rustix::process::geteuid().is_root() {
        arguments.extend(["-u".to_string(), "root".to_string()]);
    }
    // It refuses files below twice the memory unless it is told not to look; a warning says the same.
    if told.parameters.size.is_some() && told.parameters.ram.is_none() {
        arguments.extend(["-r".to_string(), "0".to_string()]);
    }
    if told.told_seed.is_none() {
        arguments.extend(["-z".to_string(), told.seed(seed).to_string()]);
    }
    arguments.extend(told.words);
    let (program, input, voice) = ("bonnie++", String::new(), Voice::Stderr);
    Ok(Invocation { program, arguments, input, parts: ANNOUNCED, voice })
}

/// What it printed.
pub(super) fn parse(parameters: &External, stdout: &str) -> Result<Report, String> {
    let characters = parameters.bonnie_arguments().ok().map(|told| told.parameters.char_size);
    let line = stdout.lines().find(|line| line.starts_with(LAYOUT));
    let line = line.ok_or_else(|| format!("it printed no line of figures in the layout {LAYOUT}"))?;
    let fields = line.split(',').count();
    if fields != FIELDS {
        return Err(format!("its line of figures has {fields} fields instead of {FIELDS}"));
    }
    let tests = Line::new(line).and_then(|line| line.tests(characters)).map_err(|error| error.to_string())?;
    let silent: Vec<&str> =
        tests.iter().filter(|told| told.too_quick).map(|told| told.phase.name.as_str()).collect();
    let mut report = Report::default();
    if !silent.is_empty() {
        let text = format!(
            "bonnie++ gives no figure for what it does in less than half a second: {}; give it more to do",
            silent.join(", ")
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    report.phases = tests.into_iter().map(|told| told.phase).collect();
    Ok(report)
}

/// What the reader must know of a run that bonnie++ itself would have refused.
pub(super) fn judge(parameters: &External, memory_bytes: u64, report: &mut Report) {
    let file = parameters.bonnie_arguments().ok().and_then(|told| told.parameters.size);
    if let Some(Bytes(file)) = file.filter(|file| (1..memory_bytes).contains(&file.0)) {
        let text = format!(
            "the file has {} MB, main memory {} MB: bonnie++ may read it from memory",
            file / 1_000_000,
            memory_bytes / 1_000_000
        );
        report.warn(WarningKind::TreeSmallerThanMemory, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::{Nanos, Role};

    /// `bonnie++ -q -d . -s 64m -r 0 -n 0 -u root -f1` under strace, so that all but one part have figures.
    const SLOWED: &str = "1.98,2.00a,vm,1,1795323098,64M,,8192,5,33,24,88754,32,81049,29,31,23,+++++,+++,14179,181,,,,,,,,,,,,,,,,,,834ms,8613us,13306us,1139ms,291us,2912us,,,,,,\n";
    /// `-s 0 -n 4` on a disk.
    const FILES: &str = "1.98,2.00a,fsdyno,1,5,,,,,,,,,,,,,,,,,4,10000,100,,4,5120,31,+++++,+++,40960,62,4812,30,+++++,+++,16384,58,,,,,,,15ms,383us,418us,4058us,73us,3s\n";

    fn external(arguments: &str) -> External {
        External { arguments: arguments.to_string(), ..Default::default() }
    }

    #[test]
    fn rates_processor_time_and_latencies_are_read() {
        let report = parse(&external("-s 64m -n 0 -f1"), SLOWED).unwrap();
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
        assert_eq!(write.roles[0].cpu.total().0 / 1_000_000, 236);
        assert_eq!(write.roles[0].longest_stall_ns, Nanos(8_613_000));
        // One MiB, byte by byte, at 33 KiB/s.
        assert_eq!(report.phases[0].window_ns.0 / 1_000_000_000, 31);
        assert_eq!(report.phases[0].roles[0].longest_stall_ns, Nanos::from_millis(834));
        let seeks = &report.phases[5].roles[0];
        assert_eq!((seeks.role, seeks.workers, seeks.rates.items), (Role::Seeker, 5, 8192));
        assert!((seeks.rates.items_per_s - 14179.0).abs() < 0.1);
    }

    #[test]
    fn what_was_too_quick_has_no_figure_and_a_warning() {
        let report = parse(&external("-s 0 -n 4:10000:100:4"), FILES).unwrap();
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        let [create, stat, delete, _, _, last] = &names[..] else { panic!("{names:?}") };
        assert_eq!([*create, *stat, *delete], ["create sequential", "stat sequential", "delete sequential"]);
        assert_eq!(*last, "delete random");
        assert_eq!(report.phases[0].roles[0].rates.items, 4096);
        assert_eq!(report.phases[0].window_ns, Nanos::from_millis(800));
        assert_eq!(report.phases[5].roles[0].longest_stall_ns, Nanos::from_secs(3));
        // How much it was and how long the longest took is known; how long all of it took is not.
        let (silent, role) = (&report.phases[1], &report.phases[1].roles[0]);
        assert_eq!((silent.window_ns, role.rates.items, role.rates.items_per_s), (Nanos(0), 4096, 0.0));
        assert_eq!(role.longest_stall_ns, Nanos(383_000));
        assert_eq!(report.warnings.len(), 1);
        assert!(report.warnings[0].text.contains("stat sequential, stat random"), "{:?}", report.warnings);
        // Nobody watched the workers, so nothing is said of single operations.
        assert!(report.phases.iter().all(|phase| !phase.roles[0].is_watched()));
    }

    #[test]
    fn what_is_no_line_of_figures_is_an_error() {
        let parameters = external("");
        for bad in ["", "Can't write block.: No space left on device\n", "1.98,2.00a,vm,1\n"] {
            assert!(parse(&parameters, bad).is_err(), "{bad}");
        }
        let error = parse(&parameters, &SLOWED.replace("88754", "eight")).unwrap_err();
        assert_eq!(error, "field 12 of its line of figures is 'eight'");
        assert!(parse(&parameters, &SLOWED.replace("834ms", "834 parsecs")).is_err());
    }

    #[test]
    fn a_file_below_the_memory_is_told() {
        let mut report = Report::default();
        judge(&external("-s 64m"), 1 << 30, &mut report);
        judge(&external("-s 4g"), 1 << 30, &mut report);
        judge(&external("-s 0"), 1 << 30, &mut report);
        assert_eq!(report.warnings.len(), 1);
    }

    #[test]
    fn the_command_line_holds_what_the_plan_says() {
        let told = invocation(&external("-s 496m -n 16:100000:16:64"), 7).unwrap().arguments.join(" ");
        assert!(told.starts_with("-d . -m fsdyno"), "{told}");
        assert!(told.ends_with("-r 0 -z 7 -s496m -n16:100000:16:64"), "{told}");
        let told = invocation(&external("-s 1g -r 400 -z 3"), 7).unwrap().arguments.join(" ");
        assert!(!told.contains("-r 0") && !told.contains("-z 7"), "{told}");
    }
}
