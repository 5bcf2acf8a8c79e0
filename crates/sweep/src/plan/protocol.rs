//! The keys that say how the trials of a plan are spent, and on which machines: `repetitions`,
//! `max_repetitions`, `protocol`, `budget`, `reuse`, `clients` and `serve`.

use super::Serve;
use super::document::{Document, Node, Origin, Section, Value};
use super::keys::{self, names};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::units::Size;
use fsdyno_core::{Nanos, RaceBudget};
use fsdyno_testbed::serve::unfit_mount;
use fsdyno_verdict::enough::{Enough, Until};

/// The names of protocols.
const PROTOCOLS: [&str; 2] = ["exhaustive", "race"];
/// The values of `reuse`.
const REUSE: [&str; 2] = ["none", "prepared"];

/// Stopping and starting a server takes about as long by itself.
const SHORTEST_OUTAGE: Nanos = Nanos::from_secs(1);
/// The maximum number of repetitions.
const MAX_REPETITIONS: u32 = 100_000;
/// As many repetitions as the answer needs.
pub(crate) const AUTO: &str = "auto";
/// The least of these: fewer show only what is many times as large as the noise.
pub(crate) const AUTO_LEAST: u32 = 4;
/// The most of these, if the plan does not say: beyond it, an interval hardly narrows.
pub(crate) const AUTO_MOST: u32 = 20;

/// The maximum number of clients.
const MAX_CLIENTS: u32 = 10_000;

/// The number of blocks: fixed, or a minimum and a maximum with what to reach.
pub(super) fn repetitions(
    document: &Document,
    plan: &Section<'_>,
) -> Result<(u32, Option<Enough>), PlanError> {
    let most = plan.integer("max_repetitions", 2..=MAX_REPETITIONS)?;
    let is_auto =
        matches!(plan.get("repetitions").map(|node| &node.value), Some(Value::String(text)) if text == AUTO);
    // The command line may replace `auto` by a number.
    let is_replaced = matches!(plan.at("repetitions"), Origin::Argument(_));
    if most.is_some() && !is_auto && !is_replaced {
        return Err(plan.error("max_repetitions", PlanProblem::MostWithoutAuto));
    }
    let node = match plan.get("repetitions") {
        None => return Ok((1, None)),
        Some(_) if is_auto => {
            let max = most.unwrap_or(AUTO_MOST);
            return Ok((AUTO_LEAST.min(max), Some(Enough { max, until: Until::Decided })));
        }
        Some(node) if matches!(node.value, Value::Table(_)) => node,
        Some(node) if matches!(node.value, Value::String(_)) => {
            return Err(plan.refuse("repetitions", "\"auto\", a whole number, or { min, max, until }"));
        }
        Some(_) => return Ok((plan.integer("repetitions", 1..=MAX_REPETITIONS)?.unwrap_or(1), None)),
    };
    let table = Section::new(document, node, "repetitions")?;
    table.only(&names(&[keys::REPETITIONS]))?;
    // A single trial has no interval.
    let min: u32 = table.required("min", table.integer("min", 2..=MAX_REPETITIONS)?)?;
    let max: u32 = table.required("max", table.integer("max", min..=MAX_REPETITIONS)?)?;
    let half_width = match table.required("until", table.unit::<Size>("until")?)? {
        Size::Percent(percent) if percent > 0.0 => percent / 100.0,
        _ => return Err(table.refuse("until", "a percentage of the mean, greater than 0%, such as 5%")),
    };
    Ok((min, Some(Enough { max, until: Until::Narrow(half_width) })))
}

