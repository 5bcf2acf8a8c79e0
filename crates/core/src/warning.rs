//! Confounders that a reader of a result must know about.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the kinds of warning once: variant, printed name, meaning, and what to do.
macro_rules! warnings {
    ($($variant:ident = $name:literal: $meaning:literal, $remedy:literal;)*) => {
        /// The kind of confounder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum WarningKind {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl WarningKind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [WarningKind] = &[$(WarningKind::$variant),*];

            /// The name in JSON and reports.
            pub const fn name(self) -> &'static str {
                match self { $(WarningKind::$variant => $name,)* }
            }

            /// Returns the meaning of the warning, for the reference.
            pub const fn meaning(self) -> &'static str {
                match self { $(WarningKind::$variant => $meaning,)* }
            }

            /// Returns the remedy for a user, for the reference.
            pub const fn remedy(self) -> &'static str {
                match self { $(WarningKind::$variant => $remedy,)* }
            }
        }
    };
}

impl WarningKind {
    /// Returns whether a trial with this warning measured what was asked all the same, so that it is no
    /// reason for doubt where every trial carries it.
    pub const fn is_harmless(self) -> bool {
        matches!(
            self,
            WarningKind::ReaderPasses
                | WarningKind::WriterRounds
                | WarningKind::NameMapped
                | WarningKind::NearestEquivalent
                | WarningKind::Imported
                | WarningKind::SlowTimer
        )
    }
}

