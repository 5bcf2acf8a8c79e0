//! This machine as a host whose engines run on clients.

use crate::pool::ClientPool;
use fsdyno_core::EngineRequest;
use fsdyno_core::environment::ClientFacts;
use fsdyno_core::result::LogEntry;
use fsdyno_host::agent::AgentHost;
use fsdyno_host::guardian::Guardian;
use fsdyno_host::{Channel, EngineProcess, Host, Request, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A host that carries out steps itself, and has clients for the load.
pub struct ClientHost {
    host: AgentHost,
    pool: ClientPool,
}

impl ClientHost {
    /// Puts both together.
    pub fn new(host: AgentHost, pool: ClientPool) -> Self {
        ClientHost { host, pool }
    }

    /// The clients alone.
    pub fn into_pool(self) -> ClientPool {
        self.pool
    }
}

impl Channel for ClientHost {
    fn end(&self) -> String {
        self.host.end()
    }

    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>> {
        self.host.exchange(request)
    }

    fn note(&mut self, request: &Request, took: Duration, failure: Option<String>) {
        self.host.note(request, took, failure);
    }
}

impl Host for ClientHost {
    fn name(&self) -> String {
        self.host.name()
    }

    fn limit_steps(&mut self, limit: Option<Duration>) {
        self.host.limit_steps(limit);
    }

    fn take_log(&mut self) -> Vec<LogEntry> {
        self.host.take_log()
    }

    fn hold(&mut self, lock: Arc<OwnedFd>) {
        self.host.hold(lock);
    }

    fn guardian(&self) -> Box<dyn Guardian> {
        self.host.guardian()
    }

    fn clients(&self) -> Vec<ClientFacts> {
        self.pool.facts()
    }

    fn lost_client(&self) -> Option<String> {
        self.pool.lost()
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.pool.start_engines(request)
    }
}
