//! Where results are kept: one SQLite file, for every sweep of a user.
//!
//! Each trial is one transaction, on disk before the next trial begins: a crash of fsdyno, of the machine or of the
//! filesystem under test loses at most the trial that ran. The file is in write-ahead mode where its filesystem can do
//! that, so that other processes read while a sweep writes. What is measured stands in columns with their units in their
//! names, for people with `sqlite3`; what only describes is JSON. Reading gives back the record that was written.
//!
//! The store averages nothing, judges nothing and deletes nothing.

mod error;
mod process;
mod read;
mod schema;
mod sweeps;
mod write;

pub use error::{Result, StoreError};
pub use sweeps::{NewSweep, Sweep, SweepId, SweepState, SweepSummary};

use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for another process that writes.
const BUSY_LIMIT: Duration = Duration::from_secs(30);

/// The results of all sweeps.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the store at this path; makes it and the directories above it where they are missing, and brings the schema
    /// up to date.
    ///
    /// # Errors
    /// [`StoreError::Directory`], [`StoreError::Open`], [`StoreError::NotADatabase`], [`StoreError::Foreign`],
    /// [`StoreError::TooNew`], [`StoreError::Migrate`].
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_path_buf(), source })?;
        }
        let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
        let mut connection = Connection::open(path).map_err(cannot_open)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(cannot_open)?;
        schema::recognise(&connection, path)?;
        set_up(&connection).map_err(cannot_open)?;
        schema::bring_up_to_date(&mut connection, path)?;
        Ok(Store { connection })
    }

    /// `$XDG_STATE_HOME/fsdyno/results.db`, or the same below `~/.local/state`.
    ///
    /// Paths that are not absolute count as unset (XDG Base Directory Specification).
    ///
    /// # Errors
    /// [`StoreError::NoHome`] when neither variable is of use.
    pub fn default_path() -> Result<PathBuf> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        default_path_in(variable("XDG_STATE_HOME"), variable("HOME")).ok_or(StoreError::NoHome)
    }
}

fn default_path_in(state_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
    let state = absolute(state_home).or_else(|| absolute(home).map(|home| home.join(".local/state")))?;
    Some(state.join("fsdyno/results.db"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_place_follows_xdg() {
        let path = |state: &str, home: &str| default_path_in(Some(state.into()), Some(home.into()));
        assert_eq!(path("/state", "/home/u"), Some("/state/fsdyno/results.db".into()));
        assert_eq!(path("", "/home/u"), Some("/home/u/.local/state/fsdyno/results.db".into()));
        assert_eq!(path("relative", "/home/u"), Some("/home/u/.local/state/fsdyno/results.db".into()));
        assert_eq!(default_path_in(None, None), None);
    }
}
