//! Sysctls that a plan may set: valid keys, and which keys need no permission.
//!
//! A plan may come from a stranger, and some sysctls are as powerful as a root shell (`kernel.core_pattern`,
//! `kernel.modprobe`) or can take the machine down (`vm.overcommit_memory`, `vm.min_free_kbytes`). So a plan
//! may set those in [`KNOWN`] freely, and any other only if its key is also given on the command line.

use crate::hazard::Hazard;

/// Sysctls that filesystem benchmarks vary and that cannot bring the machine down, whatever the value
/// (Documentation/admin-guide/sysctl/vm.rst, fs.rst; Documentation/admin-guide/xfs.rst).
///
/// Omitted on purpose: those that decide who gets memory (`vm.overcommit_*`, `vm.min_free_kbytes`,
/// `vm.nr_hugepages`, `vm.panic_on_oom`, `vm.mmap_min_addr`), and actions that cannot be read back
/// (`vm.drop_caches`, `vm.compact_memory`).
pub const KNOWN: &[(&str, Hazard)] = &[
    ("fs.aio-max-nr", Hazard::Harmless),
    ("fs.xfs.filestream_centisecs", Hazard::Harmless),
    ("fs.xfs.rotorstep", Hazard::Harmless),
    ("fs.xfs.speculative_cow_prealloc_lifetime", Hazard::Harmless),
    ("fs.xfs.speculative_prealloc_lifetime", Hazard::Harmless),
    ("fs.xfs.xfssyncd_centisecs", Hazard::AtMost(3000)),
    ("vm.compaction_proactiveness", Hazard::Harmless),
    ("vm.dirty_background_bytes", Hazard::Harmless),
    ("vm.dirty_background_ratio", Hazard::Harmless),
    ("vm.dirty_bytes", Hazard::Harmless),
    ("vm.dirty_expire_centisecs", Hazard::AtMost(3000)),
    ("vm.dirty_ratio", Hazard::Harmless),
    ("vm.dirty_writeback_centisecs", Hazard::AtMostNotZero(500)),
    ("vm.dirtytime_expire_seconds", Hazard::AtMostNotZero(43_200)),
    ("vm.extfrag_threshold", Hazard::Harmless),
    ("vm.laptop_mode", Hazard::AtMost(0)),
    ("vm.page-cluster", Hazard::Harmless),
    ("vm.percpu_pagelist_high_fraction", Hazard::Harmless),
    ("vm.stat_interval", Hazard::Harmless),
    ("vm.swappiness", Hazard::Harmless),
    ("vm.vfs_cache_pressure", Hazard::Harmless),
    ("vm.vfs_cache_pressure_denom", Hazard::Harmless),
    ("vm.watermark_boost_factor", Hazard::Harmless),
    ("vm.watermark_scale_factor", Hazard::Harmless),
    ("vm.zone_reclaim_mode", Hazard::Harmless),
];

/// The longest value in bytes: the kernel truncates a longer text (`proc_dointvec` in kernel/sysctl.c, one
/// page of sysfs).
pub const VALUE_BYTES_MAX: usize = 4095;

/// Returns whether a plan may set this sysctl without permission on the command line.
pub fn is_known(key: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == key)
}

/// Returns the effect of a sysctl on what survives a power cut.
pub fn hazard(key: &str) -> Hazard {
    KNOWN.iter().find(|(known, _)| *known == key).map_or(Hazard::Unknown, |(_, hazard)| *hazard)
}

/// Returns whether a text is a key: components of `a-z`, `0-9`, `_` and `-`, joined by dots.
///
/// sysctl(8) also accepts slashes instead of dots, and components with dots or capitals (names of network
/// interfaces). Neither is allowed here: a component must never be more than one name in a directory.
pub fn is_key(text: &str) -> bool {
    text.split('.').all(is_component)
}

/// Returns whether a text is one component of a key, and so one name below `/proc/sys`.
pub fn is_component(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    !text.is_empty() && text.chars().all(plain)
}

/// Returns whether a text can be the value of a sysctl.
///
/// It is one line of at most [`VALUE_BYTES_MAX`]. It appears in commands that people paste and in a line of
/// `sysctl.d`, where `$(…)` and the like would have a meaning.
pub fn is_value(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._,:/=+%@|*-".contains(c);
    (1..=VALUE_BYTES_MAX).contains(&text.len()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_consists_of_names_joined_by_dots() {
        for good in ["vm.dirty_ratio", "vm.page-cluster", "fs.aio-max-nr", "net.ipv4.tcp_rmem", "a1"] {
            assert!(is_key(good), "{good}");
        }
        let hostile = [
            "",
            ".",
            "..",
            "vm.",
            ".vm",
            "vm..dirty_ratio",
            "/etc/passwd",
            "./some/dir/file",
            "vm/dirty_ratio",
            "../../etc/passwd",
            "vm.../x",
            "vm.dirty ratio",
            "vm.dirty_ratio\n",
            "vm.dirty_ratio\0",
            "VM.dirty_ratio",
            "vm.dirty\u{ff0f}ratio",
            "vm.~",
            "vm.%2e%2e",
            "vm.$x",
            "vm.dirty_rati\u{f6}",
        ];
        for bad in hostile {
            assert!(!is_key(bad), "{bad:?}");
        }
    }

    #[test]
    fn every_known_key_is_valid_and_harmless() {
        assert!(KNOWN.iter().all(|(key, _)| is_key(key)));
        assert!(KNOWN.is_sorted_by(|(one, _), (next, _)| one < next));
        for dangerous in ["kernel.core_pattern", "kernel.modprobe", "vm.overcommit_memory", "vm.drop_caches"]
        {
            assert!(!is_known(dangerous), "{dangerous}");
        }
    }

    #[test]
    fn a_value_is_one_line_without_meaning_to_a_shell() {
        for good in ["5", "4096 87380 6291456", "|/bin/x %p", "-1", "cubic"] {
            assert!(is_value(good), "{good}");
        }
        assert!(is_value(&"1".repeat(VALUE_BYTES_MAX)) && !is_value(&"1".repeat(VALUE_BYTES_MAX + 1)));
        for bad in ["", "5\nkernel.core_pattern = x", "$(reboot)", "`x`", "a;b", "'", "\u{1b}[2J", "\t"] {
            assert!(!is_value(bad), "{bad:?}");
        }
    }
}
