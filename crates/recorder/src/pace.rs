//! Requests that end when those of a modelled disk would.
//!
//! What a request asks for is done at once, and its answer is held back. A thread of its own gives the
//! answers when they are due, by `CLOCK_MONOTONIC`; how late it was is counted. To be woken takes up to a
//! tenth of a millisecond, so it asks for that earlier and watches the clock for the rest, as long as that
//! leaves the processor to others.

use crate::Result;
use crate::error::RecorderError;
use fsdyno_core::Nanos;
use fsdyno_core::durability::PaceKept;
use fsdyno_disk::{DiskCompletion, DiskModel, DiskRequest, RequestId, Simulation};
use fsdyno_sys::timer::monotonic_ns;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Answer = Box<dyn FnOnce() + Send>;

/// The time before the next answer at which the thread asks to be woken.
const EARLY_NS: f64 = 100e3;
/// The most of a processor that it may spend on watching the clock.
const WATCHING_MOST: f64 = 0.1;

/// The answers of a disk.
#[derive(Clone)]
pub(crate) struct Pace {
    shared: Arc<SharedPace>,
}

struct SharedPace {
    state: Mutex<PaceState>,
    changed: Condvar,
    /// The number of changes, for who watches the clock.
    changes: AtomicU64,
}

#[derive(Default)]
struct PaceState {
    /// The disk of the model; `None` if answers are not held back.
    modelled: Option<Modelled>,
    ended: bool,
}

/// A modelled disk that is switched on.
struct Modelled {
    /// Each part of the disk, which is a disk of its own.
    parts: Vec<Simulation>,
    since_ns: u64,
    /// Up to when everything has happened.
    reached_ns: f64,
    next: RequestId,
    held: HashMap<RequestId, Held>,
    late: Histogram<u64>,
    service_ns: f64,
    /// The time spent on watching the clock.
    watched_ns: f64,
}

struct Held {
    arrived_ns: f64,
    answer: Answer,
}

impl Pace {
    /// Answers that are not held back yet.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new() -> io::Result<Pace> {
        let shared = Arc::new(SharedPace {
            state: Mutex::new(PaceState::default()),
            changed: Condvar::new(),
            changes: AtomicU64::new(0),
        });
        let its = Arc::clone(&shared);
        std::thread::Builder::new().name("model".to_string()).spawn(move || its.answer_in_time())?;
        Ok(Pace { shared })
    }

    /// Switches on disks of a model, each of this size, or off. Returns how well those before have kept their
    /// times. Answers that are held back are given at once.
    pub fn set(&self, model: Option<&DiskModel>, parts: u32, size: u64) -> Result<Option<PaceKept>> {
        let new = model.map(|model| Modelled::new(model, parts, size)).transpose()?;
        let old = std::mem::replace(&mut self.shared.lock().modelled, new);
        self.shared.tell();
        Ok(old.map(Modelled::give_up))
    }

    /// Gives an answer when that part of the disk would: the request, whose number is given here, is carried
    /// out, and arrived at this moment of `CLOCK_MONOTONIC`.
    pub fn answer(&self, part: u32, request: DiskRequest, arrived_ns: u64, answer: Answer) {
        let mut state = self.shared.lock();
        let Some(modelled) = state.modelled.as_mut().filter(|disk| (part as usize) < disk.parts.len()) else {
            drop(state);
            return answer();
        };
        // The disk may have gone on since then.
        let arrived_ns = modelled.reached_ns.max(arrived_ns.saturating_sub(modelled.since_ns) as f64);
        let due = modelled.take_due(arrived_ns);
        modelled.arrive(part as usize, request, arrived_ns, answer);
        drop(state);
        self.shared.tell();
        due.into_iter().for_each(|answer| answer());
    }

    /// Ends the thread. Answers are no longer held back.
    pub fn end(&self) {
        let mut state = self.shared.lock();
        state.ended = true;
        let modelled = state.modelled.take();
        drop(state);
        self.shared.tell();
        modelled.map(Modelled::give_up);
    }
}

impl Modelled {
    /// Switches on disks of a model, each of this size.
    fn new(model: &DiskModel, parts: u32, size: u64) -> Result<Modelled> {
        Ok(Modelled {
            parts: (0..parts).map(|_| Simulation::new(model, size)).collect(),
            since_ns: monotonic_ns(),
            reached_ns: 0.0,
            next: 0,
            held: HashMap::new(),
            late: Histogram::new(3).map_err(|_| RecorderError::Refused("lateness cannot be counted"))?,
            service_ns: 0.0,
            watched_ns: 0.0,
        })
    }

    /// Hands a request to a part; its answer is held back.
    fn arrive(&mut self, part: usize, request: DiskRequest, arrived_ns: f64, answer: Answer) {
        let id = self.next;
        self.next += 1;
        self.held.insert(id, Held { arrived_ns, answer });
        self.parts[part].arrive(DiskRequest { id, ..request }, arrived_ns);
    }

    fn now_ns(&self) -> f64 {
        monotonic_ns().saturating_sub(self.since_ns) as f64
    }

    /// Takes the answers that are due by then.
    fn take_due(&mut self, until_ns: f64) -> Vec<Answer> {
        self.reached_ns = until_ns;
        let now_ns = self.now_ns();
        let mut due = Vec::new();
        for DiskCompletion { id, at_ns } in self.parts.iter_mut().flat_map(|part| part.advance(until_ns)) {
            let Some(Held { arrived_ns, answer }) = self.held.remove(&id) else { continue };
            self.service_ns += at_ns - arrived_ns;
            // The histogram grows as needed.
            let _ = self.late.record((now_ns - at_ns).max(0.0) as u64);
            due.push(answer);
        }
        due
    }

