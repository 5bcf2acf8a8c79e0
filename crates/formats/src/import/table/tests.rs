use super::*;

fn import(text: &str, options: &TableOptions) -> Result<Imported, ImportError> {
    table(&File::new("mine.csv", text.as_bytes().to_vec())?, options)
}

fn megabytes() -> TableOptions {
    TableOptions { unit: Some("MB/s".to_string()), ..TableOptions::default() }
}

/// The error of a table whose figures are in MB/s.
fn refused(text: &str) -> String {
    import(text, &megabytes()).unwrap_err().to_string()
}

fn place(trial: &TrialRecord) -> (u32, u32, &str) {
    (trial.case, trial.block, trial.configuration.name.as_str())
}

#[test]
fn rows_are_trials_of_cases_in_blocks() {
    let text = "filesystem,atime,block,value\n\
                ext4,noatime,1,100\n\
                xfs,noatime,1,250.5\n\
                xfs,noatime,2,240\n\
                ext4,,2,9e1\n";
    let Imported { trials, measure, .. } = import(text, &megabytes()).unwrap();
    assert_eq!(measure.name(), "value (MB/s)");
    let places: Vec<_> = trials.iter().map(place).collect();
    assert_eq!(
        places,
        [(0, 1, "ext4 noatime"), (1, 1, "xfs noatime"), (1, 2, "xfs noatime"), (2, 2, "ext4")]
    );
    let values: Vec<f64> = trials.iter().map(|trial| measure.value(trial).unwrap().value).collect();
    assert_eq!(values, [100e6, 250.5e6, 240e6, 90e6]);
    assert_eq!(trials[0].configuration.settings["atime"], "noatime");
    assert!(trials[3].configuration.settings.is_empty(), "an empty cell is the default");
    assert_eq!(trials[3].trial, 3);
}

#[test]
fn without_blocks_the_nth_row_of_a_case_is_in_block_n() {
    let text = "depth\tvalue\n1\t5\n1\t6\ndefault\t7\n1\t8\n\t9\n";
    let Imported { trials, .. } = import(text, &megabytes()).unwrap();
    let places: Vec<_> = trials.iter().map(place).collect();
    let expected =
        [(0, 0, "depth=1"), (0, 1, "depth=1"), (1, 0, "default"), (0, 2, "depth=1"), (1, 1, "default")];
    assert_eq!(places, expected);
}

#[test]
fn workloads_are_ranked_apart_and_blocks_may_have_names() {
    let text =
        "workload,configuration,repetition,value\nread,a,morning,1\nwrite,a,morning,2\nread,a,noon,3\n";
    let Imported { trials, .. } = import(text, &megabytes()).unwrap();
    let places: Vec<_> = trials.iter().map(place).collect();
    assert_eq!(places, [(0, 0, "a"), (1, 0, "a"), (0, 1, "a")]);
    assert_eq!(trials[1].workload.load().title(), "a table: write");
}

#[test]
fn several_columns_can_have_figures_and_the_first_named_ranks() {
    let text = "depth;p99 (ms);IOPS\n1;2.5;1000\n2;5;1500\n";
    let options = TableOptions {
        measures: vec!["IOPS".to_string(), "p99".to_string()],
        unit: Some("IOPS".to_string()),
        better: None,
    };
    let Imported { trials, measure, .. } = import(text, &options).unwrap();
    assert_eq!(measure.name(), "IOPS (IOPS)");
    let Imported { trials: same, measure, .. } =
        import(&text.replace("IOPS", "IOPS (/s)"), &TableOptions::default()).unwrap();
    assert_eq!((measure.name(), same[0].columns.len()), ("p99 (ms)", 2), "what has a unit is a figure");
    assert_eq!(trials[1].columns["p99 (ms)"], 5e6);
    assert_eq!(trials[1].configuration.settings.len(), 1);
}

#[test]
fn a_bom_quotes_and_blank_lines_are_no_part_of_the_table() {
    let text = "\u{feff}scheduler,value\r\n\r\n\"a \"\"b\"\", c\",1\r\n";
    let Imported { trials, .. } = import(text, &megabytes()).unwrap();
    assert_eq!(trials[0].configuration.settings["scheduler"], "a \"b\", c");
    assert_eq!(
        refused("\u{feff}\"a,b\",value\n\n\nx,1\n\"y,\"\"\",q\n"),
        "'mine.csv', line 5, column 8: expected a number, found 'q'"
    );
}

