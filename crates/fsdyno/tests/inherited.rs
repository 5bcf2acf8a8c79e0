//! The state that fsdyno inherits from whoever starts it: signals, limits, capabilities, namespaces, and
//! pipes as inputs. It must work all the same, or say what is in the way and change nothing.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of state, and one to measure.
struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Lab { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(lab.path("work")).expect("a directory");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a plan, and returns its path.
    fn plan(&self, text: &str) -> String {
        fs::write(self.path("plan.toml"), text).expect("a plan");
        self.path("plan.toml").display().to_string()
    }

    /// One whose device is a directory, which needs no root.
    fn plan_of_a_directory(&self, more: &str) -> String {
        let work = self.path("work");
        self.plan(&format!(
            "repetitions = 1\n[device]\ndirectory = {work:?}\n[[workloads]]\nkind = \"null\"\nramp = 0\n\
             window = \"100ms\"\n{more}"
        ))
    }

    /// One that needs root, and its image.
    fn plan_of_an_image(&self) -> (String, PathBuf) {
        let image = self.path("scratch.img");
        let plan = self.plan(&format!(
            "repetitions = 1\n[device]\nimage = {image:?}\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n\
             [[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"100ms\"\n"
        ));
        (plan, image)
    }

    /// fsdyno, started by a program with its own arguments: `env --ignore-signal`, `sh -c '...'`.
    fn started_by(&self, starter: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(env!("CARGO_BIN_EXE_fsdyno")).args(arguments);
        command.arg("--state").arg(self.path("state")).env_remove("XDG_STATE_HOME");
        command
    }
}

