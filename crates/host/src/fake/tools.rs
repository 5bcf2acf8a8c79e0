//! What the words of a command name, by the tools' own grammar, written down from their manuals and sources
//! without a look at what the testbed thinks of them.

use crate::{Argument, Command};
use std::path::Path;

/// The grammar of a tool that makes or checks filesystems.
struct Tool {
    programs: &'static [&'static str],
    /// As getopt(3) takes it.
    short: &'static str,
    /// Long options that take a value.
    long: &'static [&'static str],
    /// Options whose value is a file or a device, in either form.
    files: &'static [&'static str],
    /// Suboptions whose value is a file or a device.
    keys: &'static [&'static str],
    /// Options by which nothing is done that a trial asked for.
    idle: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool {
        programs: &["mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mke2fs"],
        short: "b:ce:g:i:jl:m:no:qr:s:t:d:vC:DE:FG:I:J:KL:M:N:O:R:ST:U:Vz:",
        long: &[],
        files: &["-l", "-d", "-z"],
        keys: &["device"],
        idle: &["-n", "-S", "-V"],
    },
    Tool {
        programs: &["mkfs.xfs"],
        short: "b:c:d:i:l:L:m:n:KNp:qr:s:CfV",
        long: &[],
        files: &["-c", "-p"],
        keys: &["logdev", "rtdev", "name", "file", "options"],
        idle: &["-N", "-V"],
    },
    Tool {
        programs: &["mkfs.btrfs"],
        short: "A:b:fl:n:s:m:d:L:R:O:r:U:VvMKqu:",
        long: &[
            "byte-count",
            "checksum",
            "csum",
            "leafsize",
            "label",
            "metadata",
            "nodesize",
            "sectorsize",
            "data",
            "rootdir",
            "features",
            "runtime-features",
            "uuid",
            "device-uuid",
            "subvol",
            "compress",
            "inode-flags",
        ],
        files: &["-r", "--rootdir", "-u", "--subvol", "--inode-flags"],
        keys: &[],
        idle: &["-V", "--version", "--help"],
    },
    Tool {
        programs: &["mkfs.f2fs"],
        short: "qa:c:C:d:e:E:g:hH:i:l:mo:O:rR:s:S:z:t:T:U:Vfw:Z:",
        long: &[],
        files: &["-c"],
        keys: &[],
        idle: &["-h", "-V"],
    },
    Tool {
        programs: &["mkfs.nilfs2"],
        short: "b:B:cfhKL:m:nO:P:qvV",
        long: &[],
        files: &[],
        keys: &[],
        idle: &["-n", "-h", "-V"],
    },
    Tool {
        programs: &["mkfs.jfs"],
        short: "cfj:J:L:Oqs:V",
        long: &[],
        files: &["-j"],
        keys: &["device", "journal_dev"],
        idle: &["-V"],
    },
    Tool {
        programs: &["mkfs.reiserfs"],
        short: "b:B:dfh:j:l:o:qs:t:u:Vy",
        long: &[
            "block-size",
            "journal-device",
            "journal-size",
            "badblocks",
            "transaction-max-size",
            "format",
            "hash",
            "uuid",
            "label",
            "orphan",
        ],
        files: &["-j", "--journal-device", "-B", "--badblocks"],
        keys: &[],
        idle: &["-V"],
    },
    Tool {
        programs: &["mkfs.vfat"],
        short: "aAb:cCD:f:F:g:h:Ii:l:m:M:n:r:R:s:S:v",
        long: &["codepage", "mbr", "offset", "variant", "invariant"],
        files: &["-l", "-m"],
        keys: &[],
        idle: &["--help"],
    },
    Tool {
        programs: &["mkfs.ntfs"],
        short: "c:CfFhH:IL:lnp:QqS:s:TUvVz:",
        long: &[
            "cluster-size",
            "heads",
            "label",
            "partition-start",
            "sector-size",
            "sectors-per-track",
            "mft-zone-multiplier",
        ],
        files: &[],
        keys: &[],
        idle: &["-n", "--no-action", "-h", "-V", "-l"],
    },
    // Words of these are all of our own.
    Tool { programs: &["e2fsck"], short: "fn", long: &[], files: &[], keys: &[], idle: &[] },
    Tool { programs: &["xfs_repair"], short: "nl:", long: &[], files: &["-l"], keys: &[], idle: &[] },
    Tool { programs: &["dumpe2fs"], short: "h", long: &[], files: &[], keys: &[], idle: &[] },
];

/// Arguments that ask a tool for its version; one that knows no such option says it over an empty file.
const VERSIONS: &[&str] = &["--version", "-V", "-h", "version", "--help", "/dev/null"];

/// Why a command must not run: a word of it names something that it may not name.
pub(super) fn broken_rule(command: &Command, may_be_named: &dyn Fn(&Path) -> bool) -> Option<String> {
    let words = &command.arguments;
    if let [Argument { text, device: None }] = &words[..]
        && VERSIONS.contains(&text.as_str())
    {
        return None;
    }
    match TOOLS.iter().find(|tool| tool.programs.contains(&command.program.as_str())) {
        Some(tool) => tool.broken_rule(words),
        None => {
            // Whoever looks for an array of ours looks at all of them.
            let looks = words.first().is_some_and(|word| word.text == "--detail");
            words.iter().find_map(|word| unknown_path(word, &|path| looks || may_be_named(path)))
        }
    }
}

