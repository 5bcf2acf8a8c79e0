//! The units of the values of measures, and which way is better.

use std::fmt;

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes per second, shown as MB/s (10^6).
    BytesPerSecond,
    /// Operations per second.
    OperationsPerSecond,
    /// Files, transactions or seeks per second: what the workload counts.
    ItemsPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Operations.
    Operations,
    /// Flushes of a device per second.
    FlushesPerSecond,
    /// Extents of a file.
    Extents,
    /// A share from 0 to 1, shown in percent.
    Share,
    /// The unit of an imported table, which the name of the measure states.
    Number,
}

impl Unit {
    /// The unit as printed after a number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::BytesPerSecond => PrintedUnit::MegabytesPerSecond.symbol(),
            Unit::OperationsPerSecond => PrintedUnit::OperationsPerSecond.symbol(),
            Unit::ItemsPerSecond => PrintedUnit::PerSecond.symbol(),
            Unit::Nanoseconds => PrintedUnit::Nanoseconds.symbol(),
            Unit::Operations => PrintedUnit::Operations.symbol(),
            Unit::FlushesPerSecond => "flushes/s",
            Unit::Extents => "/file",
            Unit::Share => PrintedUnit::Percent.symbol(),
            Unit::Number => "",
        }
    }

    /// The base unit as it appears in documents for programs and at the end of column names.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::BytesPerSecond => "bytes_per_s",
            Unit::OperationsPerSecond => "operations_per_s",
            Unit::ItemsPerSecond => "items_per_s",
            Unit::Nanoseconds => "ns",
            Unit::Operations => "operations",
            Unit::FlushesPerSecond => "flushes_per_s",
            Unit::Extents => "extents_per_file",
            Unit::Share => "share",
            Unit::Number => "number",
        }
    }

    /// A value in its base unit as the number to show before [`Unit::symbol`].
    pub fn shown(self, value: f64) -> f64 {
        match self {
            Unit::BytesPerSecond => value / PrintedUnit::MegabytesPerSecond.factor(),
            Unit::Share => value / PrintedUnit::Percent.factor(),
            Unit::OperationsPerSecond
            | Unit::ItemsPerSecond
            | Unit::Nanoseconds
            | Unit::Operations
            | Unit::FlushesPerSecond
            | Unit::Extents
            | Unit::Number => value,
        }
    }
}

impl Unit {
    /// Which way is better, if the unit alone says so.
    pub const fn usual_direction(self) -> Option<Direction> {
        match self {
            Unit::BytesPerSecond | Unit::OperationsPerSecond | Unit::ItemsPerSecond => {
                Some(Direction::HigherIsBetter)
            }
            Unit::Nanoseconds => Some(Direction::LowerIsBetter),
            Unit::Operations | Unit::FlushesPerSecond | Unit::Extents | Unit::Share | Unit::Number => None,
        }
    }
}

/// A unit in which programs and tables print values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it; decimal prefixes are powers of 1000, binary ones of 1024")]
pub enum PrintedUnit {
    BytesPerSecond,
    KilobytesPerSecond,
    KibibytesPerSecond,
    MegabytesPerSecond,
    MebibytesPerSecond,
    GigabytesPerSecond,
    GibibytesPerSecond,
    OperationsPerSecond,
    PerSecond,
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Percent,
    Operations,
}

impl PrintedUnit {
    const ALL: [PrintedUnit; 15] = [
        PrintedUnit::BytesPerSecond,
        PrintedUnit::KilobytesPerSecond,
        PrintedUnit::KibibytesPerSecond,
        PrintedUnit::MegabytesPerSecond,
        PrintedUnit::MebibytesPerSecond,
        PrintedUnit::GigabytesPerSecond,
        PrintedUnit::GibibytesPerSecond,
        PrintedUnit::OperationsPerSecond,
        PrintedUnit::PerSecond,
        PrintedUnit::Nanoseconds,
        PrintedUnit::Microseconds,
        PrintedUnit::Milliseconds,
        PrintedUnit::Seconds,
        PrintedUnit::Percent,
        PrintedUnit::Operations,
    ];
    /// Those of times, the shortest first.
    pub const TIMES: [PrintedUnit; 4] = [
        PrintedUnit::Nanoseconds,
        PrintedUnit::Microseconds,
        PrintedUnit::Milliseconds,
        PrintedUnit::Seconds,
    ];
    /// The symbols that other programs print for the same units.
    const ALIASES: [(&str, PrintedUnit); 3] = [
        ("KB/s", PrintedUnit::KilobytesPerSecond),
        ("IOPS", PrintedUnit::OperationsPerSecond),
        ("tps", PrintedUnit::PerSecond),
    ];

    /// The symbol, what it counts, and how many base units one of it is.
    const fn facts(self) -> (&'static str, Unit, f64) {
        match self {
            PrintedUnit::BytesPerSecond => ("B/s", Unit::BytesPerSecond, 1.0),
            PrintedUnit::KilobytesPerSecond => ("kB/s", Unit::BytesPerSecond, 1e3),
            PrintedUnit::KibibytesPerSecond => ("KiB/s", Unit::BytesPerSecond, 1024.0),
            PrintedUnit::MegabytesPerSecond => ("MB/s", Unit::BytesPerSecond, 1e6),
            PrintedUnit::MebibytesPerSecond => ("MiB/s", Unit::BytesPerSecond, 1_048_576.0),
            PrintedUnit::GigabytesPerSecond => ("GB/s", Unit::BytesPerSecond, 1e9),
            PrintedUnit::GibibytesPerSecond => ("GiB/s", Unit::BytesPerSecond, 1_073_741_824.0),
            PrintedUnit::OperationsPerSecond => ("ops/s", Unit::OperationsPerSecond, 1.0),
            PrintedUnit::PerSecond => ("/s", Unit::ItemsPerSecond, 1.0),
            PrintedUnit::Nanoseconds => ("ns", Unit::Nanoseconds, 1.0),
            PrintedUnit::Microseconds => ("us", Unit::Nanoseconds, 1e3),
            PrintedUnit::Milliseconds => ("ms", Unit::Nanoseconds, 1e6),
            PrintedUnit::Seconds => ("s", Unit::Nanoseconds, 1e9),
            PrintedUnit::Percent => ("%", Unit::Share, 0.01),
            PrintedUnit::Operations => ("ops", Unit::Operations, 1.0),
        }
    }

