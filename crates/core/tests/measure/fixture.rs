//! Results built by hand.

use fsdyno_core::measure::{Measure, Value};
use fsdyno_core::result::{
    CpuTime, Latency, OperationResult, PhaseResult, Quantile, Quantiles, Rates, RoleResult, Timeline,
    TrialRecord, WorkerResult,
};
use fsdyno_core::workload::Fileserver;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Nanos, Operation, Outcome, Role, Workload};

pub const WINDOW: Nanos = Nanos::from_secs(30);

/// A worker that was watched but has no notable results.
pub fn watched_worker() -> WorkerResult {
    WorkerResult { completed: 1, active_ns: WINDOW, ..WorkerResult::default() }
}

pub fn role(role: Role, workers: u32, bytes_per_s: f64) -> RoleResult {
    RoleResult {
        role,
        workers,
        longest_stall_ns: Some(Nanos::from_millis(u64::from(workers))),
        longest_stall_at_least: false,
        time_over_100ms: Some(0.25),
        time_over_1s: Some(0.125),
        blocked_at_start: vec![],
        rates: Rates {
            data_bytes_per_s: None,
            with_overhead_bytes_per_s: Some(bytes_per_s / 2.0),
            aggregate_bytes_per_s: bytes_per_s,
            operations_per_s: bytes_per_s / 4096.0,
            bytes: 30 * bytes_per_s as u64,
            items_per_s: 7.0,
            items: 210,
        },
        cpu: CpuTime::default(),
        counts: Default::default(),
        longest_item_ns: None,
        removing_ns: None,
        reported_cpu_share: None,
        open_loop: None,
        worker_results: (0..workers).map(|_| watched_worker()).collect(),
        operations: vec![],
    }
}

pub fn phase(name: &str, roles: Vec<RoleResult>) -> PhaseResult {
    PhaseResult { ramp_ns: WINDOW, ..PhaseResult::lasting(name, WINDOW, roles) }
}

pub fn sample(operation: Operation, lat_ns: Latency) -> OperationResult {
    let timeline = Timeline::default();
    OperationResult { operation, censored: 0, lat_ns, histogram: String::new(), timeline, slowest: vec![] }
}

pub fn latency() -> Latency {
    Latency {
        count: 5000,
        min: 1,
        max: 9_000_000,
        mean: 3.5,
        stddev: 4.5,
        quantiles: Quantiles::of(|quantile| match quantile {
            Quantile::P50 => 50,
            Quantile::P90 => 90,
            Quantile::P99 => 99,
            Quantile::P999 => 999,
            Quantile::P9999 => 8_000_000,
        }),
        at_least_from: Some(8_000_000),
    }
}

/// A trial of the fileserver workload with unusual phase names.
pub fn trial() -> TrialRecord {
    let mut reader_under_write = role(Role::Reader, 3, 30e6);
    reader_under_write.operations.push(sample(Operation::ReadFirstByte, latency()));
    let configuration = Configuration { name: "ext4".into(), filesystem: "ext4".into(), settings: [].into() };
    let device = DeviceSpec::image("/image", Bytes(Bytes::GIB));
    let workload = Workload::Fileserver(Fileserver::default());
    TrialRecord {
        phases: vec![
            phase("a", vec![role(Role::Reader, 1, 10e6)]),
            phase("b", vec![role(Role::Reader, 3, 20e6)]),
            phase("c", vec![role(Role::Writer, 2, 40e6), reader_under_write]),
        ],
        ..TrialRecord::new(configuration, device, workload, Outcome::Measured)
    }
}

pub fn value_in(trial: &TrialRecord, measure: &str) -> Option<Value> {
    measure.parse::<Measure>().unwrap().value(trial)
}

pub fn value(measure: &str) -> f64 {
    let value = value_in(&trial(), measure).unwrap_or_else(|| panic!("no value for {measure}"));
    assert!(!value.at_least, "{measure}");
    value.value
}
