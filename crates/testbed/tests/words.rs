//! The words of mkfs, mount and sysfs that each level of each axis becomes.

use fsdyno_core::device::{Bitmap, Delay, Delayed, Image, Md, RaidLevel};
use fsdyno_core::filesystem::Identifier;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Nanos};
use fsdyno_testbed::{Confirmation, DiskQueues, Testbed, TestbedError, UndoJournal, build, commands};
use fsdyno_testkit::fake::FakeHost;
use std::sync::atomic::AtomicBool;

fn devices() -> Devices {
    let image = |path: &str, size| DeviceSpec::image(path, Bytes(size));
    let journals = [("disk".to_string(), image("/var/tmp/j.img", 128 * Bytes::MIB))].into();
    Devices { data: image("/var/tmp/d.img", 4 * Bytes::GIB), journals }
}

fn lines(filesystem: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let configuration = Configuration {
        name: String::new(),
        filesystem: filesystem.to_string(),
        settings: settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    };
    commands(&configuration, &devices(), 42, &DiskQueues::new())
}

#[test]
fn a_dry_run_shows_the_whole_trial() {
    assert_eq!(
        lines("ext4", &[("scheduler", "bfq"), ("barrier", "0"), ("sysctl.vm.dirty_ratio", "5")]),
        [
            "truncate -s 4G /var/tmp/d.img",
            "losetup --direct-io=on -f /var/tmp/d.img",
            "mkfs.ext4 -F -U 66736479-6e6f-84dc-a944-6c18791219de -E \
             lazy_itable_init=0,lazy_journal_init=0,hash_seed=66736479-6e6f-8327-9cfa-51dc8e8036f1 \
             /var/tmp/d.img",
            "echo bfq > /sys/block/loopN/queue/scheduler",
            "echo 5 > /proc/sys/vm/dirty_ratio",
            "mount -t ext4 -o barrier=0 /var/tmp/d.img /run/fsdyno-RANDOM",
            "umount /run/fsdyno-RANDOM",
            "e2fsck -f -n /var/tmp/d.img",
        ]
    );
}

#[test]
fn an_external_journal_is_made_first_and_named_everywhere() {
    let of = |filesystem: &str| -> Vec<String> {
        lines(filesystem, &[("journal", "external")])
            .into_iter()
            .filter(|line| line.contains("j.img"))
            .skip(2)
            .collect()
    };
    let ext = of("ext4");
    assert!(ext[0].starts_with("mke2fs -F -O journal_dev -U ") && ext[0].contains(" -b 4096 "), "{ext:#?}");
    assert!(ext[1].contains(" -b 4096 -J device=/var/tmp/j.img -E "), "{ext:#?}");
    assert!(ext[2].contains("-o journal_path=/var/tmp/j.img "), "{ext:#?}");
    assert_eq!(ext[3], "e2fsck -f -n -j /var/tmp/j.img /var/tmp/d.img");
    let xfs = of("xfs");
    assert!(xfs[0].ends_with("-l logdev=/var/tmp/j.img /var/tmp/d.img"), "{xfs:#?}");
    assert!(xfs[1].contains("-o logdev=/var/tmp/j.img "), "{xfs:#?}");
    assert_eq!(xfs[2], "xfs_repair -n -l /var/tmp/j.img /var/tmp/d.img");
}

