//! Limits for the figures in results.
//!
//! Results come from processes on broken filesystems, from guests and from files of unknown origin, and are
//! added up, multiplied and drawn. So impossible figures are rejected on input.

/// The largest figure: 104 days in nanoseconds, 9 PB; every program that reads JSON holds it exactly.
pub const LARGEST: u64 = 1 << 53;

/// Keys of moments on `CLOCK_MONOTONIC`, which counts from the start of the machine (clock_gettime(2)).
const MOMENTS: [&[u8]; 3] = [b"begin_ns", b"end_ns", b"began_ns"];

/// The largest moment: of a machine that has been up for 146 years.
const LATEST: u64 = 1 << 62;

/// log2 of the longest latency that a histogram has a bucket for, 2^42 ns = 73 min.
pub const LATENCY_BITS: u32 = 42;

/// The smallest number above zero that a measurement can produce, in any base unit. With smaller ones, ratios
/// overflow.
pub const SMALLEST: f64 = 1e-18;

/// Returns whether a measurement can produce this number.
pub fn is_possible(number: f64) -> bool {
    is_at_most(LARGEST, number)
}

fn is_at_most(largest: u64, number: f64) -> bool {
    number == 0.0 || (SMALLEST..=largest as f64).contains(&number.abs())
}

/// A sum that saturates at the largest number instead of wrapping around: its terms may come from a store
/// that somebody has modified.
pub fn total(figures: impl IntoIterator<Item = u64>) -> u64 {
    figures.into_iter().fold(0, u64::saturating_add)
}

/// Adds to a sum, as [`total`] does.
pub fn grow(sum: &mut u64, figure: u64) {
    *sum = sum.saturating_add(figure);
}

/// The first number in a JSON document that no measurement can produce.
pub fn impossible(json: &[u8]) -> Option<String> {
    let mut rest = json;
    let mut key: &[u8] = b"";
    while let Some(at) = rest.iter().position(|byte| *byte == b'"' || byte.is_ascii_digit()) {
        rest = &rest[at..];
        if rest[0] == b'"' {
            let string = &rest[1..];
            rest = after_string(string);
            key = string[..string.len() - rest.len()].strip_suffix(b"\"").unwrap_or_default();
            continue;
        }
        let length = rest.iter().position(|byte| !is_of_number(*byte)).unwrap_or(rest.len());
        let (number, later) = rest.split_at(length);
        let text = String::from_utf8_lossy(number);
        // The parser of the document rejects what is not a number.
        let largest = if MOMENTS.contains(&key) { LATEST } else { LARGEST };
        if text.parse().is_ok_and(|number| !is_at_most(largest, number)) {
            return Some(text.into_owned());
        }
        rest = later;
    }
    None
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

/// Returns the rest of the text after a string whose opening quote has been consumed.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = rest.iter().position(|byte| *byte == b'"' || *byte == b'\\') {
        let end = if rest[at] == b'"' { at + 1 } else { at + 2 };
        let quote = rest[at] == b'"';
        rest = rest.get(end..).unwrap_or_default();
        if quote {
            return rest;
        }
    }
    &[]
}

/// A quotient as it counts in a mean over trials. Its weight is the divisor, such as the seconds of a rate,
/// so that the mean of several rates is their total work over their total time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quotient {
    /// The quotient.
    pub value: f64,
    /// The divisor, positive. Where that is unknown, as the amount of work in some results from
    /// elsewhere, the work is taken to be the same in each trial.
    pub weight: f64,
}

impl Quotient {
    /// A quotient with this divisor.
    pub fn over(value: f64, divisor: f64) -> Self {
        let same_work = if value > 0.0 { 1.0 / value } else { 1.0 };
        Quotient { value, weight: if divisor > 0.0 { divisor } else { same_work } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_never_wraps_around() {
        assert_eq!((total([]), total([1, 2]), total([u64::MAX, 2, 3])), (0, 3, u64::MAX));
        let mut sum = u64::MAX - 1;
        grow(&mut sum, 1);
        grow(&mut sum, 1);
        assert_eq!(sum, u64::MAX);
    }

    #[test]
    fn impossible_figures_are_found() {
        for fine in [
            "",
            "{\"a\":[0,-1,9007199254740992,0.30000000000000004,1e15]}",
            "[\"9007199254740993\",\"\\\"18446744073709551615\"]",
            "\"never ends 18446744073709551615",
            "\"\\",
            // A machine that has been up for a year.
            "{\"clock\":{\"begin_ns\":31536000000000000,\"end_ns\":31536001000000000},\"began_ns\":31536000000000001}",
        ] {
            assert_eq!(impossible(fine.as_bytes()), None, "{fine}");
        }
        for (bad, which) in [
            ("[1,18446744073709551615]", "18446744073709551615"),
            ("{\"a\\\\\":-1e300}", "1e300"),
            ("9007199254740994", "9007199254740994"),
            ("{\"a\":\"b\",\"c\":1E+99}", "1E+99"),
            ("{\"begin_ns\":31536000000000000,\"window_ns\":31536000000000000}", "31536000000000000"),
            ("{\"begin_ns\":18446744073709551615}", "18446744073709551615"),
        ] {
            assert_eq!(impossible(bad.as_bytes()).as_deref(), Some(which), "{bad}");
        }
    }
}
