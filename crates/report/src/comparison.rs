//! A comparison for programs: JSON, and CSV with a row for each measure of each case.

use crate::export::output_error;
use crate::visible::csv_text;
use fsdyno_core::measure::Direction;
use fsdyno_verdict::comparison::{ComparedCase, ComparedMeasure, Comparison, Finding, Lack};
use fsdyno_verdict::durability::{LossFinding, LossRow, Lost};
use fsdyno_verdict::{Estimate, Interval};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Version of the JSON document; raised when a key is removed or changes its meaning.
const SCHEMA_VERSION: u32 = 2;

/// A comparison as one JSON document. Values are in base units: bytes per second, nanoseconds, shares 0 to 1.
pub fn document(comparison: &Comparison) -> Value {
    let sides = comparison
        .sides
        .iter()
        .map(|side| json!({ "name": side.name, "sweep": side.sweep, "sweep_name": side.sweep_name }));
    let cases = comparison.cases.iter().map(|case| {
        let differences = case
            .differences
            .iter()
            .map(|difference| json!({ "what": difference.what, "levels": difference.levels }));
        json!({
            "configurations": case.names,
            "workload": case.workload,
            "differences": differences.collect::<Vec<_>>(),
            "trials_not_measured": case.not_measured,
            "measures": case.rows.iter().map(measure).collect::<Vec<_>>(),
            "losses": case.losses.iter().map(losses).collect::<Vec<_>>(),
            "without_values": case.without,
        })
    });
    let alone = comparison.alone.iter().map(|side| {
        let cases = side.iter().map(|alone| {
            json!({
                "configuration": alone.name, "workload": alone.workload, "reason": alone.reason,
                "every_trial_failed": alone.is_lost,
            })
        });
        cases.collect::<Vec<_>>()
    });
    let warnings = comparison.warnings.iter().map(
        |one| json!({ "kind": one.kind, "trials": one.trials, "of_trials": one.of, "example": one.text() }),
    );
    json!({
        "schema_version": SCHEMA_VERSION,
        "sides": sides.collect::<Vec<_>>(),
        "threshold": comparison.threshold,
        "comparisons": comparison.rows().filter(|row| row.corrected_p.is_some()).count(),
        "regression": comparison.regressed(),
        "cases": cases.collect::<Vec<_>>(),
        "not_compared": alone.collect::<Vec<_>>(),
        "notes": comparison.notes,
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

fn measure(row: &ComparedMeasure) -> Value {
    let value = |side: usize| {
        let Estimate { value, interval, n } = row.estimates[side];
        json!({
            "value": value, "low": interval.map(|i| i.low), "high": interval.map(|i| i.high),
            "trials": n, "at_least": row.at_least[side],
        })
    };
    let ratio = row.ratio.map(|ratio| {
        json!({
            "value": ratio.value,
            "low": ratio.interval.map(|i| i.low),
            "high": ratio.interval.map(|i| i.high),
            "paired": ratio.paired,
            "p": ratio.p,
            "p_corrected": row.corrected_p,
        })
    });
    json!({
        "measure": row.measure,
        "unit": row.measure.unit().name(),
        "better": better(row),
        "values": [value(0), value(1)],
        "ratio": ratio,
        "mann_whitney_p": row.rank_p,
        "verdict": verdict(row),
        "trials": row.trials(),
        "needs_trials": needs(row),
        "doubt": doubt(row),
        "text": row.verdict(),
    })
}

/// Acknowledged promises that power cuts lose under one cache model. Rates are shares of all states, and the
/// verdict is on the second side.
fn losses(row: &LossRow) -> Value {
    json!({
        "model": row.model,
        "sides": row.sides,
        "difference": row.difference.map(|difference| json!({
            "value": difference.value, "low": difference.interval.low, "high": difference.interval.high,
        })),
        "fisher_p": row.p,
        "p_corrected": row.corrected_p,
        "verdict": loss_verdict(row.finding),
        "would_show": would_show(row.finding),
        "text": row.finding.words(),
    })
}

fn loss_verdict(finding: LossFinding) -> &'static str {
    match finding {
        LossFinding::LosesMore => "loses more",
        LossFinding::LosesLess => "loses less",
        LossFinding::NoDifferenceShown(_) => "no difference shown",
    }
}

fn would_show(finding: LossFinding) -> Option<f64> {
    match finding {
        LossFinding::NoDifferenceShown(least) => least,
        _ => None,
    }
}

fn better(row: &ComparedMeasure) -> &'static str {
    match row.measure.direction() {
        Direction::HigherIsBetter => "higher",
        Direction::LowerIsBetter => "lower",
    }
}

/// The verdict without its numbers.
fn verdict(row: &ComparedMeasure) -> &'static str {
    match row.finding {
        Finding::Faster => "faster",
        Finding::Slower => "slower",
        Finding::NoMaterialDifference => "no material difference",
        Finding::CannotTell(_) => "cannot tell",
    }
}

