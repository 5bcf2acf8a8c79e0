//! A store that can no longer be written: the trial is kept, the sweep ends, and everything is undone.

use crate::support::disk::run;
use crate::support::{Requirement, Sandbox, describe, json, unmount};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

tests! {
    a_full_disk_keeps_the_trial_for_later: &[Requirement::Root];
    a_full_disk_with_blocks_smaller_than_a_page_does_so_too: &[Requirement::Root, Requirement::Loop];
}

/// A small filesystem for the state directory, unmounted when the test ends, however it ends.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(path: std::path::PathBuf, arguments: &[&str]) -> Self {
        fs::create_dir(&path).expect("a directory");
        run(Command::new("mount").args(arguments).arg(&path));
        Small(path)
    }

    /// Fills it completely.
    fn fill(&self) {
        let mut file = File::options().append(true).create(true).open(self.0.join("filler")).expect("a file");
        while file.write_all(&[1; 1024]).is_ok() {}
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn a_full_disk_keeps_the_trial_for_later() {
    keeps_the_trial(&["-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs"], &Sandbox::new());
}

/// The index of the log is mapped: a part of a page that has no block ends the process.
fn a_full_disk_with_blocks_smaller_than_a_page_does_so_too() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("small.img").display().to_string();
    run(Command::new("truncate").args(["-s", "6M", &image]));
    run(Command::new("mkfs.ext4").args(["-q", "-b", "1024", "-O", "^has_journal", &image]));
    keeps_the_trial(&["-o", "loop", &image], &sandbox);
}

fn keeps_the_trial(mount: &[&str], sandbox: &Sandbox) {
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let small = Small::mount(sandbox.path("small"), mount);
    let state = small.0.join("fsdyno").display().to_string();
    let words = "bench work --tree-size 8M --ramp 0s --window 300ms --set writer_space=8M --state";
    let bench: Vec<&str> = words.split(' ').chain([state.as_str()]).collect();
    let mut child =
        sandbox.fsdyno(&bench).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start a bench");
    while fs::read_dir(sandbox.path("work")).expect("the directory").count() == 0 {
        assert!(child.try_wait().expect("look at it").is_none(), "the bench ended early");
        thread::sleep(Duration::from_millis(5));
    }
    small.fill();
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let kept = said.split("its record is kept in '").nth(1).and_then(|rest| rest.split('\'').next());
    let kept = kept.unwrap_or_else(|| panic!("no record in {said}")).to_string();
    assert!(kept.starts_with("/run/") && said.contains("full") && said.contains("hint: "), "{said}");
    assert_eq!(fs::read_dir(sandbox.path("work")).expect("the directory").count(), 0, "{said}");

    // The disk is full to the last block, but nothing is lost, and what is stored can be read.
    small.fill();
    let listed = sandbox.run(&["list", "--state", &state]);
    assert_eq!(listed.status.code(), Some(0), "{}", describe(&listed));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("bench"), "{}", describe(&listed));
    let restored = sandbox.run(&["restore", "--state", &state]);
    assert_eq!(restored.status.code(), Some(1), "{}", describe(&restored));
    assert!(Path::new(&kept).exists());
    fs::remove_file(small.0.join("filler")).expect("room");
    let restored = sandbox.run(&["restore", "--state", &state]);
    assert!(restored.status.success() && !Path::new(&kept).exists(), "{}", describe(&restored));
    let shown = json(&sandbox.run(&["show", "1", "--format", "json", "--state", &state]));
    assert_eq!(shown["trials"][0]["outcome"], "measured", "{shown}");
}
