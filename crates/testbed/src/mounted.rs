//! A filesystem in use ([`Mounted`]), and one that can be checked ([`Unmounted`]).

use crate::error::TestbedError;
use crate::filesystem::{Filesystem, Targets};
use crate::mounting::mount_again;
use crate::trial::{Location, Trial};
use crate::undo::UndoJournal;
use crate::{Result, carriers, device, environment};
use fsdyno_core::result::{Built, CheckResult, Lifecycle, Recipe};
use fsdyno_core::{Environment, Nanos, Warning, WarningKind};
use fsdyno_host::{Command, Host};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A filesystem that the engine may use.
#[derive(Debug)]
pub struct Mounted {
    trial: Trial,
    directory: PathBuf,
    /// Where it is mounted; absent if a directory is used as it is.
    target: Option<PathBuf>,
}

/// A filesystem that was in use.
#[derive(Debug)]
pub struct Unmounted(Mounted);

impl Mounted {
    pub(crate) fn new(trial: Trial, directory: PathBuf, target: Option<PathBuf>) -> Self {
        Mounted { trial, directory, target }
    }

    /// Returns whether the filesystem can be unmounted: not if a directory is used as it is.
    pub fn can_be_remounted(&self) -> bool {
        self.target.is_some()
    }

    /// Where the engine works.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Commands that were run, and what is in force because of them.
    pub fn built(&self) -> &Built {
        &self.trial.built
    }

    /// The recipe for building the same on another device; `None` for a directory that was there before.
    pub fn recipe(&self) -> Option<&Recipe> {
        self.trial.recipe.as_ref()
    }

    /// Returns the time that mkfs and mount took.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.trial.lifecycle
    }

    /// Settings that are not in force, and settings that weaken what survives a power cut; after mounting
    /// again, what that changed.
    pub fn warnings(&self) -> &[Warning] {
        &self.trial.warnings
    }

    /// The machine and the devices as they are now. A fact that the machine does not report is absent.
    pub fn environment(&self, host: &mut dyn Host) -> Environment {
        environment::capture(host, &self.trial, &self.directory)
    }

    /// The node of the device with the filesystem; `None` for a directory that is used as it is.
    pub fn device(&self) -> Option<PathBuf> {
        match &self.trial.location {
            Location::Volume(volume) => Some(volume.targets().data.node),
            Location::Directory(_) => None,
        }
    }

    /// The kernel's names of the block devices that carry it, beginning with the one with the filesystem,
    /// down to the disks.
    pub fn carriers(&self, host: &mut dyn Host) -> Vec<String> {
        carriers::carriers(host, &self.trial, &self.directory)
    }

    /// The kernel's names of the devices that only the trial uses: not the disk that holds an image.
    pub fn own_devices(&self, host: &mut dyn Host) -> Vec<String> {
        carriers::own(host, &self.trial, &self.directory)
    }

    /// A warning if an external journal is on the same disk as the data.
    pub fn shared_journal(&self, host: &mut dyn Host) -> Option<Warning> {
        let disk = carriers::shared_with_journal(host, &self.trial)?;
        let text = format!("the journal and the data are both on '{disk}'");
        Some(Warning::new(WarningKind::JournalOnSameDisk, text))
    }

    /// Unmounts what the trial goes on with, as a machine that shuts down; [`Mounted::come_back`] must
    /// follow.
    ///
    /// # Errors
    /// [`TestbedError::Host`], with EBUSY while something still uses the filesystem.
    pub fn go_away(&mut self, host: &mut dyn Host) -> Result<()> {
        match &self.target {
            Some(target) => host.unmount(target).map_err(TestbedError::at("umount")),
            None => Ok(()),
        }
    }

    /// Mounts it again after [`Mounted::go_away`].
    ///
    /// # Errors
    /// As for the first mount.
    pub fn come_back(&mut self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<()> {
        match self.trial.location.clone() {
            Location::Volume(volume) => mount_again(&mut self.trial, host, journal, &volume),
            Location::Directory(_) => Ok(()),
        }
    }

    /// Unmounts; if a directory was used as it is, syncs its filesystem. Everything else is taken down by
    /// undoing the journal.
    ///
    /// # Errors
    /// [`TestbedError::Host`], with EBUSY while something still uses the filesystem.
    pub fn unmount(mut self, host: &mut dyn Host, _journal: &mut UndoJournal) -> Result<Unmounted> {
        if !self.can_be_remounted() {
            let sync = Command::new("sync").args(["-f", &self.directory.to_string_lossy()]);
            host.run(&sync).map_err(TestbedError::at("umount"))?;
        }
        self.go_away(host)?;
        Ok(Unmounted(self))
    }
}

