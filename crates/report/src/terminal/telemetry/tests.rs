//! The tables of telemetry, from samples made by hand.

use super::*;
use crate::fixture;

fn text(trials: &[TrialRecord], samples: bool, width: usize) -> String {
    let mut out = Vec::new();
    telemetry(&mut out, trials, samples, &Style { width, colour: false, blocks: false }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn averages_of_a_case_are_over_all_its_trials() {
    let trials = fixture::with_telemetry(fixture::trials());
    let all = text(&trials, false, 80);
    let (head, rest) = all.split_once("\n\n").unwrap();
    let first = rest.split("\n\n").next().unwrap();
    assert_eq!(
        head,
        "ext4 bfq under fileserver, trials 1, 5\nfsdyno's own overhead: 61.5 ns per operation, 61.9 ns with \
         telemetry (null\n  workload, without the system call)"
    );
    assert_eq!(
        first,
        "\
1 reader: averages over 60.0 s, 2 processors
processors: user 12.5 %, nice 0 %, system 25.0 %, iowait 12.5 %, irq 0 %,
  softirq 0 %, steal 0 %, idle 50.0 %
memory: dirty 64 MiB (at most 128 MiB), writeback 0 B (at most 0 B), cached 4
  GiB, available 32 GiB
waiting (PSI): io some 25.0 % full 10.0 %
device   r/s  rkB/s r_await   w/s wkB/s w_await aqu-sz %util  f/s f_await
loop0  100.0 4096.0    0.50 20.00 80.00    1.00   0.07 50.00 2.00    0.50
vda    100.0 4096.0    0.50 20.00 80.00    1.00   0.07 50.00 2.00    0.50
(no room for rareq-sz, wareq-sz, %rrqm, %wrqm, rrqm/s, wrqm/s, d/s, dkB/s,
  d_await, dareq-sz, %drqm, drqm/s; see --format csv)
task               %CPU   time       kind  pid
fsdyno             50.0  30.0s        own    -
kworker flush-7:0   5.0  3.00s  writeback    -
all tasks by kind: writeback 3.00 s, own 30.0 s
journal loop0-8: 12 transactions (4 requested); means since the mount: commit
  5.20 ms, open for 208 ms, 326 operations and 12 blocks per transaction
other processes on block devices: cron (77) read 4 MiB, wrote 0 B; cron (77)
  read 4 MiB, wrote 0 B
cost of telemetry: 62 readings, 2.00 ms of CPU each (0.2 % of one processor),
  the longest 9.00 ms"
    );
}

#[test]
fn samples_are_listed_trial_by_trial() {
    let all = text(&fixture::with_telemetry(fixture::trials()), true, 80);
    assert!(all.contains("\n1 reader, trial 1: 30 samples of 1 s\n"), "{all}");
    assert!(all.contains("\n1 reader, trial 5: 30 samples of 1 s\n"), "{all}");
    assert_eq!(all.lines().filter(|line| line.starts_with("loop0  30.0 ")).count(), 4 * 3, "{all}");
}

#[test]
fn lines_fit_the_width_and_a_wide_terminal_has_every_column() {
    let trials = fixture::with_telemetry(fixture::trials());
    for (width, samples) in [(80, false), (80, true), (100, true), (132, false)] {
        for line in text(&trials, samples, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
            assert_eq!(line, line.trim_end());
        }
    }
    let wide = text(&trials, false, 240);
    assert!(Column::ALL.iter().all(|column| wide.contains(column.name())) && !wide.contains("no room"));
}

#[test]
fn a_phase_without_telemetry_says_so() {
    let all = text(&fixture::trials(), false, 80);
    assert!(all.contains("\n1 reader: no telemetry was recorded\n"), "{all}");
    assert_eq!(text(&[], false, 80), "No trial was measured.\n");
}

#[test]
fn every_column_of_iostat_is_ranked() {
    assert_eq!(BY_WEIGHT.len(), Column::ALL.len());
    assert!(Column::ALL.iter().all(|column| BY_WEIGHT.contains(column)));
}
