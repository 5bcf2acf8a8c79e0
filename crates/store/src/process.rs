//! A check that the process that runs a sweep still exists.
//!
//! A process ID alone is soon reused; together with its start time and the boot it identifies one process for
//! good. So a killed sweep can be distinguished from a running one without a lock that could be left behind.

use fsdyno_core::process_stat::ProcessStat;
use std::fs;

/// The name of this process: `boot:pid:start`.
pub(crate) fn this() -> String {
    of(std::process::id()).unwrap_or_default()
}

/// Returns whether the process of this name still exists.
pub(crate) fn is_alive(name: &str) -> bool {
    let pid = name.split(':').nth(1).and_then(|pid| pid.parse().ok());
    pid.and_then(of).is_some_and(|found| found == name)
}

fn of(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some(format!("{}:{pid}:{}", boot.trim(), start(&String::from_utf8_lossy(&stat))?))
}

/// The start time in clock ticks since boot, and `None` for a zombie.
fn start(stat: &str) -> Option<u64> {
    let stat = ProcessStat::parse(stat)?;
    (stat.state != 'Z').then_some(stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_ended_one_is_not() {
        assert!(is_alive(&this()));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let name = of(child.id()).unwrap();
        assert!(is_alive(&name));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&name));
    }

    #[test]
    fn another_process_with_the_same_id_is_not_the_same() {
        let name = this();
        assert!(!is_alive(&format!("{name}0")));
        assert!(!is_alive(&format!("0{name}")));
        assert!(!is_alive(""));
    }

    #[test]
    fn the_start_is_found_after_a_strange_name() {
        let stat =
            "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 5 18446744073709551615";
        assert_eq!(start(stat), Some(98_765));
        assert_eq!(start(&stat.replace(") S", ") Z")), None);
    }
}
