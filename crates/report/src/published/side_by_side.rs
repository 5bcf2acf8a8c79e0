//! Published figures and ours, side by side.
//!
//! Every published figure is included, whether or not we have one too; a row without a counterpart says why.
//! Our figures are means over trials, as everywhere, with an interval if there are several trials.

use super::table::{PublishedRow, PublishedTable};
use super::{Published, PublishedError};
use crate::export::output_error;
use crate::visible::csv_text;
use fsdyno_core::measure::PrintedUnit;
use fsdyno_core::workload::bonnie::PER_CHARACTER;
use fsdyno_core::{Outcome, TrialRecord, WarningKind};
use fsdyno_verdict::Estimate;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::ranking::{CaseEstimate, figure};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Version of the JSON document; raised when a key is removed or changes its meaning.
const SCHEMA_VERSION: u32 = 2;

/// Published figures and those of a sweep, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideBySide {
    /// Version of this document.
    pub schema_version: u32,
    /// Number of the sweep.
    pub sweep: String,
    /// Its name.
    pub sweep_name: String,
    /// The name of the published figures.
    pub published: &'static str,
    /// The title: what was measured, and on which machine.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The warning that our figures come from emulated processors, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<String>,
    /// The names of the labels that identify a published row.
    pub keys: Vec<String>,
    /// The published rows with a counterpart in the sweep.
    pub rows: Vec<PrintedRow>,
    /// The published rows for which the sweep has no figures.
    pub missing: Vec<Missing>,
    /// Configurations of the sweep that correspond to no published row.
    pub unpublished: Vec<String>,
    /// The facts about the figures of all rows that a reader must know.
    pub notes: Vec<String>,
}

/// A published row and its counterpart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrintedRow {
    /// Its label, a part for each key.
    pub label: Vec<String>,
    /// The name of our configuration.
    pub configuration: String,
    /// Settings that are only the nearest equivalent of the study's.
    pub notes: Vec<String>,
    /// Every published figure.
    pub figures: Vec<Printed>,
}

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Printed {
    /// Its published name.
    pub name: String,
    /// The corresponding measure of ours.
    pub measure: String,
    /// The unit of both, the base unit of the measure: `bytes_per_s`, `ns`.
    pub unit: &'static str,
    /// The unit in which the study has it, for people.
    #[serde(skip)]
    pub shown_in: PrintedUnit,
    /// The published figure.
    pub published: f64,
    /// Ours; absent if no trial has one.
    pub ours: Option<Ours>,
    /// Ours divided by the published one; absent without ours, and if the published one is zero.
    pub ratio: Option<f64>,
}

/// A figure of ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ours {
    /// The mean over trials.
    pub value: f64,
    /// Lower end of its 95 % interval; absent with a single trial.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Number of trials.
    pub trials: usize,
    /// `true` if it is only a lower bound.
    pub at_least: bool,
}

/// A published row for which the sweep has no figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// Its label, a part for each key.
    pub label: Vec<String>,
    /// The configuration that would be its counterpart.
    pub counterpart: String,
    /// Why there are no figures.
    pub reason: String,
    /// Every published figure.
    pub figures: Vec<Printed>,
}

/// Compares the trials of a sweep with published figures.
///
/// # Errors
/// [`PublishedError`] if the built-in figures are invalid.
pub fn side_by_side(
    header: &fsdyno_core::SweepHeader,
    trials: &[TrialRecord],
    published: &'static Published,
) -> Result<SideBySide, PublishedError> {
    let table = published.table()?;
    let mut compared = SideBySide {
        schema_version: SCHEMA_VERSION,
        sweep: header.id.clone(),
        sweep_name: header.name.clone(),
        published: published.name,
        title: published.title,
        source: published.source,
        emulation: emulation(trials).map(str::to_string),
        keys: table.keys.clone(),
        rows: Vec::new(),
        missing: Vec::new(),
        unpublished: unpublished(&table, trials),
        notes: Vec::new(),
    };
    for row in &table.rows {
        let found = CounterpartTrials::of(row, trials);
        let figures = figures(&table, row, header.seed, &found.measured);
        match figures.iter().any(|figure| figure.ours.is_some()) {
            true => compared.rows.push(PrintedRow {
                label: row.label.clone(),
                configuration: found.measured[0].configuration.name.clone(),
                notes: found.notes(),
                figures,
            }),
            false => compared.missing.push(Missing {
                label: row.label.clone(),
                counterpart: row.counterpart.to_string(),
                reason: found.reason(),
                figures,
            }),
        }
    }
    let per_character =
        |figure: &Printed| figure.measure.contains(" per character/") && figure.ours.is_some();
    if compared.rows.iter().any(|row| row.figures.iter().any(per_character)) {
        compared.notes.push(PER_CHARACTER.to_string());
    }
    Ok(compared)
}

/// The warning that trials ran on emulated processors, if any did: their times are not real times.
pub(crate) fn emulation(trials: &[TrialRecord]) -> Option<&str> {
    let mut warnings = trials.iter().filter(|trial| is_measured(trial)).flat_map(|trial| &trial.warnings);
    let found = warnings.find(|warning| warning.kind == WarningKind::Emulation)?;
    Some(&found.text)
}

