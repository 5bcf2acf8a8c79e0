//! The generator of postmark 1.5: the Mersenne Twister as its authors seeded it in 1999.
//!
//! M. Matsumoto and T. Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform pseudorandom
//! number generator", ACM Transactions on Modeling and Computer Simulation 8(1), 1998. Libraries use its
//! seeding of 2002, which gives other numbers; with that of 1999 the files of a run are exactly the
//! original's.

const WORDS: usize = 624;
const DISTANCE: usize = 397;
const MATRIX: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;

#[derive(Debug, Clone)]
pub(super) struct Twister {
    state: Box<[u32]>,
    next: usize,
}

impl Twister {
    pub(super) fn new(seed: u32) -> Self {
        let mut seed = seed;
        let mut half = || {
            let upper = seed & 0xffff_0000;
            seed = seed.wrapping_mul(69_069).wrapping_add(1);
            upper
        };
        Twister { state: (0..WORDS).map(|_| half() | half() >> 16).collect(), next: WORDS }
    }

    /// One of `0..bound`, as the original computes it: the remainder; if there is no choice, nothing is
    /// drawn.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn twist(&mut self) {
        for index in 0..WORDS {
            let word = self.state[index] & UPPER | self.state[(index + 1) % WORDS] & !UPPER;
            let odd = if word & 1 == 1 { MATRIX } else { 0 };
            self.state[index] = self.state[(index + DISTANCE) % WORDS] ^ word >> 1 ^ odd;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the numbers against those that the original's own code returns.
    #[test]
    fn numbers_are_those_of_the_original() {
        for (seed, expected) in [
            (42, [4_179_544_424, 615_236_124, 1_304_686_307, 299_826_205, 1_923_890_686]),
            (4357, [2_867_219_139, 1_585_203_162, 589_403_970, 1_044_672_925, 1_574_437_082]),
            (2_147_483_647, [3_840_883_527, 3_795_727_268, 1_066_138_119, 1_985_683_551, 3_390_734_946]),
        ] {
            let mut twister = Twister::new(seed);
            let numbers: Vec<u32> = (0..2000).map(|_| twister.draw()).collect();
            assert_eq!([0, 1, 623, 624, 1999].map(|index: usize| numbers[index]), expected, "seed {seed}");
        }
    }
}
