//! The table of FsOpBench (2009), column by column: a reader can hold today's result against a published one.
//!
//! The layout is the published one to the byte; the widths below are its `printf` widths, and longer numbers push their
//! line out as they did then. Three things are added where the old tables had nothing to say. A lower bound carries `>=`
//! and takes the room for it from the blanks before it. A statistic of no operations is `-`. Several trials of a case are
//! shown merged (counts summed, rates averaged harmonically, quantiles of all operations together), and the header line
//! then ends in ` trials=N`.

use super::{Paint, Style};
use crate::merge::Time;
use crate::view::{CaseView, OperationView, PhaseView, RoleView};
use fsdyno_core::DeviceSpec;
use fsdyno_core::{Operation, Role, axis, filesystem};
use std::io::{self, Write};
use std::path::Path;

/// Length of the rule below the name of a phase.
const PHASE_RULE: usize = 70;

/// The rows of a role: letter and name as published, and the operation behind them.
pub(crate) type Rows = &'static [(&'static str, Operation)];

pub(crate) const READER: Rows = &[
    ("A read dir", Operation::Readdir),
    ("B lstat file", Operation::Statx),
    ("C open file", Operation::Openat),
    ("D rd 1st byte", Operation::ReadFirstByte),
];
pub(crate) const READER_RATE: (&str, &str) = ("E read rate", "readdir + open + 1st byte + data");

pub(crate) const WRITER: Rows = &[
    ("F write open", Operation::Openat),
    ("G wr 1st byte", Operation::WriteFirstByte),
    ("H write close", Operation::Close),
    ("I mkdir", Operation::Mkdirat),
];
pub(crate) const WRITER_RATE: (&str, &str) = ("J write rate", "open + 1st byte + data + close");

/// Settings that have their own place in the header line.
const IN_HEADER: &[&str] = &["atime", "barrier", "journal", "data", "scheduler", "kernel", "disk"];

/// Writes the compatible table of a case. A workload without readers and writers has only its header line.
///
/// # Errors
/// Those of `out`.
pub(crate) fn compatible(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let header = header(case);
    writeln!(out, "{}", style.paint(Paint::Heading, &header))?;
    writeln!(out, "{}", "*".repeat(header.len()))?;
    for phase in &case.phases {
        let blocks: Vec<Vec<String>> = phase.roles.iter().filter_map(block).collect();
        if blocks.is_empty() {
            continue;
        }
        writeln!(out, "\n{}\n{}", title(phase), "-".repeat(PHASE_RULE))?;
        for (index, rows) in blocks.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            rows.iter().try_for_each(|row| writeln!(out, "{row}"))?;
        }
    }
    Ok(())
}

/// `Linux 6.18.44 relatime barrier=0 fs=ext4 disk=loop journal=int data=ordered scheduler=bfq`, what else was set, and
/// the number of trials where there are several. What is not known of a directory that stood there before is left out.
pub(super) fn header(case: &CaseView) -> String {
    let options: Vec<&str> = case.mount_options_in_force.split(',').collect();
    let configuration = &case.configuration;
    let kernel = case.environment.kernel.split_whitespace().next().unwrap_or("unknown");
    let mut words = vec![format!("Linux {kernel}")];
    let atime = ["noatime", "nodiratime", "relatime"].into_iter().find(|word| options.contains(word));
    words.push(configuration.level("atime").or(atime).unwrap_or("strictatime").to_string());

    let (filesystem, disk) = filesystem_and_disk(case);
    let journal = journal(case);
    let scheduler = Some(case.scheduler_in_force.as_str()).filter(|scheduler| !scheduler.is_empty());
    let named = [
        ("barrier", barrier(case, &options, &filesystem)),
        ("fs", Some(filesystem)),
        ("disk", Some(disk)),
        ("journal", journal.clone()),
        ("data", data(case, &options, journal.as_deref())),
        ("scheduler", scheduler.map(str::to_string)),
    ];
    words.extend(named.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))));

    let others = configuration.settings.keys().filter(|axis| !IN_HEADER.contains(&axis.as_str()));
    words.extend(others.filter_map(|axis| Some(format!("{axis}={}", configuration.level(axis)?))));
    if case.trials.len() > 1 {
        words.push(format!("trials={}", case.trials.len()));
    }
    words.join(" ")
}

