//! Looks at the end whether everything is gone, as the load removes all that it has created.

use super::{large, small};
use crate::error::{EngineError, OperationFailure};
use crate::meter::Halt;
use crate::plant::DIRECTORY;
use crate::reread::absent;
use crate::session::Session;
use fsdyno_core::ReadAgain;
use rustix::fs::Mode;

/// Looks for the large file, and for the directory that had all the small ones.
pub(crate) fn read_again(session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    session.read_again(0, move |_| {
        let base = rustix::fs::open(&base, DIRECTORY, Mode::empty()).map_err(|errno| {
            let path = base.display().to_string();
            Halt::Failed(OperationFailure { operation: None, path, errno })
        })?;
        let removed = [large::FILE, small::TOP_OBJECT];
        removed.iter().try_for_each(|object| absent(&base, *object))?;
        Ok(ReadAgain { gone: removed.len() as u64, ..ReadAgain::default() })
    })
}
