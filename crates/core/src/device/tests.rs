use super::*;

fn image(path: &str, size: u64) -> DeviceSpec {
    DeviceSpec::image(path, Bytes(size))
}

fn md(level: RaidLevel, sizes: &[u64]) -> DeviceSpec {
    let disks = sizes.iter().map(|size| image("/image", *size)).collect();
    DeviceSpec::Md(Md { level, chunk: None, bitmap: Bitmap::None, disks })
}

#[test]
fn the_capacity_of_a_stack_depends_on_its_level() {
    let cases = [
        (RaidLevel::Raid0, [4, 6, 8, 8], 26),
        (RaidLevel::Raid1, [4, 6, 8, 8], 4),
        (RaidLevel::Raid5, [4, 6, 8, 8], 12),
        (RaidLevel::Raid6, [4, 6, 8, 8], 8),
        (RaidLevel::Raid10, [4, 6, 8, 8], 8),
    ];
    for (level, sizes, holds) in cases {
        assert_eq!(md(level, &sizes).size(), Some(Bytes(holds)), "{}", level.name());
    }
    assert_eq!(md(RaidLevel::Raid10, &[4, 4, 4]).size(), Some(Bytes(6)));
    let block = DeviceSpec::block("/dev/sdb");
    let disks = vec![image("/a", 1), block];
    assert_eq!(DeviceSpec::Lvm(Lvm { stripes: 2, stripe_size: None, disks }).size(), None);
}

#[test]
fn shares_of_members_hold_the_whole() {
    for level in RaidLevel::ALL {
        let stack = md(*level, &[0; 4]);
        for whole in [1, 100, 1 << 40] {
            let share = stack.share_of(Bytes(whole)).0;
            assert!(md(*level, &[share; 4]).size().unwrap().0 >= whole, "{}", level.name());
            let less = share.saturating_sub(1);
            assert!(md(*level, &[less; 4]).size().unwrap().0 < whole, "{}", level.name());
        }
    }
}

#[test]
fn a_stack_is_displayed_with_its_members() {
    let delay = Delay { read: Nanos::from_millis(5), ..Delay::default() };
    let slow = DeviceSpec::Delayed(Delayed { delay, disk: Box::new(image("/b", 4 << 30)) });
    let disks = vec![image("/a", 4 << 30), slow];
    let level = RaidLevel::Raid1;
    let mirror = DeviceSpec::Md(Md { level, chunk: None, bitmap: Bitmap::Internal, disks });
    assert_eq!(mirror.to_string(), "md raid1, bitmap of 4G + 4G delayed by read 5ms, write 0ms, flush 0ms");
    assert_eq!(md(RaidLevel::Raid0, &[4 << 30; 2]).to_string(), "md raid0 of 2 x 4G");
    assert_eq!(mirror.path(), Path::new("/a"));
    let paths: Vec<_> = mirror.disks().iter().map(|disk| disk.path().to_path_buf()).collect();
    assert_eq!(paths, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(mirror.layers().len(), 2);
}

#[test]
fn a_stack_can_move_to_other_disks() {
    let one = md(RaidLevel::Raid5, &[1, 1, 1]);
    let block = |_: &DeviceSpec| Ok::<_, ()>(DeviceSpec::block("/dev/vda"));
    let other = one.on_other_disks(&mut { block }).unwrap();
    assert!(other.is_of_blocks() && !other.is_of_images() && other.disks().len() == 3);
    assert_eq!(one.on_other_disks(&mut |_| Err("none")), Err("none"));
}
