//! `repetitions = "auto"` as users run it: killed on the way, continued without its plan, and extended.

use crate::support::{MAKING_ON_IMAGES, Sandbox, describe};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Output;

tests! {
    a_sweep_that_decides_itself_is_killed_continued_and_extended: MAKING_ON_IMAGES;
}

/// The most blocks that decide.
const MOST: u64 = 5;

fn plan(sandbox: &Sandbox) -> String {
    let text = format!(
        "name = \"auto\"\nrepetitions = \"auto\"\nmax_repetitions = {MOST}\n[device]\nimage = \"{}\"\n\
         size = \"512M\"\n[axes]\nfilesystem = [\"ext4\", \"xfs\"]\n[[workloads]]\nkind = \"fileserver\"\n\
         write_rate = \"closed\"\n\
         tree_size = \"1M\"\nwriter_space = \"4M\"\nreaders = 1\nwriters = 1\nramp = 0\nwindow = \"100ms\"\n",
        sandbox.path("fsdyno.img").display()
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", describe(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the number of trials of each block.
fn blocks(stored: &Value) -> BTreeMap<u64, usize> {
    let mut blocks = BTreeMap::new();
    for trial in stored["trials"].as_array().expect("trials") {
        *blocks.entry(trial["block"].as_u64().expect("a block")).or_default() += 1;
    }
    blocks
}

/// The numbers of blocks after which it was judged.
fn looks(stored: &Value) -> Vec<u64> {
    let after = stored["sweep"]["looks"]["after"].as_array().expect("looks");
    after.iter().map(|blocks| blocks.as_u64().expect("a number")).collect()
}

fn a_sweep_that_decides_itself_is_killed_continued_and_extended() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    let shown = sandbox.run(&["plan", &plan]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("4 to 5 blocks, 12 to 15 trials"), "{shown}");

    sandbox.kill_at(&["sweep", &plan], "trial 5 of 12: ");
    said(&sandbox.run(&["restore"]), 0);
    let more = said(&sandbox.run(&["sweep", "--more", "1", "auto"]), 2);
    assert!(more.contains("has not ended, so nothing can be added to it yet"), "{more}");
    assert!(more.contains("fsdyno sweep --resume 1"), "{more}");

    let resumed = said(&sandbox.run(&["sweep", "--resume"]), 0);
    assert!(resumed.contains("resuming sweep 1 ('auto'"), "{resumed}");
    assert!(resumed.contains("after 4 blocks: "), "{resumed}");
    let stored = sandbox.stored();
    let (before, judged) = (blocks(&stored), looks(&stored));
    let count = before.len() as u64;
    // A block that others disturbed is measured again, on a machine under load.
    assert!((4..=2 * MOST).contains(&count), "{before:?}");
    assert_eq!(before.keys().copied().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    assert!(before.values().all(|trials| *trials == 3), "two configurations and the sentinel: {before:?}");
    assert_eq!(judged, (4..=count).collect::<Vec<_>>());

    let added = said(&sandbox.run(&["sweep", "--more", "2"]), 0);
    assert!(added.contains("adding to sweep 1 ('auto'"), "{added}");
    let stored = sandbox.stored();
    assert_eq!(blocks(&stored).len() as u64, count + 2);
    assert_eq!(looks(&stored), (4..=count + 2).collect::<Vec<_>>());
    for command in ["recommend", "show"] {
        let answer = sandbox.run(&[command, "--notes"]);
        let text = String::from_utf8_lossy(&answer.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        let times = count + 2 - 3;
        assert!(text.contains(&format!("the sweep was judged {times} times (after 4 to")), "{text}");
    }
}
