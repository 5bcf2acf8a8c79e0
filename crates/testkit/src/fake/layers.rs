//! Arrays and mappings of the fake machine: what mdadm, lvm and dmsetup do to it, and what sysfs then shows;
//! and the signatures that mkfs leaves on its devices.
//!
//! Only the options that the testbed uses are supported. A layer keeps its members busy, is busy itself while
//! something is built on it, and leaves its label on them when it is removed.

use super::{FakeHost, LOOP_MAJOR, index_of, queue};
use fsdyno_core::Nanos;
use fsdyno_host::probe::DeviceIdentity;
use fsdyno_host::{Command, Output};
use std::path::{Path, PathBuf};

const MD_MAJOR: u32 = 9;
const DM_MAJOR: u32 = 252;

/// An array or a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeLayer {
    /// The devices that it is built on.
    pub members: Vec<PathBuf>,
    /// The UUID of an array, the name of a mapping.
    pub known_by: String,
    /// Its options as mdadm had them, or the table of a mapping.
    pub words: Vec<String>,
    /// `true` if the layer was made here, and not by somebody else.
    pub(super) ours: bool,
    /// A number that distinguishes it from earlier ones of this machine.
    sequence: u64,
}

impl FakeLayer {
    fn is_delay(&self) -> bool {
        self.words.iter().any(|word| word.contains(" delay "))
    }
}

impl FakeHost {
    /// The effect of a tool for device stacks; `None` for other programs and other options.
    pub(super) fn run_layer_tool(&mut self, command: &Command) -> Option<Output> {
        let word = |argument: &fsdyno_host::Argument| match &argument.device {
            Some((_, node)) => node.display().to_string(),
            None => argument.text.clone(),
        };
        let words: Vec<String> = command.arguments.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let devices: Vec<PathBuf> = command
            .arguments
            .iter()
            .filter_map(|argument| argument.device.as_ref())
            .map(|(_, node)| node.clone())
            .collect();
        match (command.program.as_str(), &words[..]) {
            ("mdadm", ["--create", ..]) => Some(self.create_array(&words, devices)),
            ("mdadm", ["--detail", "--export", node]) => {
                let found = self.machine.layers.get(Path::new(node));
                Some(found.map_or(failed("no array"), |array| said(&format!("MD_UUID={}\n", array.known_by))))
            }
            ("mdadm", ["--stop", node]) => Some(self.remove_layer(Path::new(node))),
            ("mdadm", ["--examine", "--export", node]) => Some(match self.label(node) {
                Some(label) => said(&format!("MD_UUID={label}\n")),
                None => failed("no superblock"),
            }),
            ("mdadm", ["--zero-superblock", node]) => Some(self.clear(node)),
            ("dmsetup", ["create", name, "--table", table]) => {
                let member = PathBuf::from(table.split_whitespace().nth(3).unwrap_or_default());
                Some(self.add_layer(DM_MAJOR, vec![member], name, vec![(*table).to_string()]))
            }
            ("dmsetup", ["table", name]) => {
                let found = self.machine.layers.values().find(|layer| layer.known_by == *name);
                Some(found.map_or(failed("no such mapping"), |layer| said(&layer.words.join("\n"))))
            }
            ("dmsetup", ["remove", "--retry", name]) => {
                let found = self.machine.layers.iter().find(|(_, layer)| layer.known_by == *name);
                let node = found.map(|(node, _)| node.clone());
                Some(node.map_or(failed("no such mapping"), |node| self.remove_layer(&node)))
            }
            (
                "lvm",
                ["vgcreate", "--config", _, "--nolocking", "--yes", "--force", "--force", group, nodes @ ..],
            ) => {
                for node in nodes {
                    let disk = self.disk_below(Path::new(node));
                    self.machine.labels.insert(disk, (*group).to_string());
                }
                Some(said(""))
            }
            ("lvm", ["lvcreate", .., group]) => Some(self.create_volume(&words, group)),
            ("lvm", ["pvs", .., node]) => Some(said(&self.label(node).unwrap_or_default())),
            ("lvm", ["pvremove", .., node]) => Some(self.clear(node)),
            ("wipefs", words) => {
                let node = devices.first()?;
                Some(if words.contains(&"--json") { self.signature(node) } else { self.wipe(node) })
            }
            (program, words)
                if program.starts_with("mk") || ["jfs_tune", "nilfs-tune"].contains(&program) =>
            {
                if self.mkfs_makes_nothing {
                    return None;
                }
                let uuid = words.iter().find_map(|word| as_uuid(word))?;
                let disk = self.disk_below(devices.last()?);
                self.machine.signatures.insert(disk, uuid.to_string());
                None
            }
            _ => None,
        }
    }