/// Returns the budget of the sweep if it is a race; `None` if it is none.
pub(super) fn asked(plan: &Section<'_>) -> Result<Option<RaceBudget>, PlanError> {
    let is_race = match plan.string("protocol")? {
        None => false,
        Some(name) if PROTOCOLS.contains(&name) => name == PROTOCOLS[1],
        Some(name) => {
            return Err(plan.error("protocol", PlanProblem::unknown_word("protocol", name, &PROTOCOLS)));
        }
    };
    let budget = match plan.get("budget").map(Node::scalar) {
        None => None,
        Some(text) => match text.as_deref().map(str::parse::<RaceBudget>) {
            Some(Ok(budget)) => Some(budget),
            _ => return Err(plan.refuse("budget", "a number of trials or a time, such as 200 or 24h")),
        },
    };
    match (is_race, budget) {
        (false, Some(_)) => Err(plan.error("budget", PlanProblem::BudgetWithoutRace)),
        (false, None) => Ok(None),
        (true, budget) => Ok(Some(budget.unwrap_or_default())),
    }
}

/// Returns whether trials begin with copies of a filesystem that was prepared once.
pub(super) fn reuses(plan: &Section<'_>) -> Result<bool, PlanError> {
    match plan.string("reuse")? {
        None => Ok(false),
        Some(word) if REUSE.contains(&word) => Ok(word == REUSE[1]),
        Some(word) => Err(plan.error("reuse", PlanProblem::unknown_word("reuse", word, &REUSE))),
    }
}

/// `[clients]`.
#[derive(Debug)]
pub(super) struct RawClients {
    /// The number of clients.
    pub count: u32,
    /// `true` if all clients read the same trees, which a single one does anyway.
    pub shares_trees: bool,
    pub share_at: Origin,
    /// Options with which they mount what is served.
    pub mount: Vec<String>,
    pub mount_at: Origin,
}

/// The other machines that do the load.
pub(super) fn clients(document: &Document, plan: &Section<'_>) -> Result<Option<RawClients>, PlanError> {
    let Some(node) = plan.get("clients") else { return Ok(None) };
    let table = Section::new(document, node, "[clients]")?;
    table.only(&names(&[keys::CLIENTS]))?;
    let count = table.required("count", table.integer("count", 1..=MAX_CLIENTS)?)?;
    Ok(Some(RawClients {
        count,
        shares_trees: table.boolean("share")?.unwrap_or(false) && count > 1,
        share_at: table.at("share").clone(),
        mount: words(&table)?,
        mount_at: table.at("mount").clone(),
    }))
}

/// Mount options, whatever they are.
fn words(table: &Section<'_>) -> Result<Vec<String>, PlanError> {
    let text = table.string("mount")?.unwrap_or_default();
    Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_string).collect())
}

/// Returns the settings with which the filesystem is shown to these clients, if it is.
pub(super) fn serve(
    document: &Document,
    plan: &Section<'_>,
    clients: Option<&RawClients>,
) -> Result<Option<Serve>, PlanError> {
    let mount = clients.map(|clients| clients.mount.clone()).unwrap_or_default();
    let Some(node) = plan.get("serve") else {
        return match clients.filter(|_| !mount.is_empty()) {
            None => Ok(None),
            Some(clients) => Err(document.error(
                &clients.mount_at,
                PlanProblem::NotElsewhere {
                    place: "on clients",
                    reason: "`mount` is for what [serve] shows them, and a directory is mounted already"
                        .to_string(),
                },
            )),
        };
    };
    let table = Section::new(document, node, "[serve]")?;
    table.only(&names(&[keys::SERVE]))?;
    let name = table.required_string("protocol")?;
    let Some(protocol) = ServeProtocol::ALL.into_iter().find(|protocol| protocol.name() == name) else {
        let known = ServeProtocol::ALL.map(ServeProtocol::name);
        return Err(table.error("protocol", PlanProblem::unknown_word("protocol", name, &known)));
    };
    match clients.zip(mount.iter().find_map(|word| unfit_mount(protocol, word))) {
        None => {
            Ok(Some(Serve { protocol, mount, outage: table.time("outage", SHORTEST_OUTAGE, "at least 1s")? }))
        }
        Some((clients, reason)) => Err(document.error(&clients.mount_at, PlanProblem::NotServed { reason })),
    }
}
