//! A guest that answers every request with the next line of the input.

use fsdyno_core::EngineRequest;
use fsdyno_host::lines::read_line;
use fsdyno_host::{Channel, EngineProcess, Host, HostError, Request, Result};

/// A placeholder in answers for the directory where the filesystem is mounted, whose name is random.
pub const TARGET: &str = "TARGET";
/// The number of times that the same request is answered before the guest is lost. Waiting for a busy device
/// would take real time.
const MOST_ALIKE: u32 = 3;

/// The other end of a connection.
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
        HostError::Lost { host: self.end(), reason: "it has no more answers".to_string() }
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
}

impl Host for Conversation<'_> {
    fn name(&self) -> String {
        self.end()
    }

    fn start_engine(&mut self, _: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
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
