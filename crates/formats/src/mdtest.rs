//! mdtest: the tables that it prints for each number of tasks.
//!
//! Each `SUMMARY` is a run. Its rates are those of all tasks together; with several iterations they are
//! means, because the lines of single iterations (`-v`) have the rate of one task from version 3.3 on. A rate
//! of 0 is a test that was not run. How long a test took follows from its rate and the number of files.

use crate::run::{ArgumentWord, Figures, Misread, Report, Run, Runs, lines, options, stated};
use fsdyno_core::Role;
use fsdyno_core::workload::Program;
use std::collections::BTreeMap;

pub(crate) const REPORT: Report = Report {
    program: Program::Mdtest,
    silent: "filesystem, device, latencies, or stalls",
    recognises: |text| {
        text.contains("mdtest-") && text.contains("SUMMARY") || text.starts_with("SUMMARY rate")
    },
    read: runs,
};

/// Its tests: the name, and who performs them.
const TESTS: &[(&str, Role)] = &[
    ("Directory creation", Role::Creator),
    ("Directory stat", Role::Examiner),
    ("Directory read", Role::Reader),
    ("Directory rename", Role::Transactor),
    ("Directory removal", Role::Deleter),
    ("File creation", Role::Creator),
    ("File stat", Role::Examiner),
    ("File read", Role::Reader),
    ("File removal", Role::Deleter),
    ("Tree creation", Role::Creator),
    ("Tree removal", Role::Deleter),
];

/// Options that say where it works, how often, and what it prints.
const ASIDE: &[&str] =
    &["-d", "-i", "-v", "-V", "-P", "-Z", "-p", "--print-all-procs", "--showRankStatistics"];

/// The facts that precede a table.
#[derive(Default)]
struct Head {
    tasks: u32,
    /// Files or directories of all tasks.
    items: f64,
    iterations: u32,
    /// `true` if the table has times instead of rates.
    times: bool,
}

fn runs(text: &str) -> Result<Vec<Run>, Misread> {
    let (mut version, mut known): (Option<String>, BTreeMap<String, String>) = (None, BTreeMap::new());
    let mut head = Head::default();
    let (mut runs, mut run) = (Runs::default(), Run::default());
    let mut last = ArgumentWord::line((0, ""));
    for line in lines(text) {
        last = line;
        let words = line.words();
        if let Some(rest) = line.text.strip_prefix("mdtest-") {
            version = rest.split_whitespace().next().and_then(stated);
        } else if let Some(command) = line.text.strip_prefix("Command line used:") {
            known = options(command, ASIDE);
        } else if let [count, _, items, _] = words[..]
            && line.text.trim_start().starts_with(|c: char| c.is_ascii_digit())
            && line.text.contains(" tasks, ")
        {
            (head.tasks, head.items) = (count.number()? as u32, items.number()?);
            if known.contains_key("-W") {
                // The time is what limits the work.
                head.items = 0.0;
            }
            known.insert("tasks".to_string(), head.tasks.to_string());
        } else if let Some(title) = line.text.trim_start().strip_prefix("SUMMARY") {
            let times = title.starts_with(" time");
            // `-P` prints the same run twice: its rates, then its times.
            if !times || head.times {
                runs.push(std::mem::take(&mut run), line)?;
            }
            (head.times, head.iterations) = (times, iterations(line)?);
            run.version.clone_from(&version);
            run.options.clone_from(&known);
        } else if head.iterations > 0 {
            row(&mut run, &head, line)?;
        }
    }
    runs.push(run, last)?;
    runs.all("a table of mdtest that begins with SUMMARY")
}

/// `(of 3 iterations)`.
fn iterations(line: ArgumentWord<'_>) -> Result<u32, Misread> {
    let words = line.words();
    let count = words.iter().position(|word| word.text == "(of").and_then(|at| words.get(at + 1));
    match count {
        Some(count) => Ok(count.number()?.max(1.0) as u32),
        None => Err(line.error("expected the number of iterations")),
    }
}

/// A row of a table; other lines are skipped.
fn row(run: &mut Run, head: &Head, line: ArgumentWord<'_>) -> Result<(), Misread> {
    let trimmed = line.text.trim_start();
    let Some((name, role)) = TESTS.iter().find(|(name, _)| trimmed.starts_with(name)) else { return Ok(()) };
    let figures: Vec<ArgumentWord<'_>> =
        line.part(&trimmed[name.len()..]).words().into_iter().filter(|word| word.text != ":").collect();
    // Those of single iterations (`-v`) are followed by their unit.
    if figures.iter().any(|word| word.text.starts_with("sec")) {
        return Ok(());
    }
    // Figures of single tasks may precede.
    let [.., max, min, mean, _] = figures[..] else {
        return Err(line.error(format!("expected four figures for '{name}'")));
    };
    let (max, min, mean) = (max.number()?, min.number()?, mean.number()?);
    if mean == 0.0 {
        return Ok(());
    }
    let items = if name.starts_with("Tree") { 0.0 } else { head.items };
    let test = name.to_lowercase();
    let (seconds, items_per_s) = if head.times { (mean, items / mean) } else { (items / mean, mean) };
    if items_per_s == 0.0 || run.phases.iter().any(|phase| phase.name == test) {
        return Ok(());
    }
    let figures = Figures { seconds, workers: head.tasks, items, items_per_s, ..Figures::default() };
    figures.add(run.phase(&test), *role);
    if head.iterations > 1 {
        let unit = if head.times { "s" } else { "/s" };
        let iterations = head.iterations;
        run.missing.push(format!("{test} is the mean of {iterations} iterations, {min} to {max} {unit}"));
    }
    Ok(())
}
