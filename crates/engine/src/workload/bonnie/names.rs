//! Names, sizes and orders of the small files, each from the seed and the number of the file alone.
//!
//! The original keeps a list of names and shuffles it. Here a name is generated when it is needed, and a
//! random order is a permutation that can be evaluated at any position: memory does not grow with the files.

use crate::content::FileIdentity;
use crate::tree::derive_seed;
use fsdyno_core::workload::Bonnie;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ffi::CStr;

/// Random characters of a name, at most.
const LONGEST_EXTRA: usize = 12;
const CHARACTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// `00042/` + ten hexadecimal digits + random characters + NUL.
const LONGEST_NAME: usize = 6 + DIGITS + LONGEST_EXTRA + 1;
/// Digits of the number in a name.
const DIGITS: usize = 10;

/// The words that seeds are derived from, in addition to the seed of the trial.
const NAMES: u64 = 20;
const SIZES: u64 = 21;
const CONTENT: u64 = 22;

/// The naming scheme of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameOrder {
    /// Number first: names in the order in which files are created.
    Sequential,
    /// Number last: names in random order.
    Random,
}

/// The small files of one pass.
#[derive(Debug, Clone)]
pub(super) struct Files {
    order: NameOrder,
    seed: u64,
    per_directory: u64,
    directories: u32,
    min_size: u64,
    max_size: u64,
    /// The number of files.
    pub(super) count: u64,
}

impl Files {
    pub(super) fn new(parameters: &Bonnie, order: NameOrder, seed: u64) -> Self {
        Files {
            order,
            seed: derive_seed(seed, &[order as u64]),
            // The original moves on to the next directory after one file more than the even share.
            per_directory: parameters.files / u64::from(parameters.directories) + 1,
            directories: parameters.directories,
            min_size: parameters.min_size.0,
            max_size: parameters.max_size.0,
            count: parameters.files,
        }
    }

    /// Returns the identity from which the content of a file is derived. Both passes have their own files.
    pub(super) fn identity(&self, number: u64) -> FileIdentity {
        FileIdentity::new(derive_seed(self.seed, &[CONTENT]), number)
    }

    /// The number of a file by its name, with or without its directory; `None` if no file has it.
    pub(super) fn number(&self, name: &CStr) -> Option<u64> {
        let bytes = name.to_bytes().rsplit(|byte| *byte == b'/').next()?;
        let digits = match self.order {
            NameOrder::Sequential => bytes.get(..DIGITS)?,
            NameOrder::Random => bytes.get(bytes.len().checked_sub(DIGITS)?..)?,
        };
        let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        let own = self.name(number);
        let same = own.as_c_str().to_bytes().rsplit(|byte| *byte == b'/').next() == Some(bytes);
        (number < self.count && same).then_some(number)
    }

    /// The directory of a file.
    pub(super) fn directory(&self, number: u64) -> u32 {
        (number / self.per_directory) as u32
    }

    /// The name of a file, with its directory if there are several.
    pub(super) fn name(&self, number: u64) -> Name {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(derive_seed(self.seed, &[NAMES, number]));
        let mut extra = [0; LONGEST_EXTRA];
        let length = random.random_range(0..=LONGEST_EXTRA);
        for character in &mut extra[..length] {
            *character = CHARACTERS[random.random_range(0..CHARACTERS.len())];
        }
        let mut name = Name::default();
        if self.directories > 1 {
            name.decimal(self.directory(number));
            name.push(b'/');
        }
        match self.order {
            NameOrder::Sequential => {
                name.hexadecimal(number);
                extra[..length].iter().for_each(|byte| name.push(*byte));
            }
            NameOrder::Random => {
                extra[..length].iter().for_each(|byte| name.push(*byte));
                name.hexadecimal(number);
            }
        }
        name
    }

    /// The size of a file in bytes.
    pub(super) fn size(&self, number: u64) -> u64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(derive_seed(self.seed, &[SIZES, number]));
        random.random_range(self.min_size..=self.max_size)
    }
}

/// A name, ready for a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Name {
    bytes: [u8; LONGEST_NAME],
    length: usize,
}

impl Name {
    /// The name of a directory: five digits.
    pub(super) fn of_directory(number: u32) -> Self {
        let mut name = Name::default();
        name.decimal(number);
        name
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        // The bytes after the name are zero.
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).unwrap_or(c"_")
    }

    fn decimal(&mut self, number: u32) {
        for divisor in [10_000, 1_000, 100, 10, 1] {
            self.push(b'0' + (number / divisor % 10) as u8);
        }
    }

    fn hexadecimal(&mut self, number: u64) {
        for digit in (0..DIGITS).rev() {
            self.push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]);
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }
}

