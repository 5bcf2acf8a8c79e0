//! A filesystem that a server shows to clients by NFS: the network between them, the export, and the mounts
//! of the clients.
//!
//! Server and clients are guests. Each client has a cable of its own to the server, so that no switch is
//! shared, and a subnet of its own on it. The kernel's server and client need none of the programs that
//! usually configure them.

use crate::Result;
use crate::error::TestbedError;
use crate::filesystem::{self, size_of};
use crate::name::mount_directory;
use fsdyno_core::axis::{CLIENT_SYNC, EXPORT, OF_SERVING};
use fsdyno_core::result::{Recipe, ServeRecipe, Served};
use fsdyno_core::{Bytes, Configuration, Warning, WarningKind, meminfo};
use fsdyno_host::guest::{GuestModule, GuestProgram};
use fsdyno_host::nfs::NfsExport;
use fsdyno_host::{Command, Host, MountRequest};
use std::path::{Path, PathBuf};

/// The most clients that a server has: each takes an interface.
pub const CLIENTS_MOST: u32 = 16;

/// Mount options of clients that a plan may name (nfs(5)): those that are no axis, change no promise, and
/// do not decide whom a client speaks with.
pub const MOUNT_WORDS: [&str; 21] = [
    "noatime",
    "nodiratime",
    "relatime",
    "strictatime",
    "nosuid",
    "nodev",
    "noexec",
    "ac",
    "actimeo",
    "acregmin",
    "acregmax",
    "acdirmin",
    "acdirmax",
    "lookupcache",
    "cto",
    "nocto",
    "hard",
    "timeo",
    "retrans",
    "nosharecache",
    "max_connect",
];

/// Where clients mount what the server shows.
const MOUNT_POINT: &str = "/mnt";
/// The kernel's name of the filesystem.
const KIND: &str = "nfs4";
const VERSION: &str = "4.2";
const THREADS: u32 = 8;
/// The most connections (fs/nfs/fs_context.c, `NFS_MAX_CONNECTIONS`).
const CONNECTIONS_MOST: u32 = 16;
/// The most threads: those of a large server.
const THREADS_MOST: u32 = 1024;
/// How often caches are dropped at most: each time, what the time before has made clean can go.
const DROPS_MOST: usize = 10;
/// The share of what is cached that counts as falling.
const FALLING: f64 = 0.01;
const STEP: &str = "serve";

/// The program that gives interfaces their addresses (ip(8)).
const IP: (&str, &str) = ("ip", "iproute2");

/// The programs that server and clients need.
pub fn programs() -> Vec<GuestProgram> {
    vec![GuestProgram { name: IP.0.to_string(), package: IP.1.to_string() }]
}

/// What the kernel of the server must have.
pub fn modules_of_server() -> Vec<GuestModule> {
    ["virtio_net", "nfsd"].map(GuestModule::from).into()
}

/// What the kernels of clients must have.
pub fn modules_of_client() -> Vec<GuestModule> {
    ["virtio_net", "nfs", "nfsv4"].map(GuestModule::from).into()
}

/// What settings of serving cannot be; `served` says whether anything is served at all.
pub fn contradictions(configuration: &Configuration, served: bool) -> Vec<String> {
    let asked = |axis: &&str| configuration.level(axis).is_some();
    if !served {
        let axes = OF_SERVING.into_iter().filter(asked);
        return axes.map(|axis| format!("{axis} is of a filesystem that is served; add [serve]")).collect();
    }
    if filesystem::find(&configuration.filesystem).is_some_and(|found| !found.descriptor().is_exportable) {
        return vec![format!("{} cannot be shown by an NFS server", configuration.filesystem)];
    }
    let most = |axis: &str, most: u32| {
        let asked = count(configuration, axis).filter(|asked| !(1..=most).contains(asked))?;
        Some(format!("{axis} = {asked} is out of range (1 to {most})"))
    };
    let mut found: Vec<String> = [most("nconnect", CONNECTIONS_MOST), most("nfsd_threads", THREADS_MOST)]
        .into_iter()
        .flatten()
        .collect();
    for axis in ["rsize", "wsize"] {
        // fs/nfs/internal.h, nfs_io_size: others are rounded.
        if let Some(bytes) = size_of(configuration, axis)
            && !(4 * Bytes::KIB..=Bytes::MIB).contains(&bytes)
        {
            found.push(format!("{axis} = {} is out of range (4k to 1M)", Bytes(bytes)));
        }
    }
    found
}

