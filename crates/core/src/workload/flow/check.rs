//! The check that a flow can be performed: every step has the file that it needs, and for as long as it runs.
//!
//! A set whose files appear and disappear belongs to one role, and each of its workers has a share of the
//! names that no other one touches. So the number of files at each step follows from the steps alone, and a
//! step that would find none is an error of the plan, not of the run.

use super::act::{Act, Flags, FlowStep};
use super::files::{FileSet, MAX_FILE};
use super::value::place_of_step;
use super::{Flow, FlowRole};
use crate::operation::Role;
use crate::units::Bytes;
use crate::workload::parameter::{Inside, Refusal};
use crate::workload::{DIRECT_ALIGNMENT, MAX_IO_SIZE, MAX_WORKERS};
use std::collections::BTreeMap;

/// The largest extended attribute that Linux knows (XATTR_SIZE_MAX).
const MAX_XATTR: Bytes = Bytes(64 * Bytes::KIB);

/// The most steps of a flow, in all its roles and repeated lists. Each is checked against all others.
const MAX_STEPS: usize = 1000;

/// The first thing that is wrong with a flow.
pub(super) fn check(flow: &Flow) -> Result<(), Refusal> {
    for set in &flow.files.0 {
        set.check()?;
    }
    if flow.roles.0.is_empty() {
        return Err(Refusal::of("roles", "a table with at least one role"));
    }
    let steps = |role: &FlowRole| role.all_steps().len();
    let all: usize = flow.roles.0.iter().map(steps).sum();
    if let Some(longest) = flow.roles.0.iter().max_by_key(|role| steps(role)).filter(|_| all > MAX_STEPS) {
        let place = [longest.role.name(), "steps"].map(|key| Inside::Key(key.to_string())).to_vec();
        let text = format!(
            "a flow has at most {MAX_STEPS} steps in all, not {all}; `repeat` performs steps several times"
        );
        return Err(Refusal::sentence("roles", place, text));
    }
    for role in &flow.roles.0 {
        check_role(flow, role)?;
    }
    super::rate::check(flow)
}

fn check_role(flow: &Flow, role: &FlowRole) -> Result<(), Refusal> {
    let name = role.role.name();
    let refuse = |key: &str, text: String| {
        let place = vec![Inside::Key(name.to_string()), Inside::Key(key.to_string())];
        Err(Refusal::sentence("roles", place, text))
    };
    if role.role == Role::Null {
        return refuse("steps", "'null' is not a role of a flow".to_string());
    }
    if !(1..=MAX_WORKERS).contains(&role.workers) {
        let workers = role.workers;
        return refuse(
            "workers",
            format!("role '{name}' must have from 1 to {MAX_WORKERS} workers, not {workers}"),
        );
    }
    if role.operations().is_empty() {
        return refuse("steps", format!("role '{name}' has no timed step"));
    }
    let mut walk = Walk::new(flow, role);
    walk.list("begin", &role.begin)?;
    let at_first = walk.open.clone();
    let before = walk.files.clone();
    walk.list("steps", &role.steps)?;
    if walk.open.keys().ne(at_first.keys()) {
        let text = format!(
            "an iteration of role '{name}' must end with the files open that it begins with; open in `begin` \
             what stays open, and close the others"
        );
        return refuse("steps", text);
    }
    for (set, files) in &walk.files {
        let change = files.mean - before.get(set).map_or(0.0, |before| before.mean);
        if change.abs() > 1e-9 {
            let (does, instead, lacks) = match change > 0.0 {
                true => ("adds", "remove", "names"),
                false => ("removes", "create", "files"),
            };
            let text = format!(
                "an iteration of role '{name}' {does} {} files of set '{set}' on average; {instead} as many, \
                 or the set runs out of {lacks}",
                (change.abs() * 1e3).round() / 1e3
            );
            return refuse("steps", text);
        }
    }
    Ok(())
}

/// The files of a set that a worker may have when a step's turn comes.
#[derive(Debug, Clone, Copy)]
struct Files {
    /// The names that it has to itself, or that are for all.
    names: i64,
    /// The fewest files that exist, and the most.
    low: i64,
    high: i64,
    /// The expected number.
    mean: f64,
}

/// An open file.
#[derive(Debug, Clone)]
struct Opened {
    set: String,
    flags: Flags,
    /// A step has created it, so it is none of those that were open by then.
    is_new: bool,
    /// The number of steps that had opened one before.
    order: usize,
}

struct Walk<'a> {
    flow: &'a Flow,
    role: &'a FlowRole,
    list: &'static str,
    positions: Vec<usize>,
    /// False for steps that are performed at random.
    is_certain: bool,
    files: BTreeMap<String, Files>,
    open: BTreeMap<String, Opened>,
    /// The number of steps that have opened a file.
    opened: usize,
}

