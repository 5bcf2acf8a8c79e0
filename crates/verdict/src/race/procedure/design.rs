//! The features that configurations have in common: levels of axes, and pairs of levels.

use std::collections::BTreeMap;

/// With more columns than this, pairs of axes are left to the configurations' own deviations: the arithmetic
/// grows with the cube.
const MOST_COLUMNS: usize = 400;

/// The configurations of a race as columns of a linear model.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// The columns of each configuration, which have the value 1 there.
    columns: Vec<Vec<usize>>,
    /// The number of columns that are levels of axes; those of pairs follow.
    levels: usize,
    /// The number of all columns.
    all: usize,
}

impl Cells {
    /// Configurations, given as the level of each axis.
    ///
    /// An axis that is the same everywhere says nothing, nor does one on which all configurations differ; a
    /// pair of axes that identifies the configuration is its own deviation.
    pub fn new(levels: &[Vec<usize>]) -> Cells {
        let count = levels.len();
        let axes = levels.first().map_or(0, Vec::len);
        let distinct = |axis: usize| {
            let mut seen: Vec<usize> = levels.iter().map(|cell| cell[axis]).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        let axes: Vec<usize> = (0..axes).filter(|axis| (2..count).contains(&distinct(*axis))).collect();
        let mut columns = vec![Vec::new(); count];
        let mut all = 0;
        for axis in &axes {
            all = add(&mut columns, all, |cell| (levels[cell][*axis], 0));
        }
        let mains = all;
        for (index, one) in axes.iter().enumerate() {
            for other in &axes[index + 1..] {
                let mut with = columns.clone();
                let end = add(&mut with, all, |cell| (levels[cell][*one], levels[cell][*other]));
                if end - all < count {
                    (columns, all) = (with, end);
                }
            }
        }
        if all > MOST_COLUMNS {
            columns.iter_mut().for_each(|own| own.retain(|column| *column < mains));
            all = mains;
        }
        Cells { columns, levels: mains, all }
    }

    /// Returns the number of configurations.
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn of(&self, cell: usize) -> &[usize] {
        &self.columns[cell]
    }

    /// The number of columns.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// The number of columns that are levels of axes.
    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// The number of columns that are pairs of levels.
    pub(crate) fn pairs(&self) -> usize {
        self.all - self.levels
    }
}

/// Adds a column for each different key, from number `next` on; the number after the last one.
fn add(columns: &mut [Vec<usize>], next: usize, key: impl Fn(usize) -> (usize, usize)) -> usize {
    let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (cell, own) in columns.iter_mut().enumerate() {
        let number = next + known.len();
        own.push(*known.entry(key(cell)).or_insert(number));
    }
    next + known.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_pairs_are_columns() {
        // Two axes of two levels, a third that never varies, and a fourth that all differ on.
        let cells = Cells::new(&[vec![0, 0, 5, 0], vec![0, 1, 5, 1], vec![1, 0, 5, 2], vec![1, 1, 5, 3]]);
        assert_eq!((cells.levels(), cells.pairs()), (4, 0), "the only pair identifies the configuration");
        assert_eq!(cells.of(2), [1, 2]);
        let product: Vec<Vec<usize>> = (0..12).map(|cell| vec![cell / 6, cell / 2 % 3, cell % 2]).collect();
        let cells = Cells::new(&product);
        assert_eq!((cells.levels(), cells.pairs()), (2 + 3 + 2, 6 + 4 + 6));
        assert!((0..12).all(|cell| cells.of(cell).len() == 6));
    }

    #[test]
    fn named_configurations_have_nothing_in_common() {
        let cells = Cells::new(&(0..5).map(|cell| vec![cell]).collect::<Vec<_>>());
        assert_eq!((cells.count(), cells.all()), (5, 0));
        assert_eq!(Cells::new(&[]).count(), 0);
    }
}
