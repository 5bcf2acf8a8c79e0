//! `fsdyno recorder` (hidden): the process that records a disk, and shows it as it is after power cuts.

use super::Result;

pub fn run() -> Result {
    let code = fsdyno_recorder::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    std::process::exit(code)
}
