//! The subcommands, one file each, and what they share: where the store is, and how text is laid out.

mod agent;
mod bench;
mod carry_out;
mod changes;
mod compare;
mod disks;
mod doctor;
mod durability;
mod export;
mod fixing;
mod hidden;
mod image;
mod image_shape;
mod import;
mod launching;
mod list;
mod log;
mod overrides;
mod pack;
mod package;
mod plan;
mod plans;
mod profile;
mod quick;
mod race;
mod recommend;
mod reference;
mod report;
mod restore;
mod results;
mod selfcheck;
mod show;
mod source;
mod sweep;
mod trouble;
mod watch;

use crate::cli::Results;
use crate::cli::{Cli, Colour, Command};
use crate::exit::{Status, Trouble};
use crate::interrupt;
use crate::out;
use crate::say;
use crate::state::{self, State};
use anyhow::{Context, anyhow};
use fsdyno_core::measure::Measure;
use fsdyno_core::{Outcome, RaceRules, SweepHeader, TrialRecord};
use fsdyno_guest::Qemu;
use fsdyno_host::agent::AgentHost;
use fsdyno_host::quoted;
use fsdyno_report::Style;
use fsdyno_store::{Origin, Store, StoreError, Sweep, SweepState};
use fsdyno_sweep::race_budget;
use fsdyno_verdict::{NoSuchCase, THRESHOLD};
use results::find;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Result of a subcommand.
type Result = std::result::Result<Status, Trouble>;

/// Executes the command line.
pub fn run(cli: &Cli) -> Result {
    // What these three have inherited is also meant for their children.
    if !matches!(cli.command, Command::Engine | Command::Agent(_) | Command::Recorder | Command::Guest) {
        fsdyno_sys::child::keep_what_is_open_from_children().map_err(|error| {
            let error = anyhow!(error).context("cannot read in '/proc/self/fd' what was open at the start");
            Trouble::new(Status::Refused, error).hint("mount -t proc proc /proc")
        })?;
    }
    if only_reads(&cli.command) {
        fsdyno_sys::memory::end_when_exhausted(NO_MEMORY, Status::Usage.code().into());
    }
    say::be(cli.loudness.asked());
    interrupt::outlive_the_limit_of_files().context("cannot handle SIGXFSZ")?;
    let here = || Surroundings::new(cli);
    match &cli.command {
        Command::Bench(options) => bench::run(&here()?, options),
        Command::Sweep(options) => sweep::run(&here()?, options),
        Command::Watch(options) => watch::run(&here()?, options),
        Command::Quick(options) => quick::run(&here()?, options),
        Command::Durability(options) => durability::run(&here()?, options),
        Command::Plan(options) => plan::run(&here()?, options),
        Command::Plans(options) => plans::run(&here()?, options),
        Command::Disks(options) => disks::run(&here()?, options),
        Command::List(options) => list::run(&here()?, options),
        Command::Show(options) => show::run(&here()?, options),
        Command::Report(options) => report::run(&here()?, options),
        Command::Compare(options) => compare::run(&here()?, options),
        Command::Recommend(options) => recommend::run(&here()?, options),
        Command::Race(options) => race::run(&here()?, options),
        Command::Results(Results::Import(options)) => import::run(&here()?, options),
        Command::Results(Results::Delete(options)) => changes::delete(&here()?, options),
        Command::Results(Results::Rename(options)) => changes::rename(&here()?, options),
        Command::Results(Results::Note(options)) => changes::note(&here()?, options),
        Command::Results(Results::Pack(options)) => pack::pack(&here()?, options),
        Command::Results(Results::Unpack(options)) => pack::unpack(&here()?, options),
        Command::Export(options) => export::run(&here()?, options),
        Command::Profile(options) => profile::run(options),
        Command::Doctor(options) => doctor::run(&here()?, options),
        Command::Selfcheck(options) => selfcheck::run(&here()?, options),
        Command::Restore(options) => restore::run(&here()?, options),
        Command::Completions(options) => package::completions(options),
        Command::Package(options) => package::run(options),
        Command::Reference(options) => reference::run(options),
        Command::Engine => hidden::engine(),
        Command::Application(options) => hidden::application(options),
        Command::Verify(options) => hidden::verify(options),
        Command::Agent(options) => agent::run(options),
        Command::Recorder => hidden::recorder(),
        Command::Guardian => hidden::guardian(),
        Command::Guest => hidden::guest(),
    }
}

