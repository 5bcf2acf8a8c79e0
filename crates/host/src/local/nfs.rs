//! The kernel's NFS server, without the programs that usually speak with it: what rpc.nfsd, exportfs and
//! rpc.mountd would write (Documentation/filesystems/nfs/rpc-cache.rst, fs/nfsd/nfsctl.c).

use super::mount;
use crate::nfs::NfsExport;
use crate::{HostError, MountRequest, Result};
use std::fs::{OpenOptions, create_dir_all};
use std::io::{self, Write};
use std::path::Path;

const CONTROL: &str = "/proc/fs/nfsd";
const CACHES: &str = "/proc/net/rpc";
/// Where the server keeps a list of its clients. Without one it does not let anybody end the time in which
/// clients may claim what they had before (fs/nfsd/nfs4recover.c).
const CLIENTS: &str = "/var/lib/nfs/v4recovery";
/// An answer that holds for as long as the machine: the largest time of 32 bits.
const FOR_EVER: u32 = i32::MAX as u32;
/// Seconds in which clients may claim what they had before the server started; nobody has anything.
const GRACE: &str = "10";
/// Flags of an export (include/uapi/linux/nfsd/export.h).
const INSECURE_PORT: u32 = 0x0002;
const ASYNC: u32 = 0x0010;
const NO_SUBTREE_CHECK: u32 = 0x0400;
const FSID: u32 = 0x2000;

/// Exports a directory and starts the server.
pub(super) fn serve(export: &NfsExport) -> Result<()> {
    if !Path::new(CONTROL).join("threads").exists() {
        mount::mount(&MountRequest {
            filesystem: "nfsd".to_string(),
            source: "nfsd".into(),
            device: None,
            options: Vec::new(),
            target: CONTROL.into(),
        })?;
    }
    let list = Path::new(CLIENTS);
    create_dir_all(list).map_err(|error| HostError::system("create the directory", list, error))?;
    let directory = escaped(&export.directory);
    let flags = INSECURE_PORT | NO_SUBTREE_CHECK | FSID | if export.sync { 0 } else { ASYNC };
    write(CONTROL, "versions", "-3 +4 +4.1 +4.2")?;
    write(CONTROL, "nfsv4gracetime", GRACE)?;
    write(CONTROL, "nfsv4leasetime", GRACE)?;
    for client in &export.clients {
        write(CACHES, "auth.unix.ip/channel", &format!("nfsd {client} {FOR_EVER} all"))?;
    }
    let nobody = 65534;
    let entry = format!("all {directory} {FOR_EVER} {flags} {nobody} {nobody} 0");
    write(CACHES, "nfsd.export/channel", &entry)?;
    // File handles that begin with a number (type 1), which is 0, are of this export.
    write(CACHES, "nfsd.fh/channel", &format!("all 1 \\x00000000 {FOR_EVER} {directory}"))?;
    write(CONTROL, "threads", &export.threads.to_string())?;
    write(CONTROL, "v4_end_grace", "Y")
}

/// Stops the server, and makes it forget the export, so that the filesystem can be unmounted.
pub(super) fn stop() -> Result<()> {
    write(CONTROL, "threads", "0")?;
    // Any number empties a cache (net/sunrpc/cache.c, `write_flush`).
    ["nfsd.fh", "nfsd.export", "auth.unix.ip"]
        .into_iter()
        .try_for_each(|cache| write(CACHES, &format!("{cache}/flush"), "1"))
}

/// One line in one call, which must be a file that exists.
fn write(below: &str, file: &str, line: &str) -> Result<()> {
    let path = Path::new(below).join(file);
    let failed = |error: io::Error| HostError::system(&format!("write '{line}' to"), &path, error);
    let mut file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed)
}

/// A path as a field: other bytes than printable ones would end it.
fn escaped(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let escape = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        other => format!("\\{other:03o}"),
    };
    bytes.map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_one_field() {
        assert_eq!(escaped(Path::new("/a b\\c\n")), "/a\\040b\\134c\\012");
    }
}
