//! Stores results: one SQLite file for all sweeps of a user.
//!
//! Each trial is one transaction, on disk before the next trial begins: a crash of fsdyno, of the machine or
//! of the filesystem under test loses at most the trial that was running. The file is in write-ahead mode if
//! its filesystem supports that, so other processes can read while a sweep writes. A trial is one row: its
//! public JSON and its bulky parts, both compressed, and columns for queries. Reading a trial returns the
//! record that was written.
//!
//! The path is resolved once. The file, those that SQLite keeps beside it, and copies are opened
//! through the directory that was found, so nobody can swap one on the way to it.
//!
//! Others may query it with SQL: the views `fsdyno_...` are documented and stay as they are, unlike the
//! tables.
//!
//! The store averages nothing, judges nothing, and deletes only what a user names.

mod bulk;
mod bytes;
mod changes;
mod damage;
mod error;
mod inside;
mod kept;
mod measures;
mod packed;
mod portable;
mod process;
mod reading;
mod row;
mod schema;
mod sweeps;
mod trials;
mod twin;

pub use damage::DamagedTrial;
pub use error::{Result, StoreError};
pub use inside::OwnMount;
pub use kept::{Added, kept};
pub use portable::Unpacked;
pub use sweeps::{AllSweeps, NewSweep, Origin, Sweep, SweepState, SweepSummary, select};
pub use twin::Twin;

use fsdyno_core::Bytes;
use fsdyno_core::reserve::reserve;
use fsdyno_path::{Directory, LinkOfOthers, Place};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::fstat;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time to wait for another process to finish writing.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// The maximum size of a value in bytes; the histograms of a trial have less than a thousandth of it.
const LONGEST_VALUE: i32 = 256 << 20;

/// The suffix that turns the name of the database into that of the directory with the other files of its
/// sweeps.
const FILES: &str = ".files";

/// The number of a sweep in its store, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SweepId(pub i64);

impl fmt::Display for SweepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The results of all sweeps.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Where it is, unless it is in memory. It must outlive the connection, which is dropped first.
    place: Option<Place>,
    /// The copy made before the schema was upgraded.
    copy: Option<PathBuf>,
    /// The sweep that this process runs.
    running: Option<kept::RunningSweep>,
    /// The directory of the copy that is read, if it is not the file itself.
    directory: Option<TempDir>,
    /// The text that users write before the number of a sweep to select one of this store.
    prefix: &'static str,
    /// Device and inode of the file, as it was opened to be written.
    file: Option<(u64, u64)>,
}

impl Store {
    /// Opens the store at this path. Creates it and missing directories above it, and upgrades the schema.
    ///
    /// # Errors
    /// [`StoreError::Directory`], [`StoreError::Link`], [`StoreError::NotAFile`], [`StoreError::Open`],
    /// [`StoreError::NotADatabase`], [`StoreError::Foreign`], [`StoreError::TooNew`], [`StoreError::TooOld`],
    /// [`StoreError::Corrupt`], [`StoreError::Copy`], [`StoreError::Migrate`]; [`StoreError::NotYours`] if
    /// it belongs to another user; [`StoreError::OpenToOthers`]; [`StoreError::NotWritable`].
    pub fn open(path: &Path) -> Result<Self> {
        let place = Place::make(path).map_err(|source| match found_elsewhere(path, source) {
            Err(source) => {
                StoreError::Directory { path: path.parent().unwrap_or(path).to_path_buf(), source }
            }
            Ok(error) => error,
        })?;
        Store::open_at(path, place)
    }

