//! `fsdyno pack` and `unpack`: one sweep as one file.

use super::changes::valid_name;
use super::{Result, Surroundings, find};
use crate::cli::{Pack, Unpack};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::out;
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_store::StoreError;
use fsdyno_verdict::text::plural;
use std::fs::{self, File, Metadata};
use std::io::{Write, stdin, stdout};
use std::path::Path;

pub fn pack(surroundings: &Surroundings, options: &Pack) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, Some(&options.sweep))?;
    let (id, selector, name) = (sweep.summary.id, &sweep.summary.selector, &sweep.summary.name);
    let files = store.files_of(id);
    if files.is_dir() {
        say::note(&format!("note: the files of monitors are not packed; they are in '{}'", files.display()));
    }
    if options.file == Path::new("-") {
        store.pack(id, stdout().lock()).context("cannot write to stdout")?;
        return Ok(Status::Well);
    }
    let is_taken = |found: Metadata| found.is_file() && found.len() > 0;
    if fs::metadata(&options.file).is_ok_and(is_taken) {
        // It may be the only copy of another sweep.
        let error = anyhow!("'{}' exists already", options.file.display());
        return Err(Trouble::new(Status::Refused, error)
            .hint("name another file, or remove this one if nobody needs it"));
    }
    let written = file::write_whole(&options.file, |out| Ok(store.pack(id, out)?));
    let bytes = written.map_err(|error| match error.downcast_ref() {
        Some(StoreError::Running { .. }) => {
            Trouble::new(Status::Refused, error).hint("pack it when it has ended")
        }
        _ => Trouble::from(error),
    })?;
    let size = bytes as f64 / 1e6;
    say::note(&format!("wrote sweep {selector} ('{name}') to '{}' ({size:.1} MB)", options.file.display()));
    Ok(Status::Well)
}

pub fn unpack(surroundings: &Surroundings, options: &Unpack) -> Result {
    let name = options.name.as_deref().map(valid_name).transpose()?;
    let mut store = surroundings.open_store()?;
    let path = options.file.display().to_string();
    let unpacked = match path.as_str() {
        "-" => store.unpack(stdin().lock(), name),
        _ => store.unpack(File::open(&options.file).with_context(|| format!("cannot read '{path}'"))?, name),
    };
    let unpacked = unpacked.map_err(|error| {
        let trouble = anyhow::Error::from(error).context(format!("cannot unpack '{path}'"));
        Trouble::new(Status::Usage, trouble).hint("nothing was stored")
    })?;
    let id = unpacked.id;
    if let Some(same) = unpacked.same_as {
        say::note(&format!("note: sweep {same} is the same one; fsdyno delete {id} removes the copy"));
    }
    writeln!(
        out::text(&surroundings.style),
        "sweep {id} '{}': {} from '{path}'; fsdyno show {id}",
        unpacked.name,
        plural(u64::from(unpacked.trials), "trial"),
    )?;
    Ok(Status::Well)
}
