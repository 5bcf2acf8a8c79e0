//! The commands that build the recommended configuration, to copy.
//!
//! The testbed stored the commands of a trial; this file turns them into lines for a shell, `/etc/fstab`,
//! udev and sysctl. `DEVICE`, `JOURNAL` and `MOUNTPOINT` are placeholders for the user's own.

use super::contender::{Contender, of_case};
use fsdyno_core::TrialRecord;
use fsdyno_core::result::{Recipe, ServeProtocol, ServeRecipe};
use serde::Serialize;

/// The steps that build a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecipeText {
    /// Name of the configuration.
    pub name: String,
    /// In the order of execution.
    pub steps: Vec<RecipeStep>,
    /// The notes that the user has to know, one line each.
    pub notes: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecipeStep {
    /// The action of the step.
    pub title: String,
    /// The file that the lines go into; absent for commands.
    pub file: Option<&'static str>,
    /// The lines.
    pub lines: Vec<String>,
}

const UDEV: &str = "/etc/udev/rules.d/60-fsdyno.rules";
const SYSCTL: &str = "/etc/sysctl.d/60-fsdyno.conf";

/// The recipe of a configuration, as its last trial was built.
pub(super) fn text(standing: &Contender, trials: &[&TrialRecord]) -> Option<RecipeText> {
    let last = of_case(trials, standing.case).filter_map(|trial| trial.recipe.as_ref()).last();
    last.map(|recipe| steps(&standing.name, recipe))
}

/// Returns the steps by which a server shares the filesystem with its clients.
fn serving(serve: &ServeRecipe) -> Vec<RecipeStep> {
    match serve.protocol {
        ServeProtocol::Nfs => by_nfs(serve),
        ServeProtocol::Smb => by_smb(serve),
    }
}

/// In the words of smb.conf(5) and mount.cifs(8).
fn by_smb(serve: &ServeRecipe) -> Vec<RecipeStep> {
    let place = Recipe::MOUNTPOINT;
    let share = [vec!["[SHARE]".to_string(), format!("path = {place}")], serve.export_options.clone()];
    let options = serve.mount_options.join(",");
    vec![
        file("share it", "/etc/samba/smb.conf", share.concat()),
        command(
            "mount it on each client",
            vec![format!("mount -t cifs -o {options},username=USER //{}/SHARE {place}", Recipe::SERVER)],
        ),
    ]
}

/// In the words of exports(5), nfs.conf(5) and nfs(5).
fn by_nfs(serve: &ServeRecipe) -> Vec<RecipeStep> {
    let place = Recipe::MOUNTPOINT;
    let export = format!("{place} {}({})", Recipe::CLIENTS, serve.export_options.join(","));
    let options = serve.mount_options.join(",");
    let mut steps = vec![file("export it", "/etc/exports", vec![export])];
    if let Some(threads) = serve.threads {
        let lines = vec!["[nfsd]".to_string(), format!("threads = {threads}")];
        steps.push(file("serve it", "/etc/nfs.conf", lines));
    }
    steps.push(command(
        "mount it on each client",
        vec![format!("mount -t nfs -o {options} {}:{place} {place}", Recipe::SERVER)],
    ));
    steps
}

