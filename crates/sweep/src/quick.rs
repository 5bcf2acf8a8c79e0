//! The plan of `fsdyno quick DEVICE`: which of the usual filesystems is best on this device, answered in a
//! given time.
//!
//! The load is that of the ready plan `which-filesystem`: readers of small files, alone and alongside
//! writers. Its sizes follow from the time. A third of each trial is for creating the trees; the memory of
//! the load is a sixteenth of them where possible, so that the tree of each reader is four times as large as
//! what can be cached, whatever the memory of the machine; the device has room for four times the trees. The
//! sweep is repeated until it is decided which filesystem is best; eight repetitions fit, and what remains of
//! the time is for ramps and windows. Before that, the rate of the writers is measured.
//!
//! The text is a plan like any other, with the sizes in it: it is stored with the results, and can be saved
//! and edited. Nothing is decided here about what may be written to: that is up to the guards of the sweep.

use crate::error::PlanError;
use crate::estimate::{self, ASSUMED_LIFECYCLE, ASSUMED_TREE_RATE};
use crate::fit::{Fit, FitError, PLANNED_PERCENT, compact, fit, rounded_down};
use crate::plan::Plan;
use crate::sizes::Sizes;
use fsdyno_core::reserve::reserve;
use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos, Workload, meminfo};
use fsdyno_host::guest::Guests;
use fsdyno_host::{Host, HostError};
use fsdyno_testbed::MissingPrivilege;
use fsdyno_testbed::guard::identity_text;
use fsdyno_verdict::text::plural;
use std::path::{Path, PathBuf};

/// The name of the plan.
pub const QUICK: &str = "quick";
/// The image that is created in a directory.
const IMAGE: &str = "fsdyno-quick.img";
/// The filesystems that are compared, where they are available.
const FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// The number of repetitions that fit: with that many, half of the sweeps find a difference of 15 % between
/// three filesystems if trials vary by 5 %.
const REPETITIONS: u32 = 8;
/// The smallest size of all trees: with less, there are too few files for a window.
const LEAST_TREES: Bytes = Bytes(512 * Bytes::MIB);
/// The largest: more takes long to create, and shows nothing else.
const MOST_TREES: Bytes = Bytes(64 * Bytes::GIB);
/// The device has room for this many times the trees; writers use less than one of them.
const ROOM: u64 = 4;
/// The trees have this many times the memory.
const CACHED: u64 = 16;
/// The least memory: with less, three writers of large files may be killed for it.
const LEAST_MEMORY: Bytes = Bytes(64 * Bytes::MIB);
/// The shortest useful window, and the longest.
const WINDOWS: [Nanos; 2] = [Nanos::from_secs(2), Nanos::from_secs(30)];

/// The choices of a user.
#[derive(Debug)]
pub struct QuickOptions<'a> {
    /// A block device, a directory for an image, or an image to be created.
    pub target: &'a Path,
    /// The time that the sweep may take.
    pub time: Nanos,
    /// `PATH=VALUE` arguments that change the plan.
    pub set: &'a [String],
    /// The modelled disks whose times an image has.
    pub disks: &'a [String],
}

/// The plan of a quick sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Quick {
    /// The plan.
    pub plan: Plan,
    /// The estimated time.
    pub time: Nanos,
    /// Filesystems that are not compared, each with the reason.
    pub left_out: Vec<String>,
}

/// Why there is no such plan.
#[derive(Debug, thiserror::Error)]
pub enum QuickError {
    /// It does not exist, or cannot be examined.
    #[error("cannot use '{}'", target.display())]
    Target {
        /// The path that the user named.
        target: PathBuf,
        /// The error that the host reported.
        source: Box<HostError>,
    },
    /// It is meant to be a device, and does not exist.
    #[error("'{}' does not exist", target.display())]
    Absent {
        /// The path that the user named.
        target: PathBuf,
    },
    /// It is something else.
    #[error("'{}' exists and is neither a block device nor a directory", target.display())]
    Kind {
        /// The path that the user named.
        target: PathBuf,
    },
    /// A device needs root even to be examined.
    #[error("{}", lack.of_sweep())]
    NeedsRoot {
        /// Why this is not root.
        lack: MissingPrivilege,
    },
    /// A device has its own times.
    #[error("'{}' is a device, and has its own times, not those of a model", target.display())]
    HasTimes {
        /// The path that the user named.
        target: PathBuf,
    },
    /// Its name cannot be written into a plan.
    #[error("the name '{}' is not valid UTF-8", target.display())]
    Name {
        /// The path that the user named.
        target: PathBuf,
    },
    /// It is too small.
    #[error("'{}' has only {room}{}; quick needs at least {needed}", target.display(),
        if *is_block { "" } else { " free beyond the reserve" })]
    NoRoom {
        /// The path that the user named.
        target: PathBuf,
        /// The space that there is.
        room: Bytes,
        /// The space that is needed.
        needed: Bytes,
        /// `true` if the target is a device of that size.
        is_block: bool,
    },
    /// No filesystem can be created here.
    #[error("nothing to compare: {}", reasons.join("; "))]
    Nothing {
        /// Why not, for each filesystem.
        reasons: Vec<String>,
    },
    /// It does not fit into the time, or what the user has set is wrong.
    #[error(transparent)]
    Fit(#[from] FitError),
}

