//! A check of whether a fill leaves enough of a device for what a workload prepares and is certain to write.
//!
//! The space that is left is an upper bound: the blocks of the filesystem as its mkfs makes it, without those
//! that it keeps from files. If even that is too little, a trial fails once its device is filled. The sizes
//! that would fit are reported with a little to spare, because files take whole blocks.

use crate::plan::{Case, Plan};
use crate::sizes::examine;
use crate::space::{least_space_of, share};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::Host;
use fsdyno_testbed::GuardRefusal;
use fsdyno_testbed::filesystem;
use fsdyno_verdict::text::size;

/// The fill ends when less than this part of the filesystem is missing.
const NEAR: u64 = 256;
/// Of what is needed, the part that blocks and inodes take in addition, in files of a few KiB.
const SPARE: u64 = 16;
/// A device is not recommended in smaller steps.
const STEP: u64 = 64 * Bytes::MIB;

/// A fill that leaves too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// The workload in the plan.
    pub workload: usize,
    percent: u32,
    device: Bytes,
    left: Bytes,
    needed: Bytes,
    /// The highest percentage that leaves enough, if there is one.
    fitting_percent: Option<u32>,
    /// The least size of a device that has enough left.
    pub fitting_device: Bytes,
}

impl NoRoom {
    /// That of a case on a device of this size.
    pub fn of(plan: &Plan, case: &Case, device: Bytes) -> Option<NoRoom> {
        let percent = case.configuration.precondition()?.fill_percent;
        let needed = least_space_of(plan, case.workload.load());
        let left = left(&case.configuration, device, percent);
        if needed <= left {
            return None;
        }
        let ample = Bytes(needed.0.saturating_add(needed.0 / SPARE));
        let fits = |device: Bytes, percent| self::left(&case.configuration, device, percent) >= ample;
        let larger = std::iter::successors(Some(device.0), |size| size.checked_mul(2));
        let most = larger.map(Bytes).find(|device| fits(*device, percent)).unwrap_or(device);
        let (mut bad, mut good) = (device.0 / STEP, most.0.div_ceil(STEP));
        while good - bad > 1 {
            let middle = bad.midpoint(good);
            if fits(Bytes(middle * STEP), percent) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Some(NoRoom {
            workload: plan.workloads.iter().position(|one| *one == case.workload).unwrap_or_default(),
            percent,
            device,
            left,
            needed,
            fitting_percent: (1..percent).rev().find(|percent| fits(device, *percent)),
            fitting_device: Bytes(good.saturating_mul(STEP)),
        })
    }

    /// Returns the text that says why the workload does not fit.
    pub fn reason(&self) -> String {
        let NoRoom { percent, device, left, needed, .. } = self;
        format!(
            "the workload prepares and writes {}, which does not fit: filled to {percent} %, a device of {} \
             has at most {} left for files",
            size(*needed),
            size(*device),
            size(*left)
        )
    }

    /// Returns the text that says what would fit.
    pub fn remedy(&self) -> String {
        let fill = self.fitting_percent.map(|percent| format!("fill it to {percent} %, "));
        let fits = self.left.0 - self.left.0 / SPARE;
        let less = match fits / Bytes::MIB {
            0 => String::new(),
            mib => format!("prepare and write {}, ", size(Bytes(mib * Bytes::MIB))),
        };
        format!("{}{less}or use a device of {}", fill.unwrap_or_default(), size(self.fitting_device))
    }
}

/// Returns the most space that a fill leaves.
fn left(configuration: &Configuration, device: Bytes, percent: u32) -> Bytes {
    let filesystem = filesystem::find(&configuration.filesystem);
    let Some(capacity) = filesystem.map(|filesystem| filesystem.capacity(configuration, device)) else {
        return device;
    };
    let taken = share(capacity.whole, percent).saturating_sub(capacity.whole.0 / NEAR);
    Bytes(capacity.whole.0.saturating_sub(taken).saturating_sub(capacity.kept_back.0))
}

/// Refuses a plan all of whose cases fail once their device is filled.
pub(crate) fn refused(host: &mut dyn Host, plan: &Plan) -> Option<GuardRefusal> {
    let cases = plan.cases();
    let device = examine(host, plan, &cases).0.device?;
    let lacks = cases.iter().map(|case| NoRoom::of(plan, case, device)).collect::<Option<Vec<_>>>()?;
    let first = lacks.first()?;
    Some(GuardRefusal {
        device: plan.devices.data.path().to_path_buf(),
        reason: format!("has no room in any case: {}", first.reason()),
        hint: first.remedy(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::fake::FakeHost;

    fn plan(fill: &str, size: &str, trees: &str, writers: u32) -> Plan {
        let text = format!(
            "[device]\nimage = \"/data/a.img\"\nsize = \"{size}\"\n[axes]\nfilesystem = \"ext4\"\n\
             fill = {fill}\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"{trees}\"\n\
             writers = {writers}\nwriter_space = \"64M\"\n"
        );
        Plan::parse(&text, "plan.toml", &[]).expect("a plan")
    }

    /// 128 MiB are left in truth, of 204 MiB that are not filled: ext4 keeps 67 MiB, and its inodes and its
    /// journal take another 50.
    #[test]
    fn a_fill_that_leaves_no_room_is_refused_with_what_fits() {
        let mut host = FakeHost::new();
        let refusal = refused(&mut host, &plan("\"80%\"", "1G", "150M", 0)).expect("no room");
        assert_eq!(
            refusal.reason,
            "has no room in any case: the workload prepares and writes 150 MiB, which does not fit: filled \
             to 80 %, a device of 1 GiB has at most 132 MiB left for files"
        );
        assert_eq!(refusal.hint, "fill it to 77 %, prepare and write 123 MiB, or use a device of 1.19 GiB");
        for (fill, size, trees) in [("77%", "1G", "150M"), ("80%", "1216M", "150M"), ("80%", "1G", "123M")] {
            assert_eq!(
                refused(&mut host, &plan(&format!("\"{fill}\""), size, trees, 0)),
                None,
                "{fill} {size}"
            );
        }
    }

    #[test]
    fn what_writers_are_certain_to_write_needs_room_too() {
        let refusal = refused(&mut FakeHost::new(), &plan("\"77%\"", "1G", "150M", 1)).expect("no room");
        assert!(refusal.reason.contains("prepares and writes 214 MiB"), "{}", refusal.reason);
    }

    #[test]
    fn cases_that_have_room_are_run() {
        let some = plan("[\"10%\", \"80%\"]", "1G", "150M", 0);
        assert_eq!(refused(&mut FakeHost::new(), &some), None);
        let lacks: Vec<bool> =
            some.cases().iter().map(|case| NoRoom::of(&some, case, Bytes(Bytes::GIB)).is_some()).collect();
        assert_eq!(lacks, [false, true]);
    }
}
