use super::*;
use crate::status::{Publishing, STATUS_VERSION};
use fsdyno_core::glance::{MachineGlance, RoleGlance, Waiting};
use fsdyno_core::telemetry::{CpuSplit, DeviceActivity};
use fsdyno_core::{Operation, Progress, RaceBudget, RaceRules, TrialStep, WarningKind};
use fsdyno_verdict::race::LiveRace;

/// A glance at three readers and a writer that has been stuck for 2.3 s.
pub fn glance() -> Glance {
    let role = |role, workers, operations, waiting| RoleGlance {
        role,
        workers,
        operations,
        busy_ns: Nanos(operations * 42_000),
        slowest_ns: Nanos(22_400_000),
        bytes: 211_000_000,
        waiting,
        offered: None,
    };
    let waiting = Waiting {
        for_ns: Nanos(2_300_000_000),
        operation: Some(Operation::Write),
        directory: "home/a/b".to_string(),
        workers: 2,
    };
    let activity = DeviceActivity {
        read_bytes: 210_000_000,
        write_bytes: 380_000_000,
        busy_ns: 970_000_000,
        ..DeviceActivity::default()
    };
    Glance {
        length_ns: Nanos::from_secs(1),
        roles: vec![role(Role::Reader, 3, 13_100, None), role(Role::Writer, 3, 900, Some(waiting))],
        machine: Some(MachineGlance {
            length_ns: Nanos::from_secs(1),
            device: "loop0".to_string(),
            activity: Some(activity),
            cpu: Some(CpuSplit { user_ns: 400, iowait_ns: 300, idle_ns: 300, ..CpuSplit::default() }),
            dirty_bytes: Some(38 << 20),
        }),
        cost_ns: Nanos(20_000),
    }
}

/// A sweep in the window of trial 15.
pub fn status() -> Status {
    Status {
        version: STATUS_VERSION,
        pid: 4711,
        state_directory: "/var/lib/fsdyno".into(),
        store: "/var/lib/fsdyno/results.db".into(),
        plan: "demo".to_string(),
        sweep: Some(7),
        stage: Stage::Running,
        asked: AfterTrial::Continue,
        now: Some(Now {
            trial: 5,
            trials: 8,
            block: 1,
            case: 0,
            configuration: "ext4 bfq".to_string(),
            workload: "fileserver".to_string(),
            sentinel: false,
            machine: None,
            progress: Progress {
                phase: "3 readers, 3 writers".to_string(),
                done: Some(0.42),
                glance: Some(Box::new(glance())),
                ..Progress::at(TrialStep::Measure)
            },
            left_ns: Nanos::from_secs(380),
            more_may_follow: true,
        }),
        stored: 4,
        raced: 0,
        publishing: Publishing { writes: 40, cpu_ns: Nanos(2_000_000), since_ns: Nanos::from_secs(40) },
    }
}

/// Three configurations in two blocks, of which the first four trials are stored.
pub fn scene() -> Scene {
    let trials = fsdyno_testkit::trials();
    let mut cases: Vec<CaseLabel> = trials
        .iter()
        .map(|trial| CaseLabel {
            case: trial.case,
            configuration: trial.configuration.name.clone(),
            workload: "fileserver".to_string(),
        })
        .collect();
    cases.sort_by_key(|case| case.case);
    cases.dedup();
    let sweep = SweepFacts {
        selector: "7".to_string(),
        name: "demo".to_string(),
        started: "2026-02-03T04:05:06Z".to_string(),
        measure: "read-under-write".parse().expect("a measure"),
        seed: 42,
        trials: 8,
        blocks: 2,
        sentinel: None,
        is_race: false,
        state: State::Running,
    };
    let mut scene = Scene::new(sweep, cases);
    scene.add(trials.into_iter().take(4).collect());
    scene.set_status(status());
    scene
}

