//! Imports between our crates go one way, and `unsafe` stays in one of them.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeSet;

/// What each crate may import of ours. The engine never learns how the filesystem was made; the testbed never learns
/// what is timed.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("stats", &[]),
    ("sys", &[]),
    ("host", &["core", "sys"]),
    ("formats", &["core", "stats"]),
    ("engine", &["core", "formats", "sys"]),
    ("telemetry", &["core"]),
    ("guest", &["core", "host", "sys"]),
    ("testbed", &["core", "sys", "host"]),
    ("store", &["core", "stats"]),
    ("sweep", &["core", "host", "testbed", "store", "stats"]),
    ("report", &["core", "formats", "stats", "store"]),
    ("import", &["core", "formats", "stats"]),
    // For development only: no crate of the product imports it.
    ("fuzz", &["core", "guest", "host", "import", "report", "store", "sweep", "testbed"]),
    (
        "fsdyno",
        &[
            "core",
            "stats",
            "sys",
            "host",
            "engine",
            "telemetry",
            "testbed",
            "guest",
            "store",
            "sweep",
            "report",
            "import",
        ],
    ),
];

#[test]
fn imports_go_one_way() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let short = |name: &str| name.strip_prefix("fsdyno-").unwrap_or(name).to_string();
    let ours: BTreeSet<String> = metadata.packages.iter().map(|package| short(&package.name)).collect();
    let declared: BTreeSet<String> = ALLOWED.iter().map(|(name, _)| (*name).to_string()).collect();
    assert_eq!(ours, declared, "the table of crates is out of date");

    for package in &metadata.packages {
        let name = short(&package.name);
        let (_, allowed) = ALLOWED.iter().find(|(known, _)| *known == name).expect("declared above");
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            let imported = short(&dependency.name);
            if ours.contains(&imported) {
                assert!(allowed.contains(&imported.as_str()), "{name} must not import {imported}");
            }
        }
    }
}

#[test]
fn only_sys_allows_unsafe_code() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let mut pending = vec![crates.to_path_buf()];
    let needles = [concat!("allow(unsafe", "_code)"), concat!("expect(unsafe", "_code)")];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("a readable directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.starts_with(crates.join("sys"))
            {
                let text = std::fs::read_to_string(&path).expect("a readable file");
                assert!(
                    needles.iter().all(|needle| !text.contains(needle)),
                    "{} allows unsafe code",
                    path.display()
                );
            }
        }
    }
}
