//! Writes a table as FsOpBench printed it, column by column, so that it can be compared with a published one.
//!
//! The layout is the published one to the byte: the widths below are its `printf` widths, and longer numbers
//! make their line longer, as they did there. Two things are added. A lower bound has `>=`, which takes the
//! place of blanks before it. A statistic of no operations is `-`.

use super::{LatencyRow, Number, ROWS, RowValues, STATISTICS, Table, Title};
use std::fmt;

/// Length of the rule below the name of a phase.
const PHASE_RULE: usize = 70;
/// The width of each of [`STATISTICS`].
const WIDTHS: [usize; STATISTICS.len()] = [5, 8, 6, 5, 7];

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title.to_string();
        writeln!(f, "{title}\n{}", "*".repeat(title.len()))?;
        for phase in &self.phases {
            writeln!(f, "\n{} ({})\n{}", phase.name, phase.window, "-".repeat(PHASE_RULE))?;
            for (index, row) in phase.rows.iter().enumerate() {
                if index > 0 && row.begins_a_role() {
                    writeln!(f)?;
                }
                writeln!(f, "{row}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}", self.kernel)?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl LatencyRow {
    fn begins_a_role(&self) -> bool {
        ROWS.iter().any(|rows| rows.latencies[0].0 == self.label)
    }
}

impl fmt::Display for LatencyRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |number: &Option<Number>| number.map_or("-".to_string(), |number| number.to_string());
        match &self.values {
            // `%-18scnt %6d   min %5.3f ms   max %8.3f ms   avg %6.3f ms   med %5.3f ms   std %7.3f`
            RowValues::Latency { count, milliseconds, .. } => {
                let columns: Vec<String> = (0..STATISTICS.len())
                    .map(|at| column(STATISTICS[at], WIDTHS[at], &text(&milliseconds[at])))
                    .collect();
                write!(f, "{:<18}cnt {count:>6}{}", self.label, columns.join(" ms"))
            }
            // `%-16s%7.3f MB/s (data) %7.3f MB/s (...)`
            RowValues::Rate { data, with_overhead } => {
                let overhead =
                    ROWS.iter().find(|rows| rows.rate == self.label).map_or("", |rows| rows.overhead);
                let (data, all) = (text(data), text(with_overhead));
                write!(f, "{:<16}{data:>7} MB/s (data) {all:>7} MB/s ({overhead})", self.label)
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:.3}", if self.at_least { ">=" } else { "" }, self.value)
    }
}

/// Three blanks, a name, a blank and a number in `width`. A lower bound needs two more columns: it takes them
/// from the blanks before the name, and as a last resort the one after it, so that the following columns stay
/// in place.
fn column(name: &str, width: usize, value: &str) -> String {
    if !value.starts_with(">=") {
        return format!("   {name} {value:>width$}");
    }
    let whole = 3 + name.len() + 1 + width;
    let spaced = format!("{name} {value}");
    let text = if spaced.len() < whole { spaced } else { format!("{name}{value}") };
    let text = format!("{text:>whole$}");
    if text.starts_with(' ') { text } else { format!(" {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsopbench::{TablePhase, parse};
    use fsdyno_core::{Operation, Role};
    use proptest::prelude::*;

    /// Rows of the published tables, <https://insights.oetiker.ch/linux/fsopbench/>.
    const PUBLISHED: &str = include_str!("../../captured/fsopbench-2009.txt");

    fn number(value: f64, at_least: bool) -> Option<Number> {
        Some(Number { value, at_least })
    }

    fn mkdir(count: u64, milliseconds: [Option<Number>; 5]) -> LatencyRow {
        let values = RowValues::Latency { operation: Operation::Mkdirat, count, milliseconds };
        LatencyRow { label: "I mkdir", role: Role::Writer, values }
    }

    #[test]
    fn published_tables_come_out_row_by_row() {
        let rows = |text: &str| -> Vec<String> {
            let of_row = |line: &&str| line.contains(" ms ") || line.contains("MB/s");
            text.lines().filter(of_row).map(str::to_string).collect()
        };
        let tables = parse(PUBLISHED).unwrap();
        let printed: String = tables.iter().map(Table::to_string).collect();
        assert!(
            rows(PUBLISHED).len() > 40 && PUBLISHED.contains("19592.233") && PUBLISHED.contains("522.051")
        );
        assert_eq!(rows(&printed), rows(PUBLISHED));
        for (table, text) in tables.iter().zip(PUBLISHED.lines().filter(|line| line.starts_with("Linux "))) {
            assert_eq!(table.title.to_string(), text);
        }
    }

    #[test]
    fn lower_bounds_keep_the_columns_in_place() {
        let exact = column("max", 8, "78.354");
        for bound in [">=0.123", ">=78.354", ">=925.522", ">=9999.999", ">=30000.000"] {
            let text = column("max", 8, bound);
            assert_eq!(text.len(), exact.len(), "{text}");
            assert!(text.starts_with(' ') && text.ends_with(bound), "{text}");
        }
    }

    #[test]
    fn a_statistic_of_no_operations_is_not_zero() {
        assert_eq!(
            mkdir(0, [None; 5]).to_string(),
            "I mkdir           cnt      0   min     - ms   max        - ms   avg      - ms   med     - \
             ms   std       -"
        );
        assert_eq!(
            mkdir(0, [None, number(30_000.0, true), None, None, None]).to_string(),
            "I mkdir           cnt      0   min     - ms max>=30000.000 ms   avg      - ms   med     - \
             ms   std       -"
        );
        let values = RowValues::Rate { data: None, with_overhead: None };
        assert_eq!(
            LatencyRow { label: ROWS[1].rate, role: Role::Writer, values }.to_string(),
            "J write rate          - MB/s (data)       - MB/s (open + 1st byte + data + close)"
        );
    }

    fn printed_number() -> impl Strategy<Value = Option<Number>> {
        // Three decimals are printed.
        let number = |(thousandths, at_least)| Number { value: f64::from(thousandths) / 1e3, at_least };
        prop::option::of((0..u32::MAX, any::<bool>()).prop_map(number))
    }

    fn rows(of: &'static super::super::RoleRows) -> impl Strategy<Value = Vec<LatencyRow>> {
        let values = prop::array::uniform5(printed_number());
        let latencies = prop::collection::vec((any::<u64>(), values), of.latencies.len());
        (latencies, printed_number(), printed_number()).prop_map(|(latencies, data, with_overhead)| {
            let latencies = of.latencies.iter().zip(latencies);
            let rows = latencies.map(|((label, operation), (count, milliseconds))| {
                let values = RowValues::Latency { operation: *operation, count, milliseconds };
                LatencyRow { label, role: of.role, values }
            });
            let values = RowValues::Rate { data, with_overhead };
            rows.chain([LatencyRow { label: of.rate, role: of.role, values }]).collect()
        })
    }

    proptest! {
        /// Whatever is written is read back, to the last digit printed.
        #[test]
        fn what_is_written_is_read_back(readers in rows(&ROWS[0]), writers in rows(&ROWS[1])) {
            let table = Table {
                title: Title {
                    kernel: "6.18.44".to_string(),
                    flags: vec!["relatime".to_string()],
                    settings: [("fs", "ext4"), ("disk", "areca RAID6")]
                        .map(|(name, value)| (name.to_string(), value.to_string()))
                        .to_vec(),
                },
                phases: vec![
                    TablePhase { name: "1 \
                        readers".to_string(), window: "0.5s".to_string(), rows: readers.clone() },
                    TablePhase {
                        name: "3 readers, 3 writers".to_string(),
                        window: "30s".to_string(),
                        rows: [writers, readers].concat(),
                    },
                ],
            };
            prop_assert_eq!(parse(&table.to_string()).unwrap(), [table]);
        }
    }
}
