//! Where a recorded disk is used: on this machine, or in a guest that has it, and what takes its marks, as
//! its disks.
//!
//! The recorder is on this machine in either case, so a guest whose kernel panics takes nothing along. The
//! guest keeps the disk open while it becomes one state after the other.

use super::place::LogPlace;
use super::{Recording, Stop, ask, host_failure};
use crate::guest_request;
use crate::plan::Case;
use crate::recorded::Shape;
use crate::trial::guest;
use crate::trial::served::{self, Booted, ServedClients};
use crate::trial::{Ended, Site};
use fsdyno_core::durability::RecorderRequest;
use fsdyno_core::{
    Bytes, Configuration, Devices, Failure, Progress, TrialRecord, TrialStep, Warning, WarningKind,
};
use fsdyno_host::guest::{Guest, GuestRequest, NotStarted};
use fsdyno_host::recorder::Recorder;
use fsdyno_host::{Host, HostError};
use fsdyno_testbed::{Confirmation, Testbed, TestbedError, UndoJournal};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of guests that may be lost to the disks of one trial.
const LOST_MOST: u32 = 5;
/// The time that a guest may take to show that it still works.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Where a recorded disk is used.
pub(super) struct DiskSite {
    inside: Option<Inside>,
    /// The client that sees what is on the disk, if the guest is a server, until the load is over.
    served: Option<ServedClients>,
    pub testbed: Testbed,
    /// The configuration as it is there.
    pub configuration: Configuration,
    /// Where workers note what they do.
    marks: PathBuf,
    /// Where these marks are read.
    pub marks_so_far: PathBuf,
    /// The number of guests that have been lost.
    lost: u32,
}

/// A guest with the disk.
struct Inside {
    guest: Box<dyn Guest>,
    request: GuestRequest,
    /// The disk as it is on this machine.
    devices: Devices,
    /// For a guest that replaces it.
    disks: Vec<OwnedFd>,
    /// The way back of the disk's file.
    file: UndoJournal,
}

impl DiskSite {
    /// Passes the disk through the guards where it will be used.
    pub fn open(
        recording: &mut Recording<'_, '_>,
        place: &LogPlace,
        case: &Case,
        shape: Shape<'_>,
    ) -> Result<DiskSite, Stop> {
        let devices = shape.devices(place.mountpoint(), true);
        let space = least_space(case);
        let Some(mut request) = guest_request::request_for(recording.plan, case, &devices) else {
            return DiskSite::on_machine(
                recording.machines.host,
                place,
                &case.configuration,
                &devices,
                space,
            );
        };
        request.disks.push(place.marks());
        let mut file = UndoJournal::create(recording.machines.host, recording.state_dir)?;
        let made = descriptors(recording.machines.host, &mut file, place, case, &devices);
        let started = made.and_then(|disks| Ok((start(recording, case, &request, &disks)?, disks)));
        let (Booted { guest, clients }, disks) = match started {
            Ok(started) => started,
            Err(stop) => {
                file.undo_all(recording.machines.host);
                file.close()?;
                return Err(stop);
            }
        };
        let mut inside = Inside { guest, request, devices, disks, file };
        let served =
            ServedClients::connect(recording.plan, &case.configuration, inside.guest.as_mut(), clients);
        let served = served.map_err(Stop::Failed);
        let verified = verify(recording, inside.guest.as_mut(), case, &inside.devices);
        match served.and_then(|served| Ok((served, verified?))) {
            Ok((served, (testbed, configuration, marks))) => Ok(DiskSite {
                inside: Some(inside),
                served,
                testbed,
                configuration,
                marks_so_far: marks.clone(),
                marks,
                lost: 0,
            }),
            Err(mut stop) => {
                if let Stop::Failed(failure) = &mut stop {
                    guest::add_last_words(failure, inside.guest.as_mut());
                }
                inside.leave(recording.machines.host);
                Err(stop)
            }
        }
    }

    /// The same on this machine.
    pub fn on_machine(
        host: &mut dyn Host,
        place: &LogPlace,
        configuration: &Configuration,
        devices: &Devices,
        space: Bytes,
    ) -> Result<DiskSite, Stop> {
        let testbed = Testbed::verify(host, devices, &[], space, &Confirmation::default())?;
        Ok(DiskSite {
            inside: None,
            served: None,
            testbed,
            configuration: configuration.clone(),
            marks: place.marks(),
            marks_so_far: place.marks_so_far(),
            lost: 0,
        })
    }

