//! The steps of a host, carried out in memory.

use super::conduct::{check_name, walked};
use super::{
    EAGAIN, EBADF, EBUSY, EEXIST, EINVAL, ENOENT, ENOTEMPTY, ENXIO, FILES, FakeHost, MEMORY, system,
};
use fsdyno_core::environment::Confinement;
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::{Bytes, EngineRequest};
use fsdyno_host::export::{Export, end_of};
use fsdyno_host::guardian::Guardian;
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo, Room};
use fsdyno_host::setting::{BYTES_MAX, HostSetting};
use fsdyno_host::{
    AttachedLoop, Command, DeviceHandle, EngineProcess, Host, HostError, ImageHandle, LoopOptions,
    MountRequest, NewImage, Output, Result, Steps,
};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

impl Steps for FakeHost {
    fn run(&mut self, command: &Command) -> Result<Output> {
        self.watch_command(command);
        self.step(format!("run {}", command.line()), |host| {
            host.commands.push(command.line());
            let missing = || HostError::NoProgram { program: command.program.clone() };
            let usual = host.programs.get(&command.program).cloned().ok_or_else(missing)?;
            // A program that should fail does nothing.
            if usual.status != 0 {
                return Ok(usual);
            }
            Ok(host.run_layer_tool(command).unwrap_or(usual))
        })
    }

    fn confinement(&mut self) -> Result<Confinement> {
        self.step("ask what the kernel refuses".to_string(), |host| Ok(host.confinement.clone()))
    }

    fn find_program(&mut self, program: &str) -> Result<Option<PathBuf>> {
        self.step(format!("find program {program}"), |host| {
            Ok(host.programs.contains_key(program).then(|| Path::new("/usr/sbin").join(program)))
        })
    }

    fn read_text(&mut self, path: &Path) -> Result<String> {
        self.step(format!("read {}", path.display()), |host| {
            let text = host.machine.texts.get(path).cloned().or_else(|| host.layer_attribute(path));
            text.ok_or_else(|| system("read", path, ENOENT))
        })
    }

    fn read_setting(&mut self, path: &Path) -> Result<String> {
        self.step(format!("read setting {}", path.display()), |host| {
            let text = setting(path).and_then(|()| {
                host.machine.texts.get(path).cloned().ok_or_else(|| system("read", path, ENOENT))
            })?;
            let whole = (1..=BYTES_MAX).contains(&text.len());
            if whole { Ok(text) } else { Err(system("keep the value of", path, 0)) }
        })
    }

    fn change_setting(&mut self, path: &Path, text: &str) -> Result<()> {
        self.step(format!("write '{}' to {}", text.trim_end(), path.display()), |host| {
            setting(path)?;
            host.watch_write(&walked(path));
            if !host.machine.texts.contains_key(path) {
                return Err(system("write", path, ENOENT));
            }
            host.write_known_setting(path, text)
        })
    }

    fn list_directory(&mut self, path: &Path) -> Result<Vec<String>> {
        let path = &walked(path);
        self.step(format!("list {}", path.display()), |host| {
            let paths =
                host.machine.texts.keys().chain(host.machine.files.keys()).chain(&host.machine.directories);
            let names: BTreeSet<String> = paths
                .filter_map(|child| child.strip_prefix(path).ok()?.components().next())
                .map(|first| first.as_os_str().to_string_lossy().into_owned())
                .collect();
            let layers = host.layer_names(path);
            if names.is_empty() && layers.is_none() && !host.machine.directories.contains(path) {
                return Err(system("list", path, ENOENT));
            }
            let names: BTreeSet<String> = names.into_iter().chain(layers.unwrap_or_default()).collect();
            Ok(names.into_iter().collect())
        })
    }

    fn create_directory(&mut self, path: &Path) -> Result<()> {
        let path = &walked(path);
        self.watch_new(path);
        self.step(format!("mkdir {}", path.display()), |host| {
            check_name("make directory", path)?;
            if !host.machine.directories.insert(path.to_path_buf()) {
                return Err(system("make directory", path, EEXIST));
            }
            host.made_directory(path);
            Ok(())
        })
    }

    fn remove_directory(&mut self, path: &Path) -> Result<()> {
        let path = &walked(path);
        self.watch_directory_removal(path);
        self.step(format!("rmdir {}", path.display()), |host| {
            let busy = host.machine.mounts.iter().any(|mount| mount.target == *path);
            let full = host.machine.files.keys().any(|file| file.starts_with(path));
            match (busy, full) {
                (true, _) => Err(system("remove directory", path, EBUSY)),
                (_, true) => Err(system("remove directory", path, ENOTEMPTY)),
                _ if host.machine.directories.remove(path) => Ok(()),
                _ => Err(system("remove directory", path, ENOENT)),
            }
        })
    }

