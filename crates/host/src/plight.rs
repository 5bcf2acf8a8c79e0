//! The reasons why a process makes no progress, or does not end when it is killed.
//!
//! A thread that hangs in the kernel and one that others leave no processor look the same from outside: both
//! are silent. `/proc` tells them apart, by the state of each thread and by the time that it had on a
//! processor (proc_pid_stat(5), Documentation/scheduler/sched-stats.rst).

use fsdyno_core::process_stat::ProcessStat;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of looks at a process: a thread that works also waits in the kernel now and then.
const LOOKS: usize = 4;
/// The time between two looks.
const BETWEEN: Duration = Duration::from_millis(50);
/// A thread that is ready to run and gets less than this share of a processor is kept waiting.
const LITTLE: f64 = 0.5;

/// The reason why a process makes no progress or does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plight {
    /// A thread of it waits in the kernel and cannot be interrupted.
    InKernel,
    /// A thread of it could run, but others use the processors.
    NoProcessor,
    /// It runs, or waits for something that a signal would end.
    Other,
    /// Its machine does not say.
    Unknown,
}

/// A thread at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    number: u32,
    state: char,
    cpu_ns: u64,
}

impl Plight {
    /// Looks at a process of this machine, which takes a moment.
    pub fn of(pid: u32) -> Plight {
        let begin = Instant::now();
        let mut looks = vec![threads(pid)];
        while looks.len() < LOOKS {
            sleep(BETWEEN);
            looks.push(threads(pid));
        }
        judge(&looks, begin.elapsed())
    }

    /// Returns the text about a process that was killed and still exists, to follow its name and `which`.
    pub fn of_killed(self) -> &'static str {
        match self {
            Plight::InKernel => "hangs in the kernel and cannot be killed",
            Plight::NoProcessor => "was killed and has had no processor since to end on: others use them",
            Plight::Other | Plight::Unknown => "was killed and has not ended",
        }
    }
}

/// Returns the plight that several looks at the threads of a process show: only a state that lasts through
/// all of them counts.
fn judge(looks: &[Vec<Thread>], elapsed: Duration) -> Plight {
    let [first, others @ ..] = looks else { return Plight::Unknown };
    if first.is_empty() {
        return Plight::Unknown;
    }
    let always = |thread: &Thread, state: char| {
        let mut last = (thread.state == state).then_some(*thread);
        for look in others {
            let now = look.iter().find(|now| now.number == thread.number && now.state == state).copied();
            last = last.and(now);
        }
        last
    };
    let cpu_ns = |thread: &Thread, state| Some(always(thread, state)?.cpu_ns.saturating_sub(thread.cpu_ns));
    if first.iter().any(|thread| cpu_ns(thread, 'D') == Some(0)) {
        return Plight::InKernel;
    }
    let little = (elapsed.as_nanos() as f64 * LITTLE) as u64;
    match first.iter().any(|thread| cpu_ns(thread, 'R').is_some_and(|had| had < little)) {
        true => Plight::NoProcessor,
        false => Plight::Other,
    }
}

/// The threads of a process; none if it is gone.
fn threads(pid: u32) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| thread(&task.path())).collect()
}

fn thread(task: &Path) -> Option<Thread> {
    let number = task.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    let times = fs::read_to_string(task.join("schedstat")).ok()?;
    let cpu_ns = times.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Thread { number, state: ProcessStat::parse(&stat)?.state, cpu_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Looks at two threads, which have these states and times in each.
    fn judged(looks: &[[(char, u64); 2]]) -> Plight {
        let look = |[one, other]: &[(char, u64); 2]| {
            let thread = |number, (state, cpu_ns)| Thread { number, state, cpu_ns };
            vec![thread(7, *one), thread(8, *other)]
        };
        judge(&looks.iter().map(look).collect::<Vec<_>>(), Duration::from_millis(100))
    }

    #[test]
    fn only_a_thread_that_never_leaves_the_kernel_hangs_in_it() {
        assert_eq!(judged(&[[('S', 1), ('D', 5)], [('S', 1), ('D', 5)]]), Plight::InKernel);
        assert_eq!(judged(&[[('S', 1), ('D', 5)], [('S', 1), ('S', 5)]]), Plight::Other, "it has returned");
        assert_eq!(judged(&[[('S', 1), ('D', 5)], [('S', 1), ('D', 9)]]), Plight::Other, "it waits again");
    }

    #[test]
    fn a_thread_that_could_run_and_does_not_waits_for_a_processor() {
        assert_eq!(judged(&[[('S', 1), ('R', 5)], [('S', 1), ('R', 5)]]), Plight::NoProcessor);
        let busy = [[('S', 1), ('R', 5)], [('S', 1), ('R', 99_000_000)]];
        assert_eq!(judged(&busy), Plight::Other, "it had one all the time");
        assert_eq!(judged(&[[('S', 1), ('S', 5)], [('S', 1), ('S', 5)]]), Plight::Other);
    }

    #[test]
    fn a_process_is_seen_as_it_is() {
        let plight = |words: &[&str]| {
            let mut child = Command::new(words[0]).args(&words[1..]).stdout(Stdio::null()).spawn().unwrap();
            sleep(BETWEEN);
            let plight = Plight::of(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            (plight, Plight::of(child.id()))
        };
        assert_eq!(plight(&["sleep", "60"]), (Plight::Other, Plight::Unknown));
        let (busy, _) = plight(&["sh", "-c", "while :; do :; done"]);
        assert!(matches!(busy, Plight::Other | Plight::NoProcessor), "{busy:?}");
    }
}
