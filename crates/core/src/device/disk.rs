//! The disks that stacks are built on: images and block devices, and the state of their blocks before a
//! trial.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A block device that the user names and confirms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// As the plan names it.
    pub path: PathBuf,
    /// The identity that the plan pins, as `fsdyno plan` prints it.
    pub identity: Option<String>,
    /// The state of its blocks before each filesystem is created.
    #[serde(default, skip_serializing_if = "Conditioning::is_none")]
    pub precondition: Conditioning,
}

/// The treatment of a block device before each filesystem is created on it; the treatment of the filesystem
/// after that is a [`crate::configuration::Precondition`]. A flash drive serves writes from erased blocks as
/// long as it has some, and slows down once it has to make them itself.
///
/// Source: SNIA Solid State Storage Performance Test Specification 2.0.2, "Purge" and "Workload Independent
/// Preconditioning".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conditioning {
    /// Nothing: it is as the trial before left it.
    #[default]
    None,
    /// All of it is discarded, so that the drive has no data to keep.
    Discard,
    /// All of it is written once, in order, with random data.
    FillOnce,
    /// All of it is written twice, as SNIA's specification asks for.
    FillTwice,
}

/// A file behind a loop device, made and removed by the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Path of the file; nothing may exist there yet.
    pub path: PathBuf,
    /// Its apparent size.
    pub size: Bytes,
    /// `true` if the loop device bypasses the page cache of the filesystem that holds the file
    /// (`LO_FLAGS_DIRECT_IO`).
    pub direct_io: bool,
    /// The logical block of the loop device: one of [`Image::SECTORS`].
    #[serde(default = "usual_sector")]
    pub sector: Bytes,
    /// The allocation of its blocks before a trial begins.
    #[serde(default)]
    pub preallocate: Preallocation,
    /// The disk whose times it has while a load runs; those of the machine if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<DiskModelText>,
}

/// The file of a disk's model, which the crate for modelled disks reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskModelText {
    /// Its name: that of a model of fsdyno's, or of the file.
    pub name: String,
    /// The contents of the file.
    pub text: String,
}

/// The allocation of an image's blocks, in the filesystem that holds it, before a trial begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preallocation {
    /// A sparse file, new in each trial: the first write to a block allocates it.
    #[default]
    None,
    /// Written in full once per sweep, and kept for all of its trials, as a disk would be.
    Write,
}

fn usual_sector() -> Bytes {
    Image::SECTORS[0]
}

impl Preallocation {
    /// Every choice.
    pub const ALL: &'static [Preallocation] = &[Preallocation::None, Preallocation::Write];

    /// Its name in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Preallocation::None => "none",
            Preallocation::Write => "write",
        }
    }
}

impl Conditioning {
    /// Every way.
    pub const ALL: &'static [Conditioning] =
        &[Conditioning::None, Conditioning::Discard, Conditioning::FillOnce, Conditioning::FillTwice];

    /// As a plan names it.
    pub const fn name(self) -> &'static str {
        match self {
            Conditioning::None => "none",
            Conditioning::Discard => "discard",
            Conditioning::FillOnce => "fill-once",
            Conditioning::FillTwice => "fill-twice",
        }
    }

    /// Returns the number of times that the whole device is written.
    pub const fn fills(self) -> u32 {
        match self {
            Conditioning::None | Conditioning::Discard => 0,
            Conditioning::FillOnce => 1,
            Conditioning::FillTwice => 2,
        }
    }

    /// Returns whether nothing is done.
    pub const fn is_none(&self) -> bool {
        matches!(self, Conditioning::None)
    }
}

impl Block {
    /// Any device at this path, as it is.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Block { path: path.into(), identity: None, precondition: Conditioning::default() }
    }
}

impl Image {
    /// The logical blocks of disks: that of most, and that of those with native sectors of 4096 bytes.
    pub const SECTORS: &'static [Bytes] = &[Bytes(512), Bytes(4096)];

    /// A sparse file with direct I/O and sectors of 512 bytes.
    pub fn new(path: impl Into<PathBuf>, size: Bytes) -> Self {
        Image {
            path: path.into(),
            size,
            direct_io: true,
            sector: usual_sector(),
            preallocate: Preallocation::default(),
            model: None,
        }
    }

    /// The same image under another name: its own with this appended.
    #[must_use]
    pub fn named_after(&self, suffix: &str) -> Self {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        Image { path: name.into(), ..self.clone() }
    }

    /// Returns whether the image outlives a trial.
    pub fn is_kept(&self) -> bool {
        self.preallocate == Preallocation::Write
    }
}