/// A random order of the numbers below a count.
///
/// A Feistel network permutes the numbers of the smallest even number of bits that can represent the count; a
/// number that is too large is permuted again until it fits (Black and Rogaway, "Ciphers with arbitrary
/// finite domains", CT-RSA 2002).
#[derive(Debug, Clone)]
pub(super) struct Shuffle {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

const ROUNDS: usize = 4;

impl Shuffle {
    pub(super) fn new(count: u64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Shuffle { count, half_bits: bits.div_ceil(2).max(1), keys: random.random() }
    }

    /// The number at a position of the order; both are below the count.
    pub(super) fn at(&self, place: u64) -> u64 {
        let mut number = self.permute(place);
        while number >= self.count {
            number = self.permute(number);
        }
        number
    }

    fn permute(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The finaliser of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn files(order: NameOrder, files: u64, directories: u32) -> Files {
        let (min_size, max_size) = (Bytes(16), Bytes(2000));
        Files::new(&Bonnie { files, directories, min_size, max_size, ..Bonnie::default() }, order, 3)
    }

    fn text(name: &Name) -> String {
        name.as_c_str().to_str().unwrap().to_string()
    }

    #[test]
    fn names_have_the_original_form() {
        let sequential = files(NameOrder::Sequential, 2048, 1);
        let random = files(NameOrder::Random, 2048, 4);
        for number in [0, 1, 255, 2047] {
            let name = text(&sequential.name(number));
            assert_eq!(name[..10], format!("{number:010x}"));
            assert!(
                name[10..].len() <= LONGEST_EXTRA && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            );
            assert_eq!(sequential.number(sequential.name(number).as_c_str()), Some(number));
            assert_eq!(random.number(random.name(number).as_c_str()), Some(number));
            let name = text(&random.name(number));
            let (directory, name) = name.split_once('/').unwrap();
            assert_eq!(directory, format!("{:05}", random.directory(number)));
            assert_eq!(name[name.len() - 10..], format!("{number:010x}"));
        }
        let beyond = files(NameOrder::Sequential, 4096, 1).name(2048);
        for strange in [c"", c"x", c"zzzzzzzzzz", c"0000000001?", beyond.as_c_str()] {
            assert_eq!(sequential.number(strange), None, "{strange:?}");
        }
        let lengths: HashSet<usize> = (0..2048).map(|number| text(&sequential.name(number)).len()).collect();
        assert_eq!(lengths.len(), LONGEST_EXTRA + 1);
    }

    #[test]
    fn no_two_files_share_a_name() {
        for order in [NameOrder::Sequential, NameOrder::Random] {
            let files = files(order, 20 * 1024, 3);
            let names: HashSet<Name> = (0..files.count).map(|number| files.name(number)).collect();
            assert_eq!(names.len() as u64, files.count);
        }
    }

    #[test]
    fn sizes_are_uniform_between_both_bounds() {
        let files = files(NameOrder::Sequential, 64 * 1024, 1);
        let sizes: Vec<u64> = (0..files.count).map(|number| files.size(number)).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&16), Some(&2000)));
        let mean = sizes.iter().sum::<u64>() as f64 / files.count as f64;
        assert!((mean - 1008.0).abs() < 1008.0 * 0.01, "{mean}");
    }

    proptest! {
        /// `make_names` of bon_file.cpp counts like this.
        #[test]
        fn directories_fill_as_in_the_original(units in 1_u64..4, directories in 1_u32..3000) {
            let files = files(NameOrder::Sequential, units * 1024, directories);
            let names_per_directory = files.count / u64::from(directories);
            let (mut names_in_dir, mut directory_num) = (0, 0);
            for number in 0..files.count {
                prop_assert_eq!(files.directory(number), directory_num);
                names_in_dir += 1;
                if names_in_dir > names_per_directory {
                    names_in_dir = 0;
                    directory_num += 1;
                }
            }
            prop_assert!(files.directory(files.count - 1) < directories);
        }

        #[test]
        fn a_shuffle_has_every_number_once(count in 1_u64..5000, seed: u64) {
            let shuffle = Shuffle::new(count, seed);
            let numbers: HashSet<u64> = (0..count).map(|place| shuffle.at(place)).collect();
            prop_assert_eq!(numbers.len() as u64, count);
            prop_assert!(numbers.iter().all(|number| *number < count));
        }
    }

    #[test]
    fn a_shuffle_looks_random() {
        let shuffle = Shuffle::new(16_384, 9);
        let order: Vec<u64> = (0..16_384).map(|place| shuffle.at(place)).collect();
        let rising = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let steps = order.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>() / 16_383;
        // In random order, half of the neighbours rise, and their mean distance is a third of the range.
        assert!((7_900..8_500).contains(&rising), "{rising}");
        assert!((5_200..5_700).contains(&steps), "{steps}");
        assert_ne!(order, (0..16_384).map(|place| Shuffle::new(16_384, 8).at(place)).collect::<Vec<_>>());
    }
}
