//! `fsdyno pack` and `unpack`: one sweep as one file.

use super::changes::valid_name;
use super::{Result, Surroundings, find};
use crate::cli::{Pack, Unpack};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::out;
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_store::{StoreError, SweepId, Twin};
use fsdyno_verdict::text::{nth, plural};
use std::fs::{self, Metadata};
use std::io::{Write, stdin};
use std::path::Path;

pub fn pack(surroundings: &Surroundings, options: &Pack) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, Some(&options.sweep))?;
    let (id, selector, name) = (sweep.summary.id, &sweep.summary.selector, &sweep.summary.name);
    let files = store.files_of(id);
    if files.is_dir() {
        say::note(&format!("note: the files of monitors are not packed; they are in '{}'", files.display()));
    }
    let file =
        options.file.as_ref().or(options.output.as_ref()).ok_or_else(|| anyhow!("no file is named"))?;
    if **file == *Path::new("-") {
        store.pack(id, out::plain())?;
        return Ok(Status::Well);
    }
    let is_taken = |found: Metadata| found.is_file() && found.len() > 0;
    let destination = file::find(file)?;
    if fs::metadata(destination.through()).is_ok_and(is_taken) {
        // It may be the only copy of another sweep.
        let error = anyhow!("'{}' exists already", file.display());
        return Err(Trouble::new(Status::Refused, error)
            .hint("name another file, or remove this one if nobody needs it"));
    }
    let written = file::write_to(&destination, file, |out| Ok(store.pack(id, out)?));
    let bytes = written.map_err(|error| match error.downcast_ref() {
        Some(StoreError::Running { .. }) => {
            Trouble::new(Status::Refused, error).hint("pack it when it has ended")
        }
        _ => Trouble::from(error),
    })?;
    let size = bytes as f64 / 1e6;
    say::note(&format!("wrote sweep {selector} ('{name}') to '{}' ({size:.1} MB)", file.display()));
    Ok(Status::Well)
}

pub fn unpack(surroundings: &Surroundings, options: &Unpack) -> Result {
    let name = options.name.as_deref().map(valid_name).transpose()?;
    let mut store = surroundings.open_store()?;
    let path = options.file.display().to_string();
    let unpacked = match path.as_str() {
        "-" => store.unpack(stdin().lock(), name),
        _ => store.unpack(file::open(&options.file).with_context(|| format!("cannot read '{path}'"))?, name),
    };
    let unpacked = unpacked.map_err(|error| {
        let trouble = anyhow::Error::from(error).context(format!("cannot unpack '{path}'"));
        Trouble::new(Status::Usage, trouble).hint("nothing was stored")
    })?;
    let id = unpacked.id;
    match store.twin(id) {
        Ok(Some(twin)) => say::note(&format!("note: {}", relation(id, &twin))),
        Ok(None) => {}
        Err(error) => say::note(&format!("note: whether it was here before cannot be read: {error}")),
    }
    writeln!(
        out::text(&surroundings.style),
        "sweep {id} '{}': {} from '{path}'; fsdyno show {id}",
        unpacked.name,
        plural(u64::from(unpacked.trials), "trial"),
    )?;
    Ok(Status::Well)
}

/// Returns the relation of another sweep to the one that was unpacked, and which of them nobody needs.
fn relation(id: SweepId, twin: &Twin) -> String {
    let Twin { id: other, more, fewer, different, is_planned_otherwise } = twin;
    let trials = |count: usize| plural(count as u64, "trial");
    let same = format!("sweep {other} is the same one");
    let began = format!("sweep {other} began at the same moment with the same seed");
    match (more, fewer) {
        _ if *is_planned_otherwise => format!("{began}, but its plan or machine is not the same"),
        _ if !different.is_empty() => {
            let (trials, first) = (trials(different.len()), nth(different[0]));
            format!("{began}, but says something else in {trials}, first in trial {first}")
        }
        (0, 0) => format!("{same}; fsdyno delete {id} removes the copy"),
        (0, fewer) => format!("{same}, with {} fewer; fsdyno delete {other} removes it", trials(*fewer)),
        (more, 0) => format!("{same}, with {} more; fsdyno delete {id} removes the copy", trials(*more)),
        (more, fewer) => format!("{same}, with {} fewer and {more} others", trials(*fewer)),
    }
}
