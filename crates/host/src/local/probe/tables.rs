//! The devices that the system tables name: fstab(5) and crypttab(5), whose entries may be mounted or opened
//! at any time.
//!
//! An entry names a device by its path or by a tag (`UUID=`, `LABEL=`, `PARTUUID=`, `PARTLABEL=`, `ID=`). A
//! tag is looked up among udev's links, and compared with what was read from the device itself, for machines
//! without udev.

use super::users::Opened;
use crate::mountinfo;
use crate::probe::{Signature, Use};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Mount options that name further devices.
const DEVICE_OPTIONS: &[&str] = &["journal_path", "logdev", "rtdev", "device", "loop"];
/// Tags, and where udev keeps links for them.
const TAGS: &[(&str, &str)] = &[
    ("UUID", "by-uuid"),
    ("LABEL", "by-label"),
    ("PARTUUID", "by-partuuid"),
    ("PARTLABEL", "by-partlabel"),
    ("ID", "by-id"),
];

/// An entry that names a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableEntry {
    table: &'static str,
    purpose: String,
    device: DeviceName,
}

/// The name of a device in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DeviceName {
    Path(PathBuf),
    Tag(&'static str, String),
}

/// The facts that were read from a device that a tag may refer to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'a> {
    pub(super) signatures: &'a [Signature],
    /// Identifier and name of a partition, if it is one and the kernel reports them.
    pub(super) partition: Option<&'a Partition>,
}

/// A partition as its `uevent` in sysfs describes it: `PARTUUID` since Linux 6.13, `PARTNAME` if the table
/// has names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partition {
    uuid: Option<String>,
    name: Option<String>,
}

/// The entries of `/etc/fstab` and `/etc/crypttab` below a root.
pub(super) fn entries(root: &Path, unknown: &mut Vec<String>) -> Vec<TableEntry> {
    let mut read = |table: &str| match fs::read(root.join(table.trim_start_matches('/'))) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            unknown.push(format!("'{table}' cannot be read: {error}"));
            String::new()
        }
    };
    let (fstab, crypttab) = (read("/etc/fstab"), read("/etc/crypttab"));
    parse_fstab(&fstab).into_iter().chain(parse_crypttab(&crypttab)).collect()
}

fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect())
}

fn parse_fstab(text: &str) -> Vec<TableEntry> {
    let mut found = Vec::new();
    for fields in lines(text) {
        let purpose = match fields.get(1..3) {
            Some([_, "swap"]) => "swap".to_string(),
            _ => format!("'{}'", plain(fields.get(1).copied().unwrap_or_default()).to_string_lossy()),
        };
        let options = fields.get(3).copied().unwrap_or_default().split(',');
        let further = options.filter_map(|option| {
            let (key, value) = option.split_once('=')?;
            DEVICE_OPTIONS.contains(&key).then_some(value)
        });
        for name in fields.first().copied().into_iter().chain(further) {
            let entry = |device| TableEntry { table: "/etc/fstab", purpose: purpose.clone(), device };
            found.extend(named(name).map(entry));
        }
    }
    found
}

fn parse_crypttab(text: &str) -> Vec<TableEntry> {
    let entries = lines(text).filter_map(|fields| {
        let [name, device, ..] = fields[..] else { return None };
        Some(TableEntry {
            table: "/etc/crypttab",
            purpose: format!("the mapping '{name}'"),
            device: named(device)?,
        })
    });
    entries.collect()
}

/// `None` for something that is not a device of this machine: `tmpfs`, `server:/export`.
fn named(text: &str) -> Option<DeviceName> {
    let tag = TAGS.iter().find_map(|(tag, _)| Some((*tag, text.strip_prefix(tag)?.strip_prefix('=')?)));
    match tag {
        Some((tag, value)) => {
            Some(DeviceName::Tag(tag, plain(value.trim_matches('"')).to_string_lossy().into_owned()))
        }
        None => text.starts_with('/').then(|| DeviceName::Path(plain(text).into())),
    }
}

fn plain(text: &str) -> OsString {
    OsString::from_vec(mountinfo::unescape(text))
}