    fn serve(&mut self, export: &Export) -> Result<()> {
        self.step(export.lines().join("; "), |_| Ok(()))
    }

    fn stop_serving(&mut self, protocol: ServeProtocol) -> Result<()> {
        self.step(end_of(protocol).to_string(), |_| Ok(()))
    }

    fn remove_trace_instance(&mut self, name: &str) -> Result<bool> {
        self.step(format!("remove trace instance {name}"), |_| Ok(false))
    }

    fn remove_tree(&mut self, path: &Path) -> Result<()> {
        let path = &walked(path);
        self.watch_directory_removal(path);
        self.step(format!("rm -r {}", path.display()), |host| {
            if host.machine.mounts.iter().any(|mount| mount.target.starts_with(path)) {
                return Err(system("remove the tree", path, EBUSY));
            }
            if !host.machine.directories.contains(path) {
                return Err(system("remove the tree", path, ENOENT));
            }
            host.machine.files.retain(|file, _| !file.starts_with(path));
            host.machine.directories.retain(|directory| !directory.starts_with(path));
            Ok(())
        })
    }

    fn file_identity(&mut self, path: &Path) -> Result<Option<FileIdentity>> {
        let path = &walked(path);
        self.step(format!("stat {}", path.display()), |host| {
            let other = FileIdentity { device: FILES, inode: 0, birth_ns: None, regular: false };
            let known = host.exists(path);
            let file = host.machine.files.get(path).map(|(identity, _)| identity.clone());
            Ok(file.or(known.then_some(other)))
        })
    }

    fn verify_directory(&mut self, path: &Path) -> Result<()> {
        self.step(format!("look at directory {}", path.display()), |host| {
            let known = host.machine.directories.contains(path);
            if known { Ok(()) } else { Err(system("open the directory", path, ENOENT)) }
        })
    }

