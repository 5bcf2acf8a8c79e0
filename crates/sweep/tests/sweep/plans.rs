//! Plans: what the ready ones contain, how axes nest and how `--set` changes them.

use crate::lab;
use fsdyno_core::WarningKind;
use fsdyno_core::device::Image;
use fsdyno_core::workload::{Fileserver, Ramp, TreeModel};
use fsdyno_core::{Bytes, DeviceSpec, Nanos, Workload};
use fsdyno_sweep::{Plan, PlanError, order};
use std::collections::BTreeSet;
use std::path::Path;

/// Everything that a plan needs, so that a test can add one thing.
pub const DEVICE: &str = "[device]\nimage = \"/var/tmp/x.img\"\nsize = \"1G\"\n";
pub const WORKLOAD: &str = "[[workloads]]\nkind = \"fileserver\"\n";

/// A plan with these keys in `[device]`.
pub fn on(device: &str) -> String {
    let device = format!("[device]\n{device}\n");
    with_axes("filesystem = \"ext4\"").replace(DEVICE, &device)
}

pub fn with_axes(axes: &str) -> String {
    format!("{DEVICE}[axes]\n{axes}\n{WORKLOAD}")
}

pub fn postmark(parameters: &str) -> String {
    with_axes("filesystem = \"ext4\"").replace("fileserver\"", &format!("postmark\"\n{parameters}"))
}

pub fn parse(text: &str, overrides: &[&str]) -> Result<Plan, PlanError> {
    lab::parse(text, "p.toml", overrides)
}

fn ready(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(name)
}

