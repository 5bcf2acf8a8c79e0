//! What each of several clients did in a phase, over all trials of a case.

use crate::merge::Time;
use fsdyno_core::Nanos;
use fsdyno_core::result::{ClientResult, PhaseResult};
use fsdyno_stats::{Fairness, MeanKind, fairness, mean, median};

/// The clients of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientsView {
    /// Each of them, in the order of the first trial.
    pub clients: Vec<ClientView>,
    /// How evenly they moved data, or completed operations if they move none: the mean over trials.
    pub fairness: Option<Fairness>,
    /// The rate of the slowest over that of the median client, the mean over trials.
    pub slowest_to_median: Option<f64>,
    /// How much later than agreed the last one began, in any trial.
    pub late: Option<Nanos>,
    /// How uncertain the worst clock was, in any trial; absent if one could not be read.
    pub clock_uncertainty: Option<Nanos>,
}

/// One client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientView {
    /// Its name.
    pub client: String,
    /// How many workers it had.
    pub workers: u32,
    /// Bytes per second, the mean over trials.
    pub bytes_per_s: f64,
    /// Operations per second, the same.
    pub operations_per_s: f64,
    /// Its share of what all did, 0 to 1, the mean over trials.
    pub share: Option<f64>,
    /// The longest p99.9 of any trial; absent if one of them had too few operations.
    pub p999: Option<Nanos>,
    /// The longest stall of any trial.
    pub longest_stall: Time,
    /// How much later than agreed it began at most; absent if it was never known.
    pub late: Option<Nanos>,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

impl ClientsView {
    /// The clients of a phase in several trials; nothing if this machine did the load itself.
    pub(super) fn of(parts: &[&PhaseResult]) -> Option<ClientsView> {
        let with: Vec<&PhaseResult> =
            parts.iter().copied().filter(|phase| !phase.clients.is_empty()).collect();
        let first = with.first()?;
        let fair: Vec<Fairness> = with.iter().filter_map(|phase| fairness(&rates(phase))).collect();
        let of_fair = |of: fn(&Fairness) -> f64| average(fair.iter().map(of));
        let slowest = with.iter().filter_map(|phase| {
            let mut rates = rates(phase);
            rates.sort_by(f64::total_cmp);
            let middle = median(&rates);
            (middle > 0.0).then(|| rates[0] / middle)
        });
        let clocks: Option<Vec<Nanos>> =
            with.iter().flat_map(|phase| &phase.clients).map(ClientResult::clock_uncertainty).collect();
        Some(ClientsView {
            clients: first.clients.iter().map(|one| ClientView::of(&one.client, &with)).collect(),
            fairness: of_fair(|one| one.jain)
                .zip(of_fair(|one| one.least_to_most))
                .map(|(jain, least_to_most)| Fairness { jain, least_to_most }),
            slowest_to_median: average(slowest),
            late: with.iter().filter_map(|phase| phase.late_ns).max(),
            clock_uncertainty: clocks.and_then(|clocks| clocks.into_iter().max()),
        })
    }
}

impl ClientView {
    fn of(name: &str, phases: &[&PhaseResult]) -> ClientView {
        let place = |phase: &PhaseResult| phase.clients.iter().position(|one| one.client == name);
        let parts: Vec<(usize, &PhaseResult)> =
            phases.iter().filter_map(|phase| Some((place(phase)?, *phase))).collect();
        let each = || parts.iter().map(|(place, phase)| &phase.clients[*place]);
        let shares = parts.iter().filter_map(|(place, phase)| {
            let rates = rates(phase);
            let sum: f64 = rates.iter().sum();
            (sum > 0.0).then(|| rates[*place] / sum)
        });
        ClientView {
            client: name.to_string(),
            workers: each().map(|one| one.workers).max().unwrap_or(0),
            bytes_per_s: average(each().map(|one| per_s(one.bytes, one))).unwrap_or(0.0),
            operations_per_s: average(each().map(|one| per_s(one.completed, one))).unwrap_or(0.0),
            share: average(shares),
            p999: each()
                .map(|one| one.p999_ns)
                .collect::<Option<Vec<_>>>()
                .and_then(|all| all.into_iter().max()),
            longest_stall: Time {
                ns: each().map(|one| one.longest_stall_ns.0).max().unwrap_or(0),
                at_least: each().any(|one| one.longest_stall_at_least),
            },
            late: each().filter_map(|one| one.late_ns).max(),
            lost: each().find_map(|one| one.lost.clone()),
        }
    }
}

/// What each client of a phase did per second: bytes if any were moved, else operations.
fn rates(phase: &PhaseResult) -> Vec<f64> {
    let moved = phase.clients.iter().any(|one| one.bytes > 0);
    phase.clients.iter().map(|one| per_s(if moved { one.bytes } else { one.completed }, one)).collect()
}

fn per_s(work: u64, client: &ClientResult) -> f64 {
    match client.active_ns {
        Nanos(0) => 0.0,
        active => work as f64 / active.as_secs_f64(),
    }
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    mean(&values.collect::<Vec<_>>(), MeanKind::Arithmetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, bytes: u64, active_s: u64) -> ClientResult {
        ClientResult {
            client: name.to_string(),
            workers: 2,
            bytes,
            completed: 10,
            p999_ns: Some(Nanos(bytes)),
            longest_stall_ns: Nanos(bytes / 2),
            longest_stall_at_least: false,
            cpu: Default::default(),
            late_ns: Some(Nanos(active_s)),
            active_ns: Nanos::from_secs(active_s),
            clock_before: None,
            clock_after: None,
            lost: None,
        }
    }

    fn phase(clients: Vec<ClientResult>) -> PhaseResult {
        PhaseResult { clients, ..PhaseResult::lasting("copy", Nanos::from_secs(2), Vec::new()) }
    }

    #[test]
    fn shares_are_of_rates_and_the_worst_of_any_trial_counts() {
        let one = phase(vec![client("a", 600, 2), client("b", 300, 2), client("c", 600, 2)]);
        let two = phase(vec![client("a", 600, 2), client("b", 300, 1), client("c", 600, 2)]);
        let view = ClientsView::of(&[&one, &two]).unwrap();
        let names: Vec<&str> = view.clients.iter().map(|one| one.client.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(view.clients[1].share, Some((0.2 + 1.0 / 3.0) / 2.0));
        assert_eq!(view.clients[1].bytes_per_s, 225.0);
        assert_eq!(view.clients[1].late, Some(Nanos(2)));
        assert_eq!(view.clients[0].longest_stall, Time { ns: 300, at_least: false });
        assert_eq!(view.slowest_to_median, Some(0.75));
        assert_eq!(view.clock_uncertainty, None);
    }

    #[test]
    fn one_machine_has_no_clients() {
        assert_eq!(ClientsView::of(&[&phase(Vec::new())]), None);
    }
}
