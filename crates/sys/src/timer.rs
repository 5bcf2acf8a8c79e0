//! The clock of the engine: the processor's time stamp counter if it can be trusted, else `CLOCK_MONOTONIC`.
//!
//! The counter is trusted if the processor declares it invariant (it neither stops nor changes its rate) and
//! the kernel, which watches it for drift between processors, uses it as its own clock source. Reading it
//! costs some 20 ns, a third of `clock_gettime`, and no branch. Ticks become nanoseconds by one
//! multiplication and one shift, for both sources alike, so that the hot loop has no case distinction.
//!
//! The rate is measured against `CLOCK_MONOTONIC` over about 2 ms, each end bracketed by two readings of
//! which the tightest of several counts: an error of some 10 ns in 2 ms, a few parts in a million. The module
//! provides only time differences within one process, not the time of day.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::hint::spin_loop;
use std::path::Path;

/// Where a [`Timer`] reads the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSource {
    /// The invariant time stamp counter.
    Tsc,
    /// `clock_gettime(CLOCK_MONOTONIC)` through the vDSO.
    Monotonic,
}

impl ClockSource {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            ClockSource::Tsc => "tsc",
            ClockSource::Monotonic => "CLOCK_MONOTONIC",
        }
    }
}

/// A calibrated clock. Copies agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    source: ClockSource,
    /// Ticks at the timer's zero.
    base_ticks: u64,
    /// Nanoseconds per tick, in units of 2^-[`SHIFT`].
    multiplier: u64,
    /// Cost of one reading in nanoseconds.
    read_ns: f64,
}

const SHIFT: u32 = 32;
const CALIBRATION_NS: u64 = 2_000_000;
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Timer {
    /// Chooses the source, and measures its rate and the cost of a reading. Takes about 2 ms.
    pub fn calibrate() -> Self {
        if tsc_is_trustworthy(Path::new(CLOCKSOURCE)) { Self::tsc() } else { Self::monotonic() }
    }

    /// A timer on `CLOCK_MONOTONIC`.
    pub fn monotonic() -> Self {
        let timer = Timer {
            source: ClockSource::Monotonic,
            base_ticks: monotonic_ns(),
            multiplier: 1 << SHIFT,
            read_ns: 0.0,
        };
        timer.with_cost()
    }

    fn tsc() -> Self {
        let begin = tightest_pair();
        while monotonic_ns() - begin.ns < CALIBRATION_NS {
            spin_loop();
        }
        let end = tightest_pair();
        let multiplier = (u128::from(end.ns - begin.ns) << SHIFT) / u128::from(end.ticks - begin.ticks);
        let timer = Timer {
            source: ClockSource::Tsc,
            base_ticks: begin.ticks,
            multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX),
            read_ns: 0.0,
        };
        timer.with_cost()
    }

    fn with_cost(mut self) -> Self {
        const READINGS: u32 = 200;
        let begin = self.now_ns();
        for _ in 1..READINGS {
            std::hint::black_box(self.ticks());
        }
        self.read_ns = (self.now_ns() - begin) as f64 / f64::from(READINGS);
        self
    }

    /// Where the time comes from.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Cost of one reading in nanoseconds.
    pub fn read_ns(&self) -> f64 {
        self.read_ns
    }

    /// The raw reading, to be taken directly before and after what is timed.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.source {
            ClockSource::Tsc => read_tsc(),
            ClockSource::Monotonic => monotonic_ns(),
        }
    }

    /// A raw reading as nanoseconds since the timer's zero. Readings from before that are zero.
    #[inline(always)]
    pub fn to_ns(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks.saturating_sub(self.base_ticks));
        ((ticks * u128::from(self.multiplier)) >> SHIFT) as u64
    }

    /// Nanoseconds since the timer's zero.
    pub fn now_ns(&self) -> u64 {
        self.to_ns(self.ticks())
    }

    /// This timer and `CLOCK_MONOTONIC` at one moment. Takes a few microseconds.
    pub fn reading(&self) -> TimerReading {
        let Pair { ticks, ns } = match self.source {
            ClockSource::Tsc => tightest_pair(),
            ClockSource::Monotonic => {
                let ns = monotonic_ns();
                Pair { ticks: ns, ns }
            }
        };
        TimerReading { timer_ns: self.to_ns(ticks), monotonic_ns: ns }
    }
}

