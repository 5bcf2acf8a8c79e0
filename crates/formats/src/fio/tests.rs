//! Results of fio 3.33, and what versions and options make of them.

use super::*;
use fsdyno_core::units::Nanos;

/// `fio --output-format=json+` of version 3.33 with two groups: two writers reported as one, and a mixed
/// job.
const CAPTURED: &str = include_str!("../../captured/fio-3.33.json");

#[test]
fn groups_become_phases_with_their_roles() {
    let report = output(CAPTURED).unwrap();
    assert!(report.warnings.is_empty());
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["writers", "mixed"]);
    let writers = &report.phases[0].roles;
    assert_eq!((writers.len(), writers[0].role, writers[0].workers), (1, Role::Writer, 2));
    assert_eq!(writers[0].rates.bytes, 32 << 20);
    assert!((writers[0].rates.operations_per_s - 102_400.0).abs() < 0.5);
    // 20 % of 5 ms.
    assert_eq!(writers[0].cpu, CpuTime { user_ns: Nanos(0), system_ns: Nanos::from_millis(1) });
    let mixed: Vec<Role> = report.phases[1].roles.iter().map(|role| role.role).collect();
    assert_eq!(mixed, [Role::Writer, Role::Reader]);
    assert_eq!(report.phases[1].roles[1].cpu, CpuTime::default());
}

#[test]
fn latencies_are_those_of_fio_within_its_bins() {
    let report = output(CAPTURED).unwrap();
    let write = &report.phases[0].roles[0].operations[0];
    assert_eq!(write.operation, Operation::Pwrite);
    let latency = &write.lat_ns;
    assert_eq!((latency.count, latency.min, latency.max), (512, 5087, 2_853_500));
    assert!((latency.mean - 12_517.949).abs() < 0.01 && (latency.stddev - 125_855.97).abs() < 0.1);
    for (ours, fio) in [
        (latency.median(), 6496.0),
        (latency.quantiles[Quantile::P90], 8256.0),
        (latency.quantiles[Quantile::P99], 11_328.0),
    ] {
        assert!((ours as f64 / fio - 1.0).abs() < 0.01, "{ours} against {fio}");
    }
    assert_eq!(latency.quantiles[Quantile::P9999], latency.max);
    let operations = &report.phases[1].roles[0].operations;
    assert_eq!(
        operations.iter().map(|result| result.operation).collect::<Vec<_>>(),
        [Operation::Pwrite, Operation::Fsync]
    );
    assert_eq!(operations[1].lat_ns.count, 59);
}

/// The same run as `--output-format=json` prints it: percentiles and no bins.
#[test]
fn without_bins_the_percentiles_of_fio_are_used() {
    let mut document: serde_json::Value = serde_json::from_str(CAPTURED).unwrap();
    let mut strip = |direction: &str, kind: &str| {
        let jobs = document["jobs"].as_array_mut().unwrap();
        jobs.iter_mut().for_each(|job| {
            job[direction][kind].as_object_mut().unwrap().remove("bins");
        });
    };
    for direction in ["read", "write"] {
        ["lat_ns", "clat_ns"].into_iter().for_each(|kind| strip(direction, kind));
    }
    let report = output(&document.to_string()).unwrap();
    let latency = &report.phases[0].roles[0].operations[0].lat_ns;
    assert_eq!((latency.count, latency.min, latency.max), (512, 5087, 2_853_500));
    for (ours, fio) in [
        (latency.median(), 6496.0),
        (latency.quantiles[Quantile::P90], 8256.0),
        (latency.quantiles[Quantile::P99], 11_328.0),
    ] {
        assert!((ours as f64 / fio - 1.0).abs() < 0.001, "{ours} against {fio}");
    }
}

