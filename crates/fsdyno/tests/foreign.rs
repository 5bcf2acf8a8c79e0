//! Results of other programs, imported and compared as their users would: what they state decides what they
//! are compared with.

mod desk;

use desk::Desk;
use serde_json::{Value, json};
use std::fs;

/// The output of fio, of a version or with an option that its name says.
macro_rules! captured {
    ($name:literal) => {
        include_bytes!(concat!("../../formats/captured/fio/", $name)).as_slice()
    };
}

/// The trials of a file of fio.
fn fio(contents: &[u8]) -> Vec<Value> {
    let desk = Desk::new();
    desk.write("run.json", contents);
    desk.succeeds(&["import", "fio", "run.json"]);
    desk.json(&["show"])["trials"].as_array().expect("trials").clone()
}

/// Why a file of fio is refused.
fn refusal(contents: &[u8]) -> String {
    let desk = Desk::new();
    desk.write("run.json", contents);
    desk.refuses(&["import", "fio", "run.json"])
}

/// The roles of the only phase of the only trial.
fn roles(trials: &[Value]) -> &[Value] {
    let [trial] = trials else { panic!("one trial: {trials:?}") };
    let [phase] = &trial["phases"].as_array().expect("phases")[..] else { panic!("one phase: {trial}") };
    phase["roles"].as_array().expect("roles")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Returns whether these are the rates of a role, in MB/s and operations per second.
fn has_rates(role: &Value, megabytes: f64, operations: f64) -> bool {
    let rates = &role["rates"];
    let [bytes, per_s] = ["aggregate_bytes_per_s", "operations_per_s"].map(|name| number(&rates[name]));
    (bytes / 1e6 - megabytes).abs() < 0.05 && (per_s - operations).abs() < 0.5
}

/// 10,000 random reads of 4 KiB a second, in whatever way they are reported.
#[test]
fn every_history_of_the_format_gives_the_same_figures() {
    for (contents, what) in [
        (captured!("ramp_time-bytes-of-64-more.json"), "requests in flight at the end of the ramp"),
        (captured!("3.1-no-bw_bytes-no-job_runtime.json"), "3.1"),
        (captured!("3.12-percentiles-without-N.json"), "3.12"),
        (captured!("2.16-usec-and-KiB.json"), "2.16"),
        (captured!("text-after-json.txt"), "json,normal"),
        (captured!("utf16-powershell.json"), "a pipe of PowerShell"),
        (captured!("status-interval-3-documents.json"), "status-interval"),
    ] {
        let trials = fio(contents);
        let [reader] = roles(&trials) else { panic!("{what}: {trials:?}") };
        assert!(reader["role"] == "reader" && reader["workers"] == 1, "{what}: {reader}");
        assert!(has_rates(reader, 41.0, 10_000.0), "{what}: {reader}");
        let latency = &reader["operations"][0]["lat_ns"];
        assert_eq!(latency["N"], 100_000, "{what}");
        let percentile = |name: &str| number(&latency["percentile"][name]);
        for (name, us) in [("50.000000", 200.0), ("99.000000", 900.0), ("99.900000", 2000.0)] {
            assert!((percentile(name) / 1e3 / us - 1.0).abs() < 0.001, "{what}: {name} of {latency}");
        }
    }
}

#[test]
fn all_clients_of_a_server_are_the_workers_of_one_phase() {
    let trials = fio(captured!("client-server-client_stats.json"));
    let [reader] = roles(&trials) else { panic!("{trials:?}") };
    assert_eq!(reader["workers"], 2, "their sum is no third client");
    assert!(has_rates(reader, 81.9, 20_000.0), "{reader}");
    assert_eq!(trials[0]["workload"]["parameters"]["imported"]["options"]["clients"], "2");
}

#[test]
fn what_writes_and_verifies_has_both_roles() {
    let trials = fio(captured!("write-with-verify.json"));
    let [writer, reader] = roles(&trials) else { panic!("{trials:?}") };
    assert_eq!([&writer["role"], &reader["role"]], ["writer", "reader"]);
    let trials = fio(captured!("read_iolog-replay.json"));
    let [writer, reader] = roles(&trials) else { panic!("{trials:?}") };
    assert!(has_rates(writer, 0.3, 70.0) && has_rates(reader, 0.2, 50.0), "{trials:?}");
}

#[test]
fn sizes_are_those_of_the_base_of_the_job() {
    let trials = fio(captured!("kb_base-1000.json"));
    assert!(has_rates(&roles(&trials)[0], 40.0, 10_000.0), "{trials:?}");
}

#[test]
fn jobs_that_were_added_up_count_as_so_many_workers_or_are_refused() {
    let trials = fio(captured!("group_reporting-5-jobs-as-one.json"));
    assert_eq!(roles(&trials)[0]["workers"], 5);
    let warnings = trials[0]["warnings"].to_string();
    assert!(warnings.contains("'dev1' stands for 5 jobs"), "{warnings}");
    let refusal = refusal(captured!("group_reporting-log-and-data.json"));
    assert!(refusal.contains("job_runtime 2008 ms is 2 x write.runtime 1008 ms"), "{refusal}");
    assert!(refusal.contains("numjobs is 1") && refusal.contains("129 syncs"), "{refusal}");
}

#[test]
fn reads_and_writes_reported_together_are_a_role_of_their_own() {
    let trials = fio(captured!("unified_rw_reporting-mixed.json"));
    let [mixed] = roles(&trials) else { panic!("{trials:?}") };
    assert!(mixed["role"] == "reader-writer" && has_rates(mixed, 41.0, 10_000.0), "{mixed}");
    assert!(trials[0]["warnings"].to_string().contains("remove unified_rw_reporting"), "{trials:?}");
}

#[test]
fn trims_are_no_reads_and_not_lost() {
    let trials = fio(captured!("randtrim-only.json"));
    let [trimmer] = roles(&trials) else { panic!("{trials:?}") };
    assert!(trimmer["role"] == "trimmer" && has_rates(trimmer, 41.0, 10_000.0), "{trimmer}");
    assert_eq!(trimmer["operations"][0]["operation"], "trim");
}

#[test]
fn errors_are_named_whether_or_not_the_job_went_on() {
    let trials = fio(captured!("continue_on_error-with-errors.json"));
    let warnings = trials[0]["warnings"].to_string();
    assert!(warnings.contains("1 error and went on") && warnings.contains("no space left"), "{warnings}");
    let refusal = refusal(captured!("verify-errors-continued.json"));
    assert!(refusal.contains("'v' read wrong data: 20 errors of verify"), "{refusal}");
}

#[test]
fn what_has_no_json_names_the_option_that_prints_it() {
    for text in [
        "3;fio-3.33;a;0;0;16384;30340;7585;540;0;0;0.000000;0.000000;27;10448\n",
        "a: (groupid=0, jobs=1): err= 0: pid=14039: Sun Nov 29 10:41:13 2026\n  read: IOPS=14.9k\n",
    ] {
        let refusal = refusal(text.as_bytes());
        assert!(refusal.contains("run fio with --output-format=json"), "{refusal}");
    }
}

/// Six runs of a job with these options; the rates of each are a little higher than those of the one before.
fn six_runs(desk: &Desk, name: &str, bs: &str, iodepth: &str, rate: f64) {
    for run in 0..6 {
        let rate = rate * (1.0 + 0.001 * f64::from(run));
        let direction = json!({
            "io_bytes": (rate * 10.0) as u64, "bw_bytes": rate, "iops": 1000.0, "runtime": 10_000,
            "total_ios": 10_000, "clat_ns": {},
        });
        let document = json!({
            "fio version": "fio-3.33",
            "timestamp": 1_700_000_000 + run,
            "jobs": [{
                "jobname": "r", "groupid": 0, "error": 0, "job_runtime": 10_000, "read": direction,
                "job options": { "rw": "randread", "bssplit": bs, "iodepth": iodepth },
            }],
        });
        desk.write(&format!("{name}{run}.json"), document.to_string());
    }
    let files: Vec<String> = (0..6).map(|run| format!("{name}{run}.json")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    desk.succeeds(&[&["import", "fio", "--name", name, "--configuration", "nvme"], &files[..]].concat());
}

fn differences(compared: &Value) -> Vec<(String, Value)> {
    let all = compared["cases"][0]["differences"].as_array().expect("differences");
    all.iter().map(|one| (one["what"].as_str().unwrap_or("").to_string(), one["levels"].clone())).collect()
}

#[test]
fn different_jobs_are_compared_with_their_differences_and_without_a_verdict() {
    let desk = Desk::new();
    six_runs(&desk, "small", "4k", "1", 41e6);
    six_runs(&desk, "large", "1m", "32", 210e6);
    let compared = desk.json(&["compare", "small", "large"]);
    assert_eq!(
        differences(&compared),
        [("bssplit".to_string(), json!(["4k", "1m"])), ("iodepth".to_string(), json!(["1", "32"])),]
    );
    let text = compared.to_string();
    assert!(!text.contains("\"faster\"") && !text.contains("\"slower\""), "{text}");
    let text = desk.succeeds(&["compare", "small", "large"]);
    assert!(text.contains("iodepth: 1 -> 32"), "{text}");
    assert!(text.contains("cannot tell: the two sides did different work (bssplit, iodepth)"), "{text}");
    // The same job is judged.
    six_runs(&desk, "again", "4k", "1", 82e6);
    let text = desk.succeeds(&["compare", "small", "again"]);
    assert!(text.contains("faster"), "{text}");
}

#[test]
fn trials_of_different_jobs_are_different_cases_that_can_be_told_apart() {
    let desk = Desk::new();
    six_runs(&desk, "small", "4k", "1", 41e6);
    six_runs(&desk, "large", "1m", "32", 210e6);
    let said = desk.succeeds(&[
        "import",
        "fio",
        "--name",
        "both",
        "--configuration",
        "nvme",
        "small0.json",
        "large0.json",
        "small1.json",
    ]);
    assert!(said.contains("3 trials of 2 cases"), "{said}");
    let shown = desk.succeeds(&["show", "both"]);
    assert!(shown.contains("iodepth = 1") && shown.contains("iodepth = 32"), "{shown}");
}

const BONNIE_1_03: &str =
    "host1,2G,83720,95,81306,95,18523,10,84567,97,282848,97,187.5,0,16,319,1,4000,3,266,2,307,1,5000,2,269,1";
const BONNIE_1_97: &str = "1.97,1.97,host1,1,1595640930,2G,,668,99,81000,96,18500,59,1411,99,282000,79,188.0,1,16,,,,,320,1,4000,3,266,2,307,1,5000,2,269,1,20730us,98013us,1412ms,8035us,41587us,15082us,1262us,6290us,660us,3386us,228us,626us";

/// Versions before 1.92 move characters through the C library's buffers; everything else is comparable.
#[test]
fn only_the_per_character_figures_of_two_generations_of_bonnie_are_incomparable() {
    let desk = Desk::new();
    for (name, line) in [("old", BONNIE_1_03), ("new", BONNIE_1_97)] {
        desk.write(&format!("{name}.csv"), format!("{line}\n").repeat(6));
        desk.succeeds(&["import", "bonnie-csv", &format!("{name}.csv")]);
    }
    let compared = desk.json(&["compare", "old", "new"]);
    assert_eq!(differences(&compared), [("version".to_string(), json!(["bonnie++ 1.03", "bonnie++ 1.97"]))]);
    let measures = compared["cases"][0]["measures"].as_array().expect("measures");
    let finding = |name: &str| {
        let row = measures.iter().find(|row| row["measure"] == name).unwrap_or_else(|| panic!("{name}"));
        row.to_string()
    };
    for name in ["bonnie-write-char", "bonnie-read-char"] {
        assert!(finding(name).contains("bonnie++ before 1.92"), "{}", finding(name));
    }
    for name in ["bonnie-write-block", "bonnie-seeks"] {
        assert!(finding(name).contains("no material difference"), "{}", finding(name));
    }
    let mixed = desk.path("mixed.csv");
    fs::write(mixed, format!("{BONNIE_1_03}\n{BONNIE_1_97}\n")).expect("a file");
    let said = desk.succeeds(&["import", "bonnie-csv", "mixed.csv"]);
    assert!(said.contains("2 trials of 2 cases"), "{said}");
}
