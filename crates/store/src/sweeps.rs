//! Begins, ends and finds sweeps.

use crate::error::{Result, StoreError, Trying};
use crate::kept::RunningSweep;
use crate::packed::Packed;
use crate::row::{from_json, from_json_or_none, insert, number, to_json};
use crate::{Store, SweepId, check_room, measures, process, trials};
use fsdyno_core::outcome::chain;
use fsdyno_core::sweep_name::LATEST;
use fsdyno_core::{Environment, Looks, TrialRecord};
use jiff::{Timestamp, Unit};
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A new sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSweep {
    /// The name of the plan.
    pub name: String,
    /// The plan, as the user wrote it.
    pub plan_toml: String,
    /// The changes that the command line made to the plan: `path=value`.
    pub overrides: Vec<String>,
    /// The seed from which the seeds of all trials derive.
    pub seed: u64,
    /// The name of the measure that the summary ranks by.
    pub measure: String,
    /// The machine, as far as it is known before the first trial.
    pub environment: Option<Environment>,
    /// The number of cases.
    pub cases: u32,
    /// The number of planned trials.
    pub trials: u32,
}

/// The state of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepState {
    /// A process runs it.
    Running,
    /// It was stopped, or its process was killed; it can be resumed.
    Interrupted,
    /// Every planned trial is stored.
    Finished,
}

impl SweepState {
    /// `running`, `interrupted` or `finished`.
    pub const fn name(self) -> &'static str {
        match self {
            SweepState::Running => "running",
            SweepState::Interrupted => "interrupted",
            SweepState::Finished => "finished",
        }
    }
}

impl fmt::Display for SweepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where a sweep comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// fsdyno ran it with this store.
    Run,
    /// It was imported from files of other programs.
    Import,
    /// It was unpacked from a file.
    Pack,
}

impl Origin {
    const fn name(self) -> &'static str {
        match self {
            Origin::Run => "run",
            Origin::Import => "import",
            Origin::Pack => "pack",
        }
    }
}

/// A sweep as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSummary {
    /// Its number.
    pub id: SweepId,
    /// The text with which a user selects it: its number, or `root:` and its number.
    pub selector: String,
    /// The name of its plan.
    pub name: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// When it finished or was last interrupted; absent while it runs and after a kill.
    pub finished: Option<String>,
    /// Its state.
    pub state: SweepState,
    /// Where it comes from.
    pub origin: Origin,
    /// The note of the user about it.
    pub note: Option<String>,
    /// The number of cases.
    pub cases: u32,
    /// The number of planned trials.
    pub trials: u32,
    /// The number of stored trials that were measured.
    pub measured: u32,
    /// The number of stored trials that were skipped.
    pub skipped: u32,
    /// The number of stored trials that failed.
    pub failed: u32,
}

impl SweepSummary {
    /// The number of stored trials, however they ended.
    pub fn done(&self) -> u32 {
        self.measured + self.skipped + self.failed
    }

    /// Returns whether the sweep is finished and has results, so that it can be the latest one.
    pub fn is_complete(&self) -> bool {
        self.state == SweepState::Finished && self.measured > 0
    }

    /// Returns the outcome of the sweep, as the end of a sentence about it.
    pub fn end(&self) -> String {
        match self.state {
            SweepState::Running => {
                format!("is still running, with {} of {} trials", self.done(), self.trials)
            }
            SweepState::Interrupted => {
                format!("was interrupted after {} of {} trials", self.done(), self.trials)
            }
            SweepState::Finished if self.measured == 0 => "measured nothing".to_string(),
            SweepState::Finished => "is finished".to_string(),
        }
    }
}

/// The sweep that a user selects from several, oldest first, by its selector, its number or its name (the
/// latest of that name); `None` or `latest` selects the one that started last of those that are finished and
/// have results. Where two stores have the same number, the first one in `sweeps` without a prefix counts.
///
/// # Errors
/// [`StoreError::NoSweeps`]; [`StoreError::NoneFinished`]; [`StoreError::UnknownSweep`] with the nearest
/// name.
pub fn select<'a>(sweeps: &'a [SweepSummary], selector: Option<&str>) -> Result<&'a SweepSummary> {
    let Some(last) = sweeps.last() else {
        return Err(StoreError::NoSweeps);
    };
    let selector = selector.map_or(LATEST, str::trim);
    let by_selector = || sweeps.iter().find(|sweep| sweep.selector == selector);
    let by_number = || sweeps.iter().find(|sweep| selector.parse() == Ok(sweep.id.0));
    let by_name = || sweeps.iter().rev().find(|sweep| sweep.name == selector);
    // A sweep that is called that is selected by its number.
    let named = || by_selector().or_else(by_number).or_else(by_name);
    if let Some(found) = (selector != LATEST).then(named).flatten() {
        return Ok(found);
    }
    if selector == LATEST {
        return sweeps.iter().rev().find(|sweep| sweep.is_complete()).ok_or_else(|| {
            StoreError::NoneFinished {
                selector: last.selector.clone(),
                name: last.name.clone(),
                end: last.end(),
            }
        });
    }
    let known = sweeps.iter().map(|sweep| sweep.name.as_str()).chain([LATEST]);
    let nearest = fsdyno_core::nearest(selector, known).map(str::to_string);
    Err(StoreError::UnknownSweep { selector: selector.to_string(), nearest })
}

