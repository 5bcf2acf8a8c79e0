//! Files of other programs, imported and shown.

use crate::{lot, show};
use fsdyno_core::workload::Program;
use fsdyno_core::{Outcome, TrialRecord};
use fsdyno_formats::import::{File, Format, Imported, TableOptions, measure, trials};
use serde_json::Value;

/// Each line of bonnie++ is a trial, and showing a few is enough.
const MOST_SHOWN: usize = 4;

/// Tables of FsOpBench.
pub fn fsopbench(data: &[u8]) {
    import(Format::FsOpBench, data);
}

/// JSON of fio.
pub fn fio(data: &[u8]) {
    import(Format::Fio, data);
}

/// Lines of bonnie++.
pub fn bonnie(data: &[u8]) {
    import(Format::BonnieCsv, data);
}

/// Reports of mdtest, IOR, elbencho, iozone and sysbench: whatever they look like, or of any of them.
pub fn reports(data: &[u8]) {
    const PROGRAMS: [Program; 5] =
        [Program::Mdtest, Program::Ior, Program::Elbencho, Program::Iozone, Program::Sysbench];
    let text = String::from_utf8_lossy(data);
    let any = || Format::Report(PROGRAMS[lot(data, PROGRAMS.len() as u64) as usize]);
    import(Format::of(&text).unwrap_or_else(any), data);
}

/// Tables of anybody's measurements.
pub fn table(data: &[u8]) {
    let Ok(file) = File::new("fuzz.txt", data.to_vec()) else { return };
    let options = TableOptions { unit: Some("MB/s".to_string()), ..TableOptions::default() };
    let Imported { trials, measure, .. } = match fsdyno_formats::import::table(&file, &options) {
        Ok(imported) => imported,
        Err(error) => return assert!(error.to_string().contains("'fuzz.txt'"), "{error}"),
    };
    let is_measured = |trial: &TrialRecord| trial.outcome == Outcome::Measured;
    assert!(trials.iter().all(|trial| measure.value(trial).is_some() == is_measured(trial)));
    trials.iter().for_each(assert_storable);
    show::some(&trials[..trials.len().min(MOST_SHOWN)], lot(data, u64::MAX));
}

/// Whatever is accepted can be stored and shown.
fn import(format: Format, data: &[u8]) {
    let Ok(file) = File::new("fuzz.txt", data.to_vec()) else { return };
    let imported = match trials(format, &[file], None) {
        Ok(imported) => imported,
        Err(error) => return assert!(error.to_string().contains("'fuzz.txt'"), "{error}"),
    };
    let _ = measure(&imported);
    imported.iter().for_each(assert_storable);
    show::some(&imported[..imported.len().min(MOST_SHOWN)], lot(data, u64::MAX));
}

/// Integers in the store are signed, and JSON has neither infinities nor NaN.
fn assert_storable(trial: &TrialRecord) {
    let json = serde_json::to_value(trial).expect("a record is JSON");
    assert_fits(&json);
    let again: TrialRecord = serde_json::from_value(json).expect("every number is finite");
    assert_eq!(&again, trial);
}

fn assert_fits(value: &Value) {
    match value {
        Value::Number(number) => {
            assert!(number.is_i64() || number.is_f64(), "{number} does not fit into a column");
        }
        Value::Array(values) => values.iter().for_each(assert_fits),
        Value::Object(members) => members.values().for_each(assert_fits),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
