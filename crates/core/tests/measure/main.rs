//! Measures of trials built by hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fixture;

use fixture::*;
use fsdyno_core::durability::Fault;
use fsdyno_core::measure::{Direction, Measure, Unit, Value};
use fsdyno_core::outcome::Failure;
use fsdyno_core::result::{
    Content, CpuTime, Durable, FaultResult, InFlight, Latency, Layout, PhaseResult, Quantiles, Rates,
    RoleResult, TrialRecord, Usable, WHOLE_RUN, Witnessed,
};
use fsdyno_core::telemetry::{DeviceActivity, TaskKind};
use fsdyno_core::workload::{
    Arrivals, External, Flow, FlowRole, IoErrors, Pace, Program, Rate, Streaming, flow,
};
use fsdyno_core::{Nanos, Operation, Outcome, Role, Telemetry, Workload};
use proptest::prelude::*;

#[test]
fn short_names_find_their_phase_by_its_workers() {
    assert_eq!(value("read"), 10e6);
    assert_eq!(value("read-many"), 20e6);
    assert_eq!(value("read-under-write"), 30e6);
    assert_eq!(value("write"), 40e6);
    assert_eq!(value("first-byte-p999"), 999.0);
    assert_eq!(value("longest-stall"), 3e6);
}

#[test]
fn phases_of_another_workload_are_found_by_their_own_names() {
    let durable = Some(Durable { bytes: 100_000_000, duration_ns: Nanos::from_secs(50) });
    let streaming = TrialRecord {
        workload: Workload::Streaming(Streaming::default()),
        phases: vec![
            phase("write", vec![role(Role::Writer, 2, 1e6)]),
            phase("read", vec![role(Role::Reader, 1, 2e6)]),
            PhaseResult {
                durable,
                ..phase("mixed", vec![role(Role::Writer, 1, 3e6), role(Role::Reader, 1, 4e6)])
            },
            phase("random-write", vec![role(Role::Writer, 1, 900e6)]),
        ],
        ..trial()
    };
    let value = |measure: &str| value_in(&streaming, measure).map(|value| value.value);
    assert_eq!((value("streaming-write"), value("streaming-read")), (Some(1e6), Some(2e6)));
    // What a stage writes until its window ends counts until it is on the device, and is else unknown.
    assert_eq!((value("streaming-mixed-write"), value("streaming-mixed-read")), (Some(2e6), Some(4e6)));
    assert_eq!(value("streaming-random-write"), None);
    assert_eq!(value("streaming-random-read"), None);
    // A reader of large files is not a reader of trees.
    assert_eq!((value("read"), value("read-under-write"), value("write")), (None, None, None));
    assert_eq!(value("1 reader/reader/rate"), Some(2e6));
}

#[test]
fn named_measures_belong_to_their_workload_and_the_program_that_it_is_modelled_on() {
    let external = |program| Workload::External(External { program, ..External::default() });
    let postmark = TrialRecord {
        workload: external(Program::Postmark),
        phases: vec![phase("delete", vec![role(Role::Deleter, 1, 0.0)])],
        ..trial()
    };
    assert!(value_in(&postmark, "postmark-delete").is_some());
    assert!(value_in(&postmark, "collection-delete").is_none());
    let jobs = ["write", "all writers"].map(|name| phase(name, vec![role(Role::Writer, 1, 1e6)]));
    let fio = TrialRecord { workload: external(Program::Fio), phases: jobs.to_vec(), ..trial() };
    for measure in ["streaming-write", "collection-write", "commits", "sync-p99"] {
        assert!(value_in(&fio, measure).is_none(), "{measure}");
    }
}

#[test]
fn a_scan_is_measured_by_what_its_workers_looked_at() {
    let scanner = role(Role::Scanner, 2, 0.0);
    let rates = Rates { items_per_s: 5e4, ..scanner.rates };
    let scan = TrialRecord {
        workload: Workload::of_kind("scan").unwrap(),
        phases: vec![phase("walk", vec![RoleResult { rates, ..scanner }])],
        ..trial()
    };
    assert_eq!(value_in(&scan, "scan-entries"), Some(Value { value: 5e4, at_least: false }));
    assert_eq!(value_in(&trial(), "scan-entries"), None);
}

