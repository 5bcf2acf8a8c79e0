//! A flow in words: a line for each file set and each step.

use super::value::percent;
use super::{Act, Arrivals, Choice, FileSet, FileSize, Flags, Flow, FlowRole, FlowStep, Pace};
use crate::units::Bytes;
use crate::workload::parameter::Parameter;

/// All of it.
pub(super) fn flow(flow: &Flow) -> Vec<String> {
    let sets = flow.files.0.iter().map(|set| files(flow, set));
    sets.chain(flow.roles.0.iter().flat_map(role_lines)).collect()
}

/// `files mail: up to 1000 files of about 16k (gamma 1.5) in one directory, 80% there at the beginning`.
fn files(flow: &Flow, set: &FileSet) -> String {
    let size = match &set.size {
        FileSize::Gamma { mean, gamma } => format!("about {mean} (gamma {gamma})"),
        FileSize::Range(range) => range.written(),
        FileSize::Model(model) => format!("sizes as in {}", model.name()),
    };
    let directories = match (set.per_directory, set.private) {
        (None, false) => "in one directory".to_string(),
        (None, true) => "in a directory per worker".to_string(),
        (Some(files), false) => format!("{files} in each directory"),
        (Some(files), true) => format!("{files} in each directory, with directories per worker"),
    };
    let shared = match flow.changes(&set.name) {
        true => match flow.sharers(&set.name) {
            _ if flow.scaled().is_some_and(|role| role.uses(&set.name)) => {
                ", divided among the workers".to_string()
            }
            1 => String::new(),
            workers => format!(", divided among {workers} workers"),
        },
        false => ", never created or removed".to_string(),
    };
    let there = flow.prefilled(set);
    let begin = if there == set.count { "all".to_string() } else { there.to_string() };
    let count = if set.count == 1 { "1 file".to_string() } else { format!("{} files", set.count) };
    format!("files {}: {count} of {size}, {directories}, {begin} there at the beginning{shared}", set.name)
}

fn role_lines(role: &FlowRole) -> Vec<String> {
    let background = if role.background { ", in the background" } else { "" };
    let workers = role.number_in_words();
    let together = if role.workers > 1 { " together" } else { "" };
    let mut lines = Vec::new();
    if !role.begin.is_empty() {
        lines.push(format!("each of {workers} begins{background}:"));
        steps(&role.begin, 1, &mut lines);
    }
    lines.push(match (role.rate, role.begin.is_empty()) {
        (None, true) => format!("each of {workers}, over and over{background}:"),
        (None, false) => "then, over and over:".to_string(),
        (Some(rate), true) => format!("{workers}{together}{background}, {}:", arriving(rate)),
        (Some(rate), false) => format!("then{together}, {}:", arriving(rate)),
    });
    steps(&role.steps, 1, &mut lines);
    lines
}

/// `200 times a second, at random moments (poisson)`, `as often as p99 <= 20ms allows, at constant intervals,
/// found in steps of 5s`.
fn arriving(pace: Pace) -> String {
    let when = match pace.arrivals() {
        Arrivals::Constant => "at constant intervals",
        Arrivals::Poisson => "at random moments (poisson)",
    };
    match pace {
        Pace::At(rate) => format!("{} times a second, {when}", rate.per_second),
        Pace::Highest(search) => {
            format!("as often as {} allows, {when}, found in steps of {}", search.until, search.step)
        }
    }
}

fn steps(list: &[FlowStep], depth: usize, lines: &mut Vec<String>) {
    for one in list {
        lines.push(format!("{:indent$}{}", "", step(one), indent = 2 * depth));
        if let Act::Repeat { steps: inner, .. } = &one.act {
            steps(inner, depth + 1, lines);
        }
    }
}

/// One step.
pub(super) fn step(step: &FlowStep) -> String {
    let text = act(&step.act);
    match step.probability >= 1.0 {
        true => text,
        false => format!("in {} of the iterations, {text}", percent(step.probability)),
    }
}

