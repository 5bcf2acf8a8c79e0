//! Finds, before a sweep runs, the cases whose readers would read from memory instead of the device. After
//! the sweep, the judgement calls that invalid by what the device delivered. Both give the same advice.

use crate::dry_case::DryCase;
use crate::plan::Plan;
use fsdyno_core::workload::Rereads;
use fsdyno_core::{Bytes, CacheState, Configuration, Measure, Warning, WarningKind, Workload, meminfo};
use fsdyno_host::Host;
use fsdyno_verdict::bears_on;
use fsdyno_verdict::text::plural;
use std::path::Path;

/// A case whose readers come to read from memory.
pub(crate) struct FromMemory<'a> {
    pub case: &'a DryCase,
    pub rereads: Rereads,
    /// The most memory that its load may use; `None` if it may use all of the machine's memory.
    pub limit: Option<Bytes>,
    memory: Bytes,
}

impl FromMemory<'_> {
    fn text(&self) -> String {
        let Rereads { what, size, .. } = &self.rereads;
        let timing = self.case.workload.load().timing();
        let rate = self.rereads.rate(timing.each()).filter(|_| timing.windows > 0);
        let when = rate.map_or(String::new(), |rate| {
            format!(", which a device of {} MB/s delivers before a window ends", (rate / 1_000_000).max(1))
        });
        let remedy = self.rereads.remedy(self.limit, self.memory);
        format!(
            "{}: {what} is {size}{when}, and what is read again comes from memory. {remedy}",
            self.case.label
        )
    }
}

/// The cases that run and whose readers come to read from memory, as far as the measure depends on it.
pub(crate) fn from_memory<'a>(host: &mut dyn Host, plan: &Plan, cases: &'a [DryCase]) -> Vec<FromMemory<'a>> {
    // How much memory other machines have is known when they answer.
    if plan.clients.is_some() && plan.serve.is_none() {
        return Vec::new();
    }
    let text = host.read_text(Path::new("/proc/meminfo")).unwrap_or_default();
    let of_host = meminfo::value(&text, "MemTotal");
    let runs = cases.iter().filter(|case| case.unmet.is_empty());
    let found = runs.filter_map(|case| {
        let configuration = &case.configuration;
        let is_meant = configuration.cache() == CacheState::Warm || compresses(configuration);
        let matters = bears_on(WarningKind::PageCache, &ranked_by(plan, &case.workload));
        let rereads = case.workload.load().rereads().filter(|_| matters && !is_meant)?;
        let memory = match configuration.guest_kernel() {
            Some(_) => plan.guest.memory,
            None => of_host?,
        };
        let limit = configuration.memory();
        let cached = limit.map_or(memory, |limit| limit.min(memory));
        rereads.are_cached(cached).then_some(FromMemory { case, rereads, limit, memory })
    });
    found.collect()
}

/// One warning for all cases of which the same is said.
pub(crate) fn warnings(found: &[FromMemory<'_>], cases: usize) -> Vec<Warning> {
    let mut texts: Vec<(String, usize)> = Vec::new();
    for text in found.iter().map(FromMemory::text) {
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => texts.push((text, 1)),
        }
    }
    let warning = |(text, count): (String, usize)| {
        let some = format!(" This is so in {count} of {}.", plural(cases as u64, "case"));
        Warning::new(WarningKind::PageCache, if count < cases { text + &some } else { text })
    };
    texts.into_iter().map(warning).collect()
}

/// The measure that ranks the configurations under a workload.
fn ranked_by(plan: &Plan, workload: &Workload) -> Measure {
    let own = || workload.load().default_measure().parse::<Measure>().ok();
    let planned = Some(&plan.measure).filter(|measure| measure.is_for(workload)).cloned();
    planned.or_else(own).unwrap_or_else(|| plan.measure.clone())
}

/// A filesystem that compresses returns more than it reads, so nothing can be said of it.
fn compresses(configuration: &Configuration) -> bool {
    configuration.level("compress").is_some_and(|level| level != "none" && level != "no")
}
