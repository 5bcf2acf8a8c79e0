//! The check that a flow can be verified. What is known about the contents of files depends on how they are
//! written.

use super::act::{Act, Flags, FlowStep};
use super::files::FileSet;
use super::value::place_of_step;
use super::{Flow, FlowRole};
use crate::units::Bytes;
use crate::workload::parameter::{Inside, Refusal};
use std::collections::BTreeMap;

/// Contents tell for this many bytes which file, offset and version they are.
const SECTOR: u64 = 512;

/// Bytes of memory that a verified flow needs for each file that one worker has to itself, for each block of
/// files that are written over, and for each file that several workers append to.
const KNOWN_FILE: u64 = 112;
const KNOWN_BLOCK: u64 = 8;
const KNOWN_END: u64 = 24;

/// The way in which the files of a set are written while the flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// They are not.
    Never,
    /// By the only worker that uses them, in any way.
    ByOwner,
    /// Over existing data, in blocks of this size, by any worker. Their sizes do not change.
    InBlocks(Bytes),
    /// At their ends, by several workers.
    AtTheEnd,
}

/// The effect of a step on the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Opens,
    Overwrites(Bytes),
    Maps,
    Appends,
    /// It is copied from, or gets another name.
    Shares,
    /// Anything else, by the name of the step.
    Other(&'static str),
}

impl Does {
    fn writes(self) -> bool {
        !matches!(self, Does::Opens | Does::Maps | Does::Shares)
    }
}

/// A step and the file that it is about.
struct Deed<'a> {
    place: Vec<Inside>,
    set: &'a str,
    does: Does,
    flags: Flags,
}

impl Deed<'_> {
    fn refuse(&self, text: String) -> Result<(), Refusal> {
        Err(Refusal::sentence("roles", self.place.clone(), text))
    }
}

impl Flow {
    /// Returns the way in which the files of a set are written, if the flow can be verified.
    pub fn written(&self, set: &FileSet) -> Written {
        let deeds = deeds(self);
        self.judge(set, &of_set(&deeds, &set.name))
    }

    /// The memory that a verified flow needs to know what the files of a set contain, in bytes.
    pub(super) fn known_bytes(&self, set: &FileSet) -> u64 {
        match self.written(set) {
            Written::Never => 0,
            Written::ByOwner => set.count.saturating_mul(KNOWN_FILE),
            Written::InBlocks(block) => {
                let blocks = set.size.largest().div_ceil(block.0).saturating_mul(set.count);
                blocks.saturating_mul(KNOWN_BLOCK)
            }
            Written::AtTheEnd => set.count.saturating_mul(KNOWN_END),
        }
    }

