//! The guards as a function of what was found out about a device.

use fsdyno_core::device::Block;
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::probe::{
    DeviceIdentity, DeviceProbe, Partition, SCRATCH_MARK, Signature, UNKNOWN_DATA, Use,
};
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::GuardRefusal;
use fsdyno_testbed::guard::{DeviceNeed, Overwrite, identity_text, refusals};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

fn probe() -> DeviceProbe {
    DeviceProbe {
        path: "/dev/disk/by-id/x".into(),
        canonical: "/dev/sdb".into(),
        block: true,
        identity: DeviceIdentity {
            number: (8, 16),
            size_bytes: Bytes::GIB,
            diskseq: Some(7),
            serial: Some("naa,5000".into()),
            partition: None,
        },
        model: "Fake Disk".into(),
        ..DeviceProbe::default()
    }
}

fn reasons(
    probe: &DeviceProbe,
    pin: Option<&str>,
    destroy: &[&str],
    overwrite: &[&str],
    ours: bool,
) -> Vec<String> {
    all_refusals(probe, pin, &confirmation(destroy, overwrite), ours)
        .into_iter()
        .map(|refusal| refusal.reason)
        .collect()
}

fn confirmation(destroy: &[&str], overwrite: &[&str]) -> Confirmation {
    let overwrite = overwrite.iter().map(|text| text.parse().expect("DEVICE=KIND")).collect();
    Confirmation { destroy: destroy.iter().map(Into::into).collect(), overwrite, ..Confirmation::default() }
}

fn all_refusals(
    probe: &DeviceProbe,
    pin: Option<&str>,
    confirmation: &Confirmation,
    ours: bool,
) -> Vec<GuardRefusal> {
    let spec = DeviceSpec::Block(Block { identity: pin.map(str::to_string), ..Block::new(&probe.path) });
    let need = DeviceNeed { size: Bytes(Bytes::MIB), by: "the plan's trees".into() };
    let found = refusals(probe, &spec, confirmation, &need, ours);
    assert!(found.iter().all(|refusal| !refusal.hint.is_empty() && refusal.device == probe.path));
    found
}

const CONFIRMED: &[&str] = &["/dev/disk/by-id/x"];

#[test]
fn a_free_device_is_confirmed_by_any_of_its_names() {
    for name in ["/dev/disk/by-id/x", "/dev/sdb", "naa,5000"] {
        assert_eq!(reasons(&probe(), None, &[name], &[], false), [""; 0], "{name}");
    }
    for name in ["/dev/sdc", "/dev/sd", "5000", ""] {
        assert!(reasons(&probe(), None, &[name], &[], false)[0].contains("not confirmed"), "{name}");
    }
}

#[test]
fn every_use_refuses_with_a_reason_of_its_own() {
    let name = || "md0".to_string();
    let uses = vec![
        Use::Mounted { target: "/data".into(), namespace_of_pid: None },
        Use::Mounted { target: "/data".into(), namespace_of_pid: Some(12) },
        Use::Swap,
        Use::Holder { name: name() },
        Use::Slave { name: name() },
        Use::Partition { name: name() },
        Use::OpenedBy { pid: 12, command: "dd".into() },
        Use::Inherited { descriptor: 7 },
        Use::Alias { name: name(), how: "mounted".into() },
        Use::Member { filesystem: "btrfs".into(), uuid: "u".into() },
        Use::Carries { what: "/".into() },
        Use::ReadOnly,
        Use::Exported { by: "the NVMe target 'x'".into() },
        Use::Configured { table: "/etc/fstab".into(), purpose: "'/srv'".into() },
    ];
    let all = reasons(&DeviceProbe { uses: uses.clone(), ..probe() }, None, CONFIRMED, &[], false);
    assert_eq!(all.len(), uses.len(), "all at once: {all:#?}");
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), uses.len());
}

#[test]
fn a_mount_of_a_trial_is_for_restore_to_take_down() {
    let target = format!("/run/fsdyno-{}", "0123456789abcdef".repeat(2));
    let mounted = |target: &str| Use::Mounted { target: target.into(), namespace_of_pid: None };
    let found = DeviceProbe { uses: vec![mounted(&target), mounted("/run/fsdyno-x")], ..probe() };
    let all = all_refusals(&found, None, &confirmation(CONFIRMED, &[]), false);
    let hints: Vec<String> = all.into_iter().map(|refusal| refusal.hint).collect();
    assert!(hints[0].contains("fsdyno restore") && !hints[1].contains("restore"), "{hints:?}");
}

