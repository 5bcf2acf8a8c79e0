//! `fsdyno selfcheck`: one short run of each load, with the kernel's own tracepoints as the witness.

use super::sweep::{carry_out, plan_trouble, status};
use super::{Result, Surroundings, print_json};
use crate::cli::{DocumentFormat, Selfcheck};
use crate::exit::{Status, Trouble};
use crate::out;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::TrialRecord;
use fsdyno_store::Store;
use fsdyno_sweep::{Plan, SweepOutcome};
use fsdyno_sys::timer::Timer;
use fsdyno_testbed::{Confirmation, UndoJournal};
use fsdyno_witness::{DeviceRow, Listener, Range, Row, Testimony, Way, way_ns};
use rustix::process::{geteuid, getppid};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

/// The file with the last one, below the directory of state.
const FILE: &str = "selfcheck.json";
/// Calls of which the kernel does nothing, to measure the way into it and out of it.
const CALLS: usize = 20_000;
/// The same where each finds the processor's caches full of something else.
const CALLS_COLD: usize = 200;
/// How often that is measured; the median counts.
const TRIES: usize = 3;
/// More than most caches of a processor.
const BALLAST: usize = 32 << 20;
/// A line of them.
const LINE: usize = 64;

/// Every load, short and small. Memory is not limited: what is checked is what fsdyno says of the operations
/// that there were, wherever the data was.
const PLAN: &str = r#"
name = "selfcheck"
repetitions = 1
telemetry = "200ms"
[device]
image = ""
size = "1G"
[axes]
filesystem = "ext4"

[[workloads]]
kind = "fileserver"
tree_size = "48M"
readers = 2
writers = 1
ramp = "200ms"
window = "600ms"

[[workloads]]
kind = "fileserver"
tree_size = "48M"
readers = 1
writers = 1
direct = true
ramp = "200ms"
window = "600ms"

[[workloads]]
kind = "streaming"
file_size = "48M"
direct = true
io = "io_uring"
iodepth = 8
stages = ["write", "read", "random-read", "random-write"]
ramp = "200ms"
window = "600ms"

[[workloads]]
kind = "streaming"
file_size = "48M"
bs = "64k"
stages = ["write", "read", "mixed"]
ramp = "200ms"
window = "600ms"

[[workloads]]
kind = "collection"
scale = 0.1

[[workloads]]
kind = "commit-log"
writers = 2
ramp = "200ms"
window = "600ms"

[[workloads]]
kind = "postmark"
number = 1000
transactions = 2000

[[workloads]]
kind = "bonnie"
size = "16M"
char_size = "1M"
ram = 0
seeks = 1000
files = 1024
max_size = 4096

[[workloads]]
kind = "device-read"
window = "600ms"
"#;

/// What is kept of a selfcheck.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    kept: Kept,
    testimonies: &'a [Testimony],
}

/// Its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// When it ended.
    pub finished: String,
    /// Version of fsdyno.
    pub fsdyno: String,
    /// Figures that were compared.
    pub compared: usize,
    /// How many of them agree.
    pub agree: usize,
    /// The way into the kernel and out of it, with its tracepoints switched on.
    pub way: Way,
}

