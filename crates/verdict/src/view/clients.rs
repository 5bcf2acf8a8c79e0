//! The work of each of several clients in a phase, over all trials of a case.

use crate::merge::Time;
use fsdyno_core::result::{ClientResult, ClientRole, PhaseResult};
use fsdyno_core::{Nanos, Role};
use fsdyno_stats::{Fairness, MeanKind, fairness, mean, median};

/// The clients of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientsView {
    /// The number of clients.
    pub clients: usize,
    /// The roles of the phase.
    pub roles: Vec<ClientsOfRole>,
    /// The time by which the last client began later than agreed, in any trial.
    pub late: Option<Nanos>,
    /// The uncertainty of the worst clock, in any trial; absent if one could not be read.
    pub clock_uncertainty: Option<Nanos>,
    /// The longest time that their server was away, in any trial; absent if it never was.
    pub outage: Option<Nanos>,
}

/// The service that the workers of one role received on each client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientsOfRole {
    /// The role.
    pub role: Role,
    /// `true` if its workers move data. If not, operations count in place of bytes.
    pub moves: bool,
    /// Each client, in the order of the first trial.
    pub clients: Vec<ClientView>,
    /// The fairness among the clients, by their work per second, in the trial in which it was worst. In each
    /// trial another client may be slow, so that the means say nothing of it.
    pub fairness: Option<Fairness>,
    /// The rate of the slowest over that of the median client, in the trial in which that was least.
    pub slowest_to_median: Option<f64>,
    /// The number of trials.
    pub trials: usize,
}

/// One role on one client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientView {
    /// Its name.
    pub client: String,
    /// The number of its workers.
    pub workers: u32,
    /// Bytes per second, or operations if none are moved; the mean over trials.
    pub per_s: f64,
    /// Its share of the rate of all, 0 to 1.
    pub share: Option<f64>,
    /// The longest p99.9 of any trial; absent if one of them had too few operations.
    pub p999: Option<Nanos>,
    /// The longest stall of any trial.
    pub longest_stall: Time,
    /// The longest time by which the client began later than agreed; absent if that was never known.
    pub late: Option<Nanos>,
    /// Share of the time of its processors that was used, by whatever ran on it; the mean over trials. Absent
    /// if one of them was not watched.
    pub busy: Option<f64>,
}

impl ClientsView {
    /// The clients of a phase in several trials; nothing if this machine did the load itself.
    pub fn of(parts: &[&PhaseResult]) -> Option<ClientsView> {
        let with: Vec<&PhaseResult> =
            parts.iter().copied().filter(|phase| !phase.clients.is_empty()).collect();
        let first = with.first()?;
        let all = || with.iter().flat_map(|phase| &phase.clients);
        let clocks: Option<Vec<Nanos>> = all().map(ClientResult::clock_uncertainty).collect();
        Some(ClientsView {
            clients: first.clients.len(),
            roles: first.roles.iter().map(|role| ClientsOfRole::of(role.role, &with)).collect(),
            late: with.iter().filter_map(|phase| phase.late_ns).max(),
            clock_uncertainty: clocks.and_then(|clocks| clocks.into_iter().max()),
            outage: with.iter().filter_map(|phase| phase.outage).map(|outage| outage.duration_ns).max(),
        })
    }
}

impl ClientsOfRole {
    fn of<'p>(role: Role, phases: &[&'p PhaseResult]) -> ClientsOfRole {
        let of_phase = |phase: &&'p PhaseResult| -> Vec<(&'p ClientResult, &'p ClientRole)> {
            let parts =
                phase.clients.iter().flat_map(|client| client.roles.iter().map(move |part| (client, part)));
            parts.filter(|(_, part)| part.role == role).collect()
        };
        let trials: Vec<_> = phases.iter().map(of_phase).collect();
        let parts = trials.concat();
        let moves = parts.iter().any(|(_, part)| part.work.bytes > 0);
        let mut names: Vec<&str> = Vec::new();
        for (client, _) in &parts {
            if !names.contains(&client.client.as_str()) {
                names.push(&client.client);
            }
        }
        let mut clients: Vec<ClientView> = names
            .into_iter()
            .map(|name| {
                let own: Vec<_> = parts.iter().copied().filter(|(client, _)| client.client == name).collect();
                ClientView::of(name, &own, moves)
            })
            .collect();
        let sum: f64 = clients.iter().map(|client| client.per_s).sum();
        let each = || trials.iter().map(|parts| rates(parts, moves));
        for client in &mut clients {
            client.share = (sum > 0.0).then(|| client.per_s / sum);
        }
        ClientsOfRole {
            role,
            moves,
            clients,
            fairness: each().filter_map(|rates| fairness(&rates)).min_by(|a, b| a.jain.total_cmp(&b.jain)),
            slowest_to_median: each().filter_map(slowest_to_median).min_by(f64::total_cmp),
            trials: trials.len(),
        }
    }
}