#[test]
fn what_is_unknown_refuses() {
    let probe = DeviceProbe { unknown: vec!["processes: permission denied".into()], ..probe() };
    assert!(reasons(&probe, None, CONFIRMED, &[], true)[0].contains("processes: permission denied"));
}

#[test]
fn signatures_need_their_kind_confirmed_for_the_device_unless_they_are_ours() {
    let signatures = vec![Signature::new("ext4"), Signature::new("crypto_LUKS")];
    let probe = DeviceProbe { signatures, ..probe() };
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], false).len(), 2);
    for name in ["/dev/disk/by-id/x", "/dev/sdb", "naa,5000"] {
        let left = reasons(&probe, None, CONFIRMED, &[&format!("{name}=ext4")], false);
        assert_eq!(left, ["carries a signature of crypto_LUKS"], "{name}");
    }
    assert_eq!(reasons(&probe, None, CONFIRMED, &["/dev/sdc=ext4", "/dev/sdb=xfs"], false).len(), 2);
    // What the sweep has used itself may contain data without a signature, but no filesystem of others.
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], true).len(), 2);
    let probe = DeviceProbe { signatures: vec![Signature::new(UNKNOWN_DATA)], ..probe };
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], true), [""; 0]);
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], false).len(), 1);
}

#[test]
fn a_refusal_says_what_would_be_lost_and_how_to_confirm_it() {
    let signature = Signature {
        uuid: Some("124c21d8-1d18-475f-8d22-575ba5543d62".into()),
        label: Some("my\u{1b}[31m data".into()),
        last_mount: Some("/srv/backup".into()),
        ..Signature::new("ext4")
    };
    let probe = DeviceProbe { signatures: vec![signature], ..probe() };
    let [refusal] = &all_refusals(&probe, None, &confirmation(CONFIRMED, &[]), false)[..] else {
        panic!("one")
    };
    assert_eq!(
        refusal.reason,
        "carries a signature of ext4 (label 'my\\u{1b}[31m data', UUID \
         '124c21d8-1d18-475f-8d22-575ba5543d62', last mounted on '/srv/backup')"
    );
    assert!(refusal.hint.contains("confirm with --overwrite /dev/disk/by-id/x=ext4;"), "{}", refusal.hint);
}

/// A GPT has a header at each end of the disk, and an MBR that protects it.
#[test]
fn one_hint_confirms_all_that_a_disk_carries() {
    let signatures = ["gpt", "gpt", "PMBR"].map(Signature::new).to_vec();
    let probe = DeviceProbe { signatures, ..probe() };
    let found = all_refusals(&probe, None, &confirmation(CONFIRMED, &[]), false);
    let both = "if all of it may be lost, confirm with --overwrite /dev/disk/by-id/x=gpt --overwrite \
                /dev/disk/by-id/x=PMBR; wipefs(8) shows and removes signatures";
    assert!(found.iter().all(|refusal| refusal.hint == both), "{found:?}");
    let confirmed = ["/dev/disk/by-id/x=gpt", "/dev/disk/by-id/x=PMBR"];
    assert_eq!(reasons(&probe, None, CONFIRMED, &confirmed, false), [""; 0]);
}

#[test]
fn data_without_a_signature_is_data() {
    let data = Signature { offset: 4096, ..Signature::new(UNKNOWN_DATA) };
    let probe = DeviceProbe { signatures: vec![data], ..probe() };
    let said = reasons(&probe, None, CONFIRMED, &["/dev/sdb=ext4"], false);
    assert_eq!(said, ["contains data without a known signature, first found at byte 4096"]);
    assert_eq!(reasons(&probe, None, CONFIRMED, &["/dev/sdb=unknown-data"], false), [""; 0]);
}

