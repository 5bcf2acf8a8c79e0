//! A server that restarts while its clients work, as when its machine reboots: it stops serving, leaves the
//! network, unmounts the filesystem, is away for as long as the plan asks, mounts it again and serves.
//!
//! Its kernel keeps running. What clients live through is the same: their connections end, nobody answers for
//! the time of a boot, and then they claim what they had.

use super::observed::monotonic_ns;
use fsdyno_core::result::{Outage, PhaseResult, ServeProtocol};
use fsdyno_core::{Configuration, Failure, Nanos, Progress, TrialRecord, TrialStep, Warning, WarningKind};
use fsdyno_host::Host;
use fsdyno_testbed::{Mounted, TestbedError, UndoJournal, serve};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text::time_in_words;

/// The share of a phase before the server goes away.
const BEFORE: f64 = 0.1;

/// The settings of the restart of a server.
pub(super) struct Restart {
    /// The time that the server is away.
    pub outage: Nanos,
    pub protocol: ServeProtocol,
    pub configuration: Configuration,
    pub clients: usize,
}

/// Where a server is in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerState {
    /// It serves, and no phase goes on.
    Idle,
    /// It serves, and will go away.
    Serves,
    /// It is time to go away.
    Due,
    /// It has been away since then, on `CLOCK_MONOTONIC` of this machine.
    Away { since_ns: i64 },
    /// It has come back at the second of these times.
    Back { since_ns: i64, at_ns: i64 },
}

/// The outages of a server in the phases of one engine.
pub(super) struct Outages<'h> {
    restart: Restart,
    mounted: &'h mut Mounted,
    journal: &'h mut UndoJournal,
    state: ServerState,
    /// The warnings about the outages.
    warnings: Vec<Warning>,
    /// Why the server did not come back after the end of a phase.
    failure: Option<Box<Failure>>,
}

impl<'h> Outages<'h> {
    pub fn new(restart: Restart, mounted: &'h mut Mounted, journal: &'h mut UndoJournal) -> Self {
        Outages { restart, mounted, journal, state: ServerState::Idle, warnings: Vec::new(), failure: None }
    }

    /// A phase begins.
    pub fn arm(&mut self) {
        self.state = ServerState::Serves;
    }

    /// The engine has come this far.
    pub fn reached(&mut self, progress: &Progress) {
        if self.state == ServerState::Serves
            && progress.step == TrialStep::Measure
            && progress.done >= Some(BEFORE)
        {
            self.state = ServerState::Due;
        }
    }

    /// Goes away or comes back if it is time.
    pub fn look(&mut self, server: &mut dyn Host) -> Result<(), Box<Failure>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let done = match self.state {
            ServerState::Due => self.go_away(server),
            ServerState::Away { since_ns } if monotonic_ns() - since_ns >= self.restart.outage.0 as i64 => {
                self.come_back(server, since_ns)
            }
            ServerState::Idle | ServerState::Serves | ServerState::Away { .. } | ServerState::Back { .. } => {
                Ok(())
            }
        };
        done.map_err(|error| Box::new(error.failure()))
    }

    fn go_away(&mut self, server: &mut dyn Host) -> Result<(), TestbedError> {
        self.state = ServerState::Away { since_ns: monotonic_ns() };
        serve::go_away(server, self.restart.protocol, self.restart.clients)?;
        self.mounted.go_away(server)
    }

    fn come_back(&mut self, server: &mut dyn Host, since_ns: i64) -> Result<(), TestbedError> {
        self.mounted.come_back(server, self.journal)?;
        let Restart { protocol, configuration, clients, .. } = &self.restart;
        serve::come_back(server, *protocol, configuration, self.mounted.directory(), *clients)?;
        self.state = ServerState::Back { since_ns, at_ns: monotonic_ns() };
        Ok(())
    }

    /// The phase has ended, with this result, or the load has failed in it. A server that is still away comes
    /// back, so that its clients can end.
    pub fn end(&mut self, server: &mut dyn Host, phase: Option<&mut PhaseResult>) {
        if let ServerState::Away { since_ns } = self.state
            && let Err(error) = self.come_back(server, since_ns)
        {
            self.failure = Some(Box::new(error.failure()));
        }
        let outage = |text: String| Warning::new(WarningKind::ServerOutage, text);
        let warning = match (self.state, phase) {
            (ServerState::Back { since_ns, at_ns }, Some(phase)) => {
                let begin_ns = phase.clock.map_or(since_ns, |clock| clock.begin_ns as i64);
                let away =
                    Outage { start_ns: between(begin_ns, since_ns), duration_ns: between(since_ns, at_ns) };
                phase.outage = Some(away);
                outage(format!(
                    "the server was away for {}, from {} on",
                    in_words(away.duration_ns),
                    in_words(away.start_ns)
                ))
                .in_phase(&phase.name)
            }
            (ServerState::Back { since_ns, at_ns }, None) => outage(format!(
                "the load failed after the server had begun to be away for {}",
                in_words(between(since_ns, at_ns))
            )),
            (ServerState::Serves | ServerState::Due, Some(phase)) => {
                let text = "it ended before the server could be away: make it longer".to_string();
                outage(text).in_phase(&phase.name)
            }
            (ServerState::Serves | ServerState::Due, None)
            | (ServerState::Idle | ServerState::Away { .. }, _) => return,
        };
        self.warnings.push(warning);
        self.state = ServerState::Idle;
    }

    /// Notes when the server was away.
    pub fn note(self, record: &mut TrialRecord) {
        record.warnings.extend(self.warnings);
    }
}

/// From one moment to a later one.
fn between(begin_ns: i64, end_ns: i64) -> Nanos {
    Nanos(end_ns.saturating_sub(begin_ns).max(0).unsigned_abs())
}

fn in_words(time: Nanos) -> String {
    time_in_words(Time { ns: time.0, at_least: false })
}
