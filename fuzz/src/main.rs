//! Runs the target that `FSDYNO_FUZZ_TARGET` names under libFuzzer; without that variable, lists all targets.
//! scripts/fuzz uses both.

#![no_main]

use fsdyno_fuzz::TARGETS;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static BODY: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: choose(),
    |data: &[u8]| BODY.get().expect("libFuzzer initialises a target before it runs it")(data)
);

fn choose() {
    let Ok(name) = std::env::var("FSDYNO_FUZZ_TARGET") else {
        for target in TARGETS {
            println!("{} {} {}", target.name, target.longest, target.seeds.join(" "));
        }
        std::process::exit(0);
    };
    match fsdyno_fuzz::find(&name) {
        Some(target) => BODY.get_or_init(|| target.run),
        None => panic!("unknown target '{name}' in FSDYNO_FUZZ_TARGET"),
    };
}
