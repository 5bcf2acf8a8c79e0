//! Response times over rates, of a flow that searches for the highest rate that meets a target.

use super::style::{Paint, Style, cell, write_table};
use comfy_table::Cell;
use fsdyno_core::result::{Quantile, RatePoint};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{CaseView, RoleView, TrialCurve};
use std::io::{self, Write};

/// Writes a table for each role that has searched; nothing if none has.
///
/// # Errors
/// Those of `out`.
pub(super) fn curves(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    for role in case.phases.iter().flat_map(|phase| &phase.roles) {
        let Some(shown) = role.middle_curve() else { continue };
        let title = format!(
            "{} under {}: response times of {} by their rate{}",
            case.configuration.name,
            case.workload.kind(),
            text::plural(role.workers.into(), role.role.name()),
            of_trial(role, shown)
        );
        style.paragraph(out, Paint::Heading, 0, &title)?;
        let head =
            ["iterations/s", "achieved"].into_iter().chain(Quantile::ALL.iter().map(|one| one.label()));
        let head = head.chain(["max", "met"]).map(str::to_string).collect();
        let mut table = style.table(head);
        for point in shown.curve.by_rate() {
            table.add_row(row(point));
        }
        write_table(out, table, style)?;
        style.paragraph(out, Paint::Plain, 0, &conclusion(shown))?;
    }
    Ok(())
}

/// `, trial 4 (the middle one of 5)`.
fn of_trial(role: &RoleView, shown: &TrialCurve) -> String {
    let trial = text::nth(shown.trial);
    match role.curves.len() {
        1 => String::new(),
        2 => format!(", trial {trial} (the lower of 2)"),
        odd if odd % 2 == 1 => format!(", trial {trial} (the middle one of {odd})"),
        even => format!(", trial {trial} (the lower of the two in the middle of {even})"),
    }
}

fn row(point: &RatePoint) -> Vec<Cell> {
    let latency = &point.lat_ns;
    let time = |ns: u64| text::time(Time { ns, at_least: latency.is_bound(ns) });
    let quantile = |of: &Quantile| latency.shown(*of).map_or("-".to_string(), time);
    let rates = [point.intended_per_s, point.achieved_per_s].map(text::number);
    let cells = rates.into_iter().chain(Quantile::ALL.iter().map(quantile));
    let kept = match point.met {
        true => "yes",
        false if point.fell_behind() => "behind",
        false => "no",
    };
    cells.chain([time(latency.max), kept.to_string()]).map(cell).collect()
}

/// Returns the conclusion from a curve.
pub(crate) fn conclusion(shown: &TrialCurve) -> String {
    let curve = &shown.curve;
    let closed =
        format!("Without a rate, the workers completed {} iterations/s.", text::number(curve.closed_per_s));
    match curve.highest_per_s {
        None => format!("No rate that was tried met {}. {closed}", curve.until),
        Some(highest) => format!(
            "The highest rate that met {}: {}{} iterations/s. {closed}",
            curve.until,
            if curve.has_limit { "" } else { ">= " },
            text::number(highest)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::terminal::{classic, full};

    fn shown(print: impl Fn(&mut dyn Write, &CaseView) -> io::Result<()>, case: usize) -> String {
        let view = fixture::view("flow-capacity", &fixture::searched_trials());
        let mut out = Vec::new();
        print(&mut out, &view.cases[case]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rates_are_in_their_order_and_the_highest_is_said() {
        let text = shown(|out, case| classic(out, case, &Style::default()), 0);
        assert_eq!(
            text,
            "\
ext4 none under flow: response times of 4 clients by their rate, trial 1 (the
  lower of 2)
iterations/s  achieved     p50     p90     p99   p99.9  p99.99      max     met
150                150  13.5ms  17.1ms  17.9ms       -       -   36.0ms     yes
300                300  13.5ms  17.1ms  17.9ms  18.0ms       -   36.0ms     yes
450                300   135ms   171ms   179ms   180ms       -  >=360ms  behind
The highest rate that met p99 <= 20ms: 300 iterations/s. Without a rate, the
  workers completed 375 iterations/s.
"
        );
        let text = shown(|out, case| classic(out, case, &Style::default()), 1);
        assert!(text.contains("met p99 <= 20ms: >= 800 iterations/s."), "{text}");
    }

    #[test]
    fn how_a_role_kept_up_has_a_line() {
        let text = shown(|out, case| full(out, case, &Style::default()), 1);
        let line = "  open loop: 800 iterations/s due (poisson), 800 /s achieved; backlog at most
    12, 3 at the end of the window; workers that waited for the moment began
    61.2 us late (at most 1.20 ms)
";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("\nresponse time") && text.contains("\nservice time"), "{text}");
    }
}
