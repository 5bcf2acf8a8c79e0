//! Lines of bonnie++ as trials of the workload `external`: one trial for each line, and one phase for each
//! test with a figure. They are read as in that workload itself.

use crate::bonnie::{Line, LineError, lines};
use crate::import::{Draft, File, ImportError, warning};
use crate::run::MOST_RUNS;
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::workload::{External, Program, Stated};
use fsdyno_core::{Warning, WarningKind, Workload};
use std::collections::BTreeMap;

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let mut drafts: Vec<Draft> = Vec::new();
    for (number, line) in lines(&file.text) {
        if drafts.len() == MOST_RUNS {
            return Err(ImportError::at(
                file,
                number,
                1,
                format!("a file has at most {MOST_RUNS} result lines"),
            ));
        }
        drafts.push(draft(file, number, line)?);
    }
    match drafts.is_empty() {
        true => Err(ImportError::at(
            file,
            1,
            1,
            "expected a bonnie++ result line, found none; bonnie++ prints it to stdout, after its tables, whose \
             figures are rounded",
        )),
        false => Ok(drafts),
    }
}

fn draft(file: &File, number: usize, line: Result<Line<'_>, LineError>) -> Result<Draft, ImportError> {
    let misread = |error| match error {
        LineError::Fields { found } => {
            let length = file.text.lines().nth(number - 1).map_or(0, |text| text.trim_end().chars().count());
            let problem = format!("expected a line of 27, 47, 48 or 50 fields, found {found}");
            ImportError::at(file, number, length + 1, problem)
        }
        LineError::Field { column, expected, found, .. } => {
            ImportError::at(file, number, column, format!("expected {expected}, found '{found}'"))
        }
    };
    let line = line.map_err(misread)?;
    let tests = line.tests(None).map_err(misread)?;
    if tests.is_empty() {
        return Err(ImportError::at(file, number, 1, "the line has no figures"));
    }
    let version = format!("bonnie++ {}", line.version());
    let mut warnings = vec![warning(
        file,
        &version,
        "filesystem, device, machine, single operations, or stalls other than the longest of each test",
    )];
    let too_quick = tests.iter().filter(|test| test.too_quick);
    let names: Vec<&str> = too_quick.map(|test| test.phase.name.as_str()).collect();
    if !names.is_empty() {
        let text = format!("bonnie++ reports no rate for tests that were too quick: {}", names.join(", "));
        warnings.push(Warning::new(WarningKind::FigureMissing, text));
    }
    let name = line.name();
    Ok(Draft {
        configuration: Configuration {
            name: if name.is_empty() { file.stem() } else { name.to_string() },
            filesystem: "unknown".to_string(),
            settings: BTreeMap::new(),
        },
        workload: Workload::External(External {
            program: Program::Bonnie,
            arguments: line.arguments(),
            imported: Some(Stated { version: Some(version.clone()), ..Stated::default() }),
            ..External::default()
        }),
        environment: Environment {
            tools: [("bonnie++".to_string(), version)].into(),
            ..Environment::default()
        },
        scheduler: String::new(),
        phases: tests.into_iter().map(|test| test.phase).collect(),
        columns: BTreeMap::new(),
        warnings,
        finished: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, trials};
    use fsdyno_core::result::TrialRecord;
    use fsdyno_core::{Measure, PhaseResult};

    /// Version 1.03 as its manual shows it, with a file of 2 GB and 16,384 files.
    const OLD: &str = "rimmer,2G,18624,97,71618,31,29391,11,19722,96,85172,14,202.5,0,16,1980,94,+++++,+++,+++++,+++,2056,94,+++++,+++,5442,92";
    /// Version 1.97 of `-s 4G -n 16`.
    const MIDDLE: &str = "1.97,1.97,web1,1,1386077310,4G,,580,98,104411,13,49127,7,1290,92,116021,8,214.1,5,16,,,,,24201,30,+++++,+++,31415,32,23911,29,+++++,+++,30012,31,14892us,591ms,1022ms,20103us,98ms,622ms,291us,302us,318us,207us,21us,260us";
    /// Version 2.00 of `-s 64m -r 0 -n 0 -f1`, slowed down by strace so that all tests but one have figures.
    const NEW: &str = "1.98,2.00a,vm,1,1795323098,64M,,8192,5,33,24,88754,32,81049,29,31,23,+++++,+++,14179,181,,,,,,,,,,,,,,,,,,834ms,8613us,13306us,1139ms,291us,2912us,,,,,,";

    fn import(text: &str) -> Result<Vec<TrialRecord>, ImportError> {
        let file = File { path: "lines.csv".to_string(), text: text.to_string() };
        trials(Format::BonnieCsv, &[file], None)
    }

    fn value(trial: &TrialRecord, name: &str) -> Option<f64> {
        name.parse::<Measure>().unwrap().value(trial).map(|value| value.value)
    }

    #[test]
    fn each_layout_is_read_with_all_its_figures() {
        let imported = import(&format!("{OLD}\n{MIDDLE}\n\n{NEW}\n")).unwrap();
        let [old, middle, new] = &imported[..] else { panic!("three trials") };
        assert_eq!(value(old, "bonnie-write-block"), Some(71618.0 * 1024.0));
        assert_eq!(value(old, "bonnie-seeks"), Some(202.5));
        assert_eq!(value(old, "bonnie-random-delete"), Some(5442.0));
        assert_eq!(value(old, "bonnie-seq-stat"), None);
        let share = value(old, "write block/writer/cpu-share").unwrap();
        assert!((share - 0.31).abs() < 1e-9, "{share}");
        let share = value(old, "write per character/writer/cpu-share").unwrap();
        assert!((share - 0.97).abs() < 1e-9, "{share}");
        assert_eq!(value(middle, "write per character/writer/cpu-share"), Some(0.98));
        assert_eq!(value(middle, "bonnie-write-char"), Some(580.0 * 1024.0));
        assert_eq!(value(old, "longest-stall"), None);
        assert_eq!(value(middle, "longest-stall"), Some(1_022_000_000.0));
        assert_eq!(value(new, "rewrite/rewriter/longest-stall"), Some(13_306_000.0));
        assert_eq!(value(new, "bonnie-seq-create"), None);
        let titles: Vec<String> = imported.iter().map(|trial| trial.workload.load().title()).collect();
        assert_eq!(
            titles,
            [
                "the real bonnie++: -s 2G -n 16",
                "the real bonnie++: -s 4G -n 16",
                "the real bonnie++: -s 64M -n 0"
            ]
        );
        assert_eq!(new.phases[5].roles[0].workers, 5);
        assert_eq!(old.warnings.len(), 2);
    }

    /// It covers user and system mode, and nothing says how much of each.
    #[test]
    fn a_percentage_of_a_processor_is_no_time_of_either_mode() {
        for line in [OLD, MIDDLE, NEW] {
            let trial = &import(line).unwrap()[0];
            let roles = || trial.phases.iter().flat_map(|phase| &phase.roles);
            assert!(roles().any(|role| role.reported_cpu_share.is_some_and(|share| share > 0.0)), "{line}");
            assert!(roles().all(|role| role.cpu.total() == fsdyno_core::Nanos(0)), "{line}");
            assert!(roles().all(|role| role.workers > 0), "{line}");
        }
        let none = NEW.replacen(",8192,5,", ",8192,0,", 1);
        assert!(import(&none).unwrap()[0].phases.iter().all(|phase| phase.roles[0].workers > 0));
    }

    /// Rates per second, %CPU and the longest operation of each test, as far as they are known.
    fn figures(trial: &TrialRecord) -> Vec<(f64, Option<f64>, Option<u64>)> {
        let of = |phase: &PhaseResult| {
            let role = &phase.roles[0];
            let rate = role.rates.aggregate_bytes_per_s / 1024.0 + role.rates.items_per_s;
            let percent = role.cpu_share(phase.window_ns).map(|share| (share * 100.0).round());
            (rate, percent, role.longest_item_ns.map(|longest| longest.0))
        };
        trial.phases.iter().map(of).collect()
    }

    #[test]
    fn a_line_of_1_97_without_a_large_file_has_its_small_files() {
        let imported = import(include_str!("../../captured/bonnie-1.97-s0.csv")).unwrap();
        let names: Vec<&str> = imported[0].phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!((names[0], names[5], names.len()), ("create sequential", "delete random", 6));
        let figures = figures(&imported[0]);
        assert_eq!(figures[0], (1702.0, Some(14.0), Some(3_874_000_000)));
        assert_eq!(figures[5], (1266.0, Some(3.0), Some(9_627_000_000)));
        assert_eq!(imported[0].workload.load().title(), "the real bonnie++: -s 0 -n 60:32:32");
        // 60 x 1024 files at 1702 per second.
        assert_eq!(imported[0].phases[0].window_ns.0 / 1_000_000, 36_098);
    }

    /// It has as many fields, and each figure would be taken for that of the test before.
    #[test]
    fn a_line_of_1_97_that_lacks_its_last_field_is_refused() {
        let cut = &MIDDLE[..MIDDLE.rfind(',').unwrap()];
        let error = import(cut).unwrap_err().to_string();
        assert!(error.contains("line 1, column 29: expected nothing, as in a line of 47 fields"), "{error}");
    }

    #[test]
    fn headings_tables_and_progress_are_skipped() {
        let table = include_str!("../../captured/bonnie-2.00.txt");
        let progress = format!("Using uid:0, gid:0.\nWriting a byte at a time...done\n{table}");
        for (text, rates) in [
            (include_str!("../../captured/bonnie-1.03-x2.csv"), &[81306.0, 81000.0][..]),
            (table, &[51776.0]),
            (&progress, &[51776.0]),
            (&progress.replace('\n', "\r\n"), &[51776.0]),
        ] {
            let imported = import(text).unwrap();
            let block: Vec<f64> = imported.iter().map(|trial| figures(trial)[1].0).collect();
            assert_eq!(block, rates, "{text}");
            assert!(imported.iter().all(|trial| trial.case == 0), "{text}");
        }
        // Printed by `-s 8m -r 0 -n 1 -x 2`: most tests were too quick for a rate, and have a latency.
        let imported = import(include_str!("../../captured/bonnie-2.00-x2.csv")).unwrap();
        let [first, second] = &imported[..] else { panic!("two trials") };
        assert_eq!(
            figures(first)[..2],
            [(1530.0, Some(80.0), Some(24_965_000)), (0.0, None, Some(4_148_000))]
        );
        assert_eq!(figures(second)[0], (1722.0, Some(95.0), Some(10_235_000)));
        assert_eq!((figures(second).len(), value(second, "bonnie-write-block")), (12, None));
        assert_eq!(first.environment.tools["bonnie++"], "bonnie++ 2.00a");
    }

    #[test]
    fn a_percentage_is_known_without_the_time_that_it_is_of() {
        let imported = import(include_str!("../../captured/bonnie-1.97-cpu-percent.csv")).unwrap();
        let percent: Vec<Option<f64>> = figures(&imported[0]).iter().map(|figures| figures.1).collect();
        assert_eq!(percent[..7], [99.0, 96.0, 59.0, 99.0, 79.0, 150.0, 50.0].map(Some));
        assert_eq!(percent[7], None, "too quick");
        assert_eq!(value(&imported[0], "random seeks/seeker/cpu-share"), Some(1.5));
    }

    #[test]
    fn lines_of_one_machine_are_trials_of_one_case() {
        let other = OLD.replacen("rimmer", "lister", 1);
        let imported = import(&format!("{OLD}\n{other}\n{OLD}\n")).unwrap();
        let cases: Vec<u32> = imported.iter().map(|trial| trial.case).collect();
        assert_eq!(cases, [0, 1, 0]);
        assert_eq!(imported[1].configuration.name, "lister");
        assert_eq!(crate::import::measure(&imported).unwrap().name(), "write block/writer/rate");
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        for (text, line, column, problem) in [
            ("", 1, 1, "expected a bonnie++ result line"),
            ("\n\n", 1, 1, "expected a bonnie++ result line"),
            (&format!("{OLD}\nhost,1G,3\n"), 2, 10, "expected a line of 27, 47, 48 or 50 fields, found 3"),
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
            ("a,,,,,,,,,,,,,,,,,,,,,,,,,,", 1, 1, "the line has no figures"),
        ] {
            let error = import(text).map(|trials| panic!("accepted: {text}: {trials:?}")).unwrap_err();
            let ImportError::Syntax { line: at, column: place, problem: reported, .. } = &error else {
                panic!("{error}")
            };
            assert!(reported.contains(problem), "{error}: not {problem}");
            assert_eq!((*at, *place), (line, column), "{error}");
        }
    }
}