fn count(configuration: &Configuration, axis: &str) -> Option<u32> {
    configuration.level(axis)?.parse().ok()
}

/// The name of a client.
pub fn client_name(number: usize) -> String {
    format!("client{}", number + 1)
}

/// The server's address on the cable of a client, and the client's.
fn addresses(client: usize) -> (String, String) {
    let subnet = format!("10.77.{client}");
    (format!("{subnet}.1"), format!("{subnet}.2"))
}

/// Gives all machines their names and addresses. To an NFS server, two clients of the same name are one that
/// has lost everything (fs/nfs/nfs4proc.c, `nfs4_init_uniform_client_string`).
///
/// # Errors
/// [`TestbedError::Host`] or [`TestbedError::Tool`] if an interface cannot be set up.
pub fn connect<'h>(
    server: &mut dyn Host,
    clients: impl IntoIterator<Item = &'h mut (dyn Host + 'h)>,
) -> Result<()> {
    for (number, client) in clients.into_iter().enumerate() {
        let hostname = Path::new("/proc/sys/kernel/hostname");
        client.change_setting(hostname, &client_name(number)).map_err(TestbedError::at(STEP))?;
        let (of_server, of_client) = addresses(number);
        set_up(server, number, &of_server)?;
        set_up(client, 0, &of_client)?;
    }
    Ok(())
}

fn set_up(host: &mut dyn Host, interface: usize, address: &str) -> Result<()> {
    let interface = format!("eth{interface}");
    let address = format!("{address}/24");
    let ip = || Command::new(IP.0);
    for command in [
        ip().args(["address", "add", &address, "dev", &interface]),
        ip().args(["link", "set", &interface, "up"]),
    ] {
        let output = host.run(&command).map_err(TestbedError::at(STEP))?;
        if output.status != 0 {
            return Err(TestbedError::Tool {
                step: STEP,
                command: command.line(),
                status: output.status,
                output: output.stderr,
            });
        }
    }
    Ok(())
}

/// Exports a mounted filesystem to this many clients.
///
/// # Errors
/// [`TestbedError::Host`], with the file of the kernel's server that refused.
pub fn export(
    server: &mut dyn Host,
    configuration: &Configuration,
    directory: &Path,
    clients: usize,
) -> Result<Served> {
    let export = export_of(configuration, directory, clients);
    server.serve_nfs(&export).map_err(TestbedError::at(STEP))?;
    Ok(Served { export: export.options(), threads: export.threads, ..Served::default() })
}

fn export_of(configuration: &Configuration, directory: &Path, clients: usize) -> NfsExport {
    NfsExport {
        directory: directory.to_path_buf(),
        sync: configuration.level(EXPORT) != Some("async"),
        threads: count(configuration, "nfsd_threads").unwrap_or(THREADS),
        clients: (0..clients).map(|client| addresses(client).1).collect(),
    }
}

/// Stops the server; the filesystem can then be unmounted.
///
/// # Errors
/// [`TestbedError::Host`].
pub fn withdraw(server: &mut dyn Host) -> Result<()> {
    server.stop_nfs().map_err(TestbedError::at(STEP))
}

