//! The command line of bonnie++ 2.00, and the parameters that it sets.
//!
//! Options are parsed as in getopt(3). Numbers are stricter than the original's `atoi`, which reads `496k` as
//! 496 MiB and `x` as 0: invalid numbers are rejected here. Options that make no sense inside a sweep are
//! rejected with the reason, so that no option is silently ignored.

use super::Bonnie;
use crate::units::Bytes;
use crate::workload::parameter::{Literal, Nowhere, Parameters, Setting, Shorthand, ShorthandError};

/// The key `options`.
pub(super) const SHORTHAND: Shorthand = Shorthand {
    name: "options",
    help: "bonnie++ command-line options such as `\"-s 496m -n 16:100000:16:64\"`, instead of the keys \
           below: `-s size[:chunk[:seeks[:seekers]]]` (MiB), `-n num[:max[:min[:directories[:chunk]]]]` (num \
           x 1024 files), `-r ram` (MiB), `-f[size]` (MiB), `-b`",
    read,
};

/// Sets the parameters that a command line contains.
///
/// # Errors
/// The word that was rejected.
pub(crate) fn command_line(text: &str, bonnie: &mut Bonnie) -> Result<(), ShorthandError> {
    for (name, literal) in read(text)? {
        let set = bonnie.set(name, &literal, &Nowhere);
        set.map_err(|_| ShorthandError::Unknown(text.to_string()))?;
    }
    Ok(())
}

/// The parameters that a command line sets. It may begin with the name of the program.
fn read(text: &str) -> Result<Vec<Setting>, ShorthandError> {
    let mut words = text.split_whitespace().peekable();
    words.next_if(|word| *word == "bonnie++");
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let Some(mut letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(ShorthandError::Unknown(word.to_string()));
        };
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            match Letter::of(letter)? {
                Letter::Alone(read) => settings.extend(read("")?),
                Letter::MayTakeTheRest(read) => {
                    settings.extend(read(letters)?);
                    letters = "";
                }
                Letter::Takes { expected, read } => {
                    let value = if letters.is_empty() { words.next() } else { Some(letters) };
                    let lacking =
                        || ShorthandError::Value { word: format!("-{letter}"), expected, found: None };
                    settings.extend(read(value.ok_or_else(lacking)?)?);
                    letters = "";
                }
            }
        }
    }
    Ok(settings)
}

type Read = fn(&str) -> Result<Vec<Setting>, ShorthandError>;

/// The text that follows an option, if any.
enum Letter {
    Alone(Read),
    /// Optionally the rest of its own word.
    MayTakeTheRest(Read),
    /// The rest of its word, or else the next word.
    Takes {
        expected: &'static str,
        read: Read,
    },
}

impl Letter {
    fn of(letter: char) -> Result<Letter, ShorthandError> {
        let reason = match letter {
            'b' => return Ok(Letter::Alone(|_| Ok(vec![("fsync", Literal::Boolean(true))]))),
            'f' => return Ok(Letter::MayTakeTheRest(char_size)),
            's' => return Ok(Letter::Takes { expected: SIZE, read: size }),
            'n' => return Ok(Letter::Takes { expected: FILES, read: files }),
            'r' => return Ok(Letter::Takes { expected: MIB, read: ram }),
            'c' => "only one copy runs, and bonnie++ itself merely prints the number",
            'd' => "the sweep chooses the directory",
            'D' => {
                "in bonnie++ it affects only some of the writes; for direct I/O use the workload 'streaming'"
            }
            'g' | 'u' => "the workload runs as the user who started fsdyno",
            'm' => "results are named after their configuration",
            'p' | 'y' => "there are no other processes to synchronise with",
            'q' => "the workload prints nothing while it runs",
            'x' => "set `repetitions` in the plan instead",
            'z' | 'Z' => "set `seed` in the plan instead",
            _ => return Err(ShorthandError::Unknown(format!("-{letter}"))),
        };
        Err(ShorthandError::Refused { word: format!("-{letter}"), reason })
    }
}

const SIZE: &str = "size[:chunk[:seeks[:seekers]]], with the size in MiB or with suffix g or t";
const FILES: &str = "num[:max[:min[:directories[:chunk]]]]";
const MIB: &str = "a whole number of MiB";

fn size(value: &str) -> Result<Vec<Setting>, ShorthandError> {
    let fields = [
        ("size", Units { bare: Bytes::MIB, letters: MIB_AND_UP }),
        ("chunk", Units { bare: 1, letters: &[('k', Bytes::KIB)] }),
        ("seeks", Units { bare: 1, letters: &[('k', Bytes::KIB)] }),
        ("seekers", Units { bare: 1, letters: &[] }),
    ];
    fields_of("-s", SIZE, value, &fields)
}