fn steps(name: &str, recipe: &Recipe) -> RecipeText {
    let mut steps = Vec::new();
    if !recipe.device.is_empty() {
        steps.push(command("build the device (destroys everything on its disks)", recipe.device.clone()));
    }
    steps.push(command("make the filesystem (destroys everything on the device)", recipe.mkfs.clone()));
    steps.push(command("mount it", vec![mount(recipe)]));
    steps.push(file("mount it at every boot", "/etc/fstab", vec![fstab(recipe)]));
    if !recipe.queue.is_empty() {
        let now =
            recipe.queue.iter().map(|(file, value)| format!("echo {value} > /sys/block/NAME/queue/{file}"));
        steps.push(command("set the I/O queue now", now.collect()));
        steps.push(file("set the I/O queue at every boot", UDEV, vec![udev(recipe)]));
    }
    if !recipe.sysctl.is_empty() {
        let now = recipe.sysctl.iter().map(|(key, value)| format!("sysctl -w {key}={}", quoted(value)));
        steps.push(command("set the sysctls now", now.collect()));
        steps.push(file(
            "set the sysctls at every boot",
            SYSCTL,
            recipe.sysctl.iter().map(|(key, value)| format!("{key} = {value}")).collect(),
        ));
    }
    if let Some(serve) = &recipe.serve {
        steps.extend(serving(serve));
    }
    let own = match recipe.serve.as_ref().map(|serve| serve.protocol) {
        None => "DEVICE and MOUNTPOINT",
        Some(ServeProtocol::Nfs) => "DEVICE, MOUNTPOINT, CLIENTS and SERVER",
        Some(ServeProtocol::Smb) => "DEVICE, MOUNTPOINT, SHARE, SERVER and USER",
    };
    let mut notes = vec![format!("replace {own} with your own")];
    if !recipe.queue.is_empty() {
        notes.push("NAME is the whole disk in /sys/block, such as sda for /dev/sda1".to_string());
    }
    if recipe.device.iter().any(|line| line.contains(Recipe::DISK)) {
        notes.push(format!("{0}1, {0}2 and so on are the disks of the device", Recipe::DISK));
    }
    if recipe.mkfs.iter().any(|line| line.contains(Recipe::JOURNAL)) {
        notes.push("JOURNAL is a separate device for the journal, and everything on it is lost".to_string());
    }
    notes.push(
        "unset options of mkfs depend on the size and the sectors of the device, so they may differ from \
         those that were measured"
            .to_string(),
    );
    RecipeText { name: name.to_string(), steps, notes }
}

fn file(title: &str, file: &'static str, lines: Vec<String>) -> RecipeStep {
    RecipeStep { title: title.to_string(), file: Some(file), lines }
}

fn command(title: &str, lines: Vec<String>) -> RecipeStep {
    RecipeStep { title: title.to_string(), file: None, lines }
}

fn mount(recipe: &Recipe) -> String {
    let options = recipe.mount_options.join(",");
    let options = if options.is_empty() { options } else { format!(" -o {options}") };
    format!("mount -t {}{options} {} {}", recipe.filesystem, Recipe::DEVICE, Recipe::MOUNTPOINT)
}

/// fstab(5).
fn fstab(recipe: &Recipe) -> String {
    let options = recipe.mount_options.join(",");
    let options = if options.is_empty() { "defaults".to_string() } else { options };
    let Recipe { filesystem, check_order, .. } = recipe;
    format!("{} {} {filesystem} {options} 0 {check_order}", Recipe::DEVICE, Recipe::MOUNTPOINT)
}

/// udev(7).
fn udev(recipe: &Recipe) -> String {
    let settings = recipe.queue.iter().map(|(file, value)| format!("ATTR{{queue/{file}}}=\"{value}\""));
    let matches = ["ACTION==\"add|change\"", "SUBSYSTEM==\"block\"", "KERNEL==\"NAME\""].map(str::to_string);
    matches.into_iter().chain(settings).collect::<Vec<_>>().join(", ")
}

