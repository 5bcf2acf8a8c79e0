//! A trial beside what the kernel recorded of it.

use crate::calls::{Call, Habits, is_a_call, operations};
use crate::listener::{Overheard, What, Witnessed, device_number};
use fsdyno_core::operation::Moves;
use fsdyno_core::result::{OperationResult, WindowClock};
use fsdyno_core::workload::IoEngine;
use fsdyno_core::{Operation, PhaseResult, Role, TrialRecord, WarningKind, Workload};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Medians may differ by this share...
const MEDIAN_SHARE: f64 = 0.02;
/// ...or by this many nanoseconds, whichever is more.
const MEDIAN_NS: f64 = 100.0;
/// If the kernel's median is between two that differ by more than this factor, it is in a gap between quick
/// operations and slow ones, and means nothing.
const GAP: f64 = 1.5;
/// With fewer operations, one that was interrupted between the clock and the kernel decides the median.
const FEW: u64 = 20;

/// The kernel's account of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Testimony {
    /// One for each operation of each role and phase.
    pub rows: Vec<Row>,
    /// One for each phase with telemetry, on the device with the filesystem.
    pub devices: Vec<DeviceRow>,
    /// Events that were lost: then nothing is proven.
    pub lost: u64,
}

/// One operation of a role in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Kind of the workload, with what distinguishes it from others of its kind.
    pub workload: String,
    /// Name of the phase.
    pub phase: String,
    /// The role.
    pub role: Role,
    /// The operation.
    pub operation: Operation,
    /// Operations that started in the window.
    pub count: Agreement,
    /// The bytes that they moved; absent if they move nothing, or if the kernel does not say (rings).
    pub bytes: Option<Agreement>,
    /// Their time; absent if there are too few, if half of them are much slower than the other half, and for
    /// requests to rings, whose end the kernel sees before the engine looks.
    pub median: Option<Median>,
    /// The activity of others on the processors meanwhile, if it was enough to shift medians: an operation
    /// that is interrupted between the engine's clock and the kernel's takes longer in one of the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
}

/// A device in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Kind of the workload, with what distinguishes it from others of its kind.
    pub workload: String,
    /// Name of the phase.
    pub phase: String,
    /// Kernel name of the device.
    pub device: String,
    /// Bytes read from it.
    pub read: Agreement,
    /// Bytes written to it.
    pub written: Agreement,
}

/// A number that the engine reports, and what the kernel allows for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// The number that the engine reports.
    pub reported: u64,
    /// The range in which it must be.
    pub kernel: Range,
}

/// A number within bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

/// Two medians, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Median {
    /// Between the engine's two readings of the clock.
    pub reported_ns: f64,
    /// The time that the way into the kernel and out of it takes.
    pub way: Way,
    /// Between entry and exit. If operations are in doubt, the median is one of several.
    pub kernel_ns: Range,
}

/// The time that the way into the kernel and out of it takes, between the engine's two readings of the clock
/// and the kernel's two tracepoints, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// If the processor's caches have everything that it needs.
    pub warm_ns: f64,
    /// If they have nothing of it, as after an operation that needed them itself.
    pub cold_ns: f64,
}

impl Agreement {
    /// Returns whether there was nothing to compare.
    fn is_of_nothing(&self) -> bool {
        self.reported == 0 && self.kernel.most == 0
    }

    /// Returns whether the two agree.
    pub fn holds(&self) -> bool {
        (self.kernel.least..=self.kernel.most).contains(&self.reported)
    }
}

impl Median {
    /// By how much the engine's is longer: at least and at most.
    pub fn difference_ns(&self) -> [f64; 2] {
        [self.kernel_ns.most, self.kernel_ns.least].map(|kernel_ns| self.reported_ns - kernel_ns as f64)
    }

    /// Returns whether the difference is the way into the kernel and out of it, within 2 % of the median or
    /// 100 ns.
    pub fn holds(&self) -> bool {
        let tolerance_ns = (MEDIAN_SHARE * self.reported_ns).max(MEDIAN_NS);
        let [least, most] = self.difference_ns();
        most >= self.way.warm_ns - tolerance_ns && least <= self.way.cold_ns + tolerance_ns
    }
}

impl Row {
    /// Each comparison, and whether it agrees; none of nothing with nothing.
    pub fn comparisons(&self) -> impl Iterator<Item = bool> {
        let numbers = [Some(self.count), self.bytes].into_iter().flatten().filter(|one| !one.is_of_nothing());
        numbers.map(|one| one.holds()).chain(self.median.map(|median| median.holds()))
    }

    /// Returns whether all comparisons agree.
    pub fn holds(&self) -> bool {
        self.comparisons().all(|holds| holds)
    }