/// A sweep with all that is needed to show or resume it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Its line in the list.
    pub summary: SweepSummary,
    /// See [`NewSweep::plan_toml`].
    pub plan_toml: String,
    /// See [`NewSweep::overrides`].
    pub overrides: Vec<String>,
    /// See [`NewSweep::seed`].
    pub seed: u64,
    /// See [`NewSweep::measure`].
    pub measure: String,
    /// See [`NewSweep::environment`].
    pub environment: Option<Environment>,
    /// The looks at its trials that decided how many there are.
    pub looks: Looks,
}

/// The sweeps of a store.
#[derive(Debug, Default)]
pub struct AllSweeps {
    /// Those that can be read, the one that began first at the top.
    pub readable: Vec<SweepSummary>,
    /// Those of which something beside their trials cannot be read, each with its
    /// [`StoreError::DamagedSweep`].
    pub damaged: Vec<(SweepId, StoreError)>,
}

const SUMMARY: &str =
    "SELECT sweeps.id, name, sweeps.started, sweeps.finished, state, process, cases, trials,
        coalesce(sum(outcome = 'measured'), 0) AS measured,
        coalesce(sum(outcome = 'skipped'), 0) AS skipped,
        coalesce(sum(outcome = 'failed'), 0) AS failed,
        plan_toml, overrides, sweeps.seed AS seed, measure, sweeps.environment AS environment, note, origin, looks
    FROM sweeps LEFT JOIN trials ON trials.sweep_id = sweeps.id";

/// The expression that orders sweeps: when they began, but of those that were run here not before an earlier
/// one.
const BEGAN: &str = "CASE origin
        WHEN 'run' THEN max(julianday(sweeps.started)) FILTER (WHERE origin = 'run') OVER (ORDER BY sweeps.id)
        ELSE julianday(sweeps.started)
    END";

