//! Files that readers go through again within a phase: whether they are still in memory then decides what is
//! measured.

use crate::units::{Bytes, Nanos};
use std::fmt;

/// The files that the readers of a load read more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rereads {
    /// The parameter with its size.
    pub parameter: &'static str,
    /// The value of that parameter, or what all of them take if it is a number.
    pub value: Bytes,
    /// The bytes that one takes if the parameter is a number, as of directories; `None` for a size.
    pub one_takes: Option<Bytes>,
    /// The files in words: `each reader's tree`.
    pub what: &'static str,
    /// Their size for one reader.
    pub size: Bytes,
    /// The factor by which they must exceed what can be cached.
    pub times: u64,
    /// Their share of the parameter's value, as a fraction.
    pub share: [u64; 2],
    /// True for direct I/O, which the page cache does not serve.
    pub direct: bool,
}

/// A value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// Of bytes, in a plan with its unit.
    Size(Bytes),
    /// Of things.
    Number(u64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Size(size) => size.fmt(f),
            Amount::Number(number) => number.fmt(f),
        }
    }
}

impl Rereads {
    /// The smallest value of the parameter with which readers still read from the device, if this much can be
    /// cached.
    pub fn least(&self, cached: Bytes) -> Bytes {
        let [part, whole] = self.share.map(|count| u128::from(count.max(1)));
        let least = (u128::from(cached.0) * u128::from(self.times) * whole).div_ceil(part);
        Bytes(u64::try_from(least).unwrap_or(u64::MAX))
    }

    /// [`Rereads::least`] as a value of the parameter.
    pub fn least_amount(&self, cached: Bytes) -> Amount {
        let least = self.least(cached);
        self.one_takes.map_or(Amount::Size(least), |one| Amount::Number(least.0.div_ceil(one.0.max(1))))
    }

    /// The most that may be cached while readers still read from the device.
    pub fn most_cached(&self) -> Bytes {
        let [part, whole] = self.share.map(|count| count.max(1));
        let most = u128::from(self.value.0) * u128::from(part) / (u128::from(self.times) * u128::from(whole));
        Bytes(most as u64)
    }

    /// Returns true if a cache of this size may serve a second pass from memory.
    pub fn are_cached(&self, cached: Bytes) -> bool {
        !self.direct && self.value < self.least(cached)
    }

    /// Advice that makes readers read from the device. `limit` is the limit on the load's memory, if there is
    /// one; `memory` is that of the machine.
    pub fn remedy(&self, limit: Option<Bytes>, memory: Bytes) -> String {
        let (has, cached, less) = match limit {
            Some(limit) => {
                (format!("The load may use {limit} of memory (`memory`)"), limit, "lower `memory`")
            }
            None => {
                // Machines have odd amounts of it, and nobody wants to read their digits.
                let step = if memory.0 >= 8 * Bytes::GIB { Bytes::GIB } else { Bytes::MIB };
                let memory = Bytes(memory.0.next_multiple_of(step));
                (format!("The load may use all {memory} of memory"), memory, "limit `memory`")
            }
        };
        format!("{has}: set {} to at least {}, or {less}.", self.parameter, self.least_amount(cached))
    }

    /// Bytes per second of a device that delivers all of them to one reader within a ramp and window, so that
    /// there is time to come round again; `None` if the phases last until everything is read.
    pub fn rate(&self, each: Nanos) -> Option<u64> {
        let rate = u128::from(self.size.0) * 1_000_000_000 / u128::from(each.0.max(1));
        (each > Nanos(0)).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Amount;
    use crate::workload::{Bonnie, Fileserver, IoEngine, Load, Scan, Stage, Streaming};
    use crate::{Bytes, Nanos};

    const MIB: u64 = Bytes::MIB;

    #[test]
    fn a_tree_of_each_reader_is_a_share_of_all() {
        let load = Fileserver { tree_size: Bytes(400 * MIB), readers: 3, ..Fileserver::default() };
        let rereads = load.rereads().expect("a reader starts its tree again");
        assert_eq!((rereads.size, rereads.least(Bytes(64 * MIB))), (Bytes(100 * MIB), Bytes(512 * MIB)));
        assert_eq!(rereads.most_cached(), Bytes(50 * MIB));
        assert!(rereads.are_cached(Bytes(51 * MIB)) && !rereads.are_cached(Bytes(50 * MIB)));
        assert_eq!(rereads.rate(Nanos::from_secs(10)), Some(10 * MIB));
        let direct = Fileserver { direct: true, ..load }.rereads().expect("all the same");
        assert!(!direct.are_cached(Bytes(1 << 40)), "no page cache, whatever its size");
    }

    #[test]
    fn random_reads_of_files_hit_what_is_cached_of_them() {
        let stages = |stages: &[Stage]| Streaming {
            file_size: Bytes(100 * MIB),
            streams: 2,
            stages: stages.to_vec(),
            io: IoEngine::Sync,
            ..Streaming::default()
        };
        assert_eq!(stages(&[Stage::Write, Stage::Read]).rereads(), None, "each stage reads them once");
        let random = stages(&[Stage::Write, Stage::RandomRead]).rereads().expect("blocks come again");
        // A fifth of 200 MiB is the most that a fifth of the reads may hit.
        assert_eq!(random.most_cached(), Bytes(40 * MIB));
        assert_eq!(random.least(Bytes(40 * MIB)), Bytes(100 * MIB));
        let mixed = stages(&[Stage::Mixed]).rereads().expect("readers begin again");
        assert_eq!((mixed.most_cached(), mixed.least(Bytes(MIB))), (Bytes(50 * MIB), Bytes(2 * MIB)));
    }

    #[test]
    fn a_tree_that_is_scanned_needs_more_directories() {
        let load = Scan { directories: 10, files_per_directory: 1023, ..Scan::default() };
        let rereads = load.rereads().expect("each walk looks at the same names");
        assert_eq!((rereads.size, rereads.value), (Bytes(5 * MIB), Bytes(12 * MIB + MIB / 2)));
        assert_eq!(rereads.least_amount(Bytes(50 * MIB)), Amount::Number(80));
        assert!(rereads.are_cached(Bytes(7 * MIB)) && !rereads.are_cached(Bytes(6 * MIB)));
        let text = rereads.remedy(Some(Bytes(64 * MIB)), Bytes(1 << 33));
        assert!(text.contains("set directories to at least 103, or lower `memory`"), "{text}");
    }

    #[test]
    fn a_large_file_of_bonnie_is_twice_what_can_be_cached() {
        assert_eq!(Bonnie::default().rereads(), None, "it follows from the memory");
        let rereads = Bonnie { size: Some(Bytes(64 * MIB)), ..Bonnie::default() }.rereads();
        assert_eq!(rereads.expect("it is read after it was written").least(Bytes(48 * MIB)), Bytes(96 * MIB));
    }
}