fn needs(row: &ComparedMeasure) -> Option<usize> {
    match row.finding {
        Finding::CannotTell(Lack::Trials(needed)) => needed,
        _ => None,
    }
}

/// Returns the other explanation of the difference, if that is why there is no verdict.
fn doubt(row: &ComparedMeasure) -> Option<&str> {
    row.doubt.as_deref().filter(|_| row.finding == Finding::CannotTell(Lack::Doubt))
}

const COLUMNS: &[&str] = &[
    "a_sweep",
    "a_configuration",
    "b_sweep",
    "b_configuration",
    "workload",
    "measure",
    "unit",
    "better",
    "a_value",
    "a_low",
    "a_high",
    "a_trials",
    "a_at_least",
    "b_value",
    "b_low",
    "b_high",
    "b_trials",
    "b_at_least",
    "ratio",
    "ratio_low",
    "ratio_high",
    "paired",
    "p",
    "p_corrected",
    "mann_whitney_p",
    "verdict",
    "needs_trials",
    "doubt",
];

/// Writes a comparison as a tidy table, values in base units. What power cuts lose is a row for each cache
/// model, as the measure `acknowledged-lost (MODEL)` with the p value of Fisher's exact test.
///
/// # Errors
/// Those of `out`.
pub fn csv(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    writer.write_record(COLUMNS).map_err(output_error)?;
    for (case, row) in comparison.cases.iter().flat_map(|case| case.rows.iter().map(move |row| (case, row))) {
        let identity = identity(comparison, case, row.measure.name().to_string());
        let unit = [row.measure.unit().name().to_string(), better(row).to_string()];
        let values = [0, 1].map(|side| value(row, side)).concat();
        writer
            .write_record(identity.into_iter().chain(unit).chain(values).chain(judgement(row)))
            .map_err(output_error)?;
    }
    for (case, row) in comparison.cases.iter().flat_map(|case| case.losses.iter().map(move |row| (case, row)))
    {
        let identity = identity(comparison, case, format!("acknowledged-lost ({})", row.model.name()));
        let unit = ["share", "lower"].map(str::to_string);
        let values = [0, 1].map(|side| lost(&row.sides[side])).concat();
        let judgement = loss_judgement(row);
        let cells = identity.into_iter().chain(unit).chain(values).chain(judgement);
        writer.write_record(cells).map_err(output_error)?;
    }
    writer.flush()
}

fn identity(comparison: &Comparison, case: &ComparedCase, measure: String) -> [String; 6] {
    let [a, b] = [0, 1].map(|side| comparison.sides[side].sweep.to_string());
    let [of_a, of_b] = [0, 1].map(|side| csv_text(&case.names[side]));
    [a, of_a, b, of_b, csv_text(&case.workload_name), csv_text(&measure)]
}

/// The rate of a side; the trials are the logs with an acknowledged promise.
fn lost(lost: &Lost) -> [String; 5] {
    let [low, high] = lost.rate_interval.map_or(Default::default(), |ends| ends.map(|end| end.to_string()));
    [maybe(lost.rate), low, high, lost.logs.to_string(), false.to_string()]
}

