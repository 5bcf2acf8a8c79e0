//! One sweep as one portable file.
//!
//! It is a zstd stream of lines of JSON: the sweep, each of its trials with everything that is stored about
//! it, and the number of trials as the last line, without which the file has been cut off. A later version
//! reads it, because a trial is its public JSON.
//!
//! Such a file may come from anywhere. What it may expand to is bounded line by line before anything is
//! expanded; every figure and name is held against the limits that imports have; and nothing is stored unless
//! all of it is valid.

use crate::error::{Result, StoreError, Trying};
use crate::packed::{Packed, WINDOW_LOG_MAX};
use crate::sweeps::{NewSweep, Origin, SweepState, begin, set_end, set_looks};
use crate::{Store, SweepId, check_room, measures, trials};
use fsdyno_core::result::SLOWEST;
use fsdyno_core::{Environment, Looks, Measure, TrialRecord, figures, sweep_name};
use fsdyno_stats::Distribution;
use jiff::{SignedDuration, Timestamp};
use rusqlite::TransactionBehavior;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};

const VERSION: u32 = 1;
/// A file is compressed once and then sent and kept.
const LEVEL: i32 = 12;
/// The longest line in bytes; the largest trial seen has less than a hundredth of it.
const LINE_MAX: u64 = 160 << 20;
/// The most bytes of all lines together.
const WHOLE_MAX: u64 = 16 << 30;
/// As many trials as a plan may have.
const TRIALS_MAX: u32 = 1_000_000;
/// The longest name in bytes, as for imports.
const NAME_MAX: usize = sweep_name::LONGEST;
/// The longest plan, list of overrides, or note in bytes.
const TEXT_MAX: usize = 1 << 20;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    fsdyno_sweep: u32,
    name: String,
    note: Option<String>,
    plan_toml: String,
    overrides: Vec<String>,
    /// Decimal: programs that read JSON hold only 53 bits exactly.
    seed: String,
    measure: String,
    environment: Option<Environment>,
    cases: u32,
    trials: u32,
    state: SweepState,
    started: String,
    finished: Option<String>,
    #[serde(default, skip_serializing_if = "Looks::is_empty")]
    looks: Looks,
}

/// The part of the first line that says how to read the rest.
#[derive(Debug, Deserialize)]
struct Version {
    fsdyno_sweep: u32,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tail {
    end_after_trials: u32,
}

/// A sweep that was unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Its number in this store.
    pub id: SweepId,
    /// Its name.
    pub name: String,
    /// The number of its trials.
    pub trials: u32,
}

impl Store {
    /// Writes a sweep as one file.
    ///
    /// # Errors
    /// [`StoreError::Running`] while it runs here; [`StoreError::Pack`]; those of [`Store::sweep`] and
    /// [`Store::trials`].
    pub fn pack(&self, id: SweepId, out: impl Write) -> Result<()> {
        let sweep = self.sweep(id)?;
        let summary = sweep.summary;
        if summary.state == SweepState::Running {
            return Err(StoreError::Running { sweep: id });
        }
        let head = Head {
            fsdyno_sweep: VERSION,
            name: summary.name,
            note: summary.note,
            plan_toml: sweep.plan_toml,
            overrides: sweep.overrides,
            seed: sweep.seed.to_string(),
            measure: sweep.measure,
            environment: sweep.environment,
            cases: summary.cases,
            trials: summary.trials,
            state: summary.state,
            started: summary.started,
            finished: summary.finished,
            looks: sweep.looks,
        };
        let failed = |source| StoreError::Pack { source };
        let mut encoder = zstd::stream::write::Encoder::new(out, LEVEL).map_err(failed)?;
        encoder.include_checksum(true).map_err(failed)?;
        write_line(&mut encoder, &head)?;
        let mut count = 0;
        // One after the other: all of them together may be larger than memory.
        for trial in self.trial_numbers(id)? {
            write_line(&mut encoder, &self.trial(id, trial)?)?;
            count += 1;
        }
        write_line(&mut encoder, &Tail { end_after_trials: count })?;
        encoder.finish().and_then(|mut out| out.flush()).map_err(failed)
    }

