//! The text of `fsdyno --version`: the version, and the commit of a release build.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=FSDYNO_COMMIT");
    let built_from = match std::env::var("PROFILE").as_deref() {
        Ok("release") => commit(),
        // The commit would have every commit compile the program and its tests again.
        _ => Some("debug build".to_string()),
    };
    let built_from = built_from.map(|text| format!(" ({text})")).unwrap_or_default();
    println!("cargo::rustc-env=FSDYNO_VERSION={}{built_from}", env!("CARGO_PKG_VERSION"));
}

/// As `FSDYNO_COMMIT` names it, for a build from an archive; else as git does.
fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("FSDYNO_COMMIT") {
        return Some(format!("commit {commit}"));
    }
    // Each commit and each checkout appends to this log (gitrepository-layout(5)).
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    Some(format!("commit {}", git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])?))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
