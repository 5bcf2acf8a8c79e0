//! No two modules of a crate depend on each other, directly or through others: to understand a file, a reader
//! needs only those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules directly below the root of a crate, each with those that it names as `crate::NAME`.
fn modules(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![src.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let below = path.strip_prefix(src).expect("a file below");
            let first = below.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
            let (name, is_test) = (first.trim_end_matches(".rs").to_string(), below.ends_with("tests.rs"));
            if path.extension().is_some_and(|extension| extension == "rs")
                && !["lib", "main"].contains(&name.as_str())
                && !is_test
            {
                let named = named(&fs::read_to_string(&path).expect("a file"));
                modules.entry(name).or_default().extend(named);
            }
        }
    }
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    for (name, named) in &mut modules {
        named.retain(|other| other != name && known.contains(other));
    }
    modules
}

/// What follows `crate::` outside of comments and of the unit tests at the end.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let paths = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        None => vec![word(rest)],
        Some(list) => {
            let list = list.split("};").next().unwrap_or_default();
            list.split(',').map(|part| word(part.trim())).collect()
        }
    });
    paths.collect()
}

/// What is left when modules are taken away that depend on none of the rest.
fn circle(mut modules: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let free: Vec<String> =
            modules.iter().filter(|(_, named)| named.is_empty()).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            return modules;
        }
        modules.retain(|name, _| !free.contains(name));
        for named in modules.values_mut() {
            named.retain(|name| !free.contains(name));
        }
    }
}

#[test]
fn no_modules_depend_on_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        let circle = circle(modules(&entry.path().join("src")));
        if !circle.is_empty() {
            found.push(format!("{}: {circle:?}", entry.file_name().to_string_lossy()));
        }
    }
    assert!(found.is_empty(), "modules that depend on each other:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let of = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
    let modules = [("a", of(&["b"])), ("b", of(&["c"])), ("c", of(&["a"])), ("d", of(&[]))];
    let left = circle(modules.map(|(name, named)| (name.to_string(), named)).into());
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(named("use crate::{one, two::Three};\nlet x = crate::four();"), of(&["one", "two", "four"]));
}
