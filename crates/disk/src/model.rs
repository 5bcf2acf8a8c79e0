//! Models of disks as data: what a disk is, in numbers that somebody has published, or that are marked as
//! fitted or assumed.

use crate::geometry::Dimensions;
use crate::quantity::{ModelParameter, Stated, within};
use fsdyno_core::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The models that come with fsdyno, each with the text of its file.
const OWN: &[(&str, &str)] = &[
    ("ide-7200-2002", include_str!("../../../disks/ide-7200-2002.toml")),
    ("sata-7200-2009", include_str!("../../../disks/sata-7200-2009.toml")),
    ("sata-7200-today", include_str!("../../../disks/sata-7200-today.toml")),
    ("scsi-15k-2006", include_str!("../../../disks/scsi-15k-2006.toml")),
    ("raid6-7x-bbu", include_str!("../../../disks/raid6-7x-bbu.toml")),
    ("scsi-15k-x7-lun", include_str!("../../../disks/scsi-15k-x7-lun.toml")),
    ("sata-ssd", include_str!("../../../disks/sata-ssd.toml")),
    ("sata-ssd-no-plp", include_str!("../../../disks/sata-ssd-no-plp.toml")),
    ("sd-card-a1", include_str!("../../../disks/sd-card-a1.toml")),
    ("ebs-gp3", include_str!("../../../disks/ebs-gp3.toml")),
    ("ebs-gp2", include_str!("../../../disks/ebs-gp2.toml")),
    ("ebs-st1", include_str!("../../../disks/ebs-st1.toml")),
];

/// Why a model could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It is not TOML, or has other tables and keys than a model.
    #[error("{0}")]
    Malformed(String),
    /// A parameter is missing.
    #[error("a {kind} has '{name}', {help}, which is missing")]
    Missing {
        /// Kind of the disk.
        kind: &'static str,
        /// ModelParameter.
        name: &'static str,
        /// Its meaning.
        help: &'static str,
    },
    /// A parameter that disks of this kind do not have.
    #[error("a {kind} has no '{name}'; it has {known}")]
    Unknown {
        /// Kind of the disk.
        kind: &'static str,
        /// As written.
        name: String,
        /// All that it has.
        known: String,
    },
    /// A value that no disk has.
    #[error("'{name}' is {value}, but must be {expected}")]
    Value {
        /// ModelParameter.
        name: &'static str,
        /// As written.
        value: String,
        /// The values that it may have.
        expected: String,
    },
}

/// A disk as a model describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    /// Its name.
    pub name: String,
    /// The disk in a few words.
    pub title: String,
    /// The things that the model gets wrong or leaves out.
    pub defects: Vec<String>,
    /// The way in which it works.
    pub mechanism: Mechanism,
    /// The share of a hard disk that the modelled one is, from its beginning: 1 for all of it.
    pub span: f64,
    /// Its parameters with their sources.
    pub parameters: Vec<ModelParameter>,
    /// Published figures against which it is held, none of which it was fitted to.
    pub figures: Vec<PublishedFigure>,
}

/// A figure of a real disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// The measurement.
    pub what: Measured,
    /// Operations or MB (10^6 bytes) per second.
    pub value: f64,
    /// Who has measured it.
    pub source: String,
}

/// A measurement that testers of disks publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// Reads of 4 KiB at random places of the whole disk per second, one at a time.
    #[serde(rename = "random-reads-1")]
    RandomReads1,
    /// The same with 32 at a time.
    #[serde(rename = "random-reads-32")]
    RandomReads32,
    /// Writes of 4 KiB at random places of the whole disk per second, with 32 at a time.
    #[serde(rename = "random-writes-32")]
    RandomWrites32,
    /// MB per second read from the beginning of the disk.
    SequentialOuter,
    /// MB per second read from its end.
    SequentialInner,
    /// MB per second written at its beginning.
    SequentialWrite,
}

impl Measured {
    /// The measurement with its unit, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Measured::RandomReads1 => "4k random reads per second, one at a time",
            Measured::RandomReads32 => "4k random reads per second, 32 at a time",
            Measured::RandomWrites32 => "4k random writes per second, 32 at a time",
            Measured::SequentialOuter => "MB per second read from its beginning",
            Measured::SequentialInner => "MB per second read from its end",
            Measured::SequentialWrite => "MB per second written at its beginning",
        }
    }
}

/// The way in which a disk works.
#[derive(Debug, Clone, PartialEq)]
pub enum Mechanism {
    /// Platters and a head.
    HardDisk(HardDisk),
    /// Several disks of one kind behind a controller.
    Array(DiskArray, HardDisk),
    /// Channels that work at the same time.
    Flash(Flash),
    /// A volume of a cloud: limits, and a latency.
    Volume(Volume),
}

