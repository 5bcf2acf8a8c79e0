//! Disks behind a controller: rows of chunks with parity, and a cache that a battery protects.
//!
//! A write is complete when it is in the cache. A row of chunks is written when the cache fills up, or when
//! its data is old: together with its parity if it is whole, else after what the parity needs has been read.
//! The caches of the disks do not hold writes, because a battery protects none of them.

use crate::due::Due;
use crate::interface::Interface;
use crate::model::{DiskArray, HardDisk};
use crate::moving::Moving;
use crate::spindle::Spindle;
use crate::{DiskOperation, DiskRequest, RequestId};
use fsdyno_core::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// A part of a chunk: `[begin, end)` in bytes from the chunk's beginning.
type Span = (u64, u64);

/// Where the bytes of an array are on its disks: the parity of each row is one disk further to the left than
/// that of the row before, and data begins behind it (`left-symmetric`, md(4)).
#[derive(Debug, Clone, Copy)]
struct Layout {
    members: u64,
    parity: u64,
    chunk: u64,
}

impl Layout {
    fn data(self) -> u64 {
        self.members - self.parity
    }

    /// The disk of a chunk of data in a row.
    fn data_disk(self, row: u64, index: u64) -> usize {
        ((self.first(row) + self.parity + index) % self.members) as usize
    }

    /// The disk of a chunk of parity in a row.
    fn parity_disk(self, row: u64, index: u64) -> usize {
        ((self.first(row) + index) % self.members) as usize
    }

    /// The disk with the first parity of a row.
    fn first(self, row: u64) -> u64 {
        self.members - 1 - row % self.members
    }

    /// The parts of a range: row, chunk in the row, and the part of the chunk.
    fn parts(self, begin: u64, end: u64) -> impl Iterator<Item = (u64, u64, Span)> {
        let chunks = begin / self.chunk..end.div_ceil(self.chunk);
        chunks.map(move |number| {
            let from = number * self.chunk;
            let span = (begin.max(from) - from, end.min(from + self.chunk) - from);
            (number / self.data(), number % self.data(), span)
        })
    }
}

/// The part of a row that the cache holds.
#[derive(Debug, Clone, Default)]
struct Dirty {
    /// By the number of the chunk in its row. What is between two writes to one chunk counts as written.
    chunks: BTreeMap<u64, Span>,
    since_ns: f64,
    /// Writes that end when it is on the disks: those of a controller without a cache.
    waiting: Vec<RequestId>,
}

impl Dirty {
    fn bytes(&self) -> u64 {
        self.chunks.values().map(|(begin, end)| end - begin).sum()
    }

    fn has(&self, chunk: u64, span: Span) -> bool {
        self.chunks.get(&chunk).is_some_and(|(begin, end)| *begin <= span.0 && span.1 <= *end)
    }

    fn add(&mut self, chunk: u64, span: Span) {
        let own = self.chunks.entry(chunk).or_insert(span);
        *own = (own.0.min(span.0), own.1.max(span.1));
    }

    /// The part of each chunk that its parity is about.
    fn hull(&self) -> Span {
        let begin = self.chunks.values().map(|(begin, _)| *begin).min().unwrap_or_default();
        (begin, self.chunks.values().map(|(_, end)| *end).max().unwrap_or_default())
    }
}

/// A row that is being written.
#[derive(Debug)]
struct Writing {
    dirty: Dirty,
    /// Requests to disks that have not ended, and whether they are the writes.
    left: usize,
    writes: bool,
}

/// A request to one of the disks.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Read(RequestId),
    Row(u64),
}

/// A request to the array, of which parts are left.
#[derive(Debug, Clone, Copy)]
struct Parent {
    request: DiskRequest,
    left: usize,
}

/// An array at work.
#[derive(Debug)]
pub(crate) struct Raid {
    model: DiskArray,
    layout: Layout,
    disks: Vec<Spindle>,
    parents: HashMap<RequestId, Parent>,
    /// The purposes of the requests to the disks.
    purposes: HashMap<RequestId, Purpose>,
    next_id: RequestId,
    /// The requests to the disks that have ended, or will.
    due: BinaryHeap<Reverse<Due>>,
    dirty: BTreeMap<u64, Dirty>,
    writing: BTreeMap<u64, Writing>,
    /// The rows of which something waits, since when, the oldest first; also some that have been begun since.
    ages: VecDeque<(f64, u64)>,
    /// Bytes that the cache holds, of rows that wait and rows that are being written.
    cached: u64,
    without_room: VecDeque<DiskRequest>,
    /// The row behind the one that was begun last.
    hand: u64,
    interface: Interface,
    wakes_ns: Option<f64>,
    done: Vec<(DiskRequest, f64)>,
}

