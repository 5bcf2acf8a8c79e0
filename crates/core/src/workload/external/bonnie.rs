//! The options that bonnie++ accepts in a plan: sizes, numbers and switches, but nothing that names a place,
//! a user or another process.
//!
//! Options shared with the native workload are parsed by the same code ([`bonnie::command_line`]), so that
//! they mean the same in both. The rest are the original's own: `-D -c -z`, and links instead of files.

use crate::workload::Bonnie;
use crate::workload::bonnie;
use std::fmt;
use std::str::FromStr;

/// The arguments of bonnie++, parsed as far as planning, running and displaying its results requires.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// Words for the command line.
    pub words: Vec<String>,
    /// The equivalent parameters of the native workload.
    pub parameters: Bonnie,
    /// Small files may be links.
    pub links: Option<Links>,
    /// The number of copies that it reports. (It runs one.)
    pub copies: u32,
    /// The seed, if one is given.
    pub told_seed: Option<u32>,
}

/// The links that replace the small files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Names of one file.
    Hard,
    /// Symbolic links.
    Symbolic,
}

impl fmt::Display for Links {
    /// As bonnie++ prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Links::Hard => "link",
            Links::Symbolic => "symlink",
        })
    }
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut arguments = Arguments {
            words: Vec::new(),
            parameters: Bonnie::default(),
            links: None,
            copies: 1,
            told_seed: None,
        };
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let (flag, attached) = split(word).ok_or_else(|| unknown(word))?;
            let value = match flag {
                'b' | 'D' if attached.is_empty() => None,
                'f' => Some(attached).filter(|value| !value.is_empty()),
                's' | 'n' | 'r' | 'c' | 'z' if attached.is_empty() => Some(words.next().unwrap_or("")),
                's' | 'n' | 'r' | 'c' | 'z' => Some(attached),
                _ => return Err(unknown(word)),
            };
            let word = match value {
                Some(value) => format!("-{flag}{value}"),
                None => format!("-{flag}"),
            };
            arguments.take(flag, value.unwrap_or("")).ok_or_else(|| unknown(&word))?;
            arguments.words.push(word);
        }
        Ok(arguments)
    }
}

impl Arguments {
    /// Its random seed: that of the trial, within the range that it accepts, unless the arguments set one.
    pub fn seed(&self, of_trial: u64) -> u32 {
        self.told_seed.unwrap_or((of_trial % (1 << 31)) as u32)
    }

    /// Parses one option with its value.
    fn take(&mut self, flag: char, value: &str) -> Option<()> {
        match flag {
            // The original decides which writes it affects.
            'D' => Some(()),
            'c' => {
                self.copies = value.parse().ok().filter(|copies| (1..=1024).contains(copies))?;
                Some(())
            }
            'z' => {
                self.told_seed = Some(value.parse().ok()?);
                Some(())
            }
            'n' => {
                let (value, links) = without_links(value);
                self.links = links;
                bonnie::command_line(&format!("-n {value}"), &mut self.parameters).ok()
            }
            _ => bonnie::command_line(&format!("-{flag}{value}"), &mut self.parameters).ok(),
        }
    }
}

/// The value of `-n` with empty files for links: a largest size of -1 or -2 asks for these.
fn without_links(value: &str) -> (String, Option<Links>) {
    let mut parts: Vec<&str> = value.split(':').collect();
    let links = match parts.get(1) {
        Some(&"-1") => Links::Hard,
        Some(&"-2") => Links::Symbolic,
        _ => return (value.to_string(), None),
    };
    parts[1] = "0";
    (parts.join(":"), Some(links))
}

/// `-s64m` as the letter and what is attached to it.
fn split(word: &str) -> Option<(char, &str)> {
    let rest = word.strip_prefix('-')?;
    let flag = rest.chars().next()?;
    Some((flag, &rest[flag.len_utf8()..]))
}

fn unknown(word: &str) -> String {
    format!(
        "a list of these bonnie++ options: -s SIZE, -n FILES, -r MEMORY, -f[SIZE], -b, -D, -c COPIES and -z \
         SEED (invalid: '{}')",
        word.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn sizes_and_switches_are_understood() {
        let read = |text: &str| text.parse::<Arguments>().unwrap();
        let arguments = read("-s 496m:8k -n 16:100000:16:64 -f -b -r0 -z 7");
        let Bonnie { size, files, max_size, directories, char_size, ram, fsync, .. } = arguments.parameters;
        assert_eq!((size, ram, char_size), (Some(Bytes(496 << 20)), Some(Bytes(0)), Bytes(0)));
        assert_eq!((files, max_size, directories, fsync), (16 * 1024, Bytes(100_000), 64, true));
        assert_eq!((arguments.told_seed, arguments.seed(9)), (Some(7), 7));
        assert_eq!(arguments.words, ["-s496m:8k", "-n16:100000:16:64", "-f", "-b", "-r0", "-z7"]);
        assert_eq!(read("-s1g -f20").parameters.char_size, Bytes(20 << 20));
        assert_eq!((read("-c 3").copies, read("-D").copies), (3, 1));
        assert_eq!((read("").parameters, read("").seed(5 << 31 | 9)), (Bonnie::default(), 9));
    }

    #[test]
    fn small_files_may_be_links() {
        for (text, links) in [("-n 1:-1", Links::Hard), ("-n2:-2:0:3", Links::Symbolic)] {
            let arguments: Arguments = text.parse().unwrap();
            assert_eq!((arguments.links, arguments.parameters.max_size), (Some(links), Bytes(0)));
            assert_eq!(arguments.words, [text.replace(' ', "")], "passed on unchanged");
        }
        assert!("-n 1:-3".parse::<Arguments>().is_err());
    }

    #[test]
    fn whatever_names_a_place_a_user_or_a_process_is_refused() {
        for bad in [
            "-d /mnt",
            "-d/mnt",
            "-u nobody",
            "-g disk",
            "-m name",
            "-x 3",
            "-p 3",
            "-y s",
            "-Z /etc/passwd",
            "/mnt",
            "-q",
            "--help",
            "-s",
            "-s /dev/sda",
            "-s 64q",
            "-s 496k",
            "-n a",
            "-n -5",
            "-bd/mnt",
            "-c 0",
            "-s 99999999999999999999g",
            "-n 9223372036854775807:9223372036854775807",
        ] {
            assert!(bad.parse::<Arguments>().is_err(), "{bad}");
        }
    }
}
