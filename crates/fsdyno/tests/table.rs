//! Tables of anybody's measurements, imported and judged like a sweep.

mod desk;

use desk::Desk;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Two configurations in six blocks. `fast` is faster by half, whatever the block does to both.
fn two() -> String {
    let row = |block: u32| {
        let rate = 100.0 + 40.0 * f64::from(block % 3);
        format!(
            "slow,default,{block},{rate},9\nfast,4,{block},{},{}\n",
            rate * 1.5 + f64::from(block),
            8 + block
        )
    };
    format!("configuration,depth,block,value,p99 (ms)\n{}", (1..=6).map(row).collect::<String>())
}

#[test]
fn a_table_is_ranked_compared_recommended_and_reported_like_a_sweep() {
    let desk = Desk::new();
    desk.write("mine.csv", two());
    let said = desk.succeeds(&[
        "import",
        "table",
        "mine.csv",
        "--unit",
        "MB/s",
        "--measure",
        "value",
        "--measure",
        "p99",
    ]);
    assert_eq!(said, "sweep 1 'mine': 12 trials of 2 cases from 1 file; fsdyno show 1\n");
    let shown = desk.succeeds(&["show"]);
    assert!(shown.starts_with("mine: a table\n\nUse 'fast': "), "{shown}");
    assert!(shown.find("\nfast ").expect("fast") < shown.find("\nslow ").expect("slow"), "{shown}");
    assert!(shown.contains("p99 (ms)"), "{shown}");
    // Within blocks, the difference is clear, although the blocks differ by more.
    let compared = desk.run(&["compare", "1/slow", "1/fast", "--format", "json"]);
    let document: Value = serde_json::from_slice(&compared.stdout).expect("JSON");
    let text = document.to_string();
    assert!(text.contains("value (MB/s)") && text.contains("\"faster\""), "{text}");
    let recommended: Value = desk.json(&["recommend"]);
    let answer = &recommended["answers"][0];
    let mut standings = answer["standings"].as_array().expect("standings").iter();
    let winner = standings.find(|one| one["name"] == answer["winner"]).expect("a winner");
    assert_eq!(winner["settings"]["depth"], "4", "{answer}");
    assert_eq!(winner["durable"]["by"], "unknown");
    assert!(
        answer["sentences"].to_string().contains("What its settings lose at a power cut is unknown"),
        "{answer}"
    );
    let objectives = answer["pareto"]["objectives"].to_string();
    assert!(objectives.contains("p99 (ms)"), "{objectives}");
    desk.succeeds(&["report", "--output", "mine.html"]);
    let page = fs::read_to_string(desk.path("mine.html")).expect("a page");
    assert!(page.contains("value (MB/s)") && page.contains("p99 (ms)"));
    assert!(desk.succeeds(&["show", "--format", "markdown"]).contains("| **fast** | "));
    let document: Value = desk.json(&["show"]);
    assert_eq!(document["trials"][0]["columns"]["value (MB/s)"], 140e6);
    let by_p99 = desk.succeeds(&["show", "--measure", "p99 (ms)"]);
    assert!(by_p99.find("\nslow ").expect("slow") < by_p99.find("\nfast ").expect("fast"), "{by_p99}");
}

#[test]
fn what_is_no_table_is_refused_and_nothing_is_stored() {
    let desk = Desk::new();
    desk.write("mine.csv", "depth,value\n1,5\n2,\u{1b}[2Jx\n");
    let said = desk.refuses(&["import", "table", "mine.csv", "--unit", "MB/s"]);
    assert!(
        said.contains("'mine.csv', line 3, column 3: a table cannot contain the control character U+001B"),
        "{said}"
    );
    assert!(said.contains("nothing was imported; correct that place") && !said.contains('\u{1b}'), "{said}");
    desk.write("mine.csv", "depth,value\n1,5\n2,6\n");
    let said = desk.refuses(&["import", "table", "mine.csv"]);
    assert!(said.contains("'value' has no unit, so nothing says whether more is better"), "{said}");
    let said = desk.refuses(&["import", "table", "mine.csv", "mine.csv", "--unit", "MB/s"]);
    assert!(said.contains("a sweep has one table, not 2"), "{said}");
    let said = desk.refuses(&["import", "table", "mine.csv", "--configuration", "x"]);
    assert!(said.contains("--configuration is not for a table"), "{said}");
    let said = desk.refuses(&["import", "fio", "mine.csv", "--unit", "MB/s"]);
    assert!(said.contains("only for the format 'table'"), "{said}");
    assert_eq!(desk.succeeds(&["list", "--format", "json"]).trim(), "[]");
}

/// The path of a captured file of the crate `import`.
fn captured(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/captured").join(name).display().to_string()
}

