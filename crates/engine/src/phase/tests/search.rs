//! The search for the highest rate that meets a target.

use super::paced::{open_loop, row, servers, serving};
use super::*;
use fsdyno_core::result::RateCurve;
use fsdyno_core::workload::{Arrivals, Pace, RateSearch};

/// So long that a pause of a busy machine is short beside it.
const EACH: Duration = Duration::from_millis(30);
const WORKERS: u32 = 2;
/// Two workers that take 30 ms each.
const LIMIT_PER_S: f64 = 2.0 / 0.03;

fn searched(until: &str, step: u64, window: u64) -> PhaseResult {
    searched_with(servers(WORKERS, EACH), until, step, window)
}

fn searched_with(workers: Vec<Job>, until: &str, step: u64, window: u64) -> PhaseResult {
    let search = RateSearch {
        until: until.parse().unwrap(),
        step: Nanos::from_millis(step),
        arrivals: Arrivals::Constant,
    };
    let schedule = Some(Arc::new(crate::pace::Schedule::new(Pace::Highest(search), 1, 0)));
    let team = Team { schedule, ..Team::new(Role::Client, STEPS, workers) };
    let span = Span::Timed {
        ramp: Ramp::For(Nanos(search.longest().0 + 50_000_000)),
        window: Nanos::from_millis(window),
        drain_limit: Nanos::from_secs(5),
    };
    let (mut listen, mut left_behind) = (|_| (), 0);
    let mut reporter = Reporter::new(&mut listen);
    let phase = PhaseLoad { name: "work".to_string(), span, teams: vec![team] };
    let never = AtomicBool::new(false);
    let run = run(phase, Timer::monotonic(), &never, &mut reporter, &mut (), &mut left_behind);
    assert_eq!(left_behind, 0);
    run.unwrap().result
}

fn curve(result: &PhaseResult) -> &RateCurve {
    open_loop(&result.roles[0]).search.as_ref().expect("a search")
}

#[test]
fn the_highest_rate_is_what_the_workers_can_do() {
    const STEP: Duration = Duration::from_millis(600);
    let step = STEP.as_secs_f64();
    let result = searched("p90 <= 90ms", STEP.as_millis() as u64, 1500);
    let (curve, kept_up) = (curve(&result), open_loop(&result.roles[0]));
    let highest = curve.highest_per_s.expect("a rate");
    // Sleeping takes a little longer than it should. Two in flight and one waiting, of 40, are not a backlog.
    assert!((0.6 * LIMIT_PER_S..1.08 * LIMIT_PER_S).contains(&highest), "{curve:?}");
    assert!((0.6 * LIMIT_PER_S..1.05 * LIMIT_PER_S).contains(&curve.closed_per_s), "{curve:?}");
    assert!(curve.has_limit, "{curve:?}");
    for point in &curve.points {
        // A rate that missed the target once may have met it the second time.
        assert!(!point.met || point.intended_per_s <= highest, "{curve:?}");
        assert!(point.met || point.intended_per_s > 0.6 * LIMIT_PER_S, "{curve:?}");
        let due = point.intended_per_s * step;
        assert!((point.due as f64 - due).abs() <= 1.0, "{point:?}");
        assert_eq!(point.lat_ns.count, point.due, "{point:?}");
        assert!(point.lat_ns.min >= 29_700_000, "{point:?}");
        // A backlog of twelve.
        assert!(!point.met || (point.achieved_per_s * step - point.due as f64).abs() < 12.0, "{point:?}");
    }
    let rates: Vec<f64> = curve.by_rate().iter().map(|point| point.intended_per_s).collect();
    assert!(rates.is_sorted() && rates.len() >= 4, "{rates:?}");
    // The window is one at that rate, from its first moment.
    assert_eq!(kept_up.intended_per_s, highest);
    assert!((kept_up.due as f64 - highest * 1.5).abs() <= 1.0, "{kept_up:?}");
    assert_eq!(row(&result.roles[0], Operation::ResponseTime).lat_ns.count, kept_up.due);
    assert!(kept_up.backlog_max < 30, "it has nothing of the search: {kept_up:?}");
    assert!(result.ramp_ns < Nanos::from(18 * (STEP + Duration::from_millis(250))), "{}", result.ramp_ns);
}

/// Workers that are stuck for five steps spoil the rate that is being tried, and not its second try as well.
#[test]
fn a_pause_that_is_longer_than_a_step_spoils_one_try() {
    const STEP: u64 = 300;
    let [at, pause] = [2 * STEP + STEP / 2, 5 * STEP].map(Duration::from_millis);
    let takes = move |since| if (at..at + pause).contains(&since) { at + pause - since } else { EACH };
    let stuck = (0..WORKERS).map(|_| serving(move |since| std::thread::sleep(takes(since)))).collect();
    let curve = curve(&searched_with(stuck, "p90 <= 90ms", STEP, 300)).clone();
    let spoiled = curve.points.iter().filter(|point| point.lat_ns.max >= (3 * STEP) * 1_000_000);
    assert_eq!(spoiled.count(), 1, "{curve:?}");
    let highest = curve.highest_per_s.expect("a rate");
    assert!((0.6 * LIMIT_PER_S..1.08 * LIMIT_PER_S).contains(&highest), "{curve:?}");
}

#[test]
fn a_target_that_nothing_meets_is_told() {
    let result = searched("p50 <= 1ms", 100, 200);
    let (curve, kept_up) = (curve(&result), open_loop(&result.roles[0]));
    assert_eq!(curve.highest_per_s, None, "{curve:?}");
    assert!(curve.points.len() >= 3 && curve.points.iter().all(|point| !point.met), "{curve:?}");
    // The window shows the lowest rate that was tried.
    let lowest = curve.by_rate()[0].intended_per_s;
    assert_eq!((kept_up.intended_per_s, kept_up.never_begun), (lowest, 0));
}
