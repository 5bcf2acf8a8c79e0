//! The guards as a function of what was found out about a device.

use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, Use};
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::guard::{Need, identity_text, refusals};

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
        },
        model: "Fake Disk".into(),
        ..DeviceProbe::default()
    }
}

fn reasons(
    probe: &DeviceProbe,
    pin: Option<&str>,
    destroy: &[&str],
    signatures: &[&str],
    ours: bool,
) -> Vec<String> {
    let spec = DeviceSpec::Block { path: probe.path.clone(), identity: pin.map(str::to_string) };
    let confirmation = Confirmation {
        destroy: destroy.iter().map(Into::into).collect(),
        signatures: signatures.iter().map(ToString::to_string).collect(),
        ..Confirmation::default()
    };
    let need = Need { size: Bytes(Bytes::MIB), by: "the plan's trees".into() };
    let found = refusals(probe, &spec, &confirmation, &need, ours);
    assert!(found.iter().all(|refusal| !refusal.hint.is_empty() && refusal.device == probe.path));
    found.into_iter().map(|refusal| refusal.reason).collect()
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
        Use::IsPartition { of: name() },
        Use::OpenedBy { pid: 12, command: "dd".into() },
        Use::Alias { name: name(), how: "mounted".into() },
        Use::Member { filesystem: "btrfs".into(), uuid: "u".into() },
        Use::Carries { what: "/".into() },
        Use::ReadOnly,
    ];
    let all = reasons(&DeviceProbe { uses: uses.clone(), ..probe() }, None, CONFIRMED, &[], false);
    assert_eq!(all.len(), uses.len(), "all at once: {all:#?}");
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), uses.len());
}

#[test]
fn what_is_unknown_refuses() {
    let probe = DeviceProbe { unknown: vec!["processes: permission denied".into()], ..probe() };
    assert!(reasons(&probe, None, CONFIRMED, &[], true)[0].contains("processes: permission denied"));
}

#[test]
fn signatures_need_their_kind_confirmed_unless_they_are_ours() {
    let probe = DeviceProbe { signatures: vec!["ext4".into(), "crypto_LUKS".into()], ..probe() };
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], false).len(), 2);
    assert_eq!(reasons(&probe, None, CONFIRMED, &["ext4"], false), ["carries a signature of crypto_LUKS"]);
    assert_eq!(reasons(&probe, None, CONFIRMED, &[], true), [""; 0]);
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
fn too_small_and_no_device_refuse() {
    let small = DeviceProbe { identity: DeviceIdentity { size_bytes: 512, ..probe().identity }, ..probe() };
    assert!(
        reasons(&small, None, CONFIRMED, &[], false)[0].contains("has 512, and the plan's trees take 1M")
    );
    let file = DeviceProbe { block: false, ..probe() };
    assert_eq!(reasons(&file, None, CONFIRMED, &[], false), ["is no block device"]);
}
