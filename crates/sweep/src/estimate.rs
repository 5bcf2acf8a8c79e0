//! The dry run of a plan: every case with its exact commands and unmet requirements, and the time and space
//! that the plan needs.
//!
//! Nothing is built. The windows are exact; the rest of a trial depends on the machine and is estimated from
//! the assumptions below. During a sweep the durations of finished trials replace the estimate.

use crate::dry_case::DryCase;
use crate::filled::{self, NoRoom};
use crate::foreseen;
use crate::guest_request;
use crate::order::{Slot, most, order, order_with, sentinel};
use crate::plan::{Case, Plan, PlanCommand};
use crate::race::ForeseenRace;
use crate::recorded;
use crate::sizes::{Sizes, Unknown, examine};
use crate::space::{least_space, share, short_of_room, space};
use fsdyno_core::Tool;
use fsdyno_core::axis::CACHE;
use fsdyno_core::workload::Need;
use fsdyno_core::{Bytes, CacheState, Configuration, DeviceSpec, Devices, Nanos, Warning};
use fsdyno_host::Host;
use fsdyno_host::guest::{Download, GuestRequest, Guests, disk_nodes};
use fsdyno_testbed::filesystem::foreseen_risks;
use fsdyno_testbed::{DiskQueues, GuardRefusal, MissingPrivilege, disk_queues};
use fsdyno_testbed::{guard, serve};
use fsdyno_verdict::text::plural;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Assumed rate at which trees are created, in bytes per second: a single SSD, small files.
pub(crate) const ASSUMED_TREE_RATE: u64 = 200_000_000;
/// The same through a server, all of it in guests that are emulated: seen with two and with three clients on
/// two processors.
const ASSUMED_SERVED_RATE: u64 = 1_000_000;
/// The assumed rate at which an image is copied, as a multiple of the rate at which trees are created.
const COPIES_FASTER: u64 = 3;
/// Rate below which a device counts as hung, in bytes per second: the watchdog gives up a tree that is
/// created or synced more slowly.
pub(crate) const SLOW_TREE_RATE: u64 = 10_000_000;
/// Assumed total time of mkfs, mount, settling, unmount and check, without a tree.
pub(crate) const ASSUMED_LIFECYCLE: Nanos = Nanos::from_secs(2);
/// Assumed time of an emulated guest from its start to its agent's first answer.
const ASSUMED_BOOT: Nanos = Nanos::from_secs(10);
/// The same if it resumes from a snapshot, or is not emulated.
const ASSUMED_RESUMPTION: Nanos = Nanos::from_secs(1);
/// The factor by which programs take longer in a guest: mkfs, checks, and whatever looks at many disks after
/// the load.
const ASSUMED_SLOWNESS: u64 = 5;
/// The factor by which it takes longer in an emulated guest to create and read trees: seen of all operations
/// of filesystems.
const ASSUMED_OPERATION_SLOWNESS: u64 = 10;

/// The dry run of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DryRun {
    /// Every case in the order of the plan.
    pub cases: Vec<DryCase>,
    /// The name of the measure that ranks them; of a workload that does not have it, its own.
    pub measure: String,
    /// Total number of trials, sentinels included; the minimum if cases are repeated until the intervals are
    /// narrow enough.
    pub trials: u32,
    /// The maximum.
    pub trials_max: u32,
    /// The expected race, if the plan is a race and at least two configurations can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<ForeseenRace>,
    /// The arguments that change the plan: `--set`, and those that `--for` chose.
    pub overrides: Vec<String>,
    /// Estimated time of the whole sweep, with the minimum number of trials; at most the time limit, unless
    /// the first block takes longer.
    pub time_ns: Nanos,
    /// The same with the maximum.
    pub time_max_ns: Nanos,
    /// The most space that the images may use on the filesystems that hold them.
    pub space_bytes: Bytes,
    /// `true` if the sweep needs root, and this process does not have it.
    pub needs_root: bool,
    /// Why not.
    #[serde(skip)]
    pub lack: Option<MissingPrivilege>,
    /// The commands of the plan that would run around its trials, one line each: the sweep needs
    /// `--allow-hooks`.
    pub hooks: Vec<String>,
    /// `true` if the guests are emulated, as far as that is known before one has run; `None` without guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
    /// The packages that are downloaded for its guests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<Download>,
    /// Warnings about figures that would not answer the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The reasons that would keep the sweep from starting even as root, and with every device confirmed.
    pub refusals: Vec<GuardRefusal>,
}

