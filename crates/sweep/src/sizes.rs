//! The sizes of the devices of a plan, as far as they decide how long a trial takes.

use crate::plan::{Case, Plan};
use fsdyno_core::device::{Block, Image};
use fsdyno_core::{Bytes, DeviceSpec, Nanos};
use fsdyno_host::guest::Guests;
use fsdyno_host::{Host, HostError};
use serde::{Deserialize, Serialize};

/// Assumed time until a device is calm; it takes half a second to see that it is.
const ASSUMED_CALM: Nanos = Nanos::from_secs(1);

/// The facts that decide how long a trial takes, besides its load.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sizes {
    /// The device of the data, where it is known and some case fills it.
    pub device: Option<Bytes>,
    /// The number of bytes that are written to disks before a filesystem is created.
    pub conditioned: Bytes,
    /// The time that each phase waits for a calm device.
    pub calm: Nanos,
    /// The pause before each trial.
    #[serde(default)]
    pub cooldown: Nanos,
    /// `true` if guests may resume from a snapshot.
    pub resumes: bool,
    /// `true` if guests are emulated, as far as that is known.
    #[serde(default)]
    pub emulated: bool,
    /// `true` if guests run the load on a filesystem that another guest serves.
    pub served: bool,
    /// The number of machines that run the load on one filesystem.
    pub machines: u64,
    /// The number of machines that prepare the load.
    pub preparing: u64,
    /// The number of disks of an array, a volume or a pool, which is put together again after each power cut;
    /// 0 for a single disk.
    pub assembled: u64,
}

/// Why a size is unknown.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    pub device: Option<HostError>,
    pub conditioned: Option<HostError>,
}

impl Sizes {
    /// Returns the facts that the plan itself gives; the sizes of devices are not in it.
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        Sizes {
            device: None,
            conditioned: Bytes(0),
            calm: calm(plan),
            cooldown: plan.rules.cooldown.unwrap_or_default(),
            resumes: plan.guest.snapshot,
            emulated: false,
            served: plan.serve.is_some(),
            machines: plan.machines(),
            preparing: plan.preparing(),
            assembled: match &plan.devices.data {
                data if data.below().is_empty() => 0,
                stack => stack.disks().len() as u64,
            },
        }
    }

    /// On this host. A block device is examined if its size matters.
    pub(crate) fn of(host: &mut dyn Host, guests: &mut dyn Guests, plan: &Plan, cases: &[Case]) -> Self {
        let runs_guests = cases.iter().any(|case| case.configuration.guest_kernel().is_some());
        let emulated = runs_guests && guests.are_emulated();
        Sizes { emulated, ..examine(host, plan, cases).0 }
    }
}

/// The sizes on this host, and why some of them are unknown.
pub(crate) fn examine(host: &mut dyn Host, plan: &Plan, cases: &[Case]) -> (Sizes, Unknown) {
    let mut unknown = Unknown::default();
    let mut sizes = Sizes::of_plan(plan);
    match size_to_fill(host, plan, cases) {
        Ok(size) => sizes.device = Some(size),
        Err(error) => unknown.device = Some(error),
    }
    match conditioned(host, plan) {
        Ok(size) => sizes.conditioned = size,
        Err(error) => unknown.conditioned = Some(error),
    }
    (sizes, unknown)
}

/// Returns the time that a phase is expected to wait for a calm device.
fn calm(plan: &Plan) -> Nanos {
    plan.rules.quiesce.map_or(Nanos(0), |limit| limit.min(ASSUMED_CALM))
}

fn conditioned(host: &mut dyn Host, plan: &Plan) -> Result<Bytes, HostError> {
    let data = fsdyno_testbed::bytes_to_condition(host, &plan.devices.data)?;
    let journals = plan.devices.journals.values();
    let journals = journals.map(|spec| fsdyno_testbed::bytes_to_condition(host, spec));
    // A case has at most one of them.
    let journal = journals.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default();
    Ok(Bytes(data.0.saturating_add(journal.0)))
}

/// The size of the device if some case fills it; a block device is examined for it.
fn size_to_fill(host: &mut dyn Host, plan: &Plan, cases: &[Case]) -> Result<Bytes, HostError> {
    let fills = cases.iter().any(|case| case.configuration.precondition().is_some());
    plan.devices.data.size_by(&mut |disk| match disk {
        DeviceSpec::Image(Image { size, .. }) => Ok(*size),
        DeviceSpec::Block(Block { path, .. }) if fills => {
            host.probe_device(path).map(|probe| Bytes(probe.identity.size_bytes))
        }
        // No case fills it.
        _ => Ok(Bytes(0)),
    })
}
