//! The clock of the day is set while a sweep runs, as by somebody who corrects it. A library in front of the
//! program's own moves that clock for it alone: other tests, and the machine, keep theirs.

use crate::support::{Requirement, Sandbox, describe};
use jiff::Timestamp;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

tests! {
    a_clock_that_is_set_changes_nothing_that_was_measured: &[Requirement::Program("cc")];
}

/// Adds as many seconds as the file `FSDYNO_TEST_CLOCK` says.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    const char *file = getenv("FSDYNO_TEST_CLOCK");
    if (result == 0 && clock == CLOCK_REALTIME && file) {
        char seconds[32] = {0};
        int from = open(file, O_RDONLY | O_CLOEXEC);
        if (from >= 0 && read(from, seconds, sizeof seconds - 1) > 0) now->tv_sec += atol(seconds);
        if (from >= 0) close(from);
    }
    return result;
}
"#;

fn library(sandbox: &Sandbox) -> PathBuf {
    let (source, library) = (sandbox.write("clock.c", MOVED), sandbox.path("clock.so"));
    let mut compile = Command::new("cc");
    let compiled = compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output();
    let compiled = compiled.expect("run cc");
    assert!(compiled.status.success(), "{}", describe(&compiled));
    library
}

/// Two days on in the second trial, and back by more than that in the fourth, in a sweep that may take an
/// hour.
fn a_clock_that_is_set_changes_nothing_that_was_measured() {
    let sandbox = Sandbox::new();
    let (library, clock) = (library(&sandbox), sandbox.write("seconds", "0"));
    std::fs::create_dir(sandbox.path("work")).expect("a directory");
    let at = clock.display();
    let set = sandbox
        .write("set", &format!("case $FSDYNO_TRIAL in 1) echo 172800 >{at};; 3) echo -86400 >{at};; esac\n"));
    let plan = format!(
        "repetitions = 6\ntime_limit = \"1h\"\ntelemetry = false\n[hooks]\nbefore_trial = \"sh {}\"\n[device]\n\
         directory = \"{}\"\n[[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"50ms\"\n",
        set.display(),
        sandbox.path("work").display(),
    );
    let plan = sandbox.write("plan.toml", &plan).display().to_string();
    let run = |arguments: &[&str]| -> Output {
        let mut fsdyno = sandbox.fsdyno(arguments);
        fsdyno.env("LD_PRELOAD", &library).env("FSDYNO_TEST_CLOCK", &clock).output().expect("run fsdyno")
    };
    let swept = run(&["sweep", &plan, "--allow-hooks"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    // What the first trials took must not have used up the limit.
    let more = run(&["sweep", "--more", "2", "--allow-hooks"]);
    assert_eq!(more.status.code(), Some(0), "{}", describe(&more));

    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 8, "{}", describe(&more));
    let time =
        |text: &serde_json::Value| -> Timestamp { text.as_str().expect("a time").parse().expect("RFC 3339") };
    let times: Vec<[Timestamp; 2]> =
        trials.iter().map(|trial| [time(&trial["started"]), time(&trial["finished"])]).collect();
    for [started, finished] in &times {
        let took = Duration::try_from(finished.duration_since(*started)).expect("no time before the start");
        assert!(took < Duration::from_secs(600), "{times:?}");
    }
    let days = |from: usize, to: usize| {
        (times[to][0].duration_since(times[from][0]).as_secs_f64() / 86_400.0).round()
    };
    assert_eq!((days(0, 2), days(2, 4)), (2.0, -3.0), "the clock was set: {times:?}");
}
