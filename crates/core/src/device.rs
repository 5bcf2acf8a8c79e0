//! The devices that a trial runs on: disks, and layers built on them.
//!
//! A disk is an image, a block device or, if nothing is formatted, a directory. A layer is an md array, an
//! lvm volume or a disk slowed down by dm-delay. Layers nest like kernel devices, outermost first. A pool is
//! no device: it is the disks over which a filesystem spreads itself.

mod disk;

pub use disk::{Block, Conditioning, DiskModelText, Image, Preallocation};

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A device stack that a trial may destroy, or a directory that it may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceSpec {
    /// A file behind a loop device, made and removed by the sweep.
    Image(Image),
    /// A block device that the user names and confirms.
    Block(Block),
    /// An existing directory, nothing formatted.
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// An array of Linux's software RAID.
    Md(Md),
    /// A logical volume over all of its disks.
    Lvm(Lvm),
    /// A disk that answers with a delay.
    Delayed(Delayed),
    /// Several disks for one filesystem that spreads over them itself.
    Pool(Pool),
}

/// Several disks for one filesystem that spreads over them itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its members, of which the filesystem is mounted by the first.
    pub disks: Vec<DeviceSpec>,
}

/// An array of Linux's software RAID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Md {
    /// The layout of data on the disks.
    pub level: RaidLevel,
    /// Bytes written to one disk before moving on to the next; mdadm's default if absent.
    pub chunk: Option<Bytes>,
    /// The write-intent bitmap of the array, if it keeps one.
    pub bitmap: Bitmap,
    /// Its members.
    pub disks: Vec<DeviceSpec>,
}

/// A logical volume over all of its disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lvm {
    /// The number of disks that are written in turn; 1 fills one after the other.
    pub stripes: u32,
    /// Bytes written to one disk before moving on to the next; lvm's default if absent.
    pub stripe_size: Option<Bytes>,
    /// Its physical volumes.
    pub disks: Vec<DeviceSpec>,
}

/// A disk that answers with a delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delayed {
    /// By how much.
    pub delay: Delay,
    /// The disk.
    pub disk: Box<DeviceSpec>,
}

/// The delays of a disk's answers. dm-delay supports whole milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// Reads.
    pub read: Nanos,
    /// Writes.
    pub write: Nanos,
    /// Flushes of its cache.
    pub flush: Nanos,
}

/// The levels of md that a plan can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RaidLevel {
    /// Striping without redundancy.
    Raid0,
    /// Everything on every disk.
    Raid1,
    /// Striping with one parity chunk.
    Raid5,
    /// Striping with two parity chunks.
    Raid6,
    /// Striping with each chunk on two disks.
    Raid10,
}

/// The write-intent bitmap of an array, if it keeps one: then only the parts in it are compared after a
/// crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bitmap {
    /// No bitmap.
    #[default]
    None,
    /// On its own disks.
    Internal,
}

impl RaidLevel {
    /// Every level.
    pub const ALL: &'static [RaidLevel] =
        &[RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid5, RaidLevel::Raid6, RaidLevel::Raid10];

    /// Its name in plans, in mdadm's words and in sysfs.
    pub const fn name(self) -> &'static str {
        match self {
            RaidLevel::Raid0 => "raid0",
            RaidLevel::Raid1 => "raid1",
            RaidLevel::Raid5 => "raid5",
            RaidLevel::Raid6 => "raid6",
            RaidLevel::Raid10 => "raid10",
        }
    }

    /// The minimum number of disks.
    pub const fn least_disks(self) -> usize {
        match self {
            RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => 2,
            RaidLevel::Raid5 => 3,
            RaidLevel::Raid6 => 4,
        }
    }

    /// Returns whether data is cut into chunks.
    pub const fn has_chunks(self) -> bool {
        !matches!(self, RaidLevel::Raid1)
    }

    /// Returns whether the level stores redundant data, which has to be consistent.
    pub const fn is_redundant(self) -> bool {
        !matches!(self, RaidLevel::Raid0)
    }

    /// Returns whether the level has parity, which is valid only once it has been computed.
    pub const fn has_parity(self) -> bool {
        matches!(self, RaidLevel::Raid5 | RaidLevel::Raid6)
    }

    /// Capacity of this many disks of one unit each, in half units.
    const fn halves(self, disks: u64) -> u64 {
        match self {
            RaidLevel::Raid0 => 2 * disks,
            RaidLevel::Raid1 => 2,
            RaidLevel::Raid5 => 2 * disks.saturating_sub(1),
            RaidLevel::Raid6 => 2 * disks.saturating_sub(2),
            RaidLevel::Raid10 => disks,
        }
    }
}