/// Declares a kind of disk: its parameters with their types, the range of values that a disk can have, and
/// what each is.
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $kind:literal {
        $($field:ident: $type:ty = $range:expr, $help:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(#[doc = $help] pub $field: $type,)*
        }

        impl $name {
            fn read(mut stated: BTreeMap<String, Stated>) -> Result<(Self, Vec<ModelParameter>), ModelError> {
                let mut parameters = Vec::new();
                $(let $field: $type = {
                    let (name, help) = (stringify!($field), $help);
                    let Some(Stated { value, basis, source }) = stated.remove(name) else {
                        return Err(ModelError::Missing { kind: $kind, name, help });
                    };
                    let read = within(&value, &$range).map_err(|expected| {
                        ModelError::Value { name, value: value.to_string(), expected }
                    })?;
                    parameters.push(ModelParameter { name, help, value: read.to_string(), basis, source });
                    read
                };)*
                if let Some(name) = stated.into_keys().next() {
                    let known = [$(stringify!($field)),*].join(", ");
                    return Err(ModelError::Unknown { kind: $kind, name, known });
                }
                Ok(($name { $($field),* }, parameters))
            }
        }
    };
}

/// The smallest part of a disk that can be modelled.
const LEAST_SPAN: f64 = 0.0001;
const NO_TIME: Nanos = Nanos(0);
const LONG: Nanos = Nanos::from_secs(10);
const NOTHING: Bytes = Bytes(0);
const SECTOR: Bytes = Bytes(512);
/// The most that a disk reads or writes in one go: each track takes a step to follow.
const CACHED: Bytes = Bytes(64 << 20);
const LARGE: Bytes = Bytes(1 << 50);
/// The shortest track, in bytes.
const SHORTEST_TRACK: f64 = 4096.0;

kind! {
    /// A hard disk.
    HardDisk, "hard-disk" {
        rpm: f64 = 60.0..=100_000.0, "revolutions per minute";
        heads: u64 = 1..=64, "surfaces";
        seek_track: Nanos = NO_TIME..=LONG, "time to move the head to the next cylinder";
        seek_mean: Nanos = NO_TIME..=LONG, "mean time to move it between two random cylinders";
        seek_full: Nanos = NO_TIME..=LONG, "time to move it over the full radius";
        switch: Nanos = NO_TIME..=LONG, "time to switch to the next head, by which tracks are skewed";
        write_settle: Nanos = NO_TIME..=LONG, "time by which the head settles longer before it writes";
        outer_rate: f64 = 0.01..=100_000.0, "MB (10^6 bytes) per second read in a row from the outermost tracks";
        inner_rate: f64 = 0.01..=100_000.0, "the same from the innermost tracks";
        overhead: Nanos = NO_TIME..=LONG, "time to decode a command and to report its end";
        interface_rate: f64 = 0.01..=100_000.0, "MB per second between the cache and the host";
        queue_depth: u64 = 1..=4096, "commands that the disk takes before it has ended them";
        read_segments: u64 = 1..=4096, "rows of reads that the cache keeps apart";
        segment_size: Bytes = SECTOR..=CACHED, "the most that it keeps of each";
        read_ahead: Bytes = NOTHING..=CACHED, "how far it reads on after a read, if nothing else is to be done";
        write_cache: Bytes = NOTHING..=LARGE, "size of the write cache; 0 for none";
        write_cache_entries: u64 = 1..=8192, "separate ranges that it holds at most";
        destage_size: Bytes = SECTOR..=CACHED, "the most that is written from it in one go";
        destage_after: Nanos = NO_TIME..=LONG, "age at which an idle disk writes what is in it";
        low_water: f64 = 0.0..=1.0, "share of the write cache from which an idle disk writes it";
        high_water: f64 = 0.0..=1.0, "share from which it is written in turns with reads";
        read_ageing: f64 = 0.0..=1000.0, "how much nearer a read counts for each unit of time that it waits";
        write_ageing: f64 = 0.0..=1000.0, "the same for what is in the write cache";
    }
}

kind! {
    /// Disks behind a controller, whose cache is protected by a battery.
    DiskArray, "array" {
        members: u64 = 1..=64, "disks";
        parity: u64 = 0..=2, "how many of them each row of chunks has its parity on";
        chunk: Bytes = SECTOR..=CACHED, "bytes in a row on one disk";
        cache: Bytes = NOTHING..=LARGE, "size of the cache for writes; 0 for none";
        high_water: f64 = 0.0..=1.0, "share of it from which rows are written at once";
        write_after: Nanos = NO_TIME..=LONG, "age at which a row is written in any case";
        rows_at_once: u64 = 1..=1024, "rows that are written at the same time";
        overhead: Nanos = NO_TIME..=LONG, "time to decode a command and to report its end";
        interface_rate: f64 = 0.01..=100_000.0, "MB per second between the controller and the host";
        queue_depth: u64 = 1..=4096, "commands that the controller takes before it has ended them";
    }
}

