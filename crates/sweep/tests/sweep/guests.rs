//! Trials in guests, on machines in memory: what the guest is asked for, what is recorded, and that nothing
//! is left here.

use crate::lab::{self, Lab, PLAN, events, failure, parse};
use fsdyno_core::{Bytes, EngineEvent, KernelSpec, Nanos, Outcome, TrialRecord, WarningKind};
use fsdyno_host::HostError;
use fsdyno_host::guest::{GuestFacts, NotStarted};
use fsdyno_sweep::{Plan, PlanProblem, SweepEnd, SweepEvent, SweepOutcome, dry_run};
use fsdyno_testkit::fake::{FakeEngine, FakeGuests, FakeHost};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// One case in a guest and one on the machine itself.
const BOTH: [&str; 2] =
    ["telemetry=false", "axes={filesystem=\"ext4\",kernel=[\"debian:6.1\",\"host\"],scheduler=\"bfq\"}"];

fn plan(overrides: &[&str]) -> Plan {
    lab::plan(PLAN, &[&BOTH, overrides].concat())
}

fn done() -> FakeEngine {
    events([EngineEvent::Done])
}

/// A guest with one disk, whose engines all do their work.
fn guest() -> FakeHost {
    let mut guest = FakeHost::new();
    guest.add_block("/dev/vda", (254, 0), Bytes(4 * Bytes::GIB));
    guest.facts =
        GuestFacts { description: "QEMU".into(), emulated: true, release: "6.1.0".into(), boot: Nanos(7) };
    guest.engines = (0..2).map(|_| done()).collect();
    guest
}

fn lab(guests: impl IntoIterator<Item = Result<FakeHost, NotStarted>>) -> Lab {
    let mut lab = Lab::without_telemetry();
    lab.guests.next = guests.into_iter().collect();
    lab.engines([done(), done()]);
    lab
}

/// Runs a plan; the machine must be as before.
fn run(lab: &mut Lab, plan: &Plan) -> (SweepOutcome, Vec<TrialRecord>) {
    let before = lab.host.snapshot();
    let outcome = lab.run(plan, None).unwrap();
    assert_eq!(lab.host.snapshot(), before);
    assert_eq!(lab.journals(), 0, "no journal is left");
    let trials = lab.trials(&outcome);
    (outcome, trials)
}

fn of_kernel<'a>(trials: &'a [TrialRecord], kernel: &str) -> Vec<&'a TrialRecord> {
    trials.iter().filter(|trial| trial.configuration.level("kernel") == Some(kernel)).collect()
}

#[test]
fn one_table_holds_guests_and_the_machine_itself() {
    let mut lab = lab([Ok(guest()), Ok(guest())]);
    let (outcome, trials) = run(&mut lab, &plan(&[]));
    assert_eq!((outcome.measured, outcome.failed, outcome.skipped), (3, 0, 0), "{trials:#?}");
    let request = &lab.guests.requests[0];
    assert_eq!(request.kernel, KernelSpec::Debian { version: "6.1".to_string() });
    let modules: Vec<&str> = request.modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(modules, ["ext4", "bfq"]);
    assert_eq!(request.disks, [PathBuf::from("/data/fsdyno.img")]);
    assert!(request.programs.iter().any(|program| program.name == "mkfs.ext4"));
    for trial in of_kernel(&trials, "debian:6.1") {
        assert!(
            trial.configuration.built.mkfs_command.ends_with(" /dev/vda"),
            "{}",
            trial.configuration.built.mkfs_command
        );
        assert_eq!(trial.environment.virtualisation.as_deref(), Some("QEMU"));
        assert_eq!(trial.lifecycle_ns.boot, Some(Nanos(7)));
        assert!(trial.warnings.iter().any(|warning| warning.kind == WarningKind::Emulation));
    }
    for trial in of_kernel(&trials, "host") {
        assert!(
            trial.configuration.built.mkfs_command.contains("/dev/loop"),
            "{}",
            trial.configuration.built.mkfs_command
        );
        assert_eq!(trial.lifecycle_ns.boot, None);
        assert!(trial.warnings.iter().all(|warning| warning.kind != WarningKind::Emulation));
    }
}

#[test]
fn a_guest_that_does_not_come_up_fails_its_trial_with_its_last_words_and_the_sweep_goes_on() {
    let error = HostError::Lost { host: "debian:6.1".into(), reason: "the guest exited".into() };
    let not = NotStarted { error: Box::new(error), last_words: "Kernel panic - not syncing: no".into() };
    let mut lab = lab([Err(not), Ok(guest())]);
    let (outcome, trials) = run(&mut lab, &plan(&[]));
    assert_eq!((outcome.measured, outcome.failed), (2, 1));
    let failed = trials.iter().find(|trial| matches!(trial.outcome, Outcome::Failed { .. }));
    let failed = failure(failed.unwrap());
    assert_eq!(failed.step, "boot");
    assert!(failed.details.contains("Kernel panic - not syncing: no"), "{}", failed.details);
}

