//! Images that are written once and kept for all trials of a sweep, and their sectors.

use crate::support::{
    MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Requirement, Sandbox, describe, json, wait_until,
};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

tests! {
    one_image_serves_all_trials_and_stays_allocated: MAKING_ON_IMAGES;
    a_kept_image_is_removed_after_a_kill: MAKING_FILESYSTEMS;
    a_written_image_needs_a_plan_without_guests: &[];
    it_is_measured_whether_the_shape_of_an_image_matters:
        &[Requirement::All(MAKING_FILESYSTEMS), Requirement::Soak];
}

const SIZE: u64 = 320 << 20;

fn plan(image: &Path, window: &str) -> String {
    format!(
        "repetitions = 2\n[device]\nimage = \"{}\"\nsize = \"{SIZE}\"\nsector = 4096\n\
         preallocate = \"write\"\n[axes]\nfilesystem = [\"ext4\", \"xfs\", \"btrfs\"]\n[[workloads]]\n\
         kind = \"fileserver\"\ntree_size = \"4M\"\nwriters = 1\nreaders = 1\nwriter_space = \"8M\"\n\
         write_rate = \"closed\"\nramp = 0\nwindow = \"{window}\"\n",
        image.display()
    )
}

/// The facts that are seen of an image while it is attached.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    inode: u64,
    is_whole: bool,
    sector: String,
    discards: String,
}

/// A loop device that has this file.
fn attached(image: &Path) -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/block").ok()?.flatten().map(|entry| entry.path());
    devices.into_iter().find(|device| {
        let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        Path::new(backing.trim_end()) == image
    })
}

/// Everything that is seen while a sweep runs; only mounted filesystems count, when everything is set.
fn watch(sweep: &mut Child, image: &Path) -> BTreeSet<Seen> {
    let mut seen = BTreeSet::new();
    while sweep.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(10));
        let Some(device) = attached(image) else { continue };
        let node = Path::new("/dev").join(device.file_name().expect("a name"));
        let is_mounted = || {
            let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
            mounts.lines().any(|line| line.starts_with(&format!("{} /run/", node.display())))
        };
        let read = |name: &str| {
            fs::read_to_string(device.join("queue").join(name)).map(|text| text.trim().to_string())
        };
        if !is_mounted() {
            continue;
        }
        if let (Ok(file), Ok(sector), Ok(discards)) =
            (fs::metadata(image), read("logical_block_size"), read("discard_max_bytes"))
            && is_mounted()
        {
            let is_whole = file.blocks() * 512 >= SIZE;
            seen.insert(Seen { inode: file.ino(), is_whole, sector, discards });
        }
    }
    seen
}

/// Loop devices that can discard no more, although the kernel could.
fn without_discards() -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").expect("block devices").flatten().map(|entry| entry.path());
    let is_zero = |device: &Path, limit: &str| {
        fs::read_to_string(device.join("queue").join(limit)).is_ok_and(|text| text.trim() == "0")
    };
    let has_lost =
        |device: &PathBuf| is_zero(device, "discard_max_bytes") && !is_zero(device, "discard_max_hw_bytes");
    let is_loop =
        |device: &PathBuf| device.file_name().is_some_and(|name| name.to_string_lossy().starts_with("loop"));
    devices.filter(is_loop).filter(has_lost).collect()
}

fn one_image_serves_all_trials_and_stays_allocated() {
    let before = without_discards();
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let image = place.path().join("disk.img");
    sandbox.write("plan.toml", &plan(&image, "100ms"));
    let mut command = sandbox.fsdyno(&["sweep", "plan.toml"]);
    let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sweep");
    let seen: Vec<Seen> = watch(&mut sweep, &image).into_iter().collect();
    assert!(sweep.wait().expect("a child").success());
    let [only] = &seen[..] else { panic!("one file with one state: {seen:?}") };
    assert!(only.is_whole && only.sector == "4096" && only.discards == "0", "{only:?}");
    assert!(!image.exists());
    assert_eq!(without_discards(), before);
    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 8, "six, and two of the sentinel");
    for trial in trials {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        let device = &trial["environment"]["devices"][0]["model"];
        assert!(device.as_str().expect("a text").ends_with("(320M, written, sectors of 4k)"), "{device}");
    }
}

fn a_kept_image_is_removed_after_a_kill() {
    let before = without_discards();
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let image = place.path().join("disk.img");
    sandbox.write("plan.toml", &plan(&image, "30s"));
    // While it is written, and while it is mounted.
    let conditions: [fn(&Path) -> bool; 2] = [|image| image.exists(), |image| attached(image).is_some()];
    for is_reached in conditions {
        let mut command = sandbox.fsdyno(&["sweep", "plan.toml"]);
        let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sweep");
        wait_until("a trial begins", || is_reached(&image));
        sweep.kill().and_then(|()| sweep.wait()).expect("killed");
        let restored = sandbox.run(&["restore"]);
        assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
        assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0);
        assert_eq!(without_discards(), before);
    }
}

fn a_written_image_needs_a_plan_without_guests() {
    let sandbox = Sandbox::new();
    let plan = plan(Path::new("/var/tmp/never.img"), "300ms").replace("[axes]", "[axes]\nkernel = [\"6.1\"]");
    sandbox.write("plan.toml", &plan);
    let said = describe(&sandbox.run(&["plan", "plan.toml"]));
    assert!(said.contains("whose disks are new in each trial"), "{said}");
}

fn it_is_measured_whether_the_shape_of_an_image_matters() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let image = place.path().join("disk.img");
    let three = plan(&image, "300ms");
    let filesystems = "[\"ext4\", \"xfs\", \"btrfs\"]";
    let one = three.replace(filesystems, "\"xfs\"");
    assert_ne!(one, three);
    sandbox.write("plan.toml", &one);
    let output = sandbox.run(&["doctor", "--device", "plan.toml", "--format", "json"]);
    assert!(output.status.success(), "{}", describe(&output));
    let found = json(&output);
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "two measures, allocation and sector: {found}");
    for row in rows {
        let [first, second] = [0, 1].map(|at| row["means"][at].as_f64().expect("a mean"));
        let [low, high] = [0, 1].map(|at| row["interval"][at].as_f64().expect("a bound"));
        let ratio = row["ratio"].as_f64().expect("a ratio");
        assert!(low < ratio && ratio < high, "{row}");
        // The ratio is that of typical trials. One trial that the disk was slow in moves a mean further, and
        // widens the interval.
        assert!((0.9 * low..1.1 * high).contains(&(second / first)), "{row}");
    }
    assert!(!image.exists());

    // A sweep on that filesystem carries what was found, and one on another filesystem does not.
    let kept = sandbox.path("state/fsdyno/images.json");
    let mut document: serde_json::Value =
        serde_json::from_slice(&fs::read(&kept).expect("what was found")).expect("JSON");
    document[0]["rows"].as_array_mut().expect("rows").iter_mut().for_each(|row| row["differs"] = true.into());
    let warned = |document: &serde_json::Value| {
        fs::write(&kept, document.to_string()).expect("written");
        let sparse = plan(&image, "100ms").replace("\"write\"", "\"none\"").replace("4096", "512");
        sandbox.write("sparse.toml", &sparse.replace(filesystems, "\"xfs\""));
        let trials = json(&sandbox.run(&["sweep", "sparse.toml", "--format", "json"]));
        let warnings = trials["trials"][0]["warnings"].as_array().expect("warnings").clone();
        warnings.iter().any(|warning| warning["kind"] == "image-shape")
    };
    assert!(warned(&document));
    document[0]["place"] = 1.into();
    assert!(!warned(&document));
}
