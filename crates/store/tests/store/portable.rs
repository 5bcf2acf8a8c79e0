//! Sweeps as portable files, good ones and hostile ones.

use crate::fixture::{store, sweep, usual_trial};
use fsdyno_core::{Looks, More, Nanos, Outcome, RepeatedBlock, TrialRecord, WarningKind};
use fsdyno_store::{Origin, Store, StoreError, SweepId, SweepState, Twin};
use serde_json::{Value, json};
use std::io::Write;

fn possible(number: u32) -> TrialRecord {
    let mut trial = usual_trial(number);
    // The fixture has figures that no measurement can produce.
    trial.lifecycle_ns = Default::default();
    trial.trees = Default::default();
    trial.filled = None;
    trial.layout = None;
    trial.phases.truncate(0);
    trial.configuration.name = "ext4".to_string();
    trial.outcome = Outcome::Measured;
    trial.block = 0;
    trial.case = 0;
    trial
}

fn packed() -> (tempfile::TempDir, Store, SweepId, Vec<u8>) {
    let (directory, mut store) = store();
    let id = store.create_sweep(&sweep("demo")).unwrap();
    (0..3).for_each(|number| store.add_trial(id, &possible(number)).unwrap());
    store.note_sweep(id, Some("a note")).unwrap();
    assert!(matches!(store.pack(id, Vec::new()), Err(StoreError::Running { .. })));
    store.finish_sweep(id).unwrap();
    let mut file = Vec::new();
    store.pack(id, &mut file).unwrap();
    (directory, store, id, file)
}

fn lines(file: &[u8]) -> Vec<String> {
    let text = String::from_utf8(zstd::decode_all(file).unwrap()).unwrap();
    text.lines().map(str::to_string).collect()
}

fn compressed(lines: &[String]) -> Vec<u8> {
    zstd::encode_all((lines.join("\n") + "\n").as_bytes(), 3).unwrap()
}

#[test]
fn a_sweep_comes_out_of_its_file_as_it_went_in() {
    let (_first, old, id, file) = packed();
    let (_second, mut new) = store();
    new.create_sweep(&sweep("other")).unwrap();
    let unpacked = new.unpack(&file[..], None).unwrap();
    assert_eq!((unpacked.id.0, unpacked.trials, new.twin(unpacked.id).unwrap()), (2, 3, None));
    assert_eq!(new.trials(unpacked.id).unwrap(), old.trials(id).unwrap());
    let (was, is) = (old.sweep(id).unwrap(), new.sweep(unpacked.id).unwrap());
    assert_eq!((&is.plan_toml, &is.overrides, is.seed), (&was.plan_toml, &was.overrides, was.seed));
    assert_eq!((&is.measure, &is.environment), (&was.measure, &was.environment));
    let mut summary = is.summary.clone();
    assert_eq!((summary.origin, summary.state), (Origin::Pack, SweepState::Finished));
    (summary.id, summary.selector, summary.origin) = (id, "1".to_string(), Origin::Run);
    assert_eq!(summary, was.summary);
}

#[test]
fn parts_that_another_version_added_are_passed_on() {
    let (_first, mut old) = store();
    let mut document = serde_json::to_value(possible(0)).unwrap();
    document["humidity"] = json!({ "percent": [40.5, 41] });
    let trial: TrialRecord = serde_json::from_value(document.clone()).unwrap();
    let id = old.create_sweep(&sweep("demo")).unwrap();
    old.add_trial(id, &trial).unwrap();
    old.finish_sweep(id).unwrap();
    let mut file = Vec::new();
    old.pack(id, &mut file).unwrap();
    let (_second, mut new) = store();
    let unpacked = new.unpack(&file[..], None).unwrap();
    let passed_on = new.trials(unpacked.id).unwrap();
    assert_eq!(serde_json::to_value(&passed_on[0]).unwrap(), document);
    assert!(passed_on[0].others.contains_key("humidity"), "{:?}", passed_on[0].others);
}

/// A sweep may be packed before and after it was resumed, and somebody may have changed a file in between.
#[test]
fn looks_travel_with_a_sweep_and_mark_trials_as_they_are_read() {
    let (_kept, mut store, id, _) = packed();
    let block = store.trials(id).unwrap()[0].block;
    let looks = Looks {
        after: vec![4, 5],
        more: vec![More { from: 4, blocks: Some(1), time_ns: None }],
        repeated: vec![RepeatedBlock { block, by: 9, why: vec![WarningKind::ForeignLoad], counts: true }],
    };
    assert_eq!(store.sweep(id).unwrap().looks, Looks::default());
    store.record_looks(id, &looks).unwrap();
    let mut file = Vec::new();
    store.pack(id, &mut file).unwrap();
    let marked = |store: &Store, id| -> Vec<bool> {
        let [whole, outlines] = [store.trials(id).unwrap(), store.outlines(id).unwrap()];
        let is_marked = |trials: &[TrialRecord]| trials.iter().map(TrialRecord::is_measured_again).collect();
        let found: Vec<bool> = is_marked(&whole);
        assert_eq!(found, is_marked(&outlines));
        assert!(whole.iter().all(|trial| trial.is_measured_again() == (trial.block == block)));
        found
    };
    let here = marked(&store, id);
    assert!(here[0], "{here:?}");
    let (_other, mut new) = crate::fixture::store();
    let there = new.unpack(&file[..], None).unwrap().id;
    assert_eq!(new.sweep(there).unwrap().looks, looks);
    assert_eq!(marked(&new, there), here, "once, and not a second time");
    let warnings = new.trials(there).unwrap()[0].warnings.clone();
    assert_eq!(warnings.iter().filter(|one| one.kind == WarningKind::MeasuredAgain).count(), 1);

    // Nobody has looked more often than there are trials.
    let mut lines = lines(&file);
    let often: Vec<String> = (0..40).map(|blocks| blocks.to_string()).collect();
    lines[0] = lines[0].replace("\"after\":[4,5]", &format!("\"after\":[{}]", often.join(",")));
    let error = new.unpack(&compressed(&lines)[..], None).unwrap_err().to_string();
    assert!(error.contains("it was judged more often than it has trials"), "{error}");
}

