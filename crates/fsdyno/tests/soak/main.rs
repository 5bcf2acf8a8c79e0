//! A soak test on the real machine: random small sweeps on loop devices, next to decoys, each ended in a
//! random way, then `fsdyno restore`. After each, the decoys must be unchanged byte for byte, nothing may be
//! left, and settings must be as they were.
//!
//! `scripts/soak real` runs it; as part of the suite it does nothing. It continues where an earlier soak in
//! the same directory stopped, stops between two runs on Ctrl-C, and finally prints what it found. A run
//! depends only on the seed and its number: `--seed S --first N --runs 1` replays it. Needs root; touches
//! nothing outside its own directory except loop devices on its own files.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers: it prints, and may panic"
)]

mod area;
mod ending;
mod plan;
mod tally;

use area::TestArea;
use ending::Ending;
use plan::{Device, SmallPlan};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::PathBuf;
use std::process::{ExitCode, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tally::Tally;

/// The options on the command line.
struct Asked {
    runs: u64,
    /// A seed other than the stored one starts from the beginning.
    seed: Option<u64>,
    /// Starts at this run, and keeps no state.
    first: Option<u64>,
    guest: bool,
    /// The directory of the soak and of its state.
    directory: PathBuf,
}

impl Asked {
    fn from_args() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        let guest = match arguments.next().as_deref() {
            Some("real") => false,
            Some("guest") => true,
            _ => return None,
        };
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak");
        let mut asked = Asked { runs: 30, seed: None, first: None, guest, directory };
        while let (Some(option), Some(value)) = (arguments.next(), arguments.next()) {
            let number = || value.parse::<u64>().unwrap_or_else(|_| panic!("{option} {value}"));
            match option.as_str() {
                "--runs" => asked.runs = number(),
                "--seed" => asked.seed = Some(number()),
                "--first" => asked.first = Some(number()),
                "--directory" => asked.directory = value.into(),
                other => panic!("unknown option {other}"),
            }
        }
        Some(asked)
    }
}

fn main() -> ExitCode {
    let Some(asked) = Asked::from_args() else {
        println!("this is not part of the suite; run scripts/soak");
        return ExitCode::SUCCESS;
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&interrupt)).expect("a handler");
    }
    std::fs::create_dir_all(&asked.directory).expect("a directory");
    let part = if asked.guest { "guest" } else { "real" };
    let state = asked.directory.join(format!("{part}.json"));
    let mut tally = match asked.first {
        None => Tally::resume(&state, asked.seed),
        Some(first) => Tally::new(asked.seed.expect("--first needs --seed"), first),
    };
    let end = asked.first.unwrap_or(0) + asked.runs;
    println!("{part}: seed {}, runs {} to {end}", tally.seed, tally.next);
    let begin = Instant::now();
    let area = TestArea::new(&asked.directory);
    while tally.next < end && !interrupt.load(Ordering::Relaxed) {
        let number = tally.next;
        let findings = one(&area, &mut tally, asked.guest);
        for finding in &findings {
            println!("run {number}: FOUND {finding}");
        }
        tally.findings.extend(findings.into_iter().map(|finding| format!("run {number}: {finding}")));
        tally.next += 1;
        if asked.first.is_none() {
            tally.keep(&state);
        }
    }
    drop(area);
    tally.seconds += begin.elapsed().as_secs_f64();
    let text = tally.text(part);
    println!("{text}");
    if asked.first.is_none() {
        tally.keep(&state);
        std::fs::write(asked.directory.join(format!("{part}.txt")), &text).expect("write the summary");
    }
    if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Performs one run; returns what it found.
fn one(area: &TestArea, tally: &mut Tally, guest: bool) -> Vec<String> {
    let number = tally.next;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(tally.seed.wrapping_add(number));
    let device = if guest { Device::InGuest } else { Device::any(&mut random) };
    let ending = Ending::any(&mut random, device);
    let scratch = area.scratch(device);
    let plan = SmallPlan::any(&mut random, device, &scratch);
    let before = area.look();
    let ended = ending.run(&mut random, area, &plan, &scratch);
    let restore = || area.fsdyno(&["restore"]).output().expect("run fsdyno");
    let restored = restore();
    let mut findings = ended.findings;
    // A record kept because the store was full waits for room, but the machine is restored anyway.
    let waits =
        |said: &Output| ending == Ending::StoreFull && area::described(said).contains("kept record '");
    if !restored.status.success() && !waits(&restored) {
        findings.push(format!("restore: {}", area::described(&restored)));
    }
    let is_done = |said: &Output| String::from_utf8_lossy(&said.stdout).trim() == "nothing to restore";
    // The disk stays full until everything has been restored.
    let again = restore();
    if !is_done(&again) && !waits(&restored) {
        findings.push(format!("another restore: {}", area::described(&again)));
    }
    drop(ended.filler);
    let last = if waits(&restored) { [restore(), restore()] } else { [again, restore()] };
    if !last[0].status.success() || !is_done(&last[1]) {
        let [first, second] = last.each_ref().map(area::described);
        findings.push(format!("restore with room for everything: {first}; then {second}"));
    }
    findings.extend(area.left(&scratch));
    drop(scratch);
    findings.extend(before.differences(&area.look()));
    area.forget_results();
    if !findings.is_empty() {
        findings.push(format!("{ending:?} on {device:?}, {}", plan.text.replace('\n', "; ")));
        findings.push(format!("the sweep: {}", ended.said));
        area.clean_up();
    }
    println!("run {number}: {device:?}, {ending:?}: {}, restore {}", ended.status, restored.status);
    tally.count(device, ending, &ended.status);
    findings
}
