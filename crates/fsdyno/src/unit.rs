//! The systemd unit that runs `fsdyno restore` at boot.
//!
//! After a power cut, arrays and volumes of an interrupted sweep come up again on their own, from what it
//! wrote to disks. udev assembles them as soon as it sees the disks, so the unit runs before udev looks at
//! any, if the journals and the binary are on the root filesystem. If they are not, the unit must not be
//! waited for at that point: their filesystem needs a device, which appears through udev, and the machine
//! would wait for itself. Then the unit runs as soon as they are mounted.
//!
//! Disks that have not appeared at that moment stay in their journal, `restore` exits with 4, and systemd
//! runs it again.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where local units are stored (systemd.unit(5)).
pub const PATH: &str = "/etc/systemd/system/fsdyno-restore.service";

/// The facts that the unit depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The fsdyno binary.
    pub binary: PathBuf,
    /// The directory of state.
    pub state: PathBuf,
    /// `true` if both are on the root filesystem.
    pub early: bool,
}

impl Unit {
    /// The unit for this binary and this state.
    pub fn new(binary: PathBuf, state: PathBuf) -> Self {
        let early = [&binary, &state].into_iter().all(|path| is_on_root(path));
        Unit { binary, state, early }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let order = match self.early {
            true => "# Before udev sees any disk, and so before arrays and volumes are assembled.\n\
                     After=systemd-remount-fs.service\n\
                     Before=systemd-udev-trigger.service local-fs-pre.target mdmonitor.service \
                     lvm2-monitor.service\n"
                .to_string(),
            false => format!(
                "# The journals or the binary are not on the root filesystem: run as soon as they are \
                 mounted. Arrays may be\n# assembled by then; restore stops those of \
                 fsdyno.\nRequiresMountsFor={} {}\n",
                word(&self.state),
                word(&self.binary)
            ),
        };
        format!(
            "# Written by fsdyno restore --install-unit.\n\
             [Unit]\n\
             Description=Undo what an interrupted fsdyno sweep left on this machine\n\
             DefaultDependencies=no\n\
             Conflicts=shutdown.target\n\
             Before=shutdown.target\n\
             {order}\
             ConditionDirectoryNotEmpty={}/undo\n\
             StartLimitIntervalSec=600\n\
             StartLimitBurst=10\n\
             \n\
             [Service]\n\
             Type=oneshot\n\
             ExecStart={} --state {} restore\n\
             # Disks that appear later are waited for.\n\
             Restart=on-failure\n\
             RestartSec=10\n\
             TimeoutStartSec=300\n\
             \n\
             [Install]\n\
             WantedBy=sysinit.target\n",
            // A condition uses the rest of its line.
            self.state.to_string_lossy().replace('%', "%%"),
            word(&self.binary),
            word(&self.state)
        )
    }
}

/// A path as a word of a unit: `%` begins a specifier, `$` a variable (systemd.service(5)).
fn word(path: &Path) -> String {
    let text = path
        .to_string_lossy()
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    match text.contains([' ', '\t', '\'', '"', ';']) {
        true => format!("\"{text}\""),
        false => text,
    }
}

/// Returns whether a path, or its nearest existing parent directory, is on the root filesystem.
fn is_on_root(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
    path.ancestors().find_map(device) == device(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn unit(early: bool) -> Unit {
        Unit { binary: "/bin/true".into(), state: "/var/lib/fsdyno".into(), early }
    }

    #[test]
    fn only_what_is_on_the_root_filesystem_is_waited_for_by_udev() {
        let (early, late) = (unit(true).text(), unit(false).text());
        assert!(
            early.contains("Before=systemd-udev-trigger.service") && !early.contains("RequiresMountsFor")
        );
        assert!(
            late.contains("RequiresMountsFor=/var/lib/fsdyno /bin/true\n") && !late.contains("udev-trigger")
        );
        assert!(early.contains("ExecStart=/bin/true --state /var/lib/fsdyno restore\n"));
        assert!(is_on_root(Path::new("/")) && !is_on_root(Path::new("/proc/self/nothing/here")));
    }

    #[test]
    fn strange_paths_are_words() {
        assert_eq!(word(Path::new("/a b/50%$x")), "\"/a b/50%%$$x\"");
    }

    /// Without systemd there is nothing to check.
    #[test]
    fn systemd_takes_it() {
        for early in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("fsdyno-restore.service");
            std::fs::write(&path, unit(early).text()).unwrap();
            let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
            let Ok(verified) = verified else { return };
            let said = String::from_utf8_lossy(&verified.stderr);
            assert!(!said.contains("fsdyno-restore") && verified.status.success(), "{said}");
        }
    }
}
