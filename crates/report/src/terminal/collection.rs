//! The table of `collection`: the tests, how long each took, and its rates in MB/s and files/s.

use super::style::{Paint, Style, write_table};
use comfy_table::Cell;
use fsdyno_verdict::text;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Writes the table of a case. For several trials it shows the means of times and rates.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Paint::Heading, &super::compatible::header(case)))?;
    writeln!(out, "{}", case.workload_title)?;
    let mut table = style.table(["test", "files", "seconds", "MB/s", "files/s"].map(str::to_string).to_vec());
    for phase in &case.phases {
        let Some(role) = phase.roles.first() else { continue };
        let rates = &role.rates;
        let moved = if rates.bytes == 0 {
            "-".to_string()
        } else {
            text::megabytes_per_s(rates.aggregate_bytes_per_s)
        };
        table.add_row([
            Cell::new(&phase.name),
            Cell::new(rates.items / case.trials.len().max(1) as u64),
            Cell::new(format!("{:.3}", phase.window_ns.0 as f64 / 1e9)),
            Cell::new(moved),
            Cell::new(text::number(rates.items_per_s)),
        ]);
    }
    write_table(out, table, *style)
}
