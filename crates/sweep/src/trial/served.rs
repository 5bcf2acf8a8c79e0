//! A trial whose filesystem is on a server, and whose load is on clients of it: all of them guests.

use super::Stop;
use super::observed::Observed;
use super::outage::{Outages, Restart};
use super::report::host_failure;
use super::watch::AtPhases;
use crate::guest_request;
use crate::plan::{Case, Plan, Serve};
use fsdyno_clients::Members;
use fsdyno_core::environment::ClientFacts;
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::result::{LogEntry, PhaseResult};
use fsdyno_core::{
    CacheState, Configuration, EngineRequest, Failure, Outcome, Progress, TrialRecord, Warning, WarningKind,
};
use fsdyno_host::guest::{Guest, GuestRequest, Guests, Link, NotStarted, Wanted, cable};
use fsdyno_host::{EngineProcess, Host, HostError};
use fsdyno_testbed::{TestbedError, UndoJournal, memory, serve};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A guest that may be a server, and its clients if it is.
pub(crate) struct Booted {
    pub guest: Box<dyn Guest>,
    pub clients: Vec<Box<dyn Guest>>,
}

/// The clients of a server.
pub(crate) struct ServedClients {
    configuration: Configuration,
    /// The settings with which they see the filesystem.
    serve: Serve,
    clients: Vec<Box<dyn Guest>>,
    members: Arc<Members>,
    facts: Vec<ClientFacts>,
    /// Their memory cgroups, once they have any.
    groups: Vec<MemoryGroup>,
    /// `true` if the server exports its filesystem.
    is_exported: bool,
}

/// Boots the server and its clients, connected to each other; `disks` are those of the server. Clients have
/// the last of them, too, if it `takes_marks`.
pub(crate) fn boot(
    guests: &mut dyn Guests,
    (plan, case): (&Plan, &Case),
    request: &GuestRequest,
    disks: &[OwnedFd],
    takes_marks: bool,
    interrupt: &AtomicBool,
) -> Result<Booted, NotStarted> {
    let Some(mut client) = guest_request::client(plan, case) else {
        return Ok(Booted { guest: guests.start(request, disks, interrupt)?, clients: Vec::new() });
    };
    let shared = if takes_marks { disks.len() - 1 } else { disks.len() };
    client.disks = request.disks[shared..].to_vec();
    let no_cable = |error: io::Error| {
        let reason = format!("cannot connect it with its clients: {error}");
        NotStarted::from(HostError::Lost { host: request.kernel.to_string(), reason })
    };
    let cables = (0..plan.machines()).map(|_| cable()).collect::<io::Result<Vec<_>>>().map_err(no_cable)?;
    let (of_server, of_clients): (Vec<Link>, Vec<Link>) = cables.into_iter().unzip();
    let server = Wanted { request, disks, shares_last: takes_marks, links: &of_server };
    let clients = of_clients.iter().map(|link| Wanted {
        request: &client,
        disks: &disks[shared..],
        shares_last: takes_marks,
        links: std::slice::from_ref(link),
    });
    let wanted: Vec<Wanted<'_>> = std::iter::once(server).chain(clients).collect();
    let mut started = guests.start_all(&wanted, interrupt)?;
    let clients = started.split_off(1);
    let guest = started.pop().expect("as many as were wanted");
    Ok(Booted { guest, clients })
}

impl ServedClients {
    /// Gives server and clients their addresses; `None` if there are no clients.
    pub fn connect(
        plan: &Plan,
        configuration: &Configuration,
        server: &mut dyn Guest,
        mut clients: Vec<Box<dyn Guest>>,
    ) -> Result<Option<ServedClients>, Box<Failure>> {
        let Some(served) = plan.serve.as_ref().filter(|_| !clients.is_empty()) else { return Ok(None) };
        serve::connect(server, clients.iter_mut().map(|client| client.as_mut() as &mut dyn Host))
            .map_err(|error| Box::new(error.failure()))?;
        let (sender, news) = Members::line();
        let members = clients
            .iter()
            .enumerate()
            .map(|(number, client)| client.member(serve::client_name(number), number, sender.clone()));
        let members = members.collect::<io::Result<_>>();
        let members = members.map_err(|error| Box::new(Failure::new("boot", error.to_string())))?;
        let facts = clients.iter().enumerate().map(|(number, client)| ClientFacts {
            client: serve::client_name(number),
            kernel: client.facts().release.clone(),
            processors: plan.guest.processors,
            memory_bytes: plan.guest.memory.0,
        });
        Ok(Some(ServedClients {
            configuration: configuration.clone(),
            serve: served.clone(),
            facts: facts.collect(),
            members: Members::new(members, news),
            clients,
            groups: Vec::new(),
            is_exported: false,
        }))
    }

