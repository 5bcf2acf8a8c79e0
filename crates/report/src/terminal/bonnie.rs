//! The tables of bonnie++ 2.00, and the line of 50 fields that its `bon_csv2html` reads, of the native workload and of the
//! real program.
//!
//! Layout and rounding are those of its bon_time.cpp, `+++++` for what took less than half a second included. Three slips of
//! the original are not repeated. Its table has for files per second whatever lies in a register (an `int` format for a
//! `double`); here it is the rate, as in its line of fields. Its line has the number of directories one field too late, and
//! never the sizes of chunks; here they stand where its own header and `bon_csv2html` have them. And %CPU of the seeks counts
//! each seeker once, where the original's threads each count all of them.
//!
//! Several trials of a case are shown as one: rates are harmonic means, %CPU is processor time over time of all trials
//! together, a latency is the longest of all. A test for which the real program gave no figure in one of them has none.

use super::{Paint, Style};
use crate::csv_text::csv_text;
use crate::error::ReportError;
use crate::text;
use crate::view::{self, CaseView};
use fsdyno_core::workload::bonnie::{FILE_UNIT, SEEKS, TESTS, WRITE_BLOCK};
use fsdyno_core::workload::external::bonnie::{Arguments, Links};
use fsdyno_core::workload::{Bonnie, Program};
use fsdyno_core::{Bytes, TrialRecord, Workload};
use std::io::{self, Write};

/// Versions of the line of fields and of the program.
const LAYOUT: &str = "1.98";
const VERSION: &str = "2.00a";
/// What took less than this has no rate, in seconds.
const SHORTEST: f64 = 0.5;
/// Percent of a processor that rounding to whole nanoseconds may have taken from a whole number.
const CPU_EPSILON: f64 = 1e-5;
const DEFAULT_CHUNK: Bytes = Bytes(8192);
const DEFAULT_SEEKS: u64 = 8192;
const DEFAULT_SEEKERS: u32 = 5;
/// Tests of the large file, the first of [`TESTS`].
const LARGE: usize = 6;

/// Writes both tables of a case.
///
/// # Errors
/// Those of `out`.
pub fn bonnie(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let Some(run) = Run::of(&case.workload) else { return Ok(()) };
    let mut heading = format!("{}: {}", case.configuration.name, case.workload.load().title());
    if case.trials.len() > 1 {
        let trials = text::plural(case.trials.len() as u64, "trial");
        heading += &format!("; {trials} as one: harmonic means of rates, longest latencies");
    }
    style.paragraph(out, Paint::Heading, 0, &heading)?;
    let (figures, size) = (figures(case, &run), large_size(case, &run));
    if size > Bytes(0) {
        large_table(out, &case.configuration.name, &run, size, &figures[..LARGE])?;
    }
    if run.parameters.files > 0 {
        small_table(out, &case.configuration.name, &run, &figures[LARGE..])?;
    }
    Ok(())
}

/// Whether a workload has such tables and lines: the native one, and the real program.
pub fn is_bonnie(workload: &Workload) -> bool {
    Run::of(workload).is_some()
}

/// What was asked for, of whichever of the two.
struct Run {
    parameters: Bonnie,
    /// What only the real program takes.
    original: Option<Arguments>,
}

impl Run {
    fn of(workload: &Workload) -> Option<Run> {
        match workload {
            Workload::Bonnie(parameters) => Some(Run { parameters: parameters.clone(), original: None }),
            Workload::External(external) if external.program == Program::Bonnie => {
                let original = external.bonnie_arguments().ok()?;
                Some(Run { parameters: original.parameters.clone(), original: Some(original) })
            }
            _ => None,
        }
    }

    fn links(&self) -> Option<Links> {
        self.original.as_ref()?.links
    }

    fn copies(&self) -> u32 {
        self.original.as_ref().map_or(1, |original| original.copies)
    }