impl Unmounted {
    /// Returns whether the devices of the filesystem are free. Another mount namespace that was created
    /// meanwhile may still have the filesystem mounted (mount_namespaces(7)); unmounting it here then writes
    /// nothing back and empties no cache.
    ///
    /// # Errors
    /// [`TestbedError::Host`] if a device cannot be opened again.
    pub fn is_released(&self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<bool> {
        let Location::Volume(volume) = &self.0.trial.location else { return Ok(true) };
        let handles = volume.open_again(host, journal, "umount")?;
        let mut released = true;
        for handle in handles {
            released &= device::is_free(host, handle, "umount")?;
            journal.close_device(host, handle).map_err(TestbedError::at("umount"))?;
        }
        if let Some(command) = volume.filesystem.forget(&volume.targets()).filter(|_| released) {
            // If this fails and matters, the next mount fails and says so.
            let _ = host.run(&command);
        }
        Ok(released)
    }

    /// Mounts it again, in the same place and way, and reads back what is in force; a directory that was used
    /// as it is stays as it is. The undo action has been in the journal since it was first mounted.
    ///
    /// # Errors
    /// As for the first mount.
    pub fn mount_again(self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<Mounted> {
        let Unmounted(mut mounted) = self;
        mounted.come_back(host, journal)?;
        Ok(mounted)
    }

    /// Replays the journal, as the boot of a machine does, if the kernel does not do so when it mounts.
    ///
    /// # Errors
    /// [`TestbedError::Host`] if a device cannot be opened again, or the program cannot be run.
    pub fn replay(&self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<()> {
        let Location::Volume(volume) = &self.0.trial.location else { return Ok(()) };
        if volume.filesystem.replay(&volume.targets()).is_none() {
            return Ok(());
        }
        let (targets, handles) = volume.targets_again(host, journal, "replay")?;
        if let Some(command) = volume.filesystem.replay(&targets) {
            host.run(&command).map_err(TestbedError::at("replay"))?;
        }
        for handle in handles {
            journal.close_device(host, handle).map_err(TestbedError::at("replay"))?;
        }
        Ok(())
    }

    /// Checks the filesystem without changing anything; `None` for a directory that was used as it is, and
    /// for a filesystem that has no check.
    ///
    /// # Errors
    /// [`TestbedError::Tool`] if the check itself failed.
    pub fn check(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
    ) -> Result<Option<(CheckResult, Nanos)>> {
        self.check_by(host, journal, |filesystem, targets| filesystem.check(targets))
    }

    /// The same for one of many small disks ([`Filesystem::check_small`]).
    ///
    /// # Errors
    /// Those of [`Unmounted::check`].
    pub fn check_small(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
    ) -> Result<Option<(CheckResult, Nanos)>> {
        self.check_by(host, journal, |filesystem, targets| filesystem.check_small(targets))
    }

    fn check_by(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        command_of: impl Fn(&dyn Filesystem, &Targets) -> Option<Command>,
    ) -> Result<Option<(CheckResult, Nanos)>> {
        let Location::Volume(volume) = &self.0.trial.location else { return Ok(None) };
        if command_of(volume.filesystem, &volume.targets()).is_none() {
            return Ok(None);
        }
        let at = || TestbedError::at("check");
        let (targets, handles) = volume.targets_again(host, journal, "check")?;
        let Some(command) = command_of(volume.filesystem, &targets) else { return Ok(None) };
        // Waiting for udev, which looks at a device when it is closed, is no part of it.
        let begin = Instant::now();
        let output = host.run(&command.clone().reading_only()).map_err(at())?;
        let took = begin.elapsed().into();
        for handle in handles {
            journal.close_device(host, handle).map_err(at())?;
        }
        let said = [output.stdout.trim(), output.stderr.trim()].join("\n").trim().to_string();
        match volume.filesystem.clean(&output) {
            Some(clean) => Ok(Some((CheckResult { command: command.line(), clean, output: said }, took))),
            None => Err(TestbedError::Tool {
                step: "check",
                command: command.line(),
                status: output.status,
                output: said,
            }),
        }
    }
}
