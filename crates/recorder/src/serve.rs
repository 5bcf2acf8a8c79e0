//! The process of a recorder: requests on its stdin, replies on its stdout.

use crate::Result;
use crate::cuts::cuts;
use crate::disk::summary;
use crate::error::RecorderError;
use crate::fuse::{Files, lock};
use crate::pace::Pace;
use crate::recorded::{Recorded, Stage};
use fsdyno_core::device::DiskModelText;
use fsdyno_core::durability::{RECORDER_SOURCE, RecorderReply, RecorderRequest};
use fsdyno_core::outcome::chain;
use fsdyno_disk::DiskModel;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

const STILL_THERE: &str = "the disk of the state before is still there";

/// Serves requests until stdin is closed. Returns the exit code.
pub fn serve(input: &mut dyn BufRead, output: &mut dyn Write) -> i32 {
    match converse(input, output) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn converse(input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let mut served: Option<Served> = None;
    let mut line = String::new();
    loop {
        line.clear();
        let read =
            input.read_line(&mut line).map_err(|error| RecorderError::Connection(error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_str(&line) {
            Ok(RecorderRequest::Begin { directory, mountpoint, complete, parts, shared }) => {
                let recorded = Recorded::new(directory, complete.as_ref(), parts);
                recorded.and_then(|recorded| begin(&mut served, recorded, &mountpoint, shared))
            }
            Ok(request) => match &served {
                Some(served) => served.answer(&request),
                None => Err(RecorderError::Refused("nothing has begun")),
            },
            Err(error) => Err(RecorderError::Connection(error.to_string())),
        };
        let reply = reply.unwrap_or_else(|error| RecorderReply::Failed { reason: chain(&error) });
        let text =
            serde_json::to_string(&reply).map_err(|error| RecorderError::Connection(error.to_string()))?;
        writeln!(output, "{text}")
            .and_then(|()| output.flush())
            .map_err(|error| RecorderError::Connection(error.to_string()))?;
    }
}

/// A disk that is shown.
struct Served {
    recorded: Arc<Mutex<Recorded>>,
    pace: Pace,
    /// Unmounts when it is dropped.
    _session: BackgroundSession,
}

fn begin(
    served: &mut Option<Served>,
    recorded: Recorded,
    mountpoint: &Path,
    shared: bool,
) -> Result<RecorderReply> {
    if served.is_some() {
        return Err(RecorderError::Refused("it has begun already"));
    }
    let recorded = Arc::new(Mutex::new(recorded));
    let failed = RecorderError::file("mount the recorder at", mountpoint);
    let mut config = Config::default();
    config.acl = if shared { SessionACL::All } else { SessionACL::Owner };
    config.mount_options = vec![
        MountOption::FSName(RECORDER_SOURCE.to_string()),
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::DefaultPermissions,
    ];
    let pace = Pace::new().map_err(&failed)?;
    let files = Files::new(&recorded, &pace).map_err(&failed)?;
    let session = Session::new(files, mountpoint, &config).and_then(Session::spawn).map_err(failed)?;
    *served = Some(Served { recorded, pace, _session: session });
    Ok(RecorderReply::Done)
}

impl Drop for Served {
    /// Whoever waits for an answer would keep the disk from being unmounted.
    fn drop(&mut self) {
        self.pace.end();
    }
}

impl Served {
    fn answer(&self, request: &RecorderRequest) -> Result<RecorderReply> {
        let mut recorded = lock(&self.recorded);
        match request {
            RecorderRequest::Begin { .. } => Err(RecorderError::Refused("it has begun already")),
            RecorderRequest::Cuts { count, seed } => {
                Ok(RecorderReply::Cuts { cuts: cuts(recorded.log()?, *count, *seed)? })
            }
            RecorderRequest::Summary => Ok(RecorderReply::Summary { summary: summary(recorded.log()?)? }),
            RecorderRequest::State(request) => {
                if matches!(recorded.stage, Stage::Shown) {
                    return Err(RecorderError::Refused(STILL_THERE));
                }
                let (state, log) = recorded.state()?;
                state.enter(log, request)?;
                recorded.is_after_cut = true;
                recorded.stage = Stage::Ready;
                Ok(RecorderReply::Done)
            }
            RecorderRequest::Blank { size } => {
                if matches!(recorded.stage, Stage::Shown) {
                    return Err(RecorderError::Refused(STILL_THERE));
                }
                recorded.blank(*size)?;
                Ok(RecorderReply::Done)
            }
            RecorderRequest::Fail { fault } => {
                let (failed, trouble) = recorded.faults.set(*fault);
                Ok(RecorderReply::Faults { failed, trouble })
            }
            RecorderRequest::Pace { model } => {
                let model = model.as_ref().map(|DiskModelText { name, text }| DiskModel::parse(name, text));
                let model = model.transpose().map_err(RecorderError::Model)?;
                let (parts, size) = recorded.part_sizes();
                Ok(RecorderReply::Pace { kept: self.pace.set(model.as_ref(), parts, size)? })
            }
            RecorderRequest::Check => {
                recorded.state()?;
                let Recorded { disk: Some(disk), state: Some(state), .. } = &mut *recorded else {
                    return Err(RecorderError::Refused("the disk itself was not kept"));
                };
                disk.check(state)?;
                Ok(RecorderReply::Done)
            }
        }
    }
}
