//! The table of FsOpBench (2009) for a case, to compare with the published ones.
//!
//! Several trials of a case are merged, and the header line then ends in ` trials=N`. Counts are means, so
//! that they belong to the one window of the heading as in the published tables; rates are total work over
//! total time, and times those of all operations.

use super::style::{Paint, Style};
use fsdyno_core::DeviceSpec;
use fsdyno_core::device::Block;
use fsdyno_core::{Role, axis, filesystem};
use fsdyno_formats::fsopbench::{LatencyRow, Number, ROWS, RoleRows, RowValues, Table, TablePhase, Title};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::view::{CaseView, OperationView, PhaseView, RoleView};
use std::io::{self, Write};
use std::path::Path;

/// Settings that already have a place in the header line.
const IN_HEADER: &[&str] = &["atime", "barrier", "journal", "data", "scheduler", "kernel", "disk"];

/// Writes the compatible table of a case. A workload without readers and writers has only its header line.
///
/// # Errors
/// Those of `out`.
pub(crate) fn compatible(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    let phases = case.phases.iter().map(phase).filter(|phase| !phase.rows.is_empty()).collect();
    let table = Table { title: title(case), phases };
    let (heading, text) = (table.title.to_string(), table.to_string());
    let rest = text.strip_prefix(&heading).unwrap_or_default();
    write!(out, "{}{rest}", style.paint(Paint::Heading, &heading))
}

/// The first line of the table; the tables of other workloads begin with it, too.
pub(super) fn header(case: &CaseView) -> String {
    title(case).to_string()
}

/// `Linux 6.18.44 relatime barrier=0 fs=ext4 disk=loop journal=int data=ordered scheduler=bfq`, then the
/// other settings, and the number of trials if there are several. What is unknown about an existing directory
/// is left out.
fn title(case: &CaseView) -> Title {
    let options: Vec<&str> = case.mount_options_in_force.split(',').collect();
    let configuration = &case.configuration;
    let kernel = case.environment.kernel.split_whitespace().next().unwrap_or("unknown");
    let atime = ["noatime", "nodiratime", "relatime"].into_iter().find(|word| options.contains(word));
    let atime = configuration.level("atime").or(atime).unwrap_or("strictatime");

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
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let others = configuration.settings.keys().map(String::as_str).filter(|axis| !IN_HEADER.contains(axis));
    let others = others.filter_map(|axis| Some((axis, configuration.level(axis)?.to_string())));
    let trials = Some(case.trials.len()).filter(|trials| *trials > 1);
    let trials = trials.map(|trials| ("trials", trials.to_string()));
    let settings = named.chain(others).chain(trials);
    Title {
        kernel: kernel.to_string(),
        flags: vec![atime.to_string()],
        settings: settings.map(|(name, value)| (name.to_string(), value)).collect(),
    }
}

/// The filesystem and what it was created on; for a directory, those of its mount.
fn filesystem_and_disk(case: &CaseView) -> (String, String) {
    let made = case.configuration.filesystem.clone();
    let last = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match (&case.device, case.environment.devices.first()) {
        (DeviceSpec::Image(_), _) if case.configuration.guest_kernel().is_some() => {
            (made, "virtio".to_string())
        }
        (DeviceSpec::Image(_), _) => (made, "loop".to_string()),
        (DeviceSpec::Block(Block { path, .. }), _) => (made, last(path)),
        (DeviceSpec::Directory { .. }, Some(mount)) => (mount.model.clone(), last(Path::new(&mount.path))),
        (DeviceSpec::Directory { path }, None) => (made, last(path)),
        (DeviceSpec::Md(md), _) => (made, md.level.name().to_string()),
        (DeviceSpec::Lvm(_), _) => (made, "lvm".to_string()),
        (DeviceSpec::Pool(_), _) => (made, "pool".to_string()),
        (DeviceSpec::Delayed(_), _) => (made, "dm-delay".to_string()),
    }
}

/// 0 or 1; `None` for filesystems without barriers.
fn barrier(case: &CaseView, options: &[&str], filesystem: &str) -> Option<String> {
    if let Some(level) = case.configuration.level("barrier") {
        return Some(level.to_string());
    }
    let off = filesystem::switches_barriers_off(filesystem, options.iter().copied());
    let known = axis::find("barrier").is_ok_and(|axis| axis.applies_to(filesystem));
    known.then(|| if off { "0" } else { "1" }.to_string())
}

/// `int`, `ext`, `ext:NAME` or `none`; `None` for filesystems without a journal.
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

/// Returns how file data is journalled. The kernel does not show `ordered` if it is the filesystem's default.
fn data(case: &CaseView, options: &[&str], journal: Option<&str>) -> Option<String> {
    let shown = options.iter().find_map(|option| option.strip_prefix("data="));
    let journalled = journal.is_some_and(|journal| journal != "none");
    let filesystem = case.configuration.filesystem.as_str();
    let default = axis::find("data").ok().and_then(|axis| axis.default_level(filesystem));
    let by_default = default.filter(|_| journalled);
    case.configuration.level("data").or(shown).or(by_default).map(str::to_string)
}

/// `3 readers, 3 writers`: always plural, readers first, whatever the order of the rows.
fn phase(phase: &PhaseView) -> TablePhase {
    let of = |role: Role| phase.roles.iter().find(|view| view.role == role);
    let groups = [of(Role::Reader), of(Role::Writer)].into_iter().flatten();
    let groups: Vec<String> = groups
        .map(|view| match view.workers {
            0 => format!("{}s", view.role),
            workers => format!("{workers} {}s", view.role),
        })
        .collect();
    TablePhase {
        name: groups.join(", "),
        window: format!("{}s", phase.window_ns.as_secs_f64()),
        rows: phase.roles.iter().flat_map(rows).collect(),
    }
}

