//! A filesystem on a server, and a load on clients of it: all of them guests, connected by cables of their
//! own.

use crate::guests::{GUEST, fsdyno, qemu_under_load, signal, trials};
use crate::support::{Requirement, Sandbox, describe};
use serde_json::{Value, json};
use std::process::Stdio;

const SERVING: &[Requirement] = &[Requirement::All(GUEST), Requirement::Program("ip")];
const RECORDED: &[Requirement] = &[Requirement::All(SERVING), Requirement::Fuse];

tests! {
    clients_of_a_server_do_one_load: SERVING;
    a_server_that_is_gone_fails_its_trial_at_once: SERVING;
    clients_wait_for_a_server_that_restarts: SERVING;
    clients_claim_what_they_had_before_a_restart: &[Requirement::All(SERVING), Requirement::Soak];
    what_an_export_promises_survives_a_power_cut_of_its_server: RECORDED;
    a_share_of_samba_is_used_as_it_was_asked_for: &[Requirement::All(RECORDED), Requirement::Soak];
    what_cannot_be_served_is_refused: &[];
}

/// The beginning of every plan of these tests.
fn plan(sandbox: &Sandbox, clients: u32, rest: &str) -> String {
    plan_of("nfs", sandbox, clients, rest)
}

fn plan_of(protocol: &str, sandbox: &Sandbox, clients: u32, rest: &str) -> String {
    let image = sandbox.path("disk.img");
    let memory = if protocol == "smb" { "512M" } else { "384M" };
    let text = format!(
        "name = \"served\"\nwatchdog = \"20s\"\n[device]\nimage = \"{}\"\nsize = \"256M\"\n\
         [serve]\nprotocol = \"{protocol}\"\n[guest]\nprocessors = 1\nmemory = \"{memory}\"\n\
         [clients]\ncount = {clients}\n{rest}",
        image.display()
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

const FILE_SERVER: &str = r#"mount = "noatime"
[[configurations]]
name = "one"
filesystem = "ext4"
kernel = "debian:6.1"
export = "async"
nfs_version = "4.1"
nfsd_threads = 3
nconnect = 2
wsize = "32k"
memory = "64M"
[[workloads]]
kind = "fileserver"
tree_size = "2M"
readers = 1
writers = 1
ramp = "500ms"
window = "4s"
"#;

fn clients_of_a_server_do_one_load() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, 2, FILE_SERVER);
    let swept = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    let [trial] = &trials(&sandbox)[..] else { panic!("one trial") };
    assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);

    let served = &trial["served"];
    assert_eq!(served["threads"], 3, "{served}");
    assert!(served["export"].as_str().is_some_and(|options| options.contains("async")), "{served}");
    let in_force = served["mount_options_in_force"].as_str().expect("options");
    for option in ["vers=4.1", "nconnect=2", "wsize=32768", "noatime"] {
        assert!(in_force.split(',').any(|one| one == option), "{option} in {in_force}");
    }
    let warnings = trial["warnings"].as_array().expect("warnings");
    let kinds: Vec<&str> = warnings.iter().filter_map(|warning| warning["kind"].as_str()).collect();
    assert!(kinds.contains(&"durability"), "{warnings:?}");
    assert!(
        !kinds.contains(&"option-not-in-force") && !kinds.contains(&"memory-not-limited"),
        "{warnings:?}"
    );

    let names = |list: &Value| -> Vec<String> {
        let all = list.as_array().expect("clients").iter();
        all.filter_map(|one| one["client"].as_str().map(str::to_string)).collect()
    };
    assert_eq!(names(&trial["environment"]["clients"]), ["client1", "client2"]);
    let phases = trial["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), 2);
    for phase in phases {
        assert_eq!(names(&phase["clients"]), ["client1", "client2"], "{}", phase["name"]);
        assert_was_watched(phase);
    }
    // Emulated processors on a busy machine do a few operations in each window, not all of them with bytes.
    for client in [0, 1] {
        let of = |what: &str| -> Vec<u64> {
            phases.iter().filter_map(|phase| phase["clients"][client][what].as_u64()).collect()
        };
        let (completed, bytes) = (of("completed"), of("bytes"));
        assert!(completed.iter().all(|count| *count > 0) && bytes.iter().sum::<u64>() > 0, "{phases:?}");
    }
    // The server and each client say what they did, and phases begin with nothing in the server's memory.
    let log = trial["log"].as_array().expect("a log");
    let steps: Vec<&str> = log.iter().filter_map(|entry| entry["step"].as_str()).collect();
    let count = |what: &str| steps.iter().filter(|step| step.contains(what)).count();
    let parts = count("exportfs -o rw,async");
    assert_eq!(
        (parts, count("on client2: mount -t nfs4"), count("on client2: umount")),
        (3, 3, 3),
        "{steps:?}"
    );
    assert!(count("> /proc/sys/vm/drop_caches") >= 2, "{steps:?}");
    assert!(!sandbox.path("disk.img").exists());
}

