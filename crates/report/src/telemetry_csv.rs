//! Telemetry as one tidy table: a row for each trial, phase, sample and device, and one more for the whole window.
//!
//! The columns of `iostat -x` have its names and units. Times of processors and tasks are nanoseconds within the sample,
//! memory is bytes at its end. A fact that the kernel does not show is empty.

use fsdyno_core::result::TrialRecord;
use fsdyno_core::telemetry::{Column, CpuSplit, Memory, Sample, Stalls, TaskKind, Telemetry};
use std::io::{self, Write};

/// Columns before those of `iostat -x`.
const IDENTITY: &[&str] =
    &["trial", "configuration", "workload", "phase", "sample", "start_ns", "length_ns", "device"];
const CPU: usize = 8;
const MEMORY: &[&str] = &[
    "dirty_bytes",
    "dirty_bytes_max",
    "writeback_bytes",
    "writeback_bytes_max",
    "cached_bytes",
    "available_bytes",
];
const PRESSURE: &[&str] = &[
    "pressure_io_some_ns",
    "pressure_io_full_ns",
    "pressure_cpu_some_ns",
    "pressure_cpu_full_ns",
    "pressure_memory_some_ns",
    "pressure_memory_full_ns",
];

/// Writes the telemetry of every trial that has any.
///
/// # Errors
/// Those of `out`.
pub fn telemetry(out: &mut dyn Write, trials: &[TrialRecord]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(header())?;
    for trial in trials {
        for phase in &trial.phases {
            let Some(telemetry) = &phase.telemetry else { continue };
            let identity = [
                trial.trial.to_string(),
                trial.configuration.name.clone(),
                trial.workload.kind().to_string(),
                phase.name.clone(),
            ];
            for (index, sample) in telemetry.samples.iter().enumerate() {
                write_sample(&mut writer, &identity, &index.to_string(), telemetry, sample)?;
            }
            write_sample(&mut writer, &identity, "window", telemetry, &telemetry.window)?;
        }
    }
    writer.flush()
}

fn header() -> Vec<String> {
    let cpu = CpuSplit::default().parts().map(|(name, _)| format!("cpu_{name}_ns"));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
    let iostat = Column::ALL.iter().map(|column| column.name().to_string());
    let tasks = TaskKind::ALL.iter().map(|kind| format!("tasks_{kind}_ns"));
    [words(IDENTITY), iostat.collect(), cpu.to_vec(), words(MEMORY), words(PRESSURE), tasks.collect()]
        .concat()
}

fn write_sample(
    writer: &mut csv::Writer<&mut dyn Write>,
    identity: &[String; 4],
    name: &str,
    telemetry: &Telemetry,
    sample: &Sample,
) -> io::Result<()> {
    let machine = machine(sample);
    for (device, activity) in telemetry.devices.iter().zip(&sample.devices) {
        let place =
            [name.to_string(), sample.start_ns.to_string(), sample.length_ns.0.to_string(), device.clone()];
        let iostat = Column::ALL.iter().map(|column| {
            activity.map_or(String::new(), |activity| activity.value(*column, sample.length_ns).to_string())
        });
        writer.write_record(
            identity.iter().cloned().chain(place).chain(iostat).chain(machine.iter().cloned()),
        )?;
    }
    Ok(())
}

/// What is the same for every device.
fn machine(sample: &Sample) -> Vec<String> {
    let cpu = sample.cpu.map(|cpu| cpu.parts().map(|(_, part_ns)| part_ns.to_string()));
    let memory = |memory: Memory| {
        [
            memory.dirty_bytes,
            memory.dirty_bytes_max,
            memory.writeback_bytes,
            memory.writeback_bytes_max,
            memory.cached_bytes,
            memory.available_bytes,
        ]
    };
    let memory = sample.memory.map(|state| memory(state).map(|bytes| bytes.to_string()));
    let stalls = |stalls: Option<Stalls>| {
        let text = |ns: fn(Stalls) -> u64| stalls.map(|stalls| ns(stalls).to_string()).unwrap_or_default();
        [text(|stalls| stalls.some_ns), text(|stalls| stalls.full_ns)]
    };
    let pressure = &sample.pressure;
    let mut cells: Vec<String> = cpu.map_or(vec![String::new(); CPU], |cpu| cpu.to_vec());
    cells.extend(memory.map_or(vec![String::new(); MEMORY.len()], |memory| memory.to_vec()));
    cells.extend([pressure.io, pressure.cpu, pressure.memory].into_iter().flat_map(stalls));
    let task = |kind: &TaskKind| sample.task_ns.get(kind).copied().unwrap_or_default().to_string();
    cells.extend(TaskKind::ALL.iter().map(task));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::collections::HashMap;

    #[test]
    fn each_device_in_each_sample_has_a_row_and_so_has_the_window() {
        let trials = fixture::with_telemetry(fixture::trials());
        let mut out = Vec::new();
        telemetry(&mut out, &trials).unwrap();
        let rows: Vec<HashMap<String, String>> =
            csv::Reader::from_reader(out.as_slice()).deserialize().collect::<Result<_, _>>().unwrap();
        // 4 measured trials of 3 phases, 30 samples and the window, 2 devices.
        assert_eq!(rows.len(), 4 * 3 * 31 * 2);
        let window = rows
            .iter()
            .find(|row| row["trial"] == "4" && row["sample"] == "window" && row["device"] == "vda")
            .unwrap();
        for (column, value) in [
            ("length_ns", "30000000000"),
            ("r/s", "100"),
            ("rkB/s", "4096"),
            ("%util", "50"),
            ("cpu_iowait_ns", "7500000000"),
            ("dirty_bytes_max", "134217728"),
            ("pressure_io_full_ns", "3000000000"),
            ("pressure_cpu_some_ns", ""),
            ("tasks_writeback_ns", "1500000000"),
            ("tasks_journal_ns", "0"),
        ] {
            assert_eq!(window[column], value, "{column}");
        }
    }

    #[test]
    fn without_telemetry_there_is_a_header_and_nothing_else() {
        let mut out = Vec::new();
        telemetry(&mut out, &fixture::trials()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 1);
    }
}