/// The rows of a role; none for a role that the published tables do not have.
fn rows(view: &RoleView) -> Vec<LatencyRow> {
    let Some(RoleRows { role, latencies, rate, .. }) = ROWS.iter().find(|rows| rows.role == view.role) else {
        return Vec::new();
    };
    let latencies = latencies.iter().map(|(label, operation)| {
        let (count, milliseconds) = latency(view.operation(*operation));
        (*label, RowValues::Latency { operation: *operation, count, milliseconds })
    });
    let megabytes = |rate: Option<f64>| rate.map(|rate| Number { value: rate / 1e6, at_least: false });
    let rates = RowValues::Rate {
        data: megabytes(view.rates.data_bytes_per_s),
        with_overhead: megabytes(view.rates.with_overhead_bytes_per_s),
    };
    let rows = latencies.chain([(*rate, rates)]);
    rows.map(|(label, values)| LatencyRow { label, role: *role, values }).collect()
}

/// Count, and min, max, avg, med and std in milliseconds.
fn latency(view: Option<&OperationView>) -> (u64, [Option<Number>; 5]) {
    let time = |Time { ns, at_least }: Time| Some(Number { value: ns as f64 / 1e6, at_least });
    match view {
        Some(view) if view.latency.count > 0 => {
            let latency = &view.latency;
            let mean = Number { value: latency.mean / 1e6, at_least: view.censored > 0 };
            let [min, max, median] =
                [latency.min, latency.max, latency.median()].map(|ns| time(view.time(ns)));
            let deviation = Number { value: latency.stddev / 1e6, at_least: false };
            (view.count, [min, max, Some(mean), median, Some(deviation)])
        }
        // An operation that covered the whole window is not a sample, but the maximum includes it.
        Some(view) if view.latency.max > 0 => {
            (0, [None, time(view.time(view.latency.max)), None, None, None])
        }
        _ => (0, [None; 5]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::Operation;
    use fsdyno_core::result::Latency;
    use fsdyno_formats::fsopbench::parse;

    /// Rows of the published tables, <https://insights.oetiker.ch/linux/fsopbench/>.
    const PUBLISHED: &str = include_str!("../../../formats/captured/fsopbench-2009.txt");

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
        let cases = fsdyno_verdict::view::cases(trials).unwrap();
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
    fn settings_of_the_plan_override_what_the_mount_shows() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        let settings =
            [("barrier", "0"), ("journal", "external:disk"), ("commit", "30"), ("atime", "noatime")];
        trials[0].configuration.settings.extend(settings.map(|(k, v)| (k.to_string(), v.to_string())));
        assert_eq!(
            table(&trials).lines().next().unwrap(),
            "Linux 6.18.44 noatime barrier=0 fs=ext4 disk=loop journal=ext:disk data=ordered scheduler=bfq \
             commit=30"
        );
    }

    #[test]
    fn what_a_filesystem_does_not_have_is_not_in_its_header() {
        let header = |filesystem: &str, options: &str| {
            let mut trials = fixture::trials();
            trials.truncate(1);
            trials[0].configuration.filesystem = filesystem.to_string();
            trials[0].configuration.built.mount_options_in_force = options.to_string();
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
        trials[0].configuration.asked = fsdyno_core::Configuration {
            name: "existing".to_string(),
            filesystem: "existing".to_string(),
            settings: Default::default(),
        };
        trials[0].configuration.device = DeviceSpec::Directory { path: "/home".into() };
        trials[0].environment.devices[0].path = "/dev/nvme0n1p2".to_string();
        trials[0].environment.devices[0].model = "ext4".to_string();
        trials[0].configuration.built.mount_options_in_force = "rw,relatime,data=writeback".to_string();
        let header = table(&trials).lines().next().unwrap().to_string();
        assert_eq!(
            header,
            "Linux 6.18.44 relatime barrier=1 fs=ext4 disk=nvme0n1p2 data=writeback scheduler=bfq"
        );
    }

    #[test]
    fn a_blocked_writer_shows_in_the_maximum() {
        let table = table(&fixture::trials());
        let row = table.lines().find(|line| line.starts_with("I mkdir")).unwrap();
        assert!(row.contains(" max>=62000.000 ms   avg "), "{row}");
    }

    #[test]
    fn without_operations_there_are_no_figures() {
        assert_eq!(latency(None), (0, [None; 5]));
        let spanning =
            Latency { max: 30_000_000_000, at_least_from: Some(30_000_000_000), ..Latency::default() };
        let view = OperationView { operation: Operation::Mkdirat, count: 0, censored: 0, latency: spanning };
        let max = Some(Number { value: 30_000.0, at_least: true });
        assert_eq!(latency(Some(&view)), (0, [None, max, None, None, None]));
    }

    #[test]
    fn our_own_tables_parse_with_their_bounds() {
        let cases = fsdyno_verdict::view::cases(&fixture::trials()).unwrap();
        let mut out = Vec::new();
        for case in &cases {
            compatible(&mut out, case, &Style::default()).unwrap();
            out.push(b'\n');
        }
        let tables = parse(std::str::from_utf8(&out).unwrap()).unwrap();
        assert_eq!(tables.len(), 2);
        let RowValues::Latency { milliseconds, .. } = &tables[0].phases[2].rows[3].values else { panic!() };
        assert_eq!(milliseconds[1], Some(Number { value: 62000.0, at_least: true }));
    }
}
