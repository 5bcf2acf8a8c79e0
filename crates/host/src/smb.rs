//! A share of Samba's server.

use crate::quoted;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A directory that clients may read and write, whoever they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmbShare {
    /// The directory.
    pub directory: PathBuf,
    /// `true` if a client that syncs waits until the data is on the disk (smb.conf(5), `strict sync`).
    pub strict_sync: bool,
}

impl SmbShare {
    /// Its name, which clients mount.
    pub const NAME: &str = "fsdyno";

    /// The options that say what a sync promises, in the words of smb.conf(5).
    pub fn options(&self) -> Vec<String> {
        vec![format!("strict sync = {}", if self.strict_sync { "yes" } else { "no" })]
    }

    /// Returns the commands that a user would type.
    pub fn lines(&self) -> Vec<String> {
        let directory = self.directory.to_string_lossy();
        let options = self.options().into_iter().map(|option| option.replace(" = ", "="));
        let options = options.map(|option| format!(" --option={}", quoted(&option))).collect::<String>();
        vec![format!("smbd{options} --option={}", quoted(&format!("path={directory}")))]
    }
}