/// The server and the machines of its clients were watched over the window, on one axis of time.
fn assert_was_watched(phase: &Value) {
    let window_ns = phase["window_ns"].as_u64().expect("a window");
    let server = &phase["telemetry"];
    let length_ns = server["window"]["length_ns"].as_u64().expect("samples of the server");
    // Within a sample, which on a busy machine is longer by what taking it took.
    let late_ns = server["cost"]["wall_ns_max"].as_u64().expect("what a sample takes");
    assert!(length_ns.abs_diff(window_ns) <= 1_000_000_000 + late_ns, "{length_ns} of {window_ns}");
    // Threads of nfsd work, and nobody else.
    assert!(server["window"]["task_ns"]["serve"].as_u64() > Some(0), "{}", server["window"]["task_ns"]);
    let device = &server["window"]["devices"][0];
    assert!(device["write_bytes"].as_u64().is_some() && server["devices"][0] == "vda", "{server}");
    for client in phase["clients"].as_array().expect("clients") {
        let window = &client["telemetry"]["window"];
        assert!(window["cpu"]["system_ns"].as_u64() > Some(0), "{window}");
    }
}

/// The amount that mkfs.ext4 writes to the image of these tests, about 25 MiB, and part of a tree of 64 MiB.
const UNDER_LOAD: u64 = 30 << 20;