fn act(act: &Act) -> String {
    let named = |handle: &str, word: &str| if handle == word { String::new() } else { format!(" {handle}") };
    let of = |handle: &str| named(handle, "file");
    match act {
        Act::Open { set, choose, handle, flags } => {
            format!("open {} of {set}{}{}", file(*choose), named_as(handle), opened(*flags))
        }
        Act::Create { set, in_order, handle, flags } => {
            let which = if *in_order { "the next" } else { "a new" };
            format!("create {which} file of {set}{}{}", named_as(handle), opened(*flags))
        }
        Act::ReadWhole { handle, buffer } => format!("read the whole file{}, {buffer} at a time", of(handle)),
        Act::ReadNext { handle, size } => format!("read the next {size} of the file{}", of(handle)),
        Act::ReadRandom { handle, size } => {
            format!("read {size} at a random place of the file{}", of(handle))
        }
        Act::WriteWhole { handle, buffer } => {
            format!("write the whole file{}, {buffer} at a time", of(handle))
        }
        Act::Append { handle, size } => match size.low == size.high {
            true => format!("append {} to the file{}", size.high, of(handle)),
            false => format!("append {} to {} to the file{}", size.low, size.high, of(handle)),
        },
        Act::Overwrite { handle, size, in_order: true } => {
            format!("write over the next {size} of the file{}", of(handle))
        }
        Act::Overwrite { handle, size, in_order: false } => {
            format!("write over {size} at a random place of the file{}", of(handle))
        }
        Act::Fsync { handle } => format!("fsync the file{}", of(handle)),
        Act::Fdatasync { handle } => format!("fdatasync the file{}", of(handle)),
        Act::Close { handle } => format!("close the file{}", of(handle)),
        Act::FsyncDirectory { set } => format!("fsync the directory of the last file of {set}"),
        Act::Rename { set, choose, to, over } => {
            let target = match (over, to == set) {
                (true, true) => "over another one".to_string(),
                (true, false) => format!("over one of {to}"),
                (false, true) => "to a new name".to_string(),
                (false, false) => format!("to a new name in {to}"),
            };
            format!("rename {} of {set} {target}", file(*choose))
        }
        Act::Link { set, choose, to } => format!("link {} of {set} to a new name in {to}", file(*choose)),
        Act::Unlink { set, choose } => format!("unlink {} of {set}", file(*choose)),
        Act::Stat { set, choose } => format!("stat {} of {set}", file(*choose)),
        Act::Readdir { set, choose } => format!("read the directory of {} of {set}", file(*choose)),
        Act::Setxattr { handle, size } => {
            format!("set an extended attribute of {size} of the file{}", of(handle))
        }
        Act::MmapRead { handle, size } => {
            format!("map the file{}, read {size} at a random place, unmap it", of(handle))
        }
        Act::MmapWrite { handle, size, sync } => {
            let sync = if *sync { ", msync it" } else { "" };
            format!("map the file{}, store {size} at a random place{sync}, unmap it", of(handle))
        }
        Act::CopyFileRange { from, to } => format!("copy the file {from} to the file {to} in the kernel"),
        Act::Fallocate { handle, size } => format!("allocate {size} of the file{}", of(handle)),
        Act::Truncate { handle, size: Bytes(0) } => format!("empty the file{}", of(handle)),
        Act::Truncate { handle, size } => format!("set the size of the file{} to {size}", of(handle)),
        Act::Think { time } => format!("wait {time}"),
        Act::Post { signal, limit: u64::MAX } => format!("post {signal}"),
        Act::Post { signal, limit } => {
            format!("post {signal}, and wait while {limit} or more of it are posted")
        }
        Act::Await { signal, count: 1 } => format!("wait for {signal}"),
        Act::Await { signal, count } => format!("wait for {count} of {signal}"),
        Act::Repeat { times: 1, .. } => "together:".to_string(),
        Act::Repeat { times, .. } => format!("{times} times:"),
    }
}

fn named_as(handle: &str) -> String {
    if handle == "file" { String::new() } else { format!(" as {handle}") }
}

fn opened(flags: Flags) -> String {
    let all = [(flags.direct, "O_DIRECT"), (flags.dsync, "O_DSYNC"), (flags.append, "O_APPEND")];
    let words: Vec<&str> = all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect();
    if words.is_empty() { String::new() } else { format!(" with {}", words.join(" and ")) }
}

fn file(choose: Choice) -> String {
    match choose {
        Choice::Uniform => "a random file".to_string(),
        Choice::Zipf(skew) => format!("a popular file (zipf {skew})"),
        Choice::Newest => "the newest file".to_string(),
        Choice::Oldest => "the oldest file".to_string(),
        Choice::Next => "the next file".to_string(),
        Choice::Hot { files, choices } => {
            format!("a file ({} of the time one of the hot {})", percent(choices), percent(files))
        }
    }
}
