//! Measures the cost of a report on a large sweep, from the store to the file: 1,000 cases of 3 trials each,
//! as large as those of `fsdyno bench` with windows of 30 s. Goal: under 10 s and under 20 MB.
//!
//! One trial is measured in a temporary directory, its timelines are repeated up to 30 s, and it is stored
//! 3,000 times under other names with other rates. `cargo bench -p fsdyno --bench report`; the preparation
//! takes a few minutes.
#![allow(clippy::print_stdout)]

use fsdyno_core::TrialRecord;
use fsdyno_store::{NewSweep, Store};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const CASES: u32 = 1000;
const TRIALS: u32 = 3;
/// Intervals of 100 ms in a window of 30 s.
const INTERVALS: usize = 300;
const RUNS: usize = 5;

fn main() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let state = directory.path();
    let load = ["bench", ".", "--tree-size", "64M", "--window", "1s", "--ramp", "1s"];
    let measured = fsdyno(state, &load);
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let mut store = Store::open(&state.join("fsdyno/results.db")).expect("the store");
    let sweep = store.find(None).expect("the sweep");
    let mut trial = store.trials(sweep.summary.id).expect("its trials").remove(0);
    lengthen(&mut trial);
    let id = store
        .create_sweep(&NewSweep {
            name: "large".to_string(),
            plan_toml: sweep.plan_toml,
            overrides: Vec::new(),
            seed: 42,
            measure: "read-under-write".to_string(),
            environment: None,
            cases: CASES,
            trials: CASES * TRIALS,
        })
        .expect("a sweep");
    for number in 0..CASES * TRIALS {
        store.add_trial(id, &variation(&trial, number)).expect("a trial");
    }
    store.finish_sweep(id).expect("the end");
    drop(store);
    let stored = std::fs::metadata(state.join("fsdyno/results.db")).expect("the store").len();
    println!("{CASES} cases, {} trials, {:.0} MB in the store", CASES * TRIALS, stored as f64 / 1e6);

    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            let output = fsdyno(state, &["report", "large", "-o", "large.html"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let page = std::fs::read_to_string(state.join("large.html")).expect("the page");
    let shown = page.matches("<details class=\"case\"").count();
    println!(
        "seconds, {RUNS} runs: median {:.2}, least {:.2}, most {:.2}",
        times[RUNS / 2],
        times[0],
        times[RUNS - 1]
    );
    println!("page: {:.2} MB, {shown} cases shown in full", page.len() as f64 / 1e6);
}

fn fsdyno(state: &Path, arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_fsdyno"))
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .current_dir(state)
        .output()
        .expect("run fsdyno")
}

/// Extends its timelines and telemetry to a window of 30 s.
fn lengthen(trial: &mut TrialRecord) {
    for phase in &mut trial.phases {
        for operation in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
            let timeline = &mut operation.timeline;
            for values in
                [&mut timeline.count, &mut timeline.sum_ns, &mut timeline.max_ns, &mut timeline.bytes]
            {
                let known = values.clone();
                // Not the same values again: the page would compress them away.
                *values = known
                    .iter()
                    .cycle()
                    .zip(1..)
                    .take(INTERVALS.min(known.len() * INTERVALS))
                    .map(|(value, at)| value * at / 7)
                    .collect();
            }
        }
        if let Some(telemetry) = &mut phase.telemetry {
            let known = telemetry.samples.clone();
            telemetry.samples = known.iter().cycle().take(30.min(known.len() * 30)).cloned().collect();
        }
    }
}

fn variation(original: &TrialRecord, number: u32) -> TrialRecord {
    let mut trial = original.clone();
    (trial.trial, trial.block, trial.case) = (number, number / CASES, number % CASES);
    trial.configuration.name = format!("ext4 setting={}", trial.case);
    // Three axes of ten levels each: nobody sweeps a thousand levels of one.
    for (axis, unit) in [("readahead", 1), ("nr_requests", 10), ("commit", 100)] {
        trial.configuration.settings.insert(axis.to_string(), (trial.case / unit % 10).to_string());
    }
    let factor = 0.5 + f64::from(number.wrapping_mul(2_654_435_761) % 1000) / 1000.0;
    for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
        role.rates.aggregate_bytes_per_s *= factor;
        for operation in &mut role.operations {
            for (at, value) in (1..).zip(&mut operation.timeline.max_ns) {
                *value = (*value * (1 + u64::from(number) * at % 13)) >> 2;
            }
        }
    }
    trial
}
