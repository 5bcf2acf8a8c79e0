//! Disks without moving parts: flash, whose channels work at the same time, and volumes of a cloud, which
//! limit operations and bytes per second.
//!
//! What these will do is known when a request arrives, so there are no events, only completions.

use crate::interface::Interface;
use crate::model::{Flash, Volume};
use crate::{DiskOperation, DiskRequest};
use std::collections::VecDeque;

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
    interface: Interface,
    /// The bytes that are written without making room, and the room that is made meanwhile.
    room: Option<Bucket>,
}

impl Channels {
    pub fn new(flash: Flash) -> Channels {
        let free_ns = vec![0.0; flash.channels as usize];
        let room =
            (flash.fast_size.0 > 0).then(|| Bucket::new(flash.slow_rate * 1e6, flash.fast_size.0 as f64));
        let interface = Interface::new(flash.interface_rate);
        Channels { flash, free_ns, interface, room }
    }

    /// Returns when a request that begins now will have ended.
    pub fn end_ns(&mut self, request: &DiskRequest, now_ns: f64) -> f64 {
        let Flash { read_latency, write_latency, flush_latency, read_rate, write_rate, .. } = self.flash;
        let (latency, rate) = match request.kind {
            DiskOperation::Read => (read_latency, read_rate),
            DiskOperation::Write => (write_latency, write_rate),
            DiskOperation::Flush => return now_ns + flush_latency.0 as f64,
            DiskOperation::Discard => return now_ns + write_latency.0 as f64,
        };
        let mut left = request.length;
        let mut end_ns = now_ns;
        while left > 0 {
            let length = left.min(self.flash.stripe.0);
            left -= length;
            let bytes = length as f64;
            let begins_ns = match (request.kind, &mut self.room) {
                (DiskOperation::Write, Some(room)) => room.take(bytes, now_ns),
                _ => now_ns,
            };
            // There is at least one channel.
            let first = (0..self.free_ns.len()).min_by(|a, b| self.free_ns[*a].total_cmp(&self.free_ns[*b]));
            let channel = &mut self.free_ns[first.unwrap_or_default()];
            *channel = begins_ns.max(*channel) + latency.0 as f64 + bytes / (rate * 1e6) * 1e9;
            end_ns = self.interface.carry(length, *channel);
        }
        end_ns
    }
}

/// A limit that lasts, or that lasts as long as the credits do: what is used of them comes back at the base
/// rate (Amazon EBS user guide, "General Purpose SSD volumes", "Throughput Optimized HDD volumes").
#[derive(Debug)]
struct Limit {
    peak: Bucket,
    base: Option<Bucket>,
}

impl Limit {
    fn new(peak: Bucket, base_rate: f64, credits: f64) -> Limit {
        Limit { peak, base: (credits > 0.0).then(|| Bucket::new(base_rate, credits)) }
    }

    /// Takes units; returns when they may be used.
    fn take(&mut self, units: f64, now_ns: f64) -> f64 {
        let base_ns = self.base.as_mut().map_or(now_ns, |base| base.take(units, now_ns));
        self.peak.take(units, now_ns).max(base_ns)
    }
}

/// The rows of requests whose ends a volume knows. No vendor publishes how many it does.
const ROWS: usize = 16;

/// A volume at work.
#[derive(Debug)]
pub(crate) struct Limited {
    volume: Volume,
    operations: Limit,
    bytes: Limit,
    /// Where the last requests ended, the oldest first.
    ends: VecDeque<u64>,
}

impl Limited {
    pub fn new(volume: Volume) -> Limited {
        let peak = Bucket::new(volume.operations, volume.operation_burst);
        let operations = Limit::new(peak, volume.base_operations, volume.operation_credits);
        let peak = Bucket::new(volume.rate * 1e6, volume.rate_burst.0 as f64);
        let bytes = Limit::new(peak, volume.base_rate * 1e6, volume.rate_credits.0 as f64);
        Limited { volume, operations, bytes, ends: VecDeque::new() }
    }

    /// Returns when a request that begins now will have ended.
    pub fn end_ns(&mut self, request: &DiskRequest, now_ns: f64) -> f64 {
        let latency = match request.kind {
            DiskOperation::Read => self.volume.read_latency,
            DiskOperation::Write | DiskOperation::Discard => self.volume.write_latency,
            DiskOperation::Flush => return now_ns + self.volume.flush_latency.0 as f64,
        };
        let (operations, bytes) = self.counts_as(request);
        let may_ns = self.operations.take(operations, now_ns).max(self.bytes.take(bytes, now_ns));
        may_ns + latency.0 as f64
    }

    /// The operations and bytes that a request counts as.
    fn counts_as(&mut self, request: &DiskRequest) -> (f64, f64) {
        let (unit, length) = (self.volume.unit.0 as f64, request.length as f64);
        let row = self.ends.iter().position(|end| *end == request.offset);
        if let Some(row) = row {
            self.ends.remove(row);
        } else if self.ends.len() == ROWS {
            self.ends.pop_front();
        }
        self.ends.push_back(request.end());
        match row.is_some() && request.length >= self.volume.merged_from.0 && unit > 0.0 {
            true => (length / unit, length),
            false => (1.0, length.max(unit)),
        }
    }
}
