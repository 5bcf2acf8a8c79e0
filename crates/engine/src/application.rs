//! The work of an application on a disk whose requests fail: it overwrites or appends blocks and calls
//! fsync(2), or reads. Each step is a process of its own, because the filesystem is mounted again in between,
//! and because the step may hang.
//!
//! Every sector says whose it is and of which version (`sector`), so that the data read can be judged without
//! knowing what was written, and so that the disk can tell data from everything else.

use crate::plant::{CREATE, DIRECTORY, FILE_MODE};
use crate::workload::durability::sector::{PromisedSector, SECTOR, SectorAddress};
use fsdyno_core::durability::Act;
use fsdyno_core::result::{Content, Usable, Witnessed};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

const FILE: &str = "file";
/// The size of the file at first, and of the part that is overwritten or appended: too large for any
/// filesystem to keep in an inode or a tree.
const PART: usize = 64 << 10;
const SECTORS: u64 = (PART / SECTOR) as u64;
/// Versions of what is written.
const BEFORE: u64 = 1;
const LATER: u64 = 2;

/// Creates the file, and syncs everything.
///
/// # Errors
/// The system call that failed.
pub fn prepare(directory: &Path, seed: u64) -> Result<(), Errno> {
    let directory = rustix::fs::open(directory, DIRECTORY, Mode::empty())?;
    let file = rustix::fs::openat(&directory, FILE, CREATE, FILE_MODE)?;
    write_at(&file, &content(seed, 0, BEFORE), 0)?;
    rustix::fs::fsync(&file)?;
    rustix::fs::syncfs(&directory)
}

/// Does what the application does while requests fail.
pub fn act(directory: &Path, act: Act, seed: u64) -> Witnessed {
    let ([first, again], reads) = match act {
        Act::Read => {
            let (first, _) = read(directory, act, seed);
            let (again, reads) = read(directory, act, seed);
            ([first, again], reads)
        }
        Act::Overwrite | Act::Append => {
            let calls = write(directory, act, seed).unwrap_or_else(|errno| [Err(errno), Err(errno)]);
            (calls, look(directory, act, seed))
        }
    };
    let name = |call: Result<(), Errno>| call.err().map(name);
    Witnessed { first: name(first), again: name(again), reads, usable: usable(directory) }
}

/// Reads the part of the file that `act` concerns, and judges its content.
pub fn look(directory: &Path, act: Act, seed: u64) -> Content {
    read(directory, act, seed).1
}

/// Writes, and calls fsync(2) twice; what a write says stands for the first.
fn write(directory: &Path, act: Act, seed: u64) -> Result<[Result<(), Errno>; 2], Errno> {
    let begin = begin(act);
    let file = open(directory, OFlags::RDWR)?;
    let written = write_at(&file, &content(seed, begin, LATER), begin * SECTOR as u64);
    let first = written.and_then(|()| rustix::fs::fsync(&file));
    Ok([first, rustix::fs::fsync(&file)])
}

fn read(directory: &Path, act: Act, seed: u64) -> (Result<(), Errno>, Content) {
    let begin = begin(act);
    let mut buffer = vec![0; PART];
    let read =
        open(directory, OFlags::RDONLY).and_then(|file| read_at(&file, &mut buffer, begin * SECTOR as u64));
    match read {
        Ok(length) => (Ok(()), judge(&buffer[..length], seed, begin)),
        Err(errno @ Errno::NOENT) => (Err(errno), Content::Missing),
        Err(errno) => (Err(errno), Content::Unreadable),
    }
}

/// The first sector that it is about.
fn begin(act: Act) -> u64 {
    match act {
        Act::Overwrite | Act::Read => 0,
        Act::Append => SECTORS,
    }
}

