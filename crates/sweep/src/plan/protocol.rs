//! The keys that say how the trials of a plan are spent, and on which machines: `repetitions`,
//! `max_repetitions`, `protocol`, `budget`, `reuse`, `clients` and `serve`.

use super::Serve;
use super::document::{Origin, Section, Value};
use super::keys::{Written, choice, table};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::units::Size;
use fsdyno_core::{Nanos, RaceBudget};
use fsdyno_testbed::serve::unfit_mount;
use fsdyno_verdict::enough::{Enough, Until};
use serde::{Deserialize, Serialize};

choice! {
    /// The way in which trials are spent.
    pub(super) enum Protocol {
        /// Every case as often.
        Exhaustive = "exhaustive",
        /// Configurations are dropped as evidence grows.
        Race = "race",
    }
}

choice! {
    /// The filesystem that trials begin with.
    #[derive(Serialize, Deserialize)]
    pub enum Reuse {
        /// A filesystem of their own.
        None = "none",
        /// Copies of a filesystem that is prepared once in a block.
        Prepared = "prepared",
    }
}

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

table! {
    "repetitions", "Repeats each case until its interval is narrow enough. All three keys are required.";
    /// The aim of repeating, and the number of trials that it may take.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(super) struct Narrow {
        // A single trial has no interval.
        min: u32 as required, |table, key| table.integer(key, 2..=MAX_REPETITIONS),
            "trials of each case at least; 2 or more";
        max: u32 as required, |table, key| {
            let least = table.integer("min", 2..=MAX_REPETITIONS)?;
            table.integer(key, least.unwrap_or(2)..=MAX_REPETITIONS)
        }, "trials of each case at most";
        until: f64 as required, half_width,
            "half the width of the 95 % interval of `measure`, as a percentage of the mean, such as `\"5%\"`";
    }
}

/// A percentage as a share.
fn half_width(table: &Section<'_>, key: &'static str) -> Result<Option<f64>, PlanError> {
    match table.unit::<Size>(key)? {
        None => Ok(None),
        Some(Size::Percent(percent)) if percent > 0.0 => Ok(Some(percent / 100.0)),
        Some(_) => Err(table.refuse(key, "a percentage of the mean, greater than 0%, such as 5%")),
    }
}

/// The repetitions of each case, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Repetitions {
    /// This often.
    Times(u32),
    /// As often as the answer needs.
    Auto,
    /// Until its interval is narrow.
    Until(Narrow),
}

impl Written for Repetitions {
    fn written(&self) -> String {
        match self {
            Repetitions::Times(times) => times.to_string(),
            Repetitions::Auto => AUTO.to_string(),
            Repetitions::Until(Narrow { min, max, until }) => {
                format!("{{ min = {min}, max = {max}, until = \"{}%\" }}", until * 100.0)
            }
        }
    }
}

/// Reads `repetitions`.
pub(super) fn repetitions(plan: &Section<'_>, key: &'static str) -> Result<Option<Repetitions>, PlanError> {
    match plan.get(key).map(|node| &node.value) {
        Some(Value::String(text)) if text == AUTO => Ok(Some(Repetitions::Auto)),
        Some(Value::String(_)) => Err(plan.refuse(key, "\"auto\", a whole number, or { min, max, until }")),
        Some(Value::Table(_)) => Ok(plan.read_table(key, key)?.map(Repetitions::Until)),
        _ => Ok(plan.integer(key, 1..=MAX_REPETITIONS)?.map(Repetitions::Times)),
    }
}

/// Reads `max_repetitions`.
pub(super) fn max_repetitions(plan: &Section<'_>, key: &'static str) -> Result<Option<u32>, PlanError> {
    plan.integer(key, 2..=MAX_REPETITIONS)
}

/// The number of blocks: fixed, or a minimum and a maximum with what to reach.
pub(super) fn blocks(
    plan: &Section<'_>,
    repetitions: Repetitions,
    most: Option<u32>,
) -> Result<(u32, Option<Enough>), PlanError> {
    // The command line may replace `auto` by a number.
    let is_replaced = matches!(plan.at("repetitions"), Origin::Argument(_));
    if most.is_some() && repetitions != Repetitions::Auto && !is_replaced {
        return Err(plan.error("max_repetitions", PlanProblem::MostWithoutAuto));
    }
    Ok(match repetitions {
        Repetitions::Times(times) => (times, None),
        Repetitions::Auto => {
            let max = most.unwrap_or(AUTO_MOST);
            (AUTO_LEAST.min(max), Some(Enough { max, until: Until::Decided }))
        }
        Repetitions::Until(Narrow { min, max, until }) => {
            (min, Some(Enough { max, until: Until::Narrow(until) }))
        }
    })
}

