//! fio: its job file on standard input, and its `json+` on standard output.

use super::cut::Stream;
use super::process::Invocation;
use fsdyno_core::workload::JobFile;

/// Returns the invocation of fio. Files without a directory go into the working directory.
pub(super) fn invocation(job: Option<&JobFile>) -> Invocation {
    Invocation {
        program: "fio",
        executable: "fio",
        arguments: ["--output-format=json+", "-"].map(String::from).to_vec(),
        input: job.map(|job| job.text.clone()).unwrap_or_default(),
        parts: &[],
        stream: Stream::Stderr,
    }
}
