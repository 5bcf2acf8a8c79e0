//! A report for people, in a few lines.

use super::file::Sectors;
use std::fmt::Write;

/// The maximum number of lines.
const LINES: usize = 8;

/// The first few things that were lost or wrong.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// Adds a line.
    pub(super) fn add(&mut self, line: impl FnOnce() -> String) {
        if self.0.len() < LINES {
            self.0.push(line());
        }
    }

    /// Adds what was found in a file, unless it is as it should be.
    pub(super) fn add_sectors(&mut self, path: impl FnOnce() -> String, sectors: &Sectors) {
        if sectors.bad() > 0 {
            self.add(|| format!("{}: {}", path(), described(sectors)));
        }
    }

    /// Adds those of somebody else.
    pub(super) fn append(&mut self, other: Notes) {
        other.0.into_iter().for_each(|line| self.add(|| line));
    }

    pub(super) fn lines(self) -> Vec<String> {
        self.0
    }
}

fn described(sectors: &Sectors) -> String {
    let (needed, missing) = (sectors.needed, sectors.missing);
    let mut text = String::new();
    if needed > 0 && missing == needed {
        text.push_str("all acknowledged sectors are missing");
    } else if missing > 0 {
        // Formatting into a string does not fail.
        let _ = write!(text, "{missing} of {needed} acknowledged sectors are missing");
    }
    let kinds = [
        (sectors.zeros, "of zeros"),
        (sectors.garbage, "of garbage"),
        (sectors.old, "of an old version"),
        (sectors.foreign, "of another file or place"),
    ];
    for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0) {
        let separator = if text.is_empty() { "" } else { ", " };
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(text, "{separator}{count} sector{plural} {kind}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_what() {
        let sectors = Sectors { needed: 12, missing: 2, ..Sectors::default() };
        assert_eq!(described(&sectors), "2 of 12 acknowledged sectors are missing");
        let sectors = Sectors { zeros: 1, foreign: 3, ..sectors };
        let text =
            "2 of 12 acknowledged sectors are missing, 1 sector of zeros, 3 sectors of another file or place";
        assert_eq!(described(&sectors), text);
        let mut notes = Notes::default();
        (0..20).for_each(|number| notes.add(|| number.to_string()));
        notes.add_sectors(|| "path".to_string(), &sectors);
        assert_eq!(notes.lines().len(), 8);
    }
}
