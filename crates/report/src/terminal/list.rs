//! The list of stored sweeps, the latest last.

use super::style::{Paint, Style, write_table};
use comfy_table::{Cell, CellAlignment, Color};
use std::io::{self, Write};

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepRow {
    /// The text with which a user selects the sweep: its number, or `root:` and its number.
    pub id: String,
    /// Name of the plan.
    pub name: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// One word, such as `finished`.
    pub state: &'static str,
    /// `true` if the sweep can be resumed.
    pub is_unfinished: bool,
    /// Number of cases.
    pub cases: u32,
    /// Trials planned.
    pub trials: u32,
    /// Trials that have an outcome.
    pub done: u32,
    /// Trials that were skipped.
    pub skipped: u32,
    /// Trials that failed.
    pub failed: u32,
    /// The note of the user about it.
    pub note: Option<String>,
    /// The damage in it, a line for each trial.
    pub damaged: Vec<String>,
}

/// Writes one line for each sweep.
///
/// # Errors
/// Those of `out`.
pub fn sweep_list(out: &mut dyn Write, sweeps: &[SweepRow], style: &Style) -> io::Result<()> {
    if sweeps.is_empty() {
        return style.paragraph(out, Paint::Plain, 0, "No sweep is stored yet.");
    }
    let head = ["sweep", "name", "started (UTC)", "state", "cases", "trials", "skipped", "failed"];
    let mut table = style.table(head.map(str::to_string).to_vec());
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    for sweep in sweeps {
        table.add_row(row(sweep));
    }
    write_table(out, table, *style)?;
    for (SweepRow { id, .. }, note) in sweeps.iter().filter_map(|sweep| Some((sweep, sweep.note.as_ref()?))) {
        style.paragraph(out, Paint::Plain, 2, &format!("note on {id}: {note}"))?;
    }
    for SweepRow { id, damaged, .. } in sweeps {
        for line in damaged {
            style.paragraph(out, Paint::Alert, 2, &format!("damaged in {id}: {line}"))?;
        }
    }
    Ok(())
}

fn row(sweep: &SweepRow) -> Vec<Cell> {
    let state = Cell::new(sweep.state);
    let failed = Cell::new(sweep.failed);
    vec![
        Cell::new(&sweep.id),
        Cell::new(&sweep.name),
        Cell::new(minute(&sweep.started)),
        if sweep.is_unfinished { state.fg(Color::Yellow) } else { state },
        Cell::new(sweep.cases),
        Cell::new(format!("{}/{}", sweep.done, sweep.trials)),
        Cell::new(sweep.skipped),
        if sweep.failed > 0 { failed.fg(Color::Yellow) } else { failed },
    ]
}

/// `2026-02-03 04:05` of an RFC 3339 time.
fn minute(time: &str) -> String {
    time.chars().take(16).collect::<String>().replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(id: i64, name: &str, state: &'static str, done: u32) -> SweepRow {
        SweepRow {
            id: id.to_string(),
            name: name.to_string(),
            started: "2026-02-03T04:05:06.789Z".to_string(),
            state,
            is_unfinished: state == "interrupted",
            cases: 12,
            trials: 74,
            done,
            skipped: 2,
            failed: 1,
            note: None,
            damaged: Vec::new(),
        }
    }

    fn list(sweeps: &[SweepRow]) -> String {
        let mut out = Vec::new();
        sweep_list(&mut out, sweeps, &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_sweep_has_a_line() {
        let sweeps = [sweep(1, "demo", "finished", 74), sweep(12, "xfs-log", "interrupted", 11)];
        assert_eq!(
            list(&sweeps),
            "\
sweep  name     started (UTC)     state        cases  trials  skipped  failed
1      demo     2026-02-03 04:05  finished        12   74/74        2       1
12     xfs-log  2026-02-03 04:05  interrupted     12   11/74        2       1
"
        );
        assert_eq!(list(&[]), "No sweep is stored yet.\n");
    }

    #[test]
    fn what_is_damaged_follows() {
        let damaged =
            vec!["trial 3: it cannot be decompressed".to_string(), "trial 4: it is empty".to_string()];
        let text = list(&[SweepRow { damaged, ..sweep(7, "demo", "finished", 74) }]);
        let below =
            "  damaged in 7: trial 3: it cannot be decompressed\n  damaged in 7: trial 4: it is empty\n";
        assert!(text.ends_with(below), "{text}");
    }

    #[test]
    fn a_long_name_wraps_within_the_width() {
        let name = "every scheduler and every journal of every filesystem that this machine has";
        let text = list(&[sweep(1, name, "running", 3)]);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
