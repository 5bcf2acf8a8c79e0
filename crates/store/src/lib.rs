//! Where results are kept: one SQLite file, for every sweep of a user.
//!
//! Each trial is one transaction, on disk before the next trial begins: a crash of fsdyno, of the machine or of the
//! filesystem under test loses at most the trial that ran. The file is in write-ahead mode where its filesystem can do
//! that, so that other processes read while a sweep writes. A trial is one row: its public JSON, compressed, and beside it
//! what is long. What queries need stands in columns. Reading gives back the record that was written.
//!
//! The store averages nothing, judges nothing and deletes nothing.

mod bulk;
mod error;
mod id;
mod kept;
mod older;
mod packed;
mod process;
mod row;
mod schema;
mod sweeps;
mod trials;

pub use error::{Result, StoreError};
pub use id::SweepId;
pub use kept::{Added, kept};
pub use sweeps::{NewSweep, Sweep, SweepState, SweepSummary};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for another process that writes.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of the longest value that is written or read; the histograms of a trial have less than a thousandth of it.
const LONGEST_VALUE: i32 = 256 << 20;

/// The results of all sweeps.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// The copy that was made before the schema was brought up to date.
    copy: Option<PathBuf>,
    /// The sweep that this process runs.
    running: Option<kept::Running>,
}

impl Store {
    /// Opens the store at this path; makes it and the directories above it where they are missing, and brings the schema
    /// up to date.
    ///
    /// # Errors
    /// [`StoreError::Directory`], [`StoreError::Open`], [`StoreError::NotADatabase`], [`StoreError::Foreign`],
    /// [`StoreError::TooNew`], [`StoreError::Corrupt`], [`StoreError::Copy`], [`StoreError::Migrate`].
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_path_buf(), source })?;
        }
        let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
        let mut connection = Connection::open(path).map_err(cannot_open)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(cannot_open)?;
        distrust(&connection).map_err(cannot_open)?;
        schema::recognise(&connection, path)?;
        if is_somebody_elses(path) {
            schema::check(&connection, path)?;
        }
        let copy = schema::copy_older(&connection, path)?;
        set_up(&connection).map_err(cannot_open)?;
        schema::bring_up_to_date(&mut connection, path, copy.as_deref())?;
        // A store is known by its real place, wherever this process stands.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        Ok(Store { connection, path, copy, running: None })
    }

    /// The copy of the file as it was, where opening it brought its schema up to date.
    pub fn copy_of_older(&self) -> Option<&Path> {
        self.copy.as_deref()
    }
}

/// Whether another user owns the file: what it holds is looked through before anything of it is believed.
fn is_somebody_elses(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.uid() != geteuid().as_raw())
}

/// A database may come from anywhere, and its schema can hold code: views, triggers, and functions in indexes. None of it
/// gets further than ordinary reading and writing (https://sqlite.org/security.html).
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

/// Refused on filesystems without shared memory; the mode that stays is as durable, only readers wait for writers.
///
/// The switch upgrades a read lock, for which SQLite asks no busy handler lest two connections wait for each other
/// (https://sqlite.org/c3ref/busy_handler.html): whoever meets another connection at it must try again.
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
