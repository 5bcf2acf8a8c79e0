//! The Pareto front: what nothing else beats in everything.

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
    fn only_what_is_beaten_in_everything_is_behind_the_front() {
        let points =
            [vec![3.0, 1.0], vec![1.0, 3.0], vec![1.0, 1.0], vec![3.0, 1.0], vec![2.0, f64::NEG_INFINITY]];
        assert_eq!(on_front(&points), [true, true, false, true, false], "equals are both on it");
        assert_eq!(on_front(&[]), [false; 0]);
    }
}