/// A [`Timer`] and `CLOCK_MONOTONIC` at one moment.
#[derive(Debug, Clone, Copy)]
pub struct TimerReading {
    timer_ns: u64,
    monotonic_ns: u64,
}

impl TimerReading {
    /// `CLOCK_MONOTONIC` at a moment of the timer between this reading and a later one. With one reading
    /// alone the clocks would drift apart by some microseconds a second.
    pub fn monotonic_ns(&self, later: &TimerReading, moment_ns: u64) -> u64 {
        let per_ns = (later.monotonic_ns - self.monotonic_ns) as f64
            / later.timer_ns.saturating_sub(self.timer_ns).max(1) as f64;
        let since = moment_ns as f64 - self.timer_ns as f64;
        self.monotonic_ns.saturating_add_signed((since * per_ns) as i64)
    }

    /// The timer at a moment of `CLOCK_MONOTONIC` that is close to this reading.
    pub fn timer_ns_at(&self, monotonic_ns: u64) -> u64 {
        let since = monotonic_ns as i128 - i128::from(self.monotonic_ns);
        u64::try_from(i128::from(self.timer_ns) + since).unwrap_or(0)
    }
}

/// The time of `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Readings of both clocks at one moment.
struct Pair {
    ticks: u64,
    ns: u64,
}

/// Of several readings of the counter between two of the kernel's clock, the one with the shortest interval.
fn tightest_pair() -> Pair {
    let mut best = (u64::MAX, Pair { ticks: 0, ns: 0 });
    for _ in 0..50 {
        let before = monotonic_ns();
        let ticks = read_tsc();
        let after = monotonic_ns();
        if after - before < best.0 {
            best = (after - before, Pair { ticks, ns: before + (after - before) / 2 });
        }
    }
    best.1
}

#[cfg(target_arch = "x86_64")]
fn tsc_is_trustworthy(clocksource: &Path) -> bool {
    /// Advanced power management leaf; bit 8 of EDX: the counter is invariant (Intel SDM vol. 3, 19.17.1).
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    let leaves = std::arch::x86_64::__cpuid(0x8000_0000).eax;
    let invariant =
        leaves >= POWER_MANAGEMENT && std::arch::x86_64::__cpuid(POWER_MANAGEMENT).edx & (1 << 8) != 0;
    let kernel = fs::read_to_string(clocksource).unwrap_or_default();
    invariant && ["tsc", "kvm-clock"].contains(&kernel.trim())
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_trustworthy(_clocksource: &Path) -> bool {
    false
}

/// The counter, after every earlier instruction has finished (Intel SDM vol. 2, RDTSC).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_tsc() -> u64 {
    // SAFETY: both instructions exist on every x86_64 processor and touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_timer_agrees_with_the_kernel() {
        for timer in [Timer::calibrate(), Timer::monotonic()] {
            let (begin, kernel) = (timer.now_ns(), Instant::now());
            std::thread::sleep(Duration::from_millis(100));
            let (passed, truth) = ((timer.now_ns() - begin) as f64, kernel.elapsed().as_nanos() as f64);
            // The two ends are read one after the other: a preemption between them is not an error of the
            // timer.
            assert!((passed / truth - 1.0).abs() < 0.02, "{timer:?}: {passed} ns where {truth} ns passed");
        }
    }

    #[test]
    fn moments_have_a_time_on_the_kernels_clock() {
        let timer = Timer::calibrate();
        let before = timer.reading();
        std::thread::sleep(Duration::from_millis(20));
        let (first_ns, moment_ns, last_ns) = (monotonic_ns(), timer.now_ns(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(20));
        let on_clock = before.monotonic_ns(&timer.reading(), moment_ns);
        assert!(
            (first_ns - 2_000..=last_ns + 2_000).contains(&on_clock),
            "{on_clock} in {first_ns} to {last_ns}"
        );
    }

    #[test]
    fn the_counter_needs_the_kernels_trust() {
        let directory = tempfile::tempdir().unwrap();
        let clocksource = directory.path().join("current_clocksource");
        fs::write(&clocksource, "hpet\n").unwrap();
        assert!(!tsc_is_trustworthy(&clocksource));
        assert!(!tsc_is_trustworthy(&directory.path().join("absent")));
    }

    #[test]
    fn time_never_runs_backwards() {
        let timer = Timer::calibrate();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = timer.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn readings_have_a_cost() {
        let timer = Timer::calibrate();
        assert!(timer.read_ns() > 0.5 && timer.read_ns() < 100_000.0, "{}", timer.read_ns());
    }
}