#[test]
fn any_figure_has_a_full_name() {
    assert_eq!(value("2 writers, 3 readers/reader/read first byte/p99.9"), 999.0);
    assert_eq!(value("3 readers, 2 writers / reader / read first byte / median"), 50.0);
    assert_eq!(value("c/reader/read first byte/p50"), 50.0);
    assert_eq!(value("c/reader/read first byte/count"), 5000.0);
    assert_eq!(value("c/reader/read first byte/mean"), 3.5);
    assert_eq!(value("1 reader/reader/rate"), 10e6);
    assert_eq!(value("1 reader/reader/overhead-rate"), 5e6);
    assert_eq!(value("3 readers/reader/time-over-1s"), 0.125);
    assert_eq!(value("c/writer/longest-stall"), 2e6);
}

#[test]
fn processor_time_is_a_share_of_the_window() {
    let mut busy = trial();
    let (user_ns, system_ns) = (Nanos::from_secs(6), Nanos::from_secs(9));
    busy.phases[2].roles[0].cpu = CpuTime { user_ns, system_ns };
    assert_eq!(value_in(&busy, "c/writer/cpu-share"), Some(Value { value: 0.5, at_least: false }));
    busy.phases[2].window_ns = Nanos(0);
    assert_eq!(value_in(&busy, "c/writer/cpu-share"), None);
    // It was not read.
    assert_eq!(value_in(&trial(), "c/writer/cpu-share"), None);
}

#[test]
fn the_time_of_removing_is_left_out_of_one_rate_only() {
    let whole = value_in(&trial(), "write").unwrap();
    let mut removing = trial();
    let writer = &mut removing.phases[2].roles[0];
    assert_eq!(writer.role, Role::Writer);
    let workers = u64::from(writer.workers);
    // A fifth of the window of each.
    let spent_ns = WINDOW.0 / 5 * workers;
    // Not from the timeline, which trials that are read in outline do not have.
    let latency = Latency { count: 4, mean: spent_ns as f64 / 4.0, ..Latency::default() };
    writer.operations.push(sample(Operation::Unlinkat, latency));
    let value = value_in(&removing, "c/writer/rate-without-removal").unwrap();
    assert!((value.value / whole.value - 1.25).abs() < 1e-6, "{value:?} {whole:?}");
    assert_eq!(value_in(&removing, "write"), Some(whole), "all bytes over all of the window");
    // Some of these hung beyond the end of the window.
    removing.phases[2].roles[0].removing_ns = Some(Nanos(WINDOW.0 / 10 * workers));
    let value = value_in(&removing, "c/writer/rate-without-removal").unwrap();
    assert!((value.value / whole.value - 1.0 / 0.9).abs() < 1e-6, "{value:?} {whole:?}");
}

#[test]
fn counts_are_divided_by_the_time_of_the_whole_run() {
    let mut counting = trial();
    counting.workload = Workload::of_kind("postmark").unwrap();
    assert_eq!(value_in(&counting, "postmark-read"), None);
    for phase in [0, 2] {
        counting.phases[phase].roles[0].counts.insert("bytes read".to_string(), 45_000_000);
    }
    let seconds = 30.0 * counting.phases.len() as f64;
    let expected = Some(Value { value: 90e6 / seconds, at_least: false });
    assert_eq!(value_in(&counting, "postmark-read"), expected);
    assert_eq!(value_in(&counting, "postmark-write"), None);
}

#[test]
fn absent_figures_have_no_value() {
    for measure in [
        "1 reader/reader/data-rate",
        "1 reader/writer/rate",
        "4 readers/reader/rate",
        "3 readers, 3 writers/reader/rate",
        "c/writer/write/p99",
        "null/null/rate",
    ] {
        assert_eq!(value_in(&trial(), measure), None, "{measure}");
    }
}

#[test]
fn a_failed_trial_has_no_measures() {
    let failed =
        TrialRecord { outcome: Outcome::Failed { error: Failure::new("umount", "busy") }, ..trial() };
    assert_eq!(value_in(&failed, "read"), None);
    assert_eq!(value_in(&failed, "longest-stall"), None);
}

