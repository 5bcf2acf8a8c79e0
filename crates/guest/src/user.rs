//! The user that QEMU runs as if fsdyno is root.
//!
//! QEMU emulates devices for a kernel that may be anybody's, and must not be root while it does. It gets a
//! user that nobody else is: not `nobody`, which other daemons use as well, and who can inspect and kill each
//! other. Systemd lists the range that is unused by every convention (systemd.io/UIDS-GIDS), 1879048192 to
//! 2147483647; from it each fsdyno takes its process number, which no other process has at the same time. In
//! a container that maps fewer users, `nobody` has to do.

use fsdyno_sys::child::User;
use rustix::process::{geteuid, getpid};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The start of the range that systemd's table calls unused.
const UNUSED: u32 = 0x7000_0000;
const NOBODY: u32 = 65534;
const KVM: &str = "/dev/kvm";
const GROUP_READS_AND_WRITES: u32 = 0o060;

/// The user that QEMU becomes; no other than fsdyno's if fsdyno is not root.
pub(crate) fn of_qemu() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let own = UNUSED + getpid().as_raw_nonzero().get().unsigned_abs();
    let maps =
        ["/proc/self/uid_map", "/proc/self/gid_map"].map(|map| fs::read_to_string(map).unwrap_or_default());
    let known = |number: u32| maps.iter().all(|map| is_mapped(map, number));
    let number = [own, NOBODY].into_iter().find(|number| known(*number));
    // Root in a namespace without any other user has no rights that its user on the machine does not have.
    number.map(|number| User { user: number, group: number, groups: kvm_group().into_iter().collect() })
}

/// The group that may use KVM, if others may not.
fn kvm_group() -> Option<u32> {
    let node = fs::metadata(KVM).ok()?;
    (node.mode() & GROUP_READS_AND_WRITES == GROUP_READS_AND_WRITES && node.gid() != 0).then_some(node.gid())
}

/// Returns whether a user namespace contains this number: each line of the map has its first number inside,
/// its first number outside, and the count (user_namespaces(7)).
fn is_mapped(map: &str, number: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [first, _, count] = numbers[..] else { return false };
        (first..first.saturating_add(count)).contains(&u64::from(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_few_users() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, UNUSED + 4_194_304) && is_mapped(whole, NOBODY));
        let container = "0 100000 65536\n";
        assert!(!is_mapped(container, UNUSED + 1) && is_mapped(container, NOBODY));
        assert!(!is_mapped("0 1000 1\n", NOBODY) && !is_mapped("", 0));
    }
}