#[test]
fn what_is_measured_is_ranked_and_the_rest_follows() {
    let scene = scene();
    let ranks: Vec<(Option<usize>, bool)> = scene
        .rows
        .iter()
        .map(|row| match row {
            Row::Case(row) => (row.rank, row.figure.is_some()),
            Row::Heading(title) => panic!("one load needs no heading: {title}"),
        })
        .collect();
    assert_eq!(ranks.len(), 3);
    assert!(ranks.iter().all(|(rank, figure)| rank.is_some() == *figure));
    let ranked = ranks.iter().take_while(|(rank, _)| rank.is_some()).count();
    assert!(ranked > 0 && ranks[ranked..].iter().all(|(rank, _)| rank.is_none()), "{ranks:?}");
}

#[test]
fn every_trial_has_its_cell() {
    let mut scene = scene();
    let cells = |scene: &Scene, case| scene.cells(case, false);
    let outcome = |case: u32, block: u32| {
        let trials = fsdyno_testkit::trials();
        let found = trials.iter().take(4).find(|trial| (trial.case, trial.block) == (case, block));
        found.map(|trial| trial.outcome.word())
    };
    for case in 0..3 {
        for (block, cell) in (0..).zip(cells(&scene, case)) {
            let expected: &[Cell] = match outcome(case, block) {
                Some("measured") => &[Cell::Measured, Cell::Warned],
                Some("failed") => &[Cell::Failed],
                Some(_) => &[Cell::Skipped],
                None if (case, block) == (0, 1) => &[Cell::Running],
                None => &[Cell::ToCome],
            };
            assert!(expected.contains(&cell), "case {case}, block {block}: {cell:?}");
        }
    }
    scene.set_sweep(State::Killed, 8);
    let all: Vec<Cell> = (0..3).flat_map(|case| cells(&scene, case)).collect();
    assert!(all.contains(&Cell::Missing) && !all.contains(&Cell::ToCome), "nothing is to come any more");
}

#[test]
fn the_strip_is_of_the_phase_in_progress() {
    let mut scene = scene();
    scene.set_status(status());
    assert_eq!(scene.strip(Role::Writer).len(), 1, "the same glance again");
    let mut later = status();
    later.now.as_mut().and_then(|now| now.progress.glance.as_mut()).expect("a glance").cost_ns.0 += 1;
    scene.set_status(later);
    assert_eq!((scene.strip(Role::Writer).len(), scene.glance_cost()), (2, 1e-9));
    let mut next = status();
    next.now.as_mut().expect("a trial").progress.phase = "another".to_string();
    next.now.as_mut().expect("a trial").progress.glance = None;
    scene.set_status(next);
    assert_eq!((scene.strip(Role::Writer).len(), scene.glance.is_some()), (0, false));
    for _ in 0..2 * STRIP {
        scene.remember(glance());
    }
    assert_eq!(scene.strip(Role::Reader).len(), STRIP);
}

#[test]
fn several_loads_are_ranked_apart() {
    let mut scene = scene();
    let mut other = fsdyno_testkit::trial(4, 0, 3, fsdyno_testkit::configuration("ext4", "bfq"), 90.0);
    other.workload = fsdyno_core::Workload::Null(fsdyno_core::workload::Null::default());
    other.warnings = vec![fsdyno_core::Warning::new(WarningKind::PageCache, "text")];
    scene.add(vec![other]);
    let headings = scene.rows.iter().filter(|row| matches!(row, Row::Heading(_))).count();
    assert!(headings >= 2, "{:?}", scene.rows);
    assert!(scene.warnings.iter().any(|group| group.kind == WarningKind::PageCache));
}

/// Returns the rate at which a trial of a configuration of [`raced`] reads: the later, the faster.
fn rate(case: u32, block: u32) -> f64 {
    100.0 * (1.0 + 0.2 * f64::from(case)) * (1.0 + 0.001 * f64::from(block))
}

fn raced_trial(trial: u32, block: u32, case: u32) -> TrialRecord {
    let (filesystem, scheduler) =
        (["ext4", "xfs"][case as usize / 4], ["a", "b", "c", "d"][case as usize % 4]);
    let configuration = fsdyno_testkit::configuration(filesystem, scheduler);
    fsdyno_testkit::trial(trial, block, case, configuration, rate(case, block))
}

