//! Arrays of Linux software RAID, by mdadm(8).
//!
//! Nothing is measured while an array is resyncing. Mirrors of disks that were never written are identical
//! wherever a filesystem has written, so they are assumed to be clean. Parity is valid without computing it
//! only on disks full of zeros; on others fsdyno waits for the first computation. The result says which it
//! was.

use super::{InForce, Label, Layer, Made, Making, disk, in_kernel, kib, labels, succeed};
use crate::Result;
use crate::error::TestbedError;
use crate::filesystem::Target;
use crate::kernel_module::has_module;
use crate::way_back::{UndoAction, Undone};
use fsdyno_core::Tool;
use fsdyno_core::device::{Bitmap, Md, RaidLevel};
use fsdyno_core::{Bytes, DeviceSpec, Recipe};
use fsdyno_host::{Command, Grant, Host};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TOOLS: &[Tool] = &[Tool::new("mdadm", "mdadm", "--version")];
/// mdadm accepts names of up to 32 characters.
const NAME_DIGITS: usize = 24;
/// Bytes per second below which an array that computes its parity counts as hung.
const SLOW_RESYNC: u64 = 5_000_000;
const RESYNC_BASE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

impl Layer for Md {
    fn tools(&self) -> &'static [Tool] {
        TOOLS
    }

    fn modules(&self) -> Vec<&'static str> {
        vec![module(self.level)]
    }

    fn unmet(&self, host: &mut dyn Host) -> Vec<String> {
        // A kernel with md lists the levels that are loaded, and can load others.
        let known = host.read_text(Path::new("/proc/mdstat")).unwrap_or_default();
        let name = self.level.name();
        let there = known.contains(&format!("[{name}]")) || has_module(host, module(self.level));
        if there { Vec::new() } else { vec![in_kernel(&format!("md {name}"))] }
    }

    fn commands(&self, making: &Making<'_>) -> Vec<Command> {
        let mut create = Command::new("mdadm")
            .may_change(making_nodes())
            .args(["--create".to_string(), self.path(making.id).display().to_string()])
            .args(["--homehost=none", "--run", "--metadata=1.2"])
            .args(shape(self));
        if self.level.is_redundant() && !needs_resync(self, making.blank) {
            create = create.args(["--assume-clean"]);
        }
        create = create.args([format!("--uuid={}", uuid(making.id))]);
        let members = making.members.iter().map(|member| &member.target);
        vec![members.fold(create, |create, target| create.device("", target.handle, &target.node))]
    }

    /// If a member is missing and the array was being written when power was lost, md does not start it:
    /// parity may be out of date, and with it what was on that member (Documentation/admin-guide/md.rst). It
    /// is forced to, as whoever wants their data back does.
    fn assembly(&self, making: &Making<'_>, degraded: bool) -> Vec<Command> {
        let assemble = Command::new("mdadm")
            .may_change(making_nodes())
            .args(["--assemble".to_string(), self.path(making.id).display().to_string()])
            .args([format!("--uuid={}", uuid(making.id))])
            .args(["--run"])
            .args(degraded.then_some("--force"));
        let members = making.members.iter().map(|member| &member.target);
        vec![members.fold(assemble, |assemble, target| assemble.device("", target.handle, &target.node))]
    }

    fn path(&self, id: &str) -> PathBuf {
        PathBuf::from(format!("/dev/md/fsdyno-{}", &id[..id.len().min(NAME_DIGITS)]))
    }

    fn ways_back(&self, id: &str, below: &[DeviceSpec]) -> Vec<UndoAction> {
        let uuid = uuid(id);
        let mut ways_back = labels(below, &Label::Md { uuid: uuid.clone() });
        ways_back.push(UndoAction::StopArray { uuid });
        ways_back
    }

    fn settle(&self, host: &mut dyn Host, made: Made<'_>) -> Result<InForce> {
        let Made { making, directory, interrupt } = made;
        let directory = directory.join("md");
        let resync = match (self.level.is_redundant(), needs_resync(self, making.blank)) {
            (false, _) => "nothing to resync".to_string(),
            (true, false) => "resync not needed (assume-clean)".to_string(),
            (true, true) => {
                let size = making.members.iter().filter_map(|member| member.size_bytes).max().unwrap_or(0);
                let limit = RESYNC_BASE + Duration::from_secs(size / SLOW_RESYNC);
                format!(
                    "resync finished in {:.1} s",
                    finished(host, &directory, limit, interrupt)?.as_secs_f64()
                )
            }
        };
        let mut read = |file: &str| {
            let text = host.read_text(&directory.join(file)).unwrap_or_default();
            text.trim().to_string()
        };
        let (level, disks, chunk) = (read("level"), read("raid_disks"), read("chunk_size"));
        let bitmap = if read("bitmap/location") == "none" { Bitmap::None } else { Bitmap::Internal };
        // What it is doing, and what is left to do; an array without redundancy has neither.
        let busy = read("sync_action");
        let found = ArrayFacts { level, disks, chunk: chunk.parse().ok(), bitmap, busy };
        Ok(compare(self, &found, &resync))
    }

    fn recipe(&self) -> Vec<String> {
        let create = Command::new("mdadm").args(["--create", Recipe::DEVICE]).args(shape(self));
        let members = (0..self.disks.len()).map(|index| disk(index).target);
        vec![members.fold(create, |create, target| create.device("", target.handle, &target.node)).line()]
    }
}