    /// Returns whether nothing but the median differs, in a trial in which others may be the reason. Numbers
    /// and bytes are the same on a busy machine.
    pub fn is_disturbed(&self) -> bool {
        let exact = self.count.holds() && self.bytes.is_none_or(|bytes| bytes.holds());
        self.disturbed.is_some() && exact && !self.holds()
    }
}

impl DeviceRow {
    /// Each comparison, and whether it agrees; none of nothing with nothing.
    pub fn comparisons(&self) -> impl Iterator<Item = bool> {
        [self.read, self.written].into_iter().filter(|one| !one.is_of_nothing()).map(|one| one.holds())
    }

    /// Returns whether both numbers agree.
    pub fn holds(&self) -> bool {
        self.read.holds() && self.written.holds()
    }
}

impl Testimony {
    /// Puts a trial beside what was heard of it.
    pub fn of(trial: &TrialRecord, heard: Overheard, way: Way) -> Testimony {
        let Overheard { mut moments, mut names, lost } = heard;
        moments.sort_by_key(|moment| (moment.thread, moment.time_ns));
        names.sort_by_key(|(thread, since_ns, _)| (*thread, *since_ns));
        let threads = Threads { moments: &moments, names: &names };
        let workload = &label(&trial.workload);
        let disturbed = disturbance(trial);
        let mut testimony = Testimony { lost, ..Testimony::default() };
        for phase in &trial.phases {
            let Some(clock) = phase.clock else { continue };
            for role in &phase.roles {
                let habits = Habits {
                    performed: role.operations.iter().map(|one| one.operation).collect(),
                    opens_directories_since_ns: match trial.workload {
                        // Before, it opens those that it works in.
                        Workload::Bonnie(_) => Some(clock.begin_ns),
                        // Those of the ramp are closed in the window.
                        Workload::Scan(_) => Some(0),
                        _ => None,
                    },
                    begin_ns: clock.begin_ns,
                };
                let calls = threads.calls(role.role, clock, &habits);
                let of = |one: &OperationResult| Row {
                    disturbed: disturbed.clone(),
                    ..row(workload, (&phase.name, clock), role.role, one, &calls, way)
                };
                testimony.rows.extend(role.operations.iter().filter(|one| is_a_call(one.operation)).map(of));
            }
            testimony.devices.extend(device(workload, trial, phase, &moments));
        }
        testimony
    }

    /// Each comparison, and whether it agrees; if events were lost, none does.
    pub fn comparisons(&self) -> impl Iterator<Item = bool> {
        let rows = self.rows.iter().flat_map(Row::comparisons);
        rows.chain(self.devices.iter().flat_map(DeviceRow::comparisons)).map(|holds| holds && self.lost == 0)
    }
}

/// Returns the text on the processor time that others took during a trial, if that is worth a warning.
fn disturbance(trial: &TrialRecord) -> Option<String> {
    let takes = |kind| matches!(kind, WarningKind::ForeignLoad | WarningKind::StealTime);
    trial.warnings.iter().find(|warning| takes(warning.kind)).map(|warning| warning.text.clone())
}

/// The kind of a workload, and what distinguishes it from others of its kind here.
fn label(workload: &Workload) -> String {
    let detail = match workload {
        Workload::Fileserver(parameters) if parameters.direct => " direct",
        Workload::Streaming(parameters) if parameters.io == IoEngine::IoUring => " io_uring",
        _ => "",
    };
    format!("{}{detail}", workload.kind())
}

/// All threads that were heard.
struct Threads<'a> {
    /// By thread, then by time.
    moments: &'a [Witnessed],
    names: &'a [(u32, u64, String)],
}

impl Threads<'_> {
    /// The operations of the workers of a role that may have started in a window.
    fn calls(&self, role: Role, clock: WindowClock, habits: &Habits) -> Vec<Call> {
        let mut calls = Vec::new();
        for moments in self.moments.chunk_by(|a, b| a.thread == b.thread) {
            let thread = moments[0].thread;
            // Numbers of threads are used again: the last name before the window's end counts.
            let mut names =
                self.names.iter().filter(|(of, since_ns, _)| *of == thread && *since_ns < clock.end_ns);
            let is_of_role = names.next_back().is_some_and(|(_, _, name)| is_worker(name, role));
            if is_of_role {
                let near = operations(moments, habits);
                calls.extend(near.into_iter().filter(|call| is_possible(call, clock)));
            }
        }
        calls
    }
}

/// Workers are called `reader 0`.
fn is_worker(name: &str, role: Role) -> bool {
    name.rsplit_once(' ').is_some_and(|(of, number)| {
        of == role.name() && number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty()
    })
}