kind! {
    /// Flash, or anything whose parts work at the same time without moving.
    Flash, "flash" {
        channels: u64 = 1..=4096, "parts that work at the same time";
        stripe: Bytes = SECTOR..=CACHED, "the most of a request that one channel serves: several share a longer one";
        queue_depth: u64 = 1..=65_536, "commands that the disk takes before it has ended them";
        read_latency: Nanos = NO_TIME..=LONG, "time of a read on a channel, without its data";
        write_latency: Nanos = NO_TIME..=LONG, "time of a write on a channel, without its data";
        flush_latency: Nanos = NO_TIME..=LONG, "time to flush what is written";
        read_rate: f64 = 0.01..=100_000.0, "MB per second that a channel reads";
        write_rate: f64 = 0.01..=100_000.0, "MB per second that a channel writes";
        interface_rate: f64 = 0.01..=100_000.0, "MB per second between the disk and the host";
        fast_size: Bytes = NOTHING..=LARGE, "bytes that are written at `write_rate` before the disk must make room; \
            0 if it never must";
        slow_rate: f64 = 0.01..=100_000.0, "MB per second that the whole disk writes from then on";
    }
}

kind! {
    /// A volume of a cloud, which limits what it could do.
    Volume, "volume" {
        queue_depth: u64 = 1..=65_536, "requests that are in flight at the same time";
        read_latency: Nanos = NO_TIME..=LONG, "time of a read";
        write_latency: Nanos = NO_TIME..=LONG, "time of a write";
        flush_latency: Nanos = NO_TIME..=LONG, "time of a flush";
        operations: f64 = 0.1..=1e9, "operations per second";
        operation_burst: f64 = 1.0..=1e12, "operations that may be used at once after a rest";
        base_operations: f64 = 0.1..=1e9, "operations per second when its credits are used up";
        operation_credits: f64 = 0.0..=1e15, "operations beyond these that it begins with, and gets back at that \
            rate; 0 if `operations` lasts";
        rate: f64 = 0.01..=100_000.0, "MB per second";
        rate_burst: Bytes = SECTOR..=LARGE, "bytes that may be used at once after a rest";
        base_rate: f64 = 0.01..=100_000.0, "MB per second when its credits are used up";
        rate_credits: Bytes = NOTHING..=LARGE, "bytes beyond these that it begins with, and gets back at that \
            rate; 0 if `rate` lasts";
        unit: Bytes = NOTHING..=CACHED, "bytes that a request counts as, however short; 0 for its length";
        merged_from: Bytes = NOTHING..=CACHED, "size from which requests that follow each other count as one";
    }
}

impl HardDisk {
    /// The dimensions of the first part of the disk, which holds this share of its bytes.
    pub(crate) fn dimensions(&self, span: f64) -> Dimensions {
        let (outer, inner) = (self.outer_rate, self.inner_rate);
        // Bytes grow with the rate, which falls from the first track to the last one.
        let radius = match outer - inner {
            none if none < 1e-9 * outer => span,
            fall => (outer - (outer * outer - (outer * outer - inner * inner) * span).sqrt()) / fall,
        };
        Dimensions {
            revolution_ns: 60e9 / self.rpm,
            switch_ns: self.switch.0 as f64,
            heads: self.heads,
            outer_rate: self.outer_rate * 1e6,
            inner_rate: self.inner_rate * 1e6,
            span: [0.0, radius],
            seek_ns: [self.seek_track, self.seek_mean, self.seek_full].map(|time| time.0 as f64),
        }
    }
}

/// A model as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    kind: Kind,
    #[serde(default)]
    span: Option<f64>,
    #[serde(default)]
    defects: Vec<String>,
    parameters: BTreeMap<String, Stated>,
    #[serde(default)]
    figures: Vec<PublishedFigure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    HardDisk,
    Array,
    Flash,
    Volume,
}