    /// Stores a sweep from a file, under another name if one is given, with all of its trials or not at all.
    ///
    /// # Errors
    /// [`StoreError::NotPacked`] for whatever is wrong with it; [`StoreError::NoRoom`];
    /// [`StoreError::Sql`].
    pub fn unpack(&mut self, file: impl Read, name: Option<&str>) -> Result<Unpacked> {
        let action = "unpack a sweep";
        let decoder = zstd::stream::read::Decoder::new(file).and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Ok(decoder)
        });
        let mut lines = Lines { input: BufReader::new(decoder.map_err(unreadable)?), left: WHOLE_MAX };
        let (mut sweep, head) = lines.head()?;
        let given = name.unwrap_or(&sweep.name);
        sweep.name = sweep_name::check(given).map_err(|error| wrong(error.to_string()))?.to_string();
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let id = begin(&transaction, &sweep, &head.started, Origin::Pack)?;
        let (mut count, mut bytes) = (0, 0);
        while let Some(record) = lines.trial(count)? {
            let packed = Packed::new(&record)?;
            bytes += packed.bytes();
            check_room(&self.path, bytes)?;
            trials::insert(&transaction, id, &record, &packed)?;
            measures::add(&transaction, id.0, &record)?;
            count += 1;
        }
        let state = if head.state == SweepState::Finished { head.state } else { SweepState::Interrupted };
        set_end(&transaction, id, state, head.finished.as_deref(), head.note.as_deref()).trying_to(action)?;
        set_looks(&transaction, id, &head.looks)?;
        transaction.commit().trying_to(action)?;
        Ok(Unpacked { id, name: sweep.name, trials: count })
    }
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)
        .map_err(|source| StoreError::Encode { what: "the record of a trial", source })?;
    line.push(b'\n');
    out.write_all(&line).map_err(|source| StoreError::Pack { source })
}

/// The lines of a file that nobody vouches for.
struct Lines<R> {
    input: R,
    /// The number of bytes that the remaining lines may have.
    left: u64,
}

impl<R: BufRead> Lines<R> {
    /// The sweep.
    fn head(&mut self) -> Result<(NewSweep, Head)> {
        let line = self.next("its first line")?;
        let Version { fsdyno_sweep } = parsed(&line, "its first line")?;
        if fsdyno_sweep != VERSION {
            return Err(wrong(format!(
                "it has format version {fsdyno_sweep}, but this fsdyno supports only {VERSION}"
            )));
        }
        let head: Head = parsed(&line, "its first line")?;
        check_head(&head)?;
        let sweep = NewSweep {
            name: head.name.clone(),
            plan_toml: head.plan_toml.clone(),
            overrides: head.overrides.clone(),
            seed: head.seed.parse().map_err(|_| wrong("its seed is not a number"))?,
            measure: head.measure.clone(),
            environment: head.environment.clone(),
            cases: head.cases,
            trials: head.trials,
        };
        Ok((sweep, head))
    }

    /// The next trial, after this many; `None` at the end.
    fn trial(&mut self, count: u32) -> Result<Option<TrialRecord>> {
        let what = format!("trial {}", u64::from(count) + 1);
        let line = self.next(&what)?;
        if let Ok(Tail { end_after_trials }) = serde_json::from_slice(&line) {
            // Reading on verifies the checksum.
            let more = self.input.fill_buf().map_err(unreadable)?;
            return match more.is_empty() && end_after_trials == count {
                true => Ok(None),
                false => Err(wrong(format!("it ends after {count} trials, but should not"))),
            };
        }
        if count >= TRIALS_MAX {
            return Err(wrong(format!("it has more than {TRIALS_MAX} trials")));
        }
        let record: TrialRecord = parsed(&line, &what)?;
        check_trial(&record).map_err(|problem| wrong(format!("{what}: {problem}")))?;
        Ok(Some(record))
    }

