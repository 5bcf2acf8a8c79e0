//! Which warning a word or a level needs by its [`Hazard`].

use crate::axis::{self, SYSCTL_PREFIX};
use crate::filesystem::switches_barriers_off;
use crate::hazard::Hazard;
use crate::sysctl;
use crate::warning::{Warning, WarningKind};

impl Hazard {
    /// The warning that a word or a level of a filesystem needs, if any; `shown` names it in a message.
    pub fn warning(self, filesystem: &str, shown: &str, word: &str) -> Option<Warning> {
        let value = word.split_once('=').map_or(word, |(_, value)| value);
        let weakens = |text: String| Some(Warning::new(WarningKind::Durability, text));
        let unknown = || Some(unknown(&format!("fsdyno does not know what {shown} does")));
        match self {
            Hazard::Harmless | Hazard::OfItsWords => None,
            Hazard::Weakens(text) => weakens(text.to_string()),
            Hazard::Unknown => unknown(),
            Hazard::By(entries) => {
                let head = word.split_once(':').map_or(word, |(head, _)| head);
                let entry = entries.iter().find(|(words, _)| words.contains(&word) || words.contains(&head));
                entry.map_or(Hazard::Unknown, |(_, hazard)| *hazard).warning(filesystem, shown, word)
            }
            Hazard::Flushes(words) if words.contains(&word) => None,
            Hazard::Flushes(_) if switches_barriers_off(filesystem, [word]) => {
                weakens("barrier = 0: a power cut may corrupt the filesystem".to_string())
            }
            Hazard::Flushes(_) => unknown(),
            Hazard::Commits => match (value.parse::<u64>().ok(), default_commit(filesystem)) {
                (Some(seconds), Some(default)) if seconds > default => weakens(format!(
                    "commit = {seconds}: a power cut may lose the last {seconds} s of writes instead of the \
                     last {default} s"
                )),
                (Some(_), Some(_)) => None,
                _ => unknown(),
            },
            Hazard::AtMost(most) | Hazard::AtMostNotZero(most) => match value.trim().parse::<u64>() {
                Ok(0) if self == Hazard::AtMost(most) => None,
                Ok(time) if (1..=u64::from(most)).contains(&time) => None,
                Ok(_) => weakens(format!(
                    "{shown}: written data stays in memory longer, where a power cut loses it"
                )),
                Err(_) => unknown(),
            },
        }
    }
}

/// A warning that durability is unknown, for this reason.
pub fn unknown(reason: &str) -> Warning {
    let text = format!("durability unknown: {reason} to what survives a power cut");
    Warning::new(WarningKind::DurabilityUnknown, text)
}

/// The default of the axis `commit`, in seconds.
fn default_commit(filesystem: &str) -> Option<u64> {
    axis::find("commit").ok()?.default_level(filesystem)?.parse().ok()
}

/// Returns the warning that a level of an axis needs, besides those of the words that it becomes.
pub fn of_level(filesystem: &str, name: &str, level: &str) -> Option<Warning> {
    let hazard = match (name.strip_prefix(SYSCTL_PREFIX), axis::find(name)) {
        (Some(key), Ok(_)) => sysctl::hazard(key),
        (None, Ok(axis)) => axis.hazard,
        (_, Err(_)) => Hazard::Unknown,
    };
    hazard.warning(filesystem, &format!("{name} = {level}"), level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(hazard: Hazard, word: &str) -> Option<WarningKind> {
        hazard.warning("ext4", word, word).map(|warning| warning.kind)
    }

    const WEAK: Option<WarningKind> = Some(WarningKind::Durability);
    const UNKNOWN: Option<WarningKind> = Some(WarningKind::DurabilityUnknown);

    #[test]
    fn a_word_that_is_not_listed_is_unknown() {
        let by = Hazard::By(&[(&["m=safe"], Hazard::Harmless), (&["m=off"], Hazard::Weakens("m: lost"))]);
        assert_eq!((kind(by, "m=safe"), kind(by, "m=off"), kind(by, "m=off:20%")), (None, WEAK, WEAK));
        assert_eq!((kind(by, "m=new"), kind(by, "m"), kind(by, "m=SAFE")), (UNKNOWN, UNKNOWN, UNKNOWN));
        let flushes = Hazard::Flushes(&["barrier=1"]);
        assert_eq!((kind(flushes, "barrier=1"), kind(flushes, "nobarrier")), (None, WEAK));
        assert_eq!(kind(flushes, "barrier=00"), UNKNOWN);
    }

    #[test]
    fn a_time_is_a_risk_beyond_its_default_and_unknown_if_it_is_no_number() {
        let commit = |word| kind(Hazard::Commits, word);
        assert_eq!((commit("commit=0"), commit("commit=5"), commit("commit=600")), (None, None, WEAK));
        assert_eq!((commit("commit=0x258"), commit("commit")), (UNKNOWN, UNKNOWN));
        assert_eq!((kind(Hazard::AtMost(500), "0"), kind(Hazard::AtMostNotZero(500), "0")), (None, WEAK));
        assert_eq!((kind(Hazard::AtMost(500), "500"), kind(Hazard::AtMost(500), "501")), (None, WEAK));
    }

    #[test]
    fn levels_of_the_kernel_and_of_servers_are_classified_and_others_unknown() {
        let kind = |name, level| of_level("ext4", name, level).map(|warning| warning.kind);
        assert_eq!(kind("write_cache", "write-through"), WEAK);
        assert_eq!(kind("export", "async"), WEAK);
        assert_eq!(kind("sysctl.vm.dirty_writeback_centisecs", "0"), WEAK);
        assert_eq!(kind("data_profile", "raid5"), WEAK);
        assert_eq!(kind("sysctl.vm.dirty_ratio", "80"), None);
        assert_eq!(kind("sysctl.kernel.new_key", "1"), UNKNOWN);
        assert_eq!(kind("new_axis", "1"), UNKNOWN);
        assert_eq!((kind("scheduler", "none"), kind("journal", "external:disk")), (None, None));
    }
}
