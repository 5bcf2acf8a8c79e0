//! The kernel's NFS server, without the programs that usually speak with it: what rpc.nfsd, exportfs and
//! rpc.mountd would write (Documentation/filesystems/nfs/rpc-cache.rst, fs/nfsd/nfsctl.c).

use super::mount;
use super::mountd::Mountd;
use crate::export::{GRACE, NfsExport};
use crate::{HostError, MountRequest, Result};
use std::fs::{OpenOptions, create_dir_all};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

const CONTROL: &str = "/proc/fs/nfsd";
const CACHES: &str = "/proc/net/rpc";
/// Where the server keeps a list of its clients. Without one it does not let anybody end the time in which
/// clients may claim what they had before (fs/nfsd/nfs4recover.c).
const CLIENTS: &str = "/var/lib/nfs/v4recovery";
/// An answer that holds for as long as the machine: the largest time of 32 bits.
const FOR_EVER: u32 = i32::MAX as u32;
/// The longest handle of NFS 3 (RFC 1813, `NFS3_FHSIZE`).
const HANDLE_MOST: usize = 64;
/// Flags of an export (include/uapi/linux/nfsd/export.h).
const INSECURE_PORT: u32 = 0x0002;
const ASYNC: u32 = 0x0010;
const NO_SUBTREE_CHECK: u32 = 0x0400;
const FSID: u32 = 0x2000;

/// Exports a directory and starts the server.
pub(super) fn serve(export: &NfsExport, mountd: &mut Mountd) -> Result<()> {
    if export.version_3 {
        mountd.listen()?;
    }
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
    let version_3 = if export.version_3 { "+3" } else { "-3" };
    write(CONTROL, "versions", &format!("{version_3} +4 +4.1 +4.2"))?;
    let grace = Duration::from(GRACE).as_secs().to_string();
    write(CONTROL, "nfsv4gracetime", &grace)?;
    write(CONTROL, "nfsv4leasetime", &grace)?;
    for client in &export.clients {
        write(CACHES, "auth.unix.ip/channel", &format!("nfsd {client} {FOR_EVER} all"))?;
    }
    let nobody = 65534;
    let entry = format!("all {directory} {FOR_EVER} {flags} {nobody} {nobody} 0");
    write(CACHES, "nfsd.export/channel", &entry)?;
    // File handles that begin with a number (type 1), which is 0, are of this export.
    write(CACHES, "nfsd.fh/channel", &format!("all 1 \\x00000000 {FOR_EVER} {directory}"))?;
    if export.version_3 {
        mountd.show(Some(root_handle(&directory)?));
    }
    write(CONTROL, "threads", &export.threads.to_string())?;
    match export.reclaims {
        true => Ok(()),
        false => write(CONTROL, "v4_end_grace", "Y"),
    }
}

/// Stops the server, and makes it forget the export, so that the filesystem can be unmounted.
pub(super) fn stop(mountd: &Mountd) -> Result<()> {
    mountd.show(None);
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

/// The handle by which clients of NFS 3 know a directory that is exported.
fn root_handle(directory: &str) -> Result<Vec<u8>> {
    let path = Path::new(CONTROL).join("filehandle");
    let failed = |error| HostError::system("ask for a handle at", &path, error);
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
    file.write_all(format!("all {directory} {HANDLE_MOST}\n").as_bytes()).map_err(failed)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    octets(text.trim()).ok_or_else(|| {
        let reason = format!("'{}' is no handle", text.trim());
        failed(io::Error::new(io::ErrorKind::InvalidData, reason))
    })
}

/// Octets as the kernel writes them into a field, `\x0100`.
fn octets(field: &str) -> Option<Vec<u8>> {
    let digits = field.strip_prefix("\\x").filter(|digits| digits.is_ascii() && digits.len() % 2 == 0)?;
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
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

    #[test]
    fn a_handle_is_read_as_the_kernel_writes_it() {
        assert_eq!(octets("\\x0100ff"), Some(vec![1, 0, 255]));
        for wrong in ["0100", "\\x010", "\\x0g", "\\x0\u{e4}0"] {
            assert_eq!(octets(wrong), None, "{wrong}");
        }
    }
}