/// What was made on what; for a directory, what its mount is.
fn filesystem_and_disk(case: &CaseView) -> (String, String) {
    let made = case.configuration.filesystem.clone();
    let last = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match (&case.device, case.environment.devices.first()) {
        (DeviceSpec::Image { .. }, _) if case.configuration.guest_kernel().is_some() => {
            (made, "virtio".to_string())
        }
        (DeviceSpec::Image { .. }, _) => (made, "loop".to_string()),
        (DeviceSpec::Block { path, .. }, _) => (made, last(path)),
        (DeviceSpec::Directory { .. }, Some(mount)) => (mount.model.clone(), last(Path::new(&mount.path))),
        (DeviceSpec::Directory { path }, None) => (made, last(path)),
        (DeviceSpec::Md(md), _) => (made, md.level.name().to_string()),
        (DeviceSpec::Lvm(_), _) => (made, "lvm".to_string()),
        (DeviceSpec::Delayed(_), _) => (made, "dm-delay".to_string()),
    }
}

/// 0 or 1; nothing for filesystems that know no barriers.
fn barrier(case: &CaseView, options: &[&str], filesystem: &str) -> Option<String> {
    if let Some(level) = case.configuration.level("barrier") {
        return Some(level.to_string());
    }
    let off = filesystem::switches_barriers_off(filesystem, options.iter().copied());
    let known = axis::find("barrier").is_ok_and(|axis| axis.applies_to(filesystem));
    known.then(|| if off { "0" } else { "1" }.to_string())
}

/// `int`, `ext`, `ext:NAME` or `none`; nothing for filesystems that have no journal to place.
fn journal(case: &CaseView) -> Option<String> {
    let configuration = &case.configuration;
    match configuration.external_journal() {
        Some(Some(name)) => return Some(format!("ext:{name}")),
        Some(None) => return Some("ext".to_string()),
        None => {}
    }
    let filesystem = configuration.filesystem.as_str();
    let default = || axis::find("journal").ok().and_then(|axis| axis.default_level(filesystem));
    let has_journal = filesystem::find(filesystem).is_some_and(|known| known.has_journal);
    match configuration.level("journal").or_else(default) {
        Some("none") => Some("none".to_string()),
        _ => has_journal.then(|| "int".to_string()),
    }
}

/// How file data is journalled. The kernel does not show `ordered` where that is the default of the filesystem.
fn data(case: &CaseView, options: &[&str], journal: Option<&str>) -> Option<String> {
    let shown = options.iter().find_map(|option| option.strip_prefix("data="));
    let journalled = journal.is_some_and(|journal| journal != "none");
    let filesystem = case.configuration.filesystem.as_str();
    let default = axis::find("data").ok().and_then(|axis| axis.default_level(filesystem));
    let by_default = default.filter(|_| journalled);
    case.configuration.level("data").or(shown).or(by_default).map(str::to_string)
}

/// `3 readers, 3 writers (30s)`: always in the plural, readers first, whatever the order of the rows.
fn title(phase: &PhaseView) -> String {
    let of = |role: Role| phase.roles.iter().find(|view| view.role == role);
    let groups = [of(Role::Reader), of(Role::Writer)].into_iter().flatten();
    let groups: Vec<String> = groups.map(|view| format!("{} {}s", view.workers, view.role)).collect();
    format!("{} ({}s)", groups.join(", "), phase.window_ns.as_secs_f64())
}

/// The rows of a role; none for a role that the published tables do not know.
fn block(view: &RoleView) -> Option<Vec<String>> {
    let (rows, (label, parts)) = match view.role {
        Role::Reader => (READER, READER_RATE),
        Role::Writer => (WRITER, WRITER_RATE),
        _ => return None,
    };
    let mut lines: Vec<String> =
        rows.iter().map(|(label, operation)| latency_row(label, view.operation(*operation))).collect();
    lines.push(rate_row(label, view.rates.data_bytes_per_s, view.rates.with_overhead_bytes_per_s, parts));
    Some(lines)
}

/// `%-18scnt %6d   min %5.3f ms   max %8.3f ms   avg %6.3f ms   med %5.3f ms   std %7.3f`
fn latency_row(label: &str, view: Option<&OperationView>) -> String {
    let (count, fields) = match view {
        Some(view) if view.latency.count > 0 => (view.latency.count, statistics(view)),
        // An operation that covered the whole window is no sample, but the maximum knows it.
        Some(view) if view.latency.max > 0 => {
            (0, [None, Some(milliseconds(view.time(view.latency.max))), None, None, None])
        }
        _ => (0, [const { None }; 5]),
    };
    let [min, max, avg, med, std] = fields.map(|field| field.unwrap_or_else(|| "-".to_string()));
    format!(
        "{label:<18}cnt {count:>6}{} ms{} ms{} ms{} ms{}",
        column("min", 5, &min),
        column("max", 8, &max),
        column("avg", 6, &avg),
        column("med", 5, &med),
        column("std", 7, &std),
    )
}

