//! One phase over time: how long operations took, what stood still, what was moved, and what device and processors did.
//!
//! Everything stands above everything else on one time axis, so that an eye going down from a writer's stall finds what the
//! readers, the device and the processors did meanwhile. The latencies of all roles have the same scale. A point is the
//! longest operation of one kind in an interval; the slowest are drawn again from their start to their end, by name.

mod tables;

use super::chart::{self, Chart, Table, plain, rounded, seconds};
use fsdyno_core::figures::total;
use fsdyno_core::result::{OperationResult, PhaseResult, RoleResult, Timeline};
use fsdyno_core::telemetry::{Sample, Telemetry};
use fsdyno_core::{Nanos, Operation};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use serde_json::{Value, json};

/// Points of a line: more cannot be told apart on a page.
const POINTS_MAX: usize = 300;
/// Slow operations of a role that are drawn from start to end.
const SLOWEST_SHOWN: usize = 24;
/// An operation of this length is shaded as a stall.
const STALL: Nanos = Nanos::from_millis(100);
/// Height of a part with latencies, of another part, and of the space for a heading above each, in pixels.
const LATENCY_HEIGHT: f64 = 190.0;
const PART_HEIGHT: f64 = 92.0;
const GAP: f64 = 40.0;
/// Below the last part: the axis and the legend.
const FOOT: f64 = 110.0;

/// A chart of a phase and its height in pixels.
pub fn chart(phase: &PhaseResult) -> (Chart, u32) {
    let mut parts = Parts::default();
    let latencies = phase.roles.iter().filter(|role| has_timeline(role));
    let scale = scale(phase);
    for role in latencies.clone() {
        parts.begin(&latency_heading(role), LATENCY_HEIGHT, chart::time_axis(scale.0, scale.1));
        let axis = parts.axis();
        parts.shapes.extend(stalls(role, phase).into_iter().map(|span| shade(span, &axis)));
        for (index, operation) in role.operations.iter().enumerate() {
            parts.data.extend(points(role, operation, index, &axis));
        }
        for (index, operation) in role.operations.iter().enumerate() {
            parts.data.extend(slowest_trace(role, operation, index, &axis));
        }
    }
    rates(&mut parts, phase);
    if let Some(telemetry) = &phase.telemetry {
        device(&mut parts, telemetry);
        busy(&mut parts, telemetry);
    }
    let tables = vec![tables::slices(phase), tables::slowest_operations(phase)]
        .into_iter()
        .filter(|table| !table.rows.is_empty());
    let tables = tables.collect();
    parts.finish(phase.window_ns, tables)
}

/// Whether there is anything to draw.
pub fn has_chart(phase: &PhaseResult) -> bool {
    phase.roles.iter().any(has_timeline) || phase.telemetry.is_some()
}

fn has_timeline(role: &RoleResult) -> bool {
    role.operations.iter().any(|operation| !operation.timeline.count.is_empty())
}

fn latency_heading(role: &RoleResult) -> String {
    format!("{}: the slowest operations", text::plural(u64::from(role.workers), role.role.name()))
}

/// The parts of the chart, from the top.
#[derive(Debug, Default)]
struct Parts {
    data: Vec<Value>,
    shapes: Vec<Value>,
    /// Heading, height and axis of each.
    parts: Vec<(String, f64, Value)>,
}

impl Parts {
    fn begin(&mut self, heading: &str, height: f64, axis: Value) {
        self.parts.push((heading.to_string(), height, axis));
    }

    /// The axis of the part that was begun last.
    fn axis(&self) -> String {
        axis_name(self.parts.len().saturating_sub(1))
    }

