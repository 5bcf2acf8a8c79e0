//! The meaning of a setting's text in sysfs or a sysctl: the value in force, and the text that restores it.

use std::path::Path;

/// The kernel raises smaller queue depths to this (BLKDEV_MIN_RQ).
pub(crate) const NR_REQUESTS_MIN: u32 = 4;
/// Where sysctls are files.
pub(crate) const SYSCTLS: &str = "/proc/sys";

/// The text that restores a setting to this value: the same text, byte for byte; for a choice (`[none] bfq`),
/// which only sysfs has, the chosen word.
pub(crate) fn to_write_back(path: &Path, text: &str) -> String {
    let chosen = Some(chosen(text)).filter(|_| !path.starts_with(SYSCTLS)).flatten();
    chosen.unwrap_or(text).to_string()
}

/// Returns whether a setting may show something else than is in force. Once a scheduler was chosen and given
/// up again, a queue shows the depth that it had in the beginning, and has the one that was set before
/// (`blk_mq_exit_sched` in block/blk-mq-sched.c, Linux 6.18).
pub(crate) fn hides_what_is_in_force(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "nr_requests")
}

/// Returns whether a setting has its old value again. Journals of versions before 0.2 have its text without
/// white space at its ends.
pub(crate) fn is_back(path: &Path, text: &str, old: &str) -> bool {
    let now = to_write_back(path, text);
    now == old || now.trim() == old
}

/// The value in force in the text of a setting of sysfs: the word in brackets where there is a choice, else
/// all of it.
pub(crate) fn active(text: &str) -> String {
    chosen(text).unwrap_or(text.trim()).to_string()
}

fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// The value in force, without white space at its ends. In a sysctl brackets mean nothing.
pub(crate) fn in_force(path: &Path, text: &str) -> String {
    to_write_back(path, text).trim().to_string()
}

/// Every word that a setting with a choice offers.
pub(crate) fn offered(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect()
}

/// Returns whether two values are the same but for white space.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        assert_eq!(active("none [mq-deadline] kyber bfq\n"), "mq-deadline");
        assert_eq!(active("128\n"), "128");
        assert_eq!(offered("[none] mq-deadline"), ["none", "mq-deadline"]);
        assert!(same("4096\t87380 6291456\n", "4096 87380 6291456"));
    }

    #[test]
    fn a_sysctl_comes_back_byte_for_byte_and_a_choice_by_its_word() {
        let sysctl = Path::new("/proc/sys/net/ipv4/tcp_rmem");
        let text = "4096\t87380\t6291456 \n";
        assert_eq!(to_write_back(sysctl, text), text);
        assert_eq!(to_write_back(sysctl, "core [x] y\n"), "core [x] y\n");
        assert_eq!(to_write_back(Path::new("/sys/dev/block/7:0/queue/scheduler"), "none [bfq]\n"), "bfq");
        assert!(is_back(sysctl, text, text) && is_back(sysctl, text, text.trim()));
        assert!(!is_back(sysctl, "4096 87380 6291456\n", text));
    }
}