/// The arguments that a trial and a person have in common.
fn shape(md: &Md) -> Vec<String> {
    let mut words =
        vec![format!("--level={}", md.level.name()), format!("--raid-devices={}", md.disks.len())];
    // mdadm does not accept a lower-case k.
    words.extend(md.chunk.map(|chunk| format!("--chunk={}", kib(chunk).to_uppercase())));
    if md.level.is_redundant() {
        // By default, mdadm decides by the size.
        words.push(format!("--bitmap={}", md.bitmap.name()));
    }
    words
}

/// Returns the grants for everything that mdadm changes apart from its members. It creates nodes and links
/// for the array in /dev, and accesses it through a temporary node of its own: in /dev or, if that is not
/// writable, in /tmp.
fn making_nodes() -> Vec<Grant> {
    let [dev, tmp, map] = ["/dev", "/tmp", "/run/mdadm"].map(PathBuf::from);
    vec![Grant::Nodes(dev), Grant::Nodes(tmp.clone()), Grant::Tree(tmp), Grant::Tree(map)]
}

fn needs_resync(md: &Md, blank: bool) -> bool {
    md.level.has_parity() && !blank
}

/// The module of a level; all levels with parity share one.
fn module(level: RaidLevel) -> &'static str {
    match level {
        RaidLevel::Raid5 | RaidLevel::Raid6 => "raid456",
        level => level.name(),
    }
}

/// 128 bits in hexadecimal as mdadm writes them.
fn uuid(id: &str) -> String {
    let groups: Vec<String> =
        id.as_bytes().chunks(8).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    if id.len() == 32 { groups.join(":") } else { id.to_string() }
}

/// Waits until the array is consistent.
fn finished(
    host: &mut dyn Host,
    directory: &Path,
    limit: Duration,
    interrupt: &AtomicBool,
) -> Result<Duration> {
    let start = Instant::now();
    loop {
        let mut is = |file: &str, value: &str| {
            host.read_text(&directory.join(file))
                .map(|text| text.trim() == value)
                .map_err(TestbedError::at("device"))
        };
        // Between its creation and the first block it is also idle, but still degraded or not synced.
        if is("sync_action", "idle")? && is("degraded", "0")? && is("resync_start", "none")? {
            return Ok(start.elapsed());
        }
        if interrupt.load(Ordering::Relaxed) {
            let what = format!("the array in '{}' was computing its parity", directory.display());
            return Err(TestbedError::Interrupted { what });
        }
        if start.elapsed() > limit {
            return Err(TestbedError::Resync { array: directory.to_path_buf(), seconds: limit.as_secs() });
        }
        std::thread::sleep(PAUSE);
    }
}

/// The properties of an array that sysfs reports.
struct ArrayFacts {
    level: String,
    disks: String,
    /// In bytes.
    chunk: Option<u64>,
    bitmap: Bitmap,
    /// Its background activity; empty if it never has any.
    busy: String,
}

