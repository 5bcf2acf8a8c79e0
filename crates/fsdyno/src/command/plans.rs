//! `fsdyno plans`: the plans that come with fsdyno; and where any command finds the plan that it is given.

use super::sweep::plan_trouble;
use super::{Result, Surroundings, print_json};
use crate::cli::{DocumentFormat, Plans};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::out;
use crate::ready::{self, Ready};
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_core::Nanos;
use fsdyno_sweep::{MAX_PLAN_BYTES, Plan, nominal_time};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Stands for standard input.
const STDIN: &str = "-";

/// A plan in `--format json`.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    title: &'static str,
    takes: Option<String>,
    /// Estimated for a machine that has whatever the plan asks for.
    time_ns: Nanos,
}

pub fn run(surroundings: &Surroundings, options: &Plans) -> Result {
    let Some(name) = &options.name else {
        match options.format {
            DocumentFormat::Text => list(&mut out::text(&surroundings.style))?,
            DocumentFormat::Json => {
                let entries = ready::all().map(entry).collect::<std::result::Result<Vec<_>, _>>()?;
                print_json(&entries)?;
            }
        }
        return Ok(Status::Well);
    };
    let plan = Ready::named(name).ok_or_else(|| ready::unknown(name))?;
    match &options.save {
        None => out::text(&surroundings.style).write_all(plan.text.as_bytes())?,
        Some(path) => {
            let path = path.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", plan.name)));
            save(&path, plan.text, "name another file with --save=FILE")?;
        }
    }
    Ok(Status::Well)
}

fn entry(plan: Ready) -> std::result::Result<Entry, Trouble> {
    let time_ns = nominal_time(&Source::of(plan).parse(&[])?);
    Ok(Entry { name: plan.name, title: plan.title(), takes: plan.entry("Takes"), time_ns })
}

fn list(out: &mut dyn Write) -> io::Result<()> {
    for plan in ready::all() {
        writeln!(out, "{}\n    {}", plan.name, plan.title())?;
        if let Some(takes) = plan.entry("Takes") {
            writeln!(out, "    takes {takes}")?;
        }
    }
    say::remark(
        "hint: sudo fsdyno sweep NAME runs one, fsdyno plans NAME prints it, --save writes it to a file",
    );
    Ok(())
}

/// Writes a plan to a new file.
pub fn save(path: &Path, text: &str, instead: &str) -> std::result::Result<(), Trouble> {
    if path.symlink_metadata().is_ok() {
        let error = anyhow!("'{}' exists already", path.display());
        return Err(Trouble::new(Status::Usage, error).hint(instead));
    }
    file::create(path)
        .and_then(|mut file| Ok(file.write_all(text.as_bytes())?))
        .with_context(|| format!("cannot write '{}'", path.display()))?;
    say::remark(&format!("wrote {0}; edit it, then fsdyno plan {0} shows what it would do", path.display()));
    Ok(())
}

/// The text of a plan, and its name in messages.
pub struct Source {
    pub text: String,
    pub file: String,
}

impl Source {
    /// A plan that comes with fsdyno.
    fn of(plan: Ready) -> Self {
        Source { text: plan.text.to_string(), file: format!("{}.toml", plan.name) }
    }

    /// Resolves it, with changes of its keys.
    pub fn parse(&self, overrides: &[String]) -> std::result::Result<Plan, Trouble> {
        Plan::parse(&self.text, &self.file, overrides).map_err(plan_trouble)
    }
}

/// Reads a plan: a file, standard input, or one that comes with fsdyno. A file of that name has precedence.
pub fn load(path: &Path, overrides: &[String]) -> std::result::Result<Plan, Trouble> {
    source(path)?.parse(overrides)
}

/// The text that a plan is loaded from. Standard input can be read only once.
pub fn source(path: &Path) -> std::result::Result<Source, Trouble> {
    if path == Path::new(STDIN) {
        let mut text = String::new();
        let read = io::stdin().lock().take(MAX_PLAN_BYTES + 1).read_to_string(&mut text);
        read.context("cannot read the plan from standard input")?;
        if text.len() as u64 > MAX_PLAN_BYTES {
            return Err(
                anyhow!("the plan on standard input is larger than {} MiB", MAX_PLAN_BYTES >> 20).into()
            );
        }
        return Ok(Source { text, file: "stdin".to_string() });
    }
    let from_file = || {
        let text = Plan::text(path).map_err(plan_trouble)?;
        Ok(Source { text, file: path.display().to_string() })
    };
    // A directory is not a plan, so it does not hide one either.
    if path.exists() && !path.is_dir() {
        return from_file();
    }
    let name = path.to_string_lossy();
    match Ready::named(&name) {
        Some(plan) => Ok(Source::of(plan)),
        // A path is meant as one.
        None if name.contains('/') || path.is_dir() => from_file(),
        None => Err(ready::unknown(&name)),
    }
}
