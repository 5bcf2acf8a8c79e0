//! Text in cells of CSV, which people open in spreadsheets.
//!
//! A spreadsheet takes a cell that begins with one of `=+-@` for a formula, whatever stands in quotes around it, and a formula
//! can start programs and send data away. Such a text gets a `'` before it, as OWASP advises
//! (<https://owasp.org/www-community/attacks/CSV_Injection>). Figures are not text: a negative number stays one.

use crate::visible;

/// A text of somebody else's as a cell, in which nothing commands a spreadsheet or a terminal.
pub(crate) fn csv_text(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    format!("{}{}", if formula { "'" } else { "" }, visible(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_a_formula_does_not() {
        for (text, cell) in [
            ("ext4 noatime", "ext4 noatime"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1", "'+1"),
            ("-s 2G", "'-s 2G"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\\r=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("a=1\nb", "a=1\nb"),
            ("\x1b[31m", "\\x1b[31m"),
        ] {
            assert_eq!(csv_text(text), cell);
        }
    }
}
