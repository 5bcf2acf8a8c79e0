use super::*;

const SECOND: u64 = 1_000_000_000;

fn rate(per_second: f64, arrivals: Arrivals) -> Rate {
    Rate { per_second, arrivals }
}

/// The first moments of a Poisson process, in nanoseconds.
fn poisson(per_second: f64, seed: u64, count: usize) -> Vec<u64> {
    let mut moments = ArrivalTimes::new(rate(per_second, Arrivals::Poisson), seed);
    (0..count as u64).map(|number| moments.due_ns(number)).collect()
}

#[test]
fn constant_moments_have_the_same_distance_forever() {
    let mut moments = ArrivalTimes::new(rate(200.0, Arrivals::Constant), 1);
    assert_eq!([0, 1, 2, 200].map(|number| moments.due_ns(number)), [0, 5_000_000, 10_000_000, SECOND]);
    // A third of a second is no whole number of nanoseconds: after eleven days, the sum would be far off.
    let mut moments = ArrivalTimes::new(rate(3.0, Arrivals::Constant), 1);
    assert_eq!(moments.due_ns(3_000_000), 1_000_000 * SECOND);
    let mut moments = ArrivalTimes::new(rate(0.5, Arrivals::Constant), 1);
    assert_eq!([0, SECOND, 2 * SECOND, 5 * SECOND].map(|moment| moments.due_until(moment)), [1, 1, 2, 3]);
}

/// The distances have an exponential distribution: by the test of Kolmogorov and Smirnov at 1 % (1.63 for
/// large samples), and by their correlation from one to the next.
#[test]
fn poisson_distances_are_exponential_and_independent() {
    const COUNT: usize = 20_000;
    let moments = poisson(1000.0, 42, COUNT);
    let mut before = 0;
    let distances: Vec<f64> = moments
        .iter()
        .map(|moment| {
            let distance = (moment - before) as f64 * 1000.0 / SECOND as f64;
            before = *moment;
            distance
        })
        .collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = COUNT as f64;
    let farthest = sorted.iter().enumerate().map(|(index, distance)| {
        let expected = 1.0 - (-distance).exp();
        (expected - index as f64 / n).abs().max(((index + 1) as f64 / n - expected).abs())
    });
    let farthest = farthest.fold(0.0, f64::max);
    assert!(farthest * n.sqrt() < 1.63, "{}", farthest * n.sqrt());
    let products = distances.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0));
    let correlation = products.sum::<f64>() / n;
    assert!(correlation.abs() * n.sqrt() < 3.0, "{}", correlation * n.sqrt());
}

/// In intervals of equal length, the numbers have the mean of the rate, and a variance that equals it.
#[test]
fn poisson_numbers_have_the_variance_of_their_mean() {
    const INTERVALS: usize = 2_000;
    const MEAN: f64 = 10.0;
    let mut moments = ArrivalTimes::new(rate(100.0, Arrivals::Poisson), 42);
    let mut before = 0;
    let counts: Vec<f64> = (1..=INTERVALS as u64)
        .map(|interval| {
            let until = moments.due_until(interval * SECOND / 10);
            let count = until - before;
            before = until;
            count as f64
        })
        .collect();
    let n = INTERVALS as f64;
    let mean = counts.iter().sum::<f64>() / n;
    assert!((mean - MEAN).abs() < 3.0 * (MEAN / n).sqrt(), "{mean}");
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // The index of dispersion of a Poisson process has the variance 2 / (n - 1).
    assert!((variance / mean - 1.0).abs() < 3.0 * (2.0 / n).sqrt(), "{}", variance / mean);
}

/// A schedule of a Poisson process whose load has begun.
fn begun(per_second: f64, seed: u64, role: u64) -> Schedule {
    let schedule = Schedule::new(Pace::At(rate(per_second, Arrivals::Poisson)), seed, role);
    schedule.begin(5 * SECOND);
    schedule
}

fn calendar(schedule: &Schedule) -> Calendar {
    Calendar::of(&schedule.current()).expect("a rate")
}

#[test]
fn moments_follow_from_the_seed_and_differ_between_roles() {
    assert_eq!(poisson(500.0, 7, 100), poisson(500.0, 7, 100));
    assert_ne!(poisson(500.0, 7, 100), poisson(500.0, 8, 100));
    let first = |role: u64| calendar(&begun(500.0, 7, role)).due_ns(0);
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn workers_take_each_iteration_once_and_agree_on_its_moment() {
    let schedule = begun(1000.0, 3, 0);
    let mut workers: Vec<Follower> = (0..3).map(|_| Follower::of(&schedule)).collect();
    let mut calendar = calendar(&schedule);
    for (number, worker) in [0, 1, 1, 2, 0, 0, 0, 2, 1].into_iter().enumerate() {
        let expected = calendar.due_ns(number as u64);
        assert!(expected > 5 * SECOND);
        assert_eq!(workers[worker].take(&schedule, SECOND), Some((number as u64, expected)));
    }
    assert_eq!(schedule.current().taken(), 9);
    // When the twentieth is due and the eighth begins, eleven more are due.
    let twentieth = calendar.due_ns(19);
    assert_eq!(workers[0].behind(8, twentieth), 11);
    assert_eq!(workers[1].behind(30, twentieth), 0);
    let mut calendar = self::calendar(&schedule);
    assert_eq!(calendar.due_before(5 * SECOND), 0);
    assert_eq!((calendar.due_before(twentieth), calendar.due_before(twentieth + 1)), (19, 20));
}

#[test]
fn a_segment_ends_and_the_next_one_begins() {
    let schedule = begun(1000.0, 3, 0);
    let mut worker = Follower::of(&schedule);
    let constant = Some(rate(10.0, Arrivals::Constant));
    schedule.post(constant, 9 * SECOND, 9 * SECOND + SECOND / 4, true);
    let take = |worker: &mut Follower| worker.take(&schedule, 9 * SECOND);
    for expected in [(0, 9 * SECOND), (1, 9 * SECOND + SECOND / 10), (2, 9 * SECOND + SECOND / 5)] {
        assert_eq!(take(&mut worker), Some(expected));
        assert_eq!((worker.epoch(), worker.tried_until_ns()), (2, Some(9 * SECOND + SECOND / 4)));
    }
    assert_eq!([take(&mut worker), take(&mut worker)], [None, None], "it is over");
    // What is due after the end is not due at all.
    assert_eq!(worker.behind(0, 20 * SECOND), 2);
    let closed = schedule.post(None, 12 * SECOND, 13 * SECOND, true);
    assert_eq!(take(&mut worker), Some((0, 12 * SECOND)), "not before it begins");
    assert_eq!(worker.take(&schedule, 12 * SECOND + 7), Some((1, 12 * SECOND + 7)), "at once");
    closed.close();
    assert_eq!(worker.take(&schedule, 12 * SECOND + 8), None);
}
