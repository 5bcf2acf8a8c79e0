//! The tables of bonnie++ 2.00, and the line of 50 fields that its `bon_csv2html` reads.
//!
//! Layout and rounding are those of its bon_time.cpp, including `+++++` for less than half a second. Three
//! errors of the original are not repeated. Its table prints garbage for files per second (an `int` format
//! for a `double`); here it is the rate, as in its line of fields. Its line has the number of directories one
//! field too late and never the sizes of chunks; here they are where its own header and `bon_csv2html` have
//! them. And its %CPU of the seeks counts all seekers once in each of their threads; here each seeker counts
//! once.

use super::{LARGE, LAYOUT};
use fsdyno_core::Bytes;
use fsdyno_core::workload::Bonnie;
use fsdyno_core::workload::bonnie::{FILE_UNIT, SEEKS, TESTS};
use fsdyno_core::workload::external::bonnie::Links;
use std::io::{self, Write};
use std::ops::Range;

/// The version of bonnie++ that prints this format.
const VERSION: &str = "2.00a";
/// A test that took less time than this has no rate, in seconds.
pub const SHORTEST_S: f64 = 0.5;
const DEFAULT_CHUNK: Bytes = Bytes(8192);
const DEFAULT_SEEKS: u64 = 8192;
const DEFAULT_SEEKERS: u32 = 5;

/// The parameters and the results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BonnieRun<'a> {
    /// The name of the machine.
    pub name: &'a str,
    /// The parameters of the workload.
    pub parameters: &'a Bonnie,
    /// Links instead of files.
    pub links: Option<Links>,
    /// The number of copies that ran at once.
    pub copies: u32,
    /// The seed of random orders.
    pub seed: u64,
    /// Size of the large file; 0 if there was none.
    pub size: Bytes,
    /// One for each of [`TESTS`]; `None` if it was not run.
    pub tests: [Option<TestFigures>; TESTS.len()],
}

/// The results of one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestFigures {
    /// The speed; `None` if the test was too quick for a rate.
    pub speed: Option<Speed>,
    /// The duration of the longest operation; 0 if unknown.
    pub longest_ns: u64,
}

/// The speed of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// KiB, seeks or files per second.
    pub rate: f64,
    /// Percent of one processor, if known.
    pub cpu_percent: Option<f64>,
}

impl BonnieRun<'_> {
    /// Writes the tables of the large file and of the small files, if there were any.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_tables(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.size > Bytes(0) {
            large_table(out, self)?;
        }
        if self.parameters.files > 0 {
            small_table(out, self)?;
        }
        Ok(())
    }

    /// The line of fields, without its line end.
    pub fn line(&self) -> String {
        fields(self).join(",")
    }
}

fn large_table(out: &mut dyn Write, run: &BonnieRun<'_>) -> io::Result<()> {
    writeln!(
        out,
        "Version {VERSION:>5}       ------Sequential Output------ --Sequential Input- \
         --Random-\n                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--"
    )?;
    writeln!(out, "Name:Size etc       {}", [" /sec %CP"; LARGE].join(" "))?;
    let (name, parameters) = (run.name, run.parameters);
    // Size, chunk, copies, seeks and seekers, each left blank if it is the default.
    let unless = |usual: bool, text: String| if usual { String::new() } else { text };
    let etc = [
        mebibytes(run.size),
        unless(parameters.chunk == DEFAULT_CHUNK, bytes(parameters.chunk)),
        unless(run.copies == 1, run.copies.to_string()),
        unless(parameters.seeks == DEFAULT_SEEKS, parameters.seeks.to_string()),
        unless(parameters.seekers == DEFAULT_SEEKERS, parameters.seekers.to_string()),
    ];
    let etc = etc.join(":");
    let etc = etc.trim_end_matches(':');
    match 18_usize.checked_sub(etc.len()) {
        Some(room) => write!(out, "{name:<room$.room$} {etc}")?,
        None => write!(out, "{etc}")?,
    }
    rows(out, run, 0..LARGE)
}

fn small_table(out: &mut dyn Write, run: &BonnieRun<'_>) -> io::Result<()> {
    let name = run.name;
    writeln!(
        out,
        "Version {VERSION:>5}       ------Sequential Create------ --------Random Create--------\n\
         {name:<19.19} -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--"
    )?;
    let Bonnie { files, min_size, max_size, directories, .. } = *run.parameters;
    let label = match (min_size.0, max_size.0, run.links) {
        (1.., ..) => "files:max:min       ",
        (0, 1.., _) | (0, 0, Some(_)) => "files:max           ",
        (0, 0, None) => "              files ",
    };
    writeln!(out, "{label}{}", [" /sec %CP"; TESTS.len() - LARGE].join(" "))?;
    let mut files = (files / FILE_UNIT).to_string();
    if let Some(links) = run.links {
        files += &format!(":{links}");
    }
    if max_size > Bytes(0) {
        files += &format!(":{}:{}", max_size.0, min_size.0);
    }
    if directories > 1 {
        files += &format!("/{directories}");
    }
    write!(out, "{files:>19}")?;
    rows(out, run, LARGE..TESTS.len())
}