fn compare(md: &Md, found: &ArrayFacts, resync: &str) -> InForce {
    let mut differences = Vec::new();
    let mut differ = |what: &str, asked: &str, is: &str| {
        if asked != is {
            differences.push(format!("md {what} = {asked} was requested, but the array has {is}"));
        }
    };
    differ("level", md.level.name(), &found.level);
    differ("disks", &md.disks.len().to_string(), &found.disks);
    if let Some(chunk) = md.chunk {
        differ("chunk", &chunk.to_string(), &Bytes(found.chunk.unwrap_or(0)).to_string());
    }
    if md.level.is_redundant() {
        differ("bitmap", md.bitmap.name(), found.bitmap.name());
    }
    if !["", "idle", "frozen"].contains(&found.busy.as_str()) {
        differ("sync_action", "idle", &found.busy);
    }
    let chunk = found.chunk.filter(|chunk| *chunk > 0).map(|chunk| format!(", chunk {}", Bytes(chunk)));
    let bitmap = match (md.level.is_redundant(), found.bitmap) {
        (false, _) => "",
        (true, Bitmap::None) => ", no bitmap",
        (true, Bitmap::Internal) => ", internal bitmap",
    };
    let text = format!(
        "md {} of {} disks, metadata 1.2{}{bitmap}; {resync}",
        found.level,
        found.disks,
        chunk.unwrap_or_default()
    );
    InForce { text, differences }
}

/// Stops the arrays of this machine with this UUID.
pub(super) fn stop(host: &mut dyn Host, uuid: &str) -> fsdyno_host::Result<Undone> {
    let names = host.list_directory(Path::new("/sys/block"))?;
    let mut stopped = Vec::new();
    for name in names.iter().filter(|name| name.starts_with("md")) {
        let node = format!("/dev/{name}");
        let detail = Command::new("mdadm").args(["--detail", "--export", &node]);
        let output = host.run(&detail.may_change([Grant::Control(PathBuf::from(&node))]))?;
        if has_uuid(&output.stdout, uuid) {
            let array = Grant::File(PathBuf::from(&node));
            let stop = Command::new("mdadm").args(["--stop", &node]).may_change(making_nodes());
            succeed(host, &stop.may_change([array]), "stop", &node)?;
            stopped.push(node);
        }
    }
    match stopped.is_empty() {
        true => Ok(Undone::Nothing),
        false => Ok(Undone::Done(format!("stopped the array {}", stopped.join(", ")))),
    }
}

/// Removes the superblock of the array with this UUID from a disk; `false` if it has none.
pub(super) fn clear(host: &mut dyn Host, disk: &Target, uuid: &str) -> fsdyno_host::Result<bool> {
    let mdadm = |words: &[&str]| {
        Command::new("mdadm").args(words.iter().copied()).device("", disk.handle, &disk.node)
    };
    let output = host.run(&mdadm(&["--examine", "--export"]).reading_only())?;
    if !has_uuid(&output.stdout, uuid) {
        return Ok(false);
    }
    succeed(host, &mdadm(&["--zero-superblock"]), "clear", &disk.node.to_string_lossy())?;
    Ok(true)
}

