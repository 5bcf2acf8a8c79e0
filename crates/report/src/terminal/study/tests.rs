//! Sweeps in the layouts of their studies.

use super::*;
use crate::fixture;
use fsdyno_core::workload::Fileserver;
use fsdyno_core::{Outcome, Role};

fn text(study: Study, trials: &[TrialRecord]) -> String {
    let mut out = Vec::new();
    layout(&mut out, study, &fixture::header("read"), trials, &Style::default()).unwrap();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    text
}

fn line<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no line '{start}' in\n{text}")).split_whitespace().collect()
}

#[test]
fn schedulers_have_the_published_rows_in_both_tables() {
    let text = text(Study::Schedulers2009, &fixture::scheduler_trials());
    let tables: Vec<&str> = text.split("\n\n").collect();
    let bonnie = tables.iter().find(|table| table.starts_with("bonnie")).unwrap();
    assert_eq!(bonnie.lines().count(), 1 + 11 + 1);
    assert_eq!(line(bonnie, "XFS CFQ"), ["XFS", "CFQ", "942.0", "141", "-"]);
    assert_eq!(line(bonnie, "JFS CFQ"), ["JFS", "CFQ", "-", "-", "-"]);
    assert_eq!(line(bonnie, "btrfs bfq"), ["btrfs", "bfq", "942.0", "50", "-"]);
    assert!(text.contains("\nskipped: the kernel has no jfs (JFS CFQ)\n"));
    assert!(text.contains("the sweep has no such configuration (Reiser CFQ, "));
    let postmark = tables.iter().find(|table| table.starts_with("postmark")).unwrap();
    assert_eq!(postmark.lines().count(), 1 + 9);
}

#[test]
fn xfs_tweaks_repeat_the_baseline_in_each_experiment() {
    let mut trial = fixture::trial(0, 0, 0, fixture::configuration("xfs", "bfq"), 1.0);
    trial.configuration.name = "filesystems: xfs".to_string();
    let mut block = fixture::rated("write block", Role::Writer, 49915.0 * 1024.0, 0.0);
    block.roles[0].cpu.user_ns = fsdyno_core::Nanos::from_secs(9);
    block.roles[0].cpu.system_ns = fsdyno_core::Nanos::from_secs(3);
    trial.phases = vec![block, fixture::rated("delete random", Role::Deleter, 0.0, 340.0)];
    let text = text(Study::XfsTweaks2003, &[trial]);
    assert_eq!(text.lines().filter(|line| line.contains("49915  40")).count(), 7, "{text}");
    assert_eq!(line(&text, "Standard").len(), 1 + 12);
    assert!(text.contains("\nallocation-groups\n45 "));
    assert!(text.contains("340.0"));
}

#[test]
fn the_number_of_trials_behind_the_means_is_shown() {
    let mut trials = fixture::scheduler_trials();
    assert!(
        text(Study::Schedulers2009, &trials).ends_with("\nmeans over 1 to 2 trials of each configuration\n")
    );
    trials.retain(|trial| trial.case == 0);
    assert!(text(Study::Schedulers2009, &trials).ends_with("\nmeans over 2 trials of each configuration\n"));
}

#[test]
fn streaming_has_a_line_for_each_operation() {
    let mut configuration = fixture::configuration("ext4", "none");
    configuration.name = "ext4 readahead 4096".to_string();
    configuration.settings.insert("readahead".to_string(), "2M".to_string());
    let mut trial = fixture::trial(0, 0, 0, configuration, 1.0);
    trial.workload = Workload::of_kind("streaming").unwrap();
    trial.phases = vec![
        fixture::rated("write", Role::Writer, 295e6, 0.0),
        fixture::rated("read", Role::Reader, 509e6, 0.0),
    ];
    let text = text(Study::StreamingExt42008, &[trial]);
    assert!(text.contains("4096       read  509.00\n"), "{text}");
    assert_eq!(line(&text, "ext4")[..3], ["ext4", "6.18.44", "defaults"]);
    assert!(text.contains("write  295.00\n"));
    assert!(text.contains("the sweep has no such configuration (ext4 2.6.26-rc3 defaults 256 read,"));
}

#[test]
fn raid1_is_a_matrix_of_collections_and_tests() {
    let mut trials = Vec::new();
    for (case, (filesystem, readers)) in (0..).zip([("xfs", 1), ("ext3", 1), ("xfs", 2), ("ext3", 2)]) {
        let mut trial = fixture::trial(case, 0, case, fixture::configuration(filesystem, "none"), 1.0);
        trial.workload = Workload::Fileserver(Fileserver { readers, ..Fileserver::default() });
        trial.phases = vec![fixture::rated("copy", Role::Copier, 1e6, 1.0)];
        trials.push(trial);
    }
    let mut jfs = trials[0].clone();
    jfs.configuration.name = "jfs 4k".to_string();
    jfs.outcome = Outcome::Skipped { unmet: vec!["no jfs".to_string()] };
    let again = TrialRecord { case: 5, ..jfs.clone() };
    trials.extend([TrialRecord { case: 4, ..jfs }, again]);
    let text = text(Study::Raid12008, &trials);
    assert_eq!(line(&text, "1 copy"), ["1", "copy", "30.000", "30.000"]);
    assert_eq!(line(&text, "2 copy"), ["2", "copy", "30.000", "30.000"]);
    assert!(text.ends_with("\njfs 4k: skipped: no jfs\n"));
}

#[test]
fn fsopbench_is_the_compatible_table() {
    let text = text(Study::FsOpBench2009, &fixture::trials());
    assert_eq!(fsdyno_formats::fsopbench::parse(text.split("\n\nbtrfs").next().unwrap()).unwrap().len(), 2);
    assert!(text.contains("btrfs bfq: skipped: "));
}
