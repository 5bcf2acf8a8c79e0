//! A plan: what to sweep, from a TOML file and the arguments that change it.
//!
//! Two stages. [`raw`] types every key by itself and looks at nothing but the text. [`resolve`] resolves what is
//! left: it reads profiles, takes shares of the device, checks that axes fit filesystems and that journals have devices,
//! multiplies the axes, and refuses a plan that contradicts itself.
//!
//! **Axes nest.** An axis that a filesystem does not have collapses for it: no case is there twice. `[axes.xfs]` holds
//! only where the filesystem is xfs, and there takes precedence over the same axis in `[axes]`.
//!
//! **Contradictions.** Settings that no machine can have together are an error in a named configuration, and in a product
//! when every one of its points has such. Otherwise the point stays in the plan, and its trials are `skipped` with the
//! contradiction as unmet requirement: nothing is dropped silently.
//!
//! **Kernels.** The axis `kernel` says where a configuration runs, not what it is: a named configuration that names none runs
//! on each of them.
//!
//! **The impossible.** Published studies have settings that no tool knows any more. A named configuration says so by
//! `impossible = "why"`. Such cases are part of the plan, and their trials are skipped with the reason.

mod device;
mod document;
mod file;
mod product;
mod raw;
mod resolve;
mod workload;

pub use resolve::study;

use crate::enough::Enough;
use fsdyno_core::{Configuration, Devices, GuestShape, KernelSpec, Measure, Nanos, Study, Warning, Workload};
use std::collections::BTreeMap;

/// A plan, resolved: everything that is to be swept, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name; the file's when the plan gives none.
    pub name: String,
    /// The text that it was parsed from.
    pub text: String,
    /// The `PATH=VALUE` arguments that changed it.
    pub overrides: Vec<String>,
    /// The published study that it runs again.
    pub study: Option<Study>,
    /// Blocks: trials of each case, the least where `enough` says how many more.
    pub repetitions: u32,
    /// When a case has been repeated enough; absent where the number of blocks is fixed.
    pub enough: Option<Enough>,
    /// Seed of the order, the trees, the contents and the filesystem UUIDs.
    pub seed: u64,
    /// What the summary ranks by.
    pub measure: Measure,
    /// How long an engine may show no progress beyond what its stage should take, and a step of taking a trial down once
    /// something hangs.
    pub watchdog: Nanos,
    /// Time between samples of telemetry while a phase is measured; none are taken when absent.
    pub telemetry: Option<Nanos>,
    /// What filesystems are made on.
    pub devices: Devices,
    /// What runs on them.
    pub workloads: Vec<Workload>,
    /// The machine that guests see.
    pub guest: GuestShape,
    /// The kernels of guests, by the levels of the axis `kernel`.
    pub kernels: BTreeMap<String, KernelSpec>,
    pub(crate) configurations: Vec<Planned>,
}

/// A configuration under a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Position in the plan, from 0.
    pub index: u32,
    /// What is built.
    pub configuration: Configuration,
    /// What runs on it.
    pub workload: Workload,
    /// What a reader of its results must know: old names that were mapped, and what is only near to what was meant.
    pub warnings: Vec<Warning>,
    /// Settings that no machine can have together; its trials are skipped with them as unmet requirements.
    pub contradictions: Vec<String>,
    /// Why it cannot be built whatever the machine, as the plan says. Its trials are skipped, too.
    pub impossible: Vec<String>,
}

/// A configuration of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub configuration: Configuration,
    pub warnings: Vec<Warning>,
    pub contradictions: Vec<String>,
    pub impossible: Vec<String>,
}

impl Planned {
    /// Whether some machine could run it.
    pub fn makes_sense(&self) -> bool {
        self.contradictions.is_empty() && self.impossible.is_empty()
    }
}

impl Plan {
    /// Every case: configurations in the order of the axes, the product first, and the workloads innermost.
    pub fn cases(&self) -> Vec<Case> {
        let pairs = self
            .configurations
            .iter()
            .flat_map(|planned| self.workloads.iter().map(move |workload| (planned, workload)));
        (0..)
            .zip(pairs)
            .map(|(index, (planned, workload))| Case {
                index,
                configuration: planned.configuration.clone(),
                workload: workload.clone(),
                warnings: planned.warnings.clone(),
                contradictions: planned.contradictions.clone(),
                impossible: planned.impossible.clone(),
            })
            .collect()
    }
}
