//! The keys of a plan's tables, each with its default and one line of help: what parsing accepts, and what
//! the reference lists. Keys of a workload are its parameters, and those of `[axes]` the axes; both are
//! declared in the crate `core`.

/// A key of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// The value that it has if the plan does not set it; empty if there is none.
    pub default: &'static str,
    /// One line of help, in Markdown.
    pub help: &'static str,
}

/// A table of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTable {
    /// As written: `[device]`.
    pub name: &'static str,
    /// The purpose of the table, in a sentence.
    pub about: &'static str,
    /// Its keys, in the order of importance.
    pub keys: &'static [Key],
}

macro_rules! keys {
    ($($name:literal = $default:literal: $help:literal;)*) => {
        &[$(Key { name: $name, default: $default, help: $help }),*]
    };
}

/// The key of a workload that says how long its load runs before a window.
pub(super) const RAMP: &str = "ramp";
/// The key that says when its load is steady. It takes the place of [`RAMP`], and sets the same parameter.
pub(super) const STEADY: &str = "steady";

pub(super) const PLAN: KeyTable = KeyTable {
    name: "the plan",
    about: "The top of the file.",
    keys: keys! {
        "name" = "the name of the file": "name of the sweep in `list`, reports and file names";
        "device" = "": "required: the scratch device, see `[device]`";
        "axes" = "": "settings to vary: every combination of their levels is a configuration; see \
            [Axes](#axes)";
        "configurations" = "": "single configurations, with names, in addition to the combinations of \
            `[axes]`";
        "workloads" = "": "required: one or more loads, each of which runs on every configuration; see \
            [Workloads](#workloads)";
        "durability" = "": "what each configuration loses at a power cut, measured after the other loads: \
         the parameters of the workload [`durability`](#durability), or none for its defaults";
        "repetitions" = "1": "trials of each case, one per block. `\"auto\"`: as many as the answer needs, \
            at least 4; see [Sweeps that decide by themselves](../guide/auto.md). Or `{ min, max, until }`: \
            repeat until intervals are narrow enough";
        "max_repetitions" = "20": "the most of them with `repetitions = \"auto\"`, 2 or more";
        "protocol" = "exhaustive": "how trials are spent: `\"exhaustive\"`, every case as often, or \
            `\"race\"`, which drops configurations as evidence grows; see \
            [Races](../guide/race.md)";
        "budget" = "as many trials as halving needs": "what a race may spend: trials, such as `200` or \
            `\"200 trials\"`, or time, such as `\"24h\"`";
        "time_limit" = "": "how long the sweep may take, such as `\"15m\"`: it ends after the last block \
            that fits; the first block is always run";
        "measure" = "the workload's own": "what the summary ranks by, and what `recommend` optimises; see \
            [Measures](#measures)";
        "memory" = "": "memory of the load and of the page cache that it fills, such as `\"512M\"`, \
            wherever the axis `memory` is not set";
        "cache" = "": "what is in memory when a phase begins to read, wherever the axis `cache` is not \
            set: `\"cold\"`, `\"metadata-warm\"` or `\"warm\"`";
        "seed" = "42": "seed of the order of trials, of trees, of contents and of the UUIDs of filesystems";
        "telemetry" = "1s": "time between two looks at the counters of /proc and /sys, at least \
            `\"100ms\"`; `false`: none";
        "quiesce" = "": "how long to wait before each phase, at most, until the device serves no request for \
            half a second and at most 1 MiB is dirty, such as `\"30s\"`; no wait if absent";
        "reuse" = "none": "`\"prepared\"`: what mkfs makes and the load prepares is made once in a block, and \
            copied for each configuration that differs only in how it is mounted or its disks are driven; \
            see [Preparing once](../guide/workloads.md#preparing-once-for-several-trials-reuse)";
        "watchdog" = "1m": "how long an engine may make no progress beyond the expected duration of its \
            stage before the trial is given up";
        "clients" = "": "run the loads on other machines; see `[clients]`";
        "serve" = "": "show the filesystem to clients; see `[serve]`";
        "fleet" = "": "machines that share the trials; see `[fleet]`";
        "hooks" = "": "commands to run around trials and phases; see `[hooks]`";
        "monitor" = "": "commands to run during each phase, such as `[\"perf record -a -o {out}\"]`; needs \
            `--allow-hooks`";
        "kernels" = "": "kernels of your own, by name, for the axis `kernel`; see [Kernels](#kernels)";
        "guest" = "": "the virtual machine of trials on other kernels; see [Kernels](#kernels)";
        "study" = "": "the published study that the plan repeats; `show --as published` then uses its \
            layout";
    },
};

