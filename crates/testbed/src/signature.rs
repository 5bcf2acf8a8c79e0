//! Signatures on named disks: wiped before something new is created there, and after a trial if fsdyno
//! created them.
//!
//! A signature is the few bytes by which libblkid recognises a filesystem, a journal or a partition table.
//! wipefs(8) wipes it, and writes nothing else, on the descriptor that was verified. It opens the device
//! exclusively, so it fails if something is using the device by then.
//!
//! The signatures that a trial leaves are recognised by the UUID passed to its mkfs. A signature without that
//! UUID stays, whatever it is.

use crate::Result;
use crate::filesystem::{Filesystem, Target};
use crate::tool::run_to_success;
use crate::way_back::{Label, UndoAction};
use fsdyno_core::DeviceSpec;
use fsdyno_core::device::Block;
use fsdyno_host::probe::{self, SCRATCH_MARK, UNKNOWN_DATA};
use fsdyno_host::{Command, Host, HostError};
use serde::Deserialize;
use std::path::PathBuf;

const EBUSY: i32 = 16;
/// As libblkid names it.
const XFS_LOG: &str = "xfs_external_log";
/// A boot sector ends with the same mark as a DOS partition table. libblkid recognises it as part of vfat and
/// ntfs, but not of exfat (util-linux 2.38).
const BOOT_SECTOR_END: (&str, &str) = ("dos", "0x1fe");
/// blkid(8): it found nothing, or several that exclude each other.
const NO_SINGLE_ANSWER: [i32; 2] = [2, 8];

/// The undo actions for creating a filesystem on the user's disks: what mkfs is going to write on each.
///
/// Inside an array or a volume, its signature is not at a place on a disk where anybody would look.
pub(crate) fn ways_back(
    filesystem: &dyn Filesystem,
    seed: u64,
    data: &DeviceSpec,
    journal: Option<&DeviceSpec>,
) -> Vec<UndoAction> {
    let members = data.members().iter().filter_map(named_disk);
    let on_data = members.map(|disk| (disk, filesystem.identifier(seed, data.path())));
    let on_journal = journal.and_then(|journal| {
        Some((named_disk(journal)?, filesystem.journal_identifier(seed, data.path(), journal.path())?))
    });
    let labels = on_data.chain(on_journal);
    labels.map(|(disk, uuid)| UndoAction::ClearLabel { disk, label: Label::Filesystem { uuid } }).collect()
}

/// The path of a user's disk with nothing on top of it, or only a delay, which leaves every block where it
/// is.
fn named_disk(spec: &DeviceSpec) -> Option<PathBuf> {
    match spec {
        DeviceSpec::Block(Block { path, .. }) => Some(path.clone()),
        DeviceSpec::Delayed(delayed) => named_disk(&delayed.disk),
        _ => None,
    }
}

