//! Looks at the end whether everything is gone, as the load removes all that it has created.

use super::{large, small};
use crate::error::EngineError;
use crate::reread::{self, absent};
use crate::session::Session;
use fsdyno_core::ReadAgain;

/// Looks for the large file, and for the directory that had all the small ones.
pub(crate) fn read_again(session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    session.read_again(0, move |_| {
        let base = reread::open(&base)?;
        let removed = [large::FILE, small::TOP_OBJECT];
        removed.iter().try_for_each(|object| absent(&base, *object))?;
        Ok(ReadAgain { gone: removed.len() as u64, ..ReadAgain::default() })
    })
}
