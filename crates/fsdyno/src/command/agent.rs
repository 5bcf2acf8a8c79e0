//! `fsdyno agent` (hidden): the process that carries out the steps of the testbed, and that can be abandoned;
//! or, with `--join`, the agent of a client or of a member of a fleet, which a launcher has started.

use super::{Result, Surroundings, image_shape, trouble};
use crate::cli::Agent;
use crate::exit::{Status, Trouble};
use crate::file;
use crate::interrupt::Interrupt;
use crate::lock::SweepLock;
use crate::state::State;
use anyhow::{Context, anyhow};
use fsdyno_clients::agent::{Membership, MemoryLimiter};
use fsdyno_clients::{TOKEN, Token};
use fsdyno_core::Bytes;
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_host::agent::serve;
use fsdyno_host::local::LocalHost;
use fsdyno_sweep::{Asked, FleetMember, Machines, RunOptions};
use fsdyno_testbed::{UndoJournal, memory};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn run(options: &Agent) -> Result {
    let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
    if options.join.is_empty() {
        let host = LocalHost::new(binary, Vec::new());
        std::process::exit(serve(io::stdin().lock(), io::stdout().lock(), host));
    }
    if options.supervised { join(options, &binary) } else { supervise(&binary) }
}

/// Runs the agent as a child, and exits well whatever becomes of it: to a launcher, one process that fails is
/// a reason to kill all others (Open MPI, MPICH).
fn supervise(binary: &Path) -> Result {
    let mut command = Command::new(binary);
    command.args(std::env::args_os().skip(1)).arg("--supervised");
    // A launcher that kills this process group leaves the agent, which notices that its stdin ends, the time
    // to clean up.
    command.process_group(0).stdin(Stdio::piped());
    let status = command.spawn().and_then(|mut agent| {
        let stdin = agent.stdin.take();
        let status = agent.wait();
        drop(stdin);
        status
    });
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("fsdyno agent: {status}"),
        Err(error) => eprintln!("fsdyno agent: cannot start '{}': {error}", binary.display()),
    }
    Ok(Status::Well)
}

fn join(options: &Agent, binary: &Path) -> Result {
    let token = token(options.token_file.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let stop = Arc::clone(&interrupt.stop);
    std::thread::spawn(move || {
        // Nothing is ever sent: it ends with the supervisor.
        let _ = io::stdin().read(&mut [0]);
        stop.store(true, Ordering::Relaxed);
    });
    let mut memory = Memory { host: LocalHost::new(binary.to_path_buf(), Vec::new()), journal: None };
    let mut member = |order: &str, coordinator: &Membership<'_>| {
        let Some(member) = FleetMember::new(order, coordinator) else { return };
        if let Err(trouble) = be_member(&member, &interrupt) {
            member.refuse(trouble.text());
        }
    };
    let binary = binary.to_path_buf();
    let flags = [&interrupt.stop, &interrupt.hurry];
    fsdyno_clients::agent::serve(&options.join, &token, binary, &mut memory, &mut member, flags)
        .map_err(|error| Trouble::new(Status::Usage, error))?;
    Ok(Status::Well)
}

/// Runs trials of a fleet's sweep on this machine, like a sweep of its own.
fn be_member(member: &FleetMember<'_>, interrupt: &Interrupt) -> std::result::Result<(), Trouble> {
    let state = State::find(None)?;
    let here = Surroundings::of_agent(state);
    let _lock = SweepLock::take_for_other(&here.state, &member.plan().name)?;
    let directory = here.state.directory();
    let options = RunOptions {
        state_dir: &here.state.undo(),
        keep: &[],
        confirmation: member.confirmation(),
        known: &image_shape::warnings(directory, member.plan()),
        interrupt: &interrupt.stop,
        hurry: &interrupt.hurry,
        asked: &Asked::default(),
        resume: None,
        more: None,
    };
    let mut host = here.host()?.hurried_by(Arc::clone(&interrupt.hurry));
    let mut guests = here.guests()?.hurried_by(Arc::clone(&interrupt.hurry));
    let mut machines = Machines { host: &mut host, guests: &mut guests };
    member.run(&mut machines, &options, directory).map_err(trouble::of_sweep)
}

/// Memory cgroups for engines on this machine. They are in an undo journal like everything else, so that
/// `restore` removes the group of an agent that was killed.
struct Memory {
    host: LocalHost,
    journal: Option<UndoJournal>,
}

impl Memory {
    fn group(&mut self, limit: Bytes) -> anyhow::Result<MemoryGroup> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            None => {
                let state = State::find(None).map_err(Trouble::into_error)?;
                state.make().map_err(Trouble::into_error)?;
                self.journal.insert(UndoJournal::create(&mut self.host, &state.undo())?)
            }
        };
        let group = memory::group_of(&mut self.host, journal, limit)?;
        Ok(group)
    }
}

impl MemoryLimiter for Memory {
    fn limit(&mut self, limit: Bytes) -> std::result::Result<MemoryGroup, String> {
        self.group(limit).map_err(|error| format!("{error:#}"))
    }

    fn release(&mut self) {
        if let Some(journal) = &mut self.journal {
            for left in journal.undo_all(&mut self.host).left {
                eprintln!("fsdyno agent: left behind: {left}");
            }
        }
    }
}

fn token(file: Option<&Path>) -> std::result::Result<Token, Trouble> {
    let text = match file {
        Some(path) => file::open(path)
            .and_then(io::read_to_string)
            .with_context(|| format!("cannot read the token from '{}'", path.display()))?,
        None => std::env::var(TOKEN).map_err(|_| {
            Trouble::new(Status::Usage, anyhow!("the launcher did not pass on the variable '{TOKEN}'"))
                .hint("name a file on all machines with --token-file FILE")
        })?,
    };
    Token::parse(&text).ok_or_else(|| Trouble::new(Status::Usage, anyhow!("the token is not one of fsdyno")))
}
