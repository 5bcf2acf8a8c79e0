//! Roles with a rate: what a pause does to them, and what becomes of iterations at the end.

use super::*;
use crate::pace::Schedule;
use fsdyno_core::result::{OpenLoop, OperationResult, Quantile, RoleResult};
use fsdyno_core::workload::{Arrivals, Pace, Rate};
use std::sync::atomic::AtomicU64;

const MILLISECOND: u64 = 1_000_000;

/// A worker that pauses once ([`pausing`]).
pub(super) fn server(each: Duration, at: Duration, pause: Duration) -> Job {
    pausing(each, at, pause, Arc::default())
}

/// A worker of whose operations the first at `at` after the start of the load takes as long as a pause.
/// `paused` learns how long that lasted, in nanoseconds.
fn pausing(each: Duration, at: Duration, pause: Duration, paused: Arc<AtomicU64>) -> Job {
    let mut is_pending = true;
    serving(move |since| {
        let pauses = is_pending && since >= at;
        is_pending &= !pauses;
        let begin = std::time::Instant::now();
        std::thread::sleep(if pauses { pause } else { each });
        if pauses {
            paused.store(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    })
}

/// A worker whose iterations are one operation each, which learns the time since the start of the load.
pub(super) fn serving(mut operation: impl FnMut(Duration) + Send + 'static) -> Job {
    Box::new(move |lineup| {
        let mut meter = lineup.start();
        let begin = std::time::Instant::now();
        let object = Object { directory: b"", name: c"" };
        loop {
            if let Err(halt) = meter.begin_iteration() {
                return halt;
            }
            let call = || {
                operation(begin.elapsed());
                Ok(())
            };
            let ended =
                timed(&mut meter, StepIndex(0), object, |()| 0, call).and_then(|()| meter.end_iteration());
            if let Err(halt) = ended {
                return halt;
            }
        }
    })
}

/// Workers that never pause.
pub(super) fn servers(count: u32, each: Duration) -> Vec<Job> {
    (0..count).map(|_| server(each, Duration::MAX, Duration::ZERO)).collect()
}

fn constant(per_second: f64) -> Option<Arc<Schedule>> {
    Some(Arc::new(Schedule::new(Pace::At(Rate { per_second, arrivals: Arrivals::Constant }), 1, 0)))
}

/// A window without a ramp.
fn measured(teams: Vec<Team>, [window, drain_limit]: [u64; 2]) -> (PhaseResult, u32) {
    let span = Span::Timed {
        ramp: Ramp::For(Nanos(0)),
        window: Nanos::from_millis(window),
        drain_limit: Nanos::from_millis(drain_limit),
    };
    let (mut listen, mut left_behind) = (|_| (), 0);
    let mut reporter = Reporter::new(&mut listen);
    let phase = PhaseLoad { name: "work".to_string(), span, teams };
    let never = AtomicBool::new(false);
    let run = run(phase, Timer::monotonic(), &never, &mut reporter, &mut (), &mut left_behind);
    (run.unwrap().result, left_behind)
}

pub(super) fn row(role: &RoleResult, operation: Operation) -> &OperationResult {
    role.operations.iter().find(|row| row.operation == operation).expect("the operation")
}

pub(super) fn open_loop(role: &RoleResult) -> &OpenLoop {
    role.open_loop.as_ref().expect("a rate")
}

/// A pause of P in a window of T keeps everything waiting that is due in it, the first of them for P and the
/// last not at all. So the share q of all iterations responds within P - (1 - q) T, and a little later
/// because the server has to catch up. One worker alone has one slow operation, however many it would have
/// performed meanwhile.
#[test]
fn a_pause_shows_as_long_as_it_was_and_for_all_that_it_kept_waiting() {
    const PAUSE: u64 = 500;
    const WINDOW: u64 = 2000;
    let (each, at, pause) =
        (Duration::from_micros(200), Duration::from_millis(300), Duration::from_millis(PAUSE));
    let paused = Arc::new(AtomicU64::new(0));
    let job = pausing(each, at, pause, Arc::clone(&paused));
    let open = Team { schedule: constant(600.0), ..Team::new(Role::Client, STEPS, vec![job]) };
    let closed = Team::new(Role::Writer, STEPS, vec![server(each, at, pause)]);
    let (result, _) = measured(vec![open, closed], [WINDOW, 30_000]);
    let [open, closed] = &result.roles[..] else { panic!("{result:?}") };
    let response = &row(open, Operation::ResponseTime).lat_ns;
    assert_eq!((response.count, open_loop(open).due), (1200, 1200));
    // On a busy machine, a pause lasts longer than it should.
    let pause_ms = paused.load(Ordering::Relaxed) as f64 / MILLISECOND as f64;
    assert!(pause_ms >= PAUSE as f64);
    for quantile in [Quantile::P90, Quantile::P99, Quantile::P999] {
        let share_ms = (1.0 - quantile.fraction()) * WINDOW as f64;
        let theory_ms = pause_ms - share_ms;
        let shown_ms = response.shown(quantile).expect("enough of them") as f64 / MILLISECOND as f64;
        let most_ms = theory_ms + 0.5 * share_ms + 60.0;
        assert!((theory_ms - 5.0..most_ms).contains(&shown_ms), "{quantile}: {shown_ms}, theory {theory_ms}");
    }
    // While it paused, 300 were due, and one of them was in its hands.
    assert!((290..400).contains(&open_loop(open).backlog_max), "{}", open_loop(open).backlog_max);
    // What a busy machine has not done of the 120 that were due before is not the pause's.
    let behind = 120_u64.saturating_sub(row(open, STEPS[0]).timeline.count[..2].iter().sum());
    let backlog = &open_loop(open).backlog.max;
    assert!(backlog[4] > 0 && backlog[2] < 50 + behind, "{open:?}");
    let (service, alone) = (&row(open, Operation::ServiceTime).lat_ns, &row(closed, STEPS[0]).lat_ns);
    assert_eq!(service.count, 1200);
    for hidden in [service, alone] {
        assert!(hidden.max >= PAUSE * MILLISECOND, "{hidden:?}");
        assert!(hidden.quantiles[Quantile::P99] < 100 * MILLISECOND, "{hidden:?}");
    }
    assert_eq!(closed.open_loop, None);
}

/// Of what is due inside the window, everything that ends in the drain has its exact time.
#[test]
fn the_drain_lasts_until_everything_that_was_due_has_ended() {
    const EACH: u64 = 15;
    let team = Team {
        schedule: constant(100.0),
        ..Team::new(Role::Client, STEPS, servers(1, Duration::from_millis(EACH)))
    };
    let (result, left_behind) = measured(vec![team], [600, 30_000]);
    let (client, kept_up) = (&result.roles[0], open_loop(&result.roles[0]));
    let response = row(client, Operation::ResponseTime);
    assert_eq!((kept_up.due, response.lat_ns.count, response.censored), (60, 60, 0));
    assert_eq!((kept_up.never_begun, left_behind), (0, 0));
    // The last one is due after 590 ms, when at most 39 have ended.
    let least = 60 * EACH - 590;
    assert!(response.lat_ns.max >= least * MILLISECOND, "{}", response.lat_ns.max);
    assert!(result.drain_ns >= Nanos::from_millis(60 * EACH - 600), "{}", result.drain_ns);
    assert!(kept_up.backlog_at_end >= 20 && kept_up.fell_behind(result.window_ns), "{kept_up:?}");
    // Operations that begin after the window are no sample, although they belong to its iterations.
    assert!(row(client, STEPS[0]).lat_ns.count <= 41, "{client:?}");
    assert_eq!(response.timeline.count.iter().sum::<u64>(), 60);
}

/// At the drain limit, what has not ended is censored, whether a worker has begun it or not.
#[test]
fn what_has_not_ended_at_the_drain_limit_is_censored() {
    let team = Team {
        schedule: constant(200.0),
        ..Team::new(Role::Client, STEPS, servers(2, Duration::from_millis(40)))
    };
    let (result, left_behind) = measured(vec![team], [500, 200]);
    let (client, kept_up) = (&result.roles[0], open_loop(&result.roles[0]));
    let (response, service) = (row(client, Operation::ResponseTime), row(client, Operation::ServiceTime));
    assert_eq!((kept_up.due, response.lat_ns.count), (100, 100));
    assert!(kept_up.never_begun >= 60, "{kept_up:?}");
    assert_eq!(service.lat_ns.count, 100 - kept_up.never_begun);
    assert_eq!(response.censored, kept_up.never_begun + service.censored);
    assert!(service.censored <= 2, "{service:?}");
    // They are merely late: they end as soon as nobody counts any more.
    assert_eq!(left_behind, 0);
    let latency = &response.lat_ns;
    let p99 = latency.quantiles[Quantile::P99];
    assert!(latency.is_bound(p99) && p99 >= 500 * MILLISECOND, "{latency:?}");
    let drain = Nanos::from_millis(200)..Nanos::from_millis(400);
    assert!(drain.contains(&result.drain_ns), "{}", result.drain_ns);
    assert!(kept_up.achieved_per_s <= 51.0 && kept_up.fell_behind(result.window_ns), "{kept_up:?}");
    assert!((70..=90).contains(&kept_up.backlog_at_end), "{kept_up:?}");
}

/// A worker that hangs keeps its iteration, and the others serve what is due.
#[test]
fn a_worker_that_hangs_holds_up_one_iteration() {
    let hangs = server(Duration::from_millis(1), Duration::from_millis(100), Duration::from_secs(3));
    let mut jobs = servers(1, Duration::from_millis(1));
    jobs.push(hangs);
    let team = Team { schedule: constant(100.0), ..Team::new(Role::Client, STEPS, jobs) };
    let (result, left_behind) = measured(vec![team], [500, 200]);
    let (client, kept_up) = (&result.roles[0], open_loop(&result.roles[0]));
    let (response, service) = (row(client, Operation::ResponseTime), row(client, Operation::ServiceTime));
    assert_eq!((kept_up.due, response.lat_ns.count, service.lat_ns.count), (50, 50, 50));
    assert_eq!((response.censored, service.censored, kept_up.never_begun, left_behind), (1, 1, 0, 1));
    assert!(response.lat_ns.max >= 500 * MILLISECOND && response.lat_ns.is_bound(response.lat_ns.max));
    assert!(!kept_up.fell_behind(result.window_ns), "{kept_up:?}");
}

/// A worker that waits is not stalled, and begins soon after the moment.
#[test]
fn workers_that_keep_up_begin_in_time() {
    let team = Team {
        schedule: constant(10.0),
        ..Team::new(Role::Client, STEPS, servers(2, Duration::from_micros(100)))
    };
    let (result, _) = measured(vec![team], [1000, 1000]);
    let (client, kept_up) = (&result.roles[0], open_loop(&result.roles[0]));
    assert_eq!((kept_up.due, kept_up.backlog_at_end, kept_up.never_begun), (10, 0, 0));
    assert!((9.0..=11.0).contains(&kept_up.achieved_per_s), "{kept_up:?}");
    assert!(kept_up.late_ns_mean > 0.0 && kept_up.late_ns_mean <= kept_up.late_ns_max as f64);
    assert!(client.longest_stall_ns < Some(Nanos::from_millis(90)), "{:?}", client.longest_stall_ns);
    let (response, service) = (row(client, Operation::ResponseTime), row(client, Operation::ServiceTime));
    assert!(response.lat_ns.mean >= service.lat_ns.mean, "{response:?}");
}
