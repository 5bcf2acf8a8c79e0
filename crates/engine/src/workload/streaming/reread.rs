//! The files that the stages have left, read again at the end.

use super::versions::Versions;
use super::{FILES, Plan, file_name, mixed_name, reached_in};
use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::error::EngineError;
use crate::meter::Object;
use crate::reread::{self, PIECE, Rereader};
use crate::session::Session;
use crate::tree::derive_seed;
use fsdyno_core::workload::{Stage, Streaming};
use fsdyno_core::{Reached, ReadAgain};
use std::ffi::CString;

/// A file as it has to be.
struct Expected {
    name: String,
    identity: FileIdentity,
    versions: Versions,
    /// `None`: it is not known how far its writer came.
    size: Option<u64>,
}

/// Reads every file again.
pub(crate) fn read_again(parameters: &Streaming, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let plan = Plan { parameters, base: session.make_base()?, seed: session.request.seed };
    let files = plan.left(&session.reached);
    let about = files.iter().map(|file| file.size.unwrap_or(parameters.file_bytes())).sum();
    let path = plan.base.clone();
    let (content, seed) = (parameters.content, plan.seed);
    session.read_again(about, move |gauge| {
        // The thread has a descriptor table of its own.
        let directory = reread::open(&path)?;
        let mut comparer = Comparer::new(content, seed, PIECE);
        let mut rereader = Rereader::new(gauge);
        let mut read_again = ReadAgain::default();
        for Expected { name, identity, versions, size } in files {
            let name = CString::new(name).unwrap_or_default();
            let object = Object { directory: b"", name: &name };
            let check = |position, found: &[u8]| versions.check(&mut comparer, identity, position, found);
            read_again.bytes += rereader.read(&directory, object, size, check)?;
            read_again.files += 1;
        }
        Ok(read_again)
    })
}

impl Plan<'_> {
    /// The files after the last stage.
    fn left(&self, reached: &[Reached]) -> Vec<Expected> {
        let Streaming { streams, writers, bs, .. } = *self.parameters;
        let stages = &self.parameters.stages;
        let identity = |number: u32| FileIdentity::new(derive_seed(self.seed, &[FILES]), number.into());
        let file_bytes = self.parameters.file_bytes();
        let of_stream = |stream: u32| Expected {
            name: file_name(stream),
            identity: identity(stream),
            versions: self.versions(stream, stages.len(), reached),
            size: Some(file_bytes),
        };
        let of_writer = |writer: u32| {
            let name = mixed_name(writer);
            let reached = reached_in(reached, &name);
            let size = match reached {
                Some(Reached::File { blocks, .. }) => Some(blocks.saturating_mul(bs.0).min(file_bytes)),
                _ => None,
            };
            let versions = Versions::around(bs.0, file_bytes.div_ceil(bs.0), reached);
            Expected { name, identity: identity(streams + writer), versions, size }
        };
        let writers = if stages.contains(&Stage::Mixed) { writers } else { 0 };
        (0..streams).map(of_stream).chain((0..writers).map(of_writer)).collect()
    }
}
