//! Reads and writes fields of rows.

use crate::error::{Result, StoreError, Trying};
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row, ToSql};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::str::FromStr;

pub(crate) const READ: &str = "read a trial";

pub(crate) fn get<T: FromSql>(row: &Row<'_>, column: &'static str) -> Result<T> {
    row.get(column).trying_to(READ)
}

/// A number that is stored as decimal text, because SQLite's integers are signed.
pub(crate) fn number<T: FromStr>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    text.parse().map_err(|_| StoreError::DamagedNumber { what: column, text })
}

/// A value that serialises as a string.
pub(crate) fn word<T: DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    serde_json::from_value(text.into()).map_err(|source| StoreError::Damaged { what: column, source })
}

pub(crate) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    serde_json::from_str(&text).map_err(|source| StoreError::Damaged { what: column, source })
}

pub(crate) fn from_json_or_none<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &'static str,
) -> Result<Option<T>> {
    let text: Option<String> = get(row, column)?;
    let value = text.map(|text| serde_json::from_str(&text));
    value.transpose().map_err(|source| StoreError::Damaged { what: column, source })
}

/// The columns of a row with their values.
pub(crate) type Columns<'a> = &'a [(&'a str, &'a dyn ToSql)];

/// Inserts a row and returns its number.
pub(crate) fn insert(connection: &Connection, table: &str, columns: Columns<'_>) -> rusqlite::Result<i64> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    let values = rusqlite::params_from_iter(columns.iter().map(|(_, value)| value));
    connection.prepare_cached(&sql)?.insert(values)
}

pub(crate) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|source| StoreError::Encode { what, source })
}
