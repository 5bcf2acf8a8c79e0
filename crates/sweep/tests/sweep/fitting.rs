//! Plans that are fitted to a time.

use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos, Workload};
use fsdyno_host::guest::NoGuests;
use fsdyno_sweep::{Fit, FitError, Plan, dry_run, fit};
use fsdyno_testkit::fake::FakeHost;
use proptest::prelude::*;

/// Three configurations that read trees of 4 GiB with 256 MiB of memory, for half an hour.
const PLAN: &str = r#"
name = "fitted"
repetitions = 6
memory = "256M"
[device]
image = "/data/fsdyno.img"
size = "16G"
[axes]
filesystem = ["ext4", "xfs", "btrfs"]
[[workloads]]
kind = "fileserver"
write_rate = "closed"
tree_size = "4G"
writer_space = "1G"
ramp = "5s"
window = "12s"
"#;

fn fitted(text: &str, set: &[&str], time: Nanos) -> Result<Fit, FitError> {
    let set: Vec<String> = set.iter().map(|text| (*text).to_string()).collect();
    let source = |set: &[String]| Plan::parse(text, "plans/test.toml", set);
    fit(&source, &set, time, &mut FakeHost::new(), &mut NoGuests)
}

fn minutes(minutes: u64) -> Nanos {
    Nanos::from_secs(60 * minutes)
}

fn chosen(set: &[&str], time: Nanos) -> String {
    fitted(PLAN, set, time).unwrap().choices.join(", ")
}

#[test]
fn repetitions_follow_the_time_before_anything_else_changes() {
    assert_eq!(chosen(&[], minutes(40)), "up to 7 repetitions until the answer is decided (plan: 6)");
    assert_eq!(chosen(&[], minutes(20)), "3 repetitions (plan: 6)", "fewer than four decide nothing");
    let long = chosen(&[], minutes(600));
    assert_eq!(
        long,
        "up to 20 repetitions until the answer is decided (plan: 6), more than 20 repetitions are not added"
    );
    let many = chosen(&["repetitions=30"], minutes(600));
    assert_eq!(many, "30 repetitions (as in the plan)", "the plan's own number is no reason to stop earlier");
}

#[test]
fn a_plan_that_compares_something_ends_as_soon_as_its_answer_is_decided() {
    let fit = |text: &str, set: &[&str]| fitted(text, set, minutes(40)).unwrap().plan;
    let plan = fit(PLAN, &[]);
    assert!(plan.enough.is_some_and(|enough| enough.is_auto() && enough.max == 20), "{:?}", plan.overrides);
    assert_eq!(plan.overrides, ["time_limit=40m", "repetitions=auto"]);
    let own = PLAN.replace("repetitions = 6", "repetitions = \"auto\"");
    assert_eq!(fit(&own, &[]).overrides, ["time_limit=40m"]);
    // What is to be measured six times is.
    assert_eq!(fit(PLAN, &["repetitions=6"]).enough, None);
    assert_eq!(fit(PLAN, &["axes.filesystem=ext4"]).enough, None, "there is nothing to decide");
    let short = fitted(&own, &[], minutes(20)).unwrap();
    assert_eq!(short.choices, ["3 repetitions (plan: until the answer is decided)"]);
    assert_eq!(short.plan.enough, None);
}

#[test]
fn then_windows_shrink_and_at_last_trees() {
    let shorter = chosen(&[], minutes(12));
    assert_eq!(
        shorter, "3 repetitions (plan: 6), ramp 3s (plan: 5s), window 7s (plan: 12s)",
        "windows and ramps by the same factor"
    );
    let smaller = chosen(&[], minutes(6));
    assert!(smaller.contains("tree_size 2G (plan: 4G)"), "{smaller}");
    // Without a limit of memory, how small trees may be is not known.
    let error = fitted(&PLAN.replace("memory = \"256M\"\n", ""), &[], minutes(6)).unwrap_err();
    assert!(matches!(error, FitError::TooShort { .. }), "{error}");
}

#[test]
fn what_the_user_sets_stays() {
    let set = ["repetitions=2", "workloads.window=10s"];
    let fit = fitted(PLAN, &set, minutes(10)).unwrap();
    assert_eq!(fit.plan.overrides[..2], set);
    assert_eq!(fit.plan.repetitions, 2);
    assert_eq!(fit.plan.workloads[0].load().timing().window, Nanos::from_secs(10));
    assert_eq!(fit.plan.rules.time_limit, Some(minutes(10)));
    // The other one of the two, and a plan that needs only half of the time.
    let fit = fitted(PLAN, &["repetitions=2"], minutes(30)).unwrap();
    assert_eq!(fit.plan.overrides, ["repetitions=2", "time_limit=30m"]);
    let fit = fitted(PLAN, &["workloads.0.window=1s"], minutes(6)).unwrap();
    assert_eq!(fit.plan.workloads[0].load().timing().window, Nanos::from_secs(1), "below the floor");
}

