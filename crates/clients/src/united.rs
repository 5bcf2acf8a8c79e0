//! Reports of the engines of several clients as one report.

use fsdyno_core::result::{Durable, Filled, Layout, TreeSummary};
use fsdyno_core::{EngineEvent, ReadAgain};

/// The order in which reports are passed on that not all clients have in the same place: whoever wrote
/// nothing has nothing to write back.
pub(crate) fn rank(event: &EngineEvent) -> u8 {
    match event {
        EngineEvent::Hello { .. } => 0,
        EngineEvent::Filled(_) => 1,
        EngineEvent::Prepared { .. } => 2,
        EngineEvent::Reached { .. } => 3,
        EngineEvent::Durable { .. } => 4,
        EngineEvent::ReadAgain { .. } => 5,
        EngineEvent::Layout(_) => 6,
        EngineEvent::Ready { .. } => 7,
        EngineEvent::Phase(_) => 8,
        EngineEvent::Done => 9,
        // These are never held back.
        EngineEvent::Progress(_)
        | EngineEvent::Warning(_)
        | EngineEvent::Observed(_)
        | EngineEvent::Failed(_) => u8::MAX,
    }
}

pub(crate) fn is_optional(rank: u8) -> bool {
    rank < 7
}

/// Two reports of one kind as one.
pub(crate) fn sum(first: EngineEvent, other: EngineEvent) -> EngineEvent {
    match (first, other) {
        (
            EngineEvent::Prepared { duration_ns: a, trees: one },
            EngineEvent::Prepared { duration_ns: b, trees: two },
        ) => EngineEvent::Prepared {
            duration_ns: a.max(b),
            trees: TreeSummary {
                files: one.files + two.files,
                directories: one.directories + two.directories,
                bytes: one.bytes + two.bytes,
            },
        },
        (EngineEvent::Filled(one), EngineEvent::Filled(two)) => EngineEvent::Filled(Filled {
            duration_ns: one.duration_ns.max(two.duration_ns),
            used_bytes: one.used_bytes.max(two.used_bytes),
            files: one.files + two.files,
            bytes: one.bytes + two.bytes,
            removed: one.removed + two.removed,
            ..one
        }),
        (
            EngineEvent::Durable { durable: one, written_back_ns: a },
            EngineEvent::Durable { durable: two, written_back_ns: b },
        ) => EngineEvent::Durable {
            durable: Durable {
                bytes: one.bytes.saturating_add(two.bytes),
                duration_ns: one.duration_ns.max(two.duration_ns),
            },
            written_back_ns: a.max(b),
        },
        (
            EngineEvent::ReadAgain { read_again: one, duration_ns: a },
            EngineEvent::ReadAgain { read_again: two, duration_ns: b },
        ) => EngineEvent::ReadAgain {
            read_again: ReadAgain {
                files: one.files + two.files,
                bytes: one.bytes + two.bytes,
                left_out: one.left_out + two.left_out,
                gone: one.gone + two.gone,
                ..one
            },
            duration_ns: a.max(b),
        },
        (EngineEvent::Layout(one), EngineEvent::Layout(two)) => EngineEvent::Layout(Layout {
            written_back_ns: one.written_back_ns.max(two.written_back_ns),
            files: one.files + two.files,
            complete: one.complete && two.complete,
            sampled: one.sampled + two.sampled,
            extents: one.extents + two.extents,
            fragmented: one.fragmented + two.fragmented,
            ..one
        }),
        (first, _) => first,
    }
}
