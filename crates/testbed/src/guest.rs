//! What a guest must have for a configuration, and what the configuration is like from within.
//!
//! Images become disks of the guest; there they are block devices like any other, with the same guards, the same locks and
//! the same steps. Of all that a trial does, only the images are left to undo on this machine when the guest is gone.

use crate::filesystem::{self, Tool};
use crate::foresight::journal_spec;
use crate::guard::Confirmation;
use crate::stack::make_images;
use crate::{Result, UndoJournal};
use fsdyno_core::{Configuration, DeviceSpec, Devices};
use fsdyno_host::Host;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The images that a configuration uses, the one with the filesystem first.
pub fn images<'a>(configuration: &Configuration, devices: &'a Devices) -> Vec<&'a DeviceSpec> {
    let journal = journal_spec(configuration, devices).ok().flatten();
    std::iter::once(&devices.data).chain(journal).collect()
}

/// Makes these images, which a guest will have as its disks.
///
/// # Errors
/// [`crate::TestbedError::Refused`] when something stands in the place of one by now.
pub fn make(host: &mut dyn Host, journal: &mut UndoJournal, images: &[&DeviceSpec]) -> Result<()> {
    make_images(host, journal, images, None)
}

/// A configuration and its devices, as they are in a guest whose disks are the images of [`images`] in their order.
pub fn within(
    configuration: &Configuration,
    devices: &Devices,
    disks: &[PathBuf],
) -> (Configuration, Devices) {
    let block = |index: usize| DeviceSpec::Block {
        path: disks.get(index).cloned().unwrap_or_default(),
        identity: None,
    };
    let journals = match configuration.external_journal() {
        None => BTreeMap::new(),
        Some(Some(name)) => BTreeMap::from([(name.to_string(), block(1))]),
        Some(None) => devices.journals.keys().map(|name| (name.clone(), block(1))).collect(),
    };
    let mut configuration = configuration.clone();
    configuration.settings.remove("kernel");
    (configuration, Devices { data: block(0), journals })
}

/// What a user who asked for a guest has confirmed for its disks: they are new, and nobody else's.
pub fn confirmation(disks: &[PathBuf]) -> Confirmation {
    Confirmation { destroy: disks.to_vec(), signatures: Vec::new() }
}

/// What the kernel must be able to do for a configuration, by the names of its modules.
pub fn modules(configuration: &Configuration) -> Vec<String> {
    let filesystem = match configuration.filesystem.as_str() {
        // One driver serves all three (CONFIG_EXT4_USE_FOR_EXT2).
        "ext2" | "ext3" => "ext4",
        name => name,
    };
    let scheduler = match configuration.level("scheduler") {
        None | Some("none") => None,
        Some("kyber") => Some("kyber-iosched"),
        Some(name) => Some(name),
    };
    std::iter::once(filesystem).chain(scheduler).map(str::to_string).collect()
}

/// The programs that a configuration takes.
pub fn programs(configuration: &Configuration) -> &'static [Tool] {
    filesystem::find(&configuration.filesystem).map_or(&[], |filesystem| filesystem.tools())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;

    fn image(path: &str) -> DeviceSpec {
        DeviceSpec::Image { path: path.into(), size: Bytes(Bytes::GIB), direct_io: true }
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
        let block = |path: &str| DeviceSpec::Block { path: path.into(), identity: None };
        assert_eq!(devices.data, block("/dev/vda"));
        assert_eq!(devices.journals, BTreeMap::from([("memory".to_string(), block("/dev/vdb"))]));
        assert!(crate::contradictions(&configuration, &devices).is_empty());
    }

    #[test]
    fn the_modules_are_those_of_the_filesystem_and_the_scheduler() {
        assert_eq!(modules(&configuration(&[("scheduler", "kyber")])), ["ext4", "kyber-iosched"]);
        assert_eq!(modules(&configuration(&[("scheduler", "none")])), ["ext4"]);
    }
}
