//! A histogram as the counts of its buckets and the gaps between them.
//!
//! A histogram in HdrHistogram's compressed V2 form is deflated, which leaves nothing for another compressor
//! to do. The gaps and counts of all histograms of a trial, in one code that adapts to them, take a third
//! less. They are only used if they give back the same bytes; another deflate may give other bytes for the
//! same histogram.
//!
//! ```text
//! cookie   4 bytes, of the compressed form
//! length   4 bytes, of the rest, which is deflated:
//!   head     cookie (4 bytes), length of the payload (4), and 32 bytes about the buckets
//!   payload  ZigZag LEB128: the count of a bucket; or of a run of empty ones, 0 for one, else -length
//! ```
//!
//! Numbers of the heads are big endian. Source: <https://github.com/HdrHistogram/HdrHistogram>,
//! `AbstractHistogram.encodeIntoCompressedByteBuffer`.

use crate::bytes::{Bytes, Parsed, put, put_bytes, signed, zigzag};
use crate::coder::{Decisions, Numbers, Reader, Writer};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{Read as _, Write as _};

/// The head of the compressed form.
const OUTER: usize = 8;
/// The head inside, and where the length of the payload is in it.
const INNER: usize = 40;
const PAYLOAD_LENGTH: std::ops::Range<usize> = 4..8;
/// The maximum size of a histogram in bytes, inflated: 20 times that of one with a count in every bucket.
const HISTOGRAM_MAX: u64 = 4 << 20;

/// The maximum number of buckets that are not empty: a few more than a histogram of 3 digits can have.
const BUCKETS_MAX: u64 = 1 << 16;
/// The maximum of all histograms of a trial; the largest seen have a hundredth of it.
const ALL_BUCKETS_MAX: u64 = 1 << 24;

/// The forms in which a histogram is stored.
const AS_IT_IS: u8 = 0;
const AS_COUNTS: u8 = 1;

/// Adds the histograms of a trial, in the compressed V2 form or as any other bytes.
pub(crate) fn put_histograms(bytes: &mut Vec<u8>, histograms: &[Vec<u8>]) {
    let (mut model, mut code, mut all) = (Model::new(), Writer::new(), 0);
    for v2 in histograms {
        let counts = Counts::of(v2).filter(|counts| {
            let length = counts.gaps.len() as u64;
            let fits = length <= BUCKETS_MAX && all + length <= ALL_BUCKETS_MAX;
            fits && counts.v2().is_ok_and(|back| back == *v2)
        });
        let Some(counts) = counts else {
            bytes.push(AS_IT_IS);
            put_bytes(bytes, v2);
            continue;
        };
        bytes.push(AS_COUNTS);
        put_bytes(bytes, &counts.heads);
        put(bytes, counts.gaps.len() as u64);
        all += counts.gaps.len() as u64;
        model.begin();
        for (gap, count) in counts.gaps.iter().zip(&counts.counts) {
            model.code(&mut code, *gap, *count);
        }
    }
    put_bytes(bytes, &code.finish());
}