/// min, max, avg, med and std in milliseconds.
fn statistics(view: &OperationView) -> [Option<String>; 5] {
    let latency = &view.latency;
    let mean = if view.censored > 0 { ">=" } else { "" };
    [
        Some(milliseconds(view.time(latency.min))),
        Some(milliseconds(view.time(latency.max))),
        Some(format!("{mean}{:.3}", latency.mean / 1e6)),
        Some(milliseconds(view.time(latency.median()))),
        Some(format!("{:.3}", latency.stddev / 1e6)),
    ]
}

fn milliseconds(time: Time) -> String {
    format!("{}{:.3}", if time.at_least { ">=" } else { "" }, time.ns as f64 / 1e6)
}

/// Three blanks, a name, a blank and a number in `width`. A lower bound needs two columns more: it takes them from the
/// blanks before the name, and at last from the one behind it, so that the columns after it stay where they are.
fn column(name: &str, width: usize, value: &str) -> String {
    if !value.starts_with(">=") {
        return format!("   {name} {value:>width$}");
    }
    let whole = 3 + name.len() + 1 + width;
    let spaced = format!("{name} {value}");
    let text = if spaced.len() < whole { spaced } else { format!("{name}{value}") };
    let text = format!("{text:>whole$}");
    if text.starts_with(' ') { text } else { format!(" {text}") }
}

