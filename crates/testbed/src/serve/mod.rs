//! A filesystem that a server shows to clients: the network between them, the export, and the mounts of the
//! clients.
//!
//! Server and clients are guests. Each client has a cable of its own to the server, so that no switch is
//! shared, and a subnet of its own on it. What differs between protocols is a [`Serving`].

mod nfs;
mod outage;
mod smb;

pub use outage::{come_back, go_away, outage_line, wait_after_outage};

use crate::Result;
use crate::error::TestbedError;
use crate::filesystem::size_of;
use crate::name::mount_directory;
use crate::words::{Takes, Words, find, unfit_word};
use fsdyno_core::axis::OF_SERVING;
use fsdyno_core::hazard::Hazard;
use fsdyno_core::result::{Recipe, ServeProtocol, ServeRecipe, Served};
use fsdyno_core::{Bytes, Configuration, Nanos, Warning, WarningKind, meminfo};
use fsdyno_host::export::Export;
use fsdyno_host::guest::{GuestModule, GuestProgram};
use fsdyno_host::{Command, Host, MountRequest};
use std::path::{Path, PathBuf};

/// The most clients that a server has: each takes an interface.
pub const CLIENTS_MOST: u32 = 16;

/// Mount options of clients that a plan may name whatever the protocol: those that are no axis, change no
/// promise, and do not decide whom a client speaks with.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Hazard::Harmless,
        &["noatime", "nodiratime", "relatime", "strictatime", "nosuid", "nodev", "noexec", "hard"],
    ),
    (Takes::Number, Hazard::Harmless, &["actimeo", "acregmax", "acdirmax"]),
];

/// Where clients mount what the server shows.
const MOUNT_POINT: &str = "/mnt";
/// The most times that caches are dropped: each time, the caches that the time before has made clean can go.
const DROPS_MOST: usize = 10;
/// The share of what is cached that counts as falling.
const FALLING: f64 = 0.01;
const STEP: &str = "serve";

/// The program that gives interfaces their addresses (ip(8)).
const IP: (&str, &str) = ("ip", "iproute2");

/// The parts of serving that are specific to a protocol.
trait Serving: Sync {
    /// The axes of serving that it has.
    fn axes(&self) -> &'static [&'static str];
    /// Mount options of clients that a plan may name.
    fn mount_words(&self) -> Words;
    /// Returns the modules that the kernel of the server must have.
    fn modules_of_server(&self) -> &'static [&'static str];
    /// Returns the modules that the kernels of clients must have.
    fn modules_of_client(&self) -> &'static [&'static str];
    /// The program that serves, with its package; none if the kernel does.
    fn program(&self) -> Option<(&'static str, &'static str)>;
    /// The most bytes that a client reads or writes at a time.
    fn transfer_most(&self) -> u64;
    /// Returns the problems with settings that the protocol does not support.
    fn contradictions(&self, configuration: &Configuration) -> Vec<String>;
    /// Returns the export for these clients; `reclaims` says whether they may have used it before the server
    /// went away.
    fn export(
        &self,
        configuration: &Configuration,
        directory: &Path,
        clients: Vec<String>,
        reclaims: bool,
    ) -> Export;
    /// Returns the time that clients may wait after the server has come back from being away.
    fn wait_after_outage(&self, configuration: &Configuration) -> Nanos;
    /// The kernel's name of what clients mount, where it is on this server, and the options that are neither
    /// axes nor the plan's.
    fn mount(
        &self,
        configuration: &Configuration,
        server: &str,
        client: &str,
    ) -> (&'static str, String, Vec<String>);
    /// The options of axes, as `/proc/mounts` shows them; `all` with those that are at their defaults.
    fn options(&self, configuration: &Configuration, all: bool) -> Vec<String>;
    /// Returns a warning about data that a power cut of the server may lose although a client has synced it,
    /// whatever the settings.
    fn never_synced(&self) -> Option<&'static str>;
    /// The options of an export as users would write them on a server of their own.
    fn recipe(&self, configuration: &Configuration) -> Vec<String>;
}

