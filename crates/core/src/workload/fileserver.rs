//! Parameters of `fileserver` (FsOpBench, 2009).

use super::measures::{Figure, OwnFigure, OwnMeasure, PhaseSelector};
use super::parameter::{Refusal, parameters};
use super::steps::steps;
use super::{Content, Load, Ramp, Rate, Rereads, Stated, Timing, TreeModel};
use crate::operation::{Operation, Role};
use crate::quantile::Quantile;
use crate::units::{Bytes, Nanos};
use std::ops::Range;

parameters! {
    /// Readers of trees of small files, then writers alongside them. Sizes in bytes, times in nanoseconds.
    Fileserver {
        tree_size: Bytes = Bytes(20 * Bytes::GIB), "total size of all trees; a percentage such as `50%` is \
            relative to the device";
        tree: TreeModel = TreeModel::Home, "file sizes and directory shapes: `home`, `impressions`, or \
            `profile:FILE` with a file from `fsdyno profile`";
        readers: u32 = 3, "number of readers in the phases with several readers; the first phase has one";
        writers: u32 = 3, "number of writers in the last phase; 0 skips that phase";
        readers_alone: bool = true, "`false`: skip the phases in which nobody writes, which take two thirds of \
            the time";
        write_rate: Option<Rate> = None, "how many files all writers together begin in a second, whether or not \
            the filesystem keeps up: a number, `{ per_second = 200, arrivals = \"poisson\" }`, `\"auto\"`, 70 % \
            of what the slowest configuration does, measured before the sweep, or `\"closed\"`: each writer \
            begins the next file when the last one is closed. By default `\"auto\"` where a sweep has several \
            trials of several configurations, and `\"closed\"` elsewhere: in races, on fleets and on clients";
        ramp: Ramp = Ramp::secs(30), "duration of the load before each window, or `until-throttled`: until \
            the device keeps up with the writers; `steady` takes its place";
        window: Nanos = Nanos::from_secs(30), "length of the measured part of each phase";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for operations in flight at the end of \
            the window";
        io_size: Bytes = Bytes(64 * Bytes::KIB), "buffer size of each `read` and `write` after the first \
            byte";
        direct: bool = false, "`true`: use `O_DIRECT`, with sizes rounded up to multiples of 4 KiB";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and at the end, \
            after unmounting and mounting, read everything again; a wrong byte fails the trial";
        writer_space: Option<Bytes> = None, "how much space a writer may use before it removes its tree and \
            starts again; by default all writers share 60 % of what trees and filling leave of the device, \
            the same on every filesystem, or 80 % of the free space if that is less";
    }
    imported: Stated
}

steps! {
    /// The operations of a reader.
    reader {
        READDIR = Readdir,
        STATX = Statx,
        OPENAT = Openat,
        READ_FIRST_BYTE = ReadFirstByte,
        READ = Read,
        CLOSE = Close,
    }
    /// The operations of a writer.
    writer {
        OPENAT = Openat,
        WRITE_FIRST_BYTE = WriteFirstByte,
        WRITE = Write,
        CLOSE = Close,
        MKDIRAT = Mkdirat,
        UNLINKAT = Unlinkat,
        RMDIR = Rmdir,
    }
}

/// The name of a phase with these numbers of readers and writers: `3 readers, 3 writers`.
pub fn phase_name(readers: u32, writers: u32) -> String {
    match writers {
        0 => super::plural(readers, "reader"),
        _ => format!("{}, {}", super::plural(readers, "reader"), super::plural(writers, "writer")),
    }
}

impl Fileserver {
    /// File sizes are multiples of this.
    pub fn multiple(&self) -> u64 {
        if self.direct { super::DIRECT_ALIGNMENT } else { 1 }
    }

    /// Size of one tree: there is one per reader, and one for the first phase.
    pub fn tree_bytes(&self) -> u64 {
        self.tree_size.0 / (u64::from(self.readers) + 1) / self.multiple() * self.multiple()
    }

