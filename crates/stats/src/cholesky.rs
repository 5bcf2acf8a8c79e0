//! The Cholesky decomposition of a covariance or its inverse (G. H. Golub and C. F. Van Loan, "Matrix
//! Computations", 4th edition, 2013, section 4.2).

/// A square matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Square {
    size: usize,
    cells: Vec<f64>,
}

impl Square {
    /// A matrix of zeros.
    pub fn zero(size: usize) -> Self {
        Square { size, cells: vec![0.0; size * size] }
    }

    /// The cell of a row and a column.
    pub fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.cells[row * self.size + column]
    }

    /// The row from its diagonal on.
    fn tail(&self, row: usize) -> &[f64] {
        &self.cells[row * self.size + row..(row + 1) * self.size]
    }
}

/// An upper triangle U of which U'U is the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Cholesky(Square);

impl Cholesky {
    /// Decomposes a symmetric matrix, of which only the upper triangle is read; `None` if it is not positive
    /// definite.
    pub fn of(mut matrix: Square) -> Option<Cholesky> {
        let size = matrix.size;
        for row in 0..size {
            let (done, below) = matrix.cells.split_at_mut((row + 1) * size);
            let own = &mut done[row * size..];
            let pivot = own[row].sqrt();
            // Of a negative number it is not a number.
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            own[row..].iter_mut().for_each(|cell| *cell /= pivot);
            for (other, cells) in (row + 1..).zip(below.chunks_exact_mut(size)) {
                let factor = own[other];
                if factor != 0.0 {
                    let pairs = cells[other..].iter_mut().zip(&own[other..]);
                    pairs.for_each(|(cell, own)| *cell -= factor * own);
                }
            }
        }
        Some(Cholesky(matrix))
    }

    /// Returns the solution x of U'Ux = `right`.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = right.to_vec();
        for row in 0..self.0.size {
            let [diagonal, tail @ ..] = self.0.tail(row) else { continue };
            let (done, below) = solution.split_at_mut(row + 1);
            done[row] /= diagonal;
            below.iter_mut().zip(tail).for_each(|(value, cell)| *value -= done[row] * cell);
        }
        self.unscale(&mut solution);
        solution
    }

    /// Replaces x by the solution y of Uy = x: values that are independent become such that have the inverse
    /// of the matrix as their covariance.
    pub fn unscale(&self, values: &mut [f64]) {
        for row in (0..self.0.size).rev() {
            let [diagonal, tail @ ..] = self.0.tail(row) else { continue };
            let known: f64 = tail.iter().zip(&values[row + 1..]).map(|(cell, value)| cell * value).sum();
            values[row] = (values[row] - known) / diagonal;
        }
    }

    /// Returns the natural logarithm of the matrix's determinant.
    pub fn ln_determinant(&self) -> f64 {
        2.0 * (0..self.0.size).map(|row| self.0.tail(row)[0].ln()).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square<const N: usize>(rows: [[f64; N]; N]) -> Square {
        Square { size: N, cells: rows.concat() }
    }

    fn is_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close, "{found:?} is not {expected:?}");
    }

    /// By NumPy 2.4: `linalg.cholesky(a).T`, `linalg.solve(a, b)`, `linalg.solve(cholesky(a).T, b)` and
    /// `linalg.slogdet(a)`.
    #[test]
    fn values_are_those_of_numpy() {
        let found = Cholesky::of(square([[4.0, 2.0, -1.0], [2.0, 10.0, 3.0], [-1.0, 3.0, 5.0]])).unwrap();
        assert!(found.0.tail(0) == [2.0, 1.0, -0.5] && found.0.tail(1)[0] == 3.0, "{found:?}");
        let right = [1.0, -2.0, 3.0];
        is_close(&found.solve(&right), &[0.942622950819672, -0.762295081967213, 1.2459016393442621]);
        let mut values = right;
        found.unscale(&mut values);
        is_close(&values, &[1.5576193016734814, -1.3004168889642962, 1.6296434287653334]);
        assert!((found.ln_determinant() - 4.804021044733257).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_positive_definite_has_none() {
        assert_eq!(Cholesky::of(square([[1.0, 2.0], [2.0, 1.0]])), None);
        assert_eq!(Cholesky::of(square([[0.0]])), None);
        assert_eq!(Cholesky::of(square([[f64::NAN]])), None);
        assert_eq!(Cholesky::of(Square::zero(0)).map(|none| none.ln_determinant()), Some(0.0));
    }
}