impl Raid {
    pub fn new(model: DiskArray, member: HardDisk, size: u64, span: f64) -> Raid {
        let layout = Layout { members: model.members, parity: model.parity, chunk: model.chunk.0 };
        let rows = size.div_ceil(layout.data() * layout.chunk);
        let member = HardDisk { write_cache: Bytes(0), ..member };
        let interface = Interface::new(model.interface_rate);
        let disks =
            (0..model.members).map(|_| Spindle::new(member.clone(), rows * layout.chunk, span)).collect();
        Raid {
            model,
            layout,
            disks,
            parents: HashMap::new(),
            purposes: HashMap::new(),
            next_id: 0,
            due: BinaryHeap::new(),
            dirty: BTreeMap::new(),
            ages: VecDeque::new(),
            writing: BTreeMap::new(),
            cached: 0,
            without_room: VecDeque::new(),
            hand: 0,
            interface,
            wakes_ns: None,
            done: Vec::new(),
        }
    }

    fn read(&mut self, request: DiskRequest, now_ns: f64) {
        let parts: Vec<_> = self.layout.parts(request.offset, request.end()).collect();
        let absent: Vec<_> =
            parts.into_iter().filter(|(row, chunk, span)| !self.has(*row, *chunk, *span)).collect();
        self.parents.insert(request.id, Parent { request, left: absent.len() });
        for (row, chunk, span) in &absent {
            let disk = self.layout.data_disk(*row, *chunk);
            self.ask(disk, DiskOperation::Read, *row, *span, Purpose::Read(request.id), now_ns);
        }
        if absent.is_empty() {
            self.complete(request.id, now_ns);
        }
    }

    /// Returns whether the cache has this part of a chunk.
    fn has(&self, row: u64, chunk: u64, span: Span) -> bool {
        let waits = self.dirty.get(&row).is_some_and(|dirty| dirty.has(chunk, span));
        waits || self.writing.get(&row).is_some_and(|writing| writing.dirty.has(chunk, span))
    }

    fn write(&mut self, request: DiskRequest, now_ns: f64) {
        match self.without_room.is_empty() && (self.model.cache.0 == 0 || self.has_room(request.length)) {
            true => self.keep(request, now_ns),
            false => self.without_room.push_back(request),
        }
    }

    /// A cache that is smaller than a request takes it when it is empty.
    fn has_room(&self, length: u64) -> bool {
        self.cached == 0 || self.cached + length <= self.model.cache.0
    }

    /// Takes a write into the cache, or into what is written next if there is none.
    fn keep(&mut self, request: DiskRequest, now_ns: f64) {
        let has_cache = self.model.cache.0 > 0;
        let mut rows = 0;
        let mut last = None;
        for (row, chunk, span) in self.layout.parts(request.offset, request.end()) {
            let dirty = self.dirty.entry(row).or_insert_with(|| {
                self.ages.push_back((now_ns, row));
                Dirty { since_ns: now_ns, ..Dirty::default() }
            });
            let before = dirty.bytes();
            dirty.add(chunk, span);
            self.cached += dirty.bytes() - before;
            if last != Some(row) {
                rows += 1;
                last = Some(row);
                if !has_cache {
                    dirty.waiting.push(request.id);
                }
            }
        }
        self.parents.insert(request.id, Parent { request, left: rows });
        if has_cache {
            self.complete(request.id, now_ns);
        }
    }

    /// Hands a request to a disk.
    fn ask(&mut self, disk: usize, kind: DiskOperation, row: u64, span: Span, purpose: Purpose, now_ns: f64) {
        let id = self.next_id;
        self.next_id += 1;
        self.purposes.insert(id, purpose);
        let (offset, length) = (row * self.layout.chunk + span.0, span.1 - span.0);
        self.disks[disk].submit(DiskRequest { id, kind, offset, length }, now_ns);
        self.collect(disk);
    }

    fn collect(&mut self, disk: usize) {
        let done = self.disks[disk].take_done().map(|(request, at_ns)| Reverse(Due { at_ns, request }));
        self.due.extend(done);
    }

    /// Ends a request to the array: its data goes over the interface.
    fn complete(&mut self, id: RequestId, now_ns: f64) {
        let Some(Parent { request, .. }) = self.parents.remove(&id) else { return };
        let at_ns = self.interface.carry(request.length, now_ns + self.overhead_ns());
        self.done.push((request, at_ns));
    }

    /// A request to a disk has ended.
    fn ended(&mut self, id: RequestId, now_ns: f64) {
        match self.purposes.remove(&id) {
            Some(Purpose::Read(parent)) => self.part_ended(parent, now_ns),
            Some(Purpose::Row(row)) => self.row_went_on(row, now_ns),
            None => {}
        }
    }

    fn part_ended(&mut self, id: RequestId, now_ns: f64) {
        let Some(parent) = self.parents.get_mut(&id) else { return };
        parent.left -= 1;
        if parent.left == 0 {
            self.complete(id, now_ns);
        }
    }

    fn row_went_on(&mut self, row: u64, now_ns: f64) {
        let Some(writing) = self.writing.get_mut(&row) else { return };
        writing.left -= 1;
        if writing.left > 0 {
            return;
        }
        if !writing.writes {
            return self.write_row(row, now_ns);
        }
        let Some(Writing { dirty, .. }) = self.writing.remove(&row) else { return };
        self.cached -= dirty.bytes();
        for id in dirty.waiting {
            self.part_ended(id, now_ns);
        }
        while let Some(request) = self.without_room.front().copied()
            && self.has_room(request.length)
        {
            self.without_room.pop_front();
            self.keep(request, now_ns);
        }
    }

