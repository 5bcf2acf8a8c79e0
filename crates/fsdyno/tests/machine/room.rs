//! Data that does not fit is refused before anything is written, and a reserve stays free while a load
//! writes.

use crate::support::{Requirement, Sandbox, describe, json, unmount};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const ON_IMAGES: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];

tests! {
    a_bench_that_does_not_fit_is_refused_at_once: &[Requirement::Root];
    a_load_stops_at_the_reserve: &[Requirement::Root];
    an_image_that_does_not_fit_is_refused_by_plan_and_sweep: ON_IMAGES;
    trees_and_writers_must_fit_on_the_device_together: ON_IMAGES;
    an_import_leaves_the_reserve: &[Requirement::Root];
}

/// A tmpfs of a given size, unmounted when the test ends.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, size: &str) -> Self {
        fs::create_dir(&path).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "tmpfs"]).arg(&path);
        assert!(mount.status().expect("mount runs").success());
        Small(path)
    }

    fn used(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.0).expect("statvfs");
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }

    /// Writes a file of this many MiB.
    fn fill(&self, mib: usize) {
        let mut file = File::create(self.0.join("filler")).expect("a file");
        for _ in 0..mib {
            file.write_all(&[1; 1 << 20]).expect("room");
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn a_bench_that_does_not_fit_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let small = Small::mount(sandbox.path("small"), "100m");
    let directory = small.0.display().to_string();
    for arguments in [
        &["--tree-size", "900G"][..],
        // 90 + 3 x 5 MiB would fit without the reserve of 5 MiB.
        &["--tree-size", "82M", "--set", "writer_space=5M"],
    ] {
        let output = sandbox.run(&[&["bench", &directory], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        assert!(text.contains("refused, nothing was written") && text.contains("5M is reserved"), "{text}");
        assert!(text.contains("hint: ") && text.contains("--tree-size SIZE"), "{text}");
        assert!(small.used() < 64 << 10, "{} bytes were written", small.used());
    }
    assert_eq!(json(&sandbox.run(&["list", "--format", "json"])), serde_json::json!([]), "nothing is stored");
}

fn a_load_stops_at_the_reserve() {
    let sandbox = Sandbox::new();
    let small = Small::mount(sandbox.path("small"), "100m");
    let directory = small.0.display().to_string();
    let bench = ["bench", &directory, "--tree-size", "8M", "--ramp", "0s", "--window", "1h"];
    let child = sandbox
        .fsdyno(&[&bench[..], &["--set", "writers=0"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a bench");
    while names(&small.0).is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    // Somebody else uses the space.
    small.fill(88);
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(text.contains("less than the reserve of 5M") && text.contains(&directory), "{text}");
    assert_eq!(names(&small.0), ["filler"], "{text}");
}

fn plan(image: &Path, size: &str, workload: &str) -> String {
    format!(
        "name = \"room\"\nrepetitions = 1\n[device]\nimage = \"{}\"\nsize = \"{size}\"\n[axes]\n\
         filesystem = \"ext4\"\n[[workloads]]\nkind = \"fileserver\"\nramp = \"0s\"\nwindow = \"100ms\"\n\
         {workload}\n",
        image.display()
    )
}

fn an_image_that_does_not_fit_is_refused_by_plan_and_sweep() {
    let sandbox = Sandbox::new();
    let small = Small::mount(sandbox.path("small"), "253m");
    let text = plan(&small.0.join("a.img"), "536M", "tree_size = \"8M\"\nwriter_space = \"1M\"");
    sandbox.write("plan.toml", &text);
    let planned = sandbox.run(&["plan", "plan.toml"]);
    assert_eq!(planned.status.code(), Some(3), "{}", describe(&planned));
    let text = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(text.contains("can grow to 536M") && text.contains("12M is reserved"), "{text}");
    let swept = sandbox.run(&["sweep", "plan.toml"]);
    assert_eq!(swept.status.code(), Some(3), "{}", describe(&swept));
    assert_eq!(names(&small.0), [""; 0]);
}

fn trees_and_writers_must_fit_on_the_device_together() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("a.img");
    let workload = "tree_size = \"100M\"\nwriters = 3\nwriter_space = \"60M\"";
    sandbox.write("plan.toml", &plan(&image, "256M", workload));
    for command in ["plan", "sweep"] {
        let output = sandbox.run(&[command, "plan.toml"]);
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        let said = describe(&output);
        assert!(said.contains("has 256M, but the plan's trees and writers need 280M"), "{said}");
    }
    let fits = sandbox.run(&["plan", "plan.toml", "--set", "workloads.writer_space=16M"]);
    assert_eq!(fits.status.code(), Some(0), "{}", describe(&fits));
}

fn an_import_leaves_the_reserve() {
    let sandbox = Sandbox::new();
    let small = Small::mount(sandbox.path("small"), "40m");
    let state = small.0.join("fsdyno").display().to_string();
    let fio = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/captured/fio-3.33.json");
    let import = ["import", "fio", &fio.display().to_string(), "--state", &state];
    let imported = sandbox.run(&import);
    assert!(imported.status.success(), "{}", describe(&imported));
    small.fill(38);
    let refused = sandbox.run(&import);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(text.contains("no room for results in '") && text.contains("2M is reserved"), "{text}");
    let list = json(&sandbox.run(&["list", "--format", "json", "--state", &state]));
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
}
