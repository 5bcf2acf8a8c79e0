//! The published studies: their figures beside a run, and a run in their layout.

use crate::support::{Requirement, Sandbox, Test, describe};
use serde_json::Value;
use std::process::Output;

const ROOT_AND_LOOP: &[Requirement] = &[Requirement::Root, Requirement::Loop];

pub fn tests() -> Vec<Test> {
    vec![
        Test {
            name: "studies::a_run_stands_beside_the_published_figures",
            requires: ROOT_AND_LOOP,
            body: a_run_stands_beside_the_published_figures,
        },
        Test {
            name: "studies::a_wrong_reference_gets_one_clear_error",
            requires: &[],
            body: a_wrong_reference_gets_one_clear_error,
        },
    ]
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One of the published configurations, and one that nobody published, on an image of the sandbox.
fn a_run_stands_beside_the_published_figures() {
    let sandbox = Sandbox::new();
    let plan = format!(
        r#"study = "fsopbench-2009"
[device]
image = "{}"
size = "512M"
[axes]
filesystem = ["ext3"]
scheduler = ["bfq"]
atime = ["relatime"]
barrier = [0]
data = ["ordered", "writeback"]
journal = ["internal"]
[[workloads]]
kind = "fileserver"
tree_size = "8M"
writer_space = "16M"
ramp = "20ms"
window = "200ms"
"#,
        sandbox.path("studies.img").display()
    );
    sandbox.write("plan.toml", &plan);
    let swept = sandbox.run(&["sweep", "plan.toml"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));

    let compare =
        |format| stdout(&sandbox.run(&["compare", "--with", "published:fsopbench-2009", "--format", format]));
    let document: Value = serde_json::from_str(&compare("json")).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    let missing = document["missing"].as_array().expect("rows without a counterpart");
    // data=writeback was published of another disk; both journals of data=ordered inside the filesystem.
    assert_eq!((rows.len(), missing.len()), (3, 3));
    let first = &rows[0]["figures"][0];
    let (published, ours) = (first["published"].as_f64(), first["ours"]["value"].as_f64());
    let ratio = ours.zip(published).map(|(ours, published)| ours / published);
    assert!(ratio.is_some() && first["ratio"].as_f64() == ratio, "{first}");
    assert!(missing.iter().all(|row| row["reason"] == "the sweep has no such configuration"));

    let text = compare("text");
    assert!(text.contains("published without a counterpart") && text.contains("ratio"), "{text}");
    assert_eq!(compare("csv").lines().count(), 1 + 6 * 104);

    let shown = stdout(&sandbox.run(&["show", "--as", "published"]));
    assert_eq!(shown.matches("J write rate").count(), 2, "{shown}");
    // The latest sweep is the one of the plan; a bench is no study.
    let bench = ["bench", ".", "--tree-size", "8M", "--ramp", "20ms", "--window", "100ms"];
    stdout(&sandbox.run(&bench));
    let refused = sandbox.run(&["show", "--as", "published"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("no published study") && error.contains("xfs-tweaks-2003"), "{error}");
}

fn a_wrong_reference_gets_one_clear_error() {
    let sandbox = Sandbox::new();
    for (reference, expected) in [
        ("published:fsopbench-2008", "did you mean 'fsopbench-2009'"),
        ("published:raid1-2008", "no published figures of 'raid1-2008'"),
        ("published:schedulers-2009", "postmark-schedulers-2009 and bonnie-schedulers-2009"),
        ("fsopbench-2009", "published:NAME"),
    ] {
        let output = sandbox.run(&["compare", "--with", reference]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", describe(&output));
        assert!(error.contains(expected) && error.contains("streaming-ext4-2008"), "{error}");
    }
    sandbox.write("plan.toml", "study = \"fsopbench\"\n[device]\nimage = \"/none\"\nsize = \"1G\"\n");
    let output = sandbox.run(&["plan", "plan.toml"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("plan.toml:1:9") && error.contains("did you mean 'fsopbench-2009'"), "{error}");
}
