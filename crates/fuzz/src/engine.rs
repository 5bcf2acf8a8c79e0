//! The JSON lines of an engine, which become the result of a trial and are shown.
//!
//! A first line that is not JSON may name the workload of the trial, because each workload has its own
//! tables.

use crate::{lot, sample, show};
use fsdyno_core::{EngineEvent, Outcome, TrialRecord, Workload};
use fsdyno_host::EngineOutput;
use fsdyno_host::lines::read_line;
use fsdyno_host::local::understand_event;

/// The maximum length of the excerpt that is shown of an invalid line, with the reason, in characters.
const LONGEST_EXCERPT: usize = 1000;

/// Lines of an engine.
pub fn lines(data: &[u8]) {
    let trial = heard(data);
    if trial != sample::empty() {
        show::some(&[trial], lot(data, u64::MAX));
    }
}

/// Reads events until the engine is done, or until a line is not an event.
fn heard(data: &[u8]) -> TrialRecord {
    let mut trial = sample::empty();
    let (mut input, mut line) = (data, Vec::new());
    if let Some((workload, rest)) = workload(data) {
        (trial.workload, input) = (workload, rest);
    }
    while read_line(&mut input, &mut line).is_ok() && !line.is_empty() {
        match understand_event(&line) {
            EngineOutput::Event(event) => match *event {
                EngineEvent::Done => break,
                event => add(&mut trial, event),
            },
            EngineOutput::Garbage(text) => {
                assert!(text.chars().count() < LONGEST_EXCERPT, "an excerpt is short");
                break;
            }
            other => panic!("a line became {other:?}"),
        }
    }
    trial
}

fn add(trial: &mut TrialRecord, event: EngineEvent) {
    match event {
        EngineEvent::Hello { timer, .. } => trial.timer = Some(timer),
        EngineEvent::Filled(filled) => trial.filled = Some(filled),
        EngineEvent::Prepared { duration_ns, trees } => {
            trial.lifecycle_ns.prepare = Some(duration_ns);
            trial.trees = trees;
        }
        EngineEvent::Phase(phase) => trial.phases.push(*phase),
        EngineEvent::Durable { durable, .. } => {
            if let Some(phase) = trial.phases.last_mut() {
                phase.durable = Some(durable);
            }
        }
        EngineEvent::Layout(layout) => trial.layout = Some(layout),
        EngineEvent::Warning(warning) => trial.warnings.push(warning),
        EngineEvent::Failed(error) => trial.outcome = Outcome::Failed { error },
        EngineEvent::Progress(now) => drop(format!("{now:?}")),
        EngineEvent::ReadAgain { read_again, duration_ns } => {
            trial.lifecycle_ns.read_again = Some(duration_ns);
            trial.read_again = Some(read_again);
        }
        EngineEvent::Reached { writers } => drop(format!("{writers:?}")),
        EngineEvent::Ready { .. } | EngineEvent::Observed(_) | EngineEvent::Done => {}
    }
}

/// The workload that the first line names, and what follows it.
fn workload(data: &[u8]) -> Option<(Workload, &[u8])> {
    let end = data.iter().position(|byte| *byte == b'\n')?;
    let workload = Workload::of_kind(std::str::from_utf8(&data[..end]).ok()?)?;
    Some((workload, &data[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// If a seed is no longer valid, fuzzing reaches the code behind it only by chance.
    #[test]
    fn each_seed_is_parsed_to_its_end() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/engine-lines");
        for kind in ["null", "fileserver", "streaming", "bonnie", "postmark", "collection"] {
            let seed = fs::read(format!("{corpus}/seed-{kind}")).expect("a seed");
            let trial = heard(&seed);
            let lines = seed.split(|byte| *byte == b'\n');
            let phases = lines.filter(|line| line.starts_with(b"{\"event\":\"phase\"")).count();
            assert_eq!((trial.workload.kind(), trial.phases.len()), (kind, phases));
            assert!(phases > 0);
        }
        let small = heard(&fs::read(format!("{corpus}/seed-small")).expect("a seed"));
        assert!(small.timer.is_some() && small.filled.is_some() && small.layout.is_some(), "{small:?}");
        assert_eq!(small.warnings.len(), 1);
    }
}
