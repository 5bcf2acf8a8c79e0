//! `fsdyno plan PLAN`: what a sweep would do, without doing it.

use super::source::{choice, fitted, source};
use super::{Result, Surroundings, fixing, overrides, print_json};
use crate::cli::{DocumentFormat, Plan as Options};
use crate::command::trouble::refused;
use crate::exit::Status;
use crate::out;
use crate::progress::human;
use fsdyno_core::measure::Direction;
use fsdyno_core::{Measure, Nanos};
use fsdyno_host::guest::Download;
use fsdyno_host::{Host, quoted};
use fsdyno_report::Style;
use fsdyno_sweep::{DryRun, FleetPlan, ForeseenRound, Plan, dry_run};
use fsdyno_testbed::guard::identity_text;
use fsdyno_verdict::text::plural;
use std::collections::BTreeSet;
use std::io::{self, Write};

pub fn run(surroundings: &Surroundings, options: &Options) -> Result {
    let set = overrides::with_race(&options.overrides, &options.racing)?;
    let source = source(&options.plan)?;
    if options.fix {
        return fixing::print(surroundings, &source);
    }
    let (plan, chosen) = match options.time {
        None => (source.parse(&set)?, None),
        Some(time) => {
            let fit = fitted(surroundings, &source, &set, time)?;
            let chosen = choice(time, &fit);
            (fit.plan, Some(chosen))
        }
    };
    let mut host = surroundings.host()?;
    let run = dry_run(&plan, &mut host, &mut surroundings.guests()?);
    match options.format {
        DocumentFormat::Json => print_json(&run)?,
        DocumentFormat::Text => {
            let identities = identities(&plan, &mut host);
            let mut out = out::text(&surroundings.style);
            print(&mut out, surroundings.style, &plan, &run, &identities, options.allow_hooks)?;
            if let Some(chosen) = chosen {
                writeln!(out, "{chosen}")?;
            }
        }
    }
    let is_allowed = run.hooks.is_empty() || options.allow_hooks;
    Ok(if run.refusals.is_empty() && is_allowed { Status::Well } else { Status::Refused })
}

/// The block devices of the plan, each with the line that pins its identity, or why it cannot be determined.
fn identities(plan: &Plan, host: &mut dyn Host) -> Vec<(String, String)> {
    let disks = plan.devices.named_disks();
    disks
        .map(|path| {
            let identity = match host.probe_device(path) {
                Ok(probe) => format!("identity = \"{}\"", identity_text(&probe.identity)),
                Err(error) => error.to_string(),
            };
            (path.display().to_string(), identity)
        })
        .collect()
}