/// The last words of a command that gets no more memory.
const NO_MEMORY: &str = "error: there is no memory left for this command\n\
                         hint: raise its limit (ulimit -v), or give it a smaller file; nothing was changed\n";

/// Returns whether a command changes nothing but the results that are stored, which a transaction protects.
fn only_reads(command: &Command) -> bool {
    matches!(
        command,
        Command::Plans(_)
            | Command::Disks(_)
            | Command::List(_)
            | Command::Show(_)
            | Command::Report(_)
            | Command::Compare(_)
            | Command::Recommend(_)
            | Command::Race(_)
            | Command::Results(_)
            | Command::Export(_)
            | Command::Profile(_)
            | Command::Completions(_)
    )
}

/// The facts about its environment that a command needs.
struct Surroundings {
    /// Where undo journals are, and results unless `--store` names another file: `fsdyno restore` finds the
    /// journals whatever `--store` says, so whoever created that file cannot give root orders.
    state: State,
    /// The database of results.
    store: PathBuf,
    /// Root's results, beside which those of an ordinary user are shown.
    roots_store: Option<PathBuf>,
    /// `fsdyno` with the options that name these places, for commands in hints.
    program: String,
    /// The layout of text on stdout.
    style: Style,
}

impl Surroundings {
    fn new(cli: &Cli) -> std::result::Result<Self, Trouble> {
        let state = State::find(cli.state.as_deref())?;
        let terminal = std::io::stdout().is_terminal();
        let colour = match cli.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && !is_dumb() && std::env::var_os("NO_COLOR").is_none(),
        };
        let of_terminal = || {
            let size = terminal.then(terminal_size::terminal_size).flatten();
            size.map(|(width, _)| usize::from(width.0))
        };
        let width = columns().or_else(of_terminal).unwrap_or(WIDTH).max(NARROWEST);
        let blocks = terminal && !is_dumb() && speaks_unicode();
        let style = Style { width, colour, blocks };
        // Whoever names a place means that one alone.
        let named = cli.store.is_some() || cli.state.is_some();
        let roots_store = if named { None } else { state.roots_store() };
        let store = cli.store.as_deref().map_or_else(|| state.store(), Path::to_path_buf);
        let options = [("state", &cli.state), ("store", &cli.store)];
        let options = options.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        let options = options.map(|(name, path)| format!(" --{name} {}", quoted(&path.to_string_lossy())));
        let program = std::iter::once("fsdyno".to_string()).chain(options).collect();
        Ok(Surroundings { store, state, roots_store, program, style })
    }

    /// Those of an agent, which has no options and prints nothing on stdout.
    fn of_agent(state: State) -> Self {
        let style = Style { width: WIDTH, colour: false, blocks: false };
        Surroundings { store: state.store(), state, roots_store: None, program: "fsdyno".to_string(), style }
    }

    fn open_store(&self) -> std::result::Result<Store, Trouble> {
        if self.store == self.state.store() {
            self.state.make()?;
            if let (false, Some(hint)) = (self.store.exists(), self.state.elsewhere_hint()) {
                say::remark(&format!("hint: {hint}"));
            }
        }
        let store = Store::open(&self.store).map_err(|error| match error {
            StoreError::NotYours { .. } | StoreError::NotWritable { .. } => {
                Trouble::new(Status::Refused, error)
            }
            other => other.into(),
        })?;
        self.tell_of_upgrade(&store);
        Ok(store)
    }

    fn tell_of_upgrade(&self, store: &Store) {
        if let Some(copy) = store.copy_of_older() {
            say::note(&format!(
                "the results were converted to a newer format; the original is in '{}'",
                copy.display()
            ));
        }
    }

    /// Where to keep the record of a trial if neither the store nor its directory accepts it.
    fn keep(&self) -> Vec<PathBuf> {
        let mut places = vec![self.state.directory().to_path_buf()];
        places.extend(match state::is_root() {
            true => Some(PathBuf::from("/run")),
            false => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()),
        });
        places
    }

    /// This machine, with its steps carried out by a separate process; the store must not be destroyed.
    fn host(&self) -> anyhow::Result<AgentHost> {
        let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
        let protected = vec![
            ("the store".to_string(), self.store.clone()),
            ("the undo journals".to_string(), self.state.undo()),
        ];
        Ok(AgentHost::new(binary, protected))
    }

    /// Guests, created by QEMU on this machine.
    fn guests(&self) -> std::result::Result<Qemu, Trouble> {
        let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
        Ok(Qemu::new(binary, state::cache()?))
    }
}

