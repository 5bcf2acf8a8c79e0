//! The steps around the phases of a case: creating, mounting, unmounting and checking its filesystem, and the
//! layout of its files.

use super::style::{Paint, Style};
use fsdyno_core::figures::total;
use fsdyno_core::result::{Filled, Layout, LifecycleStep};
use fsdyno_core::{Bytes, ReadAgain};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Lines of a check's output that are shown if it found no damage.
const LINES: usize = 4;

/// Writes what is known, which is little for an existing directory.
pub(super) fn write(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    for layer in &case.environment.layers {
        style.paragraph(out, Paint::Plain, 0, &format!("{}: {}", layer.path, layer.in_force))?;
    }
    let shown = |step: &&LifecycleStep| !matches!(step, LifecycleStep::Prepare | LifecycleStep::Total);
    let steps: Vec<String> = LifecycleStep::ALL
        .iter()
        .filter(shown)
        .filter_map(|step| {
            let time = Time { ns: step.of(&case.lifecycle)?.0, at_least: false };
            Some(format!("{} {}", step.label(), text::time_in_words(time)))
        })
        .collect();
    if !steps.is_empty() {
        style.paragraph(out, Paint::Plain, 0, &steps.join("; "))?;
    }
    if let Some(text) = text::prepared_in(&case.prepared_in) {
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    if let Some(filled) = filled(&case.filled) {
        style.paragraph(out, Paint::Plain, 0, &filled)?;
    }
    if let Some(layout) = layout(&case.layouts) {
        style.paragraph(out, Paint::Plain, 0, &layout)?;
    }
    if let Some(verified) = verified(&case.read_again) {
        style.paragraph(out, Paint::Plain, 0, &verified)?;
    }
    checks(out, case, style)
}

/// `verified: 12 files (1.2 GB) read again after unmounting and mounting, every byte as written; 3 names
/// have no file, as expected`.
fn verified(all: &[ReadAgain]) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let sum = |of: fn(&ReadAgain) -> u64| total(all.iter().map(of));
    let how = match all.iter().all(|read| read.remounted) {
        true => "after unmounting and mounting",
        false => "without unmounting, so possibly from memory",
    };
    let gone = match sum(|read| read.gone) {
        0 => None,
        1 => Some("1 name has no file, as expected".to_string()),
        names => Some(format!("{} have no file, as expected", text::plural(names, "name"))),
    };
    // A load that removes everything leaves nothing to read.
    let read = match (sum(|read| read.files), &gone) {
        (0, Some(_)) => format!("looked again {how}"),
        (files, _) => {
            let (files, bytes) = (text::plural(files, "file"), text::size(Bytes(sum(|read| read.bytes))));
            format!("{files} ({bytes}) read again {how}, every byte as written")
        }
    };
    let left_out = match sum(|read| read.left_out) {
        0 => None,
        files => Some(format!("{} left out", text::plural(files, "file"))),
    };
    let parts: Vec<String> = std::iter::once(read).chain(gone).chain(left_out).collect();
    Some(format!("verified: {}", parts.join("; ")))
}

/// `filled to 50.1 % before the load, with 3012 files; 2 rounds of ageing removed 3104 others`.
fn filled(all: &[Filled]) -> Option<String> {
    let first = all.first()?;
    let share = all.iter().map(Filled::used_share).sum::<f64>() / all.len() as f64;
    let files = text::plural(first.files, "file");
    let aged = match first.rounds {
        0 => String::new(),
        rounds => {
            let rounds = text::plural(rounds.into(), "round");
            format!("; {rounds} of ageing removed {} others", first.removed)
        }
    };
    Some(format!("filled to {} before the load, with {files}{aged}", text::percent(share)))
}

/// `12.3 % full after the load; 1.03 extents per file, 2.1 % of 4096 files (of 53211) fragmented`.
fn layout(layouts: &[Layout]) -> Option<String> {
    let first = layouts.first()?;
    let used = |layout: &Layout| 1.0 - layout.free_bytes as f64 / layout.size_bytes.max(1) as f64;
    let full = layouts.iter().map(used).sum::<f64>() / layouts.len() as f64;
    let sum = |of: fn(&Layout) -> u64| total(layouts.iter().map(of));
    let all = Layout {
        sampled: sum(|layout| layout.sampled),
        extents: sum(|layout| layout.extents),
        fragmented: sum(|layout| layout.fragmented),
        files: sum(|layout| layout.files),
        ..first.clone()
    };
    let how = match (&first.unknown, all.extents_per_file().zip(all.fragmented_share())) {
        (Some(why), _) => why.clone(),
        (None, None) => "no files with allocated blocks".to_string(),
        (None, Some((extents, fragmented))) => {
            let of = if all.sampled < all.files { format!(" (of {})", all.files) } else { String::new() };
            format!(
                "{} extents per file, {} of {}{of} fragmented",
                text::number(extents),
                text::percent(fragmented),
                text::plural(all.sampled, "file")
            )
        }
    };
    Some(format!("{} full after the load; {how}", text::percent(full)))
}