    fn verify_uncontested(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn create_image(&mut self, path: &Path, size: Bytes) -> Result<NewImage> {
        let path = &walked(path);
        self.watch_new(path);
        self.step(format!("create {} of {size}", path.display()), |host| {
            check_name("create", path)?;
            if host.exists(path) {
                return Err(system("create", path, EEXIST));
            }
            if !path.parent().is_some_and(|parent| host.machine.directories.contains(parent)) {
                return Err(system("create", path, ENOENT));
            }
            let identity = host.new_identity();
            host.made_file(identity.inode);
            host.machine.files.insert(path.to_path_buf(), (identity.clone(), size));
            host.last_handle += 1;
            host.images.insert(host.last_handle, (path.to_path_buf(), identity.clone()));
            Ok(NewImage { handle: ImageHandle(host.last_handle), identity })
        })
    }

    fn rename_image(&mut self, image: ImageHandle, to: &Path) -> Result<()> {
        let to = &walked(to);
        self.watch_image("rename", image);
        self.watch_new(to);
        self.step(format!("rename image {} to {}", image.0, to.display()), |host| {
            let (from, identity) = host.image(image)?;
            check_name("rename", to)?;
            if host.exists(to) {
                return Err(system("rename", to, EEXIST));
            }
            let file = host.machine.files.remove(&from).ok_or_else(|| system("rename", &from, ENOENT))?;
            host.machine.files.insert(to.to_path_buf(), file);
            host.images.insert(image.0, (to.to_path_buf(), identity));
            Ok(())
        })
    }

    fn image_number(&mut self, image: ImageHandle) -> Result<i32> {
        self.step(format!("number of image {}", image.0), |_| Err(system("pass on", "an image", ENOENT)))
    }

    fn close_image(&mut self, image: ImageHandle) -> Result<()> {
        self.step(format!("close image {}", image.0), |host| {
            host.image(image)?;
            host.images.remove(&image.0);
            Ok(())
        })
    }

    fn remove_file(&mut self, path: &Path, expected: &FileIdentity) -> Result<()> {
        let path = &walked(path);
        self.watch_file("remove", path);
        self.step(format!("remove {}", path.display()), |host| {
            let found = host.machine.files.get(path).map(|(identity, _)| identity.clone());
            match found.ok_or_else(|| system("remove", path, ENOENT))? {
                found if found == *expected => host.machine.files.remove(path),
                found => return Err(replaced(path, expected, &found)),
            };
            Ok(())
        })
    }

    fn room(&mut self, path: &Path) -> Result<Room> {
        let path = &walked(path);
        self.step(format!("room at {}", path.display()), |host| {
            if !host.machine.directories.contains(path) {
                return Err(system("look at", path, ENOENT));
            }
            let in_memory = path.starts_with("/dev/shm");
            let device = if in_memory { MEMORY } else { FILES };
            let shared_with = if in_memory { Vec::new() } else { host.shared_with.clone() };
            let (free, size) = host.space;
            Ok(Room { free, size, device, in_memory, shared_with })
        })
    }

    fn loops(&mut self) -> Result<Vec<LoopInfo>> {
        self.step("loops".to_string(), |host| {
            let info = |(device, inode): (&PathBuf, &u64)| LoopInfo {
                device: device.clone(),
                backing_device: FILES,
                backing_inode: *inode,
                backing_path: host
                    .file_of_inode(*inode)
                    .map(|(path, _)| path.display().to_string())
                    .unwrap_or_default(),
                diskseq: host.attachments.get(device).copied(),
            };
            Ok(host.machine.loops.iter().map(info).collect())
        })
    }

    fn attach_loop(&mut self, image: ImageHandle, _options: &LoopOptions) -> Result<AttachedLoop> {
        self.watch_image("attach", image);
        self.step(format!("attach image {}", image.0), |host| {
            let (path, identity) = host.image(image)?;
            let node = host.attach(&path, identity.inode)?;
            let identity = host.probe(&node)?.identity;
            let read_only = host.read_only_loops.contains(&node);
            Ok(AttachedLoop { node, identity, read_only })
        })
    }

    fn detach_loop(&mut self, attached: &LoopInfo) -> Result<()> {
        let device = &attached.device;
        if self.machine.loops.get(device) == Some(&attached.backing_inode) {
            self.watch_detach(device);
        }
        self.step(format!("detach {}", device.display()), |host| {
            let inode = *host.machine.loops.get(device).ok_or_else(|| system("detach", device, ENXIO))?;
            let now = (inode, host.attachments.get(device).copied());
            if now != (attached.backing_inode, attached.diskseq) {
                return Err(replaced(device, &(attached.backing_inode, attached.diskseq), &now));
            }
            if host.is_busy(device) || host.open.values().any(|(node, _)| node == device) {
                return Err(system("detach", device, EBUSY));
            }
            // Its content goes with the file.
            host.machine.labels.remove(device);
            host.machine.signatures.remove(device);
            host.machine.loops.remove(device);
            Ok(())
        })
    }

    fn probe_device(&mut self, path: &Path) -> Result<DeviceProbe> {
        let path = &walked(path);
        self.step(format!("probe {}", path.display()), |host| host.probe(path))
    }

    fn open_device(&mut self, path: &Path, expected: &DeviceIdentity) -> Result<DeviceHandle> {
        let path = &walked(path);
        self.watch_open(path);
        self.step(format!("open {}", path.display()), |host| {
            if host.open.values().any(|(node, _)| node == path) {
                return Err(system("lock", path, EAGAIN));
            }
            if let (Some(usage), Some(block)) = (host.taken_meanwhile.remove(path), host.blocks.get_mut(path))
            {
                block.uses.push(usage);
            }
            let identity = host.probe(path)?.identity;
            same_device(path, expected, &identity)?;
            host.verified.insert(path.to_path_buf(), identity.clone());
            host.last_handle += 1;
            host.open.insert(host.last_handle, (path.to_path_buf(), identity));
            Ok(DeviceHandle(host.last_handle))
        })
    }

    fn verify_device(&mut self, handle: DeviceHandle, expected: &DeviceIdentity) -> Result<()> {
        self.step(format!("verify device {}", handle.0), |host| match host.open.get(&handle.0) {
            Some((path, identity)) => same_device(path, expected, identity),
            None => Err(system("verify", "a closed device", ENXIO)),
        })
    }

    fn is_claimed(&mut self, handle: DeviceHandle) -> Result<bool> {
        self.step(format!("try to claim device {}", handle.0), |host| match host.open.get(&handle.0) {
            Some((path, _)) if host.claimed.contains(path) => Ok(true),
            Some((path, _)) => Ok(host.is_busy(path) && !host.mounts_claim_nothing),
            None => Err(system("claim", "a closed device", ENXIO)),
        })
    }

    fn mark_device(&mut self, handle: DeviceHandle, _node: &Path) -> Result<()> {
        self.step(format!("mark device {}", handle.0), |host| match host.open.get(&handle.0) {
            Some(_) if host.read_only.contains(&handle.0) => Err(system("mark", "a read-only device", EBADF)),
            Some((path, _)) => {
                host.marks.insert(path.clone());
                Ok(())
            }
            None => Err(system("mark", "a closed device", ENXIO)),
        })
    }

    fn fill_device(&mut self, handle: DeviceHandle, _node: &Path, from: u64, length: u64) -> Result<()> {
        let step = format!("fill device {} from {from} to {}", handle.0, from.saturating_add(length));
        self.step(step, |host| match host.open.contains_key(&handle.0) {
            true if host.read_only.contains(&handle.0) => Err(system("fill", "a read-only device", EBADF)),
            true => Ok(()),
            false => Err(system("fill", "a closed device", ENXIO)),
        })
    }

    fn downgrade_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.step(format!("downgrade device {}", handle.0), |host| {
            if !host.open.contains_key(&handle.0) {
                return Err(system("downgrade", "a closed device", ENXIO));
            }
            host.read_only.insert(handle.0);
            Ok(())
        })
    }

