//! Matches the cases of two sides.
//!
//! Cases match if their configurations have the same name and their workloads are equal. Names contain the
//! levels that vary in a plan, so they differ between two kernels, or between two filesystems under the same
//! schedulers. An axis with one level throughout the first side and another throughout the second is
//! therefore taken to be what is compared, and cases are matched by everything else. If each side has a
//! single case, those two are compared whatever they are. If each side has a single workload, the two need
//! not be equal (the same windows on a smaller tree; bonnie++ itself and fsdyno's `bonnie`), but of one kind:
//! a stall of one workload says nothing about those of another. All differences are listed; those that make
//! figures incomparable ([`incomparable`]) leave them without a verdict.

use crate::load::{Workloads, outage};
use crate::outcomes::is_measured;
use crate::selection::level_of;
use crate::text::whose_trees;
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::measure::Measure;
use fsdyno_core::protocol::MOUNT_PREFIX;
use fsdyno_core::workload::bonnie::{READ_CHAR, WRITE_CHAR};
use fsdyno_core::workload::parameter::Listed;
use fsdyno_core::{Configuration, DeviceSpec, Outcome, TrialRecord, Workload};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The level of what one side says nothing about.
const NOT_KNOWN: &str = "not known";

/// The trials of a configuration under a workload, without sentinels.
#[derive(Debug)]
pub(super) struct Case<'a> {
    /// One of them, measured or not.
    any: &'a TrialRecord,
    /// Those with figures.
    pub trials: Vec<&'a TrialRecord>,
    /// Those without.
    pub others: Vec<&'a TrialRecord>,
    /// The name of what ran, and what that does in one line, both with what tells it from what else ran on
    /// this side.
    pub called: (Cow<'static, str>, String),
}

impl Case<'_> {
    fn configuration(&self) -> &Configuration {
        &self.any.configuration
    }

    /// Its position in the plan.
    pub fn index(&self) -> u32 {
        self.any.case
    }

    pub fn name(&self) -> &str {
        &self.configuration().name
    }

    pub fn workload(&self) -> &Workload {
        &self.any.workload
    }
}

/// A case that is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncomparedCase {
    /// Its configuration.
    pub name: String,
    /// Its workload, in one line.
    pub workload: String,
    /// Why.
    pub reason: String,
    /// True if every trial of it failed, while the other side measured the same.
    pub is_lost: bool,
}

/// A difference between the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// An axis, a parameter of the workload, or a property of the machine.
    pub what: String,
    /// Its level on each side.
    pub levels: [String; 2],
}

/// Which cases belong together.
pub(super) struct Matching {
    /// Indices into both sides.
    pub pairs: Vec<(usize, usize)>,
    /// The cases of each side that are not compared.
    pub alone: [Vec<UncomparedCase>; 2],
}

/// The cases of a side in the order of the plan.
pub(super) fn cases(trials: &[TrialRecord]) -> Vec<Case<'_>> {
    let mut cases: BTreeMap<u32, Case<'_>> = BTreeMap::new();
    let workloads = Workloads::of(trials);
    for trial in trials {
        let case = cases.entry(trial.case).or_insert_with(|| Case {
            any: trial,
            trials: Vec::new(),
            others: Vec::new(),
            called: (workloads.name(&trial.workload), workloads.title(&trial.workload)),
        });
        if is_measured(trial) { case.trials.push(trial) } else { case.others.push(trial) }
    }
    cases.into_values().collect()
}

/// A rule that decides whether two cases match.
type Rule<'r> = dyn Fn(&Case<'_>, &Case<'_>) -> bool + 'r;

