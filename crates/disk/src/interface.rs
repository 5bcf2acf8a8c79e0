//! The wire of a disk.

/// The way between a disk and its host, which takes one request after the other.
#[derive(Debug)]
pub(crate) struct Interface {
    ns_per_byte: f64,
    free_ns: f64,
}

impl Interface {
    /// One that carries so many MB (10^6 bytes) per second.
    pub fn new(rate: f64) -> Interface {
        Interface { ns_per_byte: 1e3 / rate, free_ns: 0.0 }
    }

    /// Takes bytes that are ready at this moment; returns when they are on the other side.
    pub fn carry(&mut self, bytes: u64, ready_ns: f64) -> f64 {
        self.free_ns = ready_ns.max(self.free_ns) + bytes as f64 * self.ns_per_byte;
        self.free_ns
    }
}
