//! The clients that a plan wants: all of them, from the first trial to the last.

use crate::plan::Plan;
use crate::sweep_error::SweepError;
use fsdyno_host::Host;

/// Refuses a plan for another number of clients.
pub(super) fn verify_number(plan: &Plan, host: &dyn Host) -> Result<(), SweepError> {
    // Those of a server are guests, made for each trial.
    let launched = plan.clients.filter(|_| plan.serve.is_none());
    let (planned, clients) = (launched.unwrap_or(0), host.clients().len());
    match planned as usize == clients {
        true => Ok(()),
        false => Err(SweepError::Clients { planned, clients }),
    }
}

/// Ends the sweep once one is lost: without it, nothing that follows could be measured.
pub(super) fn verify_all_there(host: &dyn Host) -> Result<(), SweepError> {
    host.lost_client().map_or(Ok(()), |reason| Err(SweepError::ClientLost { reason }))
}
