//! Brings block devices into the state that the plan asks for before a filesystem is created on them.

use crate::Result;
use crate::device::{Contents, Device};
use crate::error::TestbedError;
use crate::filesystem::{Target, raw_mkfs};
use crate::guard::Testbed;
use crate::layered;
use crate::spec::journal_spec;
use crate::tool::{contradiction, run_to_success};
use crate::trial::SLOW_RATE;
use crate::tunable;
use crate::undo::UndoJournal;
use fsdyno_core::device::{Block, Conditioning};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Nanos};
use fsdyno_host::{Command, Host, quoted};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const STEP: &str = "precondition";
/// The number of bytes written between two checks of whether the user wants to stop.
const PIECE: u64 = 64 * Bytes::MIB;
/// The mark in the first sector stays: until a filesystem is there, it shows that the data is fsdyno's. A
/// whole block is left out, so that random data cannot look like one of the signatures that are only two
/// bytes long.
const MARKED: u64 = 4096;

/// Discards or fills every disk for which the plan asks for it, before anything is built on them; each passes
/// the guards again first. Returns how long that took, or nothing if no disk needs it. `on_progress` learns
/// the share that is done.
///
/// # Errors
/// [`TestbedError::Refused`] if a guard now refuses; [`TestbedError::Tool`] if a device that should discard
/// does not; [`TestbedError::Interrupted`].
pub fn condition(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    configuration: &Configuration,
    interrupt: &AtomicBool,
    on_progress: &mut dyn FnMut(f64),
) -> Result<Option<Nanos>> {
    let disks = disks(configuration, &testbed.devices)?;
    let begin = Instant::now();
    let mut open = Vec::new();
    for spec in &disks {
        open.push(layered::open(host, journal, testbed, Contents::Replaced, &[], spec, interrupt)?);
    }
    let all: u64 = open.iter().map(bytes_to_write).sum();
    let mut before = 0;
    for disk in &open {
        disk.mark(host, testbed)?;
        disk.verify_free(host, STEP)?;
        disk.claim(testbed);
        match disk.spec.conditioning() {
            Conditioning::None => {}
            Conditioning::Discard => {
                run_to_success(host, STEP, &discard(disk))?;
                // The mark is gone, and whether everything else reads as zeros is up to the drive.
                let Target { handle, node, .. } = &disk.target;
                host.mark_device(*handle, node).map_err(TestbedError::at(STEP))?;
            }
            Conditioning::FillOnce | Conditioning::FillTwice => {
                fill(host, disk, interrupt, &mut |done| on_progress((before + done) as f64 / all as f64))?;
                before += bytes_to_write(disk);
            }
        }
    }
    for disk in &open {
        journal.close_device(host, disk.target.handle).map_err(TestbedError::at(STEP))?;
    }
    Ok((!disks.is_empty()).then(|| begin.elapsed().into()))
}

/// The disks of a configuration for which the plan asks for something.
fn disks<'a>(configuration: &Configuration, devices: &'a Devices) -> Result<Vec<&'a DeviceSpec>> {
    let log = journal_spec(configuration, devices).map_err(contradiction)?;
    let disks = std::iter::once(&devices.data).chain(log).flat_map(DeviceSpec::disks);
    Ok(disks.filter(|disk| !disk.conditioning().is_none()).collect())
}

fn bytes_to_write(disk: &Device) -> u64 {
    let once = disk.identity.size_bytes.saturating_sub(MARKED);
    once.saturating_mul(disk.spec.conditioning().fills().into())
}

fn discard(disk: &Device) -> Command {
    let limit = Duration::from_secs(60 + disk.identity.size_bytes / SLOW_RATE);
    // Without `--force` blkdiscard looks for signatures, as the guards have done.
    let command = Command::new("blkdiscard").args(["--force"]);
    Command { limit, ..command.device("", disk.target.handle, &disk.target.node) }
}

fn fill(
    host: &mut dyn Host,
    disk: &Device,
    interrupt: &AtomicBool,
    on_progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let (mut done, size) = (0, disk.identity.size_bytes);
    for _ in 0..disk.spec.conditioning().fills() {
        let mut at = MARKED;
        while at < size {
            if interrupt.load(Ordering::Relaxed) {
                let what = format!("'{}' was being filled", disk.target.node.display());
                return Err(TestbedError::Interrupted { what });
            }
            let length = PIECE.min(size - at);
            disk.verify_free(host, STEP)?;
            let Target { handle, node, .. } = &disk.target;
            host.fill_device(*handle, node, at, length).map_err(TestbedError::at(STEP))?;
            at += length;
            done += length;
            on_progress(done);
        }
    }
    Ok(())
}

/// Bytes that are written to the disks of a device before a filesystem is created on it.
///
/// # Errors
/// A disk that cannot be examined.
pub fn bytes_to_condition(host: &mut dyn Host, device: &DeviceSpec) -> fsdyno_host::Result<Bytes> {
    let mut all = 0_u64;
    for disk in device.disks().into_iter().filter(|disk| disk.conditioning().fills() > 0) {
        let size = host.probe_device(disk.path())?.identity.size_bytes;
        all = all.saturating_add(size.saturating_mul(disk.conditioning().fills().into()));
    }
    Ok(Bytes(all))
}

/// Why this machine cannot do what the plan asks for.
pub(crate) fn unmet(host: &mut dyn Host, configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let disks = disks(configuration, devices).unwrap_or_default();
    let discards = disks.into_iter().filter(|disk| disk.conditioning() == Conditioning::Discard);
    discards.filter_map(|disk| cannot_discard(host, disk.path())).collect()
}

fn cannot_discard(host: &mut dyn Host, path: &Path) -> Option<String> {
    if !matches!(host.find_program("blkdiscard"), Ok(Some(_))) {
        return Some("blkdiscard is not installed (apt-get install util-linux)".to_string());
    }
    // Whatever else is wrong with the device, the guards say.
    let identity = host.probe_device(path).ok()?.identity;
    let most = host.read_text(&tunable::queue_directory(&identity).join("discard_max_bytes")).ok()?;
    (most.trim() == "0").then(|| {
        format!("precondition = \"discard\": '{}' does not support discards; fill it instead", path.display())
    })
}

/// A word of the plan that makes mkfs discard what was filled.
pub(crate) fn discarding_words(configuration: &Configuration, devices: &Devices) -> Option<String> {
    let is_filled = |spec: &DeviceSpec| spec.is_filled_before();
    let log = journal_spec(configuration, devices).ok().flatten();
    if !std::iter::once(&devices.data).chain(log).any(is_filled) {
        return None;
    }
    // mke2fs takes it among the words of -E; mkfs.f2fs takes a number.
    let discards = match configuration.filesystem.as_str() {
        "f2fs" => raw_mkfs(configuration).any(|word| word.starts_with("-t")),
        _ => raw_mkfs(configuration).any(|word| word.split(',').any(|word| word == "discard")),
    };
    discards.then(|| {
        "precondition fills the disk, and the mkfs words would discard that again; remove the one about \
         discards"
            .to_string()
    })
}

/// As a person would do it.
pub(crate) fn lines(block: &Block) -> Vec<String> {
    let path = block.path.to_string_lossy();
    let path = quoted(&path);
    match block.precondition {
        Conditioning::None => Vec::new(),
        Conditioning::Discard => vec![format!("blkdiscard --force {path}")],
        Conditioning::FillOnce | Conditioning::FillTwice => {
            let fill = format!("dd if=/dev/urandom of={path} bs=1M conv=fdatasync");
            vec![fill; block.precondition.fills() as usize]
        }
    }
}