fn files(value: &str) -> Result<Vec<Setting>, ShorthandError> {
    if matches!(value.split(':').nth(1), Some("-1" | "-2")) {
        let reason = "only files are measured, not links";
        return Err(ShorthandError::Refused { word: format!("-n {value}"), reason });
    }
    let bytes = Units { bare: 1, letters: BYTES };
    let fields = [
        ("files", Units { bare: super::FILE_UNIT, letters: &[('m', super::FILE_UNIT << 10)] }),
        ("max_size", bytes),
        ("min_size", bytes),
        ("directories", Units { bare: 1, letters: &[('k', Bytes::KIB)] }),
        ("file_chunk", bytes),
    ];
    fields_of("-n", FILES, value, &fields)
}

fn ram(value: &str) -> Result<Vec<Setting>, ShorthandError> {
    fields_of("-r", MIB, value, &[("ram", Units { bare: Bytes::MIB, letters: &[('m', Bytes::MIB)] })])
}

fn char_size(value: &str) -> Result<Vec<Setting>, ShorthandError> {
    let value = if value.is_empty() { "0" } else { value };
    fields_of("-f", MIB, value, &[("char_size", Units { bare: Bytes::MIB, letters: &[('m', Bytes::MIB)] })])
}

/// The unit of a number without a suffix, and those of its suffixes.
#[derive(Clone, Copy)]
struct Units {
    bare: u64,
    letters: &'static [(char, u64)],
}

const BYTES: &[(char, u64)] = &[('k', Bytes::KIB), ('m', Bytes::MIB), ('g', Bytes::GIB)];
const MIB_AND_UP: &[(char, u64)] = &[('m', Bytes::MIB), ('g', Bytes::GIB), ('t', Bytes::GIB << 10)];

impl Units {
    fn read(self, text: &str) -> Option<u64> {
        let last = text.chars().last()?.to_ascii_lowercase();
        let unit = self.letters.iter().find(|(letter, _)| *letter == last);
        let (digits, unit) = match unit {
            Some((_, unit)) => (&text[..text.len() - 1], *unit),
            None => (text, self.bare),
        };
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| all_digits)?.checked_mul(unit)
    }
}

/// The fields of `value`, at most as many as `fields`.
fn fields_of(
    word: &str,
    expected: &'static str,
    value: &str,
    fields: &[(&'static str, Units)],
) -> Result<Vec<Setting>, ShorthandError> {
    let refuse =
        || ShorthandError::Value { word: word.to_string(), expected, found: Some(value.to_string()) };
    let texts: Vec<&str> = value.split(':').collect();
    if texts.len() > fields.len() {
        return Err(refuse());
    }
    let setting = |(text, (name, units)): (&str, &(&'static str, Units))| {
        units.read(text).map(|number| (*name, Literal::Integer(number.into()))).ok_or_else(refuse)
    };
    texts.into_iter().zip(fields).map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Load;
    use proptest::prelude::*;

    fn bonnie(text: &str) -> Bonnie {
        let mut bonnie = Bonnie::default();
        command_line(text, &mut bonnie).unwrap();
        bonnie
    }

    #[test]
    fn command_lines_of_published_runs() {
        let published = bonnie("-s 496m -n 16:100000:16:64");
        assert_eq!(published.size, Some(Bytes(496 << 20)));
        assert_eq!((published.files, published.directories), (16384, 64));
        assert_eq!((published.max_size, published.min_size), (Bytes(100_000), Bytes(16)));
        assert_eq!(published.check(), Ok(()));
        let all = bonnie("bonnie++ -bs2g:16k:1k:7 -n1:10k:0:2k:64k -r 1024 -f20");
        let expected = Bonnie {
            size: Some(Bytes(2 << 30)),
            chunk: Bytes(16384),
            seeks: 1024,
            seekers: 7,
            files: 1024,
            max_size: Bytes(10240),
            min_size: Bytes(0),
            directories: 2048,
            file_chunk: Bytes(65536),
            ram: Some(Bytes(1 << 30)),
            char_size: Bytes(20 << 20),
            fsync: true,
            ..Bonnie::default()
        };
        assert_eq!(all, expected);
        assert_eq!(bonnie("-f -s 1t").char_size, Bytes(0));
        assert_eq!(bonnie(""), Bonnie::default());
    }

    #[test]
    fn unsupported_options_are_refused_with_the_reason() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(error("-s 496m -k"), "unknown word '-k'");
        assert_eq!(error("496m"), "unknown word '496m'");
        assert_eq!(error("-x 3"), "'-x' is not supported: set `repetitions` in the plan instead");
        assert_eq!(error("-n 1:-1"), "'-n 1:-1' is not supported: only files are measured, not links");
        assert!(error("-s").ends_with("with suffix g or t, but no value is given"));
        for text in
            ["-s 496k", "-s 1:2:3:4:5", "-s :", "-s +4", "-n 1::4", "-n 1g", "-r x", "-s 99999999999g"]
        {
            assert!(error(text).contains(" takes "), "{text}: {}", error(text));
        }
        for letter in "cdDgumpyqxzZ".chars() {
            assert!(matches!(read(&format!("-{letter}")), Err(ShorthandError::Refused { .. })), "{letter}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a-z0-9: é]{0,30}") {
            let _ = read(&text);
        }
    }
}
