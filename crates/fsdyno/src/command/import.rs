//! `fsdyno import FORMAT FILE...`: imports results that were measured elsewhere.

use super::changes::valid_name;
use super::{Result, Surroundings};
use crate::cli::{Better, Import, ImportFormat};
use crate::exit::{Status, Trouble};
use crate::{file, out, say};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::outcome::Outcome;
use fsdyno_core::workload::Program;
use fsdyno_core::{TrialRecord, sweep_name};
use fsdyno_formats::import::{
    File, Format, ImportError, Imported, LONGEST_NAME, TableOptions, measure, table, trials,
};
use fsdyno_store::NewSweep;
use fsdyno_testbed::filesystem::declared_risks;
use fsdyno_verdict::text::plural;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

pub fn run(surroundings: &Surroundings, options: &Import) -> Result {
    let named = options.name.as_deref().map(valid_name).transpose()?;
    if let Some(long) = options.configuration.as_ref().filter(|name| name.len() > LONGEST_NAME) {
        let problem = anyhow!("a name of {} bytes is too long; the limit is {LONGEST_NAME}", long.len());
        return Err(refused(problem, "choose a shorter one"));
    }
    verify_options(options)?;
    let files = options.files.iter().map(|path| read(path)).collect::<std::result::Result<Vec<_>, _>>()?;
    let (trials, measure) = trials_of(&files, options)?;
    let cases: BTreeSet<u32> = trials.iter().map(|trial| trial.case).collect();
    let alone = alone_in_every_row(&trials);
    let name = match named {
        Some(name) => name.to_string(),
        None => sweep_name::check(&stem(&options.files[0])).unwrap_or("imported").to_string(),
    };
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let sweep = NewSweep {
        name: name.clone(),
        plan_toml: paths.iter().map(|path| format!("# imported from {path:?}\n")).collect(),
        overrides: Vec::new(),
        seed: 0,
        measure: measure.name().to_string(),
        environment: None,
        cases: u32::try_from(cases.len())?,
        trials: u32::try_from(trials.len())?,
    };
    let id = surroundings.open_store()?.import_sweep(&sweep, &trials)?;
    let failed = trials.iter().filter(|trial| trial.outcome != Outcome::Measured).count();
    let failed = if failed > 0 { format!(", {failed} without a figure") } else { String::new() };
    writeln!(
        out::text(&surroundings.style),
        "sweep {id} '{name}': {} of {} from {}{failed}; fsdyno show {id}",
        plural(trials.len() as u64, "trial"),
        plural(cases.len() as u64, "case"),
        plural(files.len() as u64, "file")
    )?;
    if !alone.is_empty() {
        let names: Vec<String> = alone.iter().map(|name| format!("'{name}'")).collect();
        say::note(&format!(
            "note: each row is a configuration of its own, because no two rows have the same {}; a column \
             that is not a setting can be removed, called 'block' or 'repetition', or given a unit",
            names.join(" or ")
        ));
    }
    Ok(Status::Well)
}

/// The settings that no two trials have in common.
fn alone_in_every_row(trials: &[TrialRecord]) -> Vec<String> {
    let Some(first) = trials.first().filter(|_| trials.len() > 2) else { return Vec::new() };
    let levels = |name: &String| -> BTreeSet<&String> {
        trials.iter().filter_map(|trial| trial.configuration.settings.get(name)).collect()
    };
    let names = first.configuration.settings.keys();
    names.filter(|name| levels(name).len() == trials.len()).cloned().collect()
}

fn refused(problem: impl Into<anyhow::Error>, next: &str) -> Trouble {
    Trouble::new(Status::Usage, problem).hint(format!("nothing was imported; {next}"))
}

/// Options that only some formats have.
fn verify_options(options: &Import) -> std::result::Result<(), Trouble> {
    let is_table = options.format == ImportFormat::Table;
    if is_table && options.files.len() > 1 {
        let problem = anyhow!("a sweep has one table, not {}", options.files.len());
        return Err(refused(problem, "import each by itself, or put their rows into one"));
    }
    if is_table && options.configuration.is_some() {
        let problem = anyhow!("--configuration is not for a table; its columns say what was measured");
        return Err(refused(problem, "add a column 'configuration'"));
    }
    let of_tables = !options.measure.is_empty() || options.unit.is_some() || options.better.is_some();
    if !is_table && of_tables {
        let problem = anyhow!("--measure, --unit and --better are only for the format 'table'");
        return Err(refused(problem, "omit them; fsdyno show SWEEP --measure NAME ranks by another measure"));
    }
    Ok(())
}

