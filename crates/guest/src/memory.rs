//! Checks the memory of the host before a guest uses it.
//!
//! A guest's memory is allocated as its kernel touches it. If there is not enough of it, the host's kernel
//! kills some process in the middle of a trial, and not always the guest's.

use fsdyno_core::{Bytes, GuestShape, meminfo};
use std::fs;

/// The memory that QEMU uses in addition to the guest's: for itself, translated code and the archive.
const QEMU_ITSELF: Bytes = Bytes(256 * Bytes::MIB);

/// Why the host has no room for these guests together, and what to do; `None` if it has, or if that is
/// unknown.
pub(crate) fn lacking<'s>(shapes: impl IntoIterator<Item = &'s GuestShape>) -> Option<String> {
    let memory: Vec<Bytes> = shapes.into_iter().map(|shape| shape.memory).collect();
    too_much(&memory, &fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn too_much(guests: &[Bytes], meminfo: &str) -> Option<String> {
    let available = meminfo::value(meminfo, "MemAvailable")?;
    let memory = guests.iter().fold(Bytes(0), |sum, one| Bytes(sum.0.saturating_add(one.0)));
    let qemu = Bytes(QEMU_ITSELF.0 * guests.len() as u64);
    (memory.0.saturating_add(qemu.0) > available.0).then(|| {
        let available = Bytes(available.0 - available.0 % Bytes::MIB);
        let need = match guests.len() {
            1 => "the guest needs".to_string(),
            several => format!("{several} guests need"),
        };
        format!(
            "{need} {memory} of memory and QEMU {qemu}, but only {available} is available \
             (stop other programs, or give guests less memory with --set guest.memory=SIZE)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_gets_no_more_than_there_is() {
        let meminfo = |kib: u64| format!("MemTotal: 9 kB\nMemAvailable:    {kib} kB\nBuffers: 1 kB\n");
        let enough = (Bytes::GIB + QEMU_ITSELF.0) / Bytes::KIB;
        assert_eq!(too_much(&[Bytes(Bytes::GIB)], &meminfo(enough)), None);
        let reason = too_much(&[Bytes(Bytes::GIB)], &meminfo(enough - 1)).expect("a reason");
        assert!(reason.starts_with("the guest needs 1G of memory and QEMU 256M"), "{reason}");
        assert!(reason.contains("1279M is available") && reason.contains("--set guest.memory"), "{reason}");
        assert!(too_much(&[Bytes(u64::MAX)], &meminfo(enough)).is_some());
        assert_eq!(too_much(&[Bytes(u64::MAX)], "nothing known"), None);
        let two = too_much(&[Bytes(Bytes::GIB); 2], &meminfo(enough)).expect("a reason");
        assert!(two.starts_with("2 guests need 2G of memory and QEMU 512M"), "{two}");
        assert!(lacking([&GuestShape { memory: Bytes(u64::MAX), ..GuestShape::default() }]).is_some());
    }
}
