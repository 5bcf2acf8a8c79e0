//! The things that a user or a plan names by mistake or on purpose: a device as store or report, an image
//! among the system's files, a value that the kernel changes.

use crate::support::guarded::{LOOP, Loop, ext4, hash};
use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Requirement, Sandbox, describe};
use std::fs;
use std::process::Command;

tests! {
    a_device_is_neither_a_store_nor_a_report: LOOP;
    an_image_among_the_systems_files_is_refused: LOOP;
    a_named_loop_device_that_the_host_caches_is_told: &[Requirement::All(MAKING_FILESYSTEMS), Requirement::All(LOOP)];
    a_setting_that_the_kernel_changes_comes_back: MAKING_FILESYSTEMS;
    a_thread_that_cannot_be_started_is_an_error: &[
        Requirement::All(MAKING_ON_IMAGES),
        Requirement::Program("strace"),
    ];
    a_load_that_needs_more_memory_than_there_is_fails: &[];
}

fn a_device_is_neither_a_store_nor_a_report() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let before = hash(&device.image);
    let node = device.node.display().to_string();
    let work = sandbox.path("work").display().to_string();
    let measured = ["bench", &work, "--tree-size", "2M", "--ramp", "0", "--window", "50ms"];
    assert!(sandbox.run(&measured).status.success());
    let as_store = ["list", "show", "report", "doctor"].map(|command| vec![command, "--store", &node]);
    let as_output = [vec!["report", "-o", &node], vec!["profile", &work, "-o", &node]];
    for arguments in as_store.into_iter().chain(as_output) {
        let output = sandbox.run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let harmless = arguments[0] == "doctor" || error.contains(&node);
        assert!(harmless, "{arguments:?}: {}", describe(&output));
        assert_eq!(hash(&device.image), before, "{arguments:?}");
    }
    for suffix in ["-journal", "-wal", "-shm"] {
        assert!(!fs::exists(format!("{node}{suffix}")).expect("look"), "{suffix}");
    }
}

fn an_image_among_the_systems_files_is_refused() {
    let sandbox = Sandbox::new();
    // The journals of this sandbox; a sweep creates the directory.
    let undo = sandbox.path("state/fsdyno/undo");
    fs::create_dir_all(&undo).expect("directories");
    for directory in ["/etc", "/usr/lib", "/dev", "/run", &undo.display().to_string()] {
        let image = format!("{directory}/fsdyno-test.img");
        sandbox.write(
            "plan.toml",
            &format!(
                "[device]\nimage = \"{image}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n\
                 [[workloads]]\nkind = \"null\"\n"
            ),
        );
        let output = sandbox.run(&["sweep", "plan.toml"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{image}: {}", describe(&output));
        assert!(error.contains("cannot create files in") && error.contains("it belongs to the"), "{error}");
        assert!(!fs::exists(&image).expect("look"), "{image}");
    }
}

/// The kernel reads `0x1f5` as 501, and rounds readahead down to pages.
fn a_setting_that_the_kernel_changes_comes_back() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "disk", 300);
    let node = device.node.display().to_string();
    let name = device.node.file_name().expect("a name").to_string_lossy().into_owned();
    let settings =
        ["/proc/sys/vm/extfrag_threshold".to_string(), format!("/sys/block/{name}/queue/read_ahead_kb")];
    let values = || settings.clone().map(|path| fs::read_to_string(path).expect("a setting"));
    let before = values();
    for axis in ["\"sysctl.vm.extfrag_threshold\" = \"0x1f5\"", "readahead = \"5k\""] {
        sandbox.write(
            "plan.toml",
            &format!(
                "repetitions = 1\n[device]\nblock = \"{node}\"\n[axes]\nfilesystem = \"ext4\"\n{axis}\n\
                 [[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"20ms\"\n"
            ),
        );
        let output = sandbox.run(&["sweep", "plan.toml", "--destroy", &node]);
        let stored = sandbox.stored();
        let outcome = &stored["trials"][0]["outcome"];
        assert_eq!(outcome, "skipped", "{axis}: {}", describe(&output));
        assert_eq!(values(), before, "{axis}");
    }
}

/// losetup(8) sets one up without direct I/O, and then reads are answered by the host's memory.
fn a_named_loop_device_that_the_host_caches_is_told() {
    let sandbox = Sandbox::new();
    for direct in [false, true] {
        let device = Loop::new(&sandbox, if direct { "direct" } else { "cached" }, 300);
        let node = device.node.display().to_string();
        if direct {
            let set = Command::new("losetup").arg("--direct-io=on").arg(&node).status().expect("losetup");
            assert!(set.success());
        }
        sandbox.write(
            "plan.toml",
            &format!(
                "repetitions = 1\n[device]\nblock = \"{node}\"\n[axes]\nfilesystem = \"ext4\"\n\
                 [[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"20ms\"\n"
            ),
        );
        let output = sandbox.run(&["sweep", "plan.toml", "--destroy", &node]);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        let warnings = sandbox.stored()["trials"][0]["warnings"].to_string();
        let said = format!("'{node}' is a loop device without direct I/O");
        assert_eq!(warnings.contains(&said), !direct, "{warnings}");
    }
}

/// Threads and processes alike: in each process that takes part, the n-th one fails, as it does at a limit.
fn a_thread_that_cannot_be_started_is_an_error() {
    const PANICKED: Option<i32> = Some(101);
    let sandbox = Sandbox::new();
    let image = sandbox.path("disk.img");
    sandbox.write(
        "plan.toml",
        &format!(
            "repetitions = 1\n[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n\
             [[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"20ms\"\n",
            image.display()
        ),
    );
    for number in 1..=8 {
        let inject = format!("inject=clone3:error=EAGAIN:when={number}");
        let (output, _) = sandbox.traced(&["-e", "trace=clone3", "-e", &inject], &["sweep", "plan.toml"]);
        let text = describe(&output);
        assert!(output.status.code() != PANICKED && !text.contains("panicked at"), "{number}: {text}");
        assert!(!fs::exists(&image).expect("look"), "{number}: {text}");
    }
    let restored = sandbox.run(&["restore"]);
    assert!(
        String::from_utf8_lossy(&restored.stdout).contains("nothing to restore"),
        "{}",
        describe(&restored)
    );
}

fn a_load_that_needs_more_memory_than_there_is_fails() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let work = sandbox.path("work").display().to_string();
    let asked = ["readers=1024", "writers=1024", "io_size=64M", "writer_space=1M"];
    let asked: Vec<&str> = asked.into_iter().flat_map(|set| ["--set", set]).collect();
    let output = sandbox.run(&[&["bench", work.as_str()], &asked[..]].concat());
    let text = describe(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("need 128G of memory"), "{text}");
}
