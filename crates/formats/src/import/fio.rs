//! JSON of fio as a trial of the workload `external`: one phase for each group of jobs, read as in that
//! workload itself.

use crate::fio::{self, FioError, FioRun};
use crate::import::{Draft, File, ImportError, place, warning};
use fsdyno_core::Workload;
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::workload::{External, Program, Stated};
use std::collections::BTreeMap;

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let no_result = |problem: String| ImportError::NoResult { file: file.path.clone(), problem };
    let runs = fio::runs(&file.text).map_err(|error| match error {
        FioError::NoJson(_) => ImportError::at(file, 1, 1, error.to_string()),
        FioError::Json { error, begin } => misread(file, &error, begin),
        FioError::Job(problem) => no_result(problem),
    })?;
    if runs.iter().any(|run| run.results.phases.is_empty()) {
        return Err(no_result("none of its jobs read, wrote or trimmed anything".to_string()));
    }
    Ok(runs.into_iter().map(|run| draft(file, run)).collect())
}

fn draft(file: &File, run: FioRun) -> Draft {
    let mut warnings = vec![warning(
        file,
        "fio",
        "filesystem, device, machine, stalls, or the processor time of kernel threads",
    )];
    warnings.extend(run.results.warnings);
    let ended = run.timestamp.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let stated = Stated { version: run.version.clone(), options: run.options };
    Draft {
        configuration: Configuration {
            name: file.stem(),
            filesystem: "unknown".to_string(),
            settings: BTreeMap::new(),
        },
        workload: Workload::External(External {
            program: Program::Fio,
            imported: Some(stated),
            ..External::default()
        }),
        environment: Environment {
            tools: run.version.map(|version| ("fio".to_string(), version)).into_iter().collect(),
            ..Environment::default()
        },
        scheduler: String::new(),
        phases: run.results.phases,
        columns: BTreeMap::new(),
        warnings,
        finished: ended.map(|ended| ended.to_string()).unwrap_or_default(),
    }
}

