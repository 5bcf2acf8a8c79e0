//! Numbers as bytes that are designed to be compressed. A reader trusts no length.
//!
//! A single number is LEB128. A column is the number of its values and, if there are any, the size of the
//! largest in bytes (1 byte) and that many planes: first the lowest byte of each value, then the next.

/// The value that was read, or the reason why there is none.
pub(crate) type Parsed<T> = Result<T, String>;

const SHORT: &str = "its bulk data ends too early";

pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn put_bytes(bytes: &mut Vec<u8>, part: &[u8]) {
    put(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

pub(crate) fn put_column(bytes: &mut Vec<u8>, values: &[u64]) {
    put(bytes, values.len() as u64);
    let Some(largest) = values.iter().max() else { return };
    let width = (8 - largest.leading_zeros() / 8).max(1);
    bytes.push(width as u8);
    for plane in 0..width {
        bytes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
}

/// A signed number as a small positive one: 0, -1, 1, -2.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The number of a [`zigzag`].
pub(crate) fn signed(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}

/// The bytes not yet read.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, length: u64) -> Parsed<&'a [u8]> {
        let (part, rest) =
            usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length)).ok_or(SHORT)?;
        self.0 = rest;
        Ok(part)
    }

    pub(crate) fn byte(&mut self) -> Parsed<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Parsed<u64> {
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

    pub(crate) fn bytes(&mut self) -> Parsed<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    /// A column. It has at least one byte for each value, so it is never longer than the remaining bytes.
    pub(crate) fn column(&mut self) -> Parsed<Vec<u64>> {
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
}
