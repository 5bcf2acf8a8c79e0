//! The devices of a stack: disks, and the layers built on them, or put together again.

use crate::Result;
use crate::device::{Contents, Device, open_disk, open_patiently};
use crate::error::TestbedError;
use crate::filesystem::Target;
use crate::guard::Testbed;
use crate::image::MadeImage;
use crate::layer::{self, Layer, Made, Making, Member};
use crate::name::random_name;
use crate::signature;
use crate::tool::{contradiction, run_to_success};
use crate::undo::UndoJournal;
use fsdyno_core::environment::LayerFacts;
use fsdyno_core::{Bytes, DeviceSpec, Nanos};
use fsdyno_host::probe::DeviceProbe;
use fsdyno_host::{Command, Host};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The step in which a layer is put together again. That it cannot be is a result of a power cut.
pub const ASSEMBLY: &str = "assemble";

/// Opens a disk, or builds a layer on the devices beneath it. A layer whose contents are kept is put together
/// again.
pub(crate) fn open(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    contents: Contents,
    images: &[MadeImage],
    spec: &DeviceSpec,
    interrupt: &AtomicBool,
) -> Result<Device> {
    match layer::of(spec) {
        None => open_disk(host, journal, testbed, contents, images, spec),
        Some(layer) => {
            let beneath = match contents {
                Contents::Kept { .. } => Contents::Kept { without: None },
                Contents::Replaced => Contents::Replaced,
            };
            let mut of_below = |spec| open(host, journal, testbed, beneath, images, spec, interrupt);
            let below = spec.below().iter().map(&mut of_below);
            let below = below.collect::<Result<Vec<_>>>()?;
            match contents {
                Contents::Kept { without } => assemble(host, journal, testbed, layer, below, spec, without),
                Contents::Replaced => build(host, journal, testbed, layer, below, spec, interrupt),
            }
        }
    }
}

/// Builds a layer on open devices, each verified again before each command, and opens the result.
fn build(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    layer: &dyn Layer,
    below: Vec<Device>,
    spec: &DeviceSpec,
    interrupt: &AtomicBool,
) -> Result<Device> {
    let id = random_name();
    let members: Vec<Member> = below.iter().map(Device::member).collect();
    let blank = testbed.blank_disks || spec.is_of_new_images();
    let making = Making { members: &members, id: &id, blank };
    journal.append(&layer.ways_back(&id, spec.below()))?;
    let commands = layer.commands(&making);
    run_verified(host, testbed, &below, &commands, "device")?;
    testbed.knowledge().layer_made(spec, &id);
    let name = holder(host, spec, below.iter())?;
    let directory = Path::new("/sys/block").join(&name);
    let in_force = layer.settle(host, Made { making: &making, directory: &directory, interrupt })?;
    if !in_force.differences.is_empty() {
        return Err(TestbedError::Unmet { unmet: in_force.differences });
    }
    let mut device = open_layer(host, journal, spec, &name, below)?;
    if !blank {
        // Its members still hold what an earlier trial wrote.
        signature::wipe(host, &device.target, &[])?;
    }
    let path = device.target.node.display().to_string();
    let commands = commands.iter().map(Command::line).collect();
    device.made = Some(LayerFacts { path, commands, in_force: in_force.text });
    Ok(device)
}

/// Puts a layer together again that was built on the same testbed, perhaps without one of its members, and
/// opens it. It may still work in the background, as after a boot.
fn assemble(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    layer: &dyn Layer,
    below: Vec<Device>,
    spec: &DeviceSpec,
    without: Option<usize>,
) -> Result<Device> {
    let id = testbed.knowledge().id_of_layer(spec);
    let id = id.ok_or_else(|| contradiction(format!("'{spec}' was not built before")))?;
    let is_there = |index: &usize| Some(*index) != without;
    let there = || below.iter().enumerate().filter(|(index, _)| is_there(index)).map(|(_, device)| device);
    let members: Vec<Member> = there().map(Device::member).collect();
    let making = Making { members: &members, id: &id, blank: false };
    // What is on the members is not to be removed from them.
    journal.append(&layer.ways_back(&id, &[]))?;
    let start = Instant::now();
    run_verified(host, testbed, &below, &layer.assembly(&making, without.is_some()), ASSEMBLY)?;
    let took = start.elapsed().into();
    let name = holder(host, spec, there())?;
    let mut device = open_layer(host, journal, spec, &name, below)?;
    device.assembled = took;
    Ok(device)
}

/// Runs commands that write to devices, each of which is verified before each command.
fn run_verified(
    host: &mut dyn Host,
    testbed: &Testbed,
    below: &[Device],
    commands: &[Command],
    step: &'static str,
) -> Result<()> {
    for command in commands {
        for device in below.iter().flat_map(Device::all) {
            host.verify_device(device.target.handle, &device.identity).map_err(TestbedError::at(step))?;
        }
        for device in below {
            device.verify_free(host, step)?;
        }
        below.iter().for_each(|device| device.claim(testbed));
        run_to_success(host, step, command)?;
    }
    Ok(())
}

/// Opens the device of a layer.
fn open_layer(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    spec: &DeviceSpec,
    name: &str,
    below: Vec<Device>,
) -> Result<Device> {
    let node = Path::new("/dev").join(name);
    let DeviceProbe { identity, sector_bytes, .. } =
        host.probe_device(&node).map_err(TestbedError::at("device"))?;
    let handle = open_patiently(host, journal, &node, &identity, "open")?;
    Ok(Device {
        spec: spec.clone(),
        identity,
        model: spec.to_string(),
        target: Target { handle, node, planned: spec.path().to_path_buf() },
        shared_with: Vec::new(),
        sector: Bytes(sector_bytes),
        below,
        made: None,
        assembled: Nanos(0),
    })
}

/// The kernel's name of the device that holds all of these, which must be one and the same.
fn holder<'a>(
    host: &mut dyn Host,
    spec: &DeviceSpec,
    below: impl Iterator<Item = &'a Device>,
) -> Result<String> {
    let mut found: Option<String> = None;
    for device in below {
        let (major, minor) = device.identity.number;
        let directory = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/holders"));
        let holders = host.list_directory(&directory).map_err(TestbedError::at("device"))?;
        match (&holders[..], &found) {
            ([one], None) => found = Some(one.clone()),
            ([one], Some(other)) if one == other => {}
            _ => {
                let holders = holders.join(", ");
                let node = device.target.node.clone();
                return Err(TestbedError::WrongStack { wanted: spec.to_string(), node, holders });
            }
        }
    }
    found.ok_or_else(|| contradiction(format!("'{spec}' has no devices beneath it")))
}