/// Finds the cases of the first side among those of the second.
pub(super) fn pairs(first: &[Case<'_>], second: &[Case<'_>]) -> Matching {
    let sides = [first, second];
    let changed = changed_axes(sides);
    let [workload_of_first, workload_of_second] = sides.map(only_workload);
    let one_workload = workload_of_first.is_some() && workload_of_second.is_some();
    let same_workload = |a: &Case<'_>, b: &Case<'_>| {
        (one_workload && is_like(a, b)) || a.workload().does_same_as(b.workload())
    };
    let single = first.len() == 1 && second.len() == 1;
    let rules: [&Rule<'_>; 3] = [
        &|a, b| a.name() == b.name(),
        &|a, b| common(a.configuration(), &changed) == common(b.configuration(), &changed),
        &|_, _| single,
    ];
    let mut partner: Vec<Option<usize>> = vec![None; first.len()];
    for rule in rules {
        for (i, a) in first.iter().enumerate() {
            if partner[i].is_none() {
                let free = |j: &usize| !partner.contains(&Some(*j));
                let fits = |j: &usize| same_workload(a, &second[*j]) && rule(a, &second[*j]);
                partner[i] = (0..second.len()).filter(free).find(fits);
            }
        }
    }
    let all: Vec<(usize, usize)> = partner.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))).collect();
    let measured = |(i, j): &(usize, usize)| !first[*i].trials.is_empty() && !second[*j].trials.is_empty();
    let has = |side: usize, index: usize| {
        all.iter().find(|pair| [pair.0, pair.1][side] == index).map(|pair| [pair.1, pair.0][side])
    };
    let alone = [0, 1].map(|side| {
        let cases = sides[side].iter().enumerate();
        let left = cases.filter_map(|(index, case)| {
            let other = has(side, index).map(|other| &sides[1 - side][other]);
            Some(UncomparedCase {
                name: case.name().to_string(),
                workload: case.called.1.clone(),
                reason: why_alone(case, other, sides[1 - side])?,
                is_lost: has_failed(case) && other.is_some_and(|other| !other.trials.is_empty()),
            })
        });
        left.collect()
    });
    Matching { pairs: all.into_iter().filter(measured).collect(), alone }
}

/// Returns whether the figures of two cases mean the same things.
fn is_like(a: &Case<'_>, b: &Case<'_>) -> bool {
    a.workload().model() == b.workload().model()
}

/// Returns whether none of its trials has figures, because they failed.
fn has_failed(case: &Case<'_>) -> bool {
    let failed = |trial: &&TrialRecord| matches!(trial.outcome, Outcome::Failed { .. });
    case.trials.is_empty() && case.others.iter().any(failed)
}

/// Why a case is not compared; `None` if it is.
fn why_alone(case: &Case<'_>, other: Option<&Case<'_>>, others: &[Case<'_>]) -> Option<String> {
    let unmeasured = |case: &Case<'_>, place: &str| match &case.others.first()?.outcome {
        Outcome::Skipped { unmet } => Some(format!("skipped{place}: {}", unmet.join("; "))),
        Outcome::Failed { error } => Some(format!("every trial failed{place}: {error}")),
        Outcome::Measured => None,
    };
    match other {
        _ if case.trials.is_empty() => unmeasured(case, ""),
        None if !others.is_empty() && !others.iter().any(|other| is_like(case, other)) => {
            let mut kinds: Vec<&str> = others.iter().map(|other| other.workload().model()).collect();
            kinds.dedup();
            let own = case.workload().model();
            Some(format!(
                "the other side ran {}, whose figures mean other things than those of {own}",
                kinds.join(", ")
            ))
        }
        None => Some("the other side has no such case".to_string()),
        Some(other) if other.trials.is_empty() => {
            Some(unmeasured(other, " on the other side").unwrap_or_default())
        }
        Some(_) => None,
    }
}

fn axes<'a>(configurations: impl Iterator<Item = &'a Configuration>) -> BTreeSet<String> {
    let axes = configurations.flat_map(|configuration| configuration.settings.keys().cloned());
    axes.chain(["filesystem".to_string()]).collect()
}

