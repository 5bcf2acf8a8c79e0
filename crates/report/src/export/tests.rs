use super::*;
use crate::fixture;
use fsdyno_core::Nanos;
use fsdyno_core::result::RoleResult;
use fsdyno_core::result::{ClientResult, ClientRole, ClientWork, CpuTime};
use serde_json::Value;
use std::collections::HashMap;

type Rows = Vec<HashMap<String, String>>;

fn written(kind: ExportKind, trials: &[TrialRecord], format: ExportFormat) -> Vec<u8> {
    let header = fixture::header("read");
    let mut out = Vec::new();
    ExportTable::new(kind, &header, trials).write(&mut out, format).unwrap();
    out
}

/// The rows of a table as CSV, by column.
fn rows(kind: ExportKind, trials: &[TrialRecord]) -> Rows {
    let out = written(kind, trials, ExportFormat::Csv);
    csv::Reader::from_reader(out.as_slice()).deserialize().collect::<Result<_, _>>().unwrap()
}

fn row<'r>(rows: &'r Rows, wanted: &[(&str, &str)]) -> &'r HashMap<String, String> {
    let fits = |row: &&HashMap<String, String>| wanted.iter().all(|(column, value)| row[*column] == *value);
    rows.iter().find(fits).unwrap_or_else(|| panic!("no row {wanted:?}"))
}

#[test]
fn every_table_begins_with_the_identity_of_a_row_and_ends_with_the_settings() {
    for kind in ExportKind::ALL {
        let out = String::from_utf8(written(*kind, &fixture::trials(), ExportFormat::Csv)).unwrap();
        let header = out.lines().next().unwrap();
        assert!(
            header.starts_with(
                "sweep,sweep_name,trial,block,case,sentinel,configuration,filesystem,workload,kernel,outcome,"
            ) && header.ends_with(",setting_scheduler"),
            "{header}"
        );
        let names: Vec<&str> = header.split(',').collect();
        let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "{header}");
    }
}

/// A directory on tmpfs has no block device below it.
#[test]
fn telemetry_without_a_device_has_rows() {
    let mut trials = fixture::with_telemetry(fixture::trials());
    trials.truncate(1);
    let telemetry = |trial: &mut TrialRecord| {
        for telemetry in trial.phases.iter_mut().filter_map(|phase| phase.telemetry.as_mut()) {
            telemetry.devices.clear();
            telemetry.samples.iter_mut().chain([&mut telemetry.window]).for_each(|one| one.devices.clear());
        }
    };
    let with = rows(ExportKind::Telemetry, &trials);
    trials.iter_mut().for_each(telemetry);
    let without = rows(ExportKind::Telemetry, &trials);
    assert_eq!(without.len(), 3 * (30 + 1));
    assert_eq!((without[0]["device"].as_str(), without[0]["rkB/s"].as_str()), ("", ""));
    assert_eq!(without[0]["cpu_user_ns"], with[0]["cpu_user_ns"]);
}

#[test]
fn each_kind_of_warning_appears_once() {
    let mut trials = fixture::trials();
    let again: Vec<_> = trials[4].warnings.clone();
    trials[4].warnings.extend(again);
    let rows = rows(ExportKind::Trials, &trials);
    let warned = row(&rows, &[("trial", "4")]);
    assert_eq!(warned["warnings"], "tree-smaller-than-memory; censored");
}

#[test]
fn each_operation_of_each_trial_has_a_row() {
    let rows = rows(ExportKind::Operations, &fixture::trials());
    // 6 operations of readers in three phases and 5 of writers in one, in 4 measured trials; 2 trials have no
    // phases.
    assert_eq!(rows.len(), 4 * (3 * 6 + 5) + 2);
    let blocked = row(&rows, &[("trial", "4"), ("operation", "mkdirat")]);
    assert_eq!(blocked["lat_ns_max"], "62000000000");
    assert_eq!(blocked["lat_ns_at_least_from"], "62000000000");
    assert_eq!(blocked["role_longest_stall_at_least"], "true");
    let whole = row(&rows, &[("trial", "0"), ("operation", "mkdirat")]);
    assert_eq!(whole["role_longest_stall_at_least"], "false");
    assert_eq!(blocked["setting_scheduler"], "bfq");
    for (trial, outcome) in [("2", "skipped"), ("5", "failed")] {
        let of_trial: Vec<_> = rows.iter().filter(|row| row["trial"] == trial).collect();
        assert_eq!(of_trial.len(), 1);
        assert_eq!((of_trial[0]["outcome"].as_str(), of_trial[0]["count"].as_str()), (outcome, ""));
    }
}

