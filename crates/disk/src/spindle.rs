//! A hard disk: one head that is in one place at a time, a queue of which it takes what it reaches first, and
//! a cache for what it has read ahead and what it has yet to write.
//!
//! Time is given: nothing here looks at a clock. [`Moving::next_ns`] says when something will happen, and
//! [`Moving::step`] lets it happen.

use crate::geometry::Geometry;
use crate::interface::Interface;
use crate::model::HardDisk;
use crate::moving::Moving;
use crate::segments::{Dirty, DirtyRanges, Segments};
use crate::{DiskOperation, DiskRequest};
use fsdyno_core::Nanos;
use std::collections::VecDeque;

/// A request that goes on exactly where the head is, this long after the last one, finds it there.
const STREAMING_NS: f64 = 1000.0;

/// A request that the disk has taken.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Taken {
    request: DiskRequest,
    since_ns: f64,
}

/// The work of the head.
#[derive(Debug, Clone, Copy)]
enum Task {
    Read(Taken),
    /// A write of a drive without a cache.
    Write(Taken),
    /// Writing a part of the cache.
    Destage,
}

#[derive(Debug, Clone, Copy)]
struct Work {
    task: Task,
    offset: u64,
    length: u64,
    ends_ns: f64,
}

/// Reading on after a read, into a segment of the cache, until something else is to be done.
#[derive(Debug, Clone, Copy)]
struct ReadAhead {
    segment: usize,
    /// Where the head was, and when.
    from: u64,
    from_ns: f64,
    limit: u64,
    ends_ns: f64,
}

/// The end of the last access.
#[derive(Debug, Clone, Copy)]
struct Last {
    end: u64,
    at_ns: f64,
    was_write: bool,
}

/// A choice of what to do next.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Queued { index: usize, position_ns: f64, streams: bool },
    Dirty { index: usize, position_ns: f64 },
}

/// A hard disk at work.
#[derive(Debug)]
pub(crate) struct Spindle {
    geometry: Geometry,
    model: HardDisk,
    queue: Vec<Taken>,
    /// Writes for which the cache has no room yet.
    without_room: VecDeque<Taken>,
    dirty: DirtyRanges,
    segments: Segments,
    work: Option<Work>,
    ahead: Option<ReadAhead>,
    /// The track on which the head is.
    track: u64,
    last: Last,
    interface: Interface,
    /// When an idle disk does something on its own.
    wakes_ns: Option<f64>,
    flushing: bool,
    /// Requests that are complete, and when.
    done: Vec<(DiskRequest, f64)>,
}

impl Spindle {
    /// A disk of this many bytes, on the first tracks of a whole one: on those with this share of its bytes.
    pub fn new(model: HardDisk, size: u64, span: f64) -> Spindle {
        Spindle {
            geometry: Geometry::new(model.dimensions(span), size),
            segments: Segments::new(model.read_segments as usize, model.segment_size.0),
            dirty: DirtyRanges::default(),
            interface: Interface::new(model.interface_rate),
            model,
            queue: Vec::new(),
            without_room: VecDeque::new(),
            work: None,
            ahead: None,
            track: 0,
            last: Last { end: u64::MAX, at_ns: f64::NEG_INFINITY, was_write: false },
            wakes_ns: None,
            flushing: false,
            done: Vec::new(),
        }
    }

    /// Does the best next thing, if the head is free.
    fn go_on(&mut self, now_ns: f64) {
        if self.work.is_some() {
            return;
        }
        self.follow_read_ahead(now_ns);
        self.wakes_ns = None;
        match self.choose(now_ns) {
            Some(Choice::Dirty { index, position_ns }) => self.destage(index, now_ns + position_ns),
            Some(Choice::Queued { index, position_ns, streams }) => {
                let taken = self.queue.swap_remove(index);
                match streams {
                    true => self.read_on(taken, now_ns),
                    false => self.access(taken, now_ns, position_ns),
                }
            }
            None => self.rest(now_ns),
        }
    }

    fn is_cached(&mut self, request: DiskRequest) -> bool {
        let (begin, end) = (request.offset, request.end());
        self.segments.has(begin, end) || self.dirty.has(begin, end)
    }

    fn serve_from_cache(&mut self, request: DiskRequest, now_ns: f64) {
        if let Some(ahead) = self.ahead
            && self.segments.is_in(ahead.segment, request.offset, request.end())
        {
            self.read_ahead_to(request.end() + self.model.read_ahead.0);
        }
        self.complete_by_interface(request, now_ns);
    }

    /// Returns whether the cache has room for a write of this length.
    fn has_room(&self, length: u64) -> bool {
        let destaged = match self.work {
            Some(Work { task: Task::Destage, length, .. }) => length,
            _ => 0,
        };
        self.dirty.bytes() + destaged + length <= self.model.write_cache.0
            && self.dirty.len() < self.model.write_cache_entries as usize
    }

