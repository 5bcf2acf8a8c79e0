//! Where power is cut.

use crate::Result;
use crate::error::RecorderError;
use crate::log::{Kind, RecordedLog};
use fsdyno_core::Nanos;
use fsdyno_core::durability::{Cut, Mark, Moment};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Chooses this many places between the first mark and the last one: a third at random times, a third
/// just after acknowledgements, a third just before or after flushes. Where a log has too few of one
/// kind, random times take their place.
///
/// # Errors
/// [`RecorderError::Refused`] if nothing was marked; those of reading the log.
pub fn cuts(log: &RecordedLog, count: u32, seed: u64) -> Result<Vec<Cut>> {
    // Of each entry: when it was completed, and how many marks there were then.
    let mut times: Vec<u64> = Vec::new();
    let mut marks: Vec<u64> = Vec::new();
    let (mut acknowledged, mut flushes) = (Vec::new(), Vec::new());
    let (mut marked, mut first, mut last) = (0, None, 0);
    log.for_each(0..log.count(), |number, entry| {
        match entry.kind {
            Kind::Mark => {
                marked += 1;
                first.get_or_insert(number);
                last = number;
                let mark = Mark::from_bytes(&log.read(&entry)?);
                if mark.is_ok_and(|mark| mark.promise.is_some() && mark.moment == Moment::Acknowledged) {
                    acknowledged.push(number + 1);
                }
            }
            // With and without the flush itself.
            Kind::Flush { .. } if first.is_some() => flushes.extend([number, number + 1]),
            _ => {}
        }
        // Entries are numbered as they are completed, so a clock read earlier by another thread counts as
        // now.
        times.push(entry.time.0.max(times.last().copied().unwrap_or(0)));
        marks.push(marked);
        Ok(())
    })?;
    let Some(first) = first else { return Err(RecorderError::Refused("nothing was marked in the log")) };
    // What follows is the unmount, which loses nothing that a load has done.
    for places in [&mut acknowledged, &mut flushes] {
        places.retain(|at| *at <= last + 1);
    }
    let (begin, end) = (times[first as usize], times[last as usize]);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let third = count as usize / 3;
    let cut = |at: u64, time: Option<u64>| Cut {
        at,
        marks: marks[at as usize - 1],
        time_ns: Nanos(time.unwrap_or(times[at as usize - 1])),
    };
    let mut cuts: Vec<Cut> = Vec::new();
    for places in [acknowledged, flushes] {
        cuts.extend(some_of(places, third, &mut random).into_iter().map(|at| cut(at, None)));
    }
    while cuts.len() < count as usize {
        let time = random.random_range(begin..=end);
        let at = times.partition_point(|completed| *completed <= time).min(last as usize + 1) as u64;
        cuts.push(cut(at, Some(time)));
    }
    cuts.sort_by_key(|cut| (cut.at, cut.time_ns));
    Ok(cuts)
}

/// Different ones of these, chosen at random: all of them if they are too few.
fn some_of(mut places: Vec<u64>, count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
    let count = count.min(places.len());
    for index in 0..count {
        let other = random.random_range(index..places.len());
        places.swap(index, other);
    }
    places.truncate(count);
    places
}
