//! The host in a process of its own: what hangs is given up, what dies takes its children along.

use crate::support::Requirement::{Filesystem, Fuse, Loop, Program, Root};
use crate::support::{Sandbox, Test, binary, detach, request};
use fsdyno_host::agent::AgentHost;
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::Room;
use fsdyno_host::{Command, Host, HostError, Limits, LoopOptions, Steps};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::CString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const TESTS: &[Test] = &[
    Test {
        name: "agent::does_what_this_machine_does",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4"), Program("wipefs")],
        body: whole_cycle,
    },
    Test { name: "agent::errors_arrive_whole", requires: &[], body: errors },
    Test {
        name: "agent::a_hanging_step_is_given_up",
        requires: &[Root, Loop, Program("wipefs")],
        body: hanging_step,
    },
    Test { name: "agent::steps_can_be_given_less_time", requires: &[], body: less_time },
    Test { name: "agent::who_loses_patience_gets_an_answer", requires: &[], body: lost_patience },
    Test { name: "agent::one_that_cannot_be_killed_is_abandoned", requires: &[Root, Fuse], body: unkillable },
    Test { name: "agent::a_command_that_takes_too_long_is_killed", requires: &[], body: long_command },
    Test { name: "agent::ctrl_c_reaches_only_the_parent", requires: &[], body: process_groups },
    Test { name: "agent::one_that_dies_is_replaced", requires: &[], body: dies },
    Test { name: "agent::what_is_held_is_inherited", requires: &[], body: held },
    Test { name: "agent::commands_die_with_their_parent", requires: &[], body: parent_dies },
];

pub fn agent() -> AgentHost {
    AgentHost::new(binary(), vec![("the store".to_string(), PathBuf::from("/dev/shm/results.db"))])
}

pub fn impatient() -> AgentHost {
    let short = Duration::from_millis(500);
    agent().with_limits(Limits { step: short, flush: short, tree: short })
}

fn whole_cycle(sandbox: &Sandbox) {
    let mut host = agent();
    let image = sandbox.path("image");
    let made = host.create_image(&image, fsdyno_core::Bytes(64 << 20)).unwrap();
    assert_eq!(host.file_identity(&image).unwrap().as_ref(), Some(&made.identity));
    let options = LoopOptions { direct_io: false, block_size: 512 };
    let device = host.attach_loop(made.handle, &options).unwrap().node;
    let probe = host.probe_device(&device).unwrap();
    assert!(probe.uses.is_empty() && probe.unknown.is_empty(), "{probe:?}");
    change_a_setting(&mut host, probe.identity.number);
    let handle = host.open_device(&device, &probe.identity).unwrap();
    let output = host.run(&Command::new("mkfs.ext4").args(["-q"]).device("", handle, &device)).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
    host.verify_device(handle, &probe.identity).unwrap();
    host.close_device(handle).unwrap();
    let target = sandbox.path("mnt");
    host.create_directory(&target).unwrap();
    let error = host.mount(&request("ext4", &device, &target, &["nosuchoption"])).unwrap_err();
    assert!(
        matches!(&error, HostError::Mount { option: Some(option), .. } if option == "nosuchoption"),
        "{error}"
    );
    host.mount(&request("ext4", &device, &target, &["noatime"])).unwrap();
    assert!(host.mounts().unwrap().iter().any(|mount| mount.target == target));
    assert!(host.list_directory(&target).unwrap().contains(&"lost+found".to_string()));
    let Room { free, size: whole, .. } = host.room(&target).unwrap();
    assert!(free.0 > 0 && free < whole && whole.0 < 64 << 20);
    host.unmount(&target).unwrap();
    host.remove_directory(&target).unwrap();
    let attached = host.loops().unwrap().into_iter().find(|one| one.device == device).unwrap();
    host.detach_loop(&attached).unwrap();
    host.rename_image(made.handle, &sandbox.path("renamed")).unwrap();
    host.close_image(made.handle).unwrap();
    host.remove_file(&sandbox.path("renamed"), &made.identity).unwrap();
}

/// A device number is a link in sysfs, which leads to the device.
fn change_a_setting(host: &mut AgentHost, (major, minor): (u32, u32)) {
    let path = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/queue/read_ahead_kb"));
    let before = host.read_setting(&path).unwrap();
    host.change_setting(&path, "64").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "64\n");
    host.change_setting(&path, &before).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    let real = fs::canonicalize(&path).unwrap();
    assert!(real.starts_with("/sys/devices"));
    host.change_setting(&real, &before).unwrap();
}

