//! Hosts on this machine: a namespace each for the network and the name, on one bridge. They share its files.

use super::{Sandbox, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The hosts `x1`, `x2` and so on; they end when this is dropped.
pub struct Hosts {
    hosts: Vec<Child>,
    bridge: String,
    /// The program in place of `ssh`: `rsh HOST COMMAND...`, with nothing of the environment but PATH.
    pub rsh: PathBuf,
    /// Their network.
    pub network: String,
}

impl Hosts {
    /// Creates so many hosts.
    pub fn new(sandbox: &Sandbox, count: u32) -> Self {
        // The kernel takes its time to remove the links of hosts that have ended.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id() % 100_000 * 100 + NUMBER.fetch_add(1, Ordering::Relaxed) % 100;
        let (bridge, subnet) = (format!("fsb{own}"), format!("10.213.{}", own % 250));
        let mut hosts =
            Hosts { hosts: Vec::new(), bridge, rsh: sandbox.path("rsh"), network: format!("{subnet}.0/24") };
        let bridge = hosts.bridge.clone();
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["addr", "add", &format!("{subnet}.254/24"), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        for number in 1..=count {
            let name = format!("x{number}");
            let host = Command::new("unshare")
                .args(["--net", "--uts", "sh", "-c", &format!("hostname {name}; exec sleep infinity")])
                .spawn()
                .expect("a namespace");
            let pid = host.id().to_string();
            hosts.hosts.push(host);
            await_namespace(&pid);
            let outside = format!("fs{number}v{own}");
            ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
            ip(&["link", "set", &outside, "master", &bridge, "up"]);
            let address = format!("{subnet}.{number}/24");
            let inside = |arguments: &[&str]| {
                let inside = ["--net", "--target", &pid, "ip"];
                run(Command::new("nsenter").args(inside).args(arguments));
            };
            inside(&["addr", "add", &address, "dev", "eth0"]);
            inside(&["link", "set", "eth0", "up"]);
            inside(&["link", "set", "lo", "up"]);
            sandbox.write(&name, &pid);
        }
        hosts.write_rsh(sandbox, "state");
        hosts
    }

    /// The same with a state of its own on each host, as machines have it: `state-x1` and so on.
    pub fn with_own_states(sandbox: &Sandbox, count: u32) -> Self {
        let hosts = Hosts::new(sandbox, count);
        hosts.write_rsh(sandbox, "state-$host");
        hosts
    }

    fn write_rsh(&self, sandbox: &Sandbox, state: &str) {
        let script = format!(
            "#!/bin/sh\nhost=$1; shift\nexec nsenter --net --uts --target $(cat {}/$host) env -i PATH=$PATH \
             XDG_STATE_HOME={} sh -c \"$*\"\n",
            sandbox.path("").display(),
            sandbox.path(state).display()
        );
        sandbox.write("rsh", &script);
        fs::set_permissions(&self.rsh, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// mpirun on the first so many hosts.
    pub fn mpirun(&self, count: u32) -> String {
        let hosts = (1..=count).map(|number| format!("x{number}:1")).collect::<Vec<_>>().join(",");
        format!(
            "mpirun --allow-run-as-root --mca plm_rsh_agent {} --mca oob_tcp_if_include {} --host {hosts}",
            self.rsh.display(),
            self.network
        )
    }

    /// pdsh on the first so many hosts, which needs a file for the token.
    pub fn pdsh(&self, count: u32) -> String {
        format!("pdsh -R exec -w x[1-{count}] {} %h", self.rsh.display())
    }

    /// The processes of a host whose command line contains a text.
    pub fn processes(&self, number: usize, text: &str) -> Vec<u32> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = namespace(&self.hosts[number].id().to_string());
        let all = fs::read_dir("/proc").expect("processes").flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|pid| pid.parse::<u32>().is_ok() && namespace(pid) == own)
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
            })
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.kill();
            let _ = host.wait();
        }
        let _ = Command::new("ip").args(["link", "del", &self.bridge]).status();
    }
}

fn await_namespace(pid: &str) {
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let named = || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
            && fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|theirs| theirs != own)
    };
    wait_until("the host comes up", named);
}

fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("run ip");
    assert!(output.status.success(), "{command:?}: {}", super::describe(&output));
}
