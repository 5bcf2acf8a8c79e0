//! `fsdyno sweep PLAN`: build every configuration, measure it, store and print the results.

use super::carry_out::{Continued, SweepRequest, carry_out, status};
use super::show;
use super::source::{PlanText, choice, fitted, source};
use super::{Result, Surroundings, header, is_dumb, not_found, overrides, trouble};
use crate::cli::{Confirmed, Elsewhere, Format, Launching, Sweep};
use crate::exit::{Status, Trouble};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::sweep_name::LATEST;
use fsdyno_core::{DeviceSpec, Nanos};
use fsdyno_host::quoted;
use fsdyno_report::terminal::Extent;
use fsdyno_store::{Store, Sweep as Stored, SweepId, SweepState, SweepSummary};
use fsdyno_sweep::{
    Plan, Slowest, SweepEnd, SweepError, SweepOutcome, interrupted, order, unfinished, verify_privileges,
};
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::guard::{Overwrite, OverwriteError};
use std::io::{IsTerminal, stdin, stdout};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub fn run(surroundings: &Surroundings, options: &Sweep) -> Result {
    if options.watch {
        verify_terminal()?;
    }
    let set = overrides::with_race(&options.overrides, &options.racing)?;
    let (plan, resume) = match (&options.resume, &options.plan) {
        (None, Some(plan)) if options.more.is_none() => (asked_for(surroundings, options, plan, &set)?, None),
        (None, sweep) => {
            let selector = sweep.as_ref().map(|sweep| sweep.to_string_lossy());
            let (plan, sweep) = ended(surroundings, selector.as_deref())?;
            (plan, Some(Continued { sweep, more: options.more }))
        }
        (Some(selector), Some(plan)) => {
            let (plan, sweep) = resumed(surroundings, plan, selector, &set)?;
            (plan, Some(Continued::from(sweep)))
        }
        (Some(selector), None) => {
            let (plan, sweep) = interrupted_one(surroundings, selector)?;
            (plan, Some(Continued::from(sweep)))
        }
    };
    // Machines of a fleet look at that themselves.
    if options.sharing.fleet.is_none() {
        verify_privileges(&plan, &mut surroundings.host()?).map_err(trouble::of_sweep)?;
    }
    let command = match &options.plan {
        Some(plan) if options.more.is_none() => format!("sweep {}", quoted(&plan.to_string_lossy())),
        _ => "sweep".to_string(),
    };
    let shown = Shown { format: options.format, screen: options.watch };
    let elsewhere = Elsewhere::of(&options.sharing.launching, options.sharing.fleet);
    run_plan(surroundings, &plan, resume, (&options.confirmed, elsewhere), shown, &command)
}

/// Refuses a screen where there is none.
fn verify_terminal() -> std::result::Result<(), Trouble> {
    if stdin().is_terminal() && stdout().is_terminal() && !is_dumb() {
        return Ok(());
    }
    let error = anyhow!("--watch needs a terminal that can show more than lines, on stdin and stdout");
    Err(Trouble::new(Status::Usage, error)
        .hint("leave it out: progress is shown in lines, and fsdyno watch shows the sweep elsewhere"))
}

/// The way in which a sweep is shown while it runs and when it has ended.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The format of the results.
    pub format: Format,
    /// `true` if it has a screen of its own.
    pub screen: bool,
}

/// The plan of a new sweep, fitted to a time if the user sets one.
fn asked_for(
    surroundings: &Surroundings,
    options: &Sweep,
    plan: &Path,
    set: &[String],
) -> std::result::Result<Plan, Trouble> {
    let source = source(plan)?;
    let plan = source.parse(set)?;
    let Some(time) = options.time else { return Ok(plan) };
    // An ordinary user learns that first.
    verify_privileges(&plan, &mut surroundings.host()?).map_err(trouble::of_sweep)?;
    let fit = fitted(surroundings, &source, set, time)?;
    say::remark(&choice(time, &fit));
    Ok(fit.plan)
}

