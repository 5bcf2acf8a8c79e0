//! The status that a running sweep publishes to those who watch it, and their requests to the sweep.
//!
//! Each event of the sweep comes by here. A page in memory is written at most four times a second, unless
//! something has changed that must be seen; the time that takes is counted and shown to whoever watches. A
//! sweep that cannot be watched runs all the same.

use fsdyno_core::{AfterTrial, Nanos, Progress};
use fsdyno_sweep::{Asked, Position, SweepEvent};
use fsdyno_watch::{Now, Page, Publishing, RaceCourse, STATUS_VERSION, Stage, Status};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time between two writes of what is not urgent.
const BETWEEN: Duration = Duration::from_millis(250);

/// Publishes where a sweep is.
pub struct Publisher {
    /// Absent if there can be none, or if it cannot be written any more.
    page: Option<Page>,
    status: Status,
    race: RaceCourse,
    began: Instant,
    written: Option<Instant>,
}

impl Publisher {
    /// For a sweep of this process.
    pub fn begin(state: &Path, store: &Path, plan: &str) -> Self {
        let mut publisher = Publisher {
            page: Page::create().ok(),
            status: Status {
                version: STATUS_VERSION,
                pid: std::process::id(),
                state_directory: state.to_path_buf(),
                store: std::path::absolute(store).unwrap_or_else(|_| store.to_path_buf()),
                plan: plan.to_string(),
                sweep: None,
                stage: Stage::Starting,
                asked: AfterTrial::Continue,
                now: None,
                stored: 0,
                raced: 0,
                publishing: Publishing::default(),
            },
            race: RaceCourse::default(),
            began: Instant::now(),
            written: None,
        };
        publisher.write();
        publisher
    }

    /// Publishes an event, and passes on what was asked for. Returns that if it is new.
    pub fn tell(&mut self, progress: &SweepEvent<'_>, asked: &Asked) -> Option<AfterTrial> {
        let before = cpu();
        let mut urgent = self.note(progress);
        let wish = self.page.as_ref().map_or(AfterTrial::Continue, Page::asked);
        let is_new = wish != self.status.asked;
        if is_new {
            asked.set(wish);
            self.status.asked = wish;
            urgent = true;
        }
        let is_due = self.written.is_none_or(|written| written.elapsed() >= BETWEEN);
        if urgent || is_due {
            self.write();
        }
        let cost = &mut self.status.publishing.cpu_ns;
        *cost = Nanos(cost.0.saturating_add(cpu().saturating_sub(before)));
        is_new.then_some(wish)
    }

    /// The sweep has ended; the page stays until the process has.
    pub fn end(&mut self) {
        self.status.stage = Stage::Ended;
        self.write();
    }

    /// Takes an event over into the status; returns whether it must be seen.
    fn note(&mut self, progress: &SweepEvent<'_>) -> bool {
        let stage = self.status.stage;
        match progress {
            SweepEvent::Began(sweep) => self.status.sweep = Some(sweep.0),
            SweepEvent::Running(at) => {
                self.status.stage = Stage::Running;
                let old = self.status.now.take();
                let now = now(at, old.as_ref());
                let is_new =
                    old.is_none_or(|old| (old.trial, old.progress.step) != (now.trial, now.progress.step));
                self.status.now = Some(now);
                return is_new || stage != Stage::Running || at.progress.glance.is_some();
            }
            SweepEvent::Stored(..) => self.status.stored += 1,
            SweepEvent::Raced { answer, .. } => {
                self.race.add(answer);
                self.status.raced += 1;
                let course = &self.race;
                if self.page.as_mut().is_some_and(|page| page.write_race(course).is_err()) {
                    self.page = None;
                }
            }
            SweepEvent::Paused { .. } => self.status.stage = Stage::Paused,
            SweepEvent::Continued(_) => self.status.stage = Stage::Running,
            _ => return false,
        }
        !matches!(progress, SweepEvent::Paused { .. }) || stage != Stage::Paused
    }

