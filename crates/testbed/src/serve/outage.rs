//! A server that goes away while clients use it, and comes back.

use super::{STEP, export_of, of, set_link, withdraw};
use crate::Result;
use crate::error::TestbedError;
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::{Configuration, Nanos};
use fsdyno_host::Host;
use fsdyno_host::export::end_of;
use std::path::Path;

/// Takes the server off the network and stops serving, as a machine that shuts down; the filesystem can then
/// be unmounted.
///
/// # Errors
/// [`TestbedError::Host`] or [`TestbedError::Tool`].
pub fn go_away(server: &mut dyn Host, protocol: ServeProtocol, clients: usize) -> Result<()> {
    withdraw(server, protocol)?;
    (0..clients).try_for_each(|client| set_link(server, client, "down"))
}

/// Comes back after [`go_away`], with the filesystem mounted again.
///
/// # Errors
/// [`TestbedError::Host`] or [`TestbedError::Tool`].
pub fn come_back(
    server: &mut dyn Host,
    protocol: ServeProtocol,
    configuration: &Configuration,
    directory: &Path,
    clients: usize,
) -> Result<()> {
    (0..clients).try_for_each(|client| set_link(server, client, "up"))?;
    let export = export_of(protocol, configuration, directory, clients, true);
    server.serve(&export).map_err(TestbedError::at(STEP))
}

/// Returns the time that clients may wait after a server has come back.
pub fn wait_after_outage(protocol: ServeProtocol, configuration: &Configuration) -> Nanos {
    of(protocol).wait_after_outage(configuration)
}

/// Returns the line that says what happens to the server in each phase, for a dry run.
pub fn outage_line(protocol: ServeProtocol, outage: Nanos) -> String {
    format!("in each phase: {}; ip link set down; umount; {outage} later, all of it again", end_of(protocol))
}
