//! Plans that a program has written: what is done with one grows with its length, and not with the square of
//! it.

use fsdyno_host::guest::NoGuests;
use fsdyno_sweep::{Plan, dry_run};
use fsdyno_testkit::fake::FakeHost;
use rustix::time::{ClockId, clock_gettime};

const FEW: usize = 125;
const TIMES: usize = 8;
/// The most growth that passes: something linear takes about 8 times as long, something quadratic 64 times.
const MOST: f64 = 20.0;

/// Processor time of this thread to read a plan and to say what it would do, in nanoseconds. Nothing else on
/// the machine counts.
fn cost(text: &str) -> i64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let start = now();
    let plan = Plan::parse(text, "p.toml", &[]).unwrap();
    let run = dry_run(&plan, &mut FakeHost::new(), &mut NoGuests);
    assert!(run.cases.len() >= FEW);
    now() - start
}

/// Returns the factor by which eight times the input costs more.
fn growth(text: impl Fn(usize) -> String) -> f64 {
    let least = |count: usize| (0..3).map(|_| cost(&text(count))).min().unwrap();
    least(FEW * TIMES) as f64 / least(FEW) as f64
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

const IMAGE: &str = "[device]\nimage = \"/images/a.img\"\nsize = \"1G\"\n";
const NULL: &str = "[[workloads]]\nkind = \"null\"\n";
const EXT4: &str = "[axes]\nfilesystem = \"ext4\"\n";

#[test]
fn eight_times_as_many_workloads_cost_about_eight_times_as_much() {
    let text = |count| {
        let load =
            |number| format!("[[workloads]]\nkind = \"fileserver\"\ntree_size = \"{}M\"\n", number + 1);
        format!("{IMAGE}{EXT4}{}", lines(count, load))
    };
    assert!(growth(text) < MOST, "{}", growth(text));
}

#[test]
fn eight_times_as_many_workloads_that_are_alike_cost_about_eight_times_as_much() {
    let text = |count| format!("{IMAGE}{EXT4}{}", NULL.repeat(count));
    assert!(growth(text) < MOST, "{}", growth(text));
}

#[test]
fn eight_times_as_many_configurations_cost_about_eight_times_as_much() {
    let text = |count| {
        let one = |number| format!("[[configurations]]\nname = \"c{number}\"\nfilesystem = \"ext4\"\n");
        format!("cache = \"warm\"\n{IMAGE}{}{NULL}", lines(count, one))
    };
    assert!(growth(text) < MOST, "{}", growth(text));
}

#[test]
fn eight_times_as_many_levels_cost_about_eight_times_as_much() {
    let text = |count| {
        let levels = lines(count, |number| format!("{}, ", number + 1));
        format!("{IMAGE}{EXT4}\"sysctl.vm.swappiness\" = [{levels}]\n{NULL}")
    };
    assert!(growth(text) < MOST, "{}", growth(text));
}

#[test]
fn each_configuration_is_compared_with_few_journals_at_most() {
    let text = |count| {
        let one = |number| format!("j{number} = {{ image = \"/images/j{number}.img\", size = \"8M\" }}\n");
        format!("{IMAGE}[device.journals]\n{}{EXT4}{NULL}", lines(count, one))
    };
    assert!(Plan::parse(&text(26), "p.toml", &[]).is_ok());
    let error = Plan::parse(&text(27), "p.toml", &[]).unwrap_err().to_string();
    assert!(error.contains("at most 26 devices"), "{error}");
}
