//! Text in cells of CSV, which people open in spreadsheets.
//!
//! A spreadsheet takes a cell that begins with one of `=+-@` for a formula, even if it is quoted, and a
//! formula can start programs and send data away. Such text gets a leading `'`, as OWASP advises
//! (<https://owasp.org/www-community/attacks/CSV_Injection>). Figures are not text: negative numbers stay as
//! they are.

use crate::visible;

/// Untrusted text as a cell that neither a spreadsheet nor a terminal obeys.
pub(crate) fn csv_text(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    format!("{}{}", if formula { "'" } else { "" }, visible(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_a_formula_is_quoted() {
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
