//! The ways in which a filesystem that spreads over several disks keeps data or metadata on them (btrfs-progs
//! 6.2, `btrfs_raid_array`).

use crate::hazard::Hazard;

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaidProfile {
    /// Its name in plans, and for mkfs.btrfs.
    pub name: &'static str,
    /// The fewest disks that it needs.
    pub least_disks: usize,
    /// The number of copies of each block.
    pub copies: u32,
    /// The number of disks of each stripe that hold parity.
    pub parity: u32,
}

const fn profile(name: &'static str, least_disks: usize, copies: u32, parity: u32) -> RaidProfile {
    RaidProfile { name, least_disks, copies, parity }
}

/// Every profile that a plan can name.
pub const PROFILES: [RaidProfile; 7] = [
    profile("single", 1, 1, 0),
    profile("dup", 1, 2, 0),
    profile("raid0", 2, 1, 0),
    profile("raid1", 2, 2, 0),
    profile("raid10", 2, 2, 0),
    profile("raid5", 2, 1, 1),
    profile("raid6", 3, 1, 2),
];

/// Their names.
pub const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = PROFILES[index].name;
        index += 1;
    }
    names
};

/// The effect of the profiles on what survives a power cut (btrfs(5), "RAID56 status and known problems").
pub const HAZARD: Hazard = Hazard::By(&[
    (&["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10"], Hazard::Harmless),
    (
        &["raid5", "raid6"],
        Hazard::Weakens(
            "profile = raid5 or raid6: a power cut may leave parity that does not match (write hole)",
        ),
    ),
]);

/// The profile of this name.
pub fn find(name: &str) -> Option<&'static RaidProfile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

impl RaidProfile {
    /// Returns the number of bytes written to this many disks for each byte of data.
    pub fn written_per_byte(&self, disks: usize) -> f64 {
        let (disks, parity) = (disks as f64, f64::from(self.parity));
        f64::from(self.copies) * disks / (disks - parity).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_parity_are_written_too() {
        let written = |name: &str, disks| find(name).unwrap().written_per_byte(disks);
        assert_eq!((written("single", 3), written("raid0", 3), written("dup", 1)), (1.0, 1.0, 2.0));
        assert_eq!((written("raid1", 3), written("raid10", 4)), (2.0, 2.0));
        assert_eq!((written("raid5", 3), written("raid6", 4)), (1.5, 2.0));
    }
}
