//! Parameters of `io-errors`, which lets single requests to a disk fail.

use super::fault::Fault;
use super::fault::Harm;
use super::measures::{OwnFigure, OwnMeasure};
use super::parameter::{Refusal, parameters};
use super::{Load, Need, Timing};
use crate::units::{Bytes, Nanos};

/// The maximum size of the file of a fault.
const FILES: Bytes = Bytes(Bytes::MIB);
/// Assumed time to make a small filesystem, mount it three times, and check it.
const ASSUMED_FAULT: Nanos = Nanos::from_millis(60);
const MAX_NTH: u32 = 10_000;
/// Smallest disk on which every filesystem can be made.
pub(super) const LEAST_DISK: Bytes = Bytes(320 * Bytes::MIB);

parameters! {
    /// Requests to the disk that fail, each on a new filesystem: what fsync(2) and read(2) say, what is there
    /// afterwards, and whether the filesystem can still be used. Sizes in bytes.
    IoErrors {
        faults: Vec<Fault> = Fault::ALL.to_vec(), "what fails, each on a filesystem of its own: \
            `overwrite-data`, `append-metadata-for-good`, `read-data` and so on";
        nth: u32 = 1, "which of the requests of that kind fails, counted from 1 after the application began; \
            with `for-good`, that one and all later ones";
        size: Bytes = Bytes(512 * Bytes::MIB), "size of the disk";
    }
}

pub(super) fn no_two_are_equal<T: PartialEq>(list: &[T]) -> bool {
    list.iter().enumerate().all(|(at, one)| !list[..at].contains(one))
}

impl Load for IoErrors {
    fn check(&self) -> Result<(), Refusal> {
        Refusal::unless(!self.faults.is_empty(), "faults", "a list of faults that is not empty")?;
        Refusal::unless(no_two_are_equal(&self.faults), "faults", "each fault once")?;
        let expected = format!("a whole number from 1 to {MAX_NTH}");
        Refusal::unless((1..=MAX_NTH).contains(&self.nth), "nth", expected)?;
        let whole = self.size.0.is_multiple_of(4096);
        let expected = format!("at least {LEAST_DISK}, in whole blocks of 4k");
        Refusal::unless(whole && self.size >= LEAST_DISK, "size", expected)
    }

    fn prepares(&self) -> Bytes {
        FILES
    }

    fn writes(&self) -> Bytes {
        Bytes(0)
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn follows(&self) -> Nanos {
        Nanos((self.faults.len() as u64).saturating_mul(ASSUMED_FAULT.0))
    }

    fn title(&self) -> String {
        let count = u32::try_from(self.faults.len()).unwrap_or(u32::MAX);
        format!("io-errors, {}", super::plural(count, "fault"))
    }

    /// Its findings are about what is left of its data.
    fn short_runs(&self) -> &'static [&'static str] {
        &[]
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Recorder]
    }

    fn default_measure(&self) -> &'static str {
        "silent-losses"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::new(
                "silent-losses",
                "share of the faults of a disk after which data is lost or wrong although every call \
                 succeeded",
                OwnFigure::Faults(Harm::Silent),
            )
            .in_words("silent losses"),
            OwnMeasure::new(
                "retried-losses",
                "share of the faults after which fsync, called again, succeeds although the data is lost",
                OwnFigure::Faults(Harm::ToldOnce),
            )
            .in_words("losses that a second fsync hides"),
        ]
    }

    fn throughput(&self) -> &'static str {
        "silent-losses"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: IoErrors| parameters.check().unwrap_err().parameter;
        let good = IoErrors::default;
        assert_eq!(good().check(), Ok(()));
        assert_eq!(refused(IoErrors { faults: vec![], ..good() }), "faults");
        assert_eq!(refused(IoErrors { faults: vec![Fault::ReadData; 2], ..good() }), "faults");
        assert_eq!(refused(IoErrors { nth: 0, ..good() }), "nth");
        assert_eq!(refused(IoErrors { size: Bytes(Bytes::MIB), ..good() }), "size");
    }
}
