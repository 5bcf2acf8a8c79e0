//! `fsdyno selfcheck`: one short run of each load, with the kernel's own tracepoints as the witness.

use super::carry_out::{SweepRequest, carry_out, status};
use super::{Result, Surroundings, now, print_json, trouble};
use crate::cli::{DocumentFormat, Elsewhere, Selfcheck};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::interrupt::Interrupt;
use crate::out;
use crate::progress::Display;
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_core::{TrialRecord, Workload};
use fsdyno_path::Place;
use fsdyno_store::Store;
use fsdyno_sweep::{Plan, SweepOutcome, order};
use fsdyno_sys::timer::Timer;
use fsdyno_testbed::{Confirmation, MissingPrivilege, UndoJournal};
use fsdyno_verdict::text::plural;
use fsdyno_witness::{DeviceRow, Listener, Range, Row, Testimony, Way, way_ns};
use rustix::process::getppid;
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The file with the last one, below the directory of state.
const FILE: &str = "selfcheck.json";
/// The store with its trials.
const STORE: &str = "selfcheck.db";
/// Calls of which the kernel does nothing, to measure the way into it and out of it.
const CALLS: usize = 20_000;
/// The same where each finds the processor's caches full of something else.
const CALLS_COLD: usize = 200;
/// The number of times that this is measured; the median counts.
const TRIES: usize = 3;
/// More than most caches of a processor.
const BALLAST: usize = 32 << 20;
/// A line of them.
const LINE: usize = 64;

/// Where every load runs, short and small. Memory is not limited: what is checked is what fsdyno says of the
/// operations that there were, wherever the data was.
const PLACE: &str = r#"
name = "selfcheck"
repetitions = 1
telemetry = "200ms"
[device]
image = ""
size = "512M"
preallocate = "write"
[axes]
filesystem = "ext4"
"#;

/// The plan of all loads.
fn plan() -> String {
    let of_kind = |kind: &&str| {
        let runs = Workload::of_kind(kind).map_or(&[][..], |workload| workload.load().short_runs());
        let table = |run: &&str| format!("[[workloads]]\nkind = \"{kind}\"\n{run}\n");
        runs.iter().map(table).collect::<String>()
    };
    PLACE.to_string() + &Workload::KINDS.iter().map(of_kind).collect::<String>()
}

/// The record that is kept of a selfcheck.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    kept: KeptCheck,
    testimonies: &'a [Testimony],
}

/// Its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptCheck {
    /// When it ended.
    pub finished: String,
    /// Version of fsdyno.
    pub fsdyno: String,
    /// Figures that were compared.
    pub compared: usize,
    /// The number of these figures that agree.
    pub agree: usize,
    /// Medians that differ in trials in which others used the processors, which may be the reason.
    #[serde(default)]
    pub disturbed: usize,
    /// Events of the kernel that were lost: then nothing is proven.
    #[serde(default)]
    pub lost: u64,
    /// The clock of the engine.
    #[serde(default)]
    pub clock: String,
    /// The way into the kernel and out of it, with its tracepoints switched on.
    pub way: Way,
}

impl KeptCheck {
    /// Returns true if every difference may be caused by other processes.
    pub fn is_inconclusive(&self) -> bool {
        self.disturbed > 0 && self.agree + self.disturbed == self.compared
    }
}