/// Determines what a plan would do on this host, without changing it.
pub fn dry_run(plan: &Plan, host: &mut dyn Host, guests: &mut dyn Guests) -> DryRun {
    let seed = order(plan).first().map_or(plan.rules.seed, |slot| slot.seed);
    let cases = plan.cases();
    let mut examined = examine(host, plan, &cases);
    let requests = requests(plan, &cases);
    let emulated = (!requests.is_empty()).then(|| guests.are_emulated());
    examined.0.emulated = emulated == Some(true);
    let unmet = unmet(plan, host, guests, &cases, examined.0.device);
    let queues = disk_queues(host, &plan.devices);
    let cases: Vec<DryCase> = cases
        .into_iter()
        .zip(unmet)
        .map(|(case, unmet)| dry_case(plan, case, unmet, seed, &queues, &examined))
        .collect();
    let runnable: Vec<Configuration> =
        cases.iter().filter(|case| case.unmet.is_empty()).map(|case| case.configuration.clone()).collect();
    let lack = lack(plan, host);
    let warnings = foreseen::warnings(&foreseen::from_memory(host, plan, &cases), runnable.len());
    let once = time_of_images(plan).0;
    let time = |slots: &[Slot]| {
        slots.iter().map(|slot| cases[slot.case as usize].trial_time().0).fold(once, u64::saturating_add)
    };
    let sentinel = sentinel(cases.iter().map(|case| case.unmet.is_empty()));
    let (slots, all) = (order_with(plan, sentinel), most(plan, sentinel));
    // The first block is run whatever the limit is.
    let first: Vec<Slot> = slots.iter().take_while(|slot| slot.block == 0).copied().collect();
    let most = plan.rules.time_limit.map_or(u64::MAX, |limit| limit.0.max(time(&first)));
    let before = if plan.measures_write_rate() { time(&first) } else { 0 };
    let run = DryRun {
        race: None,
        trials: u32::try_from(slots.len()).unwrap_or(u32::MAX),
        trials_max: u32::try_from(all.len()).unwrap_or(u32::MAX),
        time_ns: Nanos(time(&slots).saturating_add(before).min(most)),
        time_max_ns: Nanos(time(&all).saturating_add(before).min(most)),
        space_bytes: space(plan),
        needs_root: lack.is_some(),
        lack,
        hooks: plan.hooks.commands.iter().map(PlanCommand::line).collect(),
        measure: plan.measure.name().to_string(),
        overrides: plan.overrides.clone(),
        emulated,
        downloads: downloads(guests, &requests),
        warnings,
        refusals: [
            guard::foresee(host, &plan.devices, &runnable, least_space(plan)),
            short_of_room(host, plan),
            filled::refused(host, plan).into_iter().collect(),
            recorded::refused_log_directory(plan).into_iter().collect(),
        ]
        .concat(),
        cases,
    };
    as_race(plan, run, once)
}

/// The guests of all cases, each kind once.
fn requests(plan: &Plan, cases: &[Case]) -> Vec<GuestRequest> {
    let mut requests: Vec<GuestRequest> = Vec::new();
    for case in cases.iter().filter(|case| case.contradictions.is_empty() && case.impossible.is_empty()) {
        let both = [guest_request::request(plan, case), guest_request::client(plan, case)];
        for request in both.into_iter().flatten() {
            let is_like = |known: &GuestRequest| {
                (&known.kernel, &known.programs) == (&request.kernel, &request.programs)
            };
            if !requests.iter().any(is_like) {
                requests.push(request);
            }
        }
    }
    requests
}

/// Returns the packages that are downloaded for these guests, each once.
fn downloads(guests: &mut dyn Guests, requests: &[GuestRequest]) -> Vec<Download> {
    let all: BTreeSet<Download> = requests.iter().flat_map(|request| guests.downloads(request)).collect();
    all.into_iter().collect()
}

/// The same as a race, if it is one.
fn as_race(plan: &Plan, run: DryRun, once: u64) -> DryRun {
    let runs = run.cases.iter().filter(|case| case.unmet.is_empty());
    let times: Vec<Nanos> = runs.map(|case| case.time_ns).collect();
    let Some(race) = ForeseenRace::of(plan, &times) else { return run };
    let time = Nanos(once.saturating_add(race.time_ns.0));
    // Skipped trials are stored, but take no time.
    let skipped = u32::try_from(run.cases.len() - times.len()).unwrap_or(u32::MAX);
    let trials = race.trials.saturating_add(skipped);
    DryRun { race: Some(race), trials, trials_max: trials, time_ns: time, time_max_ns: time, ..run }
}

