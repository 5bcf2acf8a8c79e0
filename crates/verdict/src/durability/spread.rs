//! Medians and maxima over several logs, of which only their own medians and maxima are stored.

use super::UnsyncedLosses;
use fsdyno_core::result::{ModelResult, Spread, UnsyncedResult};

/// The median of the medians, and the largest maximum; `None` of no logs.
pub(super) fn over_logs(logs: impl Iterator<Item = Spread>) -> Option<Spread> {
    let logs: Vec<Spread> = logs.collect();
    let max = logs.iter().map(|log| log.max).max()?;
    Some(Spread { max, ..Spread::of(logs.iter().map(|log| log.p50).collect()) })
}

/// Returns the losses of unsynced work.
pub(super) fn unsynced(logs: &[&ModelResult]) -> Option<UnsyncedLosses> {
    let some = |part: &&UnsyncedResult| part.states > 0;
    let farthest = logs.iter().filter_map(|log| {
        let parts = [&log.unsynced_files, &log.unsynced_names].into_iter().filter(some);
        parts.map(|part| part.lost_ns).reduce(|a, b| Spread { p50: a.p50.max(b.p50), max: a.max.max(b.max) })
    });
    let of = |part: fn(&ModelResult) -> &UnsyncedResult, figure: fn(&UnsyncedResult) -> Spread| {
        over_logs(logs.iter().map(|log| part(log)).filter(some).map(figure)).unwrap_or_default()
    };
    Some(UnsyncedLosses {
        lost_ns: over_logs(farthest)?,
        files: of(|log| &log.unsynced_files, |part| part.lost),
        names: of(|log| &log.unsynced_names, |part| part.lost),
        bytes: of(|log| &log.unsynced_files, |part| part.lost_bytes),
    })
}
