//! The schema and its versions. Version N is the result of the first N scripts; a script that was released never changes.

use crate::error::{Result, StoreError, Trying};
use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};
use std::path::Path;

/// "fsdy": marks the file as ours (`PRAGMA application_id`, shown by `file`).
const APPLICATION_ID: i64 = 0x6673_6479;

const SCRIPTS: &[M<'static>] = &[M::up(include_str!("schema/1.sql"))];

/// Makes the tables in a new file, brings an older one up to date, refuses what is newer or not ours.
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<()> {
    if pragma(connection, "application_id")? != APPLICATION_ID {
        if !is_empty(connection)? {
            return Err(StoreError::Foreign { path: path.to_path_buf() });
        }
        connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .trying_to("mark the results as ours")?;
    }
    let known = SCRIPTS.len() as i64;
    let version = pragma(connection, "user_version")?;
    if version > known {
        return Err(StoreError::TooNew { path: path.to_path_buf(), version, known });
    }
    if version == known {
        return Ok(());
    }
    match Migrations::from_slice(SCRIPTS).to_latest(connection) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if pragma(connection, "user_version")? == known => Ok(()),
        Err(source) => Err(StoreError::Migrate { path: path.to_path_buf(), source }),
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0)).trying_to("read the version of the results")
}

fn is_empty(connection: &Connection) -> Result<bool> {
    let count = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    Ok(count.trying_to("read the schema of the results")? == 0)
}
