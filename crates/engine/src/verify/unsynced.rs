//! Work that nothing synced: how much of it is still there.

use super::file::{Name, Reader, Sectors};
use super::notes::Notes;
use super::record::Record;
use crate::workload::durability::script::{self, Unsynced, Write};
use crate::workload::durability::sector::{PromisedSector, SECTOR};
use fsdyno_core::result::{AgeBin, VerifiedUnsynced};
use fsdyno_core::units::Nanos;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;

/// The upper end of the first bin of ages.
const FIRST_BIN: Nanos = Nanos::from_millis(1);

/// The findings about the work that nothing synced.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) files: VerifiedUnsynced,
    pub(super) names: VerifiedUnsynced,
    pub(super) survival: Vec<AgeBin>,
}

/// Looks at all of it that has begun. Without its directory, nothing is there.
pub(super) fn look(
    record: &Record,
    directory: Option<&OwnedFd>,
    cut_ns: Nanos,
    reader: &mut Reader,
    notes: &mut Notes,
) -> Looked {
    let (mut looked, mut ages) = (Looked::default(), BTreeMap::new());
    for number in 0..record.counts(None).begun {
        let done_ns = record.done_ns.get(number as usize);
        let age_ns = done_ns.map(|done_ns| Nanos(cut_ns.0.saturating_sub(done_ns.0)));
        let (kind, bytes, survives) = match reader.script.unsynced(number) {
            Unsynced::Directory => {
                let look = |directory| Name::look(directory, &script::name(number)) == Name::Directory;
                (&mut looked.names, 0, directory.is_some_and(look))
            }
            Unsynced::File(write) => {
                let sectors = directory.map(|directory| sectors(directory, &write, reader));
                if let Some(sectors) = sectors.filter(|sectors| sectors.wrong().total() > 0) {
                    looked.files.wrong = looked.files.wrong.plus(&sectors.wrong());
                    let path = || [script::directory(None), &script::name(number)].join("/");
                    notes.add_sectors(path, &sectors);
                }
                let bytes = write.sectors.end * SECTOR as u64;
                (&mut looked.files, bytes, sectors.is_some_and(|sectors| sectors.bad() == 0))
            }
        };
        // What was not acknowledged may be there or not.
        let Some(age_ns) = age_ns else { continue };
        kind.made += 1;
        if !survives {
            kind.lost += 1;
            kind.lost_bytes += bytes;
            kind.lost_ns = kind.lost_ns.max(age_ns);
        }
        let up_to_ns = bin(age_ns);
        let bin = ages.entry(up_to_ns).or_insert(AgeBin { up_to_ns, ..AgeBin::default() });
        bin.made += 1;
        bin.survived += u64::from(survives);
    }
    looked.survival = ages.into_values().collect();
    looked
}

/// The sectors of a file that may be absent, empty or short, but must not have anything else in it.
fn sectors(directory: &OwnedFd, write: &Write, reader: &mut Reader) -> Sectors {
    let length = write.sectors.end;
    reader.read(directory, &script::name(write.file), None, write.file, length);
    let mut sectors = Sectors::default();
    for (number, found) in (0..).zip(&reader.found) {
        let needed = (number < length).then_some(write.generation);
        sectors.count(*found, needed, write.generation);
        sectors.zeros += u64::from(needed.is_none() && *found == PromisedSector::Zeros);
    }
    sectors
}

/// The bin of an age: the smallest power of two of milliseconds that is not less.
fn bin(age_ns: Nanos) -> Nanos {
    let mut up_to_ns = FIRST_BIN;
    while up_to_ns < age_ns {
        up_to_ns = Nanos(up_to_ns.0.saturating_mul(2));
    }
    up_to_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_powers_of_two_of_milliseconds() {
        for (age_ns, up_to) in [(0, 1), (1_000_000, 1), (1_000_001, 2), (5_000_000, 8), (8_000_001, 16)] {
            assert_eq!(bin(Nanos(age_ns)), Nanos::from_millis(up_to), "{age_ns}");
        }
        assert_eq!(bin(Nanos(u64::MAX)), Nanos(u64::MAX));
    }
}