    fn seed(&self, of_trial: u64) -> u64 {
        self.original.as_ref().map_or(of_trial, |original| original.seed(of_trial).into())
    }
}

/// Writes the line of fields of every measured trial of bonnie, native or real; those of a sentinel are left out.
///
/// # Errors
/// Those of `out`, and [`ReportError::Histogram`] as an I/O error when a stored histogram cannot be read.
pub fn bonnie_csv(out: &mut dyn Write, trials: &[TrialRecord]) -> io::Result<()> {
    for trial in trials {
        let Some(run) = Run::of(&trial.workload) else { continue };
        let cases = view::cases(std::slice::from_ref(trial))
            .map_err(|error: ReportError| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        for case in &cases {
            writeln!(out, "{}", fields(case, &run, trial.seed).join(","))?;
        }
    }
    Ok(())
}

/// What came of one test.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    /// Whether it took long enough for a rate.
    told: bool,
    /// KiB, seeks or files per second.
    rate: f64,
    /// Percent of one processor.
    cpu: f64,
    longest_ns: u64,
    is_seeks: bool,
}

/// Those of every test; `None` for one that was left out.
fn figures(case: &CaseView, run: &Run) -> [Option<Figures>; TESTS.len()] {
    // What the original gave a figure for took long enough, though its rate is rounded.
    let shortest = if run.original.is_some() { f64::MIN_POSITIVE } else { SHORTEST };
    let trials = case.trials.len().max(1) as f64;
    let mut tests = (0..).zip(TESTS).map(|(index, test)| {
        let phase = case.phases.iter().find(|phase| phase.name == test.name)?;
        let role = phase.roles.iter().find(|view| view.role == test.role)?;
        let is_seeks = test == SEEKS;
        let in_bytes = index < LARGE && !is_seeks;
        let seconds = phase.window_ns.as_secs_f64();
        Some(Figures {
            told: seconds >= shortest,
            rate: if in_bytes {
                role.rates.aggregate_bytes_per_s / Bytes::KIB as f64
            } else {
                role.rates.items_per_s
            },
            cpu: role.cpu.total().as_secs_f64() / (seconds * trials).max(f64::MIN_POSITIVE) * 100.0
                + CPU_EPSILON,
            longest_ns: role.longest_item.map_or(0, |longest| longest.0),
            is_seeks,
        })
    });
    std::array::from_fn(|_| tests.next().flatten())
}

/// Size of the large file: what was written, where the plan leaves it to the machine.
fn large_size(case: &CaseView, run: &Run) -> Bytes {
    let written = || {
        let phase = case.phases.iter().find(|phase| phase.name == WRITE_BLOCK.name)?;
        let role = phase.roles.iter().find(|view| view.role == WRITE_BLOCK.role)?;
        Some(Bytes(role.rates.bytes / case.trials.len().max(1) as u64))
    };
    run.parameters.size.or_else(written).unwrap_or_default()
}

fn large_table(
    out: &mut dyn Write,
    name: &str,
    run: &Run,
    size: Bytes,
    figures: &[Option<Figures>],
) -> io::Result<()> {
    writeln!(
        out,
        "Version {VERSION:>5}       ------Sequential Output------ --Sequential Input- --Random-\n                    \
         -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--"
    )?;
    writeln!(out, "Name:Size etc       {}", [" /sec %CP"; LARGE].join(" "))?;
    let parameters = &run.parameters;
    // Size, chunk, copies, seeks and seekers, the usual ones left out.
    let unless = |usual: bool, text: String| if usual { String::new() } else { text };
    let etc = [
        mebibytes(size),
        unless(parameters.chunk == DEFAULT_CHUNK, bytes(parameters.chunk)),
        unless(run.copies() == 1, run.copies().to_string()),
        unless(parameters.seeks == DEFAULT_SEEKS, parameters.seeks.to_string()),
        unless(parameters.seekers == DEFAULT_SEEKERS, parameters.seekers.to_string()),
    ];
    let etc = etc.join(":");
    let etc = etc.trim_end_matches(':');
    match 18_usize.checked_sub(etc.len()) {
        Some(room) => write!(out, "{name:<room$.room$} {etc}")?,
        None => write!(out, "{etc}")?,
    }
    rows(out, figures)
}