/// Two figures, of which the second is no setting; and runs that a column tells apart.
#[test]
fn tables_as_people_publish_them_have_the_cases_that_they_mean() {
    let desk = Desk::new();
    desk.write(
        "runs.csv",
        "filesystem,run,throughput (MB/s)\next4,1,200\next4,2,204\next4,3,202\nxfs,1,250\nxfs,2,255\nxfs,3,251\n",
    );
    let said = desk.succeeds(&["import", "table", "runs.csv"]);
    assert!(said.contains("6 trials of 2 cases from 1 file;"), "{said}");
    let compared = desk.run(&["compare", "1/ext4", "1/xfs"]);
    let compared = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(compared.contains("1.248"), "{compared}");
    let two = captured("table-two-figures.csv");
    let said = desk.succeeds(&["import", "table", &two, "--measure", "read_iops", "--unit", "IOPS"]);
    assert!(said.contains("12 trials of 6 cases from 1 file;"), "{said}");
    let output = desk.run(&["import", "table", &captured("table-timestamp.csv")]);
    let (said, noted) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("4 trials of 2 cases from 1 file;"), "{said}");
    assert!(noted.contains("note: the column 'timestamp' says when, and is left out"), "{noted}");
    let elbencho = captured("table-elbencho.csv");
    let said =
        desk.succeeds(&["import", "table", &elbencho, "--measure", "MiB/s [last]", "--name", "elbencho"]);
    assert!(said.contains("3 trials of 2 cases from 1 file, 1 without a figure;"), "{said}");
    let shown = desk.succeeds(&["show", "elbencho"]).replace("\n  ", " ");
    assert!(shown.contains("line 2 has no figure in 'MiB/s [last] (MiB/s)'"), "{shown}");
}

#[test]
fn the_example_of_the_guide_is_a_table() {
    let desk = Desk::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/simulated.csv");
    let example = example.display().to_string();
    let said = desk.succeeds(&["import", "table", &example]);
    assert_eq!(said, "sweep 1 'simulated': 432 trials of 72 cases from 1 file; fsdyno show 1\n");
}

/// The JSON has the keys that the guide names, which other programs read.
#[test]
fn a_race_is_replayed_on_a_table() {
    let desk = Desk::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/simulated.csv");
    desk.succeeds(&["import", "table", &example.display().to_string()]);
    let race = |more: &[&str]| {
        let text = desk.succeeds(&[&["race", "--replay", "simulated", "--format", "json"], more].concat());
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let found = race(&[]);
    assert_eq!(found, race(&[]), "the same trials are drawn again");
    assert_ne!(found["finalists"], race(&["--seed", "5"])["finalists"]);
    assert_eq!(found["pick"]["name"], "xfs noatime readahead=1M bfq");
    assert_eq!(found["pick"]["settings"]["scheduler"], "bfq");
    let trials = found["trials"].as_u64().expect("trials");
    assert!((82..=216).contains(&trials) && found["sweep_trials"] == 432, "{trials}");
    let bound = found["regret_bound"].as_f64().expect("a bound");
    assert!(bound > 0.0 && bound < 0.2, "{bound}");
    let dropped = found["eliminations"].as_array().expect("eliminations").len();
    assert_eq!(dropped + found["finalists"].as_array().expect("finalists").len(), 72, "nothing gets lost");
    assert!(found["as_good"].as_array().expect("as good")[0]["name"].is_string());
    let short = race(&["--budget", "86"]);
    assert!(short["trials"].as_u64().expect("trials") <= 86 && short["regret_bound"].as_f64() > Some(bound));
    let by_p99 = race(&["--for", "p99 (ms)"]);
    assert_eq!((&by_p99["measure"], &by_p99["higher_is_better"]), (&"p99 (ms)".into(), &false.into()));

    assert_eq!(race(&["--budget", "86 trials"]), short);
    for (budget, wrong) in [
        ("1h", "the budget of a replay is a number of trials"),
        ("0", "'0' is not a budget"),
        ("few", "not a budget"),
    ] {
        let said = desk.refuses(&["race", "--replay", "simulated", "--budget", budget]);
        assert!(said.contains(wrong), "{said}");
    }
    let said = desk.refuses(&["race", "--replay", "simulated", "--budget", "1"]);
    assert!(said.contains("a budget of 1 trial is too small"), "{said}");
    let said = desk.refuses(&["race", "--replay", "simulated", "--budget", "50"]);
    assert!(
        said.contains("a budget of 50 trials is too small: a race of 72 configurations needs 82"),
        "{said}"
    );
    let said = desk.refuses(&["race", "--replay", "simulated", "--for", "throughput"]);
    assert!(said.contains("no trial has a value of 'throughput'"), "{said}");
    desk.write("one.csv", "a,block,value\nx,1,5\nx,2,6\n");
    desk.succeeds(&["import", "table", "one.csv", "--unit", "MB/s"]);
    let said = desk.refuses(&["race", "--replay", "one"]);
    assert!(said.contains("a race needs at least two configurations"), "{said}");
    desk.write("two.csv", "workload,a,block,value\nread,x,1,5\nwrite,x,1,6\n");
    desk.succeeds(&["import", "table", "two.csv", "--unit", "MB/s"]);
    let said = desk.refuses(&["race", "--replay", "two"]);
    assert!(
        said.contains("several workloads: a table: read; a table: write") && said.contains("--workload"),
        "{said}"
    );
    let shown = desk.succeeds(&["race", "--replay", "simulated"]);
    assert!(
        shown.contains(
            "\nNo winner yet: 'xfs noatime readahead=1M bfq' is the most likely: 233 MB/s (throughput)"
        ),
        "{shown}"
    );
    assert!(shown.contains("after round 1 (72 trials) 35 dropped: "), "{shown}");
}
