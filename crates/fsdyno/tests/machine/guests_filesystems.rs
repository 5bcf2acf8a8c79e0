//! Filesystems that the machine's own kernel may lack, in guests: created, used, checked, and read back.

use crate::guests::{GUEST, fsdyno, opened, qemu, request, trials};
use crate::support::{Requirement, Sandbox, describe};
use fsdyno_core::filesystem;
use fsdyno_host::Command;
use fsdyno_host::guest::{GuestProgram, GuestRequest, Guests};
use serde_json::Value;
use std::fs;
use std::sync::atomic::AtomicBool;

tests! {
    removed_filesystems_run_on_older_kernels: &[Requirement::All(GUEST), Requirement::Soak];
    bcachefs_is_created_and_checked_by_its_own_tool: BCACHEFS;
    a_kernel_without_ntfs_says_which_has_it: GUEST => ntfs;
    a_machine_whose_own_kernel_has_one_needs_no_guest: GUEST;
}

/// The root of an unpacked package of a kernel that has it. Its tool must be of the same age.
const BCACHEFS_KERNEL: &str = "FSDYNO_BCACHEFS_KERNEL";
const BCACHEFS: &[Requirement] = &[
    Requirement::All(GUEST),
    Requirement::Program("bcachefs"),
    Requirement::Variable(BCACHEFS_KERNEL),
    Requirement::Soak,
];

/// Tiny trees and windows, because only the settings are tested.
const LOAD: &str = r#"
[[workloads]]
kind = "fileserver"
tree_size = "2M"
writer_space = "4M"
readers = 1
writers = 1
ramp = 0
window = "200ms"
"#;

/// Sweeps a plan with these axes, and returns its trials without the sentinel.
fn sweep(sandbox: &Sandbox, axes: &str) -> Vec<Value> {
    let image = sandbox.path("disk.img");
    let device = format!("[device]\nimage = \"{}\"\nsize = \"256M\"\n", image.display());
    let plan = sandbox.write("plan.toml", &format!("{device}[axes]\n{axes}{LOAD}"));
    let swept = fsdyno(sandbox, &["sweep", &plan.display().to_string()]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    assert!(!image.exists());
    trials(sandbox).into_iter().filter(|trial| trial["sentinel"] == false).collect()
}

/// A guest is also a machine: fsdyno runs in it as on any other, on the kernel that is there.
fn a_machine_whose_own_kernel_has_one_needs_no_guest() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = directory.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(256 << 20)).expect("a sparse file");
    let program = |name: &str, package: &str| GuestProgram { name: name.into(), package: package.into() };
    let jfs = ["mkfs.jfs", "jfs_tune", "fsck.jfs"].map(|name| program(name, "jfsutils"));
    let request = GuestRequest {
        modules: vec!["jfs".into()],
        programs: jfs.into_iter().chain([program("sh", "dash")]).collect(),
        ..request("6.1", vec![disk])
    };
    // Commands that a host runs are confined, but fsdyno itself has to mount.
    let mut machine = qemu()
        .with_kernel_words("lsm=yama")
        .start(&request, &opened(&request.disks), &AtomicBool::new(false))
        .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words));
    let mut run = |words: &[&str]| {
        let mut command = Command::new(words[0]).args(words[1..].iter().copied());
        command.environment.push(("XDG_STATE_HOME".into(), "/tmp".into()));
        machine.run(&command).expect("it runs")
    };
    let plan =
        format!("[device]\nblock = \"/dev/vda\"\n[axes]\nfilesystem = [\"jfs\", \"reiserfs\"]\n{LOAD}");
    run(&["sh", "-c", "printf '%s' \"$1\" > /tmp/plan.toml", "sh", &plan]);
    let refused = run(&["/fsdyno", "sweep", "/tmp/plan.toml"]);
    assert_eq!(refused.status, 3, "the disk is not confirmed: {refused:?}");
    let swept = run(&["/fsdyno", "sweep", "/tmp/plan.toml", "--destroy", "/dev/vda"]);
    assert_eq!(swept.status, 0, "{swept:?}");
    let shown = run(&["/fsdyno", "show", "--full", "--tables"]);
    assert!(shown.stdout.contains("fs=jfs disk=") && shown.stdout.contains("fsck.jfs"), "{shown:?}");
    assert!(swept.stdout.contains("reiserfs") && swept.stdout.contains("debian:6.1"), "{swept:?}");
}

/// The options that a trial's mount showed.
fn options(trial: &Value) -> Vec<&str> {
    trial["configuration"]["mount_options_in_force"].as_str().expect("options").split(',').collect()
}

fn warns(trial: &Value, kind: &str) -> bool {
    trial["warnings"].as_array().expect("warnings").iter().any(|warning| warning["kind"] == kind)
}

/// The settings that are requested of a filesystem beyond its defaults, and those that must be in force.
struct Asked {
    filesystem: &'static str,
    levels: &'static str,
    options: &'static [&'static str],
    geometry: &'static str,
}

const ASKED: &[Asked] = &[
    Asked { filesystem: "jfs", levels: "journal_size = \"4M\"", options: &[], geometry: "JFS_INLINELOG" },
    Asked {
        filesystem: "reiserfs",
        levels: "block_size = \"4k\"\njournal_size = \"4M\"\nbarrier = 0\ndata = \"writeback\"\n\
            commit = \"7s\"",
        options: &["barrier=none", "data=writeback", "commit=7"],
        geometry: "Journal Size 1024 blocks",
    },
    Asked {
        filesystem: "f2fs",
        levels: "barrier = 0",
        options: &["nobarrier"],
        geometry: "total sectors = 524288",
    },
    Asked {
        filesystem: "nilfs2",
        levels: "barrier = 0\nblock_size = \"1k\"",
        options: &["nobarrier"],
        geometry: "Block size:\t\t  1024",
    },
    Asked {
        filesystem: "vfat",
        levels: "block_size = \"1k\"",
        options: &[],
        geometry: "2 sectors per cluster",
    },
];

