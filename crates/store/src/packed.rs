//! A trial as it is stored: its public JSON without the bulky parts, and the bulky parts, each compressed.

use crate::bulk;
use crate::bytes::Parsed;
use crate::error::{Result, StoreError};
use fsdyno_core::TrialRecord;
use std::io::{self, Read as _};
use std::sync::LazyLock;
use zstd::bulk::Compressor;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::get_dict_id_from_frame;

/// The maximum size of a document in bytes, uncompressed: a hundred times that of a thousand workers.
const DOCUMENT_MAX: usize = 32 << 20;
/// The maximum size of the bulky parts in bytes, uncompressed; the largest seen have less than a hundredth of
/// it.
const BULK_MAX: usize = 128 << 20;
/// 128 MiB, the largest window of our own frames.
pub(crate) const WINDOW_LOG_MAX: u32 = 27;
/// A trial is compressed once, in about ten milliseconds. Level 9 takes a third of that and 7 % more space;
/// level 19 takes four times as long and saves 2 %.
const LEVEL: i32 = 13;

/// The text that most documents have in common, so that the first trial of a store is as small as the
/// hundredth.
///
/// Documents name it, so it never changes (`dictionary/README.md`).
const DICTIONARY: &[u8] = include_bytes!("dictionary/1.zdict");
static TO_WRITE: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static TO_READ: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

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
        let bulk = bulk::bound(&document, &bulk);
        let trial = record.trial;
        check(trial, "JSON", &document, DOCUMENT_MAX)?;
        check(trial, "histograms, timelines and samples", &bulk, BULK_MAX)?;
        Ok(Packed {
            document: compress(trial, &document, Compressor::with_prepared_dictionary(&TO_WRITE))?,
            bulk: compress(trial, &bulk, Compressor::new(LEVEL))?,
        })
    }
}

impl Packed {
    /// The size of the row.
    pub(crate) fn bytes(&self) -> u64 {
        (self.document.len() + self.bulk.len()) as u64
    }
}

/// The trial with empty bulky parts, or what is wrong with it.
pub(crate) fn outline(trial: u32, document: &[u8]) -> Parsed<TrialRecord> {
    outlined(trial, document).map(|(record, _)| record)
}

/// The whole trial, or what is wrong with it.
pub(crate) fn whole(trial: u32, document: &[u8], bulk: &[u8]) -> Parsed<TrialRecord> {
    let (mut record, json) = outlined(trial, document)?;
    let bulk = decompress(bulk, BULK_MAX)?;
    bulk::put_back(&mut record, &json, &bulk)?;
    Ok(record)
}

/// The trial with empty bulky parts, and its document.
fn outlined(trial: u32, document: &[u8]) -> Parsed<(TrialRecord, Vec<u8>)> {
    if document.is_empty() {
        return Err(
            "it is empty; if an older release upgraded the store, the copy from before has the original"
                .into(),
        );
    }
    let json = decompress(document, DOCUMENT_MAX)?;
    let record: TrialRecord = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    match record.trial {
        own if own == trial => Ok((record, json)),
        other => Err(format!("its document is that of trial {}", other + 1)),
    }
}

fn check(trial: u32, part: &'static str, plain: &[u8], most: usize) -> Result<()> {
    if plain.len() > most {
        return Err(StoreError::TooLong { trial, part, bytes: plain.len(), most });
    }
    Ok(())
}

fn compress(trial: u32, bytes: &[u8], with: io::Result<Compressor<'_>>) -> Result<Vec<u8>> {
    let compressed = with.and_then(|mut compressor| {
        // A disk that returns a wrong bit must not change a figure.
        compressor.include_checksum(true)?;
        compressor.compress(bytes)
    });
    compressed.map_err(|source| StoreError::Compress { trial, source })
}

/// A few bytes can decompress to any size; this produces at most `most`.
fn decompress(bytes: &[u8], most: usize) -> Parsed<Vec<u8>> {
    match decompressed(bytes, most) {
        Ok(plain) if plain.len() > most => Err(format!("it has more than {most} bytes")),
        Ok(plain) => Ok(plain),
        Err(error) => Err(format!("it cannot be decompressed ({error})")),
    }
}

/// As much of it as shows that it is too long.
fn decompressed(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut decoder = match get_dict_id_from_frame(bytes) {
        None => Decoder::with_buffer(bytes)?,
        Some(_) => Decoder::with_prepared_dictionary(bytes, &TO_READ)?,
    };
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let mut plain = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_with_the_dictionary_that_it_names() {
        let text = br#"{"trial":0,"outcome":"measured","phases":[],"warnings":[]}"#;
        let with = Compressor::with_prepared_dictionary(&TO_WRITE).unwrap().compress(text).unwrap();
        let without = zstd::bulk::compress(text, LEVEL).unwrap();
        assert!(with.len() < without.len(), "{} and {}", with.len(), without.len());
        for compressed in [&with, &without] {
            assert_eq!(decompress(compressed, DOCUMENT_MAX).unwrap(), text);
        }
        // What is stored already needs this very dictionary.
        assert_eq!(get_dict_id_from_frame(&with).map(|id| id.get()), Some(1_718_838_273));
        let (mut frame, dictionary) = (with, get_dict_id_from_frame(&without));
        assert_eq!(dictionary, None);
        frame[6] ^= 1;
        decompress(&frame, DOCUMENT_MAX).unwrap_err();
    }
}
