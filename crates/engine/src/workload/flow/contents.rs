//! The contents of a file that only one worker writes to, as a list of parts.
//!
//! A write puts the bytes that one version of the file has at that position. So an append continues the part
//! before it, and the list stays short unless the file is written over in many places.

use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::wrong::Problem;

/// The source of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Nothing was ever written there.
    Hole,
    /// A version of a file: this one, or another one that it was copied from.
    Written { stamp: u64, version: u32 },
}

/// A part, from the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    until: u64,
    source: Source,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    file: FileIdentity,
    /// The last version that was written, somewhere.
    version: u32,
    parts: Vec<Part>,
}

impl Contents {
    /// A file that was written once.
    pub(super) fn made(file: FileIdentity, size: u64) -> Self {
        // Most files never have more parts.
        let mut contents = Contents { file, version: 0, parts: Vec::with_capacity(1) };
        contents.wrote(0, size, 0);
        contents
    }

    /// As another process described it ([`Contents::parts`]).
    pub(super) fn of(file: FileIdentity, parts: &[(u64, u64, u32)]) -> Self {
        let source = |stamp, version| match stamp {
            0 => Source::Hole,
            stamp => Source::Written { stamp, version },
        };
        let part = |&(until, stamp, version): &_| Part { until, source: source(stamp, version) };
        Contents { file, version: 0, parts: parts.iter().map(part).collect() }
    }

    /// Where each part ends, the stamp of the file that it was written as (0: none), and the version.
    pub(super) fn parts(&self) -> Vec<(u64, u64, u32)> {
        let part = |part: &Part| match part.source {
            Source::Hole => (part.until, 0, 0),
            Source::Written { stamp, version } => (part.until, stamp, version),
        };
        self.parts.iter().map(part).collect()
    }

    /// Becomes an empty file in the memory of another one.
    pub(super) fn reuse(&mut self, file: FileIdentity) {
        (self.file, self.version) = (file, 0);
        self.parts.clear();
    }

    pub(super) fn file(&self) -> FileIdentity {
        self.file
    }

