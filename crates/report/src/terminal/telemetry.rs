//! The activity of the machine while a case was measured, in the terms of `iostat -x`, `vmstat` and `top`.
//!
//! Averages are over the windows of all trials of a case, so a longer window weighs more. The columns of
//! `iostat -x` do not all fit, so the most important come first, and those left out are named.

use super::columns::{Column as Head, fitting};
use super::style::{Paint, Style, write_table};
use fsdyno_core::figures::total;
use fsdyno_core::result::{CacheAtStart, GroupMemory, TimerFacts, WHOLE_RUN};
use fsdyno_core::telemetry::{
    Column, CpuSplit, JournalActivity, Log, Memory, Pressure, ProcessIo, Sample, SamplingCost, Stalls,
    TaskTime, Telemetry, WINDOW_TASKS, busiest,
};
use fsdyno_core::{Bytes, Nanos, TrialRecord};
use fsdyno_verdict::Workloads;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::text;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The columns of `iostat -x`, the most important first.
const BY_WEIGHT: &[Column] = &[
    Column::ReadRate,
    Column::ReadKib,
    Column::ReadWait,
    Column::WriteRate,
    Column::WriteKib,
    Column::WriteWait,
    Column::QueueSize,
    Column::Utilisation,
    Column::FlushRate,
    Column::FlushWait,
    Column::ReadSize,
    Column::WriteSize,
    Column::ReadMergeShare,
    Column::WriteMergeShare,
    Column::ReadMergeRate,
    Column::WriteMergeRate,
    Column::DiscardRate,
    Column::DiscardKib,
    Column::DiscardWait,
    Column::DiscardSize,
    Column::DiscardMergeShare,
    Column::DiscardMergeRate,
];

/// The number of other processes that are named, those that read and wrote the most.
const MOST_OTHERS: usize = 3;

/// One trial's telemetry of a phase.
struct TrialTelemetry<'a> {
    trial: u32,
    telemetry: &'a Telemetry,
    memory: Option<GroupMemory>,
    cache: Option<CacheAtStart>,
}

/// Writes the telemetry of every case, phase by phase: averages, or with `samples` every sample.
///
/// # Errors
/// Those of `out`.
pub fn telemetry(
    out: &mut dyn Write,
    trials: &[TrialRecord],
    samples: bool,
    style: &Style,
) -> io::Result<()> {
    let mut cases: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| is_measured(trial)) {
        cases.entry(trial.case).or_default().push(trial);
    }
    let workloads = Workloads::of(cases.values().map(|trials| trials[0]));
    for (index, trials) in cases.values().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let first = trials[0];
        let numbers = text::numbers(trials.iter().map(|trial| trial.trial));
        let noun = if trials.len() == 1 { "trial" } else { "trials" };
        let title = format!(
            "{} under {}, {noun} {}",
            first.configuration.name,
            workloads.name(&first.workload),
            numbers
        );
        style.paragraph(out, Paint::Heading, 0, &title)?;
        if let Some(text) = first.timer.as_ref().and_then(overhead) {
            style.paragraph(out, Paint::Plain, 0, &text)?;
        }
        let is_whole = first.phases.iter().any(|phase| phase.name == WHOLE_RUN);
        for phase in first.phases.iter().filter(|phase| !is_whole || phase.name == WHOLE_RUN) {
            let parts: Vec<TrialTelemetry<'_>> =
                trials.iter().filter_map(|trial| part(trial, &phase.name)).collect();
            writeln!(out)?;
            match parts.is_empty() {
                true => writeln!(out, "{}: no telemetry was recorded", phase.name)?,
                false if samples => write_samples(out, &phase.name, &parts, *style)?,
                false => write_averages(out, &phase.name, &parts, *style)?,
            }
        }
    }
    if cases.is_empty() {
        writeln!(out, "No trial was measured.")?;
    }
    Ok(())
}

