//! A guest whose answers are all in the input, one line each, whatever it is asked.

use fsdyno_core::EngineRequest;
use fsdyno_host::channel::Channel;
use fsdyno_host::lines::read_line;
use fsdyno_host::wire::Request;
use fsdyno_host::{EngineProcess, HostError, Result};
use std::time::Duration;

/// Where this is in an answer, the guest says where its filesystem was mounted: in a directory of a random name.
pub const TARGET: &str = "TARGET";
/// So often the same is asked before the guest is lost. Who waits for a device that is busy would wait for real time to pass.
const MOST_ALIKE: u32 = 3;

/// The other end of a wire.
pub struct Conversation<'a> {
    answers: &'a [u8],
    asked: Option<Request>,
    alike: u32,
    target: Option<String>,
}

impl<'a> Conversation<'a> {
    pub fn new(answers: &'a [u8]) -> Self {
        Conversation { answers, asked: None, alike: 0, target: None }
    }

    fn lost(&self) -> HostError {
        HostError::Lost { host: self.end(), reason: "it has said everything".to_string() }
    }
}

impl Channel for Conversation<'_> {
    fn end(&self) -> String {
        "guest".to_string()
    }

    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>> {
        assert!(!request.to_string().is_empty());
        self.alike = if self.asked.as_ref() == Some(request) { self.alike + 1 } else { 1 };
        self.asked = Some(request.clone());
        if self.alike > MOST_ALIKE {
            return Err(self.lost());
        }
        if let Request::Mount { request } = request {
            self.target = Some(request.target.display().to_string());
        }
        let mut line = Vec::new();
        match read_line(&mut self.answers, &mut line) {
            Ok(()) if !line.is_empty() => Ok(self.with_target(line)),
            _ => Err(self.lost()),
        }
    }

    fn be_patient(&mut self, _: Option<Duration>) {}

    fn engine(&mut self, _: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        Err(self.lost())
    }
}

impl Conversation<'_> {
    fn with_target(&self, line: Vec<u8>) -> Vec<u8> {
        match (std::str::from_utf8(&line), &self.target) {
            (Ok(text), Some(target)) if text.contains(TARGET) => text.replace(TARGET, target).into_bytes(),
            _ => line,
        }
    }
}
