//! Words that a plan passes to mkfs and mount as typed, parsed as the tool itself would parse them.
//!
//! A word that names a device or a file would get past the guards, and one that makes mkfs do something else
//! would get past the measurement. A word does not show what it is: `-f sdb` is a flag and a second device
//! for one tool, an option and its value for another. So each filesystem declares in its own file what the
//! options of its tool take ([`Words`]), and words are parsed by getopt's rules against that table. What is
//! not in the table is rejected.
//!
//! The same table says what each word does to what survives a power cut ([`Hazard`]); what it does not list
//! there counts as unknown.

use fsdyno_core::hazard::Hazard;
use fsdyno_core::{Configuration, Warning};

/// The value that a word takes, and therefore whether a plan may use the word.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A number, a size, or a name that the tool does not look up on the machine.
    Value,
    /// A whole number below 2^32.
    Number,
    /// A value behind `=`, or nothing.
    Perhaps,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// Names joined by commas, each one of these, optionally after a sign that disables it.
    Features(Words),
    /// Words joined by commas, `name` or `name=value`.
    List(Words),
    /// No plan may use it, whatever it takes, for this reason.
    Never(&'static str),
}

/// The words of a tool, an option or a mount.
pub type Words = &'static [Word];

/// The value that some words take, their effect on what survives a power cut, and their names. Where the
/// hazard depends on the word they are one setting, of which the last word counts.
pub type Word = (Takes, Hazard, &'static [&'static str]);

/// It names what only the plan's device section may name.
pub(crate) const NAMES_DEVICE: Takes = Takes::Never(
    "names a device or a file; put devices in [device] or [device.journals], where the guards check them",
);
/// mkfs would only print something or do a trial run, and create nothing.
pub(crate) const MAKES_NOTHING: Takes = Takes::Never("does not create a filesystem");
/// fsdyno sets it, and reads it back.
pub(crate) const OURS: Takes = Takes::Never("is reserved: fsdyno sets it itself and reads it back");
/// The filesystem would not be where it is mounted from, or not completely.
pub(crate) const ELSEWHERE: Takes =
    Takes::Never("does not create a complete filesystem at the start of the device");
/// The actions that a filesystem may take if it finds an error. `panic` would take the machine down.
pub(crate) const ON_ERRORS: Takes = Takes::OneOf(&["continue", "remount-ro"]);

/// Signs before a feature, most of which disable it.
const SIGNS: [char; 3] = ['^', '+', '-'];

/// Options of mount(8) itself that do something other than mounting the device that the plan names.
const NOT_OF_THE_FILESYSTEM: &[&str] = &[
    "bind",
    "rbind",
    "move",
    "remount",
    "loop",
    "offset",
    "sizelimit",
    "source",
    "shared",
    "rshared",
    "slave",
    "rslave",
    "private",
    "rprivate",
    "unbindable",
    "runbindable",
    "helper",
    "uhelper",
    "X-mount.mkdir",
    "X-mount.subdir",
];

/// The mount options that the plan gives as they are.
pub(crate) fn raw_mount(configuration: &Configuration) -> impl Iterator<Item = &str> {
    let words = configuration.level("mount").unwrap_or_default().split(',');
    words.map(str::trim).filter(|word| !word.is_empty())
}

/// The words for mkfs that the plan gives as they are, split at white space.
pub(crate) fn raw_mkfs(configuration: &Configuration) -> impl Iterator<Item = &str> {
    configuration.level("mkfs").unwrap_or_default().split_whitespace()
}

/// An option of mkfs with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given<'a> {
    /// With its dashes.
    pub name: &'a str,
    pub value: Option<&'a str>,
}

/// The words that a filesystem's tools and mount take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    pub filesystem: &'static str,
    /// Its mkfs.
    pub tool: &'static str,
    pub mkfs: Words,
    pub mount: Words,
}

/// Everything that is wrong with the plan's `mkfs` and `mount` texts, one line each.
pub(crate) fn contradictions(grammar: Grammar, configuration: &Configuration) -> Vec<String> {
    let words: Vec<&str> = raw_mkfs(configuration).collect();
    let (_, mut found) = read(grammar.tool, grammar.mkfs, &words);
    let mount = raw_mount(configuration).filter_map(|word| of_mount(grammar, word));
    found.extend(mount);
    found
}

/// The plan's mkfs words as options; what cannot be parsed is omitted, and a contradiction.
pub(crate) fn given<'a>(words: Words, configuration: &'a Configuration) -> Vec<Given<'a>> {
    let raw: Vec<&str> = raw_mkfs(configuration).collect();
    read("mkfs", words, &raw).0
}

