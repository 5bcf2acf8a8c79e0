//! The facts that are read from a device itself: whether it contains anything at all, and details by which a
//! person recognises the content.

use crate::probe::Signature;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Both ends are read completely up to this length: that is where labels, tables and superblocks are.
const EDGE: u64 = 1 << 20;
/// The number of places between the ends that are sampled, evenly spread.
const PLACES: u64 = 64;
/// The number of bytes that are read at each place.
const PLACE: u64 = 4096;

/// Offset and length of the name of the directory of the last mount in a superblock of ext2, ext3 or ext4 at
/// 1024 (Documentation/filesystems/ext4/super.rst, `s_last_mounted`).
const EXT_LAST_MOUNT: (u64, usize) = (1024 + 0x88, 64);
/// Offset of the filesystem's UUID in a record header of an xfs log (`h_fs_uuid` in
/// fs/xfs/libxfs/xfs_log_format.h).
const XFS_LOG_UUID: u64 = 304;
/// LVM's metadata text begins with the name of the volume group, `vg0 {`; the header of its area says where
/// it is (lib/format_text/layout.h in lvm2: `mda_header` and its first `raw_locn`).
const LVM_AREA: u64 = 4096;
const LVM_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
const LVM_NAME_MAX: usize = 128;

/// The bytes of an open device.
pub(super) struct Bytes<'a>(BorrowedFd<'a>);

impl<'a> Bytes<'a> {
    pub(super) fn of(device: BorrowedFd<'a>) -> Self {
        Bytes(device)
    }

    /// The bytes at an offset, up to this length, as far as there are any.
    pub(super) fn at(&self, offset: u64, length: usize) -> Result<Vec<u8>, String> {
        let mut buffer = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match rustix::io::pread(self.0, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(format!("byte {offset} cannot be read: {}", crate::reason(error.into())));
                }
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    /// Where the first non-zero byte was found on a device of this size: in one of its ends, or in the places
    /// between.
    pub(super) fn first_data(&self, size: u64) -> Result<Option<u64>, String> {
        for (offset, length) in places(size) {
            let bytes = self.at(offset, length as usize)?;
            if let Some(position) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(offset + position as u64));
            }
        }
        Ok(None)
    }

    /// Details of a signature that wipefs does not report.
    pub(super) fn add_details(&self, signature: &mut Signature) -> Result<(), String> {
        match signature.kind.as_str() {
            "ext2" | "ext3" | "ext4" => {
                let (offset, length) = EXT_LAST_MOUNT;
                signature.last_mount = text(&self.at(offset, length)?);
            }
            "xfs_external_log" if signature.uuid.is_none() => {
                signature.uuid = uuid(&self.at(signature.offset + XFS_LOG_UUID, 16)?);
            }
            "LVM2_member" if signature.label.is_none() => signature.label = self.volume_group()?,
            _ => {}
        }
        Ok(())
    }

    /// The volume group in the first metadata area, if there is one in its usual place.
    fn volume_group(&self) -> Result<Option<String>, String> {
        let header = self.at(LVM_AREA, 64)?;
        if header.get(4..4 + LVM_MAGIC.len()) != Some(LVM_MAGIC) {
            return Ok(None);
        }
        let Some(offset) =
            header.get(40..48).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
        else {
            return Ok(None);
        };
        // An offset beyond the device is not valid.
        let place = LVM_AREA.checked_add(offset).filter(|place| offset != 0 && *place <= i64::MAX as u64);
        let Some(place) = place else { return Ok(None) };
        let start = self.at(place, LVM_NAME_MAX)?;
        let name = start.split(|byte| *byte == b' ').next().unwrap_or_default();
        Ok(text(name).filter(|_| start[name.len()..].starts_with(b" {")))
    }
}

