//! Names of generated files and directories: letters, a number that makes them unique, and an extension.

use rand::Rng;
use std::ffi::CStr;
use std::fmt;

/// The longest name that Linux filesystems accept, in bytes.
const LONGEST: usize = 255;

/// Extensions of files. Their shares do not matter, only that names differ in length and kind.
const ENDINGS: [&[u8]; 16] = [
    b".txt", b".jpg", b".html", b".c", b".h", b".pdf", b".png", b".o", b".py", b".xml", b".doc", b".gif",
    b".js", b".log", b"", b"",
];

/// Consonants and vowels in turn make names that can be read.
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

/// A name without memory of its own, ready for a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; LONGEST + 1],
    length: u8,
}

impl Name {
    /// A name of about this length: letters, then `number`, then an extension if it is a file. Two names with
    /// different numbers differ: the number comes right after letters and before a dot or the end.
    pub(super) fn random(random: &mut impl Rng, length: u64, number: u64, directory: bool) -> Self {
        let mut name = Name { bytes: [0; LONGEST + 1], length: 0 };
        let mut bits = random.next_u64();
        let ending = if directory { b"" } else { ENDINGS[(bits % 16) as usize] };
        bits >>= 4;
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let ending = if length as usize > ending.len() + digits { ending } else { b"" };
        let letters = (length as usize).min(LONGEST).saturating_sub(ending.len() + digits).max(1);
        for position in 0..letters {
            if position % 16 == 15 {
                bits = random.next_u64();
            }
            name.push(if position % 2 == 0 {
                CONSONANTS[(bits % 16) as usize]
            } else {
                VOWELS[(bits >> 4) as usize % 4]
            });
            bits >>= if position % 2 == 0 { 0 } else { 6 };
        }
        let mut divisor = 10_u64.pow(digits as u32 - 1);
        while divisor > 0 {
            name.push(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
        ending.iter().for_each(|byte| name.push(*byte));
        name
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.length)] = byte;
        self.length += 1;
    }

    /// The name as a C string, for system calls.
    pub fn as_c_str(&self) -> &CStr {
        // The bytes after the name are zero.
        CStr::from_bytes_with_nul(&self.bytes[..=usize::from(self.length)]).unwrap_or(c"_")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_c_str().fmt(f)
    }
}
