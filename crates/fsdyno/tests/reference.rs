//! docs/reference says what the program says. To write it anew: `fsdyno reference docs/reference`.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_reference_is_up_to_date() {
    let fresh = tempfile::tempdir().expect("a directory");
    let status = Command::new(env!("CARGO_BIN_EXE_fsdyno"))
        .arg("reference")
        .arg(fresh.path())
        .env("XDG_STATE_HOME", fresh.path())
        .status()
        .expect("run fsdyno");
    assert!(status.success());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for entry in fs::read_dir(fresh.path()).expect("the pages").flatten() {
        let name = entry.file_name();
        let text = fs::read_to_string(kept.join(&name)).unwrap_or_default();
        let page = fs::read_to_string(entry.path()).expect("a page");
        assert!(text == page, "{name:?} is stale: run `fsdyno reference docs/reference`");
    }
}
