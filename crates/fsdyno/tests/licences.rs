//! Every dependency has a licence that `deny.toml` allows, and comes from crates.io.

use cargo_metadata::MetadataCommand;
use spdx::{Expression, ParseMode};
use std::path::Path;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_dependency_may_be_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let deny = std::fs::read_to_string(root.join("deny.toml")).expect("deny.toml");
    let deny: toml::Table = deny.parse().expect("TOML");
    let allowed: Vec<&str> = deny["licenses"]["allow"]
        .as_array()
        .expect("a list of licences")
        .iter()
        .map(|licence| licence.as_str().expect("a licence"))
        .collect();
    let metadata = MetadataCommand::new().exec().expect("cargo metadata");
    let mut refused = Vec::new();
    for package in metadata.packages.iter().filter(|package| package.source.is_some()) {
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        if source != Some(CRATES_IO) {
            refused.push(format!("{} comes from {source:?}", package.name));
        }
        let text = package.license.as_deref().unwrap_or_default();
        // Some packages join licences by a slash still.
        match Expression::parse_mode(text, ParseMode::LAX) {
            Ok(licence) if licence.evaluate(|one| allowed.contains(&one.to_string().as_str())) => {}
            _ => refused.push(format!("{} has the licence '{text}'", package.name)),
        }
    }
    assert!(refused.is_empty(), "not allowed by deny.toml:\n{}", refused.join("\n"));
}
