//! Parameters of `collection` (RAID 1 study, 2008).

use super::measures::{Figure, OwnMeasure};
use super::parameter::{Refusal, parameters, words};
use super::steps::{PhaseSpec, steps, up_to};
use super::{Content, Load, Timing};
use crate::operation::{Operation, Role};
use crate::units::{Bytes, Nanos};

words! {
    /// Files to write, read, copy and delete.
    CollectionSize, "collection" {
        /// 10,928 files of a few KiB.
        Small = "small",
        /// 1,744 files of about 4 MiB.
        Medium = "medium",
        /// Three files of several GiB.
        Large = "large",
    }
}

parameters! {
    /// A collection of files, written, read, copied and deleted. Sizes in bytes.
    Collection {
        collection: CollectionSize = CollectionSize::Small, "`small`: 10,928 files of 1 to 8 KiB; `medium`: \
            1,744 files of 2 to 6 MiB; `large`: 3 files of 3 to 5 GiB";
        source: Option<String> = None, "an existing directory to use instead of the collection; its files \
            are copied and left unchanged";
        scale: f64 = 1.0, "scale factor from 0 to 1; applies to the number of files, with `large` to their \
            size instead";
        io_size: Bytes = Bytes(128 * Bytes::KIB), "buffer of each `read` and `write`";
        sync: bool = true, "`true`: write, copy and delete end with a `syncfs`, which is timed as `fsync`";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and at the end, \
            after unmounting and mounting, read everything again; a wrong byte fails the trial";
    }
}

steps! {
    /// Writing, reading and copying files.
    files {
        READDIR = Readdir,
        OPENAT = Openat,
        READ = Read,
        CLOSE = Close,
        CREATE = Create,
        WRITE = Write,
        MKDIRAT = Mkdirat,
        FSYNC = Fsync,
    }
    /// Deleting them.
    removal { UNLINKAT = Unlinkat, RMDIR = Rmdir, FSYNC = Fsync }
}

/// The files are created, with generated content or as copies of a real directory.
pub const WRITE: PhaseSpec = PhaseSpec { name: "write", role: Role::Writer, steps: files::STEPS };
/// They are read.
pub const READ: PhaseSpec =
    PhaseSpec { name: "read", role: Role::Reader, steps: up_to(files::STEPS, files::CLOSE) };
/// They are copied within the filesystem.
pub const COPY: PhaseSpec = PhaseSpec { name: "copy", role: Role::Copier, steps: files::STEPS };
/// They are deleted.
pub const DELETE: PhaseSpec = PhaseSpec { name: "delete", role: Role::Deleter, steps: removal::STEPS };

/// Every phase, in its order.
pub const PHASES: [PhaseSpec; 4] = [WRITE, READ, COPY, DELETE];

impl Collection {
    /// The number of files; 0 if they come from a real directory.
    pub fn files(&self) -> u64 {
        let scaled = |files: f64| ((files * self.scale).round() as u64).max(1);
        match (&self.source, self.collection) {
            (Some(_), _) => 0,
            (None, CollectionSize::Small) => scaled(10_928.0),
            (None, CollectionSize::Medium) => scaled(1_744.0),
            (None, CollectionSize::Large) => 3,
        }
    }

    /// The smallest and the largest file, in bytes; sizes are distributed uniformly in between.
    pub fn sizes(&self) -> (u64, u64) {
        let scaled = |size: u64| ((size as f64 * self.scale) as u64).max(1);
        match self.collection {
            CollectionSize::Small => (Bytes::KIB, 8 * Bytes::KIB),
            CollectionSize::Medium => (2 * Bytes::MIB, 6 * Bytes::MIB),
            CollectionSize::Large => (scaled(3 * Bytes::GIB), scaled(5 * Bytes::GIB)),
        }
    }

    /// About how many bytes.
    fn bytes(&self) -> u64 {
        let (low, high) = self.sizes();
        self.files().saturating_mul(low.midpoint(high))
    }
}