#[test]
fn what_fsdyno_made_in_any_sweep_needs_no_word() {
    let ours = |uuid: &str| Signature { uuid: Some(uuid.into()), ..Signature::new("ext4") };
    let made = vec![ours("66736479-6e6f-8abc-9def-0123456789ab"), Signature::new(SCRATCH_MARK)];
    let probe = DeviceProbe { signatures: made.clone(), ..probe() };
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], false), [""; 0]);
    let beside = [made, vec![ours("124c21d8-1d18-475f-8d22-575ba5543d62")]].concat();
    let probe = DeviceProbe { signatures: beside, ..probe };
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], false).len(), 1, "what somebody else made beside it");
}

#[test]
fn a_device_that_nothing_tells_from_another_is_refused() {
    let identity = |serial: Option<&str>, diskseq| DeviceIdentity {
        serial: serial.map(Into::into),
        diskseq,
        ..probe().identity
    };
    for (identity, refused) in
        [(identity(None, None), 1), (identity(None, Some(7)), 0), (identity(Some("naa,5000"), None), 0)]
    {
        let probe = DeviceProbe { identity, ..probe() };
        assert_eq!(reasons(&probe, None, CONFIRMED, &[], false).len(), refused, "{:?}", probe.identity);
    }
}

fn a_use() -> impl Strategy<Value = Use> {
    let word = || "[a-z/]{1,6}";
    prop_oneof![
        (word(), proptest::option::of(any::<u32>()))
            .prop_map(|(target, namespace_of_pid)| Use::Mounted { target, namespace_of_pid }),
        Just(Use::Swap),
        word().prop_map(|name| Use::Holder { name }),
        word().prop_map(|name| Use::Slave { name }),
        word().prop_map(|name| Use::Partition { name }),
        (any::<u32>(), word()).prop_map(|(pid, command)| Use::OpenedBy { pid, command }),
        (0..9).prop_map(|descriptor| Use::Inherited { descriptor }),
        (word(), word()).prop_map(|(name, how)| Use::Alias { name, how }),
        (word(), word()).prop_map(|(filesystem, uuid)| Use::Member { filesystem, uuid }),
        word().prop_map(|what| Use::Carries { what }),
        Just(Use::ReadOnly),
        word().prop_map(|by| Use::Exported { by }),
        (word(), word()).prop_map(|(table, purpose)| Use::Configured { table, purpose }),
    ]
}

const KINDS: &[&str] =
    &["ext4", "xfs", "vfat", "LVM2_member", "linux_raid_member", UNKNOWN_DATA, SCRATCH_MARK];

fn a_signature() -> impl Strategy<Value = Signature> {
    let uuid = prop_oneof![
        Just(None),
        Just(Some("66736479-6e6f-8abc-9def-0123456789ab".to_string())),
        "[0-9a-f]{8}-[0-9a-f]{4}".prop_map(Some)
    ];
    let label =
        prop_oneof![Just(None), Just(Some(format!("fsdyno_{:032x}", 7))), "[a-z]{0,4}".prop_map(Some)];
    (select(KINDS), any::<u64>(), uuid, label).prop_map(|(kind, offset, uuid, label)| Signature {
        offset,
        uuid,
        label,
        ..Signature::new(kind)
    })
}

fn a_probe() -> impl Strategy<Value = DeviceProbe> {
    let uses = proptest::collection::vec(a_use(), 0..4);
    let signatures = proptest::collection::vec(a_signature(), 0..4);
    let unknown = proptest::collection::vec("[a-z]{1,6}", 0..3);
    let identity = (any::<bool>(), any::<bool>(), 0..2 * Bytes::MIB);
    (uses, signatures, unknown, identity).prop_map(
        |(uses, signatures, unknown, (serial, diskseq, size_bytes))| {
            let mut probe = DeviceProbe { uses, signatures, unknown, ..probe() };
            probe.identity.size_bytes = size_bytes;
            probe.identity.serial = probe.identity.serial.filter(|_| serial);
            probe.identity.diskseq = probe.identity.diskseq.filter(|_| diskseq);
            probe
        },
    )
}

#[derive(Debug, Clone)]
enum Further {
    Use(Use),
    Signature(Signature),
    Unknown(String),
}

