//! The load of a trial: one engine, until it exits.

use super::outage::Outages;
use super::pacing::Pacing;
use super::report::{EngineReport, host_failure};
use super::served::AtServer;
use super::watch::{self, AtPhases, LoadEnd, Looks};
use super::{Bench, Site, Stop};
use crate::room::RoomWatch;
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::{EngineRequest, Failure, Nanos, Reached, TrialRecord};
use fsdyno_host::Host;
use fsdyno_testbed::{Mounted, memory};

/// The results of an engine that the following steps need.
pub(super) struct Loaded {
    /// The time that the engine took after its last phase to write everything back.
    pub written_back: Nanos,
    /// The points that its writers reached.
    pub reached: Vec<Reached>,
}

/// Runs an engine in the mounted filesystem and keeps what it reports, even if it fails.
pub(super) fn load(
    bench: &mut Bench<'_, '_>,
    mounted: &mut Mounted,
    request: &EngineRequest,
    record: &mut TrialRecord,
) -> Result<Loaded, Stop> {
    let mut engine = match bench.site.clients() {
        Some(clients) => clients.start(bench.host, request, record)?,
        None => {
            let started = bench.host.start_engine(request);
            started.map_err(|error| Stop::Failed(Box::new(host_failure(&error))))?
        }
    };
    let mut report = EngineReport::default();
    let mut server = None;
    let load = {
        let progress = &mut *bench.progress;
        let mut room = RoomWatch::over(&bench.plan.devices);
        let mut nothing = ();
        let (machine, at_phases): (&mut dyn Host, &mut dyn AtPhases) = match &mut bench.site {
            Site::Machine { commands, store, .. } if request.pauses => {
                room.watch_too(store);
                (&mut *bench.host, &mut **commands)
            }
            Site::Machine { .. } | Site::Recorded => {
                (&mut *bench.host, pace(&mut bench.pacing).unwrap_or(&mut nothing))
            }
            Site::Guest { machine } => (&mut **machine, pace(&mut bench.pacing).unwrap_or(&mut nothing)),
            Site::Server { machine, clients } => {
                let restart = clients.restart();
                let outages = restart.map(|restart| Outages::new(restart, mounted, &mut *bench.journal));
                (&mut **machine, server.insert(AtServer::new(&mut *bench.host, request, outages)))
            }
        };
        let mut looks = Looks { progress, room: &mut || room.look(machine), at_phases };
        watch::watch(
            engine.as_mut(),
            request,
            bench.plan.rules.watchdog,
            bench.stops,
            &mut report,
            &mut looks,
        )
    };
    if let Some(server) = server {
        server.note(record);
    }
    let loaded = Loaded { written_back: report.written_back, reached: std::mem::take(&mut report.reached) };
    drop(engine);
    report.keep(record, bench.overhead);
    let mut end = load.end;
    if let (LoadEnd::Failed(failure), Some(group)) = (&mut end, &request.memory)
        && match bench.site.clients() {
            Some(clients) => clients.has_killed(),
            None => memory::has_killed(bench.host, group),
        }
    {
        say_killed(failure, group, memory::lets_writers_fill(bench.host, group));
    }
    match (end, load.stuck) {
        (LoadEnd::Hung(failure), stuck) => Err(Stop::Hung(Box::new(failure), stuck)),
        (LoadEnd::Failed(failure), Some(stuck)) => Err(Stop::Hung(Box::new(failure), Some(stuck))),
        (_, Some(stuck)) => {
            let failure = Failure::new("engine", "the engine does not exit, although it was killed");
            Err(Stop::Hung(Box::new(failure), Some(stuck)))
        }
        (LoadEnd::Done, None) => {
            if let Some(clients) = bench.site.clients() {
                clients.end(bench.host)?;
            }
            Ok(loaded)
        }
        (LoadEnd::Failed(failure), None) => Err(Stop::Failed(Box::new(failure))),
        (LoadEnd::Interrupted, None) => Err(Stop::Interrupted),
        (LoadEnd::NoRoom(failure), None) => Err(Stop::NoRoom(Box::new(failure))),
    }
}

fn pace<'a>(pacing: &'a mut Option<Pacing<'_>>) -> Option<&'a mut dyn AtPhases> {
    pacing.as_mut().map(|pacing| pacing as &mut dyn AtPhases)
}

/// Makes a failure say that the kernel killed the load, whose writers may fill the memory of its group.
fn say_killed(failure: &mut Failure, group: &MemoryGroup, writers_fill: bool) {
    failure.message =
        format!("the kernel killed the load when it reached its memory limit of {}", group.limit);
    let mut hint = "raise `memory`, use fewer workers or files, or make reads and writes smaller".to_string();
    if writers_fill {
        hint +=
            "; a disk that stalls can be the cause, too: cgroups of version 1 let writers fill the memory";
    }
    failure.hint = Some(hint);
}
