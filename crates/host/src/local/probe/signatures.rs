//! Known signatures on a device, as `wipefs` of util-linux reports them: filesystems, members of arrays and
//! volume groups, encryption, swap, partition tables; all that are present, not only the most likely one.
//! Details that wipefs omits, but a person needs to know what would be lost, are read from the device itself.

use super::content;
use crate::local::command;
use crate::local::device::MARK;
use crate::probe::{SCRATCH_MARK, Signature, UNKNOWN_DATA};
use crate::{Command, DeviceHandle};
use serde::Deserialize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Reading a few blocks; a device that takes longer is broken.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the signatures that show that a device of this size contains something, each once; otherwise the
/// reason why this is unknown.
pub(super) fn read(device: &Arc<OwnedFd>, size: u64) -> Result<Vec<Signature>, String> {
    let mut found = known(device)?;
    let bytes = content::Bytes::of(device.as_fd());
    for signature in &mut found {
        bytes.add_details(signature)?;
    }
    if bytes.at(0, MARK.len())? == MARK {
        found.push(Signature::new(SCRATCH_MARK));
    }
    if found.is_empty()
        && let Some(offset) = bytes.first_data(size)?
    {
        found.push(Signature { offset, ..Signature::new(UNKNOWN_DATA) });
    }
    Ok(found)
}

fn known(device: &Arc<OwnedFd>) -> Result<Vec<Signature>, String> {
    let handle = DeviceHandle(0);
    // Without `--all` wipefs opens the device for reading only; `--no-act` is its own option for the same.
    let mut look = Command::new("wipefs")
        .args(["--no-act", "--json"])
        .device("", handle, Path::new("device"))
        .reading_only();
    look.limit = LIMIT;
    let output = command::run(&look, &[(handle, Arc::clone(device))]).map_err(|error| error.to_string())?;
    match output.status {
        0 => parse(&output.stdout).map_err(|error| format!("the output of wipefs is not valid: {error}")),
        status => Err(format!("wipefs ended with status {status}: {}", output.stderr.trim_end())),
    }
}

#[derive(Deserialize)]
struct Report {
    signatures: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    offset: String,
    uuid: Option<String>,
    label: Option<String>,
}

/// Signatures that exist in several places, as those of vfat and GPT do, are reported once.
fn parse(text: &str) -> serde_json::Result<Vec<Signature>> {
    if text.trim().is_empty() {
        return Ok(Vec::new()); // releases that print nothing where they found nothing
    }
    let mut found: Vec<Signature> = Vec::new();
    for line in serde_json::from_str::<Report>(text)?.signatures {
        let Line { r#type: kind, offset, uuid, label } = line;
        let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16).unwrap_or(0);
        let named = |text: Option<String>| text.filter(|text| !text.is_empty());
        let new = Signature { kind, offset, uuid: named(uuid), label: named(label), last_mount: None };
        let same = |other: &Signature| {
            (&other.kind, &other.uuid, &other.label) == (&new.kind, &new.uuid, &new.label)
        };
        if !found.iter().any(same) {
            found.push(new);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_reports() {
        let ext4 = r#"{
   "signatures": [
      {
         "device": "h.img",
         "offset": "0x438",
         "type": "ext4",
         "uuid": "124c21d8-1d18-475f-8d22-575ba5543d62",
         "label": null
      }
   ]
}"#;
        let found = parse(ext4).unwrap();
        assert_eq!((found.len(), found[0].kind.as_str(), found[0].offset), (1, "ext4", 0x438));
        assert_eq!(found[0].uuid.as_deref(), Some("124c21d8-1d18-475f-8d22-575ba5543d62"));
        assert_eq!(found[0].label, None);
        let none = "{\n   \"signatures\": [\n\n   ]\n}\n";
        assert!(parse(none).unwrap().is_empty());
        assert!(parse("").unwrap().is_empty());
        assert!(parse("DEVICE OFFSET TYPE").is_err());
    }

    #[test]
    fn a_signature_in_several_places_is_one() {
        let line = |offset: &str, kind: &str, label: &str| {
            format!(
                r#"{{"device":"x","offset":"{offset}","type":"{kind}","uuid":"4711-0815","label":"{label}"}}"#
            )
        };
        let lines =
            [line("0x52", "vfat", "A"), line("0x0", "vfat", "A"), line("0x1fe", "dos", "A")].join(",");
        let found = parse(&format!(r#"{{"signatures":[{lines}]}}"#)).unwrap();
        let kinds: Vec<_> = found.iter().map(|one| (one.kind.as_str(), one.label.as_deref())).collect();
        assert_eq!(kinds, [("vfat", Some("A")), ("dos", Some("A"))]);
    }
}
