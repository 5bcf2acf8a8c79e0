//! Parameters of `scan`, what a backup or `du` does when nothing has changed.

use super::measures::{Figure, OwnMeasure};
use super::parameter::{Refusal, parameters};
use super::steps::{PhaseSpec, steps};
use super::{Load, Ramp, Rereads, Timing};
use crate::operation::{Operation, Role};
use crate::units::{Bytes, Nanos};

/// The most directories, and the most files in each: what is more takes days to make.
const MOST: u32 = 1_000_000;
/// Bytes of an inode and its name on a disk: by default, an inode has 256 on ext4 and 512 on xfs.
const BYTES_OF_A_NAME: u64 = 512;
/// Bytes of a name that is in memory, with its inode: a dentry has 192, and the inodes of ext4, xfs and btrfs
/// have about 1,100 (slabinfo of Linux 6.18).
const BYTES_IN_MEMORY: u64 = 1280;
/// The number of directories in a directory.
pub const BRANCHES: u64 = 8;

parameters! {
    /// A tree of directories and empty files that is walked again and again. Times in nanoseconds.
    Scan {
        directories: u32 = 100, "number of directories of the tree, each with up to 8 others in it";
        files_per_directory: u32 = 100, "number of empty files in each directory";
        workers: u32 = 1, "number of workers, each of which walks the whole tree";
        ramp: Ramp = Ramp::secs(5), "duration of the load before the window; `steady` takes its place";
        window: Nanos = Nanos::from_secs(30), "length of the measured part";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for operations in flight at the end of \
            the window";
    }
}

steps! {
    /// Walking the tree.
    walk { OPENAT = Openat, GETDENTS = Getdents, STATX = Statx, CLOSE = Close }
}

/// All workers walk the tree.
pub const WALK: PhaseSpec = PhaseSpec { name: "walk", role: Role::Scanner, steps: walk::STEPS };

impl Scan {
    /// The number of files.
    pub fn files(&self) -> u64 {
        u64::from(self.directories) * u64::from(self.files_per_directory)
    }

    /// The number of names that a walk looks at: all but that of the top directory.
    pub fn entries(&self) -> u64 {
        self.files() + u64::from(self.directories).saturating_sub(1)
    }
}

impl Load for Scan {
    fn check(&self) -> Result<(), Refusal> {
        super::check_workers("workers", self.workers)?;
        let expected = format!("a whole number from 1 to {MOST}");
        Refusal::unless((1..=MOST).contains(&self.directories), "directories", expected)?;
        let expected = format!("a whole number from 0 to {MOST}");
        Refusal::unless(self.files_per_directory <= MOST, "files_per_directory", expected)?;
        Refusal::unless(self.entries() > 0, "files_per_directory", "at least 1 in a single directory")?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")
    }

    /// Files are empty: what is made are inodes and names.
    fn prepares(&self) -> Bytes {
        Bytes(self.entries() * BYTES_OF_A_NAME)
    }

    fn rereads(&self) -> Option<Rereads> {
        let of_a_directory = u64::from(self.files_per_directory) + 1;
        let names = u64::from(self.directories) * of_a_directory;
        Some(Rereads {
            parameter: "directories",
            value: Bytes(names * BYTES_IN_MEMORY),
            one_takes: Some(Bytes(of_a_directory * BYTES_IN_MEMORY)),
            what: "the tree that is walked",
            size: Bytes(names * BYTES_OF_A_NAME),
            times: 2,
            share: [1, 1],
            direct: false,
        })
    }

    fn writes(&self) -> Bytes {
        Bytes(0)
    }

    fn timing(&self) -> Timing {
        let Scan { ramp, window, drain_limit, .. } = *self;
        Timing { windows: 1, ramp, window, drain_limit }
    }

    fn cold(&self) -> Vec<bool> {
        vec![true]
    }

    fn title(&self) -> String {
        format!(
            "scan of {} files in {}, {}, window {}",
            self.files(),
            match self.directories {
                1 => "1 directory".to_string(),
                directories => format!("{directories} directories"),
            },
            super::plural(self.workers, "worker"),
            self.window
        )
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["directories = 20\nfiles_per_directory = 50\nworkers = 2\nramp = '200ms'\nwindow = '600ms'"]
    }

    fn default_measure(&self) -> &'static str {
        "scan-entries"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![OwnMeasure::of_phase(
            "scan-entries",
            "files and directories that all workers together looked at per second",
            WALK,
            Figure::ItemRate,
        )]
    }

    fn throughput(&self) -> &'static str {
        "scan-entries"
    }

    fn latency(&self) -> Option<String> {
        Some(WALK.p999(Operation::Statx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Scan| parameters.check().unwrap_err().parameter;
        let good = Scan::default;
        assert!(good().check().is_ok());
        assert_eq!(refused(Scan { directories: 0, ..good() }), "directories");
        assert_eq!(refused(Scan { files_per_directory: MOST + 1, ..good() }), "files_per_directory");
        let nothing = Scan { directories: 1, files_per_directory: 0, ..good() };
        assert_eq!(refused(nothing), "files_per_directory");
        assert_eq!(refused(Scan { workers: 0, ..good() }), "workers");
        assert_eq!(refused(Scan { window: Nanos(0), ..good() }), "window");
    }

    #[test]
    fn a_walk_looks_at_every_name_but_the_first() {
        let scan = Scan { directories: 3, files_per_directory: 5, ..Scan::default() };
        assert_eq!((scan.files(), scan.entries()), (15, 17));
    }
}