fn of(protocol: ServeProtocol) -> &'static dyn Serving {
    match protocol {
        ServeProtocol::Nfs => &nfs::Nfs,
        ServeProtocol::Smb => &smb::Smb,
    }
}

/// Returns the problem with a mount option that a plan names for clients (nfs(5), mount.cifs(8)).
pub fn unfit_mount(protocol: ServeProtocol, word: &str) -> Option<String> {
    let known = [MOUNT_WORDS, of(protocol).mount_words()].concat();
    let (name, shown) = (word.split_once('=').map_or(word, |(name, _)| name), word.escape_debug());
    if find(&known, name).is_none() {
        let names: Vec<&str> = known.iter().flat_map(|(_, _, names)| *names).copied().collect();
        return Some(format!("clients take only these mount options: {}; not '{shown}'", names.join(", ")));
    }
    let why = unfit_word(&known, word).into_iter().next()?;
    Some(format!("the mount option '{shown}' of clients: {why}"))
}

/// The programs that clients need.
pub fn programs_of_client() -> Vec<GuestProgram> {
    vec![program(IP)]
}

/// The programs that a server needs.
pub fn programs_of_server(protocol: ServeProtocol) -> Vec<GuestProgram> {
    std::iter::once(IP).chain(of(protocol).program()).map(program).collect()
}

fn program((name, package): (&str, &str)) -> GuestProgram {
    GuestProgram { name: name.to_string(), package: package.to_string() }
}

/// Returns the modules that the kernel of the server must have.
pub fn modules_of_server(protocol: ServeProtocol) -> Vec<GuestModule> {
    modules(of(protocol).modules_of_server())
}

/// Returns the modules that the kernels of clients must have.
pub fn modules_of_client(protocol: ServeProtocol) -> Vec<GuestModule> {
    modules(of(protocol).modules_of_client())
}

fn modules(names: &[&str]) -> Vec<GuestModule> {
    std::iter::once(&"virtio_net").chain(names).map(|name| GuestModule::from(*name)).collect()
}

/// Returns the problems with the settings of serving; `served` is the protocol, if the filesystem is served
/// at all.
pub fn contradictions(configuration: &Configuration, served: Option<ServeProtocol>) -> Vec<String> {
    let asked = OF_SERVING.into_iter().filter(|axis| configuration.level(axis).is_some());
    let Some(protocol) = served else {
        return asked.map(|axis| format!("{axis} is of a filesystem that is served; add [serve]")).collect();
    };
    let serving = of(protocol);
    let mut found: Vec<String> = asked
        .filter(|axis| !serving.axes().contains(axis))
        .map(|axis| format!("{axis} does not apply to {}", protocol.name()))
        .collect();
    found.extend(serving.contradictions(configuration));
    let most = serving.transfer_most();
    for axis in ["rsize", "wsize"] {
        if let Some(bytes) = size_of(configuration, axis)
            && !(4 * Bytes::KIB..=most).contains(&bytes)
        {
            found.push(format!("{axis} = {} is out of range (4k to {})", Bytes(bytes), Bytes(most)));
        }
    }
    found
}

fn count(configuration: &Configuration, axis: &str) -> Option<u32> {
    configuration.level(axis)?.parse().ok()
}

/// The options of the axes `rsize` and `wsize`.
fn sizes(configuration: &Configuration) -> Vec<String> {
    let size = |axis: &str| Some(format!("{axis}={}", size_of(configuration, axis)?));
    [size("rsize"), size("wsize")].into_iter().flatten().collect()
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
    let address = format!("{address}/24");
    ip(host, &["address", "add", &address, "dev", &format!("eth{interface}")])?;
    set_link(host, interface, "up")
}

fn set_link(host: &mut dyn Host, interface: usize, state: &str) -> Result<()> {
    ip(host, &["link", "set", &format!("eth{interface}"), state])
}

