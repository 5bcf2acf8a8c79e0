//! `fsdyno watch [SWEEP]`: a running sweep, from another terminal.

use super::{Result, Surroundings, find, header};
use crate::cli::{Then, Watch};
use crate::exit::{Status, Trouble};
use crate::lock;
use crate::out;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::{AfterTrial, SweepHeader, TrialRecord};
use fsdyno_store::{Store, StoreError, Sweep, SweepId, SweepState, SweepSummary};
use fsdyno_sweep::{Plan, order};
use fsdyno_verdict::Workloads;
use fsdyno_verdict::race::{RaceError, history};
use fsdyno_watch::{
    Attached, CaseLabel, Gone, Left, Look, Outside, RaceCourse, Scene, Screen, Stage, State,
    Status as Published, SweepFacts, printed, watch,
};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write, stdin, stdout};

pub fn run(surroundings: &Surroundings, options: &Watch) -> Result {
    let running = running(surroundings)?;
    if let Some(selector) = &options.sweep {
        let shelves = surroundings.results()?;
        let (store, sweep) = find(surroundings, &shelves, Some(selector))?;
        let is_it = running.as_ref().is_some_and(|(_, published)| {
            published.sweep == Some(sweep.summary.id.0) && is_store(store, published)
        });
        if !is_it {
            return ended(surroundings, store, &sweep, options);
        }
    }
    let Some((attached, published)) = running else { return Err(none_running(surroundings)) };
    match options.then {
        Some(then) => ask(&attached, &published, then),
        None => show(surroundings, attached, &published, options.until_end),
    }
}

/// The sweep that a process of this state directory runs.
fn running(surroundings: &Surroundings) -> std::result::Result<Option<(Attached, Published)>, Trouble> {
    let Some(pid) = lock::holder_pid(&surroundings.state) else { return Ok(None) };
    let mut attached = match Attached::to(pid) {
        Ok(attached) => attached,
        Err(Gone::NoSweep { .. }) => return Ok(None),
        Err(error @ Gone::NotYours { .. }) => {
            return Err(Trouble::new(Status::Refused, error).hint("watch it as that user, or as root"));
        }
        Err(error) => return Err(error.into()),
    };
    let published = attached.status()?;
    // The number of a process that has ended may now belong to another sweep, of another directory.
    let is_ours = published.state_directory == surroundings.state.directory();
    Ok((is_ours && published.stage != Stage::Ended).then_some((attached, published)))
}

fn is_store(store: &Store, published: &Published) -> bool {
    let path = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    path(store.path()).is_some_and(|own| Some(own) == path(&published.store))
}

/// The error that there is nothing to watch, with what there is.
fn none_running(surroundings: &Surroundings) -> Trouble {
    let sweeps = surroundings.results().and_then(|shelves| Ok(shelves.sweeps()?)).unwrap_or_default();
    let is_live = |sweep: &&SweepSummary| sweep.state == SweepState::Running;
    let trouble = |hint: String| Trouble::new(Status::Usage, anyhow!("no sweep is running")).hint(hint);
    match (sweeps.iter().rev().find(is_live), sweeps.last()) {
        // Its process exists, but not here.
        (Some(SweepSummary { selector, name, .. }), _) => trouble(format!(
            "sweep {selector} ('{name}') is run by another user or with another --state; watch it with the \
             same"
        )),
        (None, Some(last)) => trouble(format!(
            "the last one, sweep {0} ('{1}'), {2}; {3} watch {0} shows how it ended, {3} show {0} its \
             results",
            last.selector,
            last.name,
            last.end(),
            surroundings.program
        )),
        (None, None) => trouble("sudo fsdyno sweep demo runs a plan that comes with fsdyno".to_string()),
    }
}

/// Leaves a request.
fn ask(attached: &Attached, published: &Published, then: Then) -> Result {
    let wish = match then {
        Then::Pause => AfterTrial::Pause,
        Then::Continue => AfterTrial::Continue,
        Then::Stop => AfterTrial::Stop,
    };
    attached.ask(wish)?;
    let name = match published.sweep {
        Some(sweep) => format!("sweep {sweep} ('{}')", published.plan),
        None => format!("the sweep of '{}'", published.plan),
    };
    say::remark(&match wish {
        AfterTrial::Pause => format!("{name} pauses after the trial in progress; --then continue goes on"),
        AfterTrial::Continue => format!("{name} goes on"),
        AfterTrial::Stop => format!("{name} stops after the trial in progress"),
    });
    Ok(Status::Well)
}

