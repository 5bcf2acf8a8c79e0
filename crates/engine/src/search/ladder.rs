//! Which rates are tried to find the highest one that keeps a promise: arithmetic, without a clock.
//!
//! The scale is what the workers complete when they never wait (a closed loop). Rates go up from a fifth of
//! that, by a fifth each, until one is too high, and then the gap is halved. If the first one is too high
//! already, rates go down by halves.

/// The first rate, and the distance to the next, as shares of the closed loop's.
const STRIDE: f64 = 0.2;
/// No rate above this share is tried: what keeps up there has no limit that this search would find.
const HIGHEST: f64 = 1.6;
/// How often a gap is halved: to a fortieth of the closed loop's rate.
const HALVINGS: u32 = 3;
/// How often the first rate is halved if it is too high.
const DOWN: u32 = 4;

/// A search for the highest rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ladder {
    /// A fifth of the closed loop's rate.
    stride: f64,
    /// The highest rate that kept the promise, and the lowest that did not.
    kept: Option<f64>,
    broken: Option<f64>,
    halvings: u32,
    down: u32,
}

impl Ladder {
    /// For workers that complete so many iterations per second.
    pub(crate) fn new(closed_per_s: f64) -> Self {
        Ladder { stride: closed_per_s * STRIDE, kept: None, broken: None, halvings: 0, down: 0 }
    }

    /// The next rate to try; `None` if the search is over.
    pub(crate) fn next(&mut self) -> Option<f64> {
        if self.stride <= 0.0 {
            return None;
        }
        match (self.kept, self.broken) {
            (None, None) => Some(self.stride),
            (Some(kept), None) => {
                Some(kept + self.stride).filter(|rate| *rate <= self.stride / STRIDE * HIGHEST * 1.000_001)
            }
            (None, Some(broken)) => {
                self.down += 1;
                (self.down <= DOWN).then_some(broken / 2.0)
            }
            (Some(kept), Some(broken)) => {
                self.halvings += 1;
                (self.halvings <= HALVINGS).then_some(kept.midpoint(broken))
            }
        }
    }

    /// Whether a rate kept the promise.
    pub(crate) fn tried(&mut self, rate: f64, has_kept: bool) {
        let bound = if has_kept { &mut self.kept } else { &mut self.broken };
        *bound = Some(rate);
    }

    /// The highest rate that kept the promise.
    pub(crate) fn highest(&self) -> Option<f64> {
        self.kept
    }

    /// Whether a higher one did not: otherwise the rate is only a lower bound.
    pub(crate) fn has_limit(&self) -> bool {
        self.broken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most rates that are tried.
    const MOST: u32 = (HIGHEST / STRIDE) as u32 + HALVINGS;

    /// All rates that are tried if those up to the capacity keep the promise.
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
        assert_eq!(tried, [200.0, 400.0, 600.0, 500.0, 550.0, 525.0]);
        assert_eq!((ladder.highest(), ladder.has_limit()), (Some(500.0), true));
    }

    #[test]
    fn it_goes_down_if_the_first_rate_is_too_high() {
        let (tried, ladder) = search(1000.0, 60.0);
        assert_eq!(tried, [200.0, 100.0, 50.0, 75.0, 62.5, 56.25]);
        assert_eq!(ladder.highest(), Some(56.25));
        let (tried, ladder) = search(1000.0, 1.0);
        assert_eq!((tried.len(), ladder.highest()), (5, None));
        assert_eq!(search(0.0, 1.0).0.len(), 0);
    }

    proptest! {
        #[test]
        fn it_ends_close_below_the_capacity(closed in 0.1..1e6, share in 0.0..3.0) {
            let capacity = closed * share;
            let (tried, ladder) = search(closed, capacity);
            prop_assert!(tried.len() as u32 <= MOST);
            match ladder.highest() {
                Some(highest) => {
                    prop_assert!(highest <= capacity);
                    let gap = (capacity - highest) / closed;
                    prop_assert!(gap <= STRIDE / 8.0 + 1e-9 || !ladder.has_limit(), "{gap}");
                    prop_assert!(ladder.has_limit() || share >= HIGHEST - STRIDE);
                }
                None => prop_assert!(share <= STRIDE / 16.0 + 1e-9),
            }
        }
    }
}
