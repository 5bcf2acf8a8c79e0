//! The trial in progress, in a few lines: what is being done, what the workers do, what holds them up, and
//! what the device and the processors do meanwhile.

use crate::look::{Look, Paint, columns};
use crate::scene::{Scene, State};
use crate::status::Now;
use fsdyno_core::glance::{Glance, MachineGlance, OfferedRate, RoleGlance};
use fsdyno_core::telemetry::Column;
use fsdyno_core::{Bytes, Nanos};
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use ratatui::text::Line;

/// The columns of the bar that shows how much of a step is done.
const BAR: usize = 16;

/// Lines about the trial in progress, in order of importance; always as many, so that nothing below jumps.
pub(crate) fn lines(scene: &Scene, look: Look, width: usize) -> Vec<Line<'static>> {
    let Some(now) = scene.now() else {
        return vec![idle(scene, look, width), Line::default(), Line::default()];
    };
    let mut lines = vec![place(now, look, width), step(now, scene, look, width), stall(scene, look, width)];
    let roles = scene.glance.as_ref().map_or(&[][..], |glance| &glance.roles);
    for role in roles.iter().take(2) {
        let length = scene.glance.as_ref().map_or(Nanos(0), |glance| glance.length_ns);
        lines.push(workers(scene, role, length, look, width));
    }
    lines.resize(5, Line::default());
    lines.push(scene.glance.as_ref().map_or_else(Line::default, |glance| machine(glance, look, width)));
    lines
}

/// Why no trial is in progress.
fn idle(scene: &Scene, look: Look, width: usize) -> Line<'static> {
    let (paint, text) = match scene.sweep.state {
        State::Starting => (Paint::Plain, "preparing: guards, images, what measuring itself costs"),
        State::Running => (Paint::Plain, "between two trials"),
        State::Paused => (Paint::Alert, "paused between two trials; p goes on"),
        State::Finished => (Paint::Good, "every planned trial is stored"),
        State::Interrupted => (Paint::Alert, "stopped before its end; --resume goes on"),
        State::Killed => (Paint::Bad, "its process is gone; fsdyno restore undoes what it left"),
    };
    Line::from(look.span(paint, look.fit(text, width)))
}

/// Which trial it is.
fn place(now: &Now, look: Look, width: usize) -> Line<'static> {
    let sentinel = if now.sentinel { ", the sentinel" } else { "" };
    let before = format!("trial {} of {}, block {}: ", now.trial, now.trials, now.block + 1);
    let machine = now.machine.as_ref().map(|machine| format!(" on {machine}")).unwrap_or_default();
    let after = format!(" ({}{sentinel}){machine}", now.workload);
    let room = width.saturating_sub(columns(&before) + columns(&after)).max(12);
    let name = look.fit(&now.configuration, room);
    let line = vec![
        look.span(Paint::Plain, before),
        look.span(Paint::Heading, name),
        look.span(Paint::Plain, after),
    ];
    Line::from(line)
}

/// Returns the step in progress, and how much of it is done.
fn step(now: &Now, scene: &Scene, look: Look, width: usize) -> Line<'static> {
    let at = &now.progress;
    let phase = if at.phase.is_empty() { String::new() } else { format!(" '{}'", at.phase) };
    let silence =
        scene.silence.map_or(String::new(), |silence| format!(", no news for {}", duration(silence)));
    let what = format!("{}{phase}{}{silence}", at.step.name(), offered(scene));
    let Some(done) = at.done.filter(|done| done.is_finite()) else {
        return Line::from(look.span(Paint::Plain, look.fit(&what, width)));
    };
    let percent = format!(" {:3.0} %", done.clamp(0.0, 1.0) * 100.0);
    let room = width.saturating_sub(BAR + 1 + columns(&percent));
    let what = look.fit(&what, room);
    Line::from(vec![
        look.span(Paint::Plain, format!("{what} ")),
        look.span(Paint::Good, look.bar(done, BAR)),
        look.span(Paint::Plain, percent),
    ])
}

/// The rates at which iterations are due.
fn offered(scene: &Scene) -> String {
    let roles = scene.glance.iter().flat_map(|glance| &glance.roles);
    let rates = roles.filter_map(|role| Some((role.role, role.offered?)));
    rates
        .map(|(role, OfferedRate { per_second, is_tried })| {
            let verb = if is_tried { "trying" } else { "at" };
            format!(", {role}s {verb} {}/s", text::number(per_second))
        })
        .collect()
}