    /// Opens the store at a place to which this path has led.
    fn open_at(path: &Path, place: Place) -> Result<Self> {
        let found = file_at(&place);
        // SQLite takes a device for an empty database, and writes one to it.
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Err(StoreError::NotAFile { path: path.to_path_buf() });
        }
        let owner = found.as_ref().map(MetadataExt::uid).filter(|owner| *owner != geteuid().as_raw());
        if let Some(owner) = owner {
            return Err(StoreError::NotYours { path: path.to_path_buf(), owner });
        }
        if reading::is_open_to_others(&place) {
            return Err(StoreError::OpenToOthers { path: path.to_path_buf() });
        }
        if let Some(source) = reading::why_not_writable(&place) {
            return Err(StoreError::NotWritable { path: path.to_path_buf(), source });
        }
        let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
        reading::verify_room_for_index(&place).map_err(cannot_open)?;
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = connect(&place.through(), flags).map_err(cannot_open)?;
        schema::recognise(&connection, path)?;
        let copy = schema::copy_older(&connection, path, &place)?;
        set_up(&connection).map_err(cannot_open)?;
        schema::bring_up_to_date(&mut connection, path, copy.as_deref())?;
        let file = file_at(&place).map(|found| (found.dev(), found.ino()));
        // A store is identified by its real path, whatever the working directory.
        Ok(Store { copy, file, ..Store::of(connection, place.path(), Some(place)) })
    }

    fn of(connection: Connection, path: PathBuf, place: Option<Place>) -> Self {
        Store { connection, path, place, copy: None, running: None, directory: None, prefix: "", file: None }
    }

    /// The same store, with a prefix before the numbers of its sweeps in [`SweepSummary::selector`].
    #[must_use]
    pub fn with_prefix(self, prefix: &'static str) -> Self {
        Store { prefix, ..self }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where files of a sweep are that are not in the database. The directory need not exist.
    pub fn files_of(&self, sweep: SweepId) -> PathBuf {
        self.beside(FILES).join(sweep.to_string())
    }

    /// The directory that holds the database and these files.
    pub fn directory_of_files(&self) -> PathBuf {
        self.path.parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// Checks that the filesystem of the store has its reserve free.
    ///
    /// # Errors
    /// [`StoreError::NoRoom`].
    pub fn check_room(&self) -> Result<()> {
        check_room(&self.path, 0)
    }

    /// Returns whether the path of the store still leads to the file that was opened to be written. If
    /// somebody has removed or moved that file, SQLite goes on writing to it.
    pub fn is_in_place(&self) -> bool {
        let Some(file) = self.file else { return true };
        // The latest trials may be in its log only.
        let log = format!("{} (deleted)", self.beside("-wal").display());
        let found = fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()));
        found == Some(file) && !own_descriptors().any(|link| link.as_os_str() == log.as_str())
    }

    /// Returns the path of the file next to the database that is named after it.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.path.with_file_name(named_after(&self.path, suffix))
    }

    /// Copies everything into a new file: in the store's directory, or, if that is gone, in the nearest one
    /// above it that only this user can write to, otherwise in the first of `directories` that has room for
    /// it. Returns its path. SQLite's own files at the old place are removed: with another database of that
    /// name, it would take them for those of that one.
    ///
    /// # Errors
    /// [`StoreError::Rescue`] if no directory has room for it.
    pub fn rescue(&self, directories: &[PathBuf]) -> Result<PathBuf> {
        let beside = self.path.ancestors().skip(1).find_map(|one| Directory::open(one).ok()).filter(is_own);
        let others = directories.iter().map(|one| Directory::open(one).map_err(|error| (one, error)));
        let mut reasons = Vec::new();
        for directory in beside.into_iter().map(Ok).chain(others) {
            let directory = match directory {
                Ok(directory) => directory,
                Err((path, error)) => {
                    reasons.push(format!("'{}': {error}", path.display()));
                    continue;
                }
            };
            let name = named_after(&self.path, &format!(".rescued-{}", std::process::id()));
            // It overwrites nothing (https://sqlite.org/lang_vacuum.html).
            match self.connection.execute("VACUUM INTO ?1", [directory.at(&name).to_string_lossy()]) {
                Ok(_) => {
                    self.remove_logs();
                    return Ok(directory.path().join(name));
                }
                Err(error) => reasons.push(format!("'{}': {error}", directory.path().display())),
            }
        }
        Err(StoreError::Rescue { path: self.path.clone(), reasons })
    }

    /// Removes SQLite's own files at the old place, if they are still there. One that cannot be removed is as
    /// it was.
    fn remove_logs(&self) {
        let Some(place) = &self.place else { return };
        let own: Vec<PathBuf> = own_descriptors().collect();
        for suffix in ["-wal", "-shm"].into_iter().filter(|suffix| own.contains(&self.beside(suffix))) {
            let _ = fs::remove_file(place.directory.at(named_after(&self.path, suffix)));
        }
    }

    /// The copy of the original file, if opening it upgraded the schema.
    pub fn copy_of_older(&self) -> Option<&Path> {
        self.copy.as_deref()
    }
}

