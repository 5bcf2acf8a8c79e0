//! JSON of fio as a trial of the workload `external`: one phase for each group of jobs, read as in that
//! workload itself.

use crate::{Draft, File, ImportError, place, warning};
use fsdyno_core::Workload;
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::workload::{External, Program};
use fsdyno_formats::fio::{self, FioError, Head, Jobs};
use std::collections::BTreeMap;

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let head: Head = fio::head(json(file)?).map_err(|error| misread(file, &error))?;
    let report = fio::read(json(file)?).map_err(|error| match error {
        FioError::Json(error) => misread(file, &error),
        FioError::Job(problem) => ImportError::NoResult { file: file.path.clone(), problem },
    })?;
    if report.phases.is_empty() {
        let problem = "none of its jobs read or wrote anything".to_string();
        return Err(ImportError::NoResult { file: file.path.clone(), problem });
    }
    let mut warnings = vec![warning(
        file,
        "fio",
        "filesystem, device, machine, stalls, or the processor time of kernel threads",
    )];
    warnings.extend(report.warnings);
    let ended = head.timestamp.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    Ok(vec![Draft {
        configuration: Configuration {
            name: file.stem(),
            filesystem: "unknown".to_string(),
            settings: BTreeMap::new(),
        },
        workload: Workload::External(External { program: Program::Fio, ..External::default() }),
        environment: Environment {
            tools: head.version.map(|version| ("fio".to_string(), version)).into_iter().collect(),
            ..Environment::default()
        },
        scheduler: String::new(),
        phases: report.phases,
        warnings,
        finished: ended.map(|ended| ended.to_string()).unwrap_or_default(),
    }])
}

/// Rejects files with other jobs than the first one of the same configuration: their trials would be
/// averaged.
pub(super) fn same_jobs(files: &[File], drafts: &[Draft]) -> Result<(), ImportError> {
    let mut first: BTreeMap<&str, (&File, Jobs)> = BTreeMap::new();
    for (file, draft) in files.iter().zip(drafts) {
        let jobs = fio::options(json(file)?).map_err(|error| misread(file, &error))?;
        let name = draft.configuration.name.as_str();
        let Some((other, known)) = first.get(name) else {
            first.insert(name, (file, jobs));
            continue;
        };
        if let Some(difference) = difference(&jobs, known) {
            return Err(ImportError::OtherJobs {
                file: file.path.clone(),
                difference,
                first: other.path.clone(),
                configuration: name.to_string(),
            });
        }
    }
    Ok(())
}

/// The first difference between the jobs of two files, in words.
fn difference(jobs: &Jobs, known: &Jobs) -> Option<String> {
    let names = |jobs: &Jobs| jobs.keys().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if !jobs.keys().eq(known.keys()) {
        return Some(format!("jobs {}, not {}", names(jobs), names(known)));
    }
    jobs.iter().zip(known.values()).find_map(|((job, options), known)| {
        let keys = options.keys().chain(known.keys());
        let key = keys.into_iter().find(|key| options.get(*key) != known.get(*key))?;
        let set = |options: &BTreeMap<String, String>| match options.get(key).map(String::as_str) {
            None => format!("no {key}"),
            Some("") => key.clone(),
            Some(value) => format!("{key}={value}"),
        };
        Some(format!("job '{job}' with {}, not {}", set(options), set(known)))
    })
}

/// The JSON document, which messages of fio may precede.
fn json(file: &File) -> Result<&str, ImportError> {
    fio::document(&file.text)
        .ok_or_else(|| ImportError::at(file, 1, 1, "expected the JSON output of fio, found none"))
}

/// The position in the file; serde reports the one in the document.
fn misread(file: &File, error: &serde_json::Error) -> ImportError {
    let begin = file.text.find('{').unwrap_or(0);
    let (line, column) = place(&file.text[..begin]);
    let column = if error.line() <= 1 { column - 1 + error.column().max(1) } else { error.column().max(1) };
    let text = error.to_string();
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
    ImportError::at(file, line - 1 + error.line().max(1), column, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, trials};
    use fsdyno_core::Measure;
    use fsdyno_core::result::TrialRecord;

    /// `fio --output-format=json+` of version 3.33.
    const PLUS: &str = include_str!("../../formats/captured/fio-3.33.json");

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
        assert_eq!(crate::measure(std::slice::from_ref(trial)).unwrap().name(), "mixed/reader/rate");
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
        assert_eq!(error, "'runs/nvme.json': its job 'writers' failed with error 28");
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

    /// Trials of one configuration are averaged, so they must have done the same.
    #[test]
    fn files_of_one_configuration_have_the_same_jobs() {
        let file = |path: &str, text: String| File { path: path.to_string(), text };
        let import = |second: String, configuration| {
            let files = [file("a.json", PLUS.to_string()), file("b.json", second)];
            trials(Format::Fio, &files, configuration)
        };
        assert_eq!(import(PLUS.to_string(), Some("ext4")).unwrap().len(), 2);
        let other = PLUS.replace("\"fsync\" : \"64\"", "\"fsync\" : \"8\"");
        assert_ne!(other, PLUS);
        let error = import(other.clone(), Some("ext4")).unwrap_err().to_string();
        assert!(
            error.starts_with("'b.json' has job '") && error.contains("with fsync=8, not fsync=64"),
            "{error}"
        );
        // Of two configurations, they are two cases.
        assert_eq!(import(other, None).unwrap().len(), 2);
        let error = import(PLUS.replace("\"mixed\"", "\"both\""), Some("ext4")).unwrap_err().to_string();
        assert!(error.contains("jobs 'both', 'writers', not 'mixed', 'writers'"), "{error}");
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!("{{\"jobs\":{}", "[".repeat(1 << 20));
        assert!(matches!(import(&deep), Err(ImportError::Syntax { .. })));
    }
}
