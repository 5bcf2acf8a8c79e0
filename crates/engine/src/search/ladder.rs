//! Which rates are tried to find the highest one that meets a target: arithmetic, without a clock.
//!
//! The scale is what the workers complete when they never wait (a closed loop). Rates go up from a fifth of
//! that, by a fifth each, until one is too high, and then the gap is halved. If the first one is too high
//! already, rates go down by halves. A rate that misses the target is tried once more before it is called
//! too high: a single pause can do that to any rate.

/// The first rate, and the distance to the next, as shares of the closed loop's.
const STRIDE: f64 = 0.2;
/// The number of rates tried upwards. The last is 1.6 times the closed loop's: workers that keep up there
/// have no limit that this search would find.
const UP: u32 = 8;
/// The number of times that a gap is halved: to a fortieth of the closed loop's rate.
const HALVINGS: u32 = 3;
/// The number of times that the first rate is halved if it is too high.
const DOWN: u32 = 4;

/// A search for the highest rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ladder {
    /// A fifth of the closed loop's rate.
    stride: f64,
    /// The highest rate that met the target, and the lowest that did not.
    met: Option<f64>,
    missed: Option<f64>,
    /// A rate that missed it once, and is tried again.
    again: Option<f64>,
    up: u32,
    down: u32,
    halvings: u32,
}

impl Ladder {
    /// For workers that complete so many iterations per second.
    pub(crate) fn new(closed_per_s: f64) -> Self {
        Ladder {
            stride: closed_per_s * STRIDE,
            met: None,
            missed: None,
            again: None,
            up: 0,
            down: 0,
            halvings: 0,
        }
    }

    /// The next rate to try; `None` if the search is over.
    pub(crate) fn next(&mut self) -> Option<f64> {
        if self.stride <= 0.0 {
            return None;
        }
        if self.again.is_some() {
            return self.again;
        }
        match (self.met, self.missed) {
            (_, None) => {
                self.up += 1;
                (self.up <= UP).then_some(f64::from(self.up) * self.stride)
            }
            (None, Some(missed)) => {
                self.down += 1;
                (self.down <= DOWN).then_some(missed / 2.0)
            }
            (Some(met), Some(missed)) => {
                self.halvings += 1;
                (self.halvings <= HALVINGS).then_some(met.midpoint(missed))
            }
        }
    }

    /// Takes down what became of the rate that was to be tried.
    pub(crate) fn tried(&mut self, rate: f64, is_met: bool) {
        let is_second = self.again.take().is_some();
        match is_met {
            true => self.met = Some(rate),
            false if is_second => self.missed = Some(rate),
            false => self.again = Some(rate),
        }
    }

    /// The highest rate that met the target.
    pub(crate) fn highest(&self) -> Option<f64> {
        self.met
    }

    /// Returns whether a higher rate missed the target: otherwise the rate found is only a lower bound.
    pub(crate) fn has_limit(&self) -> bool {
        self.missed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most tries, if the first rate that is too high and all in the gap are tried twice.
    const MOST: u32 = UP + HALVINGS + 1 + HALVINGS;

    /// All rates that are tried, those twice that are above the capacity.
    fn search(closed: f64, capacity: f64) -> (Vec<f64>, Ladder) {
        let (mut ladder, mut tried) = (Ladder::new(closed), Vec::new());
        while let Some(rate) = ladder.next() {
            ladder.tried(rate, rate <= capacity);
            tried.push(rate);
        }
        (tried, ladder)
    }

    #[test]
    fn it_steps_up_and_halves_the_gap() {
        let (tried, ladder) = search(1000.0, 500.0);
        assert_eq!(tried, [200.0, 400.0, 600.0, 600.0, 500.0, 550.0, 550.0, 525.0, 525.0]);
        assert_eq!((ladder.highest(), ladder.has_limit()), (Some(500.0), true));
    }

    #[test]
    fn it_goes_down_if_the_first_rate_is_too_high() {
        let (tried, ladder) = search(1000.0, 60.0);
        assert_eq!(tried, [200.0, 200.0, 100.0, 100.0, 50.0, 75.0, 75.0, 62.5, 62.5, 56.25]);
        assert_eq!(ladder.highest(), Some(56.25));
        let (tried, ladder) = search(1000.0, 1.0);
        assert_eq!((tried.len(), ladder.highest()), (10, None));
        assert_eq!(search(0.0, 1.0).0.len(), 0);
    }

    #[test]
    fn one_pause_does_not_end_it() {
        let mut ladder = Ladder::new(1000.0);
        for (rate, is_met, highest) in [
            (200.0, false, None),
            (200.0, true, Some(200.0)),
            (400.0, false, Some(200.0)),
            (400.0, true, Some(400.0)),
            (600.0, false, Some(400.0)),
            (600.0, false, Some(400.0)),
            (500.0, true, Some(500.0)),
        ] {
            assert_eq!(ladder.next(), Some(rate));
            ladder.tried(rate, is_met);
            assert_eq!(ladder.highest(), highest);
        }
    }

    proptest! {
        #[test]
        fn it_ends_close_below_the_capacity(
            closed in 0.1..1e6,
            share in 0.0..3.0,
        ) {
            let capacity = closed * share;
            let (tried, ladder) = search(closed, capacity);
            prop_assert!(tried.len() as u32 <= MOST);
            match ladder.highest() {
                Some(highest) => {
                    prop_assert!(highest <= capacity);
                    let gap = (capacity - highest) / closed;
                    prop_assert!(gap <= STRIDE / 8.0 + 1e-9 || !ladder.has_limit(), "{gap}");
                    prop_assert!(ladder.has_limit() || share >= f64::from(UP) * STRIDE - 1e-9);
                }
                None => prop_assert!(share <= STRIDE / 16.0 + 1e-9),
            }
        }
    }
}
