//! A table of FsOpBench as a trial of the workload `fileserver`.
//!
//! The title is the configuration: filesystem, disk, kernel, and every setting by the name of its axis. Each
//! operation has count, minimum, maximum, mean, median and deviation, but no other quantiles. There are no
//! rates of all workers together: the rates of a table are those of one worker over the time that it spent in
//! its operations.

use crate::fsopbench::{LatencyRow, Number, RowValues, STATISTICS, Table, TablePhase, Title, parse};
use crate::import::{Draft, File, ImportError, warning};
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::{DeviceFacts, Environment};
use fsdyno_core::result::{Latency, OperationResult, PhaseResult, Quantile, Quantiles, RoleResult, Timeline};
use fsdyno_core::workload::{Fileserver, Ramp, Stated};
use fsdyno_core::{Bytes, Nanos, Operation, Role, Workload};
use fsdyno_stats::Distribution;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn drafts(file: &File) -> Result<Vec<Draft>, ImportError> {
    let tables = parse(&file.text).map_err(|error| {
        let problem = format!("expected {}, found {}", error.expected, error.found);
        ImportError::at(file, error.line, error.column, problem)
    })?;
    tables.iter().map(|table| draft(file, table)).collect()
}

fn draft(file: &File, table: &Table) -> Result<Draft, ImportError> {
    let no_result = |problem: String| ImportError::NoResult { file: file.path.clone(), problem };
    let title = &table.title;
    let filesystem = title.setting("fs").unwrap_or("unknown").to_string();
    let mut windows: BTreeSet<Nanos> = BTreeSet::new();
    let mut phases = Vec::new();
    let mut most: BTreeMap<Role, u32> = BTreeMap::new();
    for phase in &table.phases {
        let refuse =
            || no_result(format!("'{}' is not a valid duration of phase '{}'", phase.window, phase.name));
        let window =
            phase.window.parse::<Nanos>().ok().filter(|window| *window > Nanos(0)).ok_or_else(refuse)?;
        windows.insert(window);
        let workers = workers(&phase.name);
        for (role, count) in &workers {
            let most = most.entry(*role).or_default();
            *most = (*most).max(*count);
        }
        phases.push(phase_result(phase, window, &workers));
    }
    let workload = Fileserver {
        // The table does not describe the trees, and no plan may request a size of 0.
        tree_size: Bytes(0),
        readers: most.get(&Role::Reader).copied().unwrap_or(0),
        writers: most.get(&Role::Writer).copied().unwrap_or(0),
        ramp: Ramp::default(),
        window: windows.first().copied().unwrap_or_default(),
        ..Fileserver::default()
    };
    let lasted: Vec<String> = windows.iter().map(Nanos::to_string).collect();
    let stated = [
        ("readers", workload.readers.to_string()),
        ("writers", workload.writers.to_string()),
        ("window", lasted.join(", ")),
    ];
    let stated = Stated {
        version: None,
        options: stated.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
    };
    let workload = Fileserver { imported: Some(stated), ..workload };
    let disk = title.setting("disk").unwrap_or("unknown").to_string();
    Ok(Draft {
        configuration: Configuration {
            name: filesystem.clone(),
            filesystem: filesystem.clone(),
            settings: settings(title),
        },
        workload: Workload::Fileserver(workload),
        environment: Environment {
            kernel: title.kernel.clone(),
            devices: vec![DeviceFacts { path: disk, model: filesystem, ..DeviceFacts::default() }],
            ..Environment::default()
        },
        scheduler: title.setting("scheduler").unwrap_or_default().to_string(),
        phases,
        columns: BTreeMap::new(),
        warnings: vec![warning(
            file,
            "FsOpBench",
            "quantiles other than the median, rates of all workers together, stalls, or the trees",
        )],
        finished: String::new(),
    })
}

