//! SMB 3: Samba's smbd, and the kernel's client.

use super::{Serving, sizes};
use crate::words::{Takes, Words};
use fsdyno_core::axis::EXPORT;
use fsdyno_core::hazard::Hazard;
use fsdyno_core::result::Recipe;
use fsdyno_core::{Bytes, Configuration, Nanos};
use fsdyno_host::export::{Export, SmbShare};
use std::path::Path;

/// The kernel's name of the filesystem.
const KIND: &str = "cifs";
const VERSION: &str = "vers=3.1.1";
/// Ciphers and hashes that the client needs, which it does not say in what it depends on.
const MODULES: [&str; 7] = ["cifs", "cmac", "ccm", "gcm", "ctr", "ghash_generic", "sha512_generic"];

pub(super) struct Smb;

impl Serving for Smb {
    fn axes(&self) -> &'static [&'static str] {
        &[EXPORT, "rsize", "wsize"]
    }

    fn mount_words(&self) -> Words {
        &[
            (Takes::Nothing, Hazard::Harmless, &["nobrl", "nosharesock"]),
            (Takes::Number, Hazard::Harmless, &["closetimeo", "handletimeout", "echo_interval"]),
            (Takes::OneOf(&["none", "strict", "loose"]), Hazard::Harmless, &["cache"]),
        ]
    }

    fn modules_of_server(&self) -> &'static [&'static str] {
        &[]
    }

    fn modules_of_client(&self) -> &'static [&'static str] {
        &MODULES
    }

    fn program(&self) -> Option<(&'static str, &'static str)> {
        Some(("smbd", "samba"))
    }

    /// Returns the most bytes that smbd offers (smb.conf(5), `smb2 max read`).
    fn transfer_most(&self) -> u64 {
        8 * Bytes::MIB
    }

    fn contradictions(&self, _: &Configuration) -> Vec<String> {
        Vec::new()
    }

    fn export(&self, configuration: &Configuration, directory: &Path, _: Vec<String>, _: bool) -> Export {
        Export::Smb(share(configuration, directory))
    }

    /// smbd gives its clients no time to claim anything.
    fn wait_after_outage(&self, _: &Configuration) -> Nanos {
        Nanos(0)
    }

    fn mount(&self, _: &Configuration, server: &str, _: &str) -> (&'static str, String, Vec<String>) {
        // A user that the server does not know is its guest.
        let own = [format!("ip={server}"), "username=fsdyno".to_string(), "password=fsdyno".to_string()];
        (KIND, format!("//{server}/{}", SmbShare::NAME), own.into())
    }

    fn options(&self, configuration: &Configuration, all: bool) -> Vec<String> {
        all.then(|| VERSION.to_string()).into_iter().chain(sizes(configuration)).collect()
    }

    /// Measured: docs/guide/clients.md, "What answering early gains, and what it loses".
    fn never_synced(&self) -> Option<&'static str> {
        Some(
            "over SMB, an fsync of a directory or a syncfs does not reach the server's disk, even with \
             export=sync: a power cut of the server may undo what clients renamed, linked or removed before it",
        )
    }

    fn recipe(&self, configuration: &Configuration) -> Vec<String> {
        let share = share(configuration, Path::new(Recipe::MOUNTPOINT));
        [vec!["read only = no".to_string()], share.options()].concat()
    }
}

fn share(configuration: &Configuration, directory: &Path) -> SmbShare {
    let strict_sync = configuration.level(EXPORT) != Some("async");
    SmbShare { directory: directory.to_path_buf(), strict_sync }
}
