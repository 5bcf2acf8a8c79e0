//! Least squares by the sweep operator: one matrix gives the solution, the residual and the aliases.

/// A column is a combination of others if sweeping those leaves less than this share of it.
const TOLERANCE: f64 = 1e-9;

/// A solution of least squares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    pub(super) columns: usize,
    pub(super) rank: usize,
    pub(super) residual: f64,
    /// Columns that are a combination of others, with that combination.
    pub(super) aliased: Vec<(usize, Vec<f64>)>,
    pub(super) swept: Vec<bool>,
    pub(super) matrix: Matrix,
}

/// A combination of parameters that others are compared with.
pub(super) struct Base {
    weights: Vec<f64>,
    value: f64,
    variance: f64,
    /// Covariance with each parameter.
    covariances: Vec<f64>,
}

impl Fit {
    /// Prepares a combination of parameters as a base.
    pub(super) fn base(&self, weights: Vec<f64>) -> Base {
        let mut covariances = vec![0.0; self.columns];
        for used in self.used(&weights) {
            let row = self.matrix.row(used).iter().zip(&self.swept);
            for (sum, (cell, swept)) in covariances.iter_mut().zip(row) {
                *sum += if *swept { weights[used] * cell } else { 0.0 };
            }
        }
        let (value, variance) = (self.value(&weights), dot(&weights, &covariances));
        Base { weights, value, variance, covariances }
    }

    /// The value of a combination of parameters minus that of the base, and its variance in units of the
    /// residual variance. `None` if the trials do not determine it: if its weight of an aliased column does
    /// not follow from the other weights.
    pub(super) fn difference(&self, base: &Base, weights: &[f64]) -> Option<(f64, f64)> {
        let determined = |(column, combination): &(usize, Vec<f64>)| {
            let given = weights[*column] - base.weights[*column];
            (dot(combination, weights) - dot(combination, &base.weights) - given).abs() < 1e-6
        };
        if !self.aliased.iter().all(determined) {
            return None;
        }
        let used: Vec<usize> = self.used(weights).collect();
        let own: f64 = used
            .iter()
            .flat_map(|a| used.iter().map(move |b| weights[*a] * self.matrix.at(*a, *b) * weights[*b]))
            .sum();
        let variance = own - 2.0 * dot(weights, &base.covariances) + base.variance;
        Some((self.value(weights) - base.value, variance.max(0.0)))
    }

    fn value(&self, weights: &[f64]) -> f64 {
        self.used(weights).map(|column| weights[column] * self.matrix.at(column, self.columns)).sum()
    }

    fn used<'a>(&'a self, weights: &'a [f64]) -> impl Iterator<Item = usize> + 'a {
        (0..self.columns).filter(|column| self.swept[*column] && weights[*column] != 0.0)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A square matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub(super) size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(super) fn zero(size: usize) -> Self {
        Matrix { size, cells: vec![0.0; size * size] }
    }

    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.size + column]
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.size..][..self.size]
    }

    /// Adds the products of an observation's values.
    pub(super) fn add(&mut self, row: &[f64]) {
        for (i, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            for (cell, other) in self.cells[i * self.size..][..self.size].iter_mut().zip(row) {
                *cell += value * other;
            }
        }
    }

    /// Sweeps a column, unless too little is left of it because it is a combination of columns already swept.
    pub(super) fn sweep(&mut self, column: usize, before: f64) -> bool {
        let pivot = self.at(column, column);
        if pivot <= TOLERANCE * before || before == 0.0 {
            return false;
        }
        let size = self.size;
        for cell in &mut self.cells[column * size..][..size] {
            *cell /= pivot;
        }
        let swept = self.cells[column * size..][..size].to_vec();
        for row in (0..size).filter(|row| *row != column) {
            let factor = self.at(row, column);
            if factor == 0.0 {
                continue;
            }
            let cells = &mut self.cells[row * size..][..size];
            for (cell, swept) in cells.iter_mut().zip(&swept) {
                *cell -= factor * swept;
            }
            cells[column] = -factor / pivot;
        }
        self.cells[column * size + column] = pivot.recip();
        true
    }
}
