//! Every table of a plan, for the reference.

use super::keys::{KeyTable, Keys};
use super::{device, fleet, hooks, protocol, raw};

/// Every table, for the reference.
pub fn key_tables() -> Vec<KeyTable> {
    let others = vec![
        raw::ConfigurationKeys::table(),
        hooks::HookKeys::table(),
        protocol::ClientKeys::table(),
        protocol::ServeKeys::table(),
        fleet::FleetKeys::table(),
        raw::KernelKeys::table(),
        raw::GuestKeys::table(),
    ];
    [vec![raw::plan_table(), protocol::Narrow::table()], device::tables(), others].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::keys::Word;
    use fsdyno_core::device::{Bitmap, Conditioning, Preallocation, RaidLevel};
    use fsdyno_core::result::ServeProtocol;
    use fsdyno_core::{CacheState, DiskCache};

    /// Words that a value may be are all in its help.
    #[test]
    fn the_help_names_what_there_is() {
        let tables = key_tables();
        let named = |table: &str, key: &str, words: Vec<&str>| {
            let table = tables.iter().find(|one| one.name == table).expect("a table");
            let key = table.keys.iter().find(|one| one.name == key).expect("a key");
            for word in words {
                let quoted = [format!("`{word}`"), format!("\"{word}\"")];
                assert!(quoted.iter().any(|word| key.help.contains(word)), "{word}: {}", key.help);
            }
        };
        fn all<T: Word>() -> Vec<&'static str> {
            T::ALL.iter().map(|one| one.name()).collect()
        }
        named("[device.md]", "level", all::<RaidLevel>());
        named("[device.md]", "bitmap", all::<Bitmap>());
        named("a block device", "precondition", all::<Conditioning>());
        named("an image", "preallocate", all::<Preallocation>());
        named("[guest]", "cache", all::<DiskCache>());
        named("[serve]", "protocol", all::<ServeProtocol>());
        named("the plan", "cache", CacheState::NAMES.to_vec());
        named("the plan", "protocol", all::<protocol::Protocol>());
        named("the plan", "reuse", all::<protocol::Reuse>());
        let most = tables[0].keys.iter().find(|key| key.name == "max_repetitions").expect("a key");
        assert_eq!(most.default, protocol::AUTO_MOST.to_string());
    }
}
