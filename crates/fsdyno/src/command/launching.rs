//! Machines for a plan, from the command that the user gives.

use crate::cli::Elsewhere;
use crate::exit::{Status, Trouble};
use anyhow::{Context, anyhow};
use fsdyno_clients::{ClientPool, Launch, LaunchError, launch};
use fsdyno_core::Nanos;
use fsdyno_sweep::Plan;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text::{plural, time_in_words};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The number of clients that are named when they have joined.
const NAMED: usize = 8;

/// Starts the machines that a plan wants; none without a launcher. `tell` shows a line to the user.
pub fn launched(
    plan: &Plan,
    elsewhere: Elsewhere<'_>,
    interrupt: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<Option<ClientPool>, Trouble> {
    let (options, count, what) = match elsewhere {
        Elsewhere::Nowhere => return Ok(None),
        Elsewhere::Clients(options) => (options, clients(plan)?, "client"),
        Elsewhere::Fleet(options, count) => {
            let planned = fleet(plan)?;
            (options, count.unwrap_or(planned), "machine")
        }
    };
    let Some(command) = &options.launch else { return Ok(None) };
    let (listen, port) = options.listen.map_or((None, 0), |(address, port)| (Some(address), port));
    let token_file = options.token_file.as_deref().map(std::path::absolute).transpose();
    let wanted = Launch {
        command: command.clone(),
        count,
        listen,
        port,
        token_file: token_file.context("cannot find the current directory")?,
        binary: std::env::current_exe().context("cannot find fsdyno's own binary")?,
    };
    tell(&format!("waiting for {}", plural(count.into(), what)));
    let begun = Instant::now();
    let pool = launch(&wanted, interrupt).map_err(trouble)?;
    tell(&joined(&pool.names(), what, begun.elapsed().into()));
    Ok(Some(pool))
}

/// Returns the number of clients that the plan wants from a launcher.
fn clients(plan: &Plan) -> Result<u32, Trouble> {
    if plan.serve.is_some() {
        let error = anyhow!("--launch starts clients, and those of [serve] are guests");
        return Err(Trouble::new(Status::Usage, error).hint("leave out --launch"));
    }
    plan.clients.ok_or_else(|| {
        let error = anyhow!("--launch starts clients, and the plan has none");
        Trouble::new(Status::Usage, error).hint("say how many: [clients] in the plan, --clients with bench")
    })
}

/// Returns the number of machines that share the trials of the plan.
fn fleet(plan: &Plan) -> Result<u32, Trouble> {
    plan.fleet.as_ref().map(|fleet| fleet.count).ok_or_else(|| {
        let error = anyhow!("--fleet shares trials among machines, and the plan has none");
        Trouble::new(Status::Usage, error).hint("say how many: [fleet] with `count` in the plan")
    })
}

/// `3 clients joined in 204 ms: x1, x2, x3`; of many, the first few.
fn joined(names: &[String], what: &str, took: Nanos) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED { ", ..." } else { "" };
    let took = time_in_words(Time { ns: took.0, at_least: false });
    format!("{} joined in {took}: {shown}{more}", plural(names.len() as u64, what))
}

fn trouble(error: LaunchError) -> Trouble {
    let hint = match &error {
        LaunchError::Command(_) => "write it as in a shell: --launch 'srun -N3 --ntasks-per-node=1'",
        LaunchError::Listen { .. } => "name an address of this machine, or another port, with --listen",
        LaunchError::Token { .. } => {
            "name a file that does not exist, in a directory that all machines share"
        }
        LaunchError::Run { .. } => "install the launcher, or give its path",
        LaunchError::Missing { .. } => {
            "try the launcher with hostname in place of fsdyno; its machines must reach this one (--listen), \
             have fsdyno under the same path, and get its environment, or a --token-file"
        }
        LaunchError::Interrupted => return Trouble::new(Status::Interrupted, error),
        LaunchError::System(_) => return Trouble::new(Status::Usage, error),
    };
    let said = match &error {
        LaunchError::Missing { output, .. } if !output.is_empty() => {
            format!("{error}\nwhat the launcher and its agents said:\n{}", indented(output))
        }
        _ => return Trouble::new(Status::Usage, error).hint(hint),
    };
    Trouble::new(Status::Usage, anyhow!(said)).hint(hint)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