fn loss_judgement(row: &LossRow) -> [String; 10] {
    let mut cells: [String; 10] = Default::default();
    (cells[3], cells[4], cells[5]) = (false.to_string(), row.p.to_string(), row.corrected_p.to_string());
    cells[7] = loss_verdict(row.finding).to_string();
    cells
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn ends(interval: Option<Interval>) -> [String; 2] {
    [maybe(interval.map(|interval| interval.low)), maybe(interval.map(|interval| interval.high))]
}

fn value(row: &ComparedMeasure, side: usize) -> [String; 5] {
    let Estimate { value, interval, n } = row.estimates[side];
    let [low, high] = ends(interval);
    [value.to_string(), low, high, n.to_string(), row.at_least[side].to_string()]
}

fn judgement(row: &ComparedMeasure) -> [String; 10] {
    let [low, high] = ends(row.ratio.and_then(|ratio| ratio.interval));
    [
        maybe(row.ratio.map(|ratio| ratio.value)),
        low,
        high,
        maybe(row.ratio.map(|ratio| ratio.paired)),
        maybe(row.ratio.and_then(|ratio| ratio.p)),
        maybe(row.corrected_p),
        maybe(row.rank_p),
        verdict(row).to_string(),
        maybe(needs(row)),
        csv_text(doubt(row).unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::fixture::{blocks as trials, question, side};

    #[test]
    fn json_and_csv_agree() {
        let (base, slower) = (trials(0, "a", 6, 1.0), trials(1, "b", 6, 0.9));
        let measures = ["read-under-write", "longest-stall"];
        let comparison =
            Comparison::new(side("1/a", 1, &base), side("1/b", 1, &slower), &question(&measures));
        let document = document(&comparison);
        assert_eq!((&document["regression"], &document["comparisons"]), (&json!(true), &json!(2)));
        assert_eq!(document["sides"][1], json!({ "name": "1/b", "sweep": 1, "sweep_name": "nightly" }));
        let mut out = Vec::new();
        csv(&mut out, &comparison).unwrap();
        let rows: Vec<std::collections::HashMap<String, String>> =
            ::csv::Reader::from_reader(out.as_slice()).deserialize().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 2);
        for (index, row) in rows.iter().enumerate() {
            let same = &document["cases"][0]["measures"][index];
            assert_eq!(row["measure"], same["measure"].as_str().unwrap());
            assert_eq!(row["verdict"], same["verdict"].as_str().unwrap());
            assert_eq!(row["ratio"].parse::<f64>().unwrap(), same["ratio"]["value"].as_f64().unwrap());
            assert_eq!(
                row["mann_whitney_p"].parse::<f64>().unwrap(),
                same["mann_whitney_p"].as_f64().unwrap()
            );
            assert_eq!(row["a_low"].parse::<f64>().unwrap(), same["values"][0]["low"].as_f64().unwrap());
        }
        assert_eq!((rows[0]["verdict"].as_str(), rows[0]["unit"].as_str()), ("slower", "bytes_per_s"));
        assert_eq!(rows[1]["verdict"], "no material difference");
    }

    #[test]
    fn losses_are_rows_of_their_own_and_a_regression() {
        let of = |case| fixture::durability_side(6, case);
        let (safe, losing) = (of(0), of(1));
        let compared = Comparison::new(side("a", 1, &safe), side("b", 2, &losing), &question(&[]));
        let document = document(&compared);
        assert_eq!(document["regression"], true);
        let flushed = &document["cases"][0]["losses"][1];
        assert_eq!((&flushed["model"], &flushed["verdict"]), (&json!("flushed"), &json!("loses more")));
        assert_eq!(
            (&flushed["sides"][1]["losing_logs"], &flushed["sides"][1]["rate"]),
            (&json!(6), &json!(1.0))
        );
        let mut out = Vec::new();
        csv(&mut out, &compared).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = text.lines().find(|line| line.contains("acknowledged-lost (flushed)")).unwrap();
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!((cells.len(), cells[8], cells[13], cells[25]), (COLUMNS.len(), "0", "1", "loses more"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
