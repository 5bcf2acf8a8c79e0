//! One phase over time: latencies, stalls, data moved, and what the device and the processors did.
//!
//! All parts are above each other on one time axis, so that looking down from a writer's stall shows what the
//! readers, the device and the processors did meanwhile. The latencies of all roles have the same scale. A
//! point is the longest operation of one kind in an interval; the slowest ones are also drawn from start to
//! end, with their paths.

mod tables;

use super::chart::{self, Chart, ChartTable, plain, rounded, seconds};
use fsdyno_core::figures::total;
use fsdyno_core::result::{
    OperationResult, Outage, PhaseResult, RoleResult, SLOWEST_OF_ROLE, STALL, Timeline,
};
use fsdyno_core::telemetry::{Sample, Telemetry};
use fsdyno_core::{Nanos, Operation};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use serde_json::{Value, json};

/// Maximum number of points of a line; more cannot be distinguished on a page.
const POINTS_MAX: usize = 300;
/// Height of a part with latencies, of another part, and of the space for a heading above each, in pixels.
const LATENCY_HEIGHT: f64 = 190.0;
const PART_HEIGHT: f64 = 92.0;
const GAP: f64 = 40.0;
/// Height of the axis and the legend below the last part.
const FOOT: f64 = 110.0;

/// The chart of a phase and its height in pixels.
pub fn chart(phase: &PhaseResult) -> (Chart, u32) {
    let mut parts = ChartParts::default();
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
    backlog(&mut parts, phase);
    if let Some(telemetry) = &phase.telemetry {
        // Whoever works on clients is not on the machine that was watched.
        let whose = if phase.clients.is_empty() { "" } else { "server, " };
        device(&mut parts, telemetry, whose);
        busy(&mut parts, telemetry, whose);
    }
    busy_clients(&mut parts, phase);
    let tables = vec![tables::slices(phase), tables::slowest_operations(phase)]
        .into_iter()
        .filter(|table| !table.rows.is_empty());
    let tables = tables.collect();
    parts.finish(phase, tables)
}

/// Returns whether there is anything to draw.
pub fn has_chart(phase: &PhaseResult) -> bool {
    phase.roles.iter().any(has_timeline) || phase.telemetry.is_some()
}

fn has_timeline(role: &RoleResult) -> bool {
    role.operations.iter().any(|operation| !operation.timeline.count.is_empty())
}

fn latency_heading(role: &RoleResult) -> String {
    format!("{}: the slowest operations", text::workers(role.workers, role.role.name()))
}

/// The parts of the chart, from the top.
#[derive(Debug, Default)]
struct ChartParts {
    data: Vec<Value>,
    shapes: Vec<Value>,
    /// Heading, height and axis of each.
    parts: Vec<(String, f64, Value)>,
}

impl ChartParts {
    fn begin(&mut self, heading: &str, height: f64, axis: Value) {
        self.parts.push((heading.to_string(), height, axis));
    }

    /// The axis of the latest part.
    fn axis(&self) -> String {
        axis_name(self.parts.len().saturating_sub(1))
    }

    fn finish(self, phase: &PhaseResult, tables: Vec<ChartTable>) -> (Chart, u32) {
        let height = FOOT + self.parts.iter().map(|(_, height, _)| height + GAP).sum::<f64>();
        let area = height - FOOT;
        let last = axis_name(self.parts.len().saturating_sub(1));
        let mut layout = json!({
            "height": height,
            "margin": { "t": 4, "b": FOOT - 4.0 },
            "xaxis": {
                "anchor": last, "range": [0.0, phase.window_ns.as_secs_f64()], "title": { "text": "seconds into the \
                 window" },
            },
            "legend": { "orientation": "h", "itemsizing": "constant", "y": -46.0 / area, "yanchor": "top", "x": 0 },
            "shapes": self.shapes.into_iter().chain(phase.outage.as_ref().map(outline)).collect::<Vec<_>>(),
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
            if let (0, Some(outage)) = (index, &phase.outage) {
                annotations.push(json!({
                    "text": "server away", "xref": "x", "x": rounded(outage.start_ns.as_secs_f64()), "xanchor": "left",
                    "yref": "paper", "y": rounded(upper / area), "yanchor": "top", "yshift": -8, "showarrow": false,
                }));
            }
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

/// The shortest and the longest latency that is drawn.
fn scale(phase: &PhaseResult) -> (u64, u64) {
    let maxima = || {
        let operations = phase.roles.iter().flat_map(|role| &role.operations);
        operations.flat_map(|operation| operation.timeline.max_ns.iter().copied()).filter(|ns| *ns > 0)
    };
    (maxima().min().unwrap_or(1_000), maxima().max().unwrap_or(1_000_000))
}

/// A timeline with at most [`POINTS_MAX`] intervals.
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

/// The slow operations of a role that are drawn, the longest first.
fn slowest(role: &RoleResult) -> Vec<(Operation, &fsdyno_core::result::SlowOperation)> {
    let mut all: Vec<_> = role
        .operations
        .iter()
        .flat_map(|result| result.slowest.iter().map(|slow| (result.operation, slow)))
        .collect();
    all.sort_by_key(|(_, slow)| std::cmp::Reverse(slow.duration_ns));
    all.truncate(SLOWEST_OF_ROLE);
    all
}

/// The slowest calls of one operation as lines from start to end, with the start marked.
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
                "color": chart::colour(index), "symbol": chart::opened("diamond", index), "size": sizes,
                "line": { "color": "--paper", "width": 1 },
            },
        })
    })
}

