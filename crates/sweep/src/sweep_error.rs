//! Why a sweep does not start, or cannot continue.

use fsdyno_core::Failure;
use fsdyno_store::{StoreError, SweepId, SweepState};
use fsdyno_testbed::{MissingPrivilege, TestbedError};
use std::fmt;
use std::path::PathBuf;

/// Why a sweep did not start, or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A guard refused, or the undo journal cannot be kept.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// Results cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are not as many clients as the plan wants.
    #[error("the plan wants {planned} clients, and there are {clients}")]
    Clients {
        /// The number of clients that the plan wants.
        planned: u32,
        /// The number of clients that there are.
        clients: usize,
    },
    /// A client is lost, and what follows needs it.
    #[error("{reason}; the sweep stops")]
    ClientLost {
        /// Which, and why.
        reason: String,
    },
    /// Machines of a fleet cannot run trials; nothing has been changed on any.
    #[error("refused, nothing was written{}", of_machines(refused))]
    RefusedByMachines {
        /// Their names, and why.
        refused: Vec<(String, String)>,
    },
    /// Something is said of a machine that the fleet does not have.
    #[error("'{what}' names no machine of the fleet; it has {}", machines.join(", "))]
    NoMachine {
        /// As written.
        what: String,
        /// The names of those that have joined.
        machines: Vec<String>,
    },
    /// All machines of a fleet are lost, and trials are left.
    #[error("no machine of the fleet is left, and the sweep stops{}", of_machines(lost))]
    NoMachineLeft {
        /// Their names, and why.
        lost: Vec<(String, String)>,
    },
    /// The user does not want to wait for the machines of a fleet.
    #[error("interrupted before the sweep began")]
    Interrupted,
    /// A trial cannot be stored; its record is kept in a file.
    #[error(
        "cannot store trial {}; its record is kept in '{}', and the sweep stops",
        trial + 1,
        kept.display()
    )]
    NotStored {
        /// The trial.
        trial: u32,
        /// The file.
        kept: PathBuf,
        /// Why.
        source: Box<StoreError>,
    },
    /// A trial cannot be stored, and its record cannot be kept either: it is lost.
    #[error("cannot store trial {} ({cause}); the sweep stops", trial + 1)]
    Lost {
        /// The trial.
        trial: u32,
        /// Why it could not be stored.
        cause: String,
        /// Why it could not be kept.
        source: Box<StoreError>,
    },
    /// The engine does not run, even without a filesystem.
    #[error("cannot run the engine: {failure}")]
    Engine {
        /// The failure.
        failure: Box<Failure>,
    },
    /// The filesystem with the images or with the directory under test has only its reserve left.
    #[error("{}; the sweep stops, and the trial is not stored", failure.message)]
    NoRoom {
        /// Which one.
        failure: Box<Failure>,
    },
    /// The plan has commands of its own, and the user has not allowed them.
    #[error("refused, nothing was done: the plan runs commands of its own{}{}",
        if *as_root { " as root" } else { "" }, listed(commands))]
    HooksNotAllowed {
        /// Them, one line each.
        commands: Vec<String>,
        /// `true` if they would run as root.
        as_root: bool,
    },
    /// Somebody has removed the file of the store.
    #[error(
        "results '{}' were moved or removed while the sweep was running; everything that was measured is in \
         '{}'",
        path.display(),
        rescued.display()
    )]
    StoreRemoved {
        /// Where it was.
        path: PathBuf,
        /// Its copy.
        rescued: PathBuf,
    },
    /// Only root can create and mount filesystems.
    #[error("{}", lack.of_sweep())]
    NeedsRoot {
        /// Why this is not root.
        lack: MissingPrivilege,
    },
    /// Nothing can race alone.
    #[error(
        "a race needs at least two configurations that can run here, but of {configurations} {}",
        match runs {
            0 => "none can".to_string(),
            runs => format!("only {runs} can"),
        }
    )]
    NoRace {
        /// The number of configurations of the plan.
        configurations: usize,
        /// The number of configurations that can run.
        runs: usize,
    },
    /// A sweep can only continue with the plan that it was started with.
    #[error("sweep {sweep} ('{name}') was started with {differs}")]
    PlanDiffers {
        /// The sweep.
        sweep: SweepId,
        /// Its name.
        name: String,
        /// In what.
        differs: Differs,
    },
    /// A sweep from a file can only be shown: figures of two machines must not be mixed.
    #[error("sweep {sweep} ('{name}') is from a file: it was measured elsewhere and cannot continue here")]
    MeasuredElsewhere {
        /// The sweep.
        sweep: SweepId,
        /// Its name.
        name: String,
    },
    /// No sweep of the plan was interrupted.
    #[error("no interrupted sweep of this plan is stored{}", match (state, candidate) {
        (Some(state), Some((id, name))) => format!("; the latest one, sweep {id} ('{name}'), is {state}"),
        (None, Some((id, name))) => format!("; sweep {id} ('{name}') was started with another text of the \
            plan"),
        (_, None) => String::new(),
    })]
    NothingToResume {
        /// The state of the candidate, if it is a sweep of the plan.
        state: Option<SweepState>,
        /// The sweep that the user may have meant.
        candidate: Option<(SweepId, String)>,
    },
    /// Blocks are added to what has ended.
    #[error("sweep {sweep} ('{name}') has not ended, so nothing can be added to it yet")]
    NotEnded {
        /// The sweep.
        sweep: SweepId,
        /// Its name.
        name: String,
    },
    /// A race has its own rounds.
    #[error(
        "sweep {sweep} ('{name}') was a race, which decides itself how often each configuration is measured"
    )]
    MoreOfRace {
        /// The sweep.
        sweep: SweepId,
        /// Its name.
        name: String,
    },
    /// Trials of two kernels are not trials of one configuration.
    #[error(
        "sweep {sweep} cannot go on here: {} ran on kernel {then}, and this is {now}",
        configuration.as_ref().map_or("its trials".to_string(), |name| format!("'{name}'"))
    )]
    KernelDiffers {
        /// The sweep.
        sweep: SweepId,
        /// The configuration, if it runs in guests.
        configuration: Option<String>,
        /// The kernel of its trials.
        then: String,
        /// The one of now.
        now: String,
    },
    /// A sweep cannot be resumed on another disk.
    #[error(
        "'{}' is not a disk that sweep {sweep} was started on: that was {then}; this is {now}",
        path.display()
    )]
    DiskDiffers {
        /// The sweep.
        sweep: SweepId,
        /// The disk, as the plan names it.
        path: PathBuf,
        /// A description of the disk that was there.
        then: String,
        /// A description of the disk that is there now.
        now: String,
    },
}

