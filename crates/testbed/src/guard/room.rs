//! Free space for all images of a trial together, where they are stored, and for the files of a trial in a
//! directory that is used as it is.
//!
//! An image counts with its full size, not with what the trees of the plan use: no filesystem is mounted with
//! `discard`, so every block that was written once stays allocated, and one that writes to new places (btrfs,
//! f2fs, nilfs2, or any with changing files) comes to use all of them in a window of unknown length. A full
//! host filesystem would break the trial, the store, and everything else on it.

use crate::error::{GuardRefusal, refusal};
use crate::spec::images;
use fsdyno_core::device::Image;
use fsdyno_core::reserve::reserve;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, meminfo};
use fsdyno_host::probe::Room;
use fsdyno_host::{Host, HostError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Images that need space in the same place.
#[derive(Default)]
struct Together<'a> {
    images: Vec<&'a Path>,
    size: Bytes,
}

impl<'a> Together<'a> {
    fn add(&mut self, path: &'a Path, size: Bytes) {
        self.images.push(path);
        self.size = Bytes(self.size.0.saturating_add(size.0));
    }
}

/// Why there may be too little space for the images of any of these configurations, or for `space` bytes of
/// files in a directory.
pub(super) fn refusals(
    host: &mut dyn Host,
    devices: &Devices,
    configurations: &[Configuration],
    space: Bytes,
) -> Vec<GuardRefusal> {
    let mut rooms: BTreeMap<PathBuf, Room> = BTreeMap::new();
    let mut refusals = Vec::new();
    if let DeviceSpec::Directory { path } = &devices.data {
        // One that cannot be used is refused for that reason.
        if let Err(HostError::System { errno: 0, reason, .. }) = host.verify_uncontested(path) {
            let why = format!("is not safe for root to work in: {reason}");
            let hint =
                "run fsdyno as the user whose directory it is, or name one of root's on that filesystem";
            refusals.push(refusal(path, why, hint));
        }
        refusals.extend(host.room(path).ok().and_then(|room| short_of_files(path, &room, space)));
    }
    for (path, _) in devices.all().flat_map(DeviceSpec::disks).filter_map(image) {
        match host.verify_directory(directory(path)).and_then(|()| host.room(directory(path))) {
            Ok(room) => {
                rooms.insert(directory(path).to_path_buf(), room);
            }
            Err(error) => {
                let hint = "name a path in an existing directory for data, such as /var/tmp";
                refusals.push(refusal(path, format!("cannot be created: {error}"), hint));
            }
        }
    }
    let mut most: BTreeMap<Option<(u32, u32)>, Together<'_>> = BTreeMap::new();
    for trial in trials(devices, configurations) {
        let mut places: BTreeMap<Option<(u32, u32)>, Together<'_>> = BTreeMap::new();
        for (path, size) in trial.into_iter().filter_map(image) {
            let Some(room) = rooms.get(directory(path)) else { continue };
            places.entry(Some(room.device)).or_default().add(path, size);
            if room.in_memory {
                places.entry(None).or_default().add(path, size);
            }
        }
        for (place, together) in places {
            if most.get(&place).is_none_or(|known| known.size < together.size) {
                most.insert(place, together);
            }
        }
    }
    for (place, together) in most {
        let found = match place {
            Some(device) => {
                rooms.values().find(|room| room.device == device).and_then(|room| short(&together, room))
            }
            None => short_of_memory(host, &together),
        };
        refusals.extend(found);
    }
    refusals
}

/// The disks of each trial; without any configuration those of the data device, which a trial always has.
fn trials<'a>(devices: &'a Devices, configurations: &[Configuration]) -> Vec<Vec<&'a DeviceSpec>> {
    let mut trials = vec![devices.data.disks()];
    for configuration in configurations {
        let disks = images(configuration, devices);
        if !trials.contains(&disks) {
            trials.push(disks);
        }
    }
    trials
}

