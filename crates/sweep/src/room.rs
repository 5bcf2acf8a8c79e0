//! The reserve of the filesystems that a load fills: the guards have checked that everything fits, but others
//! write there too, and some loads take whatever is free.

use fsdyno_core::device::Image;
use fsdyno_core::reserve::reserve;
use fsdyno_core::{Bytes, DeviceSpec, Devices, Failure};
use fsdyno_host::Host;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval at which the free space is checked: a fast disk writes a reserve of 1 GiB in about this time.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time that a look may take. A filesystem that does not answer is the engine's problem, not this one's.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at the free space while a load runs.
pub(crate) struct RoomWatch {
    places: BTreeSet<PathBuf>,
    /// Absent before the first look: the space may have gone while the filesystem was made or a guest booted.
    looked: Option<Instant>,
}

impl RoomWatch {
    /// Of the filesystems with the images of these devices, or with the directory that is used as it is.
    pub fn over(devices: &Devices) -> Self {
        let parent = |path: &Path| path.parent().map(Path::to_path_buf);
        let places = devices.all().flat_map(DeviceSpec::disks).filter_map(|disk| match disk {
            DeviceSpec::Image(Image { path, .. }) => parent(path),
            DeviceSpec::Directory { path } => Some(path.clone()),
            _ => None,
        });
        RoomWatch { places: places.collect(), looked: None }
    }

    /// Also of the filesystem with this directory.
    pub fn watch_too(&mut self, directory: &Path) {
        self.places.insert(directory.to_path_buf());
    }

    /// Why the load must stop, if it is time to look and a reserve is no longer free.
    pub fn look(&mut self, host: &mut dyn Host) -> Option<Failure> {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return None;
        }
        self.looked = Some(Instant::now());
        host.limit_steps(Some(PATIENCE));
        let short = self.places.iter().find_map(|place| short(place, host));
        host.limit_steps(None);
        short
    }
}

fn short(place: &Path, host: &mut dyn Host) -> Option<Failure> {
    let room = host.room(place).ok()?;
    let least = reserve(room.size);
    if room.free >= least {
        return None;
    }
    let whole = |size: Bytes| Bytes(size.0 / Bytes::MIB * Bytes::MIB);
    let (free, least) = (whole(room.free), whole(least));
    let message = format!(
        "stopped because '{}' has only {free} free, less than the reserve of {least}",
        place.display()
    );
    let mut failure = Failure::new("reserve", message);
    failure.hint = Some("free some space, or make the images or trees smaller".to_string());
    Some(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::fake::FakeHost;

    #[test]
    fn a_load_stops_before_the_reserve_is_used_up() {
        let data = DeviceSpec::image("/data/a.img", Bytes(Bytes::GIB));
        let mut watch = RoomWatch::over(&Devices { data, journals: Default::default() });
        let mut host = FakeHost::new();
        host.space = (Bytes(400 * Bytes::MIB), Bytes(10 * Bytes::GIB));
        let failure = watch.look(&mut host).expect("the first look is at once");
        assert!(watch.look(&mut host).is_none(), "it is not yet time");
        let expected = "stopped because '/data' has only 400M free, less than the reserve of 512M";
        assert_eq!(failure.message, expected);
        host.space.0 = Bytes(512 * Bytes::MIB);
        watch.looked = Some(Instant::now() - INTERVAL);
        assert!(watch.look(&mut host).is_none());
    }
}
