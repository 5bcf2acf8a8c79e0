//! An adaptive arithmetic coder: numbers take as many bits as they are surprising.
//!
//! A number is a series of decisions between 0 and 1. How likely each is, is learnt from what was decided in
//! the same place before, so nothing but the decisions is stored. The coder is the carryless one of lpaq
//! (Matt Mahoney, <http://mattmahoney.net/dc/#lpaq>), with probabilities of 16 bits; numbers are split as in
//! Elias' gamma code. It is our own because what is stored must be readable for ever, whatever becomes of a
//! crate, and because it is short.

/// The number of bits after the first of a number that depend on the context.
const TOP_BITS: u32 = 2;
/// After so many decisions in one place the latest ones count most.
const MEMORY: usize = 64;
/// The weight of the next decision after so many, of 65536: as one more than those and a half.
const WEIGHTS: [u32; MEMORY + 1] = {
    let mut weights = [0; MEMORY + 1];
    let mut decisions = 0;
    while decisions <= MEMORY {
        weights[decisions] = (2 << 16) / (2 * decisions as u32 + 3);
        decisions += 1;
    }
    weights
};
/// The least probability, of 65536.
const LEAST: u16 = 16;

/// The probability of a 1 in one place.
#[derive(Debug, Clone, Copy)]
struct Odds {
    /// Of 65536.
    of_one: u16,
    decisions: u8,
}

impl Odds {
    const EVEN: Odds = Odds { of_one: 1 << 15, decisions: 0 };

    fn learn(&mut self, bit: bool) {
        let weight = WEIGHTS[usize::from(self.decisions).min(MEMORY)];
        let share = |distance: u16| ((u32::from(distance) * weight) >> 16) as u16;
        self.of_one = if bit {
            (self.of_one + share(u16::MAX - self.of_one)).min(u16::MAX - LEAST)
        } else {
            (self.of_one - share(self.of_one)).max(LEAST)
        };
        self.decisions = self.decisions.saturating_add(1);
    }
}

/// Writes decisions, or reads them.
pub(crate) trait Decisions {
    /// One decision. A writer takes `bit`, a reader ignores it; both return the one that was made.
    fn decide(&mut self, of_one: u16, bit: bool) -> bool;
}

/// The odds learnt about one kind of number.
pub(crate) struct Numbers {
    /// For each context, whether a number of so many bits has more.
    longer: Vec<[Odds; 64]>,
    /// For each context and length, the first bits after the leading 1.
    top: Vec<[[Odds; 1 << TOP_BITS]; 64]>,
    /// For each length, the other bits.
    rest: [[Odds; 64]; 64],
}

impl Numbers {
    /// Nothing learnt yet.
    pub(crate) fn new(contexts: usize) -> Self {
        Numbers {
            longer: vec![[Odds::EVEN; 64]; contexts],
            top: vec![[[Odds::EVEN; 1 << TOP_BITS]; 64]; contexts],
            rest: [[Odds::EVEN; 64]; 64],
        }
    }

    /// Writes a number below 2^63, or reads one. A reader ignores `number`.
    pub(crate) fn code(&mut self, coder: &mut impl Decisions, context: usize, number: u64) -> u64 {
        let number = number.saturating_add(1);
        let mut decide = |odds: &mut Odds, bit: bool| {
            let bit = coder.decide(odds.of_one, bit);
            odds.learn(bit);
            bit
        };
        let length = number.ilog2();
        let mut bits = 0;
        while bits < 63 && decide(&mut self.longer[context][bits as usize], bits < length) {
            bits += 1;
        }
        let mut coded = 1_u64;
        for place in (0..bits).rev() {
            let odds = if bits - 1 - place < TOP_BITS {
                &mut self.top[context][bits as usize][coded as usize]
            } else {
                &mut self.rest[bits as usize][place as usize]
            };
            coded = coded << 1 | u64::from(decide(odds, number >> place & 1 == 1));
        }
        coded - 1
    }
}

/// The interval in which the number lies that the bytes of the code are.
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    const ALL: Interval = Interval { low: 0, high: u32::MAX };

    /// The last number of the part that stands for 1.
    fn middle(&self, of_one: u16) -> u32 {
        self.low + ((u64::from(self.high - self.low) * u64::from(of_one)) >> 16) as u32
    }

    fn narrow(&mut self, middle: u32, bit: bool) {
        if bit {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
    }

    /// The first byte, once it is certain.
    fn shift(&mut self) -> Option<u8> {
        let first = (self.high >> 24) as u8;
        ((self.low ^ self.high) >> 24 == 0).then(|| {
            self.low <<= 8;
            self.high = self.high << 8 | 0xff;
            first
        })
    }
}

