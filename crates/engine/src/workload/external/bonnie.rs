//! bonnie++: its command line and the line of 50 fields that it prints.
//!
//! Version 2.00 names the layout of its line 1.98 in the first field. A rate of `+++++` means that the part took less than
//! half a second: such a part has no window and no rate, only its latency. What a part took follows from its rate and from
//! how much it does. bonnie++ tells processor time as one percentage; it stands as system time. Its latencies are the
//! longest single operation of each part, so they are the longest stalls.

use super::cut::{self, Voice};
use super::process::Invocation;
use super::{Report, nanos};
use crate::error::EngineError;
use fsdyno_core::result::{CpuTime, RoleResult};
use fsdyno_core::units::{Bytes, Nanos};
use fsdyno_core::workload::External;
use fsdyno_core::workload::bonnie::FILE_UNIT;
use fsdyno_core::workload::parameter::Refusal;
use fsdyno_core::{PhaseResult, Role, WarningKind};

/// The layout that is understood, and its number of fields.
const LAYOUT: &str = "1.98";
const FIELDS: usize = 50;

/// A part of a run: phase, role, the field of its rate (that of the percentage follows), and the field of its latency.
struct Part {
    name: &'static str,
    role: Role,
    rate: usize,
    latency: usize,
    amount: Amount,
}

/// What a rate counts.
#[derive(Clone, Copy, PartialEq)]
enum Amount {
    /// KiB of single characters.
    Characters,
    /// KiB of the file.
    File,
    /// Seeks.
    Seeks,
    /// Files.
    Files,
}

const PARTS: &[Part] = &[
    part("write per character", Role::Writer, 9, 38, Amount::Characters),
    part("write block", Role::Writer, 11, 39, Amount::File),
    part("rewrite", Role::Rewriter, 13, 40, Amount::File),
    part("read per character", Role::Reader, 15, 41, Amount::Characters),
    part("read block", Role::Reader, 17, 42, Amount::File),
    part("random seeks", Role::Seeker, 19, 43, Amount::Seeks),
    part("create sequential", Role::Creator, 26, 44, Amount::Files),
    part("stat sequential", Role::Examiner, 28, 45, Amount::Files),
    part("delete sequential", Role::Deleter, 30, 46, Amount::Files),
    part("create random", Role::Creator, 32, 47, Amount::Files),
    part("stat random", Role::Examiner, 34, 48, Amount::Files),
    part("delete random", Role::Deleter, 36, 49, Amount::Files),
];

/// What it says on stderr as it comes to each part, unless it is told to be quiet.
const ANNOUNCED: &[cut::Part] = &[
    announced("write per character", "Writing a byte at a time..."),
    announced("write block", "Writing intelligently..."),
    announced("rewrite", "Rewriting..."),
    announced("read per character", "Reading a byte at a time..."),
    announced("read block", "Reading intelligently..."),
    announced("random seeks", "start 'em..."),
    announced("create sequential", "Create files in sequential order..."),
    announced("stat sequential", "Stat files in sequential order..."),
    announced("delete sequential", "Delete files in sequential order..."),
    announced("create random", "Create files in random order..."),
    announced("stat random", "Stat files in random order..."),
    announced("delete random", "Delete files in random order..."),
];

const fn announced(phase: &'static str, announced: &'static str) -> cut::Part {
    cut::Part { phase, announced }
}