fn small_table(out: &mut dyn Write, name: &str, run: &Run, figures: &[Option<Figures>]) -> io::Result<()> {
    writeln!(
        out,
        "Version {VERSION:>5}       ------Sequential Create------ --------Random Create--------\n{name:<19.19} \
         -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--"
    )?;
    let Bonnie { files, min_size, max_size, directories, .. } = run.parameters;
    let label = match (min_size.0, max_size.0, run.links()) {
        (1.., ..) => "files:max:min       ",
        (0, 1.., _) | (0, 0, Some(_)) => "files:max           ",
        (0, 0, None) => "              files ",
    };
    writeln!(out, "{label}{}", [" /sec %CP"; TESTS.len() - LARGE].join(" "))?;
    let mut files = (files / FILE_UNIT).to_string();
    if let Some(links) = run.links() {
        files += &format!(":{links}");
    }
    if max_size > Bytes(0) {
        files += &format!(":{}:{}", max_size.0, min_size.0);
    }
    if directories > 1 {
        files += &format!("/{directories}");
    }
    write!(out, "{files:>19}")?;
    rows(out, figures)
}

/// The rest of the row of rates, and that of latencies.
fn rows(out: &mut dyn Write, figures: &[Option<Figures>]) -> io::Result<()> {
    let large = figures.iter().flatten().any(|figures| figures.is_seeks);
    for figures in figures {
        let (rate, cpu) = match figures {
            None => (String::new(), String::new()),
            Some(figures) if !figures.told => ("+++++".to_string(), "+++".to_string()),
            Some(figures) => (figures.rate_in_table(large), (figures.cpu as u64).to_string()),
        };
        write!(out, " {rate:>5} {cpu:>3}")?;
    }
    write!(out, "\nLatency          ")?;
    figures.iter().try_for_each(|figures| write!(out, " {:>9}", latency(*figures)))?;
    writeln!(out)
}

impl Figures {
    fn rate_in_table(&self, large: bool) -> String {
        let mib = self.rate / 1024.0;
        match self.rate {
            rate if self.is_seeks => per_second(rate),
            rate if !large => (rate as u64).to_string(),
            rate if rate < 10_000.0 => format!("{}k", rate as u64),
            _ if mib < 100.0 => format!("{mib:.1}m"),
            _ if mib < 1000.0 => format!("{}m", (mib + 0.5) as u64),
            _ => format!("{:.1}g", mib / 1024.0),
        }
    }

    fn rate_in_fields(&self) -> String {
        if self.is_seeks { per_second(self.rate) } else { (self.rate as u64).to_string() }
    }
}

/// The fields of one trial.
fn fields(case: &CaseView, run: &Run, seed: u64) -> Vec<String> {
    let (figures, size) = (figures(case, run), large_size(case, run));
    let parameters = &run.parameters;
    let unless = |usual: bool, text: String| if usual { String::new() } else { text };
    let name = csv_text(&case.configuration.name).replace([',', '\n'], " ");
    let (copies, seed) = (run.copies().to_string(), run.seed(seed).to_string());
    let mut fields = vec![LAYOUT.to_string(), VERSION.to_string(), name, copies, seed];
    if size > Bytes(0) {
        let chunk = unless(parameters.chunk == DEFAULT_CHUNK, bytes(parameters.chunk));
        fields.extend([mebibytes(size), chunk, parameters.seeks.to_string(), parameters.seekers.to_string()]);
    } else {
        fields.extend([const { String::new() }; 4]);
    }
    fields.extend(figures[..LARGE].iter().flat_map(|figures| rate_and_cpu(*figures)));
    if parameters.files > 0 {
        let max_size = unless(parameters.max_size == Bytes(0), parameters.max_size.0.to_string());
        fields.extend([
            (parameters.files / FILE_UNIT).to_string(),
            run.links().map_or(max_size, |links| links.to_string()),
            unless(parameters.min_size == Bytes(0), parameters.min_size.0.to_string()),
            unless(parameters.directories == 1, parameters.directories.to_string()),
            unless(parameters.file_chunk == DEFAULT_CHUNK, bytes(parameters.file_chunk)),
        ]);
    } else {
        fields.extend([const { String::new() }; 5]);
    }
    fields.extend(figures[LARGE..].iter().flat_map(|figures| rate_and_cpu(*figures)));
    fields.extend(figures.iter().map(|figures| latency(*figures)));
    fields
}