/// fsdyno's own overhead, measured before the sweep.
fn overhead(timer: &TimerFacts) -> Option<String> {
    let without = timer.overhead_ns_per_op?;
    let with = timer.overhead_with_telemetry_ns_per_op;
    let with = with.map(|ns| format!(", {} ns with telemetry", text::number(ns)));
    Some(format!(
        "fsdyno's own overhead: {} ns per operation{} (null workload, without the system call)",
        text::number(without),
        with.unwrap_or_default()
    ))
}

fn part<'a>(trial: &'a TrialRecord, phase: &str) -> Option<TrialTelemetry<'a>> {
    let phase = trial.phases.iter().find(|known| known.name == phase)?;
    let telemetry = phase.telemetry.as_ref()?;
    Some(TrialTelemetry { trial: trial.trial, telemetry, memory: phase.memory, cache: phase.cache })
}

fn write_averages(
    out: &mut dyn Write,
    phase: &str,
    parts: &[TrialTelemetry<'_>],
    style: Style,
) -> io::Result<()> {
    let window = together(parts);
    let devices = &parts[0].telemetry.devices;
    let title = format!(
        "{phase}: averages over {}, {}",
        text::time_in_words(Time { ns: window.length_ns.0, at_least: false }),
        text::plural(u64::from(parts[0].telemetry.processors), "processor")
    );
    style.paragraph(out, Paint::Heading, 0, &title)?;
    let facts = [
        window.cpu.as_ref().map(|cpu| format!("processors: {}", shares(cpu))),
        window.memory.as_ref().map(memory),
        limited(parts),
        caches(parts),
        pressure(&window.pressure, window.length_ns),
    ];
    for fact in facts.iter().flatten() {
        style.paragraph(out, Paint::Plain, 0, fact)?;
    }
    write_devices(out, devices, std::slice::from_ref(&window), false, style)?;
    write_tasks(out, &window, style)?;
    for journal in &window.journals {
        style.paragraph(out, Paint::Plain, 0, &journal_line(journal, window.length_ns))?;
    }
    let mut others: Vec<&ProcessIo> = parts.iter().flat_map(|part| &part.telemetry.other_processes).collect();
    others.sort_by_key(|other| std::cmp::Reverse(other.read_bytes.saturating_add(other.write_bytes)));
    if !others.is_empty() {
        let named: Vec<String> = others.iter().take(MOST_OTHERS).map(|other| other_process(other)).collect();
        let line = format!("other processes on block devices: {}", named.join("; "));
        style.paragraph(out, Paint::Plain, 0, &line)?;
    }
    style.paragraph(out, Paint::Plain, 0, &cost(parts, window.length_ns))?;
    let unparsed = total(parts.iter().map(|part| part.telemetry.unparsed_lines));
    if unparsed > 0 {
        let lines = text::plural(unparsed, "line");
        let text = format!("{lines} of /proc and /sys could not be parsed and are missing here");
        style.paragraph(out, Paint::Alert, 0, &text)?;
    }
    Ok(())
}

/// Merges the windows of several trials. A process has another PID in each trial, so its name identifies it.
fn together(parts: &[TrialTelemetry<'_>]) -> Sample {
    let mut window = Sample::default();
    for part in parts {
        let mut next = part.telemetry.window.clone();
        if parts.len() > 1 {
            next.tasks.iter_mut().for_each(|task| task.pid = None);
        }
        window.append(&next, parts.len() * WINDOW_TASKS);
    }
    busiest(&mut window.tasks, WINDOW_TASKS);
    window
}

/// `user 12.3 %, system 30.1 %, iowait 0 %, ...`.
fn shares(cpu: &CpuSplit) -> String {
    let parts = cpu.parts().map(|(name, part_ns)| format!("{name} {}", text::percent(cpu.share(part_ns))));
    parts.join(", ")
}

/// Returns the memory that the load used of its limit.
fn limited(parts: &[TrialTelemetry<'_>]) -> Option<String> {
    let groups: Vec<GroupMemory> = parts.iter().filter_map(|part| part.memory).collect();
    let limit = groups.first()?.limit;
    let peak = groups.iter().filter_map(|group| group.peak).max();
    let peak = peak.map(|peak| format!(", at most {} used", text::size(peak))).unwrap_or_default();
    let reclaims = text::plural(total(groups.iter().map(|group| group.reclaims)), "time");
    Some(format!("memory of the load: limited to {}{peak}; limit reached {reclaims}", text::size(limit)))
}

/// Returns the state of the caches at the beginning.
fn caches(parts: &[TrialTelemetry<'_>]) -> Option<String> {
    let caches: Vec<CacheAtStart> = parts.iter().filter_map(|part| part.cache).collect();
    let first = caches.first()?;
    let how = match caches.iter().all(|cache| cache.remounted) {
        true => "the filesystem was mounted again",
        false if caches.iter().all(|cache| cache.left.is_some()) => {
            "the filesystem stayed mounted, caches were dropped"
        }
        false => "the filesystem stayed mounted, and caches could not be dropped",
    };
    let most = |of: fn(&CacheAtStart) -> Option<Bytes>| caches.iter().filter_map(of).max();
    let loaded = most(|cache| cache.loaded).map(|bytes| format!(", then {} read", text::size(bytes)));
    let missed = most(|cache| cache.missed).filter(|bytes| bytes.0 > 0);
    let missed = missed.map(|bytes| format!(", of which {} did not stay", text::size(bytes)));
    Some(format!(
        "caches at the beginning: {} ({how}{}{})",
        first.state.name(),
        loaded.unwrap_or_default(),
        missed.unwrap_or_default()
    ))
}

fn memory(memory: &Memory) -> String {
    let size = |bytes| text::size(Bytes(bytes));
    format!(
        "memory: dirty {} (at most {}), writeback {} (at most {}), cached {}, available {}",
        size(memory.dirty_bytes),
        size(memory.dirty_bytes_max),
        size(memory.writeback_bytes),
        size(memory.writeback_bytes_max),
        size(memory.cached_bytes),
        size(memory.available_bytes)
    )
}

/// Shares of the time in which some or all tasks waited.
fn pressure(pressure: &Pressure, length: Nanos) -> Option<String> {
    let share = |ns: u64| text::percent(ns as f64 / length.0.max(1) as f64);
    let of = |name: &str, stalls: Option<Stalls>| {
        stalls.map(|stalls| format!("{name} some {} full {}", share(stalls.some_ns), share(stalls.full_ns)))
    };
    let parts: Vec<String> = [of("io", pressure.io), of("cpu", pressure.cpu), of("memory", pressure.memory)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| format!("waiting (PSI): {}", parts.join(", ")))
}

/// `iostat -x`: a row for each device, or with `timed` for each device in each sample.
fn write_devices(
    out: &mut dyn Write,
    devices: &[String],
    samples: &[Sample],
    timed: bool,
    style: Style,
) -> io::Result<()> {
    let rows: Vec<(usize, &Sample)> = (0..devices.len())
        .flat_map(|device| samples.iter().map(move |sample| (device, sample)))
        .filter(|(device, sample)| matches!(sample.devices.get(*device), Some(Some(_))))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut names = vec![column("device", rows.iter().map(|(device, _)| devices[*device].clone()))];
    if timed {
        names.push(column("s", rows.iter().map(|(_, sample)| seconds(sample))));
    }
    let columns = BY_WEIGHT.iter().map(|heading| {
        let value = |(device, sample): &(usize, &Sample)| {
            let activity = sample.devices[*device].unwrap_or_default();
            compact(activity.value(*heading, sample.length_ns))
        };
        column(heading.name(), rows.iter().map(value))
    });
    write_columns(out, names, columns.collect(), style)
}

/// The end of a sample in seconds since the start of its window.
fn seconds(sample: &Sample) -> String {
    format!("{:.1}", sample.end_ns() as f64 / 1e9)
}

/// The busiest tasks, as in `top`, and the processor time of all tasks by kind.
fn write_tasks(out: &mut dyn Write, window: &Sample, style: Style) -> io::Result<()> {
    let busy = |cpu_ns: u64| format!("{:.1}", 100.0 * cpu_ns as f64 / window.length_ns.0.max(1) as f64);
    let time = |cpu_ns| text::time(Time { ns: cpu_ns, at_least: false });
    if !window.tasks.is_empty() {
        let tasks = &window.tasks;
        let pid = |task: &TaskTime| task.pid.map_or("-".to_string(), |pid| pid.to_string());
        let names = vec![column("task", tasks.iter().map(|task| task.name.clone()))];
        let columns = vec![
            column("%CPU", tasks.iter().map(|task| busy(task.cpu_ns))),
            column("time", tasks.iter().map(|task| time(task.cpu_ns))),
            column("kind", tasks.iter().map(|task| task.kind.to_string())),
            column("pid", tasks.iter().map(pid)),
        ];
        write_columns(out, names, columns, style)?;
    }
    let kinds: Vec<String> = window
        .task_ns
        .iter()
        .map(|(kind, cpu_ns)| {
            format!("{kind} {}", text::time_in_words(Time { ns: *cpu_ns, at_least: false }))
        })
        .collect();
    if !kinds.is_empty() {
        style.paragraph(out, Paint::Plain, 0, &format!("all tasks by kind: {}", kinds.join(", ")))?;
    }
    Ok(())
}

fn journal_line(journal: &JournalActivity, length: Nanos) -> String {
    let time = |ns| text::time_in_words(Time { ns, at_least: false });
    let rate = |count: u64| text::number(count as f64 / length.as_secs_f64().max(1e-9));
    let name = &journal.name;
    match &journal.log {
        Log::Jbd2(log) => format!(
            "journal {name}: {} ({} requested); means since the mount: commit {}, open for {}, {} operations \
             and {} blocks per transaction",
            text::plural(log.transactions, "transaction"),
            log.requested,
            time(log.commit_ns_mean),
            time(log.running_ns_mean),
            log.handles_mean,
            log.blocks_mean
        ),
        Log::Xfs(log) => format!(
            "log {name}: {} writes/s, {} in total, {} transactions/s, {} forces/s ({} waited in total), {} \
             waits for space, {} for a buffer",
            rate(log.writes),
            text::size(Bytes(log.bytes)),
            rate(log.async_transactions.saturating_add(log.sync_transactions)),
            rate(log.forces),
            log.force_sleeps,
            log.space_sleeps,
            log.no_buffer
        ),
        Log::Btrfs(log) => format!(
            "journal {name}: {} in {}; longest since the mount {}",
            text::plural(log.commits, "commit"),
            time(log.commit_ns),
            time(log.commit_ns_max)
        ),
    }
}

fn other_process(other: &ProcessIo) -> String {
    let size = |bytes| text::size(Bytes(bytes));
    format!(
        "{} ({}) read {}, wrote {}",
        other.name,
        other.pid,
        size(other.read_bytes),
        size(other.write_bytes)
    )
}

/// Returns the cost of sampling.
fn cost(parts: &[TrialTelemetry<'_>], length: Nanos) -> String {
    let costs = || parts.iter().map(|part| &part.telemetry.cost);
    let sum = |of: fn(&SamplingCost) -> u64| total(costs().map(of));
    let (readings, cpu_ns) = (sum(|cost| cost.readings), sum(|cost| cost.cpu_ns));
    let longest_ns = costs().map(|cost| cost.wall_ns_max).max().unwrap_or(0);
    let time = |ns| text::time_in_words(Time { ns, at_least: false });
    format!(
        "cost of telemetry: {}, {} of CPU each ({} of one processor), the longest {}",
        text::plural(readings, "reading"),
        time(cpu_ns / readings.max(1)),
        text::percent(cpu_ns as f64 / length.0.max(1) as f64),
        time(longest_ns)
    )
}

/// Every sample of every trial: first the devices, then the machine.
fn write_samples(
    out: &mut dyn Write,
    phase: &str,
    parts: &[TrialTelemetry<'_>],
    style: Style,
) -> io::Result<()> {
    for (index, TrialTelemetry { trial, telemetry, memory: _, cache: _ }) in parts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let title = format!(
            "{phase}, trial {}: {} of {}",
            text::nth(*trial),
            text::plural(telemetry.samples.len() as u64, "sample"),
            text::setting(telemetry.interval_ns)
        );
        style.paragraph(out, Paint::Heading, 0, &title)?;
        write_devices(out, &telemetry.devices, &telemetry.samples, true, style)?;
        let names = vec![column("s", telemetry.samples.iter().map(seconds))];
        write_columns(out, names, machine_columns(&telemetry.samples), style)?;
    }
    Ok(())
}

/// The machine over time, in the terms of `vmstat`: shares of all processors, the page cache, pressure, the
/// busiest task.
fn machine_columns(samples: &[Sample]) -> Vec<Head> {
    let cpu = |name: &'static str, of: fn(&CpuSplit) -> u64| {
        column(
            name,
            samples.iter().map(|sample| {
                sample.cpu.map_or("-".to_string(), |cpu| format!("{:.0}", 100.0 * cpu.share(of(&cpu))))
            }),
        )
    };
    let memory = |name: &'static str, of: fn(&Memory) -> u64| {
        column(
            name,
            samples.iter().map(|sample| {
                sample.memory.map_or("-".to_string(), |memory| {
                    format!("{:.0}", of(&memory) as f64 / Bytes::MIB as f64)
                })
            }),
        )
    };
    let waiting = |name: &'static str, of: fn(&Pressure) -> Option<Stalls>| {
        column(
            name,
            samples.iter().map(|sample| {
                let share = |ns: u64| format!("{:.0}", 100.0 * ns as f64 / sample.length_ns.0.max(1) as f64);
                of(&sample.pressure).map_or("-".to_string(), |stalls| share(stalls.some_ns))
            }),
        )
    };
    let task = |sample: &Sample| sample.tasks.first().map_or("-".to_string(), |task| task.name.clone());
    vec![
        cpu("us", |cpu| cpu.user_ns.saturating_add(cpu.nice_ns)),
        cpu("sy", |cpu| total([cpu.system_ns, cpu.irq_ns, cpu.softirq_ns])),
        cpu("wa", |cpu| cpu.iowait_ns),
        cpu("st", |cpu| cpu.steal_ns),
        cpu("id", |cpu| cpu.idle_ns),
        memory("dirty-MiB", |memory| memory.dirty_bytes),
        memory("writeback", |memory| memory.writeback_bytes),
        memory("cached", |memory| memory.cached_bytes),
        waiting("io-some%", |pressure| pressure.io),
        column("busiest task", samples.iter().map(task)),
        waiting("cpu-some%", |pressure| pressure.cpu),
        waiting("memory-some%", |pressure| pressure.memory),
        memory("available", |memory| memory.available_bytes),
    ]
}

fn column(name: &str, cells: impl Iterator<Item = String>) -> Head {
    Head { name: name.to_string(), head: vec![name.to_string()], cells: cells.collect(), is_vital: false }
}

/// A table of the columns that fit next to the names of its rows, and the names of those that do not.
fn write_columns(out: &mut dyn Write, names: Vec<Head>, columns: Vec<Head>, style: Style) -> io::Result<()> {
    let room = names.iter().map(Head::width).sum::<usize>() + names.len() - 1;
    let (shown, left_out) = fitting(columns, style.width, room);
    let all: Vec<&Head> = names.iter().chain(&shown).collect();
    let mut table = style.table(all.iter().map(|column| column.name.clone()).collect());
    for row in 0..names[0].cells.len() {
        table.add_row(all.iter().map(|column| column.cells[row].clone()).collect::<Vec<_>>());
    }
    write_table(out, table, style)?;
    if !left_out.is_empty() {
        let text = format!("(no room for {}; see --format csv)", left_out.join(", "));
        style.paragraph(out, Paint::Plain, 0, &text)?;
    }
    Ok(())
}

/// A compact figure: two decimals as in `iostat`, fewer for large numbers.
fn compact(value: f64) -> String {
    match value {
        v if v >= 9999.5 => format!("{v:.0}"),
        v if v >= 99.95 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests;
