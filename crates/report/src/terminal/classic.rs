//! A case in the traditional layout of its workload.

use super::compatible::compatible;
use super::external::external;
use super::style::Style;
use super::{bonnie, collection, curve, device_read, faults, losses, postmark, scaling, streaming};
use fsdyno_core::Workload;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Writes a case in the traditional layout of its workload.
///
/// # Errors
/// Those of `out`.
pub fn classic(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    match &case.workload {
        Workload::DeviceRead(parameters) => device_read::device_read(out, case, parameters, style),
        Workload::Streaming(_) => streaming::streaming(out, case, style),
        Workload::External(_) => external(out, case, style),
        Workload::Collection(_) => collection::table(out, case, style),
        Workload::Postmark(_) => postmark::report(out, case, style),
        Workload::Bonnie(_) => bonnie::bonnie(out, case, style),
        Workload::Fileserver(_) | Workload::Null(_) => compatible(out, case, style),
        Workload::Durability(_) => losses::models(out, case, *style),
        Workload::IoErrors(_) => faults::faults(out, case, *style),
        Workload::Flow(_) => {
            curve::curves(out, case, *style)?;
            scaling::scaling(out, case, *style)
        }
        // No study or program has a table of it, and the summary shows everything.
        _ => Ok(()),
    }
}
