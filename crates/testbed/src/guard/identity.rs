//! The identity of a device as text: what `fsdyno plan` prints and a plan pins.

use fsdyno_host::probe::DeviceIdentity;

const KEYS: &str = "serial, diskseq, number, start and size";

/// The identity of a device as `fsdyno plan` prints it and `[device] identity` pins it: its serial number if
/// it has one, or else the kernel's sequence number, which is valid until the device is attached again; the
/// start of a partition; and its size.
pub fn identity_text(identity: &DeviceIdentity) -> String {
    let who = match (&identity.serial, identity.diskseq) {
        (Some(serial), _) => format!("serial={serial}"),
        (None, Some(diskseq)) => format!("diskseq={diskseq}"),
        (None, None) => format!("number={}:{}", identity.number.0, identity.number.1),
    };
    let start = identity.partition.map(|partition| format!(",start={}", partition.start_bytes));
    format!("{who}{},size={}", start.unwrap_or_default(), identity.size_bytes)
}

/// The differences between the identity that a plan pins and that of the device.
pub(super) fn pin_differences(pinned: &str, identity: &DeviceIdentity) -> Vec<String> {
    let differ = |part: &str| {
        let Some((key, pinned)) = part.split_once('=') else {
            return Some(format!("'{part}' is not of the form KEY=VALUE; the keys are {KEYS}"));
        };
        let found = match key.trim() {
            "serial" => identity.serial.clone(),
            "diskseq" => identity.diskseq.map(|diskseq| diskseq.to_string()),
            "number" => Some(format!("{}:{}", identity.number.0, identity.number.1)),
            "start" => identity.partition.map(|partition| partition.start_bytes.to_string()),
            "size" => Some(identity.size_bytes.to_string()),
            key => return Some(format!("unknown key '{key}'; the keys are {KEYS}")),
        };
        let found = found.unwrap_or("none".to_string());
        (found != pinned.trim())
            .then(|| format!("{} is {found}, but the plan says {}", key.trim(), pinned.trim()))
    };
    // A serial number may contain a comma; start and size never do, and they come last.
    let (rest, size) = split_last(pinned, "size");
    let (rest, start) = split_last(rest, "start");
    let parts = [Some(rest.to_string()), start, size].into_iter().flatten();
    parts.filter_map(|part| differ(part.trim())).collect()
}

/// Splits `,KEY=...` off the end of a text; that part is returned without its comma.
fn split_last<'a>(text: &'a str, key: &str) -> (&'a str, Option<String>) {
    match text.rsplit_once(&format!(",{key}=")) {
        Some((rest, value)) => (rest, Some(format!("{key}={value}"))),
        None => (text, None),
    }
}
