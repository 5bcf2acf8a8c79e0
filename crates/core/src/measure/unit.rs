//! What the values of measures count, and which way is better.

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
            Unit::BytesPerSecond => "MB/s",
            Unit::OperationsPerSecond => "ops/s",
            Unit::ItemsPerSecond => "/s",
            Unit::Nanoseconds => "ns",
            Unit::Operations => "ops",
            Unit::FlushesPerSecond => "flushes/s",
            Unit::Extents => "/file",
            Unit::Share => "%",
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
            Unit::BytesPerSecond => value / 1e6,
            Unit::Share => value * 100.0,
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

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// More is better.
    HigherIsBetter,
    /// Less is better.
    LowerIsBetter,
}
