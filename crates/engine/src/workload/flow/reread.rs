//! The files that a flow has left, read again at the end.
//!
//! Which files there are, and what each contains, follows from the seed and from what the workers reported. A
//! file of a worker that reported nothing, or one that does not belong to the sample, is left out and
//! counted.

use super::Common;
use super::blocks::Blocks;
use super::contents::Contents;
use super::knowledge::{Sample, SetKnowledge, made};
use super::set::{File, Path, Set};
use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Object};
use crate::plant::DIRECTORY;
use crate::reread::{PIECE, Rereader, absent};
use crate::session::Session;
use crate::wrong::Problem;
use fsdyno_core::workload::flow::Written;
use fsdyno_core::workload::{Flow, Load};
use fsdyno_core::{OwnedFile, Reached, ReadAgain};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

/// Reads every file again.
pub(crate) fn read_again(parameters: &Flow, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    let (seed, reached) = (session.request.seed, session.reached.clone());
    let common = Common::of(parameters, base, seed)?;
    let about = parameters.prepares().0;
    session.read_again(about, move |gauge| {
        let Common { sets, base, content, shared, .. } = common;
        let mut reader = Reader {
            comparer: Comparer::new(content, seed, PIECE),
            rereader: Rereader::new(gauge),
            sample: Sample::of(&sets),
            sum: ReadAgain::default(),
            path: Path::new(),
        };
        for (set, shared) in sets.iter().zip(shared.iter()) {
            let failed = |errno| {
                let path = set.files.name.clone();
                Halt::Failed(OperationFailure { operation: None, path, errno })
            };
            let directory = rustix::fs::open(base.join(&set.files.name), DIRECTORY, Mode::empty());
            reader.set(set, shared, &directory.map_err(failed)?, &reached)?;
        }
        Ok(reader.sum)
    })
}

struct Reader<'a> {
    comparer: Comparer,
    rereader: Rereader<'a>,
    sample: Sample,
    sum: ReadAgain,
    path: Path,
}