fn errors(sandbox: &Sandbox) {
    let mut host = agent();
    let (one, two) = (sandbox.path("one"), sandbox.path("two"));
    fs::write(&one, "one").unwrap();
    fs::write(&two, "two").unwrap();
    let exists = Some(17);
    assert_eq!(host.create_image(&one, fsdyno_core::Bytes(1)).unwrap_err().errno(), exists);
    let made = host.create_image(&sandbox.path("three"), fsdyno_core::Bytes(1)).unwrap();
    assert_eq!(host.rename_image(made.handle, &two).unwrap_err().errno(), exists);
    assert_eq!(host.create_directory(&one).unwrap_err().errno(), exists);
    for error in [host.change_setting(&two, "x").unwrap_err(), host.read_setting(&two).unwrap_err()] {
        assert!(error.to_string().starts_with("cannot use as a setting"), "{error}");
    }
    assert_eq!(
        (fs::read_to_string(&one).unwrap(), fs::read_to_string(&two).unwrap()),
        ("one".into(), "two".into())
    );
    assert_eq!(host.read_text(&two).unwrap(), "two");
    assert_eq!(host.file_identity(&sandbox.path("nothing")).unwrap(), None);
    let missing = host.run(&Command::new("no-such-program")).unwrap_err();
    assert_eq!(missing, HostError::NoProgram { program: "no-such-program".to_string() });
    assert_eq!(host.find_program("no-such-program").unwrap(), None);
    let not_utf8 = PathBuf::from(std::ffi::OsString::from(String::from("/x")))
        .join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&[0xff]));
    assert!(matches!(host.read_text(&not_utf8), Err(HostError::System { errno: 0, .. })));
}

/// Opening a FIFO waits for its other end for ever.
fn hanging_step(sandbox: &Sandbox) {
    let fifo = sandbox.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let device = sandbox.device("image", 64);
    let mut host = impatient();
    let identity = host.probe_device(&device).unwrap().identity;
    let handle = host.open_device(&device, &identity).unwrap();
    let error = host.read_text(&fifo).unwrap_err();
    assert_eq!(error, HostError::Hung { action: format!("reading '{}'", fifo.display()), seconds: 0 });
    assert!(host.read_text(Path::new("/proc/version")).is_ok());
    assert!(host.hanging().is_empty());
    assert_eq!(host.verify_device(handle, &identity).unwrap_err().errno(), Some(9));
    // Its lock went with the old agent, and the new one numbers its handles otherwise.
    let again = host.open_device(&device, &identity).unwrap();
    assert_ne!(again, handle);
    host.close_device(again).unwrap();
    detach(&device);
}

fn less_time(sandbox: &Sandbox) {
    let fifo = sandbox.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let two = Duration::from_secs(2);
    let limits = Limits { step: two, flush: two, tree: two };
    let mut host = agent().with_limits(limits);
    for (limit, seconds) in
        [(Some(Duration::from_millis(300)), 0), (Some(Duration::from_secs(60)), 2), (None, 2)]
    {
        host.limit_steps(limit);
        let error = host.read_text(&fifo).unwrap_err();
        assert_eq!(error, HostError::Hung { action: format!("reading '{}'", fifo.display()), seconds });
    }
}

fn lost_patience(sandbox: &Sandbox) {
    let fifo = sandbox.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let hurry = Arc::new(AtomicBool::new(false));
    let mut host = agent().hurried_by(Arc::clone(&hurry));
    assert!(host.read_text(Path::new("/proc/version")).is_ok());
    // The step would take a minute to be given up.
    let second = std::thread::spawn(move || hurry.store(true, Ordering::Relaxed));
    let error = host.read_text(&fifo).unwrap_err();
    second.join().unwrap();
    let HostError::Hung { action, seconds } = &error else { panic!("{error}") };
    assert!(action.contains("fifo") && *seconds < 60, "{error}");
    // What follows is not given up for that.
    assert!(host.read_text(Path::new("/proc/version")).is_ok());
}