#[test]
fn copies_of_a_sweep_are_compared() {
    let (_directory, mut store, id, file) = packed();
    let mut twin_of = |file: &[u8]| {
        let copy = store.unpack(file, None).unwrap().id;
        let Twin { id: other, more, fewer, different, is_planned_otherwise } =
            store.twin(copy).unwrap().unwrap();
        assert_eq!(other, id);
        store.delete_sweep(copy).unwrap();
        (more, fewer, different, is_planned_otherwise)
    };
    assert_eq!(twin_of(&file), (0, 0, vec![], false));
    let good = lines(&file);
    let end = |trials: u32| format!("{{\"end_after_trials\":{trials}}}");
    let shorter = [&good[..2], &[end(1)]].concat();
    assert_eq!(twin_of(&compressed(&shorter)), (2, 0, vec![], false));
    let longer = [&good[..4], &[serde_json::to_string(&possible(3)).unwrap(), end(4)]].concat();
    assert_eq!(twin_of(&compressed(&longer)), (0, 1, vec![], false));
    let mut changed = good.clone();
    changed[2] = changed[2].replacen("\"ext4\"", "\"ext3\"", 1);
    assert_eq!(twin_of(&compressed(&changed)), (0, 0, vec![1], false));
    let mut replanned = good.clone();
    replanned[0] = replanned[0].replacen("\"plan_toml\":\"", "\"plan_toml\":\"# ", 1);
    assert_eq!(twin_of(&compressed(&replanned)), (0, 0, vec![], true));
    assert_eq!(store.twin(id).unwrap(), None);
}

#[test]
fn nothing_of_a_hostile_file_is_stored() {
    let (_directory, mut store, _, file) = packed();
    let good = lines(&file);
    let change = |line: usize, change: &dyn Fn(&mut Value)| {
        let mut changed = good.clone();
        let mut value: Value = serde_json::from_str(&changed[line]).unwrap();
        change(&mut value);
        changed[line] = value.to_string();
        compressed(&changed)
    };
    let long = "x".repeat(300);
    let end = good.len() - 1;
    let hostile: Vec<(&str, Vec<u8>, &str)> = vec![
        ("no zstd", b"SQLite format 3\0".to_vec(), "cannot be read"),
        ("empty", Vec::new(), "cannot be read"),
        ("cut off", file[..file.len() - 20].to_vec(), "cannot be read"),
        ("without its end", compressed(&good[..end]), "cut off"),
        ("too few trials", compressed(&[&good[..2], &good[end..]].concat()), "ends after 1 trials"),
        ("more after its end", compressed(&[&good[..], &good[1..2]].concat()), "ends after 3 trials"),
        ("a trial twice", compressed(&[&good[..2], &good[1..]].concat()), "already stored"),
        ("a newer version", change(0, &|head| head["fsdyno_sweep"] = 2.into()), "format version 2"),
        ("a long name", change(0, &|head| head["name"] = long.clone().into()), "300 bytes"),
        ("a number as its name", change(0, &|head| head["name"] = "7".into()), "'7' is a number"),
        ("a name of two lines", change(0, &|head| head["name"] = "a\nb".into()), "line break"),
        (
            "from the future",
            change(0, &|head| head["started"] = "2999-01-01T00:00:00Z".into()),
            "in the future",
        ),
        ("no time", change(0, &|head| head["started"] = "then".into()), "times"),
        ("no measure", change(0, &|head| head["measure"] = "nothing".into()), "measure"),
        ("no seed", change(0, &|head| head["seed"] = "-1".into()), "seed"),
        ("a huge number", change(1, &|trial| trial["trial"] = 4_000_000_000_u32.into()), "too large"),
        (
            "an impossible figure",
            change(1, &|trial| trial["lifecycle_ns"]["mkfs"] = u64::MAX.into()),
            "trial 1: it contains an impossible figure",
        ),
        (
            "a histogram that is none",
            change(1, &|trial| {
                let mut phases = usual_trial(1).phases;
                phases[0].name = "read".to_string();
                phases[0].roles[0].operations[0].histogram = "c29tZXRoaW5nIGVsc2U=".to_string();
                trial["phases"] = serde_json::to_value(&phases[..1]).unwrap();
            }),
            "the histogram of",
        ),
        ("a line without end", bomb(200 << 20), "its first line is too long"),
    ];
    for (what, file, expected) in hostile {
        let error = store.unpack(&file[..], None).unwrap_err().to_string();
        assert!(error.contains(expected) && error.len() < 400, "{what}: {error}");
        assert_eq!(store.sweeps().unwrap().len(), 1, "{what}");
    }
    let possible =
        change(1, &|trial| trial["lifecycle_ns"]["mkfs"] = serde_json::to_value(Nanos(5)).unwrap());
    assert_eq!(store.unpack(&possible[..], None).unwrap().trials, 3);
    let renamed = change(0, &|head| head["name"] = "latest".into());
    assert_eq!(store.unpack(&renamed[..], Some("mine")).unwrap().name, "mine");
}

/// A few kilobytes that expand to this many.
fn bomb(bytes: usize) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let piece = vec![b' '; 1 << 20];
    (0..bytes >> 20).for_each(|_| encoder.write_all(&piece).unwrap());
    let file = encoder.finish().unwrap();
    assert!(file.len() < bytes / 1000);
    file
}