impl Bitmap {
    /// Every choice.
    pub const ALL: &'static [Bitmap] = &[Bitmap::None, Bitmap::Internal];

    /// Its name in plans and in mdadm's words.
    pub const fn name(self) -> &'static str {
        match self {
            Bitmap::None => "none",
            Bitmap::Internal => "internal",
        }
    }
}

impl DeviceSpec {
    /// An image with the usual options: [`Image::new`].
    pub fn image(path: impl Into<PathBuf>, size: Bytes) -> Self {
        DeviceSpec::Image(Image::new(path, size))
    }

    /// A block device with the usual options: [`Block::new`].
    pub fn block(path: impl Into<PathBuf>) -> Self {
        DeviceSpec::Block(Block::new(path))
    }

    /// Returns the conditioning before each filesystem is created; nothing for anything but a block device.
    pub fn conditioning(&self) -> Conditioning {
        match self {
            DeviceSpec::Block(block) => block.precondition,
            _ => Conditioning::None,
        }
    }

    /// Returns whether a disk is written in full before each filesystem is created, so that mkfs must not
    /// discard its blocks.
    pub fn is_filled_before(&self) -> bool {
        self.disks().iter().any(|disk| disk.conditioning().fills() > 0)
    }

    /// The model whose times its disks have: all of them, or none.
    pub fn model(&self) -> Option<&DiskModelText> {
        self.disks().into_iter().find_map(|disk| match disk {
            DeviceSpec::Image(image) => image.model.as_ref(),
            _ => None,
        })
    }

    /// The path that the plan names; for a stack, the path of its first disk.
    pub fn path(&self) -> &Path {
        match self {
            DeviceSpec::Image(Image { path, .. })
            | DeviceSpec::Block(Block { path, .. })
            | DeviceSpec::Directory { path } => path,
            _ => self.below().first().map_or(Path::new(""), DeviceSpec::path),
        }
    }

    /// The devices that a layer is built on; empty for a disk.
    pub fn below(&self) -> &[DeviceSpec] {
        match self {
            DeviceSpec::Image(_) | DeviceSpec::Block(_) | DeviceSpec::Directory { .. } => &[],
            DeviceSpec::Md(Md { disks, .. })
            | DeviceSpec::Lvm(Lvm { disks, .. })
            | DeviceSpec::Pool(Pool { disks }) => disks,
            DeviceSpec::Delayed(Delayed { disk, .. }) => std::slice::from_ref(&**disk),
        }
    }

    /// The disks at the bottom of the stack, in order; a disk is its own.
    pub fn disks(&self) -> Vec<&DeviceSpec> {
        match self.below() {
            [] => vec![self],
            below => below.iter().flat_map(DeviceSpec::disks).collect(),
        }
    }

    /// The devices that a filesystem is created on: the disks of a pool, else this one alone.
    pub fn members(&self) -> &[DeviceSpec] {
        match self {
            DeviceSpec::Pool(Pool { disks }) => disks,
            one => std::slice::from_ref(one),
        }
    }

    /// Every layer, outermost first.
    pub fn layers(&self) -> Vec<&DeviceSpec> {
        let is_layer = !self.below().is_empty() && !matches!(self, DeviceSpec::Pool(_));
        let own = is_layer.then_some(self);
        own.into_iter().chain(self.below().iter().flat_map(DeviceSpec::layers)).collect()
    }

