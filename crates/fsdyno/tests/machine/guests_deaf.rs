//! A guest that hangs with interrupts off: nothing reaches it any more, and no watchdog of its own kernel can
//! run.
//!
//! Distribution kernels have no module that provokes a hang, but they give access to registers. Without the
//! enable bit in `IA32_APIC_BASE`, a processor gets no more interrupts (Intel's manual, volume 3, "Enabling
//! or Disabling the Local APIC"), neither from its timer nor from devices. The kernel's module `msr` writes
//! it.

use crate::guests::{GUEST, qemu};
use crate::support::Requirement;
use fsdyno_core::Outcome;
use fsdyno_host::guest::{Guest, GuestProgram, GuestRequest, Guests, NotStarted, Wanted};
use fsdyno_host::local::LocalHost;
use fsdyno_host::{Command, Grant};
use fsdyno_store::Store;
use fsdyno_sweep::{Asked, Machines, Plan, RunOptions, run};
use fsdyno_testbed::Confirmation;
use std::sync::atomic::AtomicBool;

tests! {
    a_guest_with_interrupts_off_fails_its_trial_only: &[Requirement::All(GUEST), Requirement::Soak];
}

/// The engine is working within a second after the mount appears.
const PLAN: &str = r#"
name = "deaf"
repetitions = 2
watchdog = "5s"
telemetry = false
[device]
image = "IMAGE"
size = "256M"
[axes]
filesystem = "ext4"
kernel = "debian:6.1"
[guest]
processors = 1
[[workloads]]
kind = "commit-log"
writers = 1
ramp = 0
window = "4s"
"#;

/// Waits for the load, then clears the bit in the register's value after a reset, 0xfee00900: its physical
/// address, the flag of the first processor, and the enable bit.
const DEAFEN: &str = r"
until grep -q ' ext4 ' /proc/mounts; do sleep 0.1; done
sleep 1
echo '<1>deaf from now on' > /dev/kmsg
printf '\000\001\340\376\000\000\000\000' | dd of=/dev/cpu/0/msr bs=8 count=1 seek=27 oflag=seek_bytes conv=notrunc
";

/// Guests, the first of which stops getting interrupts under load.
struct FirstGoesDeaf<G> {
    guests: G,
    started: u32,
}

impl<G: Guests> Guests for FirstGoesDeaf<G> {
    fn unmet(&mut self, request: &GuestRequest) -> Vec<String> {
        self.guests.unmet(request)
    }

    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        interrupt: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted> {
        self.started += 1;
        if self.started > 1 {
            return self.guests.start_all(wanted, interrupt);
        }
        let (mut request, disks) = (wanted[0].request.clone(), wanted[0].disks);
        request.modules.push("msr".into());
        let programs = [("sh", "dash"), ("grep", "grep"), ("sleep", "coreutils"), ("dd", "coreutils")];
        let programs = programs
            .map(|(name, package)| GuestProgram { name: name.to_string(), package: package.to_string() });
        request.programs.extend(programs);
        let mut guest = self.guests.start(&request, disks, interrupt)?;
        let later = format!("({DEAFEN}) > /dev/null 2>&1 &");
        let sent = guest
            .run(&Command::new("sh").args(["-c", &later]).may_change([Grant::Tree("/".into())]))
            .expect("it runs in the background");
        assert_eq!(sent.status, 0, "{sent:?}");
        Ok(vec![guest])
    }
}

fn a_guest_with_interrupts_off_fails_its_trial_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let image = directory.path().join("disk.img");
    let text = PLAN.replace("IMAGE", &image.display().to_string());
    let plan = Plan::parse(&text, "deaf.toml", &[]).expect("a plan");
    let mut store = Store::open(&directory.path().join("results.db")).expect("a store");
    let options = RunOptions {
        known: &[],
        state_dir: &directory.path().join("undo"),
        keep: &[],
        confirmation: &Confirmation::default(),
        interrupt: &AtomicBool::new(false),
        hurry: &AtomicBool::new(false),
        asked: &Asked::default(),
        resume: None,
        more: None,
    };
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let mut guests = FirstGoesDeaf { guests: qemu(), started: 0 };
    let mut machines = Machines { host: &mut host, guests: &mut guests };
    let swept = run(&plan, &mut machines, &mut store, &options, &mut |_| {}).expect("a sweep");
    assert_eq!((guests.started, swept.failed, swept.measured), (2, 1, 1));
    assert_eq!(swept.left, [""; 0]);
    let trials = store.trials(swept.sweep).expect("trials");
    let Outcome::Failed { error } = &trials[0].outcome else { panic!("{:?}", trials[0].outcome) };
    assert!(error.to_string().contains("made no progress"), "{error:?}");
    assert!(error.details.contains("last output of the guest"), "{error:?}");
    assert!(error.details.contains("deaf from now on"), "{error:?}");
    assert_eq!(trials[1].outcome, Outcome::Measured);
    assert!(!image.exists());
}