impl<'a> Walk<'a> {
    fn new(flow: &'a Flow, role: &'a FlowRole) -> Self {
        let of_set = |set: &FileSet| {
            // The worker with the smallest share.
            let share = if flow.divides(set) { set.count / u64::from(role.workers) } else { set.count };
            let existing = set.prefilled(share) as i64;
            (
                set.name.clone(),
                Files { names: share as i64, low: existing, high: existing, mean: existing as f64 },
            )
        };
        Walk {
            flow,
            role,
            list: "steps",
            positions: Vec::new(),
            is_certain: true,
            files: flow.files.0.iter().map(of_set).collect(),
            open: BTreeMap::new(),
            opened: 0,
        }
    }

    fn refuse<T>(&self, text: impl Into<String>) -> Result<T, Refusal> {
        let place = place_of_step(self.role.role.name(), self.list, &self.positions);
        Err(Refusal::sentence("roles", place, text))
    }

    fn list(&mut self, list: &'static str, steps: &[FlowStep]) -> Result<(), Refusal> {
        self.list = list;
        self.steps(steps)
    }

    fn steps(&mut self, steps: &[FlowStep]) -> Result<(), Refusal> {
        for (position, step) in steps.iter().enumerate() {
            self.positions.push(position);
            self.step(step)?;
            self.positions.pop();
        }
        Ok(())
    }