impl Tool {
    fn broken_rule(&self, words: &[Argument]) -> Option<String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let broken = match (word.text.as_str(), &word.device) {
                // A further device is a journal's, and then it has an option before it.
                ("", Some(_)) => None,
                ("--", None) => Some("'--' makes words of options".to_string()),
                (text, None) if text.starts_with("--") => self.long(text, &mut words),
                (text, device) if text.len() > 1 && text.starts_with('-') => {
                    self.short(text, device.is_some(), &mut words)
                }
                (text, _) => Some(format!("'{text}' is a word of its own, taken for a device or a size")),
            };
            if broken.is_some() {
                return broken;
            }
        }
        None
    }

    fn long<'a>(&self, text: &str, words: &mut impl Iterator<Item = &'a Argument>) -> Option<String> {
        let (name, glued) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (text, None),
        };
        // getopt_long(3) takes the beginning of a name for the name.
        let begins = |option: &&&str| option.len() > 1 && option.starts_with(name);
        if let Some(idle) = self.idle.iter().find(begins) {
            return Some(format!("'{text}' may be {idle}, which does nothing"));
        }
        if let Some(file) = self.files.iter().find(begins) {
            return Some(format!("'{text}' may be {file}, which takes a file"));
        }
        let takes_value = self.long.iter().any(|known| known.starts_with(name.trim_start_matches('-')));
        let value = glued.or_else(|| takes_value.then(|| words.next().map(|word| word.text.clone()))?);
        value.and_then(|value| self.named_by(&value))
    }

    /// What a value names past everybody's guards: a path, the value of a suboption, or `file`, which makes
    /// one of the rest.
    fn named_by(&self, value: &str) -> Option<String> {
        if value.contains('/') {
            return Some(format!("'{value}' is a path"));
        }
        let names = |part: &&str| match part.split_once('=') {
            Some((key, _)) => self.keys.contains(&key),
            None => *part == "file" && self.keys.contains(part),
        };
        let named = value.split(',').find(names);
        named.map(|part| format!("'{part}' in '{value}' names a device or a file"))
    }

    /// A cluster of options of one letter; the last may take the rest of the word, or the next word.
    fn short<'a>(
        &self,
        text: &str,
        device: bool,
        words: &mut impl Iterator<Item = &'a Argument>,
    ) -> Option<String> {
        let letters = text[1..].char_indices();
        for (at, letter) in letters {
            let option = format!("-{letter}");
            if self.idle.contains(&option.as_str()) {
                return Some(format!("'{option}' does nothing"));
            }
            let Some(place) = self.short.find(letter).filter(|_| letter != ':') else { continue };
            if self.short[place + 1..].starts_with(':') {
                let rest = &text[1 + at + letter.len_utf8()..];
                let (value, of_device) = match rest {
                    "" if !device => words.next().map(|word| (word.text.as_str(), word.device.is_some()))?,
                    rest => (rest, device),
                };
                // What ends in an open device names that.
                if of_device {
                    return None;
                }
                if self.files.contains(&option.as_str()) {
                    return Some(format!("'{option} {value}' takes a file"));
                }
                return self.named_by(value);
            }
        }
        None
    }
}

/// The first path within a word that may not be named. Programs without a grammar here get words of our own
/// only.
fn unknown_path(word: &Argument, may_be_named: &dyn Fn(&Path) -> bool) -> Option<String> {
    if word.device.is_some() {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || "\"|^$,;()".contains(c);
    let mut paths = word.text.split(ends).filter_map(|part| Some(&part[part.find('/')?..]));
    let of_ours = |path: &str| path.starts_with("/dev/md/fsdyno-") || may_be_named(Path::new(path));
    let unknown = paths.find(|path| !of_ours(path));
    unknown.map(|path| format!("'{path}' in '{}' is nothing of ours", word.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceHandle;

    fn broken(program: &str, words: &str) -> bool {
        let command = Command::new(program).args(words.split_whitespace());
        let command = command.device("", DeviceHandle(1), Path::new("/dev/fake1"));
        broken_rule(&command, &|_| false).is_some()
    }

    #[test]
    fn options_and_their_values_are_told_from_words_that_name_a_device() {
        for (program, words) in [
            ("mkfs.ext4", "-F -U 1-2 -b 4096 -E lazy_itable_init=0,hash_seed=1-2 -O ^has_journal -Tnews"),
            ("mkfs.xfs", "-f -m uuid=1-2 -d agcount=4 -l size=64m -dsu=64k,sw=4"),
            ("mkfs.btrfs", "-f --metadata single --sectorsize=4096 -Ono-holes"),
        ] {
            assert!(!broken(program, words), "{program} {words}");
        }
    }

    #[test]
    fn words_that_name_something_else_are_found_however_they_are_glued() {
        for (program, words) in [
            ("mkfs.ext4", "-F sdb"),
            ("mkfs.ext4", "-Jdevice=LABEL=x"),
            ("mkfs.ext4", "-qJ device=LABEL=x"),
            ("mkfs.ext4", "-vn"),
            ("mkfs.ext4", "-zundo"),
            ("mkfs.xfs", "-llogdev=sdb"),
            ("mkfs.xfs", "-rrtdev=sdb"),
            ("mkfs.xfs", "-d file,size=4g"),
            ("mkfs.xfs", "-fN"),
            ("mkfs.xfs", "-p proto"),
            ("mkfs.btrfs", "--root etc"),
            ("mkfs.btrfs", "-K sdb"),
            ("mkfs.btrfs", "-fretc"),
            ("mkfs.btrfs", "-- sdb"),
            ("mkfs.f2fs", "-csdb"),
            ("mkfs.jfs", "-Jdevice=sdb"),
        ] {
            assert!(broken(program, words), "{program} {words}");
        }
    }
}
