//! Everything that is shown of a sweep: what is stored of it, and where it is.

use crate::race::{DroppedCase, RaceCourse};
use crate::status::{Now, Stage, Status};
use fsdyno_core::glance::Glance;
use fsdyno_core::{AfterTrial, Measure, Nanos, Outcome, Role, TrialRecord};
use fsdyno_verdict::outcomes::{self, WarningGroup};
use fsdyno_verdict::ranking::{CaseEstimate, standings};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of seconds for which the slowest operations are kept.
const STRIP: usize = 240;

/// A sweep as the store knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepFacts {
    /// The text with which a user selects it.
    pub selector: String,
    /// The name of its plan.
    pub name: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The measure that it ranks by.
    pub measure: Measure,
    /// Its seed.
    pub seed: u64,
    /// Planned trials.
    pub trials: u32,
    /// Planned blocks.
    pub blocks: u32,
    /// The case that is repeated as the sentinel.
    pub sentinel: Option<u32>,
    /// `true` if it is a race.
    pub is_race: bool,
    /// The state.
    pub state: State,
}

/// The state of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It prepares.
    Starting,
    /// A process runs it.
    Running,
    /// It waits between two trials.
    Paused,
    /// Every planned trial is stored.
    Finished,
    /// It was stopped, and can be resumed.
    Interrupted,
    /// Its process was killed; it can be resumed.
    Killed,
}

impl State {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Paused => "PAUSED",
            State::Finished => "finished",
            State::Interrupted => "interrupted",
            State::Killed => "killed",
        }
    }

    /// Returns whether a process runs the sweep.
    pub const fn is_alive(self) -> bool {
        matches!(self, State::Starting | State::Running | State::Paused)
    }
}

/// The names of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseLabel {
    /// Its index in the plan.
    pub case: u32,
    /// Name of the configuration.
    pub configuration: String,
    /// Kind of the workload.
    pub workload: String,
}

/// A trial on the grid of cases and blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Not run yet.
    ToCome,
    /// In progress.
    Running,
    /// Measured.
    Measured,
    /// Measured, with warnings.
    Warned,
    /// Failed.
    Failed,
    /// This machine cannot run it.
    Skipped,
    /// The race has dropped the configuration before.
    Dropped,
    /// The sweep has ended without it.
    Missing,
}