/// Reads `budget`.
pub(super) fn budget(plan: &Section<'_>, key: &'static str) -> Result<Option<RaceBudget>, PlanError> {
    let Some(node) = plan.get(key) else { return Ok(None) };
    let budget = node.scalar().and_then(|text| text.parse().ok());
    let refuse = || plan.refuse(key, "a number of trials or a time, such as 200 or 24h");
    budget.map(Some).ok_or_else(refuse)
}

/// Returns the budget of the sweep if it is a race; `None` if it is none.
pub(super) fn race(
    plan: &Section<'_>,
    protocol: Protocol,
    budget: Option<RaceBudget>,
) -> Result<Option<RaceBudget>, PlanError> {
    match (protocol, budget) {
        (Protocol::Exhaustive, Some(_)) => Err(plan.error("budget", PlanProblem::BudgetWithoutRace)),
        (Protocol::Exhaustive, None) => Ok(None),
        (Protocol::Race, budget) => Ok(Some(budget.unwrap_or_default())),
    }
}

table! {
    "[clients]",
    "Machines that do the load together, in a `directory` that they share, or in what `[serve]` shows them. \
     `--launch` on the command line starts them, except those of `[serve]`; see \
     [Clients](../guide/clients.md).";
    /// `[clients]`.
    #[derive(Debug)]
    pub(super) struct ClientKeys {
        count: u32 as required, |table, key| table.integer(key, 1..=MAX_CLIENTS),
            "required: how many; each has the workers of the workload to itself, and trees unless they share \
             them";
        share: bool = false, Section::boolean,
            "whether all of them read the same trees, which the first one creates: `fileserver` without \
             `verify`";
        mount: Vec<String> = Vec::new(), mount_options,
            "options with which clients mount what `[serve]` shows them, comma-separated; version, sizes, \
             connections and `sync` have axes";
    }
}

impl ClientKeys {
    /// Returns whether all clients read the same trees, which a single one does anyway.
    pub fn shares_trees(&self) -> bool {
        self.share && self.count > 1
    }
}

/// Mount options, whatever they are.
fn mount_options(table: &Section<'_>, key: &'static str) -> Result<Option<Vec<String>>, PlanError> {
    let words = |text: &str| {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_string).collect()
    };
    Ok(table.string(key)?.map(words))
}

table! {
    "[serve]",
    "Shows the filesystem to the clients of `[clients]`. Server and clients are guests, each of them a machine \
     as in `[guest]`; see [Serving a filesystem](../guide/clients.md#serving-a-filesystem).";
    /// `[serve]`.
    #[derive(Debug)]
    pub(super) struct ServeKeys {
        protocol: ServeProtocol as required, Section::word, "required: `nfs` or `smb`";
        outage: Nanos, |table, key| table.time(key, SHORTEST_OUTAGE, "at least 1s"),
            "restart the server in each phase, as when its machine reboots: it stops serving, unmounts the \
             filesystem, is away for this long, and serves again";
    }
}

/// Returns the settings with which the filesystem is shown to clients, if it is.
pub(super) fn serve(
    plan: &Section<'_>,
    serve: Option<&ServeKeys>,
    clients: Option<&ClientKeys>,
) -> Result<Option<Serve>, PlanError> {
    let mount = clients.map(|clients| clients.mount.clone()).unwrap_or_default();
    let refuse = |problem| Err(plan.error_in("clients", "mount", problem));
    let Some(&ServeKeys { protocol, outage }) = serve else {
        return match mount.is_empty() {
            true => Ok(None),
            false => refuse(PlanProblem::NotElsewhere {
                place: "on clients",
                reason: "`mount` is for what [serve] shows them, and a directory is mounted already"
                    .to_string(),
            }),
        };
    };
    match mount.iter().find_map(|word| unfit_mount(protocol, word)) {
        None => Ok(Some(Serve { protocol, mount, outage })),
        Some(reason) => refuse(PlanProblem::NotServed { reason }),
    }
}
