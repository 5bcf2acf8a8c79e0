//! Whoever looks at the machine while a phase is measured. The engine knows when, and not at what.

use fsdyno_core::Telemetry;

/// Looks at the machine, on the thread that coordinates a phase. It must come back soon: while it looks, nobody sees the
/// workers, though they go on.
pub trait Observer {
    /// The window begins now. One that was not ended is forgotten: its phase has failed.
    fn begin(&mut self);
    /// The window goes on. Called several times a second.
    fn look(&mut self);
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
