//! The flows that come with fsdyno perform what their definitions say: for a given number of iterations,
//! every operation is performed exactly as often as the definition has it.

use fsdyno_core::workload::{Flow, FlowRole, Load};
use fsdyno_core::{EngineEvent, EngineRequest, Operation, Reread, Role, Workload};
use fsdyno_engine::{FlowPerformed, ReadyFlow};
use fsdyno_sweep::{FLOWS, Plan};
use fsdyno_testkit::in_memory;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use Operation::{
    Close, Create, Fdatasync, Fsync, FsyncDirectory, Ftruncate, Linkat, Lseek, Openat, Pread, Pwrite, Read,
    Readdir, Renameat, Statx, Unlinkat, Write,
};

/// The operations of one role by its definition: those of a worker at the beginning, and in each iteration.
/// Operations whose number depends on the sizes of files, or on chance, are left out.
struct Expected {
    role: Role,
    iterations: u64,
    begin: &'static [(Operation, u64)],
    each: &'static [(Operation, u64)],
}

const fn of(role: Role, each: &'static [(Operation, u64)]) -> Expected {
    Expected { role, iterations: ITERATIONS, begin: &[], each }
}

const ITERATIONS: u64 = 20;
/// Reading a file that fits into the buffer takes a read that gets all of it, and one that finds the end.
const WHOLE: u64 = 2;
/// Of `videoserver` as it is scaled down here.
const WRITES_OF_A_VIDEO: u64 = 2;

/// A flow, what makes it small enough for a test, and what its definition says.
struct Case {
    flow: &'static str,
    set: &'static [&'static str],
    roles: &'static [Expected],
}

