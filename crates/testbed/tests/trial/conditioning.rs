//! Disks that are discarded or filled before a filesystem is created on them.

use crate::lab::{Case, DISK, Lab, SMALL_DISK, case, conditioned, configuration, devices};
use fsdyno_core::device::Conditioning;
use fsdyno_host::probe::{Signature, Use};
use fsdyno_testbed::{DiskQueues, TestbedError, commands, contradictions, unmet};
use std::path::Path;
use std::sync::atomic::Ordering;

const FILLED: &str = "ext4 on a filled block device";

fn on(filesystem: &str, precondition: Conditioning) -> Case {
    Case {
        name: "one disk",
        devices: devices(conditioned(SMALL_DISK, precondition), &[]),
        configuration: configuration(filesystem, &[]),
    }
}

fn steps<'a>(lab: &'a Lab, word: &'a str) -> impl Iterator<Item = &'a String> {
    lab.host.log().iter().filter(move |step| step.contains(word))
}

#[test]
fn all_but_the_mark_is_written_as_often_as_the_plan_says_and_before_mkfs() {
    let mut lab = Lab::new();
    let case = case(FILLED);
    lab.run(&case).unwrap();
    let fills: Vec<&str> = steps(&lab, "fill device")
        .filter_map(|step| step.split_once(" from "))
        .map(|(_, range)| range)
        .collect();
    let (mib, mark) = (1 << 20, 4096);
    let once = [(mark, mark + 64 * mib), (mark + 64 * mib, mark + 128 * mib), (mark + 128 * mib, 192 * mib)];
    let once = once.map(|(from, to)| format!("{from} to {to}"));
    assert_eq!(fills, [once.clone(), once].concat());
    let at = |word: &str| lab.host.log().iter().position(|step| step.contains(word)).expect("the step");
    assert!(at("mark device") < at("fill device"));
    assert!(at("blkdiscard --force /dev/fake1") < at("mke2fs -F"));
    assert!(at("fill device") < at("mkfs.ext4 -F"));
    let marked_again =
        lab.host.log().iter().skip(at("blkdiscard --force")).any(|step| step.contains("mark device"));
    assert!(marked_again, "a disk that was discarded shows that it is fsdyno's");
}

#[test]
fn mkfs_discards_nothing_that_was_filled() {
    let words =
        [("ext4", "nodiscard"), ("xfs", " -K "), ("btrfs", " -K "), ("nilfs2", " -K "), ("f2fs", "-t 0")];
    for (filesystem, word) in words {
        for (precondition, expected) in
            [(Conditioning::FillOnce, true), (Conditioning::Discard, false), (Conditioning::None, false)]
        {
            let case = on(filesystem, precondition);
            let lines = commands(&case.configuration, &case.devices, 42, &DiskQueues::new());
            let mkfs = lines.iter().find(|line| line.starts_with("mkfs")).expect("mkfs");
            assert_eq!(mkfs.contains(word), expected, "{mkfs}");
        }
    }
    let case = case(FILLED);
    let lines = commands(&case.configuration, &case.devices, 42, &DiskQueues::new());
    let journal = lines.iter().find(|line| line.contains("journal_dev")).expect("the journal");
    assert!(journal.contains("-E nodiscard"), "{journal}");
    let fill = "dd if=/dev/urandom of=/dev/fake4 bs=1M conv=fdatasync";
    assert_eq!(lines[..3], [fill, fill, "blkdiscard --force /dev/fake1"]);
}

#[test]
fn words_that_discard_what_was_filled_are_a_contradiction() {
    let with = |filesystem: &str, words: &str, precondition| {
        let case = on(filesystem, precondition);
        let configuration = configuration(filesystem, &[("mkfs", words)]);
        contradictions(&configuration, &case.devices)
    };
    for (filesystem, words) in [("ext4", "-E stride=4,discard"), ("f2fs", "-t 1")] {
        let found = with(filesystem, words, Conditioning::FillOnce);
        assert!(found.len() == 1 && found[0].contains("would discard that again"), "{found:?}");
        assert_eq!(with(filesystem, words, Conditioning::Discard), [""; 0]);
    }
    assert_eq!(with("ext4", "-E stride=4,nodiscard", Conditioning::FillOnce), [""; 0]);
    assert_eq!(with("xfs", "-K", Conditioning::FillOnce), [""; 0]);
}

#[test]
fn a_disk_is_guarded_before_anything_is_written_to_it() {
    let mut lab = Lab::new();
    let case = case(FILLED);
    let testbed = lab.verify(&case).unwrap();
    let mounted = Use::Mounted { target: "/precious".into(), namespace_of_pid: None };
    lab.host.taken_meanwhile.insert(DISK.into(), mounted);
    let error = lab.condition(&testbed, &case).unwrap_err();
    assert!(error.to_string().contains("is mounted on '/precious'"), "{error}");
    assert_eq!((steps(&lab, "fill device").count(), steps(&lab, "blkdiscard --force").count()), (0, 0));
    lab.undo();

    let mut lab = Lab::new();
    let testbed = lab.verify(&case).unwrap();
    let uses = &mut lab.host.blocks.get_mut(Path::new(SMALL_DISK)).unwrap().signatures;
    uses.push(Signature::new("xfs"));
    let error = lab.condition(&testbed, &case).unwrap_err();
    assert!(matches!(error, TestbedError::Refused { .. }), "{error:?}");
    assert_eq!(steps(&lab, "fill device").count(), 0);
}

#[test]
fn whoever_interrupts_waits_for_a_piece_at_most() {
    let mut lab = Lab::new();
    let case = case(FILLED);
    let testbed = lab.verify(&case).unwrap();
    lab.interrupt.store(true, Ordering::Relaxed);
    let error = lab.condition(&testbed, &case).unwrap_err();
    assert_eq!(error.to_string(), "interrupted while '/dev/fake4' was being filled");
    lab.undo();
    assert_eq!(lab.host.open_devices(), 0);
}

#[test]
fn a_disk_without_discards_is_not_discarded() {
    let mut lab = Lab::new();
    let case = on("ext4", Conditioning::Discard);
    assert_eq!(unmet(&mut lab.host, &case.configuration, &case.devices), [""; 0]);
    lab.host.write_setting("/sys/dev/block/259:3/queue/discard_max_bytes", "0\n");
    assert_eq!(
        unmet(&mut lab.host, &case.configuration, &case.devices),
        ["precondition = \"discard\": '/dev/fake4' does not support discards; fill it instead"]
    );
}
