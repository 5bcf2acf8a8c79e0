use super::*;

#[test]
fn a_line_can_be_given_to_a_shell() {
    for (word, line) in [
        ("--uuid=1:2,x@y", "--uuid=1:2,x@y"),
        ("", "''"),
        ("/srv/my data.img", "'/srv/my data.img'"),
        ("a;b", "'a;b'"),
        ("it's", r"'it'\''s'"),
        ("0 $(blockdev --getsz /dev/sdb) delay", "\"0 $(blockdev --getsz /dev/sdb) delay\""),
    ] {
        assert_eq!(quoted(word), line);
    }
    let request = MountRequest {
        filesystem: "ext4".to_string(),
        source: "/dev/loop1".into(),
        device: None,
        options: vec!["noatime".to_string(), "data=(x)".to_string()],
        target: "/mnt/a b".into(),
    };
    assert_eq!(request.line(), "mount -t ext4 -o 'noatime,data=(x)' /dev/loop1 '/mnt/a b'");
}
