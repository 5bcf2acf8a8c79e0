//! Names on devices are somebody else's text: they reach no terminal as they are, forge no line of a message,
//! and confirm nothing.

use crate::support::guarded::{LOOP, Loop, hash};
use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

tests! {
    a_label_controls_no_terminal_and_forges_no_line: MAKING_FILESYSTEMS;
    a_partition_name_controls_no_terminal_and_forges_no_line: &[
        Requirement::All(LOOP),
        Requirement::Program("sfdisk"),
    ];
    a_link_with_a_hostile_name_leads_to_a_refusal: LOOP;
}

/// Asks for a device, also with words that confirm another one; all are refused, and it stays as it was.
fn is_refused(sandbox: &Sandbox, device: &Loop, as_written: &str) {
    let (node, before) = (device.node.display().to_string(), hash(&device.image));
    let plan = format!(
        "[device]\nblock = \"{as_written}\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n"
    );
    sandbox.write("plan.toml", &plan);
    let kind = format!("{node}=x");
    let words: [&[&str]; 2] = [&[], &["--destroy", "/dev/null", "--overwrite", &kind]];
    for words in words {
        let output = sandbox.run(&[&["sweep", "plan.toml"], words].concat());
        assert!([Some(2), Some(3)].contains(&output.status.code()), "{words:?}: {}", describe(&output));
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        assert!(said.iter().all(|byte| *byte == b'\n' || !byte.is_ascii_control()), "{said:?}");
        let said = String::from_utf8_lossy(&said);
        assert!(said.lines().all(|line| !line.trim_start().starts_with("forged")), "{said}");
        assert_eq!(hash(&device.image), before, "{words:?}");
    }
}

fn a_label_controls_no_terminal_and_forges_no_line() {
    let long = format!("{}\u{1b}]0;x\u{7}\nforged %n%s", "a".repeat(200));
    let labels = [
        ("mkfs.ext4", "a\nforged %n%s\u{1b}[2J"),
        ("mkfs.xfs", "\nforged\u{1b}[2J"),
        ("mkfs.btrfs", "../../etc/passwd \u{202e}\u{1b}c\nforged"),
        ("mkfs.btrfs", long.as_str()),
    ];
    for (program, label) in labels {
        let sandbox = Sandbox::new();
        let device = Loop::new(&sandbox, "image", 320);
        let make = Command::new(program).args(["-q", "-L", label]).arg(&device.node).output();
        let make = make.expect("run mkfs");
        if !make.status.success() {
            // Some tools refuse such labels; then there is none to be afraid of.
            continue;
        }
        is_refused(&sandbox, &device, &device.node.display().to_string());
    }
}

fn a_partition_name_controls_no_terminal_and_forges_no_line() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let mut table = Command::new("sfdisk");
    let table = table.args(["-q", "--no-reread", "--no-tell-kernel"]).arg(&device.node).stdin(Stdio::piped());
    let mut running = table.spawn().expect("run sfdisk");
    let name = "label: gpt\nsize=32M, name=\"../x \\x1b[2J%n%s forged\"\n";
    running.stdin.take().expect("its stdin").write_all(name.as_bytes()).expect("written");
    assert!(running.wait().expect("it ends").success());
    is_refused(&sandbox, &device, &device.node.display().to_string());
}

fn a_link_with_a_hostile_name_leads_to_a_refusal() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    for (name, as_written) in
        [("by label \u{1b}[2J\nforged", "by label \\u001b[2J\\nforged"), ("%n%s%n ..", "%n%s%n ..")]
    {
        symlink(&device.node, sandbox.path(name)).expect("a link");
        let directory = sandbox.path("");
        is_refused(&sandbox, &device, &format!("{}{as_written}", directory.display()));
    }
}