impl DiskModel {
    /// Returns the names of the models that come with fsdyno.
    pub fn own_names() -> impl Iterator<Item = &'static str> {
        OWN.iter().map(|(name, _)| *name)
    }

    /// Returns the file of a model that comes with fsdyno.
    pub fn own_text(name: &str) -> Option<&'static str> {
        OWN.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
    }

    /// Parses the file of a model.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn parse(name: &str, text: &str) -> Result<DiskModel, ModelError> {
        let document: Document =
            toml::from_str(text).map_err(|error| ModelError::Malformed(error.to_string()))?;
        let Document { title, kind, span, defects, parameters, figures } = document;
        let (mechanism, parameters) = match kind {
            Kind::HardDisk => {
                let (disk, parameters) = HardDisk::read(parameters)?;
                disk.check()?;
                (Mechanism::HardDisk(disk), parameters)
            }
            Kind::Array => {
                let (array, member, parameters) = DiskArray::with_member(parameters)?;
                (Mechanism::Array(array, member), parameters)
            }
            Kind::Flash => {
                let (flash, parameters) = Flash::read(parameters)?;
                (Mechanism::Flash(flash), parameters)
            }
            Kind::Volume => {
                let (volume, parameters) = Volume::read(parameters)?;
                volume.check()?;
                (Mechanism::Volume(volume), parameters)
            }
        };
        let mut model =
            DiskModel { name: name.to_string(), title, defects, mechanism, span: 1.0, parameters, figures };
        if let Some(span) = span {
            let expected = match model.is_rotational() {
                true => format!("a share from {LEAST_SPAN} to 1"),
                false => "left out: only disks with platters have one".to_string(),
            };
            let holds = model.is_rotational() && (LEAST_SPAN..=1.0).contains(&span);
            must("span", span.to_string(), holds, expected)?;
            model.span = span;
        }
        Ok(model)
    }

    /// Returns the file of a model with this as its `span`, which it must not have yet.
    pub fn with_span(text: &str, span: f64) -> String {
        format!("span = {span:?}\n{text}")
    }

    /// Returns whether it has platters.
    pub fn is_rotational(&self) -> bool {
        matches!(self.mechanism, Mechanism::HardDisk(_) | Mechanism::Array(..))
    }

    /// The number of requests that it takes before it has ended them.
    pub fn queue_depth(&self) -> u64 {
        match &self.mechanism {
            Mechanism::HardDisk(disk) => disk.queue_depth,
            Mechanism::Array(array, _) => array.queue_depth,
            Mechanism::Flash(flash) => flash.queue_depth,
            Mechanism::Volume(volume) => volume.queue_depth,
        }
    }
}

/// Fails if a value contradicts another one.
fn must(name: &'static str, value: String, holds: bool, expected: String) -> Result<(), ModelError> {
    match holds {
        true => Ok(()),
        false => Err(ModelError::Value { name, value, expected }),
    }
}

/// The parameter of an array that names the model of its disks.
const MEMBER: (&str, &str) = ("member", "the model of its disks");

impl DiskArray {
    /// Reads the parameters of an array with its disks.
    fn with_member(
        mut stated: BTreeMap<String, Stated>,
    ) -> Result<(Self, HardDisk, Vec<ModelParameter>), ModelError> {
        let (name, help) = MEMBER;
        let Some(Stated { value, basis, source }) = stated.remove(name) else {
            return Err(ModelError::Missing { kind: "array", name, help });
        };
        let disk = value.as_str().and_then(|named| Some((named, DiskModel::own_text(named)?)));
        let disk = disk.map(|(named, text)| DiskModel::parse(named, text)).transpose()?;
        let Some(DiskModel { name: own, mechanism: Mechanism::HardDisk(member), .. }) = disk else {
            let expected = "a hard disk that comes with fsdyno".to_string();
            return Err(ModelError::Value { name, value: value.to_string(), expected });
        };
        let (array, mut parameters) = DiskArray::read(stated)?;
        let expected = format!("less than members ({})", array.members);
        must("parity", array.parity.to_string(), array.parity < array.members, expected)?;
        parameters.insert(0, ModelParameter { name, help, value: own, basis, source });
        Ok((array, member, parameters))
    }
}

impl Volume {
    /// Fails if the parameters contradict one another.
    fn check(&self) -> Result<(), ModelError> {
        let Self { operations, base_operations, rate, base_rate, .. } = self;
        let expected = format!("at most operations ({operations})");
        must("base_operations", base_operations.to_string(), base_operations <= operations, expected)?;
        let expected = format!("at most rate ({rate})");
        must("base_rate", base_rate.to_string(), base_rate <= rate, expected)
    }
}

impl HardDisk {
    /// Fails if the parameters contradict one another.
    fn check(&self) -> Result<(), ModelError> {
        let Self { seek_track, seek_mean, seek_full, outer_rate, inner_rate, .. } = self;
        let expected = format!("from seek_track ({seek_track}) to seek_full ({seek_full})");
        must("seek_mean", seek_mean.to_string(), (seek_track..=seek_full).contains(&seek_mean), expected)?;
        let expected = format!("at most outer_rate ({outer_rate})");
        must("inner_rate", inner_rate.to_string(), inner_rate <= outer_rate, expected)?;
        let track = self.inner_rate * 1e6 * (60.0 / self.rpm);
        let expected = format!("at least {SHORTEST_TRACK} bytes in a revolution, and not {track:.0}");
        must("inner_rate", inner_rate.to_string(), track >= SHORTEST_TRACK, expected)?;
        let Self { low_water, high_water, .. } = self;
        let expected = format!("at most high_water ({high_water})");
        must("low_water", low_water.to_string(), low_water <= high_water, expected)
    }
}