    /// From now on this machine may keep the disk in memory, because it will only be looked at, and each one
    /// is a file of its own.
    pub fn keep_in_memory(
        &mut self,
        machine: &mut dyn Host,
        place: &LogPlace,
        shape: Shape<'_>,
        space: Bytes,
    ) -> Result<(), TestbedError> {
        if self.inside.is_none() {
            let devices = shape.devices(place.mountpoint(), false);
            self.testbed = Testbed::verify(machine, &devices, &[], space, &Confirmation::default())?;
        }
        Ok(())
    }

    /// Returns whether the site is a guest.
    pub fn is_guest(&self) -> bool {
        self.inside.is_some()
    }

    /// Who carries out steps there, on what, and in which configuration.
    pub fn user<'a>(&'a mut self, machine: &'a mut dyn Host) -> User<'a> {
        let DiskSite { inside, served, testbed, configuration, marks, .. } = self;
        let (host, site): (&mut dyn Host, Site<'_, '_>) = match (inside, served) {
            (None, _) => (machine, Site::Recorded),
            (Some(Inside { guest, .. }), None) => (guest.as_mut(), Site::Guest { machine }),
            (Some(Inside { guest, .. }), Some(clients)) => {
                (guest.as_mut(), Site::Server { machine, clients })
            }
        };
        User { host, site, testbed, configuration, marks }
    }

    /// The load is over: its client ends.
    pub fn end_client(&mut self, record: &mut TrialRecord) {
        if let Some(served) = self.served.take() {
            served.leave(record);
        }
    }

    /// Notes what could not be taken down there. On this machine it is left behind. A guest takes it along
    /// when it ends.
    ///
    /// # Errors
    /// The leftovers within a guest: it cannot go on with another disk.
    pub fn note_left(&self, left: Vec<String>, ended: &mut Ended) -> Result<(), Box<Failure>> {
        if self.inside.is_some() && !left.is_empty() {
            let text = format!("left behind within the guest: {}", left.join("; "));
            return Err(Failure::new("undo", text).into());
        }
        ended.left.extend(left);
        Ok(())
    }

    /// A journal of what is done there.
    pub fn journal(&self, machine: &mut dyn Host, state_dir: &Path) -> Result<UndoJournal, TestbedError> {
        match self.inside {
            Some(_) => Ok(UndoJournal::in_memory()),
            None => UndoJournal::create(machine, state_dir),
        }
    }

    /// The disk's file is removed, so that it may become another state; a guest keeps it open. Returns what
    /// is left.
    pub fn detach(&mut self, machine: &mut dyn Host) -> Vec<String> {
        self.inside.as_mut().map(|inside| inside.file.undo_all(machine).left).unwrap_or_default()
    }

    /// Returns whether the site is a guest that no longer works. A machine that no longer works cannot be
    /// asked.
    pub fn is_lost(&mut self) -> bool {
        let Some(Inside { guest, .. }) = &mut self.inside else { return false };
        guest.limit_steps(Some(SIGN_OF_LIFE));
        let sign = guest.mounts();
        guest.limit_steps(None);
        matches!(sign, Err(HostError::Lost { .. } | HostError::Hung { .. }))
    }

    /// Replaces a guest that was lost to a disk. Returns what to say of it; `None` if there is none, or if as
    /// many were lost as may be.
    pub fn replace(
        &mut self,
        recording: &mut Recording<'_, '_>,
        case: &Case,
        size: Bytes,
        recorder: &mut dyn Recorder,
        disk: &str,
    ) -> Result<Option<Warning>, Stop> {
        let Some(inside) = &mut self.inside else { return Ok(None) };
        self.lost += 1;
        if self.lost == LOST_MOST {
            return Ok(None);
        }
        let words = inside.guest.last_words();
        inside.guest.end_now();
        // The guards let no disk pass that holds something.
        ask(recorder, &RecorderRequest::Blank { size })?;
        inside.guest = restart(recording, &inside.request, &inside.disks)?;
        let found = verify(recording, inside.guest.as_mut(), case, &inside.devices)?;
        let (testbed, configuration, marks) = found;
        self.testbed = testbed.with_layers_of(&self.testbed);
        (self.configuration, self.marks) = (configuration, marks);
        let said = words.lines().next().unwrap_or("it said nothing");
        let text = format!("the guest stopped working on {disk}: {said}");
        Ok(Some(Warning::new(WarningKind::GuestLost, text)))
    }

