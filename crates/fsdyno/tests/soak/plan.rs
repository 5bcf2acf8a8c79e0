//! Small plans that change everything that a sweep can change on a machine.

use crate::area::Scratch;
use fsdyno_core::axis::{self, Levels, QUEUE};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The place where a plan creates filesystems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    Image,
    /// With a journal on a second image.
    Images,
    /// A loop device that is named as a disk.
    Block,
    /// Two of them, the second for journals.
    Blocks,
    Directory,
    /// An array or a volume, in a virtual machine.
    InGuest,
}

impl Device {
    pub fn any(random: &mut Xoshiro256PlusPlus) -> Self {
        use Device::*;
        *[Image, Image, Images, Images, Block, Block, Blocks, Directory].choose(random).expect("a list")
    }

    /// Returns the number of disks that it needs.
    pub fn disks(self) -> usize {
        match self {
            Device::Block => 1,
            Device::Blocks => 2,
            _ => 0,
        }
    }
}

/// A plan, and the further arguments that it needs.
pub struct SmallPlan {
    pub text: String,
    pub arguments: Vec<String>,
    pub in_guest: bool,
}

impl SmallPlan {
    pub fn any(random: &mut Xoshiro256PlusPlus, device: Device, scratch: &Scratch) -> Self {
        let mut text = format!("seed = {}\ntelemetry = false\nwatchdog = \"5s\"\n", random.random::<u32>());
        text.push_str(&devices(random, device, scratch));
        if device != Device::Directory {
            text.push_str(&axes(random, device));
        }
        text.push_str(workload(random));
        let disks = scratch.nodes().into_iter().flat_map(|node| ["--destroy".to_string(), node]);
        SmallPlan { text, arguments: disks.collect(), in_guest: device == Device::InGuest }
    }
}

fn devices(random: &mut Xoshiro256PlusPlus, device: Device, scratch: &Scratch) -> String {
    let path = |name: &str| scratch.directory().join(name).display().to_string();
    let size = *["320M", "400M", "512M"].choose(random).expect("a list");
    let direct = random.random_bool(0.5);
    let image =
        format!("[device]\nimage = \"{}\"\nsize = \"{size}\"\ndirect_io = {direct}\n", path("data.img"));
    let nodes = scratch.nodes();
    match device {
        Device::Image => image,
        Device::Images => {
            let journal = path("journal.img");
            format!("{image}[device.journals]\nside = {{ image = \"{journal}\", size = \"64M\" }}\n")
        }
        Device::Block => format!("[device]\nblock = \"{}\"\n", nodes[0]),
        Device::Blocks => {
            format!(
                "[device]\nblock = \"{}\"\n[device.journals]\nside = {{ block = \"{}\" }}\n",
                nodes[0], nodes[1]
            )
        }
        Device::Directory => format!("[device]\ndirectory = \"{}\"\n", scratch.directory().display()),
        Device::InGuest => {
            let kind = *[
                "[device.md]\nlevel = \"raid1\"",
                "[device.md]\nlevel = \"raid5\"",
                "[device.lvm]\nstripes = 3",
            ]
            .choose(random)
            .expect("a list");
            format!("{kind}\ndisks = {{ image = \"{}\", size = \"192M\", count = 3 }}\n", path("disk.img"))
        }
    }
}

fn axes(random: &mut Xoshiro256PlusPlus, device: Device) -> String {
    let filesystems: Vec<&str> = match device {
        Device::InGuest => vec!["ext4"],
        _ => ["ext2", "ext3", "ext4", "xfs", "btrfs"].sample(random, 2).copied().collect(),
    };
    let mut axes = format!("[axes]\nfilesystem = {filesystems:?}\n");
    for attribute in QUEUE.iter().filter(|_| random.random_bool(0.3)).collect::<Vec<_>>() {
        let levels = match axis::find(attribute.axis).expect("an axis").levels {
            Levels::Words(words) => words,
            Levels::Count => &["64"],
            Levels::Size => &["256k"],
            other => panic!("no level of {} is known: {other:?}", attribute.axis),
        };
        let level = levels.choose(random).expect("a list");
        axes.push_str(&format!("{} = \"{level}\"\n", attribute.axis));
    }
    let mut axis = |share: f64, text: &str| {
        if random.random_bool(share) {
            axes.push_str(text);
        }
    };
    axis(0.3, "atime = \"noatime\"\n");
    axis(0.4, "\"sysctl.vm.dirty_ratio\" = \"11\"\n");
    axis(0.2, "\"sysctl.vm.swappiness\" = \"33\"\n");
    match device {
        Device::InGuest => axes.push_str("kernel = \"debian:6.1\"\n"),
        Device::Images | Device::Blocks => {
            for filesystem in filesystems.iter().filter(|name| ["ext3", "ext4", "xfs"].contains(*name)) {
                axes.push_str(&format!("[axes.{filesystem}]\njournal = \"external\"\n"));
            }
        }
        _ => {}
    }
    axes
}

fn workload(random: &mut Xoshiro256PlusPlus) -> &'static str {
    [
        "[[workloads]]\nkind = \"fileserver\"\ntree_size = \"4M\"\nreaders = 1\nwriters = 1\n\
         writer_space = \"8M\"\nramp = 0\nwindow = \"50ms\"\n",
        "[[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"50ms\"\n",
        "[[workloads]]\nkind = \"streaming\"\nfile_size = \"4M\"\nbs = \"64k\"\n\
         stages = [\"write\", \"read\"]\n",
    ]
    .choose(random)
    .expect("a list")
}
