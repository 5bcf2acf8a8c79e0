//! NFS: the kernel's server and client, without the programs that usually configure them.

use super::{Serving, count, sizes};
use crate::filesystem;
use crate::words::{Takes, Words};
use fsdyno_core::axis::{CLIENT_SYNC, EXPORT, OF_SERVING};
use fsdyno_core::hazard::Hazard;
use fsdyno_core::{Bytes, Configuration, Nanos};
use fsdyno_host::export::{Export, GRACE, MOUNT_PORT, NfsExport};
use std::path::Path;

/// The kernel's name of the filesystem, and that of version 3.
const KIND: &str = "nfs4";
const KIND_3: &str = "nfs";
/// The options that save clients of version 3 from asking rpcbind. Their locks are their own, because no load
/// of fsdyno locks anything.
const OPTIONS_3: [&str; 3] = ["port=2049", "mountproto=tcp", "nolock"];
const VERSION: &str = "4.2";
const THREADS: u32 = 8;
/// The most connections (fs/nfs/fs_context.c, `NFS_MAX_CONNECTIONS`).
const CONNECTIONS_MOST: u32 = 16;
/// The most threads: those of a large server.
const THREADS_MOST: u32 = 1024;

pub(super) struct Nfs;

impl Serving for Nfs {
    fn axes(&self) -> &'static [&'static str] {
        &OF_SERVING
    }

    fn mount_words(&self) -> Words {
        &[
            (Takes::Nothing, Hazard::Harmless, &["ac", "cto", "nocto", "nosharecache"]),
            (Takes::Number, Hazard::Harmless, &["acregmin", "acdirmin", "timeo", "retrans", "max_connect"]),
            (Takes::OneOf(&["all", "none", "pos", "positive"]), Hazard::Harmless, &["lookupcache"]),
        ]
    }

    fn modules_of_server(&self) -> &'static [&'static str] {
        &["nfsd"]
    }

    fn modules_of_client(&self) -> &'static [&'static str] {
        &["nfs", "nfsv4", "nfsv3"]
    }

    fn program(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// fs/nfs/internal.h, `nfs_io_size`: others are rounded.
    fn transfer_most(&self) -> u64 {
        Bytes::MIB
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let found = filesystem::find(&configuration.filesystem);
        if found.is_some_and(|found| !found.descriptor().is_exportable) {
            return vec![format!("{} cannot be shown by an NFS server", configuration.filesystem)];
        }
        let most = |axis: &str, most: u32| {
            let asked = count(configuration, axis).filter(|asked| !(1..=most).contains(asked))?;
            Some(format!("{axis} = {asked} is out of range (1 to {most})"))
        };
        let found = [most("nconnect", CONNECTIONS_MOST), most("nfsd_threads", THREADS_MOST)];
        found.into_iter().flatten().collect()
    }

    fn export(
        &self,
        configuration: &Configuration,
        directory: &Path,
        clients: Vec<String>,
        reclaims: bool,
    ) -> Export {
        Export::Nfs(NfsExport {
            directory: directory.to_path_buf(),
            sync: configuration.level(EXPORT) != Some("async"),
            threads: count(configuration, "nfsd_threads").unwrap_or(THREADS),
            clients,
            reclaims,
            version_3: is_version_3(configuration),
        })
    }

    /// Version 3 has no state that clients would have to claim. Those of the others wait for the time of
    /// grace, and then until they ask again, as they do after 0.1 s, 0.2 s and so on (fs/nfs/nfs4proc.c,
    /// `nfs4_update_delay`).
    fn wait_after_outage(&self, configuration: &Configuration) -> Nanos {
        match is_version_3(configuration) {
            true => Nanos(0),
            false => Nanos(GRACE.0 / 2 * 3),
        }
    }

    fn mount(
        &self,
        configuration: &Configuration,
        server: &str,
        client: &str,
    ) -> (&'static str, String, Vec<String>) {
        let mut own = vec!["proto=tcp".to_string(), format!("addr={server}")];
        let kind = match is_version_3(configuration) {
            true => {
                own.push(format!("mountaddr={server}"));
                own.push(format!("mountport={MOUNT_PORT}"));
                own.extend(OPTIONS_3.map(str::to_string));
                KIND_3
            }
            false => {
                own.push(format!("clientaddr={client}"));
                KIND
            }
        };
        own.push("sec=sys".to_string());
        (kind, format!("{server}:/"), own)
    }

    fn options(&self, configuration: &Configuration, all: bool) -> Vec<String> {
        let version = configuration.level("nfs_version").or(all.then_some(VERSION));
        let connections = count(configuration, "nconnect").filter(|count| *count > 1);
        let sync = configuration.level(CLIENT_SYNC) == Some("1");
        let mut options: Vec<String> = version.map(|version| format!("vers={version}")).into_iter().collect();
        options.extend(sizes(configuration));
        options.extend(connections.map(|count| format!("nconnect={count}")));
        options.extend(sync.then(|| "sync".to_string()));
        options
    }

    fn never_synced(&self) -> Option<&'static str> {
        None
    }

    fn recipe(&self, configuration: &Configuration) -> Vec<String> {
        let sync = configuration.level(EXPORT).unwrap_or("sync");
        ["rw", sync, "no_subtree_check"].map(str::to_string).to_vec()
    }
}

fn is_version_3(configuration: &Configuration) -> bool {
    configuration.level("nfs_version") == Some("3")
}