#[test]
fn what_depends_on_censored_operations_is_a_lower_bound() {
    let mut trial = trial();
    let roles = trial.phases[2].roles.iter_mut().filter(|role| role.role == Role::Reader);
    let mut rows = roles.flat_map(|role| &mut role.operations);
    rows.find(|row| row.operation == Operation::ReadFirstByte).unwrap().lat_ns.count = 10_000;
    let at_least = |measure| value_in(&trial, measure).map(|value| value.at_least);
    assert_eq!(at_least("c/reader/read first byte/max"), Some(true));
    assert_eq!(at_least("c/reader/read first byte/p99.99"), Some(true));
    assert_eq!(at_least("c/reader/read first byte/p99.9"), Some(false));
}

#[test]
fn a_percentile_of_too_few_operations_does_not_rank() {
    let mut trial = trial();
    for role in &mut trial.phases[2].roles {
        role.operations.iter_mut().for_each(|row| row.lat_ns.count = 999);
    }
    assert_eq!(value_in(&trial, "first-byte-p999"), None);
    assert!(value_in(&trial, "c/reader/read first byte/p99").is_some());
}

#[test]
fn a_stall_that_fills_the_window_is_a_lower_bound() {
    let mut stalled = trial();
    stalled.phases[2].roles[0].longest_stall_ns = Some(WINDOW);
    let expected = Some(Value { value: 30e9, at_least: true });
    assert_eq!(value_in(&stalled, "longest-stall"), expected);
    assert_eq!(value_in(&stalled, "c/writer/longest-stall"), expected);
}

#[test]
fn a_trial_has_figures_besides_its_phases() {
    let mut built = trial();
    assert_eq!(value_in(&built, "umount-time"), None);
    built.lifecycle_ns.umount = Some(Nanos::from_millis(3));
    assert_eq!(value_in(&built, "umount-time"), Some(Value { value: 3e6, at_least: false }));
    assert_eq!(value_in(&built, "extents-per-file"), None);
    built.layout = Some(Layout { sampled: 4, extents: 5, ..Layout::default() });
    assert_eq!(value_in(&built, "extents-per-file"), Some(Value { value: 1.25, at_least: false }));
    let measure: Measure = "extents-per-file".parse().unwrap();
    assert_eq!((measure.unit(), measure.direction()), (Unit::Extents, Direction::LowerIsBetter));
}

/// An external program may report its longest operation, or nothing about stalls.
#[test]
fn unwatched_workers_have_only_the_stalls_that_were_reported() {
    let mut said = trial();
    for role in said.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
        *role = RoleResult::unwatched(role.role, role.workers);
    }
    for measure in ["longest-stall", "c/writer/longest-stall", "c/writer/time-over-1s"] {
        assert_eq!(value_in(&said, measure), None, "{measure}");
    }
    said.phases[2].roles[0].longest_stall_ns = Some(WINDOW);
    assert_eq!(value_in(&said, "longest-stall"), Some(Value { value: 30e9, at_least: false }));
}

/// A trial that hung after a few operations must not drop out of a mean over trials, which would look better.
#[test]
fn a_percentile_of_few_operations_one_of_which_is_stuck_is_a_lower_bound() {
    let mut stuck = trial();
    let mut lat_ns = Latency { count: 40, max: 30_000_000_000, ..Latency::default() };
    lat_ns.quantiles = Quantiles::of(|_| 30_000_000_000);
    stuck.phases[2].roles[1].operations = vec![sample(Operation::ReadFirstByte, lat_ns)];
    assert_eq!(value_in(&stuck, "first-byte-p999"), None);
    stuck.phases[2].roles[1].operations[0].lat_ns.at_least_from = Some(30_000_000_000);
    assert_eq!(value_in(&stuck, "first-byte-p999"), Some(Value { value: 30e9, at_least: true }));
}

/// Readers that never got their first byte must not drop out of the ranking.
#[test]
fn an_operation_that_covers_the_window_bounds_every_quantile() {
    let mut blocked = trial();
    let lat_ns = Latency { max: 31_000_000_000, at_least_from: Some(31_000_000_000), ..Latency::default() };
    blocked.phases[2].roles[1].operations = vec![sample(Operation::ReadFirstByte, lat_ns)];
    assert_eq!(value_in(&blocked, "first-byte-p999"), Some(Value { value: 31e9, at_least: true }));
    assert_eq!(value_in(&blocked, "c/reader/read first byte/mean"), None);
    blocked.phases[2].roles[1].operations[0].lat_ns = Latency::default();
    assert_eq!(value_in(&blocked, "first-byte-p999"), None);
}

