//! The end of a sweep: by a signal, or because something that it depends on disappears or fills up.

use crate::area::{Filler, Scratch, TestArea, described};
use crate::plan::{Device, SmallPlan};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// About how long an undisturbed sweep takes, in milliseconds.
const SWEEP_MS: u64 = 1500;
/// About how long one in a guest takes.
const GUEST_MS: u64 = 40_000;
/// A sweep that takes longer than this has hung, in seconds.
const LIMIT_S: u64 = 300;

/// An event that happens to a sweep at a random moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Kill,
    HangUp,
    Interrupt,
    Terminate,
    /// Loop devices are detached underneath it, as `losetup -D` does.
    Detach,
    /// The storage behind a disk disappears.
    Remove,
    /// The filesystem that holds the images is full.
    DiskFull,
    /// The filesystem that holds the store and the undo journals is full.
    StoreFull,
    /// Nothing.
    Whole,
}

/// The outcome of a sweep.
pub struct Ended {
    pub status: String,
    pub said: String,
    pub findings: Vec<String>,
    pub filler: Option<Filler>,
}

impl Ending {
    pub fn any(random: &mut Xoshiro256PlusPlus, device: Device) -> Self {
        use Ending::*;
        let all: &[Ending] = match device {
            Device::InGuest => &[Kill, Kill, HangUp, Interrupt, Whole],
            _ => {
                &[Kill, Kill, Kill, HangUp, Interrupt, Terminate, Detach, Remove, DiskFull, StoreFull, Whole]
            }
        };
        *all.choose(random).expect("a list")
    }

    /// Runs a plan until it ends, in this way or before.
    pub fn run(
        self,
        random: &mut Xoshiro256PlusPlus,
        area: &TestArea,
        plan: &SmallPlan,
        scratch: &Scratch,
    ) -> Ended {
        let most = if plan.in_guest { GUEST_MS } else { SWEEP_MS };
        let moment = Duration::from_millis(random.random_range(0..most));
        let file = area.write_plan(&plan.text);
        let mut arguments = vec!["sweep".to_string(), file];
        arguments.extend(plan.arguments.iter().cloned());
        let mut command = area.fsdyno(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start a sweep");
        std::thread::sleep(moment);
        let filler = self.happen(&mut child, area, scratch);
        let output = ended(child);
        let mut findings = Vec::new();
        match &output {
            None => findings.push(format!("the sweep did not end within {LIMIT_S} s and was killed")),
            Some(output) => findings.extend(self.unexpected(output)),
        }
        Ended {
            status: output.as_ref().map_or("hung".to_string(), |output| output.status.to_string()),
            said: output.as_ref().map_or_else(String::new, described),
            findings,
            filler,
        }
    }

    fn happen(self, child: &mut Child, area: &TestArea, scratch: &Scratch) -> Option<Filler> {
        let signal = match self {
            Ending::Kill => Some(Signal::SIGKILL),
            Ending::HangUp => Some(Signal::SIGHUP),
            Ending::Interrupt => Some(Signal::SIGINT),
            Ending::Terminate => Some(Signal::SIGTERM),
            _ => None,
        };
        if let Some(signal) = signal {
            // Its process ID is not reused until it is waited for.
            kill(Pid::from_raw(child.id().cast_signed()), signal).expect("a process of ours");
        }
        match self {
            Ending::Detach => scratch.detach_all(),
            Ending::Remove => scratch.truncate_all(),
            Ending::DiskFull => return Some(Filler::new(scratch.directory())),
            Ending::StoreFull => return Some(Filler::new(&area.state())),
            _ => {}
        }
        None
    }

    /// An exit code that is not documented for this ending, or a panic.
    fn unexpected(self, output: &Output) -> Vec<String> {
        let mut findings = Vec::new();
        let said = described(output);
        if said.contains("panicked at") {
            findings.push("a panic".to_string());
        }
        let known: &[Option<i32>] = match self {
            Ending::Kill => &[None, Some(0), Some(1), Some(3)],
            Ending::HangUp | Ending::Interrupt | Ending::Terminate => {
                // Before its handlers are installed, a signal ends it like any program.
                &[None, Some(0), Some(1), Some(130)]
            }
            Ending::Whole => &[Some(0), Some(1)],
            // 4: something is left for restore to undo; 2: the store cannot be written.
            Ending::Detach | Ending::Remove | Ending::DiskFull | Ending::StoreFull => {
                &[Some(0), Some(1), Some(2), Some(3), Some(4)]
            }
        };
        if !known.contains(&output.status.code()) {
            findings.push(format!("exit code {} after {self:?}", output.status));
        }
        findings
    }
}

/// The output of a sweep; `None` if it had to be killed.
fn ended(child: Child) -> Option<Output> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(Duration::from_secs(LIMIT_S)) {
        Ok(output) => Some(output.expect("reap the sweep")),
        Err(_) => {
            // It has not been reaped, so the process ID is still its own.
            let _ = kill(pid, Signal::SIGKILL);
            None
        }
    }
}