/// Reads the histograms that [`put_histograms`] added.
pub(crate) fn histograms(from: &mut Bytes<'_>, number: usize) -> Parsed<Vec<Vec<u8>>> {
    enum Form<'a> {
        AsItIs(&'a [u8]),
        AsCounts { heads: &'a [u8], buckets: u64 },
    }
    let mut all = 0_u64;
    let mut forms = Vec::new();
    for _ in 0..number {
        forms.push(match from.byte()? {
            AS_IT_IS => Form::AsItIs(from.bytes()?),
            AS_COUNTS => {
                let (heads, buckets) = (from.bytes()?, from.number()?);
                all = all.saturating_add(buckets);
                if buckets > BUCKETS_MAX || all > ALL_BUCKETS_MAX {
                    return Err("a histogram in its bulk data is too long".to_string());
                }
                Form::AsCounts { heads, buckets }
            }
            form => return Err(format!("a histogram in its bulk data has the unknown form {form}")),
        });
    }
    let (mut model, mut code) = (Model::new(), Reader::new(from.bytes()?));
    let mut histograms = Vec::with_capacity(forms.len());
    for form in forms {
        histograms.push(match form {
            Form::AsItIs(v2) => v2.to_vec(),
            Form::AsCounts { heads, buckets } => {
                model.begin();
                let (mut gaps, mut counts) = (Vec::new(), Vec::new());
                for _ in 0..buckets {
                    let (gap, count) = model.code(&mut code, 0, 1);
                    gaps.push(gap);
                    counts.push(count);
                }
                if code.is_short() {
                    return Err(broken());
                }
                Counts { heads: heads.to_vec(), gaps, counts }.v2()?
            }
        });
    }
    if code.is_at_the_end() { Ok(histograms) } else { Err(broken()) }
}

fn broken() -> String {
    "a histogram in its bulk data is broken".to_string()
}

/// The odds learnt of gaps and counts. Where buckets are close to each other and full, so are the next ones.
struct Model {
    gaps: Numbers,
    counts: Numbers,
    /// The last two gaps and counts, the latest first.
    last_gaps: [u64; 2],
    last_counts: [u64; 2],
}

impl Model {
    /// The maximum numbers of bits that contexts tell apart.
    const BEFORE_A_GAP: [usize; 2] = [6, 4];
    const BEFORE_A_COUNT: [usize; 2] = [7, 3];

    fn new() -> Self {
        let contexts = |most: [usize; 2]| Numbers::new((most[0] + 1) * (most[1] + 1));
        Model {
            gaps: contexts(Self::BEFORE_A_GAP),
            counts: contexts(Self::BEFORE_A_COUNT),
            last_gaps: [0; 2],
            last_counts: [0; 2],
        }
    }

    /// The next histogram.
    fn begin(&mut self) {
        (self.last_gaps, self.last_counts) = ([0; 2], [0; 2]);
    }

    /// Writes a gap and the count after it, which is not 0, or reads them.
    fn code(&mut self, coder: &mut impl Decisions, gap: u64, count: u64) -> (u64, u64) {
        let bits = |number: u64, most: usize| ((u64::BITS - number.leading_zeros()) as usize).min(most);
        let context = |most: [usize; 2], of: [u64; 2]| {
            bits(of[0].saturating_add(1), most[0]) * (most[1] + 1) + bits(of[1].saturating_add(1), most[1])
        };
        let sum = |last: [u64; 2]| last[0].saturating_add(last[1]);
        let before = context(Self::BEFORE_A_GAP, [sum(self.last_gaps), self.last_counts[0]]);
        let gap = self.gaps.code(coder, before, gap);
        let before = context(Self::BEFORE_A_COUNT, [sum(self.last_counts), gap]);
        // One more than what is coded, as counts are at least 1.
        let fewer = self.counts.code(coder, before, count - 1);
        self.last_gaps = [gap, self.last_gaps[0]];
        self.last_counts = [fewer, self.last_counts[0]];
        (gap, fewer.saturating_add(1))
    }
}

struct Counts {
    /// Both heads without the two lengths.
    heads: Vec<u8>,
    /// The number of empty buckets before each that is not empty.
    gaps: Vec<u64>,
    counts: Vec<u64>,
}

impl Counts {
    /// `None` if it is something else.
    fn of(v2: &[u8]) -> Option<Self> {
        let (outer, deflated) = v2.split_at_checked(OUTER)?;
        let mut plain = Vec::new();
        ZlibDecoder::new(deflated).take(HISTOGRAM_MAX).read_to_end(&mut plain).ok()?;
        let (inner, payload) = plain.split_at_checked(INNER)?;
        let (mut from, mut gaps, mut counts, mut gap) = (Bytes(payload), Vec::new(), Vec::new(), 0_u64);
        while !from.0.is_empty() {
            match signed(from.number().ok()?) {
                0 => gap = gap.checked_add(1)?,
                run @ ..0 => gap = gap.checked_add(run.unsigned_abs())?,
                count => {
                    gaps.push(std::mem::take(&mut gap));
                    counts.push(count as u64);
                }
            }
        }
        let heads =
            [&outer[..PAYLOAD_LENGTH.start], &inner[..PAYLOAD_LENGTH.start], &inner[PAYLOAD_LENGTH.end..]];
        Some(Counts { heads: heads.concat(), gaps, counts })
    }

    fn v2(&self) -> Parsed<Vec<u8>> {
        let (cookie, inner) = self.heads.split_at_checked(PAYLOAD_LENGTH.start).ok_or_else(broken)?;
        let (inner_cookie, inner) = inner.split_at_checked(PAYLOAD_LENGTH.start).ok_or_else(broken)?;
        if self.gaps.len() != self.counts.len() {
            return Err(broken());
        }
        let mut payload = Vec::with_capacity(4 * self.counts.len());
        for (gap, count) in self.gaps.iter().zip(&self.counts) {
            let (gap, count) = i64::try_from(*gap).ok().zip(i64::try_from(*count).ok()).ok_or_else(broken)?;
            match gap {
                0 => {}
                1 => put(&mut payload, 0),
                run => put(&mut payload, zigzag(-run)),
            }
            put(&mut payload, zigzag(count));
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map(u32::to_be_bytes).map_err(|_| broken());
        let plain = [inner_cookie, &length(&payload)?, inner, &payload].concat();
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::default());
        let deflated = deflated.write_all(&plain).and_then(|()| deflated.finish());
        let deflated = deflated.map_err(|error| error.to_string())?;
        Ok([cookie, &length(&deflated)?, &deflated].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    /// Returns the form in which a histogram is stored, and the histogram that comes back.
    fn there_and_back(v2: &[u8]) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        put_histograms(&mut bytes, &[v2.to_vec()]);
        let mut from = Bytes(&bytes);
        let mut back = histograms(&mut from, 1).unwrap();
        assert!(from.0.is_empty());
        (bytes[0], back.remove(0))
    }

    fn of(values: impl IntoIterator<Item = (u64, u64)>) -> Vec<u8> {
        let mut histogram: Histogram<u64> = Histogram::new(3).unwrap();
        values.into_iter().for_each(|(value, times)| histogram.saturating_record_n(value, times));
        let mut v2 = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut v2).unwrap();
        v2
    }

    #[test]
    fn our_own_come_back_as_they_were() {
        let many = (0..5_000_u64).map(|index| (index * index % 9_999_991, 1 + index % 7));
        for v2 in [
            of([(0, 1)]),
            of([(1, 1), (3, 1), (5, 2), (3_600_000_000_000, 1)]),
            of([(17, u64::MAX >> 9)]),
            of(many),
        ] {
            assert_eq!(there_and_back(&v2), (AS_COUNTS, v2));
        }
    }

    #[test]
    fn whatever_else_comes_back_as_it_was() {
        let good = of([(100, 3), (200, 4)]);
        let mut longer = good.clone();
        longer.push(0);
        // An empty one ends with an empty bucket, which is not before any.
        for other in [&b""[..], b"none", &good[..good.len() - 1], &longer, &of([])] {
            assert_eq!(there_and_back(other), (AS_IT_IS, other.to_vec()));
        }
    }

    #[test]
    fn several_come_back_in_order() {
        let all = [of([(100, 3), (200, 4)]), b"none".to_vec(), of([]), of([(7, 1), (1_000_000, 9)])];
        let mut bytes = Vec::new();
        put_histograms(&mut bytes, &all);
        assert_eq!(histograms(&mut Bytes(&bytes), all.len()).unwrap(), all);
    }

    #[test]
    fn a_damaged_one_is_an_error() {
        let mut bytes = Vec::new();
        put_histograms(&mut bytes, &[of([(100, 3), (200, 4)])]);
        for end in 0..bytes.len() {
            histograms(&mut Bytes(&bytes[..end]), 1).unwrap_err();
        }
        bytes[0] = 9;
        let error = histograms(&mut Bytes(&bytes), 1).unwrap_err();
        assert_eq!(error, "a histogram in its bulk data has the unknown form 9");
        let unequal = Counts { heads: vec![0; 40], gaps: vec![1], counts: Vec::new() };
        let beyond = Counts { heads: vec![0; 40], gaps: vec![u64::MAX], counts: vec![1] };
        let headless = Counts { heads: Vec::new(), gaps: Vec::new(), counts: Vec::new() };
        for broken in [unequal, beyond, headless] {
            assert_eq!(broken.v2().unwrap_err(), "a histogram in its bulk data is broken");
        }
    }

    #[test]
    fn a_few_bytes_do_not_become_many_buckets() {
        let claims = |buckets: u64, operations: usize| {
            let mut bytes = Vec::new();
            for _ in 0..operations {
                bytes.push(AS_COUNTS);
                put_bytes(&mut bytes, &[0; 40]);
                put(&mut bytes, buckets);
            }
            put_bytes(&mut bytes, &[0; 100]);
            histograms(&mut Bytes(&bytes), operations).unwrap_err()
        };
        assert_eq!(claims(u64::MAX, 1), "a histogram in its bulk data is too long");
        assert_eq!(claims(BUCKETS_MAX, 1_000), "a histogram in its bulk data is too long");
        assert_eq!(claims(BUCKETS_MAX, 1), "a histogram in its bulk data is broken");
    }
}
