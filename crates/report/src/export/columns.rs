//! The columns of each table, declared once: the name and where the value comes from.

use super::{Cell, ExportKind, Type};
use fsdyno_core::Nanos;
use fsdyno_core::measure::{Measure, Unit};
use fsdyno_core::outcome::Outcome;
use fsdyno_core::result::{
    ClientResult, ClientRole, LifecycleStep, OperationResult, PhaseResult, Quantile, RoleResult, TrialRecord,
};
use fsdyno_core::telemetry::{
    Column as IostatColumn, CpuSplit, Memory, Pressure, Sample, Stalls, TaskKind, Telemetry,
};
use fsdyno_core::{SweepHeader, Workload};
use fsdyno_verdict::Workloads;
use fsdyno_verdict::view::{ClientView, ClientsOfRole};
use std::collections::{BTreeMap, BTreeSet};

/// The subject of a row; each table fills as many levels as it has.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub header: &'a SweepHeader,
    pub trial: &'a TrialRecord,
    pub phase: Option<&'a PhaseResult>,
    pub role: Option<&'a RoleResult>,
    pub operation: Option<&'a OperationResult>,
    /// Index in the operation's timeline.
    pub interval: Option<usize>,
    pub sample: Option<Sampled<'a>>,
    pub client: Option<Client<'a>>,
}

/// A client in a role.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub client: &'a ClientResult,
    pub own: &'a ClientRole,
    /// All clients in this role.
    pub view: &'a ClientsOfRole,
}

/// A device in a sample.
#[derive(Clone, Copy)]
pub(super) struct Sampled<'a> {
    pub telemetry: &'a Telemetry,
    pub sample: &'a Sample,
    /// `None` for the whole window.
    pub index: Option<usize>,
    pub device: usize,
}

impl<'a> Row<'a> {
    pub fn of(header: &'a SweepHeader, trial: &'a TrialRecord) -> Self {
        Row {
            header,
            trial,
            phase: None,
            role: None,
            operation: None,
            interval: None,
            sample: None,
            client: None,
        }
    }
}