#[test]
fn no_ready_plan_has_words_that_are_refused_or_a_sysctl_that_needs_permission() {
    let plans: Vec<_> = std::fs::read_dir(ready("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let plans: Vec<_> =
        plans.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    assert!(plans.len() > 5);
    for path in plans {
        let plan = Plan::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        for case in plan.cases() {
            let words =
                case.impossible.iter().find(|why| why.contains("option '") || why.contains("mkfs word"));
            assert_eq!(words, None, "{}: {}", path.display(), case.configuration.name);
            let mut keys = case.configuration.settings.keys().filter_map(|axis| axis.strip_prefix("sysctl."));
            assert!(keys.all(fsdyno_core::sysctl::is_known), "{}", path.display());
        }
    }
}

#[test]
fn memory_applies_wherever_no_other_is_set() {
    let text = format!(
        "memory = \"512M\"\n{DEVICE}[axes]\nfilesystem = [\"ext4\", \"xfs\"]\n\
         xfs = {{ memory = [\"64M\", \"default\"] }}\n[[configurations]]\nname = \"named\"\n\
         filesystem = \"ext2\"\n{WORKLOAD}"
    );
    let memory = |plan: &Plan| -> Vec<(String, Option<Bytes>)> {
        plan.cases()
            .iter()
            .map(|case| (case.configuration.name.clone(), case.configuration.memory()))
            .collect()
    };
    let mib = |mib: u64| Some(Bytes(mib * Bytes::MIB));
    let named = |name: &str, memory| (name.to_string(), memory);
    assert_eq!(
        memory(&parse(&text, &[]).unwrap()),
        [
            named("ext4 memory=512M", mib(512)),
            named("xfs memory=64M", mib(64)),
            named("xfs memory=default", None),
            named("named", mib(512)),
        ]
    );
    // A level of its own is in every name, because it is what differs.
    let own = text.replace(", \"default\"]", "]");
    let names: Vec<String> = memory(&parse(&own, &[]).unwrap()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ext4 memory=512M", "xfs memory=64M", "named"]);
    let same = text.replace("[\"64M\", \"default\"]", "[\"512M\"]");
    let names: Vec<String> = memory(&parse(&same, &[]).unwrap()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ext4", "xfs", "named"]);
    let directory = format!("[device]\ndirectory = \"/srv\"\n{WORKLOAD}");
    assert_eq!(memory(&parse(&directory, &["memory=1G"]).unwrap()), [named("/srv", mib(1024))]);
}

#[test]
fn ten_million_cases_are_counted_and_not_made() {
    let levels = |from: u32| (from..from + 10).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let axes: String = (0..7).map(|axis| format!("\"sysctl.a.b{axis}\" = [{}]\n", levels(0))).collect();
    let error = parse(&with_axes(&format!("filesystem = \"ext4\"\n{axes}")), &[]).unwrap_err();
    assert!(error.to_string().contains("10000000 cases; the limit is 100000"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn too_many_trials_are_counted_too() {
    let error = parse(
        &with_axes("filesystem = [\"ext4\", \"xfs\"]\nnr_requests = [1,2,3,4,5,6,7,8]"),
        &["repetitions=100000"],
    )
    .unwrap_err();
    assert!(error.to_string().contains("1700000 trials"), "{error}");
}

#[test]
fn axes_collapse_where_a_filesystem_lacks_them() {
    let plan = parse(
        &with_axes(
            "filesystem = [\"ext4\", \"xfs\", \"btrfs\"]\ndata = [\"ordered\", \"writeback\"]\n\
            scheduler = [\"none\", \"bfq\"]\n[axes.xfs]\nlog_size = [\"default\", \"64M\"]\n\
            scheduler = \"none\"",
        ),
        &[],
    )
    .unwrap();
    let names: Vec<_> = plan.cases().into_iter().map(|case| case.configuration.name).collect();
    assert_eq!(
        names,
        [
            "ext4 none data=ordered",
            "ext4 none data=writeback",
            "ext4 bfq data=ordered",
            "ext4 bfq data=writeback",
            "xfs log_size=default",
            "xfs log_size=64M",
            "btrfs none",
            "btrfs bfq",
        ]
    );
    let xfs = plan.cases()[5].configuration.clone();
    assert_eq!(xfs.level("log_size"), Some("64M"));
    assert_eq!(xfs.level("scheduler"), Some("none"));
    assert_eq!(xfs.level("data"), None);
}

#[test]
fn named_configurations_stand_beside_the_product_and_sysctls_nest() {
    let text = with_axes("filesystem = \"xfs\"\n[axes.sysctl]\nvm.dirty_ratio = [5, 20]")
        + "[[configurations]]\nname = \"tuned\"\nfilesystem = \"xfs\"\nmkfs = \"-d agcount=4\"\n\
            scheduler = \"cfq\"\nsysctl.vm.dirty_ratio = 1\n";
    let plan = parse(&text, &[]).unwrap();
    let cases = plan.cases();
    let names: Vec<_> = cases.iter().map(|case| case.configuration.name.as_str()).collect();
    assert_eq!(names, ["sysctl.vm.dirty_ratio=5", "sysctl.vm.dirty_ratio=20", "tuned"]);
    assert_eq!(cases[2].configuration.level("sysctl.vm.dirty_ratio"), Some("1"));
    assert_eq!(cases[2].configuration.level("scheduler"), Some("bfq"));
    assert_eq!(cases[2].warnings[0].kind, WarningKind::NameMapped);
    assert!(cases[0].warnings.is_empty());
}

#[test]
fn what_nothing_builds_today_stays_in_the_plan() {
    let text = with_axes("filesystem = \"xfs\"")
        + "[[configurations]]\nname = \"old\"\nfilesystem = \"xfs\"\nmkfs = \"-d unwritten=0\"\n\
            impossible = \"no such flag\"\n[[configurations]]\nname = \"near\"\nfilesystem = \"xfs\"\n\
            note = \"the log was smaller\"\n";
    let plan = parse(&text, &[]).unwrap();
    let cases = plan.cases();
    let impossible: Vec<_> = cases.iter().map(|case| case.impossible.join("; ")).collect();
    assert_eq!(impossible, ["", "no such flag", ""]);
    let [warning] = &cases[2].warnings[..] else { panic!("one warning") };
    assert_eq!(
        (warning.kind, warning.text.as_str()),
        (WarningKind::NearestEquivalent, "the log was smaller")
    );

    let error = parse(&text.replace("note =", "notes ="), &[]).unwrap_err();
    assert!(error.to_string().contains("did you mean 'note'"), "{error}");
    let error = parse(&text.replace("\"no such flag\"", "\" \""), &[]).unwrap_err();
    assert!(error.to_string().contains("a sentence"), "{error}");
}

#[test]
fn the_sentinel_is_a_case_that_can_run() {
    let text = with_axes("filesystem = [\"jfs\", \"xfs\"]\nblock_size = [\"1k\", \"4k\"]");
    let plan = parse(&text, &[]).unwrap();
    assert!(!plan.cases()[0].contradictions.is_empty(), "jfs does not support blocks of 1k");
    assert_eq!((order(&plan)[0].sentinel, order(&plan)[0].case), (true, 1));
}

#[test]
fn named_configurations_run_on_every_kernel_of_the_plan() {
    let named = "[[configurations]]\nname = \"tuned\"\nfilesystem = \"xfs\"\n\
                 [[configurations]]\nname = \"old\"\nfilesystem = \"jfs\"\nkernel = \"debian:6.1\"\n";
    let cases = |axes: &str, overrides: &[&str]| {
        let plan = parse(&(with_axes(axes) + named), overrides).unwrap();
        let one = |case: fsdyno_sweep::Case| {
            let kernel = case.configuration.level("kernel").unwrap_or("-").to_string();
            (case.configuration.name, kernel)
        };
        plan.cases().into_iter().map(one).collect::<Vec<_>>()
    };
    let pairs = |expected: &[(&str, &str)]| -> Vec<(String, String)> {
        expected.iter().map(|(name, kernel)| ((*name).to_string(), (*kernel).to_string())).collect()
    };
    let axes = "filesystem = \"ext4\"";
    assert_eq!(cases(axes, &[]), pairs(&[("ext4", "-"), ("tuned", "-"), ("old", "debian:6.1")]));
    assert_eq!(
        cases(axes, &["axes.kernel=[\"debian:6.12\"]"]),
        pairs(&[("ext4", "debian:6.12"), ("tuned", "debian:6.12"), ("old", "debian:6.1")])
    );
    assert_eq!(
        cases("", &["axes.kernel=[\"host\", \"debian:6.12\"]"]),
        pairs(&[("tuned host", "host"), ("tuned debian:6.12", "debian:6.12"), ("old", "debian:6.1")])
    );
    // The kernels of a filesystem are its own.
    assert_eq!(
        cases(axes, &["axes.kernel=debian:6.12", "axes.xfs.kernel=host"]),
        pairs(&[("ext4", "debian:6.12"), ("tuned", "host"), ("old", "debian:6.1")])
    );
    assert_eq!(
        cases(axes, &["axes.jfs.kernel=[\"debian:6.1\", \"debian:6.12\"]"]),
        pairs(&[("ext4", "-"), ("tuned", "-"), ("old", "debian:6.1")])
    );
}

#[test]
fn contradictions_are_errors_unless_another_point_of_the_product_makes_sense() {
    // ext4 cannot commit asynchronously with data=ordered (Documentation/admin-guide/ext4.rst).
    let axes = "filesystem = \"ext4\"\njournal_async_commit = 1\n";
    let error = parse(&with_axes(&format!("{axes}data = \"ordered\"")), &[]).unwrap_err();
    assert!(error.to_string().starts_with("p.toml:7:1: configuration 'ext4' contradicts itself"), "{error}");
    assert!(error.to_string().contains("journal_async_commit"), "{error}");

    let plan = parse(&with_axes(&format!("{axes}data = [\"ordered\", \"writeback\"]")), &[]).unwrap();
    let cases = plan.cases();
    assert_eq!(cases.iter().map(|case| case.contradictions.len()).collect::<Vec<_>>(), [1, 0]);
    assert!(order(&plan)[0].sentinel && order(&plan)[0].case == 1, "the sentinel is a case that can run");

    let named = "[[configurations]]\nname = \"a\"\nfilesystem = \"ext4\"\njournal_async_commit = 1\n\
        data = \"ordered\"\n";
    let error = parse(&(with_axes("filesystem = \"ext4\"") + named), &[]).unwrap_err();
    assert!(error.to_string().starts_with("p.toml:9:8: configuration 'a' contradicts itself"), "{error}");
}

#[test]
fn power_cuts_are_added_to_the_loads_of_a_plan() {
    let text = with_axes("filesystem = \"ext4\"") + "[durability]\ncuts = 5\n";
    let plan = parse(&text, &["durability.promises=9"]).unwrap();
    let kinds: Vec<&str> = plan.workloads.iter().map(Workload::kind).collect();
    assert_eq!(kinds, ["fileserver", "durability"]);
    let Workload::Durability(parameters) = &plan.workloads[1] else { panic!("{:?}", plan.workloads[1]) };
    assert_eq!((parameters.cuts, parameters.promises), (5, 9));
    assert_eq!(plan.measure, "read-under-write".parse().unwrap(), "that of the first load");
    let alone = parse(&format!("{DEVICE}[axes]\nfilesystem = \"ext4\"\n[durability]\n"), &[]).unwrap();
    assert_eq!(alone.workloads, [Workload::Durability(Default::default())]);
}

#[test]
fn arguments_change_one_workload_or_all_that_have_the_key() {
    let text = with_axes("filesystem = \"ext4\"")
        + "[[workloads]]\nkind = \"fileserver\"\n[[workloads]]\nkind = \"null\"\n";
    let plan = parse(
        &text,
        &[
            "workloads.window=2s",
            "workloads.1.window=3",
            "workloads.tree_size=50%",
            "device.size=2G",
            "axes.filesystem=[\"ext3\"]",
            "repetitions=7",
            "axes.sysctl.vm.dirty_ratio=5",
            "axes.scheduler=none",
        ],
    )
    .unwrap();
    assert!(matches!(plan.devices.data, DeviceSpec::Image(Image { size: Bytes(0x8000_0000), .. })));
    assert_eq!(plan.repetitions, 7);
    let windows: Vec<Nanos> = plan
        .workloads
        .iter()
        .map(|workload| match workload {
            Workload::Fileserver(Fileserver { window, tree_size, .. }) => {
                assert_eq!(*tree_size, Bytes(1 << 30));
                *window
            }
            other => other.load().timing().window,
        })
        .collect();
    assert_eq!(windows, [Nanos::from_secs(2), Nanos::from_secs(3), Nanos::from_secs(2)]);
    let configuration = plan.cases()[0].configuration.clone();
    assert_eq!(configuration.filesystem, "ext3");
    assert_eq!(configuration.name, "ext3");
    assert_eq!(configuration.level("sysctl.vm.dirty_ratio"), Some("5"));
}

#[test]
fn a_profile_is_read_beside_the_plan() {
    let directory = tempfile::tempdir().unwrap();
    let profile = fsdyno_core::workload::Profile {
        files: 1,
        directories: 1,
        bytes: 10,
        file_size_bytes: vec![fsdyno_core::workload::Bin { low: 10, high: 10, count: 1 }],
        ..Default::default()
    };
    std::fs::write(directory.path().join("mail.json"), serde_json::to_string(&profile).unwrap()).unwrap();
    let plan = directory.path().join("p.toml");
    std::fs::write(&plan, with_axes("filesystem = \"ext4\"") + "tree = \"profile:mail.json\"\n").unwrap();
    let plan = Plan::load(&plan, &[]).unwrap();
    assert_eq!(plan.name, "p");
    let Workload::Fileserver(fileserver) = &plan.workloads[0] else { panic!("{:?}", plan.workloads) };
    assert_eq!(fileserver.tree, TreeModel::Profile(Box::new(profile)));
}

#[test]
fn the_2009_study_has_exactly_72_distinct_cases_on_ext4_and_on_ext3() {
    for filesystem in ["ext4", "ext3"] {
        let overrides = [format!("axes.filesystem=[\"{filesystem}\"]")];
        let plan = Plan::load(&ready("oetiker-2009.toml"), &overrides).unwrap();
        let cases = plan.cases();
        assert_eq!(cases.len(), 72, "{filesystem}");
        let distinct: BTreeSet<_> =
            cases.iter().map(|case| format!("{:?}", case.configuration.settings)).collect();
        assert_eq!(distinct.len(), 72, "{filesystem}");
        let names: BTreeSet<_> = cases.iter().map(|case| case.configuration.name.clone()).collect();
        assert_eq!(names.len(), 72, "{names:?}");
        assert!(cases.iter().all(|case| case.configuration.filesystem == filesystem));
        assert!(cases.iter().all(|case| case.contradictions.is_empty()));
        assert_eq!(order(&plan).len(), 73);
    }
}

#[test]
fn the_demo_has_six_cases_and_four_sentinels() {
    let plan = Plan::load(&ready("demo.toml"), &[]).unwrap();
    let names: Vec<_> = plan.cases().into_iter().map(|case| case.configuration.name).collect();
    assert_eq!(
        names,
        ["ext4 mq-deadline", "ext4 bfq", "xfs mq-deadline", "xfs bfq", "btrfs mq-deadline", "btrfs bfq"]
    );
    let slots = order(&plan);
    assert_eq!(slots.len(), 28);
    assert_eq!(slots.iter().filter(|slot| slot.sentinel).count(), 4);
}

#[test]
fn the_command_line_of_bonnie_stands_for_its_parameters() {
    let plan = |more: &str| with_axes("filesystem = \"ext4\"").replace("fileserver", "bonnie") + more;
    let options = plan("options = \"-s 496m -n 16:100000:16:64\"\ncontent = \"zeros\"\n");
    let spelt_out = plan(
        "size = \"496M\"\nfiles = 16384\nmax_size = 100000\nmin_size = 16\ndirectories = 64\n\
         content = \"zeros\"\n",
    );
    let parsed = parse(&options, &[]).unwrap();
    assert_eq!(parsed.workloads, parse(&spelt_out, &[]).unwrap().workloads);
    assert_eq!(parsed.measure.name(), "bonnie-write-block");
    let fewer = parse(&options, &["workloads.options=-n 1 -s 0"]).unwrap();
    assert_eq!(fewer.measure.name(), "bonnie-seq-create");

    let error = |text: &str| parse(text, &[]).unwrap_err().to_string();
    let line = options.lines().position(|line| line.starts_with("options")).unwrap() + 1;
    assert!(error(&options.replace("-n", "-k")).starts_with(&format!("p.toml:{line}:")));
    for (more, says) in [
        ("options = \"-s 64m\"\nsize = \"64M\"\n", "'size' is set twice, by 'options' and by 'size'"),
        ("options = \"-s 64m -s 32\"\n", "'size' is set twice, by 'options' and by 'options'"),
        ("options = \"-x 3\"\n", "'options': '-x' is not supported: set `repetitions` in the plan instead"),
        ("options = 3\n", "'options' must be a string or a list of strings, not 3"),
        ("options = \"-s 64 -r 64\"\n", "'size' must be at least twice `ram` (64M), not 64M"),
    ] {
        let error = error(&plan(more));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn disks_are_conditioned_and_phases_wait_as_the_plan_says() {
    let device = |text: &str| parse(&on(text), &[]);
    let filled = device("block = \"/dev/sdb\"\nprecondition = \"fill-twice\"").expect("a plan");
    assert_eq!(filled.devices.data.to_string(), "block /dev/sdb, filled twice");
    assert_eq!(filled.rules.quiesce, None);
    let wrong = device("block = \"/dev/sdb\"\nprecondition = \"fill\"").unwrap_err().to_string();
    assert!(wrong.contains("unknown precondition 'fill'"), "{wrong}");
    let image = device("image = \"/i\"\nsize = \"4G\"\nprecondition = \"discard\"").unwrap_err().to_string();
    assert!(image.contains("precondition"), "{image}");
    let waits = |time: &str| parse(&on("block = \"/dev/sdb\""), &[&format!("quiesce={time}")]);
    assert_eq!(waits("90s").expect("a plan").rules.quiesce, Some(Nanos::from_secs(90)));
    for short in ["0", "1ns", "999ms"] {
        let error = waits(short).unwrap_err().to_string();
        assert!(error.contains("at least 1s"), "{error}");
    }
}

#[test]
fn a_stack_is_built_of_the_disks_that_are_listed() {
    let device = |text: &str| parse(&on(text), &[]).expect("a plan").devices.data.to_string();
    assert_eq!(
        device(
            "md = { level = \"raid1\", disks = { image = \"/i\", size = \"4G\", count = 2, delay = \"5ms\" } \
             }"
        ),
        "md raid1 of 2 x 4G delayed by 5ms"
    );
    let mixed =
        "[{ image = \"/i\", size = \"4G\" }, { block = \"/dev/sdb\", read_delay = \"2ms\", delay = 1 }]";
    assert_eq!(
        device(&format!("lvm = {{ stripes = 2, stripe_size = \"128k\", disks = {mixed} }}")),
        "lvm 2 stripes of 128k on 4G + block /dev/sdb, delayed by read 2ms, write 1000ms, flush 1000ms"
    );
    assert_eq!(
        device("image = \"/i\"\nsize = \"4G\"\nflush_delay = \"10ms\""),
        "image /i (4G), delayed by read 0ms, write 0ms, flush 10ms"
    );
    let stack = "md = { level = \"raid6\", chunk = \"64k\", bitmap = \"internal\", disks = { image = \"/i\", \
                 size = \"4G\", count = 5 } }";
    let plan = parse(&on(stack), &[]).expect("a plan");
    assert_eq!(plan.devices.data.to_string(), "md raid6, chunk 64k, bitmap of 5 x 4G");
    assert_eq!(plan.devices.data.size(), Some(Bytes(12 << 30)));
    let paths: Vec<_> =
        plan.devices.data.disks().iter().map(|disk| disk.path().display().to_string()).collect();
    assert_eq!(paths, ["/i.1", "/i.2", "/i.3", "/i.4", "/i.5"]);
}

#[test]
fn a_steady_load_takes_the_place_of_a_ramp() {
    let text =
        format!("{}steady = {{ within = \"5%\", limit = \"1m\" }}\n", with_axes("filesystem = \"ext4\""));
    for (text, set) in [
        (text.as_str(), &[][..]),
        (&with_axes("filesystem = \"ext4\""), &["workloads.steady={within=\"5%\",limit=\"1m\"}"]),
    ] {
        let plan = parse(text, set).unwrap();
        let timing = plan.workloads[0].load().timing();
        let Ramp::UntilSteady(steady) = timing.ramp else { panic!("{timing:?}") };
        assert_eq!((steady.within, steady.over, steady.limit), (0.05, 5, Nanos::from_secs(60)));
        // A preview expects the limit.
        assert_eq!(timing.each(), Nanos(60_000_000_000 + timing.window.0));
    }
}
