//! `fsdyno report [SWEEP] -o FILE`: the results of a sweep as one HTML file.

use super::{Result, Surroundings, find, header};
use crate::cli::Report;
use crate::exit::{Status, Trouble};
use crate::file;
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_report::ReportError;
use fsdyno_report::html::{Sources, page};
use fsdyno_store::SweepSummary;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub fn run(surroundings: &Surroundings, options: &Report) -> Result {
    let store = surroundings.open_store()?;
    let sweep = find(surroundings, &store, options.sweep.as_deref())?;
    let id = sweep.summary.id;
    let page = page(&Sources {
        header: header(&sweep, options.measure.as_deref())?,
        trials: &store.outlines(id)?,
        details: &|case| store.trials_of_case(id, case).map_err(|error| ReportError::Trials(error.into())),
    })?;
    let path = options.output.clone().unwrap_or_else(|| default_path(&sweep.summary));
    if path == Path::new("-") {
        io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(Status::Well);
    }
    write(&path, page.as_bytes())
        .with_context(|| format!("cannot write '{}'", path.display()))
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

/// Writes a file completely or not at all: whoever reads it meanwhile sees the old one. A pipe or a character
/// device is written to directly.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // A link stays a link.
    let target = file::destination(path)?;
    let mode = match fs::metadata(&target) {
        Ok(known) if known.is_dir() => return Err(anyhow!("it is a directory")),
        Ok(known) if !known.is_file() => return Ok(file::create(&target)?.write_all(bytes)?),
        Ok(known) => Some(known.permissions()),
        Err(_) => None,
    };
    let directory =
        target.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".fsdyno-report-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|error| io::Error::from(error.kind()))?;
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(mode)?;
    }
    file.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_a_file_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link.html");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, b"newer").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "it stays as secret");
    }

    #[test]
    fn what_cannot_be_written_is_an_error_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(write(directory.path(), b"page").unwrap_err().to_string(), "it is a directory");
        assert!(write(&directory.path().join("none/report.html"), b"page").is_err());
        write(Path::new("/dev/null"), b"page").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