    /// Returns the settings of the server's restart in each phase, if the plan asks for that.
    pub(super) fn restart(&self) -> Option<Restart> {
        Some(Restart {
            outage: self.serve.outage?,
            protocol: self.serve.protocol,
            configuration: self.configuration.clone(),
            clients: self.clients.len(),
        })
    }

    /// Returns the facts about the clients.
    pub fn facts(&self) -> Vec<ClientFacts> {
        self.facts.clone()
    }

    /// Shows the filesystem to the clients, and starts an engine on each.
    pub(super) fn start(
        &mut self,
        server: &mut dyn Host,
        request: &EngineRequest,
        record: &mut TrialRecord,
    ) -> Result<Box<dyn EngineProcess>, Stop> {
        let directory = self.show(server, request, record)?;
        self.limit_memory(request, record)?;
        // What takes marks is its only disk.
        let marks = request.marks.as_ref().and_then(|_| self.clients.first()?.disks().pop());
        let request = EngineRequest { directory, marks, memory: None, pauses: true, ..request.clone() };
        let started = self.members.start_engines(&request, &self.groups);
        started.map_err(|error| Stop::Failed(Box::new(host_failure(&error))))
    }

    fn show(
        &mut self,
        server: &mut dyn Host,
        request: &EngineRequest,
        record: &mut TrialRecord,
    ) -> Result<PathBuf, Stop> {
        let Serve { protocol, mount, .. } = &self.serve;
        let (configuration, clients) = (&self.configuration, self.clients.len());
        let mut served = serve::export(server, *protocol, configuration, &request.directory, clients)?;
        self.is_exported = true;
        let mut place = PathBuf::new();
        for (number, client) in self.clients.iter_mut().enumerate() {
            place = serve::mount(client.as_mut(), number, configuration, mount, &mut served)?;
        }
        if record.served.is_none() {
            served.outage = self.serve.outage;
            record.warnings.extend(serve::warnings(configuration, &served));
            record.served = Some(served);
            if let Some(recipe) = &mut record.recipe {
                recipe.serve = Some(serve::recipe(*protocol, configuration, mount));
            }
        }
        Ok(place)
    }

