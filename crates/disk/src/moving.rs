//! Devices with heads, of which a simulation asks what happens next.

use crate::DiskRequest;

/// A device with heads, which decides what to do next when it has done something.
pub(crate) trait Moving: std::fmt::Debug + Send {
    /// Takes a read or a write.
    fn submit(&mut self, request: DiskRequest, now_ns: f64);
    /// Begins to write what a flush must find written.
    fn flush(&mut self, now_ns: f64);
    /// Returns whether a flush would find everything written.
    fn is_clean(&self) -> bool;
    /// When something happens next.
    fn next_ns(&self) -> Option<f64>;
    /// Lets the next thing happen.
    fn step(&mut self);
    /// The requests that were completed since the last call, and when; that may be later than now, if they
    /// wait for the interface.
    fn take_done(&mut self) -> std::vec::Drain<'_, (DiskRequest, f64)>;
    /// The time to decode a command and to report its end.
    fn overhead_ns(&self) -> f64;
}