const CASES: &[Case] = &[
    Case {
        flow: "varmail",
        set: &[],
        roles: &[of(
            Role::Client,
            &[
                (Unlinkat, 1),
                (Create, 1),
                (Openat, 2),
                (Read, 2 * WHOLE),
                (Lseek, 2),
                (Write, 2),
                (Fsync, 2),
                (Close, 3),
            ],
        )],
    },
    Case {
        flow: "webserver",
        set: &["workloads.roles.client.workers=10"],
        roles: &[Expected {
            begin: &[(Openat, 1)],
            ..of(
                Role::Client,
                &[(Openat, 10), (Read, 10 * WHOLE), (Close, 10), (Lseek, 1), (Write, 1), (Ftruncate, 0)],
            )
        }],
    },
    Case {
        flow: "webproxy",
        set: &["workloads.roles.client.workers=10", "workloads.files.cache.count=1000"],
        roles: &[of(
            Role::Client,
            &[(Unlinkat, 1), (Create, 1), (Lseek, 1), (Write, 1), (Openat, 5), (Read, 5 * WHOLE), (Close, 6)],
        )],
    },
    Case {
        flow: "filebench-fileserver",
        set: &["workloads.roles.client.workers=5", "workloads.files.home.count=500"],
        roles: &[of(
            Role::Client,
            &[
                (Create, 1),
                (Write, 2),
                (Close, 3),
                (Openat, 2),
                (Lseek, 1),
                (Read, WHOLE),
                (Unlinkat, 1),
                (Statx, 1),
            ],
        )],
    },
    Case {
        flow: "videoserver",
        set: &[
            "workloads.roles.reader.workers=4",
            "workloads.files.active.size=8M",
            "workloads.files.passive.size=2M",
            "workloads.roles.reader.steps.1.think=1ms",
            "workloads.roles.writer.steps.4.think=1ms",
        ],
        roles: &[
            Expected { begin: &[(Openat, 1)], ..of(Role::Reader, &[(Read, 1), (Lseek, 0)]) },
            of(Role::Writer, &[(Unlinkat, 1), (Create, 1), (Write, WRITES_OF_A_VIDEO), (Close, 1)]),
        ],
    },
    // For 3200 reads the log is written once, and for each read a page is.
    Case {
        flow: "oltp",
        set: &["workloads.roles.client.workers=16"],
        roles: &[
            Expected { iterations: 2000, begin: &[(Openat, 1)], ..of(Role::Client, &[(Pread, 1)]) },
            Expected { iterations: 10, begin: &[(Openat, 1)], ..of(Role::Logger, &[(Pwrite, 1)]) },
            Expected { iterations: 32, begin: &[(Openat, 1)], ..of(Role::Writer, &[(Pwrite, 100)]) },
        ],
    },
    Case {
        flow: "metadata",
        set: &["workloads.files.entries.count=400", "workloads.files.elsewhere.count=400"],
        roles: &[of(Role::Client, &[(Create, 2), (Statx, 1), (Renameat, 4), (Linkat, 1), (Unlinkat, 2)])],
    },
    Case {
        flow: "fs-mark",
        set: &["workloads.files.files.count=40"],
        // 51200 bytes in pieces of 16384.
        roles: &[of(Role::Client, &[(Create, 1), (Write, 4), (Fsync, 1), (Close, 1), (Unlinkat, 1)])],
    },
    // What mdtest does with each file, as strace shows it; its two lseeks are left out.
    Case {
        flow: "mdtest",
        set: &[],
        roles: &[Expected {
            iterations: 2,
            ..of(
                Role::Client,
                &[
                    (Create, 1000),
                    (Write, 1000),
                    (Statx, 1000),
                    (Openat, 1000),
                    (Read, 1000),
                    (Unlinkat, 1000),
                    (Close, 2000),
                ],
            )
        }],
    },
    // A directory is read with two calls, of which the second finds the end.
    Case {
        flow: "dbench",
        set: &["workloads.files.documents.size=64k"],
        roles: &[of(
            Role::Client,
            &[
                (Create, 24),
                (Openat, 63 + 179),
                (Statx, 162),
                (Readdir, 179 * 2),
                (Pread, 185),
                (Write, 42),
                (Pwrite, 18),
                (Fsync, 8),
                (Renameat, 5),
                (Unlinkat, 24),
                (Close, 87 + 179),
            ],
        )],
    },
    Case {
        flow: "maildir",
        set: &["workloads.files.cur.count=1000"],
        roles: &[of(
            Role::Client,
            &[(Create, 1), (Fsync, 1), (Renameat, 2), (FsyncDirectory, 1), (Unlinkat, 1)],
        )],
    },
    Case {
        flow: "wal-database",
        set: &[
            "workloads.files.data.size=8M",
            "workloads.files.log.size=1M",
            "workloads.roles.checkpointer.steps.2.think=1ms",
            // Whoever is the last to finish would wait for a group in vain.
            "workloads.roles.logger.steps.0.count=1",
            "workloads.roles.logger.steps.3.repeat=1",
            "workloads.roles.client.workers=4",
        ],
        roles: &[
            Expected {
                iterations: 2,
                begin: &[(Openat, 1)],
                ..of(Role::Checkpointer, &[(Pwrite, 128), (Fdatasync, 1)])
            },
            Expected { begin: &[(Openat, 1)], ..of(Role::Client, &[(Pread, 4)]) },
            Expected {
                iterations: 4 * ITERATIONS,
                begin: &[(Openat, 1)],
                ..of(Role::Logger, &[(Pwrite, 1), (Fdatasync, 1)])
            },
        ],
    },
    Case {
        flow: "sqlite",
        set: &["workloads.files.database.size=1M"],
        roles: &[Expected {
            begin: &[(Openat, 1)],
            // The journal and its directory.
            ..of(
                Role::Client,
                &[
                    (Pread, 4),
                    (Create, 1),
                    (Write, 16),
                    (Fdatasync, 3),
                    (FsyncDirectory, 1),
                    (Pwrite, 5),
                    (Unlinkat, 1),
                    (Openat, 1),
                    (Close, 2),
                ],
            )
        }],
    },
    Case {
        flow: "sqlite-wal",
        set: &["workloads.files.database.size=1M"],
        roles: &[Expected {
            iterations: 1,
            begin: &[(Openat, 2)],
            // Two writes for each frame, and the checkpoint.
            ..of(Role::Client, &[(Pread, 1000), (Fdatasync, 252), (Pwrite, 3000)])
        }],
    },
    Case {
        flow: "git-checkout",
        set: &[
            "workloads.files.tree.count=1000",
            "workloads.files.index.size=64k",
            "workloads.files.lock.size=64k",
        ],
        roles: &[Expected {
            iterations: 3,
            ..of(Role::Client, &[(Statx, 1000), (Unlinkat, 100), (Create, 101), (Close, 101), (Renameat, 1)])
        }],
    },
    Case {
        flow: "build",
        set: &[
            "workloads.files.headers.count=200",
            "workloads.files.objects.count=40",
            "workloads.files.sources.count=40",
        ],
        roles: &[of(Role::Client, &[(Statx, 60), (Openat, 31), (Create, 1), (Close, 32), (Renameat, 1)])],
    },
    Case {
        flow: "vm-image",
        set: &["workloads.files.images.size=1M", "workloads.roles.client.begin.0.direct=false"],
        roles: &[Expected {
            begin: &[(Openat, 1)],
            ..of(Role::Client, &[(Pread, 7), (Pwrite, 3), (Fdatasync, 1)])
        }],
    },
    Case {
        flow: "backup",
        set: &["workloads.files.tree.count=600"],
        roles: &[
            of(Role::Client, &[(Openat, 9), (Create, 1), (Fsync, 1), (Close, 10), (Unlinkat, 1)]),
            of(Role::Scanner, &[(Statx, 12)]),
        ],
    },
    Case {
        flow: "desktop-prompt",
        set: &["workloads.files.bulk.size=2M", "workloads.roles.client.steps.2.think=1ms"],
        roles: &[
            Expected { begin: &[(Openat, 1)], ..of(Role::Client, &[(Pwrite, 1), (Fsync, 1)]) },
            of(Role::Writer, &[(Create, 1), (Write, 2), (Close, 1), (Unlinkat, 1)]),
        ],
    },
];

