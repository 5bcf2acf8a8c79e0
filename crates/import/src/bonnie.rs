//! Lines of bonnie++ as trials of the workload `external`: one trial for each line, and one phase for each
//! test with a figure. They are read as in that workload itself.

use crate::{Draft, File, ImportError, warning};
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::workload::{External, Program, Stated};
use fsdyno_core::{Warning, WarningKind, Workload};
use fsdyno_formats::bonnie::{Line, LineError};
use std::collections::BTreeMap;

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let drafts: Vec<Draft> =
        lines.map(|(index, text)| draft(file, index + 1, text.trim_end())).collect::<Result<_, _>>()?;
    match drafts.is_empty() {
        true => Err(ImportError::at(file, 1, 1, "expected a bonnie++ result line, found nothing")),
        false => Ok(drafts),
    }
}

fn draft(file: &File, number: usize, text: &str) -> Result<Draft, ImportError> {
    let misread = |error| match error {
        LineError::Fields { found } => {
            let problem = format!("expected a line of 27, 48 or 50 fields, found {found}");
            ImportError::at(file, number, text.chars().count() + 1, problem)
        }
        LineError::Field { column, expected, found, .. } => {
            ImportError::at(file, number, column, format!("expected {expected}, found '{found}'"))
        }
    };
    let line = Line::new(text).map_err(misread)?;
    let (too_quick, measured): (Vec<_>, Vec<_>) =
        line.tests(None).map_err(misread)?.into_iter().partition(|test| test.too_quick);
    if measured.is_empty() {
        return Err(ImportError::at(file, number, 1, "the line has no figures"));
    }
    let version = format!("bonnie++ {}", line.versions());
    let mut warnings = vec![warning(
        file,
        &version,
        "filesystem, device, machine, single operations, or stalls other than the longest of each test",
    )];
    if !too_quick.is_empty() {
        let names: Vec<&str> = too_quick.iter().map(|test| test.phase.name.as_str()).collect();
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
        phases: measured.into_iter().map(|test| test.phase).collect(),
        columns: BTreeMap::new(),
        warnings,
        finished: String::new(),
    })
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
        // Percentages are known if the line says how much was done.
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
    fn errors_are_reported_with_their_position() {
        for (text, line, column, problem) in [
            ("", 1, 1, "expected a bonnie++ result line"),
            ("\n\n", 1, 1, "expected a bonnie++ result line"),
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