    /// Begins to write rows, as long as some are to be written.
    fn begin_rows(&mut self, now_ns: f64) {
        self.wakes_ns = None;
        while (self.writing.len() as u64) < self.model.rows_at_once && self.must_write(now_ns) {
            // In the order of their places, so that the disks write in a row, and round again. One that is
            // being written is not begun a second time.
            let waits = |row: &&u64| !self.writing.contains_key(*row);
            let behind = self.dirty.range(self.hand..).map(|(row, _)| row).find(waits);
            let Some(row) = behind.or_else(|| self.dirty.keys().find(waits)).copied() else { return };
            let Some(dirty) = self.dirty.remove(&row) else { return };
            self.hand = row + 1;
            self.begin_row(row, dirty, now_ns);
        }
    }

    fn must_write(&mut self, now_ns: f64) -> bool {
        while let Some((since_ns, row)) = self.ages.front()
            && self.dirty.get(row).is_none_or(|dirty| dirty.since_ns != *since_ns)
        {
            self.ages.pop_front();
        }
        let Some((oldest_ns, _)) = self.ages.front().copied() else { return false };
        let is_full = self.cached as f64 > self.model.high_water * self.model.cache.0 as f64;
        let time_ns = oldest_ns + self.model.write_after.0 as f64;
        if is_full || !self.without_room.is_empty() || now_ns >= time_ns {
            return true;
        }
        self.wakes_ns = Some(time_ns);
        false
    }

    /// Reads what the parity of a row needs: what is written over, or all that is not, whichever is less.
    fn begin_row(&mut self, row: u64, dirty: Dirty, now_ns: f64) {
        let hull = dirty.hull();
        let Layout { parity, .. } = self.layout;
        let mut reads: Vec<(usize, Span)> = Vec::new();
        if parity > 0 {
            let chunks = 0..self.layout.data();
            let others = chunks.filter(|chunk| dirty.chunks.get(chunk) != Some(&hull));
            let others: Vec<_> = others.map(|chunk| (self.layout.data_disk(row, chunk), hull)).collect();
            let over = dirty.chunks.iter().map(|(chunk, span)| (self.layout.data_disk(row, *chunk), *span));
            let old = (0..parity).map(|index| (self.layout.parity_disk(row, index), hull));
            let over: Vec<_> = over.chain(old).collect();
            reads = if others.len() <= over.len() { others } else { over };
        }
        self.writing.insert(row, Writing { dirty, left: reads.len(), writes: false });
        if reads.is_empty() {
            self.write_row(row, now_ns);
        }
        for (disk, span) in reads {
            self.ask(disk, DiskOperation::Read, row, span, Purpose::Row(row), now_ns);
        }
    }

    fn write_row(&mut self, row: u64, now_ns: f64) {
        let Some(writing) = self.writing.get_mut(&row) else { return };
        let (layout, hull) = (self.layout, writing.dirty.hull());
        let data = writing.dirty.chunks.iter().map(|(chunk, span)| (layout.data_disk(row, *chunk), *span));
        let parity = (0..layout.parity).map(|index| (layout.parity_disk(row, index), hull));
        let writes: Vec<_> = data.chain(parity).collect();
        (writing.left, writing.writes) = (writes.len(), true);
        for (disk, span) in writes {
            self.ask(disk, DiskOperation::Write, row, span, Purpose::Row(row), now_ns);
        }
    }
}

impl Moving for Raid {
    fn submit(&mut self, request: DiskRequest, now_ns: f64) {
        match request.kind {
            DiskOperation::Read => self.read(request, now_ns),
            _ => self.write(request, now_ns),
        }
        self.begin_rows(now_ns);
    }

    /// Does nothing: a battery protects the cache.
    fn flush(&mut self, _now_ns: f64) {}

    fn is_clean(&self) -> bool {
        self.without_room.is_empty()
    }

    fn next_ns(&self) -> Option<f64> {
        let due = self.due.peek().map(|Reverse(due)| due.at_ns);
        let disks = self.disks.iter().filter_map(Spindle::next_ns);
        disks.chain(due).chain(self.wakes_ns).reduce(f64::min)
    }

    fn step(&mut self) {
        let Some(now_ns) = self.next_ns() else { return };
        for disk in 0..self.disks.len() {
            if self.disks[disk].next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                self.disks[disk].step();
                self.collect(disk);
            }
        }
        while let Some(Reverse(due)) = self.due.peek().copied()
            && due.at_ns <= now_ns
        {
            self.due.pop();
            self.ended(due.request.id, now_ns);
        }
        self.begin_rows(now_ns);
    }

    fn take_done(&mut self) -> std::vec::Drain<'_, (DiskRequest, f64)> {
        self.done.drain(..)
    }

    fn overhead_ns(&self) -> f64 {
        self.model.overhead.0 as f64
    }
}
