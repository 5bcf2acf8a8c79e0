//! The quantiles of latency distributions that are kept and shown: the only list of them, from which
//! statistics, tables, columns of exports and the JSON derive.

use std::fmt;

/// Declares the quantiles once: variant, name as in fio, label in tables and measures, fraction.
macro_rules! quantiles {
    ($($variant:ident = $name:literal, $label:literal, $fraction:literal;)*) => {
        /// A quantile of a latency distribution.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantile {
            $(#[doc = $label] $variant,)*
        }

        impl Quantile {
            /// Every quantile, from the lowest.
            pub const ALL: &'static [Quantile] = &[$(Quantile::$variant),*];

            /// The key in `percentile`, the percentage as fio prints it: `99.900000`.
            pub const fn name(self) -> &'static str {
                match self { $(Quantile::$variant => $name,)* }
            }

            /// The name in tables and measures: `p99.9`.
            pub const fn label(self) -> &'static str {
                match self { $(Quantile::$variant => $label,)* }
            }

            /// The share of operations that took no longer, 0 to 1.
            pub const fn fraction(self) -> f64 {
                match self { $(Quantile::$variant => $fraction,)* }
            }
        }
    };
}

quantiles! {
    P50 = "50.000000", "p50", 0.5;
    P90 = "90.000000", "p90", 0.9;
    P99 = "99.000000", "p99", 0.99;
    P999 = "99.900000", "p99.9", 0.999;
    P9999 = "99.990000", "p99.99", 0.9999;
}

impl Quantile {
    /// The quantile of this name in `percentile`.
    pub(crate) fn named(name: &str) -> Option<Quantile> {
        Quantile::ALL.iter().copied().find(|quantile| quantile.name() == name)
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}