    fn next(&mut self, what: &str) -> Result<Vec<u8>> {
        let most = LINE_MAX.min(self.left);
        let mut line = Vec::new();
        (&mut self.input).take(most + 1).read_until(b'\n', &mut line).map_err(unreadable)?;
        self.left = self.left.saturating_sub(line.len() as u64);
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ if line.len() as u64 >= most => Err(wrong(format!("{what} is too long"))),
            _ => Err(wrong("it has been cut off")),
        }
    }
}

fn check_head(head: &Head) -> Result<()> {
    let overrides: usize = head.overrides.iter().map(String::len).sum();
    let note = head.note.as_ref().map_or(0, String::len);
    for (what, length) in [("plan", head.plan_toml.len()), ("overrides", overrides), ("note", note)] {
        if length > TEXT_MAX {
            return Err(wrong(format!("its {what} has {length} bytes; the limit is {TEXT_MAX}")));
        }
    }
    if head.measure.parse::<Measure>().is_err() {
        return Err(wrong("its measure is not known"));
    }
    if head.trials > TRIALS_MAX || head.cases > TRIALS_MAX {
        return Err(wrong(format!("it plans more than {TRIALS_MAX} trials")));
    }
    let Looks { after, more, repeated } = &head.looks;
    if [after.len(), more.len(), repeated.len()].iter().any(|count| *count > head.trials as usize) {
        return Err(wrong("it was judged more often than it has trials"));
    }
    let times = [Some(&head.started), head.finished.as_ref()];
    let times = times.into_iter().flatten().map(|time| time.parse::<Timestamp>());
    let Ok(times) = times.collect::<std::result::Result<Vec<_>, _>>() else {
        return Err(wrong("its times are not valid"));
    };
    // It would be the latest sweep until then. Clocks may differ a little, but not by a day.
    let latest = Timestamp::now().saturating_add(SignedDuration::from_hours(24));
    match times.iter().all(|time| latest.as_ref().is_ok_and(|latest| time <= latest)) {
        true => Ok(()),
        false => Err(wrong("its times are in the future")),
    }
}

fn check_name(what: &str, name: &str) -> std::result::Result<(), String> {
    match name.len() {
        0 => Err(format!("the {what} is empty")),
        length if length > NAME_MAX => Err(format!("the {what} has {length} bytes; the limit is {NAME_MAX}")),
        _ => Ok(()),
    }
}

/// Figures that no measurement can produce, and names that nobody reads.
fn check_trial(record: &TrialRecord) -> std::result::Result<(), String> {
    check_name("name of the configuration", &record.configuration.name)?;
    for phase in &record.phases {
        check_name("name of a phase", &phase.name)?;
    }
    if record.trial >= TRIALS_MAX || record.case >= TRIALS_MAX || record.block >= TRIALS_MAX {
        return Err("its number is too large".to_string());
    }
    let roles = record.phases.iter().flat_map(|phase| &phase.roles);
    for operation in roles.flat_map(|role| &role.operations) {
        let name = operation.operation;
        if !operation.histogram.is_empty() && Distribution::decode(&operation.histogram).is_err() {
            return Err(format!("the histogram of '{name}' cannot be read"));
        }
        if operation.slowest.len() > SLOWEST {
            return Err(format!("'{name}' has more than {SLOWEST} slowest operations"));
        }
    }
    let TrialRecord { phases, lifecycle_ns, trees, filled, layout, .. } = record;
    let figures = serde_json::to_vec(&(phases, lifecycle_ns, trees, filled, layout));
    match figures.map(|json| figures::impossible(&json)) {
        Ok(None) => Ok(()),
        Ok(Some(figure)) => Err(format!("it contains an impossible figure, {figure}")),
        Err(error) => Err(error.to_string()),
    }
}

fn parsed<T: DeserializeOwned>(line: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(line).map_err(|error| {
        // The parser quotes words of any length.
        let problem: String = error.to_string().chars().take(200).collect();
        wrong(format!("{what}: {problem}"))
    })
}

fn wrong(problem: impl Into<String>) -> StoreError {
    StoreError::NotPacked { problem: problem.into() }
}

fn unreadable(error: io::Error) -> StoreError {
    wrong(format!("it cannot be read: {error}"))
}
