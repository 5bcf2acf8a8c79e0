//! `scripts/fsdyno-bisect-kernel` tells `git bisect run` what it needs to know: on stored sweeps with known
//! differences, without building or booting anything.

use fsdyno_core::{Failure, Outcome, TrialRecord};
use fsdyno_store::{NewSweep, Store};
use fsdyno_testkit as fixture;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A repository with one commit, packed sweeps for the kernel of the commit, and a stored one that is good.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Tree(tempfile::tempdir().expect("a directory"));
        let trials = |factor: f64| fixture::blocks(0, "ext4", 6, factor);
        let mut failed = trials(1.0);
        for trial in &mut failed {
            trial.outcome = Outcome::Failed { error: Failure::new("boot", "the guest panicked") };
        }
        tree.store("good", "good", &trials(1.0));
        for (name, trials) in [("same", trials(1.0)), ("slow", trials(0.5)), ("failed", failed)] {
            // The name that the script gives to a sweep follows from the commit.
            tree.store(name, "placeholder", &trials);
        }
        for arguments in [
            &["init", "-q"][..],
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"],
        ] {
            let git =
                Command::new("git").args(arguments).current_dir(tree.0.path()).output().expect("git runs");
            assert!(git.status.success(), "{git:?}");
        }
        // Instead of sweeping, it takes over what was measured elsewhere.
        let program = format!(
            "#!/bin/sh\n\
             case $1 in sweep) {fsdyno} unpack $2 --name \"${{4#name=}}\" || exit 2; exit ${{SWEPT:-0}};; \
             esac\nexec {fsdyno} \"$@\"\n",
            fsdyno = format_args!(
                "'{}' --store '{}'",
                env!("CARGO_BIN_EXE_fsdyno"),
                tree.path("good.db").display()
            )
        );
        fs::write(tree.path("fsdyno"), program).expect("a program");
        fs::set_permissions(tree.path("fsdyno"), fs::Permissions::from_mode(0o755)).expect("its mode");
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A sweep in a store of its own, and packed.
    fn store(&self, file: &str, name: &str, trials: &[TrialRecord]) {
        let mut store = Store::open(&self.path(&format!("{file}.db"))).expect("a store");
        let sweep = NewSweep {
            name: name.to_string(),
            plan_toml: String::new(),
            overrides: Vec::new(),
            seed: 42,
            measure: "read".to_string(),
            environment: None,
            cases: 1,
            trials: trials.len() as u32,
        };
        let id = store.create_sweep(&sweep).expect("a sweep");
        for (number, trial) in (0..).zip(trials) {
            store.add_trial(id, &TrialRecord { trial: number, ..trial.clone() }).expect("a trial");
        }
        store.finish_sweep(id).expect("its end");
        let packed = fs::File::create(self.path(file)).expect("a file");
        store.pack(id, packed).expect("packed");
    }

    fn bisect(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fsdyno-bisect-kernel");
        Command::new(script)
            .args(arguments)
            .env("FSDYNO", self.path("fsdyno"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("BUILD", "true")
            .envs(variables.iter().copied())
            .current_dir(self.0.path())
            .output()
            .expect("the script runs")
    }

    fn code(&self, arguments: &[&str], variables: &[(&str, &str)]) -> i32 {
        let output = self.bisect(arguments, variables);
        output.status.code().unwrap_or_else(|| panic!("{output:?}"))
    }
}

#[test]
fn a_commit_is_good_bad_or_cannot_be_tested() {
    let tree = Tree::new();
    assert_eq!(tree.code(&["good", "same", "read"], &[]), 0);
    assert_eq!(tree.code(&["good", "slow", "read"], &[]), 1);
    assert_eq!(tree.code(&["good", "failed", "read"], &[]), 125, "nothing to compare");
    assert_eq!(tree.code(&["good", "same", "read"], &[("SWEPT", "1")]), 125, "a trial failed");
    assert_eq!(tree.code(&["good", "same", "read"], &[("BUILD", "false")]), 125);
}

#[test]
fn what_no_other_commit_would_change_stops_git() {
    let tree = Tree::new();
    assert_eq!(tree.code(&["good", "same"], &[]), 255);
    assert_eq!(tree.code(&["goood", "same", "read"], &[]), 255);
    assert_eq!(tree.code(&["good", "same", "raed"], &[]), 255);
    assert_eq!(tree.code(&["good", "absent", "read"], &[]), 255, "the plan");
    assert_eq!(tree.code(&["good", "same", "read"], &[("SWEPT", "3")]), 255);
    assert_eq!(tree.code(&["good", "same", "read"], &[("SWEPT", "130")]), 130);
}
