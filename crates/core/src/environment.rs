//! The environment of a trial: everything that a reader must know to judge or to repeat a number.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The machine and the device stack at the start of a trial. A fact that the machine does not report is
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of fsdyno.
    pub fsdyno: String,
    /// `uname -r` and `uname -v`.
    pub kernel: String,
    /// Kernel command line.
    pub kernel_command_line: String,
    /// Name of the machine.
    pub hostname: String,
    /// Model name of the processor.
    pub cpu_model: String,
    /// Processors that may run workers.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Hypervisor or container technology; absent on bare metal.
    pub virtualisation: Option<String>,
    /// The kernel's clock source.
    pub clocksource: String,
    /// The governor that chooses the processors' frequency (`scaling_governor`): one name, or several if
    /// processors differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// `true` if processors may exceed their nominal frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// NUMA nodes with processors or memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// Swap space and how much of it was in use when the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Load averages of 1, 5 and 15 minutes when the trial began (proc_loadavg(5)). A sweep's own earlier
    /// trials are part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<[f64; 3]>,
    /// First line of `--version` of each tool that ran.
    pub tools: BTreeMap<String, String>,
    /// `vm.dirty_*` and every sysctl that the configuration sets, as in force.
    pub sysctl: BTreeMap<String, String>,
    /// The machines that did the load, if they are others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientFacts>,
    /// `true` if all of these read the same trees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_trees: bool,
    /// Each device of the stack, outermost first.
    pub devices: Vec<DeviceFacts>,
    /// Each layer that was built of devices, outermost first; none where disks are used as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerFacts>,
    /// The kernel's restrictions on tools and engines; absent in results of versions that did not confine
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<Confinement>,
    /// The geometry of the filesystem, as its tool prints it.
    pub geometry: String,
}

/// A machine that does the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// Its name in results.
    pub client: String,
    /// `uname -r`.
    pub kernel: String,
    /// Processors that may run workers.
    pub processors: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
}

/// Space for memory that is not in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// All of it, in bytes.
    pub size_bytes: u64,
    /// The part of it in use, in bytes.
    pub used_bytes: u64,
}

/// The kernel's restrictions on tools and engines, outside the devices and directories of their trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Landlock version of the kernel; 0 if it has none and nothing was confined.
    pub landlock_abi: u32,
    /// The actions that are blocked.
    pub refused: Vec<String>,
    /// The actions that only a newer version would block.
    pub not_refused: Vec<String>,
    /// `true` if timed operations, which Landlock would slow down, run with every mount read-only except that
    /// of the trial's directory.
    #[serde(default)]
    pub read_only_mounts: bool,
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.landlock_abi == 0 {
            f.write_str("none: this kernel does not support Landlock, or it was not enabled at boot")?;
        } else {
            write!(f, "Landlock ABI {}: blocks {}", self.landlock_abi, self.refused.join(", "))?;
        }
        if self.landlock_abi > 0 && !self.not_refused.is_empty() {
            write!(f, "; does not block {}", self.not_refused.join(", "))?;
        }
        match self.read_only_mounts {
            true => f.write_str("; timed operations: other mounts are read-only"),
            false => f.write_str("; timed operations: not confined"),
        }
    }
}

/// One device of the stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Path of its node.
    pub path: String,
    /// Vendor and model, or the backing file of a loop device.
    pub model: String,
    /// Serial number or WWN.
    pub serial: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Every readable file of its `queue` directory in sysfs, `write_cache` and `scheduler` among them.
    pub queue: BTreeMap<String, String>,
}

/// An array, a volume or a mapping that was built for the trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFacts {
    /// Path of its node.
    pub path: String,
    /// The exact command lines that made it, in order.
    pub commands: Vec<String>,
    /// Description as read back, and what it had to do before it could be measured: `md raid1 of 2 disks,
    /// metadata 1.2, no bitmap; resync not needed (assume-clean)`.
    pub in_force: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confinement_says_what_it_leaves_open() {
        let some = |kind: &str| vec![kind.to_string()];
        let (refused, not_refused) = (some("writing"), some("TCP"));
        let old = Confinement { landlock_abi: 2, refused, not_refused, read_only_mounts: true };
        assert_eq!(
            old.to_string(),
            "Landlock ABI 2: blocks writing; does not block TCP; timed operations: other mounts are read-only"
        );
        let none = Confinement::default().to_string();
        assert!(none.starts_with("none") && none.ends_with("timed operations: not confined"), "{none}");
    }

    #[test]
    fn an_environment_of_an_earlier_version_has_no_confinement() {
        let mut stored = serde_json::to_value(Environment::default()).expect("JSON");
        assert!(stored.get("confinement").is_none());
        stored["confinement"] = serde_json::json!({"landlock_abi": 0, "refused": [], "not_refused": []});
        let read: Environment = serde_json::from_value(stored).expect("an environment");
        assert_eq!(read.confinement, Some(Confinement::default()));
    }
}
