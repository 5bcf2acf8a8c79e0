//! Parameters of `device-read` (`hdparm -tT`).

use super::measures::{Figure, OwnMeasure};
use super::parameter::{Refusal, parameters};
use super::steps::{PhaseSpec, steps};
use super::{Load, Need, Ramp, Timing};
use crate::operation::{Operation, Role};
use crate::units::{Bytes, Nanos};

parameters! {
    /// Reads of the block device below the filesystem: the same block from memory, then sequentially from the
    /// device. Sizes in bytes, times in nanoseconds.
    DeviceRead {
        block: Bytes = Bytes(2 * Bytes::MIB), "size of each read";
        window: Nanos = Nanos::from_secs(3), "length of the measured part of each phase";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for a read in flight at the end of the \
            window";
    }
}

steps! {
    /// Reading the device.
    reading { PREAD = Pread }
}

/// One block is read again and again, from memory.
pub const CACHED: PhaseSpec = PhaseSpec { name: "cached reads", role: Role::Reader, steps: reading::STEPS };
/// The blocks are read sequentially.
pub const BUFFERED: PhaseSpec =
    PhaseSpec { name: "buffered reads", role: Role::Reader, steps: reading::STEPS };

impl Load for DeviceRead {
    fn check(&self) -> Result<(), Refusal> {
        super::check_io_size("block", self.block, false)?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        Bytes(0)
    }

    fn timing(&self) -> Timing {
        let DeviceRead { window, drain_limit, .. } = *self;
        Timing { windows: 2, ramp: Ramp::default(), window, drain_limit }
    }

    fn title(&self) -> String {
        format!("device-read in blocks of {}, window {}", self.block, self.window)
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["window = '600ms'"]
    }

    fn default_measure(&self) -> &'static str {
        "device-read-buffered"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::of_phase(
                "device-read-cached",
                "bytes per second when reading the device's first block from memory",
                CACHED,
                Figure::Rate,
            ),
            OwnMeasure::of_phase(
                "device-read-buffered",
                "bytes per second when reading the device sequentially",
                BUFFERED,
                Figure::Rate,
            ),
        ]
    }

    fn throughput(&self) -> &'static str {
        "device-read-buffered"
    }

    fn latency(&self) -> Option<String> {
        Some(BUFFERED.p999(Operation::Pread))
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Device]
    }
}
