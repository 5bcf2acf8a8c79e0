//! What requests to a disk that failed did: a table of configurations, and one of the faults of each.

use super::sentence::sentence;
use crate::terminal::faults::{ROWS, ROWS_LEGEND, SUMMARY, SUMMARY_LEGEND, mount_errors, rows, summary_row};
use fsdyno_verdict::faults::Faults;
use fsdyno_verdict::ranking::Ranking;
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
    let rows: Vec<Vec<String>> = rows(faults).into_iter().map(Vec::from).collect();
    html! {
        (table("Faults", &ROWS, &rows))
        @for line in ROWS_LEGEND { p.note { (sentence(line)) } }
        @for line in mount_errors(faults) { p.alert { (line) } }
    }
}

fn table(label: &str, heads: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.figures {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { (row[0]) }
                            @for cell in &row[1..] { td { (cell) } }
                        }
                    }
                }
            }
        }
    }
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
    }
}
