//! Iterations of a role with a rate: waiting until one is due, and recording its response and service time.

use super::{Halt, Meter};
use crate::pace::Paced;
use crate::record::WorkerRecord;
use crate::window::Window;
use std::sync::Arc;

impl Meter {
    /// Begins an iteration. If the role has a rate, this waits until the next one that nobody has taken is
    /// due, or does not wait if it is due already. Returns the start, for [`Meter::end_iteration`].
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over.
    #[inline]
    pub(crate) fn begin_iteration(&mut self) -> Result<u64, Halt> {
        if self.follower.is_some() {
            return self.begin_due();
        }
        Ok(self.begin_item())
    }

    /// Waits until the next iteration is due, if the role has a rate; the others read no clock for it.
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over.
    #[inline]
    pub(crate) fn await_due(&mut self) -> Result<(), Halt> {
        if self.is_paced() {
            self.begin_due()?;
        }
        Ok(())
    }

    /// Records that the iteration has ended, if the role has a rate.
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over.
    #[inline]
    pub(crate) fn end_iteration(&mut self) -> Result<(), Halt> {
        match &self.record.paced {
            None => Ok(()),
            Some(paced) => {
                let end_ns = self.timer.now_ns();
                if paced.is_inside(self.window, end_ns) && end_ns < self.record.deadline_ns.get() {
                    paced.end(self.window, end_ns, None);
                    return Ok(());
                }
                self.end_at_an_edge(end_ns)
            }
        }
    }

    /// Returns whether iterations begin when they are due.
    pub(crate) fn is_paced(&self) -> bool {
        self.follower.is_some()
    }

    fn begin_due(&mut self) -> Result<u64, Halt> {
        let record = Arc::clone(&self.record);
        let Some(paced) = &record.paced else { return Ok(self.timer.ticks()) };
        let (number, due_ns, has_waited) = loop {
            let now_ns = self.timer.now_ns();
            if let Some((number, due_ns)) = self.take(&record, paced, now_ns)? {
                break (number, due_ns, now_ns < due_ns);
            }
            let until_ns = self
                .follower
                .as_ref()
                .map_or(now_ns, |follower| follower.resting_until(&paced.schedule, now_ns));
            self.rest_until(until_ns)?;
        };
        if has_waited {
            self.rest_until(due_ns)?;
        }
        let start = self.timer.ticks();
        let start_ns = self.timer.to_ns(start);
        let behind = self.follower.as_mut().map_or(0, |follower| follower.behind(number, start_ns));
        paced.begin(self.window, start_ns, has_waited, behind);
        Ok(start)
    }

    /// Takes the next iteration under the lock: the coordinator sees it either in the hands of a worker or
    /// not taken.
    fn take(
        &mut self,
        record: &WorkerRecord,
        paced: &Paced,
        now_ns: u64,
    ) -> Result<Option<(u64, u64)>, Halt> {
        let closing = record.closing();
        if closing.sealed || record.deadline_ns.get() == 0 {
            return Err(Halt::Over);
        }
        self.follow(record);
        let Some(follower) = &mut self.follower else { return Ok(None) };
        let taken = follower.take(&paced.schedule, now_ns);
        if let Some((_, due_ns)) = taken {
            paced.take(follower.epoch(), due_ns);
        }
        Ok(taken)
    }

    /// The iteration was due before the window, or ended after it.
    #[cold]
    #[inline(never)]
    fn end_at_an_edge(&mut self, end_ns: u64) -> Result<(), Halt> {
        let record = Arc::clone(&self.record);
        let closing = record.closing();
        if closing.sealed || record.deadline_ns.get() == 0 {
            return Err(Halt::Over);
        }
        self.follow(&record);
        if let Some(paced) = &record.paced {
            let tried_until_ns = self.follower.as_ref().and_then(|follower| follower.tried_until_ns());
            paced.end(self.window, end_ns, tried_until_ns);
        }
        Ok(())
    }

    /// Tells that nothing of the window is left to do for this worker, unless iterations of it are.
    pub(super) fn settle(&mut self) {
        let window: Window = self.window;
        if self.record.paced.as_ref().is_none_or(|paced| paced.is_done_with(window))
            && let Some(settled) = self.settled.take()
        {
            settled.0();
        }
    }
}
