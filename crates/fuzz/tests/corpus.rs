//! Runs each target on every input that fuzzing has found worth keeping, and on every real one.

use fsdyno_fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum size of all corpora in bytes; more does not belong in a repository.
const MOST: u64 = 300_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpora() -> PathBuf {
    root().join("fuzz/corpus")
}

/// Every file of a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().filter(|path| path.is_file()).collect()
}

/// Runs a target on its corpus.
fn replay(name: &str) {
    let target = fsdyno_fuzz::find(name).expect("a target");
    let corpus = files(&corpora().join(name));
    assert!(!corpus.is_empty(), "{name} has a corpus");
    let seeds = target.seeds.iter().flat_map(|seed| files(&root().join(seed)));
    for file in corpus.into_iter().chain(seeds) {
        // The last line says which input caused a failure.
        eprintln!("{}", file.display());
        (target.run)(&fs::read(&file).expect("a readable file"));
    }
}

/// A test for each target, so that they run in parallel and each failure has a name.
macro_rules! replays {
    ($($test:ident = $name:literal;)*) => {
        $(#[test]
        fn $test() {
            replay($name);
        })*

        const REPLAYED: &[&str] = &[$($name),*];
    };
}

replays! {
    no_plan_breaks_anything = "plan";
    no_table_of_fsopbench_breaks_anything = "fsopbench";
    no_model_of_a_disk_breaks_anything = "disk-model";
    no_result_of_fio_breaks_anything = "fio";
    no_line_of_bonnie_breaks_anything = "bonnie-csv";
    no_report_breaks_anything = "reports";
    no_table_breaks_anything = "table";
    no_engine_breaks_anything = "engine-lines";
    no_guest_breaks_anything = "guest-lines";
    no_journal_breaks_anything = "journal";
    no_stored_trial_breaks_anything = "stored";
}

#[test]
fn each_target_is_replayed_and_each_corpus_has_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    let replayed: BTreeSet<String> = REPLAYED.iter().map(|name| (*name).to_string()).collect();
    assert_eq!(replayed, targets);
    let directories =
        fs::read_dir(corpora()).expect("the corpora").map(|entry| entry.expect("an entry").file_name());
    let directories: BTreeSet<String> = directories.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(directories, targets);
}

#[test]
fn corpora_stay_small() {
    let sizes = TARGETS.iter().flat_map(|target| files(&corpora().join(target.name)));
    let bytes: u64 = sizes.map(|file| fs::metadata(&file).expect("a file").len()).sum();
    assert!(bytes <= MOST, "{bytes} bytes; run scripts/fuzz minimise");
}
