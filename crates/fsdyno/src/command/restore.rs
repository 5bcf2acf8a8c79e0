//! `fsdyno restore`: undoes what an interrupted sweep left on the machine, now or at every boot.

use super::{Result, Surroundings, carry_out, trouble};
use crate::cli::Restore;
use crate::exit::{Status, Trouble};
use crate::file;
use crate::interrupt::Interrupt;
use crate::out;
use crate::say;
use crate::unit::{self, Unit};
use anyhow::{Context, anyhow};
use fsdyno_path::trusted;
use fsdyno_testbed::undo::{self, RestoreReport};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub fn run(surroundings: &Surroundings, options: &Restore) -> Result {
    if options.install_unit {
        return install_unit(surroundings, options.yes);
    }
    let interrupt = Interrupt::listen()?;
    // There is nothing to finish but the restoring itself, so the first signal already stops waiting.
    let mut host = surroundings.host()?.hurried_by(interrupt.stop);
    let restored = undo::restore(&mut host, &surroundings.state.undo())
        .map_err(|error| trouble::of_sweep(error.into()))?;
    let kept = fsdyno_store::kept(&surroundings.store, &surroundings.keep());
    // What was done is done, whether anybody reads the report or not.
    let _ = print(&mut out::text(&surroundings.style), &restored, &kept);
    for place in surroundings.state.elsewhere_with_journals() {
        say::note(&elsewhere(&place));
    }
    let kept = kept_records(surroundings, &kept);
    for line in &restored.report.left {
        say::note(&format!("left behind: {line}"));
    }
    if !restored.report.left.is_empty() {
        say::note("hint: stop what still uses it, then run fsdyno restore again");
    }
    for path in &restored.aside {
        say::note(&format!("moved aside: '{}'", path.display()));
    }
    if !restored.aside.is_empty() {
        say::note("hint: read the journal that was moved aside, undo what it lists by hand, then remove it");
    }
    Ok(match restored {
        RestoreReport { report, aside, .. } if !report.left.is_empty() || !aside.is_empty() => {
            Status::NotRestored
        }
        _ => kept,
    })
}

/// Shows the unit, and installs it after confirmation.
fn install_unit(surroundings: &Surroundings, yes: bool) -> Result {
    let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
    // Nobody but root may be able to change what systemd runs as root at boot.
    trusted::check_file(&binary, 0).map_err(|error| {
        Trouble::new(Status::Refused, anyhow!("the unit would run '{}' as root: {error}", binary.display()))
            .hint("install it where only root can write: install -m 755 fsdyno /usr/local/bin")
    })?;
    let state = surroundings.state.directory();
    trusted::check(state, 0).map_err(|error| {
        Trouble::new(
            Status::Refused,
            anyhow!("root does not trust the state directory '{}': {error}", state.display()),
        )
        .hint("run this as root, or name root's directory with --state")
    })?;
    let text = Unit::new(binary, state.to_path_buf()).text();
    write!(out::plain(), "{}:\n\n{text}\n", unit::PATH)?;
    if !yes && !say::confirmed("write it?") {
        return Err(Trouble::new(Status::Refused, anyhow!("not confirmed: nothing was written"))
            .hint("use fsdyno restore --install-unit --yes to write it"));
    }
    let readable = Permissions::from_mode(0o644);
    file::replace(Path::new(unit::PATH), text.as_bytes(), readable)
        .with_context(|| format!("cannot write '{}'", unit::PATH))?;
    say::note(&format!("wrote {}", unit::PATH));
    say::note("hint: systemctl daemon-reload, then systemctl enable fsdyno-restore.service");
    Ok(Status::Well)
}

fn print(out: &mut dyn Write, restored: &RestoreReport, kept: &[PathBuf]) -> io::Result<()> {
    for line in &restored.report.undone {
        writeln!(out, "{line}")?;
    }
    for line in &restored.report.foreign {
        writeln!(out, "left unchanged: {line}")?;
    }
    if restored.running > 0 {
        let journals = fsdyno_verdict::text::plural(restored.running as u64, "journal");
        writeln!(out, "left alone: what running sweeps use, in {journals}")?;
    }
    let report = &restored.report;
    if report.left.is_empty() && report.undone.is_empty() && restored.aside.is_empty() && kept.is_empty() {
        writeln!(out, "nothing to restore")?;
    }
    Ok(())
}

/// Adds records that could not be stored when they were measured, and ends the sweeps that they complete. If
/// there are none, the store is not even opened.
fn kept_records(surroundings: &Surroundings, kept: &[PathBuf]) -> Status {
    if kept.is_empty() {
        return Status::Well;
    }
    match surroundings.open_store() {
        Ok(mut store) => {
            let added = carry_out::add_kept(surroundings, &mut store);
            let finished = match store.finish_complete() {
                Ok(finished) => finished,
                Err(error) => {
                    Trouble::from(error).tell();
                    return Status::TrialFailed;
                }
            };
            for sweep in finished {
                say::note(&format!("sweep {sweep} is complete"));
            }
            if added.left.is_empty() { Status::Well } else { Status::TrialFailed }
        }
        Err(trouble) => {
            for path in kept {
                say::note(&format!("kept record '{}' remains: the results cannot be opened", path.display()));
            }
            trouble.tell();
            Status::TrialFailed
        }
    }
}

fn elsewhere(place: &Path) -> String {
    let place = place.display();
    format!(
        "hint: there are also undo journals in '{place}': run fsdyno restore --state {place} as their owner"
    )
}
