//! The fairness with which something is shared: the rates of concurrent streams.

/// The fairness with which something is shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Jain's index: 1 if all shares are equal, 1/n if one of n has everything (R. Jain, D. Chiu, W. Hawe, "A
    /// Quantitative Measure of Fairness and Discrimination", DEC TR-301, 1984).
    pub jain: f64,
    /// The smallest share divided by the largest.
    pub least_to_most: f64,
}

/// The fairness of these nonnegative shares; `None` for fewer than two, or if all are zero.
pub fn fairness(shares: &[f64]) -> Option<Fairness> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    let (least, most) =
        shares.iter().fold((f64::MAX, 0.0_f64), |(least, most), x| (least.min(*x), most.max(*x)));
    (shares.len() > 1 && most > 0.0).then(|| Fairness {
        jain: (sum * sum / (shares.len() as f64 * squares)).min(1.0),
        least_to_most: least / most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_shares() {
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), Some(Fairness { jain: 1.0, least_to_most: 1.0 }));
        assert_eq!(fairness(&[0.0, 0.0, 0.0, 8.0]), Some(Fairness { jain: 0.25, least_to_most: 0.0 }));
        // (1 + 2 + 3)^2 / (3 (1 + 4 + 9))
        let uneven = fairness(&[1.0, 2.0, 3.0]).unwrap();
        assert!(
            (uneven.jain - 36.0 / 42.0).abs() < 1e-12 && (uneven.least_to_most - 1.0 / 3.0).abs() < 1e-12
        );
    }

    #[test]
    fn nothing_to_share() {
        assert_eq!(fairness(&[]), None);
        assert_eq!(fairness(&[5.0]), None);
        assert_eq!(fairness(&[0.0, 0.0]), None);
    }

    proptest! {
        #[test]
        fn the_unit_does_not_matter(shares in prop::collection::vec(0.001..1e9_f64, 2..20), unit in 0.01..1e3_f64) {
            let one = fairness(&shares).unwrap();
            let other = fairness(&shares.iter().map(|share| share * unit).collect::<Vec<_>>()).unwrap();
            prop_assert!((one.jain - other.jain).abs() < 1e-9);
            prop_assert!((one.least_to_most - other.least_to_most).abs() < 1e-9);
            prop_assert!(one.jain >= 1.0 / shares.len() as f64 - 1e-9 && one.jain <= 1.0);
        }
    }
}
