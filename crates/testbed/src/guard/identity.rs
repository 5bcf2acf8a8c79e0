//! The identity of a device as text: what `fsdyno plan` prints and a plan pins.

use fsdyno_host::probe::DeviceIdentity;

/// The identity of a device as `fsdyno plan` prints it and `[device] identity` pins it: its serial number where it has one,
/// else the kernel's sequence number, which holds until the device is attached again; and its size.
pub fn identity_text(identity: &DeviceIdentity) -> String {
    let who = match (&identity.serial, identity.diskseq) {
        (Some(serial), _) => format!("serial={serial}"),
        (None, Some(diskseq)) => format!("diskseq={diskseq}"),
        (None, None) => format!("number={}:{}", identity.number.0, identity.number.1),
    };
    format!("{who},size={}", identity.size_bytes)
}

/// What differs between the identity that a plan pins and that of the device.
pub(super) fn pin_differences(pinned: &str, identity: &DeviceIdentity) -> Vec<String> {
    let differ = |part: &str| {
        let Some((key, pinned)) = part.split_once('=') else {
            return Some(format!("'{part}' is no key=value; the keys are serial, diskseq, number and size"));
        };
        let found = match key.trim() {
            "serial" => identity.serial.clone(),
            "diskseq" => identity.diskseq.map(|diskseq| diskseq.to_string()),
            "number" => Some(format!("{}:{}", identity.number.0, identity.number.1)),
            "size" => Some(identity.size_bytes.to_string()),
            key => return Some(format!("'{key}' is no key; they are serial, diskseq, number and size")),
        };
        let found = found.unwrap_or("none".to_string());
        (found != pinned.trim()).then(|| format!("{} is {found}, the plan has {}", key.trim(), pinned.trim()))
    };
    // A serial number may itself hold a comma; a size never does, and it stands last.
    let (rest, size) = match pinned.rsplit_once(",size=") {
        Some((rest, size)) => (rest, Some(format!("size={size}"))),
        None => (pinned, None),
    };
    [Some(rest.to_string()), size].into_iter().flatten().filter_map(|part| differ(part.trim())).collect()
}
