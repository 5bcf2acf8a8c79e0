//! The load of a trial: one engine, until it exits.

use super::outage::Outages;
use super::report::{EngineReport, host_failure};
use super::served::AtServer;
use super::watch::{self, AtPhases, LoadEnd, Looks, Stops};
use super::{Bench, Stop};
use crate::progress::Moment;
use crate::room::RoomWatch;
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
    let mut engine = match &mut bench.served {
        Some(served) => served.start(bench.host, request, record)?,
        None => {
            let started = bench.host.start_engine(request);
            started.map_err(|error| Stop::Failed(Box::new(host_failure(&error))))?
        }
    };
    let mut report = EngineReport::default();
    let mut server = None;
    let restart = bench.served.as_ref().and_then(|served| served.restart());
    let load = {
        let progress = &mut *bench.progress;
        let mut place = |place: &watch::EnginePosition| {
            progress(&Moment {
                stage: watch::stage_name(place.stage),
                left: Some(place.left),
                phase: &place.phase,
                done: Some(place.done),
                glance: place.glance.as_deref(),
            });
        };
        let stop = Stops { interrupt: bench.interrupt, hurry: bench.hurry };
        let mut room = RoomWatch::over(&bench.plan.devices);
        let mut nothing = ();
        let (host, at_phases): (&mut dyn Host, &mut dyn AtPhases) =
            match (&mut bench.outer, &mut bench.commands) {
                (Some(outer), _) if bench.served.is_some() => {
                    let outages = restart.map(|restart| Outages::new(restart, mounted, &mut *bench.journal));
                    (&mut **outer, server.insert(AtServer::new(&mut *bench.host, request, outages)))
                }
                (Some(outer), _) => (&mut **outer, &mut nothing),
                (None, Some(commands)) if request.pauses => {
                    room.watch_too(bench.store);
                    (&mut *bench.host, &mut **commands)
                }
                (None, _) => (&mut *bench.host, &mut nothing),
            };
        let mut looks = Looks { place: &mut place, room: &mut || room.look(host), at_phases };
        watch::watch(engine.as_mut(), request, bench.plan.rules.watchdog, stop, &mut report, &mut looks)
    };
    if let Some(server) = server {
        server.note(record);
    }
    let loaded = Loaded { written_back: report.written_back, reached: std::mem::take(&mut report.reached) };
    drop(engine);
    report.keep(record, bench.overhead);
    let mut end = load.end;
    if let (LoadEnd::Failed(failure), Some(group)) = (&mut end, &request.memory)
        && match &mut bench.served {
            Some(served) => served.has_killed(),
            None => memory::has_killed(bench.host, group),
        }
    {
        failure.message =
            format!("the kernel killed the load when it reached its memory limit of {}", group.limit);
        let mut hint = "raise `memory`, use fewer workers, or make reads and writes smaller".to_string();
        if memory::lets_writers_fill(bench.host, group) {
            hint += "; a disk that stalls can be the cause, too: cgroups of version 1 let writers fill the memory";
        }
        failure.hint = Some(hint);
    }
    match (end, load.stuck) {
        (LoadEnd::Hung(failure), stuck) => Err(Stop::Hung(Box::new(failure), stuck)),
        (LoadEnd::Failed(failure), Some(stuck)) => Err(Stop::Hung(Box::new(failure), Some(stuck))),
        (_, Some(stuck)) => {
            let failure = Failure::new("engine", "the engine does not exit, although it was killed");
            Err(Stop::Hung(Box::new(failure), Some(stuck)))
        }
        (LoadEnd::Done, None) => {
            if let Some(served) = &mut bench.served {
                served.end(bench.host)?;
            }
            Ok(loaded)
        }
        (LoadEnd::Failed(failure), None) => Err(Stop::Failed(Box::new(failure))),
        (LoadEnd::Interrupted, None) => Err(Stop::Interrupted),
        (LoadEnd::NoRoom(failure), None) => Err(Stop::NoRoom(Box::new(failure))),
    }
}
