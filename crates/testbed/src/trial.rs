//! The data that every state of a trial carries along: its configuration, and the place where it runs.

use crate::Result;
use crate::device::{self, Device};
use crate::error::TestbedError;
use crate::filesystem::{Filesystem, Targets};
use crate::guard::Testbed;
use crate::undo::UndoJournal;
use fsdyno_core::result::{Built, Lifecycle, Recipe};
use fsdyno_core::{Bytes, Configuration, Warning};
use fsdyno_host::{DeviceHandle, Host};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes per second of a slow disk.
pub(crate) const SLOW_RATE: u64 = 10_000_000;
/// The most time that mkfs may take in addition to writing.
const MKFS_BASE: Duration = Duration::from_secs(30);
const MKFS_MOST: Duration = Duration::from_secs(3600);

/// The place where a trial runs.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// An existing directory.
    Directory(PathBuf),
    /// Devices to create a filesystem on.
    Volume(Box<Volume>),
}

/// A filesystem and its devices.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub filesystem: &'static dyn Filesystem,
    pub data: Device,
    /// The other devices over which it spreads.
    pub others: Vec<Device>,
    pub journal: Option<Device>,
}

impl Volume {
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.data).chain(&self.others).chain(&self.journal)
    }

    /// The longest that mkfs may take: the time to write all of its slow devices, which no mkfs does. It may
    /// hang although its own device is fine: mkfs.btrfs reads every device of the machine to check that a
    /// UUID is new.
    pub(crate) fn mkfs_limit(&self) -> Duration {
        let bytes = self.devices().map(|device| device.identity.size_bytes);
        let writing = Duration::from_secs(bytes.fold(0, u64::saturating_add) / SLOW_RATE);
        MKFS_BASE.saturating_add(writing).min(MKFS_MOST)
    }

    /// Opens, locks and verifies the devices again, after they were closed for a mount.
    pub(crate) fn open_again(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        step: &'static str,
    ) -> Result<Vec<DeviceHandle>> {
        self.devices()
            .map(|device| device::open_patiently(host, journal, &device.target.node, &device.identity, step))
            .collect()
    }

    /// The devices by descriptors that were opened again, and these.
    pub(crate) fn targets_again(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        step: &'static str,
    ) -> Result<(Targets, Vec<DeviceHandle>)> {
        let handles = self.open_again(host, journal, step)?;
        let mut targets = self.targets();
        let Targets { data, others, journal, .. } = &mut targets;
        for (target, handle) in std::iter::once(data).chain(others).chain(journal).zip(&handles) {
            target.handle = *handle;
        }
        Ok((targets, handles))
    }

    pub(crate) fn targets(&self) -> Targets {
        Targets {
            size: Some(Bytes(self.data.identity.size_bytes)),
            sector: self.devices().map(|device| device.sector).max(),
            data: self.data.target.clone(),
            others: self.others.iter().map(|device| device.target.clone()).collect(),
            journal: self.journal.as_ref().map(|device| device.target.clone()),
            keeps_blocks: self.devices().any(|device| device.spec.is_filled_before()),
        }
    }
}

/// The data that every state of a trial carries along.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub testbed: Testbed,
    pub configuration: Configuration,
    pub seed: u64,
    pub location: Location,
    /// Where it will be mounted: a new directory of a random name.
    pub target: PathBuf,
    pub built: Built,
    pub recipe: Option<Recipe>,
    /// Duration of mkfs and mount alone.
    pub lifecycle: Lifecycle,
    pub warnings: Vec<Warning>,
}

impl Trial {
    /// The geometry of a configuration is determined once per sweep, because it costs a process.
    pub(crate) fn remember_geometry(
        &self,
        host: &mut dyn Host,
        volume: &Volume,
        targets: &Targets,
        said: String,
    ) -> Result<()> {
        let key = self.geometry_key();
        if self.testbed.knowledge().geometry.contains_key(&key) {
            return Ok(());
        }
        let text = match volume.filesystem.geometry(targets) {
            Some(command) => host.run(&command.reading_only()).map_err(TestbedError::at("mkfs"))?.stdout,
            None => said,
        };
        self.testbed.knowledge().geometry.insert(key, text.trim().to_string());
        Ok(())
    }

    /// The geometry is that of a filesystem that was created for another configuration.
    pub(crate) fn adopt_geometry(&self, created_for: &Configuration) {
        let mut knowledge = self.testbed.knowledge();
        if let Some(known) = knowledge.geometry.get(&geometry_key(created_for)).cloned() {
            knowledge.geometry.entry(self.geometry_key()).or_insert(known);
        }
    }

    pub(crate) fn geometry_key(&self) -> String {
        geometry_key(&self.configuration)
    }
}

fn geometry_key(configuration: &Configuration) -> String {
    format!("{} {:?}", configuration.filesystem, configuration.settings)
}