/// Mounts what is exported on a client, and notes what is in force. Returns where it is.
///
/// # Errors
/// [`TestbedError::Host`], with the option that the client rejects.
pub fn mount(
    client: &mut dyn Host,
    number: usize,
    configuration: &Configuration,
    words: &[String],
    served: &mut Served,
) -> Result<PathBuf> {
    let request = mount_of(number, configuration, words);
    let target = request.target.clone();
    if client.file_identity(&target).map_err(TestbedError::at(STEP))?.is_none() {
        client.create_directory(&target).map_err(TestbedError::at(STEP))?;
    }
    client.mount(&request).map_err(TestbedError::at(STEP))?;
    let mounts = client.mounts().map_err(TestbedError::at(STEP))?;
    let Some(mount) = mounts.into_iter().rfind(|mount| mount.target == target) else {
        let found = "nothing".to_string();
        return Err(TestbedError::WrongMount { target, node: request.source, found });
    };
    if number == 0 {
        served.mount_command = request.line();
        served.mount_options_in_force = mount.options;
    }
    Ok(target)
}

/// Unmounts it.
///
/// # Errors
/// [`TestbedError::Host`].
pub fn unmount(client: &mut dyn Host) -> Result<()> {
    client.unmount(Path::new(MOUNT_POINT)).map_err(TestbedError::at(STEP))
}

fn mount_of(client: usize, configuration: &Configuration, words: &[String]) -> MountRequest {
    let (server, own) = addresses(client);
    let mut options = vec![
        format!("vers={}", version(configuration)),
        "proto=tcp".to_string(),
        format!("addr={server}"),
        format!("clientaddr={own}"),
        "sec=sys".to_string(),
    ];
    options.extend(asked(configuration));
    options.extend_from_slice(words);
    MountRequest {
        filesystem: KIND.to_string(),
        source: PathBuf::from(format!("{server}:/")),
        device: None,
        options,
        target: PathBuf::from(MOUNT_POINT),
    }
}

fn version(configuration: &Configuration) -> &str {
    configuration.level("nfs_version").unwrap_or(VERSION)
}

/// The options of axes, as `/proc/mounts` shows them.
fn asked(configuration: &Configuration) -> Vec<String> {
    let size = |axis: &str| Some(format!("{axis}={}", size_of(configuration, axis)?));
    let connections = count(configuration, "nconnect").filter(|count| *count > 1);
    let sync = configuration.level(CLIENT_SYNC) == Some("1");
    let options = [
        size("rsize"),
        size("wsize"),
        connections.map(|count| format!("nconnect={count}")),
        sync.then(|| "sync".to_string()),
    ];
    options.into_iter().flatten().collect()
}

/// What is not as it was asked for, and what weakens what survives a power cut of the server.
pub fn warnings(configuration: &Configuration, served: &Served) -> Vec<Warning> {
    let in_force: Vec<&str> = served.mount_options_in_force.split(',').collect();
    let version = configuration.level("nfs_version").map(|version| format!("vers={version}"));
    let missing = asked(configuration).into_iter().chain(version);
    let missing: Vec<String> = missing.filter(|option| !in_force.contains(&option.as_str())).collect();
    let mut warnings = Vec::new();
    if !missing.is_empty() {
        let text = format!(
            "clients were asked to mount with {}, but have {}",
            missing.join(","),
            served.mount_options_in_force
        );
        warnings.push(Warning::new(WarningKind::OptionNotInForce, text));
    }
    if configuration.level(EXPORT) == Some("async") {
        let text = "export=async: the server answers before data is on the disk, so a power cut of the server \
                    may lose what clients have synced";
        warnings.push(Warning::new(WarningKind::Durability, text));
    }
    warnings
}

/// How to serve it elsewhere.
pub fn recipe(configuration: &Configuration, words: &[String]) -> ServeRecipe {
    let NfsExport { sync, threads, .. } = export_of(configuration, Path::new(Recipe::MOUNTPOINT), 0);
    let sync = if sync { "sync" } else { "async" };
    let version = format!("vers={}", version(configuration));
    ServeRecipe {
        export_options: ["rw", sync, "no_subtree_check"].map(str::to_string).to_vec(),
        threads,
        mount_options: [version].into_iter().chain(asked(configuration)).chain(words.to_vec()).collect(),
    }
}