impl From<PlanError> for QuickError {
    fn from(error: PlanError) -> Self {
        QuickError::Fit(FitError::Plan(error))
    }
}

impl QuickError {
    fn of(target: &Path, error: HostError) -> Self {
        QuickError::Target { target: target.to_path_buf(), source: Box::new(error) }
    }

    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            QuickError::Fit(FitError::TooShort { least, .. }) => {
                return Some(format!("allow --for {}", compact(*least)));
            }
            QuickError::Fit(error) => return error.hint(),
            QuickError::Target { .. } => "name a block device, or a directory with room for an image",
            QuickError::HasTimes { .. } => "name a directory with room for an image, or leave out --disk",
            QuickError::Absent { .. } => "lsblk lists the block devices",
            QuickError::Kind { .. } => {
                "name its directory, or a path where nothing is: quick creates an image there and removes it"
            }
            QuickError::NeedsRoot { lack: MissingPrivilege::Root } => {
                "fsdyno bench DIR measures a directory without root"
            }
            QuickError::NeedsRoot { lack } => lack.hint(),
            QuickError::Name { .. } => "rename it, or name it by another path",
            QuickError::NoRoom { is_block: true, .. } => "name a larger device",
            QuickError::NoRoom { .. } => "free some space, or name a directory on another filesystem",
            QuickError::Nothing { .. } => "fsdyno doctor says what to install",
        };
        Some(hint.to_string())
    }
}

/// The plan that answers which filesystem is best on a device, in this time. Nothing is written.
///
/// # Errors
/// [`QuickError`].
pub fn quick(
    host: &mut dyn Host,
    guests: &mut dyn Guests,
    options: &QuickOptions<'_>,
) -> Result<Quick, QuickError> {
    let place = Scratch::find(host, options.target)?;
    let mut draft = Draft::new(host, &place, options)?;
    let left_out = draft.leave_out(host, guests, options.set)?;
    draft.choose_sizes();
    let text = draft.text();
    let source = |set: &[String]| Plan::parse(&text, QUICK, set);
    let Fit { plan, time, .. } = fit(&source, options.set, options.time, host, guests)?;
    draft.take(&plan);
    let plan = Plan::parse(&draft.text(), QUICK, options.set)?;
    Ok(Quick { plan, time, left_out })
}

impl Quick {
    /// Returns the choices, for a person: a line on the device and the number of trials, and one on the load;
    /// then the filesystems that are not compared.
    pub fn choices(&self) -> Vec<String> {
        let names: Vec<String> =
            self.plan.configurations.iter().map(|one| one.configuration.name.clone()).collect();
        let memory = self.plan.configurations.iter().find_map(|one| one.configuration.memory());
        let memory = memory.map(|memory| format!(", with {memory} of memory")).unwrap_or_default();
        let repetitions = match self.plan.enough {
            Some(enough) if enough.is_auto() => "repeated until the answer is decided".to_string(),
            _ => plural(u64::from(self.plan.repetitions), "repetition"),
        };
        let first = format!("{} on {}, {repetitions}", names.join(", "), self.plan.device_in_words());
        let loads = self.plan.workloads.iter().map(|one| format!("{}{memory}", one.load().title()));
        let left_out = self.left_out.iter().map(|reason| format!("not compared: {reason}"));
        std::iter::once(first).chain(loads).chain(left_out).collect()
    }
}

/// Where filesystems are created.
struct Scratch {
    /// The path that the user named.
    target: PathBuf,
    /// The device, or the image.
    path: PathBuf,
    is_block: bool,
    /// The space for trees, writers and the filesystem itself.
    room: Bytes,
    /// The text that distinguishes the device from others even after the next boot.
    identity: Option<String>,
}

