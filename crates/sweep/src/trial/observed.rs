//! The activity of a server while its clients worked: an engine there that only observes, and the part of its
//! observations that was within a phase.

use fsdyno_core::result::PhaseResult;
use fsdyno_core::{EngineEvent, EngineRequest, Nanos, Telemetry, TelemetryRequest};
use fsdyno_host::{EngineOutput, EngineProcess, Host};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest time between samples: the edges of a window, which only its clients know, are as exact as
/// this.
const INTERVAL: Nanos = Nanos::from_millis(500);
/// The time that the observer may take to begin, and to report what it has seen.
const LIMIT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(50);

/// A server that is observed.
pub(super) struct Observed {
    engine: Box<dyn EngineProcess>,
    /// The offset to add to this machine's `CLOCK_MONOTONIC` for that of the server.
    offset_ns: i64,
}

impl Observed {
    /// Begins to observe what the request wants to know.
    ///
    /// # Errors
    /// The reason why that fails, in words. The load does not depend on it.
    pub fn begin(
        server: &mut dyn Host,
        request: &EngineRequest,
        telemetry: &TelemetryRequest,
    ) -> Result<Self, String> {
        let TelemetryRequest { interval, devices } = telemetry.clone();
        let offset_ns = offset(server).ok_or("its clock cannot be read")?;
        let telemetry = Some(TelemetryRequest { interval: interval.min(INTERVAL), devices });
        let only_observes = EngineRequest {
            telemetry,
            observes: true,
            pauses: false,
            ..EngineRequest::new(&request.directory, request.workload.clone(), request.seed)
        };
        let mut engine = server.start_engine(&only_observes).map_err(|error| error.to_string())?;
        match heard(engine.as_mut(), |event| matches!(event, EngineEvent::Ready { .. })) {
            Some(_) => Ok(Observed { engine, offset_ns }),
            None => {
                engine.stop(LIMIT);
                Err("the observer there does not begin".to_string())
            }
        }
    }

    /// Ends it, and adds what happened in a phase to its result.
    ///
    /// # Errors
    /// The reason why nothing is known about it, in words.
    pub fn end(mut self, phase: Option<&mut PhaseResult>) -> Result<(), String> {
        self.engine.ask_to_stop();
        let seen = heard(self.engine.as_mut(), |event| matches!(event, EngineEvent::Observed(_)));
        self.engine.stop(LIMIT);
        let Some(phase) = phase else { return Ok(()) };
        let Some(EngineEvent::Observed(telemetry)) = seen else {
            return Err("the observer there did not report".to_string());
        };
        phase.telemetry = self.within(&telemetry, phase);
        Ok(())
    }

    fn within(&self, telemetry: &Telemetry, phase: &PhaseResult) -> Option<Telemetry> {
        let there = |ns: u64| ns.saturating_add_signed(self.offset_ns);
        let clock = phase.clock?;
        telemetry.within(there(clock.begin_ns), there(clock.end_ns))
    }
}

/// The first event that is wanted.
fn heard(engine: &mut dyn EngineProcess, is_wanted: impl Fn(&EngineEvent) -> bool) -> Option<EngineEvent> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        match engine.next(GLANCE) {
            EngineOutput::Event(event) if is_wanted(&event) => return Some(*event),
            EngineOutput::Event(_) | EngineOutput::Silence => {}
            EngineOutput::Garbage(_) | EngineOutput::End(_) => return None,
        }
    }
    None
}

/// The clock of a server against this machine's, from its uptime: `CLOCK_MONOTONIC` in hundredths of a
/// second, on a machine that is never suspended (proc_uptime(5)).
fn offset(server: &mut dyn Host) -> Option<i64> {
    let before = monotonic_ns();
    let text = server.read_text(Path::new("/proc/uptime")).ok()?;
    let here = before + (monotonic_ns() - before) / 2;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e9) as i64 - here)
}

/// `CLOCK_MONOTONIC` of this machine.
pub(super) fn monotonic_ns() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