impl Store {
    /// Begins a sweep that this process runs.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn create_sweep(&mut self, sweep: &NewSweep) -> Result<SweepId> {
        let started = now();
        let action = "begin a sweep";
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let id = begin(&transaction, sweep, &started, Origin::Run)?;
        transaction.commit().trying_to(action)?;
        self.running = Some(RunningSweep { sweep: id, started });
        Ok(id)
    }

    /// Stores a sweep that was run elsewhere, with all of its trials or not at all.
    ///
    /// # Errors
    /// Those of [`Store::create_sweep`] and [`Store::add_trial`]; [`StoreError::NoRoom`].
    pub fn import_sweep(&mut self, sweep: &NewSweep, records: &[TrialRecord]) -> Result<SweepId> {
        let action = "import a sweep";
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let id = begin(&transaction, sweep, &now(), Origin::Import)?;
        let mut bytes = 0;
        for trial in records {
            let packed = Packed::new(trial)?;
            bytes += packed.bytes();
            check_room(&self.path, bytes)?;
            trials::insert(&transaction, id, trial, &packed)?;
            measures::add(&transaction, id.0, trial)?;
        }
        end(&transaction, id, SweepState::Finished).trying_to(action)?;
        transaction.commit().trying_to(action)?;
        Ok(id)
    }

    /// Records the number of planned trials, including those of a further block.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn plan_trials(&mut self, id: SweepId, trials: u32) -> Result<()> {
        let sql = "UPDATE sweeps SET trials = :trials WHERE id = :id";
        let values = named_params! { ":trials": trials, ":id": id.0 };
        self.connection.execute(sql, values).map(drop).trying_to("plan a further block")
    }

    /// Records the looks at the trials of a sweep that decide how many there are.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::Encode`].
    pub fn record_looks(&mut self, id: SweepId, looks: &Looks) -> Result<()> {
        set_looks(&self.connection, id, looks)
    }

    /// Those of a sweep; none of an unknown one.
    pub(crate) fn looks(&self, id: SweepId) -> Result<Looks> {
        let action = "read the looks of a sweep";
        let sql = "SELECT looks FROM sweeps WHERE id = :id";
        let mut statement = self.connection.prepare_cached(sql).trying_to(action)?;
        let mut rows = statement.query(named_params! { ":id": id.0 }).trying_to(action)?;
        let Some(row) = rows.next().trying_to(action)? else { return Ok(Looks::default()) };
        Ok(from_json_or_none(row, "looks")?.unwrap_or_default())
    }

    /// Records that every planned trial of a sweep is stored.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn finish_sweep(&mut self, id: SweepId) -> Result<()> {
        self.end_sweep(id, SweepState::Finished)
    }

    /// Ends the sweeps that were interrupted and have every planned trial all the same: the last one was kept
    /// in a file and added later. Returns them.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn finish_complete(&mut self) -> Result<Vec<SweepId>> {
        let is_complete = |sweep: &SweepSummary| {
            let stored = sweep.measured + sweep.skipped + sweep.failed;
            sweep.state == SweepState::Interrupted && sweep.origin == Origin::Run && stored == sweep.trials
        };
        let complete: Vec<SweepId> =
            self.sweeps()?.iter().filter(|one| is_complete(one)).map(|one| one.id).collect();
        complete.iter().try_for_each(|id| self.finish_sweep(*id))?;
        Ok(complete)
    }

    /// Records that a sweep was interrupted.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn interrupt_sweep(&mut self, id: SweepId) -> Result<()> {
        self.end_sweep(id, SweepState::Interrupted)
    }

    fn end_sweep(&mut self, id: SweepId, state: SweepState) -> Result<()> {
        end(&self.connection, id, state).trying_to("end a sweep")
    }

    /// Resumes a sweep that was interrupted, or whose process was killed, in this process. It continues with
    /// the trials that are not stored; failed trials are stored and stay as they are.
    ///
    /// # Errors
    /// [`StoreError::Running`] if another process is running it; [`StoreError::Sql`].
    pub fn resume_sweep(&mut self, id: SweepId) -> Result<()> {
        let action = "resume a sweep";
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let sql = "SELECT process FROM sweeps WHERE id = :id AND state = 'running'";
        let runner: Option<String> = transaction
            .query_row(sql, named_params! { ":id": id.0 }, |row| row.get(0))
            .optional()
            .trying_to(action)?;
        if runner.is_some_and(|runner| process::is_alive(&runner)) {
            return Err(StoreError::Running { sweep: id });
        }
        let sql = "UPDATE sweeps SET state = 'running', finished = NULL, process = :process WHERE id = :id";
        let values = named_params! { ":process": process::this(), ":id": id.0 };
        transaction.execute(sql, values).trying_to(action)?;
        let sql = "SELECT started FROM sweeps WHERE id = :id";
        let started = transaction.query_row(sql, named_params! { ":id": id.0 }, |row| row.get(0));
        let started: Option<String> = started.optional().trying_to(action)?;
        transaction.commit().trying_to(action)?;
        self.running = started.map(|started| RunningSweep { sweep: id, started });
        Ok(())
    }

    /// All sweeps that can be read, the one that began first at the top. Those that were run with this store
    /// began in the order of their numbers, even if the clock was set back in between.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn sweeps(&self) -> Result<Vec<SweepSummary>> {
        Ok(self.all_sweeps()?.readable)
    }

    /// The same, and the sweeps that cannot be read.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn all_sweeps(&self) -> Result<AllSweeps> {
        let action = "list sweeps";
        let sql = format!("{SUMMARY} GROUP BY sweeps.id ORDER BY {BEGAN}, sweeps.id");
        let mut statement = self.connection.prepare_cached(&sql).trying_to(action)?;
        let mut rows = statement.query([]).trying_to(action)?;
        let mut all = AllSweeps::default();
        while let Some(row) = rows.next().trying_to(action)? {
            let id = SweepId(row.get("id").trying_to(action)?);
            match self.whole(id, row) {
                Ok(sweep) => all.readable.push(sweep.summary),
                Err(error) => all.damaged.push((id, error)),
            }
        }
        Ok(all)
    }

    fn whole(&self, id: SweepId, row: &Row<'_>) -> Result<Sweep> {
        whole(row, self.prefix).map_err(|error| {
            let (path, reason) = (self.path.clone(), chain(&error));
            StoreError::DamagedSweep { path, sweep: id, reason }
        })
    }

    /// The sweep that a user selects, see [`select`].
    ///
    /// # Errors
    /// Those of [`select`]; [`StoreError::Sql`].
    pub fn find(&self, selector: Option<&str>) -> Result<Sweep> {
        let sweeps = self.sweeps()?;
        self.sweep(select(&sweeps, selector)?.id)
    }

    /// The sweep of this number.
    ///
    /// # Errors
    /// [`StoreError::UnknownSweep`]; [`StoreError::Sql`]; [`StoreError::DamagedSweep`].
    pub fn sweep(&self, id: SweepId) -> Result<Sweep> {
        let action = "read a sweep";
        let sql = format!("{SUMMARY} WHERE sweeps.id = :id GROUP BY sweeps.id");
        let mut statement = self.connection.prepare_cached(&sql).trying_to(action)?;
        let mut rows = statement.query(named_params! { ":id": id.0 }).trying_to(action)?;
        match rows.next().trying_to(action)? {
            Some(row) => self.whole(id, row),
            None => Err(StoreError::UnknownSweep { selector: id.to_string(), nearest: None }),
        }
    }
}