/// When some worker of a role was in an operation of 100 ms or more: disjoint spans in seconds.
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

/// The time in which a server was away, across all parts.
fn outline(outage: &Outage) -> Value {
    let start = outage.start_ns.as_secs_f64();
    json!({
        "type": "rect", "xref": "x", "yref": "paper", "x0": rounded(start),
        "x1": rounded(start + outage.duration_ns.as_secs_f64()), "y0": 0, "y1": 1,
        "line": { "width": 1, "dash": "dot", "color": "--soft" },
    })
}

/// Draws the data that each role moved or, if no operation moves data, the operations that it completed.
fn rates(parts: &mut ChartParts, phase: &PhaseResult) {
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

/// The length of the intervals in seconds, and a role's MB/s or operations per second in each.
fn rate(role: &RoleResult, window: Nanos, bytes: bool) -> Option<(f64, Vec<f64>)> {
    let operations = role.operations.iter().filter(|result| !result.operation.is_an_iteration());
    let timelines = operations.map(|operation| thinned(&operation.timeline));
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

/// Draws the number of iterations of the roles with a rate that were due and had not begun.
fn backlog(parts: &mut ChartParts, phase: &PhaseResult) {
    let paced = || phase.roles.iter().filter_map(|role| Some((role, &role.open_loop.as_ref()?.backlog)));
    if paced().next().is_none() {
        return;
    }
    let who = paced().map(|(role, _)| format!("{}s", role.role)).collect::<Vec<_>>().join(", ");
    parts.begin(
        &format!("iterations due and not begun: {who}"),
        PART_HEIGHT,
        json!({ "rangemode": "tozero", "nticks": 4 }),
    );
    let axis = parts.axis();
    for (index, (role, backlog)) in paced().enumerate() {
        let every = backlog.max.len().div_ceil(POINTS_MAX).max(1);
        let most: Vec<u64> =
            backlog.max.chunks(every).map(|part| part.iter().copied().max().unwrap_or(0)).collect();
        let interval = Nanos(backlog.interval_ns.0.saturating_mul(every as u64)).as_secs_f64();
        let name = format!("{}s", role.role.name());
        parts.data.push(json!({
            "type": "scatter", "mode": "lines", "yaxis": axis, "name": name, "showlegend": false, "meta": "backlog",
            "x0": rounded(interval / 2.0), "dx": interval, "y": most,
            "line": { "color": chart::colour(index), "width": 1.5 },
            "hovertemplate": format!("{name}: at most %{{y}} waiting around %{{x:.1f}} s<extra></extra>"),
        }));
    }
}

/// Steps from sample to sample; `None` if no sample has a value.
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

fn device(parts: &mut ChartParts, telemetry: &Telemetry, whose: &str) {
    let lines = [
        ("device reads", steps(telemetry, |sample| of_device(sample, |activity| activity.read_bytes))),
        ("device writes", steps(telemetry, |sample| of_device(sample, |activity| activity.write_bytes))),
    ];
    if lines.iter().all(|(_, line)| line.is_none()) {
        return;
    }
    let device = telemetry.devices.first().map_or("device", String::as_str);
    let heading = format!("{whose}{}: read (solid) and written (dotted), MB/s", plain(device));
    parts.begin(&heading, PART_HEIGHT, json!({ "rangemode": "tozero", "nticks": 4 }));
    let axis = parts.axis();
    for (index, (name, line)) in lines.into_iter().enumerate() {
        parts.data.extend(line.map(|line| step_trace(&axis, name, "MB/s", index, line)));
    }
}

/// Share of the time in which the device and the processors were busy, in percent.
fn busy(parts: &mut ChartParts, telemetry: &Telemetry, whose: &str) {
    let lines = [
        ("device busy", steps(telemetry, device_busy)),
        ("processors busy", steps(telemetry, processors_busy)),
    ];
    if lines.iter().all(|(_, line)| line.is_none()) {
        return;
    }
    let heading = format!("{whose}busy: device (solid), processors (dotted), %");
    parts.begin(&heading, PART_HEIGHT, json!({ "range": [0, 104], "tickvals": [0, 50, 100] }));
    let axis = parts.axis();
    for (index, (name, line)) in lines.into_iter().enumerate() {
        parts.data.extend(line.map(|line| step_trace(&axis, name, "%", index, line)));
    }
}

/// The same of the processors of each client.
fn busy_clients(parts: &mut ChartParts, phase: &PhaseResult) {
    let lines = phase.clients.iter().filter_map(|client| {
        Some((client.client.as_str(), steps(client.telemetry.as_ref()?, processors_busy)?))
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let heading = "processors of each client busy, %";
    parts.begin(heading, PART_HEIGHT, json!({ "range": [0, 104], "tickvals": [0, 50, 100] }));
    let axis = parts.axis();
    for (index, (client, line)) in lines.into_iter().enumerate() {
        parts.data.push(step_trace(&axis, &plain(client), "%", index, line));
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
mod tests;