    /// Notes in a record where it was made.
    pub fn describe(&mut self, record: &mut TrialRecord) {
        if let Some(Inside { guest, .. }) = &mut self.inside {
            guest::describe(record, guest.as_mut());
        }
    }

    /// Ends the guest. Returns what is left on this machine.
    pub fn leave(self, machine: &mut dyn Host) -> Vec<String> {
        self.inside.map(|inside| inside.leave(machine)).unwrap_or_default()
    }
}

/// Who uses a recorded disk.
pub(super) struct User<'a> {
    pub host: &'a mut dyn Host,
    /// Where that is.
    pub site: Site<'a, 'static>,
    pub testbed: &'a Testbed,
    pub configuration: &'a Configuration,
    pub marks: &'a Path,
}

impl Inside {
    fn leave(self, machine: &mut dyn Host) -> Vec<String> {
        let Inside { mut guest, disks, mut file, .. } = self;
        guest.end_now();
        drop(disks);
        let mut left = file.undo_all(machine).left;
        left.extend(file.close().err().map(|error| error.failure().message));
        left
    }
}

/// The disk, which is created, and what takes marks.
fn descriptors(
    machine: &mut dyn Host,
    file: &mut UndoJournal,
    place: &LogPlace,
    case: &Case,
    devices: &Devices,
) -> Result<Vec<OwnedFd>, Stop> {
    let images = fsdyno_testbed::guest::images(&case.configuration, devices);
    let mut disks = fsdyno_testbed::guest::make(machine, file, &images)?;
    let marks = place.marks();
    let opened = File::options().read(true).write(true).open(&marks);
    let opened = opened.map_err(|error| HostError::system("open", &marks, error));
    disks.push(opened.map_err(|error| Stop::Failed(Box::new(host_failure(&error))))?.into());
    Ok(disks)
}

/// The guest, and its client if it is a server.
fn start(
    recording: &mut Recording<'_, '_>,
    case: &Case,
    request: &GuestRequest,
    disks: &[OwnedFd],
) -> Result<Booted, Stop> {
    (recording.progress)(&Progress::at(TrialStep::Boot));
    let (guests, of) = (&mut *recording.machines.guests, (recording.plan, case));
    let started = served::boot(guests, of, request, disks, true, recording.stops.interrupt);
    started.map_err(|not| not_booted(recording, &not))
}

/// The guest alone.
fn restart(
    recording: &mut Recording<'_, '_>,
    request: &GuestRequest,
    disks: &[OwnedFd],
) -> Result<Box<dyn Guest>, Stop> {
    (recording.progress)(&Progress::at(TrialStep::Boot));
    let started = recording.machines.guests.start(request, disks, recording.stops.interrupt);
    started.map_err(|not| not_booted(recording, &not))
}

fn not_booted(recording: &Recording<'_, '_>, not: &NotStarted) -> Stop {
    match recording.is_interrupted() {
        true => Stop::Interrupted,
        false => Stop::Failed(Box::new(guest::not_started(not))),
    }
}

/// All guards, in the guest; returns the configuration as it is there, and the node of the disk that takes
/// marks.
fn verify(
    recording: &mut Recording<'_, '_>,
    guest: &mut dyn Guest,
    case: &Case,
    devices: &Devices,
) -> Result<(Testbed, Configuration, PathBuf), Stop> {
    let mut disks = guest.disks();
    let marks = disks.pop().unwrap_or_default();
    let (configuration, devices) = fsdyno_testbed::guest::within(&case.configuration, devices, &disks);
    let within = Case { configuration, ..case.clone() };
    let unmet = fsdyno_testbed::unmet(guest, &within.configuration, &devices);
    if !unmet.is_empty() {
        return Err(Stop::Skipped(unmet));
    }
    let Recording { plan, overheads, stops, .. } = recording;
    guest::measured_overhead(plan, guest, case, overheads, stops.interrupt).map_err(Stop::Failed)?;
    let testbed = guest::verify(guest, &devices, &within, &disks, least_space(case)).map_err(Stop::Failed)?;
    Ok((testbed, within.configuration, marks))
}

fn least_space(case: &Case) -> Bytes {
    case.workload.load().least_space()
}
