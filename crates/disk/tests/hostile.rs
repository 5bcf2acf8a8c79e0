//! Whatever a model says, reading it ends with an error or with a disk, and whatever is asked of that disk
//! ends.

use fsdyno_disk::{DiskCompletion, DiskModel, DiskOperation, DiskRequest, Simulation};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

const MODELS: usize = 300;
const REQUESTS: u64 = 60;
/// More than any request takes that moves at most a few MiB.
const STEPS: usize = 200_000;

/// A value for the line of a parameter: usual, extreme, or none that a disk can have.
fn value(random: &mut Xoshiro256PlusPlus, line: &str) -> String {
    let pick = |random: &mut Xoshiro256PlusPlus, words: &[&str]| {
        words[random.random_range(0..words.len())].to_string()
    };
    let old = line.split("value = ").nth(1).and_then(|rest| rest.split(", basis").next()).expect("a value");
    match () {
        () if random.random_bool(0.6) => old.to_string(),
        () if old.contains("us\"") || old.contains("ms\"") => {
            pick(random, &["\"0s\"", "\"1ns\"", "\"3us\"", "\"1s\"", "\"10s\"", "\"11s\"", "7"])
        }
        () if old.starts_with('"') => {
            pick(random, &["\"0\"", "\"1\"", "\"512\"", "\"4k\"", "\"64M\"", "\"1T\"", "\"2P\"", "true"])
        }
        () => pick(
            random,
            &["0", "1", "2", "0.5", "1.0", "31", "1000", "65536", "1e5", "1e12", "-1", "nan", "\"8\""],
        ),
    }
}

#[test]
fn whatever_a_model_says_its_requests_end() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(45);
    let mut read = 0;
    for number in 0..MODELS {
        let names: Vec<&str> = DiskModel::own_names().collect();
        let text = DiskModel::own_text(names[number % names.len()]).expect("a model");
        let changed = |line: &str| match line.contains("value = ") && line.contains(", basis") {
            true => {
                let old = line.split("value = ").nth(1).and_then(|rest| rest.split(", basis").next());
                line.replacen(old.expect("a value"), &value(&mut random, line), 1)
            }
            false => line.to_string(),
        };
        let text: Vec<String> = text.lines().map(changed).collect();
        let text = text.join("\n");
        let model = match DiskModel::parse("hostile", &text) {
            Ok(model) => model,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        read += 1;
        let size = 1 << random.random_range(20..40);
        serve(&model, size, &mut random, &text);
    }
    assert!(read > MODELS / 20, "only {read} of {MODELS} could be read");
}

fn serve(model: &DiskModel, size: u64, random: &mut Xoshiro256PlusPlus, text: &str) {
    let mut simulation = Simulation::new(model, size);
    let (mut now_ns, mut steps) = (0.0, 0);
    let mut pending = BTreeSet::new();
    for id in 0..REQUESTS {
        let kind = [DiskOperation::Read, DiskOperation::Write, DiskOperation::Flush, DiskOperation::Discard]
            [random.random_range(0..4)];
        let length = if kind == DiskOperation::Flush { 0 } else { 512 << random.random_range(0..12) };
        let offset = random.random_range(0..size) / 512 * 512;
        let length = if offset + length > size { 512.min(size - offset) } else { length };
        simulation.arrive(DiskRequest { id, kind, offset, length }, now_ns);
        pending.insert(id);
        now_ns += random.random_range(0.0..1e7);
        for DiskCompletion { id, at_ns } in simulation.advance(now_ns) {
            assert!(pending.remove(&id) && at_ns <= now_ns && at_ns >= 0.0, "{id} at {at_ns}\n{text}");
        }
    }
    let mut last_ns = 0.0;
    while !pending.is_empty() {
        let next_ns = simulation.next_ns().unwrap_or_else(|| panic!("{pending:?} never end\n{text}"));
        assert!(next_ns.is_finite(), "{next_ns}\n{text}");
        for DiskCompletion { id, at_ns } in simulation.advance(next_ns) {
            assert!(pending.remove(&id) && at_ns >= last_ns, "{id} at {at_ns} after {last_ns}\n{text}");
            last_ns = at_ns;
        }
        steps += 1;
        assert!(steps < STEPS, "{pending:?} do not end\n{text}");
    }
}
