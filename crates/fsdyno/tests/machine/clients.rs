//! Loads on several clients, which launchers start: network namespaces as hosts, and agents on this one.

use crate::support::hosts::Hosts;
use crate::support::sick::{Behaviour, Kind, Treatment, mount};
use crate::support::{Requirement, Sandbox, describe, json, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

/// FUSE says that a test uses nothing of this machine that the others use.
const HOSTS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Fuse,
    Requirement::MemoryGroups,
    Requirement::Program("ip"),
    Requirement::Program("nsenter"),
    Requirement::Program("mpirun"),
    Requirement::Program("pdsh"),
];
const ALONE: &[Requirement] = &[Requirement::Root, Requirement::Fuse];
const IN_A_NAMESPACE: &[Requirement] =
    &[Requirement::Root, Requirement::Fuse, Requirement::Program("unshare")];

tests! {
    hosts_under_mpirun_and_pdsh_work_as_one: HOSTS;
    a_lost_client_fails_the_trial_by_name: HOSTS;
    a_sweep_without_one_of_its_clients_can_be_resumed: ALONE;
    clients_can_read_the_same_trees: ALONE;
    a_client_whose_requests_take_longer_is_named: ALONE;
    a_client_whose_filesystem_never_answers_is_named: ALONE;
    a_directory_that_is_not_shared_is_noticed: IN_A_NAMESPACE;
    strangers_change_nothing: ALONE;
    strangers_who_come_while_clients_work_change_nothing: ALONE;
    what_clients_cannot_do_is_refused: &[];
}

/// A bench of a few seconds on this many clients.
fn bench<'a>(count: &'a str, launch: &'a str) -> Vec<&'a str> {
    let sizes = ["--tree-size", "2M", "--window", "500ms", "--ramp", "300ms", "--set", "writer_space=8M"];
    let mut arguments = vec!["bench", "share", "--format", "json", "--clients", count, "--launch", launch];
    arguments.extend(sizes);
    arguments
}

/// A sandbox with the directory that clients share, and a launcher that starts so many agents here.
fn shared(count: u32) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("share")).expect("a directory");
    let start: String = (0..count).map(|rank| format!("PMI_RANK={rank} \"$@\" &\n")).collect();
    (sandbox, start)
}