/// Quotes a word of a command line if it contains blanks.
pub(super) fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("'{value}'") } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that serve a filesystem, after the one that mounts it at every boot.
    fn served(protocol: ServeProtocol, threads: Option<u32>, export: &str, mount: &str) -> RecipeText {
        let words = |text: &str| text.split(',').map(str::to_string).collect();
        let (export_options, mount_options) = (words(export), words(mount));
        let serve = ServeRecipe { protocol, export_options, threads, mount_options };
        steps("ext4", &Recipe { serve: Some(serve), queue: Vec::new(), sysctl: Vec::new(), ..recipe() })
    }

    fn lines(text: &RecipeText) -> Vec<&str> {
        text.steps.iter().skip(3).flat_map(|step| &step.lines).map(String::as_str).collect()
    }

    #[test]
    fn by_nfs_it_is_exported_and_mounted() {
        let export = "rw,async,no_subtree_check";
        let text = served(ServeProtocol::Nfs, Some(32), export, "vers=4.1,nconnect=4");
        let expected = [
            "MOUNTPOINT CLIENTS(rw,async,no_subtree_check)",
            "[nfsd]",
            "threads = 32",
            "mount -t nfs -o vers=4.1,nconnect=4 SERVER:MOUNTPOINT MOUNTPOINT",
        ];
        assert_eq!(lines(&text), expected);
        assert_eq!(text.notes[0], "replace DEVICE, MOUNTPOINT, CLIENTS and SERVER with your own");
    }

    #[test]
    fn by_smb_it_is_shared_and_mounted() {
        let export = "read only = no,strict sync = yes";
        let text = served(ServeProtocol::Smb, None, export, "vers=3.1.1,noatime");
        let expected = [
            "[SHARE]",
            "path = MOUNTPOINT",
            "read only = no",
            "strict sync = yes",
            "mount -t cifs -o vers=3.1.1,noatime,username=USER //SERVER/SHARE MOUNTPOINT",
        ];
        assert_eq!(lines(&text), expected);
        assert_eq!(text.notes[0], "replace DEVICE, MOUNTPOINT, SHARE, SERVER and USER with your own");
    }

    fn recipe() -> Recipe {
        let pair = |(a, b): (&str, &str)| (a.to_string(), b.to_string());
        Recipe {
            device: Vec::new(),
            mkfs: vec!["mkfs.ext4 -I 512 DEVICE".to_string()],
            filesystem: "ext4".to_string(),
            mount_options: vec!["noatime".to_string(), "data=journal".to_string()],
            check_order: 2,
            queue: [("scheduler", "bfq"), ("read_ahead_kb", "1024")].map(pair).to_vec(),
            sysctl: [("vm.dirty_ratio", "10")].map(pair).to_vec(),
            serve: None,
        }
    }

    #[test]
    fn every_setting_has_its_line() {
        let text = steps("ext4", &recipe());
        let lines: Vec<&str> = text.steps.iter().flat_map(|step| &step.lines).map(String::as_str).collect();
        assert_eq!(
            lines,
            [
                "mkfs.ext4 -I 512 DEVICE",
                "mount -t ext4 -o noatime,data=journal DEVICE MOUNTPOINT",
                "DEVICE MOUNTPOINT ext4 noatime,data=journal 0 2",
                "echo bfq > /sys/block/NAME/queue/scheduler",
                "echo 1024 > /sys/block/NAME/queue/read_ahead_kb",
                "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"NAME\", \
                 ATTR{queue/scheduler}=\"bfq\", ATTR{queue/read_ahead_kb}=\"1024\"",
                "sysctl -w vm.dirty_ratio=10",
                "vm.dirty_ratio = 10",
            ]
        );
    }

    #[test]
    fn unset_settings_have_no_lines() {
        let plain = Recipe { mount_options: Vec::new(), queue: Vec::new(), sysctl: Vec::new(), ..recipe() };
        let text = steps("ext4", &plain);
        assert_eq!(text.steps.len(), 3);
        assert_eq!(text.steps[1].lines, ["mount -t ext4 DEVICE MOUNTPOINT"]);
        assert_eq!(text.steps[2].lines, ["DEVICE MOUNTPOINT ext4 defaults 0 2"]);
    }

    #[test]
    fn a_stack_is_built_first() {
        let device = vec!["mdadm --create DEVICE --level=raid1 --raid-devices=2 DISK1 DISK2".to_string()];
        let text = steps("ext4", &Recipe { device: device.clone(), ..recipe() });
        assert_eq!(text.steps[0].lines, device);
        assert!(text.notes.iter().any(|note| note.starts_with("DISK1, DISK2")), "{:?}", text.notes);
    }
}
