//! Opens a store that is only to be read: one of another user, or one where nothing can be written.
//!
//! In write-ahead mode even a reader writes: it creates the files `-wal` and `-shm` next to the store if
//! there are none (<https://sqlite.org/wal.html#read_only_databases>). In the directory of somebody else that
//! is impossible, or would leave files that get in the way of the owner. So without them the file is opened
//! as one that nobody changes; and if their contents are needed but cannot be used, or the schema is older, a
//! copy is read.

use crate::error::{Result, StoreError};
use crate::schema::Depth;
use crate::{Store, connect, file_at, found_elsewhere, named_after, schema};
use fsdyno_path::Place;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, Mode, OFlags, access};
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const ROOT: u32 = 0;
/// The pages of the index of SQLite's log.
const SQLITE_PAGE: u64 = 4096;
/// The bytes of its first part.
const INDEX: usize = 32 << 10;

impl Store {
    /// Opens the store at this path to read it. One that is this user's and can be written is opened as by
    /// [`Store::open`]; one that does not exist is empty, and is not created.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`StoreError::Unreadable`].
    pub fn open_to_read(path: &Path) -> Result<Self> {
        let unreadable = |source| StoreError::Unreadable { path: path.to_path_buf(), source };
        let place = match Place::of(path).map_err(|source| found_elsewhere(path, source)) {
            Err(Err(error)) if error.kind() == io::ErrorKind::NotFound => return empty(path),
            Err(Err(source)) => return Err(unreadable(source)),
            Err(Ok(error)) => return Err(error),
            Ok(place) => place,
        };
        let found = match fs::symlink_metadata(place.through()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return empty(path),
            found => found.map_err(unreadable)?,
        };
        if !found.is_file() {
            return Err(StoreError::NotAFile { path: path.to_path_buf() });
        }
        let own = found.uid() == geteuid().as_raw();
        if own && why_not_writable(&place).is_none() {
            return match Store::open(path) {
                // What can be read need not be lost with the room to write.
                Err(error) if error.wants_room() => read_only(path, place).map_err(|_| error),
                Err(StoreError::OpenToOthers { .. }) => read_only(path, place),
                opened => opened,
            };
        }
        File::open(place.through()).map_err(unreadable)?;
        let store = read_only(path, place)?;
        // Of what belongs to root nothing is worse than what root may do anyway.
        if !own && found.uid() != ROOT {
            schema::check(&store.connection, path, Depth::Pages)?;
        }
        Ok(store)
    }
}

/// Returns whether root would have to trust files that others can put next to the database.
pub(crate) fn is_open_to_others(place: &Place) -> bool {
    geteuid().is_root() && place.directory.is_open_to_others().unwrap_or(true)
}

/// Why a file that exists, or new ones beside it, cannot be written.
pub(crate) fn why_not_writable(place: &Place) -> Option<io::Error> {
    file_at(place)?;
    let paths = [place.through(), place.directory.at(".")];
    paths.iter().find_map(|path| access(path, Access::WRITE_OK).err()).map(io::Error::from)
}

/// Fails as SQLite does on a full filesystem, where SQLite would not notice.
///
/// It maps the index of its log into memory, and makes room for it by writing one byte of every 4 KiB
/// (`unixShmMap` in os_unix.c). Where blocks are smaller, the rest is a hole, and a filesystem that has no
/// block for it ends the process by SIGBUS. What is free says nothing: ext4 keeps blocks back even from root.
pub(crate) fn verify_room_for_index(place: &Place) -> rusqlite::Result<()> {
    let directory = place.directory.at(".");
    if rustix::fs::statvfs(&directory).is_ok_and(|found| found.f_bsize >= SQLITE_PAGE) {
        return Ok(());
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(unnamed) = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) else { return Ok(()) };
    match File::from(unnamed).write_all(&[0; INDEX]) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None))
        }
        _ => Ok(()),
    }
}

fn empty(path: &Path) -> Result<Store> {
    let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let mut connection = Connection::open_in_memory().map_err(cannot_open)?;
    schema::bring_up_to_date(&mut connection, path, None)?;
    Ok(Store::of(connection, path.to_path_buf(), None))
}

fn read_only(path: &Path, place: Place) -> Result<Store> {
    let size = |ending: &str| fs::metadata(beside(&place, ending)).map(|file| file.len()).ok();
    let connection = match (size("-shm"), size("-wal")) {
        _ if is_open_to_others(&place) => return copied(path, &place),
        (Some(_), Some(_)) => verify_room_for_index(&place).and_then(|()| open(&place, "")),
        (_, None | Some(0)) => open(&place, "&immutable=1"),
        (None, Some(_)) => return copied(path, &place),
    };
    let opened = connection.map_err(|source| StoreError::Open { path: path.to_path_buf(), source });
    let opened = opened.and_then(|connection| {
        schema::recognise(&connection, path)?;
        Ok(connection)
    });
    match opened {
        Ok(connection) if schema::is_latest(&connection) => {
            Ok(Store::of(connection, path.to_path_buf(), Some(place)))
        }
        // Older, or nobody recovers what its owner's last process left in the files beside it.
        Ok(_) | Err(StoreError::Open { .. }) => copied(path, &place),
        Err(error) => Err(error),
    }
}

/// One of SQLite's files next to a database.
fn beside(place: &Place, ending: &str) -> PathBuf {
    place.directory.at(named_after(Path::new(&place.name), ending))
}

fn open(place: &Place, more: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    connect(Path::new(&format!("{}?mode=ro{more}", uri(&place.through()))), flags)
}

/// A path as a URI: bytes with a meaning of their own are escaped (https://sqlite.org/uri.html).
fn uri(path: &Path) -> String {
    let escaped = path.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file:{}", escaped.collect::<String>())
}

/// A regular file that is no link: whoever owns the database may have put anything there.
fn regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

fn copy_of(mut from: File, to: &Path) -> io::Result<()> {
    io::copy(&mut from, &mut File::create(to)?).map(drop)
}

/// A copy in a directory of its own, brought up to date there.
fn copied(path: &Path, place: &Place) -> Result<Store> {
    let unreadable = |source| StoreError::Unreadable { path: path.to_path_buf(), source };
    let directory = tempfile::Builder::new().prefix("fsdyno-read-").tempdir().map_err(unreadable)?;
    let copy = directory.path().join("results.db");
    let database = regular(&place.through()).map_err(unreadable)?;
    let owner = database.metadata().map_err(unreadable)?.uid();
    copy_of(database, &copy).map_err(unreadable)?;
    match regular(&beside(place, "-wal")) {
        Ok(log) if log.metadata().map_err(unreadable)?.uid() == owner => {
            copy_of(log, &directory.path().join("results.db-wal")).map_err(unreadable)?;
        }
        Ok(_) => return Err(unreadable(io::Error::other("its log belongs to another user"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(error)),
    }
    let mut store = Store::open(&copy)?;
    store.path = path.to_path_buf();
    store.copy = None;
    store.directory = Some(directory);
    Ok(store)
}
