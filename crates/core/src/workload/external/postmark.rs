//! The commands that postmark accepts in a plan: `set` with a number. Its location is the engine's directory,
//! and its report the terse one.

use crate::workload::parameter::Refusal;

/// The key under which its transaction role counts the seconds of the whole run, rounded by postmark like
/// those of each part.
pub const SECONDS: &str = "seconds in all";

/// The settings, and how many numbers each takes. (`buffering` takes a word.)
const SETTINGS: &[(&str, usize)] = &[
    ("size", 2),
    ("number", 1),
    ("seed", 1),
    ("transactions", 1),
    ("subdirectories", 1),
    ("read", 1),
    ("write", 1),
    ("bias read", 1),
    ("bias create", 1),
];

pub(super) fn check(commands: &[String]) -> Result<(), Refusal> {
    commands.iter().try_for_each(|command| {
        let known: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).chain(["buffering"]).collect();
        let expected = || {
            format!(
                "a list of `set` commands with valid values for {} (invalid: '{command}')",
                known.join(", ")
            )
        };
        Refusal::unless(is_known(command), "commands", expected())
    })
}

fn is_known(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["set", "buffering", value] => ["true", "false"].contains(&value),
        ["set", ..] => numbers(command).is_some_and(|(setting, values)| {
            let count = SETTINGS.iter().find(|(name, _)| *name == setting).map(|(_, count)| *count);
            // Postmark accepts a single size for both ends, and silently accepts a range in the wrong order.
            let sizes = setting == "size" && values.len() == 1;
            (sizes || count == Some(values.len())) && values.is_sorted()
        }),
        _ => false,
    }
}

/// `set size 500 10000` as its name and its numbers.
fn numbers(command: &str) -> Option<(String, Vec<i64>)> {
    let mut words = command.split_whitespace().skip(1).peekable();
    let mut name = Vec::new();
    while let Some(word) = words.peek().filter(|word| word.parse::<i64>().is_err()) {
        name.push(*word);
        words.next();
    }
    let values: Option<Vec<i64>> = words.map(|word| word.parse().ok().filter(|value| *value >= -1)).collect();
    Some((name.join(" "), values.filter(|values| !values.is_empty())?))
}

/// Approximate number of bytes that a run moves; postmark's defaults are 500 files of 500 to 10,000 bytes and
/// 500 transactions.
pub(super) fn moves(commands: &[String]) -> u64 {
    let last = |setting: &str| {
        let all = commands.iter().rev().filter_map(|command| numbers(command));
        all.into_iter().find(|(name, _)| name == setting).map(|(_, values)| values)
    };
    let one = |setting, default| last(setting).map_or(default, |values| values[0].max(0).cast_unsigned());
    let sizes = last("size").unwrap_or(vec![500, 10_000]);
    let mean = (sizes[0] + sizes[sizes.len() - 1]).max(0).cast_unsigned() / 2;
    // Each file is written, and each transaction moves about two.
    one("number", 500).saturating_add(one("transactions", 500).saturating_mul(2)).saturating_mul(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(command: &str) -> bool {
        check(&[command.to_string()]).is_ok()
    }

    #[test]
    fn settings_with_numbers_are_accepted() {
        for good in [
            "set size 500 10000",
            "set size 4096",
            "set number 20000",
            "set bias read -1",
            "set buffering false",
            "set seed 7",
            "set subdirectories 10",
        ] {
            assert!(taken(good), "{good}");
        }
    }

    #[test]
    fn settings_that_name_a_place_or_are_invalid_are_refused() {
        for bad in [
            "set location /mnt",
            "set report verbose",
            "run /tmp/out",
            "load /etc/passwd",
            "quit",
            "",
            "set size 10000 500",
            "set number",
            "set number many",
            "set number 1 2",
            "set bias 5",
            "set number 5\nset location /mnt",
            "show /tmp/x",
            "set buffering 1",
        ] {
            assert!(!taken(bad), "{bad}");
        }
    }

    #[test]
    fn the_estimate_of_bytes_moved_follows_the_settings() {
        let commands = ["set number 1000", "set size 1000 3000", "set transactions 500"].map(String::from);
        assert_eq!(moves(&commands), 2000 * 2000);
        assert_eq!(moves(&[]), 1500 * 5250);
    }
}