/// Where the value of a column comes from.
type CellReader = Box<dyn Fn(&Row<'_>) -> Cell>;

/// A kind of pressure.
type Stalled = fn(&Pressure) -> Option<Stalls>;

/// A column.
pub(super) struct Column {
    pub name: String,
    /// The type of all values that are not absent.
    pub value_type: Type,
    source: CellReader,
}

impl Column {
    pub fn cell(&self, row: &Row<'_>) -> Cell {
        let cell = (self.source)(row);
        debug_assert!(cell.value_type().is_none_or(|found| found == self.value_type), "{}", self.name);
        cell
    }
}

fn column(name: impl Into<String>, value_type: Type, source: impl Fn(&Row<'_>) -> Cell + 'static) -> Column {
    Column { name: name.into(), value_type, source: Box::new(source) }
}

fn text(name: impl Into<String>, source: impl Fn(&Row<'_>) -> Option<String> + 'static) -> Column {
    column(name, Type::Text, move |row| source(row).map_or(Cell::Absent, Cell::Text))
}

fn whole(name: impl Into<String>, source: impl Fn(&Row<'_>) -> Option<u64> + 'static) -> Column {
    column(name, Type::Whole, move |row| source(row).map_or(Cell::Absent, Cell::Whole))
}

fn number(name: impl Into<String>, source: impl Fn(&Row<'_>) -> Option<f64> + 'static) -> Column {
    column(name, Type::Number, move |row| source(row).map_or(Cell::Absent, Cell::Number))
}

fn truth(name: impl Into<String>, source: impl Fn(&Row<'_>) -> Option<bool> + 'static) -> Column {
    column(name, Type::Truth, move |row| source(row).map_or(Cell::Absent, Cell::Truth))
}

/// The columns of a table of these trials.
pub(super) fn of(kind: ExportKind, trials: &[TrialRecord]) -> Vec<Column> {
    let mut columns = identity(trials);
    columns.extend(match kind {
        ExportKind::Trials => of_trials(trials),
        ExportKind::Operations => of_operations(),
        ExportKind::Timeline => of_timeline(),
        ExportKind::Telemetry => of_telemetry(),
        ExportKind::Clients => of_clients(),
    });
    let axes: BTreeSet<&String> =
        trials.iter().flat_map(|trial| trial.configuration.settings.keys()).collect();
    columns.extend(axes.into_iter().map(|axis| {
        let axis = axis.clone();
        text(format!("setting_{axis}"), move |row| row.trial.configuration.settings.get(&axis).cloned())
    }));
    columns
}

/// Returns the column that distinguishes the workload of a trial from those of the others.
fn of_workload(
    name: &str,
    trials: &[TrialRecord],
    called: impl Fn(&Workloads<'_>, &Workload) -> String,
) -> Column {
    let workloads = Workloads::of(trials);
    let of_case = |trial: &TrialRecord| (trial.case, called(&workloads, &trial.workload));
    let by_case: BTreeMap<u32, String> = trials.iter().map(of_case).collect();
    text(name, move |row| by_case.get(&row.trial.case).cloned())
}

/// Returns the columns that identify a trial in every table.
fn identity(trials: &[TrialRecord]) -> Vec<Column> {
    vec![
        text("sweep", |row| Some(row.header.id.clone())),
        text("sweep_name", |row| Some(row.header.name.clone())),
        whole("trial", |row| Some(row.trial.trial.into())),
        whole("block", |row| Some(row.trial.block.into())),
        whole("case", |row| Some(row.trial.case.into())),
        truth("sentinel", |row| Some(row.trial.sentinel)),
        text("configuration", |row| Some(row.trial.configuration.name.clone())),
        text("filesystem", |row| Some(row.trial.configuration.filesystem.clone())),
        of_workload("workload", trials, |workloads, workload| workloads.name(workload).into_owned()),
        text("kernel", |row| nonempty(&row.trial.environment.kernel)),
        text("outcome", |row| Some(row.trial.outcome.word().to_string())),
        text("machine", |row| row.trial.machine.clone()),
    ]
}

fn nonempty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_string())
}

fn of_trials(trials: &[TrialRecord]) -> Vec<Column> {
    let lifecycle = |step: &LifecycleStep| {
        let step = *step;
        whole(format!("{}_ns", step.key()), move |row| step.of(&row.trial.lifecycle_ns).map(|time| time.0))
    };
    let mut columns = vec![
        of_workload("workload_parameters", trials, |workloads, workload| workloads.title(workload)),
        text("error", |row| match &row.trial.outcome {
            Outcome::Failed { error } => Some(error.to_string()),
            _ => None,
        }),
        text("unmet", |row| match &row.trial.outcome {
            Outcome::Skipped { unmet } => Some(unmet.join("; ")),
            _ => None,
        }),
        text("warnings", |row| {
            let mut kinds: Vec<&str> = Vec::new();
            for name in row.trial.warnings.iter().map(|warning| warning.kind.name()) {
                if !kinds.contains(&name) {
                    kinds.push(name);
                }
            }
            nonempty(&kinds.join("; "))
        }),
        text("seed", |row| Some(row.trial.seed.to_string())),
        text("started", |row| nonempty(&row.trial.started)),
        text("finished", |row| nonempty(&row.trial.finished)),
        text("device", |row| Some(row.trial.configuration.device.to_string())),
        text("mkfs_command", |row| nonempty(&row.trial.configuration.built.mkfs_command)),
        text("mount_command", |row| nonempty(&row.trial.configuration.built.mount_command)),
        text("mount_options_in_force", |row| nonempty(&row.trial.configuration.built.mount_options_in_force)),
        text("scheduler_in_force", |row| nonempty(&row.trial.configuration.built.scheduler_in_force)),
    ];
    columns.extend(LifecycleStep::ALL.iter().map(lifecycle));
    columns.extend([
        truth("check_clean", |row| row.trial.check.as_ref().map(|check| check.clean)),
        whole("tree_files", |row| Some(row.trial.trees.files)),
        whole("tree_directories", |row| Some(row.trial.trees.directories)),
        whole("tree_bytes", |row| Some(row.trial.trees.bytes)),
        text("timer", |row| row.trial.timer.as_ref().map(|timer| timer.source.clone())),
        number("timer_overhead_ns_per_op", |row| row.trial.timer.as_ref()?.overhead_ns_per_op),
    ]);
    for measure in Measure::all_of(trials) {
        let has_value = trials.iter().any(|trial| measure.value(trial).is_some());
        // The times of the lifecycle are above.
        if has_value && (!measure.is_of_lifecycle() || measure.unit() == Unit::Extents) {
            columns.extend(of_measure(measure));
        }
    }
    columns
}

/// The value of a measure, with the unit at the end of the name, and whether it is only a lower bound.
fn of_measure(measure: Measure) -> [Column; 2] {
    let unit = measure.unit().name();
    let name = measure.name().replace('-', "_");
    let bound = measure.clone();
    [
        number(format!("{name}_{unit}"), move |row| measure.value(row.trial).map(|value| value.value)),
        truth(format!("{name}_at_least"), move |row| bound.value(row.trial).map(|value| value.at_least)),
    ]
}

/// Phase, role and operation.
fn place() -> Vec<Column> {
    vec![
        text("phase", |row| row.phase.map(|phase| phase.name.clone())),
        whole("window_ns", |row| row.phase.map(|phase| phase.window_ns.0)),
        text("role", |row| row.role.map(|role| role.role.name().to_string())),
    ]
}

fn of_operations() -> Vec<Column> {
    // A zero of a role that was not watched means that the rate is unknown.
    let rate = |name: &str, of: fn(&RoleResult) -> f64| {
        number(name, move |row| {
            row.role
                .map(|role| (role, of(role)))
                .filter(|(role, rate)| role.is_watched() || *rate > 0.0)
                .map(|(_, rate)| rate)
        })
    };
    let cpu = |name: &str, of: fn(&RoleResult) -> Nanos| {
        let known = |role: &&RoleResult| role.is_watched() || role.cpu.total() > Nanos(0);
        whole(name, move |row| row.role.filter(known).map(|role| of(role).0))
    };
    let mut columns = place();
    columns.extend([
        whole("role_workers", |row| row.role.map(|role| role.workers.into())),
        whole("role_longest_stall_ns", |row| row.role?.longest_stall_ns.map(|stall| stall.0)),
        truth("role_longest_stall_at_least", |row| {
            let (phase, role) = (row.phase?, row.role?);
            role.longest_stall_ns.map(|_| role.stall_is_bound(phase.window_ns))
        }),
        number("role_time_over_100ms", |row| row.role?.time_over_100ms),
        number("role_time_over_1s", |row| row.role?.time_over_1s),
        number("role_data_bytes_per_s", |row| row.role?.rates.data_bytes_per_s),
        number("role_with_overhead_bytes_per_s", |row| row.role?.rates.with_overhead_bytes_per_s),
        rate("role_aggregate_bytes_per_s", |role| role.rates.aggregate_bytes_per_s),
        rate("role_operations_per_s", |role| role.rates.operations_per_s),
        rate("role_items_per_s", |role| role.rates.items_per_s),
        number("role_intended_per_s", |row| Some(row.role?.open_loop.as_ref()?.intended_per_s)),
        number("role_achieved_per_s", |row| Some(row.role?.open_loop.as_ref()?.achieved_per_s)),
        whole("role_due", |row| Some(row.role?.open_loop.as_ref()?.due)),
        whole("role_backlog_max", |row| Some(row.role?.open_loop.as_ref()?.backlog_max)),
        cpu("role_cpu_user_ns", |role| role.cpu.user_ns),
        cpu("role_cpu_system_ns", |role| role.cpu.system_ns),
        whole("phase_kernel_threads_cpu_ns", |row| Some(row.phase?.telemetry.as_ref()?.storage_threads_ns())),
    ]);
    columns.extend(of_latency());
    columns
}

fn of_clients() -> Vec<Column> {
    let of_view = |of: fn(&ClientView) -> Option<f64>| {
        move |row: &Row<'_>| {
            let Client { client, view, .. } = row.client?;
            of(view.clients.iter().find(|one| one.client == client.client)?)
        }
    };
    let mut columns = place();
    columns.extend([
        text("client", |row| Some(row.client?.client.client.clone())),
        whole("workers", |row| Some(row.client?.own.work.workers.into())),
        whole("bytes", |row| Some(row.client?.own.work.bytes)),
        whole("completed", |row| Some(row.client?.own.work.completed)),
        whole("active_ns", |row| Some(row.client?.client.active_ns.0)),
        number("share", of_view(|view| view.share)),
        number("role_jain", |row| Some(row.client?.view.fairness?.jain)),
        number("role_slowest_to_median", |row| row.client?.view.slowest_to_median),
        whole("p999_ns", |row| Some(row.client?.own.work.p999_ns?.0)),
        whole("longest_stall_ns", |row| Some(row.client?.own.work.longest_stall_ns.0)),
        truth("longest_stall_at_least", |row| Some(row.client?.own.work.longest_stall_at_least)),
        whole("late_ns", |row| Some(row.client?.client.late_ns?.0)),
        whole("clock_uncertainty_ns", |row| Some(row.client?.client.clock_uncertainty()?.0)),
        number("processors_busy", of_view(|view| view.busy)),
        text("lost", |row| row.client?.client.lost.clone()),
    ]);
    columns
}

fn of_latency() -> Vec<Column> {
    let sampled = |name: &str, of: fn(&OperationResult) -> u64| {
        whole(name, move |row| row.operation.filter(|result| result.lat_ns.count > 0).map(of))
    };
    let moment = |name: &str, of: fn(&OperationResult) -> f64| {
        number(name, move |row| row.operation.filter(|result| result.lat_ns.count > 0).map(of))
    };
    let quantile = |of: &Quantile| {
        let of = *of;
        let known = move |result: &OperationResult| result.lat_ns.known(of);
        whole(format!("lat_ns_{of}"), move |row| {
            row.operation.filter(|result| result.lat_ns.count > 0).and_then(known)
        })
    };
    let mut columns = vec![
        text("operation", |row| row.operation.map(|result| result.operation.name().to_string())),
        whole("count", |row| row.operation.map(|result| result.lat_ns.count)),
        whole("censored", |row| row.operation.map(|result| result.censored)),
        sampled("lat_ns_min", |result| result.lat_ns.min),
        moment("lat_ns_mean", |result| result.lat_ns.mean),
        moment("lat_ns_stddev", |result| result.lat_ns.stddev),
    ];
    columns.extend(Quantile::ALL.iter().map(quantile));
    columns.extend([
        // An operation that covered the whole window is not a sample, but it is the longest.
        whole("lat_ns_max", |row| row.operation.map(|result| result.lat_ns.max).filter(|max| *max > 0)),
        whole("lat_ns_at_least_from", |row| row.operation?.lat_ns.at_least_from),
    ]);
    columns
}

fn of_timeline() -> Vec<Column> {
    let of_interval = |name: &str, of: fn(&OperationResult) -> &[u64]| {
        whole(name, move |row| of(row.operation?).get(row.interval?).copied())
    };
    let mut columns = place();
    columns.extend([
        text("operation", |row| row.operation.map(|result| result.operation.name().to_string())),
        whole("interval", |row| row.interval.map(|interval| interval as u64)),
        whole("start_ns", |row| Some(row.interval? as u64 * row.operation?.timeline.interval_ns.0)),
        whole("length_ns", |row| row.operation.map(|result| result.timeline.interval_ns.0)),
        of_interval("count", |result| &result.timeline.count),
        of_interval("lat_ns_sum", |result| &result.timeline.sum_ns),
        of_interval("lat_ns_max", |result| &result.timeline.max_ns),
        of_interval("bytes", |result| &result.timeline.bytes),
    ]);
    columns
}

fn of_telemetry() -> Vec<Column> {
    let mut columns = vec![
        text("phase", |row| row.phase.map(|phase| phase.name.clone())),
        text("sample", |row| Some(row.sample?.index.map_or("window".to_string(), |index| index.to_string()))),
        whole("start_ns", |row| Some(row.sample?.sample.start_ns)),
        whole("length_ns", |row| Some(row.sample?.sample.length_ns.0)),
        text("device", |row| {
            let Sampled { telemetry, device, .. } = row.sample?;
            telemetry.devices.get(device).cloned()
        }),
    ];
    columns.extend(IostatColumn::ALL.iter().map(|column| {
        number(column.name(), |row| {
            let Sampled { sample, device, .. } = row.sample?;
            Some((*sample.devices.get(device)?)?.value(*column, sample.length_ns))
        })
    }));
    let cpu = CpuSplit::default().parts();
    columns.extend((0..cpu.len()).map(|part| {
        whole(format!("cpu_{}_ns", cpu[part].0), move |row| Some(row.sample?.sample.cpu?.parts()[part].1))
    }));
    let memory = |name: &str, of: fn(&Memory) -> u64| {
        whole(name, move |row| row.sample?.sample.memory.as_ref().map(of))
    };
    columns.extend([
        memory("dirty_bytes", |memory| memory.dirty_bytes),
        memory("dirty_bytes_max", |memory| memory.dirty_bytes_max),
        memory("writeback_bytes", |memory| memory.writeback_bytes),
        memory("writeback_bytes_max", |memory| memory.writeback_bytes_max),
        memory("cached_bytes", |memory| memory.cached_bytes),
        memory("available_bytes", |memory| memory.available_bytes),
    ]);
    let kinds: [(&str, Stalled); 3] =
        [("io", |all| all.io), ("cpu", |all| all.cpu), ("memory", |all| all.memory)];
    columns.extend(kinds.into_iter().flat_map(|(kind, of)| {
        let part = move |name: &str, part: fn(Stalls) -> u64| {
            whole(format!("pressure_{kind}_{name}_ns"), move |row| of(&row.sample?.sample.pressure).map(part))
        };
        [part("some", |stalls| stalls.some_ns), part("full", |stalls| stalls.full_ns)]
    }));
    columns.extend(TaskKind::ALL.iter().map(|kind| {
        whole(format!("tasks_{kind}_ns"), |row| {
            Some(row.sample?.sample.task_ns.get(kind).copied().unwrap_or_default())
        })
    }));
    columns
}