proptest! {
    /// Whatever else is found out about a device, what was refused stays refused, and for the same reason.
    #[test]
    fn a_further_fact_never_removes_a_refusal(
        probe in a_probe(),
        further in prop_oneof![
            a_use().prop_map(Further::Use),
            a_signature().prop_map(Further::Signature),
            "[a-z]{1,6}".prop_map(Further::Unknown),
        ],
        at in any::<Index>(),
        destroys in any::<bool>(),
        kinds in subsequence(KINDS, 0..=KINDS.len()),
        pin in select(&[None, Some("serial=naa,5000"), Some("diskseq=8")][..]),
        ours in any::<bool>(),
    ) {
        let confirmation = Confirmation {
            destroy: if destroys { vec!["/dev/sdb".into()] } else { Vec::new() },
            overwrite: kinds
                .iter()
                .map(|kind| Overwrite { device: "/dev/sdb".into(), kind: (*kind).to_string() })
                .collect(),
            ..Confirmation::default()
        };
        let mut more = probe.clone();
        match further {
            Further::Use(one) => more.uses.insert(at.index(probe.uses.len() + 1), one),
            Further::Signature(one) => more.signatures.insert(at.index(probe.signatures.len() + 1), one),
            Further::Unknown(one) => more.unknown.insert(at.index(probe.unknown.len() + 1), one),
        }
        let before = all_refusals(&probe, pin, &confirmation, ours);
        let after = all_refusals(&more, pin, &confirmation, ours);
        prop_assert!(after.len() >= before.len());
        for refusal in &before {
            // What a device carries is one list, into which a further thing may have come, at its begin, too.
            let reason = refusal.reason.trim_start_matches("carries ");
            let parts: Vec<&str> = reason.split(", ").collect();
            let kept = after.iter().any(|other| parts.iter().all(|part| other.reason.contains(part)));
            prop_assert!(kept, "'{}' is not in {after:#?}", refusal.reason);
        }
    }
}

#[test]
fn a_pin_holds_what_it_names() {
    let probe = probe();
    let text = identity_text(&probe.identity);
    assert_eq!(text, "serial=naa,5000,size=1073741824");
    let with = |pin: &str| reasons(&probe, Some(pin), CONFIRMED, &[], false);
    for good in
        [text.as_str(), "serial=naa,5000", "diskseq=7,size=1073741824", "size=1073741824", "number=8:16"]
    {
        assert_eq!(with(good), [""; 0], "{good}");
    }
    for bad in
        ["serial=other", "diskseq=8,size=1073741824", "diskseq=7,size=1", "number=8:0", "sdb", "colour=red"]
    {
        assert_eq!(with(bad).len(), 1, "{bad}");
    }
    let anonymous = DeviceIdentity { serial: None, ..probe.identity.clone() };
    assert_eq!(identity_text(&anonymous), "diskseq=7,size=1073741824");
}

#[test]
fn a_partition_is_confirmed_by_path_and_pinned_by_where_it_begins() {
    let place = Partition { disk: (8, 0), start_bytes: Bytes::MIB };
    let identity = DeviceIdentity { partition: Some(place), ..probe().identity };
    let partition = DeviceProbe { identity, ..probe() };
    assert_eq!(reasons(&partition, None, &["/dev/sdb"], &[], false), [""; 0]);
    let by_serial = reasons(&partition, None, &["naa,5000"], &[], false);
    assert!(by_serial[0].contains("not confirmed"), "the number is that of the whole disk");
    let text = identity_text(&partition.identity);
    assert_eq!(text, "serial=naa,5000,start=1048576,size=1073741824");
    let with = |pin: &str| reasons(&partition, Some(pin), CONFIRMED, &[], false).len();
    assert_eq!((with(&text), with("serial=naa,5000"), with("start=1048576")), (0, 0, 0));
    assert_eq!(with("serial=naa,5000,start=2097152,size=1073741824"), 1);
}

#[test]
fn too_small_and_no_device_refuse() {
    let small = DeviceProbe { identity: DeviceIdentity { size_bytes: 512, ..probe().identity }, ..probe() };
    assert!(
        reasons(&small, None, CONFIRMED, &[], false)[0].contains("has 512, but the plan's trees need 1M")
    );
    let file = DeviceProbe { block: false, ..probe() };
    assert_eq!(reasons(&file, None, CONFIRMED, &[], false), ["is not a block device"]);
}