/// Parses words as getopt(3) does, and says what is wrong with them.
fn read<'a>(tool: &str, known: Words, words: &[&'a str]) -> (Vec<Given<'a>>, Vec<String>) {
    let mut given = Vec::new();
    let mut problems = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (name, glued) = match split(word) {
            Some(split) => split,
            None => {
                problems.push(format!(
                    "the mkfs word '{}' is not an option: {tool} would take it for a device, a file or a \
                     size",
                    word.escape_debug()
                ));
                continue;
            }
        };
        let long = name.starts_with("--");
        let Some(takes) = find(known, name) else {
            let name = name.escape_debug();
            problems.push(format!("fsdyno does not know the option '{name}' of {tool} and refuses it"));
            continue;
        };
        let value = match (takes, glued) {
            (Takes::Never(why), _) => {
                problems.push(format!("the mkfs option '{name}' {why}"));
                continue;
            }
            (Takes::Nothing, Some(_)) if long => {
                problems.push(format!("the mkfs option '{name}' takes no value, but '{word}' gives it one"));
                continue;
            }
            (Takes::Nothing, Some(_)) => {
                problems
                    .push(format!("write the mkfs options in '{word}' separately: '{name}' takes no value"));
                continue;
            }
            (Takes::Nothing, None) => None,
            (Takes::Perhaps, glued) => glued,
            (_, Some(glued)) => Some(glued),
            (_, None) => match rest.next() {
                Some(value) => Some(*value),
                None => {
                    problems.push(format!("the mkfs option '{name}' needs a value"));
                    continue;
                }
            },
        };
        let wrong = value.into_iter().flat_map(|value| unfit(takes, value));
        problems.extend(wrong.map(|why| format!("the mkfs option '{name}': {why}")));
        given.push(Given { name, value });
    }
    (given, problems)
}

/// An option, and the value attached to it; `None` if it is not an option.
fn split(word: &str) -> Option<(&str, Option<&str>)> {
    if word.starts_with("--") && word.len() > 2 {
        return Some(match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        });
    }
    let flag = word.strip_prefix('-')?.chars().next().filter(|flag| *flag != '-')?;
    let (name, glued) = word.split_at(1 + flag.len_utf8());
    Some((name, Some(glued).filter(|glued| !glued.is_empty())))
}

pub(crate) fn find(words: &[Word], name: &str) -> Option<Takes> {
    row(words, name).map(|(takes, _, _)| *takes)
}

fn row<'a>(words: &'a [Word], name: &str) -> Option<&'a Word> {
    words.iter().find(|(_, _, names)| names.contains(&name))
}

/// Mount options of all filesystems (mount(8), "Filesystem-independent mount options"), and those with which
/// the kernel shows a security label.
const OF_EVERY_MOUNT: Words = &[
    (
        Takes::Nothing,
        Hazard::Harmless,
        &[
            "async",
            "atime",
            "defaults",
            "dev",
            "diratime",
            "dirsync",
            "exec",
            "idmapped",
            "iversion",
            "loud",
            "mand",
            "noatime",
            "nodev",
            "nodiratime",
            "noexec",
            "noiversion",
            "nolazytime",
            "nomand",
            "norelatime",
            "nostrictatime",
            "nosuid",
            "nosymfollow",
            "relatime",
            "ro",
            "rw",
            "seclabel",
            "silent",
            "strictatime",
            "suid",
            "symfollow",
            "sync",
        ],
    ),
    (Takes::Value, Hazard::Harmless, &["context", "defcontext", "fscontext", "rootcontext"]),
    (
        Takes::Nothing,
        Hazard::Weakens("lazytime: a power cut may lose the access and change times of the last 24 hours"),
        &["lazytime"],
    ),
];

/// Returns warnings about the effect of the words of a mount on what survives a power cut, whether a plan
/// asks for them or the kernel shows them.
pub(crate) fn risks_of_mount<'a>(
    filesystem: &str,
    own: Words,
    words: impl IntoIterator<Item = &'a str>,
) -> Vec<Warning> {
    let mut settings = Settings::default();
    for word in words {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let row = row(own, name).or_else(|| row(OF_EVERY_MOUNT, name));
        settings.add(row, word, || format!("the mount option '{}'", word.escape_debug()));
    }
    settings.warnings(filesystem)
}