/// Offset and length of everything that is read.
fn places(size: u64) -> Vec<(u64, u64)> {
    if size <= 2 * EDGE + PLACES * PLACE {
        return vec![(0, size)];
    }
    let between = size - 2 * EDGE - PLACE;
    let places = (0..PLACES).map(|index| {
        let offset = EDGE + (u128::from(between) * u128::from(index) / u128::from(PLACES - 1)) as u64;
        (offset / 512 * 512, PLACE)
    });
    [(0, EDGE), (size - EDGE, EDGE)].into_iter().chain(places).collect()
}

/// The text up to the first zero byte; none where that is empty.
fn text(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let digits = format!("{number:032x}");
    Some([&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    fn file(size: u64, content: &[(u64, &[u8])]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (offset, bytes) in content {
            file.seek(SeekFrom::Start(*offset)).unwrap();
            file.write_all(bytes).unwrap();
        }
        file
    }

    fn first_data(size: u64, content: &[(u64, &[u8])]) -> Option<u64> {
        Bytes::of(file(size, content).as_fd()).first_data(size).unwrap()
    }

    fn detailed(signature: Signature, content: &[(u64, &[u8])]) -> Signature {
        let mut signature = signature;
        Bytes::of(file(EDGE, content).as_fd()).add_details(&mut signature).unwrap();
        signature
    }

    #[test]
    fn data_is_found_at_both_ends_and_in_between() {
        let size = 64 << 20;
        assert_eq!(first_data(size, &[]), None);
        for offset in [0, 511, EDGE - 1, EDGE, size / 2, size - EDGE, size - 1] {
            let stretch = [1_u8; 1 << 20];
            let length = (stretch.len() as u64).min(size - offset) as usize;
            assert!(first_data(size, &[(offset, &stretch[..length])]).is_some(), "{offset}");
        }
        assert_eq!(first_data(size, &[(size - 1, b"x")]), Some(size - 1));
        assert_eq!(first_data(1000, &[(999, b"x")]), Some(999));
        assert_eq!(first_data(0, &[]), None);
    }

    #[test]
    fn everything_that_is_looked_at_lies_on_the_device() {
        for size in [0, 512, 2 * EDGE, 2 * EDGE + PLACES * PLACE + 512, 1 << 40, (1 << 40) + 512] {
            let places = places(size);
            assert!(places.iter().all(|(offset, length)| offset + length <= size), "{size}: {places:?}");
            assert!(size < 1 << 30 || places.len() as u64 == 2 + PLACES);
        }
    }

    #[test]
    fn what_a_person_knows_a_filesystem_by() {
        let ext4 = detailed(Signature::new("ext4"), &[(1024 + 0x88, b"/srv/backup\0rest")]);
        assert_eq!(ext4.last_mount.as_deref(), Some("/srv/backup"));
        assert_eq!(detailed(Signature::new("ext4"), &[]).last_mount, None);
        let log = Signature { offset: 512, ..Signature::new("xfs_external_log") };
        let log = detailed(log, &[(512 + 304, b"fsdyno\x81\x23\x80\x01\x02\x03\x04\x05\x06\x07")]);
        assert_eq!(log.uuid.as_deref(), Some("66736479-6e6f-8123-8001-020304050607"));
    }

    #[test]
    fn the_volume_group_of_a_physical_volume() {
        let area = |offset: u64| {
            [&[1, 2, 3, 4][..], LVM_MAGIC, &[1, 0, 0, 0], &[0; 16], &offset.to_le_bytes()].concat()
        };
        let named = |offset: u64, text: &[u8]| {
            detailed(Signature::new("LVM2_member"), &[(LVM_AREA, &area(offset)), (LVM_AREA + 512, text)])
                .label
        };
        assert_eq!(named(512, b"vg0 {\nid = \"x\"").as_deref(), Some("vg0"));
        assert_eq!(named(512, b"vg0"), None);
        assert_eq!(named(0, b"vg0 {"), None);
        assert_eq!(named(u64::MAX - 5000, b"vg0 {"), None);
        assert_eq!(detailed(Signature::new("LVM2_member"), &[]).label, None);
    }
}
