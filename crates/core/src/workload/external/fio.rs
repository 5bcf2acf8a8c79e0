//! A fio job file: stored with the plan, and rejected if it names a place outside the engine's directory,
//! another file, or a command.

use crate::units::Bytes;
use crate::workload::parameter::{Literal, Parameter, ParameterError, Surroundings};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Options that run commands, read other files, change the machine, or leave the filesystem under test.
const REFUSED: &[&str] = &[
    "exec_prerun",
    "exec_postrun",
    "include",
    "read_iolog",
    "replay_redirect",
    "merge_blktrace_file",
    "uid",
    "gid",
    "ioscheduler",
    "cgroup",
    "cgroup_weight",
    "cgroup_nodelete",
    "client",
    "hostname",
];
/// Engines that work on files of a directory. Others talk to devices, networks or code of their own.
const ENGINES: &[&str] = &[
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "libaio",
    "posixaio",
    "io_uring",
    "mmap",
    "splice",
    "falloc",
    "ftruncate",
    "filecreate",
    "filestat",
    "filedelete",
];

/// A fio job file as it was when the plan was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// As the plan names it.
    pub path: String,
    /// The text of the file.
    pub text: String,
}

impl Parameter for JobFile {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let Literal::Text(path) = literal else {
            return Err(ParameterError::Expected("the path of a fio job file".to_string()));
        };
        let text =
            surroundings.read_file(path).map_err(|(path, reason)| ParameterError::File(path, reason))?;
        let job = JobFile { path: path.clone(), text };
        let refused = |expected| ParameterError::File(path.clone(), format!("expected {expected}"));
        job.check().map_err(refused)?;
        Ok(job)
    }

    fn written(&self) -> String {
        self.path.clone()
    }
}

/// A line of a job file that is not empty or a comment.
enum Line<'a> {
    Section(&'a str),
    Option(&'a str, &'a str),
}

/// A job with every option that it has.
struct Section<'a> {
    name: &'a str,
    line: usize,
    options: BTreeMap<&'a str, &'a str>,
}

impl Section<'_> {
    /// Returns whether a switch is on: without a value, or with any other than 0.
    fn is_set(&self, key: &str) -> bool {
        self.options.get(key).is_some_and(|value| *value != "0")
    }

    /// Returns the options that say what the job does, without those that say where, and how it is reported.
    fn does(&self) -> Vec<(&str, &str)> {
        let does = |key: &str| says_what(key) && !ARRANGED.contains(&key);
        self.options.iter().map(|(key, value)| (*key, *value)).filter(|(key, _)| does(key)).collect()
    }
}

/// Options that say where a job works, what it is called and how it is reported, not what it does.
const ASIDE: &[&str] = &[
    "description",
    "directory",
    "filename",
    "filename_format",
    "group_reporting",
    "name",
    "offset",
    "offset_increment",
    "write_bw_log",
    "write_hist_log",
    "write_iolog",
    "write_iops_log",
    "write_lat_log",
];

/// Options that decide how many jobs there are, and when they start.
const ARRANGED: &[&str] = &["new_group", "numjobs", "stonewall"];

/// Options with two names: another one for job files, and the one in results.
const ALIASES: &[(&str, &str)] = &[
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("io_limit", "io_size"),
    ("readwrite", "rw"),
    ("timeout", "runtime"),
];

/// Returns whether an option says what a job does, not where or how it is reported.
pub fn says_what(option: &str) -> bool {
    !ASIDE.contains(&option)
}

/// The options of jobs by name, without those that do not say what they do. In a run of several jobs, each
/// name begins with that of the job.
pub fn options_of<'a, O>(jobs: impl IntoIterator<Item = (&'a str, O)>) -> BTreeMap<String, String>
where
    O: IntoIterator<Item = (&'a str, &'a str)>,
{
    let does = |(key, _): &(&str, &str)| says_what(key);
    // Clones of a job may be listed one by one.
    let (mut known, mut different) = (BTreeSet::new(), Vec::new());
    for (name, options) in jobs {
        let job: (&str, BTreeMap<&str, &str>) = (name, options.into_iter().filter(does).collect());
        if known.insert(job.clone()) {
            different.push(job);
        }
    }
    let several = different.len() > 1;
    let (mut all, mut named) = (BTreeMap::new(), BTreeMap::new());
    for (name, options) in different {
        let number = named.entry(name).and_modify(|number| *number += 1).or_insert(1);
        let job = match (several, number) {
            (false, _) => String::new(),
            (true, 1) => format!("{name}: "),
            (true, number) => format!("{name} {number}: "),
        };
        for (key, value) in options {
            let key = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name);
            all.insert(format!("{job}{key}"), value.to_string());
        }
    }
    all
}

