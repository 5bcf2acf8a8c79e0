//! Looks at the end whether every file is gone that was ever created.

use super::script::{Deed, Script, Task};
use super::{NAME, object};
use crate::error::EngineError;
use crate::meter::Halt;
use crate::reread::{self, absent};
use crate::session::Session;
use fsdyno_core::ReadAgain;
use fsdyno_core::workload::Postmark;

/// Looks for every file.
pub(crate) fn read_again(parameters: &Postmark, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    let parameters = parameters.clone();
    session.read_again(0, move |gauge| {
        let base = reread::open(&base)?;
        let mut sum = ReadAgain::default();
        let mut look = |task: Option<Task>| match task {
            Some(Task { deed: Deed::Create, file }) => {
                sum.gone += 1;
                absent(&base, object(file, &mut [0; NAME]))
            }
            _ => Ok(()),
        };
        let mut script = Script::new(&parameters);
        for _ in 0..parameters.number {
            look(script.create())?;
        }
        for _ in 0..parameters.transactions {
            if gauge.cancelled() {
                return Err(Halt::Over);
            }
            script.transaction().unwrap_or_default().into_iter().try_for_each(&mut look)?;
        }
        Ok(sum)
    })
}
