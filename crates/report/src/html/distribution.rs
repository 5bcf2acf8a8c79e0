//! Distributions of one operation under every configuration, in one chart: percentile curves up to p99.99.
//!
//! The horizontal axis counts nines, as HdrHistogram's own plots do: half of its length shows the slowest
//! hundredth. A curve ends where its sample ends: 500 operations have no p99.99.

use super::ReportError;
use super::chart::{self, Chart, ChartTable, plain};
use fsdyno_core::result::{OperationResult, Quantile};
use fsdyno_core::{Operation, Role, TrialRecord};
use fsdyno_verdict::CurvePoint;
use fsdyno_verdict::merge;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, OperationView, PhaseView, RoleView};
use serde_json::json;

/// Points of a curve.
const POINTS: usize = 80;
/// Maximum number of curves in one chart; more cannot be distinguished.
pub const CURVES_MAX: usize = 28;
/// Height of the chart in pixels.
pub const HEIGHT: u32 = 460;

/// Which operation of which role in which phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Name of the phase.
    pub phase: String,
    /// The role.
    pub role: Role,
    /// The operation.
    pub operation: Operation,
}

/// The distribution of one operation in all trials of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Which operation it is of.
    pub subject: Subject,
    /// Name of the configuration.
    pub name: String,
    /// Latency in seconds at each step of the axis, as far as the sample goes.
    latencies: Vec<f64>,
    /// The row of the table.
    row: Vec<String>,
}

/// The curves of a case, over all of its trials.
///
/// # Errors
/// [`ReportError::Histogram`] if a stored histogram cannot be read.
pub fn curves(case: &CaseView, trials: &[TrialRecord]) -> Result<Vec<Curve>, ReportError> {
    let mut curves = Vec::new();
    for phase in &case.phases {
        for role in &phase.roles {
            for view in role.operations.iter().filter(|view| view.latency.count > 0) {
                let points = merge::distribution(&recorded(trials, case, phase, role, view))?.curve();
                let latency = &view.latency;
                let name = &case.configuration.name;
                let mut row = vec![name.clone(), latency.count.to_string()];
                row.extend(
                    Quantile::ALL.iter().map(|of| view.quantile(*of).map_or("-".to_string(), text::time)),
                );
                row.push(text::time(view.time(latency.max)));
                curves.push(Curve {
                    subject: Subject {
                        phase: phase.name.clone(),
                        role: role.role,
                        operation: view.operation,
                    },
                    name: name.clone(),
                    latencies: sampled(&points),
                    row,
                });
            }
        }
    }
    Ok(curves)
}

/// Returns the results that the trials of a case recorded of an operation.
fn recorded<'t>(
    trials: &'t [TrialRecord],
    case: &CaseView,
    phase: &PhaseView,
    role: &RoleView,
    view: &OperationView,
) -> Vec<(u32, &'t OperationResult)> {
    let counted = trials.iter().filter(|trial| case.trials.contains(&trial.trial));
    counted
        .flat_map(|trial| trial.phases.iter().map(move |phase| (trial.trial, phase)))
        .filter(|(_, of)| of.name == phase.name)
        .flat_map(|(trial, of)| of.roles.iter().map(move |role| (trial, role)))
        .filter(|(_, of)| of.role == role.role)
        .flat_map(|(trial, of)| of.operations.iter().map(move |operation| (trial, operation)))
        .filter(|(_, of)| of.operation == view.operation && !of.histogram.is_empty())
        .collect()
}

/// The number of nines in a share: 3 for 99.9 %.
fn nines(share: f64) -> f64 {
    // 1 - 0.999 is not quite 0.001.
    (-(1.0 - share).log10() * 1e12).round() / 1e12
}

/// Nines at the right edge: those of the highest quantile.
fn right_edge() -> f64 {
    Quantile::ALL.last().map_or(0.0, |highest| nines(highest.fraction()))
}

/// The curve at equal steps of the axis, as far as the sample goes.
fn sampled(points: &[CurvePoint]) -> Vec<f64> {
    let Some(count) = points.last().map(|point| point.count) else { return Vec::new() };
    let mut points = points.iter().peekable();
    let (mut latencies, edge) = (Vec::new(), right_edge());
    for step in 0..=POINTS {
        let nines = edge * step as f64 / POINTS as f64;
        let share = 1.0 - 10f64.powf(-nines);
        // Less than one operation would be slower.
        if (1.0 - share) * (count as f64) < 1.0 - 1e-9 {
            break;
        }
        while points.next_if(|point| point.quantile < share).is_some() {}
        latencies.extend(points.peek().map(|point| chart::seconds(point.value_ns)));
    }
    latencies
}

/// The chart of one operation, from the curves of every configuration, best first.
pub fn chart(subject: &Subject, curves: &[&Curve]) -> Chart {
    let latencies =
        || curves.iter().flat_map(|curve| &curve.latencies).copied().filter(|latency| *latency > 0.0);
    let ns = |seconds: f64| (seconds * 1e9).round().max(1.0) as u64;
    let least = latencies().fold(f64::INFINITY, f64::min);
    let most = latencies().fold(0.0, f64::max);
    let edge = right_edge();
    let ticks: Vec<(&str, f64)> = std::iter::once(("p0", 0.0))
        .chain(Quantile::ALL.iter().map(|quantile| (quantile.label(), nines(quantile.fraction()))))
        .collect();
    let data = curves.iter().take(CURVES_MAX).enumerate().map(|(index, curve)| {
        json!({
            "type": "scatter", "mode": "lines", "name": plain(&curve.name),
            "x0": 0, "dx": edge / POINTS as f64, "y": curve.latencies,
            "line": { "color": chart::colour(index), "dash": chart::dash(index), "width": 2 },
            "hovertemplate": format!("{}: %{{y:.3~s}}s<extra></extra>", plain(&curve.name)),
        })
    });
    let layout = json!({
        "height": HEIGHT,
        "margin": { "t": 26 },
        "xaxis": {
            "range": [0, edge + 0.02],
            "tickvals": ticks.iter().map(|(_, nines)| nines).collect::<Vec<_>>(),
            "ticktext": ticks.iter().map(|(text, _)| text).collect::<Vec<_>>(),
            "title": { "text": "share of operations that took at most this long" },
        },
        "yaxis": chart::time_axis(if least.is_finite() { ns(least) } else { 1_000 }, ns(most)),
        "legend": { "orientation": "h", "y": -0.2, "yanchor": "top", "x": 0 },
        "annotations": [chart::row_title("time of one operation", 1.0)],
        "hovermode": "closest",
    });
    let quantiles = Quantile::ALL.iter().map(|quantile| quantile.label());
    let head = ["configuration", "count"].into_iter().chain(quantiles).chain(["max"]);
    let table = ChartTable {
        caption: format!("{}, {} {}", subject.phase, subject.role, subject.operation),
        head: head.map(str::to_string).collect(),
        rows: curves.iter().map(|curve| curve.row.clone()).collect(),
    };
    Chart { data: data.collect(), layout, tables: vec![table] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_verdict::Distribution;

    #[test]
    fn a_curve_ends_where_its_sample_ends() {
        let mut distribution = Distribution::empty();
        for value in 1..=500 {
            distribution.record(value * 1_000);
        }
        let latencies = sampled(&distribution.curve());
        // 500 operations have a p99.8, but no p99.81: 2.70 nines.
        assert_eq!(latencies.len(), 1 + (500f64.log10() / right_edge() * POINTS as f64).floor() as usize);
        assert_eq!(latencies[20], 0.00045, "p90");
        assert!(sampled(&[]).is_empty());
    }
}
