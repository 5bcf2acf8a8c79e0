//! A disk at work, in a time that is given: requests arrive, and are complete when they would be.

use crate::array::Raid;
use crate::channels::{Channels, Limited};
use crate::due::Due;
use crate::model::{DiskModel, Mechanism};
use crate::moving::Moving;
use crate::spindle::Spindle;
use crate::{DiskCompletion, DiskOperation, DiskRequest};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A disk at work. Times are nanoseconds since it was switched on, and never go back.
#[derive(Debug)]
pub struct Simulation {
    device: Device,
    queue_depth: usize,
    /// Requests that the disk has not taken yet.
    waiting: VecDeque<DiskRequest>,
    /// The number of requests that it has taken and not completed.
    taken: usize,
    completions: BinaryHeap<Reverse<Due>>,
    /// A flush that waits until everything before it is complete, or until the cache is written.
    flush: Option<(DiskRequest, Flushing)>,
}

#[derive(Debug)]
enum Device {
    Moving(Box<dyn Moving>),
    Flash(Channels),
    Volume(Limited),
}

/// The progress of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flushing {
    /// Requests that came before are in the disk.
    Queued,
    /// The cache is being written.
    Writing,
}

impl Simulation {
    /// Switches on a disk of a model, of this many bytes.
    pub fn new(model: &DiskModel, size: u64) -> Simulation {
        let device = match &model.mechanism {
            Mechanism::HardDisk(disk) => {
                Device::Moving(Box::new(Spindle::new(disk.clone(), size, model.span)))
            }
            Mechanism::Array(array, disk) => {
                Device::Moving(Box::new(Raid::new(array.clone(), disk.clone(), size, model.span)))
            }
            Mechanism::Flash(flash) => Device::Flash(Channels::new(flash.clone())),
            Mechanism::Volume(volume) => Device::Volume(Limited::new(volume.clone())),
        };
        Simulation {
            device,
            queue_depth: model.queue_depth() as usize,
            waiting: VecDeque::new(),
            taken: 0,
            completions: BinaryHeap::new(),
            flush: None,
        }
    }

    /// Takes a request.
    pub fn arrive(&mut self, request: DiskRequest, now_ns: f64) {
        self.waiting.push_back(request);
        self.admit(now_ns);
    }

    /// When something happens next: not necessarily the end of a request.
    pub fn next_ns(&self) -> Option<f64> {
        let due = self.completions.peek().map(|Reverse(due)| due.at_ns);
        let moves = match &self.device {
            Device::Moving(disk) => disk.next_ns(),
            Device::Flash(_) | Device::Volume(_) => None,
        };
        due.into_iter().chain(moves).reduce(f64::min)
    }

    /// Lets everything happen until this moment, and returns the requests that ended, in their order.
    pub fn advance(&mut self, now_ns: f64) -> Vec<DiskCompletion> {
        let mut ended = Vec::new();
        while let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= now_ns) {
            let is_due = self.completions.peek().is_some_and(|Reverse(due)| due.at_ns <= at_ns);
            if is_due && let Some(Reverse(Due { request, .. })) = self.completions.pop() {
                self.taken -= 1;
                ended.push(DiskCompletion { id: request.id, at_ns });
                self.admit(at_ns);
            } else if let Device::Moving(disk) = &mut self.device {
                disk.step();
            }
            self.collect();
            self.go_on_with_flush(at_ns);
        }
        ended
    }

    /// Hands on requests as far as the disk takes more. A flush waits for those before it, and those behind
    /// it wait for the flush: the command is not queued (ATA8-ACS, FLUSH CACHE EXT).
    fn admit(&mut self, now_ns: f64) {
        while self.flush.is_none() && self.taken < self.queue_depth {
            let Some(request) = self.waiting.pop_front() else { break };
            self.taken += 1;
            let at_ns = match (&mut self.device, request.kind) {
                (Device::Moving(_), DiskOperation::Flush) => {
                    self.flush = Some((request, Flushing::Queued));
                    continue;
                }
                (Device::Moving(disk), DiskOperation::Read | DiskOperation::Write) => {
                    disk.submit(request, now_ns);
                    continue;
                }
                (Device::Moving(disk), DiskOperation::Discard) => now_ns + disk.overhead_ns(),
                (Device::Flash(channels), _) => channels.end_ns(&request, now_ns),
                (Device::Volume(volume), _) => volume.end_ns(&request, now_ns),
            };
            self.completions.push(Reverse(Due { at_ns, request }));
        }
        self.collect();
        self.go_on_with_flush(now_ns);
    }

    fn go_on_with_flush(&mut self, now_ns: f64) {
        let (Device::Moving(disk), Some((request, flushing))) = (&mut self.device, &mut self.flush) else {
            return;
        };
        if *flushing == Flushing::Queued && self.taken == 1 {
            *flushing = Flushing::Writing;
            disk.flush(now_ns);
        }
        if *flushing == Flushing::Writing && disk.is_clean() {
            let due = Due { at_ns: now_ns + disk.overhead_ns(), request: *request };
            self.flush = None;
            self.completions.push(Reverse(due));
        }
    }

    /// Takes what the disk has completed.
    fn collect(&mut self) {
        let Device::Moving(disk) = &mut self.device else { return };
        let done = disk.take_done().map(|(request, at_ns)| Reverse(Due { at_ns, request }));
        self.completions.extend(done);
    }
}
