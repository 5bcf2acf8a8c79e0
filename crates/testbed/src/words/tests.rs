//! Hostile words against the table of each tool, and usual ones that must pass.

use super::*;
use crate::filesystem::find;
use fsdyno_core::WarningKind;

fn found(filesystem: &str, axis: &str, text: &str) -> Vec<String> {
    let settings = [(axis.to_string(), text.to_string())].into();
    let configuration = Configuration { name: String::new(), filesystem: filesystem.to_string(), settings };
    contradictions(crate::filesystem::grammar(find(filesystem).expect("a filesystem")), &configuration)
}

fn refuses(filesystem: &str, axis: &str, texts: &[&str]) {
    for text in texts {
        assert!(!found(filesystem, axis, text).is_empty(), "{filesystem}: {axis} = '{text}'");
    }
}

fn passes(filesystem: &str, axis: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(found(filesystem, axis, text), [""; 0], "{filesystem}: {axis} = '{text}'");
    }
}

#[test]
fn no_tool_takes_a_further_device_a_size_or_an_option_that_is_not_known() {
    for filesystem in crate::filesystem::all() {
        let name = filesystem.name();
        let flag = filesystem
            .mkfs_words()
            .iter()
            .find(|(takes, _, _)| matches!(takes, Takes::Nothing))
            .expect("a flag");
        let value =
            filesystem.mkfs_words().iter().find(|(takes, _, _)| matches!(takes, Takes::Value)).expect("one");
        let (flag, value) = (flag.2[0], value.2[0]);
        refuses(
            name,
            "mkfs",
            &[
                "/dev/sdb",
                "sdb",
                "./sdb",
                "12345",
                "-",
                "--",
                "-- /dev/sdb",
                "-@",
                "-\u{e9}",
                "--no-such-option",
                "--no-such-option=/etc/passwd",
                "@file",
                "$(reboot)",
                &format!("{flag} sdb"),
                &format!("{flag} {flag} /dev/sdb"),
                &format!("sdb {flag}"),
                &format!("{flag}x"),
                &format!("{flag}/dev/sdb"),
                &format!("{flag}=/dev/sdb"),
                value,
                &format!("{flag} {value}"),
                &format!("{value} 1 sdb"),
                &format!("{value} 1 1"),
                &format!("{value} $(reboot)"),
                &format!("{value} `x`"),
                &format!("{value} a;b"),
                &format!("{value} \u{1b}[2J"),
            ],
        );
        passes(
            name,
            "mkfs",
            &["", flag, &format!("{flag} {flag}"), &format!("{value} 1"), &format!("{value} 1 {flag}")],
        );
        // getopt takes the next word for the value, whatever it looks like.
        passes(name, "mkfs", &[&format!("{value} {flag}")]);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mke2fs() {
    for filesystem in ["ext2", "ext3", "ext4"] {
        refuses(
            filesystem,
            "mkfs",
            &[
                "-J device=/dev/sdb",
                "-Jdevice=LABEL=x",
                "-J device=UUID=c1b9d5a2-f162-11cf-9ece-0020afc76f16",
                "-J size=64,device=sdb",
                "-J",
                "-J what=1",
                "-d /etc",
                "-d/etc",
                "-d",
                "-l list",
                "-llist",
                "-z undo",
                "-z",
                "-zundo",
                "-n",
                "-nq",
                "-qn",
                "-vV",
                "-V",
                "-S",
                "-F",
                "-F -F",
                "-FF",
                "-U random",
                "-Uclear",
                "-t ext2",
                "-O journal_dev",
                "-Ojournal_dev",
                "-O ^metadata_csum,journal_dev",
                "-O +journal_dev",
                "-O FEATURE_I3",
                "-O",
                "-O read-only",
                "-E offset=1048576",
                "-Eoffset=1M",
                "-E stride=4,offset=1M",
                "-E no_such=1",
                "-E discard=/dev/sdb",
                "-R stride=4",
                "-e panic",
                "-epanic",
                "-b 4096 1G",
                "-m0 100000",
                "-h",
                "--help",
                "-?",
            ],
        );
        passes(
            filesystem,
            "mkfs",
            &[
                "-O ^metadata_csum -E stride=4 -m 0",
                "-m0 -b4096",
                "-b -4096",
                "-N 1000 -I 256 -i 16384",
                "-E lazy_itable_init=0,nodiscard",
                "-J size=64 -L -n",
                "-T largefile",
                "-e remount-ro",
                "-v -q",
                "-E lazy_itable_init,quotatype=usrquota:grpquota",
            ],
        );
        refuses(
            filesystem,
            "mount",
            &[
                "journal_path=/dev/sdb",
                "noatime,journal_path=sdb",
                "journal_dev=0x810",
                "journal_dev",
                "usrjquota=aquota.user",
                "errors=panic",
                "loop",
                "loop=/dev/loop7",
                "offset=1M",
                "bind",
                "remount,rw",
                "source=/dev/sdb",
                "no_such=1",
                "X-mount.mkdir=/etc",
                "helper=/tmp/x",
                "commit=$(reboot)",
                "$(reboot)",
                "a\u{1b}[2J",
            ],
        );
        passes(
            filesystem,
            "mount",
            &[
                "noatime,data=writeback",
                "commit=30,nobarrier",
                "errors=remount-ro",
                "a_new_option",
                "stripe=8",
            ],
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mkfs_xfs() {
    refuses(
        "xfs",
        "mkfs",
        &[
            "-l logdev=sdb",
            "-llogdev=/dev/sdb",
            "-l size=64m,logdev=/dev/sdb",
            "-l name=/dev/sdb",
            "-l file,name=x",
            "-l file=1",
            "-rrtdev=/dev/sdb",
            "-r rtdev=/dev/sdb,extsize=64k",
            "-r name=sdb",
            "-r size=1g",
            "-d name=/dev/sdb",
            "-dname=sdb",
            "-d agcount=4,name=sdb",
            "-d file",
            "-d file=1,size=1g",
            "-p protofile",
            "-p/etc/passwd",
            "-p",
            "-c options=/tmp/x",
            "-coptions=x",
            "-c",
            "-N",
            "-fN",
            "-KN",
            "-V",
            "-m uuid=c1b9d5a2-f162-11cf-9ece-0020afc76f16",
            "-muuid=x",
            "-m crc=1,uuid=x",
            "-f sdb",
            "-q 1g",
            "-d",
            "-b 4096",
            "-b size",
            "-d noalign=/dev/sdb",
            "-i no_such=1",
            "-n size=8k,what=1",
            "-C",
            "-s what",
            "-L x y",
            "--version",
        ],
    );
    passes(
        "xfs",
        "mkfs",
        &[
            "-d agcount=4 -l size=64m",
            "-f -K",
            "-dagcount=4,su=64k,sw=4",
            "-d noalign",
            "-m crc=0,finobt=0",
            "-m reflink=0 -i size=1024,maxpct=5,sparse=1",
            "-n ftype=0 -n size=8k",
            "-l internal,version=2,su=32k",
            "-s size=4096 -b size=1024",
            "-L -N",
            "-i align,sparse",
        ],
    );
    refuses(
        "xfs",
        "mount",
        &["noatime,rtdev=/dev/sdb", "logdev=sdb", "logdev", "rtdev", "x=1", "source=/dev/sdb"],
    );
    passes(
        "xfs",
        "mount",
        &["noatime,logbufs=8", "allocsize=64m", "nobarrier", "inode64,largeio", "dax=never"],
    );
}

#[test]
fn mkfs_btrfs() {
    refuses(
        "btrfs",
        "mkfs",
        &[
            "--rootdir /etc",
            "--rootdir=/etc",
            "--root=/etc",
            "--roo /etc",
            "-r /etc",
            "-r/etc",
            "-fr /etc",
            "--shrink",
            "-f sdb",
            "-f /dev/sdb",
            "-q -f sdb sdc",
            "--force sdb",
            "-O list-all",
            "-R list-all",
            "-Olist-all",
            "--features=list-all",
            "-O quota,list-all",
            "-O no-such-feature",
            "--help",
            "--h",
            "-h",
            "-V",
            "-fV",
            "--version",
            "--vers",
            "-U x",
            "-Ux",
            "--uuid=x",
            "--uu x",
            "--device-uuid x",
            "-A 1M",
            "--force=1",
            "-d",
            "--data",
            "-n 16k sdb",
            "-nodesize 16k",
            "--subvol x",
            "--compress zstd",
        ],
    );
    passes(
        "btrfs",
        "mkfs",
        &[
            "--nodesize 32768 -O quota",
            "--nodesize=32768",
            "-n16k",
            "-d single -m dup",
            "-O ^no-holes,quota",
            "--csum xxhash",
            "-K -f -q",
            "-L -r",
            "--label --rootdir",
            "-M -s 4k -n 4k",
        ],
    );
    refuses(
        "btrfs",
        "mount",
        &["device=/dev/sdb", "noatime,device=sdb", "fatal_errors=panic", "subvol=", "x=y"],
    );
    passes(
        "btrfs",
        "mount",
        &["subvol=/,autodefrag", "compress=zstd:3,noatime", "space_cache=v2", "degraded"],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn tools_for_guests() {
    let refused: &[(&str, &[&str])] = &[
        (
            "f2fs",
            &[
                "-c /dev/sdb",
                "-c/dev/sdb,/dev/sdc",
                "-U x",
                "-V",
                "-h",
                "-fV",
                "-fc /dev/sdb",
                "-O no_such",
                "-A x",
            ],
        ),
        ("nilfs2", &["-n", "-fn", "-h", "-V", "-O no_such", "-P", "-b", "-f 100"]),
        (
            "jfs",
            &[
                "-j /dev/sdb",
                "-j/dev/sdb",
                "-J device=LABEL=x",
                "-Jdevice=sdb",
                "-J journal_dev",
                "-V",
                "-qV",
                "-f sdb",
            ],
        ),
        (
            "reiserfs",
            &[
                "-j /dev/sdb",
                "-j/dev/sdb",
                "--journal-device=/dev/sdb",
                "--journal-device /dev/sdb",
                "--journal-dev sdb",
                "-B list",
                "--badblocks=list",
                "-u x",
                "--uuid=x",
                "-V",
                "-dV",
                "-fj sdb",
            ],
        ),
        (
            "vfat",
            &[
                "-C",
                "-l list",
                "-llist",
                "-m /etc/passwd",
                "-m -",
                "-i 0",
                "-i0",
                "--invariant",
                "--offset 100",
                "--offset=100",
                "--off=1",
                "--help",
                "-vC",
                "--mbr y",
                "--mbr=$(x)",
                "-F",
            ],
        ),
        (
            "ntfs",
            &[
                "-n",
                "-Qn",
                "--no-action",
                "--no-a",
                "-V",
                "--version",
                "-l",
                "--license",
                "-h",
                "--help",
                "-U",
                "--with-uuid",
                "-F sdb",
                "--force sdb",
                "--cluster-size",
            ],
        ),
    ];
    for (filesystem, words) in refused {
        refuses(filesystem, "mkfs", words);
    }
    let usual: &[(&str, &[&str])] = &[
        ("f2fs", &["-O extra_attr,compression", "-s 4 -z 2", "-t0", "-l -c", "-a 0 -i"]),
        ("nilfs2", &["-B 4096 -m 10", "-O ^block_count", "-L -n"]),
        ("jfs", &["-O", "-s 16 -L x"]),
        ("reiserfs", &["-h tea", "--hash=r5 --format 3.6", "-s 4096 -t 512", "-d"]),
        ("vfat", &["-F32 -s 8", "-F 16", "--mbr=n", "--mbr", "-S4096 -g 255/63", "--codepage=437"]),
        ("ntfs", &["-c 8192 --no-indexing", "-Q -f", "--cluster-size=4096", "-z2"]),
    ];
    for (filesystem, words) in usual {
        passes(filesystem, "mkfs", words);
    }
    refuses("reiserfs", "mount", &["jdev=/dev/sdb", "jdev", "usrjquota=x", "errors=panic"]);
    refuses("f2fs", "mount", &["usrjquota=x", "prjjquota=x", "errors=panic", "device=/dev/sdb"]);
    refuses("jfs", "mount", &["errors=panic", "jdev=x"]);
    refuses("nilfs2", "mount", &["errors=panic", "device=x"]);
    refuses("vfat", "mount", &["errors=panic", "loop=x"]);
    refuses("ntfs", "mount", &["x=y", "source=/dev/sdb"]);
    passes("reiserfs", "mount", &["barrier=none,notail", "data=writeback"]);
    passes("f2fs", "mount", &["nobarrier,mode=lfs", "compress_algorithm=lz4"]);
    passes("vfat", "mount", &["umask=022,utf8", "iocharset=utf8"]);
}

#[test]
fn a_refusal_names_the_word_and_the_reason() {
    assert_eq!(
        found("xfs", "mkfs", "-y 1"),
        [
            "fsdyno does not know the option '-y' of mkfs.xfs and refuses it",
            "the mkfs word '1' is not an option: mkfs.xfs would take it for a device, a file or a size",
        ]
    );
    assert_eq!(
        found("ext4", "mkfs", "-Jdevice=LABEL=x"),
        ["the mkfs option '-J': 'device' names a device or a file; put devices in [device] or \
             [device.journals], where the guards check them"]
    );
    assert_eq!(found("ext4", "mkfs", "-n"), ["the mkfs option '-n' does not create a filesystem"]);
    assert_eq!(
        found("ext4", "mount", "errors=panic"),
        ["the mount option 'errors=panic': 'panic' is not one of: continue, remount-ro"]
    );
}

/// Every name appears once in its table, so that it is clear which row counts.
#[test]
fn tables_name_each_word_once() {
    fn check(words: Words, of: &str) {
        let mut names: Vec<&str> = words.iter().flat_map(|(_, _, names)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{of}");
        for (takes, _, names) in words {
            if let Takes::List(inner) = takes {
                check(inner, &format!("{of} {names:?}"));
            }
        }
    }
    for filesystem in crate::filesystem::all() {
        check(filesystem.mkfs_words(), filesystem.name());
        check(filesystem.mount_words(), filesystem.name());
    }
}

fn risks(filesystem: &str, settings: &[(&str, &str)]) -> Vec<Warning> {
    let settings = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string())).collect();
    let configuration = Configuration { name: String::new(), filesystem: filesystem.to_string(), settings };
    let filesystem = find(filesystem).expect("a filesystem");
    let (with, without) =
        (configuration.clone(), Configuration { settings: Default::default(), ..configuration });
    let usual = crate::filesystem::all_risks(filesystem, &without);
    let mut found = crate::filesystem::all_risks(filesystem, &with);
    found.retain(|warning| !usual.contains(warning));
    found
}

fn kinds(filesystem: &str, settings: &[(&str, &str)]) -> Vec<WarningKind> {
    risks(filesystem, settings).iter().map(|warning| warning.kind).collect()
}

const WEAK: &[WarningKind] = &[WarningKind::Durability];
const UNKNOWN: &[WarningKind] = &[WarningKind::DurabilityUnknown];

#[test]
fn a_word_that_no_table_has_is_of_unknown_durability() {
    for filesystem in crate::filesystem::all().map(|filesystem| filesystem.name()) {
        assert_eq!(kinds(filesystem, &[("mount", "nosuchword")]), UNKNOWN, "{filesystem}");
        assert_eq!(kinds(filesystem, &[("mount", "noatime,sync")]), [], "{filesystem}");
        assert_eq!(kinds(filesystem, &[("mount", "NoBarrier")]), UNKNOWN, "{filesystem}");
        assert_eq!(kinds(filesystem, &[("mount", "lazytime")]), WEAK, "{filesystem}");
    }
}

#[test]
fn a_value_that_is_not_listed_as_harmless_is_of_unknown_durability() {
    for filesystem in crate::filesystem::all() {
        for (takes, hazard, names) in filesystem.mount_words() {
            let listed = matches!(hazard, Hazard::Harmless);
            for name in names.iter().filter(|_| !listed && !matches!(takes, Takes::Never(_))) {
                let word = format!("{name}=new-value");
                let found = risks_of_mount(filesystem.name(), filesystem.mount_words(), [word.as_str()]);
                assert_ne!(found, [], "{}: {word}", filesystem.name());
            }
        }
    }
}

#[test]
fn what_weakens_is_a_risk_however_it_is_asked_for() {
    let weak = [
        ("ext4", "barrier", "0"),
        ("ext4", "mount", "noatime,nobarrier"),
        ("ext4", "mount", "barrier=0"),
        ("ext4", "mount", "data=writeback"),
        ("ext4", "data", "writeback"),
        ("ext4", "mount", "noauto_da_alloc"),
        ("ext4", "mount", "auto_da_alloc=0"),
        ("ext4", "mount", "data=writeback,journal_async_commit,data=journal"),
        ("ext4", "mount", "commit=600"),
        ("ext4", "commit", "600"),
        ("ext4", "mount", "norecovery"),
        ("ext4", "journal", "none"),
        ("ext4", "mkfs", "-O ^has_journal"),
        ("ext4", "mkfs", "-O extent,-has_journal"),
        ("ext4", "mkfs", "-O none"),
        ("ext4", "mkfs", "-E lazy_journal_init=1"),
        ("ext3", "mkfs", "-E lazy_journal_init"),
        ("xfs", "mount", "nobarrier"),
        ("btrfs", "mount", "nobarrier"),
        ("btrfs", "datacow", "0"),
        ("btrfs", "mount", "nodatasum"),
        ("btrfs", "mount", "nodatacow,datacow"),
        ("btrfs", "mount", "rescue=nologreplay"),
        ("btrfs", "mkfs", "-d raid5 -m raid1"),
        ("btrfs", "mkfs", "--metadata=raid6"),
        ("btrfs", "mkfs", "-draid5"),
        ("btrfs", "data_profile", "raid5"),
        ("f2fs", "barrier", "0"),
        ("f2fs", "mount", "fsync_mode=nobarrier"),
        ("f2fs", "mount", "checkpoint=disable"),
        ("f2fs", "mount", "checkpoint=disable:20%"),
        ("f2fs", "mount", "disable_roll_forward"),
        ("nilfs2", "mount", "nobarrier"),
        ("reiserfs", "mount", "barrier=none"),
        ("reiserfs", "mount", "nolog"),
        ("jfs", "mount", "nointegrity"),
        ("bcachefs", "mount", "noatime,journal_flush_disabled"),
        ("bcachefs", "mkfs", "--journal_flush_disabled"),
        ("bcachefs", "mount", "data_checksum=none"),
        ("bcachefs", "mkfs", "--nocow"),
        ("ext4", "write_cache", "write-through"),
        ("ext4", "export", "async"),
        ("ext4", "sysctl.vm.dirty_expire_centisecs", "6000"),
    ];
    for (filesystem, axis, level) in weak {
        assert_eq!(kinds(filesystem, &[(axis, level)]), WEAK, "{filesystem}: {axis} = {level}");
    }
}

#[test]
fn what_nobody_has_classified_is_of_unknown_durability() {
    let unknown = [
        ("ext4", "mount", "barrier=2"),
        ("ext4", "mount", "data=Writeback"),
        ("ext4", "mount", "commit=0x258"),
        ("ext4", "mount", "dax=always"),
        ("ext4", "mkfs", "-T nojournal"),
        ("f2fs", "mount", "fsync_mode=lazy"),
        ("f2fs", "mount", "checkpoint=merge"),
        ("btrfs", "mkfs", "-d RAID5"),
        ("btrfs", "mkfs", "-O zoned"),
        ("xfs", "mkfs", "-m crc=0"),
        ("ext4", "sysctl.kernel.some_key", "1"),
    ];
    for (filesystem, axis, level) in unknown {
        assert_eq!(kinds(filesystem, &[(axis, level)]), UNKNOWN, "{filesystem}: {axis} = {level}");
    }
}

#[test]
fn of_words_of_one_setting_the_last_counts_also_over_an_axis() {
    let harmless: [(&str, &[(&str, &str)]); 7] = [
        ("ext4", &[("mount", "nobarrier,barrier=1")]),
        ("ext4", &[("barrier", "0"), ("mount", "barrier")]),
        ("ext4", &[("mount", "data=writeback,data=ordered")]),
        ("ext4", &[("mkfs", "-O none,has_journal")]),
        ("ext4", &[("mount", "commit=600,commit=5")]),
        ("f2fs", &[("mount", "checkpoint=disable,checkpoint=enable")]),
        ("btrfs", &[("mkfs", "-d raid5 --data single")]),
    ];
    for (filesystem, settings) in harmless {
        assert_eq!(kinds(filesystem, settings), [], "{filesystem}: {settings:?}");
    }
    let weak: [(&str, &[(&str, &str)]); 6] = [
        ("ext4", &[("mount", "barrier=1,nobarrier")]),
        ("ext4", &[("barrier", "1"), ("mount", "nobarrier")]),
        ("ext4", &[("data", "ordered"), ("mount", "data=writeback")]),
        ("ext4", &[("commit", "5"), ("mount", "commit=600")]),
        ("ext4", &[("mkfs", "-O has_journal -O ^has_journal")]),
        ("btrfs", &[("datacow", "1"), ("mount", "nodatacow")]),
    ];
    for (filesystem, settings) in weak {
        assert_eq!(kinds(filesystem, settings), WEAK, "{filesystem}: {settings:?}");
    }
}

/// Checks that the options that kernels show for mounts with the defaults of mkfs and mount are no risk:
/// Linux 6.18 for the first five, and guests with Debian's 6.1 for the others.
#[test]
fn nothing_of_a_usual_mount_is_a_risk() {
    let shown = [
        ("ext4", "rw,relatime,seclabel,errors=remount-ro,stripe=32,data=ordered,commit=5"),
        ("ext3", "rw,relatime,data=ordered"),
        ("xfs", "rw,noatime,attr2,inode64,logbufs=8,logbsize=32k,sunit=8,swidth=8,noquota"),
        ("xfs", "rw,relatime,logdev=/dev/loop1,usrquota,prjquota"),
        ("btrfs", "rw,relatime,compress=zstd:3,ssd,discard=async,space_cache=v2,subvolid=5,subvol=/@home"),
        ("btrfs", "rw,relatime,nossd,nodiscard,space_cache,flushoncommit,subvolid=256,subvol=/"),
        (
            "f2fs",
            "rw,lazytime,relatime,background_gc=on,gc_merge,discard,discard_unit=block,user_xattr,inline_xattr,\
             acl,inline_data,inline_dentry,flush_merge,barrier,extent_cache,mode=adaptive,active_logs=6,\
             alloc_mode=default,checkpoint_merge,fsync_mode=posix,memory=normal,errors=continue",
        ),
        ("nilfs2", "rw,relatime"),
        ("reiserfs", "rw,relatime"),
        ("jfs", "rw,relatime"),
        (
            "vfat",
            "rw,relatime,fmask=0022,dmask=0022,codepage=437,iocharset=ascii,shortname=mixed,utf8,\
             errors=remount-ro",
        ),
        ("exfat", "rw,relatime,fmask=0022,dmask=0022,iocharset=utf8,errors=remount-ro"),
        ("ntfs", "rw,relatime,uid=0,gid=0,iocharset=utf8"),
    ];
    for (filesystem, options) in shown {
        let words = options.split(',').filter(|word| *word != "lazytime");
        let own = find(filesystem).expect("a filesystem").mount_words();
        assert_eq!(risks_of_mount(filesystem, own, words), [], "{filesystem}");
    }
}
