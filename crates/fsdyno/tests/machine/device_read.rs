//! device-read: the device is read directly, first from memory and then from the device itself.

use crate::support::{Requirement, Sandbox, json};
use serde_json::Value;
use std::path::Path;

const LOOP: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.ext4"),
    Requirement::Filesystem("ext4"),
];

tests! {
    a_device_is_read_from_memory_and_directly: LOOP;
    holes_are_not_read: LOOP;
    a_directory_has_no_device_to_read: &[Requirement::Root];
}

fn sweep(sandbox: &Sandbox, device: &str) -> Value {
    let workload = "[[workloads]]\nkind = \"device-read\"\nwindow = \"400ms\"\nblock = \"1M\"\n";
    let plan = sandbox.write("device-read.toml", &format!("name = \"device-read\"\n{device}\n{workload}"));
    let output = sandbox.run(&["sweep", &plan.display().to_string(), "--format", "json"]);
    json(&output)
}

fn a_device_is_read_from_memory_and_directly() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("scratch.img");
    let json = sweep(&sandbox, &on_image(&image, "preallocate = \"write\""));
    let trial = &json["trials"][0];
    assert_eq!(trial["outcome"], "measured", "{trial}");
    let mut from_device = Vec::new();
    for (index, name) in [(0, "cached reads"), (1, "buffered reads")] {
        let phase = &trial["phases"][index];
        assert_eq!(phase["name"], name);
        let role = &phase["roles"][0];
        assert_eq!(
            (role["role"].as_str(), role["operations"][0]["operation"].as_str()),
            (Some("reader"), Some("pread64"))
        );
        let (bytes, reads) = (&role["rates"]["bytes"], &role["operations"][0]["lat_ns"]["N"]);
        let (bytes, reads) = (bytes.as_u64().expect("bytes"), reads.as_u64().expect("reads"));
        // All reads have the same length; one may have crossed the end of the window.
        assert!(reads > 1 && bytes.is_multiple_of(1 << 20) && (bytes >> 20).abs_diff(reads) <= 1, "{role}");
        from_device.push(phase["telemetry"]["window"]["devices"][0]["reads"].clone());
    }
    // The second phase cannot use what the first left in memory.
    assert!(from_device[1].as_u64() > from_device[0].as_u64(), "{from_device:?}");
}

fn on_image(image: &Path, more: &str) -> String {
    let image = image.display();
    format!("[device]\nimage = \"{image}\"\nsize = \"64M\"\n{more}\n[axes]\nfilesystem = \"ext4\"")
}

fn holes_are_not_read() {
    let sandbox = Sandbox::new();
    let json = sweep(&sandbox, &on_image(&sandbox.path("scratch.img"), ""));
    let trial = &json["trials"][0];
    assert_eq!(trial["outcome"], "skipped");
    let reason = trial["unmet"][0].as_str().expect("a reason");
    assert!(reason.contains("is sparse") && reason.contains("preallocate"), "{reason}");
}

fn a_directory_has_no_device_to_read() {
    let sandbox = Sandbox::new();
    let json = sweep(&sandbox, &format!("[device]\ndirectory = \"{}\"", sandbox.path("").display()));
    let trial = &json["trials"][0];
    assert_eq!(trial["outcome"], "skipped");
    assert!(
        trial["unmet"][0].as_str().is_some_and(|reason| reason.contains("device-read needs a block device")),
        "{trial}"
    );
}
