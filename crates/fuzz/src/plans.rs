//! Plans: parsed, expanded into cases, and dry-run on a machine in memory.

use fsdyno_core::Bytes;
use fsdyno_sweep::{Plan, PlanError, dry_run};
use fsdyno_testkit::fake::{FakeGuests, FakeHost};

/// Larger plans are just as valid, but test nothing that smaller ones do not.
const MOST_CASES: usize = 64;
const MOST_TRIALS: u64 = 1000;

/// Whatever a plan says, parsing it and a dry run change nothing.
pub fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let plan = match Plan::parse(text, "/nowhere/plan.toml", &[]) {
        Ok(plan) => plan,
        Err(error) => return assert_helpful(&error),
    };
    let cases = plan.cases().len();
    let blocks = plan.enough.map_or(plan.repetitions, |enough| enough.max);
    if cases > MOST_CASES || cases as u64 * u64::from(blocks) > MOST_TRIALS {
        return;
    }
    let mut host = FakeHost::new();
    for (minor, disk) in [(0, "/dev/sdb"), (1, "/dev/sdc")] {
        host.add_block(disk, (259, minor), Bytes(64 * Bytes::GIB));
    }
    let before = host.snapshot();
    let run = dry_run(&plan, &mut host, &mut FakeGuests::default());
    assert_eq!(host.snapshot(), before, "a dry run changes nothing");
    assert_eq!(host.touched().len(), 0, "a dry run touches nothing");
    assert_eq!(run.cases.len(), cases);
    serde_json::to_string(&run).expect("a dry run is JSON");
    let _ = fsdyno_sweep::study(text, &[]);
}

/// An error has a text, and so has its hint.
fn assert_helpful(error: &PlanError) {
    assert!(!error.to_string().trim().is_empty());
    if let Some(hint) = error.hint() {
        assert!(!hint.trim().is_empty(), "{error}");
    }
}
