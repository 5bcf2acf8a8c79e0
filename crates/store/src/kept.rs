//! Trials that could not be stored, kept in files until they can be.
//!
//! If the disk is full, another process keeps the store locked, or a number does not fit its column, an
//! hour-long trial is not thrown away. Its record goes into a JSON file next to the store, or into another
//! directory if there is no room there either, and is added to the store later. The file says which store and
//! which sweep it belongs to, and stays until the store has the trial.

use crate::error::{Result, StoreError};
use crate::{Store, SweepId, named_after};
use fsdyno_core::TrialRecord;
use fsdyno_core::outcome::chain;
use fsdyno_path::Directory;
use rusqlite::OptionalExtension;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const VERSION: u32 = 2;
const MARK: &str = ".kept-";
const SUFFIX: &str = ".json";
/// The maximum size of a record in bytes; the largest seen have less than a hundredth of it.
const LONGEST: u64 = 1 << 30;
/// The maximum number of records of one trial in one directory, from several attempts to run it.
const MOST: u32 = 100;

/// The sweep that a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningSweep {
    pub sweep: SweepId,
    /// When it began; a new store uses the same numbers for other sweeps.
    pub started: String,
}

/// The contents of a file.
#[derive(Debug, Serialize, Deserialize)]
struct KeptFile {
    fsdyno_kept_trial: u32,
    store: PathBuf,
    sweep: SweepId,
    started: Option<String>,
    record: TrialRecord,
}

/// The part that says how to read the rest.
#[derive(Deserialize)]
struct Version {
    fsdyno_kept_trial: u32,
}

/// The outcome of adding kept records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// The records that were added to the store, one line each.
    pub added: Vec<String>,
    /// The records that could not be added, and why, one line each; the files stay.
    pub left: Vec<String>,
    /// The records that can never be added, because the store has been replaced, one line each; the files
    /// stay.
    pub orphaned: Vec<String>,
}

/// Why a record was not added.
enum NotAdded {
    ForNow(String),
    Forever(String),
}

impl From<String> for NotAdded {
    fn from(reason: String) -> Self {
        NotAdded::ForNow(reason)
    }
}

/// The files with kept records of the store at this path, in its own directory and in `directories`; also
/// those that cannot be read. Records of another store of the same name are not among them.
pub fn kept(store: &Path, directories: &[PathBuf]) -> Vec<PathBuf> {
    let Some(name) = store.file_name() else { return Vec::new() };
    let prefix = named_after(Path::new(name), MARK);
    let beside = store.parent().map(Path::to_path_buf);
    let mut places: Vec<PathBuf> = beside.into_iter().chain(directories.iter().cloned()).collect();
    places.iter_mut().for_each(|place| *place = fs::canonicalize(&*place).unwrap_or_default());
    places.sort();
    places.dedup();
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(prefix.as_encoded_bytes()) && name.ends_with(SUFFIX.as_bytes())
    };
    let real = real_path(store);
    let of_this_store = |path: &PathBuf| read(path).map_or(true, |kept| kept.store == real);
    let named = entries.map(|entry| entry.path()).filter(ours);
    let mut files: Vec<PathBuf> = named.filter(of_this_store).collect();
    files.sort();
    files
}

/// The path of a store with links above it resolved, as records have it.
fn real_path(store: &Path) -> PathBuf {
    let directory = store.parent().and_then(|directory| fs::canonicalize(directory).ok());
    directory
        .zip(store.file_name())
        .map_or_else(|| store.to_path_buf(), |(directory, name)| directory.join(name))
}

impl Store {
    /// Keeps a record in a file after [`Store::add_trial`] has failed: next to the store, otherwise in the
    /// first of `directories` that has room for it. Returns its path; the file is on disk by then.
    ///
    /// # Errors
    /// [`StoreError::Keep`] if no directory has room for it.
    pub fn keep(&self, sweep: SweepId, record: &TrialRecord, directories: &[PathBuf]) -> Result<PathBuf> {
        let started = self.running.as_ref().filter(|running| running.sweep == sweep);
        let kept = KeptFile {
            fsdyno_kept_trial: VERSION,
            store: self.path.clone(),
            sweep,
            started: started.map(|running| running.started.clone()),
            record: record.clone(),
        };
        let bytes = serde_json::to_vec(&kept)
            .map_err(|source| StoreError::Encode { what: "the record of a trial", source })?;
        let name = named_after(&self.path, &format!("{MARK}{sweep}-{}", record.trial));
        // Where its path leads now: a record is looked for there, also if the directory was moved.
        let beside = self.path.parent().map(Path::to_path_buf);
        let mut reasons = Vec::new();
        for path in beside.iter().chain(directories) {
            match Directory::open(path).and_then(|directory| write_new(&directory, &name, &bytes)) {
                Ok(path) => return Ok(path),
                Err(error) => reasons.push(format!("'{}': {error}", path.display())),
            }
        }
        Err(StoreError::Keep { trial: record.trial, reasons })
    }

