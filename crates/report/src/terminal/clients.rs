//! The work of each of several clients in a phase.

use super::style::{Paint, Style, cell, write_table};
use comfy_table::Cell;
use fsdyno_core::Nanos;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{ClientView, ClientsOfRole, ClientsView};
use std::io::{self, Write};

/// Writes a table of the clients of a phase for each role, and how evenly they were served.
///
/// # Errors
/// Those of `out`.
pub(super) fn clients(out: &mut dyn Write, view: &ClientsView, style: Style) -> io::Result<()> {
    style.paragraph(out, Paint::Plain, 0, &start(view))?;
    for role in &view.roles {
        style.paragraph(out, Paint::Plain, 0, &evenness(role))?;
        let mut table = style.table(heads(role));
        for client in &role.clients {
            let row = row(role, client);
            let (name, figures) = (Cell::new(&row[0]), row[1..].iter().cloned().map(cell));
            table.add_row(std::iter::once(name).chain(figures).collect::<Vec<_>>());
        }
        write_table(out, table, style)?;
    }
    Ok(())
}

/// `3 clients, begun within 61 us; their clocks are known to 38 us`.
pub(crate) fn start(view: &ClientsView) -> String {
    let time = |time: Nanos| text::time_in_words(Time { ns: time.0, at_least: false });
    let late = view.late.map(|late| format!(", begun within {}", time(late)));
    let clock = match view.clock_uncertainty {
        Some(uncertain) => format!("their clocks are known to {}", time(uncertain)),
        None => "not all of their clocks are known".to_string(),
    };
    let outage = view.outage.map(|outage| format!("; the server was away for {}", time(outage)));
    format!(
        "{}{}; {clock}{}",
        text::plural(view.clients as u64, "client"),
        late.unwrap_or_default(),
        outage.unwrap_or_default()
    )
}

/// `readers: Jain's index 0.998, the slowest client has 97.0 % of the median`; of several trials, `readers,
/// at worst: ...`.
pub(crate) fn evenness(role: &ClientsOfRole) -> String {
    let fair = role.fairness.zip(role.slowest_to_median).map(|(fairness, slowest)| {
        format!(
            ": Jain's index {:.3}, the slowest client has {} of the median",
            fairness.jain,
            text::percent(slowest)
        )
    });
    let worst = if role.trials > 1 { ", at worst" } else { "" };
    fair.map_or(format!("{}s", role.role.name()), |fair| format!("{}s{worst}{fair}", role.role.name()))
}

/// The headings of the table of a role.
pub(crate) fn heads(role: &ClientsOfRole) -> Vec<String> {
    let rate = if role.moves { "MB/s" } else { "ops/s" };
    ["client", "workers", "share", rate, "p99.9", "stall", "late", "CPU"].map(str::to_string).to_vec()
}

/// A row of it.
pub(crate) fn row(role: &ClientsOfRole, client: &ClientView) -> Vec<String> {
    let time = |time: Option<Nanos>| {
        time.map_or("-".to_string(), |time| text::time(Time { ns: time.0, at_least: false }))
    };
    vec![
        client.client.clone(),
        client.workers.to_string(),
        client.share.map_or("-".to_string(), text::percent),
        if role.moves { text::megabytes_per_s(client.per_s) } else { text::number(client.per_s) },
        time(client.p999),
        text::time(client.longest_stall),
        time(client.late),
        client.busy.map_or("-".to_string(), text::percent),
    ]
}
