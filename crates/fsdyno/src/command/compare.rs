//! `fsdyno compare [SWEEP] --with published:NAME`: a sweep beside the figures that a study printed.

use super::{Result, Surroundings, find, header, print_json, show};
use crate::cli::{Compare, Format};
use crate::exit::{Status, Trouble};
use anyhow::anyhow;
use fsdyno_report::{published, terminal};

/// What a reference begins with that means published figures.
const PUBLISHED: &str = "published:";

pub fn run(surroundings: &Surroundings, options: &Compare) -> Result {
    let reference = reference(&options.with)?;
    let store = surroundings.open_store()?;
    let sweep = find(&store, options.sweep.as_deref())?;
    let trials = show::chosen(store.trials(sweep.summary.id)?, options.case.as_deref())?;
    let comparison = published::compare(&header(&sweep, None)?, &trials, reference)?;
    let mut out = std::io::stdout().lock();
    match options.format {
        Format::Text => terminal::comparison(&mut out, &comparison, &surroundings.style)?,
        Format::Json => print_json(&comparison)?,
        Format::Csv => published::comparison_csv(&mut out, &comparison)?,
    }
    Ok(Status::Well)
}

/// The published figures that a user means.
fn reference(text: &str) -> std::result::Result<&'static published::Published, Trouble> {
    let found = match text.strip_prefix(PUBLISHED) {
        Some(name) => published::find(name).map_err(anyhow::Error::from),
        None => Err(anyhow!("'{text}' is nothing to compare with")),
    };
    found.map_err(|error| {
        let names: Vec<&str> = published::names().collect();
        let hint = format!("write --with {PUBLISHED}NAME with one of {}", names.join(", "));
        Trouble::new(Status::Usage, error).hint(hint)
    })
}