impl Scratch {
    fn find(host: &mut dyn Host, target: &Path) -> Result<Self, QuickError> {
        let absolute = std::path::absolute(target).unwrap_or(target.to_path_buf());
        if absolute.to_str().is_none() {
            return Err(QuickError::Name { target: target.to_path_buf() });
        }
        if host.list_directory(&absolute).is_ok() {
            return Scratch::image(host, target, absolute.join(IMAGE));
        }
        let known = host.file_identity(&absolute);
        let Some(known) = known.map_err(|error| QuickError::of(target, error))? else {
            if absolute.starts_with("/dev") && !absolute.starts_with("/dev/shm") {
                return Err(QuickError::Absent { target: target.to_path_buf() });
            }
            return Scratch::image(host, target, absolute);
        };
        if known.regular {
            return Err(QuickError::Kind { target: target.to_path_buf() });
        }
        if let Some(lack) = MissingPrivilege::of(host) {
            return Err(QuickError::NeedsRoot { lack });
        }
        let probe = host.probe_device(&absolute).map_err(|error| QuickError::of(target, error))?;
        if !probe.block {
            return Err(QuickError::Kind { target: target.to_path_buf() });
        }
        // Without a serial number, only the kernel's own would distinguish it: another one after each boot.
        let identity = probe.identity.serial.is_some().then(|| identity_text(&probe.identity));
        Ok(Scratch {
            target: target.to_path_buf(),
            path: absolute,
            is_block: true,
            room: probe.size(),
            identity,
        })
    }

    fn image(host: &mut dyn Host, target: &Path, path: PathBuf) -> Result<Self, QuickError> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let room = host.list_directory(directory).and_then(|_| host.room(directory));
        let room = room.map_err(|error| QuickError::of(target, error))?;
        // Twice as much is reserved where the store is.
        let free = room.free.0.saturating_sub(2 * reserve(room.size).0);
        let free = Bytes(free / Bytes::MIB * Bytes::MIB);
        Ok(Scratch { target: target.to_path_buf(), path, is_block: false, room: free, identity: None })
    }
}

/// The plan while its sizes are chosen.
struct Draft<'a> {
    place: &'a Scratch,
    disks: &'a [String],
    time: Nanos,
    /// Half of the machine's memory, if that is known.
    memory_max: Bytes,
    filesystems: Vec<&'static str>,
    trees: Bytes,
    ramp: Ramp,
    window: Nanos,
}

impl<'a> Draft<'a> {
    fn new(host: &mut dyn Host, place: &'a Scratch, options: &QuickOptions<'a>) -> Result<Self, QuickError> {
        if place.is_block && !options.disks.is_empty() {
            return Err(QuickError::HasTimes { target: place.target.clone() });
        }
        let needed = Bytes(LEAST_TREES.0 * ROOM);
        if place.room < needed {
            let Scratch { ref target, room, is_block, .. } = *place;
            return Err(QuickError::NoRoom { target: target.clone(), room, needed, is_block });
        }
        let text = host.read_text(Path::new("/proc/meminfo")).unwrap_or_default();
        let total = meminfo::value(&text, "MemTotal").map_or(u64::MAX, |total| total.0);
        Ok(Draft {
            place,
            disks: options.disks,
            time: options.time,
            memory_max: Bytes(total / 2 / Bytes::MIB * Bytes::MIB),
            filesystems: FILESYSTEMS.to_vec(),
            trees: LEAST_TREES,
            ramp: Ramp::secs(1),
            window: WINDOWS[0],
        })
    }

    /// Leaves out what cannot run here, and returns the reasons.
    fn leave_out(
        &mut self,
        host: &mut dyn Host,
        guests: &mut dyn Guests,
        set: &[String],
    ) -> Result<Vec<String>, QuickError> {
        let plan = Plan::parse(&self.text(), QUICK, set)?;
        let cases = plan.cases();
        let sizes = Sizes::of(host, guests, &plan, &cases);
        let unmet = estimate::unmet(&plan, host, guests, &cases, sizes.device);
        let mut reasons = Vec::new();
        self.filesystems.retain(|name| {
            let own = cases.iter().zip(&unmet).filter(|(case, _)| case.configuration.filesystem == *name);
            let own: Vec<_> = own.collect();
            // What the user has set may be about other filesystems.
            let runs = own.is_empty() || own.iter().any(|(_, unmet)| unmet.is_empty());
            if let (false, Some((_, unmet))) = (runs, own.first()) {
                reasons.push(format!("{name} ({})", unmet.join("; ")));
            }
            runs
        });
        if self.filesystems.is_empty() {
            return Err(QuickError::Nothing { reasons });
        }
        Ok(reasons)
    }