/// A FUSE filesystem that takes a request and never answers holds its caller in the kernel, deaf to SIGKILL.
fn unkillable(sandbox: &Sandbox) {
    let target = sandbox.directory("mnt");
    let mut fuse = Mute::mount(&target);
    let server = std::thread::spawn(move || {
        fuse.answer_init();
        fuse.take_one();
        fuse
    });
    let mut host = impatient();
    let error = host.room(&target).unwrap_err();
    assert!(matches!(error, HostError::Hung { .. }), "{error}");
    assert_eq!(host.hanging().len(), 1);
    assert!(host.read_text(Path::new("/proc/version")).is_ok());
    rustix::mount::unmount(&target, UnmountFlags::DETACH).unwrap();
    drop(server.join().unwrap());
    while !host.hanging().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The least of a FUSE server (`include/uapi/linux/fuse.h`).
struct Mute(fs::File);

impl Mute {
    fn mount(target: &Path) -> Self {
        let connection =
            rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", connection.as_raw_fd());
        let options = CString::new(options).unwrap();
        rustix::mount::mount("fsdyno-test", target, "fuse", MountFlags::empty(), &*options).unwrap();
        Mute(connection.into())
    }

    /// Takes a request; gives its number.
    fn take_one(&mut self) -> [u8; 8] {
        let mut buffer = vec![0; 1 << 20];
        let length = self.0.read(&mut buffer).unwrap();
        assert!(length >= 40, "a request has a header of 40 bytes");
        buffer[8..16].try_into().unwrap()
    }

    fn answer_init(&mut self) {
        let unique = self.take_one();
        let mut answer = Vec::new();
        answer.extend(80_u32.to_ne_bytes()); // length of it all: header 16, fuse_init_out 64
        answer.extend(0_i32.to_ne_bytes());
        answer.extend(unique);
        answer.extend([7_u32.to_ne_bytes(), 31_u32.to_ne_bytes()].concat());
        answer.resize(80, 0);
        answer[36..40].copy_from_slice(&4096_u32.to_ne_bytes()); // max_write
        self.0.write_all(&answer).unwrap();
    }
}

fn long_command(_: &Sandbox) {
    let mut host = agent();
    let mut command = Command::new("sleep").args(["1000"]);
    command.limit = Duration::from_millis(100);
    let error = host.run(&command).unwrap_err();
    assert_eq!(error, HostError::Hung { action: "'sleep 1000'".to_string(), seconds: 0 });
    assert!(host.run(&Command::new("true")).is_ok());
}

/// The terminal signals its foreground process group, which is ours and no longer that of the agent or its
/// commands.
fn process_groups(_: &Sandbox) {
    let group_of = |process: &str| format!("cut -d' ' -f5 /proc/{process}/stat");
    let script = format!("{}; {}", group_of("$$"), group_of("$PPID"));
    let groups = agent().run(&Command::new("sh").args(["-c", &script])).unwrap().stdout;
    let ours = rustix::process::getpgrp().as_raw_nonzero().to_string();
    let groups: Vec<&str> = groups.lines().collect();
    assert!(groups.len() == 2 && groups[0] != groups[1] && !groups.contains(&ours.as_str()), "{groups:?}");
}

fn dies(_: &Sandbox) {
    let mut host = agent();
    let pid = host.run(&Command::new("sh").args(["-c", "echo $PPID"])).unwrap().stdout;
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let error = host.mounts().unwrap_err();
    assert!(matches!(&error, HostError::Lost { reason, .. } if reason.contains("SIGKILL")), "{error}");
    assert!(host.mounts().is_ok());
}

/// Checks that the agent and a command have a held file open; `ls` names the file behind each descriptor.
fn held(sandbox: &Sandbox) {
    let path = sandbox.path("lock");
    let mut host = agent();
    let open = |host: &mut AgentHost| {
        let said =
            host.run(&Command::new("sh").args(["-c", "echo $PPID; ls -l /proc/$$/fd"])).unwrap().stdout;
        let agent = said.lines().next().unwrap();
        let agents = fs::read_dir(format!("/proc/{agent}/fd")).unwrap().flatten();
        let of_agent = agents.filter(|fd| fs::read_link(fd.path()).is_ok_and(|file| file == path)).count();
        of_agent + said.matches(&*path.to_string_lossy()).count()
    };
    assert_eq!(open(&mut host), 0);
    let lock = fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    host.hold(Arc::new(lock.into()));
    assert_eq!(open(&mut host), 2, "the agent has it, and so has what it runs");
    drop(host);
    fs::File::open(&path).unwrap().try_lock().expect("nobody is left");
}
/// Kills a process that runs a command, by itself and by an agent: the command is gone, and so is the agent.
fn parent_dies(_: &Sandbox) {
    for (how, seconds) in [("local", "1000.0625"), ("agent", "1000.03125")] {
        let mut victim = std::process::Command::new(binary()).args(["victim", how, seconds]).spawn().unwrap();
        let sleeps = || processes("sleep", seconds);
        while sleeps().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let agents = children(victim.id());
        assert_eq!(agents.len(), 1);
        victim.kill().unwrap();
        victim.wait().unwrap();
        while !sleeps().is_empty() || agents.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a command and waits for it, until the program is killed.
pub fn be_killed() {
    let arguments: Vec<String> = std::env::args().collect();
    let command = Command::new("sleep").args([arguments[3].clone()]);
    let output = match arguments[2].as_str() {
        "agent" => AgentHost::new(binary(), Vec::new()).run(&command),
        _ => LocalHost::new(binary(), Vec::new()).run(&command),
    };
    panic!("nobody killed us: {output:?}");
}

/// Processes of a program with this one argument.
fn processes(program: &str, argument: &str) -> Vec<u32> {
    let end = format!("{program}\0{argument}\0");
    let all = fs::read_dir("/proc").unwrap().flatten();
    let same = all
        .filter(|one| fs::read(one.path().join("cmdline")).is_ok_and(|line| line.ends_with(end.as_bytes())));
    same.filter_map(|one| one.file_name().to_str()?.parse().ok()).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