    fn judge(&self, set: &FileSet, deeds: &[&Deed<'_>]) -> Written {
        let changes = self.changes(&set.name);
        let is_shared_out = deeds.iter().any(|deed| deed.does == Does::Shares);
        let writes = || deeds.iter().map(|deed| deed.does).filter(|does| does.writes());
        if writes().count() == 0 && !changes {
            let is_linked = is_shared_out && self.has_owner(set);
            return if is_linked { Written::ByOwner } else { Written::Never };
        }
        let sizes = writes().map(|does| match does {
            Does::Overwrites(size) => Some(size.0),
            _ => None,
        });
        let block = sizes.reduce(|one, other| Some(common_divisor(one?, other?))).flatten();
        match block.filter(|block| block.is_multiple_of(SECTOR) && !changes && !is_shared_out) {
            Some(block) => Written::InBlocks(Bytes(block)),
            None if self.has_owner(set) => Written::ByOwner,
            None => Written::AtTheEnd,
        }
    }

    /// Returns whether each file of a set is used by a single worker.
    pub fn has_owner(&self, set: &FileSet) -> bool {
        self.divides(set) || self.sharers(&set.name) == 1
    }
}

/// Refuses the first step after which nobody could tell what a file must contain.
pub(super) fn check(flow: &Flow) -> Result<(), Refusal> {
    if !flow.verify {
        return Ok(());
    }
    super::super::check_verify(flow.verify, &flow.content)?;
    let deeds = deeds(flow);
    for deed in &deeds {
        if let (Does::Overwrites(_), true) = (deed.does, deed.flags.append) {
            let text = "with `verify`, a file that is open with `append` is not written over: pwrite(2) \
                        appends to it, wherever it is told to write";
            return deed.refuse(text.to_string());
        }
    }
    for set in flow.files.0.iter().filter(|set| !flow.has_owner(set)) {
        check_shared(flow, set, &of_set(&deeds, &set.name))?;
    }
    Ok(())
}

/// The order in which several workers write is unknown, so they may write only what does not depend on it.
fn check_shared(flow: &Flow, set: &FileSet, deeds: &[&Deed<'_>]) -> Result<(), Refusal> {
    let name = &set.name;
    let advice = format!(
        "give each worker files of its own with `private = true` in files.{name}, or leave out `verify`"
    );
    let writes = || deeds.iter().filter(|deed| deed.does.writes());
    let Some(first) = writes().next() else {
        // Whoever writes to a link writes to the file of everybody.
        let links = deeds.iter().find(|deed| deed.does == Does::Shares && is_linked(flow, name));
        return links.map_or(Ok(()), |deed| {
            deed.refuse(format!(
                "with `verify`, files of set '{name}' that workers share get no links; {advice}"
            ))
        });
    };
    for deed in writes() {
        match deed.does {
            Does::Overwrites(size) if !size.0.is_multiple_of(SECTOR) => {
                return deed.refuse(format!(
                    "with `verify`, files that workers share are written over in multiples of {SECTOR} bytes, \
                     so that no sector has two versions, not {size}; {advice}"
                ));
            }
            Does::Appends if deed.flags.append => {
                return deed.refuse(format!(
                    "with `verify`, workers that append to the same file must not open it with `append`: none \
                     would know where its bytes come to be; {advice}"
                ));
            }
            Does::Other(step) => {
                return deed.refuse(format!(
                    "with `verify`, files that workers share are appended to or written over; what they \
                     contain after `{step}` depends on which worker came first; {advice}"
                ));
            }
            _ if (deed.does == Does::Appends) != (first.does == Does::Appends) => {
                return deed.refuse(format!(
                    "with `verify`, files that workers share are appended to or written over, but not both; \
                     {advice}"
                ));
            }
            _ => {}
        }
    }
    if let Some(deed) = deeds.iter().find(|deed| deed.does == Does::Shares) {
        return deed.refuse(format!(
            "with `verify`, a file of set '{name}' is not copied or linked while other workers write to it; \
             {advice}"
        ));
    }
    let direct = |deed: &&&Deed<'_>| deed.flags.direct;
    let mixed = deeds.iter().find(direct).and_then(|_| deeds.iter().find(|deed| !deed.flags.direct));
    mixed.map_or(Ok(()), |deed| {
        deed.refuse(format!(
            "with `verify`, files of set '{name}', which workers share and write to, are used either with \
             O_DIRECT or without: the kernel does not keep both in step; {advice}"
        ))
    })
}

/// Returns whether a step links files of this set.
fn is_linked(flow: &Flow, name: &str) -> bool {
    let mut steps = flow.roles.0.iter().flat_map(FlowRole::all_steps);
    steps.any(|step| matches!(&step.act, Act::Link { set, .. } if set == name))
}

fn of_set<'d, 'a>(deeds: &'d [Deed<'a>], set: &str) -> Vec<&'d Deed<'a>> {
    deeds.iter().filter(|deed| deed.set == set).collect()
}

/// Returns the effect of every step, in the order of the plan.
fn deeds(flow: &Flow) -> Vec<Deed<'_>> {
    let mut walk = Walk::default();
    for role in &flow.roles.0 {
        walk.open.clear();
        walk.role = role.role.name();
        for (list, steps) in [("begin", &role.begin), ("steps", &role.steps)] {
            walk.list = list;
            walk.steps(steps);
        }
    }
    walk.deeds
}

