//! Measures of imported tables: `throughput (MB/s)`, `energy (J, less)`.
//!
//! Such a measure is a column that fsdyno knows nothing about, so its name says what it counts and, unless
//! the unit implies it, which way is better. Trials keep the values under this name.

use super::error::MeasureError;
use super::{Direction, Measure, MeasureSource, PrintedUnit, Unit};

/// A column of an imported table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The measure of its values.
    pub measure: Measure,
    /// The number of base units in one unit of the column: 10^6 for MB/s.
    pub factor: f64,
}

impl Column {
    /// The column of this heading, which may have the unit and the direction in parentheses itself. The unit
    /// may be spelled in any usual way.
    ///
    /// # Errors
    /// [`MeasureError::NoDirection`] if the unit does not say which way is better, and nothing else does.
    pub fn new(heading: &str, unit: Option<&str>, better: Option<Direction>) -> Result<Column, MeasureError> {
        let (name, inside) = parts(heading).unwrap_or((heading.trim(), ""));
        let (own_unit, own_better) = unit_and_direction(inside);
        let symbol = unit.map_or(own_unit, str::trim);
        let better = better.or(own_better);
        match PrintedUnit::spelled(symbol) {
            Some((symbol, known)) => Column::of(name, symbol, Some(known), better),
            None => Column::of(name, symbol, None, better),
        }
    }

    /// The column of a unit that is known, or of any other, which is kept as it is.
    fn of(
        name: &str,
        symbol: &str,
        known: Option<PrintedUnit>,
        better: Option<Direction>,
    ) -> Result<Column, MeasureError> {
        let usual = known.and_then(|known| known.unit().usual_direction());
        let better = better.or(usual).ok_or_else(|| MeasureError::NoDirection {
            name: name.to_string(),
            unit: symbol.to_string(),
            known: PrintedUnit::symbols()
                .filter(|(_, known)| known.unit().usual_direction().is_some())
                .map(|(symbol, _)| symbol)
                .collect(),
        })?;
        let said = if usual == Some(better) { None } else { Some(word(better)) };
        let inside: Vec<&str> = [symbol].into_iter().filter(|one| !one.is_empty()).chain(said).collect();
        let source = MeasureSource::Column(known.map_or(Unit::Number, PrintedUnit::unit), better);
        let measure = Measure { name: format!("{name} ({})", inside.join(", ")), source };
        Ok(Column { measure, factor: known.map_or(1.0, PrintedUnit::factor) })
    }

    /// A heading without what is in parentheses: `throughput` of `throughput (MB/s)`.
    pub fn name_of(heading: &str) -> &str {
        parts(heading).map_or(heading, |(name, _)| name)
    }

    /// The measure that a text names, if it has the form of such a name.
    pub(super) fn named(text: &str) -> Option<Result<Measure, MeasureError>> {
        let (name, inside) = parts(text)?;
        let (symbol, better) = unit_and_direction(inside);
        // As it was stored, in no other spelling.
        Some(Column::of(name, symbol, PrintedUnit::named(symbol), better).map(|column| column.measure))
    }
}

/// The parts of a heading `NAME (INSIDE)`, if it has this form.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (name, inside) = text.trim().strip_suffix(')')?.rsplit_once(" (")?;
    (!name.trim().is_empty()).then(|| (name.trim(), inside.trim()))
}

/// `UNIT`, `UNIT, more`, `more`.
fn unit_and_direction(inside: &str) -> (&str, Option<Direction>) {
    match inside.rsplit_once(',') {
        Some((unit, last)) if direction(last).is_some() => (unit.trim(), direction(last)),
        _ => match direction(inside) {
            Some(better) => ("", Some(better)),
            None => (inside, None),
        },
    }
}

fn direction(text: &str) -> Option<Direction> {
    [Direction::HigherIsBetter, Direction::LowerIsBetter].into_iter().find(|one| word(*one) == text.trim())
}

/// `more` or `less`: what is better.
const fn word(better: Direction) -> &'static str {
    match better {
        Direction::HigherIsBetter => "more",
        Direction::LowerIsBetter => "less",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_unit_and_direction_and_is_read_back() {
        for (heading, unit, better, name, base, factor) in [
            ("throughput", Some("MB/s"), None, "throughput (MB/s)", Unit::BytesPerSecond, 1e6),
            ("lat (ms)", None, None, "lat (ms)", Unit::Nanoseconds, 1e6),
            ("lat (ms, less)", None, None, "lat (ms)", Unit::Nanoseconds, 1e6),
            ("a/b/c", Some("IOPS"), None, "a/b/c (IOPS)", Unit::OperationsPerSecond, 1.0),
            ("energy", Some("J"), Some(Direction::LowerIsBetter), "energy (J, less)", Unit::Number, 1.0),
            ("score (more)", None, None, "score (more)", Unit::Number, 1.0),
            ("hits (%, more)", None, None, "hits (%, more)", Unit::Share, 0.01),
            ("kept (s)", None, Some(Direction::HigherIsBetter), "kept (s, more)", Unit::Nanoseconds, 1e9),
        ] {
            let column = Column::new(heading, unit, better).unwrap();
            assert_eq!(
                (column.measure.name(), column.measure.unit(), column.factor),
                (name, base, factor),
                "{heading}"
            );
            let again: Measure = name.parse().unwrap();
            assert_eq!(again, column.measure);
            assert_eq!(again.direction(), column.measure.direction());
        }
    }

    #[test]
    fn a_unit_without_a_direction_is_rejected() {
        let error = Column::new("score", Some("points"), None).unwrap_err().to_string();
        assert!(error.starts_with("'score' is in 'points', so nothing says whether more"), "{error}");
        assert!("cpu (%)".parse::<Measure>().is_err());
        assert!("(MB/s)".parse::<Measure>().is_err(), "a measure has a name");
    }
}