/// Estimated time to write the images that are kept for all trials.
pub(crate) fn time_of_images(plan: &Plan) -> Nanos {
    let kept = plan.devices.all().flat_map(DeviceSpec::disks).filter_map(|disk| match disk {
        DeviceSpec::Image(image) if image.is_kept() => Some(image.size),
        _ => None,
    });
    Nanos::from_secs(kept.map(|size| size.0).sum::<u64>() / ASSUMED_TREE_RATE)
}

fn dry_case(
    plan: &Plan,
    case: Case,
    unmet: Vec<String>,
    seed: u64,
    queues: &DiskQueues,
    (sizes, unknown): &(Sizes, Unknown),
) -> DryCase {
    let commands = match plan.devices.data {
        DeviceSpec::Directory { .. } => Vec::new(),
        _ if !case.impossible.is_empty() => Vec::new(),
        _ => commands(plan, &case, seed, queues),
    };
    let mut notes: Vec<String> = case.warnings.iter().map(Warning::to_string).collect();
    let fills = case.configuration.precondition().is_some();
    if let Some(error) = unknown.device.as_ref().filter(|_| fills).or(unknown.conditioned.as_ref()) {
        notes.push(format!("the time to fill the device is unknown and not included: {error}"));
    }
    DryCase {
        case: case.index,
        risks: foreseen_risks(&case.configuration),
        time_ns: trial_time(&case, *sizes),
        configuration: case.configuration,
        workload: case.workload,
        label: case.label,
        commands,
        unmet,
        notes,
    }
}

/// Why steps on this host are not those of root, if some case needs it here. Guests are the user's own
/// processes, but who records a disk mounts it.
pub(crate) fn lack(plan: &Plan, host: &mut dyn Host) -> Option<MissingPrivilege> {
    let on_host = |case: &Case| case.configuration.guest_kernel().is_none() || recorded::load(case).is_some();
    let needs_root = |case: &Case| on_host(case) && fsdyno_testbed::needs_root(&case.configuration);
    plan.cases().iter().any(needs_root).then(|| MissingPrivilege::of(host)).flatten()
}

/// Everything that keeps each case from running on this host; workloads share the requirements of their
/// configuration.
pub(crate) fn unmet(
    plan: &Plan,
    host: &mut dyn Host,
    guests: &mut dyn Guests,
    cases: &[Case],
    size: Option<Bytes>,
) -> Vec<Vec<String>> {
    let of_all = of_hooks(host, plan);
    let cache_varies = plan.varies(CACHE);
    let mut of_last: Vec<String> = Vec::new();
    let unmet = cases.iter().enumerate().map(|(index, case)| {
        if index == 0 || cases[index - 1].configuration != case.configuration {
            of_last = of_configuration(host, guests, plan, case);
        }
        let of_case = [of_workload(host, plan, case, cache_varies), of_fill(plan, case, size)].concat();
        of_last.iter().cloned().chain(of_case).chain(of_all.clone()).collect()
    });
    unmet.collect()
}

/// The exact commands of a case; those of a guest as they appear in it.
fn commands(plan: &Plan, case: &Case, seed: u64, queues: &DiskQueues) -> Vec<String> {
    let Some(load) = recorded::load(case) else {
        return shared(case)
            .into_iter()
            .chain(commands_on(plan, case, &plan.devices, seed, queues))
            .collect();
    };
    let (before, after) = recorded::before_and_after(plan, load);
    let within = commands_on(plan, case, &recorded::planned_devices(plan, load), seed, queues);
    std::iter::once(before).chain(within).chain(after).collect()
}

/// Returns a note on the steps that are not done in each trial.
fn shared(case: &Case) -> Option<String> {
    let cases = case.shared_by?;
    let cases = plural(cases.into(), "case");
    Some(format!(
        "# mkfs and the files of the load: once in a block for {cases}; each trial copies the images"
    ))
}