    /// Takes a write into the cache.
    fn keep(&mut self, request: DiskRequest, now_ns: f64) {
        let (begin, end) = (request.offset, request.end());
        self.ahead = self.ahead.filter(|ahead| !self.segments.has_part(ahead.segment, begin, end));
        self.segments.forget(begin, end);
        self.dirty.add(Dirty { begin, end, since_ns: now_ns });
        self.complete_by_interface(request, now_ns);
    }

    fn complete_by_interface(&mut self, request: DiskRequest, now_ns: f64) {
        let at_ns = self.interface.carry(request.length, now_ns + self.overhead_ns());
        self.done.push((request, at_ns));
    }

    /// The request or the part of the cache that the head reaches first, if any is to be served now. What
    /// has waited for long counts as nearer.
    fn choose(&self, now_ns: f64) -> Option<Choice> {
        let mut best: Option<(f64, Choice)> = None;
        let mut consider = |cost_ns: f64, choice| {
            if best.is_none_or(|(least, _)| cost_ns < least) {
                best = Some((cost_ns, choice));
            }
        };
        for (index, Taken { request, since_ns }) in self.queue.iter().enumerate() {
            let is_write = request.kind != DiskOperation::Read;
            let streams = !is_write && self.is_where_the_head_reads(*request);
            let position_ns = if streams { 0.0 } else { self.position_ns(now_ns, request.offset, is_write) };
            let cost_ns = position_ns - (now_ns - since_ns) * self.model.read_ageing;
            consider(cost_ns, Choice::Queued { index, position_ns, streams });
        }
        if self.may_destage(now_ns) {
            for (index, dirty) in self.dirty.iter().enumerate() {
                let position_ns = self.position_ns(now_ns, dirty.begin, true);
                let cost_ns = position_ns - (now_ns - dirty.since_ns) * self.model.write_ageing;
                consider(cost_ns, Choice::Dirty { index, position_ns });
            }
        }
        best.map(|(_, choice)| choice)
    }

    fn may_destage(&self, now_ns: f64) -> bool {
        let fuller_than = |share: f64| {
            self.dirty.bytes() as f64 > share * self.model.write_cache.0 as f64
                || self.dirty.len() as f64 > share * self.model.write_cache_entries as f64
        };
        let must = self.flushing || !self.without_room.is_empty() || fuller_than(self.model.high_water);
        let idle = self.queue.is_empty();
        let is_time = self.destages_ns().is_some_and(|time_ns| now_ns >= time_ns);
        let reads_ahead = self.ahead.is_some_and(|ahead| now_ns < ahead.ends_ns);
        must || (idle && fuller_than(self.model.low_water)) || (idle && is_time && !reads_ahead)
    }

    /// When an idle disk begins to write what is in its cache.
    fn destages_ns(&self) -> Option<f64> {
        let oldest_ns = self.dirty.iter().map(|dirty| dirty.since_ns).reduce(f64::min)?;
        Some(oldest_ns + ns(self.model.destage_after))
    }

    /// The time to get the head to a place: seek, settling and rotation.
    fn position_ns(&self, now_ns: f64, offset: u64, is_write: bool) -> f64 {
        let spot = self.geometry.locate(offset);
        let Last { end, at_ns, was_write } = self.last;
        if offset == end && is_write == was_write && now_ns <= at_ns + STREAMING_NS {
            return if spot.track == self.track { 0.0 } else { ns(self.model.switch) };
        }
        let settle_ns = if is_write && spot.track != self.track { ns(self.model.write_settle) } else { 0.0 };
        let there_ns = self.geometry.seek_ns(self.track, spot.track) + settle_ns;
        there_ns + self.geometry.rotation_ns(now_ns + there_ns, spot)
    }

    /// Serves a request from the platters. Its command is decoded while the disk turns.
    fn access(&mut self, taken: Taken, now_ns: f64, position_ns: f64) {
        let Taken { request, since_ns } = taken;
        let is_write = request.kind != DiskOperation::Read;
        let decoded_ns = since_ns + ns(self.model.overhead);
        let (begins_ns, position_ns) = match decoded_ns > now_ns {
            true => (decoded_ns, self.position_ns(decoded_ns, request.offset, is_write)),
            false => (now_ns, position_ns),
        };
        self.ahead = None;
        let task = if is_write { Task::Write(taken) } else { Task::Read(taken) };
        self.begin(task, request.offset, request.length, begins_ns + position_ns);
    }

    /// Writes a part of the cache.
    fn destage(&mut self, index: usize, there_ns: f64) {
        let dirty = self.dirty.get(index);
        let end = dirty.end.min(dirty.begin + self.model.destage_size.0);
        self.dirty.take(dirty.begin, end);
        self.ahead = None;
        self.begin(Task::Destage, dirty.begin, end - dirty.begin, there_ns);
    }

    fn begin(&mut self, task: Task, offset: u64, length: u64, there_ns: f64) {
        let (transfer_ns, track) = self.geometry.transfer_ns(offset, length);
        self.track = track;
        self.work = Some(Work { task, offset, length, ends_ns: there_ns + transfer_ns });
    }

