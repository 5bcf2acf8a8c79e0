//! Parses `/proc/PID/mountinfo` (proc(5), Documentation/filesystems/proc.rst 3.5), and finds the mount of a
//! path.

use crate::probe::MountInfo;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts, in the order of the file, and the lines that could not be parsed.
pub fn parse(text: &str) -> (Vec<MountInfo>, Vec<&str>) {
    let mut mounts = Vec::new();
    let mut bad = Vec::new();
    for line in text.lines() {
        match parse_line(line) {
            Some(mount) => mounts.push(mount),
            None => bad.push(line),
        }
    }
    (mounts, bad)
}

/// Adds what `/` is on, which is missing for a process whose root is no mount point (chroot(2)): the kernel
/// lists the mounts below it only.
pub(crate) fn add_root(mounts: &mut Vec<MountInfo>) {
    if mounts.iter().any(|mount| mount.target == Path::new("/")) {
        return;
    }
    let Ok(root) = rustix::fs::statx(CWD, "/", AtFlags::empty(), StatxFlags::TYPE) else { return };
    mounts.push(MountInfo {
        device: (root.stx_dev_major, root.stx_dev_minor),
        root: PathBuf::from("/"),
        target: PathBuf::from("/"),
        filesystem: "unknown".to_string(),
        source: String::new(),
        options: String::new(),
    });
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: a variable number of
/// tags before the hyphen, three fields after it.
fn parse_line(line: &str) -> Option<MountInfo> {
    // A field, in particular the source, may be empty: so single spaces are the separators.
    let fields: Vec<&str> = line.split(' ').collect();
    let hyphen = fields.iter().skip(6).position(|field| *field == "-")? + 6;
    let [filesystem, source, superblock @ ..] = fields.get(hyphen + 1..)? else {
        return None;
    };
    let (major, minor) = fields[2].split_once(':')?;
    let options = both(fields[5], superblock.first()?);
    let path = |field| PathBuf::from(OsString::from_vec(unescape(field)));
    Some(MountInfo {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: path(fields[3]),
        target: path(fields[4]),
        filesystem: (*filesystem).to_string(),
        source: String::from_utf8_lossy(&unescape(source)).into_owned(),
        options: String::from_utf8_lossy(&unescape(&options)).into_owned(),
    })
}

/// The options of a mount and of its filesystem, each once. Of `rw` and `ro`, the stricter is in force.
fn both(mount: &str, superblock: &str) -> String {
    let own: Vec<&str> = mount.split(',').collect();
    let added = superblock.split(',').filter(|option| !own.contains(option) && *option != "rw");
    let all: Vec<&str> = own.iter().copied().chain(added).collect();
    let written = all.iter().filter(|option| **option != "rw" || !all.contains(&"ro"));
    written.copied().collect::<Vec<_>>().join(",")
}

/// The path with links resolved, or that of its nearest existing ancestor, where new files would go.
pub(crate) fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_else(|| path.to_path_buf())
}

/// The mount that contains a canonical path: the one with the longest target, the last of several on the same
/// one.
pub(crate) fn containing<'a>(mounts: &'a [MountInfo], path: &Path) -> Option<&'a MountInfo> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    above.max_by_key(|mount| mount.target.components().count())
}

/// The kernel escapes space, tab, newline, backslash and hash as a backslash and three octal digits.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_is_no_mount_point_is_added() {
        let mut mounts = parse("60 50 0:21 / /proc rw - proc proc rw").0;
        add_root(&mut mounts);
        let root = rustix::fs::stat("/").unwrap().st_dev;
        let device = (rustix::fs::major(root), rustix::fs::minor(root));
        let found =
            containing(&mounts, Path::new("/tmp/x")).map(|mount| (mount.target.as_path(), mount.device));
        assert_eq!(found, Some((Path::new("/"), device)));
        let whole = mounts.clone();
        add_root(&mut mounts);
        assert_eq!(mounts, whole, "once");
    }

    const CAPTURED: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict,resuid=65534,resgid=65534
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue
41 27 0:39 / /tmp/a\\040b\\134c rw,relatime shared:20 - btrfs /dev/loop0 \
rw,discard=async,space_cache=v2,subvolid=5,subvol=/
42 27 0:40 / /mnt/x rw - tmpfs  rw,size=4k
";

    #[test]
    fn captured_lines() {
        let (mounts, bad) = parse(CAPTURED);
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[0].device, (254, 0));
        assert_eq!(mounts[0].options, "rw,relatime,discard,resv_strict,resuid=65534,resgid=65534");
        assert_eq!(mounts[1].target, Path::new("/mnt2"));
        assert_eq!(mounts[1].filesystem, "ext3");
        assert_eq!(mounts[2].target, Path::new("/tmp/a b\\c"));
        assert_eq!((mounts[2].source.as_str(), mounts[2].device), ("/dev/loop0", (0, 39)));
        assert_eq!(mounts[3].source, "");
    }

    #[test]
    fn options_of_mount_and_filesystem_are_listed_once() {
        for (mount, superblock, options) in [
            ("rw,relatime", "rw,discard", "rw,relatime,discard"),
            ("rw,noatime", "ro,noatime", "noatime,ro"),
            ("ro,nosuid", "rw", "ro,nosuid"),
        ] {
            assert_eq!(both(mount, superblock), options);
        }
    }

    #[test]
    fn lines_that_are_no_mounts_are_given_back() {
        let text =
            "27 1 254:0 / / rw,relatime ext4 /dev/vda rw\n1 2 x:0 / / rw - a b c\n\n1 2 3:4 / / rw - ext4\n";
        let (mounts, bad) = parse(text);
        assert!(mounts.is_empty());
        assert_eq!(bad.len(), 4);
    }

    #[test]
    fn a_backslash_without_three_octal_digits_stands_for_itself() {
        assert_eq!(unescape("a\\04"), b"a\\04");
        assert_eq!(unescape("a\\09x"), b"a\\09x");
        assert_eq!(unescape("\\011\\"), b"\t\\");
    }
}
