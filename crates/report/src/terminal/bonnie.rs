//! The tables of bonnie++ and its line of CSV fields, for the native workload and for the real program.
//!
//! Several trials of a case are combined: a rate is total work over total time, %CPU is the processor time of
//! the trials in which it is known divided by their time, and a latency is the longest of all trials. If the
//! real program gave no rate for a test in one of the trials, the test has none.

use super::style::{Paint, Style};
use crate::visible::csv_text;
use fsdyno_core::workload::bonnie::{PER_CHARACTER, READ_CHAR, SEEKS, TESTS, WRITE_BLOCK, WRITE_CHAR};
use fsdyno_core::workload::external::bonnie::Arguments;
use fsdyno_core::workload::{Bonnie, Program};
use fsdyno_core::{Bytes, TrialRecord, Workload};
use fsdyno_formats::bonnie::{BonnieRun, LARGE, SHORTEST_S, Speed, TestFigures};
use fsdyno_verdict::text;
use fsdyno_verdict::view::{self, CaseView};
use std::io::{self, Write};

/// Percent of a processor by which rounding to whole nanoseconds may have reduced a whole number.
const CPU_EPSILON: f64 = 1e-5;

/// Writes both tables of a case.
///
/// # Errors
/// Those of `out`.
pub fn bonnie(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let Some(asked) = BonnieRequest::of(&case.workload) else { return Ok(()) };
    let mut heading = format!("{}: {}", case.configuration.name, case.workload_title);
    if case.trials.len() > 1 {
        let trials = text::plural(case.trials.len() as u64, "trial");
        heading += &format!("; {trials} combined: total work over total time, longest latencies");
    }
    style.paragraph(out, Paint::Heading, 0, &heading)?;
    asked.run(&case.configuration.name, case, 0).write_tables(out)?;
    if per_byte(case) {
        style.paragraph(out, Paint::Plain, 0, &format!("({PER_CHARACTER})"))?;
    }
    Ok(())
}

/// Returns whether some of the phases per character made a system call for each byte. Imported lines of
/// versions before 1.92 have figures of putc and getc instead.
fn per_byte(case: &CaseView) -> bool {
    let versions = case.environment.tools.get("bonnie++").map(String::as_str).unwrap_or_default();
    let buffered = versions.contains("bonnie++ 1.0");
    let measured = |name| case.phases.iter().any(|phase| phase.name == name);
    !buffered && [WRITE_CHAR.name, READ_CHAR.name].into_iter().any(measured)
}

/// Returns whether a workload has bonnie++'s tables and lines, as the native one and the real program have.
pub fn is_bonnie(workload: &Workload) -> bool {
    BonnieRequest::of(workload).is_some()
}

/// The request to the native workload or to the real program.
struct BonnieRequest {
    parameters: Bonnie,
    /// Arguments that only the real program has.
    original: Option<Arguments>,
}

impl BonnieRequest {
    fn of(workload: &Workload) -> Option<BonnieRequest> {
        match workload {
            Workload::Bonnie(parameters) => {
                Some(BonnieRequest { parameters: parameters.clone(), original: None })
            }
            Workload::External(external) if external.program == Program::Bonnie => {
                let original: Arguments = external.parsed_arguments().ok()?;
                Some(BonnieRequest { parameters: original.parameters.clone(), original: Some(original) })
            }
            _ => None,
        }
    }

    /// Adds the results.
    fn run<'a>(&'a self, name: &'a str, case: &CaseView, seed_of_trial: u64) -> BonnieRun<'a> {
        let original = self.original.as_ref();
        BonnieRun {
            name,
            parameters: &self.parameters,
            links: original.and_then(|original| original.links),
            copies: original.map_or(1, |original| original.copies),
            seed: original.map_or(seed_of_trial, |original| original.seed(seed_of_trial).into()),
            size: large_size(case, &self.parameters),
            tests: tests(case, original.is_some()),
        }
    }
}

/// Writes the line of fields of every measured trial of bonnie, native or real, except sentinels.
///
/// # Errors
/// Those of `out`, and [`fsdyno_verdict::UnreadableHistogram`] as an I/O error if a stored histogram cannot
/// be read.
pub fn bonnie_csv(out: &mut dyn Write, trials: &[TrialRecord]) -> io::Result<()> {
    for trial in trials {
        let Some(asked) = BonnieRequest::of(&trial.workload) else { continue };
        let cases = view::cases(std::slice::from_ref(trial))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        for case in &cases {
            let name = csv_text(&case.configuration.name);
            writeln!(out, "{}", asked.run(&name, case, trial.seed).line())?;
        }
    }
    Ok(())
}

