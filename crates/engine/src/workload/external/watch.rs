//! Telemetry while a program runs: for each part if the program announces its parts, else for the whole run.

use super::cut::Edge;
use crate::phase::Observer;
use fsdyno_core::Telemetry;
use fsdyno_core::result::CpuTime;

/// The observations of a program while it ran.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) parts: Vec<Seen>,
    /// Telemetry of the whole run, if the program announced no part.
    pub(super) whole: Option<Telemetry>,
}

/// The observations of one part.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) phase: &'static str,
    pub(super) telemetry: Option<Telemetry>,
    /// Processor time of the program, as the kernel counts it.
    pub(super) cpu: CpuTime,
}

/// An edge, as the thread that follows the program reports it to the one that watches the machine.
pub(super) struct Announcement {
    pub(super) edge: Edge,
    /// Processor time of the program up to here.
    pub(super) cpu: CpuTime,
}

/// Watches the machine, part by part.
pub(super) struct Watcher<'a> {
    observer: &'a mut dyn Observer,
    /// The current part of the program, and its processor time when that began.
    within: Option<(&'static str, CpuTime)>,
    seen: Vec<Seen>,
    announced: bool,
}

impl<'a> Watcher<'a> {
    /// Watches the whole run, as long as no part is announced.
    pub(super) fn begin(observer: &'a mut dyn Observer) -> Self {
        observer.begin();
        Watcher { observer, within: None, seen: Vec::new(), announced: false }
    }

    pub(super) fn hear(&mut self, heard: &Announcement) {
        match heard.edge {
            Edge::Begin(phase) => {
                self.announced = true;
                self.within = Some((phase, heard.cpu));
                self.observer.begin();
            }
            Edge::End => {
                if let Some((phase, before)) = self.within.take() {
                    let telemetry = self.observer.end();
                    self.seen.push(Seen { phase, telemetry, cpu: heard.cpu.since(&before) });
                }
            }
        }
    }

    pub(super) fn look(&mut self) {
        if self.within.is_some() || !self.announced {
            self.observer.look();
        }
    }

    pub(super) fn end(self) -> Watch {
        let whole = if self.announced { None } else { self.observer.end() };
        Watch { parts: self.seen, whole }
    }
}
