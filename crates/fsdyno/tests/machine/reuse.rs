//! Sweeps whose trials begin with copies of what was prepared once in a block.

use crate::support::{MAKING_FILESYSTEMS, Machine, Sandbox, describe, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

tests! {
    copies_have_every_byte_and_are_made_once_in_a_block: MAKING_FILESYSTEMS;
    nothing_is_left_of_what_was_prepared_after_a_kill: MAKING_FILESYSTEMS;
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
         writer_space = \"16M\"\nramp = 0\nwindow = \"50ms\"\nverify = true\n",
        image("disk.img"),
        image("journal.img")
    )
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
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
    let told = describe(&sandbox.run(&["show", "--full"]));
    assert!(told.contains("began with a copy of what trial"), "{told}");
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
        let mut command = sandbox.fsdyno(&["sweep", "plan.toml"]);
        let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sweep");
        let begin = Instant::now();
        while !is_reached() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no trial begins");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(later_ms));
        sweep.kill().and_then(|()| sweep.wait()).expect("killed");
        let restored = sandbox.run(&["restore"]);
        assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
        assert_eq!(entries(place.path()), [""; 0], "{}", describe(&restored));
        let difference = untouched.difference(&Machine::look());
        assert!(difference.is_empty(), "{difference:?}\n{}", describe(&restored));
    }
}