fn open(directory: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(directory.join(FILE), how | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn content(seed: u64, begin: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PART];
    for (sector, bytes) in (begin..).zip(bytes.as_chunks_mut::<SECTOR>().0) {
        place(seed, sector).fill(version, bytes);
    }
    bytes
}

fn place(seed: u64, sector: u64) -> SectorAddress {
    SectorAddress { seed, file: 0, sector }
}

/// Judges what was read; the file ends with it if it is less than all.
fn judge(bytes: &[u8], seed: u64, begin: u64) -> Content {
    let mut found = (0..SECTORS).map(|number| {
        let from = (number as usize * SECTOR).min(bytes.len());
        let sector = &bytes[from..(from + SECTOR).min(bytes.len())];
        match place(seed, begin + number).judge(sector) {
            PromisedSector::Written(LATER) => Content::New,
            PromisedSector::Written(BEFORE) => Content::Old,
            PromisedSector::Zeros => Content::Zeros,
            PromisedSector::Missing => Content::Missing,
            PromisedSector::Written(_) | PromisedSector::Foreign | PromisedSector::Garbage => {
                Content::Garbage
            }
        }
    });
    let first = found.next().unwrap_or(Content::Missing);
    found.fold(first, |all, one| match (all, one) {
        (Content::Garbage, _) | (_, Content::Garbage) => Content::Garbage,
        (all, one) if all == one => all,
        _ => Content::Mixed,
    })
}

/// Tries to create a file, to write it and to sync it. Its content is no data to the disk.
fn usable(directory: &Path) -> Usable {
    let create = || {
        let root = rustix::fs::open(directory, DIRECTORY, Mode::empty())?;
        let file = rustix::fs::openat(&root, "another", CREATE, FILE_MODE)?;
        write_at(&file, &[b'.'; 4096], 0)?;
        rustix::fs::fsync(&file)
    };
    match create() {
        Ok(()) => Usable::Writable,
        Err(Errno::ROFS) => Usable::ReadOnly,
        Err(_) => match open(directory, OFlags::RDONLY) {
            Ok(_) => Usable::Failing,
            Err(_) => Usable::ShutDown,
        },
    }
}

fn write_at(file: &OwnedFd, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(file, &bytes[done..], at + done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn read_at(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// The name of an error; of rare ones, their number.
fn name(errno: Errno) -> String {
    match errno {
        Errno::IO => "EIO".to_string(),
        Errno::ROFS => "EROFS".to_string(),
        Errno::NOSPC => "ENOSPC".to_string(),
        Errno::NOENT => "ENOENT".to_string(),
        Errno::UCLEAN => "EUCLEAN".to_string(),
        Errno::BADMSG => "EBADMSG".to_string(),
        other => format!("errno {}", other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::durability::DATA;

    #[test]
    fn a_healthy_disk_keeps_everything() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        prepare(path, 7).unwrap();
        let good = |reads| Witnessed { first: None, again: None, reads, usable: Usable::Writable };
        assert_eq!(act(path, Act::Read, 7), good(Content::Old));
        std::fs::remove_file(path.join("another")).unwrap();
        assert_eq!(look(path, Act::Append, 7), Content::Missing);
        assert_eq!(act(path, Act::Append, 7), good(Content::New));
        std::fs::remove_file(path.join("another")).unwrap();
        assert_eq!(act(path, Act::Overwrite, 7), good(Content::New));
        assert_eq!(look(path, Act::Append, 7), Content::New);
        assert_eq!(look(path, Act::Append, 8), Content::Garbage, "another seed's");
    }

    #[test]
    fn what_is_read_is_told_apart() {
        let whole = content(7, 0, LATER);
        assert!(whole.chunks(SECTOR).all(|sector| sector.starts_with(&DATA)));
        assert_eq!(judge(&whole, 7, 0), Content::New);
        assert_eq!(judge(&content(7, 0, BEFORE), 7, 0), Content::Old);
        assert_eq!(judge(&vec![0; PART], 7, 0), Content::Zeros);
        assert_eq!(judge(&[], 7, 0), Content::Missing);
        assert_eq!(judge(&whole, 7, SECTORS), Content::Garbage, "of another place");
        assert_eq!(judge(&whole[..PART / 2], 7, 0), Content::Mixed);
        let mut half = whole.clone();
        half[..PART / 2].copy_from_slice(&content(7, 0, BEFORE)[..PART / 2]);
        assert_eq!(judge(&half, 7, 0), Content::Mixed);
        half[3] ^= 1;
        assert_eq!(judge(&half, 7, 0), Content::Garbage);
    }
}
