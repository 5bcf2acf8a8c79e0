//! This machine as a host whose engines run on clients.

use crate::pool::Pool;
use fsdyno_core::EngineRequest;
use fsdyno_core::environment::ClientFacts;
use fsdyno_host::agent::AgentHost;
use fsdyno_host::channel::Channel;
use fsdyno_host::guardian::Guardian;
use fsdyno_host::log::StepLog;
use fsdyno_host::wire::Request;
use fsdyno_host::{EngineProcess, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A host that carries out steps itself, and has clients for the load.
pub struct ClientHost {
    host: AgentHost,
    pool: Pool,
}

impl ClientHost {
    /// Puts both together.
    pub fn new(host: AgentHost, pool: Pool) -> Self {
        ClientHost { host, pool }
    }

    /// The clients alone.
    pub fn into_pool(self) -> Pool {
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

    fn be_patient(&mut self, limit: Option<Duration>) {
        self.host.be_patient(limit);
    }

    fn hold(&mut self, lock: Arc<OwnedFd>) {
        Channel::hold(&mut self.host, lock);
    }

    fn log(&mut self) -> Option<&mut StepLog> {
        self.host.log()
    }

    fn guardian(&self) -> Option<Box<dyn Guardian>> {
        Channel::guardian(&self.host)
    }

    fn clients(&self) -> Vec<ClientFacts> {
        self.pool.facts()
    }

    fn lost_client(&self) -> Option<String> {
        self.pool.lost()
    }

    fn engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.pool.start_engines(request)
    }
}
