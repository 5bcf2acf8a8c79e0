//! The contents of memory at the beginning of a phase that reads data from before the phase.

use serde::{Deserialize, Serialize};

/// The state of the caches at the beginning of such a phase: a level of the axis `cache`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Nothing: the filesystem has just been mounted.
    #[default]
    Cold,
    /// Directories, inodes and the places of the files, but no data.
    MetadataWarm,
    /// Everything that fits into memory.
    Warm,
}

impl CacheState {
    /// Every state.
    pub const ALL: [CacheState; 3] = [CacheState::Cold, CacheState::MetadataWarm, CacheState::Warm];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] =
        [CacheState::Cold.name(), CacheState::MetadataWarm.name(), CacheState::Warm.name()];

    /// The word in plans and results.
    pub const fn name(self) -> &'static str {
        match self {
            CacheState::Cold => "cold",
            CacheState::MetadataWarm => "metadata-warm",
            CacheState::Warm => "warm",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_results_use_the_same_words() {
        for state in CacheState::ALL {
            assert_eq!(CacheState::named(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert_eq!(CacheState::named("hot"), None);
    }
}
