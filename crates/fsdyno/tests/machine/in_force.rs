//! Survival of a power cut is judged by the settings in force, whoever mounted the filesystem.

use crate::support::guarded::{LOOP, Loop, Mount, ext4, succeed, tool};
use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

tests! {
    a_directory_on_a_usual_mount_is_durable: MAKING_FILESYSTEMS;
    a_directory_on_a_weak_mount_is_not_durable: MAKING_FILESYSTEMS;
    a_directory_in_memory_is_not_durable: LOOP;
    what_the_superblock_asks_for_counts_in_a_sweep: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Program("unshare"),
    ];
}

const DURABLE: &str = "None of its settings weakens what survives a power cut.";

/// The kinds and texts of the warnings of durability of `bench` in a directory, and what it said.
fn bench(sandbox: &Sandbox, directory: &Path) -> (Vec<(String, String)>, String) {
    let directory = directory.display().to_string();
    let quick = ["--tree-size", "2M", "--ramp", "0", "--window", "50ms", "--set", "writer_space=8M"];
    let output = sandbox.run(&[&["bench", directory.as_str()], &quick[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    (of_durability(sandbox), said)
}

fn of_durability(sandbox: &Sandbox) -> Vec<(String, String)> {
    let stored = sandbox.stored();
    let warnings = stored["trials"][0]["warnings"].as_array().expect("warnings");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_string();
    let all = warnings.iter().map(|warning| (text(&warning["kind"]), text(&warning["text"])));
    all.filter(|(kind, _)| kind.starts_with("durability")).collect()
}

fn a_directory_on_a_usual_mount_is_durable() {
    for (program, flag) in [("mkfs.ext4", "-q"), ("mkfs.xfs", "-q"), ("mkfs.btrfs", "-q")] {
        let sandbox = Sandbox::new();
        let device = Loop::new(&sandbox, "image", 320);
        tool(program, &[flag], &device.node);
        let mount = Mount::new(&sandbox, &device.node);
        let (found, said) = bench(&sandbox, &mount.0);
        // What is below the image is that of this machine.
        let own: Vec<_> = found.iter().filter(|(_, text)| !text.contains("below it")).collect();
        assert_eq!(own, [] as [&(String, String); 0], "{program}");
        assert!(!found.is_empty() || said.contains(DURABLE), "{program}: {said}");
    }
}

fn a_directory_on_a_weak_mount_is_not_durable() {
    let weak: [(&[&str], &str, &str); 7] = [
        (&["mkfs.ext4", "-q"], "nobarrier", "barrier = 0"),
        (&["mkfs.ext4", "-q"], "data=writeback", "data = writeback"),
        (&["mkfs.ext4", "-q"], "commit=600", "commit = 600"),
        (&["mkfs.ext4", "-q"], "noauto_da_alloc", "noauto_da_alloc"),
        (&["mkfs.ext4", "-q", "-O", "^has_journal"], "noatime", "no journal"),
        (&["mkfs.ext2", "-q"], "noatime", "no journal"),
        (&["mkfs.btrfs", "-q"], "nodatacow", "datacow = 0"),
    ];
    for (make, option, risk) in weak {
        let sandbox = Sandbox::new();
        let device = Loop::new(&sandbox, "image", 320);
        tool(make[0], &make[1..], &device.node);
        let mount = Mount::with(option, &sandbox, &device.node);
        // A link leads to it.
        let link = sandbox.path("link");
        symlink(&mount.0, &link).expect("a link");
        let (found, said) = bench(&sandbox, &link);
        assert!(found.iter().any(|(kind, text)| kind == "durability" && text.contains(risk)), "{found:?}");
        assert!(!said.contains(DURABLE), "{make:?} {option}: {said}");
    }
}

fn a_directory_in_memory_is_not_durable() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path("memory");
    fs::create_dir(&directory).expect("a directory");
    succeed(Command::new("mount").args(["-t", "tmpfs", "-o", "size=512m", "none"]).arg(&directory));
    let memory = Mount(directory);
    let (found, said) = bench(&sandbox, &memory.0);
    assert!(found.iter().any(|(kind, text)| kind == "durability" && text.contains("tmpfs is in memory")));
    assert!(!said.contains(DURABLE), "{said}");
    // An image on it.
    let image = memory.0.join("image");
    fs::File::create(&image).and_then(|file| file.set_len(300 << 20)).expect("an image");
    let device = Loop::over(&image);
    ext4(&device.node);
    let mount = Mount::new(&sandbox, &device.node);
    let (found, said) = bench(&sandbox, &mount.0);
    assert!(found.iter().any(|(_, text)| text.contains("below it, tmpfs is in memory")), "{found:?}");
    assert!(!said.contains(DURABLE), "{said}");
}

/// mke2fs writes default mount options into the superblock, which no plan and no option of the mount shows.
fn what_the_superblock_asks_for_counts_in_a_sweep() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "mke2fs.conf",
        "[defaults]\n base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr\n \
         default_mntopts = journal_data_writeback,nobarrier\n blocksize = 4096\n inode_size = 256\n \
         inode_ratio = 16384\n[fs_types]\n ext4 = {\n features = has_journal,extent\n }\n",
    );
    sandbox.write(
        "plan.toml",
        &format!(
            "[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \
             \"fileserver\"\ntree_size = \"1M\"\nramp = \"0s\"\nwindow = \"50ms\"\n",
            sandbox.path("disk.img").display()
        ),
    );
    let sweep = sandbox.fsdyno(&["sweep", "plan.toml"]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind mke2fs.conf /etc/mke2fs.conf && exec \"$0\" \"$@\""]);
    command
        .arg(sweep.get_program())
        .args(sweep.get_args())
        .envs(sweep.get_envs().flat_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(sandbox.path(".")).output().expect("run fsdyno");
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", describe(&output));
    let found = of_durability(&sandbox);
    for risk in ["barrier = 0", "data = writeback"] {
        assert!(found.iter().any(|(_, text)| text.contains(risk)), "{risk}: {found:?}");
    }
}