impl JobFile {
    /// The options of its jobs, as [`options_of`] names them.
    pub(super) fn options(&self) -> BTreeMap<String, String> {
        options_of(self.sections().into_iter().map(|job| (job.name, job.options)))
    }

    /// Checks that the job file stays inside the engine's directory.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut jobs = 0;
        for (number, line) in self.lines() {
            let refuse = |expected: &str| Err(format!("a job file {expected} (line {number})"));
            match line {
                Line::Section(name) => {
                    jobs += u32::from(name != "global");
                    // A job without a filename is named by its section.
                    if leads_elsewhere(name) || name.contains('/') {
                        return refuse("whose job names are not paths");
                    }
                }
                Line::Option(key, _) if REFUSED.contains(&key) => {
                    return refuse(&format!(
                        "without the option '{key}', which reaches outside the engine's directory"
                    ));
                }
                Line::Option("lockmem", _) => {
                    return refuse("without the option 'lockmem', which takes memory from the whole machine");
                }
                Line::Option("mem" | "iomem", kind) if kind.starts_with("shm") => {
                    return refuse("that uses memory freed when fio exits: mem=malloc or mem=mmap");
                }
                Line::Option(key @ ("numjobs" | "iodepth"), value) if !is_at_most(value, MOST) => {
                    return refuse(&format!("with {key} of at most {MOST}"));
                }
                Line::Option("ioengine", engine) if !ENGINES.contains(&engine) => {
                    return refuse(&format!("with an ioengine that works on files: {}", ENGINES.join(", ")));
                }
                Line::Option(_, value) if leads_elsewhere(value) => {
                    return refuse(
                        "whose paths stay inside the engine's directory: relative and without '..'",
                    );
                }
                Line::Option(_, value) if value.contains(['`', '$']) => {
                    return refuse("without variables or commands");
                }
                Line::Option(..) => {}
            }
        }
        if jobs == 0 {
            return Err("a job file with at least one [job]".to_string());
        }
        self.check_groups()
    }

    /// Checks that fio reports each job. Under `group_reporting` it adds the jobs of a group up, and prints
    /// the name of one and the options of another: where they differ, one would vanish in the other.
    fn check_groups(&self) -> Result<(), String> {
        let sections = self.sections();
        let mut groups: Vec<Vec<&Section<'_>>> = Vec::new();
        for job in &sections {
            match groups.last_mut() {
                // Waiting for the jobs before it also starts a group (fio(1), `stonewall`).
                Some(group) if !job.is_set("new_group") && !job.is_set("stonewall") => group.push(job),
                _ => groups.push(vec![job]),
            }
        }
        for pair in groups.iter().flat_map(|group| group.windows(2)) {
            let [first, second] = pair else { continue };
            let added_up = first.is_set("group_reporting") || second.is_set("group_reporting");
            if added_up && first.does() != second.does() {
                return Err(format!(
                    "a job file in which fio reports each job: jobs '{}' and '{}' differ, but \
                     group_reporting adds them up; remove it, or start a group with new_group (line {})",
                    first.name, second.name, second.line
                ));
            }
        }
        Ok(())
    }

    /// The jobs, each with the global options before it and its own.
    fn sections(&self) -> Vec<Section<'_>> {
        let (mut global, mut jobs) = (BTreeMap::new(), Vec::<Section<'_>>::new());
        let mut in_global = true;
        for (line, content) in self.lines() {
            match content {
                Line::Section("global") => in_global = true,
                Line::Section(name) => {
                    in_global = false;
                    jobs.push(Section { name, line, options: global.clone() });
                }
                Line::Option(key, value) => {
                    let options = match jobs.last_mut() {
                        Some(job) if !in_global => &mut job.options,
                        _ => &mut global,
                    };
                    options.insert(key, value);
                }
            }
        }
        jobs
    }

    /// Approximate number of bytes that its jobs move: the size of each, times the number of its clones.
    pub(super) fn moves(&self) -> u64 {
        let (mut global, mut jobs) = ((0, 1), Vec::new());
        let mut in_global = true;
        for (_, line) in self.lines() {
            match line {
                Line::Section("global") => in_global = true,
                Line::Section(_) => {
                    in_global = false;
                    jobs.push(global);
                }
                Line::Option(key @ ("size" | "numjobs"), value) => {
                    let current =
                        if in_global { &mut global } else { jobs.last_mut().unwrap_or(&mut global) };
                    match (key, value.parse::<Bytes>()) {
                        ("size", Ok(size)) => current.0 = size.0,
                        (_, Ok(number)) => current.1 = number.0,
                        _ => {}
                    }
                }
                Line::Option(..) => {}
            }
        }
        jobs.into_iter().map(|(size, clones)| size.saturating_mul(clones)).fold(0, u64::saturating_add)
    }

    fn lines(&self) -> impl Iterator<Item = (usize, Line<'_>)> {
        self.text.lines().enumerate().filter_map(|(index, line)| {
            let line = line.trim();
            if line.is_empty() || line.starts_with([';', '#']) {
                return None;
            }
            // Whatever follows the closing bracket is not part of the name. A line without a bracket is an
            // option, with or without a value.
            let line = match line.strip_prefix('[') {
                Some(rest) => Line::Section(rest.split(']').next().unwrap_or(rest).trim()),
                None => {
                    let (key, value) = line.split_once('=').unwrap_or((line, ""));
                    Line::Option(first_word(key), value.trim())
                }
            };
            Some((index + 1, line))
        })
    }
}

