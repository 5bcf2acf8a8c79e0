//! Whether `compare` can be trusted: real trials of one configuration under two names, and a real slowdown of
//! 10 %.

use crate::support::sick::{Behaviour, Kind, mount};
use crate::support::{Requirement, Sandbox, describe, json};
use fsdyno_core::TrialRecord;
use fsdyno_store::Store;
use fsdyno_verdict::comparison::{Comparison, Finding, Question, Side};
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

const BLOCKS: u32 = 8;

/// One sweep of the same configuration under two names. Within a block the names are interchangeable, so each
/// of the 128 ways to swap names in some blocks is an A/A comparison of real trials. Together, their verdicts
/// describe this machine's noise and do not depend on the luck of a single comparison.
///
/// A single comparison finds a difference in at most 5 of 100 sweeps, but the 128 share their trials: for
/// each of six measures, the two or three ways that put all larger values on one side may find a difference.
/// So the bound is 10 %; without Holm's correction it would be about 25 %.
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
    let of = |name: &str| {
        let own = trials.iter().filter(|trial| trial.configuration.name == name);
        own.cloned().collect::<Vec<TrialRecord>>()
    };
    let (first, again) = (of("first"), of("again"));
    // With those of the sentinel.
    assert_eq!((first.len(), again.len()), (16, 8));
    let ways = 1_u32 << (BLOCKS - 1);
    let found = (0..ways).filter(|way| differs(&first, &again, *way)).count();
    assert!(found * 10 <= ways as usize, "{found} of {ways} ways to swap the names find a difference");

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
    assert_eq!(different, differs(&first, &again, 0), "{document}");
    let code = i32::from(verdicts.contains(&"slower"));
    assert_eq!(compared.status.code(), Some(code), "{}", describe(&compared));
}

/// Whether a comparison finds a difference, however small, when the names are swapped in the blocks whose bit
/// is set.
fn differs(first: &[TrialRecord], again: &[TrialRecord], way: u32) -> bool {
    let mut sides = [first.to_vec(), again.to_vec()];
    let [a, b] = &mut sides;
    for trial in a.iter_mut().filter(|trial| way >> trial.block & 1 == 1) {
        let other = b.iter_mut().find(|other| other.block == trial.block).expect("the other of its block");
        std::mem::swap(trial, other);
    }
    // The swapped trials need the case of their new side.
    for (index, side) in (0..).zip(&mut sides) {
        side.iter_mut().for_each(|trial| trial.case = index);
    }
    let question = Question { measures: Vec::new(), threshold: 0.0, seed: 11 };
    let [a, b] = ["a", "b"].map(|name| Side {
        name,
        sweep: 1,
        store: std::path::Path::new(""),
        sweep_name: "twice",
        trials: &sides[usize::from(name == "b")],
        whole: &[],
        repeated_looks: false,
    });
    let compared = Comparison::new(a, b, &question);
    assert!(compared.rows().count() >= 5, "{compared:?}");
    compared.rows().any(|row| matches!(row.finding, Finding::Slower | Finding::Faster))
}

/// Every read of a filesystem takes 100 ms, and 110 ms one sweep later. This must be found among everything
/// that is compared: Holm's correction for four measures requires a p value below 0.0125, which Welch's test
/// of 6 and 6 trials reaches at 3.1 standard errors. Beside two busy loops for each processor, the means of
/// 64 reads differ by 2.3 ms between trials: at 20 ms that is 1.6 standard errors, at 100 ms, with half as
/// many reads, 4.9 to 7.
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
file_size = "2M"
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
    sweep("old", Duration::from_millis(100));
    sweep("new", Duration::from_millis(110));
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
