//! Models of disks, which users write.

use crate::lot;
use fsdyno_disk::{DiskCompletion, DiskModel, DiskOperation, DiskRequest, Simulation};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

const REQUESTS: u64 = 60;
/// More than any request takes that moves at most a few MiB.
const STEPS: usize = 200_000;

/// Whatever a model says, reading it ends with an error or with a disk, and whatever is asked of that disk
/// ends.
pub fn model(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(model) = DiskModel::parse("fuzzed", text) else { return };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(lot(data, u64::MAX));
    let size = 1 << random.random_range(20..40);
    let mut simulation = Simulation::new(&model, size);
    let (mut now_ns, mut steps) = (0.0, 0);
    let mut pending = BTreeSet::new();
    for id in 0..REQUESTS {
        let kind = [DiskOperation::Read, DiskOperation::Write, DiskOperation::Flush, DiskOperation::Discard]
            [random.random_range(0..4)];
        let length = if kind == DiskOperation::Flush { 0 } else { 512 << random.random_range(0..12) };
        let offset = random.random_range(0..size) / 512 * 512;
        let length = if offset + length > size { 512.min(size - offset) } else { length };
        simulation.arrive(DiskRequest { id, kind, offset, length }, now_ns);
        pending.insert(id);
        now_ns += random.random_range(0.0..1e7);
        for DiskCompletion { id, at_ns } in simulation.advance(now_ns) {
            assert!(pending.remove(&id) && at_ns <= now_ns && at_ns >= 0.0, "{id} at {at_ns}");
        }
    }
    let mut last_ns = 0.0;
    while !pending.is_empty() {
        let next_ns = simulation.next_ns().unwrap_or_else(|| panic!("{pending:?} never end"));
        assert!(next_ns.is_finite(), "{next_ns}");
        for DiskCompletion { id, at_ns } in simulation.advance(next_ns) {
            assert!(pending.remove(&id) && at_ns >= last_ns, "{id} at {at_ns} after {last_ns}");
            last_ns = at_ns;
        }
        steps += 1;
        assert!(steps < STEPS, "{pending:?} do not end");
    }
}
