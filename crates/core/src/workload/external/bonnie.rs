//! What bonnie++ may be told: sizes, numbers and switches, and nothing that names a place, a user or another process.

use crate::units::Bytes;
use std::str::FromStr;

/// Bytes that bonnie++ 2.00 moves one by one where `-f` does not say, counted by strace. (Its manual page says 20 MB.)
const CHARACTERS: u64 = 5 * Bytes::MIB;
/// Unit of `-s` and `-f` without a suffix.
const MEBI: u64 = Bytes::MIB;
/// Files are counted in units of this (`-n`).
pub const FILES_UNIT: u64 = 1024;

/// The arguments of bonnie++, understood as far as it takes to plan and read its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// Words for the command line.
    pub words: Vec<String>,
    /// Size of the file, where `-s` says it.
    pub file_bytes: Option<u64>,
    /// Bytes that are moved one by one.
    pub character_bytes: u64,
    /// Bytes in small files, where `-n` says it.
    pub small_file_bytes: u64,
    /// Whether it is told how much memory the machine has.
    pub tells_memory: bool,
    /// Whether it is told a seed.
    pub tells_seed: bool,
}

impl Arguments {
    /// Bytes that all parts of a run move: the file is written, rewritten (which is reading and writing) and read.
    pub fn moves(&self) -> u64 {
        let file = self.file_bytes.unwrap_or(0).saturating_mul(4);
        // Written and read, in order and at random.
        file.saturating_add(self.character_bytes * 2).saturating_add(self.small_file_bytes.saturating_mul(4))
    }
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut arguments = Arguments {
            words: Vec::new(),
            file_bytes: None,
            character_bytes: CHARACTERS,
            small_file_bytes: 0,
            tells_memory: false,
            tells_seed: false,
        };
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let (flag, attached) = split(word).ok_or_else(|| unknown(word))?;
            match flag {
                'b' | 'D' if attached.is_empty() => arguments.words.push(word.to_string()),
                'f' => {
                    let size = if attached.is_empty() { Some(0) } else { size(attached) };
                    arguments.character_bytes = size.ok_or_else(|| unknown(word))?;
                    arguments.words.push(word.to_string());
                }
                's' | 'n' | 'r' | 'c' | 'z' => {
                    let value = if attached.is_empty() { words.next().unwrap_or("") } else { attached };
                    arguments.takes(flag, value).ok_or_else(|| unknown(&format!("-{flag} {value}")))?;
                    arguments.words.extend([format!("-{flag}"), value.to_string()]);
                }
                _ => return Err(unknown(word)),
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn takes(&mut self, flag: char, value: &str) -> Option<()> {
        let parts: Vec<&str> = value.split(':').collect();
        match flag {
            's' if parts.len() <= 4 => {
                self.file_bytes = Some(size(parts[0])?);
                parts[1..].iter().try_for_each(|part| size(part).map(drop))?;
            }
            'n' if parts.len() <= 5 => {
                let numbers: Vec<i64> = parts.iter().map(|part| part.parse().ok()).collect::<Option<_>>()?;
                // A largest size of -1 or -2 asks for links.
                let negative = numbers.iter().enumerate().any(|(at, number)| *number < 0 && at != 1);
                if negative || numbers.get(1).is_some_and(|most| *most < -2) {
                    return None;
                }
                let (most, least) = (numbers.get(1).copied(), numbers.get(2).copied());
                let largest = most.unwrap_or(0).max(0).cast_unsigned();
                let mean = (largest + least.unwrap_or(0).max(0).cast_unsigned().min(largest)) / 2;
                self.small_file_bytes =
                    numbers[0].cast_unsigned().checked_mul(FILES_UNIT)?.checked_mul(mean)?;
            }
            'r' => {
                size(value)?;
                self.tells_memory = true;
            }
            'c' => value.parse::<u32>().ok().filter(|copies| (1..=1024).contains(copies)).map(drop)?,
            'z' => {
                value.parse::<u32>().ok()?;
                self.tells_seed = true;
            }
            _ => return None,
        }
        Some(())
    }
}

/// `-s64m` as the letter and what is attached to it.
fn split(word: &str) -> Option<(char, &str)> {
    let rest = word.strip_prefix('-')?;
    let flag = rest.chars().next()?;
    Some((flag, &rest[flag.len_utf8()..]))
}

/// A size as bonnie++ reads it: MiB unless a suffix says otherwise.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.to_ascii_lowercase().chars().last()? {
        'k' => (&text[..text.len() - 1], Bytes::KIB),
        'm' => (&text[..text.len() - 1], Bytes::MIB),
        'g' => (&text[..text.len() - 1], Bytes::GIB),
        _ => (text, MEBI),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<u64>().ok()?.checked_mul(unit)).flatten()
}

fn unknown(word: &str) -> String {
    format!(
        "-s SIZE, -n FILES, -r MEMORY, -f[SIZE], -b, -D, -c COPIES and -z SEED, as bonnie++ understands them; not '{}'",
        word.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_switches_are_understood() {
        let arguments: Arguments = "-s 496m:8k -n 16:100000:16:64 -f -b -r0 -z 7".parse().unwrap();
        assert_eq!(arguments.file_bytes, Some(496 << 20));
        assert_eq!(arguments.character_bytes, 0);
        assert_eq!(arguments.small_file_bytes, 16 * 1024 * 50_008);
        assert!(arguments.tells_memory && arguments.tells_seed);
        assert_eq!(
            arguments.words,
            ["-s", "496m:8k", "-n", "16:100000:16:64", "-f", "-b", "-r", "0", "-z", "7"]
        );
        assert_eq!("-s1g -f20".parse::<Arguments>().unwrap().character_bytes, 20 << 20);
        assert_eq!("-n 1:-1".parse::<Arguments>().unwrap().small_file_bytes, 0);
        assert!("".parse::<Arguments>().unwrap().words.is_empty());
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
