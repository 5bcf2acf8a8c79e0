//! Least squares by the sweep operator: one matrix gives solution, residual, and what is aliased with what.

/// A column of which less than this share is left beside the others is the same as some of them.
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
    pub(super) blocks: usize,
}

impl Fit {
    /// The value of a combination of parameters, and its variance in units of the residual's. `None` where it is not
    /// determined: where what it gives to an aliased column is not what follows from the others.
    pub(super) fn combine(&self, weights: &[f64]) -> Option<(f64, f64)> {
        let dot = |a: &[f64]| a.iter().zip(weights).map(|(a, weight)| a * weight).sum::<f64>();
        let determined =
            |(column, combination): &(usize, Vec<f64>)| (dot(combination) - weights[*column]).abs() < 1e-6;
        if !self.aliased.iter().all(determined) {
            return None;
        }
        let used: Vec<usize> =
            (0..self.columns).filter(|column| self.swept[*column] && weights[*column] != 0.0).collect();
        let value = used.iter().map(|column| weights[*column] * self.matrix.at(*column, self.columns)).sum();
        let variance = used
            .iter()
            .flat_map(|a| used.iter().map(move |b| weights[*a] * self.matrix.at(*a, *b) * weights[*b]))
            .sum::<f64>();
        Some((value, variance.max(0.0)))
    }
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

    /// Adds the products of the values of an observation.
    pub(super) fn add(&mut self, row: &[f64]) {
        for (i, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            for (cell, other) in self.cells[i * self.size..][..self.size].iter_mut().zip(row) {
                *cell += value * other;
            }
        }
    }

    /// Sweeps on a column, unless it is a combination of those that were swept: then too little is left of what it was.
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
