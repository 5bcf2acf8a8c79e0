//! The lines of bonnie++ as trials of the workload `external`: one trial for each line, one phase for each test.
//!
//! Three layouts are told apart by their number of fields: 27 (version 1.03, which begins with the name of the machine), 48
//! (1.96 and 1.97, with latencies) and 50 (1.98, which 2.00 prints, with the number of seeks). What a test took follows from
//! its rate and from how much it did, where the line says that; only then does its percentage of a processor mean
//! something. `+++++` stands for a test that was too quick for a figure.

use crate::{Draft, File, ImportError, warning};
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::result::{CpuTime, PhaseResult, RoleResult};
use fsdyno_core::workload::bonnie::{FILE_UNIT, TESTS, Test};
use fsdyno_core::workload::{External, Program};
use fsdyno_core::{Bytes, Nanos, Role, Warning, WarningKind, Workload};
use std::collections::BTreeMap;

/// Where a layout has what.
struct Layout {
    fields: usize,
    /// What it is called in a warning.
    versions: &'static str,
    /// First field of a layout that begins with its version.
    begins_with_version: bool,
    name: usize,
    copies: Option<usize>,
    size: usize,
    chunk: Option<usize>,
    seeks: Option<usize>,
    seekers: Option<usize>,
    /// Rate and percentage of the first six tests follow each other from here.
    large: usize,
    files: usize,
    /// Largest and smallest size, directories, where they have fields of their own.
    shape: Option<usize>,
    /// Rate and percentage of the last six tests.
    small: usize,
    latencies: Option<usize>,
    /// Whether the whole file is moved one byte at a time; else the line does not say how much of it is.
    whole_file_by_character: bool,
}

const LAYOUTS: &[Layout] = &[
    Layout {
        fields: 27,
        versions: "1.03",
        begins_with_version: false,
        name: 0,
        copies: None,
        size: 1,
        chunk: None,
        seeks: None,
        seekers: None,
        large: 2,
        files: 14,
        shape: None,
        small: 15,
        latencies: None,
        whole_file_by_character: true,
    },
    Layout {
        fields: 48,
        versions: "1.96 or 1.97",
        begins_with_version: true,
        name: 2,
        copies: Some(3),
        size: 5,
        chunk: Some(6),
        seeks: None,
        seekers: None,
        large: 7,
        files: 19,
        shape: Some(20),
        small: 24,
        latencies: Some(36),
        whole_file_by_character: false,
    },
    Layout {
        fields: 50,
        versions: "1.98 or 2.00",
        begins_with_version: true,
        name: 2,
        copies: Some(3),
        size: 5,
        chunk: Some(6),
        seeks: Some(7),
        seekers: Some(8),
        large: 9,
        files: 21,
        shape: Some(22),
        small: 26,
        latencies: Some(38),
        whole_file_by_character: false,
    },
];

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let drafts: Vec<Draft> =
        lines.map(|(index, text)| Line::new(file, index + 1, text)?.draft()).collect::<Result<_, _>>()?;
    match drafts.is_empty() {
        true => Err(ImportError::at(file, 1, 1, "expected a line of figures of bonnie++, found nothing")),
        false => Ok(drafts),
    }
}

/// A line with its fields.
struct Line<'f> {
    file: &'f File,
    number: usize,
    fields: Vec<&'f str>,
    layout: &'static Layout,
}

/// How much a test does.
#[derive(Clone, Copy, PartialEq)]
enum Amount {
    /// So many bytes; `None` where the line does not say.
    Bytes(Option<f64>),
    /// So many seeks or files.
    Items(Option<f64>),
}