#[test]
fn processor_time_counts_workers_and_the_threads_that_worked_for_them() {
    let mut trial = trial();
    assert_eq!(value_in(&trial, "cpu-per-mb"), None);
    let second = Nanos::from_secs(1).0;
    for phase in &mut trial.phases {
        phase.roles.truncate(1);
        phase.roles[0].cpu = CpuTime { user_ns: Nanos(second), system_ns: Nanos(2 * second) };
        phase.roles[0].rates.bytes = 500_000_000;
        let mut telemetry = Telemetry::default();
        telemetry.window.task_ns = [
            (TaskKind::Writeback, second),
            (TaskKind::Loop, second),
            (TaskKind::Kernel, 50 * second),
            (TaskKind::Process, 50 * second),
            (TaskKind::Own, 4 * second),
        ]
        .into();
        phase.telemetry = Some(telemetry);
    }
    // 5 s for 500 MB in each phase.
    assert_eq!(value_in(&trial, "cpu-per-mb"), Some(Value { value: 10_000_000.0, at_least: false }));
    let workers = &mut trial.phases[0].roles[0].worker_results;
    workers.truncate(1);
    workers[0].completed = 1000;
    let each = value_in(&trial, "a/reader/cpu-per-operation");
    assert_eq!(each, Some(Value { value: 3_000_000.0, at_least: false }));
    trial.phases[0].roles[0].worker_results.clear();
    assert_eq!(value_in(&trial, "a/reader/cpu-per-operation"), None);
    trial.phases[1].telemetry = None;
    assert_eq!(value_in(&trial, "cpu-per-mb"), None);
}

#[test]
fn a_program_without_separate_phases_has_one_figure_of_processor_time() {
    let mut trial = trial();
    trial.phases.truncate(2);
    let second = Nanos::from_secs(1).0;
    for phase in &mut trial.phases {
        phase.roles.truncate(1);
        phase.roles[0].worker_results.clear();
        phase.roles[0].cpu = CpuTime { user_ns: Nanos(second), system_ns: Nanos(0) };
        phase.roles[0].rates.bytes = 500_000_000;
    }
    assert_eq!(value_in(&trial, "cpu-per-mb"), None);
    let mut telemetry = Telemetry::default();
    telemetry.window.task_ns = [(TaskKind::Loop, 3 * second)].into();
    let whole = PhaseResult {
        name: WHOLE_RUN.to_string(),
        roles: Vec::new(),
        telemetry: Some(telemetry),
        ..trial.phases[0].clone()
    };
    trial.phases.push(whole);
    // 1 s and 1 s of the program, 3 s of a kernel thread, for 1000 MB.
    assert_eq!(value_in(&trial, "cpu-per-mb"), Some(Value { value: 5_000_000.0, at_least: false }));
    // A phase too short for the program to measure is ignored; without any processor time there is no value.
    let telemetry = trial.phases.pop().and_then(|whole| whole.telemetry);
    trial.phases[0].telemetry = telemetry.clone();
    (trial.phases[1].telemetry, trial.phases[1].window_ns) = (telemetry, Nanos(0));
    assert_eq!(value_in(&trial, "cpu-per-mb"), Some(Value { value: 8_000_000.0, at_least: false }));
    trial.phases[0].roles[0].cpu = CpuTime::default();
    assert_eq!(value_in(&trial, "cpu-per-mb"), None);
}

#[test]
fn each_measure_knows_its_unit_and_direction() {
    for (name, unit, direction) in [
        ("read", Unit::BytesPerSecond, Direction::HigherIsBetter),
        ("first-byte-p999", Unit::Nanoseconds, Direction::LowerIsBetter),
        ("longest-stall", Unit::Nanoseconds, Direction::LowerIsBetter),
        ("commits", Unit::ItemsPerSecond, Direction::HigherIsBetter),
        ("scan-entries", Unit::ItemsPerSecond, Direction::HigherIsBetter),
        ("c/reader/openat/count", Unit::Operations, Direction::HigherIsBetter),
        ("c/reader/operation-rate", Unit::OperationsPerSecond, Direction::HigherIsBetter),
        ("c/reader/time-over-100ms", Unit::Share, Direction::LowerIsBetter),
    ] {
        let measure: Measure = name.parse().unwrap();
        assert_eq!((measure.unit(), measure.direction()), (unit, direction), "{name}");
    }
    assert_eq!(Unit::BytesPerSecond.shown(12.5e6), 12.5);
}