    /// The same stack on other disks.
    ///
    /// # Errors
    /// The first that `replace` gives.
    pub fn on_other_disks<E>(
        &self,
        replace: &mut impl FnMut(&DeviceSpec) -> Result<DeviceSpec, E>,
    ) -> Result<DeviceSpec, E> {
        let mut all = |disks: &[DeviceSpec]| -> Result<Vec<DeviceSpec>, E> {
            disks.iter().map(|disk| disk.on_other_disks(replace)).collect()
        };
        Ok(match self {
            DeviceSpec::Md(md) => DeviceSpec::Md(Md { disks: all(&md.disks)?, ..md.clone() }),
            DeviceSpec::Lvm(lvm) => DeviceSpec::Lvm(Lvm { disks: all(&lvm.disks)?, ..lvm.clone() }),
            DeviceSpec::Pool(Pool { disks }) => DeviceSpec::Pool(Pool { disks: all(disks)? }),
            DeviceSpec::Delayed(Delayed { delay, disk }) => {
                let disk = Box::new(disk.on_other_disks(replace)?);
                DeviceSpec::Delayed(Delayed { delay: *delay, disk })
            }
            disk => replace(disk)?,
        })
    }

    /// Returns whether every disk is an image, so that its size is known.
    pub fn is_of_images(&self) -> bool {
        self.disks().iter().all(|disk| matches!(disk, DeviceSpec::Image(_)))
    }

    /// Returns whether every disk is an image that is new in each trial, so that nothing can be on it.
    pub fn is_of_new_images(&self) -> bool {
        self.disks().iter().all(|disk| matches!(disk, DeviceSpec::Image(image) if !image.is_kept()))
    }

    /// Returns whether a disk is a block device.
    pub fn is_of_blocks(&self) -> bool {
        self.disks().iter().any(|disk| matches!(disk, DeviceSpec::Block(_)))
    }

    /// Its size if every disk is an image; of a pool, see [`DeviceSpec::size_by`]. The few megabytes that a
    /// layer keeps for itself are not subtracted.
    pub fn size(&self) -> Option<Bytes> {
        self.size_by(&mut |disk| match disk {
            DeviceSpec::Image(Image { size, .. }) => Ok(*size),
            _ => Err(()),
        })
        .ok()
    }

    /// Its size from those of its disks. A pool counts with what it holds if everything is on two disks, so
    /// that a share of it is the same load under every data profile.
    ///
    /// # Errors
    /// The first that `size_of` gives.
    pub fn size_by<E>(&self, size_of: &mut impl FnMut(&DeviceSpec) -> Result<Bytes, E>) -> Result<Bytes, E> {
        let below = self.below().iter().map(|disk| Ok(disk.size_by(size_of)?.0));
        let sizes = below.collect::<Result<Vec<u64>, E>>()?;
        let least = || sizes.iter().copied().min().unwrap_or(0);
        match self {
            DeviceSpec::Delayed(_) => Ok(Bytes(least())),
            DeviceSpec::Lvm(_) | DeviceSpec::Md(Md { level: RaidLevel::Raid0, .. }) => {
                Ok(Bytes(sizes.iter().copied().fold(0, u64::saturating_add)))
            }
            DeviceSpec::Pool(_) => {
                let all = sizes.iter().copied().fold(0, u64::saturating_add);
                let most = sizes.iter().copied().max().unwrap_or(0);
                Ok(Bytes((all / 2).min(all - most)))
            }
            DeviceSpec::Md(md) => {
                let halves = u128::from(md.level.halves(sizes.len() as u64));
                Ok(Bytes((u128::from(least()) * halves / 2).min(u64::MAX.into()) as u64))
            }
            disk => size_of(disk),
        }
    }

    /// Returns the size that each of its members holds if the stack holds this much.
    pub fn share_of(&self, whole: Bytes) -> Bytes {
        let count = self.below().len().max(1) as u64;
        match self {
            DeviceSpec::Md(md) => {
                let halves = u128::from(md.level.halves(count).max(1));
                Bytes((u128::from(whole.0) * 2).div_ceil(halves).min(u64::MAX.into()) as u64)
            }
            DeviceSpec::Pool(_) => Bytes(whole.0.saturating_mul(2).div_ceil(count)),
            DeviceSpec::Lvm(_) => Bytes(whole.0.div_ceil(count)),
            _ => whole,
        }
    }
}

