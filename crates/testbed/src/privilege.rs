//! The privileges that building filesystems takes and that a host lacks. User 0 is not root of the machine in
//! a user namespace (user_namespaces(7)), nor without the capability by which filesystems are mounted
//! (capabilities(7)).

use fsdyno_host::Host;
use std::path::Path;

/// CAP_SYS_ADMIN (include/uapi/linux/capability.h).
const SYS_ADMIN: u32 = 21;
/// The users of a namespace that are those of the machine: all of them, each with its own number.
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

/// Why steps on a host are not those of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingPrivilege {
    /// They are those of an ordinary user.
    #[error("this is an ordinary user")]
    Root,
    /// They are those of user 0 of a user namespace.
    #[error("user 0 of a user namespace is not root of the machine")]
    Namespace,
    /// They are those of root without the capability to mount filesystems.
    #[error("root without the capability CAP_SYS_ADMIN cannot mount filesystems")]
    Capability,
}

impl MissingPrivilege {
    /// That of a host; none if nothing is known about it.
    pub fn of(host: &mut dyn Host) -> Option<MissingPrivilege> {
        let mut read = |path: &str| host.read_text(Path::new(path)).ok();
        MissingPrivilege::by(&read("/proc/self/status")?, read("/proc/self/uid_map").as_deref())
    }

    /// That of a process with this `status` and, if the kernel has user namespaces, this `uid_map`.
    fn by(status: &str, uid_map: Option<&str>) -> Option<MissingPrivilege> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let user = field("Uid:")?.split_whitespace().nth(1)?;
        let effective = field("CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        match uid_map.map(|map| map.split_whitespace().collect::<Vec<_>>()) {
            _ if user != "0" => Some(MissingPrivilege::Root),
            Some(map) if map != ALL_USERS => Some(MissingPrivilege::Namespace),
            _ => effective.filter(|set| set >> SYS_ADMIN & 1 == 0).map(|_| MissingPrivilege::Capability),
        }
    }

    /// The error of a sweep that needs root.
    pub fn of_sweep(self) -> String {
        match self {
            MissingPrivilege::Root => "the sweep needs root: run it with sudo".to_string(),
            other => format!("the sweep needs root: {other}"),
        }
    }

    /// Returns the step that makes up for the lack.
    pub fn hint(self) -> &'static str {
        match self {
            MissingPrivilege::Root => "run it with sudo",
            MissingPrivilege::Namespace => {
                "run it as root outside of the namespace or the rootless container"
            }
            MissingPrivilege::Capability => {
                "run it outside of the container, or with all capabilities (--privileged, no bounding set)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_of_the_machine_with_its_capabilities_lacks_nothing() {
        let status = |user: u32, effective: &str| {
            format!("Name:\tfsdyno\nUid:\t{user}\t{user}\t{user}\t{user}\nCapEff:\t{effective}\n")
        };
        let (all, without) = ("000001ffffffffff", "000001ffffdfffff");
        let machine = Some("         0          0 4294967295\n");
        for (user, effective, map, lack) in [
            (0, all, machine, None),
            (0, all, None, None),
            (1000, "0000000000000000", machine, Some(MissingPrivilege::Root)),
            // unshare -Ur, and a rootless container.
            (0, all, Some("         0       1000          1\n"), Some(MissingPrivilege::Namespace)),
            (
                0,
                all,
                Some("         0       1000          1\n         1     100000      65536\n"),
                Some(MissingPrivilege::Namespace),
            ),
            (0, without, machine, Some(MissingPrivilege::Capability)),
            (0, without, None, Some(MissingPrivilege::Capability)),
        ] {
            assert_eq!(
                MissingPrivilege::by(&status(user, effective), map),
                lack,
                "{user} {effective} {map:?}"
            );
        }
    }
}
