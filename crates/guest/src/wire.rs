//! The ports of a guest, each a stream of lines of JSON: one for the agent, with the protocol of
//! [`fsdyno_host::wire`], and one for engines ([`fsdyno_host::remote`]), so that an event never waits behind
//! an answer.

/// The name of the agent's port, as `/sys/class/virtio-ports/*/name` has it.
pub(crate) const AGENT_PORT: &str = "fsdyno.agent";
/// The name of the engines' port.
pub(crate) const ENGINE_PORT: &str = "fsdyno.engine";
