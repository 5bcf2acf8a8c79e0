//! Reads the copy of the collection again at the end. The collection itself must be gone.

use super::{COLLECTION, COPY, Made, directory_name, file_name};
use crate::compare::Comparer;
use crate::error::EngineError;
use crate::meter::{Halt, Object};
use crate::plant::DIRECTORY;
use crate::reread::{self, PIECE, Rereader, absent, failure};
use crate::session::Session;
use crate::wrong::Problem;
use fsdyno_core::ReadAgain;
use fsdyno_core::workload::{Collection, Load};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::CStr;

/// Reads every file of the copy.
pub(crate) fn read_again(parameters: &Collection, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    let (seed, content) = (session.request.seed, parameters.content);
    let made = Made::of(parameters, seed);
    session.read_again(parameters.moves().0 / 4, move |gauge| {
        let base = reread::open(&base)?;
        absent(&base, Object { directory: b"", name: COLLECTION })?;
        let (mut comparer, mut rereader) = (Comparer::new(content, seed, PIECE), Rereader::new(gauge));
        // All of them were below the directory that is gone.
        let mut sum = ReadAgain { gone: made.files, ..ReadAgain::default() };
        let top = enter(&base, b"", COPY)?;
        for index in 0..made.files {
            let directory = directory_name(index);
            let below = enter(&top, COPY.to_bytes(), &directory)?;
            let path = [COPY.to_bytes(), b"/", directory.to_bytes()].concat();
            let name = file_name(index);
            let (identity, size) = made.file(index);
            let check = |position, found: &[u8]| comparer.check(identity, 0, position, found);
            sum.bytes +=
                rereader.read(&below, Object { directory: &path, name: &name }, Some(size), check)?;
            sum.files += 1;
        }
        Ok(sum)
    })
}

fn enter(parent: &OwnedFd, directory: &[u8], name: &CStr) -> Result<OwnedFd, Halt> {
    let object = Object { directory, name };
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => object.wrong(Problem::Missing),
        errno => failure(object.path(), errno),
    })
}