pub(super) const REPETITIONS: KeyTable = KeyTable {
    name: "repetitions",
    about: "Repeats each case until its interval is narrow enough. All three keys are required.",
    keys: keys! {
        "min" = "": "trials of each case at least; 2 or more";
        "max" = "": "trials of each case at most";
        "until" = "": "half the width of the 95 % interval of `measure`, as a percentage of the mean, \
            such as `\"5%\"`";
    },
};

pub(super) const DEVICE: KeyTable = KeyTable {
    name: "[device]",
    about: "What filesystems are created on: exactly one of `image`, `block`, `directory`, `md`, `lvm` \
            and `pool`.",
    keys: keys! {
        "directory" = "": "measure an existing directory as it is: nothing is formatted, and no axis \
            applies; an absolute path, or relative to where fsdyno runs";
        "md" = "": "an array of several disks; see `[device.md]`";
        "lvm" = "": "a logical volume on several disks; see `[device.lvm]`";
        "pool" = "": "several disks for a filesystem that spreads over them; see `[device.pool]`";
        "journals" = "": "at most 26 devices for external journals, by name, for the axis `journal`: each is a \
            disk with the keys below";
    },
};

pub(super) const IMAGE: KeyTable = KeyTable {
    name: "an image",
    about: "A file that the sweep creates, attaches to a loop device, and removes: in `[device]`, in a table \
            of `[device.journals]`, or as one of the `disks` of an array, a volume or a pool.",
    keys: keys! {
        "image" = "": "absolute path of the file; it must not exist";
        "size" = "": "required: its size, such as `\"8G\"`";
        "preallocate" = "none": "`\"write\"`: written in full once per sweep and kept for its trials, as \
            a disk would be; `\"none\"`: new and sparse in each trial";
        "sector" = "512": "bytes of a logical block of the loop device: 512 or 4096";
        "direct_io" = "true": "whether the loop device bypasses the page cache of the filesystem that \
            holds the image";
    },
};

pub(super) const BLOCK: KeyTable = KeyTable {
    name: "a block device",
    about: "A disk or a partition, in the same places. Everything on it is lost; `--destroy` must confirm \
            it.",
    keys: keys! {
        "block" = "": "its absolute path, best from /dev/disk/by-id";
        "identity" = "": "refuse any device but this one; `fsdyno plan` prints the line";
        "precondition" = "none": "what is done to all of it before each filesystem is created: \
            `\"discard\"`, `\"fill-once\"` or `\"fill-twice\"` (written in order with random data; mkfs \
            then does not discard), or `\"none\"`";
    },
};

pub(super) const DELAY: KeyTable = KeyTable {
    name: "a slow disk",
    about: "Any image or block device can delay its answers (dm-delay). Whole milliseconds.",
    keys: keys! {
        "delay" = "": "delay of everything that has no delay of its own";
        "read_delay" = "": "delay of reads";
        "write_delay" = "": "delay of writes";
        "flush_delay" = "": "delay of cache flushes";
    },
};

pub(super) const MD: KeyTable = KeyTable {
    name: "[device.md]",
    about: "An array of Linux' md driver.",
    keys: keys! {
        "level" = "": "required: `\"raid0\"`, `\"raid1\"`, `\"raid5\"`, `\"raid6\"` or `\"raid10\"`";
        "disks" = "": "required: a list of disks, or one image with `count`";
        "chunk" = "": "bytes on one disk before the next one, for levels that stripe; a power of two";
        "bitmap" = "none": "write-intent bitmap of a redundant array: `\"none\"` or `\"internal\"`";
    },
};

