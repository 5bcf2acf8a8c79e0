use super::*;

/// Twelve configurations of three axes in three blocks; some are missing, some are there twice.
fn trials() -> (Cells, Vec<Logarithm>) {
    let levels: Vec<Vec<usize>> = (0..12).map(|cell| vec![cell / 6, cell / 2 % 3, cell % 2]).collect();
    let mut trials = Vec::new();
    for block in 0..3_u32 {
        for cell in (0..12).filter(|cell| !(cell + block as usize).is_multiple_of(5)) {
            let noise = f64::from((cell as u32 * 7 + block * 5) % 11) / 40.0;
            let value = 3.0 + cell as f64 * 0.05 + f64::from(block) * 0.3 + noise;
            trials.push(Logarithm { cell, block: block * 10, value });
        }
    }
    (Cells::new(&levels), trials)
}

/// By NumPy 2.4, from the covariance of all trials (Rasmussen and Williams, equations 2.42 and 2.45): the
/// difference of two restricted likelihoods, and the mean of each configuration.
const DIFFERENCE: f64 = 1.5889864197568375;
const MEANS: [[f64; 12]; 2] = [
    [
        -0.2371365118917,
        -0.2367513396674,
        -0.19884538399,
        -0.1021463898068,
        -0.07855865594494,
        -0.06104843474505,
        0.04952088725891,
        0.09236337778364,
        0.0848756651255,
        0.2088082254158,
        0.2205048701872,
        0.2584136902745,
    ],
    [
        -0.2282624364717,
        -0.2357541300537,
        -0.1989575674188,
        -0.09300889777344,
        -0.06867449600789,
        -0.06928420165761,
        0.05330175645528,
        0.08693778872594,
        0.0689254926048,
        0.2153407984744,
        0.2149062862816,
        0.2545296068409,
    ],
];

#[test]
fn a_point_of_the_grid_agrees_with_the_covariance_of_all_trials() {
    let (cells, trials) = trials();
    let posterior = Posterior::new(&cells, &trials).unwrap();
    let found = |[levels, pairs, deviation]: [f64; 3]| {
        let sums = Sums::new(&posterior, 3, deviation);
        let (log, point) = sums.point(&cells, (levels, pairs), (trials.len() - 3) as f64).unwrap();
        (log, posterior.configurations(&point, &point.effects, |_| 0.0))
    };
    let [first, second] = [[4.0, 0.3, 0.5], [0.2, 2.0, 0.01]].map(found);
    assert!((first.0 - second.0 - DIFFERENCE).abs() < 1e-8, "{} {}", first.0, second.0);
    for (means, expected) in [first.1, second.1].iter().zip(MEANS) {
        let close = means.iter().zip(expected).all(|(mean, expected)| (mean - expected).abs() < 1e-9);
        assert!(close && means.len() == expected.len(), "{means:?} {expected:?}");
    }
}

#[test]
fn draws_have_the_mean_of_the_posterior_and_the_same_seed_gives_the_same() {
    let (cells, trials) = trials();
    let posterior = Posterior::new(&cells, &trials).unwrap();
    let draws = posterior.draws(4000, 1);
    // The median of a difference is the difference of the means: both are symmetric.
    let difference = posterior.means()[11] - posterior.means()[0];
    let above = draws.probability_within(11, 0, -difference);
    assert!((above - 0.5).abs() < 0.03, "{above}");
    assert_eq!(draws.bound(3, 0.95), posterior.draws(4000, 1).bound(3, 0.95));
    assert!(draws.bound(3, 0.5) < draws.bound(3, 0.95));
    assert!(!draws.doubts().any());
}

#[test]
fn what_the_trials_do_not_say_is_not_guessed() {
    let (cells, _) = trials();
    let one_each: Vec<Logarithm> =
        (0..3).map(|block| Logarithm { cell: 0, block, value: f64::from(block) }).collect();
    assert!(
        Posterior::new(&cells, &one_each).is_none(),
        "with one trial per block, blocks and configurations are confounded"
    );
    assert!(Posterior::new(&cells, &[]).is_none());
    // Trials that agree to the last digit leave no noise, and still have a posterior.
    let same: Vec<Logarithm> = (0..12).map(|cell| Logarithm { cell, block: 0, value: 1.0 }).collect();
    let posterior = Posterior::new(&cells, &same).unwrap();
    assert!(posterior.means().iter().all(|mean| mean.abs() < 1e-6));
    assert!(posterior.draws(100, 1).bound(0, 0.95) < 1e-3);
}

/// One trial in 60 is far from what all others agree on.
#[test]
fn an_outlier_is_noticed_and_widens_the_bound() {
    let cells = Cells::new(&(0..12).map(|cell| vec![cell / 6, cell / 2 % 3, cell % 2]).collect::<Vec<_>>());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut trials = Vec::new();
    for block in 0..5 {
        for cell in 0..12 {
            let noise: f64 = StandardNormal.sample(&mut random);
            trials.push(Logarithm { cell, block, value: 0.05 * noise });
        }
    }
    let normal = Posterior::new(&cells, &trials).unwrap().draws(1000, 1);
    assert_eq!((normal.doubts().any(), normal.doubts().widening), (false, 1.0));
    trials[17].value -= 1.0;
    let doubts = Posterior::new(&cells, &trials).unwrap().draws(1000, 1).doubts();
    assert!(doubts.noise && doubts.widening >= 1.5, "{doubts:?}");
}
