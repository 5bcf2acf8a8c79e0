//! The tables behind the chart: the same figures by slices of time, and the slowest operations.

use super::{device_busy, of_device, processors_busy, slowest};
use crate::html::chart::ChartTable;
use fsdyno_core::figures::{grow, total};
use fsdyno_core::result::{Backlog, PhaseResult, RoleResult};
use fsdyno_core::telemetry::Telemetry;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use std::ops::Range;

/// Maximum number of slices.
pub(super) const SLICES: u64 = 20;

/// The longest operation and the rate of each role, and the telemetry, by slices of time. A slice consists of
/// whole intervals of the timelines, so that no interval counts in two slices.
pub(super) fn slices(phase: &PhaseResult) -> ChartTable {
    let mut head = vec!["from second".to_string()];
    for role in &phase.roles {
        head.push(format!("{} longest", role.role.name()));
        head.push(format!("{} MB/s", role.role.name()));
        head.extend(role.open_loop.as_ref().map(|_| format!("{}s' backlog", role.role.name())));
    }
    let with_telemetry = phase.telemetry.as_ref().filter(|telemetry| !telemetry.samples.is_empty());
    if with_telemetry.is_some() {
        head.extend(
            ["device read MB/s", "device written MB/s", "device busy %", "processors busy %"]
                .map(str::to_string),
        );
    }
    let window_ns = phase.window_ns.0;
    // Intervals grow by doubling, so the longest is a multiple of every other.
    let operations = phase.roles.iter().flat_map(|role| &role.operations);
    let timelines =
        operations.map(|operation| &operation.timeline).filter(|timeline| !timeline.count.is_empty());
    let interval_ns = timelines.map(|timeline| timeline.interval_ns.0).max().unwrap_or(0);
    let slice_ns = match interval_ns {
        0 => 0,
        interval_ns => interval_ns.saturating_mul(window_ns.div_ceil(interval_ns).div_ceil(SLICES).max(1)),
    };
    let row = |from_ns: u64| {
        let to_ns = window_ns.min(from_ns.saturating_add(slice_ns));
        let mut cells = vec![text::number(from_ns as f64 / 1e9)];
        for role in &phase.roles {
            cells.extend(role_slice(role, from_ns..to_ns));
            cells.extend(
                role.open_loop.as_ref().map(|kept_up| most_waiting(&kept_up.backlog, from_ns..to_ns)),
            );
        }
        if let Some(telemetry) = with_telemetry {
            cells.extend(telemetry_slice(telemetry, from_ns.midpoint(to_ns)));
        }
        cells
    };
    let begins =
        (0..SLICES).map(|index| slice_ns.saturating_mul(index)).take_while(|from_ns| *from_ns < window_ns);
    let rows = if slice_ns > 0 { begins.map(row).collect() } else { Vec::new() };
    ChartTable { caption: format!("{}, by slices of the window", phase.name), head, rows }
}

fn role_slice(role: &RoleResult, slice_ns: Range<u64>) -> [String; 2] {
    let (mut longest_ns, mut bytes) = (0, 0);
    for operation in role.operations.iter().filter(|result| !result.operation.is_an_iteration()) {
        let begins = |index: usize| (index as u64).saturating_mul(operation.timeline.interval_ns.0);
        let of = |values: &[u64]| -> Vec<u64> {
            let within = values.iter().enumerate().filter(|(index, _)| slice_ns.contains(&begins(*index)));
            within.map(|(_, value)| *value).collect()
        };
        longest_ns = longest_ns.max(of(&operation.timeline.max_ns).into_iter().max().unwrap_or(0));
        grow(&mut bytes, total(of(&operation.timeline.bytes)));
    }
    let longest = match longest_ns {
        0 => "-".to_string(),
        ns => text::time(Time { ns, at_least: false }),
    };
    let seconds = (slice_ns.end - slice_ns.start) as f64 / 1e9;
    [longest, text::number(bytes as f64 / 1e6 / seconds)]
}

/// The most iterations that were due and had not begun.
fn most_waiting(backlog: &Backlog, slice_ns: Range<u64>) -> String {
    let begins = |index: usize| (index as u64).saturating_mul(backlog.interval_ns.0);
    let within = backlog.max.iter().enumerate().filter(|(index, _)| slice_ns.contains(&begins(*index)));
    within.map(|(_, most)| *most).max().unwrap_or(0).to_string()
}

fn telemetry_slice(telemetry: &Telemetry, at_ns: u64) -> [String; 4] {
    let sample = telemetry.samples.iter().find(|sample| at_ns < sample.end_ns());
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_string(), text::number);
    [
        cell(sample.and_then(|sample| of_device(sample, |activity| activity.read_bytes))),
        cell(sample.and_then(|sample| of_device(sample, |activity| activity.write_bytes))),
        cell(sample.and_then(device_busy)),
        cell(sample.and_then(processors_busy)),
    ]
}

pub(super) fn slowest_operations(phase: &PhaseResult) -> ChartTable {
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
    ChartTable { caption: format!("{}, the slowest operations", phase.name), head, rows }
}
