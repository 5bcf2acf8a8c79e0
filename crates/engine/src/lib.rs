//! The engine: runs one workload in one directory and times every operation.
//!
//! It does not know about devices or filesystems: it gets a directory and an [`EngineRequest`], and sends
//! [`EngineEvent`]s. Workers are threads with their own descriptor tables, buffers and records; between the
//! two timestamps of an operation there is one system call and nothing else ([`meter`]). A phase has a
//! window, and an operation that does not end in time is counted with what is known about it ([`window`]),
//! never left out.
//!
//! It never subtracts its own cost from a result, keeps no list of files, touches nothing outside its own
//! directory, and does not wait forever for a filesystem that hangs.

pub mod application;
mod background;
mod bounds;
mod buckets;
mod cache;
mod compare;
mod compressibility;
mod content;
mod counter;
mod error;
mod fill;
mod glance;
mod layout;
mod lineup;
mod memory;
pub mod meter;
mod operations;
mod pace;
mod phase;
mod plant;
pub mod profile;
mod queue;
mod quiesce;
mod record;
mod removal;
mod reporter;
mod reread;
mod search;
mod session;
mod span;
mod steady;
mod summary;
mod throttle;
mod tree;
mod verify;
mod walk;
mod window;
mod workload;
mod wrong;

pub use error::{EngineError, OperationFailure};
pub use fsdyno_core::workload::StepIndex;
pub use phase::Observer;
pub use verify::{VerifyError, verify};
pub use workload::fileserver::reader_pass;
pub use workload::flow::{Performed as FlowPerformed, ReadyFlow};
pub use workload::null::overhead_ns as null_overhead_ns;
pub use workload::streaming::{Pass as StreamingPass, ReadyPass as ReadyStreamingPass};
pub use wrong::{Problem, SectorVerdict, Wrong};

use bounds::{Bounds, Confined};
use fsdyno_core::protocol::PROTOCOL_VERSION;
use fsdyno_core::result::TimerFacts;
use fsdyno_core::telemetry::TelemetryRequest;
use fsdyno_core::workload::Need;
use fsdyno_core::{EngineEvent, EngineRequest, Reread, WarningKind, meminfo};
use fsdyno_sys::timer::{ClockSource, Timer};
use reporter::{Cues, Reporter};
use session::Session;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which an engine that only observes checks whether it is time for a sample.
const OBSERVED_EVERY: Duration = Duration::from_millis(50);

/// The engine as a process: reads one request as a line of JSON, writes events as lines of JSON, and stops
/// when its standard input ends or on a signal. Returns the exit code: 0 after [`EngineEvent::Done`], else 1.
/// The caller must exit the process with it, which also ends workers that hang. `observer` creates the
/// sampler for the requested telemetry.
pub fn serve(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    observer: &dyn Fn(&TelemetryRequest) -> Box<dyn Observer>,
) -> i32 {
    let stop = Arc::new(AtomicBool::new(false));
    let mut events = |event: EngineEvent| {
        let written = serde_json::to_writer(&mut *output, &event)
            .map_err(std::io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush());
        if written.is_err() {
            // Nobody is listening any more.
            stop.store(true, Ordering::Relaxed);
        }
    };
    // Before any other thread starts, so that all of them are in the group and in the namespace.
    let in_view = |request: EngineRequest| bounds::enter_view(&request).map(|()| request);
    let in_group =
        |request: EngineRequest| request.memory.as_ref().map_or(Ok(()), memory::enter).map(|()| request);
    let request = match read_request(input).and_then(in_group).and_then(in_view) {
        Ok(request) => request,
        Err(error) => {
            events(EngineEvent::Failed(error.failure()));
            return 1;
        }
    };
    let cues = Arc::new(Cues::default());
    watch(&stop, &cues, &request);
    let mut observer = request.telemetry.as_ref().map_or(Box::new(()) as Box<dyn Observer>, observer);
    if request.observes {
        observe(observer.as_mut(), &stop, &mut events);
        return 0;
    }
    let cues = request.pauses.then_some(cues);
    match run_observed(&request, observer.as_mut(), &stop, cues, &mut events) {
        Ok(()) => 0,
        Err(_told) => 1,
    }
}

/// Observes the machine until the parent wants to know what there was to see.
fn observe(observer: &mut dyn Observer, stop: &AtomicBool, events: &mut dyn FnMut(EngineEvent)) {
    observer.begin();
    events(EngineEvent::Ready { phase: String::new() });
    while !stop.load(Ordering::Relaxed) {
        observer.look();
        std::thread::sleep(OBSERVED_EVERY);
    }
    if let Some(telemetry) = observer.end() {
        events(EngineEvent::Observed(Box::new(telemetry)));
    }
    events(EngineEvent::Done);
}

fn read_request(input: &mut dyn BufRead) -> Result<EngineRequest, EngineError> {
    let mut line = String::new();
    match input.read_line(&mut line).map_err(EngineError::Connection)? {
        0 => Err(EngineError::NoRequest),
        _ => Ok(serde_json::from_str(&line)?),
    }
}