/// `MD_UUID=...` among the lines of `--export`.
fn has_uuid(output: &str, uuid: &str) -> bool {
    output.lines().any(|line| line.trim().strip_prefix("MD_UUID=") == Some(uuid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::tests::members;

    fn md(level: RaidLevel, disks: usize) -> Md {
        let disk = DeviceSpec::image("/image", Bytes(4 << 30));
        Md { level, chunk: None, bitmap: Bitmap::None, disks: vec![disk; disks] }
    }

    fn line(md: &Md, blank: bool) -> String {
        let members = members(md.disks.len());
        let lines = md.commands(&Making { members: &members, id: &"0123456789abcdef".repeat(2), blank });
        assert_eq!(lines.len(), 1);
        lines[0].line()
    }

    #[test]
    fn mdadm_writes_to_no_device_below_dev_but_its_members() {
        let writes = |grant: &Grant| match grant {
            Grant::File(path) | Grant::Tree(path) => path.starts_with("/dev"),
            Grant::Nodes(_) | Grant::Control(_) => false,
        };
        assert!(!making_nodes().iter().any(writes), "{:?}", making_nodes());
    }

    #[test]
    fn what_a_filesystem_never_wrote_needs_no_resync_and_a_parity_of_zeros_neither() {
        assert_eq!(
            line(&md(RaidLevel::Raid1, 2), false),
            "mdadm --create /dev/md/fsdyno-0123456789abcdef01234567 --homehost=none --run --metadata=1.2 \
             --level=raid1 --raid-devices=2 --bitmap=none --assume-clean \
             --uuid=01234567:89abcdef:01234567:89abcdef /dev/disk1 /dev/disk2"
        );
        let clean = |md: &Md, blank| line(md, blank).contains("--assume-clean");
        assert!(clean(&md(RaidLevel::Raid10, 4), false));
        assert!(clean(&md(RaidLevel::Raid5, 3), true) && clean(&md(RaidLevel::Raid6, 4), true));
        assert!(!clean(&md(RaidLevel::Raid5, 3), false) && !clean(&md(RaidLevel::Raid6, 4), false));
        assert!(!clean(&md(RaidLevel::Raid0, 2), true), "nothing is there twice");
    }

    #[test]
    fn an_array_is_put_together_by_its_uuid_and_forced_only_if_it_lacks_a_member() {
        let line = |count, degraded| {
            let members = members(count);
            let making = Making { members: &members, id: &"0123456789abcdef".repeat(2), blank: false };
            md(RaidLevel::Raid5, 3).assembly(&making, degraded)[0].line()
        };
        assert_eq!(
            line(2, true),
            "mdadm --assemble /dev/md/fsdyno-0123456789abcdef01234567 \
             --uuid=01234567:89abcdef:01234567:89abcdef --run --force /dev/disk1 /dev/disk2"
        );
        assert!(!line(3, false).contains("--force"));
    }

    #[test]
    fn chunk_and_bitmap_stand_where_they_mean_something() {
        let tuned = Md { chunk: Some(Bytes(64 << 10)), bitmap: Bitmap::Internal, ..md(RaidLevel::Raid5, 3) };
        assert!(line(&tuned, true).contains(" --chunk=64K --bitmap=internal "));
        let striped = line(&Md { chunk: Some(Bytes(1 << 20)), ..md(RaidLevel::Raid0, 2) }, true);
        assert!(striped.contains(" --chunk=1024K ") && !striped.contains("bitmap"), "{striped}");
        assert_eq!(
            Layer::recipe(&tuned),
            ["mdadm --create DEVICE --level=raid5 --raid-devices=3 --chunk=64K --bitmap=internal DISK1 \
                 DISK2 DISK3"]
        );
    }

    #[test]
    fn what_is_not_in_force_is_told() {
        let asked = Md { chunk: Some(Bytes(64 << 10)), ..md(RaidLevel::Raid5, 3) };
        let found = |busy: &str, chunk| ArrayFacts {
            level: "raid5".to_string(),
            disks: "3".to_string(),
            chunk: Some(chunk),
            bitmap: Bitmap::None,
            busy: busy.to_string(),
        };
        let same = compare(&asked, &found("idle", 64 << 10), "resync finished in 2.0 s");
        assert_eq!(same.differences, [""; 0]);
        assert_eq!(
            same.text,
            "md raid5 of 3 disks, metadata 1.2, chunk 64k, no bitmap; resync finished in 2.0 s"
        );
        let other = compare(&asked, &found("recover", 512 << 10), "");
        assert_eq!(
            other.differences,
            [
                "md chunk = 64k was requested, but the array has 512k",
                "md sync_action = idle was requested, but the array has recover"
            ]
        );
    }

    #[test]
    fn an_array_is_known_by_its_uuid_alone() {
        let output = "MD_LEVEL=raid1\nMD_UUID=01234567:89abcdef:01234567:89abcdef\nMD_NAME=x\n";
        assert!(has_uuid(output, "01234567:89abcdef:01234567:89abcdef"));
        assert!(!has_uuid(output, "01234567:89abcdef:01234567:89abcdee"));
        assert!(!has_uuid("", ""));
    }
}
