//! The requirements of a configuration on a guest, and the form of the configuration inside it.
//!
//! Images become disks of the guest; there they are block devices like any other, with the same guards, locks
//! and steps. Once the guest is gone, only the images are left to undo on the host.

use crate::capability::kernel_elsewhere;
use crate::device::make_images;
use crate::error::TestbedError;
use crate::filesystem;
use crate::foresight::{DiskQueues, commands_on};
use crate::guard::Confirmation;
use crate::image::MadeImage;
use crate::layer::{self, Layer};
pub use crate::spec::images;
use crate::spec::journal_spec;
use crate::tunable;
use crate::{Result, UndoJournal};
use fsdyno_core::Tool;
use fsdyno_core::{Configuration, DeviceSpec, Devices, scheduler};
use fsdyno_host::Host;
use fsdyno_host::guest::GuestModule;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Creates these images, which a guest will have as its disks, and returns their descriptors.
///
/// # Errors
/// [`crate::TestbedError::Refused`] if something has appeared at the path of one.
pub fn make(host: &mut dyn Host, journal: &mut UndoJournal, images: &[&DeviceSpec]) -> Result<Vec<OwnedFd>> {
    let images = make_images(host, journal, images, None, &[])?;
    let mut give = |image: &MadeImage| -> Result<OwnedFd> {
        let descriptor =
            host.image_descriptor(image.handle, &image.identity).map_err(TestbedError::at("image"))?;
        journal.close_image(host, image.handle).map_err(TestbedError::at("image"))?;
        Ok(descriptor)
    };
    images.iter().map(&mut give).collect()
}

/// A configuration and its devices, as they are in a guest whose disks are the images of [`images`] in their
/// order.
pub fn within(
    configuration: &Configuration,
    devices: &Devices,
    disks: &[PathBuf],
) -> (Configuration, Devices) {
    let mut disks = disks.iter();
    let mut block = |_: &DeviceSpec| -> std::result::Result<DeviceSpec, Infallible> {
        Ok(DeviceSpec::block(disks.next().cloned().unwrap_or_default()))
    };
    let mut inside = |spec: &DeviceSpec| match spec.on_other_disks(&mut block) {
        Ok(spec) => spec,
    };
    let data = inside(&devices.data);
    let journal = journal_spec(configuration, devices).ok().flatten();
    let journal = journal.map(&mut inside);
    let names = || devices.journals.keys().cloned();
    let journals = match (configuration.external_journal(), journal) {
        (Some(Some(name)), Some(journal)) => BTreeMap::from([(name.to_string(), journal)]),
        (Some(None), Some(journal)) => names().map(|name| (name, journal.clone())).collect(),
        _ => BTreeMap::new(),
    };
    let mut configuration = configuration.clone();
    configuration.settings.remove("kernel");
    (configuration, Devices { data, journals })
}

/// The commands of a trial in such a guest, for a dry run; `while_mounted` are those between mounting and
/// unmounting.
pub fn commands(
    configuration: &Configuration,
    devices: &Devices,
    disks: &[PathBuf],
    seed: u64,
    while_mounted: &[String],
) -> Vec<String> {
    let (configuration, devices) = within(configuration, devices, disks);
    // Every disk is whole there.
    commands_on(&configuration, &devices, seed, &DiskQueues::new(), Some(while_mounted))
}

/// Returns the confirmations of a user who requested a guest: its disks are new and nobody else's; its
/// settings have passed the guards of the sweep.
pub fn confirmation(configuration: &Configuration, disks: &[PathBuf]) -> Confirmation {
    let sysctls = tunable::sysctl_keys(configuration).map(str::to_string).collect();
    Confirmation { destroy: disks.to_vec(), sysctls, ..Confirmation::default() }
}

/// Returns the features that the kernel must support for a configuration, as module names.
pub fn modules(configuration: &Configuration, devices: &Devices) -> Vec<GuestModule> {
    let filesystem = filesystem::find(&configuration.filesystem).map(|filesystem| GuestModule {
        name: filesystem.descriptor().module.to_string(),
        hint: Some(kernel_elsewhere(filesystem)),
    });
    let scheduler = configuration.level("scheduler").and_then(scheduler::module);
    let layers = layers(configuration, devices).into_iter().flat_map(|layer| layer.modules());
    let others = scheduler.into_iter().chain(layers).map(GuestModule::from);
    filesystem.into_iter().chain(others).collect()
}