/// The kinds of signature that wipefs can wipe, each once.
pub(crate) fn known_to_libblkid(signatures: &[probe::Signature]) -> Vec<String> {
    let kinds = signatures.iter().map(|signature| signature.kind.clone());
    let mut kinds: Vec<String> =
        kinds.filter(|kind| ![UNKNOWN_DATA, SCRATCH_MARK].contains(&kind.as_str())).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Wipes all signatures of these kinds; of every kind if none is given.
pub(crate) fn wipe(host: &mut dyn Host, device: &Target, kinds: &[String]) -> Result<()> {
    let mut wipe = Command::new("wipefs").args(["--all", "--quiet"]);
    if !kinds.is_empty() {
        wipe = wipe.args(["--types".to_string(), kinds.join(",")]);
    }
    run_to_success(host, "wipe", &wipe.device("", device.handle, &device.node)).map(drop)
}

/// Wipes what carries this UUID; `false` if nothing does.
pub(crate) fn clear(host: &mut dyn Host, disk: &Target, uuid: &str) -> fsdyno_host::Result<bool> {
    let ours = find(host, disk, uuid)?;
    if ours.is_empty() {
        return Ok(false);
    }
    let offsets = ours.iter().flat_map(|offset| ["--offset", offset]);
    let wipe = Command::new("wipefs").args(["--quiet"]).args(offsets);
    succeed(host, &wipe.device("", disk.handle, &disk.node), disk)?;
    Ok(true)
}

/// Returns whether a device carries this UUID, as it does after an mkfs that was given it.
pub(crate) fn bears(host: &mut dyn Host, device: &Target, uuid: &str) -> fsdyno_host::Result<bool> {
    Ok(!find(host, device, uuid)?.is_empty())
}

/// Where signatures with this UUID are.
fn find(host: &mut dyn Host, disk: &Target, uuid: &str) -> fsdyno_host::Result<Vec<String>> {
    let look = Command::new("wipefs").args(["--no-act", "--json"]);
    let output = succeed(host, &look.device("", disk.handle, &disk.node), disk)?;
    let sorted = sort(&output, uuid).map_err(|error| failed(disk, 0, error.to_string()))?;
    let Sorted { mut ours, nameless } = sorted;
    // The log of an xfs has no UUID of its own, and stores that of its filesystem under another name. Each of
    // its records carries the signature.
    if !nameless.is_empty() && log_uuid(host, disk)?.is_some_and(|other| same(&other, uuid)) {
        ours.extend(nameless);
    }
    Ok(ours)
}

/// The UUID in a journal on its own device.
fn log_uuid(host: &mut dyn Host, disk: &Target) -> fsdyno_host::Result<Option<String>> {
    let probe = Command::new("blkid").args(["--probe", "--output", "export"]);
    let output = host.run(&probe.device("", disk.handle, &disk.node))?;
    match output.status {
        0 => Ok(output.stdout.lines().find_map(|line| line.strip_prefix("LOGUUID=")).map(str::to_string)),
        status if NO_SINGLE_ANSWER.contains(&status) => Ok(None),
        _ => Err(failed(disk, 0, output.stderr.trim().to_string())),
    }
}

fn succeed(host: &mut dyn Host, command: &Command, disk: &Target) -> fsdyno_host::Result<String> {
    let output = host.run(command)?;
    if output.status == 0 {
        return Ok(output.stdout);
    }
    let reason = output.stderr.trim().to_string();
    let errno = if reason.contains("busy") { EBUSY } else { 0 };
    Err(failed(disk, errno, reason))
}

fn failed(disk: &Target, errno: i32, reason: String) -> HostError {
    HostError::System {
        action: "find or wipe fsdyno's own signature on".to_string(),
        object: disk.node.display().to_string(),
        errno,
        reason,
    }
}

/// Serial numbers of vfat and ntfs are reported in capitals, with or without a dash.
fn same(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.replace('-', "").to_ascii_lowercase();
    digits(one) == digits(other)
}

#[derive(Deserialize)]
struct Report {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    r#type: String,
    offset: String,
    uuid: Option<String>,
}

/// Offsets of signatures.
#[derive(Debug, PartialEq, Eq)]
struct Sorted {
    /// Of those with our UUID.
    ours: Vec<String>,
    /// Those of an xfs log, which has none.
    nameless: Vec<String>,
}

/// The output of wipefs, without what has somebody else's UUID.
fn sort(output: &str, uuid: &str) -> serde_json::Result<Sorted> {
    let mut sorted = Sorted { ours: Vec::new(), nameless: Vec::new() };
    if output.trim().is_empty() {
        return Ok(sorted); // releases that print nothing where they found nothing
    }
    let signatures = serde_json::from_str::<Report>(output)?.signatures;
    let is_ours = |signature: &Signature| signature.uuid.as_deref().is_some_and(|other| same(other, uuid));
    let exfat = signatures.iter().any(|signature| signature.r#type == "exfat" && is_ours(signature));
    for signature in signatures {
        let end = (signature.r#type.as_str(), signature.offset.as_str()) == BOOT_SECTOR_END;
        match signature.uuid {
            None if end && exfat => sorted.ours.push(signature.offset),
            Some(other) if same(&other, uuid) => sorted.ours.push(signature.offset),
            Some(_) => {}
            None if signature.r#type == XFS_LOG => sorted.nameless.push(signature.offset),
            None => {}
        }
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::{Bytes, Nanos};
    use fsdyno_host::Output;
    use fsdyno_host::Steps;
    use fsdyno_testkit::fake::FakeHost;
    use std::path::Path;

    fn opened() -> (FakeHost, Target) {
        let node = Path::new("/dev/fake1");
        let mut host = FakeHost::new();
        host.add_block(node, (259, 0), Bytes(Bytes::GIB));
        let identity = host.probe_device(node).unwrap().identity;
        let handle = host.open_device(node, &identity).unwrap();
        (host, Target { handle, node: node.into(), planned: node.into() })
    }

    #[test]
    fn only_what_bears_the_uuid_is_ours() {
        let output = r#"{"signatures": [
            {"device": "sdb", "offset": "0x438", "type": "ext4", "uuid": "124C21D81d18", "label": null},
            {"device": "sdb", "offset": "0x0", "type": "xfs_external_log", "uuid": null, "label": null},
            {"device": "sdb", "offset": "0x1fe", "type": "dos", "uuid": "0badcafe", "label": null}]}"#;
        let sorted = |uuid| sort(output, uuid).unwrap();
        assert_eq!(
            sorted("124c21d8-1d18"),
            Sorted { ours: vec!["0x438".into()], nameless: vec!["0x0".into()] }
        );
        assert_eq!(sorted("124c21d8-1d19"), Sorted { ours: vec![], nameless: vec!["0x0".into()] });
        assert!(sort("DEVICE OFFSET TYPE", "1").is_err());
        let boot_sector = r#"{"signatures": [
            {"device": "sdb", "offset": "0x3", "type": "exfat", "uuid": "6673-6479", "label": null},
            {"device": "sdb", "offset": "0x1fe", "type": "dos", "uuid": null, "label": null}]}"#;
        assert_eq!(sort(boot_sector, "66736479").unwrap().ours, ["0x3", "0x1fe"]);
        assert_eq!(sort(boot_sector, "66736470").unwrap().ours, [""; 0]);
    }

    #[test]
    fn what_was_made_is_wiped_once() {
        let (mut host, disk) = opened();
        let uuid = "124c21d8-1d18-475f-8d22-575ba5543d62";
        let mkfs = Command::new("mkfs.ext4").args(["-U", uuid]).device("", disk.handle, &disk.node);
        host.run(&mkfs).unwrap();
        assert!(bears(&mut host, &disk, uuid).unwrap());
        assert!(!clear(&mut host, &disk, "224c21d8-1d18-475f-8d22-575ba5543d62").unwrap());
        assert!(clear(&mut host, &disk, uuid).unwrap());
        assert_eq!(host.commands.last().unwrap(), "wipefs --quiet --offset 0x0 /dev/fake1");
        assert!(!clear(&mut host, &disk, uuid).unwrap() && !bears(&mut host, &disk, uuid).unwrap());
    }

    #[test]
    fn the_log_of_an_xfs_is_known_by_its_filesystem() {
        let (mut host, disk) = opened();
        host.install("blkid", "DEVNAME=/dev/sdb\nLOGUUID=1111-2222\nTYPE=xfs_external_log\n");
        assert_eq!(log_uuid(&mut host, &disk).unwrap().as_deref(), Some("1111-2222"));
        let failed =
            |status| Output { status, stdout: String::new(), stderr: "why".into(), duration: Nanos(0) };
        host.programs.insert("blkid".to_string(), failed(2));
        assert_eq!(log_uuid(&mut host, &disk).unwrap(), None);
        host.programs.insert("blkid".to_string(), failed(4));
        assert!(log_uuid(&mut host, &disk).unwrap_err().to_string().ends_with("why"));
    }

    #[test]
    fn a_wipe_that_finds_its_disk_busy_is_tried_again() {
        let (mut host, disk) = opened();
        let stderr = "wipefs: error: /dev/sdb: probing initialization failed: Device or resource busy".into();
        let busy = Output { status: 1, stdout: String::new(), stderr, duration: Nanos(0) };
        host.programs.insert("wipefs".to_string(), busy);
        assert_eq!(clear(&mut host, &disk, "1111").unwrap_err().errno(), Some(EBUSY));
    }
}
