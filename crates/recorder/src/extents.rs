//! Which bytes of a disk come from where.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteSource {
    /// The data of the log, from this place on.
    Log(u64),
    /// Nowhere: they are zeros.
    Zeros,
    /// The data that recovery has written, at the same offset.
    Overlay,
}

impl ByteSource {
    /// The source of what begins this much later.
    fn later(self, by: u64) -> ByteSource {
        match self {
            ByteSource::Log(at) => ByteSource::Log(at + by),
            other => other,
        }
    }
}

/// Ranges that do not overlap, each with its source. What is in none comes from elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Extents {
    /// Begin, then end and source.
    ranges: BTreeMap<u64, (u64, ByteSource)>,
}

impl Extents {
    /// Gives a range another source.
    pub fn insert(&mut self, range: Range<u64>, source: ByteSource) {
        if range.is_empty() {
            return;
        }
        self.cut_at(range.start);
        self.cut_at(range.end);
        let covered: Vec<u64> = self.ranges.range(range.clone()).map(|(begin, _)| *begin).collect();
        for begin in covered {
            self.ranges.remove(&begin);
        }
        self.ranges.insert(range.start, (range.end, source));
    }

    /// Splits the range that spans a place.
    fn cut_at(&mut self, place: u64) {
        let Some((&begin, &(end, source))) = self.ranges.range(..place).next_back() else { return };
        if end > place {
            self.ranges.insert(begin, (place, source));
            self.ranges.insert(place, (end, source.later(place - begin)));
        }
    }

    /// The parts of a range in order, each with its source; `None` for what is in no extent.
    pub fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<ByteSource>)> {
        let mut parts = Vec::new();
        if range.is_empty() {
            return parts;
        }
        let mut at = range.start;
        let before = self.ranges.range(..=range.start).next_back();
        let within = self.ranges.range(range.start + 1..range.end);
        for (&begin, &(end, source)) in before.into_iter().chain(within) {
            if end <= at {
                continue;
            }
            if begin > at {
                parts.push((at..begin, None));
                at = begin;
            }
            let until = end.min(range.end);
            parts.push((at..until, Some(source.later(at - begin))));
            at = until;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_has_the_source_that_it_was_given_last(
            inserts in prop::collection::vec((0u64..60, 0u64..20, 0u8..3), 0..40),
            begin in 0u64..70,
            length in 0u64..20,
        ) {
            let mut extents = Extents::default();
            let mut oracle = [None; 100];
            for (number, (start, length, kind)) in inserts.into_iter().enumerate() {
                let at = 1000 * number as u64;
                let source = [ByteSource::Log(at), ByteSource::Zeros, ByteSource::Overlay][usize::from(kind)];
                extents.insert(start..start + length, source);
                for place in start..start + length {
                    oracle[place as usize] = Some(source.later(place - start));
                }
            }
            let mut expected = begin;
            for (range, source) in extents.parts(begin..begin + length) {
                prop_assert_eq!(range.start, expected);
                prop_assert!(!range.is_empty());
                for place in range.clone() {
                    prop_assert_eq!(source.map(|source| source.later(place - range.start)), oracle[place as usize]);
                }
                expected = range.end;
            }
            prop_assert_eq!(expected, begin + length);
        }
    }
}