impl ClientView {
    /// Merges the work of one client in several trials.
    fn of(name: &str, parts: &[(&ClientResult, &ClientRole)], moves: bool) -> ClientView {
        let roles = || parts.iter().map(|(_, part)| part);
        let p999 = roles().map(|part| part.work.p999_ns).collect::<Option<Vec<_>>>();
        ClientView {
            client: name.to_string(),
            workers: roles().map(|part| part.work.workers).max().unwrap_or(0),
            per_s: mean(&rates(parts, moves), MeanKind::Arithmetic).unwrap_or(0.0),
            share: None,
            p999: p999.and_then(|all| all.into_iter().max()),
            longest_stall: Time {
                ns: roles().map(|part| part.work.longest_stall_ns.0).max().unwrap_or(0),
                at_least: roles().any(|part| part.work.longest_stall_at_least),
            },
            late: parts.iter().filter_map(|(client, _)| client.late_ns).max(),
            busy: busy(parts),
        }
    }
}

/// Work per second of each.
fn rates(parts: &[(&ClientResult, &ClientRole)], moves: bool) -> Vec<f64> {
    let rate = |(client, part): &(&ClientResult, &ClientRole)| {
        let work = if moves { part.work.bytes } else { part.work.completed };
        match client.active_ns {
            Nanos(0) => 0.0,
            active => work as f64 / active.as_secs_f64(),
        }
    };
    parts.iter().map(rate).collect()
}

/// Returns the share of time in which the processors of a client were busy.
fn busy(parts: &[(&ClientResult, &ClientRole)]) -> Option<f64> {
    let share = |(client, _): &(&ClientResult, &ClientRole)| {
        let cpu = client.telemetry.as_ref()?.window.cpu?;
        Some(1.0 - cpu.share(cpu.idle_ns) - cpu.share(cpu.iowait_ns))
    };
    let shares: Vec<f64> = parts.iter().map(share).collect::<Option<_>>()?;
    mean(&shares, MeanKind::Arithmetic)
}

fn slowest_to_median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    let slowest = *rates.first()?;
    let middle = median(&rates);
    (rates.len() > 1 && middle > 0.0).then(|| slowest / middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::result::{ClientWork, RoleResult};

    fn client(name: &str, bytes: u64, active_s: u64) -> ClientResult {
        let work = ClientWork {
            workers: 2,
            bytes,
            completed: 10,
            p999_ns: Some(Nanos(bytes)),
            longest_stall_ns: Nanos(bytes / 2),
            longest_stall_at_least: false,
        };
        ClientResult {
            client: name.to_string(),
            work: ClientWork::default(),
            roles: vec![ClientRole { role: Role::Reader, work }],
            cpu: Default::default(),
            late_ns: Some(Nanos(active_s)),
            active_ns: Nanos::from_secs(active_s),
            telemetry: None,
            clock_before: None,
            clock_after: None,
            lost: None,
        }
    }

    fn phase(clients: Vec<ClientResult>) -> PhaseResult {
        let role = RoleResult::unwatched(Role::Reader, 6);
        PhaseResult { clients, ..PhaseResult::lasting("copy", Nanos::from_secs(2), vec![role]) }
    }

    /// In each trial another client is slow: the means do not show it, but the fairness of a trial does.
    #[test]
    fn shares_are_of_mean_rates_and_the_worst_of_any_trial_counts() {
        let one = phase(vec![client("a", 600, 2), client("b", 300, 2), client("c", 600, 2)]);
        let two = phase(vec![client("a", 600, 2), client("b", 300, 1), client("c", 300, 2)]);
        let view = ClientsView::of(&[&one, &two]).unwrap();
        let readers = &view.roles[0];
        let rates: Vec<(&str, f64)> =
            readers.clients.iter().map(|one| (one.client.as_str(), one.per_s)).collect();
        assert_eq!(rates, [("a", 300.0), ("b", 225.0), ("c", 225.0)]);
        assert_eq!(readers.clients[1].share, Some(0.3));
        assert_eq!((readers.trials, readers.slowest_to_median), (2, Some(0.5)));
        // (300 + 150 + 300)^2 / (3 (300^2 + 150^2 + 300^2)), in both.
        assert!((readers.fairness.unwrap().jain - 562_500.0 / 607_500.0).abs() < 1e-12);
        assert_eq!(readers.clients[0].late, Some(Nanos(2)));
        assert_eq!(readers.clients[2].longest_stall, Time { ns: 300, at_least: false });
        assert_eq!(readers.clients[2].p999, Some(Nanos(600)));
        assert_eq!((view.clients, view.clock_uncertainty), (3, None));
    }

    #[test]
    fn one_machine_has_no_clients() {
        assert_eq!(ClientsView::of(&[&phase(Vec::new())]), None);
    }
}