/// The longest wait that is going on now, if the sweep says so.
fn stall(scene: &Scene, look: Look, width: usize) -> Line<'static> {
    if let Some(silence) = scene.silence {
        let text = format!("no news from the sweep for {}; the rest is as of then", duration(silence));
        return Line::from(look.span(Paint::Alert, look.fit(&text, width)));
    }
    let roles = scene.glance.iter().flat_map(|glance| &glance.roles);
    let waiting = roles.filter_map(|role| Some((role, role.waiting.as_ref()?)));
    let Some((role, waiting)) = waiting.max_by_key(|(_, waiting)| waiting.for_ns) else {
        let text = if scene.glance.is_some() { "no stall" } else { "" };
        return Line::from(look.span(Paint::Faint, look.fit(text, width)));
    };
    let plural = if role.workers == 1 { "" } else { "s" };
    let who = format!("{} of {} {}{plural}", waiting.workers, role.workers, role.role);
    let step = waiting.operation.map_or(String::new(), |operation| format!(", in {operation}"));
    // How long it takes is never what is cut.
    let short = format!("stall: {} so far, {who}", duration(waiting.for_ns));
    let long = format!("{short}{step}");
    let room = width.saturating_sub(columns(&long) + columns(" below "));
    let text = match () {
        () if !waiting.directory.is_empty() && room >= 8 => {
            format!("{long} below {}", look.fit(&waiting.directory, room))
        }
        () if columns(&long) <= width => long,
        () => short,
    };
    let paint = if waiting.for_ns >= Nanos::from_secs(1) { Paint::Bad } else { Paint::Alert };
    Line::from(look.span(paint, look.fit(&text, width)))
}

/// Returns the work of a role in the last second, and the slowest operation of each second before.
fn workers(scene: &Scene, role: &RoleGlance, length: Nanos, look: Look, width: usize) -> Line<'static> {
    let rate = text::megabytes_per_s(RoleGlance::per_s(role.bytes, length));
    let operations = match RoleGlance::per_s(role.operations, length) {
        0.0 => String::new(),
        many if many >= 9995.0 => format!("  {}k op/s", text::number(many / 1e3)),
        many => format!("  {many:.0} op/s"),
    };
    let mean = role.mean_ns().map_or(String::new(), |mean| format!("  mean {}", short(mean)));
    let plural = if role.workers == 1 { "" } else { "s" };
    let who = format!("{} {}{plural}", role.workers, role.role);
    let slowest = match role.is_timed() {
        true => format!("  max {} ", short(role.slowest_ns)),
        false => String::new(),
    };
    let text = format!("{who:<11} {rate:>5} MB/s{operations}{mean}{slowest}");
    let text = look.fit(&text, width);
    let room = width.saturating_sub(columns(&text));
    let strip = scene.strip(role.role);
    let skipped = strip.len().saturating_sub(room);
    let mut spans = vec![look.span(Paint::Plain, text)];
    spans.extend(strip.skip(skipped).map(|time| {
        let (sign, paint) = look.heat(time);
        look.span(paint, sign.to_string())
    }));
    Line::from(spans)
}

/// The device and the processors in the latest sample.
fn machine(glance: &Glance, look: Look, width: usize) -> Line<'static> {
    let Some(MachineGlance { length_ns, device, activity, cpu, dirty_bytes }) = &glance.machine else {
        return Line::default();
    };
    let mut parts = Vec::new();
    if let Some(activity) = activity {
        let rate = |bytes| text::megabytes_per_s(RoleGlance::per_s(bytes, *length_ns));
        let (read, write) = (rate(activity.read_bytes), rate(activity.write_bytes));
        let busy = activity.value(Column::Utilisation, *length_ns).min(100.0);
        parts.push(format!("{device}: read {read}, write {write} MB/s, {busy:.0} % busy"));
    }
    if let Some(cpu) = cpu {
        let busy = cpu.total_ns().saturating_sub(cpu.idle_ns).saturating_sub(cpu.iowait_ns);
        let [busy, waits] = [busy, cpu.iowait_ns].map(|part| cpu.share(part) * 100.0);
        parts.push(format!("CPU {busy:.0} %, iowait {waits:.0} %"));
    }
    if let Some(dirty) = dirty_bytes {
        parts.push(format!("{} dirty", text::size(Bytes(*dirty))));
    }
    // Rather less than something cut in the middle.
    while parts.len() > 1 && columns(&parts.join("; ")) > width {
        parts.pop();
    }
    Line::from(look.span(Paint::Plain, look.fit(&parts.join("; "), width)))
}

fn short(time: Nanos) -> String {
    text::time(Time { ns: time.0, at_least: false })
}

fn duration(time: Nanos) -> String {
    text::time_in_words(Time { ns: time.0, at_least: false })
}
