//! The messages of a guest: news of its engine, single answers, and all answers of a trial from the guards to
//! the check.

use crate::conversation::Conversation;
use fsdyno_core::device::{Bitmap, Md, RaidLevel};
use fsdyno_core::environment::Confinement;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::probe::{DeviceProbe, FileIdentity, LoopInfo, MountInfo, Room};
use fsdyno_host::remote::News;
use fsdyno_host::wire::understand;
use fsdyno_host::{AttachedLoop, DeviceHandle, Host, NewImage, Output, Request};
use fsdyno_testbed::{Testbed, TestbedError, UndoJournal};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

const DISKS: [&str; 2] = ["/dev/vda", "/dev/vdb"];
const SEED: u64 = 42;

/// A trial in a guest.
struct Trial {
    filesystem: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// `true` if the trial is on an array of both disks.
    on_array: bool,
}

const fn on_disk(filesystem: &'static str, settings: &'static [(&'static str, &'static str)]) -> Trial {
    Trial { filesystem, settings, on_array: false }
}

/// Trials that differ in their requests to a guest.
const TRIALS: &[Trial] = &[
    on_disk("ext4", &[("scheduler", "mq-deadline"), ("sysctl.vm.dirty_ratio", "5")]),
    on_disk("xfs", &[("mount", "noatime")]),
    on_disk("btrfs", &[("compress", "zstd")]),
    on_disk("f2fs", &[]),
    on_disk("nilfs2", &[]),
    Trial { filesystem: "ext4", settings: &[], on_array: true },
];

/// The first byte selects news of an engine (`n`), one answer (`a`), or all answers of a trial (any other
/// byte; `0` is the first of [`TRIALS`]).
pub fn lines(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind {
        b'n' => assert!(!format!("{:?}", News::understand(rest)).is_empty()),
        b'a' => answer(rest),
        kind => {
            let number = usize::from(kind.wrapping_sub(b'0')) % TRIALS.len();
            if let Err(error) = trial(number, &mut Conversation::new(rest)) {
                assert!(!error.failure().to_string().is_empty());
            }
        }
    }
}

/// Parses an answer as the answer to each kind of request.
fn answer(line: &[u8]) {
    let host = "guest";
    drop(understand::<()>(host, line));
    drop(understand::<bool>(host, line));
    drop(understand::<Output>(host, line));
    drop(understand::<Confinement>(host, line));
    drop(understand::<Option<PathBuf>>(host, line));
    drop(understand::<String>(host, line));
    drop(understand::<Vec<String>>(host, line));
    drop(understand::<Option<FileIdentity>>(host, line));
    drop(understand::<NewImage>(host, line));
    drop(understand::<AttachedLoop>(host, line));
    drop(understand::<Room>(host, line));
    drop(understand::<Vec<LoopInfo>>(host, line));
    drop(understand::<DeviceHandle>(host, line));
    drop(understand::<Vec<MountInfo>>(host, line));
    if let Err(error) = understand::<DeviceProbe>(host, line) {
        assert!(!error.to_string().is_empty());
    }
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        assert!(!request.to_string().is_empty());
    }
}

/// Runs a trial on a guest, from the guards to the check.
fn trial(number: usize, guest: &mut dyn Host) -> Result<(), TestbedError> {
    let Trial { filesystem, settings, on_array } = TRIALS[number];
    let settings = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string()));
    let configuration = Configuration {
        name: "fuzz".to_string(),
        filesystem: filesystem.to_string(),
        settings: settings.collect(),
    };
    let [first, second] = DISKS.map(DeviceSpec::block);
    let array_of = |disks| Md { level: RaidLevel::Raid1, chunk: None, bitmap: Bitmap::None, disks };
    let data = if on_array { DeviceSpec::Md(array_of(vec![first, second])) } else { first };
    build_and_check(guest, &configuration, &Devices { data, journals: BTreeMap::new() })
}

