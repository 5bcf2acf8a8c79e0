//! The changes that a user may make to stored sweeps: their names and notes, and whether they exist.

use crate::error::{Result, StoreError, Trying};
use crate::inside::OwnMount;
use crate::{FILES, Store, SweepId, check_room, named_after, process};
use rusqlite::{OptionalExtension, TransactionBehavior, named_params};
use std::fs;
use std::io;

impl Store {
    /// Gives a sweep another name.
    ///
    /// # Errors
    /// [`StoreError::UnknownSweep`], [`StoreError::Sql`].
    pub fn rename_sweep(&mut self, id: SweepId, name: &str) -> Result<()> {
        let sql = "UPDATE sweeps SET name = :value WHERE id = :id";
        self.change(id, sql, Some(name), "rename a sweep")
    }

    /// Sets the note of a sweep, or removes it.
    ///
    /// # Errors
    /// [`StoreError::UnknownSweep`], [`StoreError::Sql`].
    pub fn note_sweep(&mut self, id: SweepId, note: Option<&str>) -> Result<()> {
        self.change(id, "UPDATE sweeps SET note = :value WHERE id = :id", note, "store a note")
    }

    fn change(&mut self, id: SweepId, sql: &str, value: Option<&str>, action: &'static str) -> Result<()> {
        let changed = self.connection.execute(sql, named_params! { ":value": value, ":id": id.0 });
        match changed.trying_to(action)? {
            0 => Err(StoreError::UnknownSweep { selector: id.to_string(), nearest: None }),
            _ => Ok(()),
        }
    }

    /// Deletes a sweep with its trials and files, and gives the space back to the filesystem if there is room
    /// to do so. Its number is not used again.
    ///
    /// # Errors
    /// [`StoreError::Running`] if a process is running it; [`StoreError::UnknownSweep`];
    /// [`StoreError::Sql`]; [`StoreError::Files`] if the sweep is deleted, but not all of its files.
    pub fn delete_sweep(&mut self, id: SweepId) -> Result<()> {
        let action = "delete a sweep";
        let files = named_after(&self.path, FILES);
        let link = self.place.as_ref().and_then(|place| place.directory.link_of_others(&files));
        if let Some(link) = link {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, link);
            return Err(StoreError::Link { path: self.beside(FILES), source });
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let sql = "SELECT iif(state = 'running', process, '') FROM sweeps WHERE id = ?";
        let process: Option<String> =
            transaction.query_row(sql, [id.0], |row| row.get(0)).optional().trying_to(action)?;
        match process {
            None => return Err(StoreError::UnknownSweep { selector: id.to_string(), nearest: None }),
            Some(process) if process::is_alive(&process) => return Err(StoreError::Running { sweep: id }),
            Some(_) => {}
        }
        let last = "UPDATE numbers SET last = max(last, (SELECT max(id) FROM sweeps))";
        transaction.execute(last, []).trying_to(action)?;
        transaction.execute("DELETE FROM sweeps WHERE id = ?", [id.0]).trying_to(action)?;
        transaction.commit().trying_to(action)?;
        self.shrink();
        self.remove_files(id)
    }

    /// Links in these files are removed and not followed.
    fn remove_files(&self, id: SweepId) -> Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let (name, path) = (named_after(&self.path, FILES), self.files_of(id));
        let remove = || {
            let mount = OwnMount::reaching(&self.directory_of_files(), &path)?;
            match place.directory.beneath(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                files => mount.remove(&files?.at(id.to_string())),
            }
        };
        remove().map_err(|source| StoreError::Files { sweep: id, path: path.clone(), source })?;
        // It stays as long as other sweeps have files.
        let _ = fs::remove_dir(place.directory.at(name));
        Ok(())
    }

    /// VACUUM writes the whole file anew, twice at most (https://sqlite.org/lang_vacuum.html). What cannot be
    /// given back, because there is no room or somebody reads, is used by later sweeps.
    fn shrink(&self) {
        let size = fs::metadata(&self.path).map_or(0, |file| file.len());
        if check_room(&self.path, size.saturating_mul(2)).is_ok() {
            let _ = self.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }
}