/// Code, stdout and stderr.
fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("run fsdyno");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Returns whether a program exists that changes what is inherited; without it there is nothing to test.
fn works(starter: &[&str]) -> bool {
    let output = Command::new(starter[0]).args(&starter[1..]).arg("true").output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn signals_that_the_parent_ignores_or_blocks_change_nothing_for_fsdyno_and_what_it_starts() {
    let lab = Lab::new();
    let seen = lab.path("seen");
    let hook = format!(
        "[hooks]\nbefore_trial = \"sh -c 'grep -E Sig[BI] /proc/self/status >{}'\"\n",
        seen.display()
    );
    let plan = lab.plan_of_a_directory(&hook);
    let all = ["env", "--ignore-signal", "--block-signal"];
    let (code, out, err) = said(&mut lab.started_by(&all, &["sweep", &plan, "--allow-hooks"]));
    assert_eq!(code, Some(0), "{out}{err}");
    let seen = fs::read_to_string(seen).expect("what the hook wrote");
    let set = |name: &str| {
        let set = seen.lines().find_map(|line| line.strip_prefix(name)).expect("a set of signals");
        u64::from_str_radix(set.trim(), 16).expect("a number")
    };
    // What nohup(1) ignores stays ignored. Signals 32 and 33 belong to libc (nptl(7)).
    let of_libc = 0b11 << 31;
    assert_eq!((set("SigBlk:"), set("SigIgn:") & !of_libc), (0, 1), "{seen}");
}

#[test]
fn a_signal_that_the_parent_blocks_ends_it_all_the_same() {
    let lab = Lab::new();
    let work = lab.path("work").display().to_string();
    let bench = ["bench", &work, "--tree-size", "4M", "--ramp", "0s", "--window", "1h"];
    let mut bench = lab.started_by(&["env", "--block-signal=TERM"], &bench);
    let mut child = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run fsdyno");
    while fs::read_dir(lab.path("work")).expect("the directory").count() == 0 {
        assert!(child.try_wait().expect("a look").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    assert_eq!(child.wait().expect("its end").code(), Some(130));
}

#[test]
fn a_limit_that_leaves_too_little_is_raised_or_refused_by_its_name() {
    let lab = Lab::new();
    let plan = lab.plan_of_a_directory("");
    let shell = |limit: String| ["sh".to_string(), "-c".into(), format!("{limit} && exec \"$0\" \"$@\"")];
    let run = |limit: String, arguments: &[&str]| {
        let shell = shell(limit);
        said(&mut lab.started_by(&shell.each_ref().map(String::as_str), arguments))
    };
    let commands: [&[&str]; 4] = [&["plan", &plan], &["doctor"], &["sweep", &plan], &["show"]];
    for command in commands {
        for (limit, what) in
            [("-s 64", "the stack is limited to 64 KiB"), ("-s 200", "the stack is limited to 200 KiB")]
        {
            let (code, out, err) = run(format!("ulimit {limit}"), command);
            assert_eq!((code, out.as_str()), (Some(3), ""), "{command:?}: {err}");
            assert!(err.contains(what) && err.contains("hint: ulimit -s "), "{err}");
        }
        for files in (5..64).step_by(if command[0] == "plan" { 1 } else { 13 }) {
            let (code, out, err) = run(format!("ulimit -n {files}"), command);
            assert_eq!((code, out.as_str()), (Some(3), ""), "{command:?}, {files}: {err}");
            let what = format!("open files are limited to {files}, and fsdyno needs ");
            assert!(err.contains(&what) && err.contains("hint: ulimit -n "), "{err}");
        }
    }
    for limit in ["-S -s 64", "-S -n 12", "-s 1024", "-n 128"] {
        let (code, out, err) = run(format!("ulimit {limit}"), &["sweep", &plan]);
        assert_eq!(code, Some(0), "{limit}: {out}{err}");
    }
}

#[test]
fn no_input_that_is_a_named_pipe_is_waited_for() {
    let lab = Lab::new();
    let pipe = lab.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a pipe");
    let pipe = pipe.display().to_string();
    let profile = format!("[[workloads]]\nkind = \"fileserver\"\ntree = \"profile:{pipe}\"\n");
    let of_profile = lab.plan_of_a_directory(&profile);
    let commands: [&[&str]; 14] = [
        &["unpack", &pipe],
        &["import", "fio", &pipe],
        &["import", "fsopbench", &pipe],
        &["import", "bonnie-csv", &pipe],
        &["import", "table", &pipe],
        &["plan", &pipe],
        &["plan", &of_profile],
        &["sweep", &pipe],
        &["durability", &pipe],
        &["doctor", "--device", &pipe],
        &["show", "--store", &pipe],
        &["list", "--store", &pipe],
        &["bench", &pipe],
        &["agent", "--join", "127.0.0.1:1", "--token-file", &pipe],
    ];
    for command in commands {
        let (_, out, err) = said(&mut lab.started_by(&["env"], command));
        assert!(err.contains("error: ") && err.contains(&pipe), "{command:?}: {out}{err}");
    }
}

#[test]
fn a_machine_that_has_been_up_for_a_year_or_a_minute_measures() {
    let lab = Lab::new();
    let plan = lab.plan_of_a_directory("");
    let uptime = fs::read_to_string("/proc/uptime").expect("the time since the start");
    let uptime: f64 = uptime.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("seconds");
    for offset in ["31536000".to_string(), format!("-{}", uptime as u64 - 60)] {
        let starter = ["unshare", "-T", "--monotonic", &offset, "--boottime", &offset];
        if works(&starter) {
            let (code, out, err) = said(&mut lab.started_by(&starter, &["sweep", &plan]));
            assert_eq!(code, Some(0), "{offset}: {out}{err}");
        }
    }
}

/// Files that take many times their size of memory: each is refused by what is wrong with it, long before the
/// memory of a small machine is used up.
#[test]
fn no_import_takes_more_memory_than_a_small_machine_has() {
    // In MiB, a little less than a power of 2, as buffers grow; the limit below is 25 times that, the program
    // included.
    const SIZE: usize = 30;
    let lab = Lab::new();
    let file = lab.path("hostile").display().to_string();
    let many = |text: &str, size: usize| text.repeat((size << 20) / text.len());
    let wide = format!("{}value\n", many(",", SIZE));
    let jobs =
        format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{}{{}}]}}", many("{\"jobname\":\"a\"},", SIZE));
    let runs = many("{\"jobs\":[{\"jobname\":\"a\"}]}\n", SIZE);
    let bins: String = (0..1 << 20).map(|bin| format!("\"{bin}\":1,")).collect();
    let bins = format!(
        "{{\"jobs\":[{{\"jobname\":\"a\",\"read\":{{\"total_ios\":1,\"clat_ns\":{{\"bins\":{{{bins}\"0\":1}}}}}}}}]}}"
    );
    let headings: String = (0..200).map(|column| format!("c{column},")).collect();
    let row: String = (0..200).map(|column| format!("{column},")).collect();
    let cells = format!("{headings}value\n{}", many(&format!("{row}5\n"), SIZE));
    let hostile: [(&str, &str, String); 8] = [
        ("table", "more than 256 columns", wide),
        ("table", "a table has at most 1000000 cells", cells),
        ("table", "a table has at most 50000 rows", format!("a,value\n{}", many("1,2\n", SIZE))),
        ("fio", "a result has at most 50000 jobs", jobs),
        ("fio", "a file has at most 50000 jobs and 50000 runs", runs),
        ("fio", "a table has at most 4096 entries", bins),
        (
            "bonnie-csv",
            "a file has at most 50000 result lines",
            many("h,1G,1,1,1,1,,,,,,,,,,,,,,,,,,,,,\n", SIZE),
        ),
        ("fsopbench", "expected the end of so long a text", many("\n", SIZE)),
    ];
    for (format, why, text) in hostile {
        fs::write(&file, text).expect("a file");
        let shell = ["sh", "-c", "ulimit -v 750000 && exec \"$0\" \"$@\""];
        let words = ["import", format, &file, "--unit", "MB/s"];
        let words = if format == "table" { &words[..] } else { &words[..3] };
        let (code, out, err) = said(&mut lab.started_by(&shell, words));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{format}: {err}");
        assert!(err.contains(why) && err.contains("nothing was imported"), "{format}: not {why}: {err}");
    }
}

