//! Evidence that `compare` can be trusted: real trials of one configuration under two names, and a real
//! slowdown of 10 %.

use crate::support::sick::{Behaviour, Kind, mount};
use crate::support::{Requirement, Sandbox, describe, json};
use fsdyno_core::TrialRecord;
use fsdyno_store::Store;
use fsdyno_verdict::comparison::{Comparison, ComparisonQuestion, Finding, Side};
use serde_json::Value;
use std::time::Duration;

tests! {
    real_trials_of_one_configuration_do_not_differ: &[
        Requirement::Root,
        Requirement::Loop,
        Requirement::Quiet,
    ];
    a_slowdown_of_ten_percent_is_found_with_six_trials: &[
        Requirement::Root,
        Requirement::Fuse,
        Requirement::Quiet,
    ];
}

const BLOCKS: u32 = 10;

/// One sweep of the same configuration under two names. A block has two trials of the first name, one of them
/// the sentinel's, and one of the other. Any of the three could have been the other's, so each of the 59,049
/// ways to say which it was is an A/A comparison of real trials. Together, their verdicts describe this
/// machine's noise and do not depend on the luck of a single comparison.
///
/// A single comparison finds a difference in at most 5 of 100 sweeps. The ways share their trials, so their
/// share varies round that: with seven measures and normal noise, it is at most 8 % in 99 of 100 sweeps, and
/// in none of 300 above 9 %. So the bound is 10 %; without Holm's correction it would be about 25 %.
fn real_trials_of_one_configuration_do_not_differ() {
    let sandbox = Sandbox::new();
    let plan = format!(
        r#"name = "twice"
repetitions = {BLOCKS}
seed = 11
[device]
image = "{}"
size = "256M"
[[configurations]]
name = "first"
filesystem = "ext4"
[[configurations]]
name = "again"
filesystem = "ext4"
[[workloads]]
kind = "fileserver"
write_rate = "closed"
tree_size = "4M"
readers = 1
writers = 1
writer_space = "32M"
ramp = "20ms"
window = "150ms"
"#,
        sandbox.path("twice.img").display()
    );
    sandbox.sweep(&plan);

    let store = Store::open(&sandbox.path("state/fsdyno/results.db")).expect("the store");
    let sweep = store.find(None).expect("the sweep").summary.id;
    let trials = store.trials(sweep).expect("its trials");
    let blocks: Vec<&[TrialRecord]> = trials.chunks(3).collect();
    assert!(blocks.len() == BLOCKS as usize && blocks.iter().all(|block| block[0].block == block[2].block));
    let ways: Vec<u32> = (0..3_u32.pow(BLOCKS)).step_by(118).collect();
    let found = ways.iter().filter(|way| differs(&blocks, |block| **way / 3_u32.pow(block) % 3)).count();
    assert!(found * 10 <= ways.len(), "{found} of {} ways to name the trials find a difference", ways.len());

    // The command agrees about the original names.
    let compared =
        sandbox.run(&["compare", "twice/first", "twice/again", "--threshold", "0%", "--format=json"]);
    let document = json(&compared);
    let rows = document["cases"][0]["measures"].as_array().expect("measures");
    // A window in which the machine let nothing through has a rate of 0, which has no ratio.
    let paired = |row: &&Value| row["ratio"]["paired"] == true;
    assert!(rows.iter().filter(paired).count() >= 5, "{document}");
    assert!(rows.iter().all(|row| row["ratio"].is_null() || paired(&row)), "{document}");
    let verdicts: Vec<&str> = rows.iter().filter_map(|row| row["verdict"].as_str()).collect();
    let different = verdicts.iter().any(|verdict| ["slower", "faster"].contains(verdict));
    let measured = |block: u32| {
        let position = trials.iter().filter(|trial| trial.block == block).position(|trial| trial.case == 1);
        position.expect("a trial of the other name") as u32
    };
    assert_eq!(different, differs(&blocks, measured), "{document}");
    let code = i32::from(verdicts.contains(&"slower"));
    assert_eq!(compared.status.code(), Some(code), "{}", describe(&compared));
}