    fn write(&mut self) {
        self.written = Some(Instant::now());
        self.status.publishing.writes += 1;
        self.status.publishing.since_ns = self.began.elapsed().into();
        if self.page.as_mut().is_some_and(|page| page.write(&self.status).is_err()) {
            self.page = None;
        }
    }
}

/// The trial in progress. The latest glance stays as long as its phase lasts.
fn now(at: &Position, old: Option<&Now>) -> Now {
    let same = old.filter(|old| (old.trial, &old.progress.phase) == (at.trial, &at.progress.phase));
    let glance = at.progress.glance.clone().or_else(|| same.and_then(|old| old.progress.glance.clone()));
    Now {
        trial: at.trial,
        trials: at.trials,
        block: at.block,
        case: at.case,
        configuration: at.configuration.clone(),
        workload: at.workload.to_string(),
        sentinel: at.sentinel,
        machine: at.machine.clone(),
        progress: Progress { glance, ..at.progress.clone() },
        left_ns: at.left,
        more_may_follow: at.more_may_follow,
    }
}

/// Processor time of this thread so far, in nanoseconds.
fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::TrialStep;
    use fsdyno_store::SweepId;
    use fsdyno_verdict::race::RaceError;
    use fsdyno_watch::Attached;

    fn position() -> Position {
        Position {
            trial: 1,
            trials: 4,
            configuration: "ext4".to_string(),
            workload: "null".into(),
            sentinel: false,
            case: 0,
            block: 0,
            machine: None,
            behind: 0.0,
            progress: Progress::at(TrialStep::Mkfs),
            fraction: 0.0,
            left: Nanos(1),
            more_may_follow: false,
        }
    }

    #[test]
    fn what_happens_is_published_and_what_is_asked_for_is_passed_on() {
        let asked = Asked::default();
        let mut publisher = Publisher::begin(Path::new("/state"), Path::new("/state/results.db"), "test");
        let mut attached = Attached::to(std::process::id()).expect("this process");
        let mut tell = |publisher: &mut Publisher, progress: &SweepEvent<'_>| {
            let wish = publisher.tell(progress, &asked);
            (wish, attached.status().expect("a status"))
        };
        let (_, status) = tell(&mut publisher, &SweepEvent::Began(SweepId(7)));
        assert_eq!((status.sweep, status.stage, status.plan.as_str()), (Some(7), Stage::Starting, "test"));
        let mut at = position();
        let (_, status) = tell(&mut publisher, &SweepEvent::Running(&at));
        assert_eq!(
            (status.stage, status.now.map(|now| now.progress.step)),
            (Stage::Running, Some(TrialStep::Mkfs))
        );

        // What has not changed is not written at once, and what has is.
        let writes = publisher.status.publishing.writes;
        at.left = Nanos(2);
        tell(&mut publisher, &SweepEvent::Running(&at));
        assert_eq!(publisher.status.publishing.writes, writes);
        at.progress.step = TrialStep::Mount;
        tell(&mut publisher, &SweepEvent::Running(&at));
        assert_eq!(publisher.status.publishing.writes, writes + 1);

        Attached::to(std::process::id()).expect("this process").ask(AfterTrial::Pause).expect("written");
        let (wish, status) = tell(&mut publisher, &SweepEvent::Running(&at));
        assert_eq!(
            (wish, status.asked, asked.get()),
            (Some(AfterTrial::Pause), AfterTrial::Pause, AfterTrial::Pause)
        );
        let (wish, status) = tell(&mut publisher, &SweepEvent::Paused { next: 2, first: true });
        assert_eq!((wish, status.stage), (None, Stage::Paused), "it is told once");

        // Why there is no answer is published as well as answers are; those have tests of their own.
        let error = RaceError::OnlyOne { name: "ext4".to_string() };
        let answer = Err(error.clone());
        publisher.tell(&SweepEvent::Raced { answer: &answer, lines: &[], trials: 4 }, &asked);
        assert_eq!(attached.news().expect("a status").map(|status| status.raced), Some(1));
        assert_eq!(attached.race().and_then(|race| race.trouble.clone()), Some(error.to_string()));
        publisher.end();
        assert_eq!(attached.status().expect("a status").stage, Stage::Ended);
    }
}
