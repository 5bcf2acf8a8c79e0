//! The cache of a drive: segments of what was read, and ranges that are yet to be written.

/// Bytes of the disk that are in the cache and not on the platters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dirty {
    pub begin: u64,
    pub end: u64,
    /// When the oldest of it came.
    pub since_ns: f64,
}

/// Ranges that are yet to be written; none touches another.
#[derive(Debug, Default)]
pub(crate) struct DirtyRanges {
    ranges: Vec<Dirty>,
    bytes: u64,
}

impl DirtyRanges {
    /// Adds a range, together with those that it touches.
    pub fn add(&mut self, mut added: Dirty) {
        self.ranges.retain(|range| {
            let touches = added.begin <= range.end && range.begin <= added.end;
            if touches {
                self.bytes -= range.end - range.begin;
                added = Dirty {
                    begin: added.begin.min(range.begin),
                    end: added.end.max(range.end),
                    since_ns: added.since_ns.min(range.since_ns),
                };
            }
            !touches
        });
        self.bytes += added.end - added.begin;
        self.ranges.push(added);
    }

    /// Removes what is in a range.
    pub fn take(&mut self, begin: u64, end: u64) {
        let mut rest = Vec::new();
        self.ranges.retain(|range| {
            let overlaps = begin < range.end && range.begin < end;
            if overlaps {
                self.bytes -= range.end - range.begin;
                rest.push(Dirty { end: begin.max(range.begin), ..*range });
                rest.push(Dirty { begin: end.min(range.end), ..*range });
            }
            !overlaps
        });
        for range in rest.into_iter().filter(|range| range.begin < range.end) {
            self.bytes += range.end - range.begin;
            self.ranges.push(range);
        }
    }

    /// Returns whether all of a range is here.
    pub fn has(&self, begin: u64, end: u64) -> bool {
        self.ranges.iter().any(|range| range.begin <= begin && end <= range.end)
    }

    pub fn get(&self, index: usize) -> Dirty {
        self.ranges[index]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Dirty> {
        self.ranges.iter()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// A part of the cache that holds what was read in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    begin: u64,
    end: u64,
    used: u64,
}

impl Segment {
    fn holds(&self, begin: u64, end: u64) -> bool {
        self.begin < self.end && self.begin <= begin && end <= self.end
    }
}

/// The segments for what was read; the one that was used least recently is given up first.
#[derive(Debug)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    longest: u64,
    uses: u64,
}

impl Segments {
    pub fn new(count: usize, longest: u64) -> Segments {
        Segments { segments: vec![Segment::default(); count.max(1)], longest, uses: 0 }
    }

    /// Returns whether a segment has all of a range, which counts as a use.
    pub fn has(&mut self, begin: u64, end: u64) -> bool {
        self.uses += 1;
        let found = self.segments.iter_mut().find(|segment| segment.holds(begin, end));
        found.map(|segment| segment.used = self.uses).is_some()
    }

    /// Returns whether this segment has all of a range.
    pub fn is_in(&self, segment: usize, begin: u64, end: u64) -> bool {
        self.segments[segment].holds(begin, end)
    }

    /// Returns whether this segment has the beginning of a range, or ends where it begins, and not its end.
    pub fn is_begun_in(&self, segment: usize, begin: u64, end: u64) -> bool {
        let segment = self.segments[segment];
        segment.begin <= begin && begin <= segment.end && segment.end < end
    }

    /// Adds what was read: to the segment that it goes on from, or in place of the oldest.
    pub fn add(&mut self, begin: u64, end: u64) -> usize {
        let goes_on =
            |segment: &Segment| segment.begin < segment.end && segment.begin <= begin && begin <= segment.end;
        let index = self.segments.iter().position(goes_on).unwrap_or_else(|| {
            let oldest = (0..self.segments.len()).min_by_key(|index| self.segments[*index].used);
            let oldest = oldest.unwrap_or_default();
            self.segments[oldest] = Segment { begin, end, used: 0 };
            oldest
        });
        self.uses += 1;
        self.segments[index].used = self.uses;
        self.extend(index, end);
        index
    }

    /// Lets a segment reach this far; what does not fit is forgotten at its beginning.
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.begin = segment.begin.max(segment.end.saturating_sub(self.longest));
    }

    /// Returns whether this segment has a part of a range.
    pub fn has_part(&self, segment: usize, begin: u64, end: u64) -> bool {
        self.segments[segment].begin < end && begin < self.segments[segment].end
    }

    /// Forgets the segments that have a part of a range.
    pub fn forget(&mut self, begin: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.begin < end && begin < segment.end {
                *segment = Segment::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_the_bytes_that_were_added_and_not_taken() {
        let mut ranges = DirtyRanges::default();
        let mut bytes = BTreeSet::new();
        let mut random = 1_u64;
        for step in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let begin = (random >> 33) % 200;
            let end = begin + 1 + (random >> 50) % 20;
            match random >> 63 {
                0 => {
                    ranges.add(Dirty { begin, end, since_ns: f64::from(step) });
                    bytes.extend(begin..end);
                }
                _ => {
                    ranges.take(begin, end);
                    bytes.retain(|byte| !(begin..end).contains(byte));
                }
            }
            let held: BTreeSet<u64> = ranges.iter().flat_map(|range| range.begin..range.end).collect();
            assert_eq!((held.len() as u64, &held), (ranges.bytes(), &bytes));
        }
    }

    #[test]
    fn the_segment_that_was_used_least_recently_makes_room() {
        let mut segments = Segments::new(2, 100);
        let first = segments.add(0, 10);
        segments.add(1000, 1010);
        assert!(segments.has(0, 10) && segments.has(1000, 1010) && segments.has(5, 10));
        segments.add(2000, 2010);
        assert!(segments.has(0, 10) && !segments.has(1000, 1010));
        segments.extend(first, 150);
        assert!(!segments.is_in(first, 40, 60) && segments.is_in(first, 50, 150));
        assert!(segments.is_begun_in(first, 150, 160) && !segments.is_begun_in(first, 151, 160));
        assert!(segments.has_part(first, 149, 151) && !segments.has_part(first, 151, 152));
        segments.forget(149, 151);
        assert!(!segments.has(60, 70));
    }
}
