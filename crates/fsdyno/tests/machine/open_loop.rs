//! Roles with a rate: an injected pause, and everything that shows one.

use crate::engine_fuse::{role, row, run};
use crate::support::sick::{Behaviour, Kind, Treatment};
use crate::support::{Requirement, Sandbox};
use fsdyno_core::result::Quantile;
use fsdyno_core::workload::{
    Act, Arrivals, Choice, FileSet, FileSize, Flags, Flow, FlowRole, FlowStep, Pace, Ramp, Rate, flow,
};
use fsdyno_core::{Bytes, EngineEvent, Nanos, Operation, Progress, Role, TrialStep, Workload};
use std::fs;
use std::time::{Duration, Instant};

tests! {
    a_pause_of_half_a_second_shows_only_in_an_open_loop: &[Requirement::Root, Requirement::Fuse, Requirement::Quiet];
    a_rate_is_shown_by_every_command: &[];
    the_highest_rate_is_found_and_recommended: &[];
}

const MILLISECOND: f64 = 1e6;
const PER_SECOND: f64 = 500.0;
const WINDOW: Nanos = Nanos::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(500);

/// A client that syncs one file at a rate, and a writer that syncs another one over and over.
fn two_loops() -> Flow {
    let handle = || "file".to_string();
    let step = |act| FlowStep { act, probability: 1.0 };
    let set = |name: &str| FileSet {
        name: name.to_string(),
        count: 1,
        size: FileSize::exactly(Bytes(4096)),
        per_directory: None,
        prefill: 1.0,
        private: false,
        limit: Bytes(Bytes::MIB),
    };
    let of = |role, set: &str, rate, mut acts: Vec<Act>| {
        let open = Act::Open {
            set: set.to_string(),
            choose: Choice::Next,
            handle: handle(),
            flags: Flags::default(),
        };
        acts.insert(0, Act::Fsync { handle: handle() });
        FlowRole {
            rate,
            begin: vec![step(open)],
            steps: acts.into_iter().map(step).collect(),
            ..FlowRole::of(role)
        }
    };
    let rate = Some(Pace::At(Rate { per_second: PER_SECOND, arrivals: Arrivals::Constant }));
    let think = vec![Act::Think { time: Nanos(500_000) }];
    Flow {
        files: flow::FileSets(vec![set("asked"), set("own")]),
        roles: flow::FlowRoles(vec![
            of(Role::Client, "asked", rate, Vec::new()),
            of(Role::Writer, "own", None, think),
        ]),
        ramp: Ramp::For(Nanos::from_millis(100)),
        window: WINDOW,
        ..Flow::default()
    }
}

/// A pause of P keeps everything waiting that is due in it: the first for P, the last not at all. In a window
/// of T, the share q of all iterations responds within P - (1 - q) T, whatever the rate, and a little later
/// because the worker has to catch up.
fn a_pause_of_half_a_second_shows_only_in_an_open_loop() {
    let (behaviour, mut has_begun) = (Behaviour::healthy(), false);
    let events = run(
        &behaviour,
        |request| request.workload = Workload::Flow(two_loops()),
        |event| {
            let measures = matches!(event, EngineEvent::Progress(Progress { step: TrialStep::Measure, .. }));
            if measures && !std::mem::replace(&mut has_begun, measures) {
                let begin = Instant::now() + Duration::from_millis(700);
                behaviour.treat(move |asked| {
                    let now = Instant::now();
                    match asked.kind == Kind::Fsync && now >= begin && now < begin + PAUSE {
                        true => Treatment::Slow(begin + PAUSE - now),
                        false => Treatment::Healthy,
                    }
                });
            }
        },
    );
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    let phase = events.iter().find_map(|event| match event {
        EngineEvent::Phase(phase) => Some(&**phase),
        _ => None,
    });
    let phase = phase.expect("a phase");
    let (open, closed) = (role(phase, Role::Client), role(phase, Role::Writer));
    let kept_up = open.open_loop.as_ref().expect("a rate");
    let response = &row(open, Operation::ResponseTime).lat_ns;
    assert_eq!((kept_up.due, kept_up.never_begun, response.count), (1250, 0, 1250));
    let (pause_ms, window_ms) = (PAUSE.as_secs_f64() * 1e3, WINDOW.0 as f64 / MILLISECOND);
    for quantile in [Quantile::P90, Quantile::P99, Quantile::P999] {
        let kept_waiting_ms = (1.0 - quantile.fraction()) * window_ms;
        let theory_ms = pause_ms - kept_waiting_ms;
        let shown_ms = response.shown(quantile).expect("enough of them") as f64 / MILLISECOND;
        let within = theory_ms - 5.0..theory_ms + 0.5 * kept_waiting_ms + 60.0;
        assert!(within.contains(&shown_ms), "{quantile}: {shown_ms} ms, theory {theory_ms} ms");
    }
    let waited = (PER_SECOND * PAUSE.as_secs_f64()) as u64;
    assert!((waited - 10..waited + 100).contains(&kept_up.backlog_max), "{}", kept_up.backlog_max);
    // Beside it: one slow operation each, which p99.9 of thousands does not show.
    let alone = &row(closed, Operation::Fsync).lat_ns;
    assert!(alone.count > 1200, "{alone:?}");
    for hidden in [alone, &row(open, Operation::Fsync).lat_ns, &row(open, Operation::ServiceTime).lat_ns] {
        let (p999, max) = (hidden.quantiles[Quantile::P999] as f64, hidden.max as f64);
        assert!(p999 < 100.0 * MILLISECOND && max > 400.0 * MILLISECOND, "{hidden:?}");
    }
}