/// The position in the file; serde reports the one in the document.
fn misread(file: &File, error: &serde_json::Error, begin: usize) -> ImportError {
    let (line, column) = place(&file.text[..begin]);
    let column = if error.line() <= 1 { column - 1 + error.column().max(1) } else { error.column().max(1) };
    let text = error.to_string();
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
    ImportError::at(file, line - 1 + error.line().max(1), column, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, trials};
    use fsdyno_core::Measure;
    use fsdyno_core::result::TrialRecord;

    /// `fio --output-format=json+` of version 3.33.
    const PLUS: &str = include_str!("../../captured/fio-3.33.json");

    fn import(text: &str) -> Result<Vec<TrialRecord>, ImportError> {
        let file = File { path: "runs/nvme.json".to_string(), text: text.to_string() };
        trials(Format::Fio, &[file], None)
    }

    #[test]
    fn groups_of_jobs_are_phases_of_a_trial() {
        let trial = &import(PLUS).unwrap()[0];
        assert_eq!(trial.configuration.name, "nvme");
        assert_eq!(trial.environment.tools["fio"], "fio-3.33");
        assert_eq!((trial.started.as_str(), trial.finished.as_str()), ("", "2026-11-21T23:47:58Z"));
        let value = |name: &str| name.parse::<Measure>().unwrap().value(trial).map(|value| value.value);
        assert!((value("writers/writer/operation-rate").unwrap() - 102_400.0).abs() < 0.5);
        assert_eq!(value("writers/writer/pwrite64/count"), Some(512.0));
        assert_eq!(value("writers/writer/longest-stall"), None);
        assert_eq!(crate::import::measure(std::slice::from_ref(trial)).unwrap().name(), "mixed/reader/rate");
    }

    #[test]
    fn messages_before_the_document_shift_positions() {
        let broken = PLUS.replacen("\"error\" : 0", "\"error\" : \"none\"", 1);
        let at = |text: &str| match import(text) {
            Err(ImportError::Syntax { line, column, problem, .. }) => (line, column, problem),
            other => panic!("{other:?}"),
        };
        let (line, column, problem) = at(&broken);
        assert!(broken.lines().nth(line - 1).unwrap().contains("\"none\""), "{line}");
        assert!(problem.starts_with("invalid type: string"), "{problem}");
        assert_eq!(at(&format!("fio: a remark\n{broken}")), (line + 1, column, problem));
    }

    #[test]
    fn anything_but_a_result_is_rejected() {
        for bad in ["", "fio: no such job\n", "{", "{}", "{ \"jobs\": 3 }", &PLUS[..PLUS.len() / 2]] {
            assert!(matches!(import(bad), Err(ImportError::Syntax { .. })), "{bad}");
        }
        let failed = PLUS.replacen("\"error\" : 0", "\"error\" : 28", 1);
        let error = import(&failed).unwrap_err().to_string();
        assert_eq!(
            error,
            "'runs/nvme.json': its job 'writers' failed with error 28 (no space left on device)"
        );
    }

    /// Imports the captured file with every occurrence of a text replaced.
    fn with(from: &str, to: &str) -> Result<Vec<TrialRecord>, ImportError> {
        assert!(PLUS.contains(from), "{from}");
        import(&PLUS.replace(from, to))
    }

    /// Clamping the quantiles between the two would panic.
    #[test]
    fn a_minimum_latency_above_the_maximum_is_rejected() {
        let error = with("\"max\" : 2853500", "\"max\" : 5000").unwrap_err().to_string();
        assert!(error.contains("'writers' has a minimum latency of 5087 ns"), "{error}");
    }

    /// Counts in an encoded histogram are signed: encoding these would panic.
    #[test]
    fn counts_that_no_histogram_can_hold_are_rejected() {
        for count in ["9223372036854775808", "18446744073709551615", "9007199254740993"] {
            let error = with("\"5088\" : 1,", &format!("\"5088\" : {count},")).unwrap_err().to_string();
            assert!(error.contains("above the limit of"), "{error}");
        }
        let many = "\"5088\" : 9007199254740992, \"5089\" : 9007199254740992,";
        let error = with("\"5088\" : 1,", many).unwrap_err().to_string();
        assert!(error.ends_with("the totals of its jobs are too large"), "{error}");
    }

    #[test]
    fn impossible_figures_are_rejected() {
        for (from, to) in [
            ("\"iops\" : 102400.000000", "\"iops\" : -1.0"),
            ("\"iops\" : 102400.000000", "\"iops\" : 1e300"),
            ("\"mean\" : 12517.949219", "\"mean\" : -3"),
            ("\"stddev\" : 125855.973079", "\"stddev\" : 1e200"),
            ("\"io_bytes\" : 33554432", "\"io_bytes\" : 18446744073709551615"),
            ("\"5088\" : 1,", "\"many\" : 1,"),
            ("\"99.990000\" :", "\"inf\" :"),
            ("\"99.990000\" :", "\"nan\" :"),
            ("\"99.990000\" :", "\"-5\" :"),
            ("\"runtime\" : 5,", "\"runtime\" : 18446744073709551615,"),
        ] {
            let error = with(from, to).map(|_| panic!("accepted: {to}")).unwrap_err();
            assert!(matches!(error, ImportError::NoResult { .. }), "{to}: {error}");
        }
        for numjobs in ["4294967295", "4294967296", "-1"] {
            with("\"numjobs\" : \"2\"", &format!("\"numjobs\" : \"{numjobs}\"")).unwrap();
        }
    }

    /// Trials of one case are averaged, so they must have done the same.
    #[test]
    fn files_of_one_case_have_the_same_jobs() {
        let file = |path: &str, text: String| File { path: path.to_string(), text };
        let cases = |second: String| -> Vec<u32> {
            let files = [file("a.json", PLUS.to_string()), file("b.json", second)];
            trials(Format::Fio, &files, Some("ext4")).unwrap().iter().map(|trial| trial.case).collect()
        };
        assert_eq!(cases(PLUS.to_string()), [0, 0]);
        for (from, to) in
            [("\"fsync\" : \"64\"", "\"fsync\" : \"8\""), ("\"mixed\"", "\"both\""), ("fio-3.33", "fio-3.36")]
        {
            assert!(PLUS.contains(from), "{from}");
            assert_eq!(cases(PLUS.replace(from, to)), [0, 1], "{to}");
        }
    }

    /// Stores of before have results whose options are not known.
    #[test]
    fn a_workload_that_states_nothing_is_still_read_and_is_not_the_same_work() {
        let older = r#"{ "kind": "external",
            "parameters": { "program": "fio", "arguments": "", "commands": [], "job": null } }"#;
        let older: Workload = serde_json::from_str(older).unwrap();
        let stated = &import(PLUS).unwrap()[0].workload;
        assert!(older.stated().is_none() && older.does_same_as(&older) && stated.does_same_as(stated));
        assert!(!older.does_same_as(stated) && !stated.does_same_as(&older));
        let again: Workload = serde_json::from_value(serde_json::to_value(stated).unwrap()).unwrap();
        assert_eq!(again, *stated);
    }

    /// Two runs whose documents were appended to one file are two trials.
    #[test]
    fn runs_one_after_the_other_are_trials_of_their_own() {
        let earlier =
            PLUS.replace("\"timestamp", "\"when").replacen("\"when\" :", "\"timestamp\" : 1, \"when\" :", 1);
        assert_eq!(import(&format!("{earlier}{PLUS}")).unwrap().len(), 2);
        assert_eq!(import(&format!("{PLUS}\n{PLUS}")).unwrap().len(), 1, "nothing has begun in between");
    }

    #[test]
    fn a_document_that_is_cut_off_leaves_the_one_before() {
        let imported = import(&format!("{PLUS}\n{}", &PLUS[..PLUS.len() / 2])).unwrap();
        assert!(imported[0].warnings[1].text.contains("cut off"), "{:?}", imported[0].warnings);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!("{{\"jobs\":{}", "[".repeat(1 << 20));
        assert!(matches!(import(&deep), Err(ImportError::Syntax { .. })));
    }
}
