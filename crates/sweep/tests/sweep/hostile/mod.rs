//! Any plan, from the whole grammar and meant to do harm, on a machine where anything fails at any step: what
//! is touched is what the plan names, and undoing leaves the machine as it was. The fake machine itself
//! panics at a step that no host may be asked for.
//!
//! `FSDYNO_PLANS` is the number of plans and `FSDYNO_SEED` the first seed; each plan has the next one. A plan
//! that fails is made as small as it can be, and printed with the seed that replays it.

mod grammar;
mod machine;
mod words;

use fsdyno_core::{DeviceSpec, axis};
use fsdyno_store::Store;
use fsdyno_sweep::{Asked, Machines, Plan, RunOptions, SweepError, SweepOutcome, run};
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::undo::{self, UndoReport};
use fsdyno_testkit::fake::{FakeHost, Fault, Machine, walked};
use grammar::{Draft, Grammar};
use machine::{ALIAS, Allowed, DISKS};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use words::KNOWN_SYSCTLS;

/// Plans in the suite.
const PLANS: u64 = 400;
const SEED: u64 = 20_261_122;
/// Plans at once: most of the time they wait for something that is to be busy no longer.
const THREADS: usize = 24;
/// Most trials of a plan that is run.
const MOST_TRIALS: usize = 24;
/// Steps among which something goes wrong.
const STEPS: usize = 120;
/// Of all plans, those that must come to their trials, and that must be refused before: else they test
/// nothing.
const LEAST_SHARE: f64 = 0.1;

/// The point that a plan reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    /// It is no plan.
    Refused,
    /// It has more trials than there is time for.
    TooLong,
    /// A guard said no, or something went wrong before the first trial.
    Stopped,
    /// The process died on the way.
    Crashed,
    /// It finished, or was interrupted.
    Ran,
}

#[test]
fn any_plan_touches_what_it_names_and_leaves_the_machine_as_it_was() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let (plans, seed) = (number("FSDYNO_PLANS").unwrap_or(PLANS), number("FSDYNO_SEED").unwrap_or(SEED));
    eprintln!("{plans} plans from seed {seed}");
    let next = AtomicU64::new(seed);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let came: Mutex<BTreeMap<Came, u64>> = Mutex::default();
    let end = seed.saturating_add(plans);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || failed.lock().expect("no panic").is_some() {
                        return;
                    }
                    match attempt(seed, &draft(seed)) {
                        Ok(how) => *came.lock().expect("no panic").entry(how).or_default() += 1,
                        Err(why) => *failed.lock().expect("no panic") = Some((seed, why)),
                    }
                }
            });
        }
    });
    if let Some((seed, why)) = failed.into_inner().expect("no panic") {
        let small = smallest(seed);
        panic!("FSDYNO_SEED={seed} FSDYNO_PLANS=1 replays it: {why}\nas small as it can be:\n{small}");
    }
    let came = came.into_inner().expect("no panic");
    eprintln!("{came:?}");
    let share = |how: Came| came.get(&how).copied().unwrap_or(0) as f64 / plans as f64;
    if plans >= PLANS {
        assert!(share(Came::Ran) > LEAST_SHARE && share(Came::Refused) > LEAST_SHARE, "{came:?}");
        assert!(share(Came::Crashed) > 0.01, "{came:?}");
    }
}

/// A plan by its seed alone.
fn draft(seed: u64) -> Draft {
    Grammar::new(&mut Xoshiro256PlusPlus::seed_from_u64(seed)).plan()
}

/// The plan of a seed that fails, without every line that it fails without.
fn smallest(seed: u64) -> Draft {
    let mut draft = draft(seed);
    while let Some(smaller) = draft.smaller().into_iter().find(|smaller| attempt(seed, smaller).is_err()) {
        draft = smaller;
    }
    draft
}

/// Runs a plan; what was broken, if anything was.
fn attempt(seed: u64, draft: &Draft) -> Result<Came, String> {
    let result = catch_unwind(AssertUnwindSafe(|| Attempt::new(seed).run(&draft.to_string())));
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
    })
}

/// One plan on one machine.
struct Attempt {
    random: Xoshiro256PlusPlus,
    host: FakeHost,
    before: Machine,
    state: tempfile::TempDir,
}

impl Attempt {
    fn new(seed: u64) -> Self {
        // Another stream than the plan's, so that a smaller plan meets the same machine and the same faults.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let host = machine::machine(&mut random);
        let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        Attempt { random, before: host.snapshot(), host, state }
    }

    fn run(&mut self, text: &str) -> Came {
        let Ok(plan) = Plan::parse(text, "plans/hostile.toml", &[]) else { return Came::Refused };
        if plan.cases().len() * plan.repetitions as usize > MOST_TRIALS {
            return Came::TooLong;
        }
        let confirmed = self.confirm();
        let allowed = allowed(&plan, &confirmed);
        self.host.planned = Some(allowed.disks.iter().cloned().collect());
        self.faults();
        let result = self.sweep(&plan, confirmed);
        let came = match result {
            Ok(_) => Came::Ran,
            Err(_) if self.host.is_lost() => Came::Crashed,
            Err(_) => Came::Stopped,
        };
        self.check_touched(&allowed);
        self.restore();
        self.check_touched(&allowed);
        came
    }

