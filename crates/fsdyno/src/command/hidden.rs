//! The hidden commands: processes that fsdyno starts of itself, and programs that it runs in guests.

use super::Result;
use crate::cli::{Application, ApplicationStep, Verify};
use crate::exit::Status;
use crate::out;
use anyhow::Context;
use fsdyno_core::glance::MachineGlance;
use fsdyno_core::{Telemetry, TelemetryRequest};
use fsdyno_engine::{Observer, application};
use fsdyno_path::Directory;
use fsdyno_telemetry::Sampler;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Write, stdin, stdout};
use std::process::exit;

/// The sampler for the engine: the engine knows when to sample, the sampler what.
struct Looking(Sampler);

impl Observer for Looking {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn look(&mut self) {
        self.0.sample();
    }

    fn latest(&self) -> Option<MachineGlance> {
        self.0.latest()
    }

    fn end(&mut self) -> Option<Telemetry> {
        Some(self.0.end())
    }
}

fn observer(request: &TelemetryRequest) -> Box<dyn Observer> {
    Box::new(Looking(Sampler::new(request.interval, request.devices.clone())))
}

/// `fsdyno engine`: the engine process. One request on stdin, events on stdout.
pub fn engine() -> Result {
    let code = fsdyno_engine::serve(&mut stdin().lock(), &mut stdout().lock(), &observer);
    // Not a return: a worker that is stuck in the kernel must not keep the process from ending.
    exit(code)
}

/// `fsdyno recorder`: the process that records a disk, and shows it as it is after power cuts.
pub fn recorder() -> Result {
    exit(fsdyno_recorder::serve(&mut stdin().lock(), &mut stdout().lock()))
}

/// `fsdyno guardian`: the process that starts a command of a plan and ends whatever that leaves.
pub fn guardian() -> Result {
    exit(fsdyno_host::local::serve_guardian())
}

/// `fsdyno guest`: the first process of a guest.
pub fn guest() -> Result {
    fsdyno_guest::inside::run();
    Ok(Status::Well)
}

/// `fsdyno application`: does on a mounted filesystem what an application does while requests to the disk
/// fail. It uses nothing but files of its own in the directory.
pub fn application(options: &Application) -> Result {
    let Application { step, directory, act, seed } = options;
    let opened =
        Directory::open(directory).with_context(|| format!("cannot open '{}'", directory.display()))?;
    let directory = &opened.at(".");
    match step {
        ApplicationStep::Prepare => {
            application::prepare(directory, *seed)
                .with_context(|| format!("cannot prepare '{}'", directory.display()))?;
            Ok(Status::Well)
        }
        ApplicationStep::Act => answer(&application::act(directory, *act, *seed)),
        ApplicationStep::Look => answer(&application::look(directory, *act, *seed)),
    }
}

/// `fsdyno verify`: looks at a filesystem after a power cut. It reads nothing but the directory and the
/// marks.
pub fn verify(options: &Verify) -> Result {
    let Verify { directory, marks, count, cut_ns, seed, parameters } = options;
    let opened = File::open(marks).with_context(|| format!("cannot open '{}'", marks.display()))?;
    let mut read = BufReader::new(opened);
    answer(&fsdyno_engine::verify(directory, parameters, *seed, &mut read, *count, *cut_ns)?)
}

/// Prints the answer to whoever started the command, on one line.
fn answer(found: &impl Serialize) -> Result {
    let mut line = serde_json::to_string(found)?;
    line.push('\n');
    out::json().write_all(line.as_bytes())?;
    Ok(Status::Well)
}
