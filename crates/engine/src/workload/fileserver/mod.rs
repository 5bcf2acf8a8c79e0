//! `fileserver` (FsOpBench, 2009): readers of trees of small files, then writers alongside them.
//!
//! The trees are created once. Then there are three phases, each on a filesystem that has just been mounted:
//! one reader of the first tree; many readers of the others, one each; the same readers together with writers
//! that create new trees.
//! A worker that reaches the end continues: a reader with its tree from the top, a writer with a new tree in
//! place of the old one.

mod reader;
mod reread;
mod writer;

pub use reader::pass as reader_pass;

use crate::background;
use crate::content::Content;
use crate::error::EngineError;
use crate::pace::Schedule;
use crate::phase::{Job, PhaseLoad, Team};
use crate::plant::{self, DIRECTORY, no_room};
use crate::session::{Ledger, Session, base_name};
use crate::tree::{Model, TreeLimits, derive_seed};
use crate::workload::Work;
use fsdyno_core::reserve::reserve;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::{Fileserver, Load, Pace, fileserver};
use fsdyno_core::{Bytes, CacheState, EngineRequest, Nanos, Role, TrialStep, WarningKind};
use rustix::fs::Mode;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Seeds of trees that exist before the phases, and of those that writers create.
const OLD_TREES: u64 = 1;
const NEW_TREES: u64 = 2;

impl Work for Fileserver {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let model = Arc::new(Model::new(&self.tree)?);
        let base = session.make_base()?;
        let part = session.request.part;
        if !session.request.drop_caches && part.is_first() {
            let text = "the page cache was not dropped before each phase: reads may come from memory";
            session.warn(WarningKind::CachesNotDropped, text);
        }

        let phases = self.phases();
        let phase_ns = self.timing().each().0;
        let own = part.phases(&self.cold());
        session.reporter.expect(phase_ns * (phases.len() - own.start) as u64);
        let shared = session.request.shared.unwrap_or(session.request.seed);
        let trees = session.request.directory.join(base_name(shared));
        if part.is_first() {
            match shared == session.request.seed {
                true => prepare(self, &model, &base, session)?,
                false => session.prepared(Nanos(0), TreeSummary::default()),
            }
            warn_of_memory(self.prepares(), session);
        }

