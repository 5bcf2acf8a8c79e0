//! A fake machine, the trials that run on it, and what every test does with them.

use fsdyno_core::device::{
    Bitmap, Block, Conditioning, Delay, Delayed, DiskModelText, Image, Lvm, Md, RaidLevel,
};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Nanos};
use fsdyno_testbed::undo::{self, RestoreReport, UndoJournal, UndoReport};
use fsdyno_testbed::{Confirmation, Mounted, Stack, Testbed, TestbedError, build, condition};
use fsdyno_testkit::fake::{FakeHost, Machine};
use std::sync::atomic::AtomicBool;

pub const IMAGE: &str = "/data/fsdyno.img";
pub const DISK: &str = "/dev/fake1";
pub const SMALL_DISK: &str = "/dev/fake4";

/// A trial to run in every way: its devices and settings.
pub struct Case {
    pub name: &'static str,
    pub devices: Devices,
    pub configuration: Configuration,
}

pub fn configuration(filesystem: &str, settings: &[(&str, &str)]) -> Configuration {
    Configuration {
        name: filesystem.to_string(),
        filesystem: filesystem.to_string(),
        settings: settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    }
}

pub fn image(path: &str, size: u64) -> DeviceSpec {
    DeviceSpec::image(path, Bytes(size))
}

fn modelled(path: &str, size: u64) -> DeviceSpec {
    let text = include_str!("../../../../disks/sata-7200-2009.toml").to_string();
    let model = Some(DiskModelText { name: "sata-7200-2009".to_string(), text });
    DeviceSpec::Image(Image { model, ..Image::new(path, Bytes(size)) })
}

pub fn devices(data: DeviceSpec, journals: &[(&str, DeviceSpec)]) -> Devices {
    let journals = journals.iter().map(|(name, spec)| (name.to_string(), spec.clone())).collect();
    Devices { data, journals }
}

pub fn block(path: &str) -> DeviceSpec {
    DeviceSpec::block(path)
}

pub fn conditioned(path: &str, precondition: Conditioning) -> DeviceSpec {
    DeviceSpec::Block(Block { precondition, ..Block::new(path) })
}

pub fn slow(disk: DeviceSpec) -> DeviceSpec {
    let delay = Delay { read: Nanos::from_millis(5), ..Delay::default() };
    DeviceSpec::Delayed(Delayed { delay, disk: Box::new(disk) })
}

pub fn md(level: RaidLevel, disks: Vec<DeviceSpec>) -> DeviceSpec {
    DeviceSpec::Md(Md { level, chunk: None, bitmap: Bitmap::None, disks })
}

pub const TUNED: &[(&str, &str)] = &[
    ("scheduler", "bfq"),
    ("nr_requests", "64"),
    ("readahead", "1M"),
    ("sysctl.vm.dirty_bytes", "1048576"),
    ("sysctl.vm.swappiness", "10"),
];

#[expect(clippy::too_many_lines, reason = "a table")]
pub fn cases() -> Vec<Case> {
    let external = [TUNED, &[("journal", "external:disk")]].concat();
    vec![
        Case {
            name: "ext4, internal journal, image",
            devices: devices(image(IMAGE, 4 * Bytes::GIB), &[]),
            configuration: configuration("ext4", TUNED),
        },
        Case {
            name: "xfs, log on a second image",
            devices: devices(
                image(IMAGE, 4 * Bytes::GIB),
                &[("disk", image("/data/journal.img", 128 * Bytes::MIB))],
            ),
            configuration: configuration("xfs", &external),
        },
        Case {
            name: "ext4, journal on a second image",
            devices: devices(
                image(IMAGE, 4 * Bytes::GIB),
                &[("disk", image("/data/journal.img", 128 * Bytes::MIB))],
            ),
            configuration: configuration("ext4", &external),
        },
        Case {
            name: "btrfs, block device",
            devices: devices(block(DISK), &[]),
            configuration: configuration("btrfs", TUNED),
        },
        Case {
            name: "xfs on a mirror of an image and a slow one",
            devices: devices(
                md(
                    RaidLevel::Raid1,
                    vec![image(IMAGE, 4 * Bytes::GIB), slow(image("/data/slow.img", 4 * Bytes::GIB))],
                ),
                &[],
            ),
            configuration: configuration("xfs", TUNED),
        },
        Case {
            name: "ext4 on raid5 of block devices, its journal on a slow one",
            devices: devices(
                md(RaidLevel::Raid5, [DISK, "/dev/fake2", "/dev/fake3"].map(block).to_vec()),
                &[("disk", slow(image("/data/journal.img", 128 * Bytes::MIB)))],
            ),
            configuration: configuration("ext4", &external),
        },
        Case {
            name: "ext4 on a striped volume of block devices, one of them slow",
            devices: devices(
                DeviceSpec::Lvm(Lvm {
                    stripes: 2,
                    stripe_size: Some(Bytes(128 * Bytes::KIB)),
                    disks: vec![block(DISK), slow(block("/dev/fake2"))],
                }),
                &[],
            ),
            configuration: configuration("ext4", TUNED),
        },
        Case {
            name: "ext4 on a filled block device, its journal on a discarded one",
            devices: devices(
                conditioned(SMALL_DISK, Conditioning::FillTwice),
                &[("disk", conditioned(DISK, Conditioning::Discard))],
            ),
            configuration: configuration("ext4", &external),
        },
        Case {
            name: "ext4 on a modelled disk",
            devices: devices(modelled(IMAGE, 4 * Bytes::GIB), &[]),
            configuration: configuration("ext4", TUNED),
        },
        Case {
            name: "a directory",
            devices: devices(DeviceSpec::Directory { path: "/data".into() }, &[]),
            configuration: configuration("existing", &[("sysctl.vm.dirty_ratio", "5")]),
        },
    ]
}