/// The rest of the row of rates, and the row of latencies.
fn rows(out: &mut dyn Write, run: &BonnieRun<'_>, tests: Range<usize>) -> io::Result<()> {
    for test in tests.clone() {
        let [rate, cpu] = rate_and_cpu(run.tests[test], |speed| rate_in_table(test, speed.rate));
        write!(out, " {rate:>5} {cpu:>3}")?;
    }
    write!(out, "\nLatency          ")?;
    run.tests[tests].iter().try_for_each(|figures| write!(out, " {:>9}", latency(*figures)))?;
    writeln!(out)
}

/// `test` is an index into [`TESTS`].
fn rate_in_table(test: usize, rate: f64) -> String {
    let mib = rate / 1024.0;
    match rate {
        rate if TESTS[test] == SEEKS => per_second(rate),
        rate if test >= LARGE => (rate as u64).to_string(),
        rate if rate < 10_000.0 => format!("{}k", rate as u64),
        _ if mib < 100.0 => format!("{mib:.1}m"),
        _ if mib < 1000.0 => format!("{}m", (mib + 0.5) as u64),
        _ => format!("{:.1}g", mib / 1024.0),
    }
}

fn rate_in_fields(test: usize, rate: f64) -> String {
    if TESTS[test] == SEEKS { per_second(rate) } else { (rate as u64).to_string() }
}

/// The fields of one run.
fn fields(run: &BonnieRun<'_>) -> Vec<String> {
    let parameters = run.parameters;
    let unless = |usual: bool, text: String| if usual { String::new() } else { text };
    let (name, copies, seed) =
        (run.name.replace([',', '\n'], " "), run.copies.to_string(), run.seed.to_string());
    let mut fields = vec![LAYOUT.to_string(), VERSION.to_string(), name, copies, seed];
    if run.size > Bytes(0) {
        let chunk = unless(parameters.chunk == DEFAULT_CHUNK, bytes(parameters.chunk));
        let (seeks, seekers) = (parameters.seeks.to_string(), parameters.seekers.to_string());
        fields.extend([mebibytes(run.size), chunk, seeks, seekers]);
    } else {
        fields.extend([const { String::new() }; 4]);
    }
    let speeds = |tests: Range<usize>| {
        tests.flat_map(|test| rate_and_cpu(run.tests[test], |speed| rate_in_fields(test, speed.rate)))
    };
    fields.extend(speeds(0..LARGE));
    if parameters.files > 0 {
        let max_size = unless(parameters.max_size == Bytes(0), parameters.max_size.0.to_string());
        fields.extend([
            (parameters.files / FILE_UNIT).to_string(),
            run.links.map_or(max_size, |links| links.to_string()),
            unless(parameters.min_size == Bytes(0), parameters.min_size.0.to_string()),
            unless(parameters.directories == 1, parameters.directories.to_string()),
            unless(parameters.file_chunk == DEFAULT_CHUNK, bytes(parameters.file_chunk)),
        ]);
    } else {
        fields.extend([const { String::new() }; 5]);
    }
    fields.extend(speeds(LARGE..TESTS.len()));
    fields.extend(run.tests.iter().map(|figures| latency(*figures)));
    fields
}

fn rate_and_cpu(figures: Option<TestFigures>, rate: impl FnOnce(Speed) -> String) -> [String; 2] {
    match figures.map(|figures| figures.speed) {
        None => [String::new(), String::new()],
        Some(None) => ["+++++".to_string(), "+++".to_string()],
        Some(Some(speed)) => {
            let percent = speed.cpu_percent.map(|percent| (percent as u64).to_string());
            [rate(speed), percent.unwrap_or_default()]
        }
    }
}

fn per_second(seeks: f64) -> String {
    if seeks >= 1000.0 { format!("{seeks:.0}") } else { format!("{seeks:.1}") }
}

fn latency(figures: Option<TestFigures>) -> String {
    match figures.map_or(0, |figures| figures.longest_ns) {
        0 => String::new(),
        ns if ns > 99_999_999_000 => format!("{}s", ns / 1_000_000_000),
        ns if ns > 99_999_000 => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns / 1_000),
    }
}

/// In MiB, or in GiB if that is a whole number.
fn mebibytes(size: Bytes) -> String {
    let mib = size.0 / Bytes::MIB;
    if mib > 0 && mib.is_multiple_of(1024) { format!("{}G", mib / 1024) } else { format!("{mib}M") }
}