    /// The symbol after a number.
    pub const fn symbol(self) -> &'static str {
        self.facts().0
    }

    /// Returns the unit of which it is a multiple or a fraction.
    pub const fn unit(self) -> Unit {
        self.facts().1
    }

    /// Returns the number of base units in one of it: 10^6 for MB/s.
    pub const fn factor(self) -> f64 {
        self.facts().2
    }

    /// The one with this symbol, or with a name that other programs have for it.
    pub fn named(symbol: &str) -> Option<Self> {
        Self::symbols().find(|(known, _)| *known == symbol).map(|(_, unit)| unit)
    }

    /// The one that is meant, however it is spelled (`MB/sec`, `usec`, `µs`, `iops`), with its usual symbol.
    ///
    /// `Mb/s` and `mbps` are none, because they may be bits.
    pub fn spelled(text: &str) -> Option<(&'static str, Self)> {
        let text = text.trim().replace(['\u{b5}', '\u{3bc}'], "u");
        if let Some(known) = Self::symbols().find(|(known, _)| *known == text) {
            return Some(known);
        }
        let symbol = match text.to_ascii_lowercase().as_str() {
            "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => "ns",
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => "us",
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => "ms",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            "percent" | "pct" => "%",
            "iops" => "IOPS",
            "tps" => "tps",
            "qps" | "rps" => "/s",
            _ => rate(&text)?,
        };
        Self::symbols().find(|(known, _)| *known == symbol)
    }

    /// Everything that [`PrintedUnit::named`] knows.
    pub fn symbols() -> impl Iterator<Item = (&'static str, Self)> {
        Self::ALL.into_iter().map(|unit| (unit.symbol(), unit)).chain(Self::ALIASES)
    }
}

/// The symbol of a rate: `MB/sec`, `MiB per second`, `MBps`, `requests/s`.
fn rate(text: &str) -> Option<&'static str> {
    const PER_SECOND: [&str; 9] =
        ["/seconds", "/second", "/secs", "/sec", "/s", " per seconds", " per second", " per sec", " per s"];
    let lower = text.to_ascii_lowercase();
    let long = PER_SECOND.iter().find_map(|suffix| lower.strip_suffix(suffix));
    // Lower case in `Mbps` and `mbps` means bits.
    let short = || text.strip_suffix("Bps").map(|prefix| prefix.len() + 1);
    let amount = text[..long.map(str::len).or_else(short)?].trim();
    // A prefix in upper case and a lower-case b are bits.
    if amount.starts_with(|c: char| c.is_ascii_uppercase()) && amount.ends_with('b') {
        return None;
    }
    Some(match amount.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => "B/s",
        "kb" | "kbyte" | "kbytes" => "kB/s",
        "kib" => "KiB/s",
        "mb" | "mbyte" | "mbytes" => "MB/s",
        "mib" => "MiB/s",
        "gb" | "gbyte" | "gbytes" => "GB/s",
        "gib" => "GiB/s",
        "op" | "ops" | "operations" | "io" | "ios" | "i/os" => "ops/s",
        "" | "1" | "files" | "entries" | "transactions" | "trans" | "txns" | "requests" | "reqs" | "req"
        | "queries" => "/s",
        _ => return None,
    })
}

impl fmt::Display for PrintedUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// More is better.
    HigherIsBetter,
    /// Less is better.
    LowerIsBetter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_in_any_usual_spelling() {
        for (symbol, spellings) in [
            ("MB/s", &["MB/sec", "MB/Sec", "mb/s", "MBps", "MB per second", "Mbytes/sec", " MB/s "][..]),
            ("MiB/s", &["MiB/sec", "mib/s", "MiBps"]),
            ("kB/s", &["kB/sec", "kbytes/s", "kBps", "kb/s"]),
            ("KB/s", &["KB/s"]),
            ("us", &["usec", "\u{b5}s", "\u{3bc}s", "\u{b5}sec", "microseconds"]),
            ("ms", &["msec", "MS", "milliseconds"]),
            ("s", &["sec", "seconds", "S"]),
            ("IOPS", &["iops", "IOps"]),
            ("ops/s", &["ops/sec", "op/s", "IO/s", "operations/second"]),
            ("/s", &["files/s", "1/s", "requests/sec", "entries/s"]),
        ] {
            for spelling in spellings {
                assert_eq!(
                    PrintedUnit::spelled(spelling).map(|(known, _)| known),
                    Some(symbol),
                    "{spelling}"
                );
            }
        }
    }

    #[test]
    fn what_may_be_bits_or_is_unknown_is_no_unit() {
        for text in ["Mb/s", "Kb/sec", "Mbps", "mbps", "gbps", "Gb/s", "mails/s", "points", "", "min", "ps"] {
            assert_eq!(PrintedUnit::spelled(text), None, "{text}");
        }
    }
}
