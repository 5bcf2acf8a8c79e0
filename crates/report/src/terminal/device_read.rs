//! The lines of `hdparm -tT`, each followed by the latency of a single read.

use super::compatible;
use super::style::{Paint, Style};
use fsdyno_core::result::Quantile;
use fsdyno_core::workload::DeviceRead;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, PhaseView};
use std::io::{self, Write};

/// Writes the lines of a case. An MB has 2^20 bytes here, as in hdparm.
///
/// # Errors
/// Those of `out`.
pub(super) fn device_read(
    out: &mut dyn Write,
    case: &CaseView,
    parameters: &DeviceRead,
    style: &Style,
) -> io::Result<()> {
    let header = compatible::header(case);
    writeln!(out, "{}", style.paint(Paint::Heading, &header))?;
    writeln!(out, "{}", "*".repeat(header.len()))?;
    for phase in &case.phases {
        write_phase(out, phase, parameters.block.0)?;
    }
    Ok(())
}

/// ` Timing cached reads:   13508 MB in  3.00 seconds = 4502.67 MB/sec`
fn write_phase(out: &mut dyn Write, phase: &PhaseView, block: u64) -> io::Result<()> {
    const MIB: f64 = (1 << 20) as f64;
    let Some(role) = phase.roles.first() else { return Ok(()) };
    let title = match phase.name.as_str() {
        "buffered reads" => "buffered disk reads".to_string(),
        name => name.to_string(),
    };
    let seconds = phase.window_ns.as_secs_f64();
    let rate = role.rates.aggregate_bytes_per_s / MIB;
    writeln!(
        out,
        " Timing {title:<20} {:>6.0} MB in {seconds:>5.2} seconds = {rate:>7.2} MB/sec",
        rate * seconds
    )?;
    for operation in role.operations.iter().filter(|operation| operation.latency.count > 0) {
        let of = |ns: u64| text::time(operation.time(ns));
        let latency = &operation.latency;
        writeln!(
            out,
            "   per read of {}: median {}, p99 {}, max {}",
            fsdyno_core::Bytes(block),
            of(latency.median()),
            latency.shown(Quantile::P99).map_or("-".to_string(), of),
            of(latency.max)
        )?;
    }
    Ok(())
}
