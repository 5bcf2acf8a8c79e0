//! The action to take once the trial in progress has ended, at the request of somebody who watches a sweep.

use serde::{Deserialize, Serialize};

/// The action of a sweep after a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTrial {
    /// It goes on with the next one.
    #[default]
    Continue,
    /// It waits until it is asked to continue or to stop.
    Pause,
    /// It ends as if interrupted between two trials: everything is undone, and `--resume` goes on.
    Stop,
}

impl AfterTrial {
    /// Every wish.
    pub const ALL: [AfterTrial; 3] = [AfterTrial::Continue, AfterTrial::Pause, AfterTrial::Stop];

    /// As one byte, which two processes can share without tearing it.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The wish that a byte stands for; any other byte means to continue.
    pub fn from_byte(byte: u8) -> Self {
        AfterTrial::ALL.into_iter().find(|wish| wish.byte() == byte).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_survives_as_a_byte() {
        for wish in AfterTrial::ALL {
            assert_eq!(AfterTrial::from_byte(wish.byte()), wish);
        }
        assert_eq!(AfterTrial::from_byte(0xff), AfterTrial::Continue);
    }
}