pub fn run(surroundings: &Surroundings, options: &Selfcheck) -> Result {
    if let Some(lack) = MissingPrivilege::of(&mut surroundings.host()?) {
        let error = anyhow!(
            "selfcheck records the kernel's tracepoints and creates filesystems, which needs root: {lack}"
        );
        return Err(Trouble::new(Status::Refused, error).hint(lack.hint()));
    }
    let place =
        Place::of(&options.image).with_context(|| format!("cannot create '{}'", options.image.display()))?;
    let image = place.path();
    if fs::symlink_metadata(place.through()).is_ok() {
        let error = anyhow!("'{}' already exists, and selfcheck creates its image anew", image.display());
        return Err(Trouble::new(Status::Usage, error).hint("name a new file with --image FILE"));
    }
    let image = serde_json::to_string(&image).map_err(anyhow::Error::from)?;
    let plan =
        Plan::parse(&plan(), "selfcheck", &[format!("device.image={image}")]).map_err(trouble::of_plan)?;
    // From here on a signal undoes what was done.
    let interrupt = Interrupt::listen()?;
    surroundings.state.make()?;
    let mut store = own_store(surroundings)?;
    let mut host = surroundings.host()?;
    let mut journal = UndoJournal::create(&mut host, &surroundings.state.undo())?;
    let checked = check(surroundings, &plan, &mut store, &interrupt, &mut journal);
    let left = journal.undo_all(&mut host).left;
    for line in &left {
        say::note(&format!("left behind: {line}"));
    }
    if left.is_empty() {
        journal.close()?;
    }
    let (ended, testimonies, way) = checked?;
    let comparisons: Vec<bool> = testimonies.iter().flat_map(Testimony::comparisons).collect();
    let kept = KeptCheck {
        finished: now(),
        fsdyno: env!("CARGO_PKG_VERSION").to_string(),
        compared: comparisons.len(),
        agree: comparisons.iter().filter(|holds| **holds).count(),
        disturbed: testimonies.iter().flat_map(|one| &one.rows).filter(|row| row.is_disturbed()).count(),
        lost: testimonies.iter().map(|one| one.lost).fold(0, u64::saturating_add),
        clock: Timer::calibrate().source().name().to_string(),
        way,
    };
    let document = Document { kept, testimonies: &testimonies };
    match status(&ended) {
        // It says nothing about the figures.
        Status::Interrupted => return Ok(Status::Interrupted),
        Status::Well => {
            let text = serde_json::to_vec_pretty(&document).map_err(anyhow::Error::from)?;
            let readable = Permissions::from_mode(0o644);
            file::replace(&surroundings.state.directory().join(FILE), &text, readable)?;
        }
        _ => {}
    }
    match options.format {
        DocumentFormat::Json => print_json(&document)?,
        DocumentFormat::Text => print(&mut out::text(&surroundings.style), &document, options.all)?,
    }
    match status(&ended) {
        Status::Well if document.kept.lost > 0 => {
            let lost = document.kept.lost;
            let error = anyhow!("{lost} events of the kernel were lost, so nothing is proven");
            Err(Trouble::new(Status::TrialFailed, error).hint("repeat it on a quieter machine"))
        }
        Status::Well if document.kept.is_inconclusive() => {
            let error =
                anyhow!("others used the processors meanwhile, so the medians that differ say nothing");
            Err(Trouble::new(Status::TrialFailed, error).hint("repeat it on a quieter machine"))
        }
        Status::Well if document.kept.agree < document.kept.compared => Ok(Status::Regression),
        status => Ok(status),
    }
}

/// Runs the plan and listens. Also returns what entry and exit cost.
fn check(
    surroundings: &Surroundings,
    plan: &Plan,
    store: &mut Store,
    interrupt: &Interrupt,
    journal: &mut UndoJournal,
) -> std::result::Result<(SweepOutcome, Vec<Testimony>, Way), Trouble> {
    // Everything that is started from here on is heard.
    let names = [journal.trace_instance()?, journal.trace_instance()?];
    let listener = Listener::begin([&names[0], &names[1]]).map_err(|error| {
        Trouble::new(Status::Usage, error).hint("selfcheck needs a kernel with CONFIG_FTRACE_SYSCALLS")
    })?;
    let way = calibrate(&listener)?;
    let mut testimonies = Vec::new();
    let mut listen = |trial: &TrialRecord| {
        let heard = listener.take();
        // The sentinel is one of the cases once more.
        if !trial.sentinel {
            testimonies.push(Testimony::of(trial, heard, way));
        }
    };
    let display = Display::new(order(plan).len() as u64);
    let confirmation = &Confirmation::default();
    let request = SweepRequest {
        plan,
        confirmation,
        continued: None,
        display: &display,
        screen: false,
        elsewhere: Elsewhere::Nowhere,
    };
    let ended = carry_out(surroundings, &request, store, interrupt, &mut listen);
    listener.end();
    Ok((ended?, testimonies, way))
}

/// The way into the kernel and out of it: the same calls, timed as the engine times them and by the kernel,
/// with warm caches and with cold ones.
fn calibrate(listener: &Listener) -> std::result::Result<Way, Trouble> {
    let timer = Timer::calibrate();
    let mut ballast = vec![0_u8; BALLAST];
    let mut measure = |calls: usize, cold: bool| {
        let mut ways: Vec<f64> = (0..TRIES)
            .filter_map(|_| {
                listener.take();
                let mut reported = Vec::with_capacity(calls);
                for _ in 0..calls {
                    if cold {
                        ballast.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
                    }
                    let begin = timer.ticks();
                    let _ = getppid();
                    let end = timer.ticks();
                    reported.push(timer.to_ns(end) - timer.to_ns(begin));
                }
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                way_ns(reported, &listener.take(), thread.unsigned_abs())
            })
            .collect();
        ways.sort_by(f64::total_cmp);
        ways.get(ways.len() / 2).copied()
    };
    let way = measure(CALLS, false).zip(measure(CALLS_COLD, true));
    way.map(|(warm_ns, cold_ns)| Way { warm_ns, cold_ns: cold_ns.max(warm_ns) }).ok_or_else(|| {
        let error = anyhow!("the kernel's tracepoints do not show all calls of this process");
        Trouble::new(Status::TrialFailed, error).hint("repeat it on a quieter machine")
    })
}

