//! Why a guard said no, as every layer of the testbed tells it.

use serde::Serialize;
use std::path::{Path, PathBuf};

/// Why a guard refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardRefusal {
    /// The device, or the sysctl, as the plan names it.
    pub device: PathBuf,
    /// The obstacle, as the end of a sentence about the device or sysctl.
    pub reason: String,
    /// The next step.
    pub hint: String,
}

pub(crate) fn refusal(device: &Path, reason: impl Into<String>, hint: impl Into<String>) -> GuardRefusal {
    GuardRefusal { device: device.to_path_buf(), reason: reason.into(), hint: hint.into() }
}
