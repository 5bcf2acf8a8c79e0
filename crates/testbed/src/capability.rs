//! The support of a machine for a filesystem: its kernel, and its tools.

use crate::filesystem::Filesystem;
use crate::kernel_module::has_module;
use crate::layer;
use fsdyno_core::DeviceSpec;
use fsdyno_core::Tool;
use fsdyno_core::device::{Bitmap, Delay, Delayed, Lvm, Md, RaidLevel};
use fsdyno_core::filesystem::Descriptor;
use fsdyno_host::Host;
use std::path::{Path, PathBuf};

/// Those of these tools that a host does not have.
pub fn absent_tools(host: &mut dyn Host, tools: &'static [Tool]) -> Vec<&'static Tool> {
    tools.iter().filter(|tool| !matches!(host.find_program(tool.program), Ok(Some(_)))).collect()
}

/// The support of a kernel for a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelSupport {
    /// It is built in, or its module is loaded.
    Present,
    /// The kernel has a module for it, which the first mount loads.
    Module,
    /// The kernel has none.
    Absent,
    /// It cannot be determined.
    Unknown,
}

/// Determines whether the kernel of a host has a filesystem.
pub fn kernel_support(host: &mut dyn Host, filesystem: &dyn Filesystem) -> KernelSupport {
    let Ok(known) = host.read_text(Path::new("/proc/filesystems")) else { return KernelSupport::Unknown };
    if known.split_whitespace().any(|word| word == filesystem.descriptor().kernel_type) {
        return KernelSupport::Present;
    }
    if has_module(host, filesystem.descriptor().module) {
        KernelSupport::Module
    } else {
        KernelSupport::Absent
    }
}

/// Where to find a kernel with a filesystem that this machine's kernel lacks.
pub fn kernel_elsewhere(filesystem: &dyn Filesystem) -> String {
    let Descriptor { tools, debian_kernel, .. } = filesystem.descriptor();
    match tools.iter().any(|tool| tool.package.is_empty()) {
        true => "docs/guide/guests.md says which kernel and tool fit each other".to_string(),
        false => format!("supported by kernel = \"debian:{debian_kernel}\""),
    }
}

/// The support of a host for a kind of layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSupport {
    /// Its word in plans: `md`, `lvm`, `delay`.
    pub name: &'static str,
    /// `true` if the kernel has the layer; for md, some level of it.
    pub in_kernel: bool,
    /// The levels of md that the kernel has.
    pub levels: Vec<&'static str>,
    /// Its tools that are not installed.
    pub missing: Vec<&'static Tool>,
}

/// Returns the support of a host for each kind of layer.
pub fn layer_support(host: &mut dyn Host) -> Vec<LayerSupport> {
    let md = |level: &RaidLevel| Md { level: *level, chunk: None, bitmap: Bitmap::None, disks: Vec::new() };
    let disk = Box::new(DeviceSpec::block(PathBuf::new()));
    let kinds = [
        ("md", RaidLevel::ALL.iter().map(|level| DeviceSpec::Md(md(level))).collect()),
        ("lvm", vec![DeviceSpec::Lvm(Lvm { stripes: 1, stripe_size: None, disks: Vec::new() })]),
        ("delay", vec![DeviceSpec::Delayed(Delayed { delay: Delay::default(), disk })]),
    ];
    let mut support = |(name, mut variants): (&'static str, Vec<DeviceSpec>)| {
        let tools = variants.first().and_then(layer::of).map_or(&[][..], |layer| layer.tools());
        variants.retain(|spec| layer::of(spec).is_some_and(|layer| layer.unmet(host).is_empty()));
        let level = |spec: &DeviceSpec| match spec {
            DeviceSpec::Md(md) => Some(md.level.name()),
            _ => None,
        };
        LayerSupport {
            name,
            in_kernel: !variants.is_empty(),
            levels: variants.iter().filter_map(level).collect(),
            missing: absent_tools(host, tools),
        }
    };
    kinds.into_iter().map(&mut support).collect()
}
