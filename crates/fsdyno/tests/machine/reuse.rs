//! Sweeps whose trials begin with copies of what was prepared once in a block.

use crate::support::disk::run;
use crate::support::{
    MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Machine, Requirement, Sandbox, describe, json, unmount, wait_until,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

tests! {
    copies_have_every_byte_and_are_made_once_in_a_block: MAKING_ON_IMAGES;
    copies_are_mounted_whatever_the_numbers_of_their_devices: MAKING_ON_IMAGES;
    nothing_is_left_of_what_was_prepared_after_a_kill: MAKING_FILESYSTEMS;
    two_interrupts_leave_nothing_of_what_was_prepared: MAKING_FILESYSTEMS;
    an_image_that_somebody_changes_is_noticed_and_prepared_again: MAKING_FILESYSTEMS;
    blocks_are_shared_where_the_loop_device_can_still_bypass_the_cache: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Program("mount"),
    ];
}

/// Verified, so that a wrong byte in a copy fails its trial.
fn plan(place: &Path) -> String {
    let image = |name: &str| place.join(name).display().to_string();
    format!(
        "repetitions = 1\nreuse = \"prepared\"\n[device]\nimage = \"{}\"\nsize = \"512M\"\n\
         [device.journals]\nside = {{ image = \"{}\", size = \"64M\" }}\n\
         [axes]\nfilesystem = [\"ext4\", \"xfs\", \"btrfs\"]\natime = [\"noatime\", \"strictatime\"]\n\
         [axes.ext4]\njournal = [\"internal\", \"external\"]\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"24M\"\nwriters = 1\nreaders = 1\n\
         write_rate = \"closed\"\nwriter_space = \"16M\"\nramp = 0\nwindow = \"50ms\"\nverify = true\n",
        image("disk.img"),
        image("journal.img")
    )
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn begun(sandbox: &Sandbox, is_reached: &dyn Fn() -> bool) -> Child {
    let mut command = sandbox.fsdyno(&["sweep", "plan.toml"]);
    let sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sweep");
    wait_until("a trial begins", is_reached);
    sweep
}

fn copies_have_every_byte_and_are_made_once_in_a_block() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    sandbox.write("plan.toml", &plan(place.path()));
    sandbox.shows(&["plan", "plan.toml"], &["once in a block for 2 cases; each trial copies the images"]);
    let swept = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    assert_eq!(entries(place.path()), [""; 0]);
    let found = json(&swept);
    let mut sharing: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for trial in found["trials"].as_array().expect("trials") {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        assert!(
            trial["check"]["clean"] == true && trial["read_again"]["files"].as_u64() > Some(0),
            "{trial}"
        );
        let number = trial["trial"].as_u64().expect("a number");
        let prepared = trial["prepared_in"].as_u64().expect("a trial");
        let (took, own) = (&trial["lifecycle_ns"], prepared == number);
        assert_eq!(
            (took["mkfs"].is_u64(), took["prepare"].is_u64(), took["mount"].is_u64()),
            (own, own, own)
        );
        assert!(took["copy"].is_u64() && took["mount_between"].is_u64(), "{took}");
        let configuration = &trial["configuration"];
        let atime = configuration["settings"]["atime"].as_str().expect("a level");
        let in_force = configuration["mount_options_in_force"].as_str().expect("options");
        assert_eq!(in_force.contains("noatime"), atime == "noatime", "{configuration}");
        if trial["sentinel"] == false {
            let filesystem = configuration["filesystem"].as_str().expect("a name");
            let journal = configuration["settings"]["journal"].as_str().unwrap_or_default();
            sharing.entry(prepared).or_default().push(format!("{filesystem} {journal}"));
        }
    }
    // Each pair differs by atime only.
    let pairs: Vec<(&String, &String)> = sharing.values().map(|pair| (&pair[0], &pair[1])).collect();
    assert!(pairs.len() == 4 && pairs.iter().all(|(one, other)| one == other), "{sharing:?}");
    let heard = describe(&sandbox.run(&["show", "--full"]));
    assert!(heard.contains("began with a copy of what trial"), "{heard}");
}

/// Somebody takes one more loop device before each trial, so that a copy is on others than what was prepared.
fn copies_are_mounted_whatever_the_numbers_of_their_devices() {
    let sandbox = Sandbox::new();
    let taken = sandbox.path("taken");
    fs::File::create(&taken).and_then(|file| file.set_len(1 << 20)).expect("a sparse file");
    let hook = format!("[hooks]\nbefore_trial = \"losetup --find {}\"\n[axes]\n", taken.display());
    let external = plan(&sandbox.path("")).replace("\"internal\", ", "").replace("[axes]\n", &hook);
    sandbox.write("plan.toml", &external);
    let swept = sandbox.run(&["sweep", "plan.toml", "--allow-hooks", "--format", "json"]);
    for node in
        run(Command::new("losetup").args(["--noheadings", "--output", "NAME", "-j"]).arg(&taken)).lines()
    {
        run(Command::new("losetup").args(["--detach", node.trim()]));
    }
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    let found = json(&swept);
    let copied = |trial: &&Value| trial["outcome"] == "measured" && trial["prepared_in"] != trial["trial"];
    assert!(found["trials"].as_array().expect("trials").iter().filter(copied).count() >= 3, "{found}");
}