#[test]
fn a_command_that_gets_no_more_memory_says_so() {
    let lab = Lab::new();
    let file = lab.path("large.csv").display().to_string();
    let row: String = (0..20).map(|column| format!("some level {column},")).collect();
    let headings: String = (0..20).map(|column| format!("c{column},")).collect();
    fs::write(&file, format!("{headings}value\n{}", format!("{row}5\n").repeat(40_000))).expect("a file");
    let mut ends = Vec::new();
    for kib in [80_000, 120_000, 200_000, 300_000] {
        let shell = ["sh", "-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\"")];
        let (code, out, err) =
            said(&mut lab.started_by(&shell, &["import", "table", &file, "--unit", "MB/s"]));
        // With enough, it would succeed.
        assert!(matches!(code, Some(0 | 2)), "{kib} KiB: {code:?} {out}{err}");
        assert!(code == Some(0) || err.starts_with("error: "), "{kib} KiB: {out}{err}");
        ends.push(
            err.contains("there is no memory left for this command\nhint: raise its limit (ulimit -v)"),
        );
    }
    assert!(ends.contains(&true), "one of the limits was reached");
}

/// Ways to be user 0 without being root of the machine.
const POWERLESS: [(&[&str], &str); 3] = [
    (&["unshare", "-Ur"], "user 0 of a user namespace is not root of the machine"),
    (&["setpriv", "--bounding-set=-sys_admin"], "root without the capability CAP_SYS_ADMIN"),
    (
        &["capsh", "--drop=cap_sys_admin", "--", "-c", "exec \"$0\" \"$@\""],
        "root without the capability CAP_SYS_ADMIN",
    ),
];

#[test]
fn whoever_only_looks_like_root_changes_nothing() {
    let lab = Lab::new();
    let (plan, image) = lab.plan_of_an_image();
    let fresh = lab.path("fresh.img").display().to_string();
    let entries = || {
        let entries = fs::read_dir(lab.directory.path()).expect("the directory").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = entries();
    for (starter, why) in POWERLESS.into_iter().filter(|(starter, _)| is_root() && works(starter)) {
        let commands: [&[&str]; 4] = [
            &["sweep", &plan],
            &["quick", &fresh],
            &["durability", &plan],
            &["selfcheck", "--image", &fresh],
        ];
        for command in commands {
            let (code, out, err) = said(&mut lab.started_by(starter, command));
            assert_eq!((code, out.as_str()), (Some(3), ""), "{starter:?} {command:?}: {err}");
            assert!(err.contains(why) && err.contains("hint: run it "), "{err}");
            assert_eq!(entries(), before, "{starter:?} {command:?}");
        }
        let (code, out, err) = said(&mut lab.started_by(starter, &["doctor"]));
        assert!(code == Some(0) && out.contains(&format!("no: {why}")), "{out}{err}");
        let (code, out, err) = said(&mut lab.started_by(starter, &["restore"]));
        assert_eq!((code, out.as_str()), (Some(0), "nothing to restore\n"), "{err}");
    }
    assert!(!image.exists());
}

#[test]
fn whoever_only_looks_like_root_restores_nothing_and_says_so() {
    let lab = Lab::new();
    let undo = lab.path("state/undo");
    fs::create_dir_all(&undo).expect("directories");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let journal = format!(
        "{{\"fsdyno_undo_journal\":1,\"boot_id\":{:?},\"pid\":4194303}}\n\
         {{\"undo\":\"unmount\",\"target\":\"/run/fsdyno-0123456789abcdef0123456789abcdef\"}}\n",
        boot.trim()
    );
    fs::write(undo.join("a.journal"), &journal).expect("a journal");
    for (starter, why) in POWERLESS.into_iter().filter(|(starter, _)| is_root() && works(starter)) {
        let (code, out, err) = said(&mut lab.started_by(starter, &["restore"]));
        assert_eq!((code, out.as_str()), (Some(3), ""), "{starter:?}: {err}");
        assert!(
            err.contains("cannot be undone") && err.contains(why) && err.contains("hint: run it "),
            "{err}"
        );
        assert_eq!(fs::read_to_string(undo.join("a.journal")).expect("the journal"), journal);
        // Nor does a sweep that needs no root begin on top of it.
        let (code, _, err) = said(&mut lab.started_by(starter, &["sweep", &lab.plan_of_a_directory("")]));
        assert!(code == Some(3) && err.contains("cannot be undone"), "{err}");
    }
}

#[test]
fn root_of_a_namespace_measures_a_directory() {
    let lab = Lab::new();
    let plan = lab.plan_of_a_directory("");
    for (starter, _) in POWERLESS.into_iter().filter(|(starter, _)| works(starter)) {
        let (code, out, err) = said(&mut lab.started_by(starter, &["sweep", &plan]));
        assert_eq!(code, Some(0), "{starter:?}: {out}{err}");
    }
}