/// The programs that a configuration takes.
pub fn programs(configuration: &Configuration, devices: &Devices) -> Vec<Tool> {
    let filesystem = filesystem::find(&configuration.filesystem)
        .map_or(&[][..], |filesystem| filesystem.descriptor().tools);
    let layers = layers(configuration, devices).into_iter().flat_map(|layer| layer.tools());
    filesystem.iter().chain(layers).copied().collect()
}

/// The layers of the devices that a configuration uses.
fn layers<'a>(configuration: &Configuration, devices: &'a Devices) -> Vec<&'a dyn Layer> {
    let journal = journal_spec(configuration, devices).ok().flatten();
    std::iter::once(&devices.data).chain(journal).flat_map(layer::all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use fsdyno_core::device::{Bitmap, Delay, Delayed, Md, RaidLevel};

    fn image(path: &str) -> DeviceSpec {
        DeviceSpec::image(path, Bytes(Bytes::GIB))
    }

    fn configuration(settings: &[(&str, &str)]) -> Configuration {
        let pairs = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string()));
        Configuration { name: String::new(), filesystem: "ext3".to_string(), settings: pairs.collect() }
    }

    #[test]
    fn only_the_journal_that_is_used_becomes_a_disk() {
        let journals = ["disk", "memory"].map(|name| (name.to_string(), image(&format!("/{name}"))));
        let devices = Devices { data: image("/data"), journals: journals.into() };
        let inside = configuration(&[("kernel", "debian:6.1"), ("journal", "external:memory")]);
        let used: Vec<_> = images(&inside, &devices).iter().map(|spec| spec.path().to_path_buf()).collect();
        assert_eq!(used, [PathBuf::from("/data"), PathBuf::from("/memory")]);
        let disks = [PathBuf::from("/dev/vda"), PathBuf::from("/dev/vdb")];
        let (configuration, devices) = within(&inside, &devices, &disks);
        assert_eq!(configuration.guest_kernel(), None);
        let block = |path: &str| DeviceSpec::block(path);
        assert_eq!(devices.data, block("/dev/vda"));
        assert_eq!(devices.journals, BTreeMap::from([("memory".to_string(), block("/dev/vdb"))]));
        assert!(crate::contradictions(&configuration, &devices).is_empty());
    }

    #[test]
    fn the_modules_are_those_of_the_filesystem_and_the_scheduler() {
        let devices = Devices { data: image("/data"), journals: BTreeMap::new() };
        assert_eq!(names(&configuration(&[("scheduler", "kyber")]), &devices), ["ext4", "kyber-iosched"]);
        assert_eq!(names(&configuration(&[("scheduler", "none")]), &devices), ["ext4"]);
        let ntfs = Configuration { filesystem: "ntfs".to_string(), ..configuration(&[]) };
        let [module] = &modules(&ntfs, &devices)[..] else { panic!("one module") };
        assert_eq!(module.name, "ntfs3");
        assert_eq!(module.hint.as_deref(), Some("supported by kernel = \"debian:6.12\""));
    }

    fn names(configuration: &Configuration, devices: &Devices) -> Vec<String> {
        modules(configuration, devices).into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn a_stack_brings_its_modules_and_programs_and_all_its_disks() {
        let slow = |path| {
            let disk = Box::new(image(path));
            DeviceSpec::Delayed(Delayed { delay: Delay::default(), disk })
        };
        let disks = vec![image("/a"), slow("/b"), image("/c")];
        let data = DeviceSpec::Md(Md { level: RaidLevel::Raid5, chunk: None, bitmap: Bitmap::None, disks });
        let devices = Devices { data, journals: [("log".to_string(), slow("/log"))].into() };
        let configuration = configuration(&[("journal", "external")]);
        let used: Vec<_> =
            images(&configuration, &devices).iter().map(|spec| spec.path().to_path_buf()).collect();
        assert_eq!(used, ["/a", "/b", "/c", "/log"].map(PathBuf::from));
        assert_eq!(names(&configuration, &devices)[..4], ["ext4", "raid456", "dm-mod", "dm-delay"]);
        let programs = programs(&configuration, &devices);
        assert!(["mdadm", "dmsetup"].iter().all(|name| programs.iter().any(|tool| tool.program == *name)));
        let nodes = ["/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd"].map(PathBuf::from);
        let (_, inside) = within(&configuration, &devices, &nodes);
        let paths = |spec: &DeviceSpec| -> Vec<PathBuf> {
            spec.disks().iter().map(|disk| disk.path().to_path_buf()).collect()
        };
        assert_eq!(paths(&inside.data), nodes[..3]);
        assert_eq!(paths(&inside.journals["log"]), nodes[3..]);
        assert_eq!(inside.data.layers().len(), 2);
    }
}
