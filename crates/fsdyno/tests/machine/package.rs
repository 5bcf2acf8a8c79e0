//! Installation, as a user does it: in a copy of this machine's root directory that an overlay makes and a
//! mount namespace of its own keeps to itself, so that nothing of it reaches the machine.

use crate::support::{Requirement, Sandbox, describe, install};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const OVERLAY: &[Requirement] =
    &[Requirement::Root, Requirement::Program("unshare"), Requirement::Filesystem("overlay")];

tests! {
    make_install_is_found_by_sudo_and_removed_again: OVERLAY;
    a_debian_package_is_installed_and_removed: &[
        Requirement::All(OVERLAY),
        Requirement::Program("dpkg"),
        Requirement::Program("cargo-deb"),
        Requirement::Soak,
    ];
}

/// Where sudo looks for programs on Debian (`secure_path` in sudoers).
const SECURE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs a script in the copy of the root directory; `/stage` is a directory of the sandbox. A fsdyno that
/// this machine's user has installed is removed from the copy first: it would answer for the one under test.
fn in_a_copy(sandbox: &Sandbox, script: &str) -> Output {
    for name in ["upper", "work", "copy", "stage"] {
        fs::create_dir_all(sandbox.path(name)).expect("a directory");
    }
    let remove = format!(
        "'{}/scripts/install' uninstall\n\
         if dpkg --status fsdyno >/dev/null 2>&1; then dpkg --purge fsdyno >/dev/null; fi\n",
        root().display()
    );
    sandbox.write("stage/script", &format!("{remove}{script}"));
    let prepare = "set -e; cd \"$1\"; mount -t tmpfs none \"$1/space\"; mkdir space/upper space/work; mount \
         -t overlay -o lowerdir=/,upperdir=space/upper,workdir=space/work none copy; mkdir -p copy/stage; \
         mount --bind stage copy/stage; mount -t proc none copy/proc; mount --bind /dev copy/dev; exec env \
         -i PATH=\"$2\" HOME=/root TERM=dumb chroot copy sh -e /stage/script";
    fs::create_dir_all(sandbox.path("space")).expect("a directory");
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", prepare, "sh"])
        .arg(sandbox.path(""))
        .arg(SECURE_PATH)
        .output()
        .expect("run unshare")
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The checks that an installation must pass, whoever made it; its unit is checked by systemd itself.
const WORKS: &str = "
fsdyno --version
fsdyno plans | grep -q '^which-filesystem$'
fsdyno-bisect-kernel 2>&1 | grep -q '^usage: fsdyno-bisect-kernel GOOD PLAN MEASURE'
man --path fsdyno fsdyno-sweep
man fsdyno | grep -q 'EXIT STATUS'
systemd-analyze verify --man=no \"$UNIT\" 2>&1 | grep fsdyno && exit 1
grep -q \"^ExecStart=$PROGRAM --state /var/lib/fsdyno restore$\" \"$UNIT\"
";

fn make_install_is_found_by_sudo_and_removed_again() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("stage")).expect("a directory");
    install(Path::new(env!("CARGO_BIN_EXE_fsdyno")), &sandbox.path("stage/fsdyno"));
    let script = format!(
        "cd '{}'\nexport PROGRAM=/stage/fsdyno\nscripts/install install\nPROGRAM=/usr/local/bin/fsdyno\n\
         UNIT=/usr/local/lib/systemd/system/fsdyno-restore.service\n{WORKS}\n\
         test -s /usr/local/share/bash-completion/completions/fsdyno\n\
         test -s /usr/local/share/doc/fsdyno/docs/reference/plan.md\n\
         scripts/install uninstall\n\
         ! find /usr/local -name '*fsdyno*' | grep .\n",
        root().display()
    );
    let said = succeeds(&in_a_copy(&sandbox, &script));
    assert!(said.contains("installed /usr/local/bin/fsdyno"), "{said}");
    // Debian's /usr/local/man is a link to share/man.
    assert!(said.contains("/man/man1/fsdyno-sweep.1"), "{said}");
}

fn a_debian_package_is_installed_and_removed() {
    let sandbox = Sandbox::new();
    let target = sandbox.path("target");
    for directory in ["release", "package"] {
        fs::create_dir_all(target.join(directory)).expect("a directory");
    }
    install(Path::new(env!("CARGO_BIN_EXE_fsdyno")), &target.join("release/fsdyno"));
    let output = Command::new(root().join("scripts/deb"))
        .arg("--fast")
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("run scripts/deb");
    let package = succeeds(&output).trim().to_string();
    fs::create_dir_all(sandbox.path("stage")).expect("a directory");
    fs::copy(&package, sandbox.path("stage/fsdyno.deb"))
        .unwrap_or_else(|error| panic!("'{package}': {error}"));
    let script = format!(
        "export DEBIAN_FRONTEND=noninteractive\ndpkg --force-confold -i /stage/fsdyno.deb\n\
         PROGRAM=/usr/bin/fsdyno\nUNIT=/lib/systemd/system/fsdyno-restore.service\n\
         test -e $UNIT || UNIT=/usr/lib/systemd/system/fsdyno-restore.service\n{WORKS}\n\
         test -e /etc/systemd/system/sysinit.target.wants/fsdyno-restore.service\n\
         dpkg --verify fsdyno\n\
         mkdir -p /var/lib/fsdyno/undo; touch /var/lib/fsdyno/undo/1.journal\n\
         dpkg --purge fsdyno\n! test -e /usr/bin/fsdyno\n! test -e /usr/bin/fsdyno-bisect-kernel\n! test -e /usr/share/man/man1/fsdyno.1.gz\n"
    );
    let output = in_a_copy(&sandbox, &script);
    let said = succeeds(&output);
    assert!(said.contains("/usr/share/man/man1/fsdyno-sweep.1"), "{said}");
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("run 'fsdyno restore' before removing it"), "{warned}");
}