fn flow(name: &str, set: &[&str]) -> Flow {
    let shipped = FLOWS.iter().find(|flow| flow.name == name).expect("a flow");
    let set: Vec<String> = set.iter().map(|set| (*set).to_string()).collect();
    let plan = Plan::parse(shipped.text, &format!("{name}.toml"), &set).expect(name);
    match plan.workloads.into_iter().next() {
        Some(Workload::Flow(flow)) => flow,
        other => panic!("{name}: {other:?}"),
    }
}

fn perform(flow: &Flow, seed: u64, iterations: &(dyn Fn(&FlowRole) -> u64 + Sync)) -> Vec<FlowPerformed> {
    let directory = in_memory();
    let ready = ReadyFlow::prepare(flow, directory.path(), seed).expect("its files");
    ready.perform(iterations).expect("its iterations").0
}

#[test]
fn every_flow_performs_exactly_what_its_definition_says() {
    let shipped: Vec<&str> = FLOWS.iter().map(|flow| flow.name).collect();
    let mut covered: Vec<&str> = CASES.iter().map(|case| case.flow).collect();
    let mut all = shipped.clone();
    all.sort_unstable();
    covered.sort_unstable();
    assert_eq!(all, covered, "a flow that no test covers");
    for Case { flow: name, set, roles } in CASES {
        let flow = flow(name, set);
        let of_role = |role: &FlowRole| roles.iter().find(|one| one.role == role.role);
        let performed = perform(&flow, 42, &|role| of_role(role).map_or(0, |one| one.iterations));
        assert_eq!(performed.len(), roles.len(), "{name}");
        for (role, counts) in performed {
            let of = flow.roles.0.iter().find(|one| one.role == role).expect("its role");
            let workers = u64::from(of.workers);
            let counts: BTreeMap<Operation, u64> = counts.into_iter().collect();
            let Expected { iterations, begin, each, .. } = of_role(of).expect("it is expected");
            for (operation, count) in *each {
                let once = begin.iter().find(|(one, _)| one == operation).map_or(0, |(_, count)| *count);
                let expected = workers * (once + iterations * count);
                assert_eq!(counts[operation], expected, "{name}: {operation} of {role}");
            }
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let of_seed = |seed| {
        let directory = in_memory();
        let flow = flow("maildir", &["workloads.files.cur.count=200", "workloads.roles.client.workers=2"]);
        let ready = ReadyFlow::prepare(&flow, directory.path(), seed).expect("its files");
        let counts = ready.perform(&|_| 50).expect("its iterations").0;
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for set in ["cur", "new", "tmp"] {
            for entry in std::fs::read_dir(directory.path().join(set)).expect("a directory").flatten() {
                let name = format!("{set}/{}", entry.file_name().to_string_lossy());
                files.push((name, std::fs::read(entry.path()).expect("a file")));
            }
        }
        files.sort();
        (counts, files)
    };
    let first = of_seed(1);
    assert!(first == of_seed(1), "two runs of one seed differ");
    assert!(first.1 != of_seed(2).1, "two seeds leave the same files");
}

/// Workers of every flow come in any order, and end anywhere; nothing that they read, nor what they have
/// left, is taken for wrong.
#[test]
fn every_flow_passes_its_verification() {
    for Case { flow: name, set, .. } in CASES {
        let short = ["workloads.verify=true", "workloads.ramp=50ms", "workloads.window=400ms"];
        let flow = flow(name, &[*set, &short].concat());
        let directory = in_memory();
        let new = EngineRequest::new(directory.path(), Workload::Flow(flow.clone()), 42);
        let mut events = Vec::new();
        let request = EngineRequest { reread: Reread::AtEnd, clean_up: true, ..new };
        let ended = fsdyno_engine::run(&request, &AtomicBool::new(false), &mut |event| events.push(event));
        assert!(ended.is_ok(), "{name}: {ended:?}");
        let read = events.iter().find_map(|event| match event {
            EngineEvent::ReadAgain { read_again, .. } => Some(*read_again),
            _ => None,
        });
        let read = read.unwrap_or_else(|| panic!("{name}: nothing was read again"));
        assert!(read.files > 0 && read.left_out == 0, "{name}: {read:?}");
        assert!(read.bytes >= flow.prepares().0 / 4, "{name}: {read:?} of {}", flow.prepares());
    }
}

/// Names that exist when a flow ends are those that it has to have: as many as at the beginning.
#[test]
fn a_flow_leaves_as_many_files_as_it_found() {
    let flow =
        flow("metadata", &["workloads.files.entries.count=400", "workloads.files.elsewhere.count=400"]);
    let directory = in_memory();
    let ready = ReadyFlow::prepare(&flow, directory.path(), 7).expect("its files");
    ready.perform(&|_| 500).expect("its iterations");
    for (set, expected) in [("entries", 200), ("elsewhere", 200), ("links", 0)] {
        let left = std::fs::read_dir(directory.path().join(set)).expect("a directory").count();
        assert_eq!(left, expected, "{set}");
    }
}
