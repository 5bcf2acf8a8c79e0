//! Messages of engines and guests.

use crate::{sample, show};
use fsdyno_core::{Bytes, EngineEvent};
use fsdyno_guest::wire::News;
use fsdyno_host::channel::understand;
use fsdyno_host::fake::{FakeGuests, FakeHost};
use fsdyno_host::lines::read_line;
use fsdyno_host::local::understand_event;
use fsdyno_host::probe::{DeviceProbe, FileIdentity, LoopInfo, MountInfo};
use fsdyno_host::wire::Request;
use fsdyno_host::{DeviceHandle, EngineOutput, Output};
use fsdyno_sweep::{Plan, dry_run};
use std::path::PathBuf;

/// A sweep on the device that is probed.
const PLAN: &str =
    "[device]\nblock = \"/dev/sdb\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n";

/// Lines of an engine become the result of a trial, which is shown.
pub fn engine(data: &[u8]) {
    let mut trial = sample::empty();
    let (mut input, mut line) = (data, Vec::new());
    while read_line(&mut input, &mut line).is_ok() && !line.is_empty() {
        match understand_event(&line) {
            EngineOutput::Event(event) => match *event {
                EngineEvent::Hello { timer, .. } => trial.timer = Some(timer),
                EngineEvent::Progress { left_ns, .. } => drop(left_ns.to_string()),
                EngineEvent::Filled(filled) => trial.filled = Some(filled),
                EngineEvent::Prepared { duration_ns, trees } => {
                    trial.lifecycle_ns.prepare = Some(duration_ns);
                    trial.trees = trees;
                }
                EngineEvent::Phase(phase) => trial.phases.push(*phase),
                EngineEvent::Layout(layout) => trial.layout = Some(layout),
                EngineEvent::Warning(warning) => trial.warnings.push(warning),
                EngineEvent::Done => break,
                EngineEvent::Failed(failure) => {
                    let _ = failure.to_string();
                    break;
                }
            },
            EngineOutput::Garbage(text) => assert!(text.chars().count() < 1000, "an excerpt is short"),
            other => panic!("a line became {other:?}"),
        }
    }
    show::everything(&[trial]);
}

/// An answer of a guest, of the type that the first byte selects, or news of its engine.
pub fn guest(data: &[u8]) {
    let Some((kind, line)) = data.split_first() else { return };
    let host = "guest";
    match kind % 16 {
        0 => drop(understand::<u32>(host, line)),
        1 => drop(understand::<Output>(host, line)),
        2 => drop(understand::<Option<PathBuf>>(host, line)),
        3 => drop(understand::<String>(host, line)),
        4 => drop(understand::<Vec<String>>(host, line)),
        5 => drop(understand::<Option<FileIdentity>>(host, line)),
        6 => drop(understand::<(Bytes, Bytes)>(host, line)),
        7 => drop(understand::<Vec<LoopInfo>>(host, line)),
        8 => drop(understand::<DeviceHandle>(host, line)),
        9 => drop(understand::<Vec<MountInfo>>(host, line)),
        10 => {
            if let Ok(request) = serde_json::from_slice::<Request>(line) {
                let _ = request.to_string();
            }
        }
        11 => drop(News::understand(line)),
        _ => {
            if let Ok(probe) = understand::<DeviceProbe>(host, line) {
                judge(probe);
            }
        }
    }
}

/// Whatever a device looks like, the guards reach a decision.
fn judge(probe: DeviceProbe) {
    let mut host = FakeHost::new();
    host.add_block("/dev/sdb", (8, 16), Bytes(64 * Bytes::GIB));
    host.blocks.insert("/dev/sdb".into(), probe);
    let plan = Plan::parse(PLAN, "plan.toml", &[]).expect("a plan");
    let run = dry_run(&plan, &mut host, &mut FakeGuests::default());
    assert_eq!(run.cases.len(), 1);
}