/// Every filesystem that not every kernel supports, but Debian's 6.1 does.
fn removed_filesystems_run_on_older_kernels() {
    const EVERYWHERE: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];
    const KERNEL: &str = "6.1";
    let sandbox = Sandbox::new();
    let lost: Vec<&str> = filesystem::all()
        .filter(|known| known.debian_kernel == KERNEL && !EVERYWHERE.contains(&known.name))
        .map(|known| known.name)
        .collect();
    let mut axes = format!(
        "filesystem = [\"{}\"]\nkernel = \"debian:{KERNEL}\"\natime = \"noatime\"\n",
        lost.join("\", \"")
    );
    for Asked { filesystem, levels, .. } in ASKED {
        axes += &format!("[axes.{filesystem}]\n{levels}\n");
    }
    let trials = sweep(&sandbox, &axes);
    assert_eq!(trials.len(), lost.len());
    for trial in &trials {
        let filesystem = trial["configuration"]["filesystem"].as_str().expect("a filesystem");
        assert_eq!(trial["outcome"], "measured", "{filesystem}: {trial:#}");
        assert!(trial["environment"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("6.1.")));
        assert!(!warns(trial, "option-not-in-force"), "{filesystem}: {}", trial["warnings"]);
        let asked = ASKED.iter().find(|asked| asked.filesystem == filesystem);
        let own = asked.map_or(&[][..], |asked| asked.options);
        let options = options(trial);
        assert!(
            own.iter().chain(&["noatime"]).all(|word| options.contains(word)),
            "{filesystem}: {options:?}"
        );
        let checked = &trial["check"];
        assert_eq!(checked.is_null(), warns(trial, "not-checked"), "{filesystem}: {checked}");
        assert!(checked.is_null() || checked["clean"] == true, "{filesystem}: {checked}");
        assert_eq!(filesystem == "nilfs2", checked.is_null(), "whether {filesystem} has a check");
        assert_eq!(filesystem == "nilfs2", warns(trial, "garbage-collection"), "{filesystem}");
        let geometry = trial["environment"]["geometry"].as_str().expect("a geometry");
        let said = asked.map_or("", |asked| asked.geometry);
        assert!(!geometry.trim().is_empty() && geometry.contains(said), "{filesystem}: {geometry}");
    }
    let shown = sandbox.run(&["show", "--full"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("noatime fs=vfat ") && shown.contains("noatime fs=jfs "), "{shown}");
}

/// No library of Debian 12 recognises it.
fn bcachefs_is_created_and_checked_by_its_own_tool() {
    let sandbox = Sandbox::new();
    let kernel = std::env::var(BCACHEFS_KERNEL).expect("a directory");
    let mut images = fs::read_dir(format!("{kernel}/boot")).expect("a package").flatten();
    let image = images.find(|file| file.file_name().to_string_lossy().starts_with("vmlinuz-"));
    let image = image.expect("an image").path().display().to_string();
    let kernels = format!("[kernels.own]\nimage = \"{image}\"\nmodules = \"{kernel}\"\n");
    let axes = format!(
        "filesystem = \"bcachefs\"\nkernel = \"own\"\natime = \"noatime\"\n\
         mkfs = [\"default\", \"--compression=zstd\", \"--block_size=1024\"]\n{kernels}"
    );
    let trials = sweep(&sandbox, &axes);
    let of_name = |word: &str| {
        let named = |trial: &&Value| trial["configuration"]["name"].to_string().contains(word);
        trials.iter().find(named).unwrap_or_else(|| panic!("{word}: {trials:#?}"))
    };
    let said =
        [("default", "compression: none"), ("zstd", "compression: zstd"), ("1024", "block_size: 1.00 KiB")];
    for (trial, geometry) in said.map(|(word, geometry)| (of_name(word), geometry)) {
        assert_eq!(trial["outcome"], "measured", "{trial:#}");
        assert_eq!(trial["check"]["clean"], true, "{}", trial["check"]);
        assert!(!warns(trial, "option-not-in-force"), "{}", trial["warnings"]);
        assert!(options(trial).contains(&"noatime"), "{trial:#}");
        let shown = trial["environment"]["geometry"].as_str().expect("a geometry");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("External UUID:") && shown.contains(geometry), "{shown}");
    }
    assert_eq!(trials.len(), 3);
}

/// Its module has another name, and only the newer of the two kernels has it.
fn ntfs() {
    let sandbox = Sandbox::new();
    let trials = sweep(&sandbox, "filesystem = \"ntfs\"\nkernel = [\"debian:6.1\", \"debian:6.12\"]\n");
    let [old, new] = &trials[..] else { panic!("{trials:#?}") };
    let unmet = old["unmet"].to_string();
    assert_eq!(old["outcome"], "skipped", "{old:#}");
    assert!(unmet.contains("kernel debian:6.1 (") && unmet.contains("has no ntfs3; supported by"), "{unmet}");
    assert_eq!((&new["outcome"], &new["check"]["clean"]), (&"measured".into(), &true.into()), "{new:#}");
    assert!(warns(new, "durability"), "{}", new["warnings"]);
}
