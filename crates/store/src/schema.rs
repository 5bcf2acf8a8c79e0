//! The schema and its versions. Version N is the result of the first N scripts; a released script never
//! changes. The first versions are those of releases before 0.2.0, whose stores that release converts.

use crate::error::{Result, StoreError};
use crate::{measures, named_after};
use fsdyno_path::{Directory, Place};
use rusqlite::Error::SqlInputError;
use rusqlite::{Connection, ErrorCode, Transaction};
use rusqlite_migration::{HookError, M, Migrations};
use rustix::fs::fstat;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// "fsdy": marks the file as ours (`PRAGMA application_id`, shown by `file`).
const APPLICATION_ID: i64 = 0x6673_6479;

/// The oldest version that is read: that of release 0.2.0.
const OLDEST: i64 = 9;

/// A version that no store has.
const NONE: &str = "-- Nothing.";

/// The script with which measures become rows.
const MEASURES: &str = include_str!("schema/10.sql");

const SCRIPTS: &[&str] = &[
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    include_str!("schema/9.sql"),
    MEASURES,
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
];

fn migrations() -> Migrations<'static> {
    let migration = |script: &&'static str| match *script {
        MEASURES => M::up_with_hook(MEASURES, |transaction: &Transaction<'_>| {
            measures::add_all(transaction).map_err(|error| HookError::Hook(error.to_string()))
        }),
        script => M::up(script),
    };
    Migrations::new(SCRIPTS.iter().map(migration).collect())
}

/// The facts by which a file identifies itself.
struct Identity {
    application_id: i64,
    version: i64,
    tables: i64,
    /// The number of objects that have the name of a table of ours and are not one, such as a view without an
    /// end.
    disguised: i64,
}

/// Rejects a file that is not ours, or was written by an fsdyno that is newer or too old, before anything is
/// written to it. An empty file is ours.
pub(crate) fn recognise(connection: &Connection, path: &Path) -> Result<()> {
    let path = path.to_path_buf();
    let identity = match identity(connection) {
        Ok(identity) => identity,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(StoreError::NotADatabase { path });
        }
        Err(source) => return Err(StoreError::Open { path, source }),
    };
    let known = SCRIPTS.len() as i64;
    if identity.application_id != APPLICATION_ID && identity.tables > 0 || identity.disguised > 0 {
        return Err(StoreError::Foreign { path });
    }
    if identity.version > known {
        return Err(StoreError::TooNew { path, version: identity.version, known });
    }
    if identity.tables > 0 && identity.version < OLDEST {
        return Err(StoreError::TooOld { path, version: identity.version });
    }
    Ok(())
}

/// Creates the tables in a new file, or upgrades an older one, of which there is a copy.
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path, copy: Option<&Path>) -> Result<()> {
    if is_latest(connection) {
        return Ok(());
    }
    let was_older = identity(connection).is_ok_and(|identity| identity.tables > 0);
    let path = path.to_path_buf();
    if let Err(source) = connection.pragma_update(None, "application_id", APPLICATION_ID) {
        return Err(StoreError::Open { path, source });
    }
    match migrations().to_latest(connection) {
        Ok(()) => {
            if was_older {
                // If there is no room for a copy, the file keeps its size.
                let _ = connection.execute_batch("VACUUM");
            }
            Ok(())
        }
        // Another process was faster.
        Err(_) if is_latest(connection) => Ok(()),
        Err(source) => {
            let reason = match source {
                // Their own texts repeat the whole script.
                rusqlite_migration::Error::RusqliteError { err: SqlInputError { msg, .. }, .. } => msg,
                rusqlite_migration::Error::RusqliteError { err, .. } => err.to_string(),
                other => other.to_string(),
            };
            Err(StoreError::Migrate { path, copy: copy.map(Path::to_path_buf), reason })
        }
    }
}

/// Returns whether a store has the schema of this version.
pub(crate) fn is_latest(connection: &Connection) -> bool {
    identity(connection).is_ok_and(|identity| identity.version == SCRIPTS.len() as i64)
}

