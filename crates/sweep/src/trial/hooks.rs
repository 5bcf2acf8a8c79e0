//! The hooks before and after a trial, which run on this machine, wherever the trial itself runs.

use super::commands::TrialCommands;
use super::watch::LoadEnd;
use super::{Ended, end_badly, not_built};
use crate::options::{Machines, RunOptions};
use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::room::RoomWatch;
use fsdyno_core::result::CommandKind;
use fsdyno_core::{DeviceSpec, Outcome};
use fsdyno_host::Host;
use fsdyno_store::{Store, SweepId};
use std::path::PathBuf;

/// The context that the trials of a sweep share for the commands of their plan.
#[derive(Clone)]
pub(crate) struct TrialHooks<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    sweep: SweepId,
    /// Where monitors write.
    files: PathBuf,
    /// The directory of the store, whose filesystem has a reserve.
    pub store: PathBuf,
}

impl<'a> TrialHooks<'a> {
    pub fn new(plan: &'a Plan, options: &'a RunOptions<'a>, store: &Store, sweep: SweepId) -> Self {
        TrialHooks { plan, options, sweep, files: store.files_of(sweep), store: store.directory_of_files() }
    }

    /// Where there is no store, and so nothing that writes files beside it: only this directory has a
    /// reserve.
    pub fn without_store(
        plan: &'a Plan,
        options: &'a RunOptions<'a>,
        sweep: SweepId,
        state: PathBuf,
    ) -> Self {
        TrialHooks { plan, options, sweep, files: state.clone(), store: state }
    }

    /// Where the log of a recorded disk is kept.
    pub fn log_of(&self, trial: u32) -> PathBuf {
        self.files.join(trial.to_string()).join("log")
    }

    /// Runs a trial between its hooks.
    pub fn run(
        &self,
        machines: &mut Machines<'_>,
        (slot, case): (&Slot, &Case),
        device: &DeviceSpec,
        trial: impl FnOnce(&mut Machines<'_>, &mut TrialCommands<'a>) -> Ended,
    ) -> Ended {
        let mut commands = self.commands(machines.host, slot, case, device);
        let mut ended = match self.hook(CommandKind::BeforeTrial, machines.host, &mut commands, None) {
            LoadEnd::Done => trial(machines, &mut commands),
            end => not_built(slot, case, device, end),
        };
        commands.mounted(None);
        let outcome = Some(&ended.record.outcome);
        let end = self.hook(CommandKind::AfterTrial, machines.host, &mut commands, outcome);
        end_badly(&mut ended, end);
        commands.keep(&mut ended.record);
        ended
    }

    /// The commands of the plan, and the environment that they get.
    fn commands(&self, host: &dyn Host, slot: &Slot, case: &Case, device: &DeviceSpec) -> TrialCommands<'a> {
        let variables = vec![
            ("FSDYNO_SWEEP", self.sweep.to_string()),
            ("FSDYNO_TRIAL", slot.trial.to_string()),
            ("FSDYNO_CONFIGURATION", case.configuration.name.clone()),
            ("FSDYNO_WORKLOAD", case.workload.kind().to_string()),
        ];
        let disks = device.disks().into_iter().map(|disk| disk.path().display().to_string());
        let disks = disks.collect::<Vec<_>>().join(" ");
        let directory = self.files.join(slot.trial.to_string());
        TrialCommands::new(&self.plan.hooks, host.guardian(), variables, disks, directory)
    }

    /// Runs a hook. What undoes the work of another one runs after an interruption as well, unless the user
    /// is in a hurry.
    fn hook(
        &self,
        kind: CommandKind,
        host: &mut dyn Host,
        commands: &mut TrialCommands<'_>,
        outcome: Option<&Outcome>,
    ) -> LoadEnd {
        let stop = match kind {
            CommandKind::AfterTrial => self.options.hurry,
            _ => self.options.interrupt,
        };
        let mut room = RoomWatch::over(&self.plan.devices);
        room.watch_too(&self.store);
        commands.run_hook(kind, outcome, stop, &mut || room.look(host))
    }
}
