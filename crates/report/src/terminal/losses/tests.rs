//! Tables of hand-made trials.

use super::super::{Extent, classic, full, summary};
use super::*;
use crate::fixture;
use fsdyno_core::TrialRecord;

fn printed(width: usize, print: impl Fn(&mut dyn Write, &Style) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    print(&mut out, &Style { width, colour: false, blocks: true }).unwrap();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= width && line.trim_end() == line, "{width}: {line:?}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    text
}

fn summary_of(trials: &[TrialRecord], width: usize) -> String {
    let view = fixture::view("read-under-write", trials);
    printed(width, |out, style| summary(out, &view, Extent::Notes, style))
}

#[test]
fn the_worst_model_of_each_configuration_is_below_the_ranking() {
    let text = summary_of(&fixture::durability_trials(3, true), 80);
    let (_, table) = text.split_once("\nLost in power cuts, in the worst case\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    assert_eq!(
        table,
        "\
configuration     acknowledged  wrong unsynced      not
  model                   lost inside     lost  mounted  damaged recovery
  ext4 none        0 of 12,960      0    5.04s 0 of 180 0 of 180   12.0ms
    flushed        0 of 3 logs           15.1s                     34.0ms
! ext4 none   12,960 of 12,960  1,290    5.05s 3 of 180 3 of 177   12.0ms
barrier=0          3 of 3 logs           15.1s                     34.0ms
    flushed
flushed: only what was flushed survives: a volatile cache that is lost as a
  whole
(acknowledged lost: of what a program was told is safe (as POSIX or a manual
  page promises), over all states after a cut, and in how many recorded logs;
  wrong inside: files with zeros, old or foreign data, or garbage; unsynced
  lost: how far back work is missing that nothing synced; p50 above, max below;
  of several logs, p50 is the median of theirs)
(each column has the worst of all cache models, the named one that of
  acknowledged promises; fsdyno show --full has every model and promise)"
    );
}

#[test]
fn speed_that_costs_promises_says_so() {
    let text = summary_of(&fixture::durability_trials(6, true), 80).replace("\n  ", " ");
    assert!(text.contains("with a volatile cache it loses 25,920 of 25,920 acknowledged promises"), "{text}");
}

#[test]
fn tables_fit_any_width() {
    for width in [60, 100, 132] {
        summary_of(&fixture::durability_trials(1, true), width);
    }
    let narrow = summary_of(&fixture::durability_trials(1, false), 60);
    assert!(narrow.contains("(no room for damaged, recovery;"), "{narrow}");
}

#[test]
fn a_case_shows_every_model_and_promise() {
    let view = fixture::view("read-under-write", &fixture::durability_trials(3, false));
    let models = printed(80, |out, style| classic(out, &view.cases[1], style));
    for model in ["completed", "flushed", "subset", "window"] {
        assert!(
            models.contains(&format!("\n{model} ")) && models.contains(&format!("\n{model}: ")),
            "{models}"
        );
    }
    let whole = printed(80, |out, style| full(out, &view.cases[1], style));
    for wanted in [
        "3 logs, 48.0 s in all: 37,035 writes (480 MB)",
        "nothing lost under completed: of cuts after an acknowledgement at such places",
        "\nunlink              0 of 1,296  1,296 of 1,296  120 of 1,296  6 of 1,296\n",
        "\nreplace-unsynced +  0 of 1,296",
        "129 wrong      12 wrong",
        "not mounted under flushed: mount: bad superblock (EUCLEAN) (3 states)",
        "trial 2, cut 7, flushed, state 0: append 3: 4096 of 8192 bytes;",
        "(1 more such states; --format json has them)",
    ] {
        assert!(whole.contains(wanted), "{wanted} in {whole}");
    }
}

#[test]
fn look() {
    let view = fixture::view("read-under-write", &fixture::durability_trials(3, false));
    for case in &view.cases {
        printed(80, |out, style| classic(out, case, style));
        printed(80, |out, style| full(out, case, style));
    }
}