    /// Some of the disks, by one of their names or by serial number.
    fn confirm(&mut self) -> Vec<PathBuf> {
        let mut confirmed: Vec<PathBuf> = DISKS.iter().map(PathBuf::from).collect();
        if self.random.random_bool(0.1) {
            confirmed.remove(self.random.random_range(0..DISKS.len()));
        }
        if self.random.random_bool(0.1) {
            confirmed.push(ALIAS.into());
        }
        confirmed
    }

    fn faults(&mut self) {
        let kinds = [Fault::Fail, Fault::Hang, Fault::CrashBefore, Fault::CrashAfter];
        for _ in 0..[0, 1, 1, 1, 2][self.random.random_range(0..5)] {
            let step = self.random.random_range(0..STEPS);
            self.host.fault_at(step, kinds[self.random.random_range(0..kinds.len())]);
        }
    }

    fn sweep(&mut self, plan: &Plan, destroy: Vec<PathBuf>) -> Result<SweepOutcome, SweepError> {
        let mut store = Store::open(&self.state.path().join("results.db"))?;
        let options = RunOptions {
            known: &[],
            state_dir: &self.state.path().join("undo"),
            keep: &[self.state.path().join("kept")],
            hurry: &AtomicBool::new(false),
            asked: &Asked::default(),
            confirmation: &Confirmation { destroy, ..Confirmation::default() },
            interrupt: &AtomicBool::new(self.random.random_bool(0.02)),
            resume: None,
            more: None,
        };
        let mut guests = machine::guests(&mut self.random);
        let mut machines = Machines { host: &mut self.host, guests: &mut guests };
        run(plan, &mut machines, &mut store, &options, &mut |_| {})
    }

    /// Does what `fsdyno restore` does, twice.
    fn restore(&mut self) {
        let undo = self.state.path().join("undo");
        self.host.revive();
        let restored = undo::restore(&mut self.host, &undo).expect("the journals can be read");
        assert_eq!((restored.running, &restored.report.left[..]), (0, &[][..]), "everything can be undone");
        assert!(restored.aside.is_empty(), "every journal makes sense: {restored:?}");
        assert_eq!(restored.report.foreign, [""; 0], "nobody else has changed anything");
        assert_eq!(self.host.snapshot(), self.before, "the machine is as before");
        let again = undo::restore(&mut self.host, &undo).expect("the journals can be read");
        assert_eq!(
            (again.journals, again.report),
            (0, UndoReport::default()),
            "undone once, nothing is left"
        );
        assert_eq!(self.host.snapshot(), self.before, "the machine is as before");
        assert_eq!(self.host.open_devices(), 0);
    }

    fn check_touched(&self, allowed: &Allowed) {
        let beyond: Vec<&PathBuf> = self.host.touched().iter().filter(|path| !allowed.holds(path)).collect();
        assert!(beyond.is_empty(), "touched beyond the plan: {beyond:?}\nsteps: {:#?}", self.host.log());
    }
}

/// Returns the parts of the machine that a plan may touch, taken from its parsed form: names are resolved
/// here and nowhere else.
fn allowed(plan: &Plan, confirmed: &[PathBuf]) -> Allowed {
    let disks = || plan.devices.all().flat_map(DeviceSpec::disks);
    let images = disks().filter(|disk| matches!(disk, DeviceSpec::Image(_)));
    let directory = match &plan.devices.data {
        DeviceSpec::Directory { path } => Some(walked(path)),
        _ => None,
    };
    let blocks = disks().filter(|disk| matches!(disk, DeviceSpec::Block(_)));
    let node = |path: &Path| if path == Path::new(ALIAS) { PathBuf::from(DISKS[0]) } else { walked(path) };
    let confirmed: Vec<PathBuf> = confirmed.iter().map(|path| node(path)).collect();
    let sysctl = |key: &&str| Path::new("/proc/sys").join(key.replace('.', "/"));
    // Setting one of a pair changes the other.
    let companions = ["vm.dirty_ratio", "vm.dirty_bytes"];
    let set = |key: &&&str| {
        let named = |key: &str| {
            let axis = format!("{}{key}", axis::SYSCTL_PREFIX);
            plan.cases().iter().any(|case| case.configuration.level(&axis).is_some())
        };
        named(key) || (companions.contains(*key) && companions.iter().any(|key| named(key)))
    };
    Allowed {
        images: images.map(|disk| walked(disk.path())).collect(),
        directory,
        disks: blocks.map(|disk| node(disk.path())).filter(|disk| confirmed.contains(disk)).collect(),
        sysctls: KNOWN_SYSCTLS.iter().filter(set).map(sysctl).collect(),
    }
}
