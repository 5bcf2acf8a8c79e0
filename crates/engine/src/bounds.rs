//! The limits on what the engine may change, enforced by the kernel wherever that does not slow down measured
//! operations.
//!
//! Everything that the engine does apart from the timed operations, and every program that it starts, runs on
//! threads that Landlock confines to the directory of the request. The workers are not confined: whenever a
//! file is opened, created, removed or renamed, Landlock checks each directory from the file up to the one
//! that was granted, which adds a sixth to a half to the time of these operations in memory. The coordinating
//! thread is not confined either, because it reads facts about other processes that the kernel hides from a
//! confined one. Both see the filesystems through a mount namespace in which every other mount is read-only;
//! this costs nothing, because the kernel checks that flag of a mount anyway.

use crate::error::EngineError;
use fsdyno_core::protocol::MOUNT_PREFIX;
use fsdyno_core::workload::Need;
use fsdyno_core::{EngineRequest, Workload};
use fsdyno_sys::confine::{Access, Ruleset};
use fsdyno_sys::view::{self, Granted};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Writing here empties the page cache.
pub(crate) const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Where programs discard output.
const NULL: &str = "/dev/null";

/// The limits on how long work may go on, and on what it may change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Set to end the work.
    pub stop: &'a AtomicBool,
    /// The confinement of the work; `None`: it may change anything.
    pub confined: Option<&'a Confined>,
}

/// Moves this thread, and everything that it starts, into an environment where only the directory of the
/// request can be changed, if the kernel and the privileges allow that.
pub(crate) fn enter_view(request: &EngineRequest) -> Result<(), EngineError> {
    let cache = request.drop_caches.then_some(Path::new(DROP_CACHES));
    // In a guest, a disk takes the marks.
    let is_disk = |path: &&Path| path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let (disk, file) = (marks(request).filter(is_disk), marks(request).filter(|path| !is_disk(path)));
    // A missing directory is detected by the work itself, which can say what it was needed for.
    let writable = [directory(request), cache, file].into_iter().flatten();
    let writable: Vec<&Path> = writable.filter(|path| path.exists()).collect();
    let reads_device = request.workload.load().needs().contains(&Need::Device);
    let device = request.device.as_deref().filter(|node| reads_device && node.exists());
    let devices: Vec<&Path> = device.into_iter().chain(disk).collect();
    let left_out = Some(MOUNT_PREFIX);
    view::enter(Granted { writable: &writable, devices: &devices, left_out })
        .map_err(EngineError::Confine)?;
    Ok(())
}

/// Where a request creates files, if it does. Whoever only observes leaves the filesystem free to be
/// unmounted.
fn directory(request: &EngineRequest) -> Option<&Path> {
    let writes = request.precondition.is_some() || !matches!(request.workload, Workload::Null(_));
    (writes && !request.observes).then_some(&request.directory)
}

/// Where a request writes marks, if its workload does.
fn marks(request: &EngineRequest) -> Option<&Path> {
    request.marks.as_deref().filter(|_| request.workload.load().needs().contains(&Need::Recorder))
}

/// The confinement that a request imposes on work.
#[derive(Debug, Clone)]
pub(crate) struct Confined(Option<Arc<Ruleset>>);

impl Confined {
    /// Confines to the directory of a request, what takes its marks, and the page cache if it is to be
    /// emptied. Nothing is confined if the kernel does not support Landlock.
    pub(crate) fn to(request: &EngineRequest) -> Result<Self, EngineError> {
        let cache = request.drop_caches.then_some((Path::new(DROP_CACHES), Access::File));
        let tree = directory(request).map(|directory| (directory, Access::Tree));
        let null = Some((Path::new(NULL), Access::File));
        let marks = marks(request).map(|path| (path, Access::File));
        let ruleset =
            Ruleset::new([tree, null, cache, marks].into_iter().flatten()).map_err(EngineError::Confine)?;
        Ok(Confined(ruleset.map(Arc::new)))
    }

    /// Confines the calling thread and what it starts.
    pub(crate) fn enter(&self) -> std::io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |ruleset| ruleset.restrict_thread())
    }
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(stop: &'a AtomicBool, confined: &'a Confined) -> Self {
        Bounds { stop, confined: Some(confined) }
    }
}

