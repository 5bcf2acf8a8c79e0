//! `fsdyno plans`: the plans that come with fsdyno.

use super::source::{PlanText, save};
use super::{Result, Surroundings, print_json};
use crate::cli::{DocumentFormat, Plans};
use crate::exit::{Status, Trouble};
use crate::out;
use crate::ready::{self, ReadyPlan};
use crate::say;

use fsdyno_core::Nanos;
use fsdyno_report::Style;
use fsdyno_sweep::nominal_time;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// A plan in `--format json`.
#[derive(Serialize)]
struct PlanEntry {
    name: &'static str,
    title: &'static str,
    takes: Option<String>,
    /// Estimated for a machine that has whatever the plan asks for.
    time_ns: Nanos,
}

pub fn run(surroundings: &Surroundings, options: &Plans) -> Result {
    let Some(name) = &options.name else {
        match options.format {
            DocumentFormat::Text => list(&mut out::text(&surroundings.style), surroundings.style)?,
            DocumentFormat::Json => {
                let entries = ready::all().map(entry).collect::<std::result::Result<Vec<_>, _>>()?;
                print_json(&entries)?;
            }
        }
        return Ok(Status::Well);
    };
    let plan = ReadyPlan::named(name).ok_or_else(|| ready::unknown(name))?;
    match &options.save {
        None => out::text(&surroundings.style).write_all(plan.text.as_bytes())?,
        Some(path) => {
            let usual = PathBuf::from(format!("{}.toml", plan.name));
            save(path.as_deref().unwrap_or(&usual), plan.text, "name another file with --save=FILE")?;
        }
    }
    Ok(Status::Well)
}

fn entry(plan: ReadyPlan) -> std::result::Result<PlanEntry, Trouble> {
    let time_ns = nominal_time(&PlanText::of(plan).parse(&[])?);
    Ok(PlanEntry { name: plan.name, title: plan.title(), takes: plan.entry("Takes"), time_ns })
}

fn list(out: &mut dyn Write, style: Style) -> io::Result<()> {
    for plan in ready::all() {
        let takes = plan.entry("Takes").map(|takes| format!("takes {takes}"));
        writeln!(out, "{}", plan.name)?;
        for text in std::iter::once(plan.title().to_string()).chain(takes) {
            style.wrapped(&text, "    ", "      ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    say::remark(
        "hint: sudo fsdyno sweep NAME runs one; fsdyno plans NAME prints it\n\
         hint: fsdyno plans NAME --save writes it to a file",
    );
    Ok(())
}