fn commands_on(plan: &Plan, case: &Case, devices: &Devices, seed: u64, queues: &DiskQueues) -> Vec<String> {
    match guest_request::request_for(plan, case, devices) {
        None => fsdyno_testbed::commands(&case.configuration, devices, seed, queues),
        Some(request) => {
            let disks = request.disks.iter().map(|disk| disk.display().to_string()).collect::<Vec<_>>();
            let boot =
                format!("boot kernel {} in a virtual machine with {}", request.kernel, disks.join(", "));
            let nodes = disk_nodes(request.disks.len());
            let serving = plan.serve.as_ref().map(|serve| {
                let clients = plan.clients.unwrap_or_default();
                let mut lines = serve::commands(serve.protocol, &case.configuration, clients, &serve.mount);
                lines.extend(serve.outage.map(|outage| serve::outage_line(serve.protocol, outage)));
                lines
            });
            let serving = serving.unwrap_or_default();
            let within =
                fsdyno_testbed::guest::commands(&case.configuration, devices, &nodes, seed, &serving);
            std::iter::once(boot).chain(within).collect()
        }
    }
}

/// A fill that leaves too little space for what the workload prepares.
fn of_fill(plan: &Plan, case: &Case, size: Option<Bytes>) -> Vec<String> {
    let lack = size.and_then(|size| NoRoom::of(plan, case, size));
    lack.map(|lack| format!("{}; {}", lack.reason(), lack.remedy())).into_iter().collect()
}

/// Programs of hooks and monitors that are not installed on this host.
fn of_hooks(host: &mut dyn Host, plan: &Plan) -> Vec<String> {
    let mut unmet = Vec::new();
    for command in &plan.hooks.commands {
        let Some(program) = command.words.first() else { continue };
        let reason = format!("{program} is not installed, which {} runs", command.kind);
        if !matches!(host.find_program(program), Ok(Some(_))) && !unmet.contains(&reason) {
            unmet.push(reason);
        }
    }
    unmet
}

/// Bytes written before a trial's workload, if the size of the device is known: each round of ageing rewrites
/// half of the fill.
fn filled_bytes(configuration: &Configuration, size: Option<Bytes>) -> u64 {
    match (configuration.precondition(), size) {
        (Some(precondition), Some(size)) => {
            let fill = share(size, precondition.fill_percent);
            fill.saturating_add((fill / 2).saturating_mul(precondition.age_rounds.into()))
        }
        _ => 0,
    }
}

/// Returns the reasons why the configuration of a case cannot be built.
fn of_configuration(host: &mut dyn Host, guests: &mut dyn Guests, plan: &Plan, case: &Case) -> Vec<String> {
    if !case.impossible.is_empty() {
        return case.impossible.clone();
    }
    let mut unmet = case.contradictions.clone();
    let missing = match guest_request::request(plan, case) {
        None => {
            let mut unmet = fsdyno_testbed::unmet(host, &case.configuration, &plan.devices);
            unmet.extend(fsdyno_testbed::unmet_on_disks(&case.configuration, &plan.devices));
            unmet
        }
        Some(request) => {
            let mut unmet = guests.unmet(&request);
            if let Some(client) = guest_request::client(plan, case) {
                unmet.extend(guests.unmet(&client));
                unmet.extend(guests.lacks_memory_for(&vec![plan.guest; plan.machines() as usize + 1]));
            }
            unmet
        }
    };
    for reason in missing {
        if !unmet.contains(&reason) {
            unmet.push(reason);
        }
    }
    unmet
}

/// Returns the reasons why the workload of a case cannot run.
pub(crate) fn of_workload(host: &mut dyn Host, plan: &Plan, case: &Case, cache_varies: bool) -> Vec<String> {
    // What a guest lacks is determined with its configuration, and in the guest itself. The recorder of its
    // disk is on this machine.
    let load = case.workload.load();
    let in_guest = case.configuration.guest_kernel().is_some();
    let of_machine = |need: &&Need| !in_guest || matches!(need, Need::Device | Need::Recorder);
    let shown = recorded::load(case);
    let needs = load.needs().iter().chain(shown.map(|_| &Need::Recorder)).filter(of_machine);
    let mut unmet: Vec<String> = needs.filter_map(|need| missing(host, plan, *need)).collect();
    unmet.extend(shown.and_then(|load| recorded::unmet(plan, case, load)));
    let cache = case.configuration.cache();
    // If all have the same, it does not distinguish this case from another one.
    if cache_varies && cache != CacheState::Cold && !load.cold().contains(&true) {
        let (cache, kind) = (cache.name(), case.workload.kind());
        unmet.push(format!(
            "cache = \"{cache}\" has no effect on {kind}, which reads nothing from before its phases"
        ));
    }
    unmet
}