/// Arranges for `stop` to be set when the parent closes the standard input or is gone, or on a signal. Each
/// line from the parent is a cue.
fn watch(stop: &Arc<AtomicBool>, cues: &Arc<Cues>, request: &EngineRequest) {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // Without the handler the signal ends the process: only the cleaning up is lost.
        let _ = signal_hook::flag::register(signal, Arc::clone(stop));
    }
    if !request.clean_up {
        // If there is nothing to clean up, the engine may exit at once. Standard input ends with the parent
        // as well, so an error here only costs a moment.
        let _ = fsdyno_sys::thread::die_with_parent();
    }
    let (stop, cues) = (Arc::clone(stop), Arc::clone(cues));
    let watch = move || {
        let mut rest = [0; 256];
        let mut line = Vec::new();
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut rest) {
                Ok(length @ 1..) => {
                    for byte in &rest[..length] {
                        match byte {
                            b'\n' => cues.give(&std::mem::take(&mut line)),
                            // No cue is longer.
                            byte if line.len() < rest.len() => line.push(*byte),
                            _ => {}
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            }
        }
        stop.store(true, Ordering::Relaxed);
    };
    // Without this thread the engine exits when its work is done.
    let _ = std::thread::Builder::new().name("watch".to_string()).spawn(watch);
}

/// Executes a request. Events end with [`EngineEvent::Done`], or with [`EngineEvent::Failed`] if this returns
/// an error. Threads whose system calls never return are left behind.
///
/// # Errors
/// The error that kept the engine from its work; [`EngineError::Stopped`] if `stop` was set.
pub fn run(
    request: &EngineRequest,
    stop: &AtomicBool,
    events: &mut dyn FnMut(EngineEvent),
) -> Result<(), EngineError> {
    run_observed(request, &mut (), stop, None, events)
}

/// The same with an observer that looks at the machine while phases are measured, and with the cues of the
/// parent if phases wait for them.
///
/// # Errors
/// As for [`run`].
pub(crate) fn run_observed(
    request: &EngineRequest,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    cues: Option<Arc<Cues>>,
    events: &mut dyn FnMut(EngineEvent),
) -> Result<(), EngineError> {
    let mut reporter = Reporter::new(events);
    cues.into_iter().for_each(|cues| reporter.pause(cues));
    let result = execute(request, observer, stop, &mut reporter);
    reporter.event(match &result {
        Ok(()) => EngineEvent::Done,
        Err(error) => EngineEvent::Failed(error.failure_in(&request.directory)),
    });
    result
}

fn execute(
    request: &EngineRequest,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    reporter: &mut Reporter<'_>,
) -> Result<(), EngineError> {
    if request.version != PROTOCOL_VERSION {
        return Err(EngineError::Version { got: request.version, expected: PROTOCOL_VERSION });
    }
    let timer = Timer::calibrate();
    let facts = TimerFacts {
        source: timer.source().name().to_string(),
        read_ns: timer.read_ns(),
        overhead_ns_per_op: None,
        overhead_with_telemetry_ns_per_op: None,
    };
    reporter.event(EngineEvent::Hello { pid: std::process::id(), timer: facts });
    let confined = Confined::to(request)?;
    let bounds = Bounds::new(stop, &confined);
    let mut session = Session::new(request, timer, bounds, reporter, observer);
    if timer.source() != ClockSource::Tsc && request.part.is_first() {
        let text = format!("the timer is {}: {:.0} ns per reading", timer.source().name(), timer.read_ns());
        session.warn(WarningKind::SlowTimer, text);
    }
    let filled = check(request).and_then(|()| session.fill());
    let work = workload::work(&request.workload);
    if request.reread == Reread::Only {
        return filled.and_then(|()| work.read_again(&mut session));
    }
    let result = filled.and_then(|()| work.run(&mut session));
    // What a cut loses must not be written back at the end.
    let is_recorded = request.workload.load().needs().contains(&Need::Recorder);
    let result = match is_recorded {
        true => result,
        false => result.and_then(|()| session.make_durable("", 0)).and_then(|_| session.layout()),
    };
    let result = match request.reread {
        Reread::AtEnd => {
            result.and_then(|()| session.settle(reread::STEP, 0)).and_then(|()| work.read_again(&mut session))
        }
        Reread::Never | Reread::Only => result,
    };
    // Other machines may still read trees that they share; whoever asked for them removes them at the end.
    let may_go = request.shared != Some(request.seed) && request.part.is_last();
    let tidied = if request.clean_up && (may_go || result.is_err()) { session.clean_up() } else { Ok(()) };
    // The first failure is the one that counts.
    result.and(tidied)
}

/// Checks that the workload can run and has the requested part.
fn check(request: &EngineRequest) -> Result<(), EngineError> {
    let (load, part) = (request.workload.load(), request.part);
    request.workload.check()?;
    // A kernel that runs out of memory may kill any process.
    let needed = load.memory();
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limit = request.memory.as_ref().map(|group| group.limit);
    let available = meminfo::value(&known, "MemAvailable").into_iter().chain(limit).min();
    if let Some(available) = available.filter(|available| *available < needed) {
        return Err(EngineError::Memory { needed, available });
    }
    match part.of == 1 || part.of == load.parts() {
        true if part.number < part.of => Ok(()),
        _ => Err(EngineError::NoSuchPart { part, parts: load.parts() }),
    }
}
