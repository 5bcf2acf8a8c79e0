//! `fsdyno doctor --device PLAN`: whether it matters, on the filesystem that holds the images of a plan, that
//! they are sparse, and which sectors they have.

use super::carry_out::{SweepRequest, carry_out, status};
use super::image_shape::{Compared, KeptShape, Way, keep};
use super::source::load;
use super::{Result, Surroundings, now, print_json, trouble};
use crate::cli::{Doctor, DocumentFormat, Elsewhere};
use crate::exit::{Status, Trouble};
use crate::interrupt::Interrupt;
use crate::out;
use crate::progress::Display;
use anyhow::anyhow;
use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::{Bytes, DeviceSpec, Measure, Outcome, TrialRecord};
use fsdyno_store::Store;
use fsdyno_sweep::Plan;
use fsdyno_testbed::Confirmation;
use fsdyno_verdict::comparison::{ComparedMeasure, Comparison, ComparisonQuestion, Finding, Side};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Interleaved, so that what changes on the machine meanwhile changes all of them.
const ROUNDS: u32 = 5;
/// A difference of up to this share does not matter.
const THRESHOLD: f64 = 0.05;
/// The size of the image that is tried, where the plan's is larger.
const SIZE: Bytes = Bytes(512 * Bytes::MIB);

/// A short trial that reads and writes much more than its memory.
const PLAN: &str = r#"
name = "image"
repetitions = 1
memory = "64M"
[device]
image = ""
size = "512M"
[axes]
filesystem = "ext4"
[[workloads]]
kind = "streaming"
file_size = "192M"
stages = ["write", "read"]
ramp = "200ms"
window = "1s"
"#;

/// Each differs from the one before it in one respect; the first is that of a plan that says nothing else.
const WAYS: [Way; 3] = [
    Way { preallocate: Preallocation::None, sector: Image::SECTORS[0] },
    Way { preallocate: Preallocation::Write, sector: Image::SECTORS[0] },
    Way { preallocate: Preallocation::Write, sector: Image::SECTORS[1] },
];

pub fn run(surroundings: &Surroundings, options: &Doctor, plan: &Path) -> Result {
    let plan = load(plan, &[])?;
    let image = plan.devices.all().flat_map(DeviceSpec::disks).find_map(|disk| match disk {
        DeviceSpec::Image(image) => Some(image.clone()),
        _ => None,
    });
    let image = image.ok_or_else(|| {
        Trouble::new(Status::Usage, anyhow!("the plan has no image, so there is nothing to check"))
            .hint("name a plan with `image = ...` in [device]")
    })?;
    let cases = plan.cases();
    let filesystem =
        cases.iter().find(|case| case.configuration.guest_kernel().is_none()).ok_or_else(|| {
            let error = anyhow!("all cases of the plan run in guests, whose images are always sparse");
            Trouble::new(Status::Usage, error).hint("name a plan with cases for this machine's own kernel")
        })?;
    let kept = measure(surroundings, &image, &filesystem.configuration.filesystem)?;
    keep(surroundings.state.directory(), &kept)?;
    match options.format {
        DocumentFormat::Text => print(&mut out::text(&surroundings.style), &kept)?,
        DocumentFormat::Json => print_json(&kept)?,
    }
    Ok(Status::Well)
}

fn measure(
    surroundings: &Surroundings,
    image: &Image,
    filesystem: &str,
) -> std::result::Result<KeptShape, Trouble> {
    let directory = image.path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let found =
        directory.metadata().map_err(|error| anyhow!("cannot look at '{}': {error}", directory.display()))?;
    let plans = WAYS.map(|way| plan(image, way, filesystem));
    let plans = plans.into_iter().collect::<std::result::Result<Vec<Plan>, _>>().map_err(trouble::of_plan)?;
    let interrupt = Interrupt::listen()?;
    surroundings.state.make()?;
    let scratch = tempfile::tempdir_in(surroundings.state.directory())?;
    let mut store = Store::open(&scratch.path().join("images.db"))?;
    let mut trials: [Vec<TrialRecord>; WAYS.len()] = Default::default();
    let display = Display::without_lines(u64::from(ROUNDS) * WAYS.len() as u64);
    let confirmation = &Confirmation::default();
    for round in 0..ROUNDS {
        for turn in 0..WAYS.len() {
            // Each is the first of a round as often as the others.
            let at = (turn + round as usize) % WAYS.len();
            let request = SweepRequest {
                plan: &plans[at],
                confirmation,
                continued: None,
                display: &display,
                screen: false,
                elsewhere: Elsewhere::Nowhere,
            };
            let mut trial = only_trial(surroundings, &request, &mut store, &interrupt)?;
            // Without dirty throttling, as in cgroups of version 1, pages that a stalled disk does not take
            // fill the memory, and the kernel kills the load. That says nothing about images.
            if let Outcome::Failed { .. } = trial.outcome {
                trial = only_trial(surroundings, &request, &mut store, &interrupt)?;
            }
            let failure = match &trial.outcome {
                Outcome::Measured => None,
                Outcome::Skipped { unmet } => Some(format!("cannot be measured: {}", unmet.join("; "))),
                Outcome::Failed { error } => Some(format!("failed twice: {error}")),
            };
            if let Some(failure) = failure {
                let way = WAYS[at].name();
                let error = anyhow!("{filesystem} on an image ({way}) {failure}");
                return Err(Trouble::new(Status::TrialFailed, error));
            }
            trials[at].push(TrialRecord { block: round, ..trial });
        }
    }
    let sides: Vec<String> = WAYS.iter().map(|way| way.name()).collect();
    let side = |at: usize| {
        let trials = &trials[at];
        Side {
            name: &sides[at],
            sweep: 1,
            store: Path::new(""),
            sweep_name: "images",
            trials,
            whole: trials,
            repeated_looks: false,
        }
    };
    let measures = ["write-durable", "streaming-read"].map(|name| name.parse::<Measure>());
    let measures = measures.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let question = ComparisonQuestion { measures, threshold: THRESHOLD, seed: 1 };
    let rows = (1..WAYS.len()).flat_map(|at| {
        let compared = Comparison::new(side(at - 1), side(at), &question);
        compared.rows().map(|row| Compared::of([WAYS[at - 1], WAYS[at]], row)).collect::<Vec<_>>()
    });
    Ok(KeptShape {
        place: found.dev(),
        directory,
        finished: now(),
        filesystem: filesystem.to_string(),
        rows: rows.collect(),
    })
}

