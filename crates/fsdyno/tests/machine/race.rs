//! A race on real images: killed, resumed, and shown by every command that shows results.

use crate::support::{MAKING_ON_IMAGES, Sandbox, describe, json};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

tests! {
    a_race_is_killed_resumed_shown_recommended_and_reported: MAKING_ON_IMAGES;
}

/// Eight configurations.
const PLAN: &str = r#"
name = "raced"
seed = 3
protocol = "race"
measure = "read"
telemetry = false

[device]
image = "IMAGE"
size = "320M"

[axes]
filesystem = ["ext4", "xfs"]
scheduler = ["none", "mq-deadline"]
atime = ["relatime", "noatime"]

[[workloads]]
kind = "fileserver"
tree_size = "4M"
readers = 1
writers = 1
writer_space = "8M"
ramp = 0
window = "80ms"
"#;
/// 8 and the sentinel, then at least twice the best 4, of which the default may be one, and the sentinel.
const LEAST: u64 = 19;

/// Its plan, with an image of the sandbox.
pub fn plan(sandbox: &Sandbox) -> String {
    PLAN.replace("IMAGE", &sandbox.path("raced.img").display().to_string())
}

/// The JSON that a command prints.
fn said(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let output = sandbox.run(&[arguments, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    json(&output)
}

fn text(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[expect(clippy::too_many_lines, reason = "one story")]
fn a_race_is_killed_resumed_shown_recommended_and_reported() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox));
    let foreseen = text(&sandbox, &["plan", "plan.toml", "--budget", "24"]);
    assert!(
        foreseen.contains(
            "a race of 8 configurations within 24 trials: 1 block of 8, and 2 fresh ones of the best 4 and \
             the default; 21 trials with sentinels"
        ),
        "{foreseen}"
    );
    let refused = sandbox.run(&["sweep", "plan.toml", "--budget", "20"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("--set 'budget=\"20 trials\"': a budget of 20 trials is too small"), "{error}");
    let refused = sandbox.run(&["sweep", "plan.toml", "--for", "15m"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.contains("--for does not apply to a race") && error.contains("hint: --budget 15m"),
        "{error}"
    );

    // Killed in its second block.
    let mut child = sandbox.fsdyno(&["sweep", "plan.toml"]).stderr(Stdio::piped()).spawn().expect("a sweep");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let heard: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("trial 12 of ")).collect();
    child.kill().expect("kill the sweep");
    child.wait().expect("reap the sweep");
    drop(lines);
    let heard = heard.join("\n");
    assert!(heard.contains("after round 1 (8 trials) "), "{heard}");
    assert!(heard.contains("\nafter block 1: no configuration is more than "), "{heard}");
    assert!(heard.contains("\nblock 2 of 3 is next, with "), "{heard}");
    let before = said(&sandbox, &["race", "raced"]);
    assert_eq!(before["state"], "unfinished", "{before:#}");

    let resumed = sandbox.run(&["sweep", "plan.toml", "--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", describe(&resumed));
    let error = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(error.contains("\nthe race is over\n") && !error.contains("\nafter block 1: "), "{error}");
    let found = said(&sandbox, &["race"]);
    assert_eq!((&found["state"], &found["eliminations"]), (&"over".into(), &before["eliminations"]));
    assert!(found["trials"].as_u64().is_some_and(|trials| trials >= LEAST), "{found:#}");
    let (dropped, finalists) = (&found["eliminations"], found["finalists"].as_array().expect("finalists"));
    assert_eq!(dropped.as_array().expect("eliminations").len() + finalists.len(), 8, "nothing gets lost");
    assert!(found["pick"]["name"].is_string() && found["pick"]["settings"]["atime"].is_string(), "{found:#}");
    assert!(found["regret_bound"].as_f64().is_some_and(|bound| bound >= 0.0) && found["as_good"].is_array());
    assert!(finalists.iter().all(|one| one["trials"].as_u64() >= Some(2)), "{found:#}");

    // What was stored is what the race asked for: every block has those that were left.
    let trials = said(&sandbox, &["show", "raced"]);
    assert_eq!(trials["sweep"]["race"]["configurations"], 8);
    let trials = trials["trials"].as_array().expect("trials");
    let of_block = |block: u64| {
        let own = trials.iter().filter(|one| one["block"] == block && one["sentinel"] == false);
        own.map(|one| one["configuration"]["name"].as_str().expect("a name")).collect::<Vec<_>>()
    };
    assert_eq!(of_block(0).len(), 8);
    for one in finalists {
        let name = one["name"].as_str().expect("a name");
        assert!(of_block(1).contains(&name) && of_block(2).contains(&name), "{name}");
    }

    let name = found["pick"]["name"].as_str().expect("a name").to_string();
    let sentence = found["judgement"]["headline"].as_str().expect("a sentence");
    let is_sure = sentence.contains("With 95 % probability, ");
    assert!(sentence.contains(&format!("'{name}'")), "{sentence}");
    assert!(is_sure || sentence.contains("Another may be up to "), "{sentence}");
    assert!(is_sure || !sentence.contains("Use '"), "{sentence}");
    let all = "--notes";
    for arguments in [&["race", "raced"][..], &["show", "raced", all], &["recommend", "raced", all]] {
        let text = text(&sandbox, arguments);
        assert!(text.contains(sentence), "{arguments:?}: {text}");
        assert!(text.contains("after round 1 (8 trials) "), "{arguments:?}: {text}");
    }
    let recommended = said(&sandbox, &["recommend"]);
    let answer = &recommended["answers"][0];
    let standings = answer["standings"].as_array().expect("standings");
    assert_eq!(standings.len(), finalists.len(), "only what was measured again is compared: {answer:#}");
    let winner = standings.iter().find(|one| one["name"] == answer["leader"]).expect("the pick");
    assert_eq!(
        (&winner["name"], &recommended["race"]["pick"]["name"]),
        (&found["pick"]["name"], &winner["name"])
    );
    assert_eq!(winner["trials"], finalists[0]["trials"], "by fresh trials only");
    assert_eq!(answer["recipe"].is_object(), answer["winner"].is_string(), "{answer:#}");
    assert_eq!(sandbox.run(&["recommend", "--case", "xfs"]).status.code(), Some(2));

    let page = sandbox.path("raced.html").display().to_string();
    text(&sandbox, &["report", "--output", &page]);
    let page = std::fs::read_to_string(page).expect("a page");
    let sure = if is_sure {
        "With 95 % probability, no configuration is more than"
    } else {
        "Another may be up to "
    };
    assert!(page.contains(sure), "the answer");
    assert!(page.contains("after round 1 (8 trials) "), "what was dropped");
}