fn print(
    out: &mut dyn Write,
    style: Style,
    plan: &Plan,
    run: &DryRun,
    identities: &[(String, String)],
    allow_hooks: bool,
) -> io::Result<()> {
    print_cases(out, run)?;
    for hook in &run.hooks {
        writeln!(out, "{hook}")?;
    }
    for (path, identity) in identities {
        writeln!(out, "device {path}: {identity}")?;
    }
    // Recorded disks are fsdyno's own.
    let uses_devices = plan.workloads.iter().any(|workload| !workload.is_recorded());
    for (path, _) in identities.iter().filter(|_| uses_devices) {
        let text = format!("everything on {path} will be lost: a sweep asks for --destroy {}", quoted(path));
        style.wrapped(&text, "", "  ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let skipped = run.cases.iter().filter(|case| !case.unmet.is_empty()).count();
    let whole = whole(plan, run, skipped);
    let texts = [whole, ranking(&plan.measure)].into_iter().chain(race(plan, run)).chain(fleet(plan, run));
    let texts = texts.chain(write_rate(plan)).chain(guests(run)).chain(foreseen(run));
    for line in texts.flat_map(|text| style.wrapped(&text, "", "  ")) {
        writeln!(out, "{line}")?;
    }
    if skipped == run.cases.len() {
        writeln!(out, "a sweep would measure nothing: every case is skipped on this machine")?;
    }
    if let Some(lack) = run.lack {
        writeln!(out, "{}", lack.of_sweep())?;
    }
    if !run.hooks.is_empty() && !allow_hooks {
        writeln!(
            out,
            "a sweep would be refused because the plan runs commands of its own:\n  hint: if you know what \
             each of them does, add --allow-hooks"
        )?;
    }
    match run.refusals.as_slice() {
        [] => Ok(()),
        refusals => writeln!(out, "a sweep would be refused:\n{}", refused(refusals)),
    }
}

/// Prints every case with its commands, its risks, and why it is skipped.
fn print_cases(out: &mut dyn Write, run: &DryRun) -> io::Result<()> {
    let mut said = BTreeSet::new();
    for case in &run.cases {
        writeln!(out, "case {}: {} / {}", case.case, case.configuration.name, case.label)?;
        // What all cases have in common is said once.
        let words = case.workload.load().in_words();
        if said.insert(words.clone()) {
            words.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        }
        for command in &case.commands {
            writeln!(out, "    {command}")?;
        }
        for risk in &case.risks {
            writeln!(out, "    {}: {}", risk.kind, risk.text)?;
        }
        for note in &case.notes {
            writeln!(out, "    note: {note}")?;
        }
        for reason in &case.unmet {
            writeln!(out, "    skipped: {reason}")?;
        }
    }
    Ok(())
}

/// Returns the number of cases and trials, and what they take.
fn whole(plan: &Plan, run: &DryRun, skipped: usize) -> String {
    let cases = plural(run.cases.len() as u64, "case");
    // The sweep ends earlier then.
    let is_cut = plan.rules.time_limit.is_some_and(|limit| run.time_ns >= limit);
    let up_to = if is_cut { "up to " } else { "" };
    let (trials, time) = match run.trials_max > run.trials {
        false => (format!("{up_to}{}", plural(u64::from(run.trials), "trial")), human(run.time_ns)),
        true => (
            format!("{}{} to {} trials", blocks(plan), run.trials, run.trials_max),
            format!("{} to {}", human(run.time_ns), human(run.time_max_ns)),
        ),
    };
    // How long such a ramp lasts is not known beforehand.
    let waits = plan.workloads.iter().any(|workload| workload.load().timing().ramp.is_open_ended());
    let about = if waits { "at most about" } else { "about" };
    let space = match run.space_bytes.0 {
        0 => String::new(),
        // Writers stop when nothing but the reserve is free.
        u64::MAX => ", up to all free space".to_string(),
        _ => format!(", up to {}", fsdyno_verdict::text::size(run.space_bytes)),
    };
    let clients = match plan.clients {
        None => String::new(),
        Some(count) => {
            let trees = fsdyno_verdict::text::whose_trees(plan.shared_trees);
            format!(", by {}{trees}", plural(count.into(), "client"))
        }
    };
    format!(
        "{}: {cases} ({skipped} skipped on this machine), {trials}; {about} {time}{space} on {}{clients}",
        plan.name,
        plan.device_in_words()
    )
}

/// Returns the range of the number of blocks, if the plan ends once its answer is decided.
fn blocks(plan: &Plan) -> String {
    let enough = plan.enough.filter(|enough| enough.is_auto());
    enough.map_or(String::new(), |enough| format!("{} to {} blocks, ", plan.repetitions, enough.max))
}

/// Returns the measure that will decide between the cases.
fn ranking(measure: &Measure) -> String {
    let better = match measure.direction() {
        Direction::HigherIsBetter => "more is better",
        Direction::LowerIsBetter => "less is better",
    };
    let meaning = measure.meaning().map_or(String::new(), |meaning| format!(", {meaning}"));
    format!("ranked by {}{meaning}; {better}", measure.name())
}

/// Announces the sweep that measures the write rate, if the plan needs one.
fn write_rate(plan: &Plan) -> Option<String> {
    plan.measures_write_rate().then(|| {
        "before that, one trial of each case with writers in a closed loop: 70 % of what the slowest \
         writes is the `write_rate` of all (\"auto\")"
            .to_string()
    })
}

/// The time and the downloads that its guests cost, if it has any.
fn guests(run: &DryRun) -> Vec<String> {
    let speed = run.emulated.map(|emulated| match emulated {
        true => "guests are emulated on this machine: all but ramps and windows takes 5 to 10 times as long",
        false => "guests run under KVM; kernels that do not boot under it are emulated, which takes longer",
    });
    let packages: Vec<String> = run.downloads.iter().map(download).collect();
    let sizes = run.downloads.iter().map(|download| download.size.map_or(0, |size| size.0));
    let downloads = match &packages[..] {
        [] => None,
        [only] => Some(format!("to download first: {only}")),
        several => Some(format!(
            "to download first: {}; {} in all",
            several.join(", "),
            decimal(sizes.fold(0, u64::saturating_add))
        )),
    };
    speed.map(str::to_string).into_iter().chain(downloads).collect()
}

/// A package with its size.
fn download(download: &Download) -> String {
    let Download { package, size } = download;
    size.map_or(package.clone(), |size| format!("{package} ({})", decimal(size.0)))
}

/// A size as package sources and browsers have it.
fn decimal(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

/// Warnings about figures that would not answer the question.
fn foreseen(run: &DryRun) -> Vec<String> {
    let mut lines: Vec<String> =
        run.warnings.iter().map(|warning| format!("{}: {warning}", warning.kind)).collect();
    if !lines.is_empty() {
        lines.push("fsdyno plan --fix prints the plan with sizes that are large enough".to_string());
    }
    lines
}

/// Returns the lines about the time that the machines of the plan's fleet take, if it has one.
fn fleet(plan: &Plan, run: &DryRun) -> Vec<String> {
    let Some(FleetPlan { count, disks }) = &plan.fleet else { return Vec::new() };
    let count = *count;
    let blocks = plan.repetitions;
    let at_once = u64::from(blocks.div_ceil(count));
    let time = Nanos(run.time_ns.0 / u64::from(blocks.max(1)) * at_once);
    let shared = format!(
        "with --fleet, {} share {}, each of which runs on one of them: about {}",
        plural(count.into(), "machine"),
        plural(blocks.into(), "block"),
        human(time)
    );
    let own = disks.iter().flat_map(|(name, own)| own.iter().map(move |(path, disk)| (name, path, disk)));
    let own = own.map(|(name, path, disk)| format!("on {name}, {disk} in place of {}", path.display()));
    std::iter::once(shared).chain(own).collect()
}

/// Returns the lines about the race, if the sweep is one.
fn race(plan: &Plan, run: &DryRun) -> Vec<String> {
    let race = match (&run.race, &plan.race) {
        (Some(race), _) => race,
        (None, Some(_)) => {
            return vec!["a race would be refused: fewer than two configurations can run here".to_string()];
        }
        (None, None) => return Vec::new(),
    };
    let rounds = match &race.rounds[..] {
        [only] => format!("{} of {}", plural(u64::from(only.blocks), "block"), only.configurations),
        [first, between @ .., last] => {
            let of = |round: &ForeseenRound| format!(", {} of {}", round.blocks, round.configurations);
            format!(
                "{} of {}{}, and {} fresh ones of the best {} and the default",
                plural(u64::from(first.blocks), "block"),
                first.configurations,
                between.iter().map(of).collect::<String>(),
                last.blocks,
                last.configurations
            )
        }
        [] => String::new(),
    };
    let budget = race.budget.as_ref().map_or(String::new(), |budget| format!(" within {budget}"));
    let mut lines = vec![format!(
        "a race of {} configurations{budget}: {}; {} with sentinels, about {}",
        race.configurations,
        rounds,
        plural(u64::from(race.trials), "trial"),
        human(race.time_ns)
    )];
    if !race.fits {
        lines.push(format!(
            "the budget may be too small: the shortest race is estimated to take {}; what does not fit is \
             left out, the last round included",
            human(race.time_ns)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use fsdyno_testkit::fake::{FakeGuests, FakeHost};

    /// One plan downloaded 1.4 GB, and another took four times as long as it was said to.
    #[test]
    fn what_guests_take_is_said_before() {
        let text = "[device]\nimage = \"/data/a.img\"\nsize = \"1G\"\n[axes]\nfilesystem = \"ext4\"\n\
                    kernel = [\"debian:6.1\", \"debian:6.12\"]\n[[workloads]]\nkind = \"null\"\n";
        let plan = Plan::parse(text, "plan.toml", &[]).expect("a plan");
        let download = |package: &str, size| Download { package: package.into(), size };
        let kernels =
            || vec![download("linux-image-6.1", Some(Bytes(69_172_436))), download("linux-image-6.12", None)];
        let run = |by_kvm, downloads| {
            let mut guests = FakeGuests { by_kvm, downloads, ..FakeGuests::default() };
            dry_run(&plan, &mut FakeHost::new(), &mut guests)
        };
        let (emulated, by_kvm) = (run(false, kernels()), run(true, Vec::new()));
        let lines = guests(&emulated);
        assert!(lines[0].starts_with("guests are emulated on this machine"), "{lines:?}");
        assert_eq!(lines[1], "to download first: linux-image-6.1 (70 MB), linux-image-6.12; 70 MB in all");
        assert!(guests(&by_kvm)[0].starts_with("guests run under KVM"), "{:?}", guests(&by_kvm));
        assert!(emulated.time_ns.0 > 3 * by_kvm.time_ns.0, "{} and {}", emulated.time_ns, by_kvm.time_ns);
    }

    #[test]
    fn a_device_that_is_not_there_has_no_identity_to_pin() {
        let plan = |block: &str| {
            let text = format!(
                "[device]\nblock = \"{block}\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\n\
                 kind = \"null\"\n"
            );
            Plan::parse(&text, "plan.toml", &[]).expect("a plan")
        };
        let mut host = FakeHost::new();
        host.add_block("/dev/there", (8, 16), Bytes(Bytes::GIB));
        let identity = |plan: &Plan, host: &mut FakeHost| identities(plan, host).remove(0).1;
        assert!(identity(&plan("/dev/there"), &mut host).starts_with("identity = \""));
        let absent = identity(&plan("/dev/absent"), &mut host);
        assert!(absent.contains("'/dev/absent'") && !absent.contains("identity"), "{absent}");
    }
}
