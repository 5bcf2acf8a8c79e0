//! Parts of a workload, between which the filesystem is mounted again.

use serde::{Deserialize, Serialize};

/// Which part of a workload an engine runs. If the filesystem is unmounted and mounted again during the load,
/// each part has an engine of its own, which finds what the earlier parts created; directory, workload and
/// seed are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which, from 0.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Part {
    /// All of the workload.
    pub const WHOLE: Part = Part { number: 0, of: 1 };

    /// The parts of a workload, in their order.
    pub fn all(of: u32) -> impl Iterator<Item = Part> {
        (0..of).map(move |number| Part { number, of })
    }

    /// Whether it begins with an empty directory.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// Whether nothing comes after it.
    pub fn is_last(self) -> bool {
        self.number + 1 >= self.of
    }
}