impl Cell {
    /// Its sign, and what it means.
    pub const fn sign(self) -> char {
        match self {
            Cell::ToCome => '.',
            Cell::Running => '>',
            Cell::Measured => 'o',
            Cell::Warned => 'w',
            Cell::Failed => 'X',
            Cell::Skipped => '-',
            Cell::Dropped => '/',
            Cell::Missing => ' ',
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Row {
    /// Begins the cases of one load.
    Heading(String),
    Case(CaseRow),
}

/// A case, or the sentinel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseRow {
    pub case: u32,
    pub name: String,
    pub sentinel: bool,
    /// Its place, from 1.
    pub rank: Option<usize>,
    pub measure: Measure,
    pub figure: Option<CaseEstimate>,
    /// Measured trials.
    pub trials: usize,
    /// `true` if it weakens what survives a power cut.
    pub risky: bool,
    /// `true` if the race has dropped it.
    pub dropped: bool,
}

/// The contents of the screen.
#[derive(Debug)]
pub struct Scene {
    pub(crate) sweep: SweepFacts,
    cases: Vec<CaseLabel>,
    trials: Vec<TrialRecord>,
    pub(crate) status: Option<Status>,
    /// The race, once a block of it is complete.
    race: Option<RaceCourse>,
    pub(crate) rows: Vec<Row>,
    pub(crate) warnings: Vec<WarningGroup>,
    grid: BTreeMap<(u32, bool), BTreeMap<u32, Cell>>,
    /// The latest glance of the phase in progress.
    pub(crate) glance: Option<Glance>,
    /// The slowest operation of each second of the phase, by role.
    strips: Vec<(Role, VecDeque<Nanos>)>,
    strip_of: (u32, String),
    /// The cost of glances at the first one of the phase that was seen, and the time since then.
    glanced: Option<(Nanos, Nanos)>,
    /// The cost of watching: share of one processor.
    pub(crate) own_cost: Option<f64>,
    /// The time for which the sweep has said nothing, if that is long.
    pub(crate) silence: Option<Nanos>,
}

impl Scene {
    /// A sweep with these cases, of which nothing is measured yet.
    pub fn new(sweep: SweepFacts, cases: Vec<CaseLabel>) -> Self {
        let mut scene = Scene {
            sweep,
            cases,
            trials: Vec::new(),
            status: None,
            race: None,
            rows: Vec::new(),
            warnings: Vec::new(),
            grid: BTreeMap::new(),
            glance: None,
            strips: Vec::new(),
            strip_of: (0, String::new()),
            glanced: None,
            own_cost: None,
            silence: None,
        };
        scene.arrange();
        scene
    }

    /// The trials so far, in outline.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.trials
    }

    /// Adds trials that were stored meanwhile.
    pub fn add(&mut self, trials: Vec<TrialRecord>) {
        self.trials.extend(trials);
        self.arrange();
    }

    /// A block of the race is complete.
    pub fn set_race(&mut self, course: &RaceCourse) {
        if self.race.as_ref() != Some(course) {
            self.race = Some(course.clone());
            self.arrange();
        }
    }

    /// The race, if it is one and a block of it is complete.
    pub(crate) fn race(&self) -> Option<&RaceCourse> {
        self.race.as_ref()
    }

    /// When and why the race has dropped the case of a row.
    pub(crate) fn dropped(&self, case: u32, sentinel: bool) -> Option<&DroppedCase> {
        self.race.as_ref().filter(|_| !sentinel)?.dropped(case)
    }

    /// The sweep is in another state, or has planned further trials.
    pub fn set_sweep(&mut self, state: State, trials: u32) {
        (self.sweep.state, self.sweep.trials) = (state, trials);
    }

    /// The sweep has published something.
    pub fn set_status(&mut self, status: Status) {
        self.sweep.state = match status.stage {
            Stage::Starting => State::Starting,
            Stage::Running => State::Running,
            Stage::Paused => State::Paused,
            // The store says how.
            Stage::Ended => self.sweep.state,
        };
        if let Some(now) = &status.now {
            self.sweep.trials = now.trials;
            let of = (now.trial, now.progress.phase.clone());
            if of != self.strip_of {
                (self.strip_of, self.glance) = (of, None);
                self.strips.clear();
                self.glanced = None;
            }
            // A status is published again for other reasons, with the same glance.
            let glance = now.progress.glance.as_deref();
            if let Some(glance) = glance.filter(|new| self.glance.as_ref() != Some(*new)) {
                self.remember(glance.clone());
            }
        }
        self.status = Some(status);
    }

    /// Sets how long the sweep has published nothing, if that is long. A paused sweep has nothing to publish.
    pub fn set_silence(&mut self, silence: Option<Nanos>) {
        self.silence = silence.filter(|_| self.sweep.state == State::Running);
    }

    fn remember(&mut self, glance: Glance) {
        for role in glance.roles.iter().filter(|role| role.is_timed()) {
            let strip = match self.strips.iter_mut().find(|(known, _)| *known == role.role) {
                Some((_, strip)) => strip,
                None => {
                    self.strips.push((role.role, VecDeque::new()));
                    let Some((_, strip)) = self.strips.last_mut() else { continue };
                    strip
                }
            };
            strip.push_back(role.slowest_ns);
            if strip.len() > STRIP {
                strip.pop_front();
            }
        }
        match &mut self.glanced {
            Some((_, since)) => since.0 = since.0.saturating_add(glance.length_ns.0),
            None => self.glanced = Some((glance.cost_ns, Nanos(0))),
        }
        self.glance = Some(glance);
    }

    /// Returns the cost of glances at the workers, as a share of one processor.
    pub(crate) fn glance_cost(&self) -> f64 {
        let Some((glance, (first, since))) = self.glance.as_ref().zip(self.glanced) else { return 0.0 };
        let cost = glance.cost_ns.0.saturating_sub(first.0);
        if since.0 == 0 { 0.0 } else { cost as f64 / since.0 as f64 }
    }

    /// The slowest operations of a role, one for each second of the phase in progress.
    pub(crate) fn strip(&self, role: Role) -> impl DoubleEndedIterator<Item = Nanos> + ExactSizeIterator {
        static NOTHING: VecDeque<Nanos> = VecDeque::new();
        let strip = self.strips.iter().find(|(known, _)| *known == role);
        strip.map_or(&NOTHING, |(_, strip)| strip).iter().copied()
    }

    /// The trial in progress.
    pub(crate) fn now(&self) -> Option<&Now> {
        let status = self.status.as_ref().filter(|_| self.sweep.state == State::Running)?;
        status.now.as_ref()
    }

    /// Returns whether the sweep says that it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.stage == Stage::Ended)
    }

    /// Shows at once what this watcher has asked for.
    pub(crate) fn ask(&mut self, wish: AfterTrial) {
        if let Some(status) = &mut self.status {
            status.asked = wish;
        }
    }

    /// Returns the action that somebody has asked for.
    pub(crate) fn asked(&self) -> AfterTrial {
        self.status
            .as_ref()
            .filter(|_| self.sweep.state.is_alive())
            .map_or_else(Default::default, |s| s.asked)
    }

    /// Stored trials.
    pub(crate) fn done(&self) -> usize {
        self.trials.len()
    }

