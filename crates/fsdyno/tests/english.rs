//! Text is part of the product. Comments and pages stay at most [`WIDTH`] characters wide, and phrases that have
//! already been replaced by plain English do not come back.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The maximum width of a comment or of a line on a page, in characters.
const WIDTH: usize = 110;

/// Files that no person writes, or that must contain the phrases.
const EXEMPT: &[&str] = &["benches", "crates/fsdyno/tests/english.rs", "docs/reference", "target"];

/// Phrases that readers stumble over, in lower case, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("more than nothing", "greater than zero"),
    ("is no level of", "invalid level 'x' for axis 'y'"),
    ("is none:", "is out of range"),
    ("to its end", "to the end, or 'finish'"),
    ("hangs on", "depends on"),
    ("stands on", "is built on"),
    ("stands beside", "comes with"),
    ("means nothing beside", "does not apply to"),
    ("has no place here", "is not supported"),
    ("to be had", "available"),
    ("nobody set", "unset"),
    ("lacks its", "needs a"),
    ("tells of", "reports"),
    ("for want of", "for lack of"),
    ("made no sense", "was not valid"),
    ("as it stands", "as it is"),
    ("put aside", "moved aside"),
    ("stay in reserve", "are reserved"),
    ("is no file", "is not a file"),
    ("is no text", "is not text"),
    ("is no toml", "is not valid TOML"),
    ("is no utf-8", "is not valid UTF-8"),
    ("how sure", "how certain"),
    ("set back to its", "restored to its"),
];

#[test]
fn comments_and_pages_are_at_most_110_wide() {
    let mut wide = Vec::new();
    for (path, text) in texts() {
        let mut fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            fenced ^= is_page(&path) && line.trim_start().starts_with("```");
            if !fenced && counts(&path, line) && line.chars().count() > WIDTH {
                wide.push(format!("{}:{number}", path.display()));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {WIDTH} characters:\n{}", wide.join("\n"));
}

#[test]
fn no_banned_phrase_comes_back() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        let (joined, lines) = joined(&text);
        for (phrase, instead) in BANNED {
            for (at, _) in joined.match_indices(phrase) {
                let number =
                    lines.iter().find(|(span, _)| span.contains(&at)).map_or(0, |(_, number)| *number);
                found.push(format!("{}:{number}: '{phrase}': write '{instead}'", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "not plain English:\n{}", found.join("\n"));
}

/// A doc comment begins as those of the standard library do: with a noun phrase for a type or a field, with a
/// verb in the third person for a function.
#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for (path, text) in texts().into_iter().filter(|(path, _)| extension(path) == "rs") {
        let mut is_first = true;
        for (number, line) in (1..).zip(text.lines()) {
            let comment = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
            let word = comment.and_then(|comment| comment.split_whitespace().next());
            if is_first && word.is_some_and(|word| ["What", "How", "Whether"].contains(&word)) {
                found.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
            is_first = comment.is_none();
        }
    }
    assert!(found.is_empty(), "begin with the thing or with what the function does:\n{}", found.join("\n"));
}

/// A public type of a library has a name that no other one has, so that a reader of one crate is not misled
/// by another. Every crate may have its `Result`, and each program its `Arguments`.
#[test]
fn public_types_have_names_of_their_own() {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let texts = texts();
    for (path, text) in &texts {
        let path = path.to_string_lossy();
        if !path.contains("/src/") || path.contains("/tests") || path.starts_with("crates/fsdyno/") {
            continue;
        }
        for line in text.lines() {
            let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else { continue };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            places.entry(name).or_default().push(path.to_string());
        }
    }
    let shared =
        |(name, places): &(&&str, &Vec<String>)| places.len() > 1 && !["Result", "Arguments"].contains(name);
    let twice: Vec<String> =
        places.iter().filter(shared).map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert!(places.len() > 300 && twice.is_empty(), "of {} names:\n{}", places.len(), twice.join("\n"));
}

/// Returns whether the width of a line matters: comments, and pages except for tables and addresses.
fn counts(path: &Path, line: &str) -> bool {
    let line = line.trim_start();
    let text = line.trim_start_matches(['/', '!', '#']).trim_start();
    let is_comment = match extension(path) {
        "rs" => line.starts_with("//"),
        "toml" => line.starts_with('#'),
        _ => true,
    };
    is_comment && !text.starts_with('|') && !text.contains("://")
}

/// The text in lower case and in one line, without comment markers and line continuations, so that a phrase
/// is found across line breaks; and where each line of it comes from.
fn joined(text: &str) -> (String, Vec<(Range<usize>, usize)>) {
    let mut joined = String::new();
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim().trim_start_matches(['/', '!', '#']).trim_end_matches('\\').trim();
        if !line.is_empty() {
            let start = joined.len();
            joined.push_str(&line.to_lowercase());
            joined.push(' ');
            lines.push((start..joined.len(), number));
        }
    }
    (joined, lines)
}

/// Every Rust file, page and plan of the repository that is not skipped, relative to its root.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(Path::new(""), &mut found);
    assert!(found.len() > 100, "only {} files", found.len());
    found
}

fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    let entries = fs::read_dir(root().join(directory)).expect("a directory of the repository");
    for entry in entries.flatten() {
        let path = directory.join(entry.file_name());
        let skipped = EXEMPT.iter().any(|place| path == Path::new(place));
        if skipped || entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let is_plan = extension(&path) == "toml" && path.starts_with("plans");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, found);
        } else if extension(&path) == "rs" || is_page(&path) || is_plan {
            let text = fs::read_to_string(root().join(&path)).expect("a text file");
            found.push((path, text));
        }
    }
}

fn is_page(path: &Path) -> bool {
    extension(path) == "md"
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