#[test]
fn every_known_word_is_accepted() {
    for (name, _) in Measure::named() {
        assert_eq!(name.parse::<Measure>().unwrap().to_string(), name);
    }
    for figure in Measure::figures() {
        assert!(format!("1 reader/reader/{figure}").parse::<Measure>().is_ok(), "{figure}");
    }
    for statistic in Measure::statistics() {
        for operation in Operation::ALL {
            let name = format!("1 reader/reader/{operation}/{statistic}");
            assert!(name.parse::<Measure>().is_ok(), "{name}");
        }
    }
}

#[test]
fn an_error_names_the_wrong_word_and_the_nearest_known_one() {
    for (text, wrong, nearest) in [
        ("read-under-wriet", "measure 'read-under-wriet'", "read-under-write"),
        ("1 reader/raeder/rate", "role 'raeder'", "reader"),
        ("3 raeders/reader/rate", "role 'raeder'", "reader"),
        ("1 reader/reader/opneat/p99", "operation 'opneat'", "openat"),
        ("1 reader/reader/openat/p99.999", "statistic 'p99.999'", "p99.99"),
        ("1 reader/reader/data rate", "figure 'data rate'", "data-rate"),
    ] {
        let error = text.parse::<Measure>().unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains(&format!("did you mean '{nearest}'")), "{error}");
    }
    let error = "reader/rate".parse::<Measure>().unwrap_err().to_string();
    assert!(error.contains("2 parts") && error.contains("phase/role/operation/statistic"), "{error}");
}

#[test]
fn a_measure_is_a_string_in_json() {
    let measure: Measure = serde_json::from_str("\"read-many\"").unwrap();
    assert_eq!(serde_json::to_string(&measure).unwrap(), "\"read-many\"");
    let error = serde_json::from_str::<Measure>("\"raed\"").unwrap_err();
    assert!(error.to_string().contains("did you mean 'read'"), "{error}");
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[a-z0-9 /,.%-]{0,40}|\\PC{0,20}") {
        if let Ok(measure) = text.parse::<Measure>() {
            measure.value(&trial());
        }
    }
}

#[test]
fn a_measure_named_after_a_workload_applies_only_to_it() {
    let mut trial = trial();
    trial.phases = vec![phase("delete", vec![role(Role::Deleter, 1, 0.0)])];
    let value = |trial: &TrialRecord| "postmark-delete".parse::<Measure>().unwrap().value(trial);
    assert_eq!(value(&trial), None);
    trial.workload = Workload::of_kind("postmark").unwrap();
    assert!(value(&trial).is_some());
}

#[test]
fn flushes_are_those_of_the_device_over_all_phases() {
    let telemetry = |flushes, flush_ns, seconds| {
        let mut telemetry = Telemetry::default();
        telemetry.window.length_ns = Nanos::from_secs(seconds);
        let activity = DeviceActivity { flushes, flush_ns, ..DeviceActivity::default() };
        telemetry.window.devices = vec![Some(activity)];
        Some(telemetry)
    };
    let mut trial = trial();
    assert_eq!(value_in(&trial, "flushes"), None, "without telemetry");
    trial.phases[0].telemetry = telemetry(30, 60_000_000, 4);
    trial.phases[1].telemetry = telemetry(10, 100_000_000, 1);
    assert_eq!(value_in(&trial, "flushes").unwrap().value, 8.0);
    assert_eq!(value_in(&trial, "flush-time").unwrap().value, 4e6);
    trial.phases[0].telemetry = telemetry(0, 0, 4);
    trial.phases[1].telemetry = None;
    assert_eq!(value_in(&trial, "flushes").unwrap().value, 0.0);
    assert_eq!(value_in(&trial, "flush-time"), None, "of a device that is never flushed");
    let measure: Measure = "flushes".parse().unwrap();
    assert_eq!(measure.direction(), Direction::LowerIsBetter);
    // A device that hangs.
    trial.phases[0].telemetry = telemetry(10, 40_000_000, 4);
    let hangs = InFlight {
        worker: 0,
        operation: Operation::Fdatasync,
        start_ns: 0,
        duration_ns: WINDOW,
        at_least: true,
    };
    trial.phases[0].roles[0].worker_results[0].unfinished = Some(hangs);
    let time = value_in(&trial, "flush-time").unwrap();
    assert!(time.at_least && (time.value - 4e6).abs() < 1.0, "{time:?}");
    assert_eq!(value_in(&trial, "flushes").unwrap().value, 2.5);
    let roles = trial.phases.iter_mut().flat_map(|phase| &mut phase.roles);
    roles.for_each(|role| role.rates.operations_per_s = 0.0);
    assert_eq!(value_in(&trial, "flushes"), None, "a load that completes nothing needs none");
    assert!(!measure.is_shown_beside());
}

