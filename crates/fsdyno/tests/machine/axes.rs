//! Every level of every axis on every filesystem is built, mounted, read back and checked, or reported as
//! unsupported by this kernel. A test compares the rows with the axes, so that no level is forgotten.
//!
//! ext2, ext3, ext4, xfs and btrfs are required. The others are built if this kernel and its tools support
//! them, and otherwise in guests (`guests_filesystems`). Rows that must be rejected are tried everywhere.

mod rows;

use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES};
use fsdyno_core::axis::{AXES, Levels, OF_SERVING};
use fsdyno_core::device::Image;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, WarningKind};
use fsdyno_host::local::LocalHost;
use fsdyno_testbed::capability::{KernelSupport, absent_tools, kernel_support};
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal, build, contradictions, filesystem, unmet};
use rows::{
    BlockSize, Contradiction, Evidence, Geometry, NoGeometry, NoOption, Queue, Row, Shows, Sysctl, Unmet,
    btrfs, common, ext, others, xfs,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

tests! {
    levels_of_all_filesystems_are_in_force: MAKING_FILESYSTEMS =>
        || { fsdyno_core::filesystem::names().for_each(|name| run(&common(name))) };
    levels_of_ext_are_in_force: MAKING_ON_IMAGES => || run(&ext());
    levels_of_xfs_are_in_force: MAKING_ON_IMAGES => || run(&xfs());
    levels_of_btrfs_are_in_force: MAKING_ON_IMAGES => || run(&btrfs());
    levels_of_other_filesystems_are_in_force_if_supported: MAKING_ON_IMAGES => || run(&others());
    no_level_is_forgotten: MAKING_FILESYSTEMS;
    block_devices_serve_trial_after_trial: MAKING_FILESYSTEMS;
}

/// Every row of every filesystem.
fn all() -> impl Iterator<Item = Row> {
    let common = fsdyno_core::filesystem::names().flat_map(common);
    common.chain(ext()).chain(xfs()).chain(btrfs()).chain(others())
}

/// Every word and switch of every axis, and at least one level of each other axis, on every filesystem that
/// supports it.
fn no_level_is_forgotten() {
    let of_row = |row: Row| row.settings.into_iter().map(move |(axis, level)| (row.filesystem, axis, level));
    let tried: BTreeSet<(&str, &str, &str)> = all().flat_map(of_row).collect();
    let mut forgotten = Vec::new();
    // What the engine does before the load is tested with the engine (`lifecycle`, `memory`, `cache`), other
    // kernels with guests, and how a server shows a filesystem with its clients (`serve`).
    let elsewhere = [&["filesystem", "kernel", "fill", "age", "memory", "cache"][..], &OF_SERVING].concat();
    for axis in AXES.iter().filter(|axis| !elsewhere.contains(&axis.name)) {
        let levels: &[&str] = match axis.levels {
            Levels::Words(words) => words,
            Levels::Switch => &["0", "1"],
            Levels::Compression => &["no", "zlib", "lzo", "zstd"],
            Levels::Journal => &["internal", "external", "none"],
            Levels::Size
            | Levels::Percent
            | Levels::Count
            | Levels::Seconds
            | Levels::Kernel
            | Levels::Sysctl
            | Levels::Text
            | Levels::Filesystem => &[],
        };
        for filesystem in axis.filesystems() {
            let any = tried.iter().any(|(name, tried, _)| *name == filesystem && *tried == axis.name);
            let missing = levels.iter().filter(|level| !tried.contains(&(filesystem, axis.name, **level)));
            forgotten.extend(missing.map(|level| format!("{filesystem} {} = {level}", axis.name)));
            if !any {
                forgotten.push(format!("{filesystem} {}", axis.name));
            }
        }
    }
    assert_eq!(forgotten, [""; 0]);
}

fn run(rows: &[Row]) {
    let mut failures = Vec::new();
    for row in rows {
        let wanted = format!("{} {:?}", row.filesystem, row.settings);
        let mut found = try_row(row);
        // A test that runs in parallel may have made a mount namespace, which keeps it mounted.
        if found.iter().any(|failure| failure.contains("still mounted somewhere")) {
            found = try_row(row);
        }
        failures.extend(found.into_iter().map(|failure| format!("{wanted}: {failure}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns everything that is not as requested, one line each.
fn try_row(row: &Row) -> Vec<String> {
    // In memory if there is room, because hundreds of filesystems are created.
    let directory = fsdyno_testkit::in_memory();
    let image = |name: &str, mib: u64| {
        let path = directory.path().join(name);
        DeviceSpec::Image(Image { direct_io: false, ..Image::new(path, Bytes(mib * Bytes::MIB)) })
    };
    let devices = Devices {
        data: image("data", 512),
        journals: BTreeMap::from([("side".to_string(), image("side", 128))]),
    };
    let configuration = Configuration {
        name: "row".to_string(),
        filesystem: row.filesystem.to_string(),
        settings: row.settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    };
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());

    let contradictions = contradictions(&configuration, &devices);
    if let [Contradiction(word)] = row.evidence[..] {
        let found = contradictions.iter().any(|line| line.contains(word));
        return if found {
            Vec::new()
        } else {
            vec![format!("expected '{word}' in the contradictions {contradictions:?}")]
        };
    }
    if !contradictions.is_empty() {
        return contradictions;
    }
    let unmet = unmet(&mut host, &configuration, &devices);
    if let [Unmet(word)] = row.evidence[..] {
        let found = unmet.iter().any(|line| line.contains(word));
        return if found {
            Vec::new()
        } else {
            vec![format!("expected '{word}' in the unmet requirements {unmet:?}")]
        };
    }
    if !unmet.is_empty() && !REQUIRED.contains(&row.filesystem) && !is_here(&mut host, row.filesystem) {
        return Vec::new();
    }
    if !unmet.is_empty() {
        return unmet;
    }
    let mut journal = UndoJournal::create(&mut host, &directory.path().join("undo")).expect("a journal");
    let result = trial(&mut host, &mut journal, &devices, &configuration, &row.evidence);
    let mut failures = result.unwrap_or_else(|error| vec![format!("{:?}", error.failure())]);
    failures.extend(journal.undo_all(&mut host).left);
    failures
}

/// Filesystems that the machine must have for any of these tests to run.
const REQUIRED: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Returns whether the kernel and the tools of this machine support a filesystem.
fn is_here(host: &mut LocalHost, name: &str) -> bool {
    let filesystem = filesystem::find(name).expect("a filesystem");
    kernel_support(host, filesystem) != KernelSupport::Absent
        && absent_tools(host, filesystem.descriptor().tools).is_empty()
}

fn trial(
    host: &mut LocalHost,
    journal: &mut UndoJournal,
    devices: &Devices,
    configuration: &Configuration,
    evidence: &[Evidence],
) -> fsdyno_testbed::Result<Vec<String>> {
    let configurations = std::slice::from_ref(configuration);
    let testbed = Testbed::verify(host, devices, configurations, Bytes(0), &Confirmation::default())?;
    let stack = build(host, journal, &testbed, configuration, 7, &AtomicBool::default())?;
    let mounted = stack.format(host)?.mount(host, journal)?;
    let environment = mounted.environment(host);
    let options = mounted.built().mount_options_in_force.clone();
    let geometry = environment.geometry.split_whitespace().collect::<Vec<_>>().join(" ");
    let queue = &environment.devices[0].queue;
    let mut failures: Vec<String> = mounted
        .warnings()
        .iter()
        .filter(|warning| warning.kind == WarningKind::OptionNotInForce)
        .map(|warning| warning.text.clone())
        .collect();
    for one in evidence {
        let shows = |word: &str| {
            options.split(',').any(|shown| shown == word || (word.ends_with('/') && shown.starts_with(word)))
        };
        let seen = match one {
            Shows(word) => shows(word),
            NoOption(word) => !shows(word),
            Geometry(words) => geometry.contains(words),
            NoGeometry(words) => !geometry.contains(words),
            BlockSize(bytes) => block_size(mounted.directory()) == *bytes,
            Queue(file, word) => queue
                .get(*file)
                .is_some_and(|text| text == word || text.split(' ').any(|shown| shown == *word)),
            Sysctl(path, value) => sysctl(path) == *value,
            Unmet(_) | Contradiction(_) => false,
        };
        if !seen {
            failures.push(format!(
                "{one:?} is not in force; options {options}; geometry {geometry}; queue {queue:?}"
            ));
        }
    }
    let unmounted = mounted.unmount(host, journal)?;
    // As a sweep does: a test in a guest may make a mount namespace at the same time.
    if !unmounted.is_released(host, journal)? {
        failures.push("the filesystem is still mounted somewhere".to_string());
    }
    let no_check = configuration.filesystem == "nilfs2";
    match unmounted.check(host, journal)? {
        Some((check, _)) if check.clean => {}
        None if no_check => {}
        check => failures.push(format!("check: {check:?}")),
    }
    Ok(failures)
}

fn block_size(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).expect("statvfs").f_bsize
}

fn sysctl(path: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(path)).expect("a sysctl").trim().to_string()
}

/// Named block devices, one for the filesystem and one for its journal: the sweep recognises signatures of
/// its earlier trials, settings are restored, and a third device is never touched.
fn block_devices_serve_trial_after_trial() {
    let directory = fsdyno_testkit::in_memory();
    let attached = Attached(
        [("data", 512), ("journal", 128)].map(|(name, mib)| attach(&directory.path().join(name), mib)),
    );
    let [data, log] = attached.0.clone().map(DeviceSpec::block);
    let devices = Devices { data, journals: BTreeMap::from([("side".to_string(), log)]) };
    let configurations: Vec<Configuration> =
        [("ext4", "external"), ("xfs", "external"), ("btrfs", "internal"), ("ext3", "external")]
            .map(|(filesystem, journal)| Configuration {
                name: filesystem.to_string(),
                filesystem: filesystem.to_string(),
                settings: [("journal", journal), ("scheduler", "kyber"), ("readahead", "512k")]
                    .map(|(axis, level)| (axis.to_string(), level.to_string()))
                    .into(),
            })
            .into();
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let confirmation = Confirmation { destroy: attached.0.to_vec(), ..Confirmation::default() };
    let testbed =
        Testbed::verify(&mut host, &devices, &configurations, Bytes(0), &confirmation).expect("verified");
    let mut journal = UndoJournal::create(&mut host, &directory.path().join("undo")).expect("a journal");
    for (seed, configuration) in configurations.iter().enumerate() {
        let stack =
            build(&mut host, &mut journal, &testbed, configuration, seed as u64, &AtomicBool::default())
                .expect("build");
        let formatted = stack.format(&mut host).expect("format");
        let mounted = formatted.mount(&mut host, &mut journal).expect("mount");
        assert_eq!(mounted.built().scheduler_in_force, "kyber");
        fs::write(mounted.directory().join("file"), "content").expect("write");
        let unmounted = mounted.unmount(&mut host, &mut journal).expect("unmount");
        let (check, _) = unmounted.check(&mut host, &mut journal).expect("check").expect("a filesystem");
        assert!(check.clean, "{check:?}");
        assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
    }
    journal.close().expect("close the journal");
    let again = Testbed::verify(&mut host, &devices, &configurations, Bytes(0), &confirmation);
    assert!(again.is_ok(), "another sweep recognises what this one left");
}

/// Loop devices that last as long as their test.
struct Attached([PathBuf; 2]);

impl Drop for Attached {
    fn drop(&mut self) {
        for node in &self.0 {
            let _ = Command::new("losetup").arg("-d").arg(node).status();
        }
    }
}

fn attach(image: &Path, mib: u64) -> PathBuf {
    fs::File::create(image).and_then(|file| file.set_len(mib * Bytes::MIB)).expect("an image");
    let output = Command::new("losetup").args(["-f", "--show"]).arg(image).output().expect("losetup");
    String::from_utf8_lossy(&output.stdout).trim().into()
}
