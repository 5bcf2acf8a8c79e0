//! What each of several clients did in a phase.

use super::style::{Paint, Style, cell, write_table};
use comfy_table::Cell;
use fsdyno_core::Nanos;
use fsdyno_verdict::merge::Time;
use fsdyno_verdict::text;
use fsdyno_verdict::view::{ClientView, ClientsView};
use std::io::{self, Write};

/// Writes a table of the clients of a phase, and how evenly they were served.
///
/// # Errors
/// Those of `out`.
pub(super) fn clients(out: &mut dyn Write, view: &ClientsView, style: Style) -> io::Result<()> {
    style.paragraph(out, Paint::Plain, 0, &summary(view))?;
    let mut table = style.table(heads(view));
    for client in &view.clients {
        let row = row(view, client);
        let (name, figures) = (Cell::new(&row[0]), row[1..].iter().cloned().map(cell));
        table.add_row(std::iter::once(name).chain(figures).collect::<Vec<_>>());
    }
    write_table(out, table, style)?;
    for client in &view.clients {
        if let Some(reason) = &client.lost {
            style.paragraph(out, Paint::Alert, 2, &format!("client {} was lost: {reason}", client.client))?;
        }
    }
    Ok(())
}

/// `3 clients: Jain's index 0.998, the slowest has 97 % of the median; begun within 61 us, clocks known to 38
/// us`.
pub(crate) fn summary(view: &ClientsView) -> String {
    let time = |time: Nanos| text::time_in_words(Time { ns: time.0, at_least: false });
    let fair = view.fairness.zip(view.slowest_to_median).map(|(fairness, slowest)| {
        format!(
            ": Jain's index {:.3}, the slowest has {} of the median",
            fairness.jain,
            text::percent(slowest)
        )
    });
    let late = view.late.map(|late| format!("begun within {}", time(late)));
    let clock = match view.clock_uncertainty {
        Some(uncertain) => format!("clocks known to {}", time(uncertain)),
        None => "not all clocks known".to_string(),
    };
    let times: Vec<String> = late.into_iter().chain([clock]).collect();
    format!(
        "{}{}; {}",
        text::plural(view.clients.len() as u64, "client"),
        fair.unwrap_or_default(),
        times.join(", ")
    )
}

/// The headings of the table.
pub(crate) fn heads(view: &ClientsView) -> Vec<String> {
    let rate = if moves(view) { "MB/s" } else { "ops/s" };
    ["client", "workers", "share", rate, "p99.9", "stall", "late"].map(str::to_string).to_vec()
}

/// A row of it.
pub(crate) fn row(view: &ClientsView, client: &ClientView) -> Vec<String> {
    let time = |time: Option<Nanos>| {
        time.map_or("-".to_string(), |time| text::time(Time { ns: time.0, at_least: false }))
    };
    vec![
        client.client.clone(),
        client.workers.to_string(),
        client.share.map_or("-".to_string(), text::percent),
        match moves(view) {
            true => text::megabytes_per_s(client.bytes_per_s),
            false => text::number(client.operations_per_s),
        },
        time(client.p999),
        text::time(client.longest_stall),
        time(client.late),
    ]
}

fn moves(view: &ClientsView) -> bool {
    view.clients.iter().any(|client| client.bytes_per_s > 0.0)
}
