//! Sorting by merit, and the Pareto front: what nothing else beats in everything.

use std::cmp::Ordering;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Indices of the values, the best first. Equal values keep their order; missing values come last.
pub fn best_first(values: &[Option<f64>], better: Better) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| match (values[*a], values[*b]) {
        (Some(a), Some(b)) if better == Better::Higher => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    order
}

/// For each point, whether no other one is at least as good in every merit and better in one. Larger is
/// better; all points have the same number of merits, and what lacks one has negative infinity.
pub fn on_front(points: &[Vec<f64>]) -> Vec<bool> {
    points.iter().map(|own| !points.iter().any(|other| dominates(other, own))).collect()
}

fn dominates(one: &[f64], other: &[f64]) -> bool {
    let mut pairs = one.iter().zip(other);
    pairs.clone().all(|(a, b)| a >= b) && pairs.any(|(a, b)| a > b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_first_and_the_missing_last() {
        let values = [Some(2.0), None, Some(3.0), Some(1.0), None, Some(3.0)];
        assert_eq!(best_first(&values, Better::Higher), [2, 5, 0, 3, 1, 4]);
        assert_eq!(best_first(&values, Better::Lower), [3, 0, 2, 5, 1, 4]);
    }

    #[test]
    fn only_what_is_beaten_in_everything_is_behind_the_front() {
        let points =
            [vec![3.0, 1.0], vec![1.0, 3.0], vec![1.0, 1.0], vec![3.0, 1.0], vec![2.0, f64::NEG_INFINITY]];
        assert_eq!(on_front(&points), [true, true, false, true, false], "equals are both on it");
        assert_eq!(on_front(&[]), [false; 0]);
    }
}
