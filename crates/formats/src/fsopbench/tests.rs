//! Tests the reader with the published tables and with texts that are not tables.

use super::read::begins_row;
use super::*;
use proptest::prelude::*;

/// The published tables, which the report contains as a study.
const PUBLISHED: &[(&str, &str)] = &[
    ("00", include_str!("../../../report/published/fsopbench-2009/00.txt")),
    ("01", include_str!("../../../report/published/fsopbench-2009/01.txt")),
    ("02", include_str!("../../../report/published/fsopbench-2009/02.txt")),
    ("04", include_str!("../../../report/published/fsopbench-2009/04.txt")),
    ("06", include_str!("../../../report/published/fsopbench-2009/06.txt")),
    ("09", include_str!("../../../report/published/fsopbench-2009/09.txt")),
];

#[test]
fn every_published_file_is_read_whole() {
    for (name, text) in PUBLISHED {
        let tables = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [table] = &tables[..] else { panic!("{name}: one table") };
        let rows: Vec<usize> = table.phases.iter().map(|phase| phase.rows.len()).collect();
        assert_eq!(rows, [5, 5, 10], "{name}");
        assert_eq!(table.title.setting("barrier"), Some("0"));
        assert_eq!(table.title.flags, ["relatime"]);
        let printed = text.lines().filter(|line| begins_row(line)).count();
        assert_eq!(printed, 20, "{name}");
    }
}

#[test]
fn figures_and_settings_are_those_of_the_text() {
    let table = &parse(PUBLISHED[4].1).unwrap()[0];
    assert_eq!(
        (table.title.kernel.as_str(), table.title.setting("data")),
        ("2.6.31.2-test", Some("writeback"))
    );
    let phase = &table.phases[2];
    assert_eq!((phase.name.as_str(), phase.window.as_str()), ("3 readers, 3 writers", "30s"));
    let exact = |value| Some(Number { value, at_least: false });
    let mkdir = &phase.rows[3];
    assert_eq!((mkdir.label, mkdir.role), ("I mkdir", Role::Writer));
    assert_eq!(
        mkdir.values,
        RowValues::Latency {
            operation: Operation::Mkdirat,
            count: 1004,
            milliseconds: [exact(0.018), exact(19592.233), exact(29.447), exact(0.026), exact(644.768)]
        }
    );
    assert_eq!(phase.rows[4].values, RowValues::Rate { data: exact(240.950), with_overhead: exact(129.961) });
    assert_eq!(parse(PUBLISHED[0].1).unwrap()[0].title.setting("disk"), Some("areca RAID6"));
}

#[test]
fn whatever_does_not_belong_there_is_reported_with_its_position() {
    let good = PUBLISHED[0].1;
    for (old, new, place, expected) in [
        ("cnt  31375", "cnt  many", "line 6, column 24: ", "a count"),
        ("78.354 ms", "78.354 us", "line 6, column 60: ", "'ms'"),
        ("A read dir", "Z read dir", "line 6, column 1: ", "A read dir, B lstat file"),
        ("1 readers (30s)", "1 riders (30s)", "line 4, column 1: ", "3 readers, 3 writers (30s)"),
        ("Linux", "Linnux", "line 1, column 1: ", "Linux"),
        ("*", "#", "line 2, column 1: ", "rule of '*'"),
        ("0.779", "0.779 ms", "line 6, column 108: ", "end of the line"),
        (" 57.529 MB/s", " -57.529 MB/s", "line 10, column 18: ", "lower bound"),
    ] {
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good);
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(expected), "{old}: {error}");
    }
    assert!(parse("").is_err() && parse("\n\n").is_err());
    let title = good.lines().next().unwrap();
    assert!(parse(title).unwrap_err().to_string().starts_with("line 2, column 1: "));
}

proptest! {
    /// A text that is cut off anywhere is read up to there or rejected, and never makes the reader panic.
    #[test]
    fn no_text_makes_the_reader_panic(cut in 0usize..2600, noise in "\\PC{0,12}") {
        let text: String = PUBLISHED[1].1.chars().take(cut).chain(noise.chars()).collect();
        if let Err(error) = parse(&text) {
            prop_assert!(error.line >= 1 && error.column >= 1, "{error}");
        }
    }
}
