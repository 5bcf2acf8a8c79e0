//! The serialised form of telemetry: each sample with the columns of iostat, which are derived from it.

use super::{Column, DeviceActivity, Sample, Telemetry};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use std::collections::BTreeMap;

impl Serialize for Telemetry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Telemetry {
            devices,
            processors,
            interval_ns,
            window,
            samples,
            other_processes,
            cost,
            unparsed_lines,
            began_ns,
        } = self;
        let samples: Vec<_> = samples.iter().map(|sample| WithIostat::new(devices, sample)).collect();
        let mut document = serializer.serialize_struct("Telemetry", 9)?;
        document.serialize_field("devices", devices)?;
        document.serialize_field("processors", processors)?;
        document.serialize_field("interval_ns", interval_ns)?;
        document.serialize_field("window", &WithIostat::new(devices, window))?;
        document.serialize_field("samples", &samples)?;
        document.serialize_field("other_processes", other_processes)?;
        document.serialize_field("cost", cost)?;
        document.serialize_field("began_ns", began_ns)?;
        document.serialize_field("unparsed_lines", unparsed_lines)?;
        document.end()
    }
}

/// Differences of counters, and what iostat computes from them.
#[derive(Serialize)]
struct WithIostat<'a> {
    #[serde(flatten)]
    sample: &'a Sample,
    /// By device, then by column of `iostat -x`.
    iostat: BTreeMap<&'a str, BTreeMap<&'static str, f64>>,
}

impl<'a> WithIostat<'a> {
    fn new(devices: &'a [String], sample: &'a Sample) -> Self {
        let columns = |activity: &DeviceActivity| {
            Column::ALL
                .iter()
                .map(|column| (column.name(), activity.value(*column, sample.length_ns)))
                .collect()
        };
        let iostat = devices
            .iter()
            .zip(&sample.devices)
            .filter_map(|(device, activity)| Some((device.as_str(), columns(activity.as_ref()?))));
        WithIostat { sample, iostat: iostat.collect() }
    }
}
