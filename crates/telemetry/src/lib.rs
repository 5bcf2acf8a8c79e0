//! Telemetry: reads /proc and /sys while the engine measures, and keeps what an administrator would check.
//!
//! The thread that coordinates a phase calls a [`Sampler`] when the window begins, about every interval, and
//! when it ends. A reading costs some milliseconds of CPU on a machine with few processes; its cost is stored
//! with the result.
//!
//! Telemetry never fails a trial. A missing file is an absent fact; a line that cannot be parsed is counted.
//! It opens nothing on the filesystem under test, and reads nothing that waits for a device. It starts no
//! threads and no programs, and knows neither workload nor filesystem, only names of devices.
//!
//! Limits of the numbers:
//! - The kernel counts CPU time of processes in ticks of 10 ms; that of its own threads is exact.
//! - A kernel worker (`kworker`) shows the queue that it works for at the moment of the reading, or worked
//!   for last. All its time since the previous reading is attributed to that queue.
//! - What a process did between the last reading and its end is not seen, unless its parent waited for it.
//! - Time in interrupts belongs to no task.

mod difference;
mod files;
mod kind;
mod parse;
mod reading;
mod sampler;
mod tasks;

pub use sampler::Sampler;