#[derive(Default)]
struct Walk<'a> {
    role: &'static str,
    list: &'static str,
    positions: Vec<usize>,
    open: BTreeMap<&'a str, (&'a str, Flags)>,
    deeds: Vec<Deed<'a>>,
}

impl<'a> Walk<'a> {
    fn steps(&mut self, steps: &'a [FlowStep]) {
        for (position, step) in steps.iter().enumerate() {
            self.positions.push(position);
            self.act(&step.act);
            self.positions.pop();
        }
    }

    fn add(&mut self, set: &'a str, does: Does, flags: Flags) {
        let place = place_of_step(self.role, self.list, &self.positions);
        self.deeds.push(Deed { place, set, does, flags });
    }

    fn to(&mut self, handle: &str, does: Does) {
        if let Some((set, flags)) = self.open.get(handle).copied() {
            self.add(set, does, flags);
        }
    }

    fn act(&mut self, act: &'a Act) {
        match act {
            Act::Open { set, handle, flags, .. } | Act::Create { set, handle, flags, .. } => {
                self.open.insert(handle, (set, *flags));
                self.add(set, Does::Opens, *flags);
            }
            Act::Close { handle } => drop(self.open.remove(handle.as_str())),
            Act::Overwrite { handle, size, .. } => self.to(handle, Does::Overwrites(*size)),
            Act::MmapWrite { handle, size, .. } => self.to(handle, Does::Overwrites(*size)),
            Act::MmapRead { handle, .. } => self.to(handle, Does::Maps),
            Act::Append { handle, .. } => self.to(handle, Does::Appends),
            Act::WriteWhole { handle, .. } => self.to(handle, Does::Other("write")),
            Act::Fallocate { handle, .. } => self.to(handle, Does::Other("fallocate")),
            Act::Truncate { handle, .. } => self.to(handle, Does::Other("truncate")),
            Act::CopyFileRange { from, to } => {
                self.to(from, Does::Shares);
                self.to(to, Does::Other("copy_file_range"));
            }
            Act::Link { set, .. } => self.add(set, Does::Shares, Flags::default()),
            Act::Repeat { steps, .. } => self.steps(steps),
            _ => {}
        }
    }
}

fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;
    use crate::workload::flow::tests::{flow, open, refused, table, text};
    use crate::workload::parameter::{Literal, Nowhere, Parameters};
    use crate::workload::{Content, Load};

    fn integer(number: i128) -> Literal {
        Literal::Integer(number)
    }

    /// Four workers share the files unless they are created or removed.
    fn shared(steps: Vec<Literal>) -> Flow {
        let mut flow = flow(steps);
        flow.roles.0[0].workers = 4;
        flow.verify = true;
        flow
    }

    fn private(steps: Vec<Literal>) -> Flow {
        let mut flow = shared(steps);
        flow.files.0[0].private = true;
        flow
    }

    fn opened(then: Vec<Literal>) -> Vec<Literal> {
        [vec![open()], then, vec![text("close")]].concat()
    }

    fn written(flow: &Flow) -> Written {
        assert_eq!(flow.check(), Ok(()));
        flow.written(&flow.files.0[0])
    }

    #[test]
    fn steps_decide_how_files_are_written() {
        let read = || table([("read", text("whole"))]);
        let over = |size: &str| table([("overwrite", text(size))]);
        let append = || table([("append", text("1k"))]);
        let whole = || table([("write", text("whole"))]);
        let map = || table([("mmap_write", text("3k"))]);
        assert_eq!(written(&shared(opened(vec![read()]))), Written::Never);
        assert_eq!(written(&shared(opened(vec![over("4k"), read()]))), Written::InBlocks(Bytes(4096)));
        assert_eq!(written(&shared(opened(vec![over("4k"), map()]))), Written::InBlocks(Bytes(1024)));
        assert_eq!(written(&shared(opened(vec![append(), read()]))), Written::AtTheEnd);
        assert_eq!(written(&private(opened(vec![append(), whole()]))), Written::ByOwner);
        assert_eq!(written(&private(opened(vec![over("4k")]))), Written::InBlocks(Bytes(4096)));
        assert_eq!(written(&private(opened(vec![over("100"), read()]))), Written::ByOwner);
        // Files that come and go have an owner.
        let steps = vec![
            table([("unlink", text("some"))]),
            table([("create", text("some"))]),
            whole(),
            over("4k"),
            text("close"),
        ];
        let mut changing = flow(steps);
        changing.verify = true;
        assert_eq!(written(&changing), Written::ByOwner);
        // One worker alone needs no files of its own.
        let mut alone = shared(opened(vec![whole(), append()]));
        alone.roles.0[0].workers = 1;
        assert_eq!(written(&alone), Written::ByOwner);
    }

    #[test]
    fn what_nobody_could_know_afterwards_is_refused_at_its_step() {
        let whole = table([("write", text("whole"))]);
        let cut = table([("truncate", integer(0))]);
        let append = || table([("append", text("1k"))]);
        let over = || table([("overwrite", text("1k"))]);
        let odd = table([("overwrite", text("700"))]);
        let refused_at = |steps: Vec<Literal>| refused(&shared(opened(steps)));
        let found = refused_at(vec![whole]);
        assert!(
            found.starts_with("roles.client.steps.1: with `verify`, files that workers share"),
            "{found}"
        );
        assert!(found.contains("after `write` depends on which worker came first"), "{found}");
        assert!(found.contains("`private = true` in files.some"), "{found}");
        assert!(refused_at(vec![append(), cut]).starts_with("roles.client.steps.2: "));
        assert!(refused_at(vec![odd]).contains("multiples of 512 bytes"));
        assert!(refused_at(vec![over(), append()]).contains("but not both"));
        let mut unverified = shared(opened(vec![over(), append()]));
        unverified.verify = false;
        assert_eq!(unverified.check(), Ok(()));
        let to_the_end = table([("open", text("some")), ("append", Literal::Boolean(true))]);
        let found = refused(&shared(vec![to_the_end.clone(), append(), text("close")]));
        assert!(found.contains("must not open it with `append`"), "{found}");
        let found = refused(&private(vec![to_the_end, over(), text("close")]));
        assert!(found.contains("pwrite(2)"), "{found}");
        let direct = table([("open", text("some")), ("direct", Literal::Boolean(true))]);
        let block = || table([("overwrite", text("4k"))]);
        let both = vec![direct, block(), text("close"), open(), block(), text("close")];
        let found = refused(&shared(both));
        assert!(found.starts_with("roles.client.steps.3: "), "{found}");
        assert!(found.contains("O_DIRECT"), "{found}");
    }

    #[test]
    fn zeros_tell_nothing() {
        let mut zeros = shared(opened(vec![table([("read", text("whole"))])]));
        zeros.content = Content::Zeros;
        assert!(refused(&zeros).starts_with("verify: "));
    }

    #[test]
    fn reading_again_takes_time_and_is_said() {
        let mut flow = private(opened(vec![table([("read", text("whole"))])]));
        flow.set("files", &table([("some", table([("size", text("2G"))]))]), &Nowhere).unwrap();
        assert!(flow.follows() > Nanos::from_secs(10) && flow.verifies());
        assert!(flow.in_words().last().unwrap().starts_with("verify: every byte"));
        let verified = flow.memory();
        flow.verify = false;
        assert!(verified > flow.memory());
        assert_eq!((flow.follows(), flow.verifies()), (Nanos(0), false));
    }
}
