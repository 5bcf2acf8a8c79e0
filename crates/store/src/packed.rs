//! A trial as the store keeps it: its public JSON without what is long, and what is long, each compressed.

use crate::bulk;
use crate::error::{Result, StoreError};
use fsdyno_core::TrialRecord;
use std::io::{self, Read};

/// Most bytes of a document, uncompressed: a hundred times those of a thousand workers.
const DOCUMENT_MAX: usize = 32 << 20;
/// Most bytes of what is long, uncompressed; the longest that were seen have less than a hundredth.
const BULK_MAX: usize = 128 << 20;
/// A trial is compressed once, in some ten milliseconds. Higher levels take much longer for a hundredth less.
const LEVEL: i32 = 9;

/// What a row holds.
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
            document: compress(record.trial, "its document", &document, DOCUMENT_MAX)?,
            bulk: compress(record.trial, "histograms, timelines and samples", &bulk, BULK_MAX)?,
        })
    }
}

/// The trial without what is long, which is empty.
pub(crate) fn outline(trial: u32, document: &[u8]) -> Result<TrialRecord> {
    if document.is_empty() {
        let reason = "it was so when the store was converted, and the copy has what there was".to_string();
        return Err(StoreError::DamagedTrial { trial, reason });
    }
    let read = decompress(document, DOCUMENT_MAX).map_err(|error| error.to_string());
    let read = read.and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()));
    read.map_err(|reason| StoreError::DamagedTrial { trial, reason })
}

/// The trial, whole.
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

/// A few bytes may claim to be any number: no more than `most` are made of them.
fn decompress(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    /// 128 MiB, which is as far back as our own frames reach.
    const WINDOW_LOG_MAX: u32 = 27;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let mut plain = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(plain)
}