#[test]
fn a_role_without_known_operations_has_a_row() {
    let mut trials = fixture::trials()[..1].to_vec();
    trials[0].phases.truncate(1);
    let role = &mut trials[0].phases[0].roles[0];
    *role = RoleResult { rates: role.rates, cpu: role.cpu, ..RoleResult::unwatched(role.role, role.workers) };
    let rows = rows(ExportKind::Operations, &trials);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0]["role"].as_str(), rows[0]["operation"].as_str()), ("reader", ""));
    assert_eq!((rows[0]["role_longest_stall_ns"].as_str(), rows[0]["role_time_over_1s"].as_str()), ("", ""));
    assert_eq!(rows[0]["role_longest_stall_at_least"], "");
    assert_ne!(rows[0]["role_aggregate_bytes_per_s"], "");
}

#[test]
fn each_trial_has_a_row_with_its_measures() {
    let rows = rows(ExportKind::Trials, &fixture::trials());
    assert_eq!(rows.len(), 6);
    let first = row(&rows, &[("trial", "0")]);
    assert_eq!((first["read_bytes_per_s"].as_str(), first["mkfs_ns"].as_str()), ("60000000", "71000000"));
    assert_eq!(first["warnings"], "tree-smaller-than-memory");
    assert_eq!(row(&rows, &[("trial", "4")])["longest_stall_at_least"], "true");
    let failed = row(&rows, &[("trial", "5")]);
    assert!(failed["error"].contains("no space left on device"));
    assert_eq!(failed["read_bytes_per_s"], "");
    assert!(row(&rows, &[("trial", "2")])["unmet"].contains("; the kernel has no btrfs"));
}

#[test]
fn each_interval_of_a_timeline_has_a_row() {
    let mut trials = fixture::trials()[..1].to_vec();
    trials[0].phases.truncate(1);
    let results = &mut trials[0].phases[0].roles[0].operations;
    results.truncate(1);
    results[0].timeline = fsdyno_core::result::Timeline {
        interval_ns: Nanos::from_millis(100),
        count: vec![3, 0, 5],
        sum_ns: vec![30, 0, 70],
        max_ns: vec![20, 0, 40],
        bytes: Vec::new(),
    };
    let rows = rows(ExportKind::Timeline, &trials);
    assert_eq!(rows.len(), 3);
    let last = row(&rows, &[("interval", "2")]);
    assert_eq!(
        (last["start_ns"].as_str(), last["count"].as_str(), last["bytes"].as_str()),
        ("200000000", "5", "")
    );
    assert_eq!((last["lat_ns_sum"].as_str(), last["lat_ns_max"].as_str()), ("70", "40"));
}

#[test]
fn each_device_has_a_row_in_each_sample_and_in_the_window() {
    assert!(rows(ExportKind::Telemetry, &fixture::trials()).is_empty());
    let trials = fixture::with_telemetry(fixture::trials());
    let rows = rows(ExportKind::Telemetry, &trials);
    // 4 measured trials of 3 phases, 30 samples and the window, 2 devices.
    assert_eq!(rows.len(), 4 * 3 * 31 * 2);
    let window = row(&rows, &[("trial", "4"), ("sample", "window"), ("device", "vda")]);
    for (column, value) in [
        ("length_ns", "30000000000"),
        ("r/s", "100"),
        ("rkB/s", "4096"),
        ("%util", "50"),
        ("cpu_iowait_ns", "7500000000"),
        ("dirty_bytes_max", "134217728"),
        ("pressure_io_full_ns", "3000000000"),
        ("pressure_cpu_some_ns", ""),
        ("tasks_writeback_ns", "1500000000"),
        ("tasks_journal_ns", "0"),
    ] {
        assert_eq!(window[column], value, "{column}");
    }
}

/// JSON and CSV are the same rows, and no value of JSON is nested.
#[test]
fn json_has_the_rows_of_csv() {
    let trials = fixture::with_telemetry(fixture::trials());
    for kind in ExportKind::ALL {
        let rows = rows(*kind, &trials);
        let document: Vec<serde_json::Map<String, Value>> =
            serde_json::from_slice(&written(*kind, &trials, ExportFormat::Json)).unwrap();
        assert_eq!(document.len(), rows.len(), "{}", kind.name());
        let json = String::from_utf8(written(*kind, &trials, ExportFormat::Json)).unwrap();
        let is_empty = rows.is_empty();
        assert!(
            is_empty || json.starts_with("[\n{\"sweep\":\"7\",\"sweep_name\":\"demo\",\"trial\":0,"),
            "{json:.80}"
        );
        for (object, row) in document.iter().zip(&rows) {
            assert_eq!(object.len(), row.len());
            for (column, value) in object {
                let text = match value {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    // CSV writes 61.0 as 61.
                    Value::Number(number) => number.as_f64().unwrap().to_string(),
                    Value::Bool(truth) => truth.to_string(),
                    nested => panic!("{column} is {nested}"),
                };
                let same = text == row[column] || text.parse::<f64>().ok() == row[column].parse().ok();
                assert!(same, "{column}: {text} is not {}", row[column]);
            }
        }
    }
    assert_eq!(written(ExportKind::Trials, &[], ExportFormat::Json), b"[]\n");
}