    /// Adds the records kept for this store, next to it and in `directories`, and removes the files of
    /// records that it has.
    pub fn add_kept(&mut self, directories: &[PathBuf]) -> Added {
        let mut result = Added::default();
        for path in kept(&self.path, directories) {
            let about = |reason| format!("kept record '{}': {reason}", path.display());
            match self.add_one(&path) {
                Ok(line) => result.added.push(line),
                Err(NotAdded::ForNow(reason)) => result.left.push(about(reason)),
                Err(NotAdded::Forever(reason)) => result.orphaned.push(about(reason)),
            }
        }
        result
    }

    /// Adds a record, and removes its file.
    fn add_one(&mut self, path: &Path) -> std::result::Result<String, NotAdded> {
        let text = |error: io::Error| error.to_string();
        let directory = Directory::open(path.parent().unwrap_or(path)).map_err(text)?;
        let file = directory.at(path.file_name().unwrap_or_default());
        let KeptFile { store, sweep, started, record, .. } = read(&file)?;
        if store != self.path {
            return Err(NotAdded::ForNow(format!("it belongs to '{}'", store.display())));
        }
        let (trial, shown) = (record.trial, path.display());
        match self.started(sweep).map_err(|error| chain(&error))? {
            Some(known) if started.as_ref().is_none_or(|started| *started == known) => {}
            Some(_) => {
                return Err(NotAdded::Forever(format!(
                    "it belongs to a different sweep {sweep}, which the store does not have"
                )));
            }
            None => return Err(NotAdded::Forever(format!("the store no longer has sweep {sweep}"))),
        }
        match self.add_trial(sweep, &record) {
            Ok(()) => {}
            Err(StoreError::TrialExists { .. }) if self.has(sweep, &record) => {}
            Err(error) => return Err(chain(&error).into()),
        }
        fs::remove_file(file)
            .map_err(|error| format!("it is stored, but the file cannot be removed: {error}"))?;
        Ok(format!("added trial {} of sweep {sweep} from '{shown}'", trial + 1))
    }

    fn started(&self, sweep: SweepId) -> Result<Option<String>> {
        let sql = "SELECT started FROM sweeps WHERE id = ?1";
        let started = self.connection.query_row(sql, [sweep.0], |row| row.get(0)).optional();
        started.map_err(|source| StoreError::Sql { action: "read a sweep", source })
    }

    fn has(&self, sweep: SweepId, record: &TrialRecord) -> bool {
        self.trials(sweep).is_ok_and(|trials| trials.contains(record))
    }
}

/// Reads a file that fsdyno wrote.
fn read(path: &Path) -> std::result::Result<KeptFile, String> {
    let text = |error: io::Error| error.to_string();
    // A pipe without a writer would block forever.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(text)?;
    let found = file.metadata().map_err(text)?;
    if !found.is_file() || found.uid() != geteuid().as_raw() {
        return Err("it is not a regular file of this user".to_string());
    }
    let mut bytes = Vec::new();
    (&mut file).take(LONGEST + 1).read_to_end(&mut bytes).map_err(text)?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let text = |error: serde_json::Error| error.to_string();
    let Version { fsdyno_kept_trial } = serde_json::from_slice(&bytes).map_err(text)?;
    match fsdyno_kept_trial {
        VERSION => serde_json::from_slice(&bytes).map_err(text),
        version => Err(format!("unknown format version {version}")),
    }
}

/// Writes a new file of this name, with a number appended if it exists, and syncs it and its directory.
fn write_new(directory: &Directory, name: &OsStr, bytes: &[u8]) -> io::Result<PathBuf> {
    for attempt in 1..=MOST {
        let mut name = name.to_os_string();
        if attempt > 1 {
            name.push(format!("-{attempt}"));
        }
        name.push(SUFFIX);
        let path = directory.at(&name);
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            result => result?,
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Half a record is useless, and its space may be needed.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        File::open(directory.at("."))?.sync_all()?;
        return Ok(directory.path().join(name));
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}