#[test]
fn faults_are_shares_of_all() {
    let result = |fault, failed, again: Option<&str>, after| FaultResult {
        failed,
        witnessed: Some(Witnessed {
            first: Some("EIO".to_string()),
            again: again.map(str::to_string),
            reads: Content::New,
            usable: Usable::Writable,
        }),
        after: Some(after),
        ..FaultResult::unknown(fault)
    };
    let mut trial = TrialRecord { workload: Workload::IoErrors(IoErrors::default()), ..trial() };
    assert_eq!(value_in(&trial, "silent-losses"), None);
    trial.io_errors = vec![
        result(Fault::OverwriteData, 1, None, Content::Old),
        result(Fault::AppendData, 2, Some("EIO"), Content::Missing),
        result(Fault::OverwriteFlush, 0, None, Content::New),
        result(Fault::OverwriteMetadata, 1, None, Content::New),
    ];
    assert_eq!(value_in(&trial, "silent-losses").unwrap().value, 0.0);
    assert_eq!(value_in(&trial, "retried-losses").unwrap().value, 0.25);
    trial.io_errors[1].witnessed.as_mut().unwrap().first = None;
    assert_eq!(value_in(&trial, "silent-losses").unwrap().value, 0.25);
}

#[test]
fn the_response_of_a_flow_is_that_of_its_slowest_role_in_front() {
    let slow = Latency { at_least_from: None, ..latency() };
    let latency_of = |factor: u64| Latency {
        quantiles: Quantiles::of(|quantile| factor * slow.quantiles[quantile]),
        ..slow.clone()
    };
    let client = |which: Role, factor: u64, background: bool| {
        let rate = Some(Pace::At(Rate { per_second: 5.0, arrivals: Arrivals::Constant }));
        let spec = FlowRole { background, rate, ..FlowRole::of(which) };
        let mut result = role(which, 1, 1e6);
        result.operations.push(sample(Operation::ResponseTime, latency_of(factor)));
        (spec, result)
    };
    let (specs, results): (Vec<FlowRole>, Vec<RoleResult>) =
        [client(Role::Client, 2, false), client(Role::Reader, 3, false), client(Role::Logger, 9, true)]
            .into_iter()
            .unzip();
    let flow = Flow { roles: flow::FlowRoles(specs), ..Flow::default() };
    let mut trial =
        TrialRecord { workload: Workload::Flow(flow), phases: vec![phase("flow", results)], ..trial() };
    let figure = |trial: &TrialRecord, name: &str| value_in(trial, name).map(|value| value.value);
    assert_eq!(figure(&trial, "flow-response-p99"), Some(3.0 * 99.0));
    assert_eq!(figure(&trial, "flow-response-p999"), Some(3.0 * 999.0));
    assert_eq!(figure(&trial, "flow/logger/response time/p99"), Some(9.0 * 99.0));
    assert_eq!(figure(&trial, "flow-iterations"), Some(21.0));
    // One that is only a lower bound may be the longest.
    trial.phases[0].roles[0].operations[0].lat_ns.at_least_from = Some(1);
    assert!(value_in(&trial, "flow-response-p99").is_some_and(|value| value.at_least));
    trial.phases[0].roles.iter_mut().for_each(|role| role.operations.clear());
    assert_eq!(figure(&trial, "flow-response-p99"), None);
}