/// The commands that serve a filesystem, for a dry run.
pub fn commands(configuration: &Configuration, clients: u32, words: &[String]) -> Vec<String> {
    let export = export_of(configuration, &mount_directory("RANDOM"), clients as usize);
    let mount = format!("on each client: {}", mount_of(0, configuration, words).line());
    export.lines().into_iter().chain([mount]).collect()
}

/// Makes the server forget what it has in memory of its filesystem, as far as possible while it serves.
/// Clients have written back before.
///
/// # Errors
/// [`TestbedError::Host`].
pub fn drop_caches(server: &mut dyn Host) -> Result<()> {
    let mut before = f64::INFINITY;
    for _ in 0..DROPS_MOST {
        let sync = Command::new("sync");
        server.run(&sync).map_err(TestbedError::at(STEP))?;
        server.change_setting(Path::new("/proc/sys/vm/drop_caches"), "3").map_err(TestbedError::at(STEP))?;
        let text = server.read_text(Path::new("/proc/meminfo")).map_err(TestbedError::at(STEP))?;
        let cached =
            ["Cached", "Buffers", "SReclaimable"].iter().filter_map(|key| meminfo::value(&text, key));
        let now = cached.map(|bytes| bytes.0 as f64).sum::<f64>();
        if now > before * (1.0 - FALLING) {
            break;
        }
        before = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(settings: &[(&str, &str)]) -> Configuration {
        let pairs = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string()));
        Configuration { name: String::new(), filesystem: "ext4".to_string(), settings: pairs.collect() }
    }

    #[test]
    fn an_axis_of_serving_needs_something_that_is_served() {
        let asked = configuration(&[("export", "async"), ("nconnect", "17"), ("rsize", "2k")]);
        let found = contradictions(&asked, false);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("export is of a filesystem that is served"), "{found:?}");
        let found = contradictions(&asked, true);
        let expected = ["nconnect = 17 is out of range (1 to 16)", "rsize = 2k is out of range (4k to 1M)"];
        assert_eq!(found, expected);
        assert!(contradictions(&configuration(&[("atime", "noatime")]), false).is_empty());
    }

    #[test]
    fn axes_become_words_of_mount_and_exports() {
        let asked = configuration(&[
            ("export", "async"),
            ("nfs_version", "4.1"),
            ("rsize", "64k"),
            ("nconnect", "4"),
            ("client_sync", "1"),
        ]);
        let words = ["noatime".to_string()];
        assert_eq!(
            commands(&asked, 2, &words),
            [
                "exportfs -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=0 10.77.0.2:/run/fsdyno-RANDOM",
                "exportfs -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=0 10.77.1.2:/run/fsdyno-RANDOM",
                "rpc.nfsd 8",
                "on each client: mount -t nfs4 -o vers=4.1,proto=tcp,addr=10.77.0.1,clientaddr=10.77.0.2,\
                 sec=sys,rsize=65536,nconnect=4,sync,noatime 10.77.0.1:/ /mnt",
            ]
        );
    }

    #[test]
    fn a_recipe_names_no_machine() {
        let asked = configuration(&[("export", "async"), ("nfsd_threads", "32"), ("nconnect", "4")]);
        let recipe = recipe(&asked, &["noatime".to_string()]);
        assert_eq!(recipe.export_options, ["rw", "async", "no_subtree_check"]);
        assert_eq!(
            (recipe.threads, recipe.mount_options.join(",").as_str()),
            (32, "vers=4.2,nconnect=4,noatime")
        );
    }

    #[test]
    fn what_is_not_in_force_is_told_and_what_may_be_lost() {
        let asked = configuration(&[("export", "async"), ("wsize", "1M"), ("nfs_version", "4.1")]);
        let in_force = "rw,relatime,vers=4.1,rsize=131072,wsize=131072,proto=tcp".to_string();
        let served = Served { mount_options_in_force: in_force, ..Served::default() };
        let warnings = warnings(&asked, &served);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].text.contains("asked to mount with wsize=1048576, but have"), "{warnings:?}");
        assert_eq!(warnings[1].kind, WarningKind::Durability);
    }
}
