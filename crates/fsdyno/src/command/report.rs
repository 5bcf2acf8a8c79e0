//! `fsdyno report [SWEEP] -o FILE`: the results of a sweep as one HTML file.

use super::{Result, Surroundings, find, header, verify_measured};
use crate::cli::Report;
use crate::exit::{Status, Trouble};
use crate::file;
use crate::out;
use crate::say;
use fsdyno_report::ReportError;
use fsdyno_report::html::{Sources, page};
use fsdyno_store::{StoreError, SweepSummary};
use std::io::Write;
use std::path::{Path, PathBuf};

pub fn run(surroundings: &Surroundings, options: &Report) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    shelves.tell_of_unfinished(&sweep.summary);
    let id = sweep.summary.id;
    let header = header(&sweep, options.measure.as_deref())?;
    let trials = store.outlines(id)?;
    verify_measured(&header, &trials, options.measure.as_deref())?;
    let page = page(&Sources {
        header,
        trials: &trials,
        details: &|case| store.trials_of_case(id, case).map_err(|error| ReportError::Trials(error.into())),
    });
    let page = page.map_err(|error| match error {
        ReportError::Trials(error) => match error.downcast::<StoreError>() {
            Ok(error) => Trouble::from(*error),
            Err(error) => Trouble::from(anyhow::Error::from_boxed(error)),
        },
        other => other.into(),
    })?;
    let output = options.output.as_deref().map(Path::to_path_buf);
    let path = output.unwrap_or_else(|| default_path(&sweep.summary));
    if path == Path::new("-") {
        out::plain().write_all(page.as_bytes())?;
        return Ok(Status::Well);
    }
    file::write_whole(&path, |out| Ok(out.write_all(page.as_bytes())?))
        .map_err(|error| Trouble::from(error).hint("use -o FILE for another file, or -o - for stdout"))?;
    say::remark(&format!("wrote {} ({:.1} MB)", path.display(), page.len() as f64 / 1e6));
    Ok(Status::Well)
}

/// `demo-7.html`, in the current directory whatever the name of the plan.
fn default_path(sweep: &SweepSummary) -> PathBuf {
    let kept = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let name: String = sweep.name.chars().map(kept).collect();
    let name = name.trim_start_matches(['-', '.']);
    PathBuf::from(if name.is_empty() {
        format!("report-{}.html", sweep.id)
    } else {
        format!("{name}-{}.html", sweep.id)
    })
}
