//! Requests that fail.

use crate::SECTOR;
use fsdyno_core::durability::{FaultRequest, RequestKind};

/// Decides which requests fail. Data is told from everything else by what its sectors begin with, so that no
/// filesystem has to be known.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    wanted: Option<FaultRequest>,
    /// Requests of the kind that have arrived, and how many of them have failed.
    arrived: u64,
    failed: u64,
    /// The first request that failed and was not to.
    trouble: Option<String>,
}

impl Faults {
    /// Replaces what fails; returns how many requests have failed until now, and why one did that was not to.
    pub fn set(&mut self, wanted: Option<FaultRequest>) -> (u64, Option<String>) {
        let before = std::mem::replace(self, Faults { wanted, ..Faults::default() });
        (before.failed, before.trouble)
    }

    /// Notes a failure that nobody asked for.
    pub fn note(&mut self, trouble: String) {
        self.trouble.get_or_insert(trouble);
    }

    /// Decides whether a write of these bytes fails.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.decide(
            |data| if has_data(bytes, data) { RequestKind::WriteData } else { RequestKind::WriteMetadata },
        )
    }

    /// Decides whether a read that would give these bytes fails.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        self.decide(
            |data| if has_data(bytes, data) { RequestKind::ReadData } else { RequestKind::ReadMetadata },
        )
    }

    /// Decides whether a flush fails.
    pub fn flush(&mut self) -> bool {
        self.decide(|_| RequestKind::Flush)
    }

    fn decide(&mut self, kind: impl FnOnce(&[u8]) -> RequestKind) -> bool {
        let Some(wanted) = &self.wanted else { return false };
        if kind(&wanted.data) != wanted.request {
            return false;
        }
        self.arrived += 1;
        let nth = u64::from(wanted.nth);
        let fails = self.arrived == nth || (wanted.for_good && self.arrived > nth);
        self.failed += u64::from(fails);
        fails
    }
}

fn has_data(bytes: &[u8], data: &[u8]) -> bool {
    bytes.chunks(SECTOR as usize).any(|sector| sector.starts_with(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::durability::DATA;

    fn faults(request: RequestKind, nth: u32, for_good: bool) -> Faults {
        let mut faults = Faults::default();
        faults.set(Some(FaultRequest { request, nth, for_good, data: DATA }));
        faults
    }

    #[test]
    fn only_the_nth_request_of_its_kind_fails_or_all_from_there() {
        let mut data = vec![0; 1024];
        let other = data.clone();
        data[512..520].copy_from_slice(&DATA);
        let mut once = faults(RequestKind::WriteData, 2, false);
        assert_eq!([&data, &other, &data, &data].map(|bytes| once.write(bytes)), [false, false, true, false]);
        assert!(!once.flush() && !once.read(&data));
        once.note("no space".to_string());
        once.note("again".to_string());
        assert_eq!(once.set(None), (1, Some("no space".to_string())));
        assert!(!once.write(&data));
        let mut lasting = faults(RequestKind::WriteMetadata, 2, true);
        assert_eq!(
            [&other, &data, &other, &other].map(|bytes| lasting.write(bytes)),
            [false, false, true, true]
        );
        assert_eq!(lasting.set(None), (2, None));
        let mut flush = faults(RequestKind::Flush, 1, true);
        assert_eq!([flush.flush(), flush.flush()], [true, true]);
        let mut read = faults(RequestKind::ReadData, 1, false);
        assert_eq!([&other, &data, &data].map(|bytes| read.read(bytes)), [false, true, false]);
    }
}