/// Runs a plan with what the user has confirmed, prints the results, and says how to continue. `command` is
/// what the user has run, without options.
pub fn run_plan(
    surroundings: &Surroundings,
    plan: &Plan,
    continued: Option<Continued>,
    (confirmed, elsewhere): (&Confirmed, Elsewhere<'_>),
    shown: Shown,
    command: &str,
) -> Result {
    let overwrite = confirmed.overwrite.iter().map(|text| overwrite(text, plan));
    let overwrite = overwrite.collect::<std::result::Result<_, _>>()?;
    let confirmation = Confirmation {
        destroy: confirmed.destroy.iter().map(|device| device.to_path_buf()).collect(),
        overwrite,
        sysctls: confirmed.allow_sysctl.clone(),
        hooks: confirmed.allow_hooks,
        given_for: Vec::new(),
    };
    let course = PlanRuns { surroundings, confirmation: &confirmation, elsewhere, shown };
    let ended = course.run(plan, continued)?;
    if matches!(ended.end, SweepEnd::Interrupted | SweepEnd::Broken) && !ended.is_elsewhere {
        say::remark(&format!(
            "hint: to continue, run {}",
            to_continue(surroundings, (confirmed, elsewhere), command, continued)
        ));
    }
    let none_measured = continued.is_none() && ended.measured == 0 && ended.skipped > 0;
    Ok(match status(&ended) {
        // Whoever waits for the results must know that there are none.
        Status::Well if none_measured => Status::TrialFailed,
        status => status,
    })
}

/// The plan of a sweep that has ended, and its number.
fn ended(
    surroundings: &Surroundings,
    selector: Option<&str>,
) -> std::result::Result<(Plan, SweepId), Trouble> {
    let found = surroundings.open_store()?.find(selector);
    let stored = found.map_err(|error| not_found(surroundings, error))?;
    let plan = of_stored(&stored)?;
    let SweepSummary { id, name, started, .. } = &stored.summary;
    let done = stored.summary.done();
    say::note(&format!("adding to sweep {id} ('{name}', begun {started}), which has {done} trials"));
    Ok((plan, *id))
}

/// The plan of an interrupted sweep as it is stored, and its number.
fn interrupted_one(
    surroundings: &Surroundings,
    selector: &str,
) -> std::result::Result<(Plan, SweepId), Trouble> {
    let named = (selector != LATEST).then_some(selector);
    let stored = interrupted(&surroundings.open_store()?, named).map_err(|error| match error {
        SweepError::Store(error) => not_found(surroundings, error),
        other => trouble::of_sweep(other),
    })?;
    let plan = of_stored(&stored)?;
    tell_of_resuming(&stored);
    Ok((plan, stored.summary.id))
}

/// The plan that is stored with a sweep. What it refers to is looked for from the current directory.
fn of_stored(stored: &Stored) -> std::result::Result<Plan, Trouble> {
    let file = format!("{}.toml", stored.summary.name);
    Plan::parse(&stored.plan_toml, &file, &stored.overrides).map_err(trouble::of_plan)
}

/// The plan of an interrupted sweep with the changes that it was begun with, and its number.
pub fn resumed(
    surroundings: &Surroundings,
    plan: &Path,
    selector: &str,
    set: &[String],
) -> std::result::Result<(Plan, SweepId), Trouble> {
    let source = source(plan)?;
    let named = (selector != LATEST).then_some(selector);
    let store = surroundings.open_store()?;
    let found = match unfinished(&store, named, &source.text, set) {
        // It has measured the rate, and the sweep that was asked for has not begun.
        Err(error) => measured_only_the_rate(&store, &source, &error)?.ok_or(error),
        found => found,
    };
    let stored = found.map_err(|error| match error {
        SweepError::Store(error) => not_found(surroundings, error),
        other => trouble::of_sweep(other),
    })?;
    let plan = source.parse(&stored.overrides)?;
    tell_of_resuming(&stored);
    Ok((plan, stored.summary.id))
}

/// Returns the latest sweep of a plan, which has nothing left to resume, if all that it did was to measure
/// the rate for another sweep.
fn measured_only_the_rate(
    store: &Store,
    source: &PlanText,
    error: &SweepError,
) -> std::result::Result<Option<Stored>, Trouble> {
    let SweepError::NothingToResume { state: Some(SweepState::Finished), candidate: Some((sweep, _)) } =
        error
    else {
        return Ok(None);
    };
    let stored = store.sweep(*sweep)?;
    let plan = source.parse(&stored.overrides)?;
    Ok(plan.before_closed_loop().is_some().then_some(stored))
}

/// Says which sweep continues, and what it was begun with.
pub fn tell_of_resuming(stored: &Stored) {
    let SweepSummary { id, name, started, trials, .. } = &stored.summary;
    let done = stored.summary.done();
    let sets: String = stored.overrides.iter().map(|set| format!(" --set {}", quoted(set))).collect();
    let with = if sets.is_empty() { String::new() } else { format!(", with{sets}") };
    say::note(&format!(
        "resuming sweep {id} ('{name}', begun {started}{with}): {done} of {trials} trials done"
    ));
}

/// The command that continues a sweep: its changes of the plan are stored, but what may be destroyed is
/// confirmed each time.
fn to_continue(
    surroundings: &Surroundings,
    (options, elsewhere): (&Confirmed, Elsewhere<'_>),
    command: &str,
    continued: Option<Continued>,
) -> String {
    let confirmed = |name: &str, value: &str| format!(" --{name} {}", quoted(value));
    let mut line = format!("{} {command} --resume", surroundings.program);
    // What is added has no plan on the command line, so the sweep is named.
    let sweep = continued.filter(|continued| continued.more.is_some() || command == "sweep");
    line.extend(sweep.map(|continued| format!(" {}", continued.sweep)));
    let (launching, fleet) = match elsewhere {
        Elsewhere::Nowhere => (None, String::new()),
        Elsewhere::Clients(launching) => (Some(launching), String::new()),
        Elsewhere::Fleet(launching, None) => (Some(launching), " --fleet".to_string()),
        Elsewhere::Fleet(launching, Some(count)) => (Some(launching), format!(" --fleet={count}")),
    };
    line.push_str(&fleet);
    if let Some(Launching { launch, listen, token_file }) = launching {
        line.extend(launch.iter().map(|launch| confirmed("launch", launch)));
        line.extend(listen.map(|(address, port)| confirmed("listen", &listening(address, port))));
        line.extend(token_file.iter().map(|path| confirmed("token-file", &path.to_string_lossy())));
    }
    line.extend(options.destroy.iter().map(|device| confirmed("destroy", &device.to_string_lossy())));
    line.extend(options.overwrite.iter().map(|device| confirmed("overwrite", device)));
    line.extend(options.allow_sysctl.iter().map(|key| confirmed("allow-sysctl", key)));
    line.push_str(if options.allow_hooks { " --allow-hooks" } else { "" });
    line
}

/// As `--listen` takes it.
fn listening(address: IpAddr, port: u16) -> String {
    if port == 0 { address.to_string() } else { SocketAddr::new(address, port).to_string() }
}

/// Returns what an `--overwrite` confirms. A kind alone would apply to every device of the plan, whatever is
/// on it.
fn overwrite(text: &str, plan: &Plan) -> std::result::Result<Overwrite, Trouble> {
    text.parse().map_err(|error: OverwriteError| {
        let device = plan.devices.named_disks().next().unwrap_or(Path::new("/dev/sdb"));
        let device = match error {
            OverwriteError::NoDevice(_) => device,
            OverwriteError::NoKind(_) => Path::new(text.trim_end_matches('=')),
        };
        let kind =
            if matches!(error, OverwriteError::NoDevice(_)) { text.trim_start_matches('=') } else { "" };
        let kind = if kind.is_empty() { "ext4" } else { kind };
        let right = Overwrite { device: device.to_path_buf(), kind: kind.to_string() };
        Trouble::new(Status::Usage, error).hint(format!("write --overwrite {right}, once for each device"))
    })
}

/// Runs plans with the options of one command.
pub struct PlanRuns<'a> {
    pub surroundings: &'a Surroundings,
    /// The devices and changes that the user has confirmed.
    pub confirmation: &'a Confirmation,
    pub elsewhere: Elsewhere<'a>,
    pub shown: Shown,
}

impl PlanRuns<'_> {
    /// Executes a plan with progress on stderr and prints the results. If the plan needs a measured write
    /// rate, the sweep that measures it runs first.
    pub fn run(
        &self,
        plan: &Plan,
        continued: Option<Continued>,
    ) -> std::result::Result<SweepOutcome, Trouble> {
        let interrupt =
            if self.shown.screen { Interrupt::listen()? } else { Interrupt::listen_and_explain()? };
        let mut store = self.surroundings.open_store()?;
        let (asked, first) = match continued {
            None if plan.measures_write_rate() => (Some(plan.clone()), Some(plan.in_closed_loop())),
            Some(Continued { more: None, .. }) => (before_closed_loop(plan)?, None),
            _ => (None, None),
        };
        let first = first.as_ref().unwrap_or(plan);
        let begun = Instant::now();
        let Some(asked) = asked else {
            let ended = self.execute(first, continued, self.confirmation, &mut store, &interrupt)?;
            return self.show(first, ended, &store);
        };
        // Both sweeps write to the devices that were confirmed, whatever has their names later.
        let named: Vec<PathBuf> = asked.devices.named_disks().map(Path::to_path_buf).collect();
        let confirmation = self.confirmation.clone().for_those_now(&mut self.surroundings.host()?, &named);
        let ended = self.execute(first, continued, &confirmation, &mut store, &interrupt)?;
        if ended.end != SweepEnd::Finished {
            return Ok(ended);
        }
        let took = Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let trials = store.trials(ended.sweep)?;
        let Some((paced, slowest)) = asked.with_write_rates(&trials, took) else {
            return Err(no_write_rate(ended.sweep));
        };
        slowest.iter().for_each(|one| tell_of_rate(one, ended.sweep));
        let ended = self.execute(&paced, None, &confirmation, &mut store, &interrupt).inspect_err(|_| {
            say::note("the write rate has been measured: `sweep PLAN --resume` goes on from here");
        })?;
        self.show(&paced, ended, &store)
    }

    fn execute(
        &self,
        plan: &Plan,
        continued: Option<Continued>,
        confirmation: &Confirmation,
        store: &mut Store,
        interrupt: &Interrupt,
    ) -> std::result::Result<SweepOutcome, Trouble> {
        let PlanRuns { surroundings, elsewhere, shown, .. } = *self;
        let display = Display::new(order(plan).len() as u64);
        let request = SweepRequest {
            plan,
            confirmation,
            continued,
            display: &display,
            screen: shown.screen,
            elsewhere,
        };
        carry_out(surroundings, &request, store, interrupt, &mut |_| {})
    }

    /// Prints the results.
    fn show(
        &self,
        plan: &Plan,
        ended: SweepOutcome,
        store: &Store,
    ) -> std::result::Result<SweepOutcome, Trouble> {
        let shown = show_results(self.surroundings, store, ended.sweep, self.shown.format);
        if store.is_in_place() {
            tell_of_more(self.surroundings, store, plan, ended.sweep)?;
        }
        match shown {
            Ok(()) => Ok(ended),
            // Whoever waits for the results must know that they are not all there.
            Err(trouble) if ended.end == SweepEnd::Finished && !trouble.is_about_a_lost_reader() => {
                Err(trouble)
            }
            Err(trouble) => {
                trouble.tell();
                Ok(ended)
            }
        }
    }
}