#[test]
fn a_closed_pipe_is_recognised() {
    let (header, trials) = (fixture::header("read"), fixture::trials());
    for format in [ExportFormat::Csv, ExportFormat::Json] {
        let error = ExportTable::new(ExportKind::Operations, &header, &trials)
            .write(&mut fixture::Closed, format)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}

/// Names may come from an imported file or from somebody else's plan.
#[test]
fn no_cell_is_a_formula_and_figures_stay_figures() {
    let mut trials = fixture::trials();
    for trial in &mut trials {
        trial.configuration.name = "=HYPERLINK(\"http://x\")\x1b]0;x\x07".to_string();
        trial.configuration.settings.insert("@axis\x1b".to_string(), "+1".to_string());
        if let Some(operation) = trial.phases.iter_mut().flat_map(|phase| &mut phase.roles).next() {
            operation.rates.operations_per_s = -1.5;
        }
    }
    for kind in ExportKind::ALL {
        let text = String::from_utf8(written(*kind, &trials, ExportFormat::Csv)).unwrap();
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text}");
        for row in rows(*kind, &trials) {
            assert_eq!(row["configuration"], "'=HYPERLINK(\"http://x\")\\x1b]0;x\\x07");
            assert_eq!(row["setting_@axis\\x1b"], "'+1");
            let figure = |cell: &&String| cell.starts_with(['=', '+', '-', '@']);
            assert!(row.values().filter(figure).all(|cell| cell.parse::<f64>().is_ok()), "{row:?}");
        }
    }
}

#[test]
fn a_trial_of_power_cuts_has_its_three_measures() {
    let rows = rows(ExportKind::Trials, &fixture::durability_trials(1, true));
    let of = |trial: &str, column: &str| row(&rows, &[("trial", trial)])[column].clone();
    assert_eq!(of("0", "acknowledged_lost_share"), "0");
    assert_eq!(of("1", "acknowledged_lost_share"), "1");
    assert_eq!(
        (of("1", "unsynced_lost_ns"), of("1", "recovery_time_ns")),
        ("5010000000".into(), "12000000".into())
    );
    assert_eq!(of("2", "acknowledged_lost_share"), "");
    let operations = self::rows(ExportKind::Operations, &fixture::durability_trials(1, false));
    assert_eq!(operations.len(), 2, "a row for each trial, without an operation");
}

/// Shares and Jain's index are those of one trial, by hand: (100 + 300)^2 / (2 (100^2 + 300^2)) = 0.8.
#[test]
fn each_client_has_a_row_in_each_role() {
    assert!(rows(ExportKind::Clients, &fixture::trials()).is_empty());
    let mut trials = fixture::trials();
    trials.truncate(1);
    let phase = trials[0].phases.first_mut().expect("a phase");
    let role = phase.roles[0].role;
    phase.clients = [("x1", 100), ("x2", 300)]
        .map(|(name, bytes)| {
            let work = ClientWork { workers: 2, bytes, completed: 7, ..ClientWork::default() };
            ClientResult {
                client: name.to_string(),
                work: work.clone(),
                roles: vec![ClientRole { role, work }],
                cpu: CpuTime::default(),
                late_ns: Some(Nanos(5)),
                active_ns: Nanos::from_secs(1),
                telemetry: None,
                clock_before: None,
                clock_after: None,
                lost: None,
            }
        })
        .to_vec();
    let rows = rows(ExportKind::Clients, &trials);
    assert_eq!(rows.len(), 2);
    let second = row(&rows, &[("client", "x2")]);
    for (column, value) in [
        ("role", role.name()),
        ("workers", "2"),
        ("bytes", "300"),
        ("share", "0.75"),
        ("role_jain", "0.8"),
        ("role_slowest_to_median", "0.5"),
        ("late_ns", "5"),
        ("clock_uncertainty_ns", ""),
        ("processors_busy", ""),
        ("lost", ""),
    ] {
        assert_eq!(second[column].as_str(), value, "{column}");
    }
}