/// The axes with one level throughout the first side and another throughout the second.
fn changed_axes(sides: [&[Case<'_>]; 2]) -> BTreeSet<String> {
    let level = |side: &[Case<'_>], axis: &str| -> Option<Option<String>> {
        let mut levels = side.iter().map(|case| level_of(case.configuration(), axis).map(str::to_string));
        let first = levels.next()?;
        levels.all(|level| level == first).then_some(first)
    };
    let changed = |axis: &String| match sides.map(|side| level(side, axis)) {
        [Some(a), Some(b)] => a != b,
        _ => false,
    };
    axes(sides.into_iter().flatten().map(Case::configuration)).into_iter().filter(changed).collect()
}

fn only_workload<'a>(side: &'a [Case<'_>]) -> Option<&'a Workload> {
    let first = side.first()?.workload();
    side.iter().all(|case| case.workload() == first).then_some(first)
}

/// The levels of a configuration, without the axes that are being compared.
fn common<'c>(configuration: &'c Configuration, changed: &BTreeSet<String>) -> BTreeMap<String, &'c str> {
    let axes = axes([configuration].into_iter());
    let kept = axes.into_iter().filter(|axis| !changed.contains(axis));
    kept.filter_map(|axis| level_of(configuration, &axis).map(|level| (axis, level))).collect()
}

/// Returns the differences between two cases: settings, kernel, clients, device, and parameters of the
/// workload.
pub(super) fn differences(sides: [&Case<'_>; 2]) -> Vec<Difference> {
    let difference = |what: &str, levels: [String; 2]| {
        (levels[0] != levels[1]).then(|| Difference { what: what.to_string(), levels })
    };
    let [a, b] = sides.map(Case::configuration);
    let level = |configuration: &Configuration, axis: &str| {
        level_of(configuration, axis).unwrap_or(DEFAULT).to_string()
    };
    let mut found: Vec<Difference> = axes([a, b].into_iter())
        .iter()
        .filter_map(|axis| difference(axis, [level(a, axis), level(b, axis)]))
        .collect();
    if !found.iter().any(|difference| difference.what == "kernel") {
        found.extend(difference("kernel", sides.map(kernel)));
    }
    found.extend(difference("clients", sides.map(clients)));
    let outage = |case: &Case<'_>| outage(case.any).map_or("none".to_string(), |outage| outage.to_string());
    found.extend(difference("outage", sides.map(outage)));
    found.extend(difference("device", sides.map(|case| device(&case.any.configuration.device))));
    if let [Some(a), Some(b)] = sides.map(version) {
        found.extend(difference("version", [a, b].map(str::to_string)));
    }
    found.extend(workload_differences(sides.map(Case::workload)));
    found
}

/// A device in words. An image that a trial has made for itself has another path in each.
fn device(device: &DeviceSpec) -> String {
    let text = device.to_string();
    match device {
        DeviceSpec::Image(image) if image.path.to_string_lossy().starts_with(MOUNT_PREFIX) => {
            text.replace(&image.path.display().to_string(), "of its own")
        }
        _ => text,
    }
}

/// The version of the program that did the load, if it was not fsdyno.
fn version<'a>(case: &Case<'a>) -> Option<&'a str> {
    let trial = case.any;
    let program = match &trial.workload {
        Workload::External(external) => external.program.name(),
        _ => "",
    };
    let stated = trial.workload.stated().and_then(|stated| stated.version.as_ref());
    stated.or(trial.environment.tools.get(program)).map(String::as_str)
}