#[test]
fn a_trial_that_is_interrupted_before_its_guest_is_up_counts_for_nothing() {
    // What fetches its kernel shares the user's Ctrl-C.
    let error = HostError::Lost { host: "debian:6.1".into(), reason: "interrupted".into() };
    let mut lab = lab([Err(error.into())]);
    let outcome = lab.run_watched(&plan(&["axes.kernel=debian:6.1"]), None, |progress, interrupt| {
        if matches!(progress, SweepEvent::Running(at) if at.progress.step.name() == "boot") {
            interrupt.store(true, Ordering::Relaxed);
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.end, SweepEnd::Interrupted);
    assert_eq!(lab.trials(&outcome), [], "it is run again by --resume");
}

#[test]
fn a_failure_in_a_guest_is_told_with_the_last_words_of_its_console() {
    let mut broken = guest();
    broken.programs.get_mut("mkfs.ext4").unwrap().status = 1;
    let mut lab = lab([Ok(broken), Ok(guest())]);
    let (outcome, trials) = run(&mut lab, &plan(&[]));
    assert_eq!((outcome.measured, outcome.failed), (2, 1));
    let error = failure(&trials[0]);
    assert_eq!(error.step, "mkfs");
    assert!(error.details.contains("last output of the guest:\n"), "{}", error.details);
}

#[test]
fn what_a_guest_lacks_skips_its_trials_without_starting_one() {
    let mut lab = lab([]);
    lab.guests.unmet = vec!["qemu-system-x86_64".to_string()];
    let (outcome, trials) = run(&mut lab, &plan(&[]));
    assert_eq!((outcome.measured, outcome.skipped), (2, 1), "what runs here is the sentinel");
    let skipped = of_kernel(&trials, "debian:6.1");
    assert!(skipped.iter().all(
        |trial| matches!(&trial.outcome, Outcome::Skipped { unmet } if unmet == &["qemu-system-x86_64"])
    ));
}

#[test]
fn what_turns_out_within_skips_the_trial() {
    let lacking = || {
        let mut guest = guest();
        guest.write_setting("/proc/filesystems", "nodev\tsysfs\n");
        guest
    };
    let mut lab = lab([Ok(lacking()), Ok(lacking())]);
    let (outcome, trials) = run(&mut lab, &plan(&[]));
    assert_eq!((outcome.measured, outcome.skipped), (1, 2));
    let Outcome::Skipped { unmet } = &of_kernel(&trials, "debian:6.1")[0].outcome else { panic!() };
    assert_eq!(unmet[..], ["the kernel does not support ext4 (supported by kernel = \"debian:6.1\")"]);
}

#[test]
fn a_dry_run_shows_what_happens_within() {
    let dry = dry_run(&plan(&[]), &mut FakeHost::new(), &mut FakeGuests::default());
    assert_eq!(dry.cases[0].commands[0], "boot kernel debian:6.1 in a virtual machine with /data/fsdyno.img");
    assert!(dry.cases[0].commands.iter().any(|command| command.ends_with(" /dev/vda")), "{:?}", dry.cases[0]);
    assert!(dry.cases[0].time_ns > dry.cases[1].time_ns, "a guest boots");
}

#[test]
fn kernels_of_the_plans_own_are_named_and_relative_to_it() {
    let set = [
        "kernels.mine={ image = \"arch/x86/boot/bzImage\", modules = \"/m\" }",
        "axes.kernel=[\"mine\", \"6.1.0-56-amd64\"]",
    ];
    let plan = plan(&set);
    let mine = KernelSpec::Image {
        name: "mine".to_string(),
        image: "plans/arch/x86/boot/bzImage".into(),
        modules: Some("/m".into()),
    };
    assert_eq!(plan.kernels["mine"], mine);
    let installed = KernelSpec::Installed { release: "6.1.0-56-amd64".to_string() };
    assert_eq!(plan.kernels["6.1.0-56-amd64"], installed);
}

#[test]
fn kernels_that_mean_nothing_are_refused_with_the_nearest() {
    let refused = |overrides: &[&str]| parse(PLAN, "test.toml", &[&BOTH, overrides].concat()).unwrap_err();
    let unknown = refused(&["axes.kernel=hots"]);
    assert!(unknown.to_string().contains("unknown kernel 'hots'; did you mean 'host'?"), "{unknown}");
    assert!(unknown.hint().unwrap().contains("debian:6.1"));
    assert!(matches!(*refused(&["axes.kernel=debian:bookworm"]).problem, PlanProblem::UnknownKernel { .. }));
    assert!(matches!(*refused(&["kernels.host={image=\"/x\"}"]).problem, PlanProblem::KernelName { .. }));
    let block = refused(&["device={block=\"/dev/vdb\"}", "axes.kernel=debian:6.1"]);
    assert!(block.to_string().contains("whose disks must be images"), "{block}");
    assert!(refused(&["guest.memory=64M"]).to_string().contains("at least 256M"));
}