    fn finish(self, window: Nanos, tables: Vec<Table>) -> (Chart, u32) {
        let height = FOOT + self.parts.iter().map(|(_, height, _)| height + GAP).sum::<f64>();
        let area = height - FOOT;
        let last = axis_name(self.parts.len().saturating_sub(1));
        let mut layout = json!({
            "height": height,
            "margin": { "t": 4, "b": FOOT - 4.0 },
            "xaxis": {
                "anchor": last, "range": [0.0, window.as_secs_f64()], "title": { "text": "seconds into the window" },
            },
            "legend": { "orientation": "h", "itemsizing": "constant", "y": -46.0 / area, "yanchor": "top", "x": 0 },
            "shapes": self.shapes,
            "hovermode": "closest",
        });
        let mut annotations = Vec::new();
        let mut top = area;
        for (index, (heading, height, mut axis)) in self.parts.into_iter().enumerate() {
            let upper = top - GAP + 8.0;
            let lower = upper - height;
            top -= height + GAP;
            axis["domain"] = json!([rounded((lower / area).max(0.0)), rounded(upper / area)]);
            annotations.push(chart::row_title(&heading, rounded(upper / area)));
            layout[format!("yaxis{}", suffix(index))] = axis;
        }
        layout["annotations"] = annotations.into();
        (Chart { data: self.data, layout, tables }, height.round() as u32)
    }
}

fn axis_name(index: usize) -> String {
    format!("y{}", suffix(index))
}

fn suffix(index: usize) -> String {
    if index == 0 { String::new() } else { (index + 1).to_string() }
}

/// The shortest and the longest of all that is drawn as a latency.
fn scale(phase: &PhaseResult) -> (u64, u64) {
    let maxima = || {
        let operations = phase.roles.iter().flat_map(|role| &role.operations);
        operations.flat_map(|operation| operation.timeline.max_ns.iter().copied()).filter(|ns| *ns > 0)
    };
    (maxima().min().unwrap_or(1_000), maxima().max().unwrap_or(1_000_000))
}

/// A timeline with intervals of such length that there are not too many of them.
fn thinned(timeline: &Timeline) -> Timeline {
    let every = timeline.count.len().div_ceil(POINTS_MAX).max(1);
    let sums = |values: &[u64]| values.chunks(every).map(|part| total(part.iter().copied())).collect();
    Timeline {
        interval_ns: Nanos(timeline.interval_ns.0.saturating_mul(every as u64)),
        count: sums(&timeline.count),
        sum_ns: sums(&timeline.sum_ns),
        max_ns: timeline.max_ns.chunks(every).map(|part| part.iter().copied().max().unwrap_or(0)).collect(),
        bytes: sums(&timeline.bytes),
    }
}

/// The longest operation of each interval.
fn points(role: &RoleResult, operation: &OperationResult, index: usize, axis: &str) -> Option<Value> {
    let timeline = thinned(&operation.timeline);
    timeline.max_ns.iter().any(|ns| *ns > 0).then(|| {
        let maxima: Vec<Option<f64>> =
            timeline.max_ns.iter().map(|ns| (*ns > 0).then(|| seconds(*ns))).collect();
        let interval = timeline.interval_ns.as_secs_f64();
        json!({
            "type": "scatter", "mode": "markers", "yaxis": axis,
            "name": name(role, operation.operation), "legendgroup": role.role.name(),
            "x0": rounded(interval / 2.0), "dx": interval, "y": maxima,
            "marker": { "color": chart::colour(index), "symbol": chart::symbol(index), "size": 4, "opacity": 0.75 },
            "hovertemplate": format!(
                "{}: at most %{{y:.3~s}}s<br>in {} around %{{x:.1f}} s<extra></extra>",
                name(role, operation.operation), text::setting(timeline.interval_ns)
            ),
        })
    })
}

fn name(role: &RoleResult, operation: Operation) -> String {
    format!("{} {operation}", role.role.name())
}

/// The slowest of a role that are drawn, each with its operation; the longest first.
fn slowest(role: &RoleResult) -> Vec<(Operation, &fsdyno_core::result::SlowOperation)> {
    let mut all: Vec<_> = role
        .operations
        .iter()
        .flat_map(|result| result.slowest.iter().map(|slow| (result.operation, slow)))
        .collect();
    all.sort_by_key(|(_, slow)| std::cmp::Reverse(slow.duration_ns));
    all.truncate(SLOWEST_SHOWN);
    all
}

