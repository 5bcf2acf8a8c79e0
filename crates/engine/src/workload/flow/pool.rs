//! Which files of a set exist, and which of them a step takes.
//!
//! A set that never changes needs no memory. Of one that does, each worker keeps its own names in five flat
//! arrays: first those that exist, in no order, then the others; and a list of those that exist in the order
//! in which they appeared. Every change takes a handful of stores, however many files there are.

use super::set::File;
use fsdyno_core::workload::Choice;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

/// No name.
const NONE: u32 = u32::MAX;

/// The files of a set that a worker may choose from.
pub(super) enum Pool {
    /// All of them exist all the time.
    Still {
        count: u32,
        /// The one that `next` takes.
        next: u32,
    },
    /// They come and go.
    Changing(Box<Slots>),
}

/// The names of one worker.
pub(super) struct Slots {
    /// Names, those that exist first.
    order: Vec<u32>,
    /// Where each name is in that.
    place: Vec<u32>,
    older: Vec<u32>,
    newer: Vec<u32>,
    incarnation: Vec<u32>,
    existing: u32,
    oldest: u32,
    newest: u32,
    next: u32,
}

impl Pool {
    pub(super) fn still(count: u64) -> Self {
        Pool::Still { count: count as u32, next: 0 }
    }

    /// The first of so many names exist.
    pub(super) fn changing(names: u64, existing: u64) -> Self {
        let names = names as u32;
        let mut slots = Slots {
            order: (0..names).collect(),
            place: (0..names).collect(),
            older: vec![NONE; names as usize],
            newer: vec![NONE; names as usize],
            incarnation: vec![0; names as usize],
            existing: 0,
            oldest: NONE,
            newest: NONE,
            next: 0,
        };
        for name in 0..existing as u32 {
            slots.appear(name);
        }
        Pool::Changing(Box::new(slots))
    }

    /// Returns the number of files that exist.
    pub(super) fn existing(&self) -> u32 {
        match self {
            Pool::Still { count, .. } => *count,
            Pool::Changing(slots) => slots.existing,
        }
    }

    /// The file of a name that exists.
    #[inline]
    pub(super) fn file(&self, name: u32) -> File {
        let incarnation = match self {
            Pool::Still { .. } => 0,
            Pool::Changing(slots) => slots.incarnation[name as usize],
        };
        File { name, incarnation }
    }

    /// One of the files that exist; `None` if there is none.
    #[inline]
    pub(super) fn choose(&mut self, choice: Choice, random: &mut impl Rng) -> Option<u32> {
        let existing = self.existing();
        if existing == 0 {
            return None;
        }
        let position = match choice {
            Choice::Uniform => random.random_range(0..existing),
            Choice::Zipf(skew) => rank(existing, skew, random),
            Choice::Hot { files, choices } => {
                let hot = ((f64::from(existing) * files).round() as u32).clamp(1, existing);
                match hot == existing || random.random_bool(choices) {
                    true => random.random_range(0..hot),
                    false => random.random_range(hot..existing),
                }
            }
            Choice::Next => self.take_next(existing),
            Choice::Newest | Choice::Oldest => {
                let newest = choice == Choice::Newest;
                return Some(match self {
                    Pool::Still { count, .. } => {
                        if newest {
                            *count - 1
                        } else {
                            0
                        }
                    }
                    Pool::Changing(slots) => {
                        if newest {
                            slots.newest
                        } else {
                            slots.oldest
                        }
                    }
                });
            }
        };
        Some(match self {
            Pool::Still { .. } => position,
            Pool::Changing(slots) => slots.order[position as usize],
        })
    }

    fn take_next(&mut self, existing: u32) -> u32 {
        let next = match self {
            Pool::Still { next, .. } => next,
            Pool::Changing(slots) => &mut slots.next,
        };
        let position = if *next < existing { *next } else { 0 };
        *next = position + 1;
        position
    }

    /// A name that no file has, which has one from now on; `None` if there is none.
    #[inline]
    pub(super) fn add(&mut self, in_order: bool, random: &mut impl Rng) -> Option<u32> {
        let Pool::Changing(slots) = self else { return None };
        let free = slots.existing..slots.order.len() as u32;
        if free.is_empty() {
            return None;
        }
        let position = if in_order { free.start } else { random.random_range(free) };
        let name = slots.order[position as usize];
        slots.incarnation[name as usize] = slots.incarnation[name as usize].wrapping_add(1);
        slots.appear(name);
        Some(name)
    }

