//! Sorting by merit.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_first_and_the_missing_last() {
        let values = [Some(2.0), None, Some(3.0), Some(1.0), None, Some(3.0)];
        assert_eq!(best_first(&values, Better::Higher), [2, 5, 0, 3, 1, 4]);
        assert_eq!(best_first(&values, Better::Lower), [3, 0, 2, 5, 1, 4]);
    }
}
