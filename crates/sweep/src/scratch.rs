//! The devices of a sweep, and what happens to them when a trial leaves something behind.
//!
//! Such a trial keeps its undo journal for `fsdyno restore`, and the next one uses images of other names, so
//! that it cannot collide with the remains. A block device has no other name: its remaining trials fail, with
//! the reason.

use crate::filled;
use crate::options::RunOptions;
use crate::order::Slot;
use crate::plan::{Case, Plan, Reuse};
use crate::preparations::Preparations;
use crate::recorded::refused_log_directory;
use crate::space::{least_space, short_of_room};
use crate::sweep_error::SweepError;
use fsdyno_core::{Configuration, DeviceSpec, Devices};
use fsdyno_host::Host;
use fsdyno_testbed::{Testbed, TestbedError, UndoJournal};
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices that passed the guards, and the journal of what is done to them.
pub(crate) struct ScratchDevices<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    /// The configurations that are to be built on them.
    configurations: Vec<Configuration>,
    pub testbed: Testbed,
    pub devices: Devices,
    pub journal: UndoJournal,
    /// The preparations for trials that do not begin with a filesystem of their own.
    pub preparations: Option<Preparations>,
    /// That of the images that are kept from trial to trial, once they are made.
    kept: Option<UndoJournal>,
    /// Journals of trials that could not be taken down completely.
    stuck: Vec<UndoJournal>,
    /// Why no trial can begin any more: what is left on a device that has no substitute.
    pub blocked: Option<Vec<String>>,
}

impl<'a> ScratchDevices<'a> {
    /// The devices of the plan, where the guards let them pass.
    pub fn new(
        plan: &'a Plan,
        host: &mut dyn Host,
        options: &'a RunOptions<'a>,
        configurations: Vec<Configuration>,
    ) -> Result<Self, SweepError> {
        let devices = plan.devices.clone();
        let mut refusals = short_of_room(host, plan);
        refusals.extend(filled::refused(host, plan));
        refusals.extend(refused_log_directory(plan));
        if !refusals.is_empty() {
            return Err(TestbedError::Refused { refusals }.into());
        }
        Ok(ScratchDevices {
            testbed: verify(plan, host, options, &devices, &configurations)?,
            journal: UndoJournal::create(host, options.state_dir)?,
            preparations: preparations(plan, host, options)?,
            kept: None,
            plan,
            options,
            configurations,
            devices,
            stuck: Vec::new(),
            blocked: None,
        })
    }

    /// Makes the images that are kept from trial to trial, before the first that needs them; `false` if it
    /// was interrupted. `on_progress` learns the share that is written.
    pub fn write_images(
        &mut self,
        host: &mut dyn Host,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<bool, SweepError> {
        if self.kept.is_some() || !self.testbed.keeps_images() {
            return Ok(true);
        }
        let journal = self.kept.insert(UndoJournal::create(host, self.options.state_dir)?);
        Ok(self.testbed.write_kept_images(host, journal, self.options.interrupt, on_progress)?)
    }

    /// Removes what was prepared for trials that have run, if none of these needs it. Returns what is left.
    pub fn keep_for(&mut self, host: &mut dyn Host, slots: &[Slot], cases: &[Case]) -> Vec<String> {
        self.preparations.as_mut().map_or_else(Vec::new, |all| all.keep_for(host, slots, cases))
    }

    /// Fails if the journal is no longer where `restore` would find it.
    pub fn verify_journal(&self) -> Result<(), TestbedError> {
        self.journal.verify_in_place()
    }

    /// After a trial that left something behind: a new journal, and images of other names.
    pub fn step_aside(&mut self, host: &mut dyn Host, left: &[String]) -> Result<(), SweepError> {
        let fresh = UndoJournal::create(host, self.options.state_dir)?;
        self.stuck.push(std::mem::replace(&mut self.journal, fresh));
        self.stuck.extend(self.kept.take());
        // Copies would have the names of images that are stuck.
        self.stuck.extend(self.preparations.take().map(Preparations::into_journal));
        let Some(devices) = substitute(&self.plan.devices, self.stuck.len()) else {
            self.blocked = Some(left.to_vec());
            return Ok(());
        };
        if self.options.interrupt.load(Ordering::Relaxed) {
            // There is no next trial.
            return Ok(());
        }
        match verify(self.plan, host, self.options, &devices, &self.configurations) {
            Ok(testbed) => {
                self.preparations = preparations(self.plan, host, self.options)?;
                self.testbed = testbed;
                self.devices = devices;
            }
            // For example, no space for another image: the sweep continues and reports this for each
            // remaining trial.
            Err(error) => self.blocked = Some([left, &[error.to_string()]].concat()),
        }
        Ok(())
    }

    /// Tries once more to take down what was stuck, unless the user no longer wants to wait, and gives up the
    /// journals. Returns what is left.
    pub fn leave(self, host: &mut dyn Host, hurry: &AtomicBool) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(preparations) = self.preparations {
            // Nothing uses these files, so that nobody waits for them.
            let mut journal = preparations.into_journal();
            left.extend(journal.undo_all(host).left);
            left.extend(journal.close().err().map(|error| error.failure().message));
        }
        for mut journal in self.stuck.into_iter().chain(self.kept) {
            match hurry.load(Ordering::Relaxed) {
                true => left.extend(journal.waiting()),
                false => left.extend(journal.undo_all(host).left),
            }
            left.extend(journal.close().err().map(|error| error.failure().message));
        }
        left.extend(self.journal.close().err().map(|error| error.failure().message));
        left
    }
}

/// Where filesystems are prepared once for several trials, if the plan wants that.
fn preparations(
    plan: &Plan,
    host: &mut dyn Host,
    options: &RunOptions<'_>,
) -> Result<Option<Preparations>, TestbedError> {
    let reuses = plan.rules.reuse == Reuse::Prepared;
    reuses.then(|| Preparations::new(host, options.state_dir)).transpose()
}

/// All guards.
fn verify(
    plan: &Plan,
    host: &mut dyn Host,
    options: &RunOptions<'_>,
    devices: &Devices,
    configurations: &[Configuration],
) -> Result<Testbed, TestbedError> {
    Testbed::verify(host, devices, configurations, least_space(plan), options.confirmation)
}

/// The same devices with images of other names; `None` if a block device or a directory has no substitute.
fn substitute(devices: &Devices, generation: usize) -> Option<Devices> {
    let other = |disk: &DeviceSpec| match disk {
        DeviceSpec::Image(image) => Ok(DeviceSpec::Image(image.named_after(&format!(".{generation}")))),
        _ => Err(()),
    };
    let renamed = |spec: &DeviceSpec| spec.on_other_disks(&mut { other }).ok();
    let journals = devices.journals.iter().map(|(name, spec)| Some((name.clone(), renamed(spec)?)));
    Some(Devices { data: renamed(&devices.data)?, journals: journals.collect::<Option<_>>()? })
}
