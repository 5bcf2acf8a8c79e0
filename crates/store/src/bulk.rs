//! The bulky parts of a trial, apart from the rest of it: histograms, timelines, slow operations and
//! telemetry samples.
//!
//! They make up nine tenths of a trial, and few readers need them: every measure and most tables do without.
//! Numbers that belong together are stored together, in columns (`bytes.rs`).
//!
//! ```text
//! version  1 byte, 3; version 1, which release 0.2.0 wrote, has no sum
//! sum      4 bytes, the CRC-32 of the document that it belongs to
//! count    of operations
//! then for each operation   length and bytes of the histogram: HdrHistogram V2, compressed
//! then for each operation   interval_ns, and the columns count, sum_ns, max_ns and bytes
//! then for each operation   the columns start_ns, duration_ns (difference from the previous one) and length
//!                           of path; then the paths
//! count    of phases with telemetry
//! then for each of these    length and bytes of the samples, a JSON list
//! ```

use crate::bytes::{Bytes, Parsed, put, put_bytes, put_column, signed, zigzag};
use crate::error::{Result, StoreError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::result::{OperationResult, SlowOperation, Timeline};
use fsdyno_core::telemetry::Sample;
use fsdyno_core::{Nanos, TrialRecord};

const VERSION: u8 = 3;
/// That of release 0.2.0.
const WITHOUT_SUM: u8 = 1;
/// No release wrote this one.
const UNRELEASED: u8 = 2;

/// Takes the bulky parts out of a trial; [`bound`] completes them.
pub(crate) fn take(record: &mut TrialRecord) -> Result<Vec<u8>> {
    let samples: Vec<Vec<Sample>> = telemetries(record).map(std::mem::take).collect();
    let operations: Vec<OperationResult> = operations(record)
        .map(|result| OperationResult {
            operation: result.operation,
            censored: 0,
            lat_ns: Default::default(),
            histogram: std::mem::take(&mut result.histogram),
            timeline: std::mem::take(&mut result.timeline),
            slowest: std::mem::take(&mut result.slowest),
        })
        .collect();
    let mut bytes = Vec::new();
    put(&mut bytes, operations.len() as u64);
    for result in &operations {
        let v2 = BASE64_STANDARD.decode(&result.histogram);
        let v2 = v2.map_err(|source| StoreError::Histogram { operation: result.operation, source })?;
        put_bytes(&mut bytes, &v2);
    }
    for Timeline { interval_ns, count, sum_ns, max_ns, bytes: moved } in
        operations.iter().map(|result| &result.timeline)
    {
        put(&mut bytes, interval_ns.0);
        [count, sum_ns, max_ns, moved].into_iter().for_each(|column| put_column(&mut bytes, column));
    }
    for slowest in operations.iter().map(|result| &result.slowest) {
        put_slowest(&mut bytes, slowest);
    }
    put(&mut bytes, samples.len() as u64);
    for samples in &samples {
        let json = serde_json::to_vec(samples)
            .map_err(|source| StoreError::Encode { what: "telemetry samples", source })?;
        put_bytes(&mut bytes, &json);
    }
    Ok(bytes)
}

/// The bulky parts of a trial, bound to its document, so that those of another one are not taken for them.
pub(crate) fn bound(document: &[u8], parts: &[u8]) -> Vec<u8> {
    [&[VERSION], sum(document).as_slice(), parts].concat()
}

fn sum(document: &[u8]) -> [u8; 4] {
    crc32fast::hash(document).to_le_bytes()
}

/// Puts back what [`take`] took, or says what is wrong with it.
pub(crate) fn put_back(record: &mut TrialRecord, document: &[u8], bytes: &[u8]) -> Parsed<()> {
    let mut from = Bytes(bytes);
    let version = from.byte()?;
    match version {
        VERSION if from.take(4)? != sum(document) => {
            return Err("its bulk data is that of another trial".to_string());
        }
        VERSION | WITHOUT_SUM => {}
        UNRELEASED => {
            let next = "that version can pack the sweep, and this one unpack it";
            return Err(format!("a development version after 0.2.0 wrote its bulk data: {next}"));
        }
        version => return Err(format!("unknown version {version} of its bulk data")),
    }
    let number = operations(record).count();
    if from.number()? != number as u64 {
        return Err("its bulk data belongs to a different number of operations".to_string());
    }
    for result in operations(record) {
        result.histogram = BASE64_STANDARD.encode(from.bytes()?);
    }
    for result in operations(record) {
        result.timeline = Timeline {
            interval_ns: Nanos(from.number()?),
            count: from.column()?,
            sum_ns: from.column()?,
            max_ns: from.column()?,
            bytes: from.column()?,
        };
    }
    for result in operations(record) {
        result.slowest = slowest(&mut from)?;
    }
    if from.number()? != telemetries(record).count() as u64 {
        return Err("its bulk data belongs to a different number of phases".to_string());
    }
    for samples in telemetries(record) {
        *samples = serde_json::from_slice(from.bytes()?).map_err(|error| error.to_string())?;
    }
    if from.0.is_empty() { Ok(()) } else { Err("its bulk data is too long".to_string()) }
}

fn operations(record: &mut TrialRecord) -> impl Iterator<Item = &mut OperationResult> {
    record.phases.iter_mut().flat_map(|phase| &mut phase.roles).flat_map(|role| &mut role.operations)
}

fn telemetries(record: &mut TrialRecord) -> impl Iterator<Item = &mut Vec<Sample>> {
    let telemetries = record.phases.iter_mut().filter_map(|phase| phase.telemetry.as_mut());
    telemetries.map(|telemetry| &mut telemetry.samples)
}

/// The longest comes first, so that the differences are small.
fn put_slowest(bytes: &mut Vec<u8>, slowest: &[SlowOperation]) {
    let column = |of: fn(&SlowOperation) -> u64| slowest.iter().map(of).collect::<Vec<u64>>();
    put_column(bytes, &column(|one| one.start_ns));
    let mut before = 0;
    let mut difference = |duration_ns: u64| {
        let difference = duration_ns.wrapping_sub(before) as i64;
        before = duration_ns;
        zigzag(difference)
    };
    let differences: Vec<u64> = slowest.iter().map(|one| difference(one.duration_ns)).collect();
    put_column(bytes, &differences);
    put_column(bytes, &column(|one| one.path.len() as u64));
    slowest.iter().for_each(|one| bytes.extend_from_slice(one.path.as_bytes()));
}

fn slowest(from: &mut Bytes<'_>) -> Parsed<Vec<SlowOperation>> {
    let (starts, differences, lengths) = (from.column()?, from.column()?, from.column()?);
    if starts.len() != differences.len() || starts.len() != lengths.len() {
        return Err("the columns of slow operations in its bulk data differ in length".to_string());
    }
    let mut duration_ns = 0_u64;
    let mut slowest = Vec::with_capacity(starts.len());
    for ((start_ns, difference), length) in starts.into_iter().zip(differences).zip(lengths) {
        duration_ns = duration_ns.wrapping_add_signed(signed(difference));
        let path = std::str::from_utf8(from.take(length)?).map_err(|error| error.to_string())?;
        slowest.push(SlowOperation { start_ns, duration_ns, path: path.to_string() });
    }
    Ok(slowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::{Configuration, DeviceSpec, Outcome, Workload};

    #[test]
    fn a_form_that_no_release_wrote_is_named_with_the_way_out() {
        let device = DeviceSpec::Directory { path: "/srv".into() };
        let workload = Workload::Postmark(Default::default());
        let named = |text: &str| text.to_string();
        let (name, filesystem) = (named("ext4"), named(Configuration::EXISTING));
        let configuration = Configuration { name, filesystem, settings: Default::default() };
        let mut record = TrialRecord::new(configuration, device, workload, Outcome::Measured);
        let error = put_back(&mut record, b"", &[UNRELEASED]).unwrap_err();
        assert!(error.contains("can pack the sweep"), "{error}");
        let error = put_back(&mut record, b"", &[9]).unwrap_err();
        assert_eq!(error, "unknown version 9 of its bulk data");
        let own = bound(b"", &take(&mut record).unwrap());
        assert_eq!(put_back(&mut record, b"", &own), Ok(()));
    }
}
