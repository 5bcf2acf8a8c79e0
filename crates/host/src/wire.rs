//! [`Steps`](crate::Steps) as lines of JSON: requests and responses alternate.
//!
//! The first line is [`Hello`]. Then each [`Request`] is one call of a method; the response is the method's
//! own result, `{"Ok": ...}` or `{"Err": ...}` with a [`HostError`], whose type the asker knows. Starting an
//! engine is missing: it has its own protocol and its own process. Paths that are not UTF-8 cannot be sent.
//!
//! [`Request`]: crate::Request

use crate::lines::shortened;
use crate::{HostError, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::path::PathBuf;

/// Version of this protocol; both ends must have the same.
pub const VERSION: u32 = 6;

/// The first line to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// Things that no device may carry, each with its name (`the store`).
    pub protected: Vec<(String, PathBuf)>,
    /// The number at which handles begin.
    pub first_handle: u64,
}

impl Hello {
    /// Returns the version of this end if the other one has the same.
    ///
    /// # Errors
    /// [`HostError::Lost`] if it has another one.
    pub fn answer(&self) -> Result<u32> {
        if self.version == VERSION {
            return Ok(VERSION);
        }
        Err(HostError::Lost {
            host: "agent".to_string(),
            reason: format!("it speaks version {VERSION} of the protocol, not {}", self.version),
        })
    }
}

/// The action in progress, for messages.
impl Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("starting the agent")
    }
}

/// A value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// A request as a line.
///
/// # Errors
/// If it cannot be written as JSON, because of a path that is not UTF-8.
pub fn question(request: &(impl Serialize + Display)) -> Result<Vec<u8>> {
    line(request).map_err(|error| HostError::System {
        action: "send the request".to_string(),
        object: request.to_string(),
        errno: 0,
        reason: error.to_string(),
    })
}

/// Parses an answer.
///
/// # Errors
/// The error that the other end reports; [`HostError::Lost`] if the answer is not valid.
pub fn understand<T: DeserializeOwned>(host: &str, line: &[u8]) -> Result<T> {
    serde_json::from_slice::<Result<T>>(line).unwrap_or_else(|error| {
        Err(HostError::Lost {
            host: host.to_string(),
            reason: format!("the agent's answer is not valid: {}", shortened(&error.to_string())),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_understood_is_told_in_a_few_words() {
        let line = format!("{{\"{}\":1}}", "x".repeat(1 << 20));
        let error = understand::<bool>("guest", line.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 1000 && error.contains("unknown variant"), "{} bytes", error.len());
    }
}