    /// Makes a memory cgroup on each, if the load has a limit.
    fn limit_memory(&mut self, request: &EngineRequest, record: &mut TrialRecord) -> Result<(), Stop> {
        let Some(wanted) = request.memory.as_ref().filter(|_| self.groups.is_empty()) else { return Ok(()) };
        for client in &mut self.clients {
            let mut journal = UndoJournal::in_memory();
            match memory::group_of(client.as_mut(), &mut journal, wanted.limit) {
                Ok(group) => self.groups.push(group),
                Err(TestbedError::Unmet { unmet }) => {
                    self.groups.clear();
                    record.warnings.push(Warning::new(WarningKind::MemoryNotLimited, unmet.join("; ")));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns whether the kernel of a client has killed something because of the limit of its memory.
    pub(super) fn has_killed(&mut self) -> bool {
        self.clients
            .iter_mut()
            .zip(&self.groups)
            .any(|(client, group)| memory::has_killed(client.as_mut(), group))
    }

    /// Hides the filesystem from the clients again, so that it can be unmounted.
    pub(super) fn end(&mut self, server: &mut dyn Host) -> Result<(), Stop> {
        if std::mem::take(&mut self.is_exported) {
            for client in &mut self.clients {
                serve::unmount(client.as_mut())?;
            }
            serve::withdraw(server, self.serve.protocol)?;
        }
        Ok(())
    }

    /// Gives up clients that may still have the filesystem mounted, after a load that failed.
    pub fn abandon(&mut self, server: &mut dyn Host) {
        if std::mem::take(&mut self.is_exported) {
            self.clients.iter_mut().for_each(|client| client.end_now());
            // If it still serves, the filesystem cannot be unmounted, and that is reported.
            let _ = serve::withdraw(server, self.serve.protocol);
        }
    }

    /// Ends the clients. Notes what was done on them, and if one is lost their last words.
    pub fn leave(mut self, record: &mut TrialRecord) {
        let log = &mut record.log;
        let mut words = String::new();
        let is_lost = self.members.lost().is_some();
        for (client, facts) in self.clients.iter_mut().zip(&self.facts) {
            let steps = client.take_log().into_iter();
            log.extend(
                steps.map(|entry| LogEntry { step: format!("on {}: {}", facts.client, entry.step), ..entry }),
            );
            if is_lost {
                words.push_str(&format!("last output of {}:\n{}\n", facts.client, client.last_words()));
            }
            client.end_now();
        }
        if let Outcome::Failed { error } = &mut record.outcome {
            error.details.push_str(&words);
        }
    }
}

/// The activity on the server at the phases of its clients.
pub(super) struct AtServer<'h> {
    server: &'h mut dyn Host,
    request: &'h EngineRequest,
    /// The observer of the server, while a phase lasts.
    observed: Option<Observed>,
    /// The first phase in which the server was not observed, and why.
    unseen: Option<Warning>,
    outages: Option<Outages<'h>>,
}

impl<'h> AtServer<'h> {
    pub fn new(server: &'h mut dyn Host, request: &'h EngineRequest, outages: Option<Outages<'h>>) -> Self {
        AtServer { server, request, observed: None, unseen: None, outages }
    }

    /// Notes what is not known of the server, and when it was away.
    pub fn note(self, record: &mut TrialRecord) {
        record.warnings.extend(self.unseen);
        if let Some(outages) = self.outages {
            outages.note(record);
        }
    }

    fn note_unseen(&mut self, phase: &str, reason: &str) {
        let text = format!("the server was not observed: {reason}");
        self.unseen.get_or_insert_with(|| Warning::new(WarningKind::NotObserved, text).in_phase(phase));
    }
}

impl AtPhases for AtServer<'_> {
    /// Where clients have dropped what they had in memory, the server does so, too.
    fn begin(&mut self, phase: &str, settled: bool) -> Result<(), Box<Failure>> {
        if settled && self.request.cache == CacheState::Cold {
            serve::drop_caches(self.server).map_err(|error| Box::new(error.failure()))?;
        }
        if let Some(telemetry) = &self.request.telemetry {
            match Observed::begin(self.server, self.request, telemetry) {
                Ok(observed) => self.observed = Some(observed),
                Err(reason) => self.note_unseen(phase, &reason),
            }
        }
        if let Some(outages) = &mut self.outages {
            outages.arm();
        }
        Ok(())
    }

    fn reached(&mut self, progress: &Progress) {
        if let Some(outages) = &mut self.outages {
            outages.reached(progress);
        }
    }

    fn end(&mut self, _gently: bool, mut phase: Option<&mut PhaseResult>) {
        if let Some(outages) = &mut self.outages {
            outages.end(self.server, phase.as_deref_mut());
        }
        let Some(observed) = self.observed.take() else { return };
        let name = phase.as_ref().map(|phase| phase.name.clone()).unwrap_or_default();
        if let Err(reason) = observed.end(phase) {
            self.note_unseen(&name, &reason);
        }
    }

    /// Clients of a server that is gone wait for it for ever (nfs(5), `hard`).
    fn look(&mut self) -> Result<bool, Box<Failure>> {
        if self.server.has_ended() {
            return Err(Box::new(Failure::new("serve", "the server ended while its clients used it")));
        }
        match &mut self.outages {
            Some(outages) => outages.look(self.server).map(|()| true),
            None => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::workload::Null;
    use fsdyno_core::{EngineEvent, Nanos, TelemetryRequest, Workload};
    use fsdyno_host::EngineOutput;
    use fsdyno_testkit::fake::{FakeEngine, FakeHost};

    /// Returns the text of the warning after two phases on a server whose observers do this.
    fn said(observers: &[FakeEngine], telemetry: Option<TelemetryRequest>) -> Option<String> {
        let mut server = FakeHost::new();
        server.write_setting("/proc/uptime", "5.00 9.00\n");
        server.engines.extend(observers.iter().cloned());
        let workload = Workload::Null(Null::default());
        let request = EngineRequest { telemetry, ..EngineRequest::new("/mnt", workload, 1) };
        let mut at_server = AtServer::new(&mut server, &request, None);
        for name in ["read", "write"] {
            at_server.begin(name, false).unwrap();
            at_server.end(true, Some(&mut PhaseResult::lasting(name, Nanos(0), Vec::new())));
        }
        let warning = at_server.unseen?;
        assert_eq!(warning.kind, WarningKind::NotObserved);
        Some(warning.to_string())
    }

    #[test]
    fn a_server_that_cannot_be_observed_is_told_once_with_the_reason() {
        let telemetry = || Some(TelemetryRequest { interval: Nanos::from_millis(100), devices: Vec::new() });
        let not_started = "phase 'read': the server was not observed: program 'fake engine' is not installed";
        assert_eq!(said(&[], telemetry()).as_deref(), Some(not_started));
        assert_eq!(said(&[], None), None);
        let event = |event| EngineOutput::Event(Box::new(event));
        let ready = || event(EngineEvent::Ready { phase: String::new() });
        let ends = FakeEngine { outputs: [ready()].into(), ..FakeEngine::default() };
        let reports = FakeEngine {
            outputs: [ready(), event(EngineEvent::Observed(Box::default()))].into(),
            ..FakeEngine::default()
        };
        assert_eq!(said(&[reports.clone(), reports.clone()], telemetry()), None);
        let not_reported = "phase 'write': the server was not observed: the observer there did not report";
        assert_eq!(said(&[reports, ends], telemetry()).as_deref(), Some(not_reported));
    }
}