/// Work that may change anything.
impl<'a> From<&'a AtomicBool> for Bounds<'a> {
    fn from(stop: &'a AtomicBool) -> Self {
        Bounds { stop, confined: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background;
    use fsdyno_core::Precondition;
    use fsdyno_core::workload::{Durability, Fileserver, Null};
    use fsdyno_sys::confine::abi;
    use std::fs;
    use std::process::Command;

    fn request(directory: &Path) -> EngineRequest {
        EngineRequest::new(directory, Workload::Fileserver(Fileserver::default()), 1)
    }

    #[test]
    fn workers_of_an_engine_in_its_view_change_nothing_outside_of_the_directory() {
        if !view::possible() {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let (inside, decoy) = (scratch.path().join("inside"), scratch.path().join("decoy"));
        fs::create_dir(&inside).unwrap();
        fs::write(&decoy, "whole").unwrap();
        let engine = || {
            enter_view(&request(&inside)).unwrap();
            let worker =
                || (fs::write(inside.join("file"), "text").is_ok(), fs::write(&decoy, "text").is_ok());
            std::thread::scope(|scope| scope.spawn(worker).join().unwrap())
        };
        let wrote = std::thread::scope(|scope| scope.spawn(engine).join().unwrap());
        assert_eq!(wrote, (true, false));
        assert_eq!(fs::read_to_string(&decoy).unwrap(), "whole");
    }

    #[test]
    fn a_workload_without_files_may_change_nothing() {
        let request = EngineRequest { workload: Workload::Null(Null::default()), ..request(Path::new("/")) };
        assert_eq!(directory(&request), None);
        let filled = Precondition { fill_percent: 50, age_rounds: 0 };
        let request = EngineRequest { precondition: Some(filled), ..request };
        assert_eq!(directory(&request), Some(Path::new("/")), "a fill creates files");
    }

    #[test]
    fn what_takes_marks_can_be_written_to_by_the_workload_that_makes_them() {
        if abi() < 3 {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let (inside, marks) = (scratch.path().join("inside"), scratch.path().join("marks"));
        fs::create_dir(&inside).unwrap();
        fs::write(&marks, "").unwrap();
        let never = AtomicBool::new(false);
        let writes = |workload| {
            let request = EngineRequest { workload, marks: Some(marks.clone()), ..request(&inside) };
            let confined = Confined::to(&request).unwrap();
            let marks = marks.clone();
            let write = move |_: &background::Gauge| fs::File::options().write(true).open(marks).is_ok();
            background::run("test", Bounds::new(&never, &confined), write, |_| true).unwrap()
        };
        assert!(writes(Workload::Durability(Durability::default())));
        assert!(!writes(Workload::Fileserver(Fileserver::default())));
    }

    #[test]
    fn work_aside_and_its_programs_change_nothing_outside_of_the_directory() {
        if abi() < 3 {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let (inside, decoy) = (scratch.path().join("inside"), scratch.path().join("decoy"));
        fs::create_dir(&inside).unwrap();
        fs::write(&decoy, "whole").unwrap();
        std::os::unix::fs::symlink(&decoy, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(scratch.path(), inside.join("out")).unwrap();
        let confined = Confined::to(&request(&inside)).unwrap();
        let never = AtomicBool::new(false);
        let (place, outside) = (inside.clone(), decoy.clone());
        let work = move |_: &background::Gauge| {
            fs::write(place.join("file"), "text").unwrap();
            let words = [&outside, &place.join("link"), &place.join("out/decoy"), &place.join("out/new")];
            let by_words = words.map(|path| fs::write(path, "text").is_ok());
            let script = "echo text > \"$0\" || rm \"$0\"";
            let program = Command::new("sh").args(["-c", script]).arg(&outside).output().unwrap();
            (by_words, program.status.success(), fs::remove_file(place.join("out/decoy")).is_ok())
        };
        let done = background::run("test", Bounds::new(&never, &confined), work, |_| true).unwrap();
        assert_eq!(done, ([false; 4], false, false));
        assert_eq!(fs::read_to_string(&decoy).unwrap(), "whole");
        fs::write(&decoy, "this thread is free").unwrap();
    }
}