/// Otherwise the percentiles of the slowest job would appear as those of all.
#[test]
fn percentiles_of_several_jobs_without_bins_are_means_with_a_warning() {
    let mut document: serde_json::Value = serde_json::from_str(CAPTURED).unwrap();
    let mut quick = document["jobs"][0].clone();
    for kind in ["lat_ns", "clat_ns"] {
        quick["write"][kind].as_object_mut().unwrap().remove("bins");
    }
    quick["job options"]["numjobs"] = "2".into();
    let mut slow = quick.clone();
    for ns in slow["write"]["clat_ns"]["percentile"].as_object_mut().unwrap().values_mut() {
        *ns = (ns.as_u64().unwrap() * 3).into();
    }
    let alone = |job: &serde_json::Value| {
        let mut one = document.clone();
        one["jobs"] = vec![job.clone()].into();
        output(&one.to_string()).unwrap()
    };
    let of = |report: &Results| report.phases[0].roles[0].operations[0].lat_ns.clone();
    let (a, b) = (of(&alone(&quick)), of(&alone(&slow)));
    assert!(alone(&quick).warnings.is_empty(), "{:?}", alone(&quick).warnings);
    document["jobs"] = vec![quick, slow].into();
    let both = output(&document.to_string()).unwrap();
    assert!(both.warnings.iter().any(|one| one.text.contains("is the mean of those of its 2 jobs")));
    let merged = of(&both);
    assert_eq!((merged.count, merged.max), (a.count + b.count, a.max.max(b.max)));
    for quantile in [Quantile::P50, Quantile::P90, Quantile::P99] {
        let mean = (a.quantiles[quantile] + b.quantiles[quantile]).div_ceil(2);
        assert_eq!(merged.quantiles[quantile], mean, "{quantile:?}");
        assert!(merged.quantiles[quantile] < b.quantiles[quantile], "{quantile:?}");
    }
    // No sample between two percentiles is made up.
    let histogram = &both.phases[0].roles[0].operations[0].histogram;
    assert_eq!(Histogram::decode(histogram).unwrap().count(), 0);
}

/// The captured run, with a change to the latencies of every job.
fn captured_with(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> Results {
    let mut document: serde_json::Value = serde_json::from_str(CAPTURED).unwrap();
    for job in document["jobs"].as_array_mut().unwrap() {
        for (direction, kind) in
            [("read", "lat_ns"), ("read", "clat_ns"), ("write", "lat_ns"), ("write", "clat_ns")]
        {
            change(job[direction][kind].as_object_mut().unwrap());
        }
    }
    output(&document.to_string()).unwrap()
}

/// `gtod_reduce=1` and `disable_lat=1` omit samples, `clat_percentiles=0` omits their percentiles.
#[test]
fn latencies_that_fio_omits_are_absent_with_a_warning() {
    for without in ["N", "bins"] {
        let report = captured_with(|latency| match without {
            "N" => latency.clear(),
            _ => latency.retain(|key, _| !["bins", "percentile"].contains(&key.as_str())),
        });
        let [writers, mixed] = &report.phases[..] else { panic!("two phases") };
        assert_eq!(writers.roles[0].operations, [], "without {without}");
        assert!((writers.roles[0].rates.operations_per_s - 102_400.0).abs() < 0.5);
        let syncs: Vec<Operation> = mixed.roles[0].operations.iter().map(|result| result.operation).collect();
        assert_eq!(syncs, [Operation::Fsync], "the latencies of syncs stay");
        assert_eq!(report.warnings.len(), 3, "{:?}", report.warnings);
        let text = &report.warnings[0].text;
        assert!(text.contains("'writers'") && text.contains("gtod_reduce"), "{text}");
    }
}

/// `percentile_list=50:99` without bins.
#[test]
fn percentiles_that_are_not_listed_are_unknown() {
    let report = captured_with(|latency| {
        latency.remove("bins");
        if let Some(percentiles) = latency.get_mut("percentile") {
            let listed = |key: &String| ["50.000000", "99.000000"].contains(&key.as_str());
            percentiles.as_object_mut().unwrap().retain(|key, _| listed(key));
        }
    });
    let latency = &report.phases[0].roles[0].operations[0].lat_ns;
    assert!((latency.median() as f64 / 6496.0 - 1.0).abs() < 0.001, "{latency:?}");
    assert!((latency.quantiles[Quantile::P99] as f64 / 11_328.0 - 1.0).abs() < 0.001, "{latency:?}");
    let unknown = [Quantile::P90, Quantile::P999, Quantile::P9999].map(|quantile| latency.known(quantile));
    assert_eq!(unknown, [None; 3]);
    assert!(report.warnings.is_empty());
}

#[test]
fn numbers_within_quotes_and_means_of_nothing_are_read() {
    let changed = CAPTURED.replacen("\"iops\" : 102400.000000", "\"iops\" : \"102400.0\"", 1).replacen(
        "\"stddev\" : 125855.973079",
        "\"stddev\" : -nan",
        1,
    );
    let report = output(&changed).unwrap();
    let writers = &report.phases[0].roles[0];
    assert!((writers.rates.operations_per_s - 102_400.0).abs() < 0.5);
    assert_eq!(writers.operations[0].lat_ns.count, 512);
    let error = output(&CAPTURED.replacen("\"iops\" : 102400.000000", "\"iops\" : \"many\"", 1));
    assert!(error.unwrap_err().contains("invalid type: string \"many\", expected a number"));
}

/// A job of 100 ms in one direction, with these options and this sum of its clones.
fn one_job(name: &str, direction: &str, options: &str, job_runtime: u32) -> String {
    format!(
        r#"{{ "jobs": [ {{ "jobname": "{name}", "job options": {{ {options} }}, "job_runtime": {job_runtime},
            "{direction}": {{ "io_bytes": 4096000, "bw_bytes": 40960000, "iops": 10000.0, "runtime": 100,
            "total_ios": 1000 }} }} ] }}"#
    )
}

