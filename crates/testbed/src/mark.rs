//! The marks by which fsdyno recognises what it created, in any sweep and without the seed.
//!
//! Its UUIDs are of version 8 (RFC 9562, 5.8), and their first 48 bits spell `fsdyno`; the other 74 free bits
//! follow from the trial. Arrays and volume groups are recognised by their names. What carries such a mark
//! was created to be destroyed, so it needs no confirmation. A mark is no proof: anybody can write one
//! (docs/internals/safety.md).

use fsdyno_core::filesystem::{self, Identifier};
use fsdyno_host::probe::{SCRATCH_MARK, Signature};

/// `fsdyno` in ASCII, the first 48 bits of each UUID.
const TAG: u128 = 0x6673_6479_6e6f;
/// Hexadecimal digits of the tag and of the version after it.
const MARKED: &str = "667364796e6f8";
/// Characters of the random names of arrays (mdadm(8) takes no longer ones) and of volume groups.
const ARRAY_DIGITS: usize = 24;
const GROUP_DIGITS: usize = 32;

/// A UUID of version 8 with fsdyno's tag and as many of these bits as fit.
pub(crate) fn uuid(bits: u128) -> String {
    let free = (1 << 80) - 1;
    let version_8 = (bits & free & !(0xf_u128 << 76)) | (0x8_u128 << 76);
    let variant = (version_8 & !(0x3_u128 << 62)) | (0x2_u128 << 62);
    let digits = format!("{:032x}", (TAG << 80) | variant);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Returns whether fsdyno created the content that carries this signature.
pub(crate) fn is_ours(signature: &Signature) -> bool {
    let uuid = signature.uuid.as_deref().map(digits).unwrap_or_default();
    let label = signature.label.as_deref().unwrap_or_default();
    match signature.kind.as_str() {
        SCRATCH_MARK => true,
        // Its name begins with that of the machine, if it has one, and ends with the first digits of its
        // UUID.
        "linux_raid_member" => {
            let name = label.rsplit(':').next().unwrap_or_default();
            name.strip_prefix("fsdyno-").is_some_and(|id| is_random(id, ARRAY_DIGITS) && uuid.starts_with(id))
        }
        // The label of a physical volume is the name of its volume group.
        "LVM2_member" => label.strip_prefix("fsdyno_").is_some_and(|id| is_random(id, GROUP_DIGITS)),
        kind => {
            let identifier = filesystem::find(kind).map_or(Identifier::Uuid, |known| known.identifier);
            uuid.len() == identifier.digits() && is_identifier(&uuid)
        }
    }
}

/// Returns whether this is one of fsdyno's UUIDs, or a serial number in place of one: 32 bits, which the tag
/// fills, or 64.
pub(crate) fn is_identifier(text: &str) -> bool {
    let digits = digits(text);
    match digits.len() {
        8 => digits == MARKED[..8],
        16 | 32 => digits.starts_with(MARKED),
        _ => false,
    }
}

fn digits(uuid: &str) -> String {
    uuid.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect()
}

fn is_random(id: &str, digits: usize) -> bool {
    id.len() == digits && id.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(kind: &str, uuid: &str, label: &str) -> Signature {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Signature { uuid: text(uuid), label: text(label), ..Signature::new(kind) }
    }

    #[test]
    fn what_fsdyno_makes_is_recognised_whatever_its_seed() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let uuid = uuid(bits);
            assert_eq!((uuid.len(), &uuid[..15]), (36, "66736479-6e6f-8"), "{uuid}");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
            for kind in ["ext4", "xfs", "btrfs", "jbd", "xfs_external_log"] {
                assert!(is_ours(&signature(kind, &uuid, "")), "{kind} {uuid}");
            }
        }
        let id = "0123456789abcdef0123456789abcdef";
        let array = "01234567-89ab-cdef-0123-456789abcdef";
        for ours in [
            signature("vfat", "6673-6479", ""),
            signature("ntfs", "667364796E6F8ABC", ""),
            signature("linux_raid_member", array, "fsdyno-0123456789abcdef01234567"),
            signature("linux_raid_member", array, "any:fsdyno-0123456789abcdef01234567"),
            signature("LVM2_member", "7IvPmP-x", &format!("fsdyno_{id}")),
            signature(SCRATCH_MARK, "", ""),
        ] {
            assert!(is_ours(&ours), "{ours:?}");
        }
    }

    #[test]
    fn what_is_not_ours_is_not_taken_for_it() {
        let version_4 = "66736479-6e6f-4abc-8abc-0123456789ab";
        for other in [
            signature("ext4", "", ""),
            signature("ext4", "", "fsdyno"),
            signature("ext4", version_4, ""),
            signature("ext4", "124c21d8-1d18-475f-8d22-575ba5543d62", ""),
            signature("ext4", "6673-6479", ""),
            signature("vfat", "6673-647A", ""),
            signature("ntfs", "6673647900000000", ""),
            signature(
                "linux_raid_member",
                "11234567-89ab-cdef-0123-456789abcdef",
                "fsdyno-0123456789abcdef01234567",
            ),
            signature("linux_raid_member", "01234567-89ab-cdef-0123-456789abcdef", "fsdyno-"),
            signature("LVM2_member", "", "vg0"),
            signature("LVM2_member", "", "fsdyno_mine"),
            signature("dos", "", ""),
            signature("unknown-data", "", ""),
        ] {
            assert!(!is_ours(&other), "{other:?}");
        }
    }
}