/// The figures of every test; `None` for one that was left out.
fn tests(case: &CaseView, is_original: bool) -> [Option<TestFigures>; TESTS.len()] {
    let mut tests = (0..).zip(TESTS).map(|(index, test)| {
        let phase = case.phases.iter().find(|phase| phase.name == test.name)?;
        let role = phase.roles.iter().find(|view| view.role == test.role)?;
        let in_bytes = index < LARGE && test != SEEKS;
        let seconds = phase.window_ns.as_secs_f64();
        let rate = match in_bytes {
            true => role.rates.aggregate_bytes_per_s / Bytes::KIB as f64,
            false => role.rates.items_per_s,
        };
        // If the original gave a figure, the test took long enough, even if the line does not say how much it
        // did, and so not how long it took.
        let took_long_enough = if is_original { rate > 0.0 } else { seconds >= SHORTEST_S };
        let cpu_percent = role.cpu_share.map(|share| share * 100.0 + CPU_EPSILON);
        let speed = || Speed { rate, cpu_percent };
        Some(TestFigures {
            speed: took_long_enough.then(speed),
            longest_ns: role.longest_item.map_or(0, |longest| longest.0),
        })
    });
    std::array::from_fn(|_| tests.next().flatten())
}

/// Size of the large file: the planned one, else what was written.
fn large_size(case: &CaseView, parameters: &Bonnie) -> Bytes {
    let written = || {
        let phase = case.phases.iter().find(|phase| phase.name == WRITE_BLOCK.name)?;
        let role = phase.roles.iter().find(|view| view.role == WRITE_BLOCK.role)?;
        Some(Bytes(role.rates.bytes / case.trials.len().max(1) as u64))
    };
    parameters.size.or_else(written).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::captured::{self, BONNIE_LINE, BONNIE_PRINTED};
    use fsdyno_core::Nanos;
    use fsdyno_core::result::CpuTime;
    use fsdyno_core::workload::External;

    fn trial(number: u32) -> TrialRecord {
        let mut trial = fixture::trial(number, number, 0, fixture::configuration("ext4", "bfq"), 1.0);
        trial.configuration.name = "host".to_string();
        trial.workload = Workload::Bonnie(captured::bonnie_parameters());
        let rates = [1690.4, 9e5, 9e5, 1993.9, 9e5, 9e5, 9e4, 9e4, 1426.3, 9e4, 9e4, 1774.9];
        let cpu = [94.5, 1.0, 1.0, 71.2, 1.0, 1.0, 1.0, 1.0, 5.9, 1.0, 1.0, 7.2];
        let longest_us = [8939, 128, 67, 26993, 2228, 8058, 8137, 48, 5451, 4120, 112, 7601];
        trial.phases = (0..TESTS.len())
            .map(|index| {
                let in_bytes = index < LARGE && TESTS[index] != SEEKS;
                let (bytes, items) =
                    if in_bytes { (rates[index] * 1024.0, 0.0) } else { (0.0, rates[index]) };
                let mut phase = fixture::rated(TESTS[index].name, TESTS[index].role, bytes, items);
                phase.window_ns =
                    if cpu[index] > 1.0 { Nanos::from_secs(2) } else { Nanos::from_millis(400) };
                let system_ns = (phase.window_ns.0 as f64 * cpu[index] / 100.0) as u64;
                phase.roles[0].cpu = CpuTime { user_ns: Nanos(0), system_ns: Nanos(system_ns) };
                phase.roles[0].longest_item_ns = Some(Nanos(longest_us[index] * 1000 + 999));
                phase
            })
            .collect();
        trial
    }

    fn table(trials: &[TrialRecord]) -> String {
        let mut out = Vec::new();
        bonnie(&mut out, &fixture::view("read", trials).cases[0], &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn lines(trials: &[TrialRecord]) -> String {
        let mut out = Vec::new();
        bonnie_csv(&mut out, trials).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A table without what is said about its figures per character.
    fn without_note(table: &str) -> &str {
        let (table, note) = table.split_once("(per character: ").expect("a note");
        assert!(note.contains("putc"), "{note}");
        table
    }

    #[test]
    fn the_tables_equal_those_of_the_original() {
        let table = table(&[trial(0)]);
        let (heading, rest) = table.split_once("Version").unwrap();
        assert!(heading.starts_with("host: bonnie, 64M in chunks of 8k, 1024 files of 16"), "{heading}");
        assert_eq!(format!("Version{}", without_note(rest)), BONNIE_PRINTED);
    }

    #[test]
    fn every_trial_has_a_line_of_fifty_fields() {
        let two = [trial(0), trial(1), fixture::trials().remove(0)];
        assert_eq!(lines(&two), BONNIE_LINE.repeat(2));
        assert_eq!(BONNIE_LINE.split(',').count(), 50);
    }

    #[test]
    fn several_trials_are_combined_with_the_longest_latencies() {
        let mut second = trial(1);
        second.phases[0].roles[0].rates.aggregate_bytes_per_s *= 3.0;
        second.phases[0].window_ns.0 /= 3;
        second.phases[0].roles[0].cpu.system_ns.0 /= 3;
        second.phases[0].roles[0].cpu.user_ns.0 /= 3;
        second.phases[0].roles[0].longest_item_ns = Some(Nanos::from_secs(7));
        let table = table(&[trial(0), second]);
        let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("2 trials combined: total work over total time"), "{table}");
        // The same work in a third of the time: 2 for 1 and 1/3 is 1.5.
        assert!(table.contains("\nhost            64M 2535k  94 ") && table.contains("7000ms"), "{table}");
    }

    /// Returns the record that the engine stores of the same run of the real program: whole rates, and
    /// neither time nor processor time where there is no rate.
    fn real(number: u32, arguments: &str) -> TrialRecord {
        let mut trial = trial(number);
        let program = Program::Bonnie;
        trial.workload =
            Workload::External(External { program, arguments: arguments.to_string(), ..Default::default() });
        for phase in &mut trial.phases {
            let role = &mut phase.roles[0];
            (role.worker_results, role.operations) = (Vec::new(), Vec::new());
            role.rates.aggregate_bytes_per_s = (role.rates.aggregate_bytes_per_s / 1024.0).trunc() * 1024.0;
            role.rates.items_per_s = role.rates.items_per_s.trunc();
            if phase.window_ns < Nanos::from_millis(500) {
                (phase.window_ns, role.cpu, role.rates) = (Nanos(0), CpuTime::default(), Default::default());
            } else {
                // As the engine computes it from a percentage.
                phase.window_ns = Nanos(1_888_888_889);
                let percent = (role.cpu.total().as_secs_f64() / 2.0 * 100.0).trunc();
                let system_ns = (1.888_888_889e9 * percent / 100.0).round() as u64;
                role.cpu = CpuTime { user_ns: Nanos(0), system_ns: Nanos(system_ns) };
            }
        }
        trial
    }

    #[test]
    fn the_real_program_has_the_same_tables_and_fields() {
        let trial = real(0, "-s 64m -r 16 -n 1:2000:16:4 -z 42");
        let table = table(std::slice::from_ref(&trial));
        let (heading, rest) = table.split_once("Version").unwrap();
        assert_eq!(heading, "host: the real bonnie++: -s 64m -r 16 -n 1:2000:16:4 -z 42\n");
        assert_eq!(format!("Version{}", without_note(rest)), BONNIE_PRINTED);
        assert_eq!(lines(&[trial]), BONNIE_LINE);
    }

    #[test]
    fn a_figure_missing_in_one_trial_is_missing() {
        let mut second = real(1, "-s 64m");
        (second.phases[0].window_ns, second.phases[0].roles[0].rates) = (Nanos(0), Default::default());
        let table = table(&[real(0, "-s 64m"), second]);
        assert!(table.contains("\nhost            64M +++++ +++ +++++"), "{table}");
    }

    /// A percentage that is unknown in one trial is neither 0 nor a part of the mean.
    #[test]
    fn percentages_are_those_of_the_trials_that_have_them() {
        let (mut first, mut second) = (real(0, "-s 64m"), real(1, "-s 64m"));
        for (trial, percents) in [(&mut first, [Some(1.09), None]), (&mut second, [None, None])] {
            for (phase, percent) in [0, 3].into_iter().zip(percents) {
                let role = &mut trial.phases[phase].roles[0];
                (role.cpu, role.reported_cpu_share) = (CpuTime::default(), percent);
            }
        }
        let table = table(&[first, second]);
        assert!(
            table.contains("\nhost            64M 1690k 109 +++++ +++ +++++ +++ 1993k     +++++"),
            "{table}"
        );
        let mut untimed = real(2, "-s 64m");
        untimed.phases[0].window_ns = Nanos(0);
        untimed.phases[0].roles[0].reported_cpu_share = Some(0.5);
        let both = self::table(&[real(0, "-s 64m"), untimed]);
        // 94 and 50 count alike.
        assert!(both.contains("\nhost            64M 1690k  72 "), "{both}");
    }

    /// Printed by bonnie++ 2.00a for `-s 2m -n 1:-1 -c 3`.
    #[test]
    fn links_and_copies_are_where_the_program_prints_them() {
        let trial = real(0, "-s 2m -n 1:-1 -c 3 -z 42");
        let table = table(std::slice::from_ref(&trial));
        assert!(table.contains("\nhost          2M::3 1690k"), "{table}");
        assert!(
            table.contains("\nfiles:max            /sec") && table.contains("\n             1:link +++++"),
            "{table}"
        );
        let line = lines(&[trial]);
        assert!(
            line.starts_with("1.98,2.00a,host,3,42,2M,,8192,5,") && line.contains(",1,link,,,,+++++"),
            "{line}"
        );
    }
}
