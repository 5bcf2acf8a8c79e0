//! From the findings about a block device to every reason not to destroy it. Reads nothing.

use super::confirmation::{Confirmation, Overwrite};
use super::identity::{identity_text, pin_differences};
use crate::error::{GuardRefusal, refusal};
use crate::mark;
use crate::name::is_mount_directory;
use fsdyno_core::device::Block;
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::probe::{DeviceProbe, Signature, UNKNOWN_DATA, Use};
use fsdyno_host::quoted;
use std::path::Path;

/// The requirement of the plan on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNeed {
    /// The least size.
    pub size: Bytes,
    /// The part of the plan that needs this size.
    pub by: String,
}

/// Every reason not to destroy a block device, given the findings about it. `used_before`: this sweep has
/// written to it, so that data without a signature is its own. A signature that is not fsdyno's needs
/// confirmation even then: somebody may have created a filesystem between two trials. A further use,
/// signature or unknown adds a reason and never removes one.
pub fn refusals(
    probe: &DeviceProbe,
    spec: &DeviceSpec,
    confirmation: &Confirmation,
    need: &DeviceNeed,
    used_before: bool,
) -> Vec<GuardRefusal> {
    let path = spec.path();
    let mut refusals = Vec::new();
    if !probe.block {
        refusals.push(refusal(
            path,
            "is not a block device",
            "name a block device, or use `image` for a file",
        ));
        return refusals;
    }
    refusals.extend(used(path, &probe.uses));
    let is_foreign = |signature: &&Signature| {
        let ours = mark::is_ours(signature) || (used_before && signature.kind == UNKNOWN_DATA);
        !ours && !confirmation.overwrites(probe, &signature.kind)
    };
    let foreign: Vec<&Signature> = probe.signatures.iter().filter(is_foreign).collect();
    let hint = confirming_all(path, &foreign);
    refusals.extend(foreign.into_iter().map(|signature| refusal(path, holds(signature), &hint)));
    refusals.extend(other_device(path, spec, probe));
    refusals.extend(confirmation.replaced(path, probe).map(|then| {
        let now = identity_text(&probe.identity);
        let reason = format!("is another device now ({now}) than the one that was confirmed ({then})");
        refusal(path, reason, "if it is the right one, start the command again, which confirms it")
    }));
    if probe.size() < need.size {
        refusals.push(too_small(path, probe.size(), need));
    }
    refusals.extend(probe.unknown.iter().map(|unknown| {
        let hint =
            "fsdyno overwrites only devices that it could examine completely; fix the cause and try again";
        refusal(path, format!("could not be examined completely: {unknown}"), hint)
    }));
    // Last, so that nobody confirms a device before reading what else speaks against it.
    if !confirmation.destroys(probe) {
        let hint = match probe.uses.is_empty() {
            true => format!(
                "everything on it will be lost; confirm with --destroy {}{}",
                quoted(&path.to_string_lossy()),
                named_instead(confirmation)
            ),
            false => "everything on it would be lost".to_string(),
        };
        let reason =
            format!("is not confirmed ({}, {})", describe_model(probe), identity_text(&probe.identity));
        refusals.push(refusal(path, reason, hint));
    }
    refusals
}

/// Names the devices that were confirmed, if any were: perhaps one of them was meant, and the plan is wrong.
fn named_instead(confirmation: &Confirmation) -> String {
    let names = confirmation.destroy.iter().map(|path| path.display().to_string());
    match &names.collect::<Vec<_>>()[..] {
        [] => String::new(),
        names => format!("; --destroy names only {}", names.join(" and ")),
    }
}

pub(super) fn too_small(path: &Path, size: Bytes, need: &DeviceNeed) -> GuardRefusal {
    // Rounded so that what is asked for is enough.
    let has = if size < Bytes(Bytes::MIB) { size } else { Bytes(size.0 - size.0 % Bytes::MIB) };
    let needed = Bytes(need.size.0.next_multiple_of(Bytes::MIB));
    refusal(
        path,
        format!("has {has}, but {} need {needed}", need.by),
        "use a larger device, or make what the workload writes smaller with --set: tree_size and writer_space, \
         file_size, segment and segments, directories and files_per_directory, or of a flow count and size of its \
         files",
    )
}

/// One refusal for each use, and one for everything that the device carries: a disk that carries the system
/// carries many things.
fn used(path: &Path, uses: &[Use]) -> Vec<GuardRefusal> {
    let (carried, others): (Vec<&Use>, Vec<&Use>) =
        uses.iter().partition(|usage| matches!(usage, Use::Carries { .. }));
    let mut refusals: Vec<GuardRefusal> = others
        .into_iter()
        .map(|usage| {
            let (reason, hint) = explain(usage);
            refusal(path, reason, hint)
        })
        .collect();
    if !carried.is_empty() {
        let reasons: Vec<String> = carried.into_iter().map(|usage| explain(usage).0).collect();
        let list = reasons.join(", ").replace(", carries ", ", ");
        refusals.push(refusal(path, list, "name another device"));
    }
    refusals
}

/// Returns the text about the content of the device.
fn holds(signature: &Signature) -> String {
    let Signature { kind, offset, .. } = signature;
    match kind == UNKNOWN_DATA {
        true => format!("contains data without a known signature, first found at byte {offset}"),
        false => format!("carries a signature of {kind}{}", details(signature)),
    }
}

