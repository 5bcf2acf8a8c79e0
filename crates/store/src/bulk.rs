//! The bulky parts of a trial, apart from the rest of it: histograms, timelines, slow operations and
//! telemetry samples.
//!
//! They make up nine tenths of a trial, and few readers need them: every measure and most tables do without.
//! The format is binary and designed to be compressed. Numbers that belong together are stored together, byte
//! by byte: first the lowest byte of each, then the next. A reader trusts no length.
//!
//! ```text
//! version  1 byte, 1
//! count    of operations
//! then for each operation   length and bytes of the histogram (HdrHistogram V2, compressed)
//! then for each operation   interval_ns, and the columns count, sum_ns, max_ns and bytes
//! then for each operation   the columns start_ns, duration_ns (difference from the previous one) and length
//!                           of path; then the paths
//! count    of phases with telemetry
//! then for each of these    length and bytes of the samples, a JSON list
//! ```
//!
//! A single number is LEB128. A column is the number of its values and, if there are any, the size of the
//! largest in bytes (1 byte) and that many planes.

use crate::error::{Result, StoreError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::result::{OperationResult, SlowOperation, Timeline};
use fsdyno_core::telemetry::Sample;
use fsdyno_core::{Nanos, TrialRecord};

const VERSION: u8 = 1;

/// Takes the bulky parts out of a trial.
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
    let mut bytes = vec![VERSION];
    put(&mut bytes, operations.len() as u64);
    for result in &operations {
        let histogram = BASE64_STANDARD
            .decode(&result.histogram)
            .map_err(|source| StoreError::Histogram { operation: result.operation, source })?;
        put_bytes(&mut bytes, &histogram);
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

/// Puts back what [`take`] took, or says what is wrong with it.
pub(crate) fn put_back(record: &mut TrialRecord, bytes: &[u8]) -> std::result::Result<(), String> {
    let mut from = Bytes(bytes);
    match from.byte()? {
        VERSION => {}
        version => return Err(format!("unknown version {version} of its bulk data")),
    }
    if from.number()? != operations(record).count() as u64 {
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
        result.slowest = from.slowest()?;
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

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_bytes(bytes: &mut Vec<u8>, part: &[u8]) {
    put(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

fn put_column(bytes: &mut Vec<u8>, values: &[u64]) {
    put(bytes, values.len() as u64);
    let Some(largest) = values.iter().max() else { return };
    let width = (8 - largest.leading_zeros() / 8).max(1);
    bytes.push(width as u8);
    for plane in 0..width {
        bytes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
}

/// The longest comes first, so that the differences are small.
fn put_slowest(bytes: &mut Vec<u8>, slowest: &[SlowOperation]) {
    let column = |of: fn(&SlowOperation) -> u64| slowest.iter().map(of).collect::<Vec<u64>>();
    put_column(bytes, &column(|one| one.start_ns));
    let mut before = 0;
    let mut difference = |duration_ns: u64| {
        let difference = duration_ns.wrapping_sub(before) as i64;
        before = duration_ns;
        ((difference << 1) ^ (difference >> 63)) as u64
    };
    let differences: Vec<u64> = slowest.iter().map(|one| difference(one.duration_ns)).collect();
    put_column(bytes, &differences);
    put_column(bytes, &column(|one| one.path.len() as u64));
    slowest.iter().for_each(|one| bytes.extend_from_slice(one.path.as_bytes()));
}

/// The bytes not yet read.
struct Bytes<'a>(&'a [u8]);

const SHORT: &str = "its bulk data ends too early";

impl<'a> Bytes<'a> {
    fn take(&mut self, length: u64) -> std::result::Result<&'a [u8], String> {
        let (part, rest) =
            usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length)).ok_or(SHORT)?;
        self.0 = rest;
        Ok(part)
    }

    fn byte(&mut self) -> std::result::Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> std::result::Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number in its bulk data is too long".to_string())
    }

    fn bytes(&mut self) -> std::result::Result<&'a [u8], String> {
        let length = self.number()?;
        self.take(length)
    }

    /// A column. It has at least one byte for each value, so it is never longer than the remaining bytes.
    fn column(&mut self) -> std::result::Result<Vec<u64>, String> {
        let length = self.number()?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let width = match self.byte()? {
            width @ 1..=8 => width,
            width => return Err(format!("a number in its bulk data has {width} bytes")),
        };
        let mut values: Vec<u64> = self.take(length)?.iter().copied().map(u64::from).collect();
        for plane in 1..width {
            for (value, byte) in values.iter_mut().zip(self.take(length)?) {
                *value |= u64::from(*byte) << (8 * plane);
            }
        }
        Ok(values)
    }

    fn slowest(&mut self) -> std::result::Result<Vec<SlowOperation>, String> {
        let (starts, differences, lengths) = (self.column()?, self.column()?, self.column()?);
        if starts.len() != differences.len() || starts.len() != lengths.len() {
            return Err("the columns of slow operations in its bulk data differ in length".to_string());
        }
        let mut duration_ns = 0_u64;
        let mut slowest = Vec::with_capacity(starts.len());
        for ((start_ns, difference), length) in starts.into_iter().zip(differences).zip(lengths) {
            duration_ns = duration_ns.wrapping_add((difference >> 1) ^ (difference & 1).wrapping_neg());
            let path = std::str::from_utf8(self.take(length)?).map_err(|error| error.to_string())?;
            slowest.push(SlowOperation { start_ns, duration_ns, path: path.to_string() });
        }
        Ok(slowest)
    }
}