    /// A name has no file any more.
    #[inline]
    pub(super) fn remove(&mut self, name: u32) {
        if let Pool::Changing(slots) = self {
            slots.vanish(name);
        }
    }

    /// A name has another file now.
    pub(super) fn replace(&mut self, name: u32) {
        if let Pool::Changing(slots) = self {
            slots.vanish(name);
            slots.incarnation[name as usize] = slots.incarnation[name as usize].wrapping_add(1);
            slots.appear(name);
        }
    }
}

impl Slots {
    fn appear(&mut self, name: u32) {
        self.swap(name, self.existing);
        self.existing += 1;
        self.older[name as usize] = self.newest;
        self.newer[name as usize] = NONE;
        match self.newest {
            NONE => self.oldest = name,
            newest => self.newer[newest as usize] = name,
        }
        self.newest = name;
    }

    fn vanish(&mut self, name: u32) {
        self.existing -= 1;
        self.swap(name, self.existing);
        let (older, newer) = (self.older[name as usize], self.newer[name as usize]);
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
    }

    /// Brings a name to a position.
    fn swap(&mut self, name: u32, position: u32) {
        let from = self.place[name as usize];
        let other = self.order[position as usize];
        self.order.swap(from as usize, position as usize);
        self.place[name as usize] = position;
        self.place[other as usize] = from;
    }
}

/// A rank, from 0, with a probability that is proportional to 1 / (rank + 1)^skew.
fn rank(count: u32, skew: f64, random: &mut impl Rng) -> u32 {
    match Zipf::new(f64::from(count), skew) {
        Ok(zipf) => (zipf.sample(random) as u32).clamp(1, count) - 1,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    proptest! {
        /// Against a plain list in the order of appearance.
        #[test]
        fn files_come_and_go_as_in_a_list(names in 1..20_u64, prefill in 0.0..1.0, seed: u64, steps in prop::collection::vec(0..6, 0..200)) {
            let existing = (names as f64 * prefill) as u64;
            let mut pool = Pool::changing(names, existing);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut list: Vec<u32> = (0..existing as u32).collect();
            for step in steps {
                match step {
                    0 | 1 => {
                        let added = pool.add(step == 0, &mut random);
                        prop_assert_eq!(added.is_some(), list.len() < names as usize);
                        if let Some(name) = added {
                            prop_assert!(!list.contains(&name));
                            list.push(name);
                        }
                    }
                    2 | 3 => {
                        let choice = if step == 2 { Choice::Uniform } else { Choice::Zipf(1.0) };
                        if let Some(name) = pool.choose(choice, &mut random) {
                            prop_assert!(list.contains(&name));
                            list.retain(|one| *one != name);
                            pool.remove(name);
                        } else {
                            prop_assert!(list.is_empty());
                        }
                    }
                    4 => prop_assert_eq!(pool.choose(Choice::Newest, &mut random), list.last().copied()),
                    _ => prop_assert_eq!(pool.choose(Choice::Oldest, &mut random), list.first().copied()),
                }
                prop_assert_eq!(pool.existing() as usize, list.len());
            }
        }
    }

    #[test]
    fn choices_are_distributed_as_they_say() {
        const DRAWS: u32 = 100_000;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut shares = |choice| {
            let mut pool = Pool::still(100);
            let mut counts = [0_u32; 100];
            (0..DRAWS).for_each(|_| counts[pool.choose(choice, &mut random).unwrap() as usize] += 1);
            counts.map(|count| f64::from(count) / f64::from(DRAWS))
        };
        assert!(shares(Choice::Uniform).iter().all(|share| (share - 0.01).abs() < 0.002));
        assert!(shares(Choice::Next).iter().all(|share| *share == 0.01));
        let hot: f64 = shares(Choice::Hot { files: 0.1, choices: 0.9 })[..10].iter().sum();
        assert!((hot - 0.9).abs() < 0.01, "{hot}");
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for (rank, share) in (1..).zip(shares(Choice::Zipf(1.0))).take(10) {
            let expected = 1.0 / f64::from(rank) / harmonic;
            assert!((share / expected - 1.0).abs() < 0.1, "rank {rank}: {share}, not {expected}");
        }
    }
}