/// Every setting of the title under the name of its axis.
fn settings(title: &Title) -> BTreeMap<String, String> {
    let of_title = title.settings.iter().filter(|(name, _)| name != "fs").map(|(name, value)| {
        let level = match (name.as_str(), value.as_str()) {
            ("journal", "int") => "internal",
            ("journal", "ext") => "external",
            (_, value) => value,
        };
        (name.clone(), level.to_string())
    });
    let atime = title.flags.first().map(|flag| ("atime".to_string(), flag.clone()));
    let others: Vec<&str> = title.flags.iter().skip(1).map(String::as_str).collect();
    let others = (!others.is_empty()).then(|| ("options".to_string(), others.join(",")));
    let kernel = ("kernel".to_string(), title.kernel.clone());
    of_title.chain(atime).chain(others).chain([kernel]).collect()
}

/// Reads `3 readers, 3 writers`, whose form the parser has checked.
fn workers(phase: &str) -> BTreeMap<Role, u32> {
    let groups = phase.split(", ").filter_map(|group| {
        let (count, word) = group.split_once(' ')?;
        let role = if word.starts_with("reader") { Role::Reader } else { Role::Writer };
        Some((role, count.parse().ok()?))
    });
    groups.collect()
}

fn phase_result(phase: &TablePhase, window: Nanos, workers: &BTreeMap<Role, u32>) -> PhaseResult {
    let mut roles: Vec<RoleResult> = Vec::new();
    for row in &phase.rows {
        let at = roles.iter().position(|known| known.role == row.role).unwrap_or_else(|| {
            roles.push(RoleResult::unwatched(row.role, workers.get(&row.role).copied().unwrap_or(0)));
            roles.len() - 1
        });
        add(&mut roles[at], row);
    }
    // `1 readers` in the tables is `1 reader` everywhere else.
    let part = |(role, count): (&Role, &u32)| format!("{count} {role}{}", if *count == 1 { "" } else { "s" });
    let name: Vec<String> = workers.iter().map(part).collect();
    PhaseResult::lasting(name.join(", "), window, roles)
}

fn add(role: &mut RoleResult, row: &LatencyRow) {
    match &row.values {
        RowValues::Rate { data, with_overhead } => {
            let rate = |figure: &Option<Number>| figure.map(|figure| figure.value * 1e6);
            role.rates.data_bytes_per_s = rate(data);
            role.rates.with_overhead_bytes_per_s = rate(with_overhead);
        }
        RowValues::Latency { operation, count, milliseconds } => {
            role.operations.push(operation_result(*operation, *count, milliseconds));
        }
    }
}