fn image(disk: &DeviceSpec) -> Option<(&Path, Bytes)> {
    match disk {
        DeviceSpec::Image(Image { path, size, .. }) => Some((path, *size)),
        _ => None,
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The reserve, twice as much where the store or the undo journals are, and what is said about it.
fn reserved(room: &Room) -> (Bytes, String) {
    let times = if room.shared_with.is_empty() { 1 } else { 2 };
    let reserve = Bytes(reserve(room.size).0 * times);
    let kept_for = match &room.shared_with[..] {
        [] => String::new(),
        names => format!(" for the machine and {}", names.join(" and ")),
    };
    (reserve, format!("of the {} free there, {} is reserved{kept_for}", whole(room.free), whole(reserve)))
}

fn short(together: &Together<'_>, room: &Room) -> Option<GuardRefusal> {
    let (reserve, place) = reserved(room);
    refuse(together, room.free, reserve, &place, "name a path on another filesystem")
}

fn short_of_files(path: &Path, room: &Room, space: Bytes) -> Option<GuardRefusal> {
    let (reserve, place) = reserved(room);
    if space.0.saturating_add(reserve.0) <= room.free.0 {
        return None;
    }
    let reason = format!("has too little room: the plan's trees and writers need {space}, but {place}");
    let hint = "free some space, name a directory on another filesystem, or make tree_size and writer_space \
                smaller (bench: --tree-size SIZE and --set writer_space=SIZE; of a flow, count and size of its \
                files: --set files.NAME.count=N)";
    Some(refusal(path, reason, hint))
}

fn short_of_memory(host: &mut dyn Host, together: &Together<'_>) -> Option<GuardRefusal> {
    let text = host.read_text(Path::new("/proc/meminfo")).unwrap_or_default();
    let value = |key| meminfo::value(&text, key);
    let Some((total, available)) = value("MemTotal").zip(value("MemAvailable")) else {
        let hint = "name a path that is not in memory";
        let reason = "is in memory, and /proc/meminfo does not say how much of that is available";
        return together.images.first().map(|path| refusal(path, reason, hint));
    };
    let reserve = reserve(total);
    let place =
        format!("it is in memory, and of the {} available, {} is reserved", whole(available), whole(reserve));
    refuse(together, available, reserve, &place, "name a path on a disk")
}

fn refuse(
    together: &Together<'_>,
    free: Bytes,
    reserve: Bytes,
    place: &str,
    elsewhere: &str,
) -> Option<GuardRefusal> {
    if together.size.0.saturating_add(reserve.0) <= free.0 {
        return None;
    }
    let grows = match together.images.len() {
        0 | 1 => format!("can grow to {}", together.size),
        count => {
            format!("and {} other images of the same trial can together grow to {}", count - 1, together.size)
        }
    };
    let hint = format!("free some space, make the images smaller with --set, or {elsewhere}");
    together.images.first().map(|path| refusal(path, format!("{grows}, but {place}"), hint))
}

/// Whole mebibytes, for a person.
fn whole(size: Bytes) -> Bytes {
    Bytes(size.0 / Bytes::MIB * Bytes::MIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::device::{Bitmap, Md, RaidLevel};
    use fsdyno_testkit::fake::FakeHost;

    const GIB: u64 = Bytes::GIB;

    fn image(path: &str, size: u64) -> DeviceSpec {
        DeviceSpec::image(path, Bytes(size))
    }

    fn configuration(journal: &str) -> Configuration {
        let settings = [("journal".to_string(), journal.to_string())].into();
        Configuration { name: String::new(), filesystem: "ext4".to_string(), settings }
    }

    fn reasons(host: &mut FakeHost, devices: &Devices, journals: &[&str]) -> Vec<String> {
        let configurations: Vec<Configuration> =
            journals.iter().map(|journal| configuration(journal)).collect();
        let refusals = refusals(host, devices, &configurations, Bytes(0));
        assert!(
            refusals.iter().all(|refusal| refusal.hint.contains("make the images smaller")),
            "{refusals:#?}"
        );
        refusals
            .into_iter()
            .map(|refusal| format!("{} {}", refusal.device.display(), refusal.reason))
            .collect()
    }

    fn host(free: u64, size: u64) -> FakeHost {
        let mut host = FakeHost::new();
        host.space = (Bytes(free), Bytes(size));
        host
    }

    #[test]
    fn files_in_a_directory_need_their_space_and_leave_the_reserve() {
        let devices =
            Devices { data: DeviceSpec::Directory { path: "/data".into() }, journals: BTreeMap::new() };
        let mut host = host(75 * GIB, 100 * GIB);
        let refused = |space, host: &mut FakeHost| refusals(host, &devices, &[], Bytes(space * GIB));
        assert_eq!(refused(74, &mut host), []);
        let refusal = refused(900, &mut host).remove(0);
        let expected = "has too little room: the plan's trees and writers need 900G, but of the 75G free \
                        there, 1G is reserved";
        assert_eq!(refusal.reason, expected);
        assert!(refusal.hint.contains("--tree-size"), "{refusal:?}");
    }

    #[test]
    fn an_image_needs_its_size_and_the_machine_a_reserve() {
        let devices = Devices { data: image("/data/a.img", 8 * GIB), journals: BTreeMap::new() };
        assert_eq!(reasons(&mut host(9 * GIB, 100 * GIB), &devices, &[]), [""; 0]);
        let expected = "/data/a.img can grow to 8G, but of the 9215M free there, 1G is reserved";
        assert_eq!(reasons(&mut host(9 * GIB - 1, 100 * GIB), &devices, &["internal"]), [expected]);
        let small = Devices { data: image("/data/a.img", 95 << 20), journals: BTreeMap::new() };
        assert_eq!(reasons(&mut host(100 << 20, 100 << 20), &small, &[]), [""; 0], "5 % where that is less");
        assert_eq!(reasons(&mut host(99 << 20, 100 << 20), &small, &[]).len(), 1);
    }

    #[test]
    fn the_store_has_a_reserve_of_its_own() {
        let devices = Devices { data: image("/data/a.img", 8 * GIB), journals: BTreeMap::new() };
        let mut host = host(9 * GIB, 100 * GIB);
        host.shared_with = vec!["the store".to_string()];
        let reasons = reasons(&mut host, &devices, &[]);
        assert!(
            reasons[0].ends_with("free there, 2G is reserved for the machine and the store"),
            "{reasons:?}"
        );
    }

    #[test]
    fn images_of_one_trial_are_added_up_where_they_share_a_filesystem() {
        let disks = vec![image("/data/a.img", 4 * GIB), image("/tmp/b.img", 4 * GIB)];
        let data = DeviceSpec::Md(Md { level: RaidLevel::Raid1, chunk: None, bitmap: Bitmap::None, disks });
        let journals = [("one", "/data/one.img"), ("two", "/dev/shm/two.img")];
        let journals = journals.map(|(name, path)| (name.to_string(), image(path, GIB)));
        let devices = Devices { data, journals: journals.into() };
        let reasons =
            |free: u64, journals: &[&str]| reasons(&mut host(free * GIB, 20 * GIB), &devices, journals);
        assert_eq!(reasons(9, &["internal", "external:two"]), [""; 0], "a journal that lies elsewhere");
        let expected = "/data/a.img and 2 other images of the same trial can together grow to 9G, but of the \
            9G free there, 1G is reserved";
        assert_eq!(reasons(9, &["internal", "external:one"]), [expected]);
        assert_eq!(reasons(10, &["external:one", "external:two"]), [""; 0], "never both at once");
    }

    #[test]
    fn images_in_memory_are_held_against_memory() {
        let devices = |size: u64| Devices { data: image("/dev/shm/a.img", size), journals: BTreeMap::new() };
        let mut host = host(100 * GIB, 100 * GIB);
        assert_eq!(reasons(&mut host, &devices(6 * GIB), &[]), [""; 0]);
        let refused =
            "/dev/shm/a.img can grow to 8G, but it is in memory, and of the 8G available, 819M is reserved";
        assert_eq!(reasons(&mut host, &devices(8 * GIB), &[]), [refused]);
        host.write_setting("/proc/meminfo", "MemTotal: 1 kB\n");
        let silent = refusals(&mut host, &devices(GIB), &[], Bytes(0));
        assert!(silent[0].reason.contains("does not say"), "{silent:?}");
    }
}
