//! A plain table of figures.

use maud::{Markup, html};

/// A table with a heading for each column; the first cell of a row names it. A second line of a cell is
/// small.
pub fn table<H: AsRef<str>>(label: &str, heads: &[H], rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.figures {
                thead { tr { @for head in heads { th scope="col" { (head.as_ref()) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @if let Some(name) = row.first() { th scope="row" { (name) } }
                            @for text in row.iter().skip(1) { (cell(text)) }
                        }
                    }
                }
            }
        }
    }
}

/// A cell of the terminal: its second line is small.
pub fn cell(text: &str) -> Markup {
    let (first, second) = text.split_once('\n').map_or((text, None), |(first, rest)| (first, Some(rest)));
    html! { td { (first) @if let Some(second) = second { small { (second) } } } }
}