fn a_server_that_is_gone_fails_its_trial_at_once() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, 1, FILE_SERVER);
    let mut sweep = fsdyno(&sandbox, &["sweep", &plan, "--set", "workloads.tree_size=64M"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run fsdyno");
    let server = qemu_under_load(&mut sweep, &sandbox.path("disk.img"), UNDER_LOAD, None);
    signal(server, "KILL");
    let status = sweep.wait().expect("its end");
    assert_eq!(status.code(), Some(1), "its trial failed");
    let [trial] = &trials(&sandbox)[..] else { panic!("one trial") };
    let error = trial["error"].to_string();
    assert!(error.contains("the server ended while its clients used it"), "{error}");
    assert!(error.contains("signal: 9"), "{error}");
    assert!(!sandbox.path("disk.img").exists());
}

/// Writers that sync, so that nothing they do ends without the server.
const WRITERS: &str = r#"[[workloads]]
kind = "flow"
ramp = "300ms"
window = "WINDOW"
drain_limit = "60s"
[workloads.files.log]
size = "1M"
[workloads.roles.client]
workers = 2
steps = [{ open = "log" }, { overwrite = "4k" }, "fsync", "close"]
"#;

/// Returns the trial in which the server of this version of NFS was away from its clients for so long.
fn restarted(version: &str, outage_ms: u64, window: &str) -> Value {
    let sandbox = Sandbox::new();
    let rest = format!(
        "[[configurations]]\nname = \"one\"\nfilesystem = \"ext4\"\nkernel = \"debian:6.1\"\n\
         nfs_version = \"{version}\"\n{}",
        WRITERS.replace("WINDOW", window)
    );
    let plan = plan(&sandbox, 1, &rest);
    let outage = format!("serve.outage={outage_ms}ms");
    let swept = fsdyno(&sandbox, &["sweep", &plan, "--set", &outage]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    let [trial] = &trials(&sandbox)[..] else { panic!("one trial") };
    assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
    let in_force = trial["served"]["mount_options_in_force"].as_str().expect("options");
    assert!(in_force.split(',').any(|one| one == format!("vers={version}")), "{in_force}");

    let phase = &trial["phases"][0];
    let away = &phase["outage"];
    let away_ns = away["duration_ns"].as_u64().expect("a duration");
    let window_ns = phase["window_ns"].as_u64().expect("a window");
    assert!(away_ns >= outage_ms * 1_000_000 && away["start_ns"].as_u64() < Some(window_ns / 2), "{away}");
    assert!(trial["warnings"].to_string().contains("the server was away for"), "{}", trial["warnings"]);
    let role = &phase["roles"][0];
    let stall_ns = role["longest_stall_ns"].as_u64().expect("a stall");
    // Nobody answers while it is away. An answer that was on its way takes up to 130 ms where both machines
    // are emulated on busy processors.
    assert!(stall_ns + 500_000_000 >= away_ns, "{stall_ns} of {away_ns}");
    assert!(!role["longest_stall_at_least"].as_bool().unwrap_or(false), "{role}");
    // The server unmounts and mounts once more than without, and clients do not.
    let log = trial["log"].as_array().expect("a log");
    let steps: Vec<&str> = log.iter().filter_map(|entry| entry["step"].as_str()).collect();
    let count = |what: &str| steps.iter().filter(|step| step.starts_with(what)).count();
    assert_eq!(count("umount"), count("on client1: umount") + 1, "{steps:?}");
    assert_eq!((count("ip link set eth0 down"), count("ip link set eth0 up")), (1, 1 + 1), "{steps:?}");
    assert!(!sandbox.path("disk.img").exists());
    trial.clone()
}

/// Version 3 knows no state, so that clients go on as soon as the server answers.
fn clients_wait_for_a_server_that_restarts() {
    restarted("3", 2_000, "12s");
}

/// With NFS 4, nothing is opened before the time is over in which clients may claim what they had.
fn clients_claim_what_they_had_before_a_restart() {
    let trial = restarted("4.2", 5_000, "40s");
    let stall_ns = trial["phases"][0]["roles"][0]["longest_stall_ns"].as_u64();
    let away_ns = trial["phases"][0]["outage"]["duration_ns"].as_u64();
    assert!(stall_ns > away_ns, "{stall_ns:?} of {away_ns:?}");
}

fn what_an_export_promises_survives_a_power_cut_of_its_server() {
    let sandbox = Sandbox::new();
    let export = |how: &str| {
        format!(
            "[[configurations]]\nname = \"{how}\"\nfilesystem = \"ext4\"\nkernel = \"debian:6.1\"\n\
             export = \"{how}\"\n"
        )
    };
    let load = "[[workloads]]\nkind = \"durability\"\nsize = \"320M\"\nmodels = [\"completed\"]\ncuts = 4\n\
                promises = 4\nduration = \"8s\"\nunsynced = \"200ms\"\n";
    let plan = plan(&sandbox, 1, &format!("{}{}{load}", export("sync"), export("async")));
    let swept = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    for trial in trials(&sandbox) {
        assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
        let name = trial["configuration"]["name"].as_str().expect("a name");
        let models = trial["durability"]["models"].as_array().expect("models");
        let promises = || models.iter().flat_map(|model| model["promises"].as_array().expect("promises"));
        let sum = |what: &str| promises().map(|one| one[what].as_u64().expect("a count")).sum::<u64>();
        let (made, lost) = (sum("made"), sum("lost"));
        // An emulated server that syncs each promise may take a second for one, on a machine that is busy.
        assert!(made >= if name == "sync" { 4 } else { 20 }, "{name}: {made}");
        assert!(if name == "sync" { lost == 0 } else { lost > made / 2 }, "{name}: {lost} of {made}");
    }
}

/// Promises about the data of a file hold over SMB. Those about names do not, so they are not checked.
const KEPT_ON_A_SHARE: [&str; 3] = ["append", "overwrite", "dsync-append"];

fn a_share_of_samba_is_used_as_it_was_asked_for() {
    let sandbox = Sandbox::new();
    let rest = "mount = \"noatime\"\n[[configurations]]\nname = \"one\"\nfilesystem = \"ext4\"\n\
                kernel = \"debian:6.1\"\nexport = \"async\"\nwsize = \"64k\"\n[[workloads]]\n\
                kind = \"fileserver\"\ntree_size = \"1M\"\nreaders = 1\nwriters = 1\nramp = \"300ms\"\n\
                window = \"1s\"\n";
    let plan = plan_of("smb", &sandbox, 1, rest);
    let swept = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    let [trial] = &trials(&sandbox)[..] else { panic!("one trial") };
    assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
    let served = &trial["served"];
    assert_eq!((&served["protocol"], &served["export"]), (&json!("smb"), &json!("strict sync = no")));
    let in_force = served["mount_options_in_force"].as_str().expect("options");
    for option in ["vers=3.1.1", "wsize=65536", "noatime"] {
        assert!(in_force.split(',').any(|one| one == option), "{option} in {in_force}");
    }
    assert!(trial["warnings"].to_string().contains("export=async"), "{}", trial["warnings"]);
    let shown =
        describe(&fsdyno(&sandbox, &["recommend", "latest", "--notes"]).output().expect("run fsdyno"));
    assert!(shown.contains("strict sync = no") && shown.contains("//SERVER/SHARE"), "{shown}");

    let rest = "[[configurations]]\nname = \"one\"\nfilesystem = \"ext4\"\nkernel = \"debian:6.1\"\n\
                [[workloads]]\nkind = \"durability\"\nsize = \"320M\"\nmodels = [\"completed\"]\ncuts = 4\n\
                promises = 4\nduration = \"1500ms\"\nunsynced = \"200ms\"\n";
    let plan = plan_of("smb", &sandbox, 1, rest);
    let swept = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    let trial = trials(&sandbox).pop().expect("a trial");
    assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
    let promises = trial["durability"]["models"][0]["promises"].as_array().expect("promises");
    let kept = promises.iter().filter(|one| KEPT_ON_A_SHARE.iter().any(|kept| one["promise"] == *kept));
    let kept: Vec<&Value> = kept.collect();
    assert_eq!(kept.len(), KEPT_ON_A_SHARE.len(), "{promises:?}");
    let made: u64 = kept.iter().filter_map(|one| one["made"].as_u64()).sum();
    assert!(made >= 3, "{kept:?}");
    assert!(kept.iter().all(|one| one["lost"] == 0), "{kept:?}");
}

fn what_cannot_be_served_is_refused() {
    let sandbox = Sandbox::new();
    let rest =
        "[axes]\nfilesystem = [\"ext4\"]\nkernel = \"debian:6.1\"\n[[workloads]]\nkind = \"postmark\"\n";
    let good = plan(&sandbox, 2, rest);
    for (change, said) in [
        ("clients.count=17", "a server has at most 16 clients, not 17"),
        ("axes.kernel=host", "server and clients are guests, and 'ext4' has no kernel for them"),
        ("serve.protocol=ftp", "'ftp'"),
        ("serve.protocol=smb axes.nconnect=4", "nconnect does not apply to smb"),
        ("clients.mount=vers=3", "clients take only these mount options: noatime"),
        ("clients.mount=noatime,../x", "clients take only these mount options: noatime"),
        ("axes.nconnect=17", "nconnect = 17 is out of range (1 to 16)"),
        ("axes.nfs_version=2", "expected one of 3, 4.0, 4.1, 4.2"),
        ("serve.outage=0s", "at least 1s"),
        ("workloads.kind=fileserver serve.outage=40s workloads.window=50s", "make it 1m 20s or longer"),
        ("workloads.kind=durability serve.outage=5s clients.count=1", "'durability' cuts the power itself"),
        ("axes.filesystem=vfat", "vfat cannot be shown by an NFS server"),
        ("clients.mount=actimeo=abc", "'actimeo=abc' of clients: 'abc' is not a whole number"),
        ("clients.mount=noac", "clients take only these mount options: noatime"),
        ("quiesce=1s", "`quiesce` watches devices of this machine only"),
    ] {
        let changes = change.split(' ').flat_map(|one| ["--set", one]);
        let arguments: Vec<&str> = ["plan", good.as_str()].into_iter().chain(changes).collect();
        let refused = fsdyno(&sandbox, &arguments).output().expect("run fsdyno");
        assert_eq!(refused.status.code(), Some(2), "{change}: {}", describe(&refused));
        assert!(describe(&refused).contains(said), "{change}: {}", describe(&refused));
    }
    let alone = rest.replace("[axes]\n", "[axes]\nexport = \"async\"\n");
    let text = format!("[device]\nimage = \"{}\"\nsize = \"256M\"\n{alone}", sandbox.path("x.img").display());
    let plan = sandbox.write("alone.toml", &text).display().to_string();
    let refused = fsdyno(&sandbox, &["plan", &plan]).output().expect("run fsdyno");
    assert!(
        describe(&refused).contains("export is of a filesystem that is served"),
        "{}",
        describe(&refused)
    );
}