impl Reader<'_> {
    fn set(
        &mut self,
        set: &Set,
        shared: &SetKnowledge,
        directory: &OwnedFd,
        reached: &[Reached],
    ) -> Result<(), Halt> {
        let name = &set.files.name;
        for worker in 0..set.sharers {
            let reported = reached.iter().find_map(|one| match one {
                Reached::Owned { set, worker: of, files, gone } if set == name && *of == worker => {
                    Some((&files[..], &gone[..]))
                }
                _ => None,
            });
            match (set.written, reported) {
                (Some(Written::ByOwner), Some((files, gone))) => {
                    self.owned(set, worker, directory, files, gone)?;
                }
                (Some(Written::ByOwner), None) => self.sum.left_out += set.prefilled(worker),
                _ => self.shared(set, worker, shared, directory, reached)?,
            }
        }
        Ok(())
    }

    /// The files of a worker's own: those that exist, and those that do not any more.
    fn owned(
        &mut self,
        set: &Set,
        worker: u64,
        directory: &OwnedFd,
        files: &[OwnedFile],
        gone: &[u32],
    ) -> Result<(), Halt> {
        let prefilled = set.prefilled(worker) as u32;
        let mut reported = files.iter().peekable();
        let mut gone = gone.iter().peekable();
        for name in 0..set.names(worker) as u32 {
            if !self.sample.has(set, worker, name) {
                self.sum.left_out += u64::from(name < prefilled);
                continue;
            }
            let is_gone = gone.next_if_eq(&&name).is_some();
            let changed = reported.next_if(|file| file.name == name);
            let contents = match changed {
                Some(OwnedFile { parts: None, .. }) => {
                    self.sum.left_out += 1;
                    continue;
                }
                Some(OwnedFile { parts: Some(parts), .. }) => {
                    let file = set.identity(worker, File { name, incarnation: 0 });
                    Contents::of(file, parts)
                }
                None if name < prefilled && !is_gone => made(set, worker, name),
                None => {
                    self.absent(set, worker, name, directory)?;
                    continue;
                }
            };
            let Reader { comparer, .. } = self;
            let check = |position, found: &[u8]| contents.check(comparer, position, found);
            self.sum.bytes += read(
                &mut self.rereader,
                (set, worker, name, &mut self.path),
                directory,
                Some(contents.size()),
                check,
            )?;
            self.sum.files += 1;
        }
        Ok(())
    }

    /// A name that has no file.
    fn absent(&mut self, set: &Set, worker: u64, name: u32, directory: &OwnedFd) -> Result<(), Halt> {
        set.path(worker, name, &mut self.path);
        let object = Object { directory: set.files.name.as_bytes(), name: self.path.as_c_str() };
        absent(directory, object)?;
        self.sum.gone += 1;
        Ok(())
    }

    /// Files that are there from the beginning to the end.
    fn shared(
        &mut self,
        set: &Set,
        worker: u64,
        shared: &SetKnowledge,
        directory: &OwnedFd,
        reached: &[Reached],
    ) -> Result<(), Halt> {
        let name = &set.files.name;
        let reported = |one: &&Reached| matches!(one, Reached::Blocks { set, .. } | Reached::Ends { set, .. } if set == name);
        let reported = reached.iter().find(reported);
        if let (SetKnowledge::Blocks(blocks), Some(Reached::Blocks { versions, all, torn, .. })) =
            (shared, reported)
            && worker == 0
        {
            blocks.take_over(versions, *all, torn);
        }
        for number in 0..set.prefilled(worker) as u32 {
            let file = File { name: number, incarnation: 0 };
            let (identity, size) = (set.identity(worker, file), set.size(worker, file));
            let position = set.position(worker, number);
            let end = match reported {
                Some(Reached::Ends { files, .. }) => files.get(position as usize).copied(),
                _ => None,
            };
            let comparer = &mut self.comparer;
            let place = (set, worker, number, &mut self.path);
            let rereader = &mut self.rereader;
            let bytes = match (shared, end) {
                (SetKnowledge::Blocks(blocks), _) => {
                    let check =
                        |at, found: &[u8]| check_blocks(blocks, comparer, (identity, position), at, found);
                    read(rereader, place, directory, Some(size), check)?
                }
                (SetKnowledge::Ends(_), Some((_, size, emptied))) => {
                    let expected = (!emptied).then_some(size);
                    let check = |at, found: &[u8]| match emptied {
                        true => comparer.check_or_zeros(identity, at, found),
                        false => comparer.check(identity, 0, at, found),
                    };
                    read(rereader, place, directory, expected, check)?
                }
                _ => read(rereader, place, directory, Some(size), |at, found: &[u8]| {
                    comparer.check(identity, 0, at, found)
                })?,
            };
            self.sum.files += 1;
            self.sum.bytes += bytes;
        }
        Ok(())
    }
}

/// Compares blocks. Nobody writes any more, so their states are the same before and after the read.
fn check_blocks(
    blocks: &Blocks,
    comparer: &mut Comparer,
    (identity, file): (FileIdentity, u64),
    position: u64,
    found: &[u8],
) -> Result<(), Problem> {
    let end = position + found.len() as u64;
    let numbers = blocks.number(file, position)..=blocks.number(file, end.max(position + 1) - 1);
    let states = numbers.map(|block| blocks.state(block));
    blocks.check(comparer, (identity, file), position, found, states)
}

/// Reads one file.
fn read(
    rereader: &mut Rereader<'_>,
    (set, worker, name, path): (&Set, u64, u32, &mut Path),
    directory: &OwnedFd,
    size: Option<u64>,
    check: impl FnMut(u64, &[u8]) -> Result<(), Problem>,
) -> Result<u64, Halt> {
    set.path(worker, name, path);
    let object = Object { directory: set.files.name.as_bytes(), name: path.as_c_str() };
    rereader.read(directory, object, size, check)
}
