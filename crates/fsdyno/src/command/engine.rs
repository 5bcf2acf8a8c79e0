//! `fsdyno engine` (hidden): the engine process. One request on stdin, events on stdout.

use super::Result;

pub fn run() -> Result {
    let code = fsdyno_engine::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    // Not a return: a worker that is stuck in the kernel must not keep the process from ending.
    std::process::exit(code)
}
