//! Parsing the names of measures.

use super::column::Column;
use super::error::MeasureError;
use super::named::NAMED;
use super::{Measure, MeasureSource, Statistic};
use crate::operation::{Operation, Role};
use crate::result::Quantile;
use crate::workload::measures::{Figure, PhaseSelector};
use std::borrow::Cow;
use std::str::FromStr;

pub(super) const FIGURES: &[(&str, Figure)] = &[
    ("rate", Figure::Rate),
    ("rate-without-removal", Figure::RateWithoutRemoval),
    ("durable-rate", Figure::DurableRate),
    ("data-rate", Figure::DataRate),
    ("overhead-rate", Figure::OverheadRate),
    ("operation-rate", Figure::OperationRate),
    ("item-rate", Figure::ItemRate),
    ("cpu-share", Figure::CpuShare),
    ("longest-stall", Figure::LongestStall),
    ("time-over-100ms", Figure::TimeOver100Ms),
    ("time-over-1s", Figure::TimeOver1S),
    ("cpu-per-operation", Figure::CpuPerOperation),
];

/// Those other than the quantiles; `median` is an alias of one quantile.
const STATISTICS: &[(&str, Statistic)] = &[
    ("count", Statistic::Count),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
    ("mean", Statistic::Mean),
    ("stddev", Statistic::StdDev),
    ("median", Statistic::Quantile(Quantile::P50)),
];

pub(super) fn statistics() -> impl Iterator<Item = (&'static str, Statistic)> + Clone {
    let quantiles = Quantile::ALL.iter().map(|quantile| (quantile.label(), Statistic::Quantile(*quantile)));
    STATISTICS.iter().copied().chain(quantiles)
}

/// The names of measures in other programs, and their names here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bandwidth", "throughput"),
    ("bw", "throughput"),
    ("cpu", "cpu-per-mb"),
    ("fsync", "sync-p99"),
    ("iops", "PHASE/ROLE/operation-rate"),
    ("lat", "first-byte-p999"),
    ("latency", "first-byte-p999"),
    ("ops", "PHASE/ROLE/operation-rate"),
    ("stall", "longest-stall"),
    ("stalls", "longest-stall"),
    ("tps", "postmark-tps"),
];

impl FromStr for Measure {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let text = text.trim();
        if let Some(column) = Column::named(text) {
            return column;
        }
        let source = match text.split('/').map(str::trim).collect::<Vec<_>>()[..] {
            [name] => short_name(name)?,
            [phase, role, figure] => MeasureSource::Role(
                phase_of(text, phase)?,
                known(text, "role", role, Role::ALL.iter().map(|role| (role.name(), *role)))?,
                known(text, "figure", figure, FIGURES.iter().copied())?,
            ),
            [phase, role, operation, statistic] => MeasureSource::Operation(
                phase_of(text, phase)?,
                known(text, "role", role, Role::ALL.iter().map(|role| (role.name(), *role)))?,
                known(text, "operation", operation, Operation::ALL.iter().map(|op| (op.name(), *op)))?,
                known(text, "statistic", statistic, statistics())?,
            ),
            ref parts => {
                return Err(MeasureError::Parts { name: text.to_string(), parts: parts.len() });
            }
        };
        Ok(Measure { name: text.to_string(), source })
    }
}

fn short_name(name: &str) -> Result<MeasureSource, MeasureError> {
    let named = NAMED.iter().find(|named| named.name == name);
    named.map(|named| named.source.clone()).ok_or_else(|| {
        let elsewhere =
            ELSEWHERE.iter().find(|(word, _)| *word == name.to_lowercase()).map(|(_, here)| *here);
        let nearest = elsewhere.or_else(|| crate::nearest(name, NAMED.iter().map(|named| named.name)));
        MeasureError::UnknownName { name: name.to_string(), nearest: nearest.map(str::to_string) }
    })
}

/// A phase written as its workers (`3 readers, 3 writers`, in any order), else by its name.
fn phase_of(name: &str, text: &str) -> Result<PhaseSelector, MeasureError> {
    let mut workers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let Some((count, word)) = part.split_once(' ') else {
            return Ok(PhaseSelector::Named(Cow::Owned(text.to_string())));
        };
        let Ok(count) = count.parse::<u32>() else {
            return Ok(PhaseSelector::Named(Cow::Owned(text.to_string())));
        };
        let singular = word.trim().strip_suffix('s').unwrap_or(word.trim());
        workers
            .push((known(name, "role", singular, Role::ALL.iter().map(|role| (role.name(), *role)))?, count));
    }
    workers.sort_unstable();
    Ok(PhaseSelector::Workers(workers))
}

fn known<T: Copy>(
    name: &str,
    part: &'static str,
    word: &str,
    words: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<T, MeasureError> {
    let found = words.clone().find(|(known, _)| *known == word);
    found.map(|(_, value)| value).ok_or_else(|| MeasureError::UnknownPart {
        name: name.to_string(),
        part,
        word: word.to_string(),
        nearest: crate::nearest(word, words.clone().map(|(known, _)| known)).map(str::to_string),
        known: words.map(|(known, _)| known).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_answered_with_what_there_is() {
        let refused = |text: &str| text.parse::<Measure>().unwrap_err().to_string();
        assert_eq!(refused("iops"), "unknown measure 'iops'; did you mean 'PHASE/ROLE/operation-rate'?");
        assert_eq!(refused("longest-stal"), "unknown measure 'longest-stal'; did you mean 'longest-stall'?");
        let listed = refused("qqq");
        assert!(listed.starts_with("unknown measure 'qqq'; expected one of read, read-many, "), "{listed}");
        let listed = refused("1 reader/reader/qqq");
        assert!(listed.contains("expected one of rate, rate-without-removal, "), "{listed}");
        for (_, here) in ELSEWHERE.iter().filter(|(_, here)| !here.contains('/')) {
            assert!(here.parse::<Measure>().is_ok(), "{here}");
        }
    }
}