#[test]
fn a_plan_that_repeats_until_it_knows_enough_keeps_its_rule() {
    let text = PLAN.replace("repetitions = 6", "repetitions = { min = 6, max = 40, until = \"5%\" }");
    let choices = |time| fitted(&text, &[], time).unwrap();
    let fit = choices(minutes(20));
    assert_eq!(fit.choices, ["at least 3 repetitions (plan: 6)"]);
    assert_eq!(fit.plan.enough.unwrap().max, 40);
    assert_eq!(choices(minutes(600)).choices, ["at least 6 repetitions (as in the plan)"]);
}

#[test]
fn a_time_that_is_too_short_is_refused_with_the_least() {
    let error = fitted(PLAN, &[], minutes(2)).unwrap_err();
    let text = "'fitted' does not fit into 2m: 3 repetitions of 3 cases with the shortest windows take 4m \
        22s, each trial up to 20s";
    assert_eq!(error.to_string(), text);
    assert!(error.hint().unwrap().starts_with("allow --for 4m22s, or make it less: "), "{:?}", error.hint());
    let wrong = fitted(PLAN, &["repetitions=none"], minutes(2)).unwrap_err();
    assert!(matches!(wrong, FitError::Plan(_)), "{wrong}");
}

/// Returns the size of the trees, the ramp and the window, which a fit must never reduce below their floors.
fn fileserver(plan: &Plan) -> (Bytes, Nanos, Nanos) {
    let Workload::Fileserver(load) = &plan.workloads[0] else { panic!("a fileserver") };
    let Ramp::For(ramp) = load.ramp else { panic!("a fixed ramp") };
    (load.tree_size, ramp, load.window)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_fit_takes_at_most_the_time_and_drops_nothing(
        seconds in 1u64..20_000,
        repetitions in 1u32..30,
        filesystems in 1usize..4,
        trees_mib in 1u64..50_000,
        ramp_ms in 0u64..60_000,
        window_ms in 1u64..60_000,
        memory_mib in proptest::option::of(32u64..4096),
    ) {
        let mut set = vec![
            format!("repetitions={repetitions}"),
            format!("axes.filesystem={:?}", &["ext4", "xfs", "btrfs"][..filesystems]),
            format!("workloads.tree_size={trees_mib}M"),
            format!("workloads.ramp={ramp_ms}ms"),
            format!("workloads.window={window_ms}ms"),
        ];
        set.extend(memory_mib.map(|memory| format!("memory={memory}M")));
        // What is written in the plan may be changed, unlike what is set on the command line.
        let text = PLAN.replace("memory = \"256M\"\n", "");
        let source = |more: &[String]| Plan::parse(&text, "p.toml", &[&set[..], more].concat());
        let own = source(&[]).unwrap();
        let fit_to = |time| fit(&source, &[], time, &mut FakeHost::new(), &mut NoGuests);
        let time = Nanos::from_secs(seconds);
        let (fit, time) = match fit_to(time) {
            Ok(fit) => (fit, time),
            Err(FitError::TooShort { least, .. }) => {
                prop_assert!(least > time);
                (fit_to(least).unwrap(), least)
            }
            Err(other) => panic!("{other}"),
        };
        prop_assert!(fit.time <= time);
        let names = |plan: &Plan| plan.cases().into_iter().map(|case| case.configuration).collect::<Vec<_>>();
        prop_assert_eq!(names(&fit.plan), names(&own));
        prop_assert!(fit.plan.repetitions >= own.repetitions.min(3));
        prop_assert!(fit.plan.repetitions <= own.repetitions.max(20));
        let ((trees, ramp, window), (own_trees, own_ramp, own_window)) = (fileserver(&fit.plan), fileserver(&own));
        prop_assert!(window <= own_window && window >= own_window.min(Nanos::from_secs(2)));
        prop_assert!(ramp <= own_ramp && ramp >= own_ramp.min(Nanos::from_millis(300)));
        let least_trees = memory_mib.map_or(u64::MAX, |memory| 8 * memory * Bytes::MIB);
        prop_assert!(trees <= own_trees && trees.0 >= own_trees.0.min(least_trees));
        // The dry run comes to the same time by itself.
        let arguments: Vec<String> =
            fit.plan.overrides.iter().filter(|set| !set.starts_with("time_limit=")).cloned().collect();
        let unlimited = Plan::parse(&text, "p.toml", &arguments).unwrap();
        let run = dry_run(&unlimited, &mut FakeHost::new(), &mut NoGuests);
        match unlimited.enough {
            None => prop_assert_eq!(run.time_ns, fit.time),
            Some(_) => prop_assert!(run.time_ns <= fit.time && fit.time <= run.time_max_ns),
        }
    }
}
