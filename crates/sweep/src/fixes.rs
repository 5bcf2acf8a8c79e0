//! Changes of a plan with which its sweep would answer: memory and sizes with which readers read from the
//! device, and a device with room for them.
//!
//! Limiting the memory costs nothing, so that is what is done where the plan does not limit it. Where it
//! does, that is part of the question, and trees grow. An image grows with them; a block device cannot.

use crate::error::PlanError;
use crate::estimate::dry_run;
use crate::filled::NoRoom;
use crate::foreseen::{FromMemory, from_memory};
use crate::plan::Plan;
use crate::sizes::examine;
use crate::space::ample_space;
use fsdyno_core::workload::rereads::Amount;
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;
use std::collections::BTreeMap;

/// A load is not limited to less, whatever its trees are: they grow instead.
const LEAST_MEMORY: Bytes = Bytes(64 * Bytes::MIB);

/// A change of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The key, as in `--set`.
    pub path: String,
    /// Its value.
    pub value: Amount,
    /// The purpose of the change.
    pub why: String,
}

impl Fix {
    fn argument(&self) -> String {
        match self.value {
            Amount::Size(size) => format!("{}=\"{size}\"", self.path),
            Amount::Number(number) => format!("{}={number}", self.path),
        }
    }
}

/// Determines the changes on this machine. `source` parses the plan with arguments that change it.
///
/// # Errors
/// The plan is wrong.
pub fn fixes(
    source: &dyn Fn(&[String]) -> Result<Plan, PlanError>,
    host: &mut dyn Host,
    guests: &mut dyn Guests,
) -> Result<Vec<Fix>, PlanError> {
    let mut fixes: Vec<Fix> = Vec::new();
    // Of cases without room nothing else is known, and larger trees need more of it.
    for step in [of_image, of_memory, of_trees, of_image] {
        let arguments: Vec<String> = fixes.iter().map(Fix::argument).collect();
        let plan = source(&arguments)?;
        for fix in step(&plan, host, guests) {
            fixes.retain(|known| known.path != fix.path);
            fixes.push(fix);
        }
    }
    Ok(fixes)
}

/// A limit of memory, where there is none and readers would not leave it.
fn of_memory(plan: &Plan, host: &mut dyn Host, guests: &mut dyn Guests) -> Vec<Fix> {
    let cases = dry_run(plan, host, guests).cases;
    let found = from_memory(host, plan, &cases);
    let most = found.iter().filter(|one| one.limit.is_none()).map(|one| one.rereads.most_cached()).min();
    let Some(most) = most else { return Vec::new() };
    let value = Amount::Size(Bytes(most.0 / Bytes::MIB * Bytes::MIB).max(LEAST_MEMORY));
    vec![Fix { path: "memory".to_string(), value, why: "so that readers read from the device".to_string() }]
}

/// Trees that the limit of memory does not hold.
fn of_trees(plan: &Plan, host: &mut dyn Host, guests: &mut dyn Guests) -> Vec<Fix> {
    let cases = dry_run(plan, host, guests).cases;
    let mut least: BTreeMap<(usize, &str), Amount> = BTreeMap::new();
    for FromMemory { case, rereads, limit, .. } in from_memory(host, plan, &cases) {
        let (Some(limit), Some(index)) =
            (limit, plan.workloads.iter().position(|workload| *workload == case.workload))
        else {
            continue;
        };
        let value = match rereads.least_amount(limit) {
            Amount::Size(size) => Amount::Size(Bytes(size.0.next_multiple_of(Bytes::MIB))),
            number @ Amount::Number(_) => number,
        };
        let known = least.entry((index, rereads.parameter)).or_insert(value);
        *known = value.max(*known);
    }
    let fix = |((index, parameter), value): ((usize, &str), Amount)| Fix {
        path: format!("workloads.{index}.{parameter}"),
        value,
        why: "so that the memory of the load does not hold what its readers read".to_string(),
    };
    least.into_iter().map(fix).collect()
}

/// An image with room for all of that.
fn of_image(plan: &Plan, host: &mut dyn Host, _: &mut dyn Guests) -> Vec<Fix> {
    let DeviceSpec::Image(image) = &plan.devices.data else { return Vec::new() };
    let cases = plan.cases();
    let fills = cases.iter().any(|case| case.configuration.precondition().is_some());
    let needed = match examine(host, plan, &cases).0.device.filter(|_| fills) {
        Some(device) => {
            let lacks = cases.iter().filter_map(|case| NoRoom::of(plan, case, device));
            lacks.map(|lack| lack.fitting_device).max()
        }
        None => Some(Bytes(ample_space(plan).0.next_multiple_of(Bytes::GIB))),
    };
    let fix = |value| Fix {
        path: "device.size".to_string(),
        value: Amount::Size(value),
        why: "so that there is room for what the workloads prepare and write".to_string(),
    };
    needed.filter(|needed| *needed > image.size).map(fix).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::fake::{FakeGuests, FakeHost};

    fn fixed(keys: &str, fill: &str, size: &str, trees: &str) -> Vec<String> {
        let text = format!(
            "{keys}\n[device]\nimage = \"/data/a.img\"\nsize = \"{size}\"\n[axes]\nfilesystem = \
             \"ext4\"\n{fill}\n[[workloads]]\nkind = \"null\"\n[[workloads]]\nkind = \"fileserver\"\n\
             tree_size = \"{trees}\"\nreaders = 3\nwriter_space = \"64M\"\n"
        );
        let source = |set: &[String]| Plan::parse(&text, "plan.toml", set);
        // It has 16 GiB of memory.
        let (mut host, mut guests) = (FakeHost::new(), FakeGuests::default());
        let fixes = fixes(&source, &mut host, &mut guests).expect("a plan");
        let arguments: Vec<String> = fixes.iter().map(Fix::argument).collect();
        let after = dry_run(&source(&arguments).expect("a plan"), &mut host, &mut guests);
        assert_eq!(after.warnings, [], "nothing is left to be fixed");
        let unmet: Vec<&String> = after.cases.iter().flat_map(|case| &case.unmet).collect();
        assert!(!unmet.iter().any(|reason| reason.contains("does not fit")), "{unmet:?}");
        arguments
    }

    /// A case without room does not run, so that nothing is known of its readers before its image has grown.
    #[test]
    fn a_plan_without_room_gets_everything_at_once() {
        let found = fixed("memory = \"64M\"", "fill = \"80%\"", "1G", "150M");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "workloads.1.tree_size=\"512M\"");
        assert!(found[1].starts_with("device.size="), "{found:?}");
    }

    #[test]
    fn memory_that_no_tree_exceeds_is_limited() {
        assert_eq!(fixed("", "", "40G", "20G"), ["memory=\"2560M\""]);
        assert_eq!(fixed("memory = \"1G\"", "", "40G", "20G"), [""; 0]);
    }

    #[test]
    fn where_memory_is_limited_trees_grow_and_the_image_with_them() {
        assert_eq!(fixed("memory = \"256M\"", "", "8G", "1G"), ["workloads.1.tree_size=\"2G\""]);
        assert_eq!(
            fixed("memory = \"1G\"", "", "8G", "1G"),
            ["workloads.1.tree_size=\"8G\"", "device.size=\"11G\""]
        );
        // Nothing runs in so little memory as these trees would take.
        assert_eq!(fixed("", "", "4G", "100M"), ["memory=\"64M\"", "workloads.1.tree_size=\"512M\""]);
    }
}
