//! When writers are throttled: what is written back keeps up with what they write.
//!
//! At first the page cache takes what is written, at the speed of memory. Once dirty pages reach their limit,
//! or the memory of the load is full of them, a writer waits until others have been written back
//! (`balance_dirty_pages`, or reclaim in a memory cgroup), and from then on it is as fast as the device. The
//! kernel counts pages that became dirty and pages that were written back since it started (`nr_dirtied` and
//! `nr_written` in /proc/vmstat, Documentation/filesystems/proc.rst): over some seconds, both then grow
//! alike.

use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Ramp;
use std::collections::VecDeque;

const VMSTAT: &str = "/proc/vmstat";
/// So long must writing back have kept up. A flusher works in bursts, so that less would not show.
const SPAN: Nanos = Nanos::from_secs(3);
/// It keeps up if it is at least this share of what was dirtied.
const KEEPS_UP: f64 = 0.9;

/// Counters of the kernel since it started, in pages, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    dirtied: u64,
    written_back: u64,
}

impl Pages {
    /// As they are now; `None` if the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string(VMSTAT).ok()?)
    }

    fn parse(vmstat: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = vmstat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == key).and_then(|(_, value)| value.trim().parse().ok())
        };
        Some(Pages { dirtied: value("nr_dirtied")?, written_back: value("nr_written")? })
    }
}

/// The state of the writers that a ramp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// They have not been throttled yet, or it is too early to tell.
    Free,
    /// Writing back keeps up with what they write, or they bypass the page cache.
    Throttled,
    /// There are none, or they write nothing.
    Absent,
}

impl Writers {
    /// Returns whether there is still something to wait for.
    pub(crate) fn is_free(self) -> bool {
        self == Writers::Free
    }
}

#[derive(Debug, Clone, Copy)]
struct ThrottleLook {
    at_ns: u64,
    /// By the workers, in bytes.
    written: u64,
    pages: Pages,
}

/// Watches a ramp.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    begin_ns: Option<u64>,
    /// Those of the last [`SPAN`].
    looks: VecDeque<ThrottleLook>,
}

impl Throttle {
    /// Returns the state of the writers now that the workers have written this many bytes since they began.
    pub(crate) fn look(&mut self, at_ns: u64, written: u64, pages: Option<Pages>) -> Writers {
        let begin_ns = *self.begin_ns.get_or_insert(at_ns);
        if written == 0 {
            let waited = at_ns - begin_ns >= Ramp::UNWRITTEN.0;
            return if waited { Writers::Absent } else { Writers::Free };
        }
        let Some(pages) = pages else { return Writers::Free };
        let now = ThrottleLook { at_ns, written, pages };
        self.looks.push_back(now);
        while self.looks.get(1).is_some_and(|second| at_ns - second.at_ns >= SPAN.0) {
            self.looks.pop_front();
        }
        let Some(first) = self.looks.front().filter(|first| at_ns - first.at_ns >= SPAN.0) else {
            return Writers::Free;
        };
        let dirtied = now.pages.dirtied.saturating_sub(first.pages.dirtied);
        let written_back = now.pages.written_back.saturating_sub(first.pages.written_back);
        match now.written > first.written && written_back as f64 >= KEEPS_UP * dirtied as f64 {
            true => Writers::Throttled,
            false => Writers::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: u64 = 100_000_000;

    /// The second at which writers that write and have written back so many pages in each tenth of one are
    /// throttled.
    fn throttled_after(steps: &[(u64, u64)]) -> Option<f64> {
        let mut throttle = Throttle::default();
        let (mut written, mut pages) = (0, Pages { dirtied: 1000, written_back: 900 });
        steps.iter().enumerate().find_map(|(step, (dirtied, written_back))| {
            let found = throttle.look(step as u64 * STEP_NS, written, Some(pages));
            written += dirtied.max(&1) * 4096;
            pages.dirtied += dirtied;
            pages.written_back += written_back;
            (found == Writers::Throttled).then_some(step as f64 / 10.0)
        })
    }

    #[test]
    fn memory_takes_writes_until_the_device_keeps_up() {
        let mut steps = vec![(1000, 0); 60];
        steps.extend([(1000, 300); 60]);
        assert_eq!(throttled_after(&steps), None);
        steps.extend([(310, 300); 60]);
        // All of the span has to be like that.
        let after = throttled_after(&steps).unwrap();
        assert!((14.5..=15.1).contains(&after), "{after}");
    }

    #[test]
    fn a_burst_of_the_flusher_is_not_enough() {
        let mut steps = vec![(1000, 0); 50];
        steps.extend([(1000, 2000); 8]);
        steps.extend([(1000, 0); 50]);
        assert_eq!(throttled_after(&steps), None);
    }

    #[test]
    fn direct_writes_have_nothing_to_wait_for() {
        assert_eq!(throttled_after(&[(0, 0); 40]), Some(3.1));
    }

    #[test]
    fn a_phase_without_writers_begins_after_some_seconds() {
        let mut throttle = Throttle::default();
        let pages = Pages { dirtied: 0, written_back: 0 };
        let at = |second: u64| second * 1_000_000_000;
        assert_eq!(throttle.look(at(100), 0, Some(pages)), Writers::Free);
        assert_eq!(throttle.look(at(104), 0, Some(pages)), Writers::Free);
        assert_eq!(throttle.look(at(105), 0, Some(pages)), Writers::Absent);
        // If the kernel does not tell, only the limit ends the ramp.
        assert_eq!(throttle.look(at(200), 4096, None), Writers::Free);
    }

    #[test]
    fn the_kernel_tells() {
        let text = "nr_free_pages 1\nnr_dirtied 53211\nnr_written 41200\nnr_dirty_threshold 7\n";
        assert_eq!(Pages::parse(text), Some(Pages { dirtied: 53_211, written_back: 41_200 }));
        assert_eq!(Pages::parse("nr_dirty 5\n"), None);
        assert!(Pages::now().is_some());
    }
}
