//! The steps that trials took on the machine: `fsdyno show --log`, and `--verbose` while a sweep runs.

use fsdyno_core::TrialRecord;
use fsdyno_core::result::{CommandRun, LogEntry};
use fsdyno_verdict::text::nth;
use std::io::{self, Write};

/// The indentation of the lines below a step.
const INDENT: &str = "                ";

/// Prints the steps of each trial.
pub fn print(out: &mut dyn Write, trials: &[TrialRecord]) -> io::Result<()> {
    for (number, trial) in trials.iter().enumerate() {
        let gap = if number > 0 { "\n" } else { "" };
        let name = &trial.configuration.name;
        writeln!(out, "{gap}trial {} (block {}): {name}", nth(trial.trial), nth(trial.block))?;
        if trial.log.is_empty() {
            writeln!(out, "  nothing was done to the machine, or by a version that kept no log")?;
        }
        for step in &trial.log {
            writeln!(out, "{}", line(step))?;
        }
        for run in &trial.commands {
            command(out, run)?;
        }
    }
    Ok(())
}

/// A command of the plan, where its files are, and what it printed.
fn command(out: &mut dyn Write, run: &CommandRun) -> io::Result<()> {
    let phase = run.phase.as_ref().map(|phase| format!(", phase '{phase}'")).unwrap_or_default();
    let step = LogEntry {
        step: format!("{}{phase}: {}", run.kind, run.command),
        took_ns: run.took_ns,
        error: run.failure.clone(),
    };
    writeln!(out, "{}", line(&step))?;
    if let Some(files) = &run.files {
        // They are not packed, and anybody may have removed them.
        let gone = if files.exists() { "" } else { ", which are no longer there" };
        writeln!(out, "{INDENT}files in {}{gone}", files.display())?;
    }
    run.output.lines().try_for_each(|text| writeln!(out, "{INDENT}| {text}"))
}

/// A step with how long it took.
pub fn line(step: &LogEntry) -> String {
    let error = step.error.as_ref().map(|error| format!("  (failed: {error})")).unwrap_or_default();
    let milliseconds = step.took_ns.0 as f64 / 1e6;
    format!("  {milliseconds:9.1} ms  {}{error}", step.step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Nanos;

    #[test]
    fn a_step_that_failed_says_why() {
        let step = |error: Option<&str>| LogEntry {
            step: "umount /mnt".to_string(),
            took_ns: Nanos::from_millis(12),
            error: error.map(str::to_string),
        };
        assert_eq!(line(&step(None)), "       12.0 ms  umount /mnt");
        assert_eq!(line(&step(Some("busy"))), "       12.0 ms  umount /mnt  (failed: busy)");
    }
}
