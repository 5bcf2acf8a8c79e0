//! What the values of measures count, and which way is better.

use std::fmt;

/// What a value counts.
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
    /// What an imported table counts; the name of the measure has the unit.
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
    /// What other programs print for the same.
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

    /// What it counts.
    pub const fn unit(self) -> Unit {
        self.facts().1
    }

    /// How many base units one of it is: 10^6 for MB/s.
    pub const fn factor(self) -> f64 {
        self.facts().2
    }

    /// The one with this symbol, or with a name that other programs have for it.
    pub fn named(symbol: &str) -> Option<Self> {
        Self::symbols().find(|(known, _)| *known == symbol).map(|(_, unit)| unit)
    }

    /// Everything that [`PrintedUnit::named`] knows.
    pub fn symbols() -> impl Iterator<Item = (&'static str, Self)> {
        Self::ALL.into_iter().map(|unit| (unit.symbol(), unit)).chain(Self::ALIASES)
    }
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