    /// Chooses sizes and windows that should fit.
    fn choose_sizes(&mut self) {
        let cases = (self.filesystems.len() * self.disks.len().max(1)) as u64;
        // With a sentinel for each block, unless there is nothing to compare, and a block before them.
        let trials = u64::from(REPETITIONS + 1) * (cases + u64::from(cases > 1));
        let trial = Nanos(self.time.0 / 100 * PLANNED_PERCENT / trials);
        let by_time = u128::from(trial.0 / 3) * u128::from(ASSUMED_TREE_RATE) / 1_000_000_000;
        let by_time = u64::try_from(by_time).unwrap_or(u64::MAX).clamp(LEAST_TREES.0, MOST_TREES.0);
        self.trees = Bytes(1 << by_time.min(self.place.room.0 / ROOM).ilog2());
        let creating = Nanos::from_secs(self.trees.0 / ASSUMED_TREE_RATE);
        let rest = trial.0.saturating_sub(ASSUMED_LIFECYCLE.0).saturating_sub(creating.0);
        let [least, most] = WINDOWS;
        // Two thirds of each of the three phases are measured.
        self.window = rounded_down(Nanos(rest / 3 / 3 * 2)).clamp(least, most);
        self.ramp = Ramp::For(rounded_down(Nanos(self.window.0 / 2)));
    }

    /// Takes over the sizes and times of the fitted plan.
    fn take(&mut self, fitted: &Plan) {
        if let Some(Workload::Fileserver(load)) = fitted.workloads.first() {
            self.trees = load.tree_size;
            self.ramp = load.ramp;
            self.window = load.window;
        }
    }

    fn memory(&self) -> Bytes {
        Bytes(self.trees.0 / CACHED).min(self.memory_max).max(LEAST_MEMORY)
    }

    /// The plan as a person would write it.
    fn text(&self) -> String {
        let Draft { place, time, filesystems, trees, ramp, window, .. } = self;
        let quoted = |text: &str| toml::Value::String(text.to_string()).to_string();
        let path = quoted(&place.path.to_string_lossy());
        let size = Bytes(trees.0 * ROOM);
        let ramp = match ramp {
            Ramp::For(ramp) => compact(*ramp),
            other => other.to_string(),
        };
        let names: Vec<String> = filesystems.iter().map(|name| quoted(name)).collect();
        let about = |line: String, comment: &str| format!("{line:<31} # {comment}");
        let (rate, why) = match self.disks.len() {
            0 | 1 => ("auto", "files a second that each filesystem can write; measured first"),
            _ => ("closed", "writers write as fast as each disk lets them"),
        };
        let mut lines = vec![
            format!(
                "# Which of {} serves readers of small files best while others write?",
                filesystems.join(", ")
            ),
            format!(
                "# Made by `fsdyno quick` for {path} and {}; `fsdyno plan FILE` shows what it does.",
                compact(*time)
            ),
            String::new(),
            format!("name = \"{QUICK}\""),
            about("repetitions = \"auto\"".to_string(), "as many trials of each case as the answer needs"),
            about(format!("time_limit = \"{}\"", compact(*time)), "or as many as fit into this"),
            about("measure = \"read-under-write\"".to_string(), "what the summary ranks by"),
            about(
                format!("memory = \"{}\"", self.memory()),
                "less than a tree, so that trees are read from the device",
            ),
            String::new(),
            "[device]".to_string(),
        ];
        if place.is_block {
            lines.push(about(format!("block = {path}"), "everything on it is lost; --destroy confirms it"));
            lines.extend(place.identity.as_ref().map(|identity| format!("identity = {}", quoted(identity))));
        } else {
            lines.push(about(format!("image = {path}"), "sparse; made and removed by the sweep"));
            lines.push(format!("size = \"{size}\""));
            let disks: Vec<String> = self.disks.iter().map(|name| quoted(name)).collect();
            let model = format!("model = [{}]", disks.join(", "));
            lines.extend((!disks.is_empty()).then(|| about(model, "whose times it has under load")));
        }
        lines.extend([
            String::new(),
            "[axes]".to_string(),
            format!("filesystem = [{}]", names.join(", ")),
            String::new(),
            "[[workloads]]".to_string(),
            about("kind = \"fileserver\"".to_string(), "readers of small files, alone and alongside writers"),
            about(
                format!("tree_size = \"{trees}\""),
                "a tree for each of three readers, and one for the first phase",
            ),
            about(
                format!("writer_space = \"{}\"", Bytes(trees.0 / ROOM)),
                "what each of three writers may use",
            ),
            about(format!("write_rate = \"{rate}\""), why),
            format!("ramp = \"{ramp}\""),
            format!("window = \"{}\"", compact(*window)),
        ]);
        lines.join("\n") + "\n"
    }
}