/// The options that confirm the loss of all of it. A disk often carries several signatures, as that of a GPT
/// and that of the MBR that protects it, and whoever may lose one may lose the others.
fn confirming_all(path: &Path, signatures: &[&Signature]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for Signature { kind, .. } in signatures {
        if !kinds.contains(&kind.as_str()) {
            kinds.push(kind);
        }
    }
    let option = |kind: &&str| {
        let overwrite = Overwrite { device: path.to_path_buf(), kind: kind.to_string() };
        format!("--overwrite {}", quoted(&overwrite.to_string()))
    };
    let options: Vec<String> = kinds.iter().map(option).collect();
    let what = if kinds.len() > 1 { "all of it" } else { "it" };
    let mut hint = format!("if {what} may be lost, confirm with {}", options.join(" "));
    if kinds.iter().any(|kind| *kind != UNKNOWN_DATA) {
        hint += "; wipefs(8) shows and removes signatures";
    }
    if kinds.contains(&UNKNOWN_DATA) {
        hint += "; a damaged LVM label looks like data without a signature, too";
    }
    hint
}

/// The details by which a person recognises a filesystem. Its creator chose the label, so control characters
/// are escaped.
fn details(signature: &Signature) -> String {
    let parts = [
        ("label ", &signature.label),
        ("UUID ", &signature.uuid),
        ("last mounted on ", &signature.last_mount),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(what, text)| Some(format!("{what}'{}'", printable(text.as_ref()?))))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// The text with its control characters escaped.
fn printable(text: &str) -> String {
    let spelled = |letter: char| match letter.is_control() {
        true => letter.escape_debug().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(spelled).collect()
}

/// That it is not the device of the plan, or that nothing distinguishes it from another one.
fn other_device(path: &Path, spec: &DeviceSpec, probe: &DeviceProbe) -> Vec<GuardRefusal> {
    let identity = &probe.identity;
    let mut refusals = Vec::new();
    if identity.serial.is_none() && identity.diskseq.is_none() {
        refusals.push(refusal(
            path,
            "could be mistaken for another device in its place: it has no serial number, and the kernel has \
             no disk sequence numbers",
            "use Linux 5.15 or later, a disk with a serial number, or an image",
        ));
    }
    if let DeviceSpec::Block(Block { identity: Some(pinned), .. }) = spec {
        refusals.extend(pin_differences(pinned, identity).into_iter().map(|difference| {
            refusal(
                path,
                format!("is not the device that the plan pins: {difference}"),
                format!("if it is the right one, set identity = \"{}\"", identity_text(identity)),
            )
        }));
    }
    refusals
}

fn describe_model(probe: &DeviceProbe) -> String {
    let model = if probe.model.is_empty() { "unknown model" } else { probe.model.as_str() };
    format!("{model}, {}", probe.size())
}

fn explain(usage: &Use) -> (String, String) {
    let (reason, hint): (String, &str) = match usage {
        Use::Mounted { target, namespace_of_pid: None } if is_mount_directory(Path::new(target)) => (
            format!("is mounted on '{target}' by a sweep"),
            "wait until that sweep ends; if it was killed, run `fsdyno restore`",
        ),
        Use::Mounted { target, namespace_of_pid: None } => {
            (format!("is mounted on '{target}'"), "unmount it, or name another device")
        }
        Use::Mounted { target, namespace_of_pid: Some(pid) } => (
            format!("is mounted on '{target}' in the mount namespace of process {pid}"),
            "unmount it there (nsenter -m -t PID), or stop that process",
        ),
        Use::Swap => ("is in use as swap".to_string(), "swapoff it, or name another device"),
        Use::Holder { name } => (
            format!("is used by the block device '{name}'"),
            "dismantle that device first, or name it instead",
        ),
        Use::Slave { name } => {
            (format!("is built on the block device '{name}'"), "name the device beneath it, or another one")
        }
        Use::Partition { name } => {
            (format!("has the partition '{name}'"), "name one of its partitions, or remove them yourself")
        }
        Use::OpenedBy { pid, command } => (
            format!("is held open by process {pid} ({command})"),
            "stop that process, or name another device",
        ),
        Use::Inherited { descriptor } => {
            return (
                format!(
                    "is held open by fsdyno itself, which was started with it as descriptor {descriptor}"
                ),
                format!(
                    "close it for fsdyno: add {descriptor}<&- to its command line, or name another device"
                ),
            );
        }
        Use::Alias { name, how } => (
            format!("holds the same bytes as '{name}', which is {how}"),
            "release that device, or name another one",
        ),
        Use::Member { filesystem, uuid } => (
            format!("is a member of the mounted {filesystem} filesystem {uuid}"),
            "unmount that filesystem or remove the device from it, or name another device",
        ),
        Use::Carries { what } => (format!("carries {what}"), "name another device"),
        Use::ReadOnly => {
            ("is read-only".to_string(), "name another device, or make it writable (blockdev --setrw)")
        }
        Use::Exported { by } => (
            format!("is exported to other machines by {by}"),
            "remove it from that target, or name another device",
        ),
        Use::Configured { table, purpose } => (
            format!("is named in {table}, for {}", printable(purpose)),
            "remove that line, or name another device: what the line names can come into use at any time",
        ),
    };
    (reason, hint.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_is_asked_for_is_enough() {
        let reason = |size, needed| {
            let need = DeviceNeed { size: Bytes(needed), by: "the plan's trees".to_string() };
            too_small(Path::new("/dev/sdb"), Bytes(size), &need).reason
        };
        assert_eq!(reason(48 << 20, 105_000_000), "has 48M, but the plan's trees need 101M");
        assert_eq!(reason((64 << 20) - 1, 64 << 20), "has 63M, but the plan's trees need 64M");
        assert_eq!(reason(512, 1000), "has 512, but the plan's trees need 1M");
    }
}