/// Why a measure means something else on each side, although both sides have it.
pub(super) fn incomparable(sides: [&Case<'_>; 2], measure: &Measure) -> Option<String> {
    if let Some(why) = other_disks(sides) {
        return Some(why);
    }
    let [a, b] = sides.map(Case::workload);
    if let (Workload::External(_), Workload::External(_)) = (a, b)
        && !a.does_same_as(b)
    {
        let names: Vec<String> = workload_differences([a, b]).into_iter().map(|one| one.what).collect();
        return (!names.is_empty())
            .then(|| format!("the two sides did different work ({})", names.join(", ")));
    }
    let by_character = [WRITE_CHAR, READ_CHAR].iter().any(|test| measure.is_of_phase(test.name));
    let buffered = sides.map(|case| version(case).is_some_and(moves_characters_through_buffers));
    (by_character && buffered[0] != buffered[1]).then(|| {
        "bonnie++ before 1.92 moves characters through the buffers of the C library, later versions by a \
         system call each"
            .to_string()
    })
}

/// Why figures of two disks do not compare, if one of them is modelled: what a model leaves out is on one
/// side only.
fn other_disks(sides: [&Case<'_>; 2]) -> Option<String> {
    let models = sides.map(|case| case.any.configuration.device.model());
    match models {
        [Some(a), Some(b)] if a.text == b.text => None,
        [None, None] => None,
        [Some(a), Some(b)] => {
            Some(format!("the two sides ran on models of other disks ('{}', '{}')", a.name, b.name))
        }
        [Some(model), None] | [None, Some(model)] => {
            Some(format!("one side ran on a modelled disk ('{}'), and the other on a real one", model.name))
        }
    }
}

/// Returns whether this version of bonnie++ uses `putc` and `getc`: those before 1.92.
fn moves_characters_through_buffers(version: &str) -> bool {
    let number = version.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(number.len());
    number[..end].parse::<f64>().is_ok_and(|number| number < 1.92)
}

/// Returns the number of other machines that did the load, and whether they read the same trees.
fn clients(case: &Case<'_>) -> String {
    let environment = &case.any.environment;
    format!("{}{}", environment.clients.len(), whose_trees(environment.shared_trees))
}

/// `6.12.9`: the release, without the details of its build.
fn kernel(case: &Case<'_>) -> String {
    let kernel = &case.any.environment.kernel;
    kernel.split_whitespace().next().unwrap_or("unknown").to_string()
}

fn workload_differences(workloads: [&Workload; 2]) -> Vec<Difference> {
    let shown =
        |level: Option<&str>| level.filter(|level| !level.is_empty()).unwrap_or("not set").to_string();
    match workloads {
        [Workload::External(a), Workload::External(b)] if a.program == b.program => {
            let options = [a.options(), b.options()];
            let names: BTreeSet<&String> = options.iter().flatten().flat_map(BTreeMap::keys).collect();
            let level = |name: &String| {
                options.each_ref().map(|options| match options {
                    Some(options) => match options.get(name).map(String::as_str) {
                        Some("") => "set".to_string(),
                        level => shown(level),
                    },
                    None => NOT_KNOWN.to_string(),
                })
            };
            let all = names.into_iter().map(|name| Difference { what: name.clone(), levels: level(name) });
            all.filter(|difference| difference.levels[0] != difference.levels[1]).collect()
        }
        [a, b] if a.kind() != b.kind() => {
            let levels = workloads.map(|workload| workload.load().title());
            vec![Difference { what: "workload".to_string(), levels }]
        }
        [a, b] => {
            let level = |workload: &Workload, listed: &Listed| match workload.stated() {
                Some(stated) => stated.options.get(listed.name).map_or(NOT_KNOWN.to_string(), String::clone),
                None => shown(Some(&listed.value)),
            };
            let pairs = a.list().into_iter().zip(b.list());
            let all = pairs.map(|(of_a, of_b)| Difference {
                what: of_a.name.to_string(),
                levels: [level(a, &of_a), level(b, &of_b)],
            });
            all.filter(|difference| difference.levels[0] != difference.levels[1]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Comparison;
    use super::super::tests::{question, side};
    use super::*;
    use crate::fixture;
    use fsdyno_core::Bytes;
    use fsdyno_core::device::{Block, Conditioning, DiskModelText, Image};
    use fsdyno_core::workload::Fileserver;

    fn compare(first: &[TrialRecord], second: &[TrialRecord]) -> Comparison {
        Comparison::new(side("A", 1, first), side("B", 2, second), &question(&["read"]))
    }

    fn matched(comparison: &Comparison) -> Vec<[&str; 2]> {
        comparison.cases.iter().map(|case| [case.names[0].as_str(), case.names[1].as_str()]).collect()
    }

    /// Three trials of each filesystem under each scheduler, all on one kernel.
    fn on(kernel: &str, filesystems: &[&str], schedulers: &[&str]) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        let mut case = 0;
        for filesystem in filesystems {
            for scheduler in schedulers {
                for block in 0..3 {
                    let mut configuration = fixture::configuration(filesystem, scheduler);
                    configuration.name = format!("{filesystem} {kernel} {scheduler}");
                    configuration.settings.insert("kernel".to_string(), kernel.to_string());
                    trials.push(fixture::trial(case * 3 + block, block, case, configuration, 50.0));
                }
                case += 1;
            }
        }
        trials
    }

    #[test]
    fn an_image_that_a_trial_made_for_itself_is_no_other_device() {
        let image = |path: &str| device(&DeviceSpec::image(path, Bytes(1)));
        assert_eq!(image("/run/fsdyno-c5eee939/disk"), image("/run/fsdyno-ca671ac2/disk"));
        assert_ne!(image("/var/tmp/a.img"), image("/srv/a.img"));
    }

    #[test]
    fn a_modelled_disk_is_compared_with_none_but_the_same() {
        let on = |model: Option<(&str, &str)>| {
            let mut trials = fixture::blocks(0, "a", 3, 1.0);
            let model = model.map(|(name, text)| DiskModelText { name: name.into(), text: text.into() });
            for trial in &mut trials {
                let image = Image { model: model.clone(), ..Image::new("/a.img", Bytes(1)) };
                trial.configuration.device = DeviceSpec::Image(image);
            }
            trials
        };
        let why = |first: &[TrialRecord], second: &[TrialRecord]| {
            let (first, second) = (cases(first), cases(second));
            incomparable([&first[0], &second[0]], &"read".parse().expect("a measure"))
        };
        let [real, slow, same, other] =
            [None, Some(("slow", "1")), Some(("copy", "1")), Some(("slow", "2"))].map(on);
        assert_eq!((why(&real, &real), why(&slow, &same)), (None, None));
        assert!(why(&real, &slow).is_some_and(|why| why.contains("modelled disk ('slow')")));
        assert!(why(&slow, &other).is_some_and(|why| why.contains("models of other disks")));
    }

    #[test]
    fn cases_match_by_name_and_unmatched_ones_are_listed() {
        let first = [fixture::blocks(0, "a", 3, 1.0), fixture::blocks(1, "b", 3, 1.0)].concat();
        let mut second = [fixture::blocks(0, "b", 3, 1.0), fixture::blocks(1, "c", 3, 1.0)].concat();
        // Cases with different names match by their settings, but only after those with the same name.
        assert_eq!(matched(&compare(&first, &second)), [["a", "c"], ["b", "b"]]);
        for trial in second.iter_mut().filter(|trial| trial.case == 1) {
            trial.configuration.settings.insert("atime".to_string(), "noatime".to_string());
        }
        let comparison = compare(&first, &second);
        assert_eq!(matched(&comparison), [["b", "b"]]);
        let alone = comparison.alone.each_ref().map(|alone| alone[0].name.as_str());
        assert_eq!(alone, ["a", "c"]);
    }

    #[test]
    fn two_kernels_are_compared_case_by_case() {
        let old = on("6.1", &["ext4", "xfs"], &["bfq", "none"]);
        let new = on("6.12", &["xfs", "ext4"], &["none", "bfq"]);
        let comparison = compare(&old, &new);
        assert_eq!(
            matched(&comparison),
            [
                ["ext4 6.1 bfq", "ext4 6.12 bfq"],
                ["ext4 6.1 none", "ext4 6.12 none"],
                ["xfs 6.1 bfq", "xfs 6.12 bfq"],
                ["xfs 6.1 none", "xfs 6.12 none"],
            ]
        );
        let kernel = Difference { what: "kernel".to_string(), levels: ["6.1", "6.12"].map(String::from) };
        assert!(comparison.cases.iter().all(|case| case.differences == [kernel.clone()]));
        assert!(comparison.alone.iter().all(Vec::is_empty));
    }

    #[test]
    fn two_filesystems_are_compared_under_the_same_schedulers() {
        let comparison =
            compare(&on("6.1", &["ext4"], &["bfq", "none"]), &on("6.1", &["xfs"], &["none", "kyber"]));
        assert_eq!(matched(&comparison), [["ext4 6.1 none", "xfs 6.1 none"]]);
        assert_eq!(comparison.alone[0][0].name, "ext4 6.1 bfq");
        assert_eq!(comparison.alone[1][0].reason, "the other side has no such case");
    }

    #[test]
    fn single_cases_are_compared_whatever_they_are() {
        let mut other = on("6.12", &["xfs"], &["none"]);
        for trial in &mut other {
            trial.workload = Workload::Fileserver(Fileserver { readers: 5, ..Fileserver::default() });
            trial.environment.kernel = "6.12.1 #1".to_string();
            let precondition = Conditioning::FillTwice;
            trial.configuration.device = DeviceSpec::Block(Block { precondition, ..Block::new("/dev/sdb") });
        }
        let comparison = compare(&fixture::blocks(0, "a", 3, 1.0), &other);
        let what: Vec<&str> =
            comparison.cases[0].differences.iter().map(|difference| difference.what.as_str()).collect();
        assert_eq!(what, ["filesystem", "kernel", "scheduler", "device", "readers"]);
    }

    #[test]
    fn a_case_that_did_not_run_says_why() {
        let first = fixture::trials();
        let second: Vec<TrialRecord> = first
            .iter()
            .filter(|trial| trial.configuration.name != "xfs bfq" || trial.outcome != Outcome::Measured)
            .cloned()
            .collect();
        let comparison = compare(&first, &second);
        assert_eq!(matched(&comparison), [["ext4 bfq", "ext4 bfq"]]);
        let reasons: Vec<&str> = comparison.alone[0].iter().map(|alone| alone.reason.as_str()).collect();
        assert!(
            reasons.iter().any(|reason| reason.starts_with("every trial failed on the other side: ")),
            "{reasons:?}"
        );
        assert!(reasons.iter().any(|reason| reason.starts_with("skipped: program 'mkfs.btrfs'")));
        assert_eq!(comparison.cases[0].not_measured, [0, 0]);
    }
}