/// The slowest of one operation, from start to end, the start marked.
fn slowest_trace(role: &RoleResult, operation: &OperationResult, index: usize, axis: &str) -> Option<Value> {
    let shown: Vec<_> = slowest(role).into_iter().filter(|(of, _)| *of == operation.operation).collect();
    let (mut x, mut y, mut texts, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (_, slow) in &shown {
        let duration = seconds(slow.duration_ns);
        let start = slow.start_ns as f64 / 1e9;
        let time = Time { ns: slow.duration_ns, at_least: operation.lat_ns.is_bound(slow.duration_ns) };
        let words = format!(
            "{}, {} from {:.3} s<br>{}",
            name(role, operation.operation),
            text::time_in_words(time).replace(">=", "at least"),
            start,
            plain(&slow.path)
        );
        x.extend([json!(rounded(start)), json!(rounded(start + duration)), Value::Null]);
        y.extend([json!(duration), json!(duration), Value::Null]);
        texts.extend([words.clone(), words, String::new()]);
        sizes.extend([9, 0, 0]);
    }
    (!shown.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "lines+markers", "yaxis": axis, "showlegend": false,
            "name": format!("slowest {}", name(role, operation.operation)), "legendgroup": role.role.name(),
            "x": x, "y": y, "hovertext": texts, "hoverinfo": "text", "meta": "slowest",
            "line": { "color": chart::colour(index), "width": 2 },
            "marker": {
                "color": chart::colour(index), "symbol": "diamond", "size": sizes,
                "line": { "color": "--paper", "width": 1 },
            },
        })
    })
}

