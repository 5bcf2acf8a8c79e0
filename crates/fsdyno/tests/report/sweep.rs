//! A sweep to report on: one trial that was actually measured, repeated under several names.
//!
//! The trial comes from `fsdyno bench`, which needs no root, so that its timelines, histograms and telemetry
//! are realistic. Rates are scaled so that the order of the configurations is known; names, paths and
//! messages contain what tools and users could put there.

use fsdyno_core::outcome::Failure;
use fsdyno_core::result::Recipe;
use fsdyno_core::{Outcome, TrialRecord};
use fsdyno_store::{NewSweep, Store};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A configuration whose name is markup that would be executed.
pub const EVIL: &str = "<script>document.title='owned'</script>";
/// Markup that would leave the page, with quotes that end attributes.
pub const LINK: &str =
    "\"'><a href=\"https://example.invalid/\">x</a><img src=\"https://example.invalid/i\">";

/// The configurations with the factors of their rates, in the order of the plan.
pub const CONFIGURATIONS: [(&str, f64); 4] =
    [("ext4 bfq", 2.0), ("xfs bfq", 4.0), (EVIL, 1.0), ("xfs none", 3.0)];

/// A directory with a store and a report.
pub struct Report {
    _directory: tempfile::TempDir,
    /// The page.
    pub page: PathBuf,
    /// The trial from which all others were made.
    pub trial: TrialRecord,
}

/// Runs the built binary with its state in a directory.
pub fn fsdyno(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsdyno"))
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .current_dir(state)
        .output()
        .expect("run fsdyno")
}

impl Report {
    /// Measures, stores and reports.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path();
        let load = [
            "bench",
            ".",
            "--tree-size",
            "2M",
            "--window",
            "1s",
            "--ramp",
            "100ms",
            "--set",
            "writer_space=8M",
        ];
        let output = fsdyno(state, &load);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut store = Store::open(&state.join("fsdyno/results.db")).expect("the store");
        let sweep = store.find(None).expect("the sweep");
        let trial = store.trials(sweep.summary.id).expect("its trials").remove(0);
        let id = store
            .create_sweep(&NewSweep {
                name: format!("a {LINK} sweep"),
                plan_toml: format!("name = '''{EVIL}'''\n"),
                overrides: vec![format!("name={LINK}")],
                seed: 42,
                measure: "read-under-write".to_string(),
                environment: None,
                cases: CONFIGURATIONS.len() as u32 + 2,
                trials: 12,
            })
            .expect("a sweep");
        for trial in repeated(&trial) {
            store.add_trial(id, &trial).expect("a trial");
        }
        store.finish_sweep(id).expect("the end");
        let page = state.join("report.html");
        let output = fsdyno(state, &["report", "-o", "report.html"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Report { _directory: directory, page, trial }
    }
}

fn repeated(original: &TrialRecord) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for block in 0..2 {
        for (case, (name, factor)) in (0..).zip(CONFIGURATIONS) {
            let mut trial = named(original, &trials, block, case, name);
            for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
                role.rates.aggregate_bytes_per_s *= factor * (1.0 + f64::from(block) / 50.0);
                for slow in role.operations.iter_mut().flat_map(|operation| &mut operation.slowest) {
                    slow.path.push_str(LINK);
                }
            }
            trials.push(trial);
        }
    }
    let mut skipped = named(original, &trials, 0, 4, LINK);
    skipped.outcome = Outcome::Skipped { unmet: vec![EVIL.to_string(), LINK.to_string()] };
    skipped.phases.clear();
    trials.push(skipped);
    let mut failed = named(original, &trials, 0, 5, "btrfs bfq");
    let error = Failure {
        details: format!("{EVIL}\n{LINK}"),
        hint: Some(LINK.to_string()),
        ..Failure::new("mkfs", EVIL)
    };
    failed.outcome = Outcome::Failed { error };
    failed.phases.clear();
    trials.push(failed);
    trials
}

fn named(original: &TrialRecord, before: &[TrialRecord], block: u32, case: u32, name: &str) -> TrialRecord {
    let mut trial = original.clone();
    (trial.trial, trial.block, trial.case) = (before.len() as u32, block, case);
    trial.configuration.name = name.to_string();
    trial.configuration.built.mkfs_command = format!("mkfs {EVIL}");
    trial.recipe = Some(Recipe {
        mkfs: vec![format!("mkfs.ext4 {LINK} DEVICE")],
        filesystem: "ext4".to_string(),
        queue: vec![("scheduler".to_string(), "bfq".to_string())],
        ..Recipe::default()
    });
    trial.environment.cpu_model = LINK.to_string();
    trial
}