impl Load for Collection {
    fn check(&self) -> Result<(), Refusal> {
        let share = self.scale > 0.0 && self.scale <= 1.0;
        Refusal::unless(share, "scale", "greater than 0 and at most 1")?;
        let scaled = self.source.is_none() || (self.scale - 1.0).abs() < f64::EPSILON;
        Refusal::unless(scaled, "scale", "1 if `source` is set (all of its files are used)")?;
        let absolute = self.source.as_ref().is_none_or(|path| path.starts_with('/') && !path.contains('\0'));
        Refusal::unless(absolute, "source", "an absolute path")?;
        super::check_io_size("io_size", self.io_size, false)?;
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)?;
        let known = !self.verify || self.source.is_none();
        Refusal::unless(known, "verify", "false if `source` is set, whose contents may change at any time")
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    /// The copy.
    fn follows(&self) -> Nanos {
        if self.verify { super::reread_time(Bytes(self.bytes())) } else { Nanos(0) }
    }

    fn in_words(&self) -> Vec<String> {
        super::verified_in_words(self.verify, "the copy")
    }

    fn cold(&self) -> Vec<bool> {
        PHASES.map(|spec| spec.name != WRITE.name).to_vec()
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        super::unmet_needs([(self.source.is_none(), &["collection"][..], "a plan without `source`")])
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        match self.source {
            // Its size is known only once it has been scanned.
            Some(_) => Bytes(u64::MAX),
            None => Bytes(self.bytes().saturating_mul(2)),
        }
    }

    fn moves(&self) -> Bytes {
        Bytes(self.bytes().saturating_mul(4))
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn title(&self) -> String {
        match &self.source {
            Some(source) => format!("collection, the files of '{source}'"),
            None => format!("collection {} of {} files", self.collection.name(), self.files()),
        }
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["scale = 0.1"]
    }

    fn default_measure(&self) -> &'static str {
        "collection-write"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::of_phase(
                "collection-write",
                "bytes per second when writing a collection of files",
                WRITE,
                Figure::Rate,
            ),
            OwnMeasure::of_phase(
                "collection-read",
                "bytes per second when reading a collection of files",
                READ,
                Figure::Rate,
            ),
            OwnMeasure::of_phase(
                "collection-copy",
                "bytes per second when copying a collection within the filesystem",
                COPY,
                Figure::Rate,
            ),
            OwnMeasure::of_phase(
                "collection-delete",
                "files per second when deleting a collection",
                DELETE,
                Figure::ItemRate,
            ),
        ]
    }

    fn latency(&self) -> Option<String> {
        Some(READ.p999(Operation::Read))
    }

    fn guards(&self) -> Vec<String> {
        ["collection-write", "collection-read", "collection-copy", "collection-delete"]
            .map(str::to_string)
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Collection| parameters.check().unwrap_err().parameter;
        let good = Collection::default;
        assert_eq!(refused(Collection { scale: 0.0, ..good() }), "scale");
        assert_eq!(refused(Collection { scale: f64::NAN, ..good() }), "scale");
        assert_eq!(refused(Collection { source: Some("here".into()), ..good() }), "source");
        assert_eq!(refused(Collection { source: Some("/a".into()), scale: 0.5, ..good() }), "scale");
        assert_eq!(refused(Collection { io_size: Bytes(0), ..good() }), "io_size");
        let verified = || Collection { verify: true, ..good() };
        assert!(verified().check().is_ok());
        assert_eq!(refused(Collection { source: Some("/a".into()), ..verified() }), "verify");
        assert_eq!(refused(Collection { content: Content::Zeros, ..verified() }), "verify");
    }

    #[test]
    fn large_files_become_smaller_and_others_fewer() {
        let of = |collection, scale| {
            let parameters = Collection { collection, scale, ..Collection::default() };
            (parameters.files(), parameters.sizes())
        };
        assert_eq!(of(CollectionSize::Small, 0.01), (109, (1024, 8192)));
        assert_eq!(of(CollectionSize::Large, 0.5), (3, (3 << 29, 5 << 29)));
    }
}
