//! One disk after a cut: it is mounted, verified, unmounted and checked.

use super::site::{DiskSite, User};
use super::tally::DiskFindings;
use super::{STEP_LIMIT, Stop};
use fsdyno_core::durability::Cut;
use fsdyno_core::result::Verified;
use fsdyno_core::workload::Durability;
use fsdyno_core::{Failure, Nanos};
use fsdyno_host::{Command, Grant, Host, HostError};
use fsdyno_testbed::{ASSEMBLY, Mounted, TestbedError, UndoJournal, Unmounted};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The time that another mount namespace may keep a filesystem, and the interval at which that is checked.
const RELEASE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Who may do something now, of those who look at the disks of one log.
#[derive(Debug, Default)]
pub(super) struct Turns(RwLock<()>);

impl Turns {
    /// Does something while nobody else does.
    pub fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.0.write().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Does something that others may do, too.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.0.read().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// Who looks at disks after cuts.
pub(super) struct Looking<'a> {
    pub machine: &'a mut dyn Host,
    pub site: &'a mut DiskSite,
    pub journal: &'a mut UndoJournal,
    pub seed: u64,
    /// The member that the array has lost.
    pub without: Option<usize>,
    pub parameters: &'a Durability,
    pub interrupt: &'a AtomicBool,
}

impl Looking<'_> {
    pub fn host(&mut self) -> &mut dyn Host {
        self.site.user(self.machine).host
    }

    /// Mounts the disk as it is now, verifies, unmounts, and checks. If it is to be alone, nobody else does
    /// anything while the filesystem recovers.
    pub fn look(&mut self, cut: &Cut, turns: &Turns, alone: bool) -> Result<DiskFindings, Stop> {
        self.host().limit_steps(Some(STEP_LIMIT));
        let found = self.steps(cut, turns, alone);
        self.host().limit_steps(None);
        match found {
            Err(Stop::Hung(..)) => Ok(DiskFindings::Hung),
            found => found,
        }
    }

    fn steps(&mut self, cut: &Cut, turns: &Turns, alone: bool) -> Result<DiskFindings, Stop> {
        let mounted = match alone {
            true => turns.alone(|| self.mount())?,
            false => turns.beside(|| self.mount())?,
        };
        let (mounted, recovery) = match mounted {
            Ok(mounted) => mounted,
            Err(reason) => return Ok(DiskFindings::NotMounted { reason }),
        };
        let directory = mounted.directory().to_path_buf();
        let verified = turns.beside(|| self.verify(&directory, cut))?;
        let Looking { site, machine, journal, .. } = self;
        let host = site.user(*machine).host;
        let unmounted = turns.beside(|| mounted.unmount(host, journal))?;
        await_release(&unmounted, host, journal)?;
        let clean = match turns.beside(|| unmounted.check_small(host, journal)) {
            Ok(checked) => checked.map(|(check, _)| check.clean),
            // A check that gives up has found enough.
            Err(TestbedError::Tool { .. }) => Some(false),
            Err(error) => return Err(error.into()),
        };
        Ok(DiskFindings::Looked { recovery, alone, verified, clean })
    }

    /// Mounts the disk as it is now, and says how long that took; or says why the kernel refuses.
    pub fn mount(&mut self) -> Result<Result<(Mounted, Nanos), String>, Stop> {
        let Looking { machine, journal, site, seed, without, interrupt, .. } = self;
        let User { host, testbed, configuration, .. } = site.user(*machine);
        let found = fsdyno_testbed::find(host, journal, testbed, configuration, *seed, *without, interrupt);
        let found = match found {
            Err(TestbedError::Tool { step: ASSEMBLY, command, output, .. }) => {
                return Ok(Err(format!("{command}: {output}")));
            }
            found => found?,
        };
        let replayed = found.replay(host)?;
        match found.mount(host, journal) {
            Ok(mounted) => {
                let took = mounted.lifecycle().mount.unwrap_or_default();
                Ok(Ok((mounted, Nanos(replayed.0.saturating_add(took.0)))))
            }
            Err(TestbedError::Host { source: HostError::Mount { reason, .. }, .. }) => Ok(Err(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a process of its own look: the filesystem may be damaged.
    fn verify(&mut self, directory: &Path, cut: &Cut) -> Result<Verified, Stop> {
        let failed =
            |error: serde_json::Error| Stop::Failed(Box::new(Failure::new("verify", error.to_string())));
        let parameters = serde_json::to_string(self.parameters).map_err(failed)?;
        let words = [
            "verify".to_string(),
            directory.display().to_string(),
            self.site.marks_so_far.display().to_string(),
            cut.marks.to_string(),
            cut.time_ns.0.to_string(),
            self.seed.to_string(),
            parameters,
        ];
        serde_json::from_str(&of_own_program(self.host(), "verify", words, None)?).map_err(failed)
    }

    /// Takes everything of a state down; returns what is left.
    pub fn take_down(&mut self) -> Vec<String> {
        let Looking { site, machine, journal, .. } = self;
        let host = site.user(*machine).host;
        host.limit_steps(Some(STEP_LIMIT));
        let report = journal.undo_all(host);
        host.limit_steps(None);
        report.left
    }
}

/// Waits until the disk is free. A mount namespace that was made meanwhile keeps the filesystem mounted,
/// usually for a moment. What it has in memory would be taken for what is on the disk.
pub(super) fn await_release(
    unmounted: &Unmounted,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
) -> Result<(), Stop> {
    let begin = Instant::now();
    while !unmounted.is_released(host, journal)? {
        if begin.elapsed() > RELEASE {
            let mut failure = Failure::new(
                "umount",
                "another mount namespace keeps the filesystem mounted, so what is on the disk is unknown",
            );
            failure.hint = Some("run it while no container or service starts".to_string());
            return Err(Stop::Failed(Box::new(failure)));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Runs a step in a process of its own, and returns what it printed.
pub(super) fn of_own_program(
    host: &mut dyn Host,
    step: &'static str,
    words: impl IntoIterator<Item = String>,
    may_change: Option<Grant>,
) -> Result<String, Stop> {
    let failed = |message: String| Stop::Failed(Box::new(Failure::new(step, message)));
    let binary = host.own_binary().map_err(|error| failed(error.to_string()))?;
    let command = Command::new(binary.to_string_lossy()).args(words).may_change(may_change);
    let command = Command { limit: STEP_LIMIT, ..command };
    let output = host.run(&command).map_err(|source| TestbedError::Host { step, source })?;
    match output.status {
        0 => Ok(output.stdout),
        status => Err(failed(format!("status {status}: {}", output.stderr.trim()))),
    }
}