fn script(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.write("launcher", &format!("#!/bin/sh\n{text}wait\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path.display().to_string()
}

fn phases(document: &Value) -> &Vec<Value> {
    document["trials"][0]["phases"].as_array().expect("phases")
}

fn names(phase: &Value) -> Vec<&str> {
    let clients = phase["clients"].as_array().expect("clients");
    clients.iter().filter_map(|client| client["client"].as_str()).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).expect("a directory").next().is_none()
}

fn hosts_under_mpirun_and_pdsh_work_as_one() {
    let (sandbox, _) = shared(0);
    let hosts = Hosts::new(&sandbox, 3);
    let (mpirun, pdsh) = (hosts.mpirun(3), hosts.pdsh(3));
    for (launch, token) in [(&mpirun, None), (&pdsh, Some("share/.token"))] {
        let mut arguments = bench("3", launch);
        arguments.extend(token.into_iter().flat_map(|file| ["--token-file", file]));
        let output = sandbox.run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        let document = json(&output);
        assert_eq!(phases(&document).len(), 3);
        for phase in phases(&document) {
            assert_eq!(names(phase), ["x1", "x2", "x3"]);
            // What `bench` limits as root, each client limits for itself.
            assert_eq!(phase["memory"]["limit"], 64 << 20, "{}", phase["memory"]);
            let sum = |of: &Value, key: &str| -> u64 {
                of.as_array().expect("a list").iter().filter_map(|one| one[key].as_u64()).sum()
            };
            let roles = phase["roles"].as_array().expect("roles");
            let moved: u64 = roles.iter().filter_map(|role| role["rates"]["bytes"].as_u64()).sum();
            assert_eq!(sum(&phase["clients"], "bytes"), moved);
            assert!(moved > 0);
            let workers: u64 = roles.iter().filter_map(|role| role["workers"].as_u64()).sum();
            assert_eq!(sum(&phase["clients"], "workers"), workers);
            for client in phase["clients"].as_array().expect("clients") {
                assert!(client["clock_before"]["uncertainty_ns"].as_u64() > Some(0), "{client}");
                assert!(client["late_ns"].is_u64() && client["lost"].is_null(), "{client}");
            }
        }
        let of_slowest = &phases(&document)[0]["roles"][0]["operations"][0]["slowest"][0]["path"];
        assert!(of_slowest.as_str().is_some_and(|path| path.starts_with('x')), "{of_slowest}");
        assert!(is_empty(&sandbox.path("share")), "something is left");
        assert!((0..3).all(|host| hosts.processes(host, "fsdyno").is_empty()), "an agent is left");
    }
}

fn a_lost_client_fails_the_trial_by_name() {
    let (sandbox, _) = shared(0);
    let hosts = Hosts::new(&sandbox, 2);
    let pdsh = hosts.pdsh(2);
    let mut arguments = bench("2", &pdsh);
    // Long enough to be lost in.
    arguments.extend(["--token-file", "share/.token", "--window", "20s"]);
    arguments.retain(|argument| *argument != "500ms");
    let position = arguments.iter().position(|argument| *argument == "--window").expect("a window");
    arguments.remove(position);
    let running = sandbox.fsdyno(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = running.expect("run fsdyno");
    // It creates its trees in a directory of its own there. What clients look for to find out whether they
    // share a directory is hidden.
    let has_begun = || {
        let below = fs::read_dir(sandbox.path("share")).expect("a directory").flatten();
        let entries = below.filter_map(|entry| fs::read_dir(entry.path()).ok()).flatten().flatten();
        let trees = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).count();
        trees == 2 && !hosts.processes(1, "fsdyno engine").is_empty()
    };
    wait_until("the second client has begun", has_begun);
    let agents = hosts.processes(1, "--supervised");
    assert_eq!(agents.len(), 1);
    let agent = rustix::process::Pid::from_raw(agents[0] as i32).expect("a process");
    rustix::process::kill_process(agent, rustix::process::Signal::KILL).expect("killed");
    let output = running.wait_with_output().expect("fsdyno ends");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let error = json(&output)["trials"][0]["error"]["message"].as_str().unwrap_or_default().to_string();
    assert!(error.contains("client 'x2' was lost"), "{error}");
    assert!(is_empty(&sandbox.path("share")), "something is left");
    assert!((0..2).all(|host| hosts.processes(host, "fsdyno").is_empty()), "an agent is left");
}

fn in_one_line(output: &Output) -> String {
    describe(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One client makes trees for all, the others only write.
fn clients_can_read_the_same_trees() {
    let (sandbox, start) = shared(3);
    let launch = script(&sandbox, &start);
    let share = sandbox.path("share");
    let swept = |shared: bool| {
        let plan = format!(
            "repetitions = 1\n[device]\ndirectory = \"share\"\n[clients]\ncount = 3\nshare = {shared}\n\
             [[workloads]]\nkind = \"fileserver\"\ntree_size = \"2M\"\nwriter_space = \"4M\"\nreaders = 2\n\
             writers = 1\nramp = \"100ms\"\nwindow = \"500ms\"\n"
        );
        sandbox.write("plan.toml", &plan);
        let mut sweep = sandbox.fsdyno(&["sweep", "plan.toml", "--launch", &launch]);
        let sweep = sweep.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut sweep = sweep.expect("run fsdyno");
        // How many directories of clients had trees to read, and how many had new ones.
        let mut most = [0, 0];
        while sweep.try_wait().expect("a child").is_none() {
            for (most, prefix) in most.iter_mut().zip(["tree-", "new-"]) {
                let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
                let begins = |path: &Path| {
                    entries(path).any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
                };
                let trials = entries(&share).flat_map(|own| entries(&own.path()).collect::<Vec<_>>());
                *most = trials.filter(|client| begins(&client.path())).count().max(*most);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(sweep.wait().expect("a child").success());
        assert!(is_empty(&share), "something is left");
        let document = sandbox.stored();
        assert_eq!(phases(&document).len(), 3);
        for phase in phases(&document) {
            let clients = phase["clients"].as_array().expect("clients");
            assert!(clients.iter().all(|client| client["bytes"].as_u64() > Some(0)), "{phase}");
        }
        let trees = document["trials"][0]["trees"]["bytes"].as_u64().expect("trees");
        let title = "on each of 3 machines, which read the same trees";
        assert_eq!(in_one_line(&sandbox.run(&["show"])).contains(title), shared);
        (most, trees)
    };
    let ((own, of_each), (shared, of_one)) = (swept(false), swept(true));
    let compared = in_one_line(&sandbox.run(&["compare", "1", "2"]));
    assert!(compared.contains("3, which read the same trees"), "{compared}");
    assert_eq!((own, shared), ([3, 3], [1, 3]));
    // Three trees of whole bytes.
    assert_eq!((of_each, of_one), (3 * of_one, (2 << 20) / 3 * 3));
}

/// The second client leaves after the first trial: the trials that need it are there for `--resume`.
fn a_sweep_without_one_of_its_clients_can_be_resumed() {
    let (sandbox, start) = shared(2);
    sandbox.write(
        "plan.toml",
        &POSTMARK.replace("count = 3", "count = 2").replace("[device]", "repetitions = 3\n[device]"),
    );
    let leaving = "PMI_RANK=0 \"$@\" &\nPMI_RANK=1 \"$@\" & second=$!\n\
                   while [ ! -e first-trial ]; do sleep 0.01; done\nkill -9 $second\n";
    let launcher = script(&sandbox, leaving);
    let hook = format!("hooks.after_trial=touch {}", sandbox.path("first-trial").display());
    let options = ["--format", "json", "--allow-hooks", "--set", &hook, "--launch", &launcher];
    let output = sandbox.run(&[&["sweep", "plan.toml"], &options[..]].concat());
    let heard = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(heard.contains("was lost: ") && heard.contains("; the sweep stops"), "{heard}");
    let before = json(&output)["trials"].as_array().expect("trials").len();
    assert!(before < 3, "{heard}");
    let launcher = script(&sandbox, &start);
    let output = sandbox.run(&[
        "sweep",
        "plan.toml",
        "--resume",
        "--allow-hooks",
        "--format",
        "json",
        "--launch",
        &launcher,
    ]);
    assert_eq!(json(&output)["trials"].as_array().map(Vec::len), Some(3), "{}", describe(&output));
    assert!(is_empty(&sandbox.path("share")), "something is left");
}

const POSTMARK: &str = "name = \"pool\"\n[device]\ndirectory = \"share\"\n[clients]\ncount = 3\n[[workloads]]\n\
                        kind = \"postmark\"\nnumber = 20\ntransactions = 60\n";

/// Writes of the second client take 20 ms: it is the one that the result names.
fn a_client_whose_requests_take_longer_is_named() {
    let (sandbox, start) = shared(3);
    fs::remove_dir(sandbox.path("share")).expect("it is empty");
    let launcher = script(&sandbox, &start);
    sandbox.write("plan.toml", POSTMARK);
    let behaviour = Behaviour::healthy();
    let _sick = mount(&sandbox.path("share"), &behaviour);
    let sweep = || {
        let output = sandbox.run(&["sweep", "plan.toml", "--format", "json", "--launch", &launcher]);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        json(&output)
    };
    let seed = sweep()["trials"][0]["seed"].as_u64().expect("a seed");
    let second = format!("fsdyno-{:016x}", seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    let delay = Duration::from_millis(20);
    behaviour.treat(move |asked| {
        let is_second = asked.path.iter().any(|name| name == second.as_str());
        match asked.kind == Kind::Write && is_second {
            true => Treatment::Slow(delay),
            false => Treatment::Healthy,
        }
    });
    let document = sweep();
    let phase = phases(&document).iter().find(|phase| phase["name"] == "transactions").expect("a phase");
    let clients = phase["clients"].as_array().expect("clients");
    let stalls: Vec<u64> = clients.iter().filter_map(|client| client["longest_stall_ns"].as_u64()).collect();
    let active: Vec<u64> = clients.iter().filter_map(|client| client["active_ns"].as_u64()).collect();
    assert!(u128::from(stalls[1]) >= delay.as_nanos(), "{stalls:?}");
    assert!(active[1] > 2 * active[0].max(active[2]), "{active:?}");
    let slowest = &phase["roles"][0]["operations"].as_array().expect("operations").iter();
    let of_writes = slowest.clone().find(|one| one["operation"] == "write").expect("writes");
    let path = of_writes["slowest"][0]["path"].as_str().unwrap_or_default();
    assert!(path.contains("#2:"), "{path}");
}

/// No write to the trees of one client is answered: the stall of whoever writes there is at least the rest of
/// the window, and the others are measured as ever.
fn a_client_whose_filesystem_never_answers_is_named() {
    let (sandbox, start) = shared(3);
    fs::remove_dir(sandbox.path("share")).expect("it is empty");
    let launcher = script(&sandbox, &start);
    let behaviour = Behaviour::healthy();
    let _sick = mount(&sandbox.path("share"), &behaviour);
    let plan = "name = \"hung\"\nwatchdog = \"2s\"\n[device]\ndirectory = \"share\"\n[clients]\ncount = 3\n[[workloads]]\n\
                kind = \"fileserver\"\ntree_size = \"1M\"\nreaders = 1\nwriters = 1\n\
                writer_space = \"64M\"\nramp = \"300ms\"\nwindow = \"1s\"\ndrain_limit = \"1s\"\n";
    sandbox.write("plan.toml", plan);
    let running = sandbox.fsdyno(&["sweep", "plan.toml", "--format", "json", "--launch", &launcher]);
    let running = { running }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run fsdyno");
    // Writers write to a place of their own, `new-0`: whoever writes first is held from then on.
    let mut held: Option<std::ffi::OsString> = None;
    behaviour.treat(move |asked| {
        let mut names = asked.path.iter();
        let base = names.find(|name| name.to_string_lossy().len() == "fsdyno-0123456789abcdef".len());
        let is_of_writer = names.next().is_some_and(|name| name.to_string_lossy().starts_with("new-"));
        match base {
            Some(base) if asked.kind == Kind::Write && is_of_writer => {
                match held.get_or_insert_with(|| base.to_os_string()) == base {
                    true => Treatment::Held,
                    false => Treatment::Healthy,
                }
            }
            _ => Treatment::Healthy,
        }
    });
    let output = running.wait_with_output().expect("fsdyno ends");
    behaviour.release();
    // Its engine could not be killed, so that its trees could not be removed: that is told, and done later.
    let heard = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let stuck = heard.lines().find(|line| line.contains("left behind: engine process")).unwrap_or_default();
    assert!(stuck.contains("on client '"), "{heard}");
    let restored = sandbox.run(&["restore"]);
    assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
    assert!(is_empty(&sandbox.path("share")), "something is left");
    let document = json(&output);
    let phase = phases(&document).last().expect("a phase");
    let clients = phase["clients"].as_array().expect("clients");
    let hung: Vec<&Value> =
        clients.iter().filter(|client| client["longest_stall_at_least"] == true).collect();
    assert_eq!(hung.len(), 1, "{}", phase["clients"]);
    assert!(hung[0]["longest_stall_ns"].as_u64() >= Some(1_000_000_000), "{}", hung[0]);
    assert!(clients.iter().all(|client| client["completed"].as_u64() > Some(0)), "{}", phase["clients"]);
}

fn a_directory_that_is_not_shared_is_noticed() {
    let (sandbox, _) = shared(0);
    let share = sandbox.path("share").display().to_string();
    let apart = format!(
        "PMI_RANK=0 \"$@\" &\nPMI_RANK=1 unshare -m sh -c 'mount -t tmpfs none {share} && exec \"$@\"' sh \"$@\" &\n"
    );
    let launcher = script(&sandbox, &apart);
    let output = sandbox.run(&bench("2", &launcher));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{}", describe(&output));
    assert!(error.contains("has just created it there: is it shared?"), "{error}");
    assert!(is_empty(&sandbox.path("share")), "something is left");
}

/// Whoever connects without the token hears nothing and holds up nobody.
fn strangers_change_nothing() {
    let (sandbox, start) = shared(2);
    let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
    let launcher = script(&sandbox, &format!("while [ ! -e go ]; do sleep 0.05; done\n{start}"));
    let listen = format!("127.0.0.1:{port}");
    let mut arguments = bench("2", &launcher);
    arguments.extend(["--listen", &listen]);
    let running = sandbox.fsdyno(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = running.expect("run fsdyno");
    let connect = || TcpStream::connect(("127.0.0.1", port));
    wait_until("somebody listens", || connect().is_ok());
    let said: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n\r\n", b"{\"proof\":\"00\"}\n", &[0xff; 9000]];
    let strangers: Vec<TcpStream> = (0..300)
        .filter_map(|number| {
            let mut stream = connect().ok()?;
            // Some say nothing at all.
            let _ = said.get(number % 4).map(|words| stream.write_all(words));
            Some(stream)
        })
        .collect();
    sandbox.write("go", "");
    let output = running.wait_with_output().expect("fsdyno ends");
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert_eq!(phases(&json(&output)).len(), 3);
    for mut stranger in strangers {
        let mut heard = Vec::new();
        let _ = stranger.read_to_end(&mut heard);
        assert!(heard.is_empty(), "{}", String::from_utf8_lossy(&heard));
    }
}

/// They come as long as it runs, say garbage or repeat what they heard from others, and keep some of their
/// connections.
fn strangers_who_come_while_clients_work_change_nothing() {
    let (sandbox, start) = shared(2);
    let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
    let launcher = script(&sandbox, &start);
    let listen = format!("127.0.0.1:{port}");
    let mut arguments = bench("2", &launcher);
    arguments.extend(["--listen", &listen]);
    let mut running = sandbox.fsdyno(&arguments);
    let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run fsdyno");
    let ended = std::sync::atomic::AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept = Vec::new();
            for number in 0.. {
                if ended.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let greeting = format!("{{\"nonce\":\"{}\"}}\n", "00".repeat(32));
                let said: [&[u8]; 4] = [b"\n\n\n", greeting.as_bytes(), &[0; 70_000], b""];
                let _ = stream.set_write_timeout(Some(Duration::from_millis(20)));
                let _ = stream.write_all(said[number % 4]);
                kept.push(stream);
                if kept.len() > 200 {
                    kept.remove(0);
                }
            }
        });
        let output = running.wait_with_output().expect("fsdyno ends");
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert_eq!(phases(&json(&output)).len(), 3);
    assert!(is_empty(&sandbox.path("share")));
}

fn what_clients_cannot_do_is_refused() {
    let (sandbox, _) = shared(0);
    let refused = |plan: &str, options: &[&str], words: &str| {
        sandbox.write("plan.toml", plan);
        let output = sandbox.run(&[&["sweep", "plan.toml"], options].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(error.contains(words), "{words}: {error}");
        assert!(error.contains("hint: "), "{error}");
    };
    let launch = ["--launch", "false"];
    refused(POSTMARK, &[], "the plan wants 3 clients, and there are 0");
    refused(POSTMARK, &launch, "0 of 3 machines joined: the launcher ended");
    refused(POSTMARK, &["--launch", "no-such-launcher -N3"], "cannot run the launcher 'no-such-launcher'");
    refused(POSTMARK, &["--launch", "srun 'a"], "is not a command");
    refused(
        &POSTMARK.replace("[clients]\ncount = 3\n", ""),
        &launch,
        "starts clients, and the plan has none",
    );
    refused(
        &format!("quiesce = \"9s\"\n{POSTMARK}"),
        &launch,
        "`quiesce` watches devices of this machine only",
    );
    let image = POSTMARK.replace("directory = \"share\"", "image = \"/var/tmp/x.img\"\nsize = \"64M\"");
    refused(&format!("axes.filesystem = \"ext4\"\n{image}"), &launch, "they share a directory");
    let sharing = POSTMARK.replace("count = 3\n", "count = 3\nshare = true\n");
    refused(&sharing, &launch, "they can share the trees of fileserver only");
    let of_device =
        POSTMARK.replace("kind = \"postmark\"\nnumber = 20\ntransactions = 60", "kind = \"device-read\"");
    refused(&of_device, &launch, "device");
}
