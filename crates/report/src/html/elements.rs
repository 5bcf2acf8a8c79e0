//! Elements that several sections of a page have: sentences, text with code in it, and tables of figures.

use maud::{Markup, html};

/// A line of the terminal as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>() + ".")
}

/// A text in which what is between two backticks is code, as on a page of the documentation.
pub(super) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // One that is not closed is a backtick.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (number, part) in parts.iter().enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A table with a heading for each column; the first cell of a row names it. A second line of a cell is
/// small.
pub(super) fn table<H: AsRef<str>>(label: &str, heads: &[H], rows: &[Vec<String>]) -> Markup {
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
fn cell(text: &str) -> Markup {
    let (first, second) = text.split_once('\n').map_or((text, None), |(first, rest)| (first, Some(rest)));
    html! { td { (first) @if let Some(second) = second { small { (second) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_backticks_is_code() {
        let shown = |text| with_code(text).into_string();
        assert_eq!(shown("over `window` <"), "over <code>window</code> &lt;");
        assert_eq!(shown("a `b` and `c`"), "a <code>b</code> and <code>c</code>");
        assert_eq!(shown("one ` alone"), "one ` alone");
        assert_eq!(shown(""), "");
    }
}