    fn step(&mut self, step: &FlowStep) -> Result<(), Refusal> {
        if step.probability >= 1.0 {
            return self.act(&step.act);
        }
        let (certain, before, open) = (self.is_certain, self.files.clone(), self.open.clone());
        self.is_certain = false;
        self.act(&step.act)?;
        self.is_certain = certain;
        if self.open.keys().ne(open.keys()) {
            return self.refuse(
                "a step that opens or closes a file cannot have a probability, because the steps after it \
                 need to know; give one to a `repeat` that opens, uses and closes it",
            );
        }
        for (set, files) in &mut self.files {
            let was = before[set];
            files.low = files.low.min(was.low);
            files.high = files.high.max(was.high);
            files.mean = was.mean + step.probability * (files.mean - was.mean);
        }
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each act")]
    fn act(&mut self, act: &Act) -> Result<(), Refusal> {
        match act {
            Act::Open { set, handle, flags, .. } => {
                self.choose(set, 1)?;
                self.opens(set, handle, *flags, false)
            }
            Act::Create { set, handle, flags, .. } => {
                self.add(set)?;
                self.opens(set, handle, *flags, true)
            }
            Act::ReadWhole { handle, buffer } => self.moves(handle, *buffer),
            Act::ReadNext { handle, size } => self.moves(handle, *size),
            Act::ReadRandom { handle, size } => self.at_random(handle, *size),
            Act::Overwrite { handle, size, .. } => self.at_random(handle, *size),
            Act::WriteWhole { handle, buffer } => {
                self.moves(handle, *buffer)?;
                let (opened, size) = self.of(handle)?;
                let aligned =
                    size.least() == size.largest() && size.largest().is_multiple_of(DIRECT_ALIGNMENT);
                match opened.flags.direct && !aligned {
                    true => self.refuse(
                        "with direct I/O, files are written whole only in multiples of 4k, all equal",
                    ),
                    false => Ok(()),
                }
            }
            Act::Append { handle, size } => {
                self.moves(handle, size.low)?;
                self.moves(handle, size.high)?;
                let direct = self.of(handle)?.0.flags.direct;
                match size.low > size.high || (direct && size.low != size.high) {
                    true => self.refuse("an append has one size, or two of which the smaller one is first"),
                    false => Ok(()),
                }
            }
            Act::Fsync { handle } | Act::Fdatasync { handle } => self.of(handle).map(drop),
            Act::Close { handle } => {
                self.of(handle)?;
                self.open.remove(handle);
                Ok(())
            }
            Act::FsyncDirectory { set } => self.set(set).map(drop),
            Act::Rename { set, to, over, .. } => {
                if *over {
                    self.has_no_links(set)?;
                    self.has_no_links(to)?;
                }
                let alike = set == to;
                self.choose(set, if alike && *over { 2 } else { 1 })?;
                match over {
                    true if !alike => self.choose(to, 1)?,
                    true => {}
                    false => self.add(to)?,
                }
                self.remove(set)
            }
            Act::Link { set, to, .. } => {
                self.choose(set, 1)?;
                self.add(to)
            }
            Act::Unlink { set, .. } => {
                self.choose(set, 1)?;
                self.remove(set)
            }
            Act::Stat { set, .. } | Act::Readdir { set, .. } => self.choose(set, 1),
            Act::Setxattr { handle, size } => {
                self.of(handle)?;
                let sensible = (Bytes(1)..=MAX_XATTR).contains(size);
                if sensible { Ok(()) } else { self.refuse(format!("an attribute has from 1 to {MAX_XATTR}")) }
            }
            Act::MmapRead { handle, size } | Act::MmapWrite { handle, size, .. } => {
                self.at_random(handle, *size)?;
                match self.of(handle)?.0.flags.direct {
                    true => {
                        self.refuse("a file that is open with O_DIRECT is not mapped here; open it without")
                    }
                    false => Ok(()),
                }
            }
            Act::CopyFileRange { from, to } => {
                let [(source, _), (target, _)] = [self.of(from)?, self.of(to)?];
                let later = if source.order > target.order { source } else { target };
                let differ = from != to && (source.set != target.set || later.is_new);
                match differ {
                    true => Ok(()),
                    false => self.refuse(
                        "copy_file_range(2) fails if it copies a part of a file onto itself; take the two \
                         files from different sets, or create one of them",
                    ),
                }
            }
            Act::Fallocate { handle, size } | Act::Truncate { handle, size } => {
                self.of(handle)?;
                match size.0 <= MAX_FILE.0 && (size.0 > 0 || matches!(act, Act::Truncate { .. })) {
                    true => Ok(()),
                    false => self.refuse(format!("the size must be from 1 to {MAX_FILE}")),
                }
            }
            Act::Think { .. } => Ok(()),
            Act::Post { signal, limit } => self.post(signal, *limit),
            Act::Await { signal, count } => self.wait(signal, *count),
            Act::Repeat { times, steps } => self.repeat(*times, steps),
        }
    }

    /// Somebody takes what is posted, and can do so before the limit keeps everybody from posting.
    fn post(&self, signal: &str, limit: u64) -> Result<(), Refusal> {
        let others = self.flow.roles.0.iter().filter(|role| role.role != self.role.role);
        let awaited = others.flat_map(FlowRole::all_steps).filter_map(|step| match &step.act {
            Act::Await { signal: other, count } if other == signal => Some(*count),
            _ => None,
        });
        match awaited.max() {
            None => self.refuse(format!("no other role waits for '{signal}'")),
            Some(count) if count > limit => self.refuse(format!(
                "a limit of {limit} keeps '{signal}' below the {count} that another role waits for"
            )),
            Some(_) => Ok(()),
        }
    }

    fn wait(&self, signal: &str, count: u64) -> Result<(), Refusal> {
        let others = self.flow.roles.0.iter().filter(|role| role.role != self.role.role);
        let is_posted = others
            .flat_map(FlowRole::all_steps)
            .any(|step| matches!(&step.act, Act::Post { signal: other, .. } if other == signal));
        match (count, is_posted) {
            (0, _) => self.refuse("`count` must be at least 1"),
            (_, false) => self.refuse(format!("no other role posts '{signal}'")),
            _ => Ok(()),
        }
    }

    /// The first round is checked step by step, the others by what changes from one to the next.
    fn repeat(&mut self, times: u32, steps: &[FlowStep]) -> Result<(), Refusal> {
        if times == 0 || steps.is_empty() {
            return self.refuse("`repeat` must be at least 1, with at least one step");
        }
        let (before, open) = (self.files.clone(), self.open.clone());
        self.steps(steps)?;
        if self.open.keys().ne(open.keys()) {
            return self.refuse("a repeated list must end with the files open that it begins with");
        }
        for (set, files) in &mut self.files {
            let (was, more) = (before[set], i64::from(times) - 1);
            files.low += more * (files.low - was.low);
            files.high += more * (files.high - was.high);
            files.mean += more as f64 * (files.mean - was.mean);
        }
        for (set, files) in self.files.clone() {
            self.in_bounds(&set, files)?;
        }
        Ok(())
    }

    fn in_bounds(&self, set: &str, files: Files) -> Result<(), Refusal> {
        if files.low < 0 && self.is_certain {
            return self
                .refuse(format!("it removes more files of set '{set}' than there are{}", self.each()));
        }
        if files.high > files.names && self.is_certain {
            return self.refuse(format!(
                "it creates more files in set '{set}' than it has names, {}{}; raise its `count` or lower \
                 its `prefill`",
                files.names,
                self.each()
            ));
        }
        Ok(())
    }

    /// Of a set that is divided among workers.
    fn each(&self) -> String {
        if self.role.workers > 1 {
            format!(" for each of {} workers", self.role.workers)
        } else {
            String::new()
        }
    }

    fn set(&self, name: &str) -> Result<&'a FileSet, Refusal> {
        if let Some(set) = self.flow.files.find(name) {
            return Ok(set);
        }
        let known = || self.flow.files.0.iter().map(|set| set.name.as_str());
        let hint = match (crate::nearest(name, known()), known().next()) {
            (Some(nearest), _) => format!("; did you mean '{nearest}'?"),
            (None, Some(_)) => format!("; there are {}", known().collect::<Vec<_>>().join(", ")),
            (None, None) => "; `files` has none".to_string(),
        };
        self.refuse(format!("unknown file set '{name}'{hint}"))
    }