fn nothing_is_left_of_what_was_prepared_after_a_kill() {
    let untouched = Machine::look();
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    sandbox.write("plan.toml", &plan(place.path()));
    let (hidden, copy) = (".fsdyno-", "disk.img");
    let has = |prefix: &str| entries(place.path()).iter().any(|name| name.starts_with(prefix));
    // While the first is prepared, and while there is also a copy; as soon as that is so, and later.
    let conditions: [&dyn Fn() -> bool; 2] = [&|| has(hidden), &|| has(hidden) && has(copy)];
    for (is_reached, later_ms) in conditions.iter().flat_map(|one| [(one, 0), (one, 150)]) {
        let mut sweep = begun(&sandbox, is_reached);
        thread::sleep(Duration::from_millis(later_ms));
        sweep.kill().and_then(|()| sweep.wait()).expect("killed");
        let restored = sandbox.run(&["restore"]);
        assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
        assert_eq!(entries(place.path()), [""; 0], "{}", describe(&restored));
        let difference = untouched.difference(&Machine::look());
        assert!(difference.is_empty(), "{difference:?}\n{}", describe(&restored));
    }
}

fn two_interrupts_leave_nothing_of_what_was_prepared() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    sandbox.write("plan.toml", &plan(place.path()));
    let has = |prefix: &str| entries(place.path()).iter().any(|name| name.starts_with(prefix));
    let mut sweep = begun(&sandbox, &|| has(".fsdyno-") && has("disk.img"));
    for _ in 0..2 {
        run(Command::new("kill").args(["-INT", &sweep.id().to_string()]));
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(sweep.wait().expect("its end").code(), Some(130));
    assert_eq!(entries(place.path()), [""; 0]);
}

/// The plan with one filesystem, and a hook that runs this script.
fn hooked(sandbox: &Sandbox, place: &Path, filesystem: &str, hook: &str, script: &str) -> String {
    let script = sandbox.write("hook.sh", script).display().to_string();
    let journals = "[axes.ext4]\njournal = [\"internal\", \"external\"]\n";
    let filesystems = "[\"ext4\", \"xfs\", \"btrfs\"]";
    let one = plan(place).replace(filesystems, &format!("\"{filesystem}\"")).replace(journals, "");
    one.replacen("[device]", &format!("[hooks]\n{hook} = \"sh {script}\"\n[device]"), 1)
}

fn trials(sandbox: &Sandbox, plan: &str, code: i32) -> Vec<Value> {
    sandbox.write("plan.toml", plan);
    let swept = sandbox.run(&["sweep", "plan.toml", "--allow-hooks", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(code), "{}", describe(&swept));
    json(&swept)["trials"].as_array().expect("trials").clone()
}

/// A hook is the last moment before a copy is made.
fn an_image_that_somebody_changes_is_noticed_and_prepared_again() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let (counter, images) = (sandbox.path("counter"), place.path().join(".fsdyno-*"));
    // Before the second trial of the block, the third with the sentinel.
    let script = format!(
        "echo >> {0}\n[ $(wc -l < {0}) != 3 ] || for image in {1}; do\n\
         printf x | dd of=$image bs=1 seek=9999999 conv=notrunc\ndone\n",
        counter.display(),
        images.display()
    );
    let plan = hooked(&sandbox, place.path(), "ext4", "before_trial", &script);
    let trials = trials(&sandbox, &plan.replace("repetitions = 1", "repetitions = 2"), 1);
    let prepared: Vec<Option<u64>> = trials.iter().map(|trial| trial["prepared_in"].as_u64()).collect();
    assert_eq!(prepared, [Some(0), Some(0), None, Some(3), Some(3), Some(3)]);
    let said = trials[2]["error"].to_string();
    assert!(said.contains("was changed by another program"), "{said}");
    assert!((0..6).all(|at| at == 2 || trials[at]["outcome"] == "measured"), "{trials:?}");
}

/// Where the images of a test are, on an xfs of its own.
struct Below {
    directory: PathBuf,
    image: PathBuf,
}

impl Drop for Below {
    fn drop(&mut self) {
        unmount(&self.directory);
        // The kernel detaches the device when the last process is gone that saw the mount in a namespace of
        // its own.
        let attached = || {
            let found = Command::new("losetup").arg("-j").arg(&self.image).output();
            found.is_ok_and(|found| !found.stdout.is_empty())
        };
        let end = Instant::now() + Duration::from_secs(10);
        while attached() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn blocks_are_shared_where_the_loop_device_can_still_bypass_the_cache() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let (image, below) = (place.path().join("xfs.img"), place.path().join("below"));
    fs::create_dir(&below).expect("a directory");
    fs::File::create(&image).and_then(|file| file.set_len(3 << 30)).expect("an image");
    run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(&image));
    run(Command::new("mount").args(["-o", "loop"]).args([&image, &below]));
    let below = Below { directory: below, image };
    let seen = sandbox.path("seen");
    let script = format!(
        "filefrag -v {} | grep -c shared >> {} || true\n",
        below.directory.join("disk.img").display(),
        seen.display()
    );
    let plan = hooked(&sandbox, &below.directory, "ext4", "before_phase", &script);
    for (sector, shares) in [("512", false), ("4096", true)] {
        let _ = fs::remove_file(&seen);
        let size = "size = \"512M\"";
        for trial in trials(&sandbox, &plan.replacen(size, &format!("{size}\nsector = {sector}"), 1), 0) {
            assert!(!trial["warnings"].to_string().contains("host-cache"), "{trial}");
        }
        let seen = fs::read_to_string(&seen).expect("what the hook has seen");
        let shared: Vec<u32> = seen.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(!shared.is_empty() && shared.iter().all(|extents| (*extents > 0) == shares), "{shared:?}");
    }
}