fn rate_and_cpu(figures: Option<Figures>) -> [String; 2] {
    match figures {
        None => [String::new(), String::new()],
        Some(figures) if !figures.told => ["+++++".to_string(), "+++".to_string()],
        Some(figures) => [figures.rate_in_fields(), (figures.cpu as u64).to_string()],
    }
}

fn per_second(seeks: f64) -> String {
    if seeks >= 1000.0 { format!("{seeks:.0}") } else { format!("{seeks:.1}") }
}

fn latency(figures: Option<Figures>) -> String {
    match figures.map_or(0, |figures| figures.longest_ns) {
        0 => String::new(),
        ns if ns > 99_999_999_000 => format!("{}s", ns / 1_000_000_000),
        ns if ns > 99_999_000 => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns / 1_000),
    }
}

/// Whole MiB, or GiB where they are whole.
fn mebibytes(size: Bytes) -> String {
    let mib = size.0 / Bytes::MIB;
    if mib > 0 && mib.is_multiple_of(1024) { format!("{}G", mib / 1024) } else { format!("{mib}M") }
}

/// Bytes, KiB or MiB, whatever is whole.
fn bytes(size: Bytes) -> String {
    match size.0 {
        size if size.is_multiple_of(Bytes::MIB) => format!("{}m", size / Bytes::MIB),
        size if size.is_multiple_of(Bytes::KIB) => format!("{}k", size / Bytes::KIB),
        size => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::Nanos;
    use fsdyno_core::result::CpuTime;
    use fsdyno_core::workload::External;

    /// Rates, %CPU and latencies of a run of bonnie++ 2.00a itself (`-s 64m -r 16 -n 1:2000:16:4 -m host -z 42`).
    const PRINTED: &str = "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
host            64M 1690k  94 +++++ +++ +++++ +++ 1993k  71 +++++ +++ +++++ +++
Latency              8939us     128us      67us   26993us    2228us    8058us
Version 2.00a       ------Sequential Create------ --------Random Create--------
host                -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max:min        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
        1:2000:16/4 +++++ +++ +++++ +++  1426   5 +++++ +++ +++++ +++  1774   7
Latency              8137us      48us    5451us    4120us     112us    7601us
";
    /// Its line, with the number of directories where its header has it.
    const LINE: &str = "1.98,2.00a,host,1,42,64M,,8192,5,1690,94,+++++,+++,+++++,+++,1993,71,+++++,+++,+++++,+++,1,2000,16,4,,+++++,\
                        +++,+++++,+++,1426,5,+++++,+++,+++++,+++,1774,7,8939us,128us,67us,26993us,2228us,8058us,8137us,48us,\
                        5451us,4120us,112us,7601us\n";

    fn trial(number: u32) -> TrialRecord {
        let mut trial = fixture::trial(number, number, 0, fixture::configuration("ext4", "bfq"), 1.0);
        trial.configuration.name = "host".to_string();
        trial.workload = Workload::Bonnie(Bonnie {
            size: Some(Bytes(64 << 20)),
            files: 1024,
            max_size: Bytes(2000),
            min_size: Bytes(16),
            directories: 4,
            ..Bonnie::default()
        });
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

    #[test]
    fn the_tables_are_those_of_the_original() {
        let table = table(&[trial(0)]);
        let (heading, rest) = table.split_once("Version").unwrap();
        assert!(heading.starts_with("host: bonnie, 64M in chunks of 8k, 1024 files of 16"), "{heading}");
        assert_eq!(format!("Version{rest}"), PRINTED);
    }

    #[test]
    fn every_trial_has_its_line_of_fifty_fields() {
        let two = [trial(0), trial(1), fixture::trials().remove(0)];
        assert_eq!(lines(&two), LINE.repeat(2));
        assert_eq!(LINE.split(',').count(), 50);
    }

    #[test]
    fn several_trials_are_one_with_the_longest_latencies() {
        let mut second = trial(1);
        second.phases[0].roles[0].rates.aggregate_bytes_per_s *= 3.0;
        second.phases[0].roles[0].longest_item_ns = Some(Nanos::from_secs(7));
        let table = table(&[trial(0), second]);
        let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("2 trials as one: harmonic means"), "{table}");
        // The harmonic mean of 1 and 3 is 1.5.
        assert!(table.contains("\nhost            64M 2535k  94 ") && table.contains("7000ms"), "{table}");
    }

    #[test]
    fn what_was_left_out_stays_blank() {
        let mut large = trial(0);
        large.phases.retain(|phase| !phase.name.ends_with("character") && !phase.name.contains("tial"));
        large.phases.truncate(4);
        if let Workload::Bonnie(parameters) = &mut large.workload {
            parameters.files = 0;
            parameters.chunk = Bytes(16384);
            parameters.seekers = 7;
        }
        let text = table(std::slice::from_ref(&large));
        assert!(text.contains("\nhost    64M:16k:::7           +++++ +++"), "{text}");
        let line = lines(&[large]);
        assert!(
            line.starts_with("1.98,2.00a,host,1,42,64M,16k,8192,7,,,+++++,+++,+++++,+++,,,+++++"),
            "{line}"
        );
        assert_eq!(line.split(',').count(), 50);
    }

    /// What the engine keeps of the same run of the real program: rates in whole numbers, no time and no processor where
    /// there is no rate.
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
        assert_eq!(format!("Version{rest}"), PRINTED);
        assert_eq!(lines(&[trial]), LINE);
    }

    #[test]
    fn a_figure_that_one_trial_lacks_is_lacking() {
        let mut second = real(1, "-s 64m");
        (second.phases[0].window_ns, second.phases[0].roles[0].rates) = (Nanos(0), Default::default());
        let table = table(&[real(0, "-s 64m"), second]);
        assert!(table.contains("\nhost            64M +++++ +++ +++++"), "{table}");
    }

    /// Printed by bonnie++ 2.00a for `-s 2m -n 1:-1 -c 3`.
    #[test]
    fn links_and_copies_stand_where_the_program_has_them() {
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

    #[test]
    fn numbers_are_rounded_as_in_the_original() {
        let rate = |rate| Figures { told: true, rate, cpu: 0.0, longest_ns: 0, is_seeks: false };
        let shown =
            [9999.9, 10_000.0, 102_399.0 * 1.0, 512_000.0, 2e6].map(|kib| rate(kib).rate_in_table(true));
        assert_eq!(shown, ["9999k", "9.8m", "100.0m", "500m", "1.9g"]);
        assert_eq!([999.94, 1000.4].map(per_second), ["999.9", "1000"]);
        let time = |longest_ns| latency(Some(Figures { longest_ns, ..rate(1.0) }));
        assert_eq!(
            [0, 99_999_000, 100_000_000, 99_999_999_000, 100_000_000_000].map(time),
            ["", "99999us", "100ms", "99999ms", "100s"]
        );
        assert_eq!([64_u64, 1024, 1536].map(|mib| mebibytes(Bytes(mib << 20))), ["64M", "1G", "1536M"]);
    }
}
