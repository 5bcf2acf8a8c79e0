//! Images whose names go to others, and directories that are swapped.

use crate::agent::{agent, impatient};
use crate::support::Requirement::{Loop, Root};
use crate::support::{Sandbox, Test, attached, detach, host};
use fsdyno_core::Bytes;
use fsdyno_host::{AttachedLoop, Host, HostError, LoopOptions, Steps};
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

pub const TESTS: &[Test] = &[
    Test {
        name: "images::what_was_made_is_attached_whatever_has_its_name",
        requires: &[Root, Loop],
        body: swapped_file,
    },
    Test {
        name: "images::nothing_is_left_where_the_path_leads_elsewhere",
        requires: &[],
        body: swapped_directory,
    },
    Test { name: "images::root_follows_no_link_of_another_user", requires: &[Root], body: links },
    Test { name: "images::another_file_is_not_removed", requires: &[], body: another_file },
    Test { name: "images::they_go_with_the_agent_that_made_them", requires: &[], body: gone_with_the_agent },
    Test { name: "images::an_agent_passes_on_the_file_that_it_made", requires: &[], body: passed_on },
];

const NOBODY: u32 = 65534;
const SIZE: Bytes = Bytes(Bytes::MIB);
const DECOY: &[u8] = b"nobody may touch this";

fn swapped_file(sandbox: &Sandbox) {
    let path = sandbox.path("image");
    let mut host = host();
    let image = host.create_image(&path, SIZE).unwrap();
    fs::rename(&path, sandbox.path("moved")).unwrap();
    fs::write(&path, DECOY.repeat(512)).unwrap();

    let error = host.rename_image(image.handle, &sandbox.path("named")).unwrap_err();
    assert!(matches!(error, HostError::Replaced { .. }), "{error}");
    let options = LoopOptions { direct_io: false, block_size: 512 };
    let AttachedLoop { node, identity, .. } = host.attach_loop(image.handle, &options).unwrap();
    assert_eq!(identity.size_bytes, SIZE.0);
    let found = attached(&node).unwrap();
    fs::write(&node, [1; 4096]).unwrap();
    detach(&node);
    assert_eq!((found.backing_device, found.backing_inode), (image.identity.device, image.identity.inode));
    assert_eq!(fs::read(&path).unwrap(), DECOY.repeat(512));
    assert!(!sandbox.path("named").exists());
}

fn swapped_directory(sandbox: &Sandbox) {
    let directory = sandbox.directory("images");
    let decoys = sandbox.directory("decoys");
    let mut host = host();
    let image = host.create_image(&directory.join("hidden"), SIZE).unwrap();
    fs::rename(&directory, sandbox.path("moved")).unwrap();
    symlink(&decoys, &directory).unwrap();
    let error = host.rename_image(image.handle, &directory.join("image")).unwrap_err();
    assert!(error.to_string().contains("its path now leads elsewhere"), "{error}");
    for directory in [decoys, sandbox.path("moved")] {
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "'{}'", directory.display());
    }
    let elsewhere = host.rename_image(image.handle, &sandbox.path("image")).unwrap_err();
    assert_eq!(elsewhere.errno(), Some(18), "{elsewhere}");
}

/// A link leads root into another directory only where nobody else can have made it lead there.
fn links(sandbox: &Sandbox) {
    let real = sandbox.directory("real");
    let theirs = sandbox.directory("theirs");
    let sticky = sandbox.directory("sticky");
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    for (directory, name, owner) in
        [("", "own", 0), ("sticky", "own", 0), ("sticky", "foreign", NOBODY), ("theirs", "own", 0)]
    {
        let link = sandbox.path(directory).join(name);
        symlink(&real, &link).unwrap();
        lchown(&link, Some(owner), Some(owner)).unwrap();
    }
    fs::create_dir(theirs.join("below")).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut host = host();
    for (directory, followed) in [
        ("real", true),
        ("own", true),
        ("sticky/own", true),
        ("sticky/foreign", false),
        ("theirs", true),
        ("theirs/below", true),
        ("theirs/own", false),
        ("theirs/below/../own", false),
    ] {
        let directory = sandbox.path(directory);
        let verified = host.verify_directory(&directory);
        let made = host.create_image(&directory.join("image"), SIZE);
        assert_eq!((verified.is_ok(), made.is_ok()), (followed, followed), "{verified:?} {made:?}");
        match made {
            Ok(image) => host.remove_file(&directory.join("image"), &image.identity).unwrap(),
            Err(error) => assert!(error.to_string().contains("symbolic link that another user"), "{error}"),
        }
    }
    let missing = host.verify_directory(&sandbox.path("none/such")).unwrap_err();
    let no_directory = host.verify_directory(std::path::Path::new("/proc/version")).unwrap_err();
    assert_eq!((missing.errno(), no_directory.errno()), (Some(2), Some(20)));
    symlink("loop", sandbox.path("loop")).unwrap();
    assert_eq!(host.verify_directory(&sandbox.path("loop")).unwrap_err().errno(), Some(40));
}

fn another_file(sandbox: &Sandbox) {
    let path = sandbox.path("image");
    let mut host = host();
    let image = host.create_image(&path, SIZE).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(host.remove_file(&path, &image.identity).unwrap_err().errno(), Some(2));
    fs::write(&path, DECOY).unwrap();
    let error = host.remove_file(&path, &image.identity).unwrap_err();
    assert!(matches!(error, HostError::Replaced { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), DECOY);
}

fn gone_with_the_agent(sandbox: &Sandbox) {
    let fifo = sandbox.path("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut host = impatient();
    let image = host.create_image(&sandbox.path("image"), SIZE).unwrap();
    host.read_text(&fifo).unwrap_err();
    let options = LoopOptions { direct_io: false, block_size: 512 };
    let errors = [
        host.attach_loop(image.handle, &options).map(drop),
        host.image_descriptor(image.handle, &image.identity).map(drop),
        host.rename_image(image.handle, &sandbox.path("other")),
        host.close_image(image.handle),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(error.errno() == Some(9) && error.to_string().contains("was abandoned"), "{error}");
    }
}

fn passed_on(sandbox: &Sandbox) {
    let path = sandbox.path("image");
    let mut host = agent();
    let image = host.create_image(&path, SIZE).unwrap();
    let other = host.create_image(&sandbox.path("other"), SIZE).unwrap();
    fs::rename(&path, sandbox.path("moved")).unwrap();
    fs::write(&path, DECOY).unwrap();
    let descriptor = host.image_descriptor(image.handle, &image.identity).unwrap();
    let inode = rustix::fs::fstat(descriptor.as_fd()).unwrap().st_ino;
    assert_eq!(inode, fs::metadata(sandbox.path("moved")).unwrap().ino());
    rustix::io::write(&descriptor, b"written").unwrap();
    assert_eq!(fs::read(&path).unwrap(), DECOY);
    let error = host.image_descriptor(image.handle, &other.identity).unwrap_err();
    assert!(matches!(error, HostError::Replaced { .. }), "{error}");
    host.close_image(image.handle).unwrap();
    host.image_descriptor(image.handle, &image.identity).unwrap_err();
}
