//! A member of a fleet: whole trials, one after the other, on devices of its own, under its own guards and
//! with its own undo journal. What it has measured is the coordinator's to store.

use super::wire::{FromMember, MemberReady, Task, ToMember, line};
use crate::options::{Machines, RunOptions};
use crate::plan::Plan;
use crate::resume::verify_disks;
use crate::run::verify_privileges;
use crate::runner::{Here, Ran, Runner};
use crate::sweep_error::SweepError;
use crate::trial::hooks::TrialHooks;
use fsdyno_clients::agent::Membership;
use fsdyno_core::Progress;
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::undo;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The interval at which the place of a trial is reported to the coordinator, unless its stage changes.
const BETWEEN: Duration = Duration::from_millis(250);

/// A member that was given a plan.
pub struct FleetMember<'m> {
    task: Task,
    coordinator: &'m Membership<'m>,
}

impl<'m> FleetMember<'m> {
    /// From the first order. `None` if it cannot be understood, which is reported to the coordinator.
    pub fn new(order: &str, coordinator: &'m Membership<'m>) -> Option<Self> {
        match serde_json::from_str(order) {
            Ok(ToMember::Begin(task)) => Some(FleetMember { task: *task, coordinator }),
            Ok(ToMember::Run { .. } | ToMember::End) => None,
            Err(error) => {
                let reason = format!("it does not understand the plan ({error}): is fsdyno the same there?");
                coordinator.say(line(&FromMember::Refused(reason)));
                None
            }
        }
    }

    /// The plan, with the devices of this machine.
    pub fn plan(&self) -> &Plan {
        &self.task.plan
    }

    /// Returns the user's confirmation for this machine.
    pub fn confirmation(&self) -> &Confirmation {
        &self.task.confirmation
    }

    /// Tells the coordinator why this machine cannot run trials.
    pub fn refuse(&self, reason: String) {
        self.say(&FromMember::Refused(reason));
    }

    /// Runs what the coordinator wants until it wants nothing more or is gone; then nothing is left but what
    /// it reports. `state` is the directory of this machine's state.
    ///
    /// # Errors
    /// [`SweepError`] if no trial can run; nothing has been changed then.
    pub fn run(
        &self,
        machines: &mut Machines<'_>,
        options: &RunOptions<'_>,
        state: &Path,
    ) -> Result<(), SweepError> {
        let plan = &self.task.plan;
        verify_privileges(plan, machines.host)?;
        if let Some((_, known)) = &self.task.resumed {
            verify_disks(plan, machines.host, self.task.sweep(), known)?;
        }
        let restored = undo::restore(machines.host, options.state_dir)?.report;
        let cases = plan.cases();
        let here = Here::of(plan, machines, &cases);
        let mut runner = Runner::new(plan, machines, options, &cases, &here.unmet)?;
        self.say(&FromMember::Ready(Box::new(MemberReady {
            unmet: here.unmet.clone(),
            sizes: here.sizes,
            serials: serials(plan, machines),
            restored: restored.undone.into_iter().chain(restored.foreign).collect(),
            left: restored.left,
        })));
        let hooks = TrialHooks::without_store(plan, options, self.task.sweep(), state.to_path_buf());
        while let Some(order) = self.coordinator.next() {
            let Ok(ToMember::Run { slot, rest }) = serde_json::from_str(&order) else { break };
            if rest.iter().chain([&slot]).any(|slot| slot.case as usize >= cases.len()) {
                break;
            }
            let mut last = LastReport { member: self, sent: None };
            let ran = runner.run(machines, &hooks, &slot, &mut |progress| last.update(progress));
            let end = match ran {
                Ok(Ran::Ended { record, took, interrupted, broken }) => {
                    self.say(&FromMember::Ended { record, took });
                    broken
                        .err()
                        .map(|error| FromMember::Broken(error.to_string()))
                        .or(interrupted.then_some(FromMember::Interrupted))
                }
                Ok(Ran::Interrupted) => Some(FromMember::Interrupted),
                // What ends a sweep on one machine ends only the part of this one.
                Err(SweepError::NoRoom { failure }) => Some(FromMember::Broken(failure.message)),
                Err(error) => Some(FromMember::Broken(error.to_string())),
            };
            runner.keep_for(machines, &rest);
            if let Some(end) = end {
                self.say(&end);
                break;
            }
            if options.interrupt.load(Ordering::Relaxed) {
                break;
            }
        }
        self.say(&FromMember::Left(runner.leave(machines)));
        Ok(())
    }

    fn say(&self, news: &FromMember) {
        self.coordinator.say(line(news));
    }
}

/// Named disks that are known by a serial number, wherever they are attached.
fn serials(plan: &Plan, machines: &mut Machines<'_>) -> Vec<(PathBuf, String)> {
    let disks = plan.devices.named_disks();
    disks
        .filter_map(|path| {
            let probe = machines.host.probe_device(path).ok()?;
            Some((path.to_path_buf(), probe.identity.serial?))
        })
        .collect()
}

/// The last report to the coordinator.
struct LastReport<'a> {
    member: &'a FleetMember<'a>,
    sent: Option<(Instant, Progress)>,
}

impl LastReport<'_> {
    /// Sends another one if something is new, or some time has passed.
    fn update(&mut self, progress: &Progress) {
        let is_new = match &self.sent {
            Some((when, last)) => !last.is_like(progress) || when.elapsed() >= BETWEEN,
            None => true,
        };
        if is_new {
            self.member.say(&FromMember::At(Box::new(progress.clone())));
            self.sent = Some((Instant::now(), progress.clone()));
        }
    }
}