#[test]
fn each_level_has_its_words() {
    // Filesystem, axis, level, and a piece of the command that it must give, without white space at its ends.
    let table = [
        ("ext2", "block_size", "1k", "mkfs.ext2: -b 1024"),
        ("ext3", "block_size", "2k", "mkfs.ext3: -b 2048"),
        ("ext4", "inode_size", "512", "mkfs.ext4: -I 512"),
        ("ext4", "journal", "none", "mkfs.ext4: -O ^has_journal"),
        ("ext4", "journal_size", "64M", "mkfs.ext4: -J size=64"),
        ("ext4", "mkfs", "-O quota -E stride=8 -m 0", "mkfs.ext4: ,stride=8 -O quota -m 0"),
        ("ext4", "data", "journal", "mount: data=journal"),
        ("ext3", "data", "writeback", "mount: data=writeback"),
        ("ext4", "commit", "30", "mount: commit=30"),
        ("ext4", "delalloc", "0", "mount: nodelalloc"),
        ("ext4", "delalloc", "1", "mount: -o delalloc"),
        ("ext4", "journal_async_commit", "1", "mount: journal_async_commit"),
        ("ext2", "barrier", "1", "mount: barrier=1"),
        ("ext4", "atime", "noatime", "mount: -o noatime"),
        ("xfs", "block_size", "1k", "mkfs.xfs: -b size=1024"),
        ("xfs", "agcount", "8", "mkfs.xfs: -d agcount=8"),
        ("xfs", "log_size", "64M", "mkfs.xfs: -l size=67108864"),
        ("xfs", "lazy_count", "1", "mkfs.xfs: -l lazy-count=1"),
        ("xfs", "mkfs", "-i size=1024", "mkfs.xfs: -i size=1024 /var/tmp/d.img"),
        ("xfs", "logbufs", "4", "mount: logbufs=4"),
        ("xfs", "logbsize", "262144", "mount: logbsize=256k"),
        ("xfs", "atime", "strictatime", "mount: -o strictatime"),
        ("btrfs", "block_size", "4k", "mkfs.btrfs: --sectorsize 4096"),
        ("btrfs", "profile", "single", "mkfs.btrfs: --metadata single"),
        ("btrfs", "barrier", "0", "mount: -o nobarrier"),
        ("btrfs", "barrier", "1", "mount: -o barrier"),
        ("btrfs", "datacow", "0", "mount: nodatacow"),
        ("btrfs", "datacow", "1", "mount: -o datacow"),
        ("btrfs", "compress", "zstd", "mount: compress=zstd"),
        ("btrfs", "commit", "7", "mount: commit=7"),
        ("btrfs", "mount", "autodefrag,noatime", "mount: -o autodefrag,noatime"),
        ("f2fs", "barrier", "0", "mount: -o nobarrier"),
        ("nilfs2", "block_size", "1k", "mkfs.nilfs2: -b 1024"),
        ("nilfs2", "barrier", "1", "mount: -o barrier"),
        ("jfs", "journal_size", "8M", "mkfs.jfs: -s 8"),
        ("jfs", "atime", "noatime", "mount: -o noatime"),
        ("reiserfs", "block_size", "4k", "mkfs.reiserfs: -b 4096"),
        ("reiserfs", "journal_size", "16M", "mkfs.reiserfs: -s 4096"),
        ("reiserfs", "barrier", "1", "mount: -o barrier=flush"),
        ("reiserfs", "data", "writeback", "mount: -o data=writeback"),
        ("reiserfs", "commit", "7", "mount: -o commit=7"),
        ("vfat", "block_size", "8k", "mkfs.vfat: -s 16"),
        ("ntfs", "block_size", "8k", "mkfs.ntfs: -c 8192"),
        ("ntfs", "mount", "noatime", "mount: -t ntfs3 -o noatime"),
        ("bcachefs", "block_size", "1k", "bcachefs: --block_size=1024"),
        ("xfs", "scheduler", "kyber", "echo: kyber > /sys/block/loopN/queue/scheduler"),
        ("xfs", "readahead", "1M", "echo: 1024 > /sys/block/loopN/queue/read_ahead_kb"),
        ("xfs", "nr_requests", "32", "echo: 32 > /sys/block/loopN/queue/nr_requests"),
        ("btrfs", "flushoncommit", "1", "mount: flushoncommit"),
        ("btrfs", "flushoncommit", "0", "mount: noflushoncommit"),
        ("xfs", "write_cache", "write-through", "echo: write through"),
        ("xfs", "max_request", "1M", "echo: 1024 > /sys/block/loopN/queue/max_sectors_kb"),
        ("xfs", "merges", "simple", "echo: 1 > /sys/block/loopN/queue/nomerges"),
    ];
    for (filesystem, axis, level, expected) in table {
        let (program, words) = expected.split_once(": ").expect("a program and words");
        let lines = lines(filesystem, &[(axis, level)]);
        let found = lines.iter().any(|line| line.starts_with(&format!("{program} ")) && line.contains(words));
        assert!(found, "{filesystem} {axis} = {level}: '{expected}' in {lines:#?}");
        let plain = crate::lines(filesystem, &[]);
        assert!(!plain.iter().any(|line| line.starts_with(&format!("{program} ")) && line.contains(words)));
    }
}

