use crate::REPORTS;
use crate::import::{File, Format, ImportError, trials};
use fsdyno_core::workload::Program;
use fsdyno_core::{Measure, TrialRecord, Workload};

fn captured(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/captured");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}

fn import(program: Program, text: String) -> Result<Vec<TrialRecord>, ImportError> {
    trials(Format::Report(program), &[File { path: "runs/xfs.txt".to_string(), text }], None)
}

fn value(trial: &TrialRecord, name: &str) -> Option<f64> {
    name.parse::<Measure>().unwrap().value(trial).map(|value| value.value)
}

fn option<'a>(trial: &'a TrialRecord, name: &str) -> Option<&'a str> {
    let Workload::External(external) = &trial.workload else { panic!("{:?}", trial.workload) };
    external.imported.as_ref().unwrap().options.get(name).map(String::as_str)
}

const MIB: f64 = 1_048_576.0;

/// A report, its number of trials, and figures of some of them.
type Case = (Program, &'static str, usize, &'static [(usize, &'static str, Option<f64>)]);

const CASES: &[Case] = &[
    (
        Program::Mdtest,
        "mdtest/1.9.4.txt",
        1,
        &[
            (0, "directory creation/creator/item-rate", Some(42_008.663)),
            (0, "file removal/deleter/item-rate", Some(225_557.873)),
            (0, "tree removal/deleter/item-rate", Some(84.059)),
            (0, "file creation/creator/rate", None),
            (0, "longest-stall", None),
        ],
    ),
    (
        Program::Mdtest,
        "mdtest/1.9.3-in-ior-3.2.1.txt",
        1,
        &[(0, "file read/reader/item-rate", Some(314_763.577))],
    ),
    (Program::Mdtest, "mdtest/3.3.0.txt", 1, &[(0, "file stat/examiner/item-rate", Some(820_986.232))]),
    // The rates of single iterations are those of one task, and the times are of the same run.
    (
        Program::Mdtest,
        "mdtest/4.0.0-u-P-v.txt",
        1,
        &[
            (0, "directory rename/transactor/item-rate", Some(180_849.248)),
            (0, "file creation/creator/item-rate", Some(2_519.989)),
        ],
    ),
    (
        Program::Mdtest,
        "mdtest/4.0.0-showRankStatistics.txt",
        1,
        &[(0, "file creation/creator/item-rate", Some(807.477))],
    ),
    // Tests that were not run are printed as 0.
    (
        Program::Mdtest,
        "mdtest/4.0.0-C-F.txt",
        1,
        &[(0, "file creation/creator/item-rate", Some(1_723.225)), (0, "file stat/examiner/item-rate", None)],
    ),
    (
        Program::Mdtest,
        "mdtest/4.0.0-Z.txt",
        1,
        &[(0, "file creation/creator/item-rate", Some(4_000.0 / 2.104))],
    ),
    (Program::Mdtest, "mdtest/summary-only.txt", 1, &[(0, "file stat/examiner/item-rate", Some(840_900.2))]),
    (
        Program::Ior,
        "ior/2.10.3.txt",
        1,
        &[(0, "write/writer/rate", Some(777.11 * MIB)), (0, "read/reader/operation-rate", Some(6_685.90))],
    ),
    (
        Program::Ior,
        "ior/3.0.1.txt",
        2,
        &[(0, "write/writer/rate", Some(1_072.49 * MIB)), (1, "read/reader/rate", Some(12_889.0 * MIB))],
    ),
    (
        Program::Ior,
        "ior/3.2.1.json",
        2,
        &[(0, "write/writer/rate", Some(1_457.244_5 * MIB)), (1, "write/writer/rate", Some(648.517_1 * MIB))],
    ),
    (Program::Ior, "ior/3.3.0.txt", 2, &[(1, "read/reader/operation-rate", Some(7_850.0))]),
    (
        Program::Ior,
        "ior/4.0.0.txt",
        2,
        &[
            (0, "write/writer/rate", Some(648.98 * MIB)),
            (0, "write/writer/operation-rate", Some(655.63)),
            (0, "write latency mean of the fastest task (ms)", Some(3_051_000.0)),
        ],
    ),
    (Program::Ior, "ior/4.0.0.json", 2, &[(0, "write/writer/rate", Some(1_229.280_2 * MIB))]),
    (
        Program::Ior,
        "ior/4.0.0.csv",
        2,
        &[
            (0, "write/writer/rate", Some(1_442.705 * MIB)),
            (1, "read/reader/operation-rate", Some(12_885.726_6)),
        ],
    ),
    (
        Program::Elbencho,
        "elbencho/2-csvfile.csv",
        2,
        &[
            (0, "mkdirs/creator/item-rate", Some(1_466.0)),
            (0, "write/writer/rate", Some(2_941.0 * MIB)),
            (0, "write/writer/operation-rate", Some(2_941.0)),
            (0, "write IO latency max (us)", Some(120_903_000.0)),
            (0, "mkdirs IO latency max (us)", None),
            (1, "write/writer/rate", Some(2_950.0 * MIB)),
            (1, "mkdirs/creator/item-rate", None),
        ],
    ),
    (
        Program::Elbencho,
        "elbencho/3-livecsv.csv",
        1,
        &[(0, "read/reader/rate", Some(123_498_496.0)), (0, "read/reader/operation-rate", None)],
    ),
    (
        Program::Iozone,
        "iozone/3.489-a.txt",
        6,
        &[
            (0, "write/writer/rate", Some(4_810_640.0 * 1_024.0)),
            (5, "freread/reader/rate", Some(9_483_197.0 * 1_024.0)),
        ],
    ),
    // Columns between those of the tests that were run are empty.
    (
        Program::Iozone,
        "iozone/3.489-i.txt",
        1,
        &[
            (0, "random write/writer/rate", Some(1_031_464.0 * 1_024.0)),
            (0, "backward read/reader/rate", None),
        ],
    ),
    (
        Program::Iozone,
        "iozone/3.489-t.txt",
        1,
        &[
            (0, "write/writer/rate", Some(2_795_836.0 * 1_024.0)),
            (0, "reread/reader/rate", Some(10_572_214.5 * 1_024.0)),
        ],
    ),
    (
        Program::Iozone,
        "iozone/3.489-O.txt",
        1,
        &[(0, "write/writer/operation-rate", Some(280.0)), (0, "write/writer/rate", None)],
    ),
    (Program::Iozone, "iozone/3.489-N.txt", 1, &[(0, "rewrite latency mean (us)", Some(7_000.0))]),
    (Program::Iozone, "iozone/3.489-R.txt", 9, &[(8, "reread/reader/rate", Some(8_925_508.0 * 1_024.0))]),
    (
        Program::Sysbench,
        "sysbench/1.0.20-rndrw.txt",
        1,
        &[
            (0, "random read and write/reader/rate", Some(368.27 * MIB)),
            (0, "random read and write/writer/operation-rate", Some(15_712.95)),
            (0, "syncs (ops/s)", Some(1_573.28)),
            (0, "request latency mean (ms)", Some(5_930.74 / 123_446.0 * 1e6)),
            (0, "request latency min (ms)", None),
            (0, "request latency p95 (ms)", Some(10_000.0)),
        ],
    ),
    (
        Program::Sysbench,
        "sysbench/1.0.20-rndwr-fsync-all.txt",
        1,
        &[
            (0, "random write/writer/rate", Some(155.70 * MIB)),
            (0, "random write/reader/rate", None),
            (0, "request latency p95 (ms)", None),
        ],
    ),
    (
        Program::Sysbench,
        "sysbench/1.0.20-seqwr-histogram.txt",
        1,
        &[(0, "request latency p95 (ms)", Some(20_000.0))],
    ),
    (
        Program::Sysbench,
        "sysbench/0.5-rndrw.txt",
        1,
        &[
            (0, "random read and write/reader/rate", Some(62.25 * MIB / 60.0149)),
            (0, "random read and write/writer/operation-rate", Some(2_656.0 / 60.0149)),
            (0, "request latency max (ms)", Some(164_530_000.0)),
            (0, "request latency p95 (ms)", Some(13_150_000.0)),
        ],
    ),
    (
        Program::Sysbench,
        "sysbench/1.0.20-oltp.txt",
        1,
        &[(0, "transactions/transactor/item-rate", Some(205.7))],
    ),
];

#[test]
fn each_report_is_recognised_and_read_as_printed() {
    for (program, path, count, figures) in CASES {
        assert_eq!(Format::of(&captured(path)), Some(Format::Report(*program)), "{path}");
        let imported = import(*program, captured(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(imported.len(), *count, "{path}: {imported:#?}");
        for (trial, measure, expected) in *figures {
            let found = value(&imported[*trial], measure);
            let close = match (found, expected) {
                (Some(found), Some(expected)) => (found / expected - 1.0).abs() < 1e-6,
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(close, "{path}: {measure} of trial {trial} is {found:?}, not {expected:?}");
        }
        assert!(crate::import::measure(&imported).is_some(), "{path}");
    }
}

/// Trials of other work are other cases.
#[test]
fn what_a_report_states_about_the_work_is_part_of_the_workload() {
    for (program, path, name, expected) in [
        (Program::Mdtest, "mdtest/1.9.4.txt", "-n", Some("200")),
        (Program::Mdtest, "mdtest/1.9.4.txt", "tasks", Some("2")),
        (Program::Mdtest, "mdtest/1.9.4.txt", "-d", None),
        (Program::Mdtest, "mdtest/4.0.0-u-P-v.txt", "-u", Some("")),
        (Program::Ior, "ior/2.10.3.txt", "transfer size", Some("1 MiB")),
        (Program::Ior, "ior/3.0.1.txt", "tasks", Some("2")),
        (Program::Ior, "ior/4.0.0.txt", "-e", Some("")),
        (Program::Ior, "ior/4.0.0.json", "access", Some("file-per-process")),
        (Program::Ior, "ior/4.0.0.csv", "transfer size", Some("1024 KiB")),
        (Program::Elbencho, "elbencho/2-csvfile.csv", "direct IO", Some("1")),
        (Program::Iozone, "iozone/3.489-i.txt", "-e", Some("")),
        (Program::Iozone, "iozone/3.489-i.txt", "record size", Some("64 kB")),
        (Program::Iozone, "iozone/3.489-t.txt", "processes", Some("2")),
        (Program::Sysbench, "sysbench/1.0.20-rndrw.txt", "block size", Some("16KiB")),
        (Program::Sysbench, "sysbench/1.0.20-rndrw.txt", "requests between syncs", Some("100")),
        (Program::Sysbench, "sysbench/1.0.20-rndwr-fsync-all.txt", "sync after each write", Some("")),
    ] {
        let imported = import(program, captured(path)).unwrap();
        assert_eq!(option(&imported[0], name), expected, "{path}: {name}");
    }
    let first = captured("mdtest/1.9.4.txt");
    let other = first.replace("-n 200", "-n 400").replace("mdtest-1.9.4", "mdtest-1.9.5");
    // In one file or in two.
    let joined = File { path: "a".to_string(), text: first.clone() + &other };
    let files = [first, other].map(|text| File { path: "a".to_string(), text });
    for files in [&files[..], &[joined]] {
        let imported = trials(Format::Report(Program::Mdtest), files, Some("ext4")).unwrap();
        assert_eq!([imported[0].case, imported[1].case], [0, 1]);
        assert_eq!([option(&imported[0], "-n"), option(&imported[1], "-n")], [Some("200"), Some("400")]);
        assert_eq!(imported[1].environment.tools["mdtest"], "1.9.5-rc1");
    }
    let joined = captured("ior/4.0.0.txt") + &captured("ior/3.0.1.txt").replace(" -e", " -Y");
    let imported = import(Program::Ior, joined).unwrap();
    assert_eq!(imported.len(), 4);
    assert_eq!([option(&imported[1], "-e"), option(&imported[2], "-e")], [Some(""), None]);
    assert_eq!(imported[3].environment.tools["ior"], "3.0.1");
    let again = [files[0].clone(), files[0].clone()];
    let imported = trials(Format::Report(Program::Mdtest), &again, Some("ext4")).unwrap();
    assert_eq!([imported[0].case, imported[1].case], [0, 0]);
}

/// The table that `-R` repeats may be all that was kept.
#[test]
fn reports_for_spreadsheets_are_read_without_the_table() {
    let whole = captured("iozone/3.489-R.txt");
    let report = &whole[whole.find("\"Writer report\"").unwrap()..];
    let table = import(Program::Iozone, whole.clone()).unwrap();
    let imported = import(Program::Iozone, report.to_string()).unwrap();
    assert_eq!(imported.len(), table.len());
    for trial in &table {
        let size = option(trial, "file size").zip(option(trial, "record size"));
        let same =
            imported.iter().find(|one| option(one, "file size").zip(option(one, "record size")) == size);
        assert_eq!(same.unwrap().phases, trial.phases);
    }
}

/// Older versions have columns of other widths; here of 3.3xx, with tests left out.
#[test]
fn a_figure_belongs_to_the_heading_above_it() {
    let text = "\
\tIozone: Performance Test of File I/O
\t        Version $Revision: 3.397 $
\tCommand line used: iozone -i 0 -i 2 -i 8 -s 4096 -r 64
\tOutput is in Kbytes/sec
                                                            random  random    bkwd   record   stride
              KB  reclen   write rewrite    read    reread    read   write    read  rewrite     read   fwrite frewrite   fread  freread
            4096      64  444587 1067042                   2467108 1143223";
    let imported = import(Program::Iozone, text.to_string()).unwrap();
    let rates =
        ["write/writer", "rewrite/writer", "random read/reader", "random write/writer", "read/reader"];
    let rates = rates.map(|of| value(&imported[0], &format!("{of}/rate")).map(|rate| rate / 1_024.0));
    assert_eq!(rates, [Some(444_587.0), Some(1_067_042.0), Some(2_467_108.0), Some(1_143_223.0), None]);
}

#[test]
fn json_and_console_of_elbencho_have_the_same_figures() {
    let json = r#"{"phase_type":"RWMIX30","phase_id":"a","label":"xfs","iso_start_date":"2026-05-22T16:09:38.123+0200","config":{"path_type":"dir","paths":"1","hosts":"1","threads":"8","file_size":"1048576","block_size":"4096","direct_io":"true","io_depth":"1","version":"3.1-9","command":"\"elbencho\" \"-w\" \"--rwmixpct\" \"30\" \"/mnt/a\" "},"first_done":{"elapsed_time_ms":"2000","cpu%":"9"},"last_done":{"elapsed_time_ms":"62345","entries/s":"12","iops":"3072","bytes/s":"12582912","entries":"748","bytes":"784334848","rwmix_read":{"iops":"1024","bytes/s":"4194304","bytes":"261095424"},"cpu%":"8","latency":{"IO":{"min_us":"16","avg_us":"290","max_us":"12090","rwmix_read":{"min_us":"12","avg_us":"240","max_us":"9000"}}}}}
"#;
    let console = "\
OPERATION   RESULT TYPE         FIRST DONE   LAST DONE
=========== ================    ==========   =========
RWMIX30     Elapsed time     :      2.000s   1m2.345s
            Files/s          :          12          12
            IOPS write       :        3072        3072
            IOPS read        :        1024        1024
            IOPS total       :        4096        4096
            MiB/s write      :          12          12
            MiB/s read       :           4           4
            MiB/s total      :          16          16
            IO wr latency    : [ min=16us avg=290us max=12.09ms ]
            IO wr lat % us   : [ 1%<=19 50%<=256 75%<=304 99%<=1218 ]
            IO rd latency    : [ min=12us avg=240us max=9.00ms ]
---
";
    let read = |text: &str| import(Program::Elbencho, text.to_string()).unwrap().remove(0);
    let (json, console) = (read(json), read(console));
    for (name, expected) in [
        ("rwmix30/writer/rate", 12.0 * MIB),
        ("rwmix30/reader/rate", 4.0 * MIB),
        ("rwmix30/reader/operation-rate", 1_024.0),
        ("rwmix30/writer/item-rate", 12.0),
        ("rwmix30 IO latency max (us)", 12_090_000.0),
        ("rwmix30 read IO latency mean (us)", 240_000.0),
    ] {
        assert_eq!([value(&json, name), value(&console, name)], [Some(expected); 2], "{name}");
    }
    assert_eq!(value(&console, "rwmix30 IO latency p99 (us)"), Some(1_218_000.0));
    let old = read(
        "READ        Elapsed ms       :          5         7\n            IO latency us    : [ min=16 avg=29 max=120 ]\n            IO lat %ile us   : [ 1%<=19 50%<=26 ]\n            Throughput MiB/s :  3 4\n",
    );
    assert_eq!(value(&old, "read IO latency mean (us)"), Some(29_000.0));
    assert_eq!(value(&old, "read IO latency p50 (us)"), Some(26_000.0));
    assert_eq!(old.phases[0].window_ns.0, 7_000_000);
    assert_eq!(json.phases[0].window_ns, console.phases[0].window_ns);
    assert_eq!((option(&json, "--rwmixpct"), json.configuration.name.as_str()), (Some("30"), "xfs"));
    assert!(console.warnings[0].text.contains("says nothing about its options"), "{:?}", console.warnings);
}

#[test]
fn anything_but_a_report_is_one_error_with_its_place() {
    for (program, text, at, problem) in [
        (Program::Mdtest, String::new(), (1, 1), "expected a table of mdtest"),
        (
            Program::Mdtest,
            "SUMMARY rate: (of 1 iterations)\n   File stat  1 2 x 0\n".into(),
            (2, 19),
            "found 'x'",
        ),
        (
            Program::Mdtest,
            "SUMMARY rate: (of 1 iterations)\n   File stat  1 2\n".into(),
            (2, 1),
            "four figures",
        ),
        (Program::Ior, "access bw(MiB/s) iter\nwrite \u{1b}[7m 0\n".into(), (2, 7), "expected a number"),
        (Program::Ior, captured("ior/3.3.0.csv"), (1, 1), "summaryFormat=CSV omits it"),
        (
            Program::Elbencho,
            captured("elbencho/2-csvfile.csv").replacen(",2941,", ",-1,", 1),
            (3, 92),
            "'-1'",
        ),
        (Program::Elbencho, format!("{{\"a\":{}", "[".repeat(1 << 20)), (1, 132), "recursion"),
        (Program::Iozone, "Iozone: Performance Test\n".into(), (1, 1), "expected a table of iozone"),
        (
            Program::Sysbench,
            format!("sysbench 1.0\n    reads/s:   {}\n", "9".repeat(400)),
            (2, 16),
            "expected a number",
        ),
    ] {
        let error = import(program, text).unwrap_err();
        let ImportError::Syntax { line, column, problem: found, .. } = &error else { panic!("{error}") };
        assert!((*line, *column) == at && found.contains(problem), "{error}");
    }
    // However much there is, a report of one program is not one of another.
    for (program, path, ..) in CASES {
        for report in REPORTS.iter().filter(|report| report.program != *program) {
            assert!(import(report.program, captured(path)).is_err(), "{path} as {}", report.program.name());
        }
    }
}

#[test]
fn a_report_that_ends_anywhere_or_overflows_breaks_nothing() {
    for (program, path, ..) in CASES {
        let text = captured(path);
        for end in (0..text.len()).step_by(61).filter(|end| text.is_char_boundary(*end)) {
            let _ = import(*program, text[..end].to_string());
        }
        for many in ["9".repeat(19), "9".repeat(300), "1e308".to_string()] {
            let _ = import(*program, text.replace(" 2 ", &format!(" {many} ")).replace("4096", &many));
        }
    }
}