/// Returns whether a comparison finds a difference, however small, when the second name has the trial of each
/// block that `other` selects, and the first name the rest, one of them the sentinel's.
fn differs(blocks: &[&[TrialRecord]], other: impl Fn(u32) -> u32) -> bool {
    let mut sides = [Vec::new(), Vec::new()];
    for block in blocks {
        let (again, first): (Vec<_>, Vec<_>) =
            block.iter().zip(0..).partition(|(trial, index)| *index == other(trial.block));
        let has_sentinel = first.iter().any(|(trial, _)| trial.sentinel);
        for (place, (trial, _)) in first.into_iter().enumerate() {
            let sentinel = if has_sentinel { trial.sentinel } else { place == 0 };
            sides[0].push(TrialRecord { case: 0, sentinel, ..trial.clone() });
        }
        let other = again.into_iter().map(|(trial, _)| trial.clone());
        sides[1].extend(other.map(|trial| TrialRecord { case: 1, sentinel: false, ..trial }));
    }
    let mut whole = sides.concat();
    whole.sort_by_key(|trial| trial.trial);
    let question = ComparisonQuestion { measures: Vec::new(), threshold: 0.0, seed: 11 };
    let [a, b] = ["a", "b"].map(|name| Side {
        name,
        sweep: 1,
        store: std::path::Path::new(""),
        sweep_name: "twice",
        trials: &sides[usize::from(name == "b")],
        whole: &whole,
        repeated_looks: false,
    });
    let compared = Comparison::new(a, b, &question);
    assert!(compared.rows().count() >= 5, "{compared:?}");
    compared.rows().any(|row| matches!(row.finding, Finding::Slower | Finding::Faster))
}

/// Every read of a filesystem takes 300 ms, and 330 ms one sweep later. This must be found among everything
/// that is compared: Holm's correction for four measures requires a p value below 0.0125, which Welch's test
/// of 6 and 6 trials reaches at 3.1 standard errors. What a busy machine adds to a read does not depend on
/// how long that takes: few long reads tell the two apart as well as many short ones, in less time.
fn a_slowdown_of_ten_percent_is_found_with_six_trials() {
    let sandbox = Sandbox::new();
    let plan = |name: &str| {
        format!(
            r#"name = "{name}"
repetitions = 6
seed = 7
telemetry = false
[device]
directory = "sick/work"
[[workloads]]
kind = "streaming"
file_size = "256k"
bs = "64k"
"#
        )
    };
    let sweep = |name: &str, delay: Duration| {
        let directory = sandbox.path("sick");
        let sick = mount(&directory, &Behaviour::slow(&[Kind::Read], delay));
        std::fs::create_dir(sandbox.path("sick/work")).expect("a directory");
        sandbox.sweep(&plan(name));
        drop(sick);
        std::fs::remove_dir(directory).expect("an empty mountpoint");
    };
    sweep("old", Duration::from_millis(300));
    sweep("new", Duration::from_millis(330));
    let compared = sandbox.run(&["compare", "old", "new", "--format=json"]);
    assert_eq!(compared.status.code(), Some(1), "{}", describe(&compared));
    let document = json(&compared);
    let rows = document["cases"][0]["measures"].as_array().expect("measures");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["measure"].as_str()).collect();
    assert_eq!(names, ["streaming-write", "streaming-read", "longest-stall", "write-durable"]);
    let read = rows.iter().find(|row| row["measure"] == "streaming-read").expect("the rate of reading");
    assert_eq!((&read["verdict"], &read["trials"]), (&Value::from("slower"), &Value::from(6)), "{read}");
    let ratio = read["ratio"]["value"].as_f64().expect("a ratio");
    assert!((0.87..0.95).contains(&ratio), "{read}");
    let text = sandbox.run(&["compare", "old", "new", "--measure", "streaming-read"]);
    const SUMMED_UP: &str = "1 slower, 0 faster, 0 without material difference, 0 undecided.";
    let lines = String::from_utf8_lossy(&text.stdout).into_owned();
    let words = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(lines.contains("\n  slower\n    streaming-read ") && words.contains(SUMMED_UP), "{lines}");
    // What is faster in one direction is slower in the other, and so not a regression.
    let turned = sandbox.run(&["compare", "new", "old", "--measure", "streaming-read"]);
    assert_eq!(turned.status.code(), Some(0), "{}", describe(&turned));
    assert!(String::from_utf8_lossy(&turned.stdout).contains("\n  faster\n"), "{}", describe(&turned));
}
