//! The request to each of several clients.

use fsdyno_core::{EngineRequest, TelemetryRequest};

/// The most clients whose machines are watched: of thousands, nobody reads that.
const WATCHED: usize = 16;

/// The part of one client: trees of its own, at a place of its own, and nothing of this machine. In each
/// later part of a load, it goes on with the trees of another client, never with those that it has written
/// itself (IOR calls that reordering tasks); where all read the same trees, it keeps its own place.
pub(crate) fn request_of(request: &EngineRequest, number: usize, count: usize) -> EngineRequest {
    let whose = if request.shared.is_some() { number } else { whose(number, request.part.number, count) };
    EngineRequest {
        seed: seed_of(request.seed, whose),
        machines: count as u32,
        pauses: true,
        telemetry: request.telemetry.as_ref().filter(|_| count <= WATCHED).map(of_client),
        quiesce: None,
        marks: request.marks.clone().filter(|_| count == 1),
        device: None,
        ..request.clone()
    }
}

/// Returns the telemetry to sample on a client, which has none of the devices.
fn of_client(telemetry: &TelemetryRequest) -> TelemetryRequest {
    TelemetryRequest { devices: Vec::new(), ..telemetry.clone() }
}

/// Whose trees a client uses in a part of a load: in the first its own, then those of one after the other of
/// the others.
fn whose(number: usize, part: u32, count: usize) -> usize {
    match (part as usize).checked_sub(1) {
        Some(later) if count > 1 => (number + 1 + later % (count - 1)) % count,
        _ => number,
    }
}

/// The seeds of clients are all different, and that of the first is the trial's. The step is that of
/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
fn seed_of(seed: u64, number: usize) -> u64 {
    seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Workload;
    use fsdyno_core::protocol::EnginePart;
    use fsdyno_core::workload::Fileserver;
    use std::collections::BTreeSet;

    #[test]
    fn clients_that_share_trees_keep_their_places() {
        let workload = Workload::Fileserver(Fileserver::default());
        let request = EngineRequest {
            shared: Some(7),
            part: EnginePart { number: 1, of: 2 },
            ..EngineRequest::new("/mnt", workload, 7)
        };
        let of: Vec<EngineRequest> = (0..3).map(|number| request_of(&request, number, 3)).collect();
        let seeds: Vec<u64> = of.iter().map(|one| one.seed).collect();
        assert_eq!(seeds, [7, seed_of(7, 1), seed_of(7, 2)]);
        assert!(of.iter().all(|one| one.shared == Some(7)));
    }

    #[test]
    fn no_client_reads_what_it_has_written_and_no_two_the_same() {
        for count in 1..9 {
            for part in 0..12 {
                let whose: Vec<usize> = (0..count).map(|number| whose(number, part, count)).collect();
                assert_eq!(whose.iter().collect::<BTreeSet<_>>().len(), count, "{whose:?}");
                let own = whose.iter().enumerate().filter(|(number, whose)| number == *whose).count();
                assert_eq!(own, if part == 0 || count == 1 { count } else { 0 }, "{count} {part} {whose:?}");
            }
        }
    }
}