/// The same for the plan's own words of mkfs.
pub(crate) fn risks_of_mkfs(filesystem: &str, known: Words, configuration: &Configuration) -> Vec<Warning> {
    let mut settings = Settings::default();
    for Given { name, value } in given(known, configuration) {
        let Some(option) = row(known, name) else { continue };
        let shown = |word: &str| format!("the mkfs option '{name} {}'", word.escape_debug());
        match (option.0, value) {
            (Takes::List(words) | Takes::Features(words), Some(value)) => {
                for word in value.split(',') {
                    let own = word.trim_start_matches(SIGNS);
                    let own = own.split_once('=').map_or(own, |(own, _)| own);
                    settings.add(row(words, own), word, || shown(word));
                }
            }
            (_, Some(value)) => settings.add(Some(option), value, || shown(value)),
            (_, None) => settings.add(Some(option), name, || format!("the mkfs option '{name}'")),
        }
    }
    settings.warnings(filesystem)
}

/// The settings that some words make, in order, each with its row, the word and its name in messages.
#[derive(Default)]
struct Settings<'a>(Vec<(Option<&'a Word>, &'a str, String)>);

impl<'a> Settings<'a> {
    fn add(&mut self, row: Option<&'a Word>, word: &'a str, shown: impl FnOnce() -> String) {
        self.0.retain(|(other, _, _)| match (other, row) {
            (Some(other), Some(row)) => !std::ptr::eq(*other, row) || row.1 == Hazard::Unknown,
            _ => true,
        });
        self.0.push((row, word, shown()));
    }

    fn warnings(self, filesystem: &str) -> Vec<Warning> {
        let warning = |(row, word, shown): (Option<&Word>, &str, String)| {
            row.map_or(Hazard::Unknown, |(_, hazard, _)| *hazard).warning(filesystem, &shown, word)
        };
        self.0.into_iter().filter_map(warning).collect()
    }
}

/// Why a value is not valid for an option, one line each.
fn unfit(takes: Takes, value: &str) -> Vec<String> {
    match takes {
        Takes::Nothing | Takes::Never(_) => Vec::new(),
        Takes::Value | Takes::Perhaps if is_plain(value) => Vec::new(),
        Takes::Value | Takes::Perhaps => {
            vec![format!("'{}' contains characters that are not allowed in a value", value.escape_debug())]
        }
        Takes::Number if value.parse::<u32>().is_ok() => Vec::new(),
        Takes::Number => vec![format!("'{}' is not a whole number", value.escape_debug())],
        Takes::OneOf(known) if known.contains(&value) => Vec::new(),
        Takes::OneOf(known) => {
            vec![format!("'{}' is not one of: {}", value.escape_debug(), known.join(", "))]
        }
        Takes::Features(known) => {
            let unknown =
                value.split(',').filter(|feature| find(known, feature.trim_start_matches(SIGNS)).is_none());
            unknown
                .map(|feature| format!("fsdyno does not know the feature '{}'", feature.escape_debug()))
                .collect()
        }
        Takes::List(words) => value.split(',').flat_map(|word| unfit_word(words, word)).collect(),
    }
}

/// The same for one word of a list.
pub(crate) fn unfit_word(words: &[Word], word: &str) -> Vec<String> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    match (find(words, name), value) {
        (None, _) => vec![format!("fsdyno does not know the setting '{}'", name.escape_debug())],
        (Some(Takes::Never(why)), _) => vec![format!("'{name}' {why}")],
        (Some(Takes::Nothing), Some(_)) => vec![format!("'{name}' takes no value")],
        (Some(Takes::Nothing | Takes::Perhaps), None) => Vec::new(),
        (Some(_), None) => vec![format!("'{name}' needs a value")],
        (Some(takes), Some(value)) => unfit(takes, value),
    }
}

/// Returns the problem with a mount option. An unknown word without a value is passed to the kernel, which
/// knows whether it exists: such a word cannot name anything.
fn of_mount(grammar: Grammar, word: &str) -> Option<String> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let why = match (find(grammar.mount, name), value) {
        (Some(Takes::Never(why)), _) => why.to_string(),
        (Some(Takes::Nothing), Some(_)) => "takes no value".to_string(),
        (Some(takes), Some(value)) => format!(": {}", unfit(takes, value).into_iter().next()?),
        _ if NOT_OF_THE_FILESYSTEM.contains(&name) => {
            "makes mount do something other than mount the plan's device".to_string()
        }
        (None, None) if !is_plain(name) => {
            "contains characters that are not allowed in an option".to_string()
        }
        (_, None) => return None,
        (None, Some(_)) => {
            return Some(format!(
                "fsdyno does not know the mount option '{}' of {} and refuses it",
                name.escape_debug(),
                grammar.filesystem
            ));
        }
    };
    let space = if why.starts_with(':') { "" } else { " " };
    Some(format!("the mount option '{}'{space}{why}", word.escape_debug()))
}

/// Letters, digits and signs without a meaning in a shell, into which a person may paste the commands of a
/// recommendation.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._,:/=+%@^~#-".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

#[cfg(test)]
mod tests;
