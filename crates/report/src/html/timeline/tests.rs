//! Timelines of hand-made trials.

use super::*;
use crate::fixture;
use fsdyno_core::result::{InFlight, Outage, SlowOperation};

fn slow(start_ms: u64, duration_ms: u64) -> SlowOperation {
    let path = "w1/d0/f3".to_string();
    SlowOperation { start_ns: start_ms * 1_000_000, duration_ns: duration_ms * 1_000_000, path }
}

/// The phase with readers and writers. Opening a file took a writer 5 s; closing files took 2 s, overlapping
/// with that, and 40 ms.
fn phase() -> PhaseResult {
    let mut phase = fixture::with_telemetry(fixture::trials()).remove(0).phases.remove(2);
    for operation in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
        operation.slowest.clear();
        operation.timeline = Timeline {
            interval_ns: Nanos::from_millis(100),
            count: vec![10; 300],
            sum_ns: vec![1_000_000; 300],
            max_ns: [vec![400_000; 299], vec![0]].concat(),
            bytes: vec![1_000_000; 300],
        };
    }
    let writers = &mut phase.roles[0].operations;
    writers[0].slowest = vec![slow(3_000, 5_000)];
    writers[3].slowest = vec![slow(7_000, 2_000), slow(20_000, 40)];
    phase
}

#[test]
fn stalls_that_touch_are_one_and_end_with_the_window() {
    let mut phase = phase();
    assert_eq!(stalls(&phase.roles[0], &phase), [(3.0, 9.0)]);
    let blocked = InFlight {
        worker: 0,
        operation: Operation::Mkdirat,
        start_ns: -2_000_000_000,
        duration_ns: Nanos::from_secs(3),
        at_least: false,
    };
    phase.roles[0].blocked_at_start = vec![blocked.clone()];
    phase.roles[0].worker_results[0].unfinished =
        Some(InFlight { start_ns: 28_000_000_000, duration_ns: Nanos::from_secs(32), ..blocked });
    assert_eq!(stalls(&phase.roles[0], &phase), [(0.0, 1.0), (3.0, 9.0), (28.0, 30.0)]);
    assert_eq!(stalls(&phase.roles[1], &phase), []);
}

#[test]
fn an_outage_of_the_server_is_outlined_across_all_parts() {
    let outlines = |phase: &PhaseResult| -> Vec<Value> {
        let (chart, _) = chart(phase);
        let shapes = chart.layout["shapes"].as_array().unwrap();
        shapes.iter().filter(|shape| shape["yref"] == "paper").cloned().collect()
    };
    let mut phase = phase();
    assert_eq!(outlines(&phase), [] as [Value; 0]);
    let (start_ns, duration_ns) = (Nanos::from_secs(3), Nanos::from_millis(11_300));
    phase.outage = Some(Outage { start_ns, duration_ns });
    let found = outlines(&phase);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0]["x0"].as_f64(), found[0]["x1"].as_f64()), (Some(3.0), Some(14.3)));
    let (chart, _) = chart(&phase);
    let annotations = chart.layout["annotations"].as_array().unwrap();
    let words: Vec<_> = annotations.iter().filter(|one| one["text"] == "server away").collect();
    assert_eq!((words.len(), words[0]["x"].as_f64()), (1, Some(3.0)));
}

#[test]
fn all_parts_share_one_time_axis() {
    let (chart, height) = chart(&phase());
    // Two roles, their rates, the device and what was busy: one above the other.
    let domains: Vec<f64> = ["yaxis", "yaxis2", "yaxis3", "yaxis4", "yaxis5"]
        .map(|axis| chart.layout[axis]["domain"][1].as_f64().unwrap())
        .to_vec();
    assert!(domains.is_sorted_by(|above, below| above > below), "{domains:?}");
    assert_eq!(chart.layout["xaxis"]["anchor"], "y5");
    assert_eq!(chart.layout["yaxis"]["range"], chart.layout["yaxis2"]["range"], "one scale for both roles");
    assert_eq!(f64::from(height), chart.layout["height"].as_f64().unwrap());
    assert_eq!(chart.layout["shapes"].as_array().unwrap().len(), 1);
    let heading = &chart.layout["annotations"][2]["text"];
    assert_eq!(heading, "data moved: writers (solid), readers (dotted), MB/s");
}

#[test]
fn a_slow_operation_is_a_line_from_its_start_to_its_end() {
    let (chart, _) = chart(&phase());
    let slowest: Vec<&Value> = chart.data.iter().filter(|trace| trace["meta"] == "slowest").collect();
    assert_eq!(slowest.len(), 2, "of the writers' openat and close");
    assert_eq!(slowest[0]["x"], json!([3.0, 8.0, null]));
    assert_eq!(slowest[0]["y"], json!([5.0, 5.0, null]));
    let words = slowest[0]["hovertext"][0].as_str().unwrap();
    assert_eq!(words, "writer openat, 5.00 s from 3.000 s<br>w1/d0/f3");
}

