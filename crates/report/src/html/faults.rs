//! The effects of failed requests to a disk: a table of configurations, and one of the faults of each.

use super::elements::{sentence, table};
use crate::terminal::faults::{self, LEGEND, SUMMARY, SUMMARY_LEGEND, mount_errors, summary_row};
use fsdyno_core::result::Harm;
use fsdyno_verdict::faults::Faults;
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::text;
use maud::{Markup, html};

/// The table of a workload; nothing if nothing failed on purpose.
pub fn section(ranking: &Ranking) -> Markup {
    let found: Vec<_> = ranking.rows.iter().filter_map(|row| Some((row, row.faults.as_ref()?))).collect();
    if found.is_empty() {
        return html! {};
    }
    let rows = found.iter().map(|(row, faults)| {
        std::iter::once(row.name.clone()).chain(summary_row(faults)).collect::<Vec<_>>()
    });
    let heads: Vec<&str> = std::iter::once("configuration").chain(SUMMARY).collect();
    html! {
        h4 { "What failing requests do" }
        (table("What failing requests do", &heads, &rows.collect::<Vec<_>>()))
        @for line in SUMMARY_LEGEND { p.note { (sentence(line)) } }
    }
}

/// The table of a case: a row for each fault.
pub fn case(faults: &Faults) -> Markup {
    let (heads, rows) = faults::table(faults);
    html! {
        (table("Faults", &heads, &rows))
        @for line in LEGEND { p.note { (sentence(line)) } }
        @for line in mount_errors(faults) { p.alert { (line) } }
    }
}

/// `2 of 14 faults lose data silently`, for the line of a case.
pub fn fact(faults: &Faults) -> String {
    let tested = text::plural(faults.tested() as u64, "fault");
    format!("{} of {tested} lose data silently", faults.did(Harm::Silent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_page_has_a_row_for_each_configuration_and_each_fault() {
        let view = fixture::view("silent-losses", &fixture::faulty_trials(3));
        let page = section(&view.rankings[0]).into_string();
        assert!(page.contains("<th scope=\"row\">ext4 none</th><td>14</td><td>1</td><td>2</td>"), "{page}");
        let faults = view.rankings[0].rows[0].faults.as_ref().unwrap();
        let page = case(faults).into_string();
        assert_eq!(page.matches("<th scope=\"row\">").count(), 16);
        assert!(page.contains("<td>!! missing</td>"), "{page}");
        assert_eq!(fact(faults), "1 of 14 faults lose data silently");
    }
}