fn operation_result(
    operation: Operation,
    count: u64,
    milliseconds: &[Option<Number>; STATISTICS.len()],
) -> OperationResult {
    let ns = |at: usize| milliseconds[at].map_or(0.0, |figure: Number| figure.value * 1e6);
    let whole = |at: usize| ns(at).round() as u64;
    let bounds = (0..2).filter(|at| milliseconds[*at].is_some_and(|figure| figure.at_least)).map(whole);
    OperationResult {
        operation,
        censored: 0,
        lat_ns: Latency {
            count,
            min: whole(0),
            max: whole(1),
            mean: ns(2),
            stddev: ns(4),
            quantiles: Quantiles::of(|quantile| if quantile == Quantile::P50 { whole(3) } else { 0 }),
            at_least_from: bounds.min(),
        },
        histogram: Distribution::empty().encode().unwrap_or_default(),
        timeline: Timeline::default(),
        slowest: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, trials};

    /// The published tables, which are part of the report.
    const PUBLISHED: &[&str] = &[
        include_str!("../../../report/published/fsopbench-2009/00.txt"),
        include_str!("../../../report/published/fsopbench-2009/01.txt"),
        include_str!("../../../report/published/fsopbench-2009/02.txt"),
        include_str!("../../../report/published/fsopbench-2009/04.txt"),
        include_str!("../../../report/published/fsopbench-2009/06.txt"),
        include_str!("../../../report/published/fsopbench-2009/09.txt"),
    ];

    fn file(text: &str) -> File {
        File { path: "table.txt".to_string(), text: text.to_string() }
    }

    #[test]
    fn tables_are_named_by_what_varies_and_repeated_ones_are_trials_of_a_case() {
        let files: Vec<File> = PUBLISHED.iter().chain(&PUBLISHED[..1]).map(|text| file(text)).collect();
        let imported = trials(Format::FsOpBench, &files, None).unwrap();
        let names: Vec<&str> = imported.iter().map(|trial| trial.configuration.name.as_str()).collect();
        assert_eq!(names[0], "ext3 data=ordered areca RAID6 journal=internal 2.6.24-24-server");
        assert_eq!(names[5], "ext4 data=ordered areca RAID6 journal=external 2.6.31.2-test");
        let cases: Vec<u32> = imported.iter().map(|trial| trial.case).collect();
        assert_eq!(cases, [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!(imported[6].block, 6);
        let alone = trials(Format::FsOpBench, &files[..1], None).unwrap();
        assert_eq!(alone[0].configuration.name, "ext3");
        assert_eq!(trials(Format::FsOpBench, &files[..1], Some("old")).unwrap()[0].configuration.name, "old");
    }

    /// Only what a table states about its load is known: not the size of its trees, for example.
    #[test]
    fn the_load_is_known_as_far_as_the_table_states_it() {
        let imported = &trials(Format::FsOpBench, &[file(PUBLISHED[4])], None).unwrap()[0];
        let stated = imported.workload.stated().expect("what the table states");
        let names: Vec<&str> = stated.options.keys().map(String::as_str).collect();
        assert_eq!(names, ["readers", "window", "writers"]);
        assert_eq!((stated.options["readers"].as_str(), stated.options["window"].as_str()), ("3", "30s"));
    }

    #[test]
    fn what_a_table_does_not_contain_has_no_value() {
        let imported = &trials(Format::FsOpBench, &[file(PUBLISHED[4])], None).unwrap()[0];
        let value = |name: &str| name.parse::<fsdyno_core::Measure>().unwrap().value(imported);
        assert_eq!(value("1 reader/reader/openat/count").unwrap().value, 22713.0);
        assert_eq!(value("3 readers, 3 writers/writer/mkdirat/max").unwrap().value, 19_592_233_000.0);
        assert_eq!(value("3 readers, 3 writers/reader/data-rate").unwrap().value, 14_757_000.0);
        for unknown in
            ["read", "first-byte-p999", "longest-stall", "cpu-per-mb", "1 reader/reader/openat/p90"]
        {
            assert_eq!(value(unknown), None, "{unknown}");
        }
        assert_eq!(
            crate::import::measure(std::slice::from_ref(imported)).unwrap().name(),
            "3 readers, 3 writers/reader/data-rate"
        );
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        let good = PUBLISHED[4];
        let broken =
            |text: String| trials(Format::FsOpBench, &[file(&text)], None).err().map(|e| e.to_string());
        let place = |line: usize, column: usize| format!("'table.txt', line {line}, column {column}: ");
        for (text, line, column) in [
            (String::new(), 1, 1),
            (good.lines().take(2).collect::<Vec<_>>().join("\n"), 3, 1),
            (good.replacen("cnt  30861", "cnt  3086l", 1), 6, 24),
            (good.replacen("77.399 MB/s", "77.399", 1), 10, 25),
            (good.replacen("A read dir", "Q read dir", 1), 6, 1),
            (format!("{good}rubbish\n"), good.lines().count() + 1, 1),
        ] {
            let error = broken(text.clone()).unwrap_or_else(|| panic!("accepted:\n{text}"));
            assert!(error.starts_with(&place(line, column)), "{error}");
        }
        // A table that is cut off anywhere is rejected, or has only complete rows.
        for (at, _) in good.char_indices().step_by(97) {
            if let Ok(imported) = trials(Format::FsOpBench, &[file(&good[..at])], None) {
                assert!(
                    imported.iter().all(|trial| trial.phases.iter().all(|phase| !phase.roles.is_empty()))
                );
            }
        }
        assert!(broken(good.replace("(30s)", "(0s)")).unwrap().contains("'0s' is not a valid duration"));
    }
}
