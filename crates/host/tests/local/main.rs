//! `LocalHost` and `AgentHost` on the real machine: loop devices, mounts, devices in use, hanging steps.
//!
//! Each test declares what it requires; what is missing is printed, and the test counts as ignored. Tests run
//! one after the other and leave no loop device and no mount of theirs behind, which the harness checks. The
//! test program serves as its own agent and engine, as the fsdyno binary does.

#![expect(clippy::unwrap_used, reason = "tests with a harness of their own are tests still")]
#![allow(clippy::print_stdout, reason = "the part of the engine speaks on stdout")]

mod agent;
mod device;
mod engine;
mod images;
mod loops;
mod mount;
mod probe;
mod support;

use fsdyno_host::agent::serve;
use fsdyno_host::local::LocalHost;
use std::process::exit;
use support::Test;

fn main() {
    match std::env::args().nth(1).as_deref().filter(|_| is_child_of_itself()) {
        Some("agent") => {
            let host = LocalHost::new(support::binary(), Vec::new());
            exit(serve(std::io::stdin().lock(), std::io::stdout().lock(), host));
        }
        Some("engine") => engine::serve(),
        Some("victim") => agent::be_killed(),
        _ => {
            let tests: Vec<Test> = [
                loops::TESTS,
                images::TESTS,
                mount::TESTS,
                device::TESTS,
                probe::TESTS,
                agent::TESTS,
                engine::TESTS,
            ]
            .concat();
            support::run(tests);
        }
    }
}

/// The same words are filters when a person starts the program.
fn is_child_of_itself() -> bool {
    let parent = std::os::unix::process::parent_id();
    std::fs::read_link(format!("/proc/{parent}/exe")).is_ok_and(|parent| parent == support::binary())
}
