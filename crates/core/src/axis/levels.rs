//! The kinds of levels that an axis can have, and their canonical form.

use crate::filesystem;
use crate::sysctl;
use crate::units::{Bytes, Nanos};
use std::fmt;

/// The kind of levels that an axis has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Levels {
    /// A filesystem that fsdyno builds.
    Filesystem,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A method of compression from [`METHODS`], optionally with its level: `zstd:3`.
    Compression,
    /// A size in bytes.
    Size,
    /// A whole number.
    Count,
    /// A duration, in whole seconds.
    Seconds,
    /// A share of the whole, in whole percent.
    Percent,
    /// Off or on, written `0` or `1` (also `false`/`true`, `off`/`on`).
    Switch,
    /// `internal`, `none`, `external` or `external:NAME` with a name from `[device.journals]`.
    Journal,
    /// `host`, `debian:VERSION`, the release of an installed kernel, or a name from `[kernels]`.
    Kernel,
    /// The value of a sysctl.
    Sysctl,
    /// Free text, passed on as it is.
    Text,
}

/// The methods of compression, and the highest level of each; 0 if it has none (fs/btrfs/compression.c).
pub(super) const METHODS: [(&str, u32); 4] = [("no", 0), ("zlib", 9), ("lzo", 0), ("zstd", 15)];

/// The highest fill level in percent; above it, filesystems run out of the space that they need themselves.
const FULLEST: u32 = 95;

impl Levels {
    /// A level in canonical form; `None` if there is no such level. The text has no white space around it.
    pub(super) fn canonical(self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        match self {
            Levels::Filesystem => filesystem::find(&lower).map(|known| known.name.to_string()),
            Levels::Words(words) => words.contains(&lower.as_str()).then_some(lower),
            Levels::Compression => compression(&lower),
            Levels::Size => {
                lower.parse::<Bytes>().ok().filter(|size| size.0 > 0).map(|size| size.to_string())
            }
            Levels::Count => lower.parse::<u32>().ok().map(|count| count.to_string()),
            Levels::Seconds => lower
                .parse::<Nanos>()
                .ok()
                .filter(|t| t.0 % 1_000_000_000 == 0)
                .map(|t| t.as_secs_f64().to_string()),
            Levels::Percent => lower
                .trim_end_matches('%')
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|percent| (1..=FULLEST).contains(percent))
                .map(|percent| format!("{percent}%")),
            Levels::Switch => match lower.as_str() {
                "0" | "false" | "off" => Some("0".to_string()),
                "1" | "true" | "on" => Some("1".to_string()),
                _ => None,
            },
            Levels::Journal => {
                let external = lower.strip_prefix("external:").is_some_and(|name| !name.is_empty());
                let known = external || ["internal", "external", "none"].contains(&lower.as_str());
                known.then(|| text.to_string())
            }
            Levels::Kernel => (!lower.is_empty()).then(|| text.to_string()),
            Levels::Sysctl => Some(text.to_string()).filter(|value| sysctl::is_value(value)),
            Levels::Text => Some(text.to_string()),
        }
    }

    /// Returns the description of a valid level, for an error message.
    pub(super) fn expected(&self) -> String {
        match self {
            Levels::Filesystem | Levels::Words(_) | Levels::Compression => format!("one of {self}"),
            _ => self.to_string(),
        }
    }
}

/// `zstd` or `zstd:3`, if there is such a method and level.
fn compression(text: &str) -> Option<String> {
    let (method, level) = match text.split_once(':') {
        Some((method, level)) => (method, Some(level.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let (name, most) = METHODS.into_iter().find(|(name, _)| *name == method)?;
    match level {
        None => Some(name.to_string()),
        Some(level) => (1..=most).contains(&level).then(|| format!("{name}:{level}")),
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Levels::Filesystem => f.write_str(&filesystem::names().collect::<Vec<_>>().join(", ")),
            Levels::Words(words) => f.write_str(&words.join(", ")),
            Levels::Compression => {
                let method = |(name, most): (&str, u32)| match most {
                    0 => name.to_string(),
                    most => format!("{name} ({name}:1 to {name}:{most})"),
                };
                f.write_str(&METHODS.map(method).join(", "))
            }
            Levels::Size => f.write_str("a size such as 4k or 64M"),
            Levels::Count => f.write_str("a whole number"),
            Levels::Seconds => f.write_str("a duration in whole seconds, such as 5s"),
            Levels::Percent => write!(f, "a whole percentage from 1% to {FULLEST}%"),
            Levels::Switch => f.write_str("0 or 1"),
            Levels::Journal => f.write_str("internal, none, external or external:NAME"),
            Levels::Kernel => f.write_str(
                "host, debian:VERSION, the release of an installed kernel or a name from [kernels]",
            ),
            Levels::Sysctl => f.write_str("a single line of letters, digits, spaces and ._,:/=+%@|*-"),
            Levels::Text => f.write_str("text"),
        }
    }
}
