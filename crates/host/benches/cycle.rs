//! The cost of a trial's devices: attach, probe, open, mount, unmount, detach, each of many rounds on a
//! sparse image of 4 GiB in memory, through `LocalHost` and through `AgentHost`; and one round trip to the
//! agent.
//!
//! `cargo bench -p fsdyno-host`; medians in microseconds, and the least in brackets. mkfs runs once and is
//! not counted.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on may stop")]
#![expect(clippy::print_stdout, reason = "the result")]

use fsdyno_core::Bytes;
use fsdyno_host::agent::{AgentHost, serve};
use fsdyno_host::local::LocalHost;
use fsdyno_host::{Command, Host, ImageHandle, LoopOptions, MountRequest, Steps};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 30;

fn main() {
    let binary = std::env::current_exe().unwrap();
    if std::env::args().nth(1).as_deref() == Some("agent") {
        let host = LocalHost::new(binary, Vec::new());
        std::process::exit(serve(std::io::stdin().lock(), std::io::stdout().lock(), host));
    }
    let mut agent = AgentHost::new(binary.clone(), Vec::new());
    round_trips(&mut agent);
    let hosts: [(&str, Box<dyn Host>); 2] =
        [("LocalHost", Box::new(LocalHost::new(binary, Vec::new()))), ("AgentHost", Box::new(agent))];
    for (name, mut host) in hosts {
        for (filesystem, mkfs) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs")] {
            if host.find_program(mkfs).unwrap().is_some() {
                cycles(name, &mut *host, filesystem, mkfs);
            }
        }
    }
}

fn round_trips(agent: &mut AgentHost) {
    let mut times = Vec::new();
    for _ in 0..2000 {
        let start = Instant::now();
        agent.read_text(Path::new("/proc/sys/kernel/ostype")).unwrap();
        times.push(start.elapsed());
    }
    println!("round trip to the agent: {} us", summary(&mut times));
}

fn cycles(name: &str, host: &mut dyn Host, filesystem: &str, mkfs: &str) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = directory.path().join("image");
    let target = directory.path().join("mnt");
    host.create_directory(&target).unwrap();
    let handle = host.create_image(&image, Bytes(4 * Bytes::GIB)).unwrap().handle;
    assert_eq!(
        host.run(&Command::new(mkfs).args(["-q"]).args([image.display().to_string()])).unwrap().status,
        0
    );
    let mut steps = StepTimes::default();
    for _ in 0..ROUNDS {
        cycle(host, filesystem, handle, &target, &mut steps);
    }
    let mut line = String::new();
    for (step, times) in &mut steps.times {
        line.push_str(&format!("  {step} {}", summary(times)));
    }
    println!("{name} {filesystem}: {} us in all;{line}", summary(&mut steps.whole));
}

fn cycle(host: &mut dyn Host, filesystem: &str, image: ImageHandle, target: &Path, steps: &mut StepTimes) {
    let start = Instant::now();
    let options = LoopOptions { direct_io: true, block_size: 512 };
    let device = steps.time("attach", || host.attach_loop(image, &options).unwrap()).node;
    let probe = steps.time("probe", || host.probe_device(&device).unwrap());
    let handle = steps.time("open", || host.open_device(&device, &probe.identity).unwrap());
    steps.time("verify", || host.verify_device(handle, &probe.identity).unwrap());
    steps.time("close", || host.close_device(handle).unwrap());
    let request = MountRequest {
        filesystem: filesystem.to_string(),
        source: device.clone(),
        device: None,
        options: vec!["noatime".to_string()],
        target: target.to_path_buf(),
    };
    steps.time("mount", || host.mount(&request).unwrap());
    steps.time("mounts", || host.mounts().unwrap());
    steps.time("unmount", || host.unmount(target).unwrap());
    let attached = steps.time("loops", || host.loops().unwrap());
    let attached = attached.iter().find(|one| one.device == device).unwrap();
    steps.time("detach", || host.detach_loop(attached).unwrap());
    steps.whole.push(start.elapsed());
}

#[derive(Default)]
struct StepTimes {
    times: Vec<(&'static str, Vec<Duration>)>,
    whole: Vec<Duration>,
}

impl StepTimes {
    fn time<T>(&mut self, step: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let time = start.elapsed();
        match self.times.iter_mut().find(|(name, _)| *name == step) {
            Some((_, times)) => times.push(time),
            None => self.times.push((step, vec![time])),
        }
        result
    }
}

/// Median and minimum in microseconds.
fn summary(times: &mut [Duration]) -> String {
    times.sort_unstable();
    format!("{} ({})", times[times.len() / 2].as_micros(), times[0].as_micros())
}
