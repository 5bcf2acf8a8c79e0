//! The guards on partitions: allowed alongside others that are in use, but never on a disk that is used as a
//! whole.

use crate::support::guarded::{
    Loop, Mount, PARTX, Partitions, Process, ask, block, confirming, ext4, refused,
};
use crate::support::{Sandbox, wait_for};
use std::path::{Path, PathBuf};

tests! {
    the_name_of_a_disk_confirms_no_partition: PARTX;
    on_a_disk_that_is_used_as_a_whole: PARTX;
}

/// The node of a partition.
fn partition(disk: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}p{number}", disk.display()))
}

fn the_name_of_a_disk_confirms_no_partition() {
    let sandbox = Sandbox::new();
    let disk = Loop::new(&sandbox, "image", 64);
    let _partitions = Partitions::new(&disk.node);
    let partition = partition(&disk.node, 1);
    let data = block(&partition);
    let refusals = ask(&sandbox, &data, &confirming(&disk.node));
    assert!(refusals.iter().any(|refusal| refusal.reason.contains("not confirmed")), "{refusals:#?}");
    assert_eq!(ask(&sandbox, &data, &confirming(&partition)), [], "confirmed, it may be used");
}

/// Mounted, open in a process, below a loop device.
fn on_a_disk_that_is_used_as_a_whole() {
    let sandbox = Sandbox::new();
    let disk = Loop::new(&sandbox, "image", 64);
    ext4(&disk.node);
    let _partitions = Partitions::new(&disk.node);
    let data = block(&partition(&disk.node, 1));
    let name = disk.node.file_name().expect("a name").display();
    let whole = format!("holds the same bytes as '{name}', which is");
    // An engine of a test beside this one keeps what was mounted when it began, in its own namespace.
    let is_refused = |word: &str| {
        let refusals = || ask(&sandbox, &data, &confirming(data.path()));
        let holds = || refusals().iter().any(|refusal| refusal.reason.contains(word)).then_some(());
        wait_for(holds, || format!("no '{word}' in {:#?}", refusals()));
    };
    let mount = Mount::new(&sandbox, &disk.node);
    refused(&sandbox, &data, &format!("{whole} mounted at"), &[&disk.image]);
    drop(mount);
    let script = format!("exec 9<{}; echo ready; read nothing", disk.node.display());
    let process = Process::shell(&[], &script);
    is_refused(&format!("{whole} opened by process"));
    drop(process);
    let _second = Loop::over(&disk.node);
    is_refused("which is attached");
}