fn workers(text: &str) -> u32 {
    output(text).unwrap_or_else(|problem| panic!("{text}: {problem}")).phases[0].roles[0].workers
}

#[test]
fn work_on_names_is_no_reading() {
    let report = output(&one_job("a", "read", r#""ioengine": "filecreate""#, 100)).unwrap();
    let creator = &report.phases[0].roles[0];
    assert_eq!((creator.role, creator.rates.items, creator.rates.bytes), (Role::Creator, 1000, 0));
    assert!((creator.rates.items_per_s - 10_000.0).abs() < 0.5 && creator.rates.aggregate_bytes_per_s == 0.0);
}

#[test]
fn the_number_of_jobs_follows_from_their_times() {
    let clones = r#""rw": "read", "bs": "4k", "numjobs": "4""#;
    // Clones that ended early leave fewer than four times the longest.
    assert_eq!([400, 290].map(|sum| workers(&one_job("a", "read", clones, sum))), [4, 4]);
    let files = r#""filename": "x""#;
    assert_eq!(workers(&one_job("a", "read", files, 300)), 3);
    // Rounded up to a millisecond, and no more than that.
    assert_eq!(workers(&one_job("a", "read", files, 102)), 1);
}

#[test]
fn what_was_added_up_of_unknown_jobs_is_refused_with_what_was_seen() {
    let refused = |name: &str, options: &str, sum| output(&one_job(name, "write", options, sum)).unwrap_err();
    let of_two = refused("log", "", 200);
    assert!(of_two.contains("job_runtime 200 ms is 2 x write.runtime 100 ms, and numjobs is 1"), "{of_two}");
    let renamed = refused("log", r#""name": "data", "rw": "write", "bs": "4k""#, 120);
    assert!(renamed.contains("its options are those of 'data'"), "{renamed}");
    let sized = refused("a", r#""rw": "write", "bs": "64k""#, 100);
    assert!(
        sized.contains("1000 writes of 4096 bytes on average, although its options say bs=64k"),
        "{sized}"
    );
    assert!(!sized.contains("group_reporting"), "{sized}");
    let grouped = refused("a", r#""rw": "write", "bs": "64k", "group_reporting": "1""#, 100);
    assert!(grouped.contains("group_reporting adds different jobs up"), "{grouped}");
    let reads = refused("a", r#""rw": "randread", "bs": "4k""#, 100);
    assert!(reads.contains("has written (1000 writes), although its options say rw=randread"), "{reads}");
}

#[test]
fn options_that_change_sizes_and_directions_explain_them() {
    for options in [
        r#""rw": "write", "bs": "64k", "bssplit": "4k/50:64k/50""#,
        r#""rw": "write", "bs": "64k", "continue_on_error": "write""#,
        r#""rw": "write", "bs": "64k", "zonemode": "strided""#,
        r#""rw": "read", "bs": "4k", "verify": "crc32c""#,
        r#""rw": "write", "bs": "64k,4k""#,
        r#""read_iolog": "log""#,
        "",
    ] {
        assert_eq!(workers(&one_job("a", "write", options, 100)), 1, "{options}");
    }
}

#[test]
fn anything_but_a_result_is_an_error() {
    assert_eq!(output("fio: no such job\n").unwrap_err(), "expected the JSON output of fio, found none");
    assert!(output("{ \"jobs\": 3 }").unwrap_err().starts_with("cannot parse its JSON"));
    let failed = CAPTURED.replacen("\"error\" : 0", "\"error\" : 28", 1);
    assert_eq!(
        output(&failed).unwrap_err(),
        "its job 'writers' failed with error 28 (no space left on device)"
    );
}