/// A store of its own, so that the latest sweep remains that of the user; only the last selfcheck is kept.
fn own_store(surroundings: &Surroundings) -> std::result::Result<Store, Trouble> {
    let path = surroundings.state.directory().join(STORE);
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Store::open(&path)?)
}

/// The last selfcheck whose outcome is kept.
pub(super) fn last(state: &Path) -> Option<KeptCheck> {
    serde_json::from_slice(&fs::read(state.join(FILE)).ok()?).ok()
}

/// Width of the column with an operation's name.
const NAME: usize = 17;

fn print(out: &mut dyn Write, document: &Document<'_>, all: bool) -> io::Result<()> {
    let Document { kept, testimonies } = document;
    let Way { warm_ns, cold_ns } = kept.way;
    writeln!(
        out,
        "Operations as fsdyno counts and times them, and as the kernel's tracepoints\n\
         show them. Between fsdyno's two readings of its clock ({}) and the\n\
         kernel's there is the way into the kernel and out of it: here {warm_ns:.0} ns with\n\
         warm caches and {cold_ns:.0} ns with cold ones. Medians agree if they differ by\n\
         something in between, give or take 100 ns or 2 %.\n",
        kept.clock
    )?;
    for testimony in *testimonies {
        let same = |a: &Row, b: &Row| (&a.phase, a.role) == (&b.phase, b.role);
        for rows in testimony.rows.chunk_by(same) {
            let compared = rows.iter().flat_map(Row::comparisons).count();
            let agree = rows.iter().flat_map(Row::comparisons).filter(|holds| *holds).count();
            let Row { workload, phase, role, .. } = &rows[0];
            let heading = format!("{workload}, {phase}: {role}");
            writeln!(out, "{heading:<62} {agree} of {compared} agree")?;
            let shown = rows.iter().filter(|row| all || !row.holds());
            shown.enumerate().try_for_each(|(index, row)| line(out, row, index == 0))?;
        }
        for device in &testimony.devices {
            let DeviceRow { workload, phase, device: name, read, written } = device;
            let mark = if device.holds() { "agrees" } else { "DIFFERS" };
            if all || !device.holds() {
                let heading = format!("{workload}, {phase}: device {name}");
                writeln!(out, "{heading:<62} {mark}")?;
                writeln!(out, "  bytes read {}, {}", read.reported, range(read.kernel))?;
                writeln!(out, "  bytes written {}, {}", written.reported, range(written.kernel))?;
            }
        }
    }
    if kept.lost > 0 {
        return writeln!(out, "\ninconclusive: {} events of the kernel were lost", kept.lost);
    }
    writeln!(out, "\n{} of {} figures agree with the kernel", kept.agree, kept.compared)?;
    match kept.disturbed {
        0 => Ok(()),
        disturbed => writeln!(
            out,
            "inconclusive: {} taken while others used the processors",
            plural(disturbed as u64, "median")
        ),
    }
}

/// One operation; with the names of the columns before the first.
fn line(out: &mut dyn Write, row: &Row, first: bool) -> io::Result<()> {
    if first {
        writeln!(
            out,
            "  {:<NAME$} {:>9} {:>12} {:>11} {:>11} {:>9}",
            "", "count", "bytes", "median", "kernel", "way"
        )?;
    }
    let bytes = row.bytes.map(|bytes| bytes.reported.to_string()).unwrap_or_default();
    write!(out, "  {:<NAME$} {:>9} {bytes:>12}", row.operation, row.count.reported)?;
    if let Some(median) = row.median {
        let kernel = median.kernel_ns.least;
        let way = median.reported_ns - kernel as f64;
        write!(out, " {:>8.0} ns {kernel:>8} ns {way:>6.0} ns", median.reported_ns)?;
    }
    writeln!(out)?;
    if !row.count.holds() {
        writeln!(out, "    the count DIFFERS: {}", range(row.count.kernel))?;
    }
    if let Some(bytes) = row.bytes.filter(|bytes| !bytes.holds()) {
        writeln!(out, "    the bytes DIFFER: {}, {}", bytes.reported, range(bytes.kernel))?;
    }
    match (row.median, &row.disturbed) {
        (Some(median), Some(others)) if !median.holds() => {
            writeln!(out, "    the median differs, but {others}")
        }
        (Some(median), None) if !median.holds() => writeln!(out, "    the median DIFFERS"),
        _ => Ok(()),
    }
}

fn range(Range { least, most }: Range) -> String {
    match least == most {
        true => format!("in the kernel {least}"),
        false => format!("in the kernel {least} to {most}"),
    }
}
