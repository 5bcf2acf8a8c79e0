//! Where runs of benchmarks are kept: by date, kernel and machine.

use std::path::{Path, PathBuf};

/// Keeps the text of a run under this name, and returns its path.
pub fn keep(name: &str, text: &str) -> std::io::Result<PathBuf> {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_string());
    let date = jiff::Zoned::now().strftime("%F").to_string();
    let run =
        format!("{date}-{}-{}", read("/proc/sys/kernel/osrelease")?, read("/proc/sys/kernel/hostname")?);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/runs").join(run);
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(name);
    std::fs::write(&path, text)?;
    path.canonicalize()
}