#[test]
fn whatever_is_no_table_is_rejected_with_its_place() {
    for (text, expected) in [
        ("", "'mine.csv': it is empty"),
        ("a,value\n", "'mine.csv': it has headings and no rows"),
        (
            "SUMMARY rate: (of 3 iterations)\n   Operation  Max  Min\n   File stat  8.5  8.1\n",
            "'mine.csv', line 1, column 1: this line has no columns, which commas, semicolons or tabs separate",
        ),
        (
            "a,rate (MB/s),rate [MB/s]\n1,2,3\n",
            "'mine.csv', line 1, column 15: there is another column 'rate [MB/s]'",
        ),
        (
            "a,b\n1,2\n",
            "'mine.csv', line 1, column 1: no column 'value', only 'a', 'b'; --measure COLUMN names",
        ),
        ("a,,value\n1,2,3\n", "'mine.csv', line 1, column 3: a column needs a heading"),
        ("a,a,value\n1,2,3\n", "'mine.csv', line 1, column 3: there is another column 'a'"),
        (
            "block,repetition,value\n1,2,3\n",
            "'mine.csv', line 1, column 7: a table has one column 'block' or",
        ),
        ("a,value\n1,2\n3\n", "'mine.csv', line 3, column 1: a row of 1 cells under 2 headings"),
        ("a,value\n1,2,3\n", "'mine.csv', line 2, column 5: a row of 3 cells under 2 headings"),
        ("a,value\n1,2\n1,fast\n", "'mine.csv', line 3, column 3: expected a number, found 'fast'"),
        ("a,value\n1,\n", "'mine.csv': no row has a figure in its column 'value'"),
        ("a,value\n1,NaN\n", "'mine.csv', line 2, column 3: expected a number, found 'NaN'"),
        ("a,value\n1,inf\n", "'mine.csv', line 2, column 3: expected a number, found 'inf'"),
        ("a,value\n1,-2\n", "'mine.csv', line 2, column 3: no measurement of value (MB/s) is -2"),
        ("a,value\n1,1e30\n", "'mine.csv', line 2, column 3: no measurement of value (MB/s) is 1e30"),
        (
            "a,block,value\nx,1,5\ny,1,6\nx,1,7\n",
            "'mine.csv', line 4, column 1: 'a=x' is in block '1' twice, first on line 2",
        ),
        (
            "configuration,a,value\nx,1,5\nx,2,6\n",
            "'mine.csv', line 3, column 1: 'x' has other settings on line 2",
        ),
        (
            "a,value\n\u{1b}[31m,5\n",
            "'mine.csv', line 2, column 1: a table cannot contain the control character U+001B",
        ),
        (
            "a\u{7},value\n1,5\n",
            "'mine.csv', line 1, column 1: a table cannot contain the control character U+0007",
        ),
        ("a,value\n\"x\ny,5\n", "'mine.csv', line 2, column 1: a row of 1 cells under 2 headings"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
        assert!(!error.contains(|letter: char| letter.is_control()), "{error:?}");
    }
}

#[test]
fn figures_without_a_direction_are_rejected_with_the_options_that_give_one() {
    let error = import("a,value\n1,5\n", &TableOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("'mine.csv', line 1, column 3: 'value' has no unit"), "{error}");
    assert!(
        error.ends_with("--unit UNIT and --better more|less say it for the columns of --measure"),
        "{error}"
    );
    let better = TableOptions { better: Some(Direction::LowerIsBetter), ..TableOptions::default() };
    assert_eq!(import("a,value\n1,5\n", &better).unwrap().measure.name(), "value (less)");
}

#[test]
fn endless_lines_and_tables_are_rejected() {
    let long = "x".repeat(32 << 20);
    let error = refused(&format!("a,value\n{long},5\n"));
    assert!(
        error.starts_with("'mine.csv', line 2, column 1: 'xxxxxxxxxxxxxxxxxxxx...' has 33554432 bytes"),
        "{error}"
    );
    let error = refused(&format!("{}value\n", ",".repeat(1 << 20)));
    assert!(error.starts_with("'mine.csv', line 1, column 257: more than 256 columns"), "{error}");
    let rows: String = (0..=MOST_ROWS).map(|row| format!("{row},1\n")).collect();
    let error = refused(&format!("a,value\n{rows}"));
    assert!(error.starts_with("'mine.csv', line 50002, column 1: a table has at most 50000 rows"), "{error}");
}

/// A figure that was taken for a setting would make a configuration of every row.
#[test]
fn a_column_whose_unit_is_not_known_is_no_setting() {
    let text = "filesystem,deliveries (mails/s),tps (1/s)\next4,414,1\nxfs,506,2\n";
    let options = TableOptions { measures: vec!["tps".to_string()], ..megabytes() };
    let error = import(text, &options).unwrap_err().to_string();
    assert!(
        error.starts_with("'mine.csv', line 1, column 12: 'mails/s' is no unit that says which way"),
        "{error}"
    );
    let better = TableOptions { better: Some(Direction::HigherIsBetter), ..TableOptions::default() };
    let named = TableOptions { measures: vec!["deliveries".to_string()], ..better };
    let Imported { trials, measure, .. } = import(text, &named).unwrap();
    assert_eq!(measure.value(&trials[1]).unwrap().value, 506.0);
    assert!(trials[1].configuration.settings.is_empty(), "{:?}", trials[1].configuration);
}

#[test]
fn numbers_whose_ratios_overflow_are_no_measurements() {
    let error = refused("filesystem,value\next4,5e-324\n");
    assert!(error.contains("no measurement of value (MB/s) is 5e-324"), "{error}");
    assert!(import("filesystem,value\next4,0\n", &megabytes()).is_ok());
}

/// `ext4: 1 of 2 failed`: the name, the measured trials and the failed ones of each case.
fn counts(imported: &Imported) -> Vec<(String, usize, usize)> {
    let mut cases: Vec<(String, usize, usize)> = Vec::new();
    for trial in &imported.trials {
        let name = &trial.configuration.name;
        let index = cases.iter().position(|case| case.0 == *name).unwrap_or_else(|| {
            cases.push((name.clone(), 0, 0));
            cases.len() - 1
        });
        match trial.outcome {
            Outcome::Measured => cases[index].1 += 1,
            _ => cases[index].2 += 1,
        }
    }
    cases
}

fn by(measure: &str, unit: Option<&str>) -> TableOptions {
    TableOptions { measures: vec![measure.to_string()], unit: unit.map(str::to_string), better: None }
}

#[test]
fn whatever_tells_runs_apart_is_the_block() {
    for name in ["run", "Iteration", "rep", "trial_no", "sample", "Round #", "pass", "attempt", "#"] {
        let text =
            format!("filesystem,{name},throughput (MB/s)\next4,1,200\nxfs,1,250\next4,2,204\nxfs,2,255\n");
        let imported = import(&text, &TableOptions::default()).unwrap();
        let places: Vec<_> = imported.trials.iter().map(place).collect();
        assert_eq!(places, [(0, 1, "ext4"), (1, 1, "xfs"), (0, 2, "ext4"), (1, 2, "xfs")], "{name}");
    }
}

#[test]
fn a_second_figure_and_a_moment_are_no_settings() {
    let imported =
        import(include_str!("../../../captured/table-two-figures.csv"), &by("read_iops", Some("IOPS")));
    let imported = imported.unwrap();
    let counts = counts(&imported);
    assert_eq!(counts.len(), 6, "{counts:?}");
    assert!(counts.iter().all(|(_, measured, failed)| (*measured, *failed) == (2, 0)), "{counts:?}");
    assert_eq!(imported.trials[0].columns.len(), 2, "write_iops is shown, too");
    let imported =
        import(include_str!("../../../captured/table-timestamp.csv"), &TableOptions::default()).unwrap();
    assert_eq!(self::counts(&imported), [("ext4".to_string(), 2, 0), ("xfs".to_string(), 2, 0)]);
    assert_eq!(imported.notes, ["the column 'timestamp' says when, and is left out"]);
    let text = "filesystem,mean latency,throughput (MB/s)\next4,3.1,200\nxfs,3.2,250\next4,3.3,201\n";
    let imported = import(text, &TableOptions::default()).unwrap();
    assert_eq!(self::counts(&imported), [("ext4".to_string(), 2, 0), ("xfs".to_string(), 1, 0)]);
    assert!(imported.notes[0].starts_with("the column 'mean latency' has figures"), "{:?}", imported.notes);
}

#[test]
fn a_row_without_the_figure_that_ranks_has_failed_and_another_figure_may_be_missing() {
    let text = "filesystem,throughput (MB/s),p99 (ms)\next4,200,\next4,,3\nxfs,250,4\nxfs,n/a,-\n";
    let imported = import(text, &TableOptions::default()).unwrap();
    assert_eq!(counts(&imported), [("ext4".to_string(), 1, 1), ("xfs".to_string(), 1, 1)]);
    assert!(!imported.trials[0].columns.contains_key("p99 (ms)"), "it is absent, not 0");
    let Outcome::Failed { error } = &imported.trials[1].outcome else { panic!("it failed") };
    assert_eq!(error.to_string(), "table: line 3 has no figure in 'throughput (MB/s)'");
}

#[test]
fn tables_of_elbencho_are_read_with_their_empty_cells() {
    let text = include_str!("../../../captured/table-elbencho.csv");
    let imported = import(text, &by("MiB/s [last]", None)).unwrap();
    assert_eq!(imported.measure.name(), "MiB/s [last] (MiB/s)");
    let outcomes: Vec<&str> = imported.trials.iter().map(|trial| trial.outcome.word()).collect();
    assert_eq!(outcomes, ["failed", "measured", "measured"]);
    assert_eq!(imported.trials[1].case, imported.trials[2].case, "{:?}", imported.trials[2].configuration);
    let setting = |name: &str| imported.trials[1].configuration.settings.get(name).cloned();
    assert_eq!((setting("block size"), setting("operation")), (Some("1048576".into()), None));
    assert_eq!(imported.trials[1].workload, Workload::Table(Table { load: "WRITE".to_string() }));
    let text = include_str!("../../../captured/table-elbencho-live.csv");
    let imported = import(text, &TableOptions::default()).unwrap();
    assert_eq!((imported.measure.name(), imported.trials.len()), ("MiB/s (MiB/s)", 2));
    assert_eq!(imported.trials[0].columns["IOPS (IOPS)"], 30151.0);
}

#[test]
fn units_and_numbers_are_read_as_people_write_them() {
    for (text, name, values) in [
        (include_str!("../../../captured/table-units.csv"), "throughput (MB/s)", [200e6, 250e6]),
        (include_str!("../../../captured/table-thousands.csv"), "throughput (KB/s)", [503_244e3, 603_244e3]),
        (include_str!("../../../captured/table-decimal-comma.csv"), "throughput (MB/s)", [203.5e6, 210.1e6]),
        (
            "# two disks, one machine\n#filesystem,lat_us\next4,130\n# a pause\nxfs,120\n",
            "lat_us (us)",
            [130e3, 120e3],
        ),
        ("filesystem,iops,\next4,130,\n,,\nxfs,120,\n", "iops (IOPS)", [130.0, 120.0]),
    ] {
        let imported = import(text, &TableOptions::default()).unwrap();
        assert_eq!(imported.measure.name(), name);
        let read: Vec<f64> =
            imported.trials.iter().map(|trial| imported.measure.value(trial).unwrap().value).collect();
        assert_eq!(read, values, "{text}");
    }
    let error = import("fs;rate (MB/s)\na;1,234\n", &TableOptions::default()).unwrap_err().to_string();
    assert!(error.contains("line 2, column 3: '1,234' may be one number with a decimal comma"), "{error}");
}

#[test]
fn no_option_or_hint_makes_a_latency_better_when_it_is_higher() {
    let error = refused("filesystem,latency (ticks),value\next4,130,1\n");
    assert!(error.contains("write (ticks, less); if") && !error.contains("more"), "{error}");
    let better = TableOptions { better: Some(Direction::HigherIsBetter), ..by("latency", None) };
    for options in [by("latency", Some("MB/s")), better] {
        let error = import("filesystem,latency\next4,130\n", &options).unwrap_err().to_string();
        assert!(error.contains("'latency' is a latency, of which less is better"), "{error}");
    }
}

#[test]
fn what_was_done_is_the_workload_whatever_its_column_is_called() {
    for heading in ["test", "Benchmark", "operation", "job name", "test_name"] {
        let text = format!("{heading},depth,value\nread,1,50\nread,2,60\nstat,1,9000\nstat,2,8000\n");
        let Imported { trials, notes, .. } = import(&text, &megabytes()).unwrap();
        assert!(notes[0].contains("is taken for the workload"), "{heading}: {notes:?}");
        assert_eq!(trials[0].workload, Workload::Table(Table { load: "read".to_string() }), "{heading}");
        assert_eq!(trials[3].configuration.settings.keys().collect::<Vec<_>>(), ["depth"], "{heading}");
    }
    // Who knows better says so.
    for text in [
        "setting test,workload,value\na,read,5\nb,read,6\n",
        "test,workload,value\na,read,5\nb,read,6\n",
        "test,operation,value\na,read,5\nb,write,6\n",
        "test,depth,value\na,1,5\na,2,6\n",
    ] {
        let Imported { trials, notes, .. } = import(text, &megabytes()).unwrap();
        assert!(notes.is_empty(), "{text}: {notes:?}");
        assert!(!trials[0].configuration.settings.is_empty(), "{text}");
    }
}

/// Otherwise the configuration that varied least, or the one with the smallest error, would be recommended.
#[test]
fn how_much_a_figure_varies_is_neither_a_figure_nor_a_setting() {
    for heading in [
        "stddev",
        "stddev (MB/s)",
        "rate stddev (MB/s)",
        "rate_stddev_mb_s",
        "rate [stddev]",
        "rate_std",
        "std. dev",
        "ci95",
        "95% CI",
        "ci (\u{b1})",
        "error",
        "error (%)",
        "rate_err",
        "margin",
    ] {
        for cells in [["3.2", "4.1"], ["\u{b1}3", "\u{b1}4"]] {
            let text =
                format!("{heading},filesystem,rate (MB/s)\n{},ext4,50\n{},xfs,60\n", cells[0], cells[1]);
            let Imported { trials, measure, notes } = import(&text, &TableOptions::default()).unwrap();
            assert_eq!(measure.name(), "rate (MB/s)", "{heading}");
            assert!(notes[0].contains("says how much a figure varies"), "{heading}: {notes:?}");
            assert!(trials[0].configuration.settings.is_empty() && trials[0].columns.len() == 1, "{heading}");
        }
    }
    for text in ["dev,value\nsda,5\nsdb,6\n", "error policy,value\nstop,5\ngo,6\n"] {
        let Imported { trials, notes, .. } = import(text, &megabytes()).unwrap();
        assert!(notes.is_empty() && trials[0].configuration.settings.len() == 1, "{text}: {notes:?}");
    }
    let named = TableOptions { measures: vec!["stddev".to_string()], ..megabytes() };
    assert_eq!(import("depth,stddev\n1,5\n2,6\n", &named).unwrap().measure.name(), "stddev (MB/s)");
}

#[test]
fn a_second_figure_is_no_setting_whatever_it_is_called() {
    let text = "filesystem,value,other\next4,50,1234.5\next4,51,1201.7\nxfs,60,998.21\nxfs,61,1003.4\n";
    let Imported { trials, notes, .. } = import(text, &megabytes()).unwrap();
    assert!(notes[0].contains("'other' has figures whose unit is not known"), "{notes:?}");
    assert_eq!(trials.last().unwrap().case, 1, "two cases of two trials");
    for text in [
        "ratio,value\n0.1,5\n0.2,6\n0.3,7\n0.4,7\n",
        "ratio,value\n0.125,5\n0.125,6\n0.375,7\n0.375,7\n",
        "depth,value\n1,5\n2,6\n4,7\n8,7\n",
    ] {
        let Imported { trials, notes, .. } = import(text, &megabytes()).unwrap();
        assert!(notes.is_empty() && trials[0].configuration.settings.len() == 1, "{text}: {notes:?}");
    }
}

#[test]
fn a_latency_of_nothing_was_not_measured() {
    let text = "filesystem,p99 (ms)\next4,0\next4,2\nxfs,1\nxfs,0.0\n";
    let Imported { trials, measure, .. } = import(text, &TableOptions::default()).unwrap();
    let measured: Vec<bool> = trials.iter().map(|trial| trial.outcome == Outcome::Measured).collect();
    assert_eq!(measured, [false, true, true, false]);
    assert_eq!(measure.value(&trials[2]).unwrap().value, 1e6);
    let rates = import("filesystem,value\next4,0\nxfs,2\n", &megabytes()).unwrap();
    assert!(rates.trials.iter().all(|trial| trial.outcome == Outcome::Measured), "a rate may be 0");
}
