//! The effects of failed requests to a disk: a row for each configuration, and one for each fault of a case.

use super::columns::{marked, weakens};
use super::page::Extent;
use super::style::{Paint, Style, write_table};
use comfy_table::{Cell, CellAlignment};
use fsdyno_core::result::{Content, FaultResult, Harm};
use fsdyno_verdict::faults::{FaultOutcome, Faults};
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// The heading of the rows of [`summary_row`].
pub(crate) const SUMMARY: [&str; 6] =
    ["faults", "silent losses", "false success", "not usable", "not mounted", "damaged"];
/// The meaning of these columns.
pub(crate) const SUMMARY_LEGEND: [&str; 2] = [
    "silent losses: data is lost or wrong although every call succeeded; false success: fsync \
     reported the error once, and succeeded when it was called again, although the data is lost",
    "not usable: until it was mounted again, no file could be created and synced; not mounted, damaged: \
     afterwards, when nothing failed any more",
];

/// The meaning of the columns of [`table`].
pub(crate) const LEGEND: [&str; 2] = [
    "fsync, again: what the first and the second call said (of read-..., what the reads said); reads: what \
     was then read; then: whether a file could still be created; after, check: when it was mounted again",
    "!!: lost or wrong although every call succeeded; !: the second call succeeded, although the data is \
     lost; -: the filesystem made no such request",
];

/// Returns whether requests failed in these trials: not so under other workloads.
pub(super) fn are_known(ranking: &Ranking) -> bool {
    ranking.rows.iter().any(|row| row.faults.is_some())
}