/// The uses that these entries make of a device, or of the file behind a loop device. `links` is where udev
/// keeps its links, `leads_here` determines whether a path leads to the device or the file.
pub(super) fn uses(
    entries: &[TableEntry],
    known: Known<'_>,
    links: &Path,
    leads_here: &dyn Fn(&Path) -> bool,
    unknown: &mut Vec<String>,
) -> Vec<Use> {
    let mut found: Vec<Use> = Vec::new();
    for TableEntry { table, purpose, device } in entries {
        let here = match device {
            DeviceName::Path(path) => leads_here(path),
            DeviceName::Tag(tag, value) => {
                let kind = TAGS.iter().find(|(name, _)| name == tag).map_or("", |(_, kind)| kind);
                let directory = links.join(kind);
                if tag.starts_with("PART") && !known.tells(tag) && !directory.exists() {
                    unknown.push(format!(
                        "whether {table} names it by {tag}={value}: no partition reports such a tag"
                    ));
                }
                leads_here(&directory.join(link_name(value))) || known.has(tag, value)
            }
        };
        let usage = Use::Configured { table: (*table).to_string(), purpose: purpose.clone() };
        if here && !found.contains(&usage) {
            found.push(usage);
        }
    }
    found
}

impl Known<'_> {
    fn has(&self, tag: &str, value: &str) -> bool {
        let same =
            |text: &Option<String>| text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case(value));
        match tag {
            "UUID" => self.signatures.iter().any(|signature| same(&signature.uuid)),
            "LABEL" => self.signatures.iter().any(|signature| signature.label.as_deref() == Some(value)),
            "PARTUUID" => self.partition.is_some_and(|partition| same(&partition.uuid)),
            "PARTLABEL" => self.partition.is_some_and(|partition| partition.name.as_deref() == Some(value)),
            _ => false,
        }
    }

    /// Returns whether a device without such a tag is known to have none.
    fn tells(&self, tag: &str) -> bool {
        match (self.partition, tag) {
            (None, _) => true,
            (Some(partition), "PARTUUID") => partition.uuid.is_some(),
            (Some(_), _) => true,
        }
    }
}

impl Partition {
    /// From `uevent`; `None` for a whole disk.
    pub(super) fn parse(uevent: &str) -> Option<Self> {
        let value = |key: &str| {
            uevent.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_string()))
        };
        (value("DEVTYPE").as_deref() == Some("partition"))
            .then(|| Partition { uuid: value("PARTUUID"), name: value("PARTNAME") })
    }
}

/// A tag's value as udev writes it into the name of a link.
fn link_name(value: &str) -> String {
    let mut name = String::new();
    for letter in value.chars() {
        if letter.is_ascii_alphanumeric() || "#+-.:=@_".contains(letter) || !letter.is_ascii() {
            name.push(letter);
        } else {
            name.push_str(&format!("\\x{:02x}", letter as u32));
        }
    }
    name
}

