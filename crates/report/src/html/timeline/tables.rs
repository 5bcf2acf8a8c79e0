//! The tables behind the chart: the same by slices of time, and the slowest operations one by one.

use super::{device_busy, has_timeline, of_device, processors_busy, slowest};
use crate::html::chart::Table;
use crate::merge::Time;
use crate::text;
use fsdyno_core::result::{PhaseResult, RoleResult};
use fsdyno_core::telemetry::Telemetry;

/// Rows of the table by slices.
pub(super) const SLICES: usize = 20;

/// The same by slices of time: the longest operation and the rate of each role, and the telemetry.
pub(super) fn slices(phase: &PhaseResult) -> Table {
    let window = phase.window_ns.as_secs_f64();
    let slice = window / SLICES as f64;
    let mut head = vec!["from second".to_string()];
    for role in &phase.roles {
        head.push(format!("{} longest", role.role.name()));
        head.push(format!("{} MB/s", role.role.name()));
    }
    let with_telemetry = phase.telemetry.as_ref().filter(|telemetry| !telemetry.samples.is_empty());
    if with_telemetry.is_some() {
        head.extend(
            ["device read MB/s", "device written MB/s", "device busy %", "processors busy %"]
                .map(str::to_string),
        );
    }
    let row = |index: usize| {
        let (from, to) = (index as f64 * slice, (index + 1) as f64 * slice);
        let mut cells = vec![text::number(from)];
        for role in &phase.roles {
            cells.extend(role_slice(role, from, to));
        }
        if let Some(telemetry) = with_telemetry {
            cells.extend(telemetry_slice(telemetry, (from + to) / 2.0));
        }
        cells
    };
    let rows = if phase.roles.iter().any(has_timeline) { (0..SLICES).map(row).collect() } else { Vec::new() };
    Table { caption: format!("{}, by slices of the window", phase.name), head, rows }
}

fn role_slice(role: &RoleResult, from: f64, to: f64) -> [String; 2] {
    let (mut longest_ns, mut bytes) = (0, 0);
    for operation in &role.operations {
        let interval = operation.timeline.interval_ns.as_secs_f64();
        // By the middle of an interval, so that each counts in one slice.
        let within = |index: usize| (from..to).contains(&((index as f64 + 0.5) * interval));
        let of = |values: &[u64]| -> Vec<u64> {
            values.iter().enumerate().filter(|(index, _)| within(*index)).map(|(_, value)| *value).collect()
        };
        longest_ns = longest_ns.max(of(&operation.timeline.max_ns).into_iter().max().unwrap_or(0));
        bytes += of(&operation.timeline.bytes).into_iter().sum::<u64>();
    }
    let longest = match longest_ns {
        0 => "-".to_string(),
        ns => text::time(Time { ns, at_least: false }),
    };
    [longest, text::number(bytes as f64 / 1e6 / (to - from))]
}

fn telemetry_slice(telemetry: &Telemetry, at: f64) -> [String; 4] {
    let at_ns = (at * 1e9) as u64;
    let sample = telemetry.samples.iter().find(|sample| at_ns < sample.start_ns + sample.length_ns.0);
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_string(), text::number);
    [
        cell(sample.and_then(|sample| of_device(sample, |activity| activity.read_bytes))),
        cell(sample.and_then(|sample| of_device(sample, |activity| activity.write_bytes))),
        cell(sample.and_then(device_busy)),
        cell(sample.and_then(processors_busy)),
    ]
}

pub(super) fn slowest_operations(phase: &PhaseResult) -> Table {
    let head = ["start, s", "role", "operation", "took", "path"].map(str::to_string).to_vec();
    let mut rows = Vec::new();
    for role in &phase.roles {
        for (operation, slow) in slowest(role) {
            let result = role.operations.iter().find(|result| result.operation == operation);
            let at_least = result.is_some_and(|result| result.lat_ns.is_bound(slow.duration_ns));
            rows.push(vec![
                format!("{:.3}", slow.start_ns as f64 / 1e9),
                role.role.name().to_string(),
                operation.name().to_string(),
                text::time(Time { ns: slow.duration_ns, at_least }),
                slow.path.clone(),
            ]);
        }
    }
    Table { caption: format!("{}, the slowest operations", phase.name), head, rows }
}