/// The case whose name begins so.
pub fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name.starts_with(name)).expect("a case of this name")
}

pub fn machine() -> FakeHost {
    let mut host = FakeHost::new();
    for (index, path) in [DISK, "/dev/fake2", "/dev/fake3"].into_iter().enumerate() {
        host.add_block(path, (259, index as u32), Bytes(8 * Bytes::GIB));
        // The files that name a device are there before and after.
        host.write_setting(format!("/sys/dev/block/259:{index}/uevent"), "DEVTYPE=disk\n");
    }
    host.add_block(SMALL_DISK, (259, 3), Bytes(192 * Bytes::MIB));
    host.write_setting("/sys/dev/block/259:3/uevent", "DEVTYPE=disk\n");
    host.add_file("/data/precious", Bytes(1));
    // A depth that is none of the kernel's own, so that it shows whether it comes back.
    host.write_setting("/sys/dev/block/259:0/queue/nr_requests", "99\n");
    host
}

pub fn confirmation() -> Confirmation {
    Confirmation {
        destroy: [DISK, "/dev/fake2", "/dev/fake3", SMALL_DISK].map(Into::into).to_vec(),
        ..Confirmation::default()
    }
}

/// A fake machine, and the journal of a trial on it.
pub struct Lab {
    pub host: FakeHost,
    /// The machine before the trial.
    pub before: Machine,
    pub journal: UndoJournal,
    pub interrupt: AtomicBool,
    pub directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        let mut host = machine();
        // In memory where there is such a place: hundreds of journals are synced here.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory");
        let journal = UndoJournal::create(&mut host, directory.path()).expect("a journal");
        Lab { before: host.snapshot(), host, journal, interrupt: AtomicBool::default(), directory }
    }

    pub fn verify(&mut self, case: &Case) -> Result<Testbed, TestbedError> {
        let configurations = std::slice::from_ref(&case.configuration);
        Testbed::verify(&mut self.host, &case.devices, configurations, Bytes(0), &confirmation())
    }

    pub fn build(&mut self, testbed: &Testbed, case: &Case) -> Result<Stack, TestbedError> {
        build(&mut self.host, &mut self.journal, testbed, &case.configuration, 42, &self.interrupt)
    }

    pub fn condition(&mut self, testbed: &Testbed, case: &Case) -> Result<Option<Nanos>, TestbedError> {
        let Lab { host, journal, interrupt, .. } = self;
        condition(host, journal, testbed, &case.configuration, interrupt, &mut |_| ())
    }

    /// A trial from guards to mount.
    pub fn mount(&mut self, case: &Case) -> Result<Mounted, TestbedError> {
        let testbed = self.verify(case)?;
        self.condition(&testbed, case)?;
        let stack = self.build(&testbed, case)?;
        let Lab { host, journal, .. } = self;
        stack.format(host)?.mount(host, journal)
    }

    /// A trial from guards to check, without taking it down.
    pub fn run(&mut self, case: &Case) -> Result<(), TestbedError> {
        let mounted = self.mount(case)?;
        let Lab { host, journal, .. } = self;
        mounted.environment(host);
        mounted.carriers(host);
        let mounted = mounted.unmount(host, journal)?.mount_again(host, journal)?;
        let unmounted = mounted.unmount(host, journal)?;
        unmounted.check(host, journal)?;
        Ok(())
    }

    pub fn undo(&mut self) -> UndoReport {
        self.journal.undo_all(&mut self.host)
    }

    /// The process is gone, its locks and open devices with it; the machine is not.
    pub fn end_process(&mut self) {
        self.journal = UndoJournal::in_memory();
        self.host.revive();
    }

    /// The process is gone and the machine was started again: the journal is of another boot.
    pub fn reboot(&mut self) {
        let path = self.journal.path().expect("a file").to_path_buf();
        self.end_process();
        let text = std::fs::read_to_string(&path).expect("a journal");
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
        assert!(text.contains(boot.trim()));
        std::fs::write(&path, text.replace(boot.trim(), "another-boot")).expect("write it");
    }

    pub fn restore(&mut self) -> RestoreReport {
        undo::restore(&mut self.host, self.directory.path()).expect("restore")
    }
}

/// Runs a body for each item, many at once: most of the time they wait for something that is to be busy no
/// longer.
pub fn at_once<T: Send>(items: impl Iterator<Item = T>, body: impl Fn(T) + Sync) {
    pub const MOST: usize = 32;
    // Neighbours wait alike, so each goes to another thread.
    let mut shares: Vec<Vec<T>> = (0..MOST).map(|_| Vec::new()).collect();
    items.enumerate().for_each(|(index, item)| shares[index % MOST].push(item));
    std::thread::scope(|scope| {
        for share in shares {
            let body = &body;
            scope.spawn(move || share.into_iter().for_each(body));
        }
    });
}

/// The number of steps of a trial with everything undone.
pub fn steps(case: &Case) -> usize {
    let mut lab = Lab::new();
    lab.run(case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
    let report = lab.undo();
    assert_eq!(report.left, [""; 0], "{}", case.name);
    assert_eq!(lab.host.snapshot(), lab.before, "{}", case.name);
    assert_eq!(lab.host.open_devices(), 0, "{}", case.name);
    lab.journal.close().expect("remove the journal");
    assert_eq!(std::fs::read_dir(lab.directory.path()).expect("list it").count(), 0, "the journal is gone");
    lab.host.log().len()
}