/// The width of text that no terminal limits.
const WIDTH: usize = 100;
/// Nothing can be laid out in less.
const NARROWEST: usize = 40;
/// No terminal is wider.
const WIDEST: usize = 10_000;

/// The width that the user asks for: `COLUMNS` (environ(7)).
fn columns() -> Option<usize> {
    let columns: usize = std::env::var("COLUMNS").ok()?.trim().parse().ok()?;
    (columns > 0).then_some(columns.min(WIDEST))
}

/// Returns whether the terminal can show only text.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|kind| kind == "dumb")
}

/// Returns whether the locale uses Unicode (locale(7): the first of these that is set counts).
fn speaks_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The header of reports on a sweep, ranked by the given measure or by the plan's.
fn header(sweep: &Sweep, measure: Option<&str>) -> anyhow::Result<SweepHeader> {
    let race = match sweep.summary.origin {
        Origin::Import => None,
        Origin::Run | Origin::Pack => race_budget(&sweep.plan_toml, &sweep.overrides),
    };
    let race = race.map(|budget| {
        Ok::<_, anyhow::Error>(RaceRules {
            budget,
            measure: sweep.measure.parse()?,
            configurations: sweep.summary.cases,
        })
    });
    Ok(SweepHeader {
        race: race.transpose()?,
        looks: sweep.looks.clone(),
        selected: None,
        id: sweep.summary.selector.clone(),
        name: sweep.summary.name.clone(),
        plan_toml: sweep.plan_toml.clone(),
        overrides: sweep.overrides.clone(),
        started: sweep.summary.started.clone(),
        finished: sweep.summary.finished.clone().filter(|_| sweep.summary.state == SweepState::Finished),
        seed: sweep.seed,
        measure: measure.unwrap_or(&sweep.measure).parse::<Measure>()?,
    })
}

/// The trials that count for the figures of their configurations: in a race, those of the last few were
/// selected by their earlier figures, so that only fresh ones count.
fn counted(header: &SweepHeader, trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
    let rules = header.race.as_ref();
    match rules.and_then(|rules| fsdyno_verdict::race::answer(header, rules, &trials, THRESHOLD).ok()) {
        None => trials,
        Some(race) => trials.into_iter().filter(|trial| race.counts(trial)).collect(),
    }
}

/// Refuses a measure that was asked for and that no trial has: the ranking would be by another one.
fn verify_measured(
    sweep: &SweepHeader,
    trials: &[TrialRecord],
    asked: Option<&str>,
) -> std::result::Result<(), Trouble> {
    let measured = || trials.iter().filter(|trial| trial.outcome == Outcome::Measured);
    let has = |trial: &TrialRecord| sweep.measure.value(trial).is_some();
    if asked.is_none() || measured().next().is_none() || measured().any(has) {
        return Ok(());
    }
    let Some(first) = measured().next() else { return Ok(()) };
    let usual = first.workload.load().default_measure();
    let error = anyhow!("no trial of sweep {} has the measure '{}'", sweep.id, sweep.measure);
    Err(Trouble::new(Status::Usage, error).hint(format!("its workload is ranked by {usual}")))
}

/// The error that a sweep was not found; if there is none yet, with a hint on how to get one.
fn not_found(surroundings: &Surroundings, error: StoreError) -> Trouble {
    match error {
        StoreError::NoSweeps => {
            let elsewhere = match surroundings.state.elsewhere_hint() {
                Some(hint) => format!("\n      {hint}"),
                None => String::new(),
            };
            Trouble::new(Status::Usage, error).hint(format!(
                "fsdyno bench DIR measures a directory; sudo fsdyno sweep demo runs a plan that comes with it\
                 {elsewhere}"
            ))
        }
        StoreError::NoneFinished { ref selector, .. } => {
            let hint = format!("fsdyno show {selector} shows what it has; fsdyno list shows all sweeps");
            Trouble::new(Status::Usage, error).hint(hint)
        }
        StoreError::UnknownSweep { .. } => {
            Trouble::new(Status::Usage, error).hint("fsdyno list shows the stored sweeps")
        }
        other => other.into(),
    }
}

/// The error that a text matches no case, with a name that it may have meant.
fn no_such_case(error: NoSuchCase) -> Trouble {
    let hint = match &error.nearest {
        Some(name) => format!("one of its configurations is '{name}'"),
        None => "the sweep has no stored trials".to_string(),
    };
    Trouble::new(Status::Usage, error).hint(hint)
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// Writes one JSON document to stdout.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = out::json();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