fn a_rate_is_shown_by_every_command() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"flow\"\nramp = 0\nwindow = \"500ms\"\n\
         [workloads.files.note]\ncount = 30\nsize = \"4k\"\n\
         [workloads.roles.client]\nworkers = 2\nrate = {{ per_second = 400, arrivals = \"poisson\" }}\n\
         steps = [{{ open = \"note\" }}, {{ read = \"whole\" }}, \"close\"]\n",
        place.path().display(),
    );
    sandbox.write("plan.toml", &plan);
    sandbox.shows(
        &["plan", "plan.toml"],
        &["2 clients together, 400 times a second, at random moments (poisson):"],
    );
    sandbox.sweep(&plan);
    let stored = sandbox.stored();
    sandbox.shows(&["show", "latest"], &["flow-response-p99", "flow, 2 clients at 400/s (poisson)"]);
    let full =
        ["open loop: 400 iterations/s due (poisson)", "response time", "service time", "backlog at most"];
    sandbox.shows(&["show", "latest", "--full"], &full);
    sandbox.shows(&["show", "latest", "--measure", "flow/client/service time/p90"], &["service time"]);
    sandbox.shows(&["recommend", "latest", "--for", "latency"], &["flow"]);
    let report = sandbox.path("report.html").display().to_string();
    sandbox.shows(&["report", "latest", "-o", &report], &[]);
    let page = fs::read_to_string(&report).expect("the report");
    for text in ["open loop: 400", "response time", "service time"] {
        assert!(page.contains(text), "no '{text}' in the report");
    }
    let role = &stored["trials"][0]["phases"][0]["roles"][0];
    let kept_up = &role["open_loop"];
    assert_eq!(
        (kept_up["intended_per_s"].as_f64(), kept_up["arrivals"].as_str()),
        (Some(400.0), Some("poisson"))
    );
    let due = kept_up["due"].as_u64().expect("a number");
    assert!(due.abs_diff(200) < 71, "{due} is five standard deviations off");
    let rows = role["operations"].as_array().expect("rows").iter();
    let response = rows.filter(|row| row["operation"] == "response time").collect::<Vec<_>>();
    assert_eq!(response[0]["lat_ns"]["N"].as_u64(), Some(due));
    let csv = sandbox.run(&["export", "latest", "--kind", "operations", "--format", "csv"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert!(csv.contains("role_achieved_per_s") && csv.contains("response time"), "{csv}");
    // What is wrong is said with its place.
    for (rate, said) in [
        ("0", "iterations per second, from 0.000001 to 1000000"),
        ("\"fast\"", "a number of iterations per second"),
        ("{ per_second = 5, arrivals = \"never\" }", "unknown kind of arrivals 'never'"),
    ] {
        let wrong = plan.replace("{ per_second = 400, arrivals = \"poisson\" }", rate);
        sandbox.write("wrong.toml", &wrong);
        let output = sandbox.run(&["plan", "wrong.toml"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
        assert!(error.contains("wrong.toml:12:"), "{error}");
    }
}

/// Two workers that take 5 ms each complete at most 400 iterations per second.
fn the_highest_rate_is_found_and_recommended() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"flow\"\nramp = \"100ms\"\nwindow = \"500ms\"\n\
         [workloads.files.note]\ncount = 30\nsize = \"4k\"\n\
         [workloads.roles.client]\nworkers = 2\nrate = {{ until = \"p90 <= 50ms\", step = \"100ms\" }}\n\
         steps = [{{ open = \"note\" }}, \"close\", {{ think = \"5ms\" }}]\n",
        place.path().display(),
    );
    sandbox.sweep(&plan);
    let stored = sandbox.stored();
    let kept_up = &stored["trials"][0]["phases"][0]["roles"][0]["open_loop"];
    let search = &kept_up["search"];
    let highest = search["highest_per_s"].as_f64().expect("a rate");
    assert!((100.0..450.0).contains(&highest), "{search}");
    assert_eq!(
        (search["until"].as_str(), kept_up["intended_per_s"].as_f64()),
        (Some("p90 <= 50ms"), Some(highest))
    );
    let points = search["points"].as_array().expect("points");
    assert!(points.len() >= 3 && points.iter().any(|point| point["met"] == true), "{search}");
    let found = [
        "flow-capacity",
        "response times of 2 clients by their rate",
        "The highest rate that met p90 <= 50ms",
    ];
    sandbox.shows(&["show", "latest", "--tables"], &found);
    sandbox.shows(&["recommend", "latest", "--for", "p90 <= 50ms"], &["flow-capacity"]);
    sandbox.shows(
        &["recommend", "latest", "--for", "p99 <= 1ms"],
        &["No trial of flow has a value of p99 <= 1ms"],
    );
    let report = sandbox.path("report.html").display().to_string();
    sandbox.shows(&["report", "latest", "-o", &report], &[]);
    let page = fs::read_to_string(&report).expect("the report");
    assert!(
        page.contains("Response times by rate") && page.contains("p90 &lt;= 50ms"),
        "the report has no curve"
    );
}
