//! sqlite3: its script. It prints everything at its end, so it announces no parts.

use super::cut::Stream;
use super::process::Invocation;
use fsdyno_core::workload::external::sqlite::Arguments;

/// Returns the invocation of sqlite3. The script comes from standard input, because a file would be on the
/// filesystem under test.
pub(super) fn invocation(options: &Arguments, seed: u64) -> Invocation {
    let arguments = ["-batch", "-init", "/dev/null", "speed.db"].map(str::to_string).to_vec();
    let input = options.script(seed);
    let program = "sqlite3";
    Invocation { program, executable: program, arguments, input, parts: &[], stream: Stream::Stdout }
}
