//! collection: what was written is read, copied and deleted, on every filesystem, with generated and with
//! existing files.

use crate::support::{MAKING_ON_IMAGES, Sandbox, describe, json};
use fsdyno_testkit::in_memory;
use std::fs;

tests! {
    every_test_sees_every_file: MAKING_ON_IMAGES;
}

fn every_test_sees_every_file() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let source = sandbox.path("source");
    fs::create_dir_all(source.join("deep/deeper")).expect("directories");
    for (name, size) in [("a", 0), ("b", 5000), ("deep/c", 300_000), ("deep/deeper/d", 1)] {
        fs::write(source.join(name), vec![b'x'; size]).expect("a file");
    }
    // Links are skipped.
    std::os::unix::fs::symlink("a", source.join("link")).expect("a link");
    let plan = format!(
        "name = \"collection\"\nrepetitions = 1\n[device]\nimage = \"{}\"\nsize = \"512M\"\n\
         [axes]\nfilesystem = [\"ext4\", \"xfs\", \"btrfs\"]\n\
         [[workloads]]\nkind = \"collection\"\nscale = 0.02\n\
         [[workloads]]\nkind = \"collection\"\nsource = \"{}\"\n",
        memory.path().join("scratch.img").display(),
        source.display()
    );
    let plan = sandbox.write("collection.toml", &plan);
    let output = sandbox.run(&["sweep", &plan.display().to_string(), "--format", "json"]);
    assert!(output.status.success(), "{}", describe(&output));
    let json = json(&output);
    let trials = json["trials"].as_array().expect("trials");
    assert!(trials.len() >= 6, "{}", trials.len());
    for trial in trials {
        let phase = |index: usize, name: &str| {
            let phase = &trial["phases"][index];
            assert_eq!(phase["name"], name, "{trial}");
            let rates = &phase["roles"][0]["rates"];
            let number = |key: &str| rates[key].as_u64().expect("a number");
            (number("items"), number("bytes"))
        };
        let written = phase(0, "write");
        if trial["workload"]["parameters"]["source"].is_null() {
            assert_eq!(written.0, 219);
            assert!((219 * 1024..219 * 8193).contains(&written.1), "{written:?}");
        } else {
            assert_eq!(written, (4, 305_001));
        }
        assert_eq!((phase(1, "read"), phase(2, "copy")), (written, written));
        assert_eq!(phase(3, "delete"), (written.0, 0));
    }
    // The source is unchanged.
    assert_eq!(fs::metadata(source.join("deep/c")).expect("the file").len(), 300_000);
}