    /// The trees that are read, and the number of writers, phase by phase: one reader; many readers, if that
    /// is different; and readers with writers, if there are any.
    pub fn phases(&self) -> Vec<(Range<u32>, u32)> {
        let many = 1..self.readers.saturating_add(1);
        let alone = [(0..1, 0), (many.clone(), 0)];
        let alone = alone.into_iter().take(if self.readers > 1 { 2 } else { 1 });
        let together = (self.writers > 0).then_some((many, self.writers));
        alone.filter(|_| self.readers_alone).chain(together).collect()
    }
}

impl Load for Fileserver {
    fn check(&self) -> Result<(), Refusal> {
        super::check_workers("readers", self.readers)?;
        Refusal::unless(
            self.writers <= super::MAX_WORKERS,
            "writers",
            format!("a whole number from 0 to {}", super::MAX_WORKERS),
        )?;
        let any = self.readers_alone || self.writers > 0;
        Refusal::unless(any, "readers_alone", "true without writers, or nothing is left to do")?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")?;
        super::check_io_size("io_size", self.io_size, self.direct)?;
        Refusal::unless(self.tree_size > Bytes(0), "tree_size", "greater than zero")?;
        Refusal::unless(self.tree_bytes() >= self.multiple(), "tree_size", "at least one block per tree")?;
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)?;
        let space = self.writer_space.is_none_or(|space| space.0 >= 64 * Bytes::KIB);
        Refusal::unless(space, "writer_space", "at least 64k")
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        super::unmet_needs([(self.writers > 0, &["writer_space", "write_rate"][..], "`writers`")])
    }

    fn prepares(&self) -> Bytes {
        self.tree_size
    }

    /// Each reader goes through a tree of twice that size, so that the part it comes to next is the one that
    /// was evicted.
    fn rereads(&self) -> Option<Rereads> {
        Some(Rereads {
            parameter: "tree_size",
            value: self.tree_size,
            one_takes: None,
            what: "each reader's tree",
            size: Bytes(self.tree_bytes()),
            times: 2,
            share: [1, u64::from(self.readers) + 1],
            direct: self.direct,
        })
    }

    fn writes(&self) -> Bytes {
        match self.writers {
            0 => Bytes(0),
            writers => {
                Bytes(self.writer_space.map_or(u64::MAX, |space| space.0.saturating_mul(writers.into())))
            }
        }
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    /// The trees; what the writers leave is unknown.
    fn follows(&self) -> Nanos {
        if self.verify { super::reread_time(self.tree_size) } else { Nanos(0) }
    }

    fn in_words(&self) -> Vec<String> {
        super::verified_in_words(self.verify, "every file of the trees and of the writers")
    }

    fn memory(&self) -> Bytes {
        let workers = u64::from(self.readers) + u64::from(self.writers);
        Bytes(self.io_size.0.saturating_mul(workers))
    }

    fn timing(&self) -> Timing {
        let Fileserver { ramp, window, drain_limit, .. } = *self;
        Timing { windows: self.phases().len() as u32, ramp, window, drain_limit }
    }

    fn cold(&self) -> Vec<bool> {
        vec![true; self.phases().len()]
    }

    fn title(&self) -> String {
        // A plan cannot set 0: this result was imported.
        let trees = match self.tree_size {
            Bytes(0) => "unknown trees".to_string(),
            size => format!("{size} of trees"),
        };
        let rate = self.write_rate.map_or(String::new(), |Rate { per_second, arrivals }| {
            format!(" at {per_second} files a second{}", arrivals.in_brackets())
        });
        format!(
            "fileserver on {trees}, {} and {}{rate}, window {}",
            super::plural(self.readers, "reader"),
            super::plural(self.writers, "writer"),
            self.window
        )
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &[
            "tree_size = '48M'\nreaders = 2\nwriters = 1\nramp = '200ms'\nwindow = '600ms'",
            "tree_size = '48M'\nreaders = 1\nwriters = 1\ndirect = true\nramp = '200ms'\n\
             window = '600ms'",
        ]
    }

    fn default_measure(&self) -> &'static str {
        match self.writers {
            0 => "read",
            _ => "read-under-write",
        }
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::new(
                "read",
                "bytes per second of a single reader",
                OwnFigure::Role(PhaseSelector::OneReader, Role::Reader, Figure::Rate),
            )
            .in_words("reads of one reader"),
            OwnMeasure::new(
                "read-many",
                "bytes per second of several readers together",
                OwnFigure::Role(PhaseSelector::ManyReaders, Role::Reader, Figure::Rate),
            )
            .in_words("reads of several readers"),
            OwnMeasure::new(
                "read-under-write",
                "bytes per second of the readers while writers write",
                OwnFigure::Role(PhaseSelector::ReadersAndWriters, Role::Reader, Figure::Rate),
            )
            .in_words("reads while others write"),
            OwnMeasure::new(
                "files-under-write",
                "files per second that the readers read while writers write: with few files in a window steadier \
                 than their bytes, as a few of them have most of these",
                OwnFigure::Role(PhaseSelector::ReadersAndWriters, Role::Reader, Figure::ItemRate),
            )
            .in_words("files read while others write"),
            OwnMeasure::new(
                "write",
                "bytes per second of the writers while readers read",
                OwnFigure::Role(PhaseSelector::ReadersAndWriters, Role::Writer, Figure::Rate),
            )
            .in_words("writes while others read"),
            OwnMeasure::new(
                "first-byte-p999",
                "p99.9 of reading a file's first byte while writers write",
                OwnFigure::Operation(
                    PhaseSelector::ReadersAndWriters,
                    Role::Reader,
                    Operation::ReadFirstByte,
                    Quantile::P999,
                ),
            )
            .in_words("slowest 1 in 1,000 first bytes"),
        ]
    }

    fn latency(&self) -> Option<String> {
        let measure = match self.writers {
            0 => format!("{}/{}/{}/p99.9", phase_name(1, 0), Role::Reader, Operation::ReadFirstByte),
            _ => "first-byte-p999".to_string(),
        };
        Some(measure)
    }

    /// Readers in a closed loop gain where writers are slow, and writers where readers wait; and the longest
    /// stall is what users complain of.
    fn guards(&self) -> Vec<String> {
        let together = if self.writers > 0 { &["write", "files-under-write"][..] } else { &[] };
        let all = together.iter().copied().chain(["longest-stall"]);
        all.map(str::to_string).chain(self.latency()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Arrivals;

    #[test]
    fn a_rate_of_writers_is_said_and_needs_writers() {
        let rate = Some(Rate { per_second: 40.0, arrivals: Arrivals::Poisson });
        let paced = Fileserver { write_rate: rate, ..Fileserver::default() };
        assert!(
            paced.title().contains("3 writers at 40 files a second (poisson), window"),
            "{}",
            paced.title()
        );
        let idle = Fileserver { writers: 0, ..paced };
        assert!(idle.without_effect().iter().any(|(names, _)| names.contains(&"write_rate")));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Fileserver| parameters.check().unwrap_err().parameter;
        let good = Fileserver::default;
        assert!(good().check().is_ok());
        assert_eq!(refused(Fileserver { readers: 0, ..good() }), "readers");
        assert_eq!(refused(Fileserver { writers: 1_000_000, ..good() }), "writers");
        assert_eq!(refused(Fileserver { window: Nanos(0), ..good() }), "window");
        assert_eq!(refused(Fileserver { readers_alone: false, writers: 0, ..good() }), "readers_alone");
        assert_eq!(refused(Fileserver { io_size: Bytes(0), ..good() }), "io_size");
        assert_eq!(refused(Fileserver { io_size: Bytes(5000), direct: true, ..good() }), "io_size");
        assert_eq!(refused(Fileserver { tree_size: Bytes(3), ..good() }), "tree_size");
        assert_eq!(refused(Fileserver { content: Content::Compressible(1.5), ..good() }), "content");
        assert_eq!(refused(Fileserver { writer_space: Some(Bytes(1)), ..good() }), "writer_space");
    }

    #[test]
    fn a_single_reader_has_no_phase_of_many_readers() {
        let windows =
            |readers, writers| Fileserver { readers, writers, ..Default::default() }.timing().windows;
        assert_eq!((windows(3, 3), windows(3, 0), windows(1, 1), windows(1, 0)), (3, 2, 2, 1));
        let busy = Fileserver { readers_alone: false, ..Default::default() };
        assert_eq!(busy.phases(), [(1..4, 3)]);
    }
}