pub fn run(surroundings: &Surroundings, options: &Selfcheck) -> Result {
    if !geteuid().is_root() {
        let error =
            anyhow!("selfcheck records the kernel's tracepoints and creates filesystems, which needs root");
        return Err(Trouble::new(Status::Usage, error).hint("run sudo fsdyno selfcheck"));
    }
    let image = serde_json::to_string(&options.image).map_err(anyhow::Error::from)?;
    let plan = Plan::parse(PLAN, "selfcheck", &[format!("device.image={image}")]).map_err(plan_trouble)?;
    let mut store = surroundings.open_store()?;
    surroundings.state.make()?;
    let mut host = surroundings.host()?;
    let mut journal = UndoJournal::create(&mut host, &surroundings.state.undo())?;
    let checked = check(surroundings, &plan, &mut store, &mut journal);
    let left = journal.undo_all(&mut host).left;
    for line in &left {
        say::note(&format!("left behind: {line}"));
    }
    if left.is_empty() {
        journal.close()?;
    }
    let (ended, testimonies, way) = checked?;
    let kept = Kept {
        finished: jiff::Timestamp::now().to_string(),
        fsdyno: env!("CARGO_PKG_VERSION").to_string(),
        compared: testimonies.iter().map(|one| one.rows.len() + one.devices.len()).sum(),
        agree: testimonies.iter().map(agreeing).sum(),
        way,
    };
    let lost: u64 = testimonies.iter().map(|one| one.lost).fold(0, u64::saturating_add);
    let document = Document { kept, testimonies: &testimonies };
    let text = serde_json::to_vec_pretty(&document).map_err(anyhow::Error::from)?;
    std::fs::write(surroundings.state.directory().join(FILE), text)?;
    match options.format {
        DocumentFormat::Json => print_json(&document)?,
        DocumentFormat::Text => print(&mut out::text(&surroundings.style), &document, options.all)?,
    }
    match status(&ended) {
        Status::Well if lost > 0 => {
            let error = anyhow!("{lost} events of the kernel were lost, so nothing is proven");
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
    let ended = carry_out(surroundings, plan, &Confirmation::default(), None, store, &mut listen);
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
        let error = anyhow!("the kernel's tracepoints do not show the calls of this process");
        Trouble::new(Status::TrialFailed, error)
    })
}

fn agreeing(testimony: &Testimony) -> usize {
    match testimony.lost {
        0 => {
            let rows = testimony.rows.iter().filter(|row| row.holds()).count();
            rows + testimony.devices.iter().filter(|row| row.holds()).count()
        }
        _ => 0,
    }
}

/// The last selfcheck whose outcome is kept.
pub(super) fn last(state: &Path) -> Option<Kept> {
    serde_json::from_slice(&std::fs::read(state.join(FILE)).ok()?).ok()
}

/// Width of the column with an operation's name.
const NAME: usize = 17;

fn print(out: &mut dyn Write, document: &Document<'_>, all: bool) -> io::Result<()> {
    let Document { kept, testimonies } = document;
    let Way { warm_ns, cold_ns } = kept.way;
    writeln!(
        out,
        "Operations as fsdyno counts and times them, and as the kernel's tracepoints show them. Between\n\
         fsdyno's two readings of the clock and the kernel's there is the way into the kernel and out of\n\
         it: here {warm_ns:.0} ns with warm caches and {cold_ns:.0} ns with cold ones.\n"
    )?;
    for testimony in *testimonies {
        let same = |a: &Row, b: &Row| (&a.phase, a.role) == (&b.phase, b.role);
        for rows in testimony.rows.chunk_by(same) {
            let agree = rows.iter().filter(|row| row.holds()).count();
            let Row { workload, phase, role, .. } = &rows[0];
            let heading = format!("{workload}, {phase}: {role}");
            writeln!(out, "{heading:<62} {agree} of {} agree", rows.len())?;
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
    writeln!(out, "\n{} of {} figures agree with the kernel", kept.agree, kept.compared)
}

/// One operation; with the names of the columns before the first.
fn line(out: &mut dyn Write, row: &Row, first: bool) -> io::Result<()> {
    if first {
        writeln!(out, "  {:<NAME$} {:>9} {:>11} {:>11} {:>9}", "", "count", "median", "kernel", "way")?;
    }
    write!(out, "  {:<NAME$} {:>9}", row.operation, row.count.reported)?;
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
    match row.median {
        Some(median) if !median.holds() => writeln!(out, "    the median DIFFERS"),
        _ => Ok(()),
    }
}

fn range(Range { least, most }: Range) -> String {
    match least == most {
        true => format!("in the kernel {least}"),
        false => format!("in the kernel {least} to {most}"),
    }
}