#[test]
fn an_interval_without_an_operation_has_no_point() {
    let (chart, _) = chart(&phase());
    let maxima = chart.data[0]["y"].as_array().unwrap();
    assert_eq!((maxima.len(), &maxima[0], &maxima[299]), (300, &json!(0.0004), &Value::Null));
    assert_eq!((&chart.data[0]["x0"], &chart.data[0]["dx"]), (&json!(0.05), &json!(0.1)));
}

#[test]
fn a_long_phase_is_thinned_to_points_that_can_be_distinguished() {
    let timeline = Timeline {
        interval_ns: Nanos::from_millis(100),
        count: vec![1; 1000],
        sum_ns: vec![3; 1000],
        max_ns: (0..1000).collect(),
        bytes: vec![2; 1000],
    };
    let thinned = thinned(&timeline);
    assert_eq!((thinned.count.len(), thinned.interval_ns), (250, Nanos::from_millis(400)));
    assert_eq!((thinned.count[0], thinned.sum_ns[0], thinned.max_ns[0], thinned.bytes[0]), (4, 12, 3, 8));
}

#[test]
fn the_tables_have_the_same_figures() {
    let (chart, _) = chart(&phase());
    let [slices, slowest] = &chart.tables[..] else { panic!("two tables") };
    assert_eq!(slices.rows.len() as u64, tables::SLICES);
    assert!(slices.rows.iter().all(|row| row.len() == slices.head.len()));
    // 15 intervals of 100 ms with 5 operations of 1 MB each, in 1.5 s.
    assert_eq!(slices.rows[0][..3], ["0", "400us", "50.0"]);
    assert_eq!(slowest.rows[0], ["3.000", "writer", "openat", "5.00s", "w1/d0/f3"]);
}

/// A phase of this length in which every operation of every role moves 1 MB in each interval of 100 ms, and
/// proportionally less in a shorter last interval.
fn even(window_ms: u64) -> PhaseResult {
    let mut phase = phase();
    phase.window_ns = Nanos::from_millis(window_ms);
    let intervals = window_ms.div_ceil(100) as usize;
    let last = (window_ms - 100 * (intervals as u64 - 1)) * 10_000;
    for operation in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
        operation.timeline = Timeline {
            interval_ns: Nanos::from_millis(100),
            count: vec![10; intervals],
            sum_ns: vec![1_000_000; intervals],
            max_ns: vec![400_000; intervals],
            bytes: [vec![1_000_000; intervals - 1], vec![last]].concat(),
        };
    }
    phase
}

/// 70 s are 234 points of 300 ms, except the last, which has 100 ms; the last interval of 2.13 s has 30 ms.
#[test]
fn an_even_rate_is_drawn_even_to_the_end_of_the_window() {
    for window_ms in [70_000, 2_130, 40] {
        let (chart, _) = chart(&even(window_ms));
        let rate = chart.data.iter().find(|trace| trace["meta"] == "rate").unwrap();
        let values: Vec<f64> =
            rate["y"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        assert!(values.iter().all(|value| (value / 50.0 - 1.0).abs() < 1e-3), "{window_ms}: {values:?}");
    }
}

#[test]
fn slices_of_a_short_window_have_whole_intervals() {
    for (window_ms, slices) in [(30_000, 20), (70_000, 20), (3_100, 16), (2_130, 11), (1_000, 10), (40, 1)] {
        let (chart, _) = chart(&even(window_ms));
        let rows = &chart.tables[0].rows;
        assert_eq!(rows.len(), slices, "{window_ms}");
        assert!(rows.iter().all(|row| row[2] == "50.0"), "{window_ms}: {rows:?}");
    }
    let (chart, _) = chart(&even(3_100));
    assert_eq!(chart.tables[0].rows[1][0], "0.200");
}

#[test]
fn a_program_without_a_timeline_has_no_chart() {
    let mut phase = fixture::rated("write block", fsdyno_core::Role::Writer, 1e6, 0.0);
    assert!(!has_chart(&phase));
    phase.telemetry = Some(Telemetry::default());
    assert!(has_chart(&phase));
}

#[test]
fn a_role_with_a_rate_shows_its_backlog() {
    let mut trial = fixture::searched_trials().remove(0);
    let phase = &mut trial.phases[0];
    for operation in &mut phase.roles[0].operations {
        operation.timeline = Timeline {
            interval_ns: Nanos::from_millis(100),
            count: vec![10; 300],
            sum_ns: vec![1_000_000; 300],
            max_ns: vec![if operation.operation.is_an_iteration() { 900_000_000 } else { 400_000 }; 300],
            bytes: Vec::new(),
        };
    }
    let (chart, _) = chart(phase);
    let line = chart.data.iter().find(|trace| trace["meta"] == "backlog").unwrap();
    assert_eq!((&line["y"][7], &line["name"]), (&json!(2), &json!("clients")));
    // Six operations, ten of each in 100 ms: iterations are none of them.
    let rate = chart.data.iter().find(|trace| trace["meta"] == "rate").unwrap();
    assert_eq!(rate["y"][0], 600.0);
    let slices = &chart.tables[0];
    let column = |name: &str| slices.head.iter().position(|head| head == name).unwrap();
    assert_eq!(slices.rows[0][column("client longest")], "400us");
    assert_eq!(slices.rows[0][column("clients' backlog")], "2");
}
