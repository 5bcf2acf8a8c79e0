//! A trial as it is stored: its public JSON without the bulky parts, and the bulky parts, each compressed.

use crate::bulk;
use crate::error::{Result, StoreError};
use fsdyno_core::TrialRecord;
use std::io::{self, Read};

/// The maximum size of a document in bytes, uncompressed: a hundred times that of a thousand workers.
const DOCUMENT_MAX: usize = 32 << 20;
/// The maximum size of the bulky parts in bytes, uncompressed; the largest seen have less than a hundredth of
/// it.
const BULK_MAX: usize = 128 << 20;
/// 128 MiB, the largest window of our own frames.
pub(crate) const WINDOW_LOG_MAX: u32 = 27;
/// A trial is compressed once, in about ten milliseconds. Higher levels take much longer and save only 1 %.
const LEVEL: i32 = 9;

/// The compressed parts of a row.
pub(crate) struct Packed {
    pub document: Vec<u8>,
    pub bulk: Vec<u8>,
}

impl Packed {
    pub(crate) fn new(record: &TrialRecord) -> Result<Self> {
        let mut record = record.clone();
        let bulk = bulk::take(&mut record)?;
        let document = serde_json::to_vec(&record)
            .map_err(|source| StoreError::Encode { what: "the record of a trial", source })?;
        Ok(Packed {
            document: compress(record.trial, "JSON", &document, DOCUMENT_MAX)?,
            bulk: compress(record.trial, "histograms, timelines and samples", &bulk, BULK_MAX)?,
        })
    }
}

impl Packed {
    /// The size of the row.
    pub(crate) fn bytes(&self) -> u64 {
        (self.document.len() + self.bulk.len()) as u64
    }
}

/// The trial with empty bulky parts.
pub(crate) fn outline(trial: u32, document: &[u8]) -> Result<TrialRecord> {
    if document.is_empty() {
        let reason =
            "it was already damaged when the store was converted; the copy contains the original".to_string();
        return Err(StoreError::DamagedTrial { trial, reason });
    }
    let read = decompress(document, DOCUMENT_MAX).map_err(|error| error.to_string());
    let read = read.and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()));
    read.map_err(|reason| StoreError::DamagedTrial { trial, reason })
}

/// The whole trial.
pub(crate) fn whole(trial: u32, document: &[u8], bulk: &[u8]) -> Result<TrialRecord> {
    let mut record = outline(trial, document)?;
    let bulk = decompress(bulk, BULK_MAX).map_err(|error| error.to_string());
    bulk.and_then(|bulk| bulk::put_back(&mut record, &bulk))
        .map_err(|reason| StoreError::DamagedTrial { trial, reason })?;
    Ok(record)
}

fn compress(trial: u32, part: &'static str, bytes: &[u8], most: usize) -> Result<Vec<u8>> {
    if bytes.len() > most {
        return Err(StoreError::TooLong { trial, part, bytes: bytes.len(), most });
    }
    zstd::bulk::compress(bytes, LEVEL).map_err(|source| StoreError::Compress { trial, source })
}

/// A few bytes can decompress to any size; this produces at most `most`.
fn decompress(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let mut plain = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(plain)
}