/// The trials of the counterpart of a published row.
pub(crate) struct CounterpartTrials<'t> {
    /// Those that were measured.
    pub measured: Vec<&'t TrialRecord>,
    others: Vec<&'t TrialRecord>,
    /// `true` if the sweep has it on several kernels, so that no single one can be compared.
    several_kernels: bool,
}

impl<'t> CounterpartTrials<'t> {
    pub fn of(row: &PublishedRow, trials: &'t [TrialRecord]) -> Self {
        let own = trials.iter().filter(|trial| row.counterpart.is(&trial.configuration));
        let kernels: BTreeSet<_> = own.clone().map(|trial| trial.configuration.level("kernel")).collect();
        if kernels.len() > 1 {
            return CounterpartTrials { measured: Vec::new(), others: Vec::new(), several_kernels: true };
        }
        let (measured, others) = own.partition(|trial| is_measured(trial));
        CounterpartTrials { measured, others, several_kernels: false }
    }

    /// Returns whether a configuration of these trials has this name.
    fn has(&self, name: &str) -> bool {
        self.measured.iter().chain(&self.others).any(|trial| trial.configuration.name == name)
    }

    /// Why there are no figures.
    pub fn reason(&self) -> String {
        match (&self.measured[..], self.others.first().map(|trial| &trial.outcome)) {
            ([], None) if self.several_kernels => "the sweep has it on several kernels".to_string(),
            ([], None) => "the sweep has no such configuration".to_string(),
            ([], Some(Outcome::Skipped { unmet })) => format!("skipped: {}", unmet.join("; ")),
            ([], Some(Outcome::Failed { error })) => format!("failed: {error}"),
            _ => "its trials measured none of these figures".to_string(),
        }
    }

    /// Warnings about settings that differ from the study's.
    pub fn notes(&self) -> Vec<String> {
        let first = self.measured.first().map(|trial| trial.warnings.as_slice()).unwrap_or_default();
        let settings = [WarningKind::NameMapped, WarningKind::NearestEquivalent];
        let named = first.iter().filter(|warning| settings.contains(&warning.kind));
        named.map(|warning| warning.text.clone()).collect()
    }
}

fn figures(table: &PublishedTable, row: &PublishedRow, seed: u64, trials: &[&TrialRecord]) -> Vec<Printed> {
    let pairs = table.columns.iter().zip(&row.figures);
    pairs
        .filter_map(|(column, published)| {
            let published = (*published)?;
            let published = published * column.unit.factor();
            let ours = figure(&column.measure, seed, trials).map(|figure| ours(&figure));
            Some(Printed {
                name: column.name.clone(),
                measure: column.measure.name().to_string(),
                unit: column.measure.unit().name(),
                shown_in: column.unit,
                published,
                ratio: ours.filter(|_| published != 0.0).map(|ours| ours.value / published),
                ours,
            })
        })
        .collect()
}

fn ours(figure: &CaseEstimate) -> Ours {
    let Estimate { value, interval, n } = figure.estimate;
    Ours {
        value,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        trials: n,
        at_least: figure.at_least,
    }
}

/// The configurations that correspond to no row, each once, in the order of their trials.
pub(crate) fn unpublished(table: &PublishedTable, trials: &[TrialRecord]) -> Vec<String> {
    let rows: Vec<CounterpartTrials<'_>> =
        table.rows.iter().map(|row| CounterpartTrials::of(row, trials)).collect();
    let mut names: Vec<String> = Vec::new();
    for trial in trials {
        let name = &trial.configuration.name;
        if !names.contains(name) && !rows.iter().any(|row| row.has(name)) {
            names.push(name.clone());
        }
    }
    names
}

