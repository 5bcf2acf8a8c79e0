//! Plans that are refused: the place of the error, its cause and the nearest word.

use crate::plans::{DEVICE, WORKLOAD, on, parse, postmark, with_axes};

/// A bad plan, and what its error must contain: the place first.
struct Bad {
    text: String,
    set: &'static [&'static str],
    says: &'static [&'static str],
}

const PREPARED: &str = "reuse = \"prepared\"";

fn bad(text: impl Into<String>, says: &'static [&'static str]) -> Bad {
    Bad { text: text.into(), set: &[], says }
}

fn bad_set(set: &'static [&'static str], says: &'static [&'static str]) -> Bad {
    Bad { text: with_axes("filesystem = \"ext4\""), set, says }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_bad_plan_is_refused_with_its_place_and_the_nearest_word() {
    let ext4 = |more: &str| with_axes(&format!("filesystem = \"ext4\"\n{more}"));
    // Eight configurations, whose trials have three ramps of 30 s and as many windows.
    let race = |more: &str| {
        let axes =
            "filesystem = [\"ext4\", \"xfs\"]\nscheduler = [\"none\", \"bfq\", \"kyber\", \"mq-deadline\"]";
        format!("protocol = \"race\"\n{}", with_axes(&format!("{axes}\n{more}")))
    };
    let reuse = |key: &str, workload: &str| {
        let axes = "filesystem = \"ext4\"\nscheduler = [\"none\", \"bfq\"]";
        format!("{key}\n{}", with_axes(axes).replace("fileserver", workload))
    };
    let workload = |more: &str| format!("{}{more}", with_axes("filesystem = \"ext4\""));
    let table = [
        bad("name = ", &["p.toml:1:8"]),
        bad(
            "repetitons = 3\n".to_string() + &ext4(""),
            &["p.toml:1:1", "'repetitons'", "did you mean 'repetitions'?"],
        ),
        bad("name = \"\"\n".to_string() + &ext4(""), &["p.toml:1:8", "must not be empty"]),
        bad("name = \"root:1\"\n".to_string() + &ext4(""), &["p.toml:1:8", "precedes the colon"]),
        bad("name = \"a\\nb\"\n".to_string() + &ext4(""), &["p.toml:1:8", "line break"]),
        bad(
            ext4("") + "[durability]\ncut = 3\n",
            &["p.toml:10:1", "'cut'", "did you mean 'cuts'?", "[durability]"],
        ),
        bad(ext4("") + "[durability]\ncuts = 0\n", &["p.toml:10:8", "'cuts'", "from 1 to"]),
        bad(workload("steady = \"10%\"\n"), &["p.toml:8:10", "'steady'", "must be a table"]),
        bad(workload("steady = { withn = \"10%\" }\n"), &["p.toml:8:12", "did you mean 'within'?"]),
        bad(workload("steady = { within = \"0%\" }\n"), &["p.toml:8:21", "from 0.1% to 100%"]),
        bad(workload("steady = { limit = \"5s\" }\n"), &["p.toml:8:20", "5 rounds, which is 10s"]),
        bad(workload("ramp = \"3s\"\nsteady = {}\n"), &["p.toml:9:1", "'steady'", "'ramp'"]),
        bad(
            workload("steady = {}\n").replace("fileserver", "postmark"),
            &["p.toml:8:1", "unknown key 'steady'"],
        ),
        bad("memory = \"1M\"\n".to_string() + &ext4(""), &["p.toml:1:10", "a size from 32M to"]),
        bad("memory = \"9P\"\n".to_string() + &ext4(""), &["p.toml:1:10", "a size from 32M to"]),
        bad("memory = 0.5\n".to_string() + &ext4(""), &["p.toml:1:10"]),
        bad(ext4("memory = \"1M\""), &["p.toml:", "memory = 1M is out of range (32M to"]),
        bad("repetitions = 0\n".to_string() + &ext4(""), &["p.toml:1:15", "from 1 to"]),
        bad(
            "repetitions = { min = 1, max = 9, until = \"5%\" }\n".to_string() + &ext4(""),
            &["p.toml:1:", "'min'", "from 2 to"],
        ),
        bad(
            "repetitions = { min = 3, max = 2, until = \"5%\" }\n".to_string() + &ext4(""),
            &["p.toml:1:", "'max'", "from 3 to"],
        ),
        bad(
            "repetitions = { min = 3, max = 9, until = \"5M\" }\n".to_string() + &ext4(""),
            &["p.toml:1:", "'until'", "such as 5%"],
        ),
        bad("repetitions = { min = 3, max = 9 }\n".to_string() + &ext4(""), &["p.toml:1:", "until"]),
        bad(
            "repetitions = { min = 3, maximum = 9 }\n".to_string() + &ext4(""),
            &["p.toml:1:", "did you mean 'max'?"],
        ),
        bad("repetitions = \"many\"\n".to_string() + &ext4(""), &["p.toml:1:15", "'many'"]),
        bad("seed = -1\n".to_string() + &ext4(""), &["p.toml:1:8", "-1"]),
        bad("watchdog = \"3 parsecs\"\n".to_string() + &ext4(""), &["p.toml:1:12", "3 parsecs", "500ms"]),
        bad("watchdog = 0\n".to_string() + &ext4(""), &["p.toml:1:12", "greater than zero"]),
        bad("measure = \"raed\"\n".to_string() + &ext4(""), &["p.toml:1:11", "did you mean 'read'?"]),
        // Preparing once.
        bad(reuse("reuse = \"preparde\"", "fileserver"), &["p.toml:1:9", "did you mean 'prepared'?"]),
        bad(reuse("reuse = true", "fileserver"), &["p.toml:1:9", "'reuse'"]),
        bad(reuse(PREPARED, "bonnie"), &["p.toml:1:9", "'bonnie' has no part that only creates files"]),
        bad(
            reuse(PREPARED, "fileserver").replace("1G\"", "1G\"\npreallocate = \"write\""),
            &["p.toml:1:9", "it copies sparse images"],
        ),
        bad(
            reuse(PREPARED, "fileserver").replace("1G\"", "1G\"\nmodel = \"ebs-gp3\""),
            &["p.toml:1:9", "it copies sparse images", "modelled: ebs-gp3"],
        ),
        bad(
            reuse(PREPARED, "fileserver").replace("[axes]", "[axes]\nkernel = [\"host\", \"debian:6.1\"]"),
            &["p.toml:1:9", "kernel 'debian:6.1' runs in one"],
        ),
        bad(
            reuse(PREPARED, "fileserver")
                .replace("scheduler = [\"none\", \"bfq\"]", "data = [\"ordered\", \"journal\"]"),
            &["p.toml:1:9", "no two could begin with the same"],
        ),
        // Races.
        bad("protocol = \"rase\"\n".to_string() + &ext4(""), &["p.toml:1:12", "did you mean 'race'?"]),
        bad("budget = 9\n".to_string() + &ext4(""), &["p.toml:1:10", "requires 'protocol = \"race\"'"]),
        bad("budget = \"9 parsecs\"\n".to_string() + &race(""), &["p.toml:1:10", "such as 200 or 24h"]),
        bad("budget = 0\n".to_string() + &race(""), &["p.toml:1:10", "not 0"]),
        bad("budget = [200]\n".to_string() + &race(""), &["p.toml:1:10", "not an array"]),
        bad(
            "budget = 20\n".to_string() + &race(""),
            &["p.toml:1:10", "a budget of 20 trials is too small: a race of 8 configurations needs 21"],
        ),
        bad(
            "budget = \"31m\"\n".to_string() + &race(""),
            &["p.toml:1:10", "8 configurations needs 21 trials, whose windows alone take 1h 3m"],
        ),
        bad(
            "repetitions = { min = 3, max = 9, until = \"5%\" }\n".to_string() + &race(""),
            &["p.toml:1:15", "'until' does not apply to 'protocol = \"race\"'"],
        ),
        bad("time_limit = \"9h\"\n".to_string() + &race(""), &["p.toml:1:14", "'time_limit' does not apply"]),
        bad(race("") + WORKLOAD, &["p.toml:11:1", "a race has one workload, but the plan has 2"]),
        bad(race("") + "[durability]\n", &["p.toml:11:1", "a race has one workload, but the plan has 2"]),
        bad(race("memory = [\"64M\", \"1G\"]"), &["p.toml:8:1", "'memory' has several values"]),
        bad(
            "protocol = \"race\"\n".to_string() + &ext4(""),
            &["p.toml:5:1", "a race needs at least two configurations"],
        ),
        bad(
            race("").replace("fileserver", "durability"),
            &["p.toml: ", "a race cannot be for 'acknowledged-lost'", "0 in good configurations"],
        ),
        bad_set(&["protocol=race"], &["p.toml:4:1", "a race needs at least two configurations"]),
        bad_set(&["budget=24h"], &["--set 'budget=24h': 'budget' requires"]),
        // Axes and levels.
        bad(
            ext4("schedular = \"bfq\""),
            &["p.toml:6:1", "'schedular'", "did you mean 'scheduler'?", "6 | schedular"],
        ),
        bad(ext4("scheduler = [\"bfq\", \"bfg\"]"), &["p.toml:6:21", "'bfg'", "did you mean 'bfq'?"]),
        bad(ext4("block_size = \"4 potatoes\""), &["p.toml:6:14", "4 potatoes", "a size"]),
        bad(ext4("barrier = 2"), &["p.toml:6:11", "0 or 1"]),
        bad(ext4("commit = \"1.5s\""), &["p.toml:6:10", "whole seconds"]),
        bad(ext4("commit = []"), &["p.toml:6:10", "no levels"]),
        bad(ext4("commit = [[5]]"), &["p.toml:6:11", "an array"]),
        bad(ext4("block_size = [\"4k\", 4096]"), &["p.toml:6:21", "'4k' twice"]),
        bad(ext4("scheduler = [\"cfq\", \"bfq\"]"), &["p.toml:6:21", "'bfq' twice"]),
        bad(ext4("log_size = \"64M\""), &["p.toml:6:1", "'log_size' applies to xfs, not to ext4"]),
        bad(
            ext4("[axes.xfs]\ndata = \"ordered\""),
            &["p.toml:7:1", "'data' applies to ext3, ext4, reiserfs, not to xfs"],
        ),
        bad(ext4("[axes.xsf]\nlogbufs = 8"), &["p.toml:6:7", "did you mean 'xfs'?"]),
        bad(ext4("[axes.xfs]\nfilesystem = \"xfs\""), &["p.toml:7:1", "'filesystem' does not apply"]),
        bad(with_axes("filesystem = [\"ext4\", \"zfs\"]"), &["p.toml:5:23", "'zfs'", "zfs-dkms"]),
        // Commands of postmark.
        bad(
            postmark("commands = \"set nmber 7\\nrun\""),
            &["p.toml:8:12", "'nmber'", "did you mean 'number'?"],
        ),
        bad(
            postmark("commands = [\"set number 7\"]\nnumber = 8"),
            &["p.toml:", "'number' is set twice, by 'commands' and by 'number'"],
        ),
        bad(
            postmark("commands = [\"set bias read 11\"]"),
            &["p.toml:8:12", "'bias_read' must be", "from -1 to 10, not 11"],
        ),
        bad(postmark("comands = [\"run\"]"), &["p.toml:8:1", "did you mean 'commands'?"]),
        bad(postmark("size = \"9-8\""), &["p.toml:8:8", "the smaller one first"]),
        // Devices.
        bad(WORKLOAD, &["p.toml: ", "no device"]),
        bad("[device]\n".to_string() + WORKLOAD, &["p.toml:1:1", "exactly one of image, block", "none"]),
        bad(ext4("").replace("size = \"1G\"", "block = \"/dev/x\""), &["p.toml:3:9", "image and block"]),
        bad(ext4("").replace("size = \"1G\"", ""), &["p.toml:1:1", "missing key 'size'"]),
        bad(ext4("").replace("\"1G\"", "\"1 G potatoes\""), &["p.toml:3:8", "not a valid size"]),
        bad(ext4("").replace("\"1G\"", "0"), &["p.toml:3:8", "greater than zero"]),
        bad(
            ext4("").replace("\"1G\"", "\"1G\"\nidentity = \"x\""),
            &["p.toml:4:12", "'identity' does not apply to 'image'"],
        ),
        bad(
            ext4("").replace("image = \"/var/tmp/x.img\"", "block = \"/dev/x\""),
            &["p.toml:3:8", "'size' does not apply to 'block'"],
        ),
        bad(ext4("").replace("/var/tmp/x.img", "x.img"), &["p.toml:2:9", "an absolute path"]),
        bad(
            ext4("").replace("/var/tmp/x.img", "/var/tmp/x\\nhint: forged"),
            &["p.toml:2:9", "a path without control characters"],
        ),
        bad(ext4("").replace("image", "imgae"), &["p.toml:2:1", "did you mean 'image'?"]),
        // Stacks.
        bad(on("md = { disks = [] }"), &["p.toml:2:6", "missing key 'level'"]),
        bad(on("md = { level = \"raid11\", disks = [] }"), &["p.toml:2:16", "did you mean 'raid1'?"]),
        bad(on("md = { level = \"raid1\" }"), &["p.toml:2:6", "missing key 'disks'"]),
        bad(
            on("md = { level = \"raid5\", disks = { image = \"/i\", size = \"1G\", count = 2 } }"),
            &["p.toml:2:", "'disks' must be at least 3 disks for raid5, not 2"],
        ),
        bad(
            on(
                "md = { level = \"raid1\", chunk = \"64k\", disks = { image = \"/i\", size = \"1G\", count = 2 } }",
            ),
            &["p.toml:2:", "'chunk' does not apply to 'raid1'"],
        ),
        bad(
            on(
                "md = { level = \"raid0\", bitmap = \"internal\", disks = { image = \"/i\", size = \"1G\", count = 2 } }",
            ),
            &["p.toml:2:", "'bitmap' does not apply to 'raid0'"],
        ),
        bad(
            on("md = { level = \"raid0\", chunk = \"12k\", disks = { image = \"/i\", size = 9, count = 2 } \
                 }"),
            &["p.toml:2:", "a power of two"],
        ),
        bad(
            on(
                "md = { level = \"raid1\", disks = [{ image = \"/i\", size = 9 }, { image = \"/i\", size = 9 \
                 }] }",
            ),
            &["p.toml:2:", "'/i' is used for two devices"],
        ),
        bad(
            on("md = { level = \"raid1\", disks = { image = \"/i\", size = 9 } }"),
            &["p.toml:2:", "missing key 'count' in [device.md] disks"],
        ),
        bad(
            on("md = { level = \"raid1\", disks = { block = \"/dev/x\", count = 2 } }"),
            &["p.toml:2:", "a list of disks"],
        ),
        bad(
            on("lvm = { stripes = 2, disks = { image = \"/i\", size = 9, count = 3 } }"),
            &["p.toml:2:", "a divisor of the number of disks, 3"],
        ),
        bad(
            on("lvm = { stripe_size = \"64k\", disks = { image = \"/i\", size = 9, count = 2 } }"),
            &["p.toml:2:", "'stripe_size' does not apply to 'a linear volume'"],
        ),
        bad(on("lvm = { disks = [] }\nsize = 9"), &["p.toml:3:8", "'size' does not apply to 'lvm'"]),
        bad(on("lvm = 3"), &["p.toml:2:7", "a table"]),
        bad(on("image = \"/i\"\nsize = 9\ndelay = \"1500us\""), &["p.toml:4:9", "'delay'"]),
        bad(
            on("image = \"/i\"\nsize = 9\ndelay = 0.0015"),
            &["p.toml:4:9", "a whole number of milliseconds"],
        ),
        bad(on("image = \"/i\"\nsize = 9\nmodel = \"floppy\""), &["p.toml:4:9", "one of ide-7200-2002, "]),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = \"ebs-gp3\"\nspan = \"10%\""),
            &["p.toml:5:8", "'span' must be left out, because 'ebs-gp3' has no platters"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = \"sata-ssd\"\nspan = \"10%\""),
            &["p.toml:5:8", "'span' must be left out, because 'sata-ssd' has no platters"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = \"raid6-7x-bbu\"\nspan = \"0%\""),
            &["p.toml:5:8", "a share of the disk, such as '10%'"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nspan = \"10%\""),
            &["p.toml:4:8", "'span' must be given beside 'model'"],
        ),
        bad(on("image = \"/i\"\nsize = 9\nmodel = []"), &["p.toml:4:9", "at least one model"]),
        bad(on("image = \"/i\"\nsize = 9\nmodel = [7]"), &["p.toml:4:10", "a list of names"]),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = [\"ebs-gp3\", \"floppy\"]"),
            &["p.toml:4:21", "one of ide-7200-2002, ", "not 'floppy'"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = [\"ebs-gp3\", \"ebs-gp3\"]"),
            &["p.toml:4:21", "a model that is not in the list yet", "not 'ebs-gp3'"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = \"/nowhere/mine.toml\""),
            &["p.toml:4:9", "a file that can be read: No such file"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\nmodel = \"ebs-gp3\"\ndelay = 1"),
            &["p.toml:5:9", "'delay' does not apply to 'model'"],
        ),
        bad(
            on(
                "md = { level = \"raid1\", disks = { image = \"/i\", size = 9, count = 2, model = [\"ebs-gp3\"] } }",
            ),
            &["p.toml:2:", "'model'", "one model, as this is one disk of several"],
        ),
        bad(
            on(
                "md.level = \"raid1\"\nmd.disks = [{ image = \"/i\", size = 9, model = \"ebs-gp3\" }, { image = \"/j\", size = 9 }]",
            ),
            &["p.toml:3:", "'disks'", "alike but for their paths"],
        ),
        bad(
            on("image = \"/i\"\nsize = 9\njournals.log = { image = \"/j\", size = 9, model = \"ebs-gp3\" }"),
            &["p.toml:4:", "'model'", "in [device], for an image or the disks of a stack"],
        ),
        bad(on("directory = \"/tmp\"\ndelay = 1"), &["p.toml:3:9", "'delay' does not apply to 'directory'"]),
        bad(
            on("journals.log = { image = \"/i.2\", size = 9 }\n\
                lvm = { disks = { image = \"/i\", size = 9, count = 2 } }"),
            &["p.toml:2:", "'/i.2' is used for two devices"],
        ),
        // Journals.
        bad(ext4("journal = \"external\""), &["p.toml:6:11", "'external' needs a device"]),
        bad(
            ext4("journal = [\"internal\", \"external:dsk\"]")
                .replace("\"1G\"", "\"1G\"\njournals.disk = { image = \"/j\", size = \"1G\" }"),
            &["p.toml:7:24", "did you mean 'disk'?"],
        ),
        bad(
            ext4("journal = \"external\"").replace(
                "\"1G\"",
                "\"1G\"\njournals = { a = { image = \"/a\", size = 9 }, b = { image = \"/b\", size = 9 } }",
            ),
            &["p.toml:7:11", "any of a, b"],
        ),
        bad(
            ext4("")
                .replace("\"1G\"", "\"1G\"\njournals.disk = { image = \"/var/tmp/x.img\", size = \"1G\" }"),
            &["p.toml:4:10", "'/var/tmp/x.img' is used for two devices"],
        ),
        // Workloads.
        bad(format!("{DEVICE}[axes]\nfilesystem = \"ext4\"\n"), &["p.toml: ", "no workload"]),
        bad(workload("").replace("fileserver", "filesever"), &["p.toml:7:8", "did you mean 'fileserver'?"]),
        bad(workload("windw = 3"), &["p.toml:8:1", "did you mean 'window'?"]),
        bad(workload("window = \"3 parsecs\""), &["p.toml:8:10", "'window'", "not a valid duration"]),
        bad(workload("window = 0"), &["p.toml:8:10", "greater than zero"]),
        bad(workload("tree_size = \"120%\""), &["p.toml:8:13", "from 0% to 100%"]),
        bad(workload("tree = \"hoem\""), &["p.toml:8:8", "did you mean 'home'?"]),
        bad(workload("tree = \"profile:/nowhere\""), &["p.toml:8:8", "cannot use file '/nowhere'"]),
        bad(workload("readers = 0"), &["p.toml:8:11", "from 1 to"]),
        bad(workload("direct = true\nio_size = 1000"), &["p.toml:9:11", "a multiple of 4k"]),
        bad(workload("content = { compressible = 2.0 }"), &["p.toml:8:28", "from 0 to 1"]),
        bad(workload("content = \"zeroes\""), &["p.toml:8:11", "did you mean 'zeros'?"]),
        // Filesystems and configurations.
        bad(format!("{DEVICE}{WORKLOAD}"), &["p.toml: ", "no filesystem and no configuration"]),
        bad(with_axes("scheduler = \"bfq\""), &["p.toml:4:1", "no filesystem"]),
        bad(workload("[[configurations]]\nfilesystem = \"xfs\""), &["p.toml:8:1", "missing key 'name'"]),
        bad(workload("[[configurations]]\nname = \"a\""), &["p.toml:8:1", "missing key 'filesystem'"]),
        bad(
            workload("[[configurations]]\nname = \"a\"\nfilesystem = \"xfs\"\nlogbuf = 8"),
            &["p.toml:11:1", "did you mean 'logbufs'?"],
        ),
        bad(
            workload("[[configurations]]\nname = \"a\"\nfilesystem = \"ext4\"\nlogbufs = 8"),
            &["p.toml:11:11", "'logbufs' applies to xfs, not to ext4"],
        ),
        bad(
            workload(
                "[[configurations]]\nname = \"a\"\nfilesystem = \"xfs\"\n[[configurations]]\nname = \"a\"\n\
                 filesystem = \"xfs\"",
            ),
            &["p.toml:12:8", "two configurations are named 'a'"],
        ),
        bad(
            workload("[[configurations]]\nname = \"ext4\"\nfilesystem = \"ext4\"\ncommit = 9"),
            &["p.toml:9:8", "two configurations"],
        ),
        // A directory is used as it is.
        bad(
            ext4("").replace("image = \"/var/tmp/x.img\"\nsize = \"1G\"", "directory = \"/tmp\""),
            &["p.toml:4:1", "'filesystem' does not apply to 'directory'"],
        ),
        // Arguments.
        bad_set(&["device.size"], &["--set 'device.size'", "PATH=VALUE"]),
        bad_set(&["device.size="], &["--set 'device.size='", "PATH=VALUE"]),
        bad_set(&["device.size=1 potato"], &["--set 'device.size=1 potato'", "not a valid size"]),
        bad_set(&["device.siez=1G"], &["--set 'device.siez=1G'", "did you mean 'size'?"]),
        bad_set(&["workloads.windw=2s"], &["--set 'workloads.windw=2s'", "unknown key 'windw'"]),
        bad_set(&["workloads.1.window=2s"], &["--set 'workloads.1.window=2s'", "an array of length 1"]),
        bad_set(&["device.size.x=1"], &["--set 'device.size.x=1'", "'device.size' is"]),
        bad_set(
            &["repetitions=1", "axes.scheduler=bfg"],
            &["--set 'axes.scheduler=bfg'", "did you mean 'bfq'?"],
        ),
    ];
    for Bad { text, set, says } in table {
        let error = match parse(&text, set) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted {set:?}:\n{text}"),
        };
        assert!(error.starts_with(says[0]), "{error}\ndoes not begin with {}\n{text}", says[0]);
        for word in says {
            assert!(error.contains(word), "{error}\nlacks {word}\n{text}");
        }
    }
}