    /// Ends what the head has done.
    fn end(&mut self, work: Work) {
        let Work { task, offset, length, ends_ns } = work;
        self.last = Last { end: offset + length, at_ns: ends_ns, was_write: !matches!(task, Task::Read(_)) };
        self.ahead = None;
        match task {
            Task::Read(Taken { request, .. }) => {
                let (from, from_ns) = (request.end(), ends_ns);
                let segment = self.segments.add(request.offset, from);
                self.ahead = Some(ReadAhead { segment, from, from_ns, limit: from, ends_ns });
                self.read_ahead_to(from + self.model.read_ahead.0);
                self.done.push((request, ends_ns));
            }
            Task::Write(Taken { request, .. }) => self.done.push((request, ends_ns)),
            Task::Destage => {
                while let Some(Taken { request, .. }) = self.without_room.front().copied()
                    && self.has_room(request.length)
                {
                    self.without_room.pop_front();
                    self.keep(request, ends_ns);
                }
            }
        }
        self.flushing &= !self.is_clean();
    }

    /// Returns whether the head, which reads ahead, is about to come to this.
    fn is_where_the_head_reads(&self, request: DiskRequest) -> bool {
        let (begin, end) = (request.offset, request.end());
        self.ahead.is_some_and(|ahead| self.segments.is_begun_in(ahead.segment, begin, end))
    }

    /// Serves a request to which the head comes by reading on.
    fn read_on(&mut self, taken: Taken, now_ns: f64) {
        let Taken { request, since_ns } = taken;
        self.read_ahead_to(request.end() + self.model.read_ahead.0);
        let Some(ahead) = self.ahead else { return self.queue.push(taken) };
        let (more_ns, track) =
            self.geometry.transfer_ns(ahead.from, request.end().saturating_sub(ahead.from));
        self.track = track;
        let decoded_ns = now_ns.max(since_ns + ns(self.model.overhead));
        let ends_ns = (ahead.from_ns + more_ns).max(decoded_ns);
        let DiskRequest { offset, length, .. } = request;
        self.work = Some(Work { task: Task::Read(taken), offset, length, ends_ns });
    }

    /// Adds what the head has read ahead by now to its segment.
    fn follow_read_ahead(&mut self, now_ns: f64) {
        let Some(ahead) = self.ahead else { return };
        let (end, track) = self.geometry.reach(ahead.from, now_ns - ahead.from_ns, ahead.limit);
        self.segments.extend(ahead.segment, end);
        self.track = track;
    }

    fn read_ahead_to(&mut self, limit: u64) {
        let limit = limit.min(self.geometry.size());
        let Some(ahead) = &mut self.ahead else { return };
        if limit > ahead.limit {
            ahead.limit = limit;
            ahead.ends_ns = ahead.from_ns + self.geometry.transfer_ns(ahead.from, limit - ahead.from).0;
        }
    }

    /// Nothing is to be done now: says when there will be.
    fn rest(&mut self, now_ns: f64) {
        let ahead_ns = self.ahead.map(|ahead| ahead.ends_ns).filter(|ends_ns| *ends_ns > now_ns);
        if ahead_ns.is_none() {
            self.ahead = None;
        }
        // What is read ahead ends before the cache is written.
        self.wakes_ns = ahead_ns.or_else(|| self.destages_ns().map(|time_ns| time_ns.max(now_ns + 1000.0)));
    }
}

impl Moving for Spindle {
    /// Takes a read or a write, which the cache serves if it can.
    fn submit(&mut self, request: DiskRequest, now_ns: f64) {
        let taken = Taken { request, since_ns: now_ns };
        match request.kind {
            DiskOperation::Read => {
                self.follow_read_ahead(now_ns);
                match self.is_cached(request) {
                    true => self.serve_from_cache(request, now_ns),
                    false => self.queue.push(taken),
                }
            }
            _ if self.model.write_cache.0 == 0 => self.queue.push(taken),
            _ if self.without_room.is_empty() && self.has_room(request.length) => self.keep(request, now_ns),
            _ => self.without_room.push_back(taken),
        }
        self.go_on(now_ns);
    }

    fn flush(&mut self, now_ns: f64) {
        if self.is_clean() {
            return;
        }
        self.flushing = true;
        if self.work.is_none() {
            self.go_on(now_ns);
        }
    }

    fn is_clean(&self) -> bool {
        let destages = self.work.is_some_and(|work| matches!(work.task, Task::Destage));
        self.dirty.is_empty() && self.without_room.is_empty() && !destages
    }

    fn next_ns(&self) -> Option<f64> {
        self.work.map(|work| work.ends_ns).or(self.wakes_ns)
    }

    fn step(&mut self) {
        if let Some(work) = self.work.take() {
            self.end(work);
            self.go_on(work.ends_ns);
        } else if let Some(now_ns) = self.wakes_ns.take() {
            self.go_on(now_ns);
        }
    }

    fn take_done(&mut self) -> std::vec::Drain<'_, (DiskRequest, f64)> {
        self.done.drain(..)
    }

    fn overhead_ns(&self) -> f64 {
        ns(self.model.overhead)
    }
}

fn ns(time: Nanos) -> f64 {
    time.0 as f64
}
