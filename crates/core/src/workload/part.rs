//! Parts of a workload, between which the filesystem is mounted again.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Which part of a workload an engine runs. If the filesystem is unmounted and mounted again during the load,
/// each part has an engine of its own, which finds what the earlier parts created; directory, workload and
/// seed are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnginePart {
    /// Which, from 0.
    pub number: u32,
    /// The number of parts.
    pub of: u32,
}

impl EnginePart {
    /// All of the workload.
    pub const WHOLE: EnginePart = EnginePart { number: 0, of: 1 };

    /// The parts of a workload, in their order.
    pub fn all(of: u32) -> impl Iterator<Item = EnginePart> {
        (0..of).map(move |number| EnginePart { number, of })
    }

    /// Its phases, of all those of the workload in their order. `cold` says of each whether the filesystem is
    /// mounted again before it: such a phase begins a new part. The first part may have none, and then only
    /// prepares the others.
    pub fn phases(self, cold: &[bool]) -> Range<usize> {
        if self == EnginePart::WHOLE {
            return 0..cold.len();
        }
        let cuts = || (0..cold.len()).filter(|phase| cold[*phase]);
        let begin = match self.number {
            0 => Some(0),
            number => cuts().nth(number as usize - 1),
        };
        begin.unwrap_or(cold.len())..cuts().nth(self.number as usize).unwrap_or(cold.len())
    }

    /// Returns whether the part begins with an empty directory.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// Returns whether nothing comes after the part.
    pub fn is_last(self) -> bool {
        self.number + 1 >= self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_phase_begins_a_new_part() {
        let cold = [false, true, false, true];
        assert_eq!(EnginePart::WHOLE.phases(&cold), 0..4);
        let phases: Vec<_> = EnginePart::all(3).map(|part| part.phases(&cold)).collect();
        assert_eq!(phases, [0..1, 1..3, 3..4]);
        // The first part only prepares.
        let phases: Vec<_> = EnginePart::all(3).map(|part| part.phases(&[true, true])).collect();
        assert_eq!(phases, [0..0, 0..1, 1..2]);
    }
}