#[test]
fn the_offending_line_is_shown_and_marked() {
    let error = parse(&with_axes("filesystem = \"ext4\"\nscheduler = \"bfg\""), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "p.toml:6:13: invalid level 'bfg' for axis 'scheduler'; expected one of none, mq-deadline, kyber, \
         bfq; did you mean 'bfq'?\n  6 | scheduler = \"bfg\"\n    |             ^^^^^"
    );
}

#[test]
fn a_key_that_leaves_proc_sys_is_refused_where_it_stands() {
    let error =
        parse(&with_axes("filesystem = \"ext4\"\n\"sysctl./some/dir/file\" = [\"x\"]"), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "p.toml:6:1: 'sysctl./some/dir/file' is not a valid sysctl: a key consists of words of a-z, 0-9, _ \
         and -, joined by dots\n  6 | \"sysctl./some/dir/file\" = [\"x\"]\n    | ^^^^^^^^^^^^^^^^^^^^^^^"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("sysctl.vm.dirty_ratio")));
}

#[test]
fn no_way_of_writing_a_sysctl_gets_past_the_check_of_its_key() {
    let named = |line: &str| {
        with_axes("filesystem = \"ext4\"")
            + &format!("[[configurations]]\nname = \"a\"\nfilesystem = \"ext4\"\n{line}\n")
    };
    let plans = [
        with_axes("filesystem = \"ext4\"\n\"sysctl.vm./../../etc/x\" = 1"),
        with_axes("filesystem = \"ext4\"\n[axes.sysctl]\n\"/etc/passwd\" = 1"),
        with_axes("filesystem = \"ext4\"\n[axes.sysctl.vm]\n\"..\" = 1"),
        with_axes("filesystem = \"ext4\"\n[axes.sysctl]\n\"../x\" = { y = 1 }"),
        with_axes("filesystem = \"ext4\"\n[axes.ext4]\n\"sysctl./etc/passwd\" = 1"),
        named("\"sysctl./etc/passwd\" = 1"),
        named("sysctl = { \"/etc/passwd\" = 1 }"),
    ];
    for text in plans {
        let error = parse(&text, &[]).unwrap_err();
        assert!(error.to_string().contains("is not a valid sysctl"), "{text}\n{error}");
    }
    let plan = with_axes("filesystem = \"ext4\"");
    for argument in ["axes.sysctl./etc/passwd=1", "axes.\"sysctl./etc/passwd\"=1", "axes.sysctl.\"..\"=1"] {
        assert!(parse(&plan, &[argument]).is_err(), "{argument}");
    }
    let error = parse(&with_axes("filesystem = \"ext4\"\n\"sysctl.vm.x\" = \"$(reboot)\""), &[]).unwrap_err();
    assert!(error.to_string().contains("expected a single line"), "{error}");
}