/// Adds the row of a sweep, with a number that none had before. The caller's transaction must be one that
/// writes.
pub(crate) fn begin(
    connection: &Connection,
    sweep: &NewSweep,
    started: &str,
    origin: Origin,
) -> Result<SweepId> {
    let action = "begin a sweep";
    let last = "SELECT max(last, coalesce((SELECT max(id) FROM sweeps), 0)) FROM numbers";
    let last: i64 = connection.query_row(last, [], |row| row.get(0)).trying_to(action)?;
    let id = insert(
        connection,
        "sweeps",
        &[
            ("id", &last.saturating_add(1)),
            ("name", &sweep.name),
            ("plan_toml", &sweep.plan_toml),
            ("overrides", &to_json("overrides", &sweep.overrides)?),
            ("seed", &sweep.seed.to_string()),
            ("measure", &sweep.measure),
            ("environment", &sweep.environment.as_ref().map(|e| to_json("environment", e)).transpose()?),
            ("cases", &sweep.cases),
            ("trials", &sweep.trials),
            ("state", &SweepState::Running.name()),
            ("process", &process::this()),
            ("started", &started),
            ("origin", &origin.name()),
        ],
    );
    id.trying_to(action).map(SweepId)
}

/// Records how a sweep ended elsewhere.
pub(crate) fn set_end(
    connection: &Connection,
    id: SweepId,
    state: SweepState,
    finished: Option<&str>,
    note: Option<&str>,
) -> rusqlite::Result<()> {
    let sql = "UPDATE sweeps SET state = :state, finished = :finished, note = :note WHERE id = :id";
    let state = state.name();
    let values = named_params! { ":state": state, ":finished": finished, ":note": note, ":id": id.0 };
    connection.execute(sql, values).map(drop)
}

/// See [`Store::record_looks`].
pub(crate) fn set_looks(connection: &Connection, id: SweepId, looks: &Looks) -> Result<()> {
    let looks = (!looks.is_empty()).then(|| to_json("looks", looks)).transpose()?;
    let sql = "UPDATE sweeps SET looks = :looks WHERE id = :id";
    let values = named_params! { ":looks": looks, ":id": id.0 };
    connection.execute(sql, values).map(drop).trying_to("record a look")
}

fn end(connection: &Connection, id: SweepId, state: SweepState) -> rusqlite::Result<()> {
    let sql = "UPDATE sweeps SET state = :state, finished = :finished WHERE id = :id";
    let values = named_params! { ":state": state.name(), ":finished": now(), ":id": id.0 };
    connection.execute(sql, values).map(drop)
}

fn summary(row: &Row<'_>, prefix: &str) -> Result<SweepSummary> {
    let origin: Origin = crate::row::word(row, "origin")?;
    let state: SweepState = crate::row::word(row, "state")?;
    let read = || -> rusqlite::Result<SweepSummary> {
        let killed = state == SweepState::Running && !process::is_alive(&row.get::<_, String>("process")?);
        Ok(SweepSummary {
            id: SweepId(row.get("id")?),
            selector: format!("{prefix}{}", row.get::<_, i64>("id")?),
            name: row.get("name")?,
            started: row.get("started")?,
            finished: row.get("finished")?,
            state: if killed { SweepState::Interrupted } else { state },
            origin,
            note: row.get("note")?,
            cases: row.get("cases")?,
            trials: row.get("trials")?,
            measured: row.get("measured")?,
            skipped: row.get("skipped")?,
            failed: row.get("failed")?,
        })
    };
    read().trying_to("read a sweep")
}

fn whole(row: &Row<'_>, prefix: &str) -> Result<Sweep> {
    let text = |column| row.get::<_, String>(column).trying_to("read a sweep");
    Ok(Sweep {
        summary: summary(row, prefix)?,
        plan_toml: text("plan_toml")?,
        overrides: from_json(row, "overrides")?,
        seed: number(row, "seed")?,
        measure: text("measure")?,
        environment: from_json_or_none(row, "environment")?,
        looks: from_json_or_none(row, "looks")?.unwrap_or_default(),
    })
}

/// Now, to the millisecond, RFC 3339, UTC.
fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now).to_string()
}