const fn part(name: &'static str, role: Role, rate: usize, latency: usize, amount: Amount) -> Part {
    Part { name, role, rate, latency, amount }
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
    let characters = parameters.bonnie_arguments().map_or(0, |told| told.parameters.char_size.0);
    let line = stdout.lines().find(|line| line.starts_with(LAYOUT));
    let line = line.ok_or_else(|| format!("it printed no line of figures in the layout {LAYOUT}"))?;
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != FIELDS {
        return Err(format!("its line of figures has {} fields instead of {FIELDS}", fields.len()));
    }
    let whole = Whole {
        copies: number(&fields, 3)?.unwrap_or(1.0) as u32,
        characters: characters as f64,
        file: kibibytes(fields[5]).ok_or_else(|| format!("'{}' is no size of a file", fields[5]))? * 1024.0,
        seeks: number(&fields, 7)?.unwrap_or(0.0),
        seekers: number(&fields, 8)?.unwrap_or(1.0) as u32,
        files: number(&fields, 21)?.unwrap_or(0.0) * FILE_UNIT as f64,
    };
    let mut report = Report::default();
    let mut silent = Vec::new();
    for part in PARTS {
        match fields[part.rate] {
            // Left out by its arguments.
            "" => {}
            text => {
                if text.starts_with('+') {
                    silent.push(part.name);
                }
                let (took, role) = figures(part, &fields, &whole)?;
                report.phases.push(PhaseResult::lasting(part.name, took, vec![role]));
            }
        }
    }
    if !silent.is_empty() {
        let text = format!(
            "bonnie++ gives no figure for what it does in less than half a second: {}; give it more to do",
            silent.join(", ")
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    Ok(report)
}

/// How much the parts of a run do, in all.
struct Whole {
    copies: u32,
    characters: f64,
    file: f64,
    seeks: f64,
    seekers: u32,
    files: f64,
}

/// What a part took, nothing where it was too quick to tell, and what came of it.
fn figures(part: &Part, fields: &[&str], whole: &Whole) -> Result<(Nanos, RoleResult), String> {
    let rate = match fields[part.rate] {
        text if text.starts_with('+') => None,
        _ => number(fields, part.rate)?,
    };
    if rate.is_some_and(|rate| rate <= 0.0) {
        return Err(format!("its rate of '{}' is 0", part.name));
    }
    let copies = f64::from(whole.copies);
    let workers = if part.amount == Amount::Seeks { whole.copies * whole.seekers } else { whole.copies };
    let mut result = RoleResult::unwatched(part.role, workers);
    let seconds = match part.amount {
        Amount::Characters | Amount::File => {
            let bytes = copies * if part.amount == Amount::File { whole.file } else { whole.characters };
            result.rates.aggregate_bytes_per_s = rate.map_or(0.0, |rate| rate * 1024.0);
            result.rates.bytes = bytes as u64;
            rate.map_or(0.0, |rate| bytes / (rate * 1024.0))
        }
        Amount::Seeks | Amount::Files => {
            let items = copies * if part.amount == Amount::Seeks { whole.seeks } else { whole.files };
            result.rates.items_per_s = rate.unwrap_or(0.0);
            result.rates.items = items as u64;
            rate.map_or(0.0, |rate| items / rate)
        }
    };
    // `+++` beside a rate is no figure either.
    if !fields[part.rate + 1].starts_with('+') {
        let percent = number(fields, part.rate + 1)?.unwrap_or(0.0);
        result.cpu = CpuTime { user_ns: Nanos(0), system_ns: nanos(seconds * percent / 100.0) };
    }
    result.longest_stall_ns = latency(fields[part.latency])?;
    result.longest_item_ns = Some(result.longest_stall_ns).filter(|longest_ns| *longest_ns > Nanos(0));
    Ok((nanos(seconds), result))
}

fn number(fields: &[&str], at: usize) -> Result<Option<f64>, String> {
    let text = fields[at];
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    parsed.map(Some).ok_or_else(|| format!("field {} of its line of figures is '{text}'", at + 1))
}

/// `64M`, `1G`, `496M`; empty where there is no file.
fn kibibytes(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "K" => 1.0,
        "" | "M" => 1024.0,
        "G" => 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|size| size * unit)
}

/// `15828us`, `834ms`, `3s`.
fn latency(text: &str) -> Result<Nanos, String> {
    if text.is_empty() {
        return Ok(Nanos(0));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("'{text}' is no latency")),
    };
    digits.parse::<f64>().map(|value| nanos(value * unit)).map_err(|_| format!("'{text}' is no latency"))
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
