//! Which writes survive a power cut: the cache models.
//!
//! Everything that a flush had covered survives in every model; a flush covers the part of the disk that
//! it was sent to. Of what came later, `completed` keeps all and `flushed` nothing. `subset` keeps each
//! write with a probability that the seed chooses for the whole state, and tears a quarter of those that
//! it keeps: of a torn write, each atom survives or not. The order of the writes plays no part, because a
//! drive may write back its cache in any order. `window` does the same with the most recent bytes and
//! keeps what is older. CrashMonkey (Mohan et al., OSDI 2018) explores the same subsets.

use crate::extents::{ByteSource, Extents};
use crate::log::{Covered, Entry, Kind, RecordedLog};
use crate::{RecorderError, Result};
use fsdyno_core::durability::{CacheModel, StateRequest};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Range;

/// Probabilities that a write survives, one of which holds for a state: nearly nothing, about half, and
/// nearly everything.
const SHARES: [f64; 3] = [0.1, 0.5, 0.9];
/// The share of the surviving writes that are torn.
const TORN: f64 = 0.25;

/// The content of a disk after a cut.
#[derive(Debug)]
pub struct Survivors {
    /// The entries that have survived because they were flushed.
    pub flushed: Covered,
    /// The ranges that have survived of all other entries.
    pub extents: Extents,
}

/// Decides what survives.
///
/// # Errors
/// [`RecorderError::NoSuchCut`]; those of reading the log.
pub fn survivors(log: &RecordedLog, request: &StateRequest) -> Result<Survivors> {
    let flushed = log.flushed_at(request.at)?;
    let atom = request.atom.0;
    if !atom.is_power_of_two() {
        return Err(RecorderError::Refused("the unit of writes is not a power of two"));
    }
    let mut extents = Extents::default();
    let mut keep = |entry: &Entry, range: Range<u64>| {
        let source = match entry.kind {
            Kind::Write => ByteSource::Log(entry.data + (range.start - entry.offset)),
            _ => ByteSource::Zeros,
        };
        extents.insert(range, source);
    };
    // From here on, entries may be lost.
    let mut volatile_from = 0;
    if request.model == CacheModel::Window {
        let mut written = 0u64;
        log.for_each(flushed.least()..request.at, |number, entry| {
            written += if flushed.has(number, &entry) { 0 } else { bytes_of(&entry) };
            Ok(())
        })?;
        volatile_from = written.saturating_sub(request.volatile.0);
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(request.seed);
    let share = SHARES[random.random_range(0..SHARES.len())];
    let mut written = 0u64;
    log.for_each(flushed.least()..request.at, |number, entry| {
        let changes = entry.changes();
        if changes.is_empty() || flushed.has(number, &entry) {
            return Ok(());
        }
        written += bytes_of(&entry);
        let whole = match request.model {
            CacheModel::Completed => true,
            CacheModel::Flushed => return Ok(()),
            CacheModel::Subset => false,
            CacheModel::Window => written <= volatile_from,
        };
        // The same numbers are drawn for every entry, whatever becomes of it.
        let (kept, torn) = (random.random_bool(share), random.random_bool(TORN));
        if whole || (kept && !torn) {
            keep(&entry, changes);
        } else if kept {
            for range in atoms(changes, atom) {
                if random.random_bool(0.5) {
                    keep(&entry, range);
                }
            }
        }
        Ok(())
    })?;
    Ok(Survivors { flushed, extents })
}

/// Returns the number of bytes of a cache that an entry takes.
fn bytes_of(entry: &Entry) -> u64 {
    if entry.kind == Kind::Write { entry.length } else { 0 }
}

/// The parts of a range that are written as a whole.
fn atoms(range: Range<u64>, atom: u64) -> impl Iterator<Item = Range<u64>> {
    let first = range.start / atom;
    let last = range.end.div_ceil(atom);
    (first..last).map(move |number| (number * atom).max(range.start)..((number + 1) * atom).min(range.end))
}
