//! `fsdyno delete`, `rename` and `note`: what a user does with stored sweeps.

use super::{Result, Surroundings, not_found};
use crate::cli::{Delete, Note, Rename};
use crate::exit::{Status, Trouble};
use crate::out;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::sweep_name::{self, LATEST, ROOTS_PREFIX};
use fsdyno_store::{Origin, Store, StoreError, SweepId, SweepState, SweepSummary};
use fsdyno_verdict::text::plural;
use std::io::Write;

/// The longest note in bytes.
const LONGEST_NOTE: usize = 4096;

/// Deletes sweeps; all of them are found before the first one is deleted.
pub fn delete(surroundings: &Surroundings, options: &Delete) -> Result {
    let mut store = surroundings.open_store()?;
    let damaged = store.all_sweeps()?.damaged;
    let mut sweeps: Vec<(SweepId, String)> = Vec::new();
    for selector in &options.sweeps {
        let found = match damaged.iter().find(|(id, _)| id.to_string() == *selector) {
            Some((id, _)) => (*id, format!("sweep {id} (damaged)")),
            None => {
                let found = only(surroundings, &store, selector)?;
                if found.state == SweepState::Running {
                    let error = StoreError::Running { sweep: found.id };
                    return Err(Trouble::new(Status::Refused, error).hint("stop it with Ctrl-C first"));
                }
                (found.id, described(&found))
            }
        };
        if !sweeps.contains(&found) {
            sweeps.push(found);
        }
    }
    if options.damaged {
        return delete_damaged(surroundings, &mut store, &sweeps, options.yes);
    }
    let all = sweeps.iter().map(|(_, described)| &**described).collect::<Vec<_>>().join(" and ");
    confirm_deleting(&all, options.yes)?;
    for (id, described) in &sweeps {
        store.delete_sweep(*id)?;
        writeln!(out::text(&surroundings.style), "deleted {described}")?;
    }
    Ok(Status::Well)
}

fn confirm_deleting(what: &str, yes: bool) -> std::result::Result<(), Trouble> {
    if yes || say::confirmed(&format!("delete {what}?")) {
        return Ok(());
    }
    let error = anyhow!("not confirmed: {what} not deleted");
    Err(Trouble::new(Status::Refused, error).hint("use --yes to delete without being asked"))
}

/// Deletes the trials of these sweeps that cannot be read.
fn delete_damaged(
    surroundings: &Surroundings,
    store: &mut Store,
    sweeps: &[(SweepId, String)],
    yes: bool,
) -> Result {
    let mut out = out::text(&surroundings.style);
    for (id, described) in sweeps {
        let origin = store.sweep(*id)?.summary.origin;
        let damaged = store.damaged_trials(*id)?;
        if damaged.is_empty() {
            writeln!(out, "nothing to delete: every trial of {described} can be read")?;
            continue;
        }
        damaged.iter().for_each(|one| say::note(&format!("damaged: {one}")));
        let which = format!("{} of {described}", plural(damaged.len() as u64, "damaged trial"));
        confirm_deleting(&which, yes)?;
        store.delete_damaged(*id)?;
        writeln!(out, "deleted {which}")?;
        if origin == Origin::Run {
            say::remark(&format!("fsdyno sweep PLAN --resume {id} measures again"));
        }
    }
    Ok(Status::Well)
}

/// Gives a sweep another name.
pub fn rename(surroundings: &Surroundings, options: &Rename) -> Result {
    let mut store = surroundings.open_store()?;
    let sweep = own(surroundings, &store, &options.sweep)?;
    let name = valid_name(&options.name)?;
    store.rename_sweep(sweep.id, name)?;
    writeln!(out::text(&surroundings.style), "sweep {} is now '{name}', not '{}'", sweep.id, sweep.name)?;
    Ok(Status::Well)
}

/// Shows, sets or removes a note.
pub fn note(surroundings: &Surroundings, options: &Note) -> Result {
    let mut out = out::text(&surroundings.style);
    if options.text.is_none() && !options.remove {
        let shelves = surroundings.results()?;
        let (_, sweep) = super::find(surroundings, &shelves, Some(&options.sweep))?;
        if let Some(note) = sweep.summary.note {
            writeln!(out, "{note}")?;
        }
        return Ok(Status::Well);
    }
    let mut store = surroundings.open_store()?;
    let sweep = own(surroundings, &store, &options.sweep)?;
    let text = options.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if let Some(long) = text.filter(|text| text.len() > LONGEST_NOTE) {
        let error = anyhow!("a note of {} bytes is too long; the limit is {LONGEST_NOTE}", long.len());
        return Err(Trouble::new(Status::Usage, error).hint("the note was not changed"));
    }
    store.note_sweep(sweep.id, text)?;
    let done = if text.is_some() { "noted about" } else { "removed the note of" };
    writeln!(out, "{done} sweep {} ('{}')", sweep.id, sweep.name)?;
    Ok(Status::Well)
}

/// A name that a sweep may have.
pub fn valid_name(name: &str) -> std::result::Result<&str, Trouble> {
    sweep_name::check(name).map_err(|error| Trouble::new(Status::Usage, error).hint("choose another name"))
}

/// A sweep of this user's store.
pub fn own(
    surroundings: &Surroundings,
    store: &Store,
    selector: &str,
) -> std::result::Result<SweepSummary, Trouble> {
    if selector.starts_with(ROOTS_PREFIX) {
        let error = anyhow!("sweep '{selector}' belongs to root, so it can be read but not changed");
        return Err(
            Trouble::new(Status::Refused, error).hint("run the command with sudo and without 'root:'")
        );
    }
    Ok(store.find(Some(selector)).map_err(|error| not_found(surroundings, error))?.summary)
}

/// A sweep that this is certain to select: what is deleted is gone.
fn only(
    surroundings: &Surroundings,
    store: &Store,
    selector: &str,
) -> std::result::Result<SweepSummary, Trouble> {
    if selector == LATEST {
        let error = anyhow!("'{LATEST}' is whichever sweep finished last");
        return Err(
            Trouble::new(Status::Usage, error).hint("name the sweep by its number, as in fsdyno list")
        );
    }
    let found = own(surroundings, store, selector)?;
    let named: Vec<String> = store
        .sweeps()?
        .iter()
        .filter(|sweep| sweep.name == selector)
        .map(|sweep| sweep.id.to_string())
        .collect();
    if found.name == selector && named.len() > 1 {
        let error = anyhow!("{} sweeps are named '{selector}': {}", named.len(), named.join(", "));
        return Err(Trouble::new(Status::Usage, error).hint("name them by their numbers"));
    }
    Ok(found)
}

fn described(sweep: &SweepSummary) -> String {
    let trials = plural(u64::from(sweep.done()), "trial");
    format!("sweep {} ('{}', begun {}, {trials})", sweep.id, sweep.name, sweep.started)
}
