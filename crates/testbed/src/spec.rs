//! Which of a plan's devices a configuration uses.

use fsdyno_core::{Configuration, DeviceSpec, Devices};

/// The device that the external journal goes to.
pub(crate) fn journal_spec<'a>(
    configuration: &Configuration,
    devices: &'a Devices,
) -> Result<Option<&'a DeviceSpec>, String> {
    let Some(name) = configuration.external_journal() else { return Ok(None) };
    let known = || devices.journals.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => devices.journals.get(name).map(Some).ok_or_else(|| {
            format!("journal = external:{name} is not in [device.journals], which defines: {}", known())
        }),
        None if devices.journals.len() == 1 => Ok(devices.journals.values().next()),
        None if devices.journals.is_empty() => {
            Err("journal = external needs a device in [device.journals]".to_string())
        }
        None => Err(format!("journal = external is ambiguous; write external:NAME with one of: {}", known())),
    }
}

/// The images that a configuration uses, those of the filesystem first.
pub fn images<'a>(configuration: &Configuration, devices: &'a Devices) -> Vec<&'a DeviceSpec> {
    let journal = journal_spec(configuration, devices).ok().flatten();
    std::iter::once(&devices.data).chain(journal).flat_map(DeviceSpec::disks).collect()
}
