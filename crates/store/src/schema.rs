//! The schema and its versions. Version N is the result of the first N scripts; a script that was released never changes.

use crate::error::{Result, StoreError};
use rusqlite::{Connection, ErrorCode};
use rusqlite_migration::{M, Migrations};
use std::path::Path;

/// "fsdy": marks the file as ours (`PRAGMA application_id`, shown by `file`).
const APPLICATION_ID: i64 = 0x6673_6479;

const SCRIPTS: &[M<'static>] = &[
    M::up(include_str!("schema/1.sql")),
    M::up(include_str!("schema/2.sql")),
    M::up(include_str!("schema/3.sql")),
    M::up(include_str!("schema/4.sql")),
    M::up(include_str!("schema/5.sql")),
    M::up(include_str!("schema/6.sql")),
    M::up(include_str!("schema/7.sql")),
    M::up(include_str!("schema/8.sql")),
];

/// What a file says of itself.
struct Identity {
    application_id: i64,
    version: i64,
    tables: i64,
}

/// Refuses, before anything is written, what is not ours or was written by a newer fsdyno. An empty file is ours.
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
    if identity.application_id != APPLICATION_ID && identity.tables > 0 {
        return Err(StoreError::Foreign { path });
    }
    if identity.version > known {
        return Err(StoreError::TooNew { path, version: identity.version, known });
    }
    Ok(())
}

/// Makes the tables in a new file and brings an older one up to date.
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<()> {
    let is_latest = |connection: &Connection| {
        identity(connection).is_ok_and(|identity| identity.version == SCRIPTS.len() as i64)
    };
    if is_latest(connection) {
        return Ok(());
    }
    let path = path.to_path_buf();
    if let Err(source) = connection.pragma_update(None, "application_id", APPLICATION_ID) {
        return Err(StoreError::Open { path, source });
    }
    match Migrations::from_slice(SCRIPTS).to_latest(connection) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if is_latest(connection) => Ok(()),
        Err(source) => Err(StoreError::Migrate { path, source }),
    }
}

/// All of it at one moment: another process may just be making the tables.
fn identity(connection: &Connection) -> rusqlite::Result<Identity> {
    let moment = connection.unchecked_transaction()?;
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let pragma = |name| moment.pragma_query_value(None, name, |row| row.get(0));
    Ok(Identity { application_id: pragma("application_id")?, version: pragma("user_version")?, tables })
}
