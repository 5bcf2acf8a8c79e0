//! An observer of the machine while a phase is measured. The engine decides when it looks, but not at what.

use fsdyno_core::Telemetry;
use fsdyno_core::glance::MachineGlance;

/// Observes the machine, on the thread that coordinates a phase. It must return quickly: until then nobody
/// watches the workers, which continue meanwhile.
pub trait Observer {
    /// The window begins now. A previous one without an end is dropped: its phase has failed.
    fn begin(&mut self);
    /// The window is in progress. Called several times a second.
    fn look(&mut self);
    /// Returns the latest observations of the window in progress, for somebody who watches.
    fn latest(&self) -> Option<MachineGlance> {
        None
    }
    /// The window has ended just now.
    fn end(&mut self) -> Option<Telemetry>;
}

/// Nobody.
impl Observer for () {
    fn begin(&mut self) {}

    fn look(&mut self) {}

    fn end(&mut self) -> Option<Telemetry> {
        None
    }
}