    /// A step chooses among the files of a set.
    fn choose(&self, name: &str, least: i64) -> Result<(), Refusal> {
        if self.flow.divides(self.set(name)?) {
            self.owns(name)?;
        }
        let files = self.files[name];
        if files.high < least {
            let text = match least {
                1 => format!(
                    "it chooses a file of set '{name}' before any can exist{}; raise its `prefill` or \
                     `count`, or create one first",
                    self.each()
                ),
                _ => format!("it needs {least} files of set '{name}'{}", self.each()),
            };
            return self.refuse(text);
        }
        Ok(())
    }

    fn add(&mut self, name: &str) -> Result<(), Refusal> {
        self.set(name)?;
        self.owns(name)?;
        if let Some(files) = self.files.get_mut(name) {
            (files.low, files.high, files.mean) = (files.low + 1, files.high + 1, files.mean + 1.0);
        }
        self.in_bounds(name, self.files[name])
    }

    /// rename(2) does nothing if both names are links of the same file: both exist after it.
    fn has_no_links(&self, name: &str) -> Result<(), Refusal> {
        let mut steps = self.flow.roles.0.iter().flat_map(FlowRole::all_steps);
        match steps.any(|step| matches!(&step.act, Act::Link { to, .. } if to == name)) {
            true => self.refuse(format!(
                "a rename over a file does nothing if both names are links of the same file, and a step adds \
                 links to set '{name}'; give the links a set of their own"
            )),
            false => Ok(()),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        self.set(name)?;
        self.owns(name)?;
        if let Some(files) = self.files.get_mut(name) {
            (files.low, files.high, files.mean) = (files.low - 1, files.high - 1, files.mean - 1.0);
        }
        self.in_bounds(name, self.files[name])
    }

    /// A set whose files appear and disappear belongs to the role that does it.
    fn owns(&self, name: &str) -> Result<(), Refusal> {
        let other = self.flow.roles.0.iter().find(|other| other.role != self.role.role && other.uses(name));
        match other {
            None => Ok(()),
            Some(other) => self.refuse(format!(
                "only one role may use set '{name}', because each worker has its own files of it, but role \
                 '{}' does too; give each a set of its own",
                other.role.name()
            )),
        }
    }

    fn opens(&mut self, set: &str, handle: &str, flags: Flags, is_new: bool) -> Result<(), Refusal> {
        if self.open.contains_key(handle) {
            return self
                .refuse(format!("'{handle}' is still open; close it before, or name this one with `as`"));
        }
        self.opened += 1;
        let opened = Opened { set: set.to_string(), flags, is_new, order: self.opened };
        self.open.insert(handle.to_string(), opened);
        Ok(())
    }

    /// An open file, and the sizes of its set.
    fn of(&self, handle: &str) -> Result<(&Opened, &'a super::FileSize), Refusal> {
        match self.open.get(handle) {
            Some(opened) => Ok((opened, &self.set(&opened.set)?.size)),
            None => self.refuse(format!("nothing has opened '{handle}' before")),
        }
    }

    /// A read or write of this size.
    fn moves(&self, handle: &str, size: Bytes) -> Result<(), Refusal> {
        let (opened, _) = self.of(handle)?;
        if size == Bytes(0) || size > MAX_IO_SIZE {
            return self
                .refuse(format!("a read or write must have a size from 1 to {MAX_IO_SIZE}, not {size}"));
        }
        match opened.flags.direct && !size.0.is_multiple_of(DIRECT_ALIGNMENT) {
            true => self.refuse(format!("direct I/O has sizes in multiples of 4k, not {size}")),
            false => Ok(()),
        }
    }

    /// A step at a position inside of a file, whose size must be known.
    fn at_random(&self, handle: &str, size: Bytes) -> Result<(), Refusal> {
        self.moves(handle, size)?;
        let (opened, sizes) = self.of(handle)?;
        let set = &opened.set;
        if sizes.least() < size.0 {
            return self
                .refuse(format!("{size} do not fit into every file of set '{set}'; raise its `size`"));
        }
        match self.flow.roles.0.iter().find_map(|role| role.spoils_sizes(set)) {
            Some(step) => self.refuse(format!(
                "the sizes of the files of set '{set}' must be known, but a step `{step}` changes them"
            )),
            None => Ok(()),
        }
    }
}
