//! `fsdyno application` (hidden): does on a mounted filesystem what an application does while requests to the
//! disk fail. It uses nothing but files of its own in the directory.

use super::Result;
use crate::cli::{Application, ApplicationStep};
use crate::exit::Status;
use crate::out;
use anyhow::Context;
use fsdyno_engine::application;
use fsdyno_path::Directory;
use std::io::Write;

pub fn run(options: &Application) -> Result {
    let Application { step, directory, act, seed } = options;
    let opened =
        Directory::open(directory).with_context(|| format!("cannot open '{}'", directory.display()))?;
    let directory = &opened.at(".");
    let mut line = match step {
        ApplicationStep::Prepare => {
            application::prepare(directory, *seed)
                .with_context(|| format!("cannot prepare '{}'", directory.display()))?;
            return Ok(Status::Well);
        }
        ApplicationStep::Act => serde_json::to_string(&application::act(directory, *act, *seed))?,
        ApplicationStep::Look => serde_json::to_string(&application::look(directory, *act, *seed))?,
    };
    line.push('\n');
    out::json().write_all(line.as_bytes())?;
    Ok(Status::Well)
}
