//! Opens a store that is only to be read: one of another user, or one where nothing can be written.
//!
//! In write-ahead mode even a reader writes: it creates the files `-wal` and `-shm` next to the store if
//! there are none (https://sqlite.org/wal.html#read_only_databases). In the directory of somebody else that
//! is impossible, or would leave files that get in the way of the owner. So without them the file is opened
//! as one that nobody changes; and if their contents are needed but cannot be used, or the schema is older, a
//! copy is read.

use crate::error::{Result, StoreError};
use crate::schema::Depth;
use crate::{Store, distrust, schema};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const ROOT: u32 = 0;

impl Store {
    /// Opens the store at this path to read it. One that is this user's and can be written is opened as by
    /// [`Store::open`]; one that does not exist is empty, and is not created.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`StoreError::Unreadable`].
    pub fn open_to_read(path: &Path) -> Result<Self> {
        let unreadable = |source| StoreError::Unreadable { path: path.to_path_buf(), source };
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return empty(path),
            found => found.map_err(unreadable)?,
        };
        if !found.is_file() {
            return Err(StoreError::NotAFile { path: path.to_path_buf() });
        }
        let own = found.uid() == geteuid().as_raw();
        if own && why_not_writable(path).is_none() {
            return match Store::open(path) {
                // What can be read need not be lost with the room to write.
                Err(error) if error.wants_room() => read_only(path).map_err(|_| error),
                opened => opened,
            };
        }
        fs::File::open(path).map_err(unreadable)?;
        let store = read_only(path)?;
        // Of what belongs to root nothing is worse than what root may do anyway.
        if !own && found.uid() != ROOT {
            schema::check(&store.connection, path, Depth::Pages)?;
        }
        Ok(store)
    }
}

/// Why a file that exists, or new ones beside it, cannot be written.
pub(crate) fn why_not_writable(path: &Path) -> Option<io::Error> {
    if !path.exists() {
        return None;
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let places = [path, directory.unwrap_or(Path::new("."))];
    places.iter().find_map(|place| access(*place, Access::WRITE_OK).err()).map(io::Error::from)
}

fn empty(path: &Path) -> Result<Store> {
    let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let mut connection = Connection::open_in_memory().map_err(cannot_open)?;
    schema::bring_up_to_date(&mut connection, path, None)?;
    Ok(Store::of(connection, path.to_path_buf()))
}

fn read_only(path: &Path) -> Result<Store> {
    let size = |ending: &str| fs::metadata(beside(path, ending)).map(|file| file.len()).ok();
    let connection = match (size("-shm"), size("-wal")) {
        (Some(_), Some(_)) => connect(path, ""),
        (_, None | Some(0)) => connect(path, "&immutable=1"),
        (None, Some(_)) => return copied(path),
    };
    let opened = connection.and_then(|connection| {
        schema::recognise(&connection, path)?;
        Ok(connection)
    });
    match opened {
        Ok(connection) if schema::is_latest(&connection) => Ok(Store::of(connection, path.to_path_buf())),
        // Older, or nobody recovers what its owner's last process left in the files beside it.
        Ok(_) | Err(StoreError::Open { .. }) => copied(path),
        Err(error) => Err(error),
    }
}

/// One of SQLite's files next to a database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

fn connect(path: &Path, more: &str) -> Result<Connection> {
    let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("{}?mode=ro{more}", uri(path)), flags);
    let connection = connection.map_err(cannot_open)?;
    connection.busy_timeout(crate::BUSY_LIMIT).map_err(cannot_open)?;
    distrust(&connection).map_err(cannot_open)?;
    Ok(connection)
}

/// A path as a URI: bytes with a meaning of their own are escaped (https://sqlite.org/uri.html).
fn uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or(path.to_path_buf());
    let escaped = absolute.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file:{}", escaped.collect::<String>())
}

/// A copy in a directory of its own, brought up to date there.
fn copied(path: &Path) -> Result<Store> {
    let unreadable = |source| StoreError::Unreadable { path: path.to_path_buf(), source };
    let directory = tempfile::Builder::new().prefix("fsdyno-read-").tempdir().map_err(unreadable)?;
    let copy = directory.path().join("results.db");
    fs::copy(path, &copy).map_err(unreadable)?;
    let wal = beside(path, "-wal");
    if wal.exists() {
        fs::copy(wal, beside(&copy, "-wal")).map_err(unreadable)?;
    }
    let mut store = Store::open(&copy)?;
    store.path = path.to_path_buf();
    store.copy = None;
    store.directory = Some(directory);
    Ok(store)
}
