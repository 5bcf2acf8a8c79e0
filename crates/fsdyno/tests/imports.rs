//! Imports between our crates go one way, and `unsafe` stays in one of them.

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::BTreeSet;
use std::path::Path;

/// Which of our crates a crate imports: in the product, and additionally in its tests and benchmarks.
struct Imports {
    of: &'static str,
    product: &'static [&'static str],
    tests: &'static [&'static str],
}

const fn imports(of: &'static str, product: &'static [&'static str]) -> Imports {
    Imports { of, product, tests: &[] }
}

/// Every edge, from the bottom up. The engine does not know how the filesystem was created; the testbed does
/// not know what is timed; the crates that judge and render do not know where trials are stored.
const IMPORTS: &[Imports] = &[
    imports("core", &[]),
    imports("path", &[]),
    imports("stats", &[]),
    imports("sys", &[]),
    Imports { of: "formats", product: &["core", "stats"], tests: &["testkit"] },
    Imports { of: "host", product: &["core", "path", "sys"], tests: &["testkit"] },
    imports("disk", &["core"]),
    imports("recorder", &["core", "disk", "sys"]),
    // The tests enable features that only benchmarks of `sys` need.
    Imports { of: "engine", product: &["core", "formats", "sys"], tests: &["sys", "testkit"] },
    imports("telemetry", &["core"]),
    Imports { of: "testbed", product: &["core", "disk", "host"], tests: &["testkit"] },
    imports("guest", &["core", "host", "sys"]),
    Imports { of: "clients", product: &["core", "host", "path", "stats", "sys"], tests: &["testkit"] },
    imports("store", &["core", "path", "stats", "sys"]),
    Imports { of: "verdict", product: &["core", "stats"], tests: &["testkit"] },
    Imports {
        of: "sweep",
        product: &["clients", "core", "disk", "host", "path", "testbed", "store", "verdict"],
        tests: &["testkit"],
    },
    Imports { of: "report", product: &["core", "verdict", "formats"], tests: &["testkit"] },
    Imports { of: "watch", product: &["core", "report", "verdict"], tests: &["testkit"] },
    imports("witness", &["core", "sys"]),
    Imports {
        of: "fsdyno",
        product: &[
            "clients",
            "core",
            "disk",
            "engine",
            "formats",
            "guest",
            "host",
            "path",
            "recorder",
            "report",
            "store",
            "sweep",
            "sys",
            "telemetry",
            "testbed",
            "verdict",
            "watch",
            "witness",
        ],
        tests: &["stats", "testkit"],
    },
    // For development only; no crate of the product imports them.
    imports("testkit", &["core", "host", "stats", "sys"]),
    imports(
        "fuzz",
        &["core", "disk", "formats", "host", "report", "store", "sweep", "testbed", "testkit", "verdict"],
    ),
];

fn metadata() -> Metadata {
    MetadataCommand::new().no_deps().exec().expect("cargo metadata")
}

fn short(name: &str) -> &str {
    name.strip_prefix("fsdyno-").unwrap_or(name)
}

/// Which of our crates a crate declares as dependencies of the requested kinds.
fn declared<'p>(
    package: &'p Package,
    ours: &BTreeSet<&str>,
    kinds: impl Fn(&Dependency) -> bool,
) -> BTreeSet<&'p str> {
    let wanted = package.dependencies.iter().filter(|one| kinds(one));
    wanted.map(|one| short(&one.name)).filter(|name| ours.contains(name)).collect()
}

#[test]
fn imports_are_those_of_the_table() {
    let metadata = metadata();
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| short(&package.name)).collect();
    let in_table: BTreeSet<&str> = IMPORTS.iter().map(|one| one.of).collect();
    assert_eq!(ours, in_table, "the table of crates is out of date");
    for package in &metadata.packages {
        let name = short(&package.name);
        let Imports { product, tests, .. } = IMPORTS.iter().find(|one| one.of == name).expect("as above");
        let known = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<&str>>();
        let of_product = declared(package, &ours, |one| one.kind != DependencyKind::Development);
        assert_eq!(of_product, known(product), "what {name} imports");
        let of_tests = declared(package, &ours, |one| one.kind == DependencyKind::Development);
        assert_eq!(of_tests, known(tests), "what the tests of {name} import");
    }
}

/// A crate imports only crates above it in the table, so no two import each other.
#[test]
fn imports_go_one_way() {
    for (index, one) in IMPORTS.iter().enumerate() {
        for imported in one.product {
            let below = IMPORTS[..index].iter().any(|other| other.of == *imported);
            assert!(below, "{} imports {imported}, which is not above it in the table", one.of);
        }
    }
}

/// An unused declaration would let an edge come back unnoticed.
#[test]
fn every_import_is_used() {
    for package in &metadata().packages {
        let root = package.manifest_path.parent().expect("a directory").as_std_path();
        let Imports { of, product, tests } =
            IMPORTS.iter().find(|one| one.of == short(&package.name)).expect("a crate of the table");
        let named = |folders: &[&str], imported: &str| {
            let needle = format!("fsdyno_{imported}");
            folders.iter().any(|folder| sources(&root.join(folder)).iter().any(|text| text.contains(&needle)))
        };
        for imported in *product {
            assert!(named(&["src"], imported), "{of} does not use {imported}");
        }
        for imported in *tests {
            assert!(named(&["src", "tests", "benches"], imported), "the tests of {of} do not use {imported}");
        }
    }
}

/// The texts of all source files below a directory; none if it does not exist.
fn sources(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let texts = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path if path.extension().is_some_and(|extension| extension == "rs") => {
            vec![std::fs::read_to_string(&path).expect("a readable file")]
        }
        _ => Vec::new(),
    });
    texts.collect()
}

#[test]
fn only_sys_allows_unsafe_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
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
