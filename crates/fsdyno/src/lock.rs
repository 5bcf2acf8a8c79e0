//! One sweep at a time: two would distort each other's results, and could use the same images.
//!
//! The lock is a file in the state directory. The kernel releases it when its process ends, however it ends,
//! so a lock never stays behind; the file does, and means nothing without the lock.

use crate::exit::{Status, Trouble};
use crate::state::State;
use anyhow::{Context, anyhow};
use fsdyno_store::{Store, SweepState, SweepSummary};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "sweep.lock";
/// That of sweeps whose trials run on other machines: this one may be among them.
const FLEETS: &str = "fleet.lock";
/// The longest text that is read from it.
const MOST: u64 = 64 << 10;

/// Who holds the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    /// The name of the plan.
    plan: String,
    /// When it began, RFC 3339, UTC.
    since: String,
}

/// Held while this process runs a sweep.
#[derive(Debug)]
pub struct SweepLock(#[expect(dead_code, reason = "the lock ends when the file is closed")] File);

impl SweepLock {
    /// Takes the lock for a sweep of this plan.
    ///
    /// # Errors
    /// A refusal that names the sweep that is running.
    pub fn take(state: &State, store: &Store, plan: &str) -> Result<Self, Trouble> {
        Self::take_one(FILE, state, Some(store), plan)
    }

    /// The same for a sweep whose trials run on other machines.
    ///
    /// # Errors
    /// A refusal if there is another one.
    pub fn take_for_fleet(state: &State, store: &Store, plan: &str) -> Result<Self, Trouble> {
        Self::take_one(FLEETS, state, Some(store), plan)
    }

    /// Takes the lock of this machine for the sweep of another.
    ///
    /// # Errors
    /// As for a sweep of this one.
    pub fn take_for_other(state: &State, plan: &str) -> Result<Self, Trouble> {
        Self::take_one(FILE, state, None, plan)
    }

    fn take_one(file: &str, state: &State, store: Option<&Store>, plan: &str) -> Result<Self, Trouble> {
        state.make()?;
        let path = state.directory().join(file);
        // Whoever can open a file can lock it, so that others must not be able to.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(flags).mode(0o600);
        let mut file = options.open(&path).with_context(|| format!("cannot open '{}'", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(&path, store)),
            Err(error) => {
                return Err(anyhow!(error).context(format!("cannot lock '{}'", path.display())).into());
            }
        }
        let since = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let holder = Holder { pid: std::process::id(), plan: plan.to_string(), since };
        let text = serde_json::to_vec(&holder).map_err(anyhow::Error::from)?;
        file.set_len(0)
            .and_then(|()| file.write_all(&text))
            .with_context(|| format!("cannot write '{}'", path.display()))?;
        Ok(SweepLock(file))
    }
}

/// The process that last held the lock of a state directory, whether it still exists or not. `None` if this
/// user may not know.
pub fn holder_pid(state: &State) -> Option<u32> {
    holder(&state.directory().join(FILE)).map(|holder| holder.pid)
}

/// The refusal: by the number of the sweep if it is already in the store.
fn held(path: &Path, store: Option<&Store>) -> Trouble {
    let holder = holder(path);
    let running = store.and_then(|store| store.sweeps().ok()).unwrap_or_default();
    let running = running.iter().rev().find(|sweep| sweep.state == SweepState::Running);
    let which = match (running, &holder) {
        (Some(SweepSummary { id, name, started, .. }), _) => {
            format!("sweep {id} ('{name}', since {started})")
        }
        (None, Some(Holder { plan, since, .. })) => format!("a sweep of '{plan}' (since {since})"),
        (None, None) => "another sweep".to_string(),
    };
    let (process, stop) = match &holder {
        Some(Holder { pid, .. }) => (
            format!(" in process {pid}"),
            format!("wait until it ends, or stop it with kill -INT {pid}: its finished trials are kept"),
        ),
        None => (String::new(), "wait until it ends".to_string()),
    };
    Trouble::new(
        Status::Refused,
        anyhow!("{which} is running{process}, and two at once would distort each other's results"),
    )
    .hint(stop)
}

/// Who holds it; the holder writes its name just after it has the lock.
fn holder(path: &Path) -> Option<Holder> {
    for _ in 0..20 {
        let mut text = Vec::new();
        File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text)).ok()?;
        if let Ok(holder) = serde_json::from_slice(&text) {
            return Some(holder);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}