/// Prints a sweep that no process of this user runs.
fn ended(surroundings: &Surroundings, store: &Store, sweep: &Sweep, options: &Watch) -> Result {
    let SweepSummary { selector, name, .. } = &sweep.summary;
    if options.then.is_some() {
        let error = anyhow!("sweep {selector} ('{name}') {}", sweep.summary.end());
        return Err(
            Trouble::new(Status::Usage, error).hint("only a running sweep can be asked for something")
        );
    }
    let mut scene = scene(store, sweep)?;
    let trials = store.outlines(sweep.summary.id)?;
    if let Some(course) = raced(&header(sweep, None)?, &trials) {
        scene.set_race(&course);
    }
    scene.add(trials);
    print(surroundings, &scene)?;
    say::remark(&format!("the results: {} show {selector}", surroundings.program));
    Ok(Status::Well)
}

/// Blocks whose bounds are computed again of a race that has ended: more have no room in a line.
const BOUNDS: u32 = 12;
/// Of a race with more configurations only the latest is: each takes seconds.
const MANY: u32 = 250;

/// Returns the course of a stored race after its latest blocks; `None` if the sweep was not a race, or no
/// block is complete.
fn raced(header: &SweepHeader, trials: &[TrialRecord]) -> Option<RaceCourse> {
    let mut course = RaceCourse::default();
    let rules = header.race.as_ref()?;
    let most = if rules.configurations > MANY { 1 } else { BOUNDS };
    match history(header, rules, trials, most) {
        Ok(answers) => answers.into_iter().for_each(|answer| course.add(&Ok(answer))),
        Err(RaceError::FirstBlock { .. }) => return None,
        Err(error) => course.add(&Err(error)),
    }
    Some(course)
}

fn print(surroundings: &Surroundings, scene: &Scene) -> anyhow::Result<()> {
    let style = &surroundings.style;
    // A file may be read with any locale.
    let look = Look { colour: false, unicode: style.blocks };
    write!(out::text(style), "{}", printed(scene, look, style.width))?;
    Ok(())
}

/// Shows a running sweep: on a screen if the terminal can show one, else once as text.
fn show(
    surroundings: &Surroundings,
    mut attached: Attached,
    published: &Published,
    until_end: bool,
) -> Result {
    let mut outside = Stored { surroundings, store: None };
    let mut scene = Scene::new(unknown(published)?, Vec::new());
    let is_screen = stdin().is_terminal() && stdout().is_terminal() && !super::is_dumb();
    if !is_screen {
        outside.update(&mut scene, published, true).map_err(|error| anyhow!(error))?;
        scene.set_status(published.clone());
        attached.race().into_iter().for_each(|course| scene.set_race(course));
        scene.set_silence(attached.silence());
        print(surroundings, &scene)?;
        return Ok(Status::Well);
    }
    let look = Look { colour: surroundings.style.colour, unicode: surroundings.style.blocks };
    match watch(Screen { scene, look, until_end }, &mut attached, &mut outside)? {
        Left::Asked if until_end => {}
        Left::Asked => match attached.is_alive() {
            true => say::remark("the sweep goes on; fsdyno watch shows it again"),
            false => say::remark(&format!("{} show shows the results", surroundings.program)),
        },
        // To the sweep whose own screen this is, it means what it means without a screen.
        Left::Interrupted if until_end => return Ok(Status::Interrupted),
        Left::Interrupted | Left::Ended => {}
        Left::Signal(signal) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
    Ok(Status::Well)
}

/// A sweep that is not in the store yet.
fn unknown(published: &Published) -> anyhow::Result<SweepFacts> {
    Ok(SweepFacts {
        selector: "-".to_string(),
        name: published.plan.clone(),
        started: String::new(),
        measure: "read".parse()?,
        seed: 0,
        trials: published.now.as_ref().map_or(0, |now| now.trials),
        blocks: 0,
        sentinel: None,
        is_race: false,
        state: State::Starting,
    })
}

/// The store of a running sweep, once that is in it.
struct Stored<'a> {
    surroundings: &'a Surroundings,
    store: Option<(Store, SweepId)>,
}