fn build_and_check(
    guest: &mut dyn Host,
    configuration: &Configuration,
    devices: &Devices,
) -> Result<(), TestbedError> {
    let disks = DISKS.map(PathBuf::from);
    let confirmation = fsdyno_testbed::guest::confirmation(configuration, &disks);
    let configurations = std::slice::from_ref(configuration);
    let _ = fsdyno_testbed::unmet(guest, configuration, devices);
    let testbed = Testbed::verify(guest, devices, configurations, Bytes(1 << 20), &confirmation)?;
    let testbed = testbed.with_blank_disks();
    let journal = &mut UndoJournal::in_memory();
    let stack =
        fsdyno_testbed::build(guest, journal, &testbed, configuration, SEED, &AtomicBool::new(false))?;
    let formatted = stack.format(guest)?;
    let mounted = formatted.mount(guest, journal)?;
    let _ = mounted.environment(guest);
    let _ = mounted.carriers(guest);
    let unmounted = mounted.unmount(guest, journal)?;
    let again = unmounted.mount_again(guest, journal)?;
    again.unmount(guest, journal)?.check(guest, journal)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::EngineRequest;
    use fsdyno_host::{Channel, EngineProcess, HostError};
    use fsdyno_testkit::fake::FakeHost;
    use std::{env, fs};

    /// A machine in memory whose answers are recorded.
    struct Recorder {
        host: FakeHost,
        answers: String,
        target: Option<String>,
    }

    impl Channel for Recorder {
        fn end(&self) -> String {
            "guest".to_string()
        }

        fn exchange(&mut self, request: &Request) -> Result<Vec<u8>, HostError> {
            if let Request::Mount { request } = request {
                self.target = Some(request.target.display().to_string());
            }
            let answer = request.carry_out(&mut self.host).expect("paths are UTF-8");
            let text = std::str::from_utf8(&answer).expect("JSON is UTF-8");
            let target = self.target.as_deref().unwrap_or("\0");
            self.answers.push_str(&text.replace(target, crate::conversation::TARGET));
            Ok(answer)
        }
    }

    impl Host for Recorder {
        fn name(&self) -> String {
            self.end()
        }

        fn start_engine(&mut self, _: &EngineRequest) -> Result<Box<dyn EngineProcess>, HostError> {
            Err(HostError::NoProgram { program: "engine".to_string() })
        }
    }

    fn recorder() -> Recorder {
        let mut host = FakeHost::new();
        for (minor, disk) in DISKS.iter().enumerate() {
            host.add_block(disk, (254, minor as u32), Bytes(4 * Bytes::GIB));
        }
        for program in ["mkfs.f2fs", "fsck.f2fs", "mkfs.nilfs2", "nilfs-tune"] {
            host.install(program, "1.0");
        }
        host.write_setting("/proc/filesystems", "\text4\n\txfs\n\tbtrfs\n\tf2fs\n\tnilfs2\n");
        host.write_setting("/proc/mdstat", "Personalities : [raid1]\n");
        Recorder { host, answers: String::new(), target: None }
    }

    /// If a seed stops at the first request, fuzzing reaches the rest of a trial only by chance.
    /// `FSDYNO_RECORD=1` records the seeds again, which is necessary after a change in the protocol or in the
    /// steps of a trial.
    #[test]
    fn each_trial_has_a_seed_that_takes_it_to_its_check() {
        for number in 0..TRIALS.len() {
            let seed =
                format!("{}/../../fuzz/corpus/guest-lines/seed-trial-{number}", env!("CARGO_MANIFEST_DIR"));
            if env::var_os("FSDYNO_RECORD").is_some() {
                let mut recorder = recorder();
                trial(number, &mut recorder).unwrap_or_else(|error| panic!("{number}: {}", error.failure()));
                fs::write(&seed, format!("{number}{}", recorder.answers)).expect("a seed");
            }
            let answers = fs::read(&seed).expect("a seed");
            let mut guest = Conversation::new(&answers[1..]);
            trial(number, &mut guest).unwrap_or_else(|error| panic!("{seed}: {}", error.failure()));
        }
    }
}