impl<'f> Line<'f> {
    fn new(file: &'f File, number: usize, text: &'f str) -> Result<Self, ImportError> {
        let fields: Vec<&str> = text.trim_end().split(',').collect();
        let Some(layout) = LAYOUTS.iter().find(|layout| layout.fields == fields.len()) else {
            let problem = format!("expected a line of 27, 48 or 50 fields, found {}", fields.len());
            return Err(ImportError::at(file, number, text.trim_end().chars().count() + 1, problem));
        };
        let line = Line { file, number, fields, layout };
        if layout.begins_with_version && !line.fields[0].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(line.error(0, "the version of the layout, such as 1.98"));
        }
        Ok(line)
    }

    fn error(&self, at: usize, expected: &str) -> ImportError {
        let column = self.fields[..at].iter().map(|field| field.chars().count() + 1).sum::<usize>() + 1;
        let problem = format!("expected {expected}, found '{}'", self.fields[at]);
        ImportError::at(self.file, self.number, column, problem)
    }

    fn draft(&self) -> Result<Draft, ImportError> {
        let (mut phases, mut silent) = (Vec::new(), Vec::new());
        for (index, test) in TESTS.iter().enumerate() {
            match self.rate(index)? {
                Told::Nothing => {}
                Told::TooQuick => silent.push(test.phase),
                Told::Figure(rate) => phases.push(self.phase(index, *test, rate)?),
            }
        }
        if phases.is_empty() {
            return Err(ImportError::at(self.file, self.number, 1, "the line has no figure of any test"));
        }
        let versions = self.layout.versions;
        let mut warnings = vec![warning(
            self.file,
            &format!("a line of bonnie++ {versions}"),
            "nothing of filesystem, device and machine, no single operations, stalls only as the longest of each test",
        )];
        if !silent.is_empty() {
            let text =
                format!("bonnie++ gives no figure for what it does too quickly: {}", silent.join(", "));
            warnings.push(Warning::new(WarningKind::FigureMissing, text));
        }
        let name = self.fields[self.layout.name].trim();
        Ok(Draft {
            configuration: Configuration {
                name: if name.is_empty() { self.file.stem() } else { name.to_string() },
                filesystem: "unknown".to_string(),
                settings: BTreeMap::new(),
            },
            workload: Workload::External(External {
                program: Program::Bonnie,
                arguments: self.arguments(),
                ..External::default()
            }),
            environment: Environment {
                tools: [("bonnie++".to_string(), format!("bonnie++ {versions}"))].into(),
                ..Environment::default()
            },
            scheduler: String::new(),
            phases,
            warnings,
            finished: String::new(),
        })
    }

    /// What bonnie++ must have been told: `-s 64M:8192 -n 16:100000:16:64 -c 2`.
    fn arguments(&self) -> String {
        let field = |at: Option<usize>| at.map(|at| self.fields[at].trim()).filter(|text| !text.is_empty());
        let layout = self.layout;
        let mut words = Vec::new();
        if let Some(size) = field(Some(layout.size)) {
            let chunk = field(layout.chunk).map(|chunk| format!(":{chunk}")).unwrap_or_default();
            words.push(format!("-s {size}{chunk}"));
        }
        if let Some(files) = field(Some(layout.files)) {
            let shape = layout.shape.map(|first| (first..first + 3).map_while(|at| field(Some(at))));
            let parts: Vec<&str> = std::iter::once(files).chain(shape.into_iter().flatten()).collect();
            words.push(format!("-n {}", parts.join(":")));
        }
        words.extend(
            field(layout.copies).filter(|copies| *copies != "1").map(|copies| format!("-c {copies}")),
        );
        words.join(" ")
    }

    fn rate(&self, test: usize) -> Result<Told, ImportError> {
        let at = if test < 6 { self.layout.large + 2 * test } else { self.layout.small + 2 * (test - 6) };
        self.figure(at, "a rate above 0, +++++ or nothing", |rate| rate > 0.0)
    }

    /// Of one processor, in percent.
    fn percent(&self, test: usize) -> Result<Told, ImportError> {
        let at =
            if test < 6 { self.layout.large + 2 * test + 1 } else { self.layout.small + 2 * (test - 6) + 1 };
        self.figure(at, "a percentage, +++ or nothing", |_| true)
    }

    fn figure(&self, at: usize, expected: &str, fits: impl Fn(f64) -> bool) -> Result<Told, ImportError> {
        match self.fields[at].trim() {
            "" => Ok(Told::Nothing),
            text if text.bytes().all(|byte| byte == b'+') => Ok(Told::TooQuick),
            text => {
                let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let value = text.parse::<f64>().ok().filter(|value| plain && fits(*value));
                value.map(Told::Figure).ok_or_else(|| self.error(at, expected))
            }
        }
    }

    fn whole(&self, at: Option<usize>, expected: &str) -> Result<Option<u64>, ImportError> {
        let Some((at, text)) = at.map(|at| (at, self.fields[at].trim())).filter(|(_, text)| !text.is_empty())
        else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| self.error(at, expected))
    }

    fn phase(&self, index: usize, test: Test, rate: f64) -> Result<PhaseResult, ImportError> {
        let layout = self.layout;
        let copies = self.whole(layout.copies, "a number of copies")?.unwrap_or(1).max(1) as f64;
        let amount = self.amount(index, copies)?;
        let seekers = match test.role {
            Role::Seeker => self.whole(layout.seekers, "a number of seekers")?.unwrap_or(1),
            _ => 1,
        };
        let mut result = RoleResult::unwatched(test.role, (copies * seekers as f64) as u32);
        let seconds = match amount {
            Amount::Bytes(bytes) => {
                result.rates.aggregate_bytes_per_s = rate * Bytes::KIB as f64;
                result.rates.bytes = bytes.unwrap_or(0.0) as u64;
                bytes.map(|bytes| bytes / result.rates.aggregate_bytes_per_s)
            }
            Amount::Items(items) => {
                result.rates.items_per_s = rate;
                result.rates.items = items.unwrap_or(0.0) as u64;
                items.map(|items| items / rate)
            }
        };
        let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
        if let (Told::Figure(percent), Some(seconds)) = (self.percent(index)?, seconds) {
            // One figure for both modes; it stands as system time.
            result.cpu = CpuTime { user_ns: Nanos(0), system_ns: nanos(seconds * percent / 100.0) };
        }
        result.longest_stall_ns = self.latency(index)?;
        result.longest_item_ns = Some(result.longest_stall_ns).filter(|longest| *longest > Nanos(0));
        Ok(PhaseResult::lasting(test.phase, seconds.map(nanos).unwrap_or_default(), vec![result]))
    }

    fn amount(&self, index: usize, copies: f64) -> Result<Amount, ImportError> {
        let by_character = [0, 3].contains(&index);
        Ok(match index {
            0..=4 if by_character && !self.layout.whole_file_by_character => Amount::Bytes(None),
            0..=4 => Amount::Bytes(self.file_bytes()?.map(|bytes| bytes * copies)),
            5 => {
                let seeks = self.whole(self.layout.seeks, "a number of seeks")?;
                Amount::Items(seeks.map(|seeks| seeks as f64 * copies))
            }
            _ => Amount::Items(self.files()?.map(|files| files * copies)),
        })
    }

    /// `300M`, `2G`, `2G:8k`: without a suffix MiB.
    fn file_bytes(&self) -> Result<Option<f64>, ImportError> {
        let at = self.layout.size;
        let size = self.fields[at].split(':').next().unwrap_or_default().trim();
        if size.is_empty() {
            return Ok(None);
        }
        let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match size[digits.len()..].to_ascii_uppercase().as_str() {
            "K" => Some(Bytes::KIB),
            "" | "M" => Some(Bytes::MIB),
            "G" => Some(Bytes::GIB),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(unit).map(|(size, unit)| size as f64 * unit as f64);
        bytes.map(Some).ok_or_else(|| self.error(at, "the size of a file, such as 300M or 2G"))
    }

    /// In units of 1024; version 1.03 may have the sizes behind it (`16:100000:16/64`).
    fn files(&self) -> Result<Option<f64>, ImportError> {
        let at = self.layout.files;
        let number = self.fields[at].split([':', '/']).next().unwrap_or_default().trim();
        if number.is_empty() {
            return Ok(None);
        }
        let units =
            number.parse::<u64>().map_err(|_| self.error(at, "a number of files in units of 1024"))?;
        Ok(Some(units as f64 * FILE_UNIT as f64))
    }

    /// `15828us`, `834ms`, `3s`; nothing where the layout has no latencies.
    fn latency(&self, index: usize) -> Result<Nanos, ImportError> {
        let Some(at) = self.layout.latencies.map(|first| first + index) else { return Ok(Nanos(0)) };
        let text = self.fields[at].trim();
        if text.is_empty() || text.starts_with('+') {
            return Ok(Nanos(0));
        }
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(1_000_000_000),
            _ => None,
        };
        let ns = digits.parse::<u64>().ok().zip(unit).and_then(|(value, unit)| value.checked_mul(unit));
        ns.map(Nanos).ok_or_else(|| self.error(at, "a latency such as 834ms"))
    }
}

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    Nothing,
    TooQuick,
    Figure(f64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, trials};
    use fsdyno_core::Measure;
    use fsdyno_core::result::TrialRecord;

    /// Version 1.03 as its manual shows it, with a file of 2 GB and 16,384 files.
    const OLD: &str = "rimmer,2G,18624,97,71618,31,29391,11,19722,96,85172,14,202.5,0,16,1980,94,+++++,+++,+++++,+++,2056,94,+++++,+++,5442,92";
    /// Version 1.97 of `-s 4G -n 16`.
    const MIDDLE: &str = "1.97,1.97,web1,1,1386077310,4G,,580,98,104411,13,49127,7,1290,92,116021,8,214.1,5,16,,,,,24201,30,+++++,+++,31415,32,23911,29,+++++,+++,30012,31,14892us,591ms,1022ms,20103us,98ms,622ms,291us,302us,318us,207us,21us,260us";
    /// Version 2.00 of `-s 64m -r 0 -n 0 -f1` under strace, so that all but one part have figures.
    const NEW: &str = "1.98,2.00a,vm,1,1795323098,64M,,8192,5,33,24,88754,32,81049,29,31,23,+++++,+++,14179,181,,,,,,,,,,,,,,,,,,834ms,8613us,13306us,1139ms,291us,2912us,,,,,,";

    fn import(text: &str) -> Result<Vec<TrialRecord>, ImportError> {
        let file = File { path: "lines.csv".to_string(), text: text.to_string() };
        trials(Format::BonnieCsv, &[file], None)
    }

    fn value(trial: &TrialRecord, name: &str) -> Option<f64> {
        name.parse::<Measure>().unwrap().value(trial).map(|value| value.value)
    }

    #[test]
    fn each_layout_is_read_with_what_it_tells() {
        let imported = import(&format!("{OLD}\n{MIDDLE}\n\n{NEW}\n")).unwrap();
        let [old, middle, new] = &imported[..] else { panic!("three trials") };
        assert_eq!(value(old, "bonnie-write-block"), Some(71618.0 * 1024.0));
        assert_eq!(value(old, "bonnie-seeks"), Some(202.5));
        assert_eq!(value(old, "bonnie-random-delete"), Some(5442.0));
        assert_eq!(value(old, "bonnie-seq-stat"), None);
        // The percentages are those of the line where it says how much was done.
        let share = value(old, "write block/writer/cpu-share").unwrap();
        assert!((share - 0.31).abs() < 1e-9, "{share}");
        let share = value(old, "write per character/writer/cpu-share").unwrap();
        assert!((share - 0.97).abs() < 1e-9, "{share}");
        assert_eq!(value(middle, "write per character/writer/cpu-share"), None);
        assert_eq!(value(middle, "bonnie-write-char"), Some(580.0 * 1024.0));
        assert_eq!(value(old, "longest-stall"), None);
        assert_eq!(value(middle, "longest-stall"), Some(1_022_000_000.0));
        assert_eq!(value(new, "rewrite/rewriter/longest-stall"), Some(13_306_000.0));
        assert_eq!(value(new, "bonnie-seq-create"), None);
        let titles: Vec<String> = imported.iter().map(|trial| trial.workload.load().title()).collect();
        assert_eq!(
            titles,
            ["the real bonnie++: -s 2G -n 16", "the real bonnie++: -s 4G -n 16", "the real bonnie++: -s 64M"]
        );
        assert_eq!(new.phases[4].roles[0].workers, 5);
        assert_eq!(old.warnings.len(), 2);
    }

    #[test]
    fn lines_of_one_machine_are_trials_of_one_case() {
        let other = OLD.replacen("rimmer", "lister", 1);
        let imported = import(&format!("{OLD}\n{other}\n{OLD}\n")).unwrap();
        let cases: Vec<u32> = imported.iter().map(|trial| trial.case).collect();
        assert_eq!(cases, [0, 1, 0]);
        assert_eq!(imported[1].configuration.name, "lister");
        assert_eq!(crate::measure(&imported).unwrap().name(), "write block/writer/rate");
    }

    #[test]
    fn whatever_is_broken_is_refused_with_its_place() {
        for (text, line, column, problem) in [
            ("", 1, 1, "expected a line of figures"),
            ("\n\n", 1, 1, "expected a line of figures"),
            (&format!("{OLD}\nhost,1G,3\n"), 2, 10, "expected a line of 27, 48 or 50 fields, found 3"),
            (&format!("{OLD},\n"), 1, OLD.len() + 2, "found 28"),
            (
                &OLD.replace("71618", "7161B"),
                1,
                20,
                "expected a rate above 0, +++++ or nothing, found '7161B'",
            ),
            (&OLD.replace("71618", "0"), 1, 20, "expected a rate"),
            (&OLD.replace("71618", "-3"), 1, 20, "found '-3'"),
            (&OLD.replace(",31,", ",inf,"), 1, 26, "expected a percentage"),
            (&OLD.replace("2G", "2Q"), 1, 8, "expected the size of a file"),
            (&OLD.replace(",16,", ",many,"), 1, 64, "expected a number of files"),
            (&NEW.replace("834ms", "834 parsecs"), 1, 107, "expected a latency"),
            (&NEW.replacen("1.98", "vm", 1), 1, 1, "expected the version of the layout"),
            ("a,,,,,,,,,,,,,,,,,,,,,,,,,,", 1, 1, "no figure of any test"),
        ] {
            let error = import(text).map(|trials| panic!("taken: {text}: {trials:?}")).unwrap_err();
            let ImportError::Place { line: at, column: place, problem: told, .. } = &error else {
                panic!("{error}")
            };
            assert!(told.contains(problem), "{error} is not {problem}");
            assert_eq!((*at, *place), (line, column), "{error}");
        }
    }
}