/// Writes a code.
pub(crate) struct Writer {
    interval: Interval,
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Writer { interval: Interval::ALL, bytes: Vec::new() }
    }

    /// The bytes of the code.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend(self.interval.high.to_be_bytes());
        self.bytes
    }
}

impl Decisions for Writer {
    fn decide(&mut self, of_one: u16, bit: bool) -> bool {
        self.interval.narrow(self.interval.middle(of_one), bit);
        while let Some(byte) = self.interval.shift() {
            self.bytes.push(byte);
        }
        bit
    }
}

/// Reads a code. Any bytes are one, and after the last of them it goes on with zeros, so that whoever reads
/// must know how many numbers there are.
pub(crate) struct Reader<'a> {
    interval: Interval,
    bytes: std::slice::Iter<'a, u8>,
    at: u32,
    missing: u32,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Reader { interval: Interval::ALL, bytes: bytes.iter(), at: 0, missing: 0 };
        (0..4).for_each(|_| reader.next_byte());
        reader
    }

    fn next_byte(&mut self) {
        let byte = self.bytes.next().copied().unwrap_or_else(|| {
            self.missing += 1;
            0
        });
        self.at = self.at << 8 | u32::from(byte);
    }

    /// Returns whether all bytes of the code were needed, and no others.
    pub(crate) fn is_at_the_end(&self) -> bool {
        self.missing == 0 && self.bytes.len() == 0
    }

    /// Returns whether there were not enough bytes.
    pub(crate) fn is_short(&self) -> bool {
        self.missing > 0
    }
}

impl Decisions for Reader<'_> {
    fn decide(&mut self, of_one: u16, _: bool) -> bool {
        let middle = self.interval.middle(of_one);
        let bit = self.at <= middle;
        self.interval.narrow(middle, bit);
        while self.interval.shift().is_some() {
            self.next_byte();
        }
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(numbers: &[(usize, u64)]) -> Vec<u8> {
        let (mut writer, mut model) = (Writer::new(), Numbers::new(3));
        for (context, number) in numbers {
            assert_eq!(model.code(&mut writer, *context, *number), *number);
        }
        writer.finish()
    }

    fn read(bytes: &[u8], contexts: impl Iterator<Item = usize>) -> (Vec<u64>, bool) {
        let (mut reader, mut model) = (Reader::new(bytes), Numbers::new(3));
        let numbers = contexts.map(|context| model.code(&mut reader, context, 0)).collect();
        (numbers, reader.is_at_the_end())
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            numbers in proptest::collection::vec(
                (0..3_usize, prop_oneof![0..9_u64, 0..1_u64 << 20, 0..=i64::MAX as u64]),
                0..2_000,
            )
        ) {
            let bytes = written(&numbers);
            let (back, at_the_end) = read(&bytes, numbers.iter().map(|(context, _)| *context));
            prop_assert!(at_the_end);
            prop_assert_eq!(back, numbers.iter().map(|(_, number)| *number).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (numbers, _) = read(&bytes, (0..500).map(|index| index % 3));
            prop_assert!(numbers.iter().all(|number| *number < u64::MAX));
        }
    }

    #[test]
    fn what_is_expected_takes_little_space() {
        let same: Vec<(usize, u64)> = (0..8_000).map(|index| (index % 2, [3, 1_000][index % 2])).collect();
        let length = written(&same).len();
        assert!(length < 100, "{length}");
        // Of 16 equally likely ones each takes 4 bits.
        let mut seed = 7_u32;
        let mut any = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (0, 15 + u64::from(seed >> 28))
        };
        let length = written(&(0..8_000).map(|_| any()).collect::<Vec<_>>()).len();
        assert!((4_000..4_300).contains(&length), "{length}");
    }

    #[test]
    fn a_code_that_is_too_short_is_noticed() {
        let numbers: Vec<(usize, u64)> = (0..100).map(|index| (0, index * index)).collect();
        let bytes = written(&numbers);
        for end in 0..bytes.len() {
            let (_, at_the_end) = read(&bytes[..end], numbers.iter().map(|(context, _)| *context));
            assert!(!at_the_end, "{end}");
        }
    }
}