/// The only trial of a plan.
fn only_trial(
    surroundings: &Surroundings,
    request: &SweepRequest<'_>,
    store: &mut Store,
    interrupt: &Interrupt,
) -> std::result::Result<TrialRecord, Trouble> {
    let mut only = None;
    let mut stored = |trial: &TrialRecord| only = Some(trial.clone());
    let ended = carry_out(surroundings, request, store, interrupt, &mut stored)?;
    match status(&ended) {
        Status::Interrupted => {
            return Err(Trouble::new(Status::Interrupted, anyhow!("interrupted: nothing is kept")));
        }
        Status::NotRestored => {
            let error = anyhow!("the machine is not fully restored: nothing is kept");
            return Err(Trouble::new(Status::NotRestored, error)
                .hint("stop what still uses it, then run fsdyno restore"));
        }
        _ => {}
    }
    Ok(only.ok_or_else(|| anyhow!("the sweep ended without a trial"))?)
}

/// The same short plan on an image that is made in one way.
fn plan(image: &Image, way: Way, filesystem: &str) -> std::result::Result<Plan, fsdyno_sweep::PlanError> {
    let path = serde_json::to_string(&image.path).unwrap_or_default();
    let size = image.size.min(SIZE);
    let set = [
        format!("device.image={path}"),
        format!("device.size={}", size.0),
        format!("device.direct_io={}", image.direct_io),
        format!("device.sector={}", way.sector.0),
        format!("device.preallocate=\"{}\"", way.preallocate.name()),
        format!("axes.filesystem=\"{filesystem}\""),
    ];
    Plan::parse(PLAN, "doctor --device", &set)
}

impl Compared {
    fn of(ways: [Way; 2], row: &ComparedMeasure) -> Self {
        Compared {
            ways,
            measure: row.measure.to_string(),
            means: row.estimates.each_ref().map(|estimate| estimate.value),
            ratio: row.ratio.map(|ratio| ratio.value),
            interval: row
                .ratio
                .and_then(|ratio| ratio.interval)
                .map(|interval| [interval.low, interval.high]),
            verdict: row.verdict(),
            differs: matches!(row.finding, Finding::Slower | Finding::Faster),
            is_decided: !matches!(row.finding, Finding::CannotTell(_)),
        }
    }
}

fn print(out: &mut dyn Write, kept: &KeptShape) -> io::Result<()> {
    writeln!(
        out,
        "Images in '{}': {ROUNDS} rounds with one short trial of {} on each kind,\nwith 64M of memory.\n",
        kept.directory.display(),
        kept.filesystem
    )?;
    for row in &kept.rows {
        let [first, second] = row.means.map(|mean| mean / 1e6);
        let [before, after] = row.ways.map(Way::name);
        let interval = row.interval.map_or(String::new(), |[low, high]| format!(" [{low:.2}, {high:.2}]"));
        let ratio = row.ratio.map_or("no ratio".to_string(), |ratio| format!("{ratio:.2}{interval}"));
        writeln!(out, "{}: {first:.0} MB/s on '{before}',", row.measure)?;
        writeln!(out, "    {second:.0} MB/s on '{after}'")?;
        writeln!(out, "    {ratio}: {}", row.verdict)?;
    }
    let verdict = if kept.rows.iter().any(|row| row.differs) {
        "\nIt matters here how an image is made: `preallocate` and `sector` in [device]\n\
         choose it. Sweeps with images there carry the warning image-shape."
    } else if kept.rows.iter().all(|row| row.is_decided) {
        "\nNo difference of more than 5 %: the default, sparse images, will do."
    } else {
        "\nThese trials vary too much to tell whether it matters here how an image is made.\n\
         Run this again when the machine is quieter."
    };
    writeln!(out, "{verdict}")
}