/// A race of eight configurations after so many complete blocks, with what it says after each.
pub fn race(blocks: u32) -> (Scene, RaceCourse) {
    let measure: Measure = "read-under-write".parse().expect("a measure");
    let rules = RaceRules { budget: RaceBudget::Halving, measure: measure.clone(), configurations: 8 };
    let mut race = LiveRace::new(rules, 42);
    let (mut course, mut trials, mut cases) = (RaceCourse::default(), Vec::new(), Vec::from_iter(0..8));
    for block in 0..blocks {
        for case in &cases {
            trials.push(raced_trial(trials.len() as u32, block, *case));
            race.add(&trials[trials.len() - 1]);
        }
        let (next, answer) = race.block(block + 1, 1);
        course.add(&answer);
        cases = next.cases;
    }
    let label = |case: u32| CaseLabel {
        case,
        configuration: raced_trial(0, 0, case).configuration.asked.name,
        workload: "fileserver".to_string(),
    };
    let facts = scene().sweep;
    let sweep = SweepFacts { measure, trials: 21, blocks: 1, is_race: true, ..facts };
    let mut scene = Scene::new(sweep, (0..8).map(label).collect());
    scene.add(trials);
    (scene, course)
}

#[test]
fn what_a_race_has_dropped_comes_last_and_its_blocks_have_a_sign_of_their_own() {
    let (mut scene, course) = race(1);
    let before = scene.blocks();
    scene.set_race(&course);
    assert_eq!((before, scene.blocks()), (1, course.blocks), "blocks to come are planned now");
    let dropped: Vec<u32> = course.dropped.iter().map(|one| one.case).collect();
    assert!(!dropped.is_empty() && !dropped.contains(&7), "the best stays: {dropped:?}");
    let rows = scene.rows.iter().map(|row| match row {
        Row::Case(row) => row,
        Row::Heading(title) => panic!("one load needs no heading: {title}"),
    });
    let rows: Vec<&CaseRow> = rows.collect();
    let left = 8 - dropped.len();
    for (index, row) in rows.iter().enumerate() {
        let is_left = index < left;
        assert_eq!((row.dropped, dropped.contains(&row.case)), (!is_left, !is_left), "{row:?}");
        assert_eq!(row.rank, is_left.then_some(index + 1), "{row:?}");
        let later = if is_left { Cell::ToCome } else { Cell::Dropped };
        let cells = scene.cells(row.case, false);
        assert_eq!(cells[0], Cell::Warned);
        assert!(cells[1..].iter().all(|cell| *cell == later), "{row:?}: {cells:?}");
    }
    assert_eq!(rows[0].case, 7);
    // That it is over changes nothing about what was dropped.
    scene.set_sweep(State::Finished, 8);
    assert!(scene.cells(dropped[0], false).contains(&Cell::Dropped));
    assert!(!scene.cells(7, false).contains(&Cell::ToCome));
}

#[test]
fn figures_of_the_last_few_of_a_race_are_those_of_their_fresh_trials() {
    let (mut scene, course) = race(1);
    scene.set_race(&course);
    let row = |scene: &Scene| {
        scene.cells(0, false).len() > 1
            && scene.rows.iter().any(|row| match row {
                Row::Case(row) => row.case == 0 && !row.sentinel && row.figure.is_some(),
                Row::Heading(_) => false,
            })
    };
    assert!(row(&scene), "the default is left, and has its first figure");
    scene.add(vec![TrialRecord { sentinel: true, ..raced_trial(8, 1, 0) }]);
    assert!(row(&scene), "the sentinel of a fresh block is no fresh trial of its configuration");

    let (mut scene, course) = race(3);
    let fresh_from = course.fresh_from.expect("the last round");
    assert!(course.is_over && course.bounds.len() == 3, "{course:?}");
    let of = |scene: &Scene, case: u32| {
        let found = scene.rows.iter().find_map(|row| match row {
            Row::Case(row) if row.case == case => Some((row.trials, row.figure.map(|one| one.estimate.n))),
            _ => None,
        });
        found.expect("its row")
    };
    assert_eq!(of(&scene, 7), (3, Some(3)), "before the race has said anything");
    scene.set_race(&course);
    let fresh = 3 - fresh_from as usize;
    assert_eq!(of(&scene, 7), (fresh, Some(fresh)));
    let dropped = course.dropped[0].case;
    assert_eq!(of(&scene, dropped), (1, Some(1)), "its figure is the only one it has");
}
