//! The log of a host: the steps that changed something or ran a program, for anyone who wants to know what a
//! trial did to the machine. Steps that only look are not in it.

use crate::Request;
use fsdyno_core::Nanos;
use fsdyno_core::result::LogEntry;
use std::time::Duration;

/// The most steps that are kept; a trial has about a hundred.
const MOST: usize = 2000;

/// Steps in their order.
#[derive(Debug, Default)]
pub struct StepLog(Vec<LogEntry>);

impl StepLog {
    /// Notes a step that has ended, if it is one that counts.
    pub fn note(&mut self, request: &Request, took: Duration, error: Option<String>) {
        let Some(step) = request.logged() else { return };
        // A device is filled piece by piece.
        if let (Request::FillDevice { .. }, Some(last)) = (request, self.0.last_mut())
            && last.step == step
        {
            last.took_ns = Nanos(last.took_ns.0.saturating_add(Nanos::from(took).0));
            last.error = error;
        } else if self.0.len() < MOST {
            self.0.push(LogEntry { step, took_ns: took.into(), error });
        }
    }

    /// All steps; the log is empty afterwards.
    pub fn take(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, HostError};

    #[test]
    fn changes_are_noted_as_a_user_would_type_them() {
        let mut log = StepLog::default();
        let took = Duration::from_millis(3);
        let path = "/sys/block/loop1/queue/scheduler".into();
        log.note(&Request::ChangeSetting { path, text: "bfq\n".to_string() }, took, None);
        log.note(&Request::Loops {}, took, None);
        let program = Request::Run { command: Command::new("mkfs.ext4").args(["-L", "a b"]) };
        log.note(&program, took, Some("status 1".to_string()));
        let hung = HostError::Hung { action: "unmounting '/mnt'".to_string(), seconds: 5 };
        for from in [0, 1 << 20] {
            let (handle, node) = (crate::DeviceHandle(7), "/dev/sdb".into());
            log.note(&Request::FillDevice { handle, node, from, length: 1 << 20 }, took, None);
        }
        log.note(&Request::Unmount { target: "/mnt".into() }, took, Some(hung.to_string()));
        let steps = log.take();
        let shown: Vec<&str> = steps.iter().map(|step| step.step.as_str()).collect();
        let expected = [
            "echo bfq > /sys/block/loop1/queue/scheduler",
            "mkfs.ext4 -L 'a b'",
            "fill /dev/sdb with random data",
            "umount /mnt",
        ];
        assert_eq!(shown, expected);
        assert_eq!(steps[2].took_ns, Nanos::from(2 * took), "both pieces");
        assert_eq!(steps[1].error.as_deref(), Some("status 1"));
        assert!(steps[3].error.as_deref().is_some_and(|error| error.contains("5 s")));
        assert_eq!(log.take(), []);
    }
}