/// Checks and copies a store of an older version before anything is written to it; returns the path of the
/// copy.
pub(crate) fn copy_older(connection: &Connection, path: &Path, place: &Place) -> Result<Option<PathBuf>> {
    let latest = SCRIPTS.len() as i64;
    let cannot_open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let found = identity(connection).map_err(cannot_open)?;
    if found.version == latest || found.tables == 0 {
        return Ok(None);
    }
    check(connection, path, Depth::Pages)?;
    copy(connection, path, place, latest)
}

/// The extent of the check of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    Pages,
    /// Also whether each row is in every index that it belongs to, which takes longer.
    Rows,
}

/// Checks the structure of the whole file for damage.
pub(crate) fn check(connection: &Connection, path: &Path, depth: Depth) -> Result<()> {
    let corrupt = |reason: String| StoreError::Corrupt { path: path.to_path_buf(), reason };
    let pragma = match depth {
        Depth::Pages => "quick_check",
        Depth::Rows => "integrity_check",
    };
    let found = connection.pragma_query_value(None, pragma, |row| row.get::<_, String>(0));
    match found {
        Ok(text) if text == "ok" => Ok(()),
        // A first line may only name the database, which is `main`.
        Ok(text) => {
            Err(corrupt(text.lines().find(|line| !line.starts_with("***")).unwrap_or(&text).to_string()))
        }
        Err(error) => Err(corrupt(error.to_string())),
    }
}

/// Copies a store to the same directory, as `results.db.before-v8`. A copy of that name is kept: another
/// process or an earlier attempt made it from the same older state.
fn copy(
    connection: &Connection,
    path: &Path,
    Place { directory, name }: &Place,
    latest: i64,
) -> Result<Option<PathBuf>> {
    let name = named_after(Path::new(name), &format!(".before-v{latest}"));
    let copy = directory.path().join(&name);
    if fs::symlink_metadata(directory.at(&name)).is_ok() {
        return Ok(Some(copy));
    }
    match copy_to(connection, directory, &name) {
        Ok(()) => Ok(Some(copy)),
        Err(reason) => Err(StoreError::Copy { path: path.to_path_buf(), copy, reason }),
    }
}

/// SQLite follows links and writes into existing files, so the copy is made in a new directory that only this
/// user can enter, and renamed when it is complete.
fn copy_to(connection: &Connection, directory: &Directory, name: &OsStr) -> std::result::Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if let Some(reason) = belongs_to_others(directory).map_err(|error| text(&error))? {
        return Err(reason);
    }
    let here = directory.at(".");
    let room =
        tempfile::Builder::new().prefix(".fsdyno-copy-").tempdir_in(&here).map_err(|error| text(&error))?;
    let unfinished = room.path().join("copy");
    let path = unfinished.to_str().ok_or("its path is not valid UTF-8")?;
    connection.execute("VACUUM INTO ?1", [path]).map_err(|error| text(&error))?;
    let file = File::open(&unfinished).map_err(|error| text(&error))?;
    file.sync_all().map_err(|error| text(&error))?;
    fs::rename(&unfinished, directory.at(name)).map_err(|error| text(&error))?;
    File::open(here).and_then(|here| here.sync_all()).map_err(|error| text(&error))
}

/// Why root makes no copy in a directory: somebody else could replace it in the meantime.
fn belongs_to_others(directory: &Directory) -> io::Result<Option<String>> {
    const OTHERS_MAY_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let found = fstat(directory)?;
    let open = found.st_mode & OTHERS_MAY_WRITE != 0 && found.st_mode & STICKY == 0;
    let others = rustix::process::geteuid().is_root() && (found.st_uid != 0 || open);
    Ok(others.then(|| {
        format!(
            "other users can write to '{}', so root makes no copy there; run fsdyno as its owner",
            directory.path().display()
        )
    }))
}

/// Read in one transaction, because another process may be creating the tables.
fn identity(connection: &Connection) -> rusqlite::Result<Identity> {
    let moment = connection.unchecked_transaction()?;
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type != 'table' AND name IN ('sweeps', 'trials', 'measures',
        'numbers', 'phases', 'roles', 'workers', 'operations', 'telemetry', 'warnings')";
    let disguised = moment.query_row(sql, [], |row| row.get(0))?;
    let pragma = |name| moment.pragma_query_value(None, name, |row| row.get(0));
    let (application_id, version) = (pragma("application_id")?, pragma("user_version")?);
    Ok(Identity { application_id, version, tables, disguised })
}