/// Returns whether an operation may have started in the window: the engine reads the clock at some moment
/// between the end of the thread's previous call and the beginning of this one.
fn is_possible(call: &Call, clock: WindowClock) -> bool {
    call.enter_ns >= clock.begin_ns && call.after_ns < clock.end_ns
}

/// Returns whether an operation certainly started in the window.
fn is_certain(call: &Call, clock: WindowClock) -> bool {
    call.after_ns >= clock.begin_ns && call.enter_ns < clock.end_ns
}

fn row(
    workload: &str,
    (phase, clock): (&str, WindowClock),
    role: Role,
    reported: &OperationResult,
    calls: &[Call],
    way: Way,
) -> Row {
    let operation = reported.operation;
    let same = || calls.iter().filter(move |call| call.operation == operation);
    let range = |of: fn(&Call) -> u64| Range {
        least: same().filter(|call| is_certain(call, clock)).map(of).sum(),
        most: same().map(of).sum(),
    };
    let through_ring = matches!(operation, Operation::UringRead | Operation::UringWrite);
    // What is read only to be written counts once.
    let once = matches!(role, Role::Rewriter | Role::Copier) && operation == Operation::Read;
    let comparable = operation.moves() != Moves::Nothing && !through_ring && !once && reported.censored == 0;
    let bytes = comparable.then(|| Agreement {
        reported: reported.timeline.bytes.iter().sum(),
        kernel: range(|call| call.value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)),
    });
    let mut durations: Vec<u64> = same().filter_map(|call| Some(call.exit_ns? - call.enter_ns)).collect();
    durations.sort_unstable();
    let count = Agreement { reported: reported.lat_ns.count, kernel: range(|_| 1) };
    let doubt = (count.kernel.most - count.kernel.least) as usize + 1;
    let last = durations.len().saturating_sub(1);
    let median = (count.reported >= FEW && !durations.is_empty()).then(|| Median {
        reported_ns: reported.lat_ns.median() as f64,
        way,
        kernel_ns: Range {
            least: durations[(last / 2).saturating_sub(doubt)],
            most: durations[(durations.len() / 2 + doubt).min(last)],
        },
    });
    let median = median.filter(|median| median.kernel_ns.most as f64 <= GAP * median.kernel_ns.least as f64);
    let (workload, phase) = (workload.to_string(), phase.to_string());
    Row { workload, phase, role, operation, count, bytes, median, disturbed: None }
}

/// Compares the bytes that the device with the filesystem moved between the first and the last reading of its
/// counters. Each reading takes a moment, in which a request may or may not have counted.
fn device(
    workload: &str,
    trial: &TrialRecord,
    phase: &PhaseResult,
    moments: &[Witnessed],
) -> Option<DeviceRow> {
    let telemetry = phase.telemetry.as_ref()?;
    let name = telemetry.devices.first()?;
    let activity = telemetry.filesystem_device(1)?;
    let mut nodes = trial.environment.devices.iter().map(|device| Path::new(&device.path));
    let node = nodes.find(|path| path.file_name().is_some_and(|file| file == name.as_str()))?;
    let number = device_number(node)?;
    let (begin_ns, slack_ns) = (telemetry.began_ns, telemetry.cost.wall_ns_max);
    let end_ns = begin_ns + telemetry.window.length_ns.0;
    let range = |wanted: bool| {
        let mut range = Range::default();
        for moment in moments {
            if let What::Completed { device, bytes, writes } = moment.what
                && device == number
                && writes == wanted
            {
                let time_ns = moment.time_ns;
                range.least += if (begin_ns + slack_ns..end_ns).contains(&time_ns) { bytes } else { 0 };
                range.most += if (begin_ns..end_ns + slack_ns).contains(&time_ns) { bytes } else { 0 };
            }
        }
        range
    };
    Some(DeviceRow {
        workload: workload.to_string(),
        phase: phase.name.clone(),
        device: name.clone(),
        read: Agreement { reported: activity.read_bytes, kernel: range(false) },
        written: Agreement { reported: activity.write_bytes, kernel: range(true) },
    })
}