/// When some worker of a role was in an operation of 100 ms or more: from and to, in seconds, apart from each other.
fn stalls(role: &RoleResult, phase: &PhaseResult) -> Vec<(f64, f64)> {
    let window = phase.window_ns.0 as i64;
    let slow = role.operations.iter().flat_map(|operation| &operation.slowest);
    let slow = slow.map(|slow| (slow.start_ns as i64, slow.duration_ns));
    let unfinished = role.worker_results.iter().filter_map(|worker| worker.unfinished.as_ref());
    let edges = role.blocked_at_start.iter().chain(unfinished);
    let edges = edges.map(|blocked| (blocked.start_ns, blocked.duration_ns.0));
    let mut spans: Vec<(i64, i64)> = slow
        .chain(edges)
        .filter(|(_, duration_ns)| *duration_ns >= STALL.0)
        .map(|(start, duration)| (start.max(0), start.saturating_add_unsigned(duration).min(window)))
        .filter(|(start, end)| start < end)
        .collect();
    spans.sort_unstable();
    let mut apart: Vec<(i64, i64)> = Vec::new();
    for (start, end) in spans {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart.into_iter().map(|(start, end)| (start as f64 / 1e9, end as f64 / 1e9)).collect()
}

fn shade((start, end): (f64, f64), axis: &str) -> Value {
    json!({
        "type": "rect", "layer": "below", "xref": "x", "yref": format!("{axis} domain"),
        "x0": rounded(start), "x1": rounded(end), "y0": 0, "y1": 1, "fillcolor": "--stall", "line": { "width": 0 },
    })
}

/// What each role moved or, where nothing moves data, completed.
fn rates(parts: &mut Parts, phase: &PhaseResult) {
    let moves = phase
        .roles
        .iter()
        .flat_map(|role| &role.operations)
        .any(|operation| !operation.timeline.bytes.is_empty());
    let lines: Vec<_> =
        phase.roles.iter().filter_map(|role| Some((role, rate(role, phase.window_ns, moves)?))).collect();
    if lines.is_empty() {
        return;
    }
    let (what, unit) = if moves { ("data moved", "MB/s") } else { ("operations", "/s") };
    let strokes = ["solid", "dotted"];
    let who = lines
        .iter()
        .enumerate()
        .map(|(index, (role, _))| format!("{}s ({})", role.role, strokes[index.min(1)]));
    let heading = format!("{what}: {}, {unit}", who.collect::<Vec<_>>().join(", "));
    parts.begin(&heading, PART_HEIGHT, json!({ "rangemode": "tozero", "nticks": 4 }));
    let axis = parts.axis();
    for (index, (role, (interval, values))) in lines.into_iter().enumerate() {
        let name = format!("{}s", role.role.name());
        parts.data.push(json!({
            "type": "scatter", "mode": "lines", "yaxis": axis, "name": name, "showlegend": false, "meta": "rate",
            "x0": rounded(interval / 2.0), "dx": interval, "y": values,
            "line": { "color": chart::colour(index), "dash": (if index == 0 { "solid" } else { "dot" }), "width": 1.5 },
            "hovertemplate": format!("{name}: %{{y:.3~s}} {unit} around %{{x:.1f}} s<extra></extra>"),
        }));
    }
}

/// MB/s or operations per second of a role in each interval, and the length of these in seconds.
fn rate(role: &RoleResult, window: Nanos, bytes: bool) -> Option<(f64, Vec<f64>)> {
    let timelines = role.operations.iter().map(|operation| thinned(&operation.timeline));
    let of = |timeline: Timeline| {
        let values = if bytes { timeline.bytes } else { timeline.count };
        (timeline.interval_ns, values)
    };
    let values: Vec<(Nanos, Vec<u64>)> = timelines.map(of).filter(|(_, values)| !values.is_empty()).collect();
    let interval = values.first()?.0;
    let length = values.iter().map(|(_, values)| values.len()).max()?;
    let unit = if bytes { 1e6 } else { 1.0 };
    let sum =
        |index: usize| -> u64 { total(values.iter().filter_map(|(_, values)| values.get(index).copied())) };
    // The window may end within the last interval.
    let end_ns = |index: usize| window.0.min(interval.0.saturating_mul(index as u64));
    let lasted = |index: usize| Nanos(end_ns(index + 1) - end_ns(index)).as_secs_f64();
    let per_second = |index| rounded(sum(index) as f64 / unit / lasted(index));
    Some((interval.as_secs_f64(), (0..length).map(per_second).collect()))
}

/// Steps from sample to sample; nothing where no sample has a value.
fn steps(telemetry: &Telemetry, value: impl Fn(&Sample) -> Option<f64>) -> Option<(Vec<f64>, Vec<f64>)> {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let mut end = 0.0;
    for sample in &telemetry.samples {
        if let Some(value) = value(sample) {
            x.push(rounded(sample.start_ns as f64 / 1e9));
            y.push(rounded(value));
            end = sample.end_ns() as f64 / 1e9;
        }
    }
    let last = *y.last()?;
    x.push(rounded(end));
    y.push(last);
    Some((x, y))
}

fn step_trace(axis: &str, name: &str, unit: &str, index: usize, (x, y): (Vec<f64>, Vec<f64>)) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "yaxis": axis, "name": name, "showlegend": false, "meta": "telemetry",
        "x": x, "y": y,
        "line": {
            "shape": "hv", "color": chart::colour(index), "dash": (if index == 0 { "solid" } else { "dot" }), "width": 1.5,
        },
        "hovertemplate": format!("{name}: %{{y:.3~g}} {unit} from %{{x:.1f}} s<extra></extra>"),
    })
}

fn of_device(sample: &Sample, bytes: fn(&fsdyno_core::telemetry::DeviceActivity) -> u64) -> Option<f64> {
    let activity = sample.devices.first()?.as_ref()?;
    Some(bytes(activity) as f64 / 1e6 / sample.length_ns.as_secs_f64())
}

fn device(parts: &mut Parts, telemetry: &Telemetry) {
    let lines = [
        ("device reads", steps(telemetry, |sample| of_device(sample, |activity| activity.read_bytes))),
        ("device writes", steps(telemetry, |sample| of_device(sample, |activity| activity.write_bytes))),
    ];
    if lines.iter().all(|(_, line)| line.is_none()) {
        return;
    }
    let device = telemetry.devices.first().map_or("device", String::as_str);
    let heading = format!("{}: read (solid) and written (dotted), MB/s", plain(device));
    parts.begin(&heading, PART_HEIGHT, json!({ "rangemode": "tozero", "nticks": 4 }));
    let axis = parts.axis();
    for (index, (name, line)) in lines.into_iter().enumerate() {
        parts.data.extend(line.map(|line| step_trace(&axis, name, "MB/s", index, line)));
    }
}

