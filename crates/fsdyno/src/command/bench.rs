//! `fsdyno bench DIR`: a first answer about a directory as it is.

use super::carry_out::status;
use super::sweep::{PlanRuns, Shown};
use super::trouble;
use super::{Result, Surroundings};
use crate::cli::{Bench, Elsewhere};
use crate::exit::{Status, Trouble};
use fsdyno_sweep::{BENCH_MEMORY, BenchError, BenchOptions, bench_plan};
use fsdyno_testbed::Confirmation;
use rustix::process::geteuid;

pub fn run(surroundings: &Surroundings, options: &Bench) -> Result {
    // How much the workers of a flow need is known to whoever wrote it.
    let is_limited = geteuid().is_root() && options.flow.is_none();
    let settings = BenchOptions {
        flow: options.flow.clone(),
        tree_size: options.tree_size,
        ramp: options.ramp,
        window: options.window,
        memory: options.memory.or(is_limited.then_some(BENCH_MEMORY)),
        set: options.set.clone(),
        clients: options.clients,
    };
    let plan =
        bench_plan(&mut surroundings.host()?, &options.directory, &settings).map_err(
            |error| match error {
                BenchError::Plan(error) => trouble::of_plan(error),
                error @ BenchError::NoRoom { .. } => Trouble::new(Status::Usage, error).hint(
                    "free some space, name another directory, or set --tree-size and --set writer_space=SIZE",
                ),
                other => Trouble::new(Status::Usage, other),
            },
        )?;
    // A directory is used, never destroyed: there is nothing to confirm.
    let course = PlanRuns {
        surroundings,
        confirmation: &Confirmation::default(),
        elsewhere: Elsewhere::of(&options.launching, None),
        shown: Shown { format: options.format, screen: false },
    };
    Ok(status(&course.run(&plan, None)?))
}
