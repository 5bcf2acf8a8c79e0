//! The trees, and what the writers have left, read again at the end.
//!
//! A tree is walked as it was created, not as the filesystem lists it, so that a missing name is noticed. Of
//! a writer's last tree only the files that were complete have to be there; if it was being removed, none has
//! to, but what is there has to be right.

use super::{old_seed, tree_name, writer};
use crate::compare::Comparer;
use crate::content::{FileIdentity, path_seed, version_of_size};
use crate::error::EngineError;
use crate::meter::{Halt, Object};
use crate::plant::DIRECTORY;
use crate::reread::{self, PIECE, Rereader, failure};
use crate::session::Session;
use crate::tree::{Model, Tree, TreeEntry, TreeLimits};
use crate::wrong::Problem;
use fsdyno_core::workload::Fileserver;
use fsdyno_core::{Reached, ReadAgain};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::{CStr, CString};

/// A tree as it has to be.
struct Expected {
    /// The directory above, relative to the engine's; empty for its own.
    above: String,
    name: CString,
    seed: u64,
    limits: TreeLimits,
    /// Files of it that were created.
    files: u64,
    /// `true` if any of the tree may be gone.
    removing: bool,
}

/// Reads every tree again.
pub(crate) fn read_again(parameters: &Fileserver, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let model = Model::new(&parameters.tree)?;
    let base = session.make_base()?;
    let (seed, content) = (session.request.seed, parameters.content);
    let (tree_bytes, multiple) = (parameters.tree_bytes(), parameters.multiple());
    let old = (0..=parameters.readers).map(|tree| Expected {
        above: String::new(),
        name: CString::new(tree_name(tree)).unwrap_or_default(),
        seed: old_seed(seed, tree),
        limits: TreeLimits::new(tree_bytes, multiple),
        files: u64::MAX,
        removing: false,
    });
    let new = session.reached.iter().filter_map(|reached| match *reached {
        Reached::Tree { worker, round, files, removing, space_bytes } => Some(Expected {
            above: writer::home(worker),
            name: writer::round_name(round),
            seed: writer::tree_seed(seed, worker, round),
            limits: writer::limits(space_bytes, multiple),
            files,
            removing,
        }),
        _ => None,
    });
    let trees: Vec<Expected> = old.chain(new).collect();
    session.read_again(parameters.tree_size.0, move |gauge| {
        let base = reread::open(&base)?;
        let (mut comparer, mut rereader) = (Comparer::new(content, seed, PIECE), Rereader::new(gauge));
        let mut sum = ReadAgain::default();
        for tree in &trees {
            walk(tree, &model, &base, &mut rereader, &mut comparer, &mut sum)?;
        }
        Ok(sum)
    })
}

/// Reads every file of a tree that has to be there or is.
fn walk(
    tree: &Expected,
    model: &Model,
    base: &OwnedFd,
    rereader: &mut Rereader<'_>,
    comparer: &mut Comparer,
    sum: &mut ReadAgain,
) -> Result<(), Halt> {
    let Expected { above, name, seed, limits, files, removing } = tree;
    let mut path = above.clone().into_bytes();
    let parent = match above.is_empty() {
        true => rustix::fs::openat(base, c".", DIRECTORY, Mode::empty()),
        false => rustix::fs::openat(base, above.as_str(), DIRECTORY, Mode::empty()),
    };
    let parent = parent.map_err(|errno| failure(above.clone(), errno))?;
    let Some(top) = enter(&parent, &mut path, name, *removing)? else { return Ok(()) };
    // `None`: the directory is gone, and so is everything below it.
    let mut directories = vec![(Some(top), *seed)];
    let mut seen = 0;
    for entry in Tree::new(model, *seed, *limits) {
        if seen >= *files {
            break;
        }
        let Some((directory, here)) = directories.last() else { break };
        match entry {
            TreeEntry::Enter { name } => {
                let (name, here) = (name.as_c_str(), *here);
                let below = match directory {
                    Some(directory) => enter(directory, &mut path, name, *removing)?,
                    None => None,
                };
                if below.is_none() {
                    push(&mut path, name);
                }
                directories.push((below, path_seed(here, name)));
            }
            TreeEntry::File { name, size_bytes, .. } => {
                seen += 1;
                let Some(directory) = directory else { continue };
                let name = name.as_c_str();
                let identity = FileIdentity::named(*here, name);
                let version = version_of_size(size_bytes);
                let object = Object { directory: &path, name };
                let check = |position, found: &[u8]| comparer.check(identity, version, position, found);
                match rereader.read(directory, object, Some(size_bytes), check) {
                    Ok(bytes) => {
                        sum.files += 1;
                        sum.bytes += bytes;
                    }
                    Err(Halt::Wrong(wrong)) if *removing && wrong.problem == Problem::Missing => {}
                    Err(halt) => return Err(halt),
                }
            }
            TreeEntry::Leave => {
                directories.pop();
                let length = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                path.truncate(length);
            }
        }
    }
    Ok(())
}

/// Opens a directory and adds it to the path; `None`, and the path stays as it is, if it may be gone and is.
fn enter(
    parent: &OwnedFd,
    path: &mut Vec<u8>,
    name: &CStr,
    may_be_gone: bool,
) -> Result<Option<OwnedFd>, Halt> {
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => {
            push(path, name);
            Ok(Some(directory))
        }
        Err(Errno::NOENT) if may_be_gone => Ok(None),
        Err(errno) => {
            let object = Object { directory: path, name };
            Err(match errno {
                Errno::NOENT => object.wrong(Problem::Missing),
                errno => failure(object.path(), errno),
            })
        }
    }
}

fn push(path: &mut Vec<u8>, name: &CStr) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
}