    pub(super) fn size(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.until)
    }

    /// The version to write at a position: what is there has to differ from what comes.
    pub(super) fn next_version(&mut self, position: u64) -> u32 {
        self.version += u32::from(position < self.size());
        self.version
    }

    /// A version was written to a position.
    pub(super) fn wrote(&mut self, position: u64, length: u64, version: u32) {
        let source = Source::Written { stamp: self.file.stamp(), version };
        self.put(position, position + length, source);
    }

    /// A part of another file was copied to the same position.
    pub(super) fn copied(&mut self, position: u64, length: u64, from: &Contents) {
        let end = position + length;
        let mut begin = position;
        for part in &from.parts[from.parts.partition_point(|part| part.until <= position)..] {
            self.put(begin, part.until.min(end), part.source);
            begin = part.until;
        }
        // What is written here later must differ from what was copied.
        self.version += 1;
    }

    /// It was cut, or extended with zeros.
    pub(super) fn resize(&mut self, size: u64) {
        self.extend(size);
        let keep = self.parts.partition_point(|part| part.until < size);
        self.parts.truncate(if size == 0 { 0 } else { keep + 1 });
        if let Some(last) = self.parts.last_mut() {
            last.until = size;
        }
        // What was cut off has to differ from what comes in its place.
        self.version += 1;
    }

    /// It has at least this size.
    pub(super) fn extend(&mut self, size: u64) {
        let end = self.size();
        self.put(end, size, Source::Hole);
    }

    fn put(&mut self, from: u64, until: u64, source: Source) {
        if from >= until {
            return;
        }
        if from > self.size() {
            self.put(self.size(), from, Source::Hole);
        }
        // The part that contains the first byte, and the one that goes on after the last.
        let first = self.parts.partition_point(|part| part.until <= from);
        let after = self.parts.partition_point(|part| part.until <= until);
        let begin = first.checked_sub(1).map_or(0, |before| self.parts[before].until);
        let head = self.parts.get(first).filter(|_| begin < from).map(|part| Part { until: from, ..*part });
        let at = first + usize::from(head.is_some());
        let new = Part { until, source };
        match (after - first, head) {
            (0, None) => self.parts.insert(first, new),
            (1, None) => self.parts[first] = new,
            (_, head) => drop(self.parts.splice(first..after, head.into_iter().chain([new]))),
        }
        if self.parts.get(at + 1).is_some_and(|next| next.source == source) {
            self.parts.remove(at);
        }
        if at > 0 && self.parts[at - 1].source == source {
            self.parts.remove(at - 1);
        }
    }

    /// Compares what was read from a position on.
    ///
    /// # Errors
    /// The problem with the data read.
    pub(super) fn check(&self, comparer: &mut Comparer, position: u64, found: &[u8]) -> Result<(), Problem> {
        let (mut at, mut rest) = (position, found);
        for part in &self.parts[self.parts.partition_point(|part| part.until <= position)..] {
            let (piece, later) = rest.split_at((part.until - at).min(rest.len() as u64) as usize);
            match part.source {
                Source::Hole => comparer.check_zeros(self.file, at, piece)?,
                Source::Written { stamp, version } => {
                    comparer.check(FileIdentity::stamped(stamp), version, at, piece)?;
                }
            }
            (at, rest) = (at + piece.len() as u64, later);
            if rest.is_empty() {
                break;
            }
        }
        match rest.is_empty() {
            true => Ok(()),
            false => Err(Problem::Size { expected: self.size(), found: at + rest.len() as u64 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use fsdyno_core::workload;
    use proptest::prelude::*;

    const KIND: workload::Content = workload::Content::Random;
    const MOST: usize = 4096;

    #[derive(Debug, Clone)]
    enum Step {
        Write(usize, usize),
        Append(usize),
        Resize(usize),
        Extend(usize),
        Copy(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (at, length) = (0..MOST, 1..1500_usize);
        prop::collection::vec(
            prop_oneof![
                (at.clone(), length.clone()).prop_map(|(at, length)| Step::Write(at, length)),
                length.clone().prop_map(Step::Append),
                at.clone().prop_map(Step::Resize),
                at.clone().prop_map(Step::Extend),
                (at, length).prop_map(|(at, length)| Step::Copy(at, length)),
            ],
            1..25,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Against the bytes of a file: they pass, and nothing else does.
        #[test]
        fn bytes_are_those_of_a_file(steps in steps(), byte: prop::sample::Index, bit in 0..8_u32) {
            let (file, other) = (FileIdentity::new(3, 1), FileIdentity::new(3, 2));
            let mut content = Content::new(KIND, 1, 4 * MOST);
            let mut comparer = Comparer::new(KIND, 1, 16 * MOST);
            let source = Contents::made(other, 3000);
            let (mut contents, mut bytes) = (Contents::made(file, 0), Vec::<u8>::new());
            for step in steps {
                match step {
                    Step::Write(at, length) => {
                        let version = contents.next_version(at as u64);
                        let written = content.bytes(file.version(version), at as u64, length);
                        bytes.resize(bytes.len().max(at + length), 0);
                        bytes[at..at + length].copy_from_slice(written);
                        contents.wrote(at as u64, length as u64, version);
                    }
                    Step::Append(length) => {
                        let end = bytes.len() as u64;
                        let version = contents.next_version(end);
                        bytes.extend_from_slice(content.bytes(file.version(version), end, length));
                        contents.wrote(end, length as u64, version);
                    }
                    Step::Resize(size) => {
                        bytes.resize(size, 0);
                        contents.resize(size as u64);
                    }
                    Step::Extend(size) => {
                        bytes.resize(bytes.len().max(size), 0);
                        contents.extend(size as u64);
                    }
                    Step::Copy(at, length) => {
                        let length = length.min(3000_usize.saturating_sub(at));
                        let copied = content.bytes(other, at as u64, length);
                        if length > 0 {
                            bytes.resize(bytes.len().max(at + length), 0);
                            bytes[at..at + length].copy_from_slice(copied);
                        }
                        contents.copied(at as u64, length as u64, &source);
                    }
                }
                prop_assert_eq!(contents.size(), bytes.len() as u64);
                prop_assert_eq!(contents.check(&mut comparer, 0, &bytes), Ok(()));
                let parts = &contents.parts;
                prop_assert!(parts.windows(2).all(|pair| pair[0].until < pair[1].until));
                prop_assert!(parts.windows(2).all(|pair| pair[0].source != pair[1].source));
            }
            let read = Contents::of(file, &contents.parts());
            prop_assert_eq!(&read.parts, &contents.parts);
            if !bytes.is_empty() {
                let at = byte.index(bytes.len());
                prop_assert_eq!(read.check(&mut comparer, at as u64, &bytes[at..]), Ok(()));
                bytes[at] ^= 1 << bit;
                prop_assert!(read.check(&mut comparer, 0, &bytes).is_err());
            }
            bytes.push(0);
            prop_assert!(contents.check(&mut comparer, 0, &bytes).is_err(), "too long");
        }
    }

    /// A part that was never written over does not make the list longer, however often it is appended to.
    #[test]
    fn appends_are_one_part() {
        let mut contents = Contents::made(FileIdentity::new(3, 1), 700);
        for _ in 0..100 {
            let end = contents.size();
            let version = contents.next_version(end);
            contents.wrote(end, 333, version);
        }
        assert_eq!((contents.parts.len(), contents.size()), (1, 34_000));
    }

    /// Checks that data from before a file was cut does not pass for data appended since.
    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let file = FileIdentity::new(3, 1);
        let mut contents = Contents::made(file, 2000);
        contents.resize(1000);
        let version = contents.next_version(1000);
        contents.wrote(1000, 1000, version);
        let mut content = Content::new(KIND, 1, MOST);
        let mut comparer = Comparer::new(KIND, 1, MOST);
        let before = content.bytes(file, 0, 2000).to_vec();
        let problem = contents.check(&mut comparer, 0, &before).unwrap_err().to_string();
        assert_eq!(
            problem,
            "at offset 1024: expected sector 2 of this file, found old data: version 0 instead of 1"
        );
    }
}