/// In the largest of bytes, KiB and MiB in which it is a whole number.
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
    use crate::bonnie::{Line, TestResult};
    use fsdyno_core::Nanos;
    use fsdyno_testkit::captured::{BONNIE_LINE, BONNIE_PRINTED, bonnie_parameters};

    fn run(parameters: &Bonnie) -> BonnieRun<'_> {
        let speed = |rate, cpu_percent| Some(Speed { rate, cpu_percent: Some(cpu_percent) });
        let speeds = [
            speed(1690.4, 94.5),
            None,
            None,
            speed(1993.9, 71.2),
            None,
            None,
            None,
            None,
            speed(1426.3, 5.9),
            None,
            None,
            speed(1774.9, 7.2),
        ];
        let longest_us = [8939, 128, 67, 26993, 2228, 8058, 8137, 48, 5451, 4120, 112, 7601];
        BonnieRun {
            name: "host",
            parameters,
            links: None,
            copies: 1,
            seed: 42,
            size: Bytes(64 << 20),
            tests: std::array::from_fn(|test| {
                Some(TestFigures { speed: speeds[test], longest_ns: longest_us[test] * 1000 + 999 })
            }),
        }
    }

    fn tables(run: &BonnieRun<'_>) -> String {
        let mut out = Vec::new();
        run.write_tables(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_tables_are_those_of_the_original() {
        assert_eq!(tables(&run(&bonnie_parameters())), BONNIE_PRINTED);
    }

    #[test]
    fn the_line_has_fifty_fields_and_is_read_back() {
        let parameters = bonnie_parameters();
        let run = run(&parameters);
        assert_eq!(format!("{}\n", run.line()), BONNIE_LINE);
        let text = run.line();
        let line = Line::new(&text).unwrap();
        assert_eq!((line.name(), line.arguments().as_str()), ("host", "-s 64M -n 1:2000:16:4"));
        let read = line.tests(None).unwrap();
        assert_eq!(read.len(), TESTS.len());
        for (index, (TestResult { phase, too_quick }, written)) in read.iter().zip(run.tests).enumerate() {
            let (written, role) = (written.unwrap(), &phase.roles[0]);
            assert_eq!((phase.name.as_str(), role.role), (TESTS[index].name, TESTS[index].role));
            assert_eq!(*too_quick, written.speed.is_none());
            assert_eq!(role.longest_stall_ns, Some(Nanos(written.longest_ns / 1000 * 1000)));
            let rates = role.rates;
            let rate = if index < LARGE { rates.aggregate_bytes_per_s / 1024.0 } else { rates.items_per_s };
            assert_eq!(rate, written.speed.map_or(0.0, |speed| speed.rate.trunc()), "{}", phase.name);
        }
    }

    #[test]
    fn tests_that_were_not_run_stay_blank() {
        let parameters = Bonnie { files: 0, chunk: Bytes(16384), seekers: 7, ..bonnie_parameters() };
        let mut run = run(&parameters);
        for test in [0, 3].into_iter().chain(LARGE..TESTS.len()) {
            run.tests[test] = None;
        }
        let text = tables(&run);
        assert!(text.contains("\nhost    64M:16k:::7           +++++ +++"), "{text}");
        let line = run.line();
        assert!(
            line.starts_with("1.98,2.00a,host,1,42,64M,16k,8192,7,,,+++++,+++,+++++,+++,,,+++++"),
            "{line}"
        );
        assert_eq!(line.split(',').count(), 50);
    }

    #[test]
    fn a_name_cannot_end_a_field() {
        let parameters = bonnie_parameters();
        let run = BonnieRun { name: "a,b\nc", ..run(&parameters) };
        assert!(run.line().starts_with("1.98,2.00a,a b c,1,"), "{}", run.line());
    }

    #[test]
    fn numbers_are_rounded_as_in_the_original() {
        let shown = [9999.9, 10_000.0, 102_399.0 * 1.0, 512_000.0, 2e6].map(|kib| rate_in_table(1, kib));
        assert_eq!(shown, ["9999k", "9.8m", "100.0m", "500m", "1.9g"]);
        assert_eq!([999.94, 1000.4].map(per_second), ["999.9", "1000"]);
        let time = |longest_ns| latency(Some(TestFigures { speed: None, longest_ns }));
        assert_eq!(
            [0, 99_999_000, 100_000_000, 99_999_999_000, 100_000_000_000].map(time),
            ["", "99999us", "100ms", "99999ms", "100s"]
        );
        assert_eq!([64_u64, 1024, 1536].map(|mib| mebibytes(Bytes(mib << 20))), ["64M", "1G", "1536M"]);
    }
}
