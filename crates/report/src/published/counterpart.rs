//! Which configuration of a sweep corresponds to a published one.

use fsdyno_core::Configuration;
use fsdyno_core::axis::{CACHE, MEMORY};
use std::collections::BTreeMap;
use std::fmt;

/// The configuration that corresponds to a published one: it has this name, or exactly these settings.
///
/// Names identify the named configurations of a plan. Combinations of axes are identified by their settings,
/// because their names depend on what varies. The kernel is ignored: no study used one of today's, and a
/// sweep that runs entirely in guests of one kernel is the same sweep. If a sweep has the configuration on
/// several kernels, none of them is the counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counterpart {
    /// The one with this name.
    Name(String),
    /// The one with this filesystem and these settings, and no others.
    Settings {
        /// The filesystem.
        filesystem: String,
        /// Canonical levels by axis.
        settings: BTreeMap<String, String>,
    },
}

/// The axes that say what a configuration runs on.
const MACHINE: [&str; 3] = ["kernel", MEMORY, CACHE];

impl Counterpart {
    /// `filesystem=xfs scheduler=bfq`, else a name.
    pub fn parse(text: &str) -> Counterpart {
        let words: Option<BTreeMap<String, String>> = text
            .split_whitespace()
            .map(|word| word.split_once('=').map(|(axis, level)| (axis.to_string(), level.to_string())))
            .collect();
        match words.and_then(|mut settings| Some((settings.remove("filesystem")?, settings))) {
            Some((filesystem, settings)) => Counterpart::Settings { filesystem, settings },
            None => Counterpart::Name(text.to_string()),
        }
    }

    /// Returns whether a configuration is the counterpart, on whatever kernel and with whatever memory.
    pub fn is(&self, configuration: &Configuration) -> bool {
        match self {
            Counterpart::Name(name) => configuration.name == *name,
            Counterpart::Settings { filesystem, settings } => {
                let axes = configuration.settings.keys().filter(|axis| !MACHINE.contains(&axis.as_str()));
                let set =
                    axes.filter_map(|axis| configuration.level(axis).map(|level| (axis.as_str(), level)));
                configuration.filesystem == *filesystem
                    && set.eq(settings.iter().map(|(axis, level)| (axis.as_str(), level.as_str())))
            }
        }
    }
}

impl fmt::Display for Counterpart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counterpart::Name(name) => f.write_str(name),
            Counterpart::Settings { filesystem, settings } => {
                write!(f, "filesystem={filesystem}")?;
                settings.iter().try_for_each(|(axis, level)| write!(f, " {axis}={level}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn settings_match_exactly_and_defaults_do_not_count() {
        let counterpart = Counterpart::parse("filesystem=xfs scheduler=bfq");
        let mut configuration = fixture::configuration("xfs", "bfq");
        configuration.name = "whatever varies".to_string();
        assert!(counterpart.is(&configuration));
        configuration.settings.insert("atime".to_string(), "default".to_string());
        assert!(counterpart.is(&configuration));
        configuration.settings.insert("memory".to_string(), "1G".to_string());
        assert!(counterpart.is(&configuration));
        configuration.settings.insert("atime".to_string(), "noatime".to_string());
        assert!(!counterpart.is(&configuration));
        assert!(!counterpart.is(&fixture::configuration("ext4", "bfq")));
        assert!(!counterpart.is(&fixture::configuration("xfs", "mq-deadline")));
    }

    #[test]
    fn a_text_without_settings_is_a_name() {
        let mut configuration = fixture::configuration("xfs", "bfq");
        for name in ["log-size: 32M", "xfs tuned", "agcount=4"] {
            let counterpart = Counterpart::parse(name);
            assert_eq!(counterpart, Counterpart::Name(name.to_string()));
            configuration.name = name.to_string();
            assert!(counterpart.is(&configuration));
        }
    }
}