/// Writes both as a tidy table, with a row for each published figure. Rows without a figure of ours say why.
///
/// # Errors
/// Those of `out`.
pub fn side_by_side_csv(out: &mut dyn Write, compared: &SideBySide) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let keys = compared.keys.iter().map(String::as_str);
    let columns = [
        "our_configuration",
        "figure",
        "measure",
        "unit",
        "published",
        "ours",
        "ours_low",
        "ours_high",
        "trials",
        "at_least",
        "ratio",
        "reason",
    ];
    writer.write_record(keys.chain(columns)).map_err(output_error)?;
    let measured = compared.rows.iter().map(|row| (&row.label, &row.configuration, "", &row.figures));
    let missing =
        compared.missing.iter().map(|row| (&row.label, &row.counterpart, row.reason.as_str(), &row.figures));
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for (label, configuration, reason, figures) in measured.chain(missing) {
        for figure in figures {
            let ours = figure.ours;
            let fields = [
                csv_text(configuration),
                figure.name.clone(),
                figure.measure.clone(),
                figure.unit.to_string(),
                figure.published.to_string(),
                number(ours.map(|ours| ours.value)),
                number(ours.and_then(|ours| ours.low)),
                number(ours.and_then(|ours| ours.high)),
                ours.map(|ours| ours.trials.to_string()).unwrap_or_default(),
                ours.map(|ours| ours.at_least.to_string()).unwrap_or_default(),
                number(figure.ratio),
                csv_text(reason),
            ];
            writer.write_record(label.iter().cloned().chain(fields)).map_err(output_error)?;
        }
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::published::find;
    use fsdyno_core::Warning;

    /// Two trials of bonnie on xfs with bfq, a skipped jfs, and a configuration without published figures.
    fn compared() -> SideBySide {
        let trials = fixture::scheduler_trials();
        side_by_side(&fixture::header("read"), &trials, find("bonnie-schedulers-2009").unwrap()).unwrap()
    }

    #[test]
    fn both_figures_are_in_base_units() {
        let compared = compared();
        assert_eq!(compared.rows.len(), 1);
        let row = &compared.rows[0];
        assert_eq!((row.label[0].as_str(), row.configuration.as_str()), ("XFS CFQ", "xfs bfq"));
        let [seeks, write, rewrite] = &row.figures[..] else { panic!("three figures") };
        assert_eq!(seeks.ours.unwrap().value, 471.0 * 2.0);
        assert_eq!(seeks.ratio, Some(2.0));
        // 100 and 200 times 1024 bytes per second.
        let ours = write.ours.unwrap();
        assert!((ours.value - 20_000_f64.sqrt() * 1024.0).abs() < 1e-6 && ours.trials == 2, "{ours:?}");
        assert!(ours.low.unwrap() >= 102_400.0 && ours.high.unwrap() <= 204_800.0);
        assert_eq!((write.unit, write.shown_in.symbol()), ("bytes_per_s", "KiB/s"));
        assert_eq!((rewrite.ours, rewrite.ratio), (None, None));
    }

    #[test]
    fn a_row_without_a_counterpart_has_a_reason() {
        let compared = compared();
        assert_eq!(compared.rows.len() + compared.missing.len(), 11);
        let reason = |label: &str| {
            let row = compared.missing.iter().find(|row| row.label[0] == label).unwrap();
            row.reason.clone()
        };
        assert_eq!(reason("JFS CFQ"), "skipped: the kernel has no jfs");
        assert_eq!(reason("Ext3 CFQ"), "the sweep has no such configuration");
        assert_eq!(reason("XFS Deadline"), "its trials measured none of these figures");
        assert_eq!(compared.unpublished, ["btrfs bfq"]);
    }

    #[test]
    fn a_sweep_in_guests_of_one_kernel_has_the_same_counterparts() {
        let mut trials = fixture::scheduler_trials();
        for trial in &mut trials {
            trial.configuration.settings.insert("kernel".to_string(), "debian:6.1".to_string());
        }
        let compared = |trials: &[TrialRecord]| {
            let published = find("bonnie-schedulers-2009").unwrap();
            side_by_side(&fixture::header("read"), trials, published).unwrap()
        };
        assert_eq!(compared(&trials), self::compared());
        let slow = Warning::new(WarningKind::Emulation, "emulated: only ratios mean something");
        trials.last_mut().unwrap().warnings.push(slow);
        assert_eq!(compared(&trials).emulation.as_deref(), Some("emulated: only ratios mean something"));
        let second = trials.iter().rposition(|trial| trial.configuration.name == "xfs bfq").unwrap();
        trials[second].configuration.settings.insert("kernel".to_string(), "debian:6.12".to_string());
        trials[second].configuration.name.push_str(" debian:6.12");
        let several = compared(&trials);
        let row = several.missing.iter().find(|row| row.label[0] == "XFS CFQ").unwrap();
        assert_eq!(row.reason, "the sweep has it on several kernels");
        assert_eq!(several.unpublished, ["xfs bfq", "xfs bfq debian:6.12", "btrfs bfq"]);
    }

    #[test]
    fn a_closed_pipe_is_recognised() {
        let trials = fixture::trials();
        let published = find("fsopbench-2009").unwrap();
        let compared = side_by_side(&fixture::header("read"), &trials, published).unwrap();
        let error = side_by_side_csv(&mut fixture::Closed, &compared).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn csv_and_json_have_every_published_figure() {
        let compared = compared();
        let mut out = Vec::new();
        side_by_side_csv(&mut out, &compared).unwrap();
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let rows: Vec<std::collections::HashMap<String, String>> =
            reader.deserialize().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 33);
        let seeks = &rows[0];
        assert_eq!(
            (seeks["published"].as_str(), seeks["ours"].as_str(), seeks["ratio"].as_str()),
            ("471", "942", "2")
        );
        let document = serde_json::to_value(&compared).unwrap();
        assert_eq!(document["rows"][0]["figures"][0]["unit"], "items_per_s");
        let figures = document["rows"][0]["figures"].as_array().unwrap();
        let block = figures.iter().find(|figure| figure["name"] == "block_write_kb_per_s").unwrap();
        assert_eq!(block["unit"], "bytes_per_s");
        assert_eq!(block["published"].as_f64().unwrap() % 1024.0, 0.0, "{block}");
        assert_eq!(document["missing"].as_array().unwrap().len(), 10);
    }
}