/// `image /var/tmp/x.img (4G)`, `md raid1 of 2 x 4G`, `block /dev/sdb, delayed by 5ms`.
impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Image(Image { path, size, sector, preallocate, model, .. }) => {
                write!(f, "image {} ({size}", path.display())?;
                if *preallocate == Preallocation::Write {
                    write!(f, ", written")?;
                }
                if *sector != Image::SECTORS[0] {
                    write!(f, ", sectors of {sector}")?;
                }
                if let Some(model) = model {
                    write!(f, ", modelled: {}", model.name)?;
                }
                write!(f, ")")
            }
            DeviceSpec::Block(Block { path, precondition, .. }) => {
                write!(f, "block {}", path.display())?;
                match precondition {
                    Conditioning::None => Ok(()),
                    Conditioning::Discard => write!(f, ", discarded"),
                    Conditioning::FillOnce => write!(f, ", filled once"),
                    Conditioning::FillTwice => write!(f, ", filled twice"),
                }
            }
            DeviceSpec::Directory { path } => write!(f, "directory {}", path.display()),
            DeviceSpec::Md(Md { level, chunk, bitmap, disks }) => {
                write!(f, "md {}", level.name())?;
                if let Some(chunk) = chunk {
                    write!(f, ", chunk {chunk}")?;
                }
                if *bitmap == Bitmap::Internal {
                    write!(f, ", bitmap")?;
                }
                write!(f, " of {}", members(disks))
            }
            DeviceSpec::Lvm(Lvm { stripes: 1, disks, .. }) => write!(f, "lvm linear of {}", members(disks)),
            DeviceSpec::Lvm(Lvm { stripes, stripe_size, disks }) => {
                write!(f, "lvm {stripes} stripes")?;
                if let Some(size) = stripe_size {
                    write!(f, " of {size}")?;
                }
                write!(f, " on {}", members(disks))
            }
            DeviceSpec::Delayed(Delayed { delay, disk }) => write!(f, "{disk}, delayed by {delay}"),
            DeviceSpec::Pool(Pool { disks }) => write!(f, "pool of {}", members(disks)),
        }
    }
}

/// `2 x 4G` where all are alike, else what each is.
fn members(disks: &[DeviceSpec]) -> String {
    let short = |disk: &DeviceSpec| match disk {
        DeviceSpec::Image(Image { size, .. }) => size.to_string(),
        DeviceSpec::Delayed(Delayed { delay, disk }) if matches!(**disk, DeviceSpec::Image(_)) => {
            format!("{} delayed by {delay}", disk.size().unwrap_or_default())
        }
        other => other.to_string(),
    };
    let words: Vec<String> = disks.iter().map(short).collect();
    match words.first() {
        Some(first) if words.len() > 1 && words.iter().all(|word| word == first) => {
            format!("{} x {first}", words.len())
        }
        _ => words.join(" + "),
    }
}

/// `5ms`, or `read 5ms, write 0ms, flush 10ms` where they differ.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [read, write, flush] = self.millis();
        match read == write && write == flush {
            true => write!(f, "{read}ms"),
            false => write!(f, "read {read}ms, write {write}ms, flush {flush}ms"),
        }
    }
}

impl Delay {
    /// Of reads, writes and flushes, in milliseconds.
    pub fn millis(&self) -> [u64; 3] {
        [self.read, self.write, self.flush].map(|delay| delay.0 / Nanos::from_millis(1).0)
    }
}

/// The devices of a plan: the one that filesystems are made on, and those that may hold external journals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Where filesystems are made.
    pub data: DeviceSpec,
    /// Named devices for `journal = "external:NAME"`.
    pub journals: BTreeMap<String, DeviceSpec>,
}

impl Devices {
    /// The data device, then those for journals.
    pub fn all(&self) -> impl Iterator<Item = &DeviceSpec> {
        std::iter::once(&self.data).chain(self.journals.values())
    }

    /// The paths of the disks that the user named: block devices, of arrays and volumes as well. Everything
    /// on them is lost.
    pub fn named_disks(&self) -> impl Iterator<Item = &Path> {
        let disks = self.all().flat_map(DeviceSpec::disks);
        disks.filter(|disk| matches!(disk, DeviceSpec::Block(_))).map(DeviceSpec::path)
    }
}

#[cfg(test)]
mod tests;
