//! The overhead of the tool on this host, measured before each sweep with short runs of the engine that touch
//! no file.

use super::report::{self, EngineReport, Overhead};
use super::watch::{self, LoadEnd, Looks, Stops};
use crate::plan::Plan;
use fsdyno_core::workload::Null;
use fsdyno_core::{DeviceSpec, Failure, Nanos, TelemetryRequest, Workload};
use fsdyno_host::Host;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The longest window of the run with telemetry. A plan that samples less often has less overhead than this
/// shows.
const LONGEST_WINDOW: Nanos = Nanos::from_millis(500);
/// The shortest, for plans whose own windows are shorter than a sample.
const SHORTEST_WINDOW: Nanos = Nanos::from_millis(100);

/// The number of attempts: on a busy machine a worker may get no processor within a whole window.
const ATTEMPTS: usize = 3;

/// Measures it without telemetry and, if the plan samples telemetry, with it. The null workload touches
/// nothing in `directory`, which must exist.
pub(crate) fn measure(
    plan: &Plan,
    host: &mut dyn Host,
    directory: &Path,
    interrupt: &AtomicBool,
) -> Result<Overhead, Box<Failure>> {
    let mut null = |workload: Null, telemetry: Option<TelemetryRequest>| -> Result<_, Box<Failure>> {
        for _ in 0..ATTEMPTS {
            match null(plan, host, directory, interrupt, workload.clone(), telemetry.clone())? {
                Some(rate) if rate > 0.0 => return Ok(Some(1e9 / rate)),
                Some(_no_operation) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    };
    let ns_per_op = null(Null::default(), None)?;
    let with_telemetry_ns_per_op = match plan.rules.telemetry {
        None => None,
        Some(interval) => {
            let interval = interval.min(longest_window(plan));
            let workload = Null { window: interval, ..Null::default() };
            let telemetry = TelemetryRequest { interval, devices: Vec::new() };
            null(workload, Some(telemetry))?
        }
    };
    Ok(Overhead { ns_per_op, with_telemetry_ns_per_op })
}

/// The longest window of the plan, within limits. Loads without windows end when their work is done.
fn longest_window(plan: &Plan) -> Nanos {
    let timings = plan.workloads.iter().map(|workload| workload.load().timing());
    let windows = timings.map(|timing| if timing.windows > 0 { timing.window } else { LONGEST_WINDOW });
    windows.max().unwrap_or(LONGEST_WINDOW).clamp(SHORTEST_WINDOW, LONGEST_WINDOW)
}

/// The operations per second of a worker of such a run, if it was not interrupted.
fn null(
    plan: &Plan,
    host: &mut dyn Host,
    directory: &Path,
    interrupt: &AtomicBool,
    workload: Null,
    telemetry: Option<TelemetryRequest>,
) -> Result<Option<f64>, Box<Failure>> {
    // Clients know only what they share.
    let directory = match &plan.devices.data {
        DeviceSpec::Directory { path } if plan.clients.is_some() => path,
        _ => directory,
    };
    let mut request = report::request(directory, &Workload::Null(workload), plan.rules.seed, true);
    request.telemetry = telemetry;
    let mut engine = host.start_engine(&request).map_err(|error| Box::new(report::host_failure(&error)))?;
    let mut report = EngineReport::default();
    // It touches nothing, so there is nothing to wait for.
    let stop = Stops { interrupt, hurry: interrupt };
    let mut looks = Looks { progress: &mut |_| {}, room: &mut || None, at_phases: &mut () };
    let load = watch::watch(engine.as_mut(), &request, plan.rules.watchdog, stop, &mut report, &mut looks);
    match (load.end, load.stuck) {
        (LoadEnd::Failed(failure) | LoadEnd::Hung(failure) | LoadEnd::NoRoom(failure), _) => {
            Err(Box::new(failure))
        }
        (_, Some(process)) => Err(Box::new(Failure::new("engine", format!("{process} does not exit")))),
        // The loop over trials sees the interruption.
        (LoadEnd::Interrupted, None) => Ok(None),
        (LoadEnd::Done, None) => {
            let mut roles = report.phases.iter().flat_map(|phase| &phase.roles);
            Ok(roles.next().map(|role| role.rates.operations_per_s / f64::from(role.workers)))
        }
    }
}
