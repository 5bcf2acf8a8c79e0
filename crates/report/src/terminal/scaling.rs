//! The growth of the rate of a role with its workers.

use super::style::{Paint, Style, cell, write_table};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::scaling::{Scaling, ScalingPoint};
use fsdyno_verdict::text;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Writes a table of the numbers of workers; nothing if there is only one.
///
/// # Errors
/// Those of `out`.
pub(super) fn scaling(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let Some(scaling) = Scaling::of_case(case) else { return Ok(()) };
    let title = format!(
        "{} under {}: rate of the {}s by their number",
        case.configuration.name,
        case.workload.kind(),
        scaling.role.name()
    );
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let head = ["workers", "iterations/s", "each", "speed-up", "an iteration takes", "Jain", "slowest"];
    let mut table = style.table(head.map(str::to_string).to_vec());
    for point in &scaling.points {
        let of_fairness = |figure: Option<f64>| figure.map_or("-".to_string(), |of| format!("{of:.3}"));
        let row = [
            point.workers.to_string(),
            text::number(point.per_s),
            text::number(point.each_per_s()),
            speed_up(&scaling.points[0], point),
            takes(point),
            of_fairness(point.fairness.map(|fairness| fairness.jain)),
            of_fairness(point.fairness.map(|fairness| fairness.least_to_most)),
        ];
        table.add_row(row.map(cell));
    }
    write_table(out, table, style)?;
    style.paragraph(out, Paint::Plain, 0, &conclusion(&scaling))
}

/// Returns the ratio of the rate to that of the first.
fn speed_up(first: &ScalingPoint, point: &ScalingPoint) -> String {
    match first.per_s > 0.0 {
        true => format!("{:.2}", point.per_s / first.per_s),
        false => "-".to_string(),
    }
}

fn takes(point: &ScalingPoint) -> String {
    let time = |ns: f64| text::time(Time { ns: ns.round() as u64, at_least: false });
    point.iteration_ns().map_or("-".to_string(), time)
}

/// Returns the conclusion from the rates.
fn conclusion(scaling: &Scaling) -> String {
    let (Some(knee), Some(best)) = (scaling.knee(), scaling.best()) else {
        return "No iteration was completed.".to_string();
    };
    let workers = |point: &ScalingPoint| text::plural(point.workers.into(), scaling.role.name());
    if scaling.points.last() == Some(knee) {
        return format!("The rate still grows at {}: no knee was reached.", workers(knee));
    }
    let knee_is = format!(
        "The knee is at {}: there, the rate divided by the time of an iteration is highest.",
        workers(knee)
    );
    match (best == knee, best.iteration_ns().zip(knee.iteration_ns())) {
        (false, Some((best_ns, knee_ns))) => format!(
            "{knee_is} With {}, the rate is {:.2} times as high, and an iteration takes {:.2} times as long.",
            workers(best),
            best.per_s / knee.per_s,
            best_ns / knee_ns
        ),
        _ => format!("{knee_is} More of them complete less."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn rates_stand_beside_what_each_worker_waits() {
        let trials = fixture::scaled_trials();
        let cases = fsdyno_verdict::view::cases(&trials).unwrap();
        let written = |case: &CaseView| {
            let mut out = Vec::new();
            scaling(&mut out, case, Style::default()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let ext4 = written(&cases[0]);
        let lines: Vec<&str> = ext4.lines().collect();
        assert_eq!(lines[0], "ext4 none under flow: rate of the clients by their number");
        let words: Vec<&str> = lines[4].split_whitespace().collect();
        assert_eq!(words, ["4", "350", "87.5", "3.50", "11.4ms", "1.000", "1.000"], "{ext4}");
        assert!(
            ext4.split_whitespace().collect::<Vec<_>>().join(" ").contains(
                "The knee is at 4 clients: there, the rate divided by the time of an iteration is highest. With 8 \
                 clients, the rate is 1.09 times as high, and an iteration takes 1.84 times as long."
            ),
            "{ext4}"
        );
        let xfs = written(&cases[1]);
        assert!(xfs.contains("The rate still grows at 8 clients: no knee was reached."), "{xfs}");
        let other = fsdyno_verdict::view::cases(&fixture::trials()).unwrap();
        assert_eq!(written(&other[0]), "");
    }
}