#[test]
fn levels_that_are_left_to_the_defaults_give_no_words() {
    for filesystem in fsdyno_core::filesystem::names() {
        let default =
            lines(filesystem, &[("barrier", "default"), ("scheduler", "default"), ("block_size", "default")]);
        assert_eq!(default, lines(filesystem, &[]));
    }
}

#[test]
fn lazy_initialisation_is_off_and_no_tool_can_ask() {
    for filesystem in ["ext2", "ext3", "ext4"] {
        let mkfs = &lines(filesystem, &[])[2];
        assert!(mkfs.contains("lazy_itable_init=0,lazy_journal_init=0") && mkfs.contains(" -F "), "{mkfs}");
    }
    for (filesystem, begin) in [
        ("xfs", "mkfs.xfs -f "),
        ("btrfs", "mkfs.btrfs -f "),
        ("f2fs", "mkfs.f2fs -f "),
        ("nilfs2", "mkfs.nilfs2 -f "),
        ("jfs", "mkfs.jfs -q "),
        ("reiserfs", "mkfs.reiserfs -f -f "),
        ("vfat", "mkfs.vfat -v -F32 -I "),
        ("ntfs", "mkfs.ntfs -Q -F "),
        ("bcachefs", "bcachefs format --force --quiet -U "),
    ] {
        let mkfs = &lines(filesystem, &[])[2];
        assert!(mkfs.starts_with(begin), "{mkfs}");
    }
}

#[test]
fn only_the_seed_changes_identifiers_and_it_does_where_they_have_room() {
    for filesystem in fsdyno_core::filesystem::all() {
        let name = filesystem.name;
        let configuration =
            Configuration { name: String::new(), filesystem: name.into(), settings: [].into() };
        let one = commands(&configuration, &devices(), 1, &DiskQueues::new());
        assert_eq!(one, commands(&configuration, &devices(), 1, &DiskQueues::new()));
        let differ = one
            .iter()
            .zip(commands(&configuration, &devices(), 2, &DiskQueues::new()))
            .filter(|(a, b)| *a != b)
            .count();
        // A serial number of 32 bits only says that it is ours.
        let room = filesystem.identifier != Identifier::Serial32;
        assert_eq!(differ, usize::from(room), "{name}: only one line of mkfs");
    }
}

#[test]
fn another_image_changes_the_uuid_and_not_the_hash_seed() {
    let mkfs = |devices: &Devices| {
        let configuration =
            Configuration { name: String::new(), filesystem: "ext4".into(), settings: Default::default() };
        let lines = commands(&configuration, devices, 42, &DiskQueues::new());
        let line = lines.into_iter().find(|line| line.starts_with("mkfs.ext4")).expect("an mkfs line");
        let word = |before: &str| {
            line.split(before).nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_string)
        };
        (word("-U "), word("hash_seed="))
    };
    let mut other = devices();
    other.data = DeviceSpec::image("/var/tmp/d.img.1", Bytes(Bytes::GIB));
    let (one, two) = (mkfs(&devices()), mkfs(&other));
    assert_ne!(one.0, two.0);
    assert_eq!(one.1, two.1);
}

