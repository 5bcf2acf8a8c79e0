//! Selects cases by a text: the part of `SWEEP/CASE` after the slash, or the value of `--case`.

use fsdyno_core::axis::{self, DEFAULT};
use fsdyno_core::kernel::DEBIAN_PREFIX;
use fsdyno_core::{Configuration, TrialRecord};

/// No case matches a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no case of the sweep matches '{text}'")]
pub struct NoSuchCase {
    /// As written.
    pub text: String,
    /// The name of the configuration that was probably meant; the first if none is similar; absent in an
    /// empty sweep.
    pub nearest: Option<String>,
}

/// The trials of the cases that match a text: the configuration of that name; else those with all the given
/// levels (`filesystem=ext4 scheduler=bfq`, and `kernel=6.12` for `debian:6.12`); else those with these words
/// in their name (`ext4`, but not `ext4dev`); else those with this text in their name.
///
/// # Errors
/// [`NoSuchCase`], with the nearest name.
pub fn select(trials: Vec<TrialRecord>, text: &str) -> Result<Vec<TrialRecord>, NoSuchCase> {
    let meant = text.trim();
    let levels = levels(meant);
    let ways: [&dyn Fn(&Configuration) -> bool; 4] = [
        &|configuration| configuration.name == meant,
        &|configuration| levels.as_ref().is_some_and(|levels| has_levels(configuration, levels)),
        &|configuration| has_words(&configuration.name, meant),
        &|configuration| configuration.name.contains(meant),
    ];
    let some = |way: &&dyn Fn(&Configuration) -> bool| trials.iter().any(|trial| way(&trial.configuration));
    let Some(way) = ways.into_iter().find(some) else {
        let names = || trials.iter().map(|trial| trial.configuration.name.as_str());
        let nearest = fsdyno_core::nearest(meant, names()).or(names().next()).map(str::to_string);
        return Err(NoSuchCase { text: text.to_string(), nearest });
    };
    Ok(trials.into_iter().filter(|trial| way(&trial.configuration)).collect())
}

/// One or more `axis=level`, separated by blanks or commas; levels in their canonical form.
fn levels(text: &str) -> Option<Vec<(String, String)>> {
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (name, level) = word.split_once('=')?;
            let known = axis::find(name).ok().and_then(|axis| axis.level(level).ok());
            Some((name.to_string(), known.map_or(level.to_string(), |level| level.text)))
        })
        .collect()
}

fn has_levels(configuration: &Configuration, levels: &[(String, String)]) -> bool {
    levels.iter().all(|(axis, level)| {
        let own = level_of(configuration, axis).unwrap_or(DEFAULT);
        own == level || (axis == "kernel" && own.strip_prefix(DEBIAN_PREFIX) == Some(level))
    })
}

/// The level of an axis or of the filesystem; `None` for the default.
pub(crate) fn level_of<'c>(configuration: &'c Configuration, axis: &str) -> Option<&'c str> {
    match axis {
        "filesystem" => Some(&configuration.filesystem),
        _ => configuration.level(axis),
    }
}

fn has_words(name: &str, text: &str) -> bool {
    let name: Vec<&str> = name.split_whitespace().collect();
    let wanted: Vec<&str> = text.split_whitespace().collect();
    !wanted.is_empty() && name.windows(wanted.len()).any(|words| words == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn trials() -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for (case, (filesystem, kernel)) in
            (0..).zip([("ext4", "6.1"), ("ext4", "6.12"), ("xfs", "6.1"), ("xfs", "6.12")])
        {
            let mut configuration = fixture::configuration(filesystem, "bfq");
            configuration.name = format!("{filesystem} {kernel}");
            configuration.settings.insert("kernel".to_string(), format!("{DEBIAN_PREFIX}{kernel}"));
            trials.push(fixture::trial(case, 0, case, configuration, 60.0));
        }
        let mut named = fixture::configuration("xfs", "none");
        named.name = "xfs".to_string();
        trials.push(fixture::trial(4, 0, 4, named, 60.0));
        trials
    }

    fn selected(text: &str) -> Vec<String> {
        select(trials(), text).unwrap().into_iter().map(|trial| trial.configuration.asked.name).collect()
    }

    #[test]
    fn a_name_comes_before_levels_words_and_parts_of_words() {
        assert_eq!(selected("xfs"), ["xfs"]);
        assert_eq!(selected("ext4"), ["ext4 6.1", "ext4 6.12"]);
        assert_eq!(selected("6.1"), ["ext4 6.1", "xfs 6.1"]);
        assert_eq!(selected("fs 6.12"), ["xfs 6.12"]);
        assert_eq!(selected("kernel=debian:6.1"), ["ext4 6.1", "xfs 6.1"]);
        assert_eq!(selected("kernel=6.1"), ["ext4 6.1", "xfs 6.1"], "as a person says it");
        assert_eq!(selected("kernel=6.12, filesystem=xfs"), ["xfs 6.12"]);
        assert_eq!(selected("scheduler=bfq"), ["ext4 6.1", "ext4 6.12", "xfs 6.1", "xfs 6.12"]);
        assert_eq!(selected("kernel=default"), ["xfs"]);
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let error = select(trials(), "ext4 6.13").unwrap_err();
        assert_eq!(error.to_string(), "no case of the sweep matches 'ext4 6.13'");
        assert!(error.nearest.unwrap().starts_with("ext4 6.1"));
        assert_eq!(select(trials(), "reiser").unwrap_err().nearest.as_deref(), Some("ext4 6.1"));
        assert_eq!(select(Vec::new(), "ext4").unwrap_err().nearest, None);
    }
}