/// Recovers the original plan from a stored sweep that measured its write rate.
fn before_closed_loop(plan: &Plan) -> std::result::Result<Option<Plan>, Trouble> {
    let Some(overrides) = plan.before_closed_loop() else { return Ok(None) };
    let file = format!("{}.toml", plan.name_before_closed_loop());
    let plan = Plan::parse(&plan.text, &file, overrides).map_err(trouble::of_plan)?;
    Ok(plan.measures_write_rate().then_some(plan))
}

fn tell_of_rate(slowest: &Slowest, sweep: SweepId) {
    let Slowest { configuration, files_per_s, rate } = slowest;
    say::note(&format!(
        "writers begin {rate} files a second on every configuration: 70 % of the {files_per_s:.0} of \
         '{configuration}', the slowest (sweep {sweep})"
    ));
}

fn no_write_rate(sweep: SweepId) -> Trouble {
    let error = anyhow!("no writer of sweep {sweep} began a file, so the write rate cannot be set");
    Trouble::new(Status::TrialFailed, error)
        .hint(format!("`fsdyno show {sweep} --notes` says why; or set `write_rate` to a number"))
}

/// Where the results are, and what else shows them.
fn tell_of_more(
    surroundings: &Surroundings,
    store: &Store,
    plan: &Plan,
    sweep: SweepId,
) -> std::result::Result<(), Trouble> {
    let program = &surroundings.program;
    // Somebody else has built what is in a directory.
    let builds = plan.devices.all().any(|device| !matches!(device, DeviceSpec::Directory { .. }));
    let recommend = match builds && store.sweep(sweep)?.summary.measured > 0 {
        true => format!("\nhow to build it: {program} recommend {sweep}"),
        false => String::new(),
    };
    let race = match plan.race {
        Some(_) => format!("\nwhat was dropped, and why: {program} race {sweep}"),
        None => String::new(),
    };
    say::remark(&format!(
        "sweep {sweep} is in {}\nevery operation: {program} show {sweep} --full{race}{recommend}",
        surroundings.store.display()
    ));
    Ok(())
}

fn show_results(
    surroundings: &Surroundings,
    store: &Store,
    sweep: SweepId,
    format: Format,
) -> std::result::Result<(), Trouble> {
    let trials = store.trials(sweep)?;
    let more = format!("{} show", surroundings.program);
    let header = header(&store.sweep(sweep)?, None)?;
    show::print(&header, &trials, format, (Extent::Page(&more), false), &surroundings.style)?;
    Ok(())
}