/// Writes a row for each configuration for which one is wanted.
pub(super) fn summary(
    out: &mut dyn Write,
    ranking: &Ranking,
    is_shown: &dyn Fn(usize) -> bool,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let rows = ranking.rows.iter().enumerate().filter(|(index, _)| is_shown(*index));
    let rows: Vec<_> = rows.filter_map(|(_, row)| Some((row, row.faults.as_ref()?))).collect();
    let weak = ranking.rows.iter().any(|row| !row.risks.is_empty());
    style.paragraph(out, Paint::Heading, 0, "What failing requests do")?;
    let heads = SUMMARY.map(|head| head.replacen(' ', "\n", 1));
    let lower = |head: &str| if head.contains('\n') { head.to_string() } else { format!("\n{head}") };
    let heads = std::iter::once("configuration").chain(heads.iter().map(String::as_str)).map(lower);
    let mut table = style.table(heads.collect());
    for (row, faults) in rows {
        let name = marked(&row.name, row.risks.is_empty(), weak);
        table.add_row(std::iter::once(name).chain(summary_row(faults)).map(Cell::new).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    write_table(out, table, style)?;
    if let Extent::Page(more) = extent {
        let text = format!(
            "(one fault may be in several columns; what they mean: {more} --notes; every fault: {more} --full{})",
            weakens(weak)
        );
        return style.paragraph(out, Paint::Plain, 0, &text);
    }
    style.paragraph(out, Paint::Plain, 0, &format!("({})", SUMMARY_LEGEND.join("; ")))?;
    style.paragraph(out, Paint::Plain, 0, "(fsdyno show --full has every fault)")
}

/// The cells after the name of a configuration.
pub(crate) fn summary_row(faults: &Faults) -> [String; 6] {
    let damaged = faults.damaged().map_or("-".to_string(), |count| count.to_string());
    [
        faults.tested().to_string(),
        faults.did(Harm::Silent).to_string(),
        faults.did(Harm::ToldOnce).to_string(),
        faults.unusable().to_string(),
        faults.not_mounted().to_string(),
        damaged,
    ]
}

/// Writes a row for each fault of a case.
pub(super) fn faults(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let Some(faults) = &case.faults else { return Ok(()) };
    let title = format!("{}: what failing requests do", case.configuration.name);
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let (heads, rows) = table(faults);
    let mut table = style.table(heads.into_iter().map(str::to_string).collect());
    for row in rows {
        table.add_row(row.into_iter().map(Cell::new).collect::<Vec<_>>());
    }
    write_table(out, table, style)?;
    style.paragraph(out, Paint::Plain, 0, &format!("({})", LEGEND.join("; ")))?;
    mount_errors(faults).iter().try_for_each(|line| style.paragraph(out, Paint::Alert, 0, line))
}

/// The headings, and a row for each fault, or more where trials differ; how many trials it stands for only if
/// there are several.
pub(crate) fn table(faults: &Faults) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let several = faults.trials > 1;
    let heads = ["fsync", "again", "reads", "then", "after", "check"];
    let heads = ["fault"].into_iter().chain(several.then_some("trials")).chain(heads).collect();
    let row = |outcome: &FaultOutcome| {
        let name = outcome.result.fault.name().to_string();
        let trials = match outcome.trials == outcome.of {
            true => outcome.of.to_string(),
            false => format!("{} of {}", outcome.trials, outcome.of),
        };
        [name].into_iter().chain(several.then_some(trials)).chain(cells(&outcome.result)).collect()
    };
    (heads, faults.outcomes.iter().map(row).collect())
}

fn cells(result: &FaultResult) -> [String; 6] {
    let none = || "-".to_string();
    let Some(seen) = &result.witnessed else {
        return ["hung".to_string(), none(), none(), none(), none(), none()];
    };
    if result.harm() == Harm::Untested {
        return std::array::from_fn(|_| none());
    }
    let said = |call: &Option<String>| call.clone().unwrap_or_else(|| "ok".to_string());
    [
        said(&seen.first),
        said(&seen.again),
        seen.reads.name().to_string(),
        seen.usable.name().to_string(),
        after(result),
        match result.clean {
            None => none(),
            Some(true) => "clean".to_string(),
            Some(false) => "damaged".to_string(),
        },
    ]
}

fn after(result: &FaultResult) -> String {
    let mark = match result.harm() {
        Harm::Silent => "!! ",
        Harm::ToldOnce => "! ",
        _ => "",
    };
    let found = result.after.map_or("not mounted", Content::name);
    format!("{mark}{found}")
}

/// Why filesystems could not be mounted again.
pub(crate) fn mount_errors(faults: &Faults) -> Vec<String> {
    let of = |outcome: &FaultOutcome| {
        let reason = outcome.result.mount_error.as_ref()?;
        Some(format!("not mounted after {}: {reason}", outcome.result.fault.name()))
    };
    faults.outcomes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn case() -> CaseView {
        let trials = fixture::faulty_trials(3);
        fixture::view("silent-losses", &trials).cases.remove(0)
    }

    #[test]
    fn each_fault_has_a_row_and_harm_is_marked() {
        let case = case();
        let faults = case.faults.as_ref().unwrap();
        let (heads, rows) = table(faults);
        assert_eq!(heads[..2], ["fault", "trials"]);
        let named = |name: &str| rows.iter().find(|row| row[0] == name).unwrap().clone();
        assert_eq!(named("append-data")[2..], ["ok", "ok", "new", "writable", "!! missing", "clean"]);
        assert_eq!(named("overwrite-data")[2..], ["EIO", "ok", "new", "writable", "! old", "clean"]);
        assert_eq!(named("append-flush")[2..4], ["-", "-"]);
        assert_eq!(named("overwrite-metadata-for-good")[6..], ["not mounted", "-"]);
        assert_eq!(summary_row(faults), ["14", "1", "2", "1", "1", "1"]);
    }

    #[test]
    fn tables_fit_a_narrow_terminal() {
        let trials = fixture::faulty_trials(3);
        let view = fixture::view("silent-losses", &trials);
        let style = Style { width: 80, colour: false, blocks: false };
        let mut text = Vec::new();
        faults(&mut text, &case(), style).unwrap();
        summary(&mut text, &view.rankings[0], &|_| true, Extent::Notes, style).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("not mounted after overwrite-metadata-for-good: Structure needs"), "{text}");
    }
}
