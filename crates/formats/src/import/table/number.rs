//! Numbers as people and spreadsheets write them: `1234.5`, `1,234.5`, `1.234,5`, `1 234,5`.

/// The characters that separate groups of three digits, besides a comma or a point.
const SPACES: [char; 4] = [' ', '\u{a0}', '\u{202f}', '\''];

/// The way in which the numbers of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `1,234.5`
    Point,
    /// `1.234,5`
    Comma,
    /// `1,234` may be either, and nothing says which.
    Unclear,
}

impl Style {
    /// Returns the styles that the cells of each column prove, else those of all columns, else what is usual
    /// in such a table.
    pub(super) fn of_columns<'a>(
        columns: impl IntoIterator<Item = Vec<&'a str>>,
        separator: char,
    ) -> Vec<Style> {
        let proven: Vec<Option<Style>> =
            columns.into_iter().map(|cells| cells.into_iter().find_map(proof)).collect();
        let usual = match separator {
            _ if proven.contains(&Some(Style::Comma)) => Style::Comma,
            // Between commas, a number with one is quoted, and that is done for thousands.
            ',' => Style::Point,
            _ if proven.contains(&Some(Style::Point)) => Style::Point,
            _ => Style::Unclear,
        };
        proven.into_iter().map(|style| style.unwrap_or(usual)).collect()
    }

    /// The number of a cell.
    pub(super) fn parse(self, cell: &str) -> Option<f64> {
        let (point, group) = match self {
            Style::Comma => (',', '.'),
            Style::Point | Style::Unclear => ('.', ','),
        };
        let (whole, fraction) = cell.split_once(point).map_or((cell, None), |(a, b)| (a, Some(b)));
        let separators: Vec<char> = whole.chars().filter(|c| *c == group || SPACES.contains(c)).collect();
        let whole = match separators.first() {
            Some(_) if self == Style::Unclear && separators.contains(&',') => return None,
            Some(first) if separators.iter().all(|one| one == first) && is_grouped(whole, *first) => {
                whole.replace(*first, "")
            }
            Some(_) => return None,
            None => whole.to_string(),
        };
        let plain = fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"));
        plain.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// `1,234,567`
fn is_grouped(whole: &str, separator: char) -> bool {
    let mut groups = whole.trim_start_matches(['-', '+']).split(separator);
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let begins = groups.next().is_some_and(|first| (1..=3).contains(&first.len()) && is_digits(first));
    begins && groups.all(|group| group.len() == 3 && is_digits(group))
}

/// The style of a number that can have only one.
fn proof(cell: &str) -> Option<Style> {
    let cell = cell.replace(SPACES, "");
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    if !cell.starts_with(|c: char| c.is_ascii_digit()) || !cell.chars().all(is_of_number) {
        return None;
    }
    let last = cell.rfind(['.', ','])?;
    let (whole, fraction) = (&cell[..last], &cell[last + 1..]);
    let style = if cell[last..].starts_with(',') { Style::Comma } else { Style::Point };
    let groups = if style == Style::Comma { '.' } else { ',' };
    let may_be_group = fraction.len() == 3 && (1..=3).contains(&whole.len()) && whole != "0";
    match whole.contains(['.', ',']) {
        true => (is_grouped(whole, groups) && !fraction.is_empty()).then_some(style),
        false => (!may_be_group && !fraction.is_empty()).then_some(style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(cells: &[&str], separator: char) -> Vec<Option<f64>> {
        let style = Style::of_columns([cells.to_vec()], separator)[0];
        cells.iter().map(|cell| style.parse(cell)).collect()
    }

    #[test]
    fn numbers_are_read_as_they_are_meant() {
        for (cells, separator, expected) in [
            (&["203.5", "9e1", "7"][..], ',', &[203.5, 90.0, 7.0][..]),
            (&["503,244", "1,503,244", "12"], ',', &[503_244.0, 1_503_244.0, 12.0]),
            (&["503,244", "1,234.5"], ';', &[503_244.0, 1234.5]),
            (&["203,5", "503,244"], ',', &[203.5, 503.244]),
            (&["203,5", "1.234,25", "1.234"], ';', &[203.5, 1234.25, 1234.0]),
            (&["1 234,5", "1\u{a0}234"], ';', &[1234.5, 1234.0]),
            (&["0,125"], '\t', &[0.125]),
            (&["1'234.5", "-1.5"], ';', &[1234.5, -1.5]),
            (&["1.234"], ';', &[1.234]),
        ] {
            let expected: Vec<Option<f64>> = expected.iter().copied().map(Some).collect();
            assert_eq!(numbers(cells, separator), expected, "{cells:?}");
        }
    }

    #[test]
    fn what_may_be_two_numbers_is_none() {
        assert_eq!(numbers(&["1,234", "2,345"], ';'), [None, None]);
        for bad in ["", "1,23,456", "1,234 567", "fast", "NaN", "inf", "1,2", "1.2.3"] {
            assert_eq!(Style::Point.parse(bad), None, "{bad}");
        }
    }

    /// Another column shows which of the two it is.
    #[test]
    fn a_column_is_read_like_the_others_of_its_table() {
        let styles = |columns: [Vec<&str>; 2]| Style::of_columns(columns, ';');
        assert_eq!(styles([vec!["1,234"], vec!["203,5"]]), [Style::Comma, Style::Comma]);
        assert_eq!(styles([vec!["1,234"], vec!["203.5"]]), [Style::Point, Style::Point]);
        let quoted = Style::of_columns([vec!["1,234"], vec!["0,250"]], ',');
        assert_eq!(quoted, [Style::Comma, Style::Comma]);
    }
}
