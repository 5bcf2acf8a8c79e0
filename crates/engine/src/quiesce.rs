//! Waits until the device and dirty pages are calm: what an earlier phase, mkfs or a mount left to do in the
//! background (btrfs's cleaner, checkpoints of a journal, write-back) would otherwise be measured with the
//! next phase.

use crate::memory;
use fsdyno_core::meminfo;
use fsdyno_core::protocol::{MemoryGroup, Quiesce};
use fsdyno_core::result::Quiet;
use fsdyno_core::units::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};

/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The number of looks in a row that must find nothing.
const LOOKS: u32 = 5;
/// The number of bytes that may be dirty or on their way: a machine that nobody uses still writes its logs.
const DIRTY: Bytes = Bytes(Bytes::MIB);

/// One look at the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MachineLook {
    /// Requests that the devices have completed since they appeared.
    completed: u64,
    in_flight: u64,
    /// The bytes that are dirty or being written back.
    dirty: Bytes,
}

/// Waits until it is calm or the limit has come; `on_progress` learns the share of the limit that has passed,
/// and says whether to go on.
pub(crate) fn wait(
    quiesce: &Quiesce,
    group: Option<&MemoryGroup>,
    on_progress: &mut dyn FnMut(f64) -> bool,
) -> Quiet {
    until_calm(
        quiesce.limit.into(),
        || look(Path::new("/sys/class/block"), &quiesce.devices, group),
        on_progress,
    )
}

fn until_calm(
    limit: Duration,
    mut look: impl FnMut() -> MachineLook,
    on_progress: &mut dyn FnMut(f64) -> bool,
) -> Quiet {
    let begin = Instant::now();
    let mut before = look();
    let mut calm = 0;
    let mut quiet = Quiet { dirty: before.dirty, ..Quiet::default() };
    while calm < LOOKS {
        let waited = begin.elapsed();
        quiet.waited_ns = waited.into();
        if waited >= limit || !on_progress(waited.as_secs_f64() / limit.as_secs_f64().max(f64::MIN_POSITIVE))
        {
            return quiet;
        }
        std::thread::sleep(LOOK.min(limit.saturating_sub(waited)));
        let now = look();
        let completed = now.completed.saturating_sub(before.completed);
        let is_calm = completed == 0 && now.in_flight == 0 && now.dirty <= DIRTY;
        calm = if is_calm { calm + 1 } else { 0 };
        quiet.requests += completed;
        quiet.dirty = now.dirty;
        before = now;
    }
    Quiet { reached: true, waited_ns: begin.elapsed().into(), ..quiet }
}

fn look(directory: &Path, devices: &[String], group: Option<&MemoryGroup>) -> MachineLook {
    let mut look =
        MachineLook { dirty: group.and_then(memory::dirty).unwrap_or_else(dirty), ..MachineLook::default() };
    for device in devices {
        let stat = std::fs::read_to_string(directory.join(device).join("stat")).unwrap_or_default();
        let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let field = |number: usize| fields.get(number).copied().unwrap_or(0);
        // Reads, writes, discards and flushes (Documentation/block/stat.rst).
        look.completed += field(0) + field(4) + field(11) + field(15);
        look.in_flight += field(8);
    }
    look
}

/// Returns the bytes that are dirty or being written back on the whole machine.
fn dirty() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |key| meminfo::value(&text, key).unwrap_or_default().0;
    Bytes(value("Dirty") + value("Writeback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for calm with looks that find these figures, one after the other and then the last ones again
    /// and again.
    fn quiet(limit: Duration, looks: &[(u64, u64, u64)]) -> (Quiet, usize) {
        let mut taken = 0;
        let look = || {
            let (completed, in_flight, dirty) = looks[taken.min(looks.len() - 1)];
            taken += 1;
            MachineLook { completed, in_flight, dirty: Bytes(dirty) }
        };
        let quiet = until_calm(limit, look, &mut |_| true);
        (quiet, taken)
    }

    #[test]
    fn five_looks_in_a_row_must_find_nothing() {
        let long = Duration::from_secs(3600);
        let (calm, looks) = quiet(long, &[(7, 0, 4096)]);
        assert_eq!((calm.reached, calm.requests, calm.dirty, looks), (true, 0, Bytes(4096), 6));
        assert!(calm.waited_ns.0 >= 500_000_000);
        // A request in the fourth, one in flight later, and then dirty pages.
        let busy =
            [(7, 0, 0), (7, 0, 0), (7, 0, 0), (8, 0, 0), (8, 1, 0), (9, 0, 0), (9, 0, 2 << 20), (9, 0, 0)];
        let (calm, looks) = quiet(long, &busy);
        assert_eq!((calm.reached, calm.requests, looks), (true, 2, 12));
    }

    #[test]
    fn the_limit_ends_it() {
        let (busy, _) = quiet(Duration::from_millis(250), &[(1, 1, 5 << 20)]);
        assert_eq!((busy.reached, busy.dirty), (false, Bytes(5 << 20)));
        assert!((250_000_000..).contains(&busy.waited_ns.0));
        let stopped = until_calm(Duration::from_secs(3600), MachineLook::default, &mut |_| false);
        assert_eq!((stopped.reached, stopped.waited_ns.0 < 3_600_000_000_000), (false, true));
    }

    #[test]
    fn requests_of_all_devices_and_kinds_count() {
        let directory = tempfile::tempdir().unwrap();
        for (device, stat) in [
            ("sda", "  1  2  3  4  10  6  7  8  2  10  11  100  13  14  15  1000  17\n"),
            ("sdb", "  1  2  3  4  10  6  7  8  0  10  11\n"),
        ] {
            std::fs::create_dir(directory.path().join(device)).unwrap();
            std::fs::write(directory.path().join(device).join("stat"), stat).unwrap();
        }
        let devices = ["sda", "sdb", "gone"].map(String::from);
        let found = look(directory.path(), &devices, None);
        assert_eq!((found.completed, found.in_flight), (1111 + 11, 2));
    }

    #[test]
    fn dirty_pages_of_a_group_are_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let group = MemoryGroup { directory: directory.path().to_path_buf(), limit: Bytes(1 << 30) };
        let stat = directory.path().join("memory.stat");
        assert_eq!(memory::dirty(&group), None);
        std::fs::write(&stat, "anon 5\nfile_dirty 4096\nfile_writeback 8192\n").unwrap();
        assert_eq!(memory::dirty(&group), Some(Bytes(12_288)));
        std::fs::write(&stat, "cache 5\ndirty 100\nwriteback 23\ntotal_dirty 7\n").unwrap();
        assert_eq!(memory::dirty(&group), Some(Bytes(123)));
    }
}