/// `include FILE` has no equals sign.
fn first_word(key: &str) -> &str {
    key.split_whitespace().next().unwrap_or("")
}

/// The maximum number of processes and requests of a job, the same as the number of readers of a native
/// workload.
const MOST: u64 = 1024;

/// Returns whether a value is a number up to a limit; fio's size suffixes are parsed, and fio itself rejects
/// anything that is not a number.
fn is_at_most(value: &str, most: u64) -> bool {
    value.parse::<Bytes>().is_ok_and(|number| number.0 <= most)
}

/// Returns whether some part of a value is an absolute path or contains `..`. Lists are separated by colons
/// and commas.
fn leads_elsewhere(value: &str) -> bool {
    value
        .split([':', ',', ' ', '='])
        .map(|part| part.trim_matches(['"', '\'', '\\']))
        .any(|part| part.starts_with(['/', '~']) || part.split('/').any(|component| component == ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> JobFile {
        JobFile { path: "a.fio".to_string(), text: text.to_string() }
    }

    const GOOD: &str = "; a comment\n[global]\nsize=16m\nioengine=psync\nbs=4k/64k\n\n[writers]\nrw = write\n\
        numjobs=2\ngroup_reporting\n[mixed]\nnew_group\nstonewall\nrw=randrw\nfilename=a:sub/b\nfsync=64\n\
        size=1g\n";

    #[test]
    fn a_job_on_its_own_files_is_accepted() {
        assert_eq!(job(GOOD).check(), Ok(()));
        assert_eq!(job(GOOD).moves(), (32 << 20) + (1 << 30));
    }

    /// A log beside the data of a database: reported together, one of them would be missing.
    #[test]
    fn jobs_that_fio_would_add_up_are_refused() {
        let database = |global: &str, wal: &str| {
            job(&format!("[global]\nsize=1m\n{global}\n[data]\nrw=randread\n[wal]\nrw=write\n{wal}\n"))
                .check()
        };
        let refused = database("group_reporting", "").unwrap_err();
        assert!(refused.contains("'data' and 'wal' differ") && refused.ends_with("(line 6)"), "{refused}");
        assert!(database("", "group_reporting=1").is_err());
        for (global, wal) in [
            ("", ""),
            ("group_reporting=0", ""),
            ("group_reporting", "new_group"),
            ("group_reporting", "stonewall"),
        ] {
            assert_eq!(database(global, wal), Ok(()), "{global} {wal}");
        }
        let alike = "[global]\nrw=read\ngroup_reporting\n[a]\nfilename=x\n[b]\nfilename=y\n";
        assert_eq!(job(alike).check(), Ok(()));
    }

    #[test]
    fn options_that_lead_elsewhere_are_refused_with_their_line() {
        for bad in [
            "directory=/mnt",
            "filename=/dev/sda",
            "filename=a:/dev/sda",
            "filename = ../x",
            "directory=a/../../b",
            "filename=\\/dev/sda",
            "filename=\"/dev/sda\"",
            "write_bw_log=/tmp/x",
            "exec_prerun=rm x",
            "ioengine=external:/tmp/x.so",
            "ioengine=net",
            "ioengine=exec",
            "include /etc/passwd",
            "size=${HOME}",
            "size=`id`",
            "read_iolog=x",
            "opendir=/",
            "uid=0",
            "filename_format=/tmp/$jobname",
            "lockmem=1g",
            "mem=shm",
            "iomem=shmhuge",
            "numjobs=100000",
            "iodepth=1000000000",
        ] {
            let refused = job(&format!("[a]\nrw=read\n{bad}\n")).check().unwrap_err();
            assert!(refused.ends_with("(line 3)"), "{bad}: {refused}");
        }
        for bad in ["[/dev/sda]\nrw=read\n", "[a/b]\nrw=read\n", "[global]\nrw=read\n", "", "[..]\nrw=read\n"]
        {
            assert!(job(bad).check().is_err(), "{bad}");
        }
    }
}