    /// When something happens next.
    fn next_ns(&self) -> Option<f64> {
        self.parts.iter().filter_map(Simulation::next_ns).reduce(f64::min)
    }

    /// Gives all answers; says how well the times were kept until now.
    fn give_up(self) -> PaceKept {
        let Modelled { held, late, service_ns, .. } = self;
        held.into_values().for_each(|held| (held.answer)());
        let requests = late.len();
        PaceKept {
            requests,
            service_mean_ns: Nanos((service_ns / requests.max(1) as f64) as u64),
            late_mean_ns: Nanos(late.mean() as u64),
            late_p99_ns: Nanos(late.value_at_quantile(0.99)),
            late_max_ns: Nanos(late.max()),
        }
    }
}

impl SharedPace {
    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_in_time(&self) {
        // Else the kernel may wake it 50 us late to save energy (PR_SET_TIMERSLACK in prctl(2)).
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut state = self.lock();
        while !state.ended {
            let Some(modelled) = &mut state.modelled else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = modelled.take_due(modelled.now_ns());
            if !due.is_empty() {
                // Requests that arrive meanwhile do not wait for the kernel to take these answers.
                drop(state);
                due.into_iter().for_each(|answer| answer());
                state = self.lock();
                continue;
            }
            let Some(next_ns) = modelled.next_ns() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now_ns = modelled.now_ns();
            let wait_ns = (next_ns - now_ns).max(0.0);
            let early_ns = if modelled.watched_ns <= now_ns * WATCHING_MOST { EARLY_NS } else { 0.0 };
            if wait_ns > early_ns {
                let wait = Duration::from_nanos((wait_ns - early_ns) as u64);
                state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                modelled.watched_ns += wait_ns;
                let until_ns = modelled.since_ns + next_ns as u64;
                let changes = self.changes.load(Ordering::Relaxed);
                drop(state);
                while monotonic_ns() < until_ns && self.changes.load(Ordering::Relaxed) == changes {
                    std::hint::spin_loop();
                }
                state = self.lock();
            }
        }
    }

    /// Something has changed for the thread that gives the answers.
    fn tell(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_disk::DiskOperation;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Instant;

    /// Takes 600 us for a read and 800 us for a write, at most 3,000 of them per second.
    fn volume() -> DiskModel {
        DiskModel::parse("ebs-gp3", DiskModel::own_text("ebs-gp3").expect("a model")).expect("a model")
    }

    /// Asks for something; what comes is the time until it was answered.
    fn asked(pace: &Pace, kind: DiskOperation) -> Receiver<Duration> {
        let (answered, answer) = channel();
        let begun = Instant::now();
        let tell = move || answered.send(begun.elapsed()).unwrap_or_default();
        let request = DiskRequest { id: 0, kind, offset: 0, length: 4096 };
        pace.answer(0, request, monotonic_ns(), Box::new(tell));
        answer
    }

    #[test]
    fn answers_are_given_when_they_are_due_and_not_before() {
        let pace = Pace::new().unwrap();
        let at_once = asked(&pace, DiskOperation::Read).try_recv();
        assert!(at_once.is_ok(), "no model holds it back");
        assert_eq!(pace.set(Some(&volume()), 1, 1 << 30).unwrap(), None);
        let begun = Instant::now();
        let pending: Vec<_> = (0..200).map(|_| asked(&pace, DiskOperation::Write)).collect();
        let took: Vec<Duration> = pending.into_iter().map(|answer| answer.recv().unwrap()).collect();
        assert!(took.iter().all(|took| *took >= Duration::from_micros(800)), "{took:?}");
        // 30 may begin at once, and the others as often as the limit allows.
        assert!(begun.elapsed() >= Duration::from_micros((200 - 31) * 1_000_000 / 3000));
        let kept = pace.set(None, 1, 0).unwrap().unwrap();
        assert_eq!(kept.requests, 200);
        assert!(kept.service_mean_ns >= Nanos(800_000) && kept.late_max_ns >= kept.late_p99_ns, "{kept:?}");
        pace.end();
    }

    #[test]
    fn each_part_is_a_disk_of_its_own() {
        let answered_in_30_ms = |parts: usize| {
            let mut modelled = Modelled::new(&volume(), parts as u32, 1 << 30).unwrap();
            for number in 0..600 {
                let request = DiskRequest { id: 0, kind: DiskOperation::Read, offset: 0, length: 4096 };
                modelled.arrive(number % parts, request, 0.0, Box::new(|| ()));
            }
            modelled.take_due(30e6).len()
        };
        let one = answered_in_30_ms(1);
        // 30 at once, and then 3,000 in a second.
        assert!((110..=120).contains(&one), "{one}");
        assert_eq!(answered_in_30_ms(3), 3 * one);
    }

    #[test]
    fn a_disk_that_is_switched_off_or_ends_holds_nobody() {
        for end in [|pace: &Pace| drop(pace.set(None, 1, 0)), |pace: &Pace| pace.end()] {
            let pace = Pace::new().unwrap();
            let slow = DiskModel::own_text("ebs-gp3").expect("a model").replace("600us", "10s");
            let slow = DiskModel::parse("slow", &slow).expect("a model");
            pace.set(Some(&slow), 1, 1 << 30).unwrap();
            let pending: Vec<_> = (0..10).map(|_| asked(&pace, DiskOperation::Read)).collect();
            end(&pace);
            for answer in pending {
                assert!(answer.recv().unwrap() < Duration::from_secs(10));
            }
            assert!(asked(&pace, DiskOperation::Read).recv().is_ok());
            pace.end();
        }
    }
}