/// The way into the kernel and out of it: the difference of the medians, over calls of `getppid`, in which
/// the kernel does nothing. `reported`: their times as the engine would measure them, in nanoseconds; `heard`
/// must have been taken right after them.
pub fn way_ns(mut reported: Vec<u64>, heard: &Overheard, thread: u32) -> Option<f64> {
    // Requests of others are completed in whichever thread is interrupted for it.
    let is_call = |moment: &Witnessed| matches!(moment.what, What::Enter { .. } | What::Exit { .. });
    let own = |moment: &Witnessed| moment.thread == thread && is_call(moment);
    let mut moments: Vec<Witnessed> = heard.moments.iter().copied().filter(own).collect();
    moments.sort_by_key(|moment| moment.time_ns);
    let mut durations: Vec<u64> = moments
        .windows(2)
        .filter_map(|pair| match (pair[0].what, pair[1].what) {
            (What::Enter { number: libc::SYS_getppid, .. }, What::Exit { .. }) => {
                Some(pair[1].time_ns - pair[0].time_ns)
            }
            _ => None,
        })
        .collect();
    if durations.len() != reported.len() || durations.is_empty() {
        return None;
    }
    reported.sort_unstable();
    durations.sort_unstable();
    let middle = (durations.len() - 1) / 2;
    Some(reported[middle] as f64 - durations[middle] as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: WindowClock = WindowClock { begin_ns: 1000, end_ns: 2000 };

    fn call(after_ns: u64, enter_ns: u64) -> Call {
        Call { operation: Operation::Read, after_ns, enter_ns, exit_ns: Some(enter_ns + 50), value: Some(7) }
    }

    #[test]
    fn the_clock_was_read_between_two_calls() {
        let of = |after_ns, enter_ns| {
            let call = call(after_ns, enter_ns);
            (is_possible(&call, WINDOW), is_certain(&call, WINDOW))
        };
        assert_eq!(of(900, 999), (false, false));
        // Before or after the window began.
        assert_eq!(of(990, 1005), (true, false));
        assert_eq!(of(1000, 1005), (true, true));
        assert_eq!(of(1990, 2005), (true, false));
        assert_eq!(of(2000, 2005), (false, false));
    }

    #[test]
    fn the_difference_of_medians_is_the_way() {
        let way = Way { warm_ns: 300.0, cold_ns: 900.0 };
        let median = |reported_ns, least, most| Median { reported_ns, way, kernel_ns: Range { least, most } };
        assert!(median(1300.0, 1000, 1000).holds() && median(1900.0, 1000, 1000).holds());
        assert!(median(1205.0, 1000, 1000).holds(), "within 100 ns");
        assert!(!median(1195.0, 1000, 1000).holds() && !median(2005.0, 1000, 1000).holds());
        assert!(median(1_019_000.0, 1_000_000, 1_000_000).holds(), "within 2 %");
        assert!(!median(1_022_000.0, 1_000_000, 1_000_000).holds());
    }

    #[test]
    fn others_explain_a_median_but_no_number() {
        let same = Agreement { reported: 7, kernel: Range { least: 7, most: 7 } };
        let other = Agreement { reported: 8, ..same };
        let way = Way { warm_ns: 300.0, cold_ns: 900.0 };
        let median =
            |reported_ns| Some(Median { reported_ns, way, kernel_ns: Range { least: 1000, most: 1000 } });
        let is_disturbed = |count, median, disturbed: Option<&str>| {
            let (workload, phase) = ("fileserver".to_string(), "read".to_string());
            let (role, operation, bytes) = (Role::Reader, Operation::Read, Some(same));
            let disturbed = disturbed.map(str::to_string);
            Row { workload, phase, role, operation, count, bytes, median, disturbed }.is_disturbed()
        };
        let busy = Some("other processes used 90 % of 2 processors");
        assert!(is_disturbed(same, median(9000.0), busy));
        assert!(!is_disturbed(same, median(9000.0), None), "nothing explains it");
        assert!(!is_disturbed(other, median(9000.0), busy), "the number is wrong");
        assert!(!is_disturbed(same, median(1500.0), busy), "it agrees");
    }

    #[test]
    fn workers_have_the_name_of_their_role_and_a_number() {
        let is = |name| is_worker(name, Role::Reader);
        assert!(is("reader 0") && is("reader 12"));
        assert!(!is("reader") && !is("reader x") && !is("writer 0") && !is("reader "));
    }

    #[test]
    fn the_way_is_measured_by_calls_that_do_nothing() {
        let mut heard = Overheard::default();
        for (index, kernel_ns) in [40, 50, 90].into_iter().enumerate() {
            let enter_ns = 1000 * index as u64;
            let moment = |time_ns, thread, what| Witnessed { time_ns, thread, what };
            let enter = What::Enter { number: libc::SYS_getppid, arguments: [0; 3] };
            let exit = What::Exit { value: 1 };
            heard.moments.extend([moment(enter_ns, 1, enter), moment(enter_ns + kernel_ns, 1, exit)]);
            heard.moments.push(moment(enter_ns + 5, 2, exit));
            let interrupt = What::Completed { device: 0, bytes: 4096, writes: true };
            heard.moments.push(moment(enter_ns + 6, 1, interrupt));
        }
        assert_eq!(way_ns(vec![400, 380, 350], &heard, 1), Some(330.0));
        assert_eq!(way_ns(vec![400], &heard, 1), None, "others were heard");
    }
}
