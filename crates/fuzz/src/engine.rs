//! What an engine says, one JSON line after another: it becomes the result of a trial, which is shown.
//!
//! A first line that is not JSON may name the workload of the trial, since each has tables of its own.

use crate::{lot, sample, show};
use fsdyno_core::{EngineEvent, Outcome, TrialRecord, Workload};
use fsdyno_host::EngineOutput;
use fsdyno_host::lines::read_line;
use fsdyno_host::local::understand_event;

/// Characters of a line that is shown because it is not understood: its beginning, and why.
const LONGEST_EXCERPT: usize = 1000;

/// Lines of an engine.
pub fn lines(data: &[u8]) {
    let trial = heard(data);
    if trial != sample::empty() {
        show::some(&[trial], lot(data, u64::MAX));
    }
}

/// What an engine has said until it was done, or said something that is no event.
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
            other => panic!("no line is {other:?}"),
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
        EngineEvent::Layout(layout) => trial.layout = Some(layout),
        EngineEvent::Warning(warning) => trial.warnings.push(warning),
        EngineEvent::Failed(error) => trial.outcome = Outcome::Failed { error },
        EngineEvent::Progress { left_ns, done, .. } => drop(format!("{left_ns} {:.0} %", done * 100.0)),
        EngineEvent::Done => {}
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

    /// A seed that is not understood any more would leave everything behind it to chance.
    #[test]
    fn each_seed_is_understood_to_its_end() {
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