pub(super) const LVM: KeyTable = KeyTable {
    name: "[device.lvm]",
    about: "A logical volume.",
    keys: keys! {
        "disks" = "": "required: a list of disks, or one image with `count`";
        "stripes" = "1": "number of stripes, a divisor of the number of disks; 1: linear";
        "stripe_size" = "": "bytes on one disk before the next one; a power of two";
    },
};

pub(super) const POOL: KeyTable = KeyTable {
    name: "[device.pool]",
    about: "Disks over which the filesystem spreads itself: btrfs, by the axes `data_profile` and `profile`.",
    keys: keys! {
        "disks" = "": "required: a list of at least two disks, or one image with `count`";
    },
};

pub(super) const ALIKE: KeyTable = KeyTable {
    name: "disks",
    about: "Several equal images at once, as one table in place of a list: the keys of an image, and this \
            one.",
    keys: keys! {
        "count" = "": "how many; the names of the files end in `.1`, `.2` and so on";
    },
};

pub(super) const CONFIGURATION: KeyTable = KeyTable {
    name: "[[configurations]]",
    about: "A single configuration: `filesystem`, any other axis with one level, and these keys.",
    keys: keys! {
        "name" = "": "required: its name in tables";
        "note" = "": "a note that is shown with its results";
        "impossible" = "": "why it cannot be built today; its trials are skipped with this reason";
    },
};

pub(super) const HOOKS: KeyTable = KeyTable {
    name: "[hooks]",
    about: "Commands of your own around trials and phases. A sweep refuses them without `--allow-hooks`.",
    keys: keys! {
        "before_trial" = "": "runs before anything of a trial is built";
        "before_phase" = "": "runs when the workers of a phase are ready, before its ramp";
        "after_trial" = "": "runs after everything of a trial was taken down, also if the trial failed";
        "timeout" = "1m": "how long each of them may run before it is killed and the trial fails";
    },
};

pub(super) const CLIENTS: KeyTable = KeyTable {
    name: "[clients]",
    about: "Machines that do the load together, in a `directory` that they share, or in what `[serve]` shows \
            them. `--launch` on the command line starts them, except those of `[serve]`; see \
            [Clients](../guide/clients.md).",
    keys: keys! {
        "count" = "": "required: how many; each has the workers of the workload to itself, and trees unless they \
            share them";
        "share" = "false": "whether all of them read the same trees, which the first one creates: `fileserver` \
            without `verify`";
        "mount" = "": "options with which clients mount what `[serve]` shows them, comma-separated; version, \
            sizes, connections and `sync` have axes";
    },
};

pub(super) const SERVE: KeyTable = KeyTable {
    name: "[serve]",
    about: "Shows the filesystem to the clients of `[clients]`. Server and clients are guests, each of them a \
            machine as in `[guest]`; see [Serving a filesystem](../guide/clients.md#serving-a-filesystem).",
    keys: keys! {
        "protocol" = "": "required: `nfs` or `smb`";
        "outage" = "": "restart the server in each phase, as when its machine reboots: it stops serving, unmounts \
            the filesystem, is away for this long, and serves again";
    },
};

pub(super) const FLEET: KeyTable = KeyTable {
    name: "[fleet]",
    about: "Machines that share the trials of the sweep: each block runs on one of them, on its own device. \
            `--fleet --launch` on the command line starts them; see [Fleets](../guide/fleet.md).",
    keys: keys! {
        "count" = "": "required: how many";
        "disks" = "": "disks that a machine has in place of those in `[device]`: `[fleet.disks.NAME]` with \
            lines such as `\"/dev/sdb\" = { block = \"/dev/nvme0n1\" }`";
    },
};