/// The whole output of every check that found damage; if none did, the end of the first check's output.
fn checks(out: &mut dyn Write, case: &CaseView, style: Style) -> io::Result<()> {
    let damaged = case.checks.iter().filter(|(_, check)| !check.clean);
    let first = case.checks.first().filter(|_| case.checks.iter().all(|(_, check)| check.clean));
    for (trial, check) in damaged.chain(first) {
        let verdict = if check.clean { "clean" } else { "damaged" };
        let paint = if check.clean { Paint::Plain } else { Paint::Alert };
        let trial = text::nth(*trial);
        style.paragraph(out, paint, 0, &format!("{} (trial {trial}): {verdict}", check.command))?;
        let lines: Vec<&str> =
            check.output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let shown = if check.clean { lines.len().saturating_sub(LINES) } else { 0 };
        lines[shown..].iter().try_for_each(|line| style.paragraph(out, Paint::Plain, 2, line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::Nanos;
    use fsdyno_core::result::CheckResult;

    fn text(change: impl Fn(&mut fsdyno_core::TrialRecord)) -> String {
        let mut trials = fixture::trials();
        trials.iter_mut().for_each(change);
        let view = fixture::view("read", &trials);
        let mut out = Vec::new();
        write(&mut out, &view.cases[0], Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The text without the line breaks within paragraphs.
    fn unwrapped(text: &str) -> String {
        text.replace("\n  ", " ")
    }

    fn check(clean: bool) -> Option<CheckResult> {
        let output = (1..=9).map(|pass| format!("Pass {pass}: checking\n")).collect();
        Some(CheckResult { command: "e2fsck -fn /dev/loop3".to_string(), clean, output })
    }

    #[test]
    fn a_clean_check_shows_its_end_and_a_damaged_filesystem_everything() {
        let clean = text(|trial| trial.check = check(true));
        assert!(clean.contains("e2fsck -fn /dev/loop3 (trial 1): clean\n  Pass 6: checking\n"), "{clean}");
        let damaged = text(|trial| trial.check = check(trial.trial != 4));
        assert!(
            damaged.contains("e2fsck -fn /dev/loop3 (trial 5): damaged\n  Pass 1: checking\n"),
            "{damaged}"
        );
        assert!(!damaged.contains("clean"), "{damaged}");
        assert!(
            damaged.starts_with("mkfs 71.0 ms; mount 4.00 ms; unmount after the load 900 ms; check 2.00 s\n")
        );
    }

    #[test]
    fn a_filesystem_that_was_mounted_again_says_so() {
        let text = text(|trial| {
            trial.lifecycle_ns.umount_between = Some(Nanos::from_millis(30));
            trial.lifecycle_ns.mount_between = Some(Nanos::from_millis(5));
        });
        let expected =
            "mount 4.00 ms; unmount within the load 30.0 ms; mount again 5.00 ms; unmount after the";
        assert!(unwrapped(&text).contains(expected), "{text}");
    }

    #[test]
    fn a_filled_filesystem_says_so() {
        let text = text(|trial| {
            trial.filled = Some(Filled {
                size_bytes: 1000,
                used_bytes: 501,
                files: 30,
                rounds: 2,
                removed: 31,
                ..Filled::default()
            });
        });
        let expected =
            "filled to 50.1 % before the load, with 30 files; 2 rounds of ageing removed 31 others";
        assert!(unwrapped(&text).contains(expected), "{text}");
    }

    #[test]
    fn a_verified_load_says_what_was_read_again() {
        let read = |remounted, left_out, files, gone| {
            text(|trial| {
                trial.read_again = Some(ReadAgain { files, bytes: 2_000_000, left_out, gone, remounted });
            })
        };
        let remounted = unwrapped(&read(true, 0, 3, 0));
        assert!(remounted.contains("read again after unmounting and mounting, every byte"), "{remounted}");
        assert!(!remounted.contains("left out"));
        assert!(unwrapped(&read(false, 0, 3, 0)).contains("possibly from memory"));
        let sample = unwrapped(&read(true, 5, 3, 1));
        // Of two trials.
        let both = "as written; 2 names have no file, as expected; 10 files left out";
        assert!(sample.contains(both), "{sample}");
        let one = [ReadAgain { files: 1, bytes: 1, left_out: 1, gone: 1, remounted: true }];
        let both = "as written; 1 name has no file, as expected; 1 file left out";
        assert!(verified(&one).is_some_and(|text| text.ends_with(both)), "{:?}", verified(&one));
        let nothing = unwrapped(&read(true, 0, 0, 1500));
        let gone = "looked again after unmounting and mounting; 3000 names have no file, as expected";
        assert!(nothing.contains(gone), "{nothing}");
        assert!(!text(|_| ()).contains("verified"));
    }

    #[test]
    fn the_layout_says_how_many_files_were_sampled() {
        let layout = |trial: &mut fsdyno_core::TrialRecord| {
            trial.layout = Some(Layout {
                size_bytes: 1000,
                free_bytes: 750,
                files: 9000,
                complete: true,
                sampled: 4000,
                extents: 5000,
                fragmented: 400,
                ..Layout::default()
            });
        };
        assert!(
            unwrapped(&text(layout)).contains(
                "25.0 % full after the load; 1.25 extents per file, 10.0 % of 8000 files (of 18000) \
                 fragmented"
            ),
            "{}",
            text(layout)
        );
        let unknown = text(|trial| {
            layout(trial);
            let why = "FIEMAP is not supported".to_string();
            trial.layout.as_mut().unwrap().unknown = Some(why);
        });
        assert!(unknown.contains("25.0 % full after the load; FIEMAP is not supported"), "{unknown}");
    }
}