/// The trials in the files, and what ranks them.
fn trials_of(files: &[File], options: &Import) -> std::result::Result<(Vec<TrialRecord>, Measure), Trouble> {
    let broken = |error: ImportError| {
        let other = looks_like(files, error.file()).filter(|format| *format != options.format);
        match other.and_then(|other| other.to_possible_value()) {
            Some(other) => {
                let name = other.get_name();
                Trouble::new(Status::Usage, error)
                    .hint(format!("nothing was imported; the file looks like one for 'fsdyno import {name}'"))
            }
            None => {
                let step = next_step(options.format);
                Trouble::new(Status::Usage, error).hint(format!("nothing was imported; {step}"))
            }
        }
    };
    let Some(format) = format_of(options.format) else {
        let columns = TableOptions {
            measures: options.measure.clone(),
            unit: options.unit.clone(),
            better: options.better.map(|better| match better {
                Better::More => Direction::HigherIsBetter,
                Better::Less => Direction::LowerIsBetter,
            }),
        };
        let Imported { mut trials, measure, notes } = table(&files[0], &columns).map_err(broken)?;
        notes.iter().for_each(|note| say::note(&format!("note: {note}")));
        for trial in &mut trials {
            trial.warnings.extend(declared_risks(&trial.configuration));
        }
        return Ok((trials, measure));
    };
    let trials = trials(format, files, options.configuration.as_deref()).map_err(broken)?;
    let measure = measure(&trials)
        .ok_or_else(|| refused(anyhow!("the files contain no rates"), next_step(options.format)))?;
    Ok((trials, measure))
}

/// The next step after a file that is none of its format.
const fn next_step(format: ImportFormat) -> &'static str {
    match format {
        ImportFormat::FsOpBench => "give it whole tables as FsOpBench prints them",
        ImportFormat::Fio => "give it the whole output of fio --output-format=json+",
        ImportFormat::BonnieCsv => "give it what bonnie++ prints to stdout, which ends with a line of commas",
        ImportFormat::Mdtest => "give it the whole output of mdtest, with its SUMMARY",
        ImportFormat::Ior => "give it the whole output of IOR, as text, JSON or CSV",
        ImportFormat::Elbencho => "give it the file of elbencho --csvfile or --jsonfile",
        ImportFormat::Iozone => "give it the whole output of iozone",
        ImportFormat::Sysbench => "give it the whole output of sysbench",
        ImportFormat::Table => {
            "correct that place; a table has a line of headings and a row for each trial, as in \
             docs/reference/imports.md"
        }
    }
}

/// The format that the import crate reads; a table has columns to choose as well.
const fn format_of(format: ImportFormat) -> Option<Format> {
    match format {
        ImportFormat::FsOpBench => Some(Format::FsOpBench),
        ImportFormat::Fio => Some(Format::Fio),
        ImportFormat::BonnieCsv => Some(Format::BonnieCsv),
        ImportFormat::Mdtest => Some(Format::Report(Program::Mdtest)),
        ImportFormat::Ior => Some(Format::Report(Program::Ior)),
        ImportFormat::Elbencho => Some(Format::Report(Program::Elbencho)),
        ImportFormat::Iozone => Some(Format::Report(Program::Iozone)),
        ImportFormat::Sysbench => Some(Format::Report(Program::Sysbench)),
        ImportFormat::Table => None,
    }
}

/// The format that the text of a file looks like.
fn looks_like(files: &[File], path: &str) -> Option<ImportFormat> {
    let format = Format::of(&files.iter().find(|file| file.path == path)?.text)?;
    ImportFormat::value_variants().iter().copied().find(|known| format_of(*known) == Some(format))
}

fn read(path: &Path) -> std::result::Result<File, Trouble> {
    let name = path.display().to_string();
    let read = match name.as_str() {
        "-" => File::read(&name, std::io::stdin()),
        _ => file::open(path).and_then(|file| File::read(&name, file)),
    };
    let file = read.with_context(|| format!("cannot read '{name}'")).map_err(|error| {
        Trouble::from(error).hint("name a file that the program wrote, or - for standard input")
    })?;
    file.map_err(|error| {
        let hint = match &error {
            ImportError::TooLarge { .. } => {
                "nothing was imported; a log of individual operations is not a result"
            }
            _ => "nothing was imported; save it as UTF-8, or name the file that the program wrote",
        };
        Trouble::new(Status::Usage, error).hint(hint)
    })
}

fn stem(path: &Path) -> String {
    match path.file_stem() {
        Some(stem) if stem != "-" => stem.to_string_lossy().into_owned(),
        _ => "imported".to_string(),
    }
}