#[test]
fn no_raw_word_names_a_device_past_the_guards() {
    let found = |filesystem: &str, axis: &str, text: &str| {
        let settings = [(axis.to_string(), text.to_string())].into();
        let configuration = Configuration { name: String::new(), filesystem: filesystem.into(), settings };
        fsdyno_testbed::contradictions(&configuration, &devices()).len()
    };
    for (filesystem, axis, bad) in [
        ("btrfs", "mkfs", "/dev/sdb"),
        ("btrfs", "mkfs", "sdb"),
        ("btrfs", "mkfs", "-O quota sdb"),
        ("xfs", "mkfs", "-l logdev=sdb"),
        ("xfs", "mkfs", "-d agcount=4,name=sdb"),
        ("ext4", "mkfs", "-J device=LABEL=journal"),
        ("xfs", "mount", "noatime,rtdev=/dev/sdb"),
        ("ext4", "mount", "journal_path=/dev/sdb"),
    ] {
        assert!(found(filesystem, axis, bad) > 0, "{filesystem} {axis} = '{bad}'");
    }
    for (filesystem, axis, good) in [
        ("xfs", "mkfs", "-d agcount=4 -l size=64m"),
        ("ext4", "mkfs", "-O ^metadata_csum -E stride=4 -m 0"),
        ("btrfs", "mkfs", "--nodesize 32768 -O quota"),
        ("xfs", "mount", "noatime,logbufs=8"),
        ("btrfs", "mount", "subvol=/,autodefrag"),
    ] {
        assert_eq!(found(filesystem, axis, good), 0, "{filesystem} {axis} = '{good}'");
    }
}

#[test]
fn a_dry_run_shows_how_a_stack_is_built() {
    let image =
        |path: &str| DeviceSpec::Image(Image { direct_io: false, ..Image::new(path, Bytes(Bytes::GIB)) });
    let delay = Delay { read: Nanos::from_millis(5), write: Nanos::from_millis(5), flush: Nanos(0) };
    let slow = DeviceSpec::Delayed(Delayed { delay, disk: Box::new(image("/b")) });
    let disks = vec![image("/a"), slow];
    let data = DeviceSpec::Md(Md { level: RaidLevel::Raid1, chunk: None, bitmap: Bitmap::None, disks });
    let devices = Devices { data, journals: Default::default() };
    let settings = [("scheduler", "bfq"), ("readahead", "1M")];
    let configuration = Configuration {
        name: String::new(),
        filesystem: "btrfs".into(),
        settings: settings.map(|(axis, level)| (axis.to_string(), level.to_string())).into(),
    };
    let lines = commands(&configuration, &devices, 42, &DiskQueues::new());
    let start = [
        "truncate -s 1G /a",
        "losetup -f /a",
        "truncate -s 1G /b",
        "losetup -f /b",
        "dmsetup create fsdyno-RANDOM --table '0 2097152 delay /b 0 5 /b 0 5 /b 0 0'",
        "mdadm --create /dev/md/fsdyno-RANDOM --homehost=none --run --metadata=1.2 --level=raid1 \
         --raid-devices=2 --bitmap=none --assume-clean --uuid=RANDOM /a /dev/mapper/fsdyno-RANDOM",
    ];
    assert_eq!(lines[..6], start);
    assert!(
        lines[6].starts_with("mkfs.btrfs ") && lines[6].ends_with(" /dev/md/fsdyno-RANDOM"),
        "{lines:#?}"
    );
    assert_eq!(
        lines[7..9],
        ["echo bfq > /sys/block/loopN/queue/scheduler", "echo 1024 > /sys/block/mdN/queue/read_ahead_kb"]
    );
}

#[test]
fn a_mkfs_that_made_nothing_is_found_out_before_the_mount() {
    let configuration =
        Configuration { name: String::new(), filesystem: "ext4".into(), settings: Default::default() };
    let mut host = FakeHost::new();
    host.mkfs_makes_nothing = true;
    let mut journal = UndoJournal::in_memory();
    let mut devices = devices();
    devices.data = DeviceSpec::image("/data/d.img", Bytes(Bytes::GIB));
    devices.journals.clear();
    let all = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(&mut host, &devices, all, Bytes(0), &Confirmation::default()).unwrap();
    let interrupt = AtomicBool::default();
    let stack = build(&mut host, &mut journal, &testbed, &configuration, 42, &interrupt).unwrap();
    let error = stack.format(&mut host).unwrap_err();
    assert!(matches!(error, TestbedError::NotMade { .. }), "{error:?}");
    assert_eq!(error.step(), "mkfs");
    assert!(error.failure().hint.is_some());
    assert!(host.snapshot().mounts.is_empty());
    assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
}
