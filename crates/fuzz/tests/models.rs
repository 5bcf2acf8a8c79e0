//! The models that come with fsdyno, with values that no disk has.

use fsdyno_disk::DiskModel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MODELS: usize = 300;

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
        match DiskModel::parse("hostile", &text) {
            Ok(_) => read += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        eprintln!("{text}");
        (fsdyno_fuzz::find("disk-model").expect("a target").run)(text.as_bytes());
    }
    assert!(read > MODELS / 20, "only {read} of {MODELS} could be read");
}