fn ip(host: &mut dyn Host, words: &[&str]) -> Result<()> {
    let command = Command::new(IP.0).args(words.iter().copied());
    let output = host.run(&command).map_err(TestbedError::at(STEP))?;
    match output.status {
        0 => Ok(()),
        status => {
            Err(TestbedError::Tool { step: STEP, command: command.line(), status, output: output.stderr })
        }
    }
}

/// Exports a mounted filesystem to this many clients.
///
/// # Errors
/// [`TestbedError::Host`], with what refused.
pub fn export(
    server: &mut dyn Host,
    protocol: ServeProtocol,
    configuration: &Configuration,
    directory: &Path,
    clients: usize,
) -> Result<Served> {
    let export = export_of(protocol, configuration, directory, clients, false);
    server.serve(&export).map_err(TestbedError::at(STEP))?;
    Ok(Served { protocol, export: export.options(), threads: export.threads(), ..Served::default() })
}

fn export_of(
    protocol: ServeProtocol,
    configuration: &Configuration,
    directory: &Path,
    clients: usize,
    reclaims: bool,
) -> Export {
    let clients = (0..clients).map(|client| addresses(client).1).collect();
    of(protocol).export(configuration, directory, clients, reclaims)
}

/// Stops the server; the filesystem can then be unmounted.
///
/// # Errors
/// [`TestbedError::Host`].
pub fn withdraw(server: &mut dyn Host, protocol: ServeProtocol) -> Result<()> {
    server.stop_serving(protocol).map_err(TestbedError::at(STEP))
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
    let request = mount_of(served.protocol, number, configuration, words);
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

fn mount_of(
    protocol: ServeProtocol,
    client: usize,
    configuration: &Configuration,
    words: &[String],
) -> MountRequest {
    let (server, own) = addresses(client);
    let (filesystem, source, mut options) = of(protocol).mount(configuration, &server, &own);
    options.extend(of(protocol).options(configuration, true));
    options.extend_from_slice(words);
    MountRequest {
        filesystem: filesystem.to_string(),
        source: PathBuf::from(source),
        device: None,
        options,
        target: PathBuf::from(MOUNT_POINT),
    }
}

/// Returns warnings about everything that is not as it was requested.
pub fn warnings(configuration: &Configuration, served: &Served) -> Vec<Warning> {
    let in_force: Vec<&str> = served.mount_options_in_force.split(',').collect();
    let asked = of(served.protocol).options(configuration, false).into_iter();
    let missing: Vec<String> = asked.filter(|option| !in_force.contains(&option.as_str())).collect();
    let mut warnings = Vec::new();
    if !missing.is_empty() {
        let text = format!(
            "clients were asked to mount with {}, but have {}",
            missing.join(","),
            served.mount_options_in_force
        );
        warnings.push(Warning::new(WarningKind::OptionNotInForce, text));
    }
    let never_synced = of(served.protocol).never_synced();
    warnings.extend(never_synced.map(|text| Warning::new(WarningKind::DirectoriesNotSynced, text)));
    warnings
}

/// Returns the recipe for serving the filesystem elsewhere.
pub fn recipe(protocol: ServeProtocol, configuration: &Configuration, words: &[String]) -> ServeRecipe {
    let export = export_of(protocol, configuration, Path::new(Recipe::MOUNTPOINT), 0, false);
    let options = of(protocol).options(configuration, true).into_iter();
    ServeRecipe {
        protocol,
        export_options: of(protocol).recipe(configuration),
        threads: export.threads(),
        mount_options: options.chain(words.iter().cloned()).collect(),
    }
}

/// The commands that serve a filesystem, for a dry run.
pub fn commands(
    protocol: ServeProtocol,
    configuration: &Configuration,
    clients: u32,
    words: &[String],
) -> Vec<String> {
    let export = export_of(protocol, configuration, &mount_directory("RANDOM"), clients as usize, false);
    let mount = format!("on each client: {}", mount_of(protocol, 0, configuration, words).line());
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

    const NFS: ServeProtocol = ServeProtocol::Nfs;

    fn configuration(settings: &[(&str, &str)]) -> Configuration {
        let pairs = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string()));
        Configuration { name: String::new(), filesystem: "ext4".to_string(), settings: pairs.collect() }
    }

    #[test]
    fn an_axis_of_serving_needs_something_that_is_served() {
        let asked = configuration(&[("export", "async"), ("nconnect", "17"), ("rsize", "2k")]);
        let found = contradictions(&asked, None);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("export is of a filesystem that is served"), "{found:?}");
        let found = contradictions(&asked, Some(NFS));
        let expected = ["nconnect = 17 is out of range (1 to 16)", "rsize = 2k is out of range (4k to 1M)"];
        assert_eq!(found, expected);
        let found = contradictions(&asked, Some(ServeProtocol::Smb));
        assert_eq!(found, ["nconnect does not apply to smb", "rsize = 2k is out of range (4k to 8M)"]);
        assert!(contradictions(&configuration(&[("atime", "noatime")]), None).is_empty());
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
            commands(NFS, &asked, 2, &words),
            [
                "exportfs -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=0 10.77.0.2:/run/fsdyno-RANDOM",
                "exportfs -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=0 10.77.1.2:/run/fsdyno-RANDOM",
                "rpc.nfsd 8",
                "on each client: mount -t nfs4 -o proto=tcp,addr=10.77.0.1,clientaddr=10.77.0.2,sec=sys,\
                 vers=4.1,rsize=65536,nconnect=4,sync,noatime 10.77.0.1:/ /mnt",
            ]
        );
        let asked = configuration(&[("export", "async"), ("wsize", "1M")]);
        assert_eq!(
            commands(ServeProtocol::Smb, &asked, 2, &words),
            [
                "smbd --option='strict sync=no' --option=path=/run/fsdyno-RANDOM",
                "on each client: mount -t cifs -o ip=10.77.0.1,username=fsdyno,password=fsdyno,vers=3.1.1,\
                 wsize=1048576,noatime //10.77.0.1/fsdyno /mnt",
            ]
        );
    }

    #[test]
    fn a_recipe_names_no_machine() {
        let asked = configuration(&[("export", "async"), ("nfsd_threads", "32"), ("nconnect", "4")]);
        let noatime = ["noatime".to_string()];
        let of_smb = recipe(ServeProtocol::Smb, &asked, &noatime);
        assert_eq!(of_smb.export_options, ["read only = no", "strict sync = no"]);
        assert_eq!((of_smb.threads, of_smb.mount_options.join(",").as_str()), (None, "vers=3.1.1,noatime"));
        let recipe = recipe(NFS, &asked, &noatime);
        assert_eq!(recipe.export_options, ["rw", "async", "no_subtree_check"]);
        assert_eq!(
            (recipe.threads, recipe.mount_options.join(",").as_str()),
            (Some(32), "vers=4.2,nconnect=4,noatime")
        );
    }

    #[test]
    fn what_is_not_in_force_is_a_warning() {
        let asked = configuration(&[("export", "async"), ("wsize", "1M"), ("nfs_version", "4.1")]);
        let in_force = "rw,relatime,vers=4.1,rsize=131072,wsize=131072,proto=tcp".to_string();
        let served = Served { mount_options_in_force: in_force, ..Served::default() };
        let warnings = warnings(&asked, &served);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].text.contains("asked to mount with wsize=1048576, but have"), "{warnings:?}");
    }

    #[test]
    fn a_share_by_smb_does_not_sync_directories_whatever_it_is_asked_for() {
        let served = |protocol| Served { protocol, ..Served::default() };
        let of_smb = warnings(&configuration(&[]), &served(ServeProtocol::Smb));
        assert_eq!(of_smb.len(), 1, "{of_smb:?}");
        assert_eq!(of_smb[0].kind, WarningKind::DirectoriesNotSynced);
        assert_eq!(warnings(&configuration(&[]), &served(NFS)), []);
    }
}
