//! The layout of the files of a load: free space, and the number of extents per file.
//!
//! The directory is walked once, after everything was written back, because before that a filesystem with
//! delayed allocation has not placed the data. A tree may have millions of files, so a sample is drawn on the
//! way (algorithm R, seeded) and examined afterwards: memory and time are bounded, and the result says how
//! many files there are and how many were examined.

use crate::background::Gauge;
use crate::fill;
use crate::tree::derive_seed;
use fsdyno_core::result::Layout;
use fsdyno_sys::extents::{self, Batch, FileExtent};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The maximum number of files to examine.
const SAMPLE: usize = 4096;
/// The longest walk. A million names in memory take a few seconds.
const LONGEST: Duration = Duration::from_secs(60);
/// Distinguishes the draws of the sample from others with the same seed.
const DRAWS: u64 = 0x006c_6179_6f75_7400;

/// Examines everything below a directory. The gauge counts names and files.
///
/// # Errors
/// The kernel's error if the filesystem cannot be written back or does not report its space.
pub(crate) fn look(base: &Path, seed: u64, gauge: &Gauge) -> Result<Layout, Errno> {
    let begin = Instant::now();
    let directory =
        rustix::fs::open(base, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::syncfs(&directory)?;
    let written_back_ns = begin.elapsed().into();
    let space = rustix::fs::fstatvfs(&directory)?;
    let mut layout = Layout {
        written_back_ns,
        size_bytes: space.f_blocks * space.f_frsize,
        free_bytes: space.f_bfree * space.f_frsize,
        ..Layout::default()
    };
    let files = sample(base, seed, gauge, &mut layout);
    let mut batch = Box::<Batch>::default();
    for file in files {
        if gauge.cancelled() {
            break;
        }
        gauge.advance(1);
        match pieces(&file, &mut batch) {
            Ok(None) => {}
            Ok(Some(found)) => {
                layout.sampled += 1;
                layout.extents += found.extents;
                layout.fragmented += u64::from(found.apart);
            }
            Err(errno @ (Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL)) => {
                layout.unknown = Some(format!("the filesystem does not report where its files are: {errno}"));
                break;
            }
            // A file that is gone or may not be opened does not count.
            Err(_) => {}
        }
    }
    Ok(layout)
}

/// Draws files from a walk, and counts them.
fn sample(base: &Path, seed: u64, gauge: &Gauge, layout: &mut Layout) -> Vec<PathBuf> {
    let begin = Instant::now();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(derive_seed(seed, &[DRAWS]));
    let mut drawn = Vec::new();
    let mut directories = vec![base.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            gauge.advance(1);
            match entry.file_type() {
                // Files from before the load do not count.
                Ok(kind) if kind.is_dir() && directory == base && entry.file_name() == fill::NAME => {}
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    layout.files += 1;
                    if drawn.len() < SAMPLE {
                        drawn.push(entry.path());
                    } else if let Some(place) = drawn.get_mut(random.random_range(0..layout.files) as usize) {
                        *place = entry.path();
                    }
                }
                _ => {}
            }
        }
        if gauge.cancelled() || begin.elapsed() > LONGEST {
            layout.complete = directories.is_empty();
            return drawn;
        }
    }
    layout.complete = true;
    drawn
}

/// The fragmentation of a file.
#[derive(Debug, PartialEq, Eq)]
struct Pieces {
    /// Places on the device: extents that are adjacent there are one.
    extents: u64,
    /// `true` if some extent is not adjacent to the one before it.
    apart: bool,
}

/// The pieces of a file; none if it has no blocks of its own: empty, or stored among the metadata.
fn pieces(path: &Path, batch: &mut Batch) -> Result<Option<Pieces>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let (mut found, mut before): (Pieces, Option<FileExtent>) = (Pieces { extents: 0, apart: false }, None);
    let mut position = 0;
    loop {
        let extents = extents::map(file.as_fd(), position, batch)?;
        for extent in extents.iter().filter(|extent| extent.has_place()) {
            // Filesystems split what is adjacent on the device into records, by their own limits. What counts
            // is whether the device has to seek, as for filefrag(8), so neither they nor holes add to it.
            let follows = |before: FileExtent| extent.physical == before.physical + before.length;
            let adjacent = before.is_some_and(follows);
            found.extents += u64::from(!adjacent);
            found.apart |= before.is_some() && !adjacent;
            before = Some(*extent);
        }
        match extents.last() {
            Some(last) if !last.is_last() && last.length > 0 => position = last.logical + last.length,
            _ => return Ok((found.extents > 0).then_some(found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, write};
    use std::os::unix::fs::FileExt;

    fn look_at(base: &Path, seed: u64) -> Layout {
        look(base, seed, &Gauge::default()).unwrap()
    }

    #[test]
    fn files_are_counted_and_empty_ones_have_no_extents() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(base.path().join("below")).unwrap();
        write(base.path().join("below/one"), vec![7; 100_000]).unwrap();
        write(base.path().join("empty"), []).unwrap();
        std::os::unix::fs::symlink("empty", base.path().join("link")).unwrap();
        let layout = look_at(base.path(), 1);
        assert_eq!((layout.files, layout.complete), (2, true));
        assert!(layout.size_bytes > layout.free_bytes);
        assert!(layout.sampled == 1 || layout.unknown.is_some(), "{layout:?}");
    }

    #[test]
    fn a_file_written_in_pieces_is_fragmented() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let (one, other) = (base.path().join("one"), base.path().join("other"));
        let files = [File::create(&one).unwrap(), File::create(&other).unwrap()];
        for piece in 0..40_u64 {
            for file in &files {
                file.write_all_at(&[piece as u8; 8192], piece * 8192).unwrap();
                file.sync_all().unwrap();
            }
        }
        let whole = base.path().join("whole");
        write(&whole, vec![1; 40 * 8192]).unwrap();
        let layout = look_at(base.path(), 1);
        if layout.unknown.is_some() {
            return;
        }
        let mut batch = Batch::default();
        let [pieced, whole] = [&one, &whole].map(|path| pieces(path, &mut batch).unwrap().unwrap());
        assert!(pieced.extents >= whole.extents && layout.extents >= 3, "{pieced:?} {whole:?} {layout:?}");
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let base = tempfile::tempdir().unwrap();
        for number in 0..SAMPLE + 500 {
            File::create(base.path().join(number.to_string())).unwrap();
        }
        let drawn = |seed| {
            let mut layout = Layout::default();
            (sample(base.path(), seed, &Gauge::default(), &mut layout), layout.files)
        };
        let (one, files) = drawn(1);
        assert_eq!((one.len(), files), (SAMPLE, SAMPLE as u64 + 500));
        assert_eq!(one, drawn(1).0);
        assert_ne!(one, drawn(2).0);
    }
}