/// Share of the time in which the device and the processors were busy, in percent.
fn busy(parts: &mut Parts, telemetry: &Telemetry) {
    let lines = [
        ("device busy", steps(telemetry, device_busy)),
        ("processors busy", steps(telemetry, processors_busy)),
    ];
    if lines.iter().all(|(_, line)| line.is_none()) {
        return;
    }
    let heading = "busy: device (solid), processors (dotted), %";
    parts.begin(heading, PART_HEIGHT, json!({ "range": [0, 104], "tickvals": [0, 50, 100] }));
    let axis = parts.axis();
    for (index, (name, line)) in lines.into_iter().enumerate() {
        parts.data.extend(line.map(|line| step_trace(&axis, name, "%", index, line)));
    }
}

fn device_busy(sample: &Sample) -> Option<f64> {
    let activity = sample.devices.first()?.as_ref()?;
    Some((100.0 * activity.busy_ns as f64 / sample.length_ns.0.max(1) as f64).min(100.0))
}

fn processors_busy(sample: &Sample) -> Option<f64> {
    let cpu = sample.cpu.as_ref()?;
    Some(100.0 * (1.0 - cpu.share(cpu.idle_ns.saturating_add(cpu.iowait_ns))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::{InFlight, SlowOperation};

    fn slow(start_ms: u64, duration_ms: u64) -> SlowOperation {
        let path = "w1/d0/f3".to_string();
        SlowOperation { start_ns: start_ms * 1_000_000, duration_ns: duration_ms * 1_000_000, path }
    }

    /// The phase with readers and writers; a writer opened a file for 5 s, closed one for 2 s meanwhile, and for 40 ms.
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
    fn everything_is_above_everything_else_on_one_axis() {
        let (chart, height) = chart(&phase());
        // Two roles, their rates, the device and what was busy: one above the other.
        let domains: Vec<f64> = ["yaxis", "yaxis2", "yaxis3", "yaxis4", "yaxis5"]
            .map(|axis| chart.layout[axis]["domain"][1].as_f64().unwrap())
            .to_vec();
        assert!(domains.is_sorted_by(|above, below| above > below), "{domains:?}");
        assert_eq!(chart.layout["xaxis"]["anchor"], "y5");
        assert_eq!(
            chart.layout["yaxis"]["range"], chart.layout["yaxis2"]["range"],
            "one scale for both roles"
        );
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
    fn a_long_phase_has_no_more_points_than_can_be_told_apart() {
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
    fn the_tables_tell_the_same() {
        let (chart, _) = chart(&phase());
        let [slices, slowest] = &chart.tables[..] else { panic!("two tables") };
        assert_eq!(slices.rows.len() as u64, tables::SLICES);
        assert!(slices.rows.iter().all(|row| row.len() == slices.head.len()));
        // 15 intervals of 100 ms with 5 operations of 1 MB each, in 1.5 s.
        assert_eq!(slices.rows[0][..3], ["0", "400us", "50.0"]);
        assert_eq!(slowest.rows[0], ["3.000", "writer", "openat", "5.00s", "w1/d0/f3"]);
    }

    /// A phase of this length in which every operation of every role moves 1 MB in each interval of 100 ms, and in what is
    /// left of the last as much as fits.
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

    /// 70 s are 234 points of 300 ms, the last of them of 100 ms; the last interval of 2.13 s has 30 ms.
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
        for (window_ms, slices) in
            [(30_000, 20), (70_000, 20), (3_100, 16), (2_130, 11), (1_000, 10), (40, 1)]
        {
            let (chart, _) = chart(&even(window_ms));
            let rows = &chart.tables[0].rows;
            assert_eq!(rows.len(), slices, "{window_ms}");
            assert!(rows.iter().all(|row| row[2] == "50.0"), "{window_ms}: {rows:?}");
        }
        let (chart, _) = chart(&even(3_100));
        assert_eq!(chart.tables[0].rows[1][0], "0.200");
    }

    #[test]
    fn a_program_that_tells_no_timeline_has_no_chart() {
        let mut phase = fixture::rated("write block", fsdyno_core::Role::Writer, 1e6, 0.0);
        assert!(!has_chart(&phase));
        phase.telemetry = Some(Telemetry::default());
        assert!(has_chart(&phase));
    }
}
