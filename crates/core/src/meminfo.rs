//! `/proc/meminfo` (proc(5)).

use crate::units::Bytes;

/// The value of a key, such as `MemAvailable`: the memory available to programs without swapping. `None` if
/// the text does not have it.
pub fn value(meminfo: &str, key: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.saturating_mul(Bytes::KIB)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_whole_name() {
        let text = "MemTotal:       24684092 kB\nMemAvailable:   24072212 kB\nHugePages_Total:       0\n";
        assert_eq!(value(text, "MemAvailable"), Some(Bytes(24_072_212 * 1024)));
        assert_eq!([value(text, "Mem"), value(text, "HugePages_Total"), value("", "MemTotal")], [None; 3]);
        assert_eq!(value(&format!("MemTotal: {} kB", u64::MAX), "MemTotal"), Some(Bytes(u64::MAX)));
    }
}
