use super::*;
use crate::Configuration;

#[test]
fn levels_that_mean_the_same_become_the_same_text() {
    let block_size = find("block_size").unwrap();
    assert_eq!(block_size.level("4096").unwrap().text, block_size.level("4K").unwrap().text);
    let barrier = find("barrier").unwrap();
    assert_eq!(barrier.level("true").unwrap().text, "1");
    assert_eq!(find("commit").unwrap().level("5").unwrap().text, "5");
}

#[test]
fn shares_are_whole_percent() {
    let fill = find("fill").unwrap();
    assert_eq!(fill.level("50").unwrap().text, fill.level(" 50 %").unwrap().text);
    for bad in ["0", "96%", "100%", "12.5%", "half"] {
        assert!(fill.level(bad).is_err(), "{bad}");
    }
}

#[test]
fn methods_of_compression_may_have_a_level() {
    let compress = find("compress").unwrap();
    for good in ["no", "ZSTD", "zstd:15", "zlib:1", "lzo"] {
        assert_eq!(compress.level(good).unwrap().text, good.to_lowercase());
    }
    for bad in ["zstd:16", "zstd:0", "zlib:10", "lzo:1", "zstd:", "zstd:3:3", "brotli"] {
        let error = compress.level(bad).unwrap_err().to_string();
        assert!(
            error.contains("one of no, zlib (zlib:1 to zlib:9), lzo, zstd (zstd:1 to zstd:15)"),
            "{error}"
        );
    }
}

#[test]
fn old_scheduler_names_map_with_a_note() {
    let level = find("scheduler").unwrap().level("cfq").unwrap();
    assert_eq!(level.text, "bfq");
    assert!(level.note.unwrap().contains("5.0"));
}

#[test]
fn an_unset_axis_has_the_default_of_its_filesystem() {
    let commit = find("commit").unwrap();
    assert_eq!(commit.default_level("ext4"), Some("5"));
    assert_eq!((commit.default_level("btrfs"), commit.default_level("xfs")), (Some("30"), None));
    assert!(commit.is_default("ext4", DEFAULT) && !commit.is_default("btrfs", "5"));
    assert_eq!(find("journal").unwrap().default_level("ext2"), Some("none"));
    assert_eq!(find("scheduler").unwrap().default_level("ext4"), None);
}

#[test]
fn unknown_words_name_the_nearest_known_one() {
    let error = find("schedular").unwrap_err();
    assert!(error.to_string().contains("did you mean 'scheduler'"), "{error}");
    let error = find("filesystem").unwrap().level("ZFS").unwrap_err().to_string();
    assert!(error.contains("needs zfs-dkms") && error.contains("fsdyno bench DIR"), "{error}");
    let error = find("scheduler").unwrap().level("bfg").unwrap_err();
    assert!(error.to_string().contains("did you mean 'bfq'"), "{error}");
    let error = find("filesystem").unwrap().level("ext5").unwrap_err().to_string();
    assert!(error.contains("did you mean 'ext4'"), "{error}");
}

#[test]
fn a_sysctl_key_is_an_axis() {
    assert!(find("sysctl.vm.dirty_ratio").is_ok());
    for bad in ["sysctl.", "sysctl./some/dir/file", "sysctl.vm/dirty_ratio", "sysctl...", "sysctl.vm..x"] {
        assert!(matches!(find(bad), Err(AxisError::SysctlKey { .. })), "{bad}");
    }
    let axis = find("sysctl.vm.dirty_ratio").unwrap();
    assert_eq!(axis.level(" 5 ").unwrap().text, "5");
    assert!(axis.level("5\nkernel.core_pattern = |/tmp/x").is_err());
}

#[test]
fn every_axis_is_declared_once_and_some_filesystem_has_it() {
    for (index, axis) in AXES.iter().enumerate() {
        assert!(AXES[..index].iter().all(|other| other.name != axis.name), "{} twice", axis.name);
        assert!(axis.filesystems().next().is_some(), "{}", axis.name);
        let default = axis.default.map(|level| axis.level(level).unwrap().text);
        assert_eq!(default.as_deref(), axis.default, "{}", axis.name);
    }
}

#[test]
fn axes_without_a_trace_decide_nothing_about_what_is_prepared() {
    let of_queue = QUEUE.iter().map(|attribute| attribute.axis);
    assert!(of_queue.chain(WITHOUT_TRACE).all(|name| find(name).is_ok() && !leaves_trace(name)));
    assert!(leaves_trace("data") && leaves_trace("sysctl.vm.dirty_ratio"));
    let of = |filesystem: &str, settings: &[(&str, &str)]| Configuration {
        name: String::new(),
        filesystem: filesystem.to_string(),
        settings: settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    };
    let plain = of("ext4", &[("scheduler", "bfq"), ("atime", "noatime"), ("data", DEFAULT)]);
    let like = of("ext4", &[("scheduler", "none"), ("barrier", "0")]);
    assert_eq!(plain.traces(), like.traces());
    for other in [of("xfs", &[]), of("ext4", &[("data", "journal")]), of("ext4", &[("mount", "noload")])] {
        assert_ne!(plain.traces(), other.traces(), "{other:?}");
    }
}
