//! Telemetry: reads /proc and /sys while the engine measures, and keeps what an administrator would have looked at.
//!
//! The thread that coordinates a phase calls a [`Sampler`] when the window begins, about every interval, and when it ends.
//! A reading costs some milliseconds of CPU on a machine with few processes; what it cost is stored with the result.
//!
//! What it refuses to do: it never fails a trial. A file that is not there is a fact that is absent, a line that is not
//! understood is counted. It opens nothing on the filesystem under test, and reads nothing that waits for a device. It
//! starts no thread and no program, and it knows neither workload nor filesystem: only names of devices.
//!
//! Limits that a reader of the numbers must know:
//! - The kernel counts CPU time of processes in ticks of 10 ms; that of its own threads is exact.
//! - A worker of the kernel (`kworker`) shows which queue it works for at the moment of the reading, or worked for last. All
//!   its time since the reading before is counted there.
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