/// `%-16s%7.3f MB/s (data) %7.3f MB/s (...)`
fn rate_row(label: &str, data: Option<f64>, with_overhead: Option<f64>, parts: &str) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_string(), |rate| format!("{:.3}", rate / 1e6));
    format!("{label:<16}{:>7} MB/s (data) {:>7} MB/s ({parts})", rate(data), rate(with_overhead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::{Latency, Quantiles, Rates};

    /// Rows of the published tables, <https://insights.oetiker.ch/linux/fsopbench/>.
    const PUBLISHED: &str = include_str!("../../tests/published-2009.txt");

    fn published_number(text: &str) -> u64 {
        (text.parse::<f64>().unwrap() * 1e6).round() as u64
    }

    /// Reads a published row and prints it again with our functions.
    fn again(line: &str) -> String {
        let (label, numbers) = if line.contains(" rate ") { line.split_at(16) } else { line.split_at(18) };
        let words: Vec<&str> = numbers.split_whitespace().collect();
        if let Some((_, parts)) = line.rsplit_once(" (") {
            let rate = |index: usize| Some(words[index].parse::<f64>().unwrap() * 1e6);
            return rate_row(label.trim_end(), rate(0), rate(3), parts.trim_end_matches(')'));
        }
        let latency = Latency {
            count: words[1].parse().unwrap(),
            min: published_number(words[3]),
            max: published_number(words[6]),
            mean: words[9].parse::<f64>().unwrap() * 1e6,
            quantiles: Quantiles::of(|_| published_number(words[12])),
            stddev: words[15].parse::<f64>().unwrap() * 1e6,
            ..Latency::default()
        };
        let view = OperationView { operation: Operation::Openat, censored: 0, latency };
        latency_row(label.trim_end(), Some(&view))
    }

    #[test]
    fn published_rows_come_out_byte_for_byte() {
        let rows: Vec<&str> =
            PUBLISHED.lines().filter(|line| line.contains(" ms ") || line.contains("MB/s")).collect();
        assert!(rows.len() > 40 && PUBLISHED.contains("19592.233") && PUBLISHED.contains("522.051"));
        for row in rows {
            assert_eq!(again(row), row);
        }
    }

    #[test]
    fn a_whole_table_has_the_published_skeleton() {
        let published = PUBLISHED.split("\n\n\n").next().unwrap();
        let skeleton = |text: &str| -> Vec<String> {
            let part = |line: &str| line.split("  ").next().unwrap_or_default().to_string();
            text.trim_end().lines().skip(2).map(part).collect()
        };
        assert_eq!(skeleton(&table(&fixture::trials()[..1])), skeleton(published));
    }

    fn table(trials: &[fsdyno_core::TrialRecord]) -> String {
        let cases = crate::view::cases(trials).unwrap();
        let mut out = Vec::new();
        compatible(&mut out, &cases[0], &Style::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_header_line_names_what_is_in_force_and_the_number_of_trials() {
        let trials = fixture::trials();
        let header = |trials| table(trials).lines().next().unwrap().to_string();
        let one = "Linux 6.18.44 relatime barrier=1 fs=ext4 disk=loop journal=int data=ordered scheduler=bfq";
        assert_eq!(header(&trials[..1]), one);
        assert_eq!(header(&trials), format!("{one} trials=2"));
        let rule = table(&trials).lines().nth(1).unwrap().to_string();
        assert_eq!(rule, "*".repeat(one.len() + " trials=2".len()));
    }

    #[test]
    fn settings_of_the_plan_win_over_what_the_mount_shows_by_default() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        let settings =
            [("barrier", "0"), ("journal", "external:disk"), ("commit", "30"), ("atime", "noatime")];
        trials[0].configuration.settings.extend(settings.map(|(k, v)| (k.to_string(), v.to_string())));
        assert_eq!(
            table(&trials).lines().next().unwrap(),
            "Linux 6.18.44 noatime barrier=0 fs=ext4 disk=loop journal=ext:disk data=ordered scheduler=bfq commit=30"
        );
    }

    #[test]
    fn what_a_filesystem_does_not_know_is_not_in_its_header() {
        let header = |filesystem: &str, options: &str| {
            let mut trials = fixture::trials();
            trials.truncate(1);
            trials[0].configuration.filesystem = filesystem.to_string();
            trials[0].built.mount_options_in_force = options.to_string();
            table(&trials).lines().next().unwrap().to_string()
        };
        let begin = "Linux 6.18.44 relatime";
        assert_eq!(header("vfat", "rw,relatime"), format!("{begin} fs=vfat disk=loop scheduler=bfq"));
        assert_eq!(
            header("jfs", "rw,relatime"),
            format!("{begin} fs=jfs disk=loop journal=int scheduler=bfq")
        );
        assert_eq!(
            header("reiserfs", "rw,relatime,barrier=none"),
            format!("{begin} barrier=0 fs=reiserfs disk=loop journal=int data=ordered scheduler=bfq")
        );
    }

    #[test]
    fn a_directory_is_named_by_its_mount() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        trials[0].configuration = fsdyno_core::Configuration {
            name: "existing".to_string(),
            filesystem: "existing".to_string(),
            settings: Default::default(),
        };
        trials[0].device = DeviceSpec::Directory { path: "/home".into() };
        trials[0].environment.devices[0].path = "/dev/nvme0n1p2".to_string();
        trials[0].environment.devices[0].model = "ext4".to_string();
        trials[0].built.mount_options_in_force = "rw,relatime,data=writeback".to_string();
        let header = table(&trials).lines().next().unwrap().to_string();
        assert_eq!(
            header,
            "Linux 6.18.44 relatime barrier=1 fs=ext4 disk=nvme0n1p2 data=writeback scheduler=bfq"
        );
    }

    #[test]
    fn lower_bounds_keep_the_columns_in_place() {
        let exact = column("max", 8, "78.354");
        for bound in [">=0.123", ">=78.354", ">=925.522", ">=9999.999", ">=30000.000"] {
            let text = column("max", 8, bound);
            assert_eq!(text.len(), exact.len(), "{text}");
            assert!(text.starts_with(' ') && text.ends_with(bound), "{text}");
        }
    }

    #[test]
    fn a_blocked_writer_shows_in_the_maximum() {
        let table = table(&fixture::trials());
        let row = table.lines().find(|line| line.starts_with("I mkdir")).unwrap();
        assert!(row.contains(" max>=62000.000 ms   avg "), "{row}");
    }

    #[test]
    fn no_operations_are_no_zeros() {
        assert_eq!(
            latency_row("I mkdir", None),
            "I mkdir           cnt      0   min     - ms   max        - ms   avg      - ms   med     - ms   std       -"
        );
        let spanning =
            Latency { max: 30_000_000_000, at_least_from: Some(30_000_000_000), ..Latency::default() };
        let view = OperationView { operation: Operation::Mkdirat, censored: 0, latency: spanning };
        assert_eq!(
            latency_row("I mkdir", Some(&view)),
            "I mkdir           cnt      0   min     - ms max>=30000.000 ms   avg      - ms   med     - ms   std       -"
        );
        let rates = Rates::default();
        assert_eq!(
            rate_row("J write rate", rates.data_bytes_per_s, None, WRITER_RATE.1),
            "J write rate          - MB/s (data)       - MB/s (open + 1st byte + data + close)"
        );
    }
}
