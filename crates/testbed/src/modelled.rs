//! The queue of a disk whose times are those of a model: as deep as that of the model, and with or without
//! platters, which schedulers take into account.

use crate::Result;
use crate::device::Device;
use crate::error::TestbedError;
use crate::setting::{self, NR_REQUESTS_MIN};
use crate::tunable::{Setting, journal_and_apply, queue_directory};
use crate::undo::UndoJournal;
use fsdyno_core::DeviceSpec;
use fsdyno_core::device::DiskModelText;
use fsdyno_disk::DiskModel;
use fsdyno_host::Host;
use fsdyno_host::setting::ROTATIONAL;

/// Returns the commands that do what [`adopt_queue`] does.
pub(crate) fn commands(text: &DiskModelText) -> Vec<String> {
    let Ok(model) = DiskModel::parse(&text.name, &text.text) else { return Vec::new() };
    let queue = "/sys/block/loopN/queue";
    vec![
        format!("echo none > {queue}/scheduler"),
        format!("echo {} > {queue}/nr_requests  # or what it has, if that is less", queue_depth(&model)),
        format!("echo {} > {queue}/{ROTATIONAL}", u8::from(model.is_rotational())),
        format!("echo SCHEDULER > {queue}/scheduler  # the one that it had"),
    ]
}

/// The depth of the kernel's queue: that of the model, if the kernel lets a queue be so short. What is beyond
/// the model's own depth waits in the disk.
fn queue_depth(model: &DiskModel) -> u64 {
    model.queue_depth().max(NR_REQUESTS_MIN.into())
}

/// Gives the queue of a modelled disk the properties of its model; any other disk stays as it is.
///
/// The depth of the hardware's queue is the one that `nr_requests` sets without a scheduler: with one, it is
/// the scheduler's own (`queue_requests_store` in block/blk-sysfs.c). So there is none meanwhile.
pub(crate) fn adopt_queue(host: &mut dyn Host, journal: &mut UndoJournal, device: &Device) -> Result<()> {
    let DeviceSpec::Image(image) = &device.spec else { return Ok(()) };
    let Some(text) = &image.model else { return Ok(()) };
    let model = DiskModel::parse(&text.name, &text.text).map_err(|error| TestbedError::Contradiction {
        contradictions: vec![format!("the model '{}': {error}", text.name)],
    })?;
    let queue = queue_directory(&device.identity);
    let set = |file: &str, value: String| Setting {
        axis: "model".to_string(),
        path: queue.join(file),
        value,
        companion: None,
        companion_last: false,
    };
    let text = |host: &mut dyn Host, file: &str| {
        host.read_text(&queue.join(file)).map_err(TestbedError::at("settings"))
    };
    let scheduler = setting::active(&text(host, "scheduler")?);
    // One after the other, because each decides what the next one is restored to.
    let without = set("scheduler", "none".to_string());
    let companion = Some(queue.join("nr_requests"));
    journal_and_apply(host, journal, &[Setting { companion, companion_last: true, ..without }], &[])?;
    let depth = text(host, "nr_requests")?.trim().parse::<u64>().unwrap_or(u64::MAX);
    let depth = depth.min(queue_depth(&model)).to_string();
    journal_and_apply(host, journal, &[set("nr_requests", depth)], &[])?;
    let rotational = u8::from(model.is_rotational()).to_string();
    journal_and_apply(host, journal, &[set(ROTATIONAL, rotational)], &[])?;
    journal_and_apply(host, journal, &[set("scheduler", scheduler)], &[])
}