warnings! {
    CachesNotDropped = "caches-not-dropped":
        "the page cache could not be dropped, so reads may come from memory",
        "run as root, or compare only results that all carry this warning";
    NoEffect = "no-effect":
        "a parameter of the workload was changed that has no effect as the others are",
        "remove it from the plan, or set what the text names";
    ShortIterations = "short-iterations":
        "iterations of a flow ended early, because a step that is performed at random found no file to \
         choose or no name to create",
        "raise `count` of the file set, or use a `prefill` nearer to the middle";
    NoIterations = "no-iterations":
        "no worker of a role completed an iteration of its flow within the window, so that the rate of \
         iterations is 0",
        "make `window` longer, or the iteration shorter; if workers wait for a signal, somebody must `post` it \
         first";
    Saturated = "saturated":
        "the workers of a role did not keep up with its rate, so that iterations waited for them",
        "lower `rate`, or raise `workers`: the longer the window, the longer the response times";
    TargetMissed = "target-missed":
        "no rate that was tried met the latency target of the plan, or the one that was found missed it in \
         the window",
        "allow more time in `until`, or make `step` longer: a cache may have taken what the device could not";
    TooFewIterations = "too-few-iterations":
        "the rates of a search were judged by fewer iterations than the quantile of the latency target needs",
        "make `step` longer: p99 needs a hundred iterations, p99.9 a thousand";
    BegunApart = "begun-apart":
        "clients did not begin a phase together, or it is not known when they did",
        "use fewer workers than processors on each client, and a network with short round trips";
    NotRemounted = "not-remounted":
        "the filesystem stayed mounted, although the workload calls for unmounting and mounting it again",
        "use a plan with an image or a block device instead of a directory if cold reads matter";
    CacheNotWarm = "cache-not-warm":
        "not everything that the plan wants in memory at the beginning of a phase stayed there",
        "raise `memory` or make the trees smaller, so that everything fits";
    TreeSmallerThanMemory = "tree-smaller-than-memory":
        "the tree fits into memory, so later passes may come from the page cache",
        "make the trees larger than memory, or limit the memory of the load with `memory`";
    MemoryNotLimited = "memory-not-limited":
        "the load could use all memory, although the plan limits it",
        "run as root on a kernel with memory cgroups";
    ReaderPasses = "reader-passes":
        "readers reached the end of their data and started again",
        "nothing is wrong if memory is limited; else make the trees larger or the window shorter";
    WriterRounds = "writer-rounds":
        "writers used up their space, and removed or wrote over what they had written to continue",
        "make the device or `writer_space` larger; the text says how much of the time it took";
    OptionNotInForce = "option-not-in-force":
        "an option that was requested is not in force",
        "do not compare this setting: the text says what is in force instead";
    NameMapped = "name-mapped":
        "a name in the plan was mapped to its successor",
        "nothing is wrong; write the new name in new plans";
    NearestEquivalent = "nearest-equivalent":
        "the plan reproduces a study, and this setting is the closest available to the one in the study",
        "keep the difference in mind when you compare with the published figures";
    Censored = "censored":
        "some operations had not ended when their phase was closed: at the drain limit, or for lack of progress",
        "read figures with `>=` as lower bounds; raise `drain_limit` to see their ends, or `watchdog` in a phase \
         without a window";
    LateFailure = "late-failure":
        "an operation failed after the window, when nothing counted any more",
        "the figures of the window count; look into the kernel log, and check how full the device was";
    SlowTimer = "slow-timer":
        "the timer is not the TSC, so timing costs more",
        "compare only results of the same timer; see `clocksource` in the kernel's documentation";
    FigureMissing = "figure-missing":
        "a program reported no figure, or only a coarse one, for part of its work",
        "choose sizes that keep the program busy for longer, or the native workload of the same name";
    Imported = "imported":
        "the trial was not run by fsdyno; its figures come from a file, which does not contain everything",
        "compare with results of the same origin; what the file does not contain is absent";
    Durability = "durability":
        "the settings weaken what survives a power cut",
        "choose this setting only if losing recent writes, or the filesystem, in a power cut is acceptable";
    DurabilityUnknown = "durability-unknown":
        "what a setting, or the filesystem of a directory, does to what survives a power cut is unknown",
        "measure it with `fsdyno durability`; until then it never wins against a durable configuration";
    DirectoriesNotSynced = "directories-not-synced":
        "the protocol of the server does not pass on an fsync of a directory, nor a syncfs",
        "serve by NFS if programs rely on a rename or a new name that they have synced";
    ServerOutage = "server-outage":
        "the server was away for a part of the phase, as the plan asks, or the phase was too short for that",
        "the longest stall says what clients lived through; compare only with trials that had the same outage";
    PromisesNotMade = "promises-not-made":
        "far fewer promises were made before the power cuts than the plan asks for",
        "make `duration` longer: kinds of promises that were hardly made have hardly been tested";
    ImageShape = "image-shape":
        "where the image is, one with other sectors or one that was written first was faster or slower",
        "add `preallocate = \"write\"` and `sector` to the plan, or use a block device";
    NotQuiet = "not-quiet":
        "the device still served requests, or much was dirty, when the time of `quiesce` was over",
        "raise `quiesce`, or look for what else uses the device";
    NotSteady = "not-steady":
        "the rate of the load still varied or drifted when the window began, at the limit of `steady`",
        "raise `limit`, make rounds longer, or allow more with `within`";
    NotThrottled = "not-throttled":
        "writers were still faster than the device when the ramp ended: the window includes writes that the \
         page cache absorbed",
        "limit the memory of the load with `memory`, or rank by `write-durable`";
    PageCache = "page-cache":
        "bytes were read from the page cache instead of the device",
        "limit the memory of the load with `memory`, or make the trees larger than memory";
    WriteCacheAbsorbed = "write-cache-absorbed":
        "bytes were written to the page cache and did not reach the device while they were measured",
        "rank by `write-durable`, make windows longer, or limit the memory of the load";
    HostCache = "host-cache":
        "the device is backed by the host's memory: an image in memory, or one that the host caches",
        "put the image on a disk, and remove `direct_io = false`; a loop device of your own needs `losetup \
         --direct-io=on`";
    ModelLate = "model-late":
        "requests to a modelled disk ended later than those of the disk would have",
        "stop what else runs on the machine, or choose a slower disk: figures are those of a slower one still";
    ForeignLoad = "foreign-load":
        "other processes used processor time",
        "stop what else runs on the machine, and repeat the sweep";
    LazyInitialisation = "lazy-initialisation":
        "the kernel initialised a filesystem in the background during the measurement",
        "make `ramp` longer, or disable it with mkfs options such as `-E lazy_itable_init=0`";
    ProcessorsSaturated = "processors-saturated":
        "the workers used all processors",
        "use fewer workers: the figures are those of the processors, not of the storage";
    StealTime = "steal-time":
        "a hypervisor gave processor time to other guests",
        "repeat the sweep when the host of this virtual machine is quiet; more repetitions help";
    OtherIo = "other-io":
        "other processes read and wrote block devices",
        "stop what else uses the disks, or give the sweep a disk of its own";
    SharedDisk = "shared-disk":
        "other partitions of the disk are in use",
        "use a whole disk, or read the figures as those of a disk that others use too";
    JournalOnSameDisk = "journal-on-same-disk":
        "the external journal is on the same disk as the data, so that it cannot relieve it",
        "give the journal a disk of its own, or read the setting as what it costs to have two areas";
    Compression = "compression":
        "the filesystem compresses, and the content compresses well",
        "set `content = \"random\"`, or the compressibility of your own data as `fsdyno profile` prints it";
    Incompressible = "incompressible":
        "the filesystem compresses, but the content of files does not compress",
        "set `content` to the compressibility of your own data, as `fsdyno profile` prints it";
    WriteCache = "write-cache":
        "a volatile write cache is not flushed, or its state is unknown",
        "find out whether the cache survives a power cut; results of other devices may not be comparable";
    StillWide = "still-wide":
        "after as many trials as the plan allows, an interval is still wider than the plan requires",
        "raise `max` in `repetitions`, or find out what varies: drift, other load, steal time";
    MeasuredAgain = "measured-again":
        "others used the machine during the block of the trial, which was measured again: the trial is kept \
         and does not count",
        "nothing to do; `foreign-load`, `steal-time` and `other-io` say what disturbed it";
    CheckFailed = "check-failed":
        "the filesystem check found errors",
        "read what the check said in `show --format json`: filesystem, kernel or device are at fault";
    NotChecked = "not-checked":
        "the filesystem has no check, so it is unknown whether it is still consistent",
        "nothing to do";
    StillMounted = "still-mounted":
        "another mount namespace, such as that of a container, kept the filesystem mounted",
        "find the process or container that keeps it mounted: `grep fsdyno /proc/*/mountinfo`";
    GarbageCollection = "garbage-collection":
        "the filesystem's garbage collector did not run",
        "expect long runs to be slower: install the filesystem's tools, whose daemon collects garbage";
    Emulation = "emulation":
        "a guest ran on emulated processors; only ratios between such guests are meaningful",
        "compare only with other results of emulated guests, or use a machine with KVM";
    Monitored = "monitored":
        "a monitor of the plan ran during the phases, and the figures include what it cost",
        "compare only with trials of the same monitors, or remove `monitor` from the plan to measure";
    MonitorEnded = "monitor-ended":
        "a monitor of the plan failed, or ended before its phase did",
        "read what it printed: `fsdyno show --log`";
    NotObserved = "not-observed":
        "nothing is known of what the server did while its clients worked",
        "resolve the reason that it names; the figures of the clients stand";
    MachineLost = "machine-lost":
        "a machine of the fleet ran no further trials from here on",
        "nothing, if the others have run its trials; else resolve the reason and go on with `--resume`";
    GuestLost = "guest-lost":
        "a guest stopped working on a disk after a power cut or an I/O error, and another one went on",
        "its last words are in the warning; `fsdyno durability --show` mounts the disk on this machine";
    LeftBehind = "left-behind":
        "a change to the machine could not be undone",
        "stop what still uses it, then run `sudo fsdyno restore`";
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A confounder, stored with its trial and shown in every report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The kind of warning.
    pub kind: WarningKind,
    /// Name of the phase it is about; absent if it is about the whole trial, or if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// One line of text, without the phase.
    pub text: String,
}

impl Warning {
    /// A warning of this kind about the whole trial.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Warning { kind, phase: None, text: text.into() }
    }

    /// The same about one phase.
    pub fn in_phase(self, name: &str) -> Self {
        Warning { phase: Some(name.to_string()), ..self }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.phase {
            Some(phase) => write!(f, "phase '{phase}': {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
