//! Reports of programs that only others run, as trials of the workload `external`: one trial for each run.
//! The work that a report states is part of the workload, so runs that did other work are other cases.

use crate::import::{Draft, File, ImportError, warning};
use crate::run::{Misread, Report, Run};
use fsdyno_core::configuration::Configuration;
use fsdyno_core::environment::Environment;
use fsdyno_core::measure::Column;
use fsdyno_core::workload::{External, Stated};
use fsdyno_core::{Warning, WarningKind, Workload};
use std::collections::BTreeMap;

pub(super) fn drafts(report: &Report, file: &File) -> Result<Vec<Draft>, ImportError> {
    let misread = |Misread { line, column, problem }| ImportError::at(file, line, column, problem);
    let runs = (report.read)(&file.text).map_err(misread)?;
    Ok(runs.into_iter().map(|run| draft(report, file, run)).collect())
}

fn draft(report: &Report, file: &File, run: Run) -> Draft {
    let Run { version, options, label, part, phases, columns, missing } = run;
    let name = report.program.name();
    let of = [Some(name), version.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let of = part.map_or(of.clone(), |part| format!("{of}, {part}; all are of one run, on one filesystem"));
    let unknown = match options.is_empty() {
        true => format!("its options, {}", report.silent),
        false => report.silent.to_string(),
    };
    let mut warnings = vec![warning(file, &of, &unknown)];
    warnings.extend(missing.into_iter().map(|text| Warning::new(WarningKind::FigureMissing, text)));
    // The readers name units that exist.
    let in_base_units = |(heading, value): (String, f64)| {
        let column = Column::new(&heading, None, None).ok()?;
        Some((column.measure.name().to_string(), value * column.factor))
    };
    Draft {
        configuration: Configuration {
            name: label.unwrap_or_else(|| file.stem()),
            filesystem: "unknown".to_string(),
            settings: BTreeMap::new(),
        },
        environment: Environment {
            tools: version.iter().map(|version| (name.to_string(), version.clone())).collect(),
            ..Environment::default()
        },
        workload: Workload::External(External {
            program: report.program,
            imported: Some(Stated { version, options }),
            ..External::default()
        }),
        scheduler: String::new(),
        phases,
        columns: columns.into_iter().filter_map(in_base_units).collect(),
        warnings,
        finished: String::new(),
    }
}

#[cfg(test)]
mod tests;