    /// The trials of a row, in order.
    pub(crate) fn trials_of(&self, case: u32, sentinel: bool) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(move |trial| (trial.case, trial.sentinel) == (case, sentinel))
    }

    /// The cells of a row, one for each block.
    pub(crate) fn cells(&self, case: u32, sentinel: bool) -> Vec<Cell> {
        let known = self.grid.get(&(case, sentinel));
        let now = self.now().filter(|now| (now.case, now.sentinel) == (case, sentinel)).map(|now| now.block);
        let missing = if self.sweep.state.is_alive() { Cell::ToCome } else { Cell::Missing };
        let dropped_before = self.dropped(case, sentinel).map(|dropped| dropped.blocks);
        let cell = |block: u32| match known.and_then(|blocks| blocks.get(&block)) {
            Some(cell) => *cell,
            None if now == Some(block) => Cell::Running,
            None if dropped_before.is_some_and(|first| block >= first) => Cell::Dropped,
            None => missing,
        };
        (0..self.blocks()).map(cell).collect()
    }

    /// Blocks, planned and begun.
    pub(crate) fn blocks(&self) -> u32 {
        let begun = self.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        let raced = self.race.as_ref().map_or(0, |race| race.blocks);
        self.sweep.blocks.max(begun).max(raced).max(self.now().map_or(0, |now| now.block + 1))
    }

    /// Returns the number of failed and of skipped trials.
    pub(crate) fn counts(&self) -> [(usize, &'static str); 2] {
        let count = |is: fn(&Outcome) -> bool| self.trials.iter().filter(|trial| is(&trial.outcome)).count();
        [
            (count(|outcome| matches!(outcome, Outcome::Failed { .. })), "failed"),
            (count(|outcome| matches!(outcome, Outcome::Skipped { .. })), "skipped"),
        ]
    }

    /// The trials that count for the figures: of the last few of a race, which were selected by their earlier
    /// figures, only the fresh ones do, as soon as there is one.
    fn counted(&self) -> Cow<'_, [TrialRecord]> {
        let Some(fresh_from) = self.race.as_ref().and_then(|race| race.fresh_from) else {
            return Cow::Borrowed(&self.trials);
        };
        let fresh: BTreeSet<u32> = self
            .trials
            .iter()
            .filter(|trial| trial.block >= fresh_from && !trial.sentinel && outcomes::is_measured(trial))
            .map(|trial| trial.case)
            .collect();
        let counts = |trial: &&TrialRecord| trial.block >= fresh_from || !fresh.contains(&trial.case);
        self.trials.iter().filter(counts).cloned().collect()
    }

    /// Ranks what is measured, and arranges the rest below it.
    fn arrange(&mut self) {
        self.grid.clear();
        for trial in &self.trials {
            let cell = match &trial.outcome {
                Outcome::Measured if trial.warnings.is_empty() => Cell::Measured,
                Outcome::Measured => Cell::Warned,
                Outcome::Failed { .. } => Cell::Failed,
                Outcome::Skipped { .. } => Cell::Skipped,
            };
            self.grid.entry((trial.case, trial.sentinel)).or_default().insert(trial.block, cell);
        }
        self.warnings = outcomes::warnings(self.trials.iter());
        let rankings = standings(&self.sweep.measure, self.sweep.seed, &self.counted());
        let workloads = self.cases.iter().any(|case| case.workload != self.cases[0].workload);
        let name = |case: &CaseLabel| match workloads {
            true => format!("{} ({})", case.configuration, case.workload),
            false => case.configuration.clone(),
        };
        let names: BTreeMap<u32, String> = self.cases.iter().map(|case| (case.case, name(case))).collect();
        let name_of = |case: u32, other: &str| names.get(&case).cloned().unwrap_or_else(|| other.to_string());
        let mut rows = Vec::new();
        let mut seen = Vec::new();
        for ranking in &rankings {
            if rankings.len() > 1 {
                rows.push(Row::Heading(ranking.title.clone()));
            }
            // What the race has dropped comes after what is left, without a place.
            let (dropped, left): (Vec<_>, Vec<_>) =
                ranking.rows.iter().partition(|row| self.dropped(row.case, false).is_some());
            for (index, row) in left.iter().chain(&dropped).enumerate() {
                seen.push(row.case);
                let is_left = index < left.len();
                rows.push(Row::Case(CaseRow {
                    case: row.case,
                    name: name_of(row.case, &row.name),
                    sentinel: false,
                    rank: row.figures[0].filter(|_| is_left).map(|_| index + 1),
                    measure: ranking.measure().clone(),
                    figure: row.figures[0],
                    trials: row.trials,
                    risky: !row.risks.is_empty(),
                    dropped: !is_left,
                }));
            }
        }
        let empty = |case: u32, name: String, sentinel: bool, trials: usize| {
            let measure = self.sweep.measure.clone();
            Row::Case(CaseRow {
                case,
                name,
                sentinel,
                rank: None,
                measure,
                figure: None,
                trials,
                risky: false,
                dropped: self.dropped(case, sentinel).is_some(),
            })
        };
        let rest = self.cases.iter().filter(|case| !seen.contains(&case.case));
        let rest: Vec<Row> = rest.map(|case| empty(case.case, name_of(case.case, ""), false, 0)).collect();
        if rankings.len() > 1 && !rest.is_empty() {
            rows.push(Row::Heading("not measured yet".to_string()));
        }
        rows.extend(rest);
        if let Some(case) = self.sweep.sentinel {
            let measured = self.trials_of(case, true).filter(|trial| outcomes::is_measured(trial)).count();
            let row = empty(case, format!("sentinel: {}", name_of(case, "")), true, measured);
            rows.push(row);
        }
        self.rows = rows;
    }
}

#[cfg(test)]
pub(crate) mod tests;
