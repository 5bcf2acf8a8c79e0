//! bonnie++: its command line, how it announces its parts, and what a run may not be trusted for.

use super::cut::{self, Voice};
use super::process::Invocation;
use crate::error::EngineError;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::External;
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::workload::bonnie::{
    RANDOM_CREATE, RANDOM_DELETE, RANDOM_STAT, READ_BLOCK, READ_CHAR, REWRITE, SEEKS, SEQ_CREATE, SEQ_DELETE,
    SEQ_STAT, WRITE_BLOCK, WRITE_CHAR,
};
use fsdyno_core::workload::parameter::Refusal;
use fsdyno_core::{Warning, WarningKind};
use fsdyno_formats::Results;

/// What it says on stderr as it comes to each part, unless it is told to be quiet.
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

/// What the reader must know of a run that bonnie++ itself would have refused.
pub(super) fn judge(parameters: &External, memory_bytes: u64, report: &mut Results) {
    let file = parameters.bonnie_arguments().ok().and_then(|told| told.parameters.size);
    if let Some(Bytes(file)) = file.filter(|file| (1..memory_bytes).contains(&file.0)) {
        let text = format!(
            "the file has {} MB, main memory {} MB: bonnie++ may read it from memory",
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
    fn a_file_below_the_memory_is_told() {
        let mut report = Results::default();
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