pub(super) const KERNEL: KeyTable = KeyTable {
    name: "[kernels] NAME",
    about: "A kernel of your own for `kernel = \"NAME\"`.",
    keys: keys! {
        "image" = "": "required: the file `arch/x86/boot/bzImage` of a kernel build, relative to the plan";
        "modules" = "": "the directory filled by `make modules_install INSTALL_MOD_PATH=DIR`";
    },
};

pub(super) const GUEST: KeyTable = KeyTable {
    name: "[guest]",
    about: "The virtual machine in which every kernel except `host` runs.",
    keys: keys! {
        "processors" = "2": "number of processors";
        "memory" = "1G": "memory size, at least 256M";
        "cache" = "none": "how the virtual machine caches its disks, as QEMU calls it: `none`, \
            `writeback` or `unsafe`";
        "snapshot" = "true": "whether an emulated guest resumes from a snapshot of one that has booted, \
            instead of booting itself";
    },
};

/// Every table, for the reference.
pub const TABLES: &[KeyTable] = &[
    PLAN,
    REPETITIONS,
    DEVICE,
    IMAGE,
    BLOCK,
    DELAY,
    MD,
    LVM,
    POOL,
    ALIKE,
    CONFIGURATION,
    HOOKS,
    CLIENTS,
    SERVE,
    FLEET,
    KERNEL,
    GUEST,
];

/// The names of the keys of several tables.
pub(super) fn names(tables: &[KeyTable]) -> Vec<&'static str> {
    tables.iter().flat_map(|table| table.keys).map(|key| key.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::device::{Bitmap, Conditioning, Preallocation, RaidLevel};
    use fsdyno_core::{CacheState, DiskCache, GuestShape};

    fn help(table: KeyTable, key: &str) -> &'static Key {
        table.keys.iter().find(|one| one.name == key).expect("a key")
    }

    /// Levels and defaults that the help names are those of the types.
    #[test]
    fn the_help_names_what_there_is() {
        let all = |key: &Key, words: &[&str]| {
            for word in words {
                assert!(
                    key.help.contains(&format!("`{word}`")) || key.help.contains(&format!("\"{word}\"")),
                    "{word}"
                );
            }
        };
        let names = |list: &[RaidLevel]| list.iter().map(|level| level.name()).collect::<Vec<_>>();
        all(help(MD, "level"), &names(RaidLevel::ALL));
        all(help(MD, "bitmap"), &Bitmap::ALL.iter().map(|one| one.name()).collect::<Vec<_>>());
        all(help(BLOCK, "precondition"), &Conditioning::ALL.iter().map(|one| one.name()).collect::<Vec<_>>());
        all(help(IMAGE, "preallocate"), &Preallocation::ALL.iter().map(|one| one.name()).collect::<Vec<_>>());
        all(help(GUEST, "cache"), &DiskCache::ALL.iter().map(|one| one.name()).collect::<Vec<_>>());
        all(help(PLAN, "cache"), &CacheState::NAMES);
        assert_eq!(help(MD, "bitmap").default, Bitmap::default().name());
        assert_eq!(help(IMAGE, "preallocate").default, Preallocation::default().name());
        assert_eq!(help(BLOCK, "precondition").default, Conditioning::default().name());
        let usual = GuestShape::default();
        assert_eq!(help(GUEST, "processors").default, usual.processors.to_string());
        assert_eq!(help(GUEST, "memory").default, usual.memory.to_string());
        assert_eq!(help(GUEST, "cache").default, usual.cache.name());
        assert_eq!(help(GUEST, "snapshot").default, usual.snapshot.to_string());
        assert_eq!(help(PLAN, "watchdog").default, super::super::raw::DEFAULT_WATCHDOG.to_string());
        assert_eq!(help(HOOKS, "timeout").default, super::super::hooks::DEFAULT_TIMEOUT.to_string());
        assert_eq!(help(PLAN, "telemetry").default, super::super::raw::DEFAULT_TELEMETRY.to_string());
    }
}