/// Returns the current names of the open files of this process.
fn own_descriptors() -> impl Iterator<Item = PathBuf> {
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// The name of a store with something appended.
fn named_after(store: &Path, suffix: &str) -> OsString {
    let mut name = store.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    name
}

/// Checks that `more` bytes fit into the filesystem of a store and leave its reserve free.
fn check_room(store: &Path, more: u64) -> Result<()> {
    let directory = store.parent().filter(|directory| !directory.as_os_str().is_empty());
    // A filesystem that does not say how much is free reports the error itself when it is full.
    let Ok(found) = rustix::fs::statvfs(directory.unwrap_or(Path::new("."))) else { return Ok(()) };
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
    let (free, size) = (bytes(found.f_bavail), bytes(found.f_blocks));
    match more.saturating_add(reserve(size).0) <= free.0 {
        true => Ok(()),
        false => Err(StoreError::NoRoom {
            path: store.to_path_buf(),
            more: Bytes(more),
            free: whole(free),
            reserve: whole(reserve(size)),
        }),
    }
}

/// Whole mebibytes, for a person.
fn whole(size: Bytes) -> Bytes {
    Bytes(size.0 / Bytes::MIB * Bytes::MIB)
}

/// Returns whether nobody but this user can change the entries of a directory.
fn is_own(directory: &Directory) -> bool {
    let others = 0o022;
    fstat(directory).is_ok_and(|found| found.st_uid == geteuid().as_raw() && found.st_mode & others == 0)
}

/// Returns the metadata of the file at a place.
fn file_at(place: &Place) -> Option<Metadata> {
    fs::symlink_metadata(place.through()).ok()
}

/// The error of a path that leads to no place of a file, or what the system says.
fn found_elsewhere(path: &Path, source: io::Error) -> std::result::Result<StoreError, io::Error> {
    match source.kind() {
        _ if LinkOfOthers::is_cause_of(&source) => Ok(StoreError::Link { path: path.to_path_buf(), source }),
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
            Ok(StoreError::NotAFile { path: path.to_path_buf() })
        }
        _ => Err(source),
    }
}

/// Opens a database at a path through an open directory, or at a URI with one.
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    if !fsdyno_sys::sqlite::use_paths_as_given() {
        let misuse = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE);
        let reason = "this SQLite would follow links of others".to_string();
        return Err(rusqlite::Error::SqliteFailure(misuse, Some(reason)));
    }
    let connection = Connection::open_with_flags(path, flags).map_err(|error| match error {
        // Its text names the path, which says nothing to a user.
        rusqlite::Error::SqliteFailure(error, _) => rusqlite::Error::SqliteFailure(error, None),
        other => other,
    })?;
    connection.busy_timeout(BUSY_LIMIT)?;
    distrust(&connection)?;
    Ok(connection)
}

/// A database may come from anywhere, and its schema can contain code: views, triggers, and functions in
/// indexes. None of it can do more than ordinary reading and writing (https://sqlite.org/security.html).
fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Our schema has none.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(32);
    switch_to_write_ahead(connection)?;
    // In write-ahead mode, FULL is one fsync for each transaction (https://sqlite.org/pragma.html#pragma_synchronous).
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Filesystems without shared memory do not support it; the mode that remains is just as durable, but readers
/// wait for writers.
///
/// The switch upgrades a read lock. SQLite does not call the busy handler for that, because two connections
/// could wait for each other (https://sqlite.org/c3ref/busy_handler.html), so this tries again.
fn switch_to_write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let begin = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begin.elapsed() < BUSY_LIMIT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}
