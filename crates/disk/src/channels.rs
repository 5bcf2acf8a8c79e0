//! Disks without moving parts: flash, whose channels work at the same time, and volumes of a cloud, which
//! limit operations and bytes per second.
//!
//! What these will do is known when a request arrives, so there are no events, only completions.

use crate::model::{Flash, Volume};
use crate::{DiskOperation, DiskRequest};

/// Work that is owed, as the moment at which it will be done: a bucket of tokens, in time. It is full when
/// its debt is `burst_ns` in the past.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    ns_per_unit: f64,
    burst_ns: f64,
    debt_until_ns: f64,
}

impl Bucket {
    /// A full bucket for this many units per second, of which this many may be used at once.
    fn new(rate: f64, burst: f64) -> Bucket {
        let ns_per_unit = 1e9 / rate;
        Bucket { ns_per_unit, burst_ns: burst * ns_per_unit, debt_until_ns: f64::NEG_INFINITY }
    }

    /// Takes units; returns when they may be used.
    fn take(&mut self, units: f64, now_ns: f64) -> f64 {
        self.debt_until_ns = self.debt_until_ns.max(now_ns - self.burst_ns) + units * self.ns_per_unit;
        self.debt_until_ns.max(now_ns)
    }
}

/// Flash at work.
#[derive(Debug)]
pub(crate) struct Channels {
    flash: Flash,
    /// When each is free.
    free_ns: Vec<f64>,
    interface_free_ns: f64,
    /// The bytes that are written without making room, and the room that is made meanwhile.
    room: Option<Bucket>,
}

impl Channels {
    pub fn new(flash: Flash) -> Channels {
        let free_ns = vec![0.0; flash.channels as usize];
        let room =
            (flash.fast_size.0 > 0).then(|| Bucket::new(flash.slow_rate * 1e6, flash.fast_size.0 as f64));
        Channels { flash, free_ns, interface_free_ns: 0.0, room }
    }

    /// Returns when a request that begins now will have ended.
    pub fn end_ns(&mut self, request: &DiskRequest, now_ns: f64) -> f64 {
        let Flash {
            read_latency, write_latency, flush_latency, read_rate, write_rate, interface_rate, ..
        } = self.flash;
        let (latency, rate) = match request.kind {
            DiskOperation::Read => (read_latency, read_rate),
            DiskOperation::Write => (write_latency, write_rate),
            DiskOperation::Flush => return now_ns + flush_latency.0 as f64,
            DiskOperation::Discard => return now_ns + write_latency.0 as f64,
        };
        let bytes = request.length as f64;
        let begins_ns = match (request.kind, &mut self.room) {
            (DiskOperation::Write, Some(room)) => room.take(bytes, now_ns),
            _ => now_ns,
        };
        // There is at least one channel.
        let first = (0..self.free_ns.len()).min_by(|a, b| self.free_ns[*a].total_cmp(&self.free_ns[*b]));
        let channel = &mut self.free_ns[first.unwrap_or_default()];
        *channel = begins_ns.max(*channel) + latency.0 as f64 + bytes / (rate * 1e6) * 1e9;
        self.interface_free_ns = channel.max(self.interface_free_ns) + bytes / (interface_rate * 1e6) * 1e9;
        self.interface_free_ns
    }
}

/// A volume at work.
#[derive(Debug)]
pub(crate) struct Limited {
    volume: Volume,
    operations: Bucket,
    bytes: Bucket,
}

impl Limited {
    pub fn new(volume: Volume) -> Limited {
        let operations = Bucket::new(volume.operations, volume.operation_burst);
        let bytes = Bucket::new(volume.rate * 1e6, volume.rate_burst.0 as f64);
        Limited { volume, operations, bytes }
    }

    /// Returns when a request that begins now will have ended.
    pub fn end_ns(&mut self, request: &DiskRequest, now_ns: f64) -> f64 {
        let latency = match request.kind {
            DiskOperation::Read => self.volume.read_latency,
            DiskOperation::Write | DiskOperation::Discard => self.volume.write_latency,
            DiskOperation::Flush => return now_ns + self.volume.flush_latency.0 as f64,
        };
        let may_ns = self.operations.take(1.0, now_ns).max(self.bytes.take(request.length as f64, now_ns));
        may_ns + latency.0 as f64
    }
}
