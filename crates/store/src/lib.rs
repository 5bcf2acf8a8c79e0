//! Stores results: one SQLite file for all sweeps of a user.
//!
//! Each trial is one transaction, on disk before the next trial begins: a crash of fsdyno, of the machine or
//! of the filesystem under test loses at most the trial that was running. The file is in write-ahead mode if
//! its filesystem supports that, so other processes can read while a sweep writes. A trial is one row: its
//! public JSON and its bulky parts, both compressed, and columns for queries. Reading a trial returns the
//! record that was written.
//!
//! Others may query it with SQL: the views `fsdyno_...` are documented and stay as they are, unlike the
//! tables.
//!
//! The store averages nothing, judges nothing, and deletes only what a user names.

mod bulk;
mod bytes;
mod changes;
mod coder;
mod counts;
mod damage;
mod error;
mod id;
mod inside;
mod kept;
mod measures;
mod older;
mod packed;
mod portable;
mod process;
mod reading;
mod room;
mod row;
mod schema;
mod sweeps;
mod trials;
mod twin;

pub use damage::DamagedTrial;
pub use error::{Result, StoreError};
pub use id::SweepId;
pub use inside::OwnMount;
pub use kept::{Added, kept};
pub use portable::Unpacked;
pub use sweeps::{AllSweeps, NewSweep, Origin, Sweep, SweepState, SweepSummary, select};
pub use twin::Twin;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long to wait for another process to finish writing.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// The maximum size of a value in bytes; the histograms of a trial have less than a thousandth of it.
const LONGEST_VALUE: i32 = 256 << 20;

/// What follows the name of the database in that of the directory with the other files of its sweeps.
const FILES: &str = ".files";

/// The results of all sweeps.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// The copy made before the schema was upgraded.
    copy: Option<PathBuf>,
    /// The sweep that this process runs.
    running: Option<kept::Running>,
    /// The directory of the copy that is read, if it is not the file itself.
    directory: Option<TempDir>,
    /// What users write before the number of a sweep to select one of this store.
    prefix: &'static str,
    /// Device and inode of the file, as it was opened to be written.
    file: Option<(u64, u64)>,
}

impl Store {
    /// Opens the store at this path. Creates it and missing directories above it, and upgrades the schema.
    ///
    /// # Errors
    /// [`StoreError::Directory`], [`StoreError::NotAFile`], [`StoreError::Open`],
    /// [`StoreError::NotADatabase`], [`StoreError::Foreign`], [`StoreError::TooNew`],
    /// [`StoreError::Corrupt`], [`StoreError::Copy`], [`StoreError::Migrate`]; [`StoreError::NotYours`] if
    /// it belongs to another user; [`StoreError::NotWritable`].
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_path_buf(), source })?;
        }
        // SQLite takes a device for an empty database, and writes one to it.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::NotAFile { path: path.to_path_buf() });
        }
        if let Some(owner) = other_owner(path) {
            return Err(StoreError::NotYours { path: path.to_path_buf(), owner });
        }
        if let Some(source) = reading::why_not_writable(path) {
            return Err(StoreError::NotWritable { path: path.to_path_buf(), source });
        }
        let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
        let mut connection = Connection::open(path).map_err(cannot_open)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(cannot_open)?;
        distrust(&connection).map_err(cannot_open)?;
        schema::recognise(&connection, path)?;
        let copy = schema::copy_older(&connection, path)?;
        set_up(&connection).map_err(cannot_open)?;
        schema::bring_up_to_date(&mut connection, path, copy.as_deref())?;
        // A store is identified by its real path, whatever the working directory.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let file = file_at(&path);
        Ok(Store { copy, file, ..Store::of(connection, path) })
    }

    fn of(connection: Connection, path: PathBuf) -> Self {
        Store { connection, path, copy: None, running: None, directory: None, prefix: "", file: None }
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
        let mut name = self.path.file_name().unwrap_or_default().to_os_string();
        name.push(FILES);
        self.path.with_file_name(name).join(sweep.to_string())
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
        room::check(&self.path, 0)
    }

    /// Whether its path still leads to the file that was opened to be written. If somebody has removed or
    /// moved that, SQLite goes on writing to it.
    pub fn is_in_place(&self) -> bool {
        let Some(file) = self.file else { return true };
        // The latest trials may be in its log only.
        let log = format!("{} (deleted)", self.beside("-wal").display());
        file_at(&self.path) == Some(file) && !own_descriptors().any(|link| link.as_os_str() == log.as_str())
    }

    /// A file of SQLite's next to the database.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// Copies everything into a new file: in the store's directory, or, if that is gone, in the nearest one
    /// above it that only this user can write to, otherwise in the first of `directories` that has room for
    /// it. Returns its path. SQLite's own files at the old place are removed: with another database of that
    /// name, it would take them for those of that one.
    ///
    /// # Errors
    /// [`StoreError::Rescue`] if no directory has room for it.
    pub fn rescue(&self, directories: &[PathBuf]) -> Result<PathBuf> {
        let beside =
            self.path.ancestors().skip(1).find(|directory| directory.exists()).filter(|one| is_own(one));
        let mut reasons = Vec::new();
        for directory in beside.into_iter().chain(directories.iter().map(PathBuf::as_path)) {
            let mut name = self.path.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".rescued-{}", std::process::id()));
            let path = directory.join(name);
            // It overwrites nothing (https://sqlite.org/lang_vacuum.html).
            match self.connection.execute("VACUUM INTO ?1", [path.to_string_lossy()]) {
                Ok(_) => {
                    let own: Vec<PathBuf> = own_descriptors().collect();
                    let logs = ["-wal", "-shm"].map(|suffix| self.beside(suffix));
                    // One that cannot be removed is as it was.
                    logs.iter()
                        .filter(|log| own.contains(log))
                        .for_each(|log| drop(std::fs::remove_file(log)));
                    return Ok(path);
                }
                Err(error) => reasons.push(format!("'{}': {error}", directory.display())),
            }
        }
        Err(StoreError::Rescue { path: self.path.clone(), reasons })
    }

    /// The copy of the original file, if opening it upgraded the schema.
    pub fn copy_of_older(&self) -> Option<&Path> {
        self.copy.as_deref()
    }
}

/// What the open files of this process are called now.
fn own_descriptors() -> impl Iterator<Item = PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok())
}

/// Whether nobody but this user can change what is in a directory.
fn is_own(directory: &Path) -> bool {
    let others = 0o022;
    std::fs::metadata(directory)
        .is_ok_and(|found| found.uid() == geteuid().as_raw() && found.mode() & others == 0)
}

/// Device and inode of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The user that owns the file, if that is another one.
fn other_owner(path: &Path) -> Option<u32> {
    let owner = std::fs::metadata(path).ok()?.uid();
    (owner != geteuid().as_raw()).then_some(owner)
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
