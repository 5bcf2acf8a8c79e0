//! Engines as their parent sees them. This program plays the engine; the seed of the request says which part.

use crate::support::{Sandbox, Test, host};
use fsdyno_core::workload::Null;
use fsdyno_core::{EngineEvent, EngineRequest, Nanos, Progress, TrialStep, Warning, WarningKind, Workload};
use fsdyno_host::{EngineOutput, EngineProcess, Host};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    Test { name: "engine::events_arrive_in_order_and_end", requires: &[], body: events },
    Test { name: "engine::long_lines_and_garbage", requires: &[], body: garbage },
    Test { name: "engine::one_that_listens_ends_when_told", requires: &[], body: obeys },
    Test { name: "engine::one_that_does_not_listen_is_killed", requires: &[], body: deaf },
];

const TALKS: u64 = 0;
const BABBLES: u64 = 1;
const OBEYS: u64 = 2;
const DEAF: u64 = 3;

const LONG: usize = 8 << 20;

/// The engine's part.
pub fn serve() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let request: EngineRequest = serde_json::from_str(&line).unwrap();
    let say = |event: EngineEvent| println!("{}", serde_json::to_string(&event).unwrap());
    match request.seed {
        TALKS => {
            say(progress(0.5));
            say(EngineEvent::Done);
            eprint!("last words");
        }
        BABBLES => {
            say(EngineEvent::Warning(Warning::new(WarningKind::SlowTimer, "x".repeat(LONG))));
            eprintln!("complaint");
            println!("no event at all");
        }
        OBEYS => {
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        _ => std::thread::sleep(Duration::from_secs(1000)),
    }
}

fn progress(done: f64) -> EngineEvent {
    let phase = "1 reader".to_string();
    let at = Progress::at(TrialStep::Ramp);
    EngineEvent::Progress(Progress { phase, done: Some(done), left_ns: Some(Nanos(5)), ..at })
}

fn start(part: u64) -> Box<dyn EngineProcess> {
    let request = EngineRequest::new("/nowhere", Workload::Null(Null::default()), part);
    host().start_engine(&request).unwrap()
}

fn next(engine: &mut dyn EngineProcess) -> EngineOutput {
    engine.next(Duration::from_secs(60))
}

fn events(_: &Sandbox) {
    let mut engine = start(TALKS);
    assert_eq!(next(&mut *engine), EngineOutput::Event(Box::new(progress(0.5))));
    assert_eq!(next(&mut *engine), EngineOutput::Event(Box::new(EngineEvent::Done)));
    assert_eq!(next(&mut *engine), EngineOutput::End("last words".to_string()));
    assert!(engine.stop(Duration::from_secs(60)));
}

fn garbage(_: &Sandbox) {
    let mut engine = start(BABBLES);
    let EngineOutput::Event(event) = next(&mut *engine) else { panic!("no event") };
    assert!(matches!(*event, EngineEvent::Warning(warning) if warning.text.len() == LONG));
    let EngineOutput::Garbage(text) = next(&mut *engine) else { panic!("no garbage") };
    assert!(text.contains("no event at all"), "{text}");
    assert_eq!(next(&mut *engine), EngineOutput::End("complaint\n".to_string()));
    assert!(engine.stop(Duration::from_secs(60)));
}

fn obeys(_: &Sandbox) {
    let mut engine = start(OBEYS);
    assert_eq!(engine.next(Duration::from_millis(20)), EngineOutput::Silence);
    assert!(Path::new(&format!("/proc/{}", engine.pid())).exists());
    assert!(engine.stop(Duration::from_secs(60)));
    assert!(!Path::new(&format!("/proc/{}", engine.pid())).exists());
}

fn deaf(_: &Sandbox) {
    let mut engine = start(DEAF);
    assert!(engine.stop(Duration::from_secs(60)));
    assert!(!Path::new(&format!("/proc/{}", engine.pid())).exists());
    // One that is forgotten does not stay either.
    let forgotten = start(DEAF);
    let pid = forgotten.pid();
    drop(forgotten);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}