/// Returns the device or file that a path leads to, links followed.
pub(super) fn opened_at(path: &Path) -> Option<Opened> {
    let stat = rustix::fs::stat(path).ok()?;
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::BlockDevice => Some(Opened::Block(super::device_number(stat.st_rdev))),
        rustix::fs::FileType::RegularFile => {
            Some(Opened::File((super::device_number(stat.st_dev), stat.st_ino)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FSTAB: &str = "\
# <file system> <mount point> <type> <options> <dump> <pass>
UUID=124c21d8-1d18-475f-8d22-575ba5543d62 / ext4 errors=remount-ro 0 1
LABEL=\"my\\040data\"  /my\\040data xfs noauto,logdev=/dev/sdz1 0 2

PARTUUID=5f2d8c11-02 none swap sw 0 0
/dev/disk/by-id/x /srv btrfs device=/dev/sdb,device=/dev/sdc 0 0
tmpfs /tmp tmpfs size=1G 0 0
server:/export /mnt nfs defaults 0 0
";
    const CRYPTTAB: &str =
        "# name device key options\nsafe UUID=\"4711\" none luks\nscratch /dev/sdd /dev/urandom swap\n";

    fn used(known: Known<'_>, links: &Path, here: &[&str]) -> (Vec<String>, Vec<String>) {
        let entries: Vec<TableEntry> =
            parse_fstab(FSTAB).into_iter().chain(parse_crypttab(CRYPTTAB)).collect();
        let mut unknown = Vec::new();
        let leads_here = |path: &Path| here.iter().any(|one| Path::new(one) == path);
        let uses = uses(&entries, known, links, &leads_here, &mut unknown);
        let purposes = uses.into_iter().map(|usage| match usage {
            Use::Configured { table, purpose } => format!("{table} {purpose}"),
            other => panic!("{other:?}"),
        });
        (purposes.collect(), unknown)
    }

    #[test]
    fn entries_name_devices_by_path_and_by_option() {
        for (path, expected) in [
            ("/dev/sdz1", "/etc/fstab '/my data'"),
            ("/dev/disk/by-id/x", "/etc/fstab '/srv'"),
            ("/dev/sdc", "/etc/fstab '/srv'"),
            ("/dev/sdd", "/etc/crypttab the mapping 'scratch'"),
            ("/links/by-uuid/4711", "/etc/crypttab the mapping 'safe'"),
            ("/links/by-label/my\\x20data", "/etc/fstab '/my data'"),
            ("/links/by-partuuid/5f2d8c11-02", "/etc/fstab swap"),
        ] {
            let (found, _) = used(Known::default(), Path::new("/links"), &[path]);
            assert_eq!(found, [expected], "{path}");
        }
        assert_eq!(used(Known::default(), Path::new("/links"), &[]).0, [""; 0]);
    }

    #[test]
    fn tags_are_held_against_what_is_on_the_device() {
        let signature = |uuid: &str, label: &str| {
            let text = |text: &str| Some(text.to_string());
            Signature { uuid: text(uuid), label: text(label), ..Signature::new("ext4") }
        };
        let known = |signatures| Known { signatures, partition: None };
        let by_uuid = [signature("124C21D8-1d18-475f-8d22-575ba5543d62", "")];
        assert_eq!(used(known(&by_uuid), Path::new("/none"), &[]).0, ["/etc/fstab '/'"]);
        let by_label = [signature("", "my data")];
        assert_eq!(used(known(&by_label), Path::new("/none"), &[]).0, ["/etc/fstab '/my data'"]);
        let partition = Partition::parse("DEVTYPE=partition\nPARTN=2\nPARTUUID=5F2D8C11-02\n");
        let by_partition = Known { signatures: &[], partition: partition.as_ref() };
        assert_eq!(
            used(by_partition, Path::new("/none"), &[]),
            (vec!["/etc/fstab swap".to_string()], vec![])
        );
    }

    #[test]
    fn a_partition_that_does_not_tell_its_identifier_is_unknown() {
        let silent = Partition::parse("DEVTYPE=partition\nPARTN=2\n");
        let known = Known { signatures: &[], partition: silent.as_ref() };
        let (found, unknown) = used(known, Path::new("/none"), &[]);
        assert_eq!((found.len(), unknown.len()), (0, 1));
        assert!(unknown[0].contains("PARTUUID=5f2d8c11-02"), "{unknown:?}");
        let links = tempfile::tempdir().unwrap();
        fs::create_dir(links.path().join("by-partuuid")).unwrap();
        assert_eq!(used(known, links.path(), &[]).1, [""; 0], "udev tells");
        assert_eq!(Partition::parse("DEVTYPE=disk\n"), None);
    }

    #[test]
    fn tables_are_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        let mut unknown = Vec::new();
        assert_eq!(entries(root.path(), &mut unknown), []);
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/fstab"), FSTAB).unwrap();
        fs::write(root.path().join("etc/crypttab"), CRYPTTAB).unwrap();
        assert_eq!(entries(root.path(), &mut unknown).len(), 9);
        assert_eq!(unknown, [""; 0]);
        fs::remove_file(root.path().join("etc/fstab")).unwrap();
        fs::create_dir(root.path().join("etc/fstab")).unwrap();
        entries(root.path(), &mut unknown);
        assert!(unknown[0].contains("'/etc/fstab' cannot be read"), "{unknown:?}");
    }
}