fn missing(host: &mut dyn Host, plan: &Plan, need: Need) -> Option<String> {
    match need {
        Need::Device if matches!(plan.devices.data, DeviceSpec::Directory { .. }) => {
            Some("device-read needs a block device; use a plan with an image or a block device".to_string())
        }
        Need::Device => plan.devices.data.disks().into_iter().find_map(|disk| match disk {
            DeviceSpec::Image(image) if !image.is_kept() => Some(format!(
                "device-read reads blocks, and '{}' is sparse and has almost none: add preallocate = \
                 \"write\"",
                image.path.display()
            )),
            _ => None,
        }),
        Need::Program(Tool { program, package, .. }) => {
            let found = matches!(host.find_program(program), Ok(Some(_)));
            (!found).then(|| format!("{program} is not installed (apt-get install {package})"))
        }
        Need::Recorder => {
            let found = host.list_directory(Path::new("/sys/fs/fuse")).is_ok();
            (!found).then(|| "the kernel has no FUSE, by which a disk is recorded".to_string())
        }
        // Without that file (before Linux 6.6) nothing is known, and the engine asks the kernel itself. The
        // value 1 forbids io_uring to unprivileged processes, but whoever creates filesystems is privileged
        // (Documentation/admin-guide/sysctl/kernel.rst).
        Need::IoUring => {
            let setting = host.read_text(Path::new("/proc/sys/kernel/io_uring_disabled")).unwrap_or_default();
            (setting.trim() == "2")
                .then(|| "io_uring is disabled; enable it with sysctl kernel.io_uring_disabled=0".to_string())
        }
    }
}

/// Estimated time of a trial from mkfs to umount, including filling devices of these sizes.
pub(crate) fn trial_time(case: &Case, sizes: Sizes) -> Nanos {
    let load = case.workload.load();
    // Caches are filled by reading everything, and checked by reading it again.
    let fillings = match case.configuration.cache() {
        CacheState::Warm => 2 * u64::from(load.parts().saturating_sub(1)),
        CacheState::Cold | CacheState::MetadataWarm => 0,
    };
    let prepared = load.prepares().0.saturating_mul(sizes.preparing);
    let made = prepared.saturating_add(filled_bytes(&case.configuration, sizes.device));
    let made = match case.shared_by {
        None => made,
        // Each of them copies what is made once, in large pieces.
        Some(cases) => (made / COPIES_FASTER).saturating_add(made / u64::from(cases.max(1))),
    };
    let moved = prepared
        .saturating_mul(fillings)
        .saturating_add(load.moves_within(case.configuration.memory()).0.saturating_mul(sizes.machines));
    // A durability trial has a disk of its own, and so has a guest.
    let conditioned = match case.workload.is_recorded() || case.configuration.guest_kernel().is_some() {
        true => 0,
        false => sizes.conditioned.0,
    };
    let moved = moved.saturating_add(conditioned);
    let taking = |bytes: u64, rate: u64| bytes.saturating_mul(1_000_000_000 / rate);
    let (boot, slowness) = match case.configuration.guest_kernel() {
        Some(_) if sizes.resumes => (ASSUMED_RESUMPTION, ASSUMED_SLOWNESS),
        Some(_) => (ASSUMED_BOOT, ASSUMED_SLOWNESS),
        None => (Nanos(0), 1),
    };
    let is_emulated = case.configuration.guest_kernel().is_some() && sizes.emulated;
    let (lifecycle, rate) = match is_emulated {
        true => (ASSUMED_LIFECYCLE.0 * ASSUMED_SLOWNESS, ASSUMED_TREE_RATE / ASSUMED_OPERATION_SLOWNESS),
        false => (ASSUMED_LIFECYCLE.0, ASSUMED_TREE_RATE),
    };
    let making = taking(made, if sizes.served { ASSUMED_SERVED_RATE } else { rate });
    let moving = making.saturating_add(taking(moved, rate));
    // Each disk of a stack makes a look about as long again: it is examined, and the stack put together.
    let looks = if case.workload.is_recorded() { 1 + sizes.assembled } else { 1 };
    let follows = load.follows().0.saturating_mul(slowness).saturating_mul(looks);
    Nanos(
        (lifecycle + boot.0)
            .saturating_add(sizes.cooldown.0)
            .saturating_add(moving)
            .saturating_add(load.timing().total().0)
            .saturating_add(sizes.calm.0.saturating_mul(load.timing().windows.into()))
            .saturating_add(follows),
    )
}
