//! `fsdyno agent` (hidden): the process that carries out the steps of the testbed, and that can be abandoned.

use super::Result;
use anyhow::Context;
use fsdyno_host::agent::serve;
use fsdyno_host::local::LocalHost;

pub fn run() -> Result {
    let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
    let code = serve(std::io::stdin().lock(), std::io::stdout().lock(), LocalHost::new(binary, Vec::new()));
    std::process::exit(code)
}