impl Outside for Stored<'_> {
    fn update(
        &mut self,
        scene: &mut Scene,
        status: &Published,
        alive: bool,
    ) -> std::result::Result<(), String> {
        let Some(id) = status.sweep.map(SweepId) else { return Ok(()) };
        self.read(scene, status, id, alive).map_err(|error| format!("{error:#}"))
    }

    fn successor(&mut self) -> Option<Attached> {
        let (store, id) = self.store.as_ref()?;
        let (attached, published) = running(self.surroundings).ok()??;
        (published.sweep == Some(id.0) && is_store(store, &published)).then_some(attached)
    }
}

impl Stored<'_> {
    fn read(
        &mut self,
        scene: &mut Scene,
        status: &Published,
        id: SweepId,
        alive: bool,
    ) -> anyhow::Result<()> {
        if self.store.is_none() {
            let store = Store::open_to_read(&status.store)?;
            *scene = self::scene(&store, &store.sweep(id)?)?;
            self.store = Some((store, id));
        }
        let Some((store, id)) = &self.store else { return Ok(()) };
        let known: BTreeSet<u32> = scene.trials().iter().map(|trial| trial.trial).collect();
        let new = store.trial_numbers(*id)?.into_iter().filter(|number| !known.contains(number));
        let new = new
            .map(|number| store.outline(*id, number))
            .collect::<std::result::Result<Vec<_>, StoreError>>()?;
        if !new.is_empty() {
            scene.add(new);
        }
        let summary = store.sweep(*id)?.summary;
        let state = match (summary.state, alive && status.stage != Stage::Ended, status.stage) {
            (_, true, Stage::Paused) => State::Paused,
            (_, true, _) => State::Running,
            (SweepState::Finished, false, _) => State::Finished,
            (_, false, Stage::Ended) => State::Interrupted,
            (_, false, _) => State::Killed,
        };
        scene.set_sweep(state, summary.trials);
        Ok(())
    }
}

/// A stored sweep with the cases of its plan, without trials.
fn scene(store: &Store, sweep: &Sweep) -> anyhow::Result<Scene> {
    let SweepSummary { id, selector, name, started, state, trials, .. } = &sweep.summary;
    let header = header(sweep, None)?;
    // What a plan refers to may no longer exist, and imported tables have none: then its trials must do.
    let plan = Plan::parse(&sweep.plan_toml, name, &sweep.overrides).ok();
    let (cases, blocks, sentinel) = match &plan {
        Some(plan) => {
            let label = |case: fsdyno_sweep::Case| CaseLabel {
                case: case.index,
                configuration: case.configuration.name,
                workload: case.label.into_owned(),
            };
            let slots = order(plan);
            let blocks = slots.last().map_or(0, |slot| slot.block + 1);
            let sentinel = slots.iter().find(|slot| slot.sentinel).map(|slot| slot.case);
            (plan.cases().into_iter().map(label).collect(), blocks, sentinel)
        }
        None => of_trials(&store.outlines(*id)?),
    };
    let state = match state {
        SweepState::Running => State::Running,
        SweepState::Interrupted => State::Interrupted,
        SweepState::Finished => State::Finished,
    };
    let facts = SweepFacts {
        selector: selector.clone(),
        name: name.clone(),
        started: started.clone(),
        measure: header.measure,
        seed: header.seed,
        trials: *trials,
        blocks,
        sentinel,
        is_race: header.race.is_some(),
        state,
    };
    Ok(Scene::new(facts, cases))
}

/// Cases, blocks and sentinel as far as trials show them.
fn of_trials(trials: &[TrialRecord]) -> (Vec<CaseLabel>, u32, Option<u32>) {
    let mut cases: Vec<CaseLabel> = Vec::new();
    let workloads = Workloads::of(trials);
    for trial in trials {
        if cases.iter().all(|known| known.case != trial.case) {
            cases.push(CaseLabel {
                case: trial.case,
                configuration: trial.configuration.name.clone(),
                workload: workloads.name(&trial.workload).into_owned(),
            });
        }
    }
    cases.sort_by_key(|case| case.case);
    let blocks = trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    (cases, blocks, trials.iter().find(|trial| trial.sentinel).map(|trial| trial.case))
}