        for (index, (readers, writers)) in phases.iter().cloned().enumerate().take(own.end).skip(own.start) {
            session.reporter.expect(phase_ns * (phases.len() - index - 1) as u64);
            let name = fileserver::phase_name(readers.len() as u32, writers);
            session.settle(&name, phase_ns)?;
            session.warm_up(&name, phase_ns)?;
            let mut teams = Vec::new();
            let ledger = Ledger::default();
            if writers > 0 {
                let of_device = device_space(session.request, self);
                let space = writer_space(self, &base, of_device, session.request.machines)?;
                let jobs = (0..writers).map(|worker| -> Job {
                    writer::job(writer::Assignment {
                        base: base.clone(),
                        worker,
                        seed: session.request.seed,
                        model: Arc::clone(&model),
                        content: self.content,
                        io_size: io_size(self),
                        direct: self.direct,
                        space,
                        ledger: self.verify.then(|| ledger.clone()),
                    })
                });
                let schedule = self.write_rate.map(|rate| {
                    Arc::new(Schedule::new(Pace::At(rate), session.request.seed, Role::Writer as u64))
                });
                let team = Team::new(Role::Writer, fileserver::writer::STEPS, jobs.collect());
                teams.push(Team { schedule, ..team });
            }
            let jobs = readers.map(|tree| {
                reader::job(reader::Assignment {
                    base: trees.clone(),
                    tree: tree_name(tree),
                    io_size: io_size(self),
                    direct: self.direct,
                    expects: self.verify.then(|| reader::Expects {
                        tree_seed: old_seed(shared, tree),
                        seed: shared,
                        content: self.content,
                    }),
                })
            });
            teams.push(Team::new(Role::Reader, fileserver::reader::STEPS, jobs.collect()));
            session.phase(PhaseLoad { name, span: self.timing().into(), teams })?;
            session.reach(ledger.take());
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

const SMALLEST_SPACE: u64 = 64 << 10;

fn tree_name(tree: u32) -> String {
    format!("tree-{tree}")
}

/// The seed of a tree that exists before the phases.
fn old_seed(seed: u64, tree: u32) -> u64 {
    derive_seed(seed, &[OLD_TREES, u64::from(tree)])
}

fn io_size(parameters: &Fileserver) -> usize {
    parameters.io_size.0 as usize
}

/// Creates the trees, and writes them back.
fn prepare(
    parameters: &Fileserver,
    model: &Arc<Model>,
    base: &Path,
    session: &mut Session<'_, '_>,
) -> Result<(), EngineError> {
    let begin = Instant::now();
    let (tree_bytes, trees) = (parameters.tree_bytes(), parameters.readers + 1);
    let limits = TreeLimits::new(tree_bytes, parameters.multiple());
    let (model, directory) = (Arc::clone(model), base.to_path_buf());
    let (content, seed) = (parameters.content, session.request.seed);
    let work = move |gauge: &background::Gauge| -> Result<TreeSummary, EngineError> {
        let parent = rustix::fs::open(&directory, DIRECTORY, Mode::empty())
            .map_err(EngineError::system("open the directory", &directory))?;
        let mut content = Content::new(content, seed, plant::PIECE);
        let mut sum = TreeSummary::default();
        for tree in 0..trees {
            let name = CString::new(tree_name(tree)).unwrap_or_default();
            let seed = old_seed(seed, tree);
            let made = plant::plant(&parent, &name, &model, seed, limits, &mut content, gauge)
                .map_err(|failure| EngineError::operation("prepare", failure))?;
            sum.files += made.files;
            sum.directories += made.directories;
            sum.bytes += made.bytes;
        }
        rustix::fs::syncfs(&parent)
            .map_err(EngineError::system("write back everything below", &directory))?;
        Ok(sum)
    };
    let whole = (tree_bytes * u64::from(trees)) as f64;
    let reporter = &mut *session.reporter;
    let mut seen = (0.0, left_ns(0.0, 0.0, whole));
    // Also if the trees exist before the first check.
    reporter.tell(TrialStep::Prepare, "", seen.0, seen.1);
    let trees = background::run("prepare", session.bounds, work, |gauge| {
        let done = gauge.done() as f64 / whole;
        // A changed estimate shows that something was done.
        if done > seen.0 {
            seen = (done, left_ns(begin.elapsed().as_nanos() as f64, done, whole));
        }
        reporter.tell(TrialStep::Prepare, "", seen.0, seen.1);
        true
    })??;
    session.prepared(begin.elapsed().into(), trees);
    Ok(())
}

/// Warns if trees of this size fit into memory.
fn warn_of_memory(trees: Bytes, session: &mut Session<'_, '_>) {
    let memory = session.memory();
    if trees < memory && session.request.cache != CacheState::Warm {
        let text = format!(
            "the trees have {} MB, memory {} MB: later passes may be read from memory",
            trees.0 / 1_000_000,
            memory.0 / 1_000_000
        );
        session.warn(WarningKind::TreeSmallerThanMemory, text);
    }
}

/// Remaining time of the preparation: by the rate so far, or by 100 MB/s at first.
fn left_ns(elapsed_ns: f64, done: f64, whole_bytes: f64) -> u64 {
    let left = if done > 0.001 { elapsed_ns * (1.0 - done) / done } else { whole_bytes * 10.0 };
    left.max(0.0) as u64
}

/// Returns the bytes that the trees and the filling leave of the device: the same for all filesystems on it,
/// so that no writer has to remove more often because its filesystem reserves more or counts differently.
/// `None` in a directory.
fn device_space(request: &EngineRequest, parameters: &Fileserver) -> Option<u64> {
    let device = request.device_bytes?.0;
    let filled = request.precondition.map_or(0, |precondition| u64::from(precondition.fill_percent));
    Some((device - device / 100 * filled.min(100)).saturating_sub(parameters.prepares().0))
}

/// Returns the space that one writer may use, with the same number of writers on each of several machines.
/// `device_bytes`: see [`device_space`].
fn writer_space(
    parameters: &Fileserver,
    base: &Path,
    device_bytes: Option<u64>,
    machines: u32,
) -> Result<writer::Space, EngineError> {
    /// The share of that which all writers together may fill: what any filesystem has left of its device.
    const SHARE_OF_DEVICE: f64 = 0.6;
    /// The share of the free space that all writers together may fill.
    const SHARE: f64 = 0.8;
    let filesystem =
        rustix::fs::statvfs(base).map_err(EngineError::system("read the free space of", base))?;
    let writers = u64::from(parameters.writers.max(1)) * u64::from(machines.max(1));
    let per_writer = |free: u64| (free as f64 * SHARE) as u64 / writers;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(filesystem.f_frsize));
    // A directory is on a filesystem that others use.
    let reserve = if device_bytes.is_none() { reserve(bytes(filesystem.f_blocks)) } else { Bytes(0) };
    let free_bytes = per_writer(bytes(filesystem.f_bavail).0.saturating_sub(reserve.0));
    let of_device = device_bytes.map_or(u64::MAX, |bytes| {
        (bytes as f64 * SHARE_OF_DEVICE) as u64 / u64::from(parameters.writers.max(1))
    });
    let space_bytes = parameters.writer_space.map_or(free_bytes.min(of_device), |space| space.0);
    if space_bytes < SMALLEST_SPACE {
        return Err(no_room("new-0"));
    }
    // Filesystems that create inodes on demand report that they have none at all.
    let inodes = if filesystem.f_files == 0 { u64::MAX } else { per_writer(filesystem.f_favail) };
    Ok(writer::Space { bytes: space_bytes, inodes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_named_after_their_workers() {
        let names = |readers, writers| -> Vec<String> {
            let parameters = Fileserver { readers, writers, ..Fileserver::default() };
            let phases = parameters.phases().into_iter();
            phases.map(|(r, w)| fileserver::phase_name(r.len() as u32, w)).collect()
        };
        assert_eq!(names(3, 3), ["1 reader", "3 readers", "3 readers, 3 writers"]);
        assert_eq!(names(3, 0), ["1 reader", "3 readers"]);
        assert_eq!(names(1, 1), ["1 reader", "1 reader, 1 writer"]);
    }

    #[test]
    fn writers_have_the_same_space_on_every_filesystem_of_a_device() {
        let parameters = Fileserver { writers: 3, writer_space: None, ..Fileserver::default() };
        let directory = tempfile::tempdir().unwrap();
        let space =
            |parameters, of_device| writer_space(parameters, directory.path(), of_device, 1).unwrap().bytes;
        // There is more free than that.
        assert_eq!(space(&parameters, Some(10_000_000)), 2_000_000);
        let free = space(&parameters, None);
        // Whose device it is may fill it; elsewhere the reserve stays free.
        let filesystem = rustix::fs::statvfs(directory.path()).unwrap();
        let whole = space(&parameters, Some(u64::MAX));
        let reserve = reserve(Bytes(filesystem.f_blocks * filesystem.f_frsize)).0;
        assert!(whole > free && whole - free < reserve, "{whole} {free}");
        assert!(whole < filesystem.f_blocks * filesystem.f_frsize, "no more than there is");
        let fixed = Fileserver { writer_space: Some(Bytes(1 << 20)), ..parameters.clone() };
        assert_eq!(space(&fixed, Some(10_000_000)), 1 << 20);
    }

    #[test]
    fn the_estimate_follows_the_rate() {
        assert_eq!(left_ns(1e9, 0.25, 1e9), 3_000_000_000);
        assert_eq!(left_ns(1e9, 0.0, 1e9), 10_000_000_000);
    }
}