    fn close_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.step(format!("close device {}", handle.0), |host| {
            host.open.remove(&handle.0).map(|_| ()).ok_or_else(|| system("close", "a closed device", ENXIO))
        })
    }

    fn mount(&mut self, request: &MountRequest) -> Result<()> {
        self.watch_mount(request);
        self.step(request.line(), |host| {
            if !host.machine.directories.contains(&request.target) {
                return Err(system("mount on", &request.target, ENOENT));
            }
            let number = host.probe(&request.source)?.identity.number;
            let mut writers = host.open.iter().filter(|(handle, _)| !host.read_only.contains(handle));
            if writers.any(|(_, (node, _))| *node == request.source) {
                // Like a kernel without CONFIG_BLK_DEV_WRITE_MOUNTED.
                return Err(system("mount", &request.source, EBUSY));
            }
            let device = if request.filesystem == "btrfs" { (0, 99) } else { number };
            let mount = MountInfo {
                device,
                root: "/".into(),
                target: request.target.clone(),
                filesystem: request.filesystem.clone(),
                source: request.source.display().to_string(),
                options: host.shown_options(request),
            };
            host.machine.mounts.push(mount);
            Ok(())
        })
    }

    fn unmount(&mut self, target: &Path) -> Result<()> {
        self.watch_unmount(target);
        self.step(format!("umount {}", target.display()), |host| {
            if host.busy_unmounts > 0 {
                host.busy_unmounts -= 1;
                return Err(system("unmount", target, EBUSY));
            }
            let position = host.machine.mounts.iter().rposition(|mount| mount.target == target);
            let index = position.ok_or_else(|| system("unmount", target, EINVAL))?;
            let mount = host.machine.mounts.remove(index);
            if host.keeps_mounted {
                host.claimed.insert(mount.source.into());
            }
            Ok(())
        })
    }

    fn mounts(&mut self) -> Result<Vec<MountInfo>> {
        self.step("mounts".to_string(), |host| Ok(host.machine.mounts.clone()))
    }
}

impl Host for FakeHost {
    fn name(&self) -> String {
        "fake machine".to_string()
    }

    fn image_descriptor(&mut self, image: ImageHandle, expected: &FileIdentity) -> Result<OwnedFd> {
        self.step(format!("descriptor of image {}", image.0), |host| {
            let (path, identity) = host.image(image)?;
            if identity != *expected {
                return Err(replaced(&path, expected, &identity));
            }
            // A file without content: what a fake image contains is not kept.
            rustix::fs::memfd_create("fsdyno-fake-image", rustix::fs::MemfdFlags::CLOEXEC)
                .map_err(|errno| system("open", &path, errno.raw_os_error()))
        })
    }

    fn guardian(&self) -> Box<dyn Guardian> {
        Box::new(self.guardian.clone())
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.watch_engine(request);
        self.step(format!("engine in {}", request.directory.display()), |host| {
            host.requests.push(request.clone());
            let engine = host.engines.pop_front();
            engine
                .map(|engine| Box::new(engine) as Box<dyn EngineProcess>)
                .ok_or_else(|| HostError::NoProgram { program: "fake engine".to_string() })
        })
    }
}

/// Refuses anything that is not a setting, like a real host.
fn setting(path: &Path) -> Result<()> {
    HostSetting::at(path).map(|_| ()).ok_or_else(|| system("use as a setting", path, 0))
}

fn replaced(path: &Path, before: &impl std::fmt::Debug, now: &impl std::fmt::Debug) -> HostError {
    let difference = format!("{before:?} became {now:?}");
    HostError::Replaced { path: path.display().to_string(), difference }
}

fn same_device(path: &Path, expected: &DeviceIdentity, found: &DeviceIdentity) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let difference = format!("{expected:?} became {found:?}");
    Err(HostError::IdentityChanged { path: path.display().to_string(), difference })
}
