//! A disk with delayed answers, by dm-delay (Documentation/admin-guide/device-mapper/delay.rst).
//!
//! The kernel holds back each request for the given number of milliseconds before the disk sees it. The
//! precision depends on its timers: never less, and up to a kernel tick more.

use super::{InForce, Layer, Made, Making, SECTOR, dmsetup, in_kernel, no_device_mapper, table};
use crate::Result;
use crate::kernel_module::has_module;
use crate::way_back::UndoAction;
use fsdyno_core::DeviceSpec;
use fsdyno_core::Tool;
use fsdyno_core::device::{Delay, Delayed};
use fsdyno_host::{Command, Host};
use std::path::{Path, PathBuf};

const TOOLS: &[Tool] = &[Tool::new("dmsetup", "dmsetup", "--version")];

impl Layer for Delayed {
    fn tools(&self) -> &'static [Tool] {
        TOOLS
    }

    fn modules(&self) -> Vec<&'static str> {
        vec!["dm-mod", "dm-delay"]
    }

    fn unmet(&self, host: &mut dyn Host) -> Vec<String> {
        if let Some(missing) = no_device_mapper(host) {
            return vec![missing];
        }
        let targets = host.run(&dmsetup().args(["targets"]));
        let known = targets.is_ok_and(|output| {
            output.stdout.lines().any(|line| line.split_whitespace().next() == Some("delay"))
        });
        if known || has_module(host, "dm-delay") { Vec::new() } else { vec![in_kernel("dm-delay")] }
    }

    fn commands(&self, making: &Making<'_>) -> Vec<Command> {
        let tables = making.members.iter().map(|member| {
            let node = member.target.node.display();
            let sectors = match member.size_bytes {
                Some(bytes) => (bytes / SECTOR).to_string(),
                None => format!("$(blockdev --getsz {node})"),
            };
            let [read, write, flush] = self.delay.millis();
            format!("0 {sectors} delay {node} 0 {read} {node} 0 {write} {node} 0 {flush}")
        });
        let create = |table: String| {
            let name = mapping(making.id);
            dmsetup().args(["create", &name, "--table", &table])
        };
        tables.map(create).collect()
    }

    /// It leaves nothing on the disk.
    fn assembly(&self, making: &Making<'_>, _degraded: bool) -> Vec<Command> {
        self.commands(making)
    }

    fn path(&self, id: &str) -> PathBuf {
        Path::new("/dev/mapper").join(mapping(id))
    }

    fn ways_back(&self, id: &str, _below: &[DeviceSpec]) -> Vec<UndoAction> {
        vec![UndoAction::RemoveMapping { name: mapping(id) }]
    }

    fn settle(&self, host: &mut dyn Host, made: Made<'_>) -> Result<InForce> {
        let name = mapping(made.making.id);
        Ok(compare(&self.delay, &table(host, &name)?))
    }

    fn recipe(&self) -> Vec<String> {
        Vec::new()
    }
}

fn mapping(id: &str) -> String {
    format!("fsdyno-{id}")
}

/// A line is `0 524288 delay 254:0 0 20 254:0 0 0 254:0 0 5`: the device, the start and the delay for reads,
/// writes and flushes.
fn compare(delay: &Delay, table: &[String]) -> InForce {
    let found: Vec<u64> = match table {
        [line] => {
            let words: Vec<&str> = line.split_whitespace().collect();
            let delays = [5, 8, 11].map(|place| words.get(place).and_then(|word| word.parse().ok()));
            delays.into_iter().flatten().collect()
        }
        _ => Vec::new(),
    };
    let asked = delay.millis();
    let differences = (found != asked)
        .then(|| format!("delay = {delay} was requested, but the kernel reports '{}'", table.join("; ")));
    InForce { text: format!("delayed by {delay}"), differences: differences.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Member;
    use crate::layer::tests::members;
    use fsdyno_core::{Bytes, Nanos};

    fn delayed() -> Delayed {
        let delay = Delay { read: Nanos::from_millis(20), write: Nanos(0), flush: Nanos::from_millis(5) };
        let disk = DeviceSpec::image("/image", Bytes(256 << 20));
        Delayed { delay, disk: Box::new(disk) }
    }

    #[test]
    fn reads_writes_and_flushes_have_a_delay_each() {
        let members = members(1);
        let making = Making { members: &members, id: "ab", blank: true };
        assert_eq!(
            delayed().commands(&making)[0].line(),
            "dmsetup create fsdyno-ab --table '0 8388608 delay /dev/disk1 0 20 /dev/disk1 0 0 /dev/disk1 0 5'"
        );
        let unknown = [Member { size_bytes: None, ..members[0].clone() }];
        let line = delayed().commands(&Making { members: &unknown, ..making })[0].line();
        assert!(line.contains("0 $(blockdev --getsz /dev/disk1) delay"), "{line}");
    }

    #[test]
    fn the_table_tells_what_is_in_force() {
        let asked = delayed().delay;
        let table = |line: &str| compare(&asked, &[line.to_string()]).differences;
        assert_eq!(table("0 524288 delay 254:0 0 20 254:0 0 0 254:0 0 5"), [""; 0]);
        assert_eq!(table("0 524288 delay 254:0 0 20 254:0 0 20 254:0 0 5").len(), 1);
        assert_eq!(table("0 524288 linear 254:0 0").len(), 1);
        assert_eq!(compare(&asked, &[]).differences.len(), 1);
    }
}