    fn create_array(&mut self, words: &[&str], devices: Vec<PathBuf>) -> Output {
        let uuid = words.iter().find_map(|word| word.strip_prefix("--uuid=")).unwrap_or_default();
        let made = self.add_layer(
            MD_MAJOR,
            devices.clone(),
            uuid,
            words.iter().map(|word| (*word).to_string()).collect(),
        );
        if made.status == 0 {
            let disks: Vec<PathBuf> = devices.iter().map(|device| self.disk_below(device)).collect();
            self.machine.labels.extend(disks.into_iter().map(|disk| (disk, uuid.to_string())));
        }
        made
    }

    fn create_volume(&mut self, words: &[&str], group: &str) -> Output {
        let of_group = self.machine.labels.iter().filter(|(_, label)| *label == group);
        let members: Vec<PathBuf> = of_group.map(|(disk, _)| self.delay_above(disk)).collect();
        let after =
            |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1));
        let table = match after("--stripes") {
            Some(stripes) => format!("0 1000 striped {stripes} 256"),
            None => "0 1000 linear 7:0 2048".to_string(),
        };
        self.add_layer(DM_MAJOR, members, &format!("{group}-data"), vec![table])
    }

    fn add_layer(&mut self, major: u32, members: Vec<PathBuf>, known_by: &str, words: Vec<String>) -> Output {
        if members.is_empty() || members.iter().any(|member| self.is_busy(member)) {
            return failed("Device or resource busy");
        }
        let name = |index: u32| match major {
            MD_MAJOR => format!("/dev/md{}", 127 - index),
            _ => format!("/dev/dm-{index}"),
        };
        let mut free = (0..).map(name).map(PathBuf::from);
        let Some(node) = free.find(|node| !self.machine.layers.contains_key(node)) else {
            return failed("no number is free");
        };
        self.last_layer += 1;
        let (known_by, ours) = (known_by.to_string(), !self.is_somebody_else());
        let layer = FakeLayer { members, known_by, words, ours, sequence: self.last_layer };
        self.machine.layers.insert(node.clone(), layer);
        // Devices without requests of their own have no scheduler to choose and no depth.
        let queue = queue(number_of_layer(&node));
        self.write_setting(queue.join("scheduler"), "none\n");
        self.write_setting(queue.join("read_ahead_kb"), "128\n");
        said("")
    }

    fn remove_layer(&mut self, node: &Path) -> Output {
        if self.is_busy(node) || self.open.values().any(|(open, _)| open == node) {
            return failed("Device or resource busy");
        }
        if number_of_layer(node).0 == MD_MAJOR && self.reassemblies > 0 {
            self.reassemblies -= 1;
            return said("");
        }
        if self.machine.layers.remove(node).is_none() {
            return failed("no such device");
        }
        // Its content is spread over its members.
        self.machine.signatures.remove(node);
        let queue = queue(number_of_layer(node));
        self.machine.texts.retain(|path, _| !path.starts_with(&queue));
        said("")
    }

    fn signature(&self, node: &Path) -> Output {
        let uuid = self.machine.signatures.get(&self.disk_below(node));
        let signature =
            uuid.map(|uuid| format!("{{\"type\": \"any\", \"offset\": \"0x0\", \"uuid\": \"{uuid}\"}}"));
        said(&format!("{{\"signatures\": [{}]}}", signature.unwrap_or_default()))
    }

    fn wipe(&mut self, node: &Path) -> Output {
        if self.is_busy(node) {
            return failed("probing initialization failed: Device or resource busy");
        }
        self.machine.signatures.remove(&self.disk_below(node));
        said("")
    }

    fn label(&self, node: &str) -> Option<String> {
        self.machine.labels.get(&self.disk_below(Path::new(node))).cloned()
    }

    /// Where data written to a device really is: a delay leaves every block where it was.
    fn disk_below(&self, node: &Path) -> PathBuf {
        match self.machine.layers.get(node) {
            Some(layer) if layer.is_delay() => self.disk_below(&layer.members[0]),
            _ => node.to_path_buf(),
        }
    }

    fn delay_above(&self, disk: &Path) -> PathBuf {
        let mut delays = self.machine.layers.iter().filter(|(_, layer)| layer.is_delay());
        let above = delays.find(|(_, layer)| layer.members[0] == disk);
        above.map_or(disk.to_path_buf(), |(node, _)| node.clone())
    }

    fn clear(&mut self, node: &str) -> Output {
        if self.is_busy(Path::new(node)) {
            return failed("Device or resource busy");
        }
        match self.machine.labels.remove(&self.disk_below(Path::new(node))) {
            Some(_) => said(""),
            None => failed("no label"),
        }
    }

    /// The identity of a layer, without its size.
    pub(super) fn identity_of_layer(&self, node: &Path) -> Option<DeviceIdentity> {
        let layer = self.machine.layers.get(node)?;
        Some(DeviceIdentity {
            number: number_of_layer(node),
            size_bytes: 0,
            diskseq: Some(layer.sequence),
            serial: Some(layer.known_by.clone()),
            partition: None,
        })
    }

    /// Returns an attribute of a layer as sysfs reports it: `/sys/block/md127/md/level`,
    /// `/sys/block/dm-0/dm/name`.
    pub(super) fn layer_attribute(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix("/sys/block").ok()?.to_str()?;
        let (name, file) = below.split_once('/')?;
        let layer = self.machine.layers.get(&Path::new("/dev").join(name))?;
        let option =
            |option: &str| layer.words.iter().find_map(|word| word.strip_prefix(option)).map(str::to_string);
        let text = match file {
            "dm/name" => layer.known_by.clone(),
            "md/level" => option("--level=")?,
            "md/raid_disks" => layer.members.len().to_string(),
            "md/chunk_size" => match option("--chunk=") {
                Some(kib) => format!("{}", kib.trim_end_matches('K').parse::<u64>().ok()? * 1024),
                None => "524288".to_string(),
            },
            "md/bitmap/location" => match option("--bitmap=").as_deref() {
                Some("internal") => "+8".to_string(),
                _ => "none".to_string(),
            },
            "md/sync_action" => if self.arrays_stay_busy { "resync" } else { "idle" }.to_string(),
            "md/degraded" => "0".to_string(),
            "md/resync_start" => "none".to_string(),
            _ => return None,
        };
        Some(format!("{text}\n"))
    }

    /// The layers, or those that hold a device: `/sys/block`, `/sys/dev/block/7:0/holders`.
    pub(super) fn layer_names(&self, directory: &Path) -> Option<Vec<String>> {
        let name = |node: &PathBuf| Some(node.file_name()?.to_str()?.to_string());
        if directory == Path::new("/sys/block") {
            return Some(self.machine.layers.keys().filter_map(name).collect());
        }
        let number = directory.strip_prefix("/sys/dev/block").ok()?.to_str()?.strip_suffix("/holders")?;
        let node = self.node_of(number)?;
        let holders = self.machine.layers.iter().filter(|(_, layer)| layer.members.contains(&node));
        Some(holders.filter_map(|(node, _)| name(node)).collect())
    }

    fn node_of(&self, number: &str) -> Option<PathBuf> {
        let text = |(major, minor): (u32, u32)| format!("{major}:{minor}");
        let loops = self.machine.loops.keys().map(|node| (node, (LOOP_MAJOR, index_of(node))));
        let blocks = self.blocks.iter().map(|(node, probe)| (node, probe.identity.number));
        let layers = self.machine.layers.keys().map(|node| (node, number_of_layer(node)));
        let mut all = loops.chain(blocks).chain(layers);
        all.find(|(_, found)| text(*found) == number).map(|(node, _)| node.clone())
    }
}

fn number_of_layer(node: &Path) -> (u32, u32) {
    let name = node.to_string_lossy();
    let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let major = if name.contains("/md") { MD_MAJOR } else { DM_MAJOR };
    (major, digits.parse().unwrap_or(0))
}

/// `-U UUID` and `uuid=UUID` among the words of a mkfs.
fn as_uuid(word: &str) -> Option<&str> {
    let value = word.strip_prefix("uuid=").unwrap_or(word);
    let hexadecimal = value.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    (value.len() == 36 && hexadecimal).then_some(value)
}

fn said(text: &str) -> Output {
    Output { status: 0, stdout: text.to_string(), stderr: String::new(), duration: Nanos(1_000_000) }
}

fn failed(text: &str) -> Output {
    Output { status: 1, stderr: text.to_string(), ..said("") }
}