/// The part of a sweep's original plan that differs from the plan that should continue it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Differs {
    /// The text of the plan.
    Text,
    /// The arguments that change it.
    Overrides {
        /// The arguments that the sweep was started with.
        then: Vec<String>,
    },
    /// A file that the plan names, such as that of a flow.
    Files {
        /// The first case whose load is another one now.
        case: u32,
    },
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Differs::Text => f.write_str("another text of the plan"),
            Differs::Files { case } => write!(
                f,
                "another load of case {case}: a file that the plan names, such as that of a flow, has changed"
            ),
            Differs::Overrides { then } if then.is_empty() => f.write_str("no changes to the plan"),
            Differs::Overrides { then } => {
                let sets: Vec<String> = then.iter().map(|set| format!("--set '{set}'")).collect();
                f.write_str(&sets.join(" "))
            }
        }
    }
}

fn listed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn of_machines(lines: &[(String, String)]) -> String {
    lines.iter().map(|(machine, reason)| format!("\non {machine}: {reason}")).collect()
}

impl SweepError {
    /// The next step for the user, if there is an obvious one.
    #[expect(clippy::too_many_lines, reason = "one arm for each error")]
    pub fn hint(&self) -> Option<String> {
        match self {
            SweepError::Testbed(error) => error.failure().hint,
            SweepError::NotStored { .. } => Some(
                "free some space, raise a limit on files (ulimit -f), or stop what locks the store; `fsdyno restore` then adds the record, and \
                 `fsdyno sweep PLAN --resume` continues a sweep that is not complete"
                    .to_string(),
            ),
            SweepError::Store(error) => error.hint(),
            SweepError::StoreRemoved { rescued, .. } => {
                let file = rescued.display();
                Some(format!("fsdyno --store '{file}' sweep PLAN --resume continues the sweep there"))
            }
            SweepError::NoRoom { failure } => failure.hint.clone(),
            SweepError::Lost { .. } => None,
            SweepError::Engine { failure } => failure.hint.clone(),
            SweepError::HooksNotAllowed { .. } => {
                Some("if you know what each of them does, add --allow-hooks".to_string())
            }
            SweepError::NoRace { .. } => Some("fsdyno plan PLAN says what the others lack".to_string()),
            SweepError::ClientLost { .. } => {
                Some("bring it back; the same command with --resume goes on with the other trials".to_string())
            }
            SweepError::Clients { planned, .. } => Some(format!(
                "--launch COMMAND starts them, such as --launch 'srun -N{planned} --ntasks-per-node=1'"
            )),
            SweepError::NoMachine { what, machines } => {
                let name = machines.first().map_or("NAME", String::as_str);
                let device = what.rsplit([' ', ':']).next().filter(|device| device.starts_with('/'));
                Some(format!(
                    "machines have the names that `hostname` prints; each device is confirmed for its own: \
                     --destroy {name}:{}",
                    device.unwrap_or("/dev/sdb")
                ))
            }
            SweepError::NoMachineLeft { .. } => Some(
                "bring them back; the same command with --resume goes on with the other trials".to_string(),
            ),
            SweepError::RefusedByMachines { .. } | SweepError::Interrupted => None,
            SweepError::NeedsRoot { lack: MissingPrivilege::Root } => Some(
                "it creates and mounts filesystems; fsdyno bench DIR measures a directory without root"
                    .to_string(),
            ),
            SweepError::NeedsRoot { lack } => {
                Some(format!("{}; fsdyno bench DIR measures a directory here", lack.hint()))
            }
            SweepError::PlanDiffers { differs: Differs::Overrides { .. }, .. } => Some(
                "omit --set and the like: --resume uses what the sweep was started with; or start a new \
                 sweep without --resume"
                    .to_string(),
            ),
            SweepError::PlanDiffers { differs: Differs::Files { .. }, .. } => Some(
                "put the file back as it was (fsdyno show SWEEP --format json contains the load), or start a \
                 new sweep without --resume"
                    .to_string(),
            ),
            SweepError::PlanDiffers { .. } => Some(
                "put back the plan as it was (fsdyno show SWEEP --format json contains it), or start a new \
                 sweep without --resume"
                    .to_string(),
            ),
            SweepError::MeasuredElsewhere { sweep, .. } => Some(format!(
                "without --resume a new sweep begins, and fsdyno compare {sweep} SWEEP holds it against that one"
            )),
            SweepError::NothingToResume { .. } => {
                Some("fsdyno list shows the stored sweeps; without --resume a new one begins".to_string())
            }
            SweepError::NotEnded { sweep, .. } => {
                Some(format!("fsdyno sweep --resume {sweep} runs what is missing"))
            }
            SweepError::MoreOfRace { .. } => {
                Some("start a new sweep of its plan with a larger --budget".to_string())
            }
            SweepError::KernelDiffers { .. } => {
                Some("boot the kernel of its trials, or start a new sweep of its plan".to_string())
            }
            SweepError::DiskDiffers { .. } => Some(
                "reconnect that disk under this name, or start a new sweep without --resume; a name in \
                 /dev/disk/by-id always refers to the same disk"
                    .to_string(),
            ),
        }
    }
}
