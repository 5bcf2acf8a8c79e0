//! The time of filling, estimated on a machine in memory.

use crate::lab::plan;
use fsdyno_core::Bytes;
use fsdyno_host::guest::NoGuests;
use fsdyno_sweep::{DryCase, dry_run};
use fsdyno_testkit::fake::FakeHost;

const PLAN: &str = r#"
[device]
block = "/dev/fake1"
[axes]
filesystem = "ext4"
fill = ["default", "50%"]
age = 0
[[workloads]]
kind = "null"
ramp = 0
window = "1s"
"#;

/// The cases of a dry run: one that is not filled, and one that is.
fn cases(host: &mut FakeHost, overrides: &[&str]) -> [DryCase; 2] {
    let before = host.snapshot();
    let run = dry_run(&plan(PLAN, overrides), host, &mut NoGuests);
    assert_eq!(host.snapshot(), before);
    run.cases.try_into().unwrap()
}

fn disk() -> FakeHost {
    let mut host = FakeHost::new();
    host.add_block("/dev/fake1", (259, 0), Bytes(8_000_000_000));
    host
}

fn seconds(case: &DryCase) -> f64 {
    case.time_ns.as_secs_f64()
}

#[test]
fn filling_a_block_device_is_counted_as_filling_an_image_is() {
    let [plain, filled] = cases(&mut disk(), &[]);
    assert_eq!((plain.unmet.len(), filled.unmet.len()), (0, 0), "{:?}", filled.unmet);
    // 4 GB at 200 MB/s.
    assert!(
        (seconds(&filled) - seconds(&plain) - 20.0).abs() < 0.1,
        "{} {}",
        seconds(&filled),
        seconds(&plain)
    );
    let image = ["device={image=\"/data/fsdyno.img\",size=8000000000}"];
    let of_image = cases(&mut disk(), &image);
    assert_eq!([plain.time_ns, filled.time_ns], of_image.map(|case| case.time_ns));
    // Each round of ageing writes half of it anew.
    let [_, aged] = cases(&mut disk(), &["axes.age=[3]", "axes.fill=[\"40%\", \"50%\"]"]);
    assert!((seconds(&aged) - seconds(&plain) - 50.0).abs() < 0.1, "{}", seconds(&aged));
}

#[test]
fn a_fill_that_leaves_a_block_device_no_room_is_told_beforehand() {
    let large = ["workloads=[{kind=\"fileserver\",tree_size=\"5G\",writer_space=\"1M\"}]"];
    let [plain, filled] = cases(&mut disk(), &large);
    assert_eq!(plain.unmet, [""; 0]);
    assert!(filled.unmet.iter().any(|reason| reason.contains("which does not fit")), "{:?}", filled.unmet);
}

#[test]
fn a_device_that_is_not_at_hand_is_said_to_be_unknown() {
    let [plain, filled] = cases(&mut FakeHost::new(), &[]);
    assert_eq!(plain.time_ns, filled.time_ns);
    assert_eq!(plain.notes, [""; 0]);
    assert!(filled.notes[0].starts_with("the time to fill the device is unknown"), "{:?}", filled.notes);
    assert!(filled.notes[0].contains("/dev/fake1"), "{:?}", filled.notes);
}
