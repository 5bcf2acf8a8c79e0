//! bonnie++: its command line, how it announces its parts, and when its results are not reliable.

use super::cut::{self, Stream};
use super::process::Invocation;
use crate::error::EngineError;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::External;
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::workload::bonnie::{
    RANDOM_CREATE, RANDOM_DELETE, RANDOM_STAT, READ_BLOCK, READ_CHAR, REWRITE, SEEKS, SEQ_CREATE, SEQ_DELETE,
    SEQ_STAT, WRITE_BLOCK, WRITE_CHAR,
};
use fsdyno_core::workload::external::bonnie::Arguments;
use fsdyno_core::{Warning, WarningKind};
use fsdyno_formats::Results;

/// The lines that bonnie++ prints on stderr when it begins each part, unless it runs in quiet mode.
const ANNOUNCED: &[cut::AnnouncedPhase] = &[
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

const fn announced(test: PhaseSpec, announced: &'static str) -> cut::AnnouncedPhase {
    cut::AnnouncedPhase { phase: test.name, announced }
}

/// Returns the invocation of bonnie++. The seed determines the random orders, unless the arguments set one.
pub(super) fn invocation(parameters: &External, seed: u64) -> Result<Invocation, EngineError> {
    let parsed: Arguments = parameters.parsed_arguments()?;
    let mut arguments: Vec<String> = ["-d", ".", "-m", "fsdyno"].map(String::from).to_vec();
    if rustix::process::geteuid().is_root() {
        arguments.extend(["-u".to_string(), "root".to_string()]);
    }
    // It refuses files below twice the memory unless the check is disabled; a warning says the same.
    if parsed.parameters.size.is_some() && parsed.parameters.ram.is_none() {
        arguments.extend(["-r".to_string(), "0".to_string()]);
    }
    if parsed.told_seed.is_none() {
        arguments.extend(["-z".to_string(), parsed.seed(seed).to_string()]);
    }
    arguments.extend(parsed.words);
    let (program, input, stream) = ("bonnie++", String::new(), Stream::Stderr);
    Ok(Invocation { program, executable: program, arguments, input, parts: ANNOUNCED, stream })
}

/// Warns about a run that bonnie++ itself would have refused.
pub(super) fn judge(parameters: &External, memory_bytes: u64, report: &mut Results) {
    let file = parameters.parsed_arguments().ok().and_then(|parsed: Arguments| parsed.parameters.size);
    if let Some(Bytes(file)) = file.filter(|file| (1..memory_bytes).contains(&file.0)) {
        let text = format!(
            "the file has {} MB, memory {} MB: bonnie++ may read it from memory",
            file / 1_000_000,
            memory_bytes / 1_000_000
        );
        report.warnings.push(Warning::new(WarningKind::TreeSmallerThanMemory, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn external(arguments: &str) -> External {
        External { arguments: arguments.to_string(), ..Default::default() }
    }

    #[test]
    fn a_file_smaller_than_memory_causes_a_warning() {
        let mut report = Results::default();
        judge(&external("-s 64m"), 1 << 30, &mut report);
        judge(&external("-s 4g"), 1 << 30, &mut report);
        judge(&external("-s 0"), 1 << 30, &mut report);
        assert_eq!(report.warnings.len(), 1);
    }

    #[test]
    fn the_command_line_contains_the_arguments_of_the_plan() {
        let line = invocation(&external("-s 496m -n 16:100000:16:64"), 7).unwrap().arguments.join(" ");
        assert!(line.starts_with("-d . -m fsdyno"), "{line}");
        assert!(line.ends_with("-r 0 -z 7 -s496m -n16:100000:16:64"), "{line}");
        let line = invocation(&external("-s 1g -r 400 -z 3"), 7).unwrap().arguments.join(" ");
        assert!(!line.contains("-r 0") && !line.contains("-z 7"), "{line}");
    }
}
