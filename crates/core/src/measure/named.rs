//! The measures that have a short name: a table, one entry each.

use super::{Figure, Phase, Source, Statistic};
use crate::operation::{Operation, Role};
use std::borrow::Cow;

/// A measure with a short name.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) source: Source,
}

/// A figure of a role.
const fn role(name: &'static str, help: &'static str, phase: Phase, role: Role, figure: Figure) -> Named {
    Named { name, help, source: Source::Role(phase, role, figure) }
}

/// The rate of a stage of `streaming`.
const fn streaming(name: &'static str, help: &'static str, stage: &'static str, of: Role) -> Named {
    role(name, help, Phase::Named(Cow::Borrowed(stage)), of, Figure::Rate)
}

pub(super) static NAMED: &[Named] = &[
    role("read", "bytes per second of one reader alone", Phase::OneReader, Role::Reader, Figure::Rate),
    role(
        "read-many",
        "bytes per second of several readers together",
        Phase::ManyReaders,
        Role::Reader,
        Figure::Rate,
    ),
    role(
        "read-under-write",
        "bytes per second of the readers while writers write",
        Phase::ReadersAndWriters,
        Role::Reader,
        Figure::Rate,
    ),
    role(
        "write",
        "bytes per second of the writers while readers read",
        Phase::ReadersAndWriters,
        Role::Writer,
        Figure::Rate,
    ),
    Named {
        name: "first-byte-p999",
        help: "p99.9 of reading a file's first byte while writers write",
        source: Source::Operation(
            Phase::ReadersAndWriters,
            Role::Reader,
            Operation::ReadFirstByte,
            Statistic::P999,
        ),
    },
    streaming(
        "streaming-write",
        "bytes per second of all streams writing in sequence",
        "write",
        Role::Writer,
    ),
    streaming("streaming-read", "bytes per second of all streams reading in sequence", "read", Role::Reader),
    streaming(
        "streaming-random-write",
        "bytes per second of all streams writing at random places",
        "random-write",
        Role::Writer,
    ),
    streaming(
        "streaming-random-read",
        "bytes per second of all streams reading at random places",
        "random-read",
        Role::Reader,
    ),
    streaming(
        "streaming-mixed-write",
        "bytes per second of the streams that write while others read",
        "mixed",
        Role::Writer,
    ),
    streaming(
        "streaming-mixed-read",
        "bytes per second of the streams that read while others write",
        "mixed",
        Role::Reader,
    ),
    Named {
        name: "longest-stall",
        help: "longest time in which some worker, of any role in any phase, completed nothing",
        source: Source::LongestStall,
    },
    Named {
        name: "postmark-read",
        help: "bytes that postmark read per second of its whole run",
        source: Source::CountRate("bytes read"),
    },
    Named {
        name: "postmark-write",
        help: "bytes that postmark wrote per second of its whole run",
        source: Source::CountRate("bytes written"),
    },
];
