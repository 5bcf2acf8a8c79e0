//! Handmade trials of the workload `io-errors`.

use crate::{configuration, trial};
use fsdyno_core::durability::{Act, Fault};
use fsdyno_core::result::*;
use fsdyno_core::workload::{IoErrors, Workload};

/// Trials of one configuration that agree: flushes are never made, a fault of appended data is lost silently,
/// two faults of overwritten data are told once, and after one fault the filesystem cannot be mounted.
pub fn faulty_trials(count: u32) -> Vec<TrialRecord> {
    let of = |number| TrialRecord {
        workload: Workload::IoErrors(IoErrors::default()),
        phases: Vec::new(),
        warnings: Vec::new(),
        io_errors: Fault::ALL.into_iter().map(result).collect(),
        ..trial(number, number, 0, configuration("ext4", "none"), 0.0)
    };
    (0..count).map(of).collect()
}

fn result(fault: Fault) -> FaultResult {
    let eio = || Some("EIO".to_string());
    let kept = if fault.act() == Act::Read { Content::Old } else { Content::New };
    let seen = |first, again, usable| Some(Witnessed { first, again, reads: kept, usable });
    let kept = FaultResult {
        fault,
        failed: 1,
        witnessed: seen(eio(), None, Usable::Writable),
        mount_error: None,
        after: Some(kept),
        clean: Some(true),
    };
    match fault {
        Fault::AppendFlush | Fault::AppendFlushForGood => {
            FaultResult { failed: 0, witnessed: seen(None, None, Usable::Writable), ..kept }
        }
        Fault::AppendData => FaultResult {
            witnessed: seen(None, None, Usable::Writable),
            after: Some(Content::Missing),
            ..kept
        },
        Fault::OverwriteData | Fault::OverwriteDataForGood => {
            FaultResult { after: Some(Content::Old), ..kept }
        }
        Fault::OverwriteMetadataForGood => FaultResult {
            witnessed: seen(eio(), eio(), Usable::ReadOnly),
            mount_error: Some("Structure needs cleaning".to_string()),
            after: None,
            clean: None,
            ..kept
        },
        Fault::AppendMetadata => FaultResult { clean: Some(false), ..kept },
        _ => kept,
    }
}
